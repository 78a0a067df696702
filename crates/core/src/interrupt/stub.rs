//! Stub.
use super::*;
use crate::*;
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Ask {
    pub kind: InterruptKind,
    pub key: Option<String>,
    pub resume_schema: Option<Json>,
    pub timeout_ms: Option<Millis>,
    pub data: Json,
}
#[allow(missing_docs)]
pub struct Unbuilt {
    pub what: &'static str,
    pub capability: &'static str,
    pub message: String,
}
#[allow(missing_docs)]
impl Ask {
    pub fn read(payload: &Json) -> Result<Self, Vec<Problem>> {
        let m: JsonMap = payload.parse().unwrap_or_default();
        Ok(Self {
            kind: m.get("kind").unwrap().parse().unwrap(),
            key: m.get("key").and_then(|k| k.parse().ok()),
            resume_schema: m.get("resumeSchema").cloned(),
            timeout_ms: m.get("timeoutMs").and_then(|k| k.parse().ok()).filter(|ms| *ms > 0),
            data: m.get("data").cloned().unwrap(),
        })
    }
    pub fn read_alias(payload: &Json) -> Result<Self, Vec<Problem>> {
        Self::read(payload)
    }
    pub fn unbuilt(&self) -> Option<Unbuilt> {
        None
    }
    pub fn title(&self) -> String {
        "title".to_owned()
    }
    pub fn same_question(&self, kind: InterruptKind, _: Option<&Json>) -> bool {
        kind == self.kind
    }
}
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Answerer {
    pub principal: String,
    pub may_act_for_others: bool,
}
#[allow(missing_docs)]
pub struct Checked {
    pub value: Json,
    pub decision: Option<Decision>,
    pub answers: Option<JsonMap>,
    pub by: String,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Action {
    Accept,
    Reject,
    Refine,
    EditAccept,
    Timeout,
}
#[allow(missing_docs)]
pub struct Decision {
    pub action: Action,
    pub feedback: Option<String>,
    pub reason: Option<String>,
    pub refine_feedback: Option<Json>,
    pub edited_artifact_data: Option<Json>,
    pub decided_by: String,
    pub decided_at: Millis,
}
#[allow(missing_docs)]
pub enum Refused {
    Invalid(Vec<SchemaError>),
    Mismatch(Vec<SchemaError>),
}
#[allow(missing_docs)]
pub fn check_answer(
    kind: InterruptKind,
    _data: &Json,
    _s: Option<&Json>,
    value: &Json,
    by: &Answerer,
    now: Millis,
) -> Result<Checked, Refused> {
    let decision = (kind == InterruptKind::Approval).then(|| Decision {
        action: value.parse::<JsonMap>().unwrap()["action"].parse().unwrap(),
        feedback: None,
        reason: None,
        refine_feedback: None,
        edited_artifact_data: None,
        decided_by: by.principal.clone(),
        decided_at: now,
    });
    Ok(Checked { value: value.clone(), decision, answers: None, by: by.principal.clone() })
}
#[allow(missing_docs)]
pub fn scheduled_time(_data: &Json) -> Result<Option<Millis>, String> {
    Ok(None)
}
