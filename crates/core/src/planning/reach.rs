//! What has to be done for a task or a plan to stand where somebody wants it.
//!
//! Some clients name the status that they want, and not what is to be done. What that is follows from where the task or the
//! plan stands when it is decided; whether it may be done is decided like anything else.

use super::{Plan, PlanAct, PlanState, PlanWish, Task, TaskAct, TaskStatus, TaskWish};
use crate::event::Failure;
use crate::excerpt::excerpt;
use crate::{Rejection, Run};

/// What a failure is called that nobody gave a name.
const FAILED: &str = "failed";

/// Why a task is blocked of which nobody says why.
const BLOCKED: &str = "blocked";

/// What is to be done with a task, and in whose name.
pub(crate) struct Way {
    pub(crate) act: TaskAct,
    pub(crate) agent: Option<String>,
}

fn illegal<T>(message: String) -> Result<T, Rejection> {
    Err(Rejection::IllegalTransition(message))
}

/// What a decision looks at.
impl Run {
    /// What has to be done for a task to stand where somebody wants it.
    pub(crate) fn way_to(&self, task: &Task, wish: TaskWish) -> Result<Way, Rejection> {
        let TaskWish { status, agent, asking, progress, output, error, reason } = wish;
        let Some(status) = status else { return way_without_status(agent, progress) };
        let status = TaskStatus::by_name(&status).ok_or_else(|| unknown_status(&status))?;
        let somebody = agent.clone().unwrap_or(asking);
        let act = match status {
            TaskStatus::Pending if task.status != TaskStatus::Pending => {
                return illegal(format!(
                    "the task is {}, and is pending only until it is ready",
                    task.status.name()
                ));
            }
            TaskStatus::Pending | TaskStatus::Ready if task.status == TaskStatus::Pending => {
                return self.not_ready(task, status);
            }
            TaskStatus::Ready if task.status == TaskStatus::Failed => TaskAct::Retry,
            TaskStatus::Pending | TaskStatus::Ready => TaskAct::Release { reason },
            TaskStatus::Claimed => TaskAct::Claim { agent: somebody },
            TaskStatus::Running if task.status == TaskStatus::Blocked => TaskAct::Unblock,
            TaskStatus::Running if task.status == TaskStatus::Ready => {
                return Ok(Way { act: TaskAct::Start, agent: Some(somebody) });
            }
            TaskStatus::Running => TaskAct::Start,
            TaskStatus::Completed => TaskAct::Complete { output },
            TaskStatus::Failed => {
                let error = error.or_else(|| reason.map(|reason| Failure::new(FAILED, reason)));
                TaskAct::Fail { error: error.unwrap_or_else(|| Failure::new(FAILED, "nobody said why")) }
            }
            TaskStatus::Blocked => TaskAct::Block { reason: reason.unwrap_or_else(|| BLOCKED.to_owned()) },
            TaskStatus::Cancelled => TaskAct::Cancel { reason },
            TaskStatus::Skipped => TaskAct::Skip { reason },
        };
        Ok(Way { act, agent })
    }

    /// A pending task stays so, and nobody makes it ready.
    fn not_ready(&self, task: &Task, wanted: TaskStatus) -> Result<Way, Rejection> {
        let why = self.held_back(task).map_or_else(String::new, |why| format!(": {why}"));
        match wanted {
            TaskStatus::Ready => {
                illegal(format!("a task becomes ready by itself, and this one is pending{why}"))
            }
            _ => Err(Rejection::invalid("status", "the task is pending already; say what else is to change")),
        }
    }
}

/// Somebody is to have a task, or tells how far it has come.
fn way_without_status(agent: Option<String>, progress: Option<crate::Json>) -> Result<Way, Rejection> {
    match (agent, progress) {
        (agent, Some(progress)) => Ok(Way { act: TaskAct::Progress { progress }, agent }),
        (Some(agent), None) => Ok(Way { act: TaskAct::Claim { agent }, agent: None }),
        (None, None) => {
            Err(Rejection::invalid("status", "say what is to change: 'status', and what comes with it"))
        }
    }
}

fn unknown_status(status: &str) -> Rejection {
    let known = TaskStatus::ALL.map(TaskStatus::name).join(", ");
    Rejection::invalid("status", format!("'status' is one of {known}, not '{}'", excerpt(status)))
}

/// What has to be done for a plan to stand where somebody wants it; nothing if it does.
pub(crate) fn way_of_plan(plan: &Plan, wish: PlanWish) -> Result<Option<PlanAct>, Rejection> {
    let PlanWish { state, reason } = wish;
    let wanted = PlanState::ALL.into_iter().find(|known| known.name() == state).ok_or_else(|| {
        let known = PlanState::ALL.map(PlanState::name).join(", ");
        Rejection::invalid("state", format!("'state' is one of {known}, not '{}'", excerpt(&state)))
    })?;
    if wanted == plan.state {
        return Ok(None);
    }
    Ok(Some(match wanted {
        PlanState::Active if plan.state == PlanState::Paused => PlanAct::Resume,
        PlanState::Active => PlanAct::Activate,
        PlanState::Paused => PlanAct::Pause { reason },
        PlanState::Cancelled => PlanAct::Cancel { reason },
        PlanState::Completed | PlanState::Failed => {
            return illegal(format!(
                "a plan becomes {state} by itself, going by its tasks; this one is {}",
                plan.state.name()
            ));
        }
        PlanState::Draft => {
            return illegal(format!("the plan is {}, and nothing becomes a draft again", plan.state.name()));
        }
    }))
}
