//! Plan: something is asked of the tasks and plans that were posted to a run.

use crate::command::{Draft, check_reason};
use crate::event::{Failure, PlanChange, PlanChanged, RunEvent, TaskChange, TaskChanged};
use crate::planning::{
    CheckpointStatus, NewPlan, NewTask, Plan, PlanAct, PlanCommand, PlanId, PlanState, Task, TaskAct, TaskId,
    TaskStatus, Way, check_json, check_text, way_of_plan,
};
use crate::{Hold, Rejection, Run, Unclaimed, limits};

/// What follows from it is settled behind every command.
pub(super) fn decide(run: &mut Run, draft: &mut Draft, command: PlanCommand) -> Result<(), Rejection> {
    run.check_running()?;
    if run.state.ending.is_some() {
        return Err(Rejection::Ending);
    }
    if run.group().is_some() {
        let message = "a group has members, and no tasks and plans; post them to one of its members";
        return Err(Rejection::invalid("runId", message));
    }
    match command {
        PlanCommand::CreateTask { task, by } => {
            check_who(by.as_ref())?;
            post_task(run, draft, &task, by)
        }
        PlanCommand::CreatePlan { plan, by } => {
            check_who(by.as_ref())?;
            post_plan(run, draft, &plan, by)
        }
        PlanCommand::Task { id, version, agent, act, by } => {
            check_who(by.as_ref())?;
            let task = run.posted_task(id).ok_or_else(|| Rejection::UnknownTask(id.to_string()))?;
            check_version(task.version, version)?;
            act_on_task(run, draft, Doing { id, agent, act, by })
        }
        PlanCommand::ReachTask { id, version, wish, by } => {
            check_who(by.as_ref())?;
            let task = run.posted_task(id).ok_or_else(|| Rejection::UnknownTask(id.to_string()))?;
            check_version(task.version, version)?;
            let Way { act, agent } = run.way_to(task, *wish)?;
            act_on_task(run, draft, Doing { id, agent, act, by })
        }
        PlanCommand::ReachPlan { id, version, wish, by } => {
            check_who(by.as_ref())?;
            let plan = run.plan(id).ok_or_else(|| Rejection::UnknownPlan(id.to_string()))?;
            check_version(plan.version, version)?;
            way_of_plan(plan, wish)?.map_or(Ok(()), |act| act_on_plan(run, draft, id, act, by.as_deref()))
        }
        PlanCommand::Plan { id, version, act, by } => {
            check_who(by.as_ref())?;
            let plan = run.plan(id).ok_or_else(|| Rejection::UnknownPlan(id.to_string()))?;
            check_version(plan.version, version)?;
            act_on_plan(run, draft, id, act, by.as_deref())
        }
    }
}

fn check_who(by: Option<&String>) -> Result<(), Rejection> {
    by.map_or(Ok(()), |by| check_text("by", by, limits::PRINCIPAL_CHARS_MAX))
}

fn check_version(found: u64, expected: Option<u64>) -> Result<(), Rejection> {
    match expected {
        Some(expected) if expected != found => Err(Rejection::VersionConflict { expected, found }),
        _ => Ok(()),
    }
}

fn illegal<T>(message: String) -> Result<T, Rejection> {
    Err(Rejection::IllegalTransition(message))
}

fn post_task(run: &mut Run, draft: &mut Draft, task: &NewTask, by: Option<String>) -> Result<(), Rejection> {
    let spec = run.check_posted(task)?;
    let id = TaskId::of(&run.salt, run.head.next);
    let created =
        TaskChanged { created: Some(Box::new(spec)), by, ..TaskChanged::of(id, TaskChange::Created) };
    draft.emit_run(run, RunEvent::Task(Box::new(created)), None);
    Ok(())
}

/// Its tasks come first, so that the plan can take them in with all that was there before.
fn post_plan(run: &mut Run, draft: &mut Draft, plan: &NewPlan, by: Option<String>) -> Result<(), Rejection> {
    let posting = run.check_plan_posted(plan)?;
    for spec in posting.tasks {
        let id = TaskId::of(&run.salt, run.head.next);
        let created = Some(Box::new(spec));
        run.emit_task(
            draft,
            TaskChanged { created, by: by.clone(), ..TaskChanged::of(id, TaskChange::Created) },
        );
    }
    let id = PlanId::of(&run.salt, run.head.next);
    let created = Some(Box::new(posting.plan));
    run.emit_plan(draft, PlanChanged { created, by, ..PlanChanged::of(id, PlanChange::Created) });
    Ok(())
}

/// Somebody does something with a task.
struct Doing {
    id: TaskId,
    /// In the name of this agent, if that is said.
    agent: Option<String>,
    act: TaskAct,
    by: Option<String>,
}

fn act_on_task(run: &mut Run, draft: &mut Draft, doing: Doing) -> Result<(), Rejection> {
    let Doing { id, agent, act, by } = doing;
    let task = &run.state.planning.tasks[&id];
    check_actor(task, agent.as_deref(), &act)?;
    if is_there(task, &act) {
        return Ok(());
    }
    check_of_child(run, task, &act)?;
    let before = before(run, task, agent, &act)?;
    check_act(run, id, &act)?;
    let changed = changed(run, id, act)?;
    let from = before.iter().try_fold(task.status, TaskStatus::after);
    if from.and_then(|from| from.after(&changed)).is_none() {
        return illegal(unfit(task, changed.change));
    }
    for changed in before.into_iter().chain([changed]) {
        run.emit_task(draft, TaskChanged { by: by.clone(), ..changed });
    }
    Ok(())
}

/// Refuses what is done in the name of an agent that does not have the task, be it that it was given to another since.
fn check_actor(task: &Task, agent: Option<&str>, act: &TaskAct) -> Result<(), Rejection> {
    let Some(agent) = agent else { return Ok(()) };
    check_text("agent", agent, limits::AGENT_NAME_CHARS_MAX)?;
    let own = matches!(
        act,
        TaskAct::Start
            | TaskAct::Release { .. }
            | TaskAct::Progress { .. }
            | TaskAct::Complete { .. }
            | TaskAct::Fail { .. }
    );
    let had = !matches!(task.status, TaskStatus::Pending | TaskStatus::Ready);
    match task.assigned_agent.as_deref().filter(|has| own && had && *has != agent) {
        Some(has) => illegal(format!(
            "'{has}' has the task, and '{agent}' can't do anything about it; drop what you have of it"
        )),
        None => Ok(()),
    }
}

/// Whether a task stands already where an act would bring it.
fn is_there(task: &Task, act: &TaskAct) -> bool {
    match (act, task.status) {
        (TaskAct::Claim { agent }, TaskStatus::Claimed) => task.assigned_agent.as_ref() == Some(agent),
        (TaskAct::Start | TaskAct::Unblock, TaskStatus::Running)
        | (TaskAct::Release { .. } | TaskAct::Retry, TaskStatus::Ready)
        | (TaskAct::Block { .. }, TaskStatus::Blocked)
        | (TaskAct::Complete { .. }, TaskStatus::Completed)
        | (TaskAct::Fail { .. }, TaskStatus::Failed)
        | (TaskAct::Cancel { .. }, TaskStatus::Cancelled)
        | (TaskAct::Skip { .. }, TaskStatus::Skipped) => true,
        _ => false,
    }
}

/// Nobody does by hand what another run does: it would be done twice. It may still be called off.
fn check_of_child(run: &Run, task: &Task, act: &TaskAct) -> Result<(), Rejection> {
    let calls_off = matches!(act, TaskAct::Cancel { .. } | TaskAct::Skip { .. });
    match task.spec.run.filter(|_| !calls_off && run.goes_with_child(task)) {
        Some(child) => illegal(format!(
            "the task stands for {child} and goes with that, so nobody else does it; claim and do that run instead"
        )),
        None => Ok(()),
    }
}

/// What has to happen before: what was only claimed is begun as it ends, and an agent that begins takes what is free.
fn before(
    run: &Run,
    task: &Task,
    agent: Option<String>,
    act: &TaskAct,
) -> Result<Vec<TaskChanged>, Rejection> {
    let started = || TaskChanged::of(task.id, TaskChange::Started);
    Ok(match (act, task.status, agent) {
        (TaskAct::Start, TaskStatus::Ready, Some(agent)) => {
            check_claim(run, task, &agent)?;
            vec![TaskChanged { agent: Some(agent), ..TaskChanged::of(task.id, TaskChange::Claimed) }]
        }
        (TaskAct::Complete { .. }, TaskStatus::Claimed, _) => {
            check_begins(run, task)?;
            vec![started()]
        }
        (TaskAct::Fail { .. }, TaskStatus::Claimed, _) => vec![started()],
        _ => Vec::new(),
    })
}

/// What keeps something from being done that the status of the task alone would allow.
fn check_act(run: &Run, id: TaskId, act: &TaskAct) -> Result<(), Rejection> {
    let task = &run.state.planning.tasks[&id];
    match act {
        TaskAct::Claim { agent } => check_claim(run, task, agent),
        TaskAct::Start => check_begins(run, task),
        TaskAct::Retry => {
            if task.is_spent() {
                return illegal(format!(
                    "the task was attempted {} times, which is as often as it may be; post another task",
                    task.attempt
                ));
            }
            check_plan_active(run, task)
        }
        TaskAct::Unblock if task.suspended_intent().is_some() => illegal(
            "the task waits because its run does; answer the run's open question, and it goes on".to_owned(),
        ),
        TaskAct::Progress { progress } => {
            check_json("progress", Some(progress))?;
            run.check_bytes(progress.text().len())
        }
        TaskAct::Complete { output } => {
            check_json("output", output.as_ref())?;
            run.check_bytes(output.as_ref().map_or(0, |output| output.text().len()))
        }
        TaskAct::Fail { error } => check_error(run, error),
        TaskAct::Block { reason } => {
            check_text("reason", reason, limits::REASON_CHARS_MAX)?;
            run.check_bytes(reason.len())
        }
        TaskAct::Release { reason } | TaskAct::Cancel { reason } | TaskAct::Skip { reason } => {
            check_reason(reason.as_ref())?;
            run.check_bytes(reason.as_ref().map_or(0, String::len))
        }
        TaskAct::Unblock => Ok(()),
    }
}

fn check_claim(run: &Run, task: &Task, agent: &str) -> Result<(), Rejection> {
    check_text("agent", agent, limits::AGENT_NAME_CHARS_MAX)?;
    if task.spec.agent.as_deref().is_some_and(|only| only != agent) {
        return illegal("the task was posted for another agent, which alone may claim it".to_owned());
    }
    check_begins(run, task)
}

/// Refuses to begin a task if no node of its run may be claimed either, or if its plan says so.
fn check_begins(run: &Run, task: &Task) -> Result<(), Rejection> {
    let blocked = run.blocked_reason().map(Unclaimed::Blocked);
    // The client of an intent makes every one as a draft, and works on its tasks all the same.
    let begins = run.is_intent() && run.unmet().next().is_none();
    let draft = (run.is_draft() && !begins).then_some(Unclaimed::Draft);
    let held = (run.state.hold != Hold::None).then_some(Unclaimed::Held);
    match blocked.or(draft).or(held) {
        Some(unclaimed) => Err(Rejection::Unclaimed(unclaimed)),
        None => check_plan_active(run, task),
    }
}

fn check_plan_active(run: &Run, task: &Task) -> Result<(), Rejection> {
    match run.state.planning.plan_of(task).filter(|plan| !plan.lets_begin()) {
        Some(plan) => illegal(format!(
            "the task is of a plan that is {}, and nothing of it begins; activate or resume the plan first",
            plan.state.name()
        )),
        None => Ok(()),
    }
}

fn check_error(run: &Run, error: &Failure) -> Result<(), Rejection> {
    check_text("error.code", &error.code, limits::CODE_CHARS_MAX)?;
    check_reason(Some(&error.message))?;
    check_json("error.details", error.details.as_ref())?;
    let details = error.details.as_ref().map_or(0, |details| details.text().len());
    run.check_bytes(error.message.len() + details)
}

/// What is recorded of what somebody does with a task.
fn changed(run: &Run, id: TaskId, act: TaskAct) -> Result<TaskChanged, Rejection> {
    let of = |change| TaskChanged::of(id, change);
    Ok(match act {
        TaskAct::Claim { agent } => TaskChanged { agent: Some(agent), ..of(TaskChange::Claimed) },
        TaskAct::Start => of(TaskChange::Started),
        TaskAct::Release { reason } => TaskChanged { reason, ..of(TaskChange::Released) },
        TaskAct::Progress { progress } => {
            TaskChanged { progress: Some(progress), ..of(TaskChange::Progress) }
        }
        TaskAct::Complete { output } => TaskChanged { output, ..of(TaskChange::Completed) },
        TaskAct::Fail { error } => TaskChanged { error: Some(error), ..of(TaskChange::Failed) },
        TaskAct::Retry => {
            let attempt = run.state.planning.tasks[&id].attempt + 1;
            TaskChanged { attempt: Some(attempt), ..of(TaskChange::Retrying) }
        }
        TaskAct::Block { reason } => TaskChanged { reason: Some(reason), ..of(TaskChange::Blocked) },
        TaskAct::Unblock => of(TaskChange::Unblocked),
        TaskAct::Cancel { reason } => TaskChanged { reason, ..of(TaskChange::Cancelled) },
        TaskAct::Skip { reason } => TaskChanged { reason, ..of(TaskChange::Skipped) },
    })
}

/// Why a task does not take this, and what it would take.
fn unfit(task: &Task, change: TaskChange) -> String {
    let (done, from) = match change {
        TaskChange::Claimed => ("claimed", "that is ready"),
        TaskChange::Started => ("started", "that is claimed"),
        TaskChange::Released => ("released", "that is claimed and not begun"),
        TaskChange::Progress => ("reported on", "that is running"),
        TaskChange::Completed => ("completed", "that is claimed or running"),
        TaskChange::Failed => ("failed", "that is claimed or running"),
        TaskChange::Retrying => ("retried", "that failed"),
        TaskChange::Blocked => ("blocked", "that is running"),
        TaskChange::Unblocked => ("unblocked", "that is blocked"),
        TaskChange::Cancelled => ("cancelled", "that is not finished"),
        TaskChange::Skipped => ("skipped", "that is pending or ready"),
        TaskChange::Created | TaskChange::Ready => ("changed so", "in another state"),
    };
    format!("the task is {}, and only one {from} can be {done}", task.status.name())
}

fn act_on_plan(
    run: &mut Run,
    draft: &mut Draft,
    id: PlanId,
    act: PlanAct,
    by: Option<&str>,
) -> Result<(), Rejection> {
    let plan = &run.state.planning.plans[&id];
    check_plan_act(run, plan, &act)?;
    let changed =
        |change, reason| PlanChanged { reason, by: by.map(str::to_owned), ..PlanChanged::of(id, change) };
    match act {
        PlanAct::Activate => run.emit_plan(draft, changed(PlanChange::Activated, None)),
        PlanAct::Pause { reason } => run.emit_plan(draft, changed(PlanChange::Paused, reason)),
        PlanAct::Cancel { reason } => run.end_plan(draft, id, changed(PlanChange::Cancelled, reason)),
        PlanAct::Resume => match rejected(plan) {
            // Nobody goes round those who did not let it pass: they are asked again.
            Some(checkpoint) => run.reach_checkpoint(draft, id, &checkpoint),
            None => run.emit_plan(draft, changed(PlanChange::Resumed, None)),
        },
    }
    Ok(())
}

fn rejected(plan: &Plan) -> Option<String> {
    let (spec, standing) = plan.waits_at()?;
    (standing.status == CheckpointStatus::Rejected).then(|| spec.id.clone())
}

fn check_plan_act(run: &Run, plan: &Plan, act: &PlanAct) -> Result<(), Rejection> {
    let (done, change, from) = match act {
        PlanAct::Activate => ("activated", PlanChange::Activated, "that is a draft"),
        PlanAct::Pause { .. } => ("paused", PlanChange::Paused, "that is active"),
        PlanAct::Resume => ("resumed", PlanChange::Resumed, "that is paused"),
        PlanAct::Cancel { .. } => ("cancelled", PlanChange::Cancelled, "that is not finished"),
    };
    if plan.state.after(change).is_none() {
        return illegal(format!("the plan is {}, and only one {from} can be {done}", plan.state.name()));
    }
    match act {
        PlanAct::Activate if plan.tasks.is_empty() => {
            illegal("the plan has no tasks; post some to it before it is activated".to_owned())
        }
        PlanAct::Resume if plan.state == PlanState::Paused => match run.checkpoint_question(plan) {
            Some(question) => illegal(format!(
                "the plan waits at a checkpoint for somebody to let it pass; answer {question} instead"
            )),
            None => Ok(()),
        },
        PlanAct::Pause { reason } | PlanAct::Cancel { reason } => check_reason(reason.as_ref()),
        _ => Ok(()),
    }
}
