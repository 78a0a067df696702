//! Every way an attempt at a request fails, with its code.
//!
//! They all say [`Reached::No`]; whoever made the attempt knows whether a connection stood, and corrects it.

use std::error::Error;
use std::io::ErrorKind;

use abide_core::{Failure, InterruptionClass, Json, Reached, TaskFailure};
use serde::Serialize;

/// A failure that another attempt would meet again.
fn lasting(code: &str, message: impl Into<String>) -> TaskFailure {
    let failure = Failure::new(code, message);
    TaskFailure { failure, retryable: false, reached: Reached::No, class: InterruptionClass::ToolFailure }
}

/// A failure that another attempt may not meet.
fn passing(code: &str, message: impl Into<String>) -> TaskFailure {
    TaskFailure { retryable: true, ..lasting(code, message) }
}

pub(super) fn request_invalid(message: impl Into<String>) -> TaskFailure {
    lasting("http_request_invalid", message)
}

pub(super) fn secret_missing(name: &str) -> TaskFailure {
    lasting("secret_missing", format!("there is no secret '{name}': add it, or take it out of the request"))
}

pub(super) fn address_refused(host: &str) -> TaskFailure {
    let message = format!(
        "'{host}' is not an address of the public internet; the operator can allow it in the server's settings"
    );
    lasting("http_address_refused", message)
}

pub(super) fn redirect_refused(message: impl Into<String>) -> TaskFailure {
    lasting("http_redirect_refused", message)
}

pub(super) fn redirects_exceeded() -> TaskFailure {
    let message = "the server redirects more often than the node follows: request the final URL, or allow more redirects";
    lasting("http_redirects_exceeded", message)
}

pub(super) fn response_too_large(bytes_max: usize) -> TaskFailure {
    let message =
        format!("the answer is larger than {bytes_max} bytes: ask for less, or raise the node's limit");
    lasting("http_response_too_large", message)
}

pub(super) fn timed_out() -> TaskFailure {
    let message = "the server did not answer in time: check it, or give the node more time";
    TaskFailure { class: InterruptionClass::Timeout, ..passing("http_timeout", message) }
}

/// The server that made the attempt is shutting down.
pub(super) fn stopped() -> TaskFailure {
    let message = "the server stopped before the answer was read: check what became of the request";
    TaskFailure { class: InterruptionClass::ProcessCrash, ..passing("http_interrupted", message) }
}

/// Where a request goes, as it is told.
pub(super) struct Place {
    /// Host and port.
    pub(super) service: String,
    /// Whether the connection is encrypted.
    pub(super) tls: bool,
}

/// What became of a request that was not answered.
pub(super) fn unanswered(error: reqwest::Error, place: &Place) -> TaskFailure {
    // The URL may hold a secret in a form that nobody searches for.
    let error = error.without_url();
    if error.is_connect() && !error.is_timeout() {
        return unreachable(&error, place);
    }
    if error.is_builder() {
        return request_invalid(format!("the request can't be sent: {}", causes(&error)));
    }
    broken_off(error)
}

/// What became of a request that was answered in part, or not at all.
pub(super) fn broken_off(error: reqwest::Error) -> TaskFailure {
    let error = error.without_url();
    if error.is_timeout() {
        return timed_out();
    }
    let message = format!(
        "the connection broke before the answer was complete: {}; check what the server did with the request",
        root(&error)
    );
    passing("http_interrupted", message)
}

pub(super) fn unknown_host(host: &str) -> TaskFailure {
    passing("http_unreachable", format!("no address is known for host {host}: check its name"))
}

fn unreachable(error: &reqwest::Error, place: &Place) -> TaskFailure {
    let Place { service, tls } = place;
    let message = match io_kind(error) {
        Some(ErrorKind::ConnectionRefused) => {
            format!("{service} refused the connection: check the port, and that the server runs")
        }
        Some(ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable) => {
            format!("there is no way to {service}: check the host and the network")
        }
        _ if *tls => {
            let why = root(error);
            format!("the TLS handshake with {service} failed: {why}; check the server's certificate")
        }
        _ => format!("{service} can't be reached: {}; check the host and the port", root(error)),
    };
    passing("http_unreachable", message)
}

/// An error and everything that led to it.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

/// What the operating system said.
fn io_kind(error: &reqwest::Error) -> Option<ErrorKind> {
    chain(error).filter_map(|error| error.downcast_ref::<std::io::Error>()).last().map(std::io::Error::kind)
}

/// What an error comes down to.
fn root(error: &reqwest::Error) -> String {
    chain(error).last().map(ToString::to_string).unwrap_or_default()
}

/// An error with everything that led to it, without saying the same twice.
pub(super) fn causes(error: &dyn Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !told.contains(&more) {
            told = format!("{told}: {more}");
        }
        cause = error.source();
    }
    told
}

/// What is told of an answer whose status is a refusal.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) body: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_after_ms: Option<u64>,
}

impl Refusal {
    pub(super) fn into_failure(self) -> TaskFailure {
        let message = format!(
            "the server answered with status {}: correct the request, or list the status as acceptable",
            self.status
        );
        let retryable = matches!(self.status, 408 | 425 | 429 | 500 | 502 | 503 | 504);
        let failure = Failure { details: Some(Json::of(&self)), ..Failure::new("http_status", message) };
        TaskFailure { failure, retryable, reached: Reached::Maybe, class: InterruptionClass::ToolFailure }
    }
}
