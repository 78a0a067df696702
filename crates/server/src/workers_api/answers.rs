//! What a worker is told of what it did, as the wire has it.

use abide_core::{AskState, Failure, Json as RawJson, JsonMap, Lifecycle, RunId};
use abide_engine::{ChildEnd, Did, OpFailure};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{ApiError, Result};
use crate::{shape, time};

/// What became of one operation.
#[derive(Serialize, JsonSchema)]
#[serde(untagged, rename_all_fields = "camelCase")]
#[schemars(rename = "WorkerOpResult")]
pub(crate) enum OpAnswer {
    /// It was not done.
    Failed(OpRefusal),
    /// A step was begun.
    Begun {
        #[schemars(with = "shape::True")]
        ok: bool,
        /// It had been begun before, and nobody knows how it ended.
        before: bool,
    },
    /// A step is recorded.
    Step {
        #[schemars(with = "shape::True")]
        ok: bool,
        /// What it gave.
        #[schemars(with = "shape::Anything")]
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<RawJson>,
        /// How it failed.
        #[schemars(with = "shape::FailureShape")]
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
        /// It was recorded before, and this is what was recorded then.
        repeated: bool,
    },
    /// Nobody has answered yet.
    Open {
        #[schemars(with = "shape::True")]
        ok: bool,
        #[schemars(extend("const" = "open"))]
        state: &'static str,
        #[schemars(with = "shape::InterruptName")]
        interrupt_id: String,
        /// Nobody can answer from then on.
        #[schemars(with = "shape::Moment")]
        #[serde(skip_serializing_if = "Option::is_none")]
        deadline: Option<String>,
    },
    /// Somebody has answered.
    Answered {
        #[schemars(with = "shape::True")]
        ok: bool,
        #[schemars(extend("const" = "answered"))]
        state: &'static str,
        #[schemars(with = "shape::InterruptName")]
        #[serde(skip_serializing_if = "Option::is_none")]
        interrupt_id: Option<String>,
        /// `resolved`, `rejected` or `expired`: then it is what takes the answer's place.
        outcome: &'static str,
        #[schemars(with = "shape::Anything")]
        value: RawJson,
        /// Who answered.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Nobody will answer.
    Unanswered {
        #[schemars(with = "shape::True")]
        ok: bool,
        #[schemars(extend("const" = "failed"))]
        state: &'static str,
        #[schemars(with = "shape::InterruptName")]
        #[serde(skip_serializing_if = "Option::is_none")]
        interrupt_id: Option<String>,
        #[schemars(with = "shape::FailureShape")]
        error: Failure,
    },
    /// The time has not come.
    Sleeping {
        #[schemars(with = "shape::True")]
        ok: bool,
        #[schemars(extend("const" = "sleeping"))]
        state: &'static str,
        #[schemars(with = "shape::Moment")]
        until: String,
    },
    /// The time has come.
    Over {
        #[schemars(with = "shape::True")]
        ok: bool,
        #[schemars(extend("const" = "over"))]
        state: &'static str,
    },
    /// A child is under way.
    Running {
        #[schemars(with = "shape::True")]
        ok: bool,
        #[schemars(extend("const" = "running"))]
        state: &'static str,
        #[schemars(with = "shape::RunName")]
        run_id: RunId,
    },
    /// A child has completed.
    Completed {
        #[schemars(with = "shape::True")]
        ok: bool,
        #[schemars(extend("const" = "completed"))]
        state: &'static str,
        #[schemars(with = "shape::RunName")]
        run_id: RunId,
        #[schemars(with = "shape::Object")]
        outputs: JsonMap,
    },
    /// A child has failed or was cancelled.
    Ended {
        #[schemars(with = "shape::True")]
        ok: bool,
        #[schemars(extend("enum" = ["failed", "cancelled"]))]
        state: &'static str,
        #[schemars(with = "shape::RunName")]
        run_id: RunId,
        #[schemars(with = "shape::FailureShape")]
        error: Failure,
    },
    /// The version to follow.
    Version {
        #[schemars(with = "shape::True")]
        ok: bool,
        version: u32,
    },
    /// Whether the task was given back: if not, something has come already.
    Parked {
        #[schemars(with = "shape::True")]
        ok: bool,
        parked: bool,
    },
    /// When a failed task is tried again; `null` if it is not.
    Retried {
        #[schemars(with = "shape::True")]
        ok: bool,
        #[schemars(with = "Option<shape::Moment>")]
        retry_at: Option<String>,
    },
    /// It is done.
    Done {
        #[schemars(with = "shape::True")]
        ok: bool,
    },
}

/// Why an operation was not done.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WorkerOpRefusal")]
pub(crate) struct OpRefusal {
    #[schemars(with = "shape::False")]
    ok: bool,
    error: OpProblem,
}

/// What was wrong with it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WorkerOpError")]
struct OpProblem {
    /// A code of the table of errors.
    code: String,
    /// What to change.
    message: String,
    /// The HTTP status that it would have had by itself.
    status: u16,
    #[schemars(with = "shape::Object")]
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Map<String, Value>>,
}

impl OpRefusal {
    pub(super) fn of(refused: ApiError) -> Self {
        let status = refused.status().as_u16();
        let mut envelope = refused.envelope();
        let mut take = |name: &str| envelope.get_mut(name).map(Value::take);
        let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
        let (code, message) = (text(take("error")), text(take("message")));
        let details = take("details").and_then(|details| details.as_object().cloned());
        let error = OpProblem {
            code: code.unwrap_or_default(),
            message: message.unwrap_or_default(),
            status,
            details,
        };
        Self { ok: false, error }
    }
}

/// What is answered to an operation.
pub(super) fn of(done: std::result::Result<Did, OpFailure>) -> Result<OpAnswer> {
    let did = done.map_err(|failure| match failure {
        OpFailure::Skipped => {
            let message = "an operation on the same task before this one failed, so this was not tried";
            ApiError::new("op_skipped", message)
        }
        OpFailure::NoSuchHook => {
            ApiError::new("hook_unknown", "this worker does not have such a call any more; drop it")
        }
        OpFailure::Failed(error) => error.into(),
    })?;
    let ok = true;
    Ok(match did {
        Did::Done => OpAnswer::Done { ok },
        Did::Begun { before } => OpAnswer::Begun { ok, before },
        Did::Step { outcome, repeated } => {
            let (value, error) = match outcome {
                Ok(value) => (Some(value), None),
                Err(failure) => (None, Some(failure)),
            };
            OpAnswer::Step { ok, value, error, repeated }
        }
        Did::Ask(state) => asked(*state),
        Did::Sleep { over: true, .. } => OpAnswer::Over { ok, state: "over" },
        Did::Sleep { until, .. } => OpAnswer::Sleeping { ok, state: "sleeping", until: time::rfc3339(until) },
        Did::Child { run: run_id, end: None } => OpAnswer::Running { ok, state: "running", run_id },
        Did::Child { run, end: Some(end) } => child(run, *end),
        Did::Version(version) => OpAnswer::Version { ok, version },
        Did::Parked(parked) => OpAnswer::Parked { ok, parked },
        Did::Failed { retry_at } => OpAnswer::Retried { ok, retry_at: retry_at.map(time::rfc3339) },
    })
}

fn asked(state: AskState) -> OpAnswer {
    let ok = true;
    match state {
        AskState::Open { id, deadline } => OpAnswer::Open {
            ok,
            state: "open",
            interrupt_id: id.to_string(),
            deadline: deadline.map(time::rfc3339),
        },
        AskState::Answered { id, outcome, value, by } => OpAnswer::Answered {
            ok,
            state: "answered",
            interrupt_id: id.map(|id| id.to_string()),
            outcome: outcome.name(),
            value,
            by,
        },
        AskState::Failed { id, failure } => OpAnswer::Unanswered {
            ok,
            state: "failed",
            interrupt_id: id.map(|id| id.to_string()),
            error: failure,
        },
    }
}

fn child(run_id: RunId, end: ChildEnd) -> OpAnswer {
    let ok = true;
    let ended = |state, code, message: &str| {
        let error = end.error.clone().unwrap_or_else(|| Failure::new(code, message.to_owned()));
        OpAnswer::Ended { ok, state, run_id, error }
    };
    match end.lifecycle {
        Lifecycle::Completed => OpAnswer::Completed { ok, state: "completed", run_id, outputs: end.outputs },
        Lifecycle::Cancelled => ended("cancelled", "child_cancelled", "the child was cancelled"),
        _ => ended("failed", "child_failed", "the child failed"),
    }
}
