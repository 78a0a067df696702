//! Interrupted runs: how they stand, and what an operator does about them.
//!
//! A run that can't be read is answered about like any other: what is wrong with it is what is asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::event::ResumeDecided;
use abide_core::limits::REASON_CHARS_MAX;
use abide_core::{
    Artifacts, InterruptId, InterruptedStep, Json as RawJson, Key, PointStatus, ReasonCode, Rejection,
    ResumeNow, RunId,
};
use abide_engine::{Error as EngineError, Resumption};
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::App;
use crate::auth::Principal;
use crate::body::JsonBody;
use crate::error::{ApiError, Result};
use crate::gate::check_scope;
use crate::limits::APPROVED_STEPS_MAX;
use crate::openwop::runs::RunPath;
use crate::scope::Scope;
use crate::{shape, time};

/// How a run stands with resuming it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ResumeView")]
pub(crate) struct View {
    /// The run.
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// Its status; `null` if not even that can be read.
    #[schemars(with = "Option<shape::RunStatus>")]
    status: Option<&'static str>,
    /// Whether work of it was interrupted and not gone on with.
    interrupted: bool,
    /// Whether it is held until a person decides.
    escalated: bool,
    /// Whether it is resumed by itself.
    auto_resume: bool,
    /// What an automatic decision would say now; `null` if there is nothing to be decided.
    decision: Option<Decision>,
    /// The last event of its journal that verifies; `null` if there is none.
    resume_point: Option<Point>,
    /// What it needs to go on, and whether that can be read.
    artifacts: Readable,
    /// What is wrong with those that can't be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    /// When it is looked at next by itself.
    #[schemars(with = "Option<shape::Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<String>,
    /// What was interrupted.
    steps: Vec<Step>,
    /// The question to people that is open.
    #[schemars(with = "Option<shape::InterruptName>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt_id: Option<InterruptId>,
    /// What to do about it, in sentences.
    checklist: Vec<String>,
    /// What was decided, newest first, at most 50.
    decisions: Vec<Decision>,
}

/// A decision about resuming a run. The names of its fields are those of the policy's contract.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ResumeDecision")]
pub(crate) struct Decision {
    /// Always `resume_decision`.
    event: String,
    /// The run.
    run_id: String,
    /// What interrupted it: `tool_failure`, `timeout`, `context_reset`, `process_crash`, or a name that nobody knows.
    interruption_class: String,
    /// Whether it is resumed.
    eligible: bool,
    /// Why, or why not.
    reason_code: &'static str,
    /// Whole seconds until the cool-down is over; 0 if that is not why.
    cooldown_seconds_remaining: i64,
    /// Which attempt this is about, from 1.
    attempt: u32,
    /// How many there may be.
    max_attempts: u32,
    /// When it was decided.
    #[schemars(with = "shape::Moment")]
    at: String,
    /// `system`, or the operator who asked.
    actor: String,
}

/// A place in a journal.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ResumePoint")]
struct Point {
    /// The event.
    sequence: u64,
    /// How the work stands there: `in_progress`, `failed`, or `other` if nothing is left to be resumed.
    status: &'static str,
    /// Whether the whole journal verifies, so that the run can be resumed there.
    valid: bool,
}

/// What can be read.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RunArtifactsReadable")]
struct Readable {
    /// The definition.
    plan: bool,
    /// The snapshot, if there is one.
    state: bool,
    /// The journal: all of it, and its chain holds.
    history: bool,
}

/// A step that was interrupted.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "InterruptedStep")]
struct Step {
    /// Its node.
    node: String,
    /// What interrupted it.
    class: String,
    /// A stable code of what is known.
    code: String,
    /// The same in words.
    message: String,
    /// Whether its effect may have happened: `none` or `unknown`.
    effect: &'static str,
    /// The worker's steps that were under way.
    steps: Vec<String>,
    /// Doing it twice is as good as once.
    idempotent: bool,
    /// What it does can't be undone.
    irreversible: bool,
    /// It may be done again without anybody's approval.
    repeatable: bool,
    /// When.
    #[schemars(with = "shape::Moment")]
    at: String,
}

/// What an operator wants.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ResumeAction")]
enum Action {
    /// That the run goes on now.
    #[default]
    Now,
    /// That it is not resumed by itself.
    Disable,
    /// That it is resumed by itself.
    Enable,
}

/// What to do about an interrupted run.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ResumeRequest")]
pub(crate) struct Asked {
    /// What; `now` if it is not said.
    #[serde(default)]
    action: Action,
    /// Why, in your own words. Whoever forces it has to say.
    #[schemars(length(max = REASON_CHARS_MAX))]
    reason: Option<String>,
    /// The attempt limit and the cool-down don't count. Needs the scope `runs:force`.
    #[serde(default)]
    force: bool,
    /// Nodes whose step may be done again although nothing says that this does no harm.
    #[serde(default)]
    #[schemars(length(max = APPROVED_STEPS_MAX))]
    approve_steps: Vec<String>,
    /// Nodes whose step was carried out after all, with what came of it: the outputs of a node, or the value of the one
    /// step that a worker had begun. They are not done again.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, shape::Anything>")]
    done: BTreeMap<String, RawJson>,
    /// What interrupted it, if the record does not know. Only with `force`.
    interruption_class: Option<String>,
    /// Cut a damaged journal off behind its last good decision first. Only with `force`.
    #[serde(default)]
    truncate: bool,
}

/// How a run stands with resuming it.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
) -> Result<Json<View>> {
    seen(&app, run.of(&principal)?).await.map(Json)
}

async fn seen(app: &App, key: Key) -> Result<View> {
    Ok(View::of(key.id, app.engine().resumption(key).await?))
}

/// Has a run go on, or says whether it goes on by itself.
pub(crate) async fn act(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    JsonBody(asked): JsonBody<Asked>,
) -> Result<Json<View>> {
    let key = run.of(&principal)?;
    check(&asked)?;
    if asked.force || asked.truncate {
        check_scope(&principal, Scope::RunsForce)?;
    }
    match asked.action {
        Action::Now => go_on(&app, key, principal.name, asked).await?,
        Action::Disable | Action::Enable => {
            let auto = asked.action == Action::Enable;
            let switched = app.engine().switch_resume(key, auto, principal.name, asked.reason).await;
            switched.map_err(|error| match error {
                EngineError::Rejected(Rejection::Ended(_)) => {
                    ApiError::new("run_not_interrupted", "the run has ended, so nothing more comes of it")
                }
                error => error.into(),
            })?;
        }
    }
    seen(&app, key).await.map(Json)
}

/// What can be told to be wrong without looking at the run.
fn check(asked: &Asked) -> Result<()> {
    let is_blank = |text: &Option<String>| text.as_deref().is_none_or(|text| text.trim().is_empty());
    if asked.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX) {
        let message = format!("'reason' is longer than {REASON_CHARS_MAX} characters; shorten it");
        return Err(ApiError::invalid("reason", message));
    }
    let only_now = [
        ("force", asked.force),
        ("approveSteps", !asked.approve_steps.is_empty()),
        ("done", !asked.done.is_empty()),
        ("interruptionClass", asked.interruption_class.is_some()),
        ("truncate", asked.truncate),
    ];
    if asked.action != Action::Now
        && let Some((field, _)) = only_now.into_iter().find(|(_, given)| *given)
    {
        let message = format!("'{field}' goes with the action 'now' only; leave it out");
        return Err(ApiError::invalid(field, message));
    }
    if asked.force && is_blank(&asked.reason) {
        return Err(ApiError::invalid("reason", "whoever forces a run on says why; add 'reason'"));
    }
    let only_forced =
        [("interruptionClass", asked.interruption_class.is_some()), ("truncate", asked.truncate)];
    if let Some((field, _)) = only_forced.into_iter().find(|(_, given)| *given && !asked.force) {
        let message = format!("'{field}' overrides the record; use it with 'force'");
        return Err(ApiError::invalid(field, message));
    }
    for (field, count) in [("approveSteps", asked.approve_steps.len()), ("done", asked.done.len())] {
        if count > APPROVED_STEPS_MAX {
            let message = format!("'{field}' names {APPROVED_STEPS_MAX} nodes at most");
            return Err(ApiError::invalid(field, message));
        }
    }
    Ok(())
}

async fn go_on(app: &App, key: Key, by: String, asked: Asked) -> Result<()> {
    if asked.truncate {
        let reason = asked.reason.clone().unwrap_or_default();
        app.engine().truncate(key, by.clone(), reason).await?;
    }
    let wish = ResumeNow {
        by,
        reason: asked.reason,
        force: asked.force,
        approve: asked.approve_steps,
        done: asked.done,
        class: asked.interruption_class,
        artifacts: Artifacts::READABLE,
    };
    match app.engine().resume_now(key, wish).await {
        Ok(None) => Ok(()),
        Ok(Some(refused)) => Err(refusal(&refused)),
        // What was cut goes on by itself, unless its work was interrupted there.
        Err(EngineError::Rejected(Rejection::NotInterrupted)) if asked.truncate => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A decision against it, which is recorded.
fn refusal(decided: &ResumeDecided) -> ApiError {
    let error = match decided.reason_code {
        ReasonCode::Cooldown => {
            let left = decided.cooldown_seconds_remaining;
            let message = format!(
                "the run was resumed a moment ago; it goes on by itself in {left} seconds, or use 'force'"
            );
            ApiError::new("resume_blocked_cooldown", message)
        }
        ReasonCode::AttemptLimit => {
            let most = decided.max_attempts;
            let message = format!(
                "the run was resumed {most} times, which is as often as it may be; use 'force' and say why"
            );
            ApiError::new("resume_attempt_limit_reached", message)
        }
        ReasonCode::NonIdempotentStep => ApiError::new(
            "resume_non_idempotent_step",
            "a step would be done again that may have been done; name its node in 'approveSteps' if it may, or in 'done' \
             with what came of it",
        ),
        ReasonCode::MissingArtifacts => ApiError::new(
            "resume_missing_runtime_artifacts",
            "something that the run needs can't be read; GET this path tells what, and 'truncate' with 'force' cuts a \
             damaged journal off",
        ),
        ReasonCode::UnknownClass => ApiError::new(
            "resume_unknown_interruption_class",
            "nobody knows what interrupted the run; say so with 'interruptionClass' and 'force'",
        ),
        ReasonCode::MissingCheckpoint | ReasonCode::Allowed => ApiError::new(
            "resume_missing_checkpoint",
            "there is nothing to resume: the run has ended, or no event of it can be read",
        ),
    };
    error.with("decision", json!(Decision::of(decided.clone())))
}

impl View {
    pub(crate) fn of(run_id: RunId, found: Resumption) -> Self {
        let Resumption { status, soundness, standing, decision, decisions } = found;
        let artifacts = soundness.artifacts();
        let point = standing.as_ref().map_or(PointStatus::Other, |standing| standing.point);
        let resume_point = soundness.good.next.checked_sub(1).map(|sequence| Point {
            sequence,
            status: point.name(),
            valid: artifacts.history,
        });
        let (plan, state, history) = (artifacts.plan, artifacts.state, artifacts.history);
        let mut view = Self {
            run_id,
            status: status.map(abide_core::Status::name),
            interrupted: false,
            escalated: false,
            auto_resume: true,
            decision: decision.map(Decision::of),
            resume_point,
            artifacts: Readable { plan, state, history },
            problems: soundness.problems(),
            next_at: None,
            steps: Vec::new(),
            interrupt_id: None,
            checklist: Vec::new(),
            decisions: decisions.into_iter().map(Decision::of).collect(),
        };
        if let Some(standing) = standing {
            view.interrupted = !standing.steps.is_empty();
            (view.escalated, view.auto_resume) = (standing.escalated, standing.auto_resume);
            view.next_at = standing.next_at.filter(|_| history).map(time::rfc3339);
            view.steps = standing.steps.into_iter().map(Step::of).collect();
            (view.interrupt_id, view.checklist) = (standing.question, standing.checklist);
        }
        if !history {
            view.checklist = mend(run_id, &view);
        }
        view
    }
}

/// What to do about a run whose journal does not verify.
fn mend(run: RunId, view: &View) -> Vec<String> {
    let mut list = vec!["Run `abide verify`: it tells what else is damaged. Look at the disk.".to_owned()];
    list.extend(view.problems.iter().map(|problem| format!("Read what is wrong: {problem}.")));
    list.push("Restore the last backup if there is one that has the run.".to_owned());
    list.push(format!(
        "To cut the journal off behind its last good decision: `abide resume now {run} --force --truncate --reason \"…\"`."
    ));
    list
}

impl Decision {
    fn of(decided: ResumeDecided) -> Self {
        Self {
            event: decided.event,
            run_id: decided.run_id,
            interruption_class: decided.interruption_class,
            eligible: decided.eligible,
            reason_code: decided.reason_code.name(),
            cooldown_seconds_remaining: decided.cooldown_seconds_remaining,
            attempt: decided.attempt,
            max_attempts: decided.max_attempts,
            at: decided.at,
            actor: decided.actor,
        }
    }
}

impl Step {
    fn of(step: InterruptedStep) -> Self {
        Self {
            effect: step.effect(),
            repeatable: step.may_repeat(),
            node: step.node.to_string(),
            class: step.class,
            code: step.error.code,
            message: step.error.message,
            steps: step.steps,
            idempotent: step.idempotent,
            irreversible: step.irreversible,
            at: time::rfc3339(step.at),
        }
    }
}
