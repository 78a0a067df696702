//! The error envelope: exactly `{error, message, details?}`, whatever went wrong.

use abide_core::fork::Unforked;
use abide_core::{ErrorCode, Failure, Problem, Rejection, SchemaError};
use abide_engine::Error as EngineError;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{hand_api, idempotency, limits, openintent};

/// An answer that says no.
#[derive(Debug)]
pub(crate) struct ApiError {
    code: &'static str,
    message: String,
    details: Map<String, Value>,
    /// The status, if it is not that of the code.
    status: Option<StatusCode>,
    /// What a receipt says was done came to nothing afterwards.
    undone: bool,
}

/// What handlers return.
pub(crate) type Result<T> = std::result::Result<T, ApiError>;

impl ApiError {
    /// An error with a code from the table.
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        debug_assert!(ErrorCode::find(code).is_some(), "{code} is not in the table of error codes");
        Self { code, message: message.into(), details: Map::new(), status: None, undone: false }
    }

    /// Something the caller sent is wrong, in this field.
    pub(crate) fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::new("validation_error", message).with("field", field)
    }

    /// A definition that is not valid: all that is wrong with it, and the first thing in words.
    pub(crate) fn problems(problems: &[Problem]) -> Self {
        let first = problems.first().map(ToString::to_string).unwrap_or_default();
        let count = match problems.len() {
            1 => "1 problem".to_owned(),
            more => format!("{more} problems, and this is the first"),
        };
        let message = format!("the definition has {count}: {first}");
        Self::new("validation_error", message).with("problems", json!(shown(problems)))
    }

    /// Whether something that the caller sent is wrong.
    pub(crate) fn is_invalid(&self) -> bool {
        self.code == "validation_error"
    }

    /// An answer that is not what was asked for: everything that is wrong with it, by JSON pointers into it.
    pub(crate) fn bad_answer(message: String, errors: &[SchemaError]) -> Self {
        let problems: Vec<BadPart> =
            errors.iter().map(|error| BadPart { path: &error.path, message: &error.message }).collect();
        Self::invalid("resumeValue", message).with("problems", json!(problems))
    }

    /// The same error under another status than its code has.
    pub(crate) fn under(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    /// The same about a field that is spelt otherwise where it was sent.
    pub(crate) fn respelt(mut self, field: &str, as_sent: &str) -> Self {
        if !field.is_empty() && field != as_sent {
            self.message = self.message.replace(&format!("'{field}'"), &format!("'{as_sent}'"));
            self.details.insert("field".to_owned(), json!(as_sent));
        }
        self
    }

    /// The same error of something that a receipt says was done.
    fn undoing(mut self) -> Self {
        self.undone = true;
        self
    }

    /// Whether a receipt that says that it was done does not hold.
    pub(crate) fn undoes(&self) -> bool {
        self.undone
    }

    /// One of its details.
    pub(crate) fn detail(&self, name: &str) -> Option<&Value> {
        self.details.get(name)
    }

    /// Adds a detail.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// A failure of ours. What exactly stands in the log, under the id that the caller gets.
    pub(crate) fn internal(what: &dyn std::fmt::Display) -> Self {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let trace_id = abide_engine::trace::current().map(|trace| trace.id());
        tracing::error!(correlation_id = %id, trace_id, error = %what, "a request failed");
        let message =
            "something failed inside the server; the log has the details under details.correlationId";
        Self::new("internal_error", message).with("correlationId", id)
    }

    /// The body of the answer.
    pub(crate) fn envelope(self) -> Value {
        let mut body = json!({ "error": self.code, "message": self.message });
        if !self.details.is_empty() {
            body["details"] = Value::Object(self.details);
        }
        body
    }

    /// The code and the message.
    pub(crate) fn into_words(self) -> (&'static str, String) {
        (self.code, self.message)
    }

    /// The HTTP status that the table has for the code.
    pub(crate) fn status(&self) -> StatusCode {
        let status = ErrorCode::find(self.code).map_or(500, |entry| entry.status);
        self.status.unwrap_or(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
    }

    /// What is wrong with a worker, or with one more of them.
    fn about_workers(error: &EngineError) -> Self {
        let full = |most: usize, of: &str, way_out: &str| {
            let message = format!("your tenant has {most} {of}, which is as many as one may have; {way_out}");
            Self::new("too_many", message)
        };
        match error {
            EngineError::WorkersFull => {
                full(abide_engine::limits::SESSIONS_OF_TENANT_MAX, "workers", "stop some")
            }
            EngineError::KindsFull => full(abide_engine::limits::KINDS_OF_TENANT_MAX, "kinds", "forget some"),
            unknown => Self::new("worker_unknown", format!("{unknown}, and say what it has in 'holding'")),
        }
    }

    /// What a run would fail with, said to whoever asked for it.
    fn of_failure(failure: Failure) -> Self {
        let Some(entry) = ErrorCode::find(&failure.code) else { return Self::internal(&failure.message) };
        let told = Self::new(entry.code, failure.message);
        if entry.status == 0 { told.under(StatusCode::UNPROCESSABLE_ENTITY) } else { told }
    }

    /// Why a child that was asked for was not started. What a run would fail with is the request's fault here.
    fn of_child(failure: Failure) -> Self {
        match ErrorCode::find(&failure.code) {
            Some(entry) if entry.status > 0 => Self::new(entry.code, failure.message),
            _ => Self::invalid("workflowId", failure.message),
        }
    }

    /// The store can't be reached. Why stands in the log: it tells of machines that the caller does not know.
    pub(crate) fn store_away(reason: &str) -> Self {
        tracing::warn!(reason, "a request was refused, because the store can't be reached");
        Self::new(
            "store_unavailable",
            "the server can't reach its database for now; nothing was changed, try again",
        )
    }

    /// What may well be done when it is asked for again, or else a failure of ours.
    fn for_now(error: &EngineError) -> Self {
        use abide_store::Error::{Closed, Unavailable};
        match error {
            EngineError::Draining => {
                Self::unavailable("the server is shutting down; try again at another or later")
            }
            EngineError::Newer { .. } => Self::unavailable(
                "a newer abide has gone on with the run; try again, which may reach one, or upgrade this server",
            ),
            EngineError::Contended => Self::unavailable("the run changes too quickly; try again"),
            EngineError::Store(Closed) => Self::unavailable("the server is shutting down"),
            EngineError::Store(Unavailable(reason)) => Self::store_away(reason),
            other => Self::internal(other),
        }
    }

    fn unavailable(message: &str) -> Self {
        Self::new("unavailable", message)
    }
}

/// Something that is wrong with an answer.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BadPart<'a> {
    /// Where: a JSON pointer into the answer.
    path: &'a str,
    /// What, and what to change.
    message: &'a str,
}

/// Something that is wrong with a definition, as the wire has it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct ShownProblem {
    /// Where.
    place: String,
    /// What, and what to change.
    message: String,
}

/// Problems as the wire has them.
pub(crate) fn shown(problems: &[Problem]) -> Vec<ShownProblem> {
    let shown = |found: &Problem| ShownProblem { place: found.place.clone(), message: found.message.clone() };
    problems.iter().map(shown).collect()
}

impl From<abide_store::Error> for ApiError {
    fn from(error: abide_store::Error) -> Self {
        EngineError::from(error).into()
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::RunNotFound(run) => Self::new("run_not_found", format!("there is no run {run}")),
            EngineError::WorkflowNotFound(id) => {
                let message = format!(
                    "there is no workflow '{id}'; check its id, or push it: abide workflow push FILE"
                );
                Self::new("workflow_not_found", message).with("workflowId", id)
            }
            EngineError::Rejected(rejection) => rejection.into(),
            EngineError::DependencyNotFound(_) | EngineError::Circle { .. } => Self::of_graph(&error),
            EngineError::ChildRefused(failure) => Self::of_child(*failure).undoing(),
            EngineError::Claimed(run) => {
                let message = format!(
                    "{run} is under way for this workflow and scope; wait for its end, cancel it, or leave X-Dedup out"
                );
                Self::new("run_already_active", message)
                    .with("activeRunId", run.to_string())
                    .with("activeHost", "cloud")
                    .with("retryAfter", limits::DEDUP_RETRY_SECONDS)
            }
            // Somebody else was quicker; what was answered there is found when the request is repeated.
            EngineError::Store(abide_store::Error::Receipted) => idempotency::in_flight(),
            EngineError::NotEnded(run) => {
                let message = format!("{run} has not ended; cancel it first, or wait for its end");
                Self::new("run_not_ended", message)
            }
            EngineError::Erased(run) => {
                let message = format!("what {run} read and wrote was erased; only its outline is left");
                Self::new("run_erased", message)
            }
            EngineError::Unforked(unforked) => Self::of_fork(&unforked),
            EngineError::AnnotationsFull(run) => {
                let most = abide_core::limits::ANNOTATIONS_MAX;
                let message = format!("{run} has {most} annotations, which is as many as a run may have");
                Self::new("annotations_full", message)
            }
            EngineError::EventConflict(id) => {
                let message = format!(
                    "event '{id}' was told before with another type or payload; give a new event a new eventId"
                );
                Self::new("event_id_conflict", message)
            }
            EngineError::EventsFull => {
                let most = abide_engine::limits::EVENTS_KEPT_MAX;
                let message = format!(
                    "{most} events are kept that no run has asked for; send this again later, or only what is waited for"
                );
                Self::new("events_full", message)
            }
            EngineError::WorkerUnknown(_) | EngineError::WorkersFull | EngineError::KindsFull => {
                Self::about_workers(&error)
            }
            EngineError::Untruncatable { reason, .. } => {
                Self::new("run_not_truncatable", format!("the run's journal can't be cut: {reason}"))
            }
            EngineError::Unrecordable { reason, .. } => {
                let message =
                    format!("nothing can be recorded in the run: {reason}; GET its /resume tells more");
                Self::new("resume_missing_runtime_artifacts", message)
            }
            other => Self::for_now(&other),
        }
    }
}

impl ApiError {
    /// Why a run can't wait for another one.
    fn of_graph(error: &EngineError) -> Self {
        match error {
            EngineError::DependencyNotFound(run) => {
                let message =
                    format!("there is no run {run} to wait for; a group can't be waited for either");
                Self::new("dependency_not_found", message).with("runId", run.to_string())
            }
            EngineError::Circle { run, on } => {
                let message = format!(
                    "{on} waits for {run} already, directly or by way of others, so neither {run} nor a child of it can wait \
                     for {on}"
                );
                Self::new("dependency_circle", message)
                    .with("runId", run.to_string())
                    .with("dependsOn", on.to_string())
            }
            other => Self::internal(other),
        }
    }

    /// Why a run can't be forked.
    fn of_fork(unforked: &Unforked) -> Self {
        let message = unforked.to_string();
        match unforked {
            Unforked::Beyond { events, .. } => {
                Self::new("fork_beyond_log", message).with("field", "fromSeq").with("events", *events)
            }
            Unforked::TooLarge => Self::new("fork_too_large", message),
            other => Self::internal(other),
        }
    }
}

impl ApiError {
    /// What is wrong with something that is about several runs, or is done by hand.
    fn of_containers(rejection: &Rejection, message: String) -> Self {
        match rejection {
            Rejection::Ended(_) => Self::new("run_over", message),
            Rejection::DeadlineExceeded => Self::new("portfolio_deadline_exceeded", message),
            Rejection::NotDraft => Self::new("run_not_draft", message),
            Rejection::NoDependency => Self::new("dependency_not_found", message),
            Rejection::NoGroup => Self::new("group_not_found", message),
            Rejection::NoMember => Self::new("member_not_found", message),
            Rejection::GroupUnfinished { unfinished } => {
                Self::new("group_unfinished", message).with("unfinished", *unfinished)
            }
            Rejection::Claimed { agent } => Self::new("node_claimed", message).with("agent", agent.as_str()),
            Rejection::NotClaimed => Self::new("node_not_claimed", message),
            Rejection::Asking => Self::new("node_asking", message),
            Rejection::Unclaimed(why) => hand_api::unclaimed(why),
            Rejection::Outputs { missing, type_errors } => {
                let error = if missing.is_empty() { "OutputTypeMismatchError" } else { "MissingOutputError" };
                let wrong: Vec<Value> = type_errors
                    .iter()
                    .map(|wrong| json!({"output": wrong.output, "expected": wrong.expected, "found": wrong.found}))
                    .collect();
                Self::new("outputs_unfit", message)
                    .with("error", error)
                    .with("missing", missing.clone())
                    .with("type_errors", wrong)
            }
            Rejection::NoCoordinator => Self::new("coordinator_not_found", message),
            Rejection::Coordinated { agent, .. } => {
                Self::new("run_coordinated", message).with("agent", agent.as_str())
            }
            Rejection::UnknownTask(_) => Self::new("task_not_found", message),
            Rejection::UnknownPlan(_) => Self::new("plan_not_found", message),
            Rejection::IllegalTransition(_) => Self::new("illegal_transition", message),
            Rejection::VersionConflict { expected, found } => Self::new("version_conflict", message)
                .with("expectedVersion", *expected)
                .with("foundVersion", *found),
            Rejection::ChildrenUnfinished { unfinished } => {
                Self::new("children_unfinished", message).with("unfinished", *unfinished)
            }
            other => openintent::refused::of(other, &message).unwrap_or_else(|| Self::internal(other)),
        }
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        let message = rejection.to_string();
        match rejection {
            Rejection::Invalid { field, .. } => Self::invalid(&field, message),
            Rejection::CapabilityRequired { node, type_id, capability } => {
                Self::new("capability_required", message)
                    .with("requiredCapability", capability)
                    .with("offendingTypeId", type_id)
                    .with("nodeId", node)
            }
            Rejection::NoSuchInterrupt => Self::new(
                "interrupt_not_found",
                "there is no such interrupt; GET the run shows the ones that are open",
            ),
            Rejection::AlreadyResolved => {
                let message =
                    "the interrupt is closed: somebody was faster, or it was given up; nothing was changed";
                Self::new("interrupt_already_resolved", message)
            }
            Rejection::NotInterrupted => Self::new(
                "run_not_interrupted",
                "no work of the run was interrupted, so there is nothing to resume; GET the run tells how it stands",
            ),
            Rejection::Escalated => Self::new(
                "run_escalated",
                "the run was interrupted and waits for a person: answer its question, or use `abide resume now`",
            ),
            Rejection::AlreadyPaused => {
                Self::new("run_paused", "the run is paused; lift the pause first, which looks at it again")
            }
            Rejection::AlreadyStopped => {
                Self::new("run_paused", "the run is stopped; release it first, which looks at it again")
            }
            Rejection::TurnNotWaiting { waiting, .. } => {
                Self::new("turn_not_waiting", message).with("waiting", waiting)
            }
            Rejection::StaleFence => Self::new("stale_fence", message),
            Rejection::Replay => Self::new("run_is_replay", message),
            Rejection::Cancelling | Rejection::Ending => {
                Self::new("run_ending", "the run is ending, so nothing new begins in it; stop the task")
            }
            Rejection::Work(failure) => Self::of_failure(failure),
            Rejection::InterruptCancelled => Self::new("interrupt_cancelled", message),
            Rejection::InterruptGone => Self::new("interrupt_gone", message),
            Rejection::NoSuchAsk => Self::new("ask_not_found", message),
            Rejection::AskAnswered => Self::new("ask_already_answered", message),
            Rejection::SeveralOpen(ids) => {
                let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
                Self::invalid("interruptId", message).with("interruptIds", ids)
            }
            Rejection::BadAnswer(errors) => Self::bad_answer(message, &errors),
            Rejection::Mismatch(errors) => {
                Self::bad_answer(message, &errors).under(StatusCode::UNPROCESSABLE_ENTITY)
            }
            other => Self::of_containers(&other, message),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.status();
        let wait_ms = self.details.get("retryAfterMs").and_then(Value::as_u64);
        let envelope = self.envelope();
        let said = openintent::envelope::Said(envelope.clone());
        let mut response = (status, axum::Json(envelope)).into_response();
        // Whoever speaks another protocol says the same in other words.
        response.extensions_mut().insert(said);
        if status == StatusCode::SERVICE_UNAVAILABLE || wait_ms.is_some() {
            let seconds = wait_ms.unwrap_or(0).div_ceil(1000).max(1);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
