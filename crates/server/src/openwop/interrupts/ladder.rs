//! The ladder of one interrupt, for those who want to know what was done and what comes: the record and the events in
//! the words of OpenIntent's RFC-0025 and RFC-0026, and all of it as a list of moments.

use std::sync::Arc;

use abide_core::event::InterruptResolved;
use abide_core::{
    FallbackPolicy, HumanRetryPolicy, InterruptId, InterruptKind, Json as RawJson, Key, Ladder, Levels,
    Rejection, Run, RunId,
};
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::mask::MASKED;
use super::story::{self, Standing, Step, Story, What};
use super::timeline::{self, Moment};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::openwop::runs::RunPath;
use crate::scope::Scope;
use crate::time::rfc3339;
use crate::{retry_policy, shape};

/// What was done about an interrupt that waits, or waited, for people.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LadderOfInterrupt")]
pub(crate) struct LadderView {
    #[schemars(with = "shape::InterruptName")]
    interrupt_id: InterruptId,
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    node_id: String,
    /// How it stands: `open`, `answered`, `expired`, `timed-out` or `cancelled`.
    state: &'static str,
    /// The record of RFC-0025.
    suspension: Suspension,
    /// Where each field of the policy comes from: `default`, `platform`, `agent` or `call`.
    #[schemars(with = "Option<shape::Object>")]
    levels: Option<Levels>,
    /// What happened, in the words of RFC-0026.
    events: Vec<LadderEvent>,
    /// What happened and what comes, in its order.
    timeline: Vec<MomentView>,
}

/// A question to people, as RFC-0025 records it.
#[derive(Serialize, JsonSchema)]
struct Suspension {
    #[schemars(with = "shape::InterruptName")]
    id: InterruptId,
    question: String,
    /// `choice`, `confirm`, `text` or `form`.
    response_type: String,
    /// What there is to choose, each `{value, label}`.
    #[schemars(with = "Vec<shape::Object>")]
    choices: Vec<Value>,
    #[schemars(with = "shape::Anything")]
    context: Value,
    channel_hint: Option<String>,
    #[schemars(with = "shape::Moment")]
    suspended_at: String,
    timeout_seconds: Option<u32>,
    #[schemars(with = "Option<shape::Moment>")]
    expires_at: Option<String>,
    #[schemars(with = "shape::Anything")]
    fallback_value: Value,
    fallback_policy: Option<&'static str>,
    /// The policy that holds, with nothing left open.
    #[schemars(with = "Option<retry_policy::HumanRetryPolicy>")]
    retry_policy: Option<HumanRetryPolicy>,
    /// What was answered; nothing if nobody did.
    #[schemars(with = "shape::Anything")]
    response: Value,
    responded_by: Option<String>,
    #[schemars(with = "Option<shape::Moment>")]
    responded_at: Option<String>,
    /// `responded`, `expired` or `cancelled`; nothing while it is open.
    resolution: Option<&'static str>,
}

/// An event of RFC-0026.
#[derive(Serialize, JsonSchema)]
struct LadderEvent {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Its place in the journal of the run.
    sequence: u64,
    #[schemars(with = "shape::Moment")]
    at: String,
    #[schemars(with = "shape::Object")]
    payload: Value,
}

/// A moment.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LadderMoment")]
struct MomentView {
    #[schemars(with = "shape::Moment")]
    at: String,
    /// `asked`, `attempt`, `escalation`, `message`, `refusal`, `expiry`, `timeout`, `answer` or `cancellation`.
    what: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    /// The channel; the usual one if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    /// Whom; of messages, the person and never the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// Who closed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    /// `done`, `superseded` or `planned`; of messages, how they stand.
    state: &'static str,
    /// Why something failed, or was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The run and the interrupt that a path names. What is not even text names nothing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LadderPath {
    run_id: String,
    interrupt_id: String,
}

impl<S: Send + Sync> FromRequestParts<S> for LadderPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = Path::<Self>::from_request_parts(parts, state).await;
        path.map(|Path(path)| path).map_err(|_| no_such_interrupt())
    }
}

fn no_such_interrupt() -> ApiError {
    ApiError::new("interrupt_not_found", "the run never asked this; GET the run shows what it asks now")
}

/// Shows what was done about an interrupt, and what comes.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    path: LadderPath,
) -> Result<Json<LadderView>> {
    let key = RunPath::named(path.run_id).of(&principal)?;
    let id: InterruptId = path.interrupt_id.parse().map_err(|_| no_such_interrupt())?;
    let known = app.engine().read(key, |run: &Run| run.check_open_interrupt(id).map(drop)).await?;
    if matches!(known, Err(Rejection::NoSuchInterrupt)) {
        return Err(no_such_interrupt());
    }
    let story = Story::read(&app, key, id).await?.ok_or_else(no_such_interrupt)?;
    let deliveries = story::deliveries(&app, key, id).await?;
    // What is only for those who answer is masked for others.
    let is_hidden = story.requested.sensitive && !principal.scopes.allow(Scope::ApprovalsRespond);
    let put = if is_hidden { Put::masked(&story) } else { Put::of(&story) };
    let events = events(key, &story, &put);
    let moments = timeline::of(&story, &deliveries);
    Ok(Json(LadderView {
        interrupt_id: id,
        run_id: key.id,
        node_id: story.node.clone(),
        state: story.standing().name(),
        levels: story.requested.ladder.as_ref().map(|ladder| ladder.levels),
        suspension: suspension(&story, put),
        events,
        timeline: moments.into_iter().map(MomentView::from).collect(),
    }))
}

impl From<Moment> for MomentView {
    fn from(moment: Moment) -> Self {
        Self {
            at: rfc3339(moment.at),
            what: moment.what.name(),
            attempt: moment.attempt,
            channel: moment.channel,
            to: moment.to,
            by: moment.by,
            state: moment.state,
            reason: moment.reason,
        }
    }
}

/// What is asked, as RFC-0025 puts it.
struct Put {
    question: String,
    response_type: String,
    choices: Vec<Value>,
    context: Value,
    fallback_value: Value,
}

impl Put {
    fn of(story: &Story) -> Self {
        let asked = &story.requested;
        let data: Value = asked.data.parse().unwrap_or_default();
        let text = |name: &str| data[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let fallback_value = asked.ladder.as_ref().and_then(|ladder| ladder.fallback_value.as_ref());
        let fallback_value = fallback_value.map(|value| plain_answer(asked.kind, value)).unwrap_or_default();
        let plain = |question: Option<String>| Self {
            question: question.unwrap_or_else(|| asked.kind.name().to_owned()),
            response_type: "form".to_owned(),
            choices: Vec::new(),
            context: data.get("context").cloned().unwrap_or_default(),
            fallback_value: fallback_value.clone(),
        };
        match asked.kind {
            // An approval is a choice of its actions.
            InterruptKind::Approval => {
                let actions = data["actions"].as_array().map(Vec::as_slice).unwrap_or_default();
                let choice = |action: &Value| json!({ "value": action, "label": action });
                Self {
                    response_type: "choice".to_owned(),
                    choices: actions.iter().map(choice).collect(),
                    context: data["artifactData"].clone(),
                    ..plain(text("title"))
                }
            }
            InterruptKind::Clarification => Self::questions(&data["questions"], plain),
            _ => plain(["title", "eventType", "customKind", "prompt"].into_iter().find_map(text)),
        }
    }

    /// Several questions are answered together, by a form.
    fn questions(questions: &Value, plain: impl Fn(Option<String>) -> Self) -> Self {
        let questions = questions.as_array().map(Vec::as_slice).unwrap_or_default();
        let texts: Vec<&str> = questions.iter().filter_map(|asked| asked["question"].as_str()).collect();
        let all = plain(Some(texts.join("\n")));
        let [asked] = questions else { return all };
        let listed = asked["choices"].as_array().cloned();
        let enumerated = || {
            let values = asked["schema"]["enum"].as_array()?;
            Some(values.iter().map(|value| json!({ "value": value, "label": value })).collect::<Vec<_>>())
        };
        let (named, choices) =
            (asked["responseType"].as_str(), listed.or_else(enumerated).unwrap_or_default());
        let usual = match (choices.is_empty(), asked["schema"]["type"].as_str()) {
            (false, _) => "choice",
            (true, Some("string")) => "text",
            (true, None) if asked["schema"].is_null() => "text",
            _ => "form",
        };
        Self { response_type: named.unwrap_or(usual).to_owned(), choices, ..all }
    }

    fn masked(story: &Story) -> Self {
        let put = Self::of(story);
        Self {
            question: MASKED.to_owned(),
            response_type: put.response_type,
            choices: Vec::new(),
            context: json!(MASKED),
            fallback_value: if put.fallback_value.is_null() { Value::Null } else { json!(MASKED) },
        }
    }
}

fn suspension(story: &Story, put: Put) -> Suspension {
    let ladder = story.requested.ladder.as_ref();
    let closing = story.closing();
    let responded = closing.filter(|_| story.standing() == Standing::Answered);
    Suspension {
        id: story.requested.interrupt_id,
        question: put.question,
        response_type: put.response_type,
        choices: put.choices,
        context: put.context,
        channel_hint: ladder.and_then(|ladder| ladder.channel_hint.clone()),
        suspended_at: rfc3339(story.at),
        timeout_seconds: ladder.and_then(|ladder| ladder.timeout_seconds),
        expires_at: story.deadline().map(rfc3339),
        fallback_value: put.fallback_value,
        fallback_policy: ladder.map(|ladder| ladder.final_fallback_policy.name()),
        retry_policy: ladder.map(policy),
        response: responded.map(|(_, closed)| response(story, closed)).unwrap_or_default(),
        responded_by: responded.map(|(_, closed)| closed.resolved_by.clone()),
        responded_at: responded.map(|(step, _)| rfc3339(step.at)),
        resolution: match story.standing() {
            Standing::Open => None,
            Standing::Answered => Some("responded"),
            Standing::Expired | Standing::TimedOut => Some("expired"),
            Standing::Cancelled => Some("cancelled"),
        },
    }
}

/// The policy that holds, as one level would give all of it.
pub(crate) fn policy(ladder: &Ladder) -> HumanRetryPolicy {
    HumanRetryPolicy {
        max_attempts: Some(ladder.max_attempts),
        interval_seconds: ladder.interval_seconds,
        strategy: Some(ladder.strategy),
        escalation_ladder: Some(ladder.escalation_ladder.clone()),
        final_fallback_policy: Some(ladder.final_fallback_policy),
    }
}

/// What was answered.
fn response(story: &Story, closed: &InterruptResolved) -> Value {
    if closed.sensitive {
        return json!(MASKED);
    }
    let given = closed.resume_value.as_ref();
    given.map(|value| plain_answer(story.requested.kind, value)).unwrap_or_default()
}

/// An answer as RFC-0025 puts it: that to the one question, what was decided, or all of it.
pub(crate) fn plain_answer(kind: InterruptKind, value: &RawJson) -> Value {
    let value: Value = value.parse().unwrap_or_default();
    let answers = value["answers"].as_object();
    match (kind, answers) {
        (InterruptKind::Approval, _) if value["action"].is_string() => value["action"].clone(),
        (InterruptKind::Clarification, Some(answers)) if answers.len() == 1 => {
            answers.values().next().cloned().unwrap_or_default()
        }
        _ => value,
    }
}

fn events(key: Key, story: &Story, put: &Put) -> Vec<LadderEvent> {
    let id = story.requested.interrupt_id;
    let ladder = story.requested.ladder.as_ref();
    let asked = json!({
        "suspension_id": id,
        "question": put.question,
        "response_type": put.response_type,
        "choices": put.choices,
        "channel_hint": ladder.and_then(|ladder| ladder.channel_hint.as_deref()),
        "timeout_seconds": ladder.and_then(|ladder| ladder.timeout_seconds),
        "fallback_policy": ladder.map(|ladder| ladder.final_fallback_policy.name()),
        "retry_policy": ladder.map(policy),
    });
    let first = LadderEvent {
        kind: "intent.suspended",
        sequence: story.sequence,
        at: rfc3339(story.at),
        payload: asked,
    };
    let told = |step: &Step| {
        let (kind, payload) = event(key, story, step)?;
        Some(LadderEvent { kind, sequence: step.sequence, at: rfc3339(step.at), payload })
    };
    std::iter::once(first).chain(story.steps.iter().filter_map(told)).collect()
}

/// What a step is called by RFC-0026, and what it says.
fn event(key: Key, story: &Story, step: &Step) -> Option<(&'static str, Value)> {
    Some(match &step.what {
        What::Renotified(again) => (
            "intent.suspension_renotified",
            json!({
                "suspension_id": again.interrupt_id,
                "attempt": again.attempt,
                "max_attempts": again.max_attempts,
                "channel_hint": again.channel_hint,
                "notify_to": again.notify_to,
                "next_attempt_at": again.next_attempt_at.map(rfc3339),
            }),
        ),
        What::Escalated(escalated) => (
            "intent.suspension_escalated",
            json!({
                "suspension_id": escalated.interrupt_id,
                "attempt": escalated.attempt,
                "escalated_to": escalated.escalated_to,
                "channel_hint": escalated.channel_hint,
            }),
        ),
        What::Expired(expired) => {
            let mut told = json!({
                "suspension_id": expired.interrupt_id,
                "attempts": expired.attempts,
                "fallback_policy": expired.fallback_policy.map(FallbackPolicy::name),
            });
            if let Some(reason) = &expired.reason {
                told["reason"] = reason.as_str().into();
            }
            ("intent.suspension_expired", told)
        }
        What::Closed(closed) if story.standing() == Standing::Answered => (
            "intent.resumed",
            json!({
                "intent_id": key.id.to_string().trim_start_matches("run-"),
                "suspension_id": closed.interrupt_id,
                "value": response(story, closed),
                "responded_by": closed.resolved_by,
                "responded_at": rfc3339(step.at),
            }),
        ),
        What::Closed(_) | What::Refused(_) => return None,
    })
}
