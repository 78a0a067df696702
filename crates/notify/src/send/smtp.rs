//! Hands a mail to a mail server once, and judges what it said.

use std::error::Error;

use lettre::transport::smtp::Error as SmtpError;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message as Mail, Tokio1Executor};
use tokio::time::{Instant, timeout_at};

use super::{Failure, Receipt};
use crate::limits::ANSWER_TOLD_CHARS_MAX;
use crate::text::one_line;

/// Sends a mail and says how it ended.
pub(super) async fn send(
    transport: &AsyncSmtpTransport<Tokio1Executor>,
    server: &str,
    mail: Mail,
    deadline: Instant,
) -> Result<Receipt, Failure> {
    let late = |_| Failure::passing(format!("{server} did not answer in time; check that it runs"));
    let answered = timeout_at(deadline, transport.send(mail)).await.map_err(late)?;
    let response = answered.map_err(|error| refused(&error, server))?;
    let said = response.message().collect::<Vec<_>>().join(" ");
    Ok(Receipt { answer: one_line(&format!("{} {said}", response.code()), ANSWER_TOLD_CHARS_MAX) })
}

fn refused(error: &SmtpError, server: &str) -> Failure {
    let said = error.source().map(ToString::to_string).unwrap_or_default();
    let said = one_line(&said, ANSWER_TOLD_CHARS_MAX);
    if let Some(code) = error.status() {
        let reason = format!("{server} answered with {code} {said}");
        return match error.is_permanent() {
            true => Failure::lasting(format!("{reason}; check the recipient and the channel's settings")),
            false => Failure::passing(format!("{reason}; it may do better later")),
        };
    }
    if error.is_client() {
        return Failure::lasting(format!(
            "{server} can't be used as configured: {said}; check tls, username and password"
        ));
    }
    if error.is_timeout() {
        return Failure::passing(format!("{server} did not answer in time; check that it runs"));
    }
    let what = "check host, port, the server's certificate and the network";
    Failure::passing(format!("{server} can't be reached: {said}; {what}"))
}
