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
/// it twice is as good as once.
fn fail(run: &mut Run, turn: &mut Turn, ix: NodeIx, failed: TaskFailure) {
    let harmless = failed.reached == Reached::No || run.graph.at(ix).idempotent;
    let attempt = run.node(ix).attempt + 1;
    let delay = delay_for(run, ix, attempt).filter(|_| failed.retryable && run.state.ending.is_none());
    match delay {
        Some(delay) if harmless => {
            let wait = delay.max(told_to_wait(&failed.failure));
            let error = run.told(ix, failed.failure);
            let retried = NodeRetried { attempt, error, until: turn.now.saturating_add(wait) };
            run.emit_node(turn, ix, NodeEvent::Retried(retried), None);
        }
        Some(_) => run.give_up(turn, ix, unsafe_to_repeat(failed.failure)),
        None => run.give_up(turn, ix, failed.failure),
    }
}

fn delay_for(run: &Run, ix: NodeIx, attempt: u32) -> Option<crate::Millis> {
    let node = run.graph.at(ix);
    let mut seed = run.salt.to_vec();
    seed.extend(node.id.as_bytes());
    seed.extend(run.node(ix).execution.to_be_bytes());
    node.retry.as_ref()?.delay_for(attempt, &seed)
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
