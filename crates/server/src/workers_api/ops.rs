//! What a worker does with a task, as the wire has it.
//!
//! An operation is read twice: once for what it is, and once for what belongs to that. Users' values stay text.

use abide_core::event::{LogLine, Progress, Wait};
use abide_core::limits::{AGENT_NAME_CHARS_MAX, CODE_CHARS_MAX, REASON_CHARS_MAX, STEP_KEY_CHARS_MAX};
use abide_core::{
    Confidence, Failure, FailureClass, HookKind, InterruptId, Json as RawJson, JsonMap, Judgement, WorkAsk,
    WorkChild, WorkFailure, WorkJudgement, WorkOp,
};
use abide_engine::{Holding, Op};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::place_of;
use crate::error::{ApiError, Result};
use crate::shape;

/// Declares the operations: the struct of each, and the shape of any of them.
macro_rules! operations {
    ($($(#[doc = $doc:literal])* $name:ident = $tag:literal {
        $($(#[$meta:meta])* $field:ident: $type:ty,)*
    })*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Deserialize, JsonSchema)]
            #[serde(rename_all = "camelCase", deny_unknown_fields)]
            pub(crate) struct $name {
                /// What is done.
                #[schemars(with = "String", extend("const" = $tag))]
                #[expect(dead_code, reason = "it was read before, to know what this is")]
                op: IgnoredAny,
                $($(#[$meta])* $field: $type,)*
            }
        )*

        /// What each is called.
        const TAGS: &[&str] = &[$($tag),*];

        /// What a worker does.
        #[derive(JsonSchema)]
        #[serde(untagged)]
        #[schemars(rename = "WorkerOp")]
        #[expect(dead_code, reason = "it carries the schema alone")]
        #[expect(clippy::enum_variant_names, reason = "each is named as what it holds")]
        pub(crate) enum OneOp {
            $($name($name),)*
        }
    };
}

operations! {
    /// It is about to do a step that must not be done twice.
    BeginOp = "begin" {
        /// The task.
        task: String,
        /// Its fence.
        fence: u64,
        /// What the step is known by.
        #[schemars(length(min = 1, max = STEP_KEY_CHARS_MAX))]
        key: String,
    }
    /// It did a step: `value` is what that gave, or `error` how it failed.
    StepOp = "step" {
        /// The task.
        task: String,
        /// Its fence.
        fence: u64,
        /// What the step is known by.
        #[schemars(length(min = 1, max = STEP_KEY_CHARS_MAX))]
        key: String,
        /// What it gave.
        #[serde(default, deserialize_with = "given")]
        #[schemars(with = "shape::Anything")]
        value: Option<RawJson>,
        /// How it failed.
        #[serde(default)]
        error: Option<OpError>,
    }
    /// It asks somebody, or asks how that stands.
    AskOp = "ask" {
        /// The task.
        task: String,
        /// Its fence.
        fence: u64,
        /// What names the question in its run; without, it is named by `call`.
        #[serde(default)]
        key: Option<String>,
        /// Which question of the execution it is, from 1.
        #[schemars(range(min = 1))]
        call: u32,
        /// What is asked: `{kind, data, resumeSchema?, timeoutMs?}`.
        #[schemars(with = "shape::Object")]
        payload: RawJson,
        /// How it goes on if nobody answers: what RFC-0025 and RFC-0026 of OpenIntent let a call say.
        #[serde(default)]
        #[schemars(with = "Option<shape::Object>")]
        ladder: Option<RawJson>,
        /// Who may answer; left out, the definition says.
        #[serde(default)]
        respondents: Option<Vec<String>>,
        /// It has one question with the id `answer`, and the answer is that one's alone.
        #[serde(default)]
        single: bool,
    }
    /// It waits for a time, or asks whether that has come.
    SleepOp = "sleep" {
        /// The task.
        task: String,
        /// Its fence.
        fence: u64,
        /// What the sleep is known by.
        #[schemars(length(min = 1, max = STEP_KEY_CHARS_MAX))]
        key: String,
        /// How long.
        #[schemars(range(min = 0))]
        ms: i64,
    }
    /// It runs another workflow, or asks how that stands.
    ChildOp = "child" {
        /// The task.
        task: String,
        /// Its fence.
        fence: u64,
        /// What the child is known by.
        #[schemars(length(min = 1, max = STEP_KEY_CHARS_MAX))]
        key: String,
        /// The workflow.
        workflow_id: String,
        /// What goes in.
        #[serde(default)]
        #[schemars(with = "shape::Object")]
        inputs: JsonMap,
        /// The variables that it wants to hear at the end.
        #[serde(default)]
        outputs: Vec<String>,
        /// Whether the child is cancelled when the run ends before it.
        #[serde(default = "yes")]
        cascade: bool,
    }
    /// It wants to know which version of a change it follows.
    VersionOp = "version" {
        /// The task.
        task: String,
        /// Its fence.
        fence: u64,
        /// The change.
        #[schemars(length(min = 1, max = STEP_KEY_CHARS_MAX))]
        key: String,
        /// The newest version that the code knows.
        version: u32,
        /// The code is doing again what it did before it knew of the change.
        #[serde(default)]
        old: bool,
    }
    /// It gives the task back until something comes that it waits for.
    ParkOp = "park" {
        /// The task.
        task: String,
        /// Its fence.
        fence: u64,
        /// Any of these.
        waits: Vec<WaitFor>,
    }
    /// It is done.
    CompleteOp = "complete" {
        /// The task.
        task: String,
        /// Its fence.
        fence: u64,
        /// With this.
        #[serde(default)]
        #[schemars(with = "Option<shape::Object>")]
        outputs: Option<JsonMap>,
    }
    /// It failed.
    FailOp = "fail" {
        /// The task.
        task: String,
        /// Its fence.
        fence: u64,
        /// How.
        error: OpError,
        /// What kind of failure it is.
        #[schemars(schema_with = "failure_classes")]
        class: FailureClass,
        /// Whether another attempt could end better.
        retryable: bool,
        /// Whether something may have been done that is not recorded.
        effect: Effect,
        /// When the next attempt may be made at the earliest.
        #[serde(default)]
        #[schemars(range(min = 0))]
        retry_after_ms: Option<i64>,
    }
    /// It says how far it is.
    NoteOp = "note" {
        /// The task.
        task: String,
        /// Its fence.
        fence: u64,
        /// How far.
        #[serde(default)]
        progress: Option<NewProgress>,
        /// In words.
        #[serde(default)]
        lines: Vec<NewLine>,
    }
    /// Its agent has decided: somebody ratifies that if it is not sure enough. Or it asks how that stands.
    DecideOp = "decide" {
        /// The task.
        task: String,
        /// Its fence.
        fence: u64,
        /// What names the decision in its run; without, it is named by `call`.
        #[serde(default)]
        key: Option<String>,
        /// Which question of the execution it is, from 1.
        #[schemars(range(min = 1))]
        call: u32,
        /// The agent that decided; left out, the one that this worker works as.
        #[serde(default)]
        #[schemars(length(min = 1, max = AGENT_NAME_CHARS_MAX))]
        agent_id: Option<String>,
        /// What it decided.
        #[schemars(with = "shape::Anything")]
        decision: RawJson,
        /// How sure it is, from 0 to 1. `"NaN"`, `"Infinity"` and `"-Infinity"` say nothing, and are noted as faulty.
        #[serde(default)]
        #[schemars(with = "Option<shape::Anything>")]
        confidence: Option<RawJson>,
        /// How it goes on if nobody ratifies it.
        #[serde(default)]
        #[schemars(with = "Option<shape::Object>")]
        ladder: Option<RawJson>,
        /// Who may ratify it; left out, the definition says.
        #[serde(default)]
        respondents: Option<Vec<String>>,
    }
    /// It decided whether to ask: `{mode, should_ask, rationale, signals}`.
    DecisionOp = "decision" {
        /// The task.
        task: String,
        /// Its fence.
        fence: u64,
        /// What it decided.
        #[schemars(with = "shape::Object")]
        payload: JsonMap,
    }
    /// It has not begun, and wants another to do it.
    ReleaseOp = "release" {
        /// The task.
        task: String,
        /// Its fence.
        fence: u64,
    }
    /// It is done with a call of its agent.
    HookDoneOp = "hookDone" {
        /// Which call.
        id: String,
        /// Why it failed, if it did: it is called again then.
        #[serde(default)]
        error: Option<String>,
        /// What those who decide are told, if that is what it was called for.
        #[serde(default)]
        #[schemars(with = "Option<shape::Anything>")]
        answer: Option<RawJson>,
    }
}

/// How something failed.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WorkerError")]
struct OpError {
    /// Stable, for programs: lower-case letters, digits and `_`.
    code: String,
    /// For people.
    message: String,
    /// Anything more.
    #[serde(default)]
    #[schemars(with = "Option<shape::Object>")]
    details: Option<RawJson>,
}

/// Something that a task waits for: one of these.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum WaitFor {
    /// An answer.
    Interrupt(#[schemars(with = "shape::InterruptName")] InterruptId),
    /// A sleep's key.
    Sleep(String),
    /// A child's key.
    Child(String),
}

/// Whether something may have been done.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "WorkerEffect")]
enum Effect {
    None,
    Possible,
}

/// What kinds of failure there are.
fn failure_classes(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "enum": FailureClass::ALL.map(|(_, name)| name) })
}

/// How far a task is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WorkerProgress")]
struct NewProgress {
    done: f64,
    #[serde(default)]
    total: Option<f64>,
    #[serde(default)]
    message: Option<String>,
}

/// A line of a worker's log.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WorkerLine")]
struct NewLine {
    /// `debug`, `info`, `warn` or `error`.
    level: String,
    message: String,
}

fn yes() -> bool {
    true
}

/// A value that is there, be it null.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(from).map(Some)
}

/// What tells how to read the rest.
#[derive(Deserialize)]
struct Tagged {
    op: String,
}

/// Whoever asks, where a worker does.
pub(super) struct Asker {
    /// Its agent, and what that wants to be called for.
    pub(super) agent: (String, Vec<HookKind>),
    /// Whose key it has.
    pub(super) principal: String,
}

/// Reads an operation of a worker.
pub(super) fn read(given: &RawJson, place: &str, asker: &Asker) -> Result<Op> {
    let reader = Reader { given, place };
    let tagged: Tagged = reader.read()?;
    match tagged.op.as_str() {
        "begin" => {
            let op: BeginOp = reader.read()?;
            reader.work(&op.task, op.fence, WorkOp::Begin { key: op.key })
        }
        "step" => reader.step(),
        "ask" => reader.ask(asker),
        "decide" => reader.decide(asker),
        "sleep" => {
            let op: SleepOp = reader.read()?;
            reader.work(&op.task, op.fence, WorkOp::Sleep { key: op.key, ms: op.ms })
        }
        "child" => reader.child(),
        "version" => {
            let op: VersionOp = reader.read()?;
            let (key, version, old) = (op.key, op.version, op.old);
            reader.work(&op.task, op.fence, WorkOp::Version { key, version, old })
        }
        "park" => reader.park(),
        "complete" => {
            let op: CompleteOp = reader.read()?;
            let outputs = op.outputs.map(|outputs| RawJson::of(&outputs));
            let mut by = vec![asker.agent.0.clone(), asker.principal.clone()];
            by.dedup();
            reader.work(&op.task, op.fence, WorkOp::Complete { outputs, by })
        }
        "fail" => reader.fail(),
        "note" => reader.note(),
        "decision" => {
            let op: DecisionOp = reader.read()?;
            reader.work(&op.task, op.fence, WorkOp::Decide { decision: op.payload })
        }
        "release" => {
            let op: ReleaseOp = reader.read()?;
            Ok(Op::Release(reader.holding(&op.task, op.fence)?))
        }
        "hookDone" => {
            let op: HookDoneOp = reader.read()?;
            let id = op.id.parse().map_err(|reason: String| reader.refuse("id", &reason))?;
            let error = op.error.map(|error| error.chars().take(REASON_CHARS_MAX).collect());
            Ok(Op::EndHook { id, error, answer: op.answer })
        }
        _ => Err(reader.refuse("op", &format!("'op' is one of {}", TAGS.join(", ")))),
    }
}

/// An operation, and where it stands in the request.
struct Reader<'a> {
    given: &'a RawJson,
    place: &'a str,
}

impl Reader<'_> {
    fn read<T: DeserializeOwned>(&self) -> Result<T> {
        let mut reader = serde_json::Deserializer::from_str(self.given.text());
        serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let below = error.path().to_string();
            let message = format!("the operation is not what this endpoint takes: {}", error.inner());
            if below == "." { ApiError::invalid(self.place, message) } else { self.refuse(&below, &message) }
        })
    }

    fn refuse(&self, field: &str, message: &str) -> ApiError {
        let field = if self.place.is_empty() { field.to_owned() } else { format!("{}.{field}", self.place) };
        ApiError::invalid(&field, message)
    }

    fn holding(&self, task: &str, fence: u64) -> Result<Holding> {
        let field = if self.place.is_empty() { "task".to_owned() } else { format!("{}.task", self.place) };
        Ok(Holding { place: place_of(task, &field)?, fence })
    }

    fn work(&self, task: &str, fence: u64, op: WorkOp) -> Result<Op> {
        Ok(Op::Work(self.holding(task, fence)?, Box::new(op)))
    }

    fn step(&self) -> Result<Op> {
        let op: StepOp = self.read()?;
        let outcome = match (op.value, op.error) {
            (Some(value), None) => Ok(value),
            (None, Some(error)) => Err(self.failure(error)?),
            _ => return Err(self.refuse("value", "a step has either a 'value' or an 'error'")),
        };
        self.work(&op.task, op.fence, WorkOp::Record { key: op.key, outcome })
    }

    fn child(&self) -> Result<Op> {
        let op: ChildOp = self.read()?;
        let (key, workflow_id, inputs) = (op.key, op.workflow_id, op.inputs);
        let child = WorkChild { key, workflow_id, inputs, outputs: op.outputs, cascade: op.cascade };
        self.work(&op.task, op.fence, WorkOp::Child(child))
    }

    fn park(&self) -> Result<Op> {
        let op: ParkOp = self.read()?;
        let wait = |wait| match wait {
            WaitFor::Interrupt(id) => Wait::Interrupt(id),
            WaitFor::Sleep(key) => Wait::Sleep(key),
            WaitFor::Child(key) => Wait::Child(key),
        };
        let waits = op.waits.into_iter().map(wait).collect();
        self.work(&op.task, op.fence, WorkOp::Park { waits })
    }

    fn note(&self) -> Result<Op> {
        let op: NoteOp = self.read()?;
        let progress = op.progress.map(|progress| {
            let NewProgress { done, total, message } = progress;
            Progress { done, total, message }
        });
        let line = |line: NewLine| LogLine { level: line.level, message: line.message };
        let lines = op.lines.into_iter().map(line).collect();
        self.work(&op.task, op.fence, WorkOp::Note { progress, lines })
    }

    fn ask(&self, Asker { agent: (agent, hooks), principal }: &Asker) -> Result<Op> {
        let op: AskOp = self.read()?;
        let ask = WorkAsk {
            agent: agent.clone(),
            principal: Some(principal.clone()),
            key: op.key,
            call: op.call,
            payload: op.payload,
            ladder: op.ladder,
            respondents: op.respondents,
            single: op.single,
            hooks: hooks.clone(),
        };
        self.work(&op.task, op.fence, WorkOp::Ask(Box::new(ask)))
    }

    fn decide(&self, Asker { agent: (agent, hooks), .. }: &Asker) -> Result<Op> {
        let op: DecideOp = self.read()?;
        let confidence = Confidence::read(op.confidence.as_ref());
        let confidence = confidence.map_err(|message| self.refuse("confidence", &message))?;
        let name = op.agent_id.unwrap_or_else(|| agent.clone());
        if !(1..=AGENT_NAME_CHARS_MAX).contains(&name.chars().count()) {
            let message = format!("'agentId' has 1 to {AGENT_NAME_CHARS_MAX} characters");
            return Err(self.refuse("agentId", &message));
        }
        let made = WorkJudgement {
            judged: Judgement { agent: name, decision: op.decision, confidence },
            key: op.key,
            call: op.call,
            ladder: op.ladder,
            respondents: op.respondents,
            hooks: hooks.clone(),
        };
        self.work(&op.task, op.fence, WorkOp::Judge(Box::new(made)))
    }

    fn fail(&self) -> Result<Op> {
        let op: FailOp = self.read()?;
        let failed = WorkFailure {
            failure: self.failure(op.error)?,
            class: op.class,
            retryable: op.retryable,
            possible_effect: matches!(op.effect, Effect::Possible),
            retry_after_ms: op.retry_after_ms,
        };
        self.work(&op.task, op.fence, WorkOp::Fail(failed))
    }

    /// What a worker says went wrong. Its code stands in events and conditions, so it has to look like one.
    fn failure(&self, error: OpError) -> Result<Failure> {
        let is_code = (1..=CODE_CHARS_MAX).contains(&error.code.len())
            && error
                .code
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !is_code {
            let message = format!("a code has 1 to {CODE_CHARS_MAX} lower-case letters, digits and _");
            return Err(self.refuse("error.code", &message));
        }
        if error.details.as_ref().is_some_and(|details| details.type_name() != "object") {
            return Err(self.refuse("error.details", "'details' is an object"));
        }
        let message: String = error.message.chars().take(REASON_CHARS_MAX).collect();
        Ok(Failure { details: error.details, ..Failure::new(&error.code, message) })
    }
}
