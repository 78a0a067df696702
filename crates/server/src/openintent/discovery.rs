//! What of OpenIntent works here, told truthfully.

use axum::Json;
use serde_json::{Value, json};

/// The version of the protocol whose documents these are.
const PROTOCOL: &str = "0.1";

/// Every document of the protocol: what holds of it here.
const DOCUMENTS: &[(&str, &str)] = &[
    ("RFC-0001", "full"),
    ("RFC-0002", "full"),
    ("RFC-0003", "full"),
    ("RFC-0004", "partial"),
    ("RFC-0005", "full"),
    ("RFC-0006", "partial"),
    ("RFC-0007", "partial"),
    ("RFC-0009", "full"),
    ("RFC-0010", "partial"),
    ("RFC-0011", "partial"),
    ("RFC-0012", "partial"),
    ("RFC-0013", "partial"),
    ("RFC-0014", "none"),
    ("RFC-0015", "none"),
    ("RFC-0016", "none"),
    ("RFC-0017", "none"),
    ("RFC-0018", "none"),
    ("RFC-0019", "partial"),
    ("RFC-0020", "none"),
    ("RFC-0021", "partial"),
    ("RFC-0022", "none"),
    ("RFC-0023", "none"),
    ("RFC-0024", "partial"),
    ("RFC-0025", "full"),
    ("RFC-0026", "full"),
];

/// What works here.
pub(crate) async fn show() -> Json<Value> {
    let rfcs: Vec<&str> =
        DOCUMENTS.iter().filter(|(_, holds)| *holds != "none").map(|(rfc, _)| *rfc).collect();
    Json(json!({
        "protocol": "OpenIntent Coordination Protocol",
        "version": PROTOCOL,
        "rfcs": rfcs,
        "rfcUrls": [],
        "capabilities": [
            "intents", "events", "agents", "state-patches", "optimistic-concurrency", "leasing", "governance",
            "governance-enforcement", "access-control", "suspension", "human-retry", "intent-graphs", "portfolios",
            "tasks", "plans", "coordinators", "workflows", "streaming", "subscriptions", "attachments", "cost-tracking",
            "retry-policies", "messaging",
        ],
        "compatibility": "/.well-known/openintent-compat.json",
        "openApiUrl": null,
    }))
}

/// Which documents hold here.
pub(crate) async fn compatibility() -> Json<Value> {
    let compliance: serde_json::Map<String, Value> =
        DOCUMENTS.iter().map(|(rfc, holds)| ((*rfc).to_owned(), json!(holds))).collect();
    Json(json!({
        "implementation": "Abide",
        "version": env!("CARGO_PKG_VERSION"),
        "rfcCompliance": compliance,
    }))
}
