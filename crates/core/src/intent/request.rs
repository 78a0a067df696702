//! Approvals and looks that people are asked for beside an intent.
//!
//! Each is a question of the run itself, as those of coordinators are: it stands in the one inbox, it does not make the
//! intent wait for people, and nobody's silence answers it.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Actor;
use crate::climb::LadderTerms;
use crate::command::Draft;
use crate::event::{Event, InterruptRequested, InterruptResolved, NodeEvent, Resolution};
use crate::graph::Form;
use crate::interrupt::ANSWER;
use crate::{Ask, InterruptId, InterruptKind, Json, JsonMap, Millis, Rejection, Run, limits};

/// What the questions of intents are about.
const APPROVAL: &str = "intent-approval";
const ESCALATION: &str = "intent-escalation";

/// What people are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// Whether something may be done.
    Approval,
    /// To look at something.
    Escalation,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestStatus {
    /// Nobody has answered.
    Pending,
    /// It may be done.
    Approved,
    /// It may not.
    Denied,
    /// Somebody has looked at it.
    Resolved,
    /// Nobody needs to answer any more.
    Withdrawn,
}

impl RequestStatus {
    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Resolved => "resolved",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// Something that people are or were asked for beside an intent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Request {
    /// What for.
    pub kind: RequestKind,
    /// What is to be done; nothing for a look.
    #[serde(default)]
    pub action: String,
    /// What became of it.
    pub status: RequestStatus,
    /// Who asked.
    pub requested_by: String,
    /// When.
    pub requested_at: Millis,
    /// What was asked, as it was written.
    pub asked: Json,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Millis>,
    /// What they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

impl InterruptRequested {
    /// What people are asked for beside an intent, if it is that.
    pub fn request_kind(&self) -> Option<RequestKind> {
        match self.topic.as_deref()? {
            APPROVAL => Some(RequestKind::Approval),
            ESCALATION => Some(RequestKind::Escalation),
            _ => None,
        }
    }

    /// What was asked beside an intent, as it was written.
    pub fn request_written(&self) -> Json {
        let data: JsonMap = self.data.parse().unwrap_or_default();
        let approval = self.request_kind() == Some(RequestKind::Approval);
        let asked = data.get(if approval { "artifactData" } else { "context" });
        asked.cloned().unwrap_or_else(|| Json::of(&JsonMap::new()))
    }
}

/// Whether a question of the run itself is of this kind: nobody waits for its answer.
pub(crate) fn is_request(topic: &str) -> bool {
    matches!(topic, APPROVAL | ESCALATION)
}

impl Run {
    /// Asks people for something beside the intent.
    pub(super) fn ask_beside(
        &mut self,
        draft: &mut Draft,
        actor: &Actor,
        kind: RequestKind,
        asked: &JsonMap,
    ) -> Result<(), Rejection> {
        self.check_running()?;
        let open = self.state.open.len();
        let kept = self.intent().map_or(0, |intent| intent.requests.len());
        if open >= limits::INTERRUPTS_OPEN_MAX || kept >= limits::REQUESTS_MAX {
            let message = format!("an intent has at most {} approvals and escalations", limits::REQUESTS_MAX);
            return Err(Rejection::invalid("reason", message));
        }
        let text =
            |key: &str| asked.get(key).and_then(|text| text.parse::<String>().ok()).unwrap_or_default();
        let data = match kind {
            RequestKind::Approval => approval(&self.intent_title(), &text("action"), &text("reason"), asked),
            RequestKind::Escalation => escalation(&self.intent_title(), &text("reason"), asked),
        };
        let payload = Json::of(&json!({ "kind": data.0.name(), "data": data.1 }));
        let told = |problems: Vec<crate::Problem>| {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Rejection::invalid("reason", told.join("; "))
        };
        let ask = Ask::read(&payload).map_err(told)?;
        self.open_request(draft, actor, kind, ask);
        Ok(())
    }

    fn open_request(&mut self, draft: &mut Draft, actor: &Actor, kind: RequestKind, ask: Ask) {
        let terms = LadderTerms { call: None, agent: None, form: Form::Interrupt };
        // A platform's ladder that does not fit must not keep the question from being asked.
        let ladder = self.ladder_of(&terms, &ask, &draft.defaults).ok().flatten();
        let topic = if kind == RequestKind::Approval { APPROVAL } else { ESCALATION };
        let interrupt_id = InterruptId::of(&self.salt, self.head.next);
        let requested = InterruptRequested {
            checkpoint: None,
            interrupt_id,
            kind: ask.kind,
            key: format!("{topic}:{}", self.head.next),
            call: 1,
            keyless: true,
            data: ask.data,
            resume_schema: None,
            timeout_ms: None,
            ladder,
            respondents: Vec::new(),
            hooks: None,
            asked_by: actor.names(),
            rules: None,
            topic: Some(topic.to_owned()),
            sensitive: false,
            sensitive_answer: false,
        };
        let (node, cause) = (self.graph.own_node.clone(), draft.last_sequence());
        let event = NodeEvent::InterruptRequested(Box::new(requested));
        draft.emit(self, &Event::Node { node, event }, cause);
        self.escalate(draft, None, interrupt_id, 1);
    }

    /// What an intent is called.
    pub fn intent_title(&self) -> String {
        self.intent_text("title").unwrap_or_else(|| self.graph().name.clone())
    }
}

fn approval(title: &str, action: &str, reason: &str, asked: &JsonMap) -> (InterruptKind, serde_json::Value) {
    let what = if action.is_empty() { "an action" } else { action };
    let data = json!({
        "artifactId": format!("approval:{what}"), "artifactType": "intent.approval",
        "title": short(&format!("{title}: {what}")), "description": short(reason), "actions": ["accept", "reject"],
        "artifactData": asked,
    });
    (InterruptKind::Approval, data)
}

fn escalation(title: &str, reason: &str, asked: &JsonMap) -> (InterruptKind, serde_json::Value) {
    let question = if reason.is_empty() { "Somebody is to look at this." } else { reason };
    let data = json!({
        "contextType": "intent.escalation",
        "questions": [{ "id": ANSWER, "question": short(&format!("{title}: {question}")) }],
        "context": asked,
    });
    (InterruptKind::Clarification, data)
}

/// As much of a text as a question takes.
fn short(text: &str) -> String {
    text.chars().take(limits::ASK_TITLE_CHARS_MAX).collect()
}

/// What an event changes.
impl Run {
    pub(crate) fn fold_request(&mut self, requested: &InterruptRequested, at: Millis) {
        let Some(kind) = requested.request_kind() else { return };
        let asked = requested.request_written();
        let written: JsonMap = asked.parse().unwrap_or_default();
        let action = written.get("action").and_then(|action| action.parse().ok()).unwrap_or_default();
        let request = Request {
            kind,
            action,
            status: RequestStatus::Pending,
            requested_by: requested.asked_by.first().cloned().unwrap_or_default(),
            requested_at: at,
            asked,
            decided_by: None,
            decided_at: None,
            said: None,
        };
        self.intent_mut(at).requests.insert(requested.interrupt_id, request);
    }

    pub(crate) fn fold_request_answered(&mut self, resolved: &InterruptResolved, at: Millis) {
        let Some(request) =
            self.state.intent.as_mut().and_then(|intent| intent.requests.get_mut(&resolved.interrupt_id))
        else {
            return;
        };
        request.status = match (request.kind, resolved.outcome) {
            (_, Resolution::Cancelled) => RequestStatus::Withdrawn,
            (RequestKind::Escalation, _) => RequestStatus::Resolved,
            (RequestKind::Approval, Resolution::Resolved) => RequestStatus::Approved,
            (RequestKind::Approval, _) => RequestStatus::Denied,
        };
        let said = |key: &str| {
            let value: JsonMap = resolved.resume_value.as_ref()?.parse().ok()?;
            value.get(key)?.parse::<String>().ok()
        };
        let answer = || {
            let value: JsonMap = resolved.resume_value.as_ref()?.parse().ok()?;
            let answers: JsonMap = value.get("answers")?.parse().ok()?;
            answers.get(ANSWER)?.parse::<String>().ok()
        };
        let said = said("feedback").or_else(|| said("reason")).or_else(answer);
        request.said = said.map(|said| said.chars().take(limits::REASON_CHARS_MAX).collect());
        (request.decided_by, request.decided_at) = (Some(resolved.resolved_by.clone()), Some(at));
    }
}
