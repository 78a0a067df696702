//! A page that says no: what a JSON error is to a program.

use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::html::{self, Frame};
use crate::error::ApiError;

/// Why a page can't be shown.
pub(super) struct Refusal(ApiError);

/// What handlers of pages return.
pub(super) type Result<T> = std::result::Result<T, Refusal>;

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

#[derive(Template)]
#[template(path = "refusal.html")]
struct Shown {
    frame: Frame,
    message: String,
    code: &'static str,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.0.status();
        let wait_ms = self.0.detail("retryAfterMs").and_then(Value::as_u64);
        let correlation = self.0.detail("correlationId").and_then(Value::as_str).map(str::to_owned);
        let (code, mut message) = self.0.into_words();
        if let Some(id) = correlation {
            message = format!("Something failed inside the server. Its log has the details under {id}.");
        }
        let frame = Frame { title: heading(status).to_owned(), visitor: None };
        let mut response = html::page(status, &Shown { frame, message, code });
        if status == StatusCode::SERVICE_UNAVAILABLE || wait_ms.is_some() {
            let seconds = wait_ms.unwrap_or(0).div_ceil(1000).max(1);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

fn heading(status: StatusCode) -> &'static str {
    match status {
        StatusCode::FORBIDDEN => "You may not do this",
        StatusCode::NOT_FOUND => "There is nothing here",
        StatusCode::TOO_MANY_REQUESTS => "Too many requests",
        StatusCode::SERVICE_UNAVAILABLE => "Try again in a moment",
        status if status.is_server_error() => "Something went wrong",
        _ => "This can't be done",
    }
}
