//! `GET /v1/runs/{runId}/conversations`: what was said in a run's conversations, and what is asked in them now.
//!
//! The journal tells it. What is never shown is masked on the way, as in every event.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use abide_core::{EventType, InterruptId, InterruptKind, Json as RawJson, JsonMap, Key, Open, Run, RunId};
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::events::doc;
use super::mask::MASKED;
use super::runs::RunPath;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::{limits, shape, time};

/// What was said in a run's conversations.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Conversations {
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// In the order in which they were opened.
    pub(crate) conversations: Vec<Conversation>,
    /// Whether earlier turns are left out because there are too many.
    truncated: bool,
}

/// One conversation.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Conversation {
    pub(crate) conversation_id: String,
    /// `open` or `closed`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// What was said first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) initial_prompt: Option<String>,
    /// The node that opened it.
    node_id: String,
    #[schemars(with = "shape::Moment")]
    pub(crate) opened_at: String,
    #[schemars(with = "Option<shape::Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    closed_at: Option<String>,
    /// Why it was closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The turns that were taken, oldest first.
    pub(crate) turns: Vec<Turn>,
    /// The turns that somebody is asked for.
    pending: Vec<Pending>,
}

/// A turn that was taken.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ConversationTurn")]
pub(crate) struct Turn {
    turn_index: u32,
    /// The node that asked.
    node_id: String,
    pub(crate) prompt: String,
    #[schemars(with = "shape::Anything")]
    pub(crate) outcome: RawJson,
    pub(crate) exchanged_by: String,
    #[schemars(with = "shape::Moment")]
    pub(crate) exchanged_at: String,
}

/// A turn that somebody is asked for.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PendingTurn")]
struct Pending {
    turn_index: u32,
    /// The node that asks.
    node_id: String,
    #[schemars(with = "shape::InterruptName")]
    interrupt_id: InterruptId,
    prompt: String,
    #[schemars(with = "shape::Moment")]
    requested_at: String,
}

/// An event, as it is shown.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shown<P> {
    payload: P,
    timestamp: String,
    node_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Opened {
    conversation_id: String,
    title: Option<String>,
    initial_prompt: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Exchanged {
    conversation_id: String,
    turn_index: u32,
    prompt: String,
    outcome: RawJson,
    exchanged_by: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Closed {
    conversation_id: String,
    reason: Option<String>,
}

/// What was said in a run's conversations.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
) -> Result<Json<Conversations>> {
    let key = run.of(&principal)?;
    read(&app, key).await.map(Json)
}

/// The same, for a page.
pub(crate) async fn read(app: &App, key: Key) -> Result<Conversations> {
    let pending = app.engine().read(key, pending).await?;
    let (mut turns, mut truncated) = (VecDeque::new(), false);
    let mut closed: BTreeMap<String, (String, Option<String>)> = BTreeMap::new();
    for shown in events::<Closed>(app, key, "conversation.closed").await? {
        closed.insert(shown.payload.conversation_id, (shown.timestamp, shown.payload.reason));
    }
    let opened = events::<Opened>(app, key, "conversation.opened").await?;
    for shown in events::<Exchanged>(app, key, "conversation.exchanged").await? {
        truncated |= turns.len() == limits::CONVERSATION_TURNS_MAX;
        if truncated {
            turns.pop_front();
        }
        turns.push_back(shown);
    }
    let mut conversations: Vec<Conversation> = opened.into_iter().map(Conversation::of).collect();
    for conversation in &mut conversations {
        if let Some((at, reason)) = closed.remove(&conversation.conversation_id) {
            (conversation.status, conversation.closed_at, conversation.reason) = ("closed", Some(at), reason);
        }
    }
    let mut find = |id: &str, put: &mut dyn FnMut(&mut Conversation)| {
        conversations.iter_mut().find(|conversation| conversation.conversation_id == id).map(put)
    };
    for shown in turns {
        let mut turn = Some(Turn::of(shown));
        if let Some((id, _)) = &turn {
            let id = id.clone();
            find(&id, &mut |conversation| conversation.turns.extend(turn.take().map(|(_, turn)| turn)));
        }
    }
    for (id, asked) in pending {
        let mut asked = Some(asked);
        find(&id, &mut |conversation| conversation.pending.extend(asked.take()));
    }
    Ok(Conversations { run_id: key.id, conversations, truncated })
}

/// All events of a type, as they are shown.
async fn events<P: for<'de> Deserialize<'de>>(app: &App, key: Key, name: &str) -> Result<Vec<Shown<P>>> {
    let kind =
        EventType::by_name(name).ok_or_else(|| ApiError::internal(&"the event is not in the table"))?;
    let (mut from, mut all) = (0, Vec::new());
    loop {
        let page = app.engine().events_of_type(key, kind, from, limits::STREAM_EVENTS_MAX).await?;
        let Some(last) = page.last() else { return Ok(all) };
        from = last.sequence + 1;
        for record in &page {
            let (_, text) = doc::openwop(key.id, record).map_err(|error| ApiError::internal(&error))?;
            all.push(serde_json::from_slice(&text).map_err(|error| ApiError::internal(&error))?);
        }
        let surplus = all.len().saturating_sub(limits::CONVERSATION_TURNS_MAX + 1);
        all.drain(..surplus);
    }
}

/// The turns that somebody is asked for, by the ids of their conversations.
fn pending(run: &Run) -> Vec<(String, Pending)> {
    let asked = run.interrupts().filter(|open| open.requested.kind == InterruptKind::ConversationExchange);
    asked.map(|open| Pending::of(run, open)).collect()
}

impl Conversation {
    fn of(shown: Shown<Opened>) -> Self {
        let Opened { conversation_id, title, initial_prompt } = shown.payload;
        Self {
            conversation_id,
            status: "open",
            title,
            initial_prompt,
            node_id: shown.node_id,
            opened_at: shown.timestamp,
            closed_at: None,
            reason: None,
            turns: Vec::new(),
            pending: Vec::new(),
        }
    }
}

impl Turn {
    fn of(shown: Shown<Exchanged>) -> (String, Self) {
        let Exchanged { conversation_id, turn_index, prompt, outcome, exchanged_by } = shown.payload;
        let (node_id, exchanged_at) = (shown.node_id, shown.timestamp);
        (conversation_id, Self { turn_index, node_id, prompt, outcome, exchanged_by, exchanged_at })
    }
}

impl Pending {
    fn of(run: &Run, open: &Open) -> (String, Self) {
        let asked = &open.requested;
        let mut data: JsonMap = asked.data.parse().unwrap_or_default();
        let mut text = |key: &str| data.remove(key).and_then(|text| text.parse::<String>().ok());
        let (id, prompt) = (text("conversationId").unwrap_or_default(), text("prompt").unwrap_or_default());
        let turn_index = data.remove("turnIndex").and_then(|index| index.parse().ok()).unwrap_or(0);
        let pending = Self {
            turn_index,
            node_id: run.interrupted_node(open).to_string(),
            interrupt_id: asked.interrupt_id,
            prompt: if asked.sensitive { MASKED.to_owned() } else { prompt },
            requested_at: time::rfc3339(open.at),
        };
        (id, pending)
    }
}
