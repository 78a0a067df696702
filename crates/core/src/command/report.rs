//! Report: an executor tells how a task ended.

use crate::command::{Draft, Report};
use crate::event::{Failure, NodeEvent, NodeInterrupted, NodeRetried};
use crate::http::{Reached, TaskFailure};
use crate::{Json, NodeIx, NodePhase, Rejection, Run, TaskId, limits};

pub(super) fn decide(run: &mut Run, draft: &mut Draft, report: Report) -> Result<(), Rejection> {
    run.check_open()?;
    let ix = under_way(run, &report.task)?;
    match report.outcome {
        Ok(mut product) => {
            product.sensitive |= run.node(ix).sensitive;
            run.finish(draft, ix, product);
        }
        Err(failed) => fail(run, draft, ix, failed),
    }
    run.advance(draft);
    Ok(())
}

fn under_way(run: &Run, task: &TaskId) -> Result<NodeIx, Rejection> {
    let ix = run.graph.node(&task.node).ok_or(Rejection::NoSuchTask)?;
    let node = run.node(ix);
    // What comes of a model's call is told in other words.
    let own = node.turn.is_none() && node.execution == task.execution;
    let under_way = node.phase == NodePhase::Running && own;
    if under_way { Ok(ix) } else { Err(Rejection::NoSuchTask) }
}

/// What becomes of a failed attempt. Another one is made only if it could end better and can do no harm: nothing reached
/// the other side, or doing it twice is as good as once. A worker's step under way must not be done twice, whatever holds
/// for the rest of its node, and nothing is that is said to be irreversible and may have had its effect. What is not
/// tried again and may pass interrupts the run, unless the definition itself deals with the failure.
pub(super) fn fail(run: &mut Run, draft: &mut Draft, ix: NodeIx, failed: TaskFailure) {
    let unknown = failed.reached == Reached::Maybe;
    let repeatable = run.is_idempotent(ix) && !run.has_begun(ix) && !run.is_irreversible(ix);
    let harmless = !unknown || repeatable;
    if !failed.retryable || run.state.ending.is_some() {
        return run.give_up(draft, ix, failed.failure);
    }
    let attempt = run.node(ix).attempt + 1;
    let delay = delay_for(run, ix, attempt).filter(|_| harmless);
    let successor = successor(run, ix).filter(|_| harmless && delay.is_none());
    if delay.is_some() || successor.is_some() {
        let wait = delay.map_or(0, |delay| delay.max(told_to_wait(&failed.failure)));
        let error = run.told(ix, failed.failure);
        let retried = NodeRetried { attempt, error, until: draft.now.saturating_add(wait), agent: successor };
        return run.emit_node(draft, ix, NodeEvent::Retried(retried), None);
    }
    if run.deals_with_failure(ix, &failed.failure) {
        let failure = if harmless { failed.failure } else { unsafe_to_repeat(failed.failure) };
        return run.give_up(draft, ix, failure);
    }
    let steps = run.node(ix).work.as_ref().map_or_else(Vec::new, |work| work.begun());
    let steps = steps.into_iter().map(ToOwned::to_owned).collect();
    let error = run.told(ix, failed.failure);
    let interrupted =
        NodeInterrupted { class: failed.class.name().to_owned(), error, attempt, unknown, steps };
    run.emit_node(draft, ix, NodeEvent::Interrupted(Box::new(interrupted)), None);
}

impl Run {
    /// Whether doing a node twice is as good as once.
    pub(crate) fn is_idempotent(&self, ix: NodeIx) -> bool {
        let offered = self.node(ix).work.as_ref().map(|work| work.offered.idempotent);
        offered.unwrap_or(self.graph.at(ix).idempotent)
    }

    /// Whether it was said that what a node does can't be undone. What nobody says is not known.
    pub(crate) fn is_irreversible(&self, ix: NodeIx) -> bool {
        let offered = self.node(ix).work.as_ref().map(|work| work.offered.irreversible);
        offered.unwrap_or(self.graph.at(ix).reversible == Some(false))
    }
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
    // Whoever took over begins to count anew, and so does a node that was resumed.
    let handed_over = run.node(ix).work.as_ref().map_or(0, |work| work.handed_over);
    let before = handed_over.max(run.node(ix).counted_from);
    node.retry.as_ref()?.delay_for(attempt - before.min(attempt - 1), &seed)
}

/// What the other side asked for with `Retry-After`.
fn told_to_wait(failure: &Failure) -> crate::Millis {
    let details = failure.details.as_ref().and_then(|details| details.parse::<crate::JsonMap>().ok());
    let asked = details.and_then(|details| details.get("retryAfterMs")?.parse().ok()).unwrap_or(0);
    // The other side must not put a run to sleep for years.
    asked.min(limits::RETRY_DELAY_MS_MAX)
}

pub(super) fn unsafe_to_repeat(failure: Failure) -> Failure {
    let message = format!(
        "{}; it was not tried again, because it may have been carried out and the node is not marked idempotent",
        failure.message
    );
    let details = failure.details.or_else(|| Some(Json::of(&serde_json::json!({}))));
    Failure { message, details, ..failure }
}
