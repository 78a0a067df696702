//! Why something is refused that is about an intent, as an error of the one table.

use abide_core::{Rejection, RunId};
use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::words;
use crate::error::ApiError;

/// What is wrong with something that is about an intent; `None` if it is about something else.
pub(crate) fn of(rejection: &Rejection, message: &str) -> Option<ApiError> {
    let new = |code| ApiError::new(code, message);
    Some(match rejection {
        Rejection::NotDriven => new("intent_not_driven"),
        Rejection::NotSuspended(_) => new("intent_not_suspended"),
        Rejection::OtherSuspension { expected, .. } => {
            new("suspension_mismatch").with("suspension_id", expected.as_str())
        }
        Rejection::InvalidChoice { choices, .. } => {
            let valid = serde_json::to_value(choices).unwrap_or_default();
            let detail = json!({ "error": "invalid_choice", "message": message, "valid_choices": valid });
            new("invalid_choice").with("detail", detail)
        }
        Rejection::Leased { id, agent, expires_at } => new("lease_held").with(
            "existing_lease",
            json!({ "id": id, "agent_id": agent, "expires_at": words::moment(*expires_at) }),
        ),
        Rejection::NoLease(_) => new("lease_not_found"),
        Rejection::NotAssigned(_) => new("agent_not_assigned"),
        Rejection::NoAccessEntry(_) => new("access_entry_not_found"),
        Rejection::NotPermitted { permission, .. } => {
            let detail =
                json!({ "error": "access_denied", "message": message, "required": permission.name() });
            new("access_denied").with("detail", detail)
        }
        Rejection::Governed { rule, .. } => {
            let detail = json!({ "error": "governance_violation", "rule": rule, "message": message });
            new("governance_violation").with("rule", *rule).with("detail", detail)
        }
        Rejection::VersionConflict { expected, found } => {
            new("version_conflict").with("expected", *expected).with("current_version", *found)
        }
        _ => return None,
    })
}

/// What `detail` says where the client has to look into it: the class of the error that it knows, and what belongs to that.
pub(super) fn detail(status: StatusCode, message: &str, details: &Map<String, Value>) -> Option<Value> {
    let class = details.get("error").filter(|_| status == StatusCode::UNPROCESSABLE_ENTITY)?;
    let rule = match class.as_str()? {
        "UnresolvableInputError" => Some("io_inputs"),
        "MissingOutputError" | "OutputTypeMismatchError" => Some("io_outputs"),
        _ => None,
    };
    let mut detail = details.clone();
    detail.insert("message".to_owned(), json!(message));
    rule.map(|rule| detail.insert("rule".to_owned(), json!(rule)));
    if let Some(run) = detail.get("suspended_intent_id").and_then(Value::as_str) {
        let bare = run.parse::<RunId>().map_or_else(|_| run.to_owned(), words::id);
        detail.insert("suspended_intent_id".to_owned(), json!(bare));
    }
    Some(Value::Object(detail))
}
