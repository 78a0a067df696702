//! Why something is refused that is about an intent, as an error of the one table.

use abide_core::{Rejection, RunId};
use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::words;
use crate::error::ApiError;

/// What is wrong with something that is about an intent; `None` if it is about something else.
pub(crate) fn of(rejection: &Rejection, message: &str) -> Option<ApiError> {
    Some(match rejection {
        Rejection::NotDriven => ApiError::new("intent_not_driven", message),
        Rejection::NotSuspended(_) => ApiError::new("intent_not_suspended", message),
        Rejection::OtherSuspension { expected, .. } => {
            ApiError::new("suspension_mismatch", message).with("suspension_id", expected.as_str())
        }
        Rejection::InvalidChoice { choices, .. } => {
            let valid = serde_json::to_value(choices).unwrap_or_default();
            let detail = json!({ "error": "invalid_choice", "message": message, "valid_choices": valid });
            ApiError::new("invalid_choice", message).with("detail", detail)
        }
        Rejection::Leased { id, agent, expires_at } => ApiError::new("lease_held", message).with(
            "existing_lease",
            json!({ "id": id, "agent_id": agent, "expires_at": words::moment(*expires_at) }),
        ),
        Rejection::NoLease(_) => ApiError::new("lease_not_found", message),
        Rejection::NotAssigned(_) => ApiError::new("agent_not_assigned", message),
        Rejection::NoAccessEntry(_) => ApiError::new("access_entry_not_found", message),
        Rejection::NotPermitted { permission, .. } => {
            let detail =
                json!({ "error": "access_denied", "message": message, "required": permission.name() });
            ApiError::new("access_denied", message).with("detail", detail)
        }
        Rejection::Governed { rule, .. } => {
            let detail = json!({ "error": "governance_violation", "rule": rule, "message": message });
            ApiError::new("governance_violation", message).with("rule", *rule).with("detail", detail)
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
