//! Which errors of a provider could pass.

use reqwest::StatusCode;
use serde_json::Value;

use crate::event::{ProviderError, Thrown};
use crate::limits::NONSENSE_BYTES_MAX;

/// Types and codes of errors that say: it is not your fault, come again.
const PASSING: [&str; 10] = [
    "overloaded_error",
    "overloaded",
    "api_error",
    "rate_limit_error",
    "rate_limit_exceeded",
    "server_error",
    "internal_server_error",
    "service_unavailable",
    "timeout",
    "timeout_error",
];

/// How types and codes of errors begin that say: it is your fault, and will be the next time.
const LASTING: [&str; 8] = [
    "invalid",
    "authentication",
    "permission",
    "not_found",
    "request_too_large",
    "billing",
    "insufficient_quota",
    "context_length",
];

/// Whether a request that got this status may be made again: too many came, or the provider itself is at fault.
pub(crate) fn is_passing(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.as_u16() >= 500
}

/// An error that a provider told within its answer, in its own words.
pub(crate) fn emitted(data: &str) -> ProviderError {
    let whole: Value = serde_json::from_str(data).unwrap_or_default();
    let told = whole.get("error").unwrap_or(&whole);
    let words = ["code", "type", "status"].map(|key| told.get(key).unwrap_or(&Value::Null));
    let retryable = words.into_iter().find_map(retryable);
    ProviderError { message: data.to_owned(), retryable, ..ProviderError::default() }
}

/// What one word says; `None` if it is not known.
fn retryable(word: &Value) -> Option<bool> {
    // Gateways put the status of whoever is behind them here.
    let status = word.as_u64().or_else(|| word.as_str()?.parse().ok());
    if let Some(status) = status.and_then(|status| StatusCode::from_u16(u16::try_from(status).ok()?).ok()) {
        return Some(is_passing(status));
    }
    let word = word.as_str()?;
    if PASSING.contains(&word) {
        return Some(true);
    }
    LASTING.iter().any(|begin| word.starts_with(begin)).then_some(false)
}

/// An event that is none of its protocol.
pub(crate) fn nonsense(error: &serde_json::Error, data: &str) -> Thrown {
    let told = &data[..data.floor_char_boundary(NONSENSE_BYTES_MAX)];
    Thrown(format!("the provider sent what its protocol does not have ({error}): {told}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(data: &str) -> Option<bool> {
        let error = emitted(data);
        assert_eq!((error.message.as_str(), error.code), (data, None));
        error.retryable
    }

    #[test]
    fn the_type_of_an_error_says_whether_it_could_pass() {
        for (error, passing) in [
            (r#"{"type":"overloaded_error","message":"m"}"#, Some(true)),
            (r#"{"type":"api_error"}"#, Some(true)),
            (r#"{"type":"rate_limit_error"}"#, Some(true)),
            (r#"{"type":"server_error","code":null}"#, Some(true)),
            (r#"{"type":"timeout"}"#, Some(true)),
            (r#"{"type":"tokens","code":"rate_limit_exceeded"}"#, Some(true)),
            (r#"{"code":502,"message":"Bad gateway"}"#, Some(true)),
            (r#"{"code":"429"}"#, Some(true)),
            (r#"{"code":400}"#, Some(false)),
            (r#"{"type":"invalid_request_error"}"#, Some(false)),
            (r#"{"type":"authentication_error"}"#, Some(false)),
            (r#"{"type":"permission_error"}"#, Some(false)),
            (r#"{"type":"not_found_error"}"#, Some(false)),
            (r#"{"type":"something_new"}"#, None),
            (r#""just words""#, None),
        ] {
            assert_eq!(judged(&format!(r#"{{"type":"error","error":{error}}}"#)), passing, "{error}");
        }
    }

    #[test]
    fn statuses_of_too_many_requests_and_of_servers_could_pass() {
        let passing = |status: u16| is_passing(StatusCode::from_u16(status).unwrap());
        assert_eq!([429, 500, 502, 503, 529, 599].map(passing), [true; 6]);
        assert_eq!([300, 400, 401, 403, 404, 408, 409, 413, 422, 499].map(passing), [false; 10]);
    }
}
