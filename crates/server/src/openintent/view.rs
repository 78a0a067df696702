//! An intent as its client reads it. Where a name was spelt in two ways, both stand there.

use abide_core::{Json, JsonMap, Run, RunId};
use serde::Serialize;
use serde_json::{Value, json};

use super::words;

/// An intent as it stands.
#[derive(Serialize)]
pub(crate) struct IntentView {
    id: String,
    title: String,
    description: String,
    created_by: String,
    parent_id: Option<String>,
    parent_intent_id: Option<String>,
    depends_on: Vec<String>,
    constraints: Json,
    state: Json,
    status: &'static str,
    confidence: f64,
    version: u64,
    governance_policy: Option<Json>,
    created_at: String,
    updated_at: String,
    /// Why it is blocked, as far as it has heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_reason: Option<&'static str>,
    /// Why it was abandoned, if nobody wished it.
    #[serde(skip_serializing_if = "Option::is_none")]
    abandonment_reason: Option<String>,
    /// How its children stand, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_status: Option<Value>,
}

fn empty() -> Json {
    Json::of(&JsonMap::new())
}

/// An intent as it stands.
pub(crate) fn intent(run: &Run) -> IntentView {
    let inputs = run.inputs();
    let policy = run.policy().map(|policy| Json::of(&policy.written));
    let parent = run.parent().map(|parent| words::id(parent.run));
    let updated = run.intent().map_or(run.head().at, |intent| intent.updated_at);
    IntentView {
        id: words::id(run.key().id),
        title: run.intent_title(),
        description: run.intent_text("description").unwrap_or_default(),
        created_by: run
            .intent_text("created_by")
            .or_else(|| run.started_by().map(str::to_owned))
            .unwrap_or_default(),
        parent_id: parent.clone(),
        parent_intent_id: parent,
        depends_on: run.upstreams().keys().map(|on| words::id(*on)).collect(),
        constraints: inputs.get("constraints").filter(|_| run.is_intent()).cloned().unwrap_or_else(empty),
        state: Json::of(&run.shown_state()),
        status: run.status().intent_name(),
        confidence: 0.0,
        version: run.intent_version(),
        governance_policy: policy,
        created_at: words::moment(run.started_at()),
        updated_at: words::moment(updated),
        blocked_reason: run.blocked_reason().map(abide_core::BlockedReason::name),
        abandonment_reason: run.abandonment_reason().map(str::to_owned),
        aggregate_status: None,
    }
}

impl IntentView {
    /// With how its children stand.
    pub(crate) fn with_children(mut self, aggregate: Option<Value>) -> Self {
        self.aggregate_status = aggregate;
        self
    }

    /// Its fields, as they are answered.
    pub(crate) fn fields(&self) -> JsonMap {
        Json::of(self).parse().expect("an intent is an object")
    }

    /// The bytes that are answered.
    pub(crate) fn encoded(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers serialise")
    }
}

/// How several intents stand together.
pub(crate) fn aggregate(by_status: &std::collections::BTreeMap<String, u64>) -> Value {
    let total: u64 = by_status.values().sum();
    let completed = by_status.get("completed").copied().unwrap_or(0);
    json!({
        "total": total,
        "by_status": by_status,
        "completion_percentage": (completed * 100).checked_div(total).unwrap_or(0),
    })
}

/// What is listed of an intent that was erased: nothing that it said.
pub(crate) fn erased(id: RunId, status: abide_core::Status, at: abide_core::Millis) -> JsonMap {
    let shown = json!({
        "id": words::id(id), "title": "", "description": "", "created_by": "", "parent_id": null,
        "parent_intent_id": null, "depends_on": [], "constraints": {}, "state": {}, "status": status.intent_name(),
        "confidence": 0.0, "version": 1, "governance_policy": null,
        "created_at": words::moment(at), "updated_at": words::moment(at),
    });
    Json::of(&shown).parse().expect("it is an object")
}
