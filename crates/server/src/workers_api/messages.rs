//! What a worker is told, as the wire has it.

use std::sync::Arc;

use abide_core::event::{InterruptRequested, InterruptResolved};
use abide_core::{Failure, HookKind, Json as RawJson, JsonMap, Recalled, RunId};
use abide_engine::{History, Holding, HookMessage, Message, TaskMessage};
use schemars::JsonSchema;
use serde::Serialize;

use super::HookName;
use crate::openwop::interrupts::ExchangeView;
use crate::{shape, time};

/// One thing that a worker is told.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub(crate) enum WorkerMessage {
    /// It gets a task.
    Task {
        /// The message's number.
        n: u64,
        /// What the task is called in operations.
        task: String,
        /// What operations on it have to carry.
        fence: u64,
        #[schemars(with = "shape::RunName")]
        run_id: RunId,
        #[schemars(with = "String")]
        node_id: Arc<str>,
        /// The node's `typeId`.
        #[schemars(with = "String")]
        kind: Arc<str>,
        /// Which execution of the node, from 1.
        execution: u32,
        /// Which attempt at it, from 1.
        attempt: u32,
        /// What goes in.
        #[schemars(with = "shape::Object")]
        inputs: JsonMap,
        /// What the definition says of the node.
        #[schemars(with = "shape::Object")]
        config: JsonMap,
        /// The run.
        run: Box<RunOfTask>,
        /// How long it may be in this worker's hands.
        #[serde(skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<i64>,
        /// What it has recorded so far.
        history: HistoryPage,
    },
    /// Something has come that it may wait for: it should ask again.
    Wake {
        /// The message's number.
        n: u64,
        /// The task.
        task: String,
        /// Its fence.
        fence: u64,
    },
    /// It is to stop doing a task.
    Cancel {
        /// The message's number.
        n: u64,
        /// The task.
        task: String,
        /// Its fence.
        fence: u64,
        /// `run_cancelled` or `run_failed`.
        reason: &'static str,
    },
    /// Its agent is called; it says when that is done with `hookDone`.
    Hook {
        /// The message's number.
        n: u64,
        /// What the call is named in `hookDone`.
        id: String,
        /// What happened.
        #[schemars(with = "HookName")]
        hook: HookKind,
        #[schemars(with = "shape::RunName")]
        run_id: RunId,
        #[schemars(with = "String")]
        node_id: Arc<str>,
        /// The agent.
        agent: String,
        /// What was asked.
        suspension: Box<Suspension>,
    },
    /// It gets no more tasks: it should end when it has done those it has.
    Drain {
        /// The message's number.
        n: u64,
    },
}

/// The run of a task.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunOfTask {
    #[schemars(with = "String")]
    workflow_id: Arc<str>,
    /// What went into it.
    #[schemars(with = "shape::Object")]
    inputs: JsonMap,
    tags: Vec<String>,
    #[schemars(with = "shape::Object")]
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<RawJson>,
}

/// What a task has recorded so far.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HistoryPage {
    /// In order.
    items: Vec<HistoryItem>,
    /// What the rest is `after`; `null` if this is all.
    next: Option<u64>,
}

/// One thing that a task has recorded.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub(crate) enum HistoryItem {
    /// A step, with what it gave or how it failed.
    Step {
        key: String,
        #[schemars(with = "shape::Anything")]
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<RawJson>,
        #[schemars(with = "shape::FailureShape")]
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
    },
    /// A step that must not be done twice was under way.
    Begun {
        key: String,
        /// Always false.
        #[schemars(with = "shape::False")]
        idempotent: bool,
    },
    /// A sleep.
    Sleep {
        key: String,
        #[schemars(with = "shape::Moment")]
        until: String,
    },
    /// A child run.
    Child {
        key: String,
        #[schemars(with = "shape::RunName")]
        run_id: RunId,
    },
    /// The version of a change that is followed.
    Version { key: String, version: u32 },
    /// A question.
    Ask {
        /// Its key, if it was given one.
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// Which question of the execution it is, from 1.
        call: u32,
    },
}

impl HistoryPage {
    pub(super) fn of(history: History) -> Self {
        Self { items: history.items.into_iter().map(item).collect(), next: history.next }
    }
}

fn item(recalled: Recalled) -> HistoryItem {
    match recalled {
        Recalled::Step { key, outcome: Ok(value) } => {
            HistoryItem::Step { key, value: Some(value), error: None }
        }
        Recalled::Step { key, outcome: Err(failure) } => {
            HistoryItem::Step { key, value: None, error: Some(failure) }
        }
        Recalled::Begun { key } => HistoryItem::Begun { key, idempotent: false },
        Recalled::Sleep { key, until } => HistoryItem::Sleep { key, until: time::rfc3339(until) },
        Recalled::Child { key, run } => HistoryItem::Child { key, run_id: run },
        Recalled::Version { key, version } => HistoryItem::Version { key, version },
        Recalled::Ask { key, call } => HistoryItem::Ask { key, call },
    }
}

/// A question of an agent, as OpenIntent calls it and its fields.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Suspension {
    #[schemars(with = "shape::InterruptName")]
    id: String,
    /// What is asked, in words.
    question: String,
    /// What an answer looks like: `choice`, `confirm`, `text` or `form`, if the question says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_type: Option<String>,
    /// What can be chosen.
    #[schemars(with = "shape::Anything")]
    #[serde(skip_serializing_if = "Option::is_none")]
    choices: Option<RawJson>,
    /// What the question says beside, `_attempt` and `_max_attempts`, and `_notify_to` if somebody in particular is told.
    #[schemars(with = "shape::Object")]
    context: JsonMap,
    /// By which channel people are told at this attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_hint: Option<String>,
    #[schemars(with = "shape::InterruptKinds")]
    kind: &'static str,
    /// All that is asked.
    #[schemars(with = "shape::Anything")]
    data: RawJson,
    /// The answer, if there is one.
    #[schemars(with = "shape::Anything")]
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<RawJson>,
    /// Who gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    responded_by: Option<String>,
    /// How it ended, if it has: `resolved`, `rejected`, `timeout`, `cancelled` or `expired`.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolution: Option<&'static str>,
    /// What takes the answer's place if nobody answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback_policy: Option<&'static str>,
    /// What those who decide want to know: of the hook `question_asked` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<ExchangeView>,
}

impl WorkerMessage {
    pub(super) fn of(n: u64, message: Message) -> Self {
        let named = |holding: &Holding| (holding.place.to_string(), holding.fence);
        match message {
            Message::Task(told) => task(n, *told),
            Message::Wake(holding) => {
                let (task, fence) = named(&holding);
                Self::Wake { n, task, fence }
            }
            Message::Cancel { holding, reason } => {
                let (task, fence) = named(&holding);
                Self::Cancel { n, task, fence, reason }
            }
            Message::Hook(told) => Self::Hook {
                n,
                id: told.id.to_string(),
                hook: told.id.hook,
                run_id: told.id.run,
                node_id: told.node.clone(),
                agent: told.agent.clone(),
                suspension: Box::new(suspension(&told)),
            },
            Message::Drain => Self::Drain { n },
        }
    }

    /// The message's number.
    pub(super) fn n(&self) -> u64 {
        match self {
            Self::Task { n, .. }
            | Self::Wake { n, .. }
            | Self::Cancel { n, .. }
            | Self::Hook { n, .. }
            | Self::Drain { n } => *n,
        }
    }

    /// What kind of message it is.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Task { .. } => "task",
            Self::Wake { .. } => "wake",
            Self::Cancel { .. } => "cancel",
            Self::Hook { .. } => "hook",
            Self::Drain { .. } => "drain",
        }
    }

    /// How many bytes of users' own it carries, about.
    pub(super) fn size(&self) -> usize {
        let of = |map: &JsonMap| map.values().map(|value| value.text().len()).sum::<usize>();
        match self {
            Self::Task { inputs, config, run, history, .. } => {
                let recorded = history.items.iter().map(|item| match item {
                    HistoryItem::Step { value: Some(value), .. } => value.text().len(),
                    _ => 0,
                });
                of(inputs) + of(config) + of(&run.inputs) + recorded.sum::<usize>()
            }
            Self::Hook { suspension, .. } => suspension.data.text().len(),
            _ => 0,
        }
    }
}

fn task(n: u64, told: TaskMessage) -> WorkerMessage {
    let Holding { place, fence } = &told.holding;
    WorkerMessage::Task {
        n,
        task: place.to_string(),
        fence: *fence,
        run_id: place.run,
        node_id: place.task.node.clone(),
        kind: told.kind,
        execution: place.task.execution,
        attempt: told.attempt,
        inputs: told.inputs,
        config: told.config,
        run: Box::new(RunOfTask {
            workflow_id: told.workflow_id,
            inputs: told.run_inputs,
            tags: told.tags,
            metadata: told.metadata,
        }),
        timeout_ms: told.timeout_ms,
        history: HistoryPage::of(told.history),
    }
}

fn suspension(told: &HookMessage) -> Suspension {
    let asked: &InterruptRequested = &told.requested;
    let resolved: Option<&InterruptResolved> = told.resolved.as_deref();
    let data: JsonMap = asked.data.parse().unwrap_or_default();
    let text = |map: &JsonMap, name: &str| map.get(name).and_then(|value| value.parse::<String>().ok());
    let questions: Vec<JsonMap> =
        data.get("questions").and_then(|questions| questions.parse().ok()).unwrap_or_default();
    let first = questions.first();
    let question = first.and_then(|first| text(first, "question"));
    let question =
        question.or_else(|| ["question", "prompt", "title"].iter().find_map(|name| text(&data, name)));
    let ladder = asked.ladder.as_ref();
    let target = ladder.map(|ladder| ladder.target(told.id.attempt));
    let mut context: JsonMap =
        data.get("context").and_then(|context| context.parse().ok()).unwrap_or_default();
    context.insert("_attempt".to_owned(), RawJson::of(&told.id.attempt));
    let most = ladder.map_or(1, |ladder| ladder.max_attempts);
    context.insert("_max_attempts".to_owned(), RawJson::of(&most));
    if let Some(whom) = target.and_then(|target| target.notify_to) {
        context.insert("_notify_to".to_owned(), RawJson::of(whom));
    }
    let answered = resolved.and_then(|resolved| resolved.resume_value.as_ref());
    Suspension {
        id: asked.interrupt_id.to_string(),
        question: question.unwrap_or_default(),
        response_type: first.and_then(|first| text(first, "responseType")),
        choices: first.and_then(|first| first.get("choices").cloned()),
        context,
        channel_hint: target.and_then(|target| target.channel_hint).map(str::to_owned),
        kind: asked.kind.name(),
        response: answered
            .map(|value| if questions.len() == 1 { alone(value, first) } else { value.clone() }),
        responded_by: resolved.filter(|_| answered.is_some()).map(|resolved| resolved.resolved_by.clone()),
        resolution: resolved.map(|resolved| resolved.outcome.name()),
        fallback_policy: ladder.map(|ladder| ladder.final_fallback_policy.name()),
        asked: told.asked.as_deref().map(ExchangeView::of),
        data: asked.data.clone(),
    }
}

/// The answer to the only question; all that was answered if it is not a clarification.
fn alone(value: &RawJson, question: Option<&JsonMap>) -> RawJson {
    let id: Option<String> = question.and_then(|question| question.get("id")?.parse().ok());
    let answers = value.parse::<JsonMap>().ok().and_then(|mut value| value.remove("answers"));
    let answers = answers.and_then(|answers| answers.parse::<JsonMap>().ok());
    let alone = id.and_then(|id| answers?.remove(&id));
    alone.unwrap_or_else(|| value.clone())
}
