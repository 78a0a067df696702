//! Report: an executor tells how a task ended.

use crate::command::{Report, Turn};
use crate::event::{Failure, NodeEvent, NodeRetried};
use crate::http::{Reached, TaskFailure};
use crate::{Json, NodeIx, NodePhase, Rejection, Run, TaskId, limits};

pub(super) fn decide(run: &mut Run, turn: &mut Turn, report: Report) -> Result<(), Rejection> {
    run.check_open()?;
    let ix = under_way(run, &report.task)?;
    match report.outcome {
        Ok(mut product) => {
            product.sensitive |= run.node(ix).sensitive;
            run.finish(turn, ix, product);
        }
        Err(failed) => fail(run, turn, ix, failed),
    }
    run.advance(turn);
    Ok(())
}

fn under_way(run: &Run, task: &TaskId) -> Result<NodeIx, Rejection> {
    let ix = run.graph.node(&task.node).ok_or(Rejection::NoSuchTask)?;
    let node = run.node(ix);
    let under_way = node.phase == NodePhase::Running && node.execution == task.execution;
    if under_way { Ok(ix) } else { Err(Rejection::NoSuchTask) }
}

/// Another attempt is made only if it could end better and can do no harm: nothing reached the other side, or doing
/// it twice is as good as once. A worker's step under way must not be done twice, whatever holds for the rest of its node.
pub(super) fn fail(run: &mut Run, turn: &mut Turn, ix: NodeIx, failed: TaskFailure) {
    let harmless = failed.reached == Reached::No || is_idempotent(run, ix) && !run.has_begun(ix);
    let attempt = run.node(ix).attempt + 1;
    let goes_on = failed.retryable && run.state.ending.is_none();
    let delay = delay_for(run, ix, attempt).filter(|_| goes_on);
    let successor = successor(run, ix).filter(|_| goes_on && harmless && delay.is_none());
    match delay {
        None if successor.is_some() => {
            let error = run.told(ix, failed.failure);
            let retried = NodeRetried { attempt, error, until: turn.now, agent: successor };
            run.emit_node(turn, ix, NodeEvent::Retried(retried), None);
        }
        Some(delay) if harmless => {
            let wait = delay.max(told_to_wait(&failed.failure));
            let error = run.told(ix, failed.failure);
            let retried = NodeRetried { attempt, error, until: turn.now.saturating_add(wait), agent: None };
            run.emit_node(turn, ix, NodeEvent::Retried(retried), None);
        }
        Some(_) => run.give_up(turn, ix, unsafe_to_repeat(failed.failure)),
        None => run.give_up(turn, ix, failed.failure),
    }
}

/// Whether doing it twice is as good as once.
fn is_idempotent(run: &Run, ix: NodeIx) -> bool {
    let offered = run.node(ix).work.as_ref().map(|work| work.offered.idempotent);
    offered.unwrap_or(run.graph.at(ix).idempotent)
}

/// The agent that takes over when the first has failed as often as it may.
fn successor(run: &Run, ix: NodeIx) -> Option<String> {
    let work = run.node(ix).work.as_ref()?;
    let agent = run.graph.at(ix).retry.as_ref()?.fallback_agent.clone()?;
    (work.handed_over == 0 && work.offered.agent.as_ref() != Some(&agent)).then_some(agent)
}

fn delay_for(run: &Run, ix: NodeIx, attempt: u32) -> Option<crate::Millis> {
    let node = run.graph.at(ix);
    let mut seed = run.salt.to_vec();
    seed.extend(node.id.as_bytes());
    seed.extend(run.node(ix).execution.to_be_bytes());
    // Whoever took over begins to count anew.
    let before = run.node(ix).work.as_ref().map_or(0, |work| work.handed_over);
    node.retry.as_ref()?.delay_for(attempt - before.min(attempt - 1), &seed)
}

/// What the other side asked for with `Retry-After`.
fn told_to_wait(failure: &Failure) -> crate::Millis {
    let details = failure.details.as_ref().and_then(|details| details.parse::<crate::JsonMap>().ok());
    let asked = details.and_then(|details| details.get("retryAfterMs")?.parse().ok()).unwrap_or(0);
    // The other side must not put a run to sleep for years.
    asked.min(limits::RETRY_DELAY_MS_MAX)
}

fn unsafe_to_repeat(failure: Failure) -> Failure {
    let message = format!(
        "{}; it was not tried again, because it may have been carried out and the node is not marked idempotent",
        failure.message
    );
    let details = failure.details.or_else(|| Some(Json::of(&serde_json::json!({}))));
    Failure { message, details, ..failure }
}
