//! Posts a request once, and judges the answer. Redirects are not followed: whoever may redirect could send a question,
//! and the link that answers it, anywhere.

use std::error::Error;
use std::time::Duration;

use abide_core::Millis;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode, Url};
use tokio::time::{Instant, timeout_at};

use super::{Failure, Receipt};
use crate::channels::Post;
use crate::compose::Request;
use crate::limits::{ANSWER_BYTES_MAX, ANSWER_MS_MAX, ANSWER_TOLD_CHARS_MAX, RETRY_AFTER_MS_MAX};
use crate::text::one_line;

/// Posts a request and says how it ended. `now` tells how far away a time is that the receiver names.
pub(super) async fn post(
    post: &Post,
    request: Request,
    now: Millis,
    deadline: Instant,
) -> Result<Receipt, Failure> {
    let mut sent = reqwest::Request::new(Method::POST, post.url.clone());
    *sent.headers_mut() = headers(request.headers)?;
    *sent.body_mut() = Some(request.body.into());
    let answered = timeout_at(deadline, post.client.execute(sent)).await.map_err(|_| late(&post.url))?;
    let response = answered.map_err(|error| unanswered(error, &post.url))?;
    let (status, retry_after) = (response.status(), retry_after(response.headers(), now));
    let said = excerpt(response, deadline).await;
    if status.is_success() {
        return Ok(Receipt { answer: format!("{} {said}", status.as_u16()).trim_end().to_owned() });
    }
    Err(refused(status, &said, retry_after, &post.url))
}

fn headers(pairs: Vec<(&'static str, String)>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let unfit = |_| {
            Failure::lasting(format!("the header {name} can't be sent: it has characters that no header has"))
        };
        headers.append(HeaderName::from_static(name), HeaderValue::from_str(&value).map_err(unfit)?);
    }
    Ok(headers)
}

fn refused(status: StatusCode, said: &str, retry_after: Option<Millis>, url: &Url) -> Failure {
    let passing = matches!(status.as_u16(), 408 | 425 | 429 | 500..=599);
    let what = match status.as_u16() {
        300..=399 => "redirects are not followed: configure the address that it leads to",
        401 | 403 => "check the channel's secrets",
        404 | 405 | 410 => "check the channel's url",
        _ if passing => "it may do better later",
        _ => "check the channel's settings",
    };
    let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
    let reason = format!("{} answered with status {}{said}; {what}", place(url), status.as_u16());
    Failure { again: passing, reason, retry_after: retry_after.filter(|_| passing) }
}

/// What became of a request without an answer. The URL may hold a secret, so none is told.
fn unanswered(error: reqwest::Error, url: &Url) -> Failure {
    let (place, error) = (place(url), error.without_url());
    let mut root: &dyn Error = &error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    if error.is_builder() {
        return Failure::lasting(format!(
            "the request to {place} can't be made: {root}; check the channel's settings"
        ));
    }
    if error.is_timeout() {
        return late(url);
    }
    if error.is_connect() {
        return Failure::passing(format!(
            "{place} can't be reached: {root}; check the channel's url and the network"
        ));
    }
    Failure::passing(format!("the connection to {place} broke before it answered: {root}"))
}

fn late(url: &Url) -> Failure {
    Failure::passing(format!("{} did not answer in time; check that it runs", place(url)))
}

fn place(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}"));
    format!("{}{}", url.host_str().unwrap_or_default(), port.unwrap_or_default())
}

/// Seconds, or a date. A date that has passed means at once.
fn retry_after(headers: &HeaderMap, now: Millis) -> Option<Millis> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let ms = match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse::<Millis>().unwrap_or(Millis::MAX).saturating_mul(1000),
        false => http_date(text)?.saturating_sub(now),
    };
    (!text.is_empty()).then_some(ms.clamp(0, RETRY_AFTER_MS_MAX))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`. The two older forms are no longer sent by anybody.
fn http_date(text: &str) -> Option<Millis> {
    let date: lettre::message::header::Date = lettre::message::header::Header::parse(text).ok()?;
    let since = std::time::SystemTime::from(date).duration_since(std::time::UNIX_EPOCH).ok()?;
    Millis::try_from(since.as_millis()).ok()
}

/// The beginning of an answer, on one line. It is read so that a receiver that is still writing is not cut off. The status
/// has been told by then, so however long the rest takes, it changes nothing.
async fn excerpt(mut response: Response, deadline: Instant) -> String {
    let mut bytes = Vec::new();
    let patience = deadline.min(Instant::now() + Duration::from_millis(ANSWER_MS_MAX));
    while let Ok(Ok(Some(chunk))) = timeout_at(patience, response.chunk()).await {
        bytes.extend_from_slice(&chunk[..chunk.len().min(ANSWER_BYTES_MAX - bytes.len())]);
        if bytes.len() >= ANSWER_BYTES_MAX {
            break;
        }
    }
    one_line(&String::from_utf8_lossy(&bytes), ANSWER_TOLD_CHARS_MAX)
}
