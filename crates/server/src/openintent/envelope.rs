//! How OpenIntent's API says no: `{"detail": …}` with what its client looks for beside it.
//!
//! Handlers, the gate and everything else that stands before them refuse in one way. Here what they said becomes what the
//! client reads: an object always, since it takes no other; `message`, `current_version` and `existing_lease` at the top;
//! and in a conflict that is about no lease no word that has "lease" in it, because it takes every such conflict for one.

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::refused;

/// What an answer that says no was made of; it goes along with the answer.
#[derive(Clone, Debug)]
pub(crate) struct Said(pub(crate) Value);

/// What everything of OpenIntent's lies under.
pub(crate) const ROOT: &str = "/api/v1";

/// Whether a path is OpenIntent's.
pub(crate) fn is_openintent(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        || path.starts_with("/.well-known/openintent")
}

/// Puts refusals into OpenIntent's words, where a request was made in them.
pub(crate) async fn speak(request: Request, next: Next) -> Response {
    let ours = is_openintent(request.uri().path());
    let response = next.run(request).await;
    if !ours {
        return response;
    }
    let Some(Said(said)) = response.extensions().get::<Said>().cloned() else { return response };
    translated(&response, &said)
}

fn translated(response: &Response, said: &Value) -> Response {
    let status = response.status();
    let mut translated = (status, axum::Json(body(status, said))).into_response();
    for name in [header::RETRY_AFTER, header::WWW_AUTHENTICATE] {
        let kept: Option<HeaderValue> = response.headers().get(&name).cloned();
        kept.map(|value| translated.headers_mut().insert(name, value));
    }
    translated
}

fn body(status: StatusCode, said: &Value) -> Value {
    let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
    let (code, mut message) = (text("error"), text("message"));
    let mut details = said["details"].as_object().cloned().unwrap_or_default();
    let about_lease = details.contains_key("existing_lease");
    if status == StatusCode::CONFLICT && !about_lease {
        message = without_lease(&message);
        details = clean(details);
    }
    message = named(&code, message);
    let mut detail = detail(status, &message, &mut details);
    // What is no JSON object at all has no place that could be named.
    let is_about_body = code == "validation_error" && message.starts_with("the body");
    if is_about_body && detail.is_string() {
        detail = json!({ "error": code, "message": message });
    }
    let mut body = json!({ "detail": detail, "error": code, "message": message });
    let tops = ["existing_lease", "retryAfterMs", "correlationId"].map(|key| (key, key));
    for (key, top) in tops.into_iter().chain([("foundVersion", "current_version")]) {
        if let Some(value) = details.remove(key) {
            body[top] = value;
        }
    }
    if status == StatusCode::BAD_REQUEST {
        let field = details.get("field").cloned().unwrap_or(Value::Null);
        body["errors"] = json!([{ "field": field, "message": message }]);
    }
    body
}

/// What is not there has its name of this protocol.
fn named(code: &str, message: String) -> String {
    match code {
        "run_not_found" => "Intent not found".to_owned(),
        "group_not_found" => "Portfolio not found".to_owned(),
        _ => message,
    }
}

/// What stands in `detail`: an object where the caller has to look into it, a list where a value is wrong, else the message.
fn detail(status: StatusCode, message: &str, details: &mut Map<String, Value>) -> Value {
    if let Some(detail) = details.remove("detail").or_else(|| refused::detail(status, message, details)) {
        return detail;
    }
    if status == StatusCode::UNPROCESSABLE_ENTITY
        && let Some(field) = details.get("field").and_then(Value::as_str)
    {
        let mut place = vec![json!("body")];
        place.extend(field.split('.').map(|part| json!(part)));
        return json!([{ "type": "value_error", "loc": place, "msg": message }]);
    }
    json!(message)
}

/// The same without words that the client would take for a conflict about a lease.
fn without_lease(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    if !lower.contains("lease") {
        return text.to_owned();
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.to_ascii_lowercase().find("lease") {
        clean.push_str(&rest[..at]);
        clean.push_str("le-ase");
        rest = &rest[at + "lease".len()..];
    }
    clean.push_str(rest);
    clean
}

fn clean(details: Map<String, Value>) -> Map<String, Value> {
    details.into_iter().map(|(key, given)| (without_lease(&key), cleaned(given))).collect()
}

fn cleaned(given: Value) -> Value {
    match given {
        Value::String(text) => Value::String(without_lease(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(cleaned).collect()),
        Value::Object(map) => Value::Object(clean(map)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, said: &Value) -> Value {
        body(StatusCode::from_u16(status).unwrap(), said)
    }

    #[test]
    fn a_conflict_about_something_else_never_sounds_like_one_about_a_lease() {
        let said = json!({ "error": "version_conflict", "message": "Please read it again",
                           "details": { "foundVersion": 4, "detail": { "released": "a lease" } } });
        let body = refusal(409, &said);
        assert_eq!(body["current_version"], 4);
        assert!(!body.to_string().to_lowercase().contains("lease"), "{body}");
        let said = json!({ "error": "lease_held", "message": "held", "details": { "existing_lease": { "id": "l" } } });
        assert_eq!(refusal(409, &said)["existing_lease"]["id"], "l");
    }

    #[test]
    fn what_is_wrong_with_a_value_is_told_by_its_place() {
        let said = json!({ "error": "validation_error", "message": "wrong", "details": { "field": "a.b" } });
        assert_eq!(refusal(422, &said)["detail"][0]["loc"], json!(["body", "a", "b"]));
        assert_eq!(refusal(400, &said)["errors"][0], json!({ "field": "a.b", "message": "wrong" }));
    }

    #[test]
    fn only_paths_of_openintent_are_spoken_to_so() {
        for ours in ["/api/v1", "/api/v1/intents", "/.well-known/openintent.json"] {
            assert!(is_openintent(ours), "{ours}");
        }
        for other in ["/v1/runs", "/api/v10", "/", "/.well-known/openwop"] {
            assert!(!is_openintent(other), "{other}");
        }
    }
}
