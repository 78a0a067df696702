//! Resume: an interrupted run goes on by itself, because somebody says so, or not yet.
//!
//! Every decision is recorded, also one against. What an operator asks for and does not get changes nothing else.

use crate::command::{Draft, check_reason};
use crate::event::{
    NodeDue, NodeEvent, Resolution, ResumeDecided, ResumeRequested, ResumeSwitched, Resumed, RunEvent,
    StepRecorded,
};
use crate::perform::Product;
use crate::resume::{Artifacts, BY_SYSTEM, OnRefusal, ReasonCode, ResumeNow, ResumeVerdict};
use crate::{Hold, InterruptId, Json, NodeIx, Rejection, Run, TimerId, limits};

/// The time has come to look whether the run may be resumed.
pub(super) fn due(run: &mut Run, draft: &mut Draft, artifacts: Artifacts) -> Result<(), Rejection> {
    run.check_open()?;
    let due = *run.state.timers.get(&TimerId::Resume).ok_or(Rejection::NoSuchTimer)?;
    if draft.now < due {
        return Err(Rejection::NotDue { due });
    }
    let wish = run.state.resume.wish.clone();
    let policy = run.resume_policy(&draft.defaults);
    if wish.is_none() && run.state.resume.auto == Some(false) {
        // Whoever switched it off wants to look at it, whatever the policy makes of others.
        run.escalate_resume(draft, None);
    } else if wish.is_none() && !run.resumes_by_itself(&policy) {
        refuse(run, draft, None);
    } else {
        let asked = wish.unwrap_or_else(|| ResumeRequested::plain(BY_SYSTEM));
        let (decided, verdict) = decision(run, draft, &asked, artifacts);
        draft.emit_run(run, RunEvent::ResumeDecided(Box::new(decided)), None);
        match verdict.code {
            ReasonCode::Allowed => restart(run, draft),
            // The end of the window is waited for.
            ReasonCode::Cooldown => {}
            code => refuse(run, draft, Some(code)),
        }
    }
    run.advance(draft);
    Ok(())
}

/// An operator wants the run to go on.
pub(super) fn now(run: &mut Run, draft: &mut Draft, asked: ResumeNow) -> Result<(), Rejection> {
    run.check_running()?;
    check(run, &asked)?;
    let artifacts = asked.artifacts;
    let wish = ResumeRequested {
        by: asked.by,
        reason: asked.reason,
        force: asked.force,
        approve: asked.approve,
        done: asked.done.keys().cloned().collect(),
        interruption_class: asked.class,
    };
    let (decided, verdict) = decision(run, draft, &wish, artifacts);
    if verdict.code != ReasonCode::Allowed {
        draft.emit_run(run, RunEvent::ResumeDecided(Box::new(decided)), None);
        return Ok(());
    }
    let by = wish.by.clone();
    draft.emit_run(run, RunEvent::ResumeRequested(Box::new(wish)), None);
    if let Some(id) = run.open_question() {
        run.close(draft, id, Resolution::Cancelled, RESUMED, &by);
    }
    let cause = draft.last_sequence();
    draft.emit_run(run, RunEvent::ResumeDecided(Box::new(decided)), cause);
    asked.done.into_iter().for_each(|(node, outcome)| settle(run, draft, &node, outcome));
    restart(run, draft);
    run.advance(draft);
    Ok(())
}

/// An operator knows that what was cut off was done. A worker's function goes on behind its step; anything else is
/// complete with that.
fn settle(run: &mut Run, draft: &mut Draft, node: &str, outcome: Json) {
    let Some(ix) = run.graph.node(node) else { return };
    let steps = run.state.resume.interrupted.get(&ix).map(|found| found.steps.clone()).unwrap_or_default();
    let cause = draft.last_sequence();
    match steps.as_slice() {
        [key] => {
            let sensitive = run.node(ix).sensitive || run.graph.at(ix).hides_answers();
            let recorded = StepRecorded { key: key.clone(), value: Some(outcome), error: None, sensitive };
            run.emit_node(draft, ix, NodeEvent::StepRecorded(recorded), cause);
        }
        _ => {
            let sensitive = run.node(ix).sensitive;
            run.finish(draft, ix, Product { sensitive, ..Product::of(Some(outcome)) });
        }
    }
}

/// Why the question was closed without an answer.
const RESUMED: &str = "run-resumed";

fn check(run: &Run, asked: &ResumeNow) -> Result<(), Rejection> {
    check_reason(asked.reason.as_ref())?;
    if run.state.resume.interrupted.is_empty() {
        return Err(Rejection::NotInterrupted);
    }
    if matches!(run.state.hold, Hold::Paused | Hold::Stopped | Hold::Pausing) {
        return Err(Rejection::AlreadyPaused);
    }
    if asked.force && asked.reason.as_deref().is_none_or(|reason| reason.trim().is_empty()) {
        return Err(Rejection::invalid("reason", "whoever forces a run on says why; add 'reason'"));
    }
    if asked.class.is_some() && !asked.force {
        let message = "'interruptionClass' is the operator's word against the record; use it with 'force'";
        return Err(Rejection::invalid("interruptionClass", message));
    }
    check_done(run, asked)?;
    if let Some(node) = asked.approve.iter().find(|node| !run.is_interrupted(node)) {
        let node = crate::excerpt::excerpt(node);
        let message =
            format!("'{node}' is no node whose work was interrupted; `abide resume status` names those");
        return Err(Rejection::invalid("approveSteps", message));
    }
    if asked.class.as_ref().is_some_and(|class| class.chars().count() > limits::REASON_CHARS_MAX) {
        return Err(Rejection::invalid("interruptionClass", "that is too long for a class"));
    }
    Ok(())
}

fn check_done(run: &Run, asked: &ResumeNow) -> Result<(), Rejection> {
    for (node, outcome) in &asked.done {
        let name = crate::excerpt::excerpt(node);
        let found = run.graph.node(node).and_then(|ix| run.state.resume.interrupted.get(&ix));
        let Some(found) = found else {
            let message =
                format!("'{name}' is no node whose work was interrupted; `abide resume status` names those");
            return Err(Rejection::invalid("done", message));
        };
        if found.steps.len() > 1 {
            let message =
                format!("several steps of node '{name}' were under way, so this can't be said of one");
            return Err(Rejection::invalid("done", message));
        }
        let most = limits::STEP_BYTES_MAX;
        if outcome.text().len() > most {
            let message = format!("what came of node '{name}' has more than {most} bytes; keep it elsewhere");
            return Err(Rejection::invalid("done", message));
        }
        if found.steps.is_empty() && outcome.type_name() != "object" {
            let message = format!("what came of node '{name}' is its outputs, which are an object");
            return Err(Rejection::invalid("done", message));
        }
    }
    Ok(())
}

fn decision(
    run: &Run,
    draft: &Draft,
    wish: &ResumeRequested,
    artifacts: Artifacts,
) -> (ResumeDecided, ResumeVerdict) {
    let policy = run.resume_policy(&draft.defaults);
    run.decide_resume(wish, artifacts, &policy, draft.now)
}

/// Every interrupted node is started again.
fn restart(run: &mut Run, draft: &mut Draft) {
    let cause = draft.last_sequence();
    for ix in run.interrupted() {
        run.emit_node(draft, ix, NodeEvent::Due(NodeDue::in_time()), cause);
    }
}

/// The run is not resumed by itself: somebody has to decide, unless the policy says that it just fails.
fn refuse(run: &mut Run, draft: &mut Draft, code: Option<ReasonCode>) {
    match run.resume_policy(&draft.defaults).on_refusal {
        OnRefusal::Escalate => run.escalate_resume(draft, code),
        OnRefusal::Fail => {
            let nodes = run.interrupted();
            give_up(run, draft, &nodes);
            // People may have been asked before the policy said so, and the definition may deal with the failures by now.
            if run.state.hold == Hold::Escalated && run.state.ending.is_none() {
                let resumed = Resumed { by: Some(BY_SYSTEM.to_owned()), reason: None };
                let cause = draft.last_sequence();
                draft.emit_run(run, RunEvent::Resumed(resumed), cause);
            }
        }
    }
}

/// The nodes fail for good, with what interrupted them.
fn give_up(run: &mut Run, draft: &mut Draft, nodes: &[NodeIx]) {
    for &ix in nodes {
        let Some(found) = run.state.resume.interrupted.get(&ix) else { continue };
        let step = run.interrupted_step(ix, found);
        let unsafe_again = step.unknown && !step.may_repeat();
        let failure = if unsafe_again { super::report::unsafe_to_repeat(step.error) } else { step.error };
        run.give_up(draft, ix, failure);
    }
}

/// What a person's answer to the run's own question brings about.
pub(super) fn answered(run: &mut Run, draft: &mut Draft, accepted: bool, by: String, reason: Option<String>) {
    let approve = run.state.resume.asked_of.clone();
    if accepted {
        let wish = ResumeRequested { reason, force: true, approve, ..ResumeRequested::plain(&by) };
        let cause = draft.last_sequence();
        draft.emit_run(run, RunEvent::ResumeRequested(Box::new(wish)), cause);
        return;
    }
    let nodes: Vec<NodeIx> = approve.iter().filter_map(|node| run.graph.node(node)).collect();
    give_up(run, draft, &nodes);
    // Usually that fails the run. But the definition may deal with the failure by now. What else was interrupted since
    // people were asked is looked at anew.
    if run.state.ending.is_none() {
        let cause = draft.last_sequence();
        draft.emit_run(run, RunEvent::Resumed(Resumed { by: Some(by), reason }), cause);
    }
}

/// An operator says whether the run is resumed by itself.
pub(super) fn switch(
    run: &mut Run,
    draft: &mut Draft,
    auto: bool,
    by: String,
    reason: Option<String>,
) -> Result<(), Rejection> {
    run.check_running()?;
    check_reason(reason.as_ref())?;
    if run.state.resume.auto != Some(auto) {
        draft.emit_run(run, RunEvent::ResumeSwitched(ResumeSwitched { auto, by, reason }), None);
    }
    Ok(())
}

impl Run {
    /// The run's own question, if it is open.
    pub(crate) fn open_question(&self) -> Option<InterruptId> {
        self.state.resume.question.filter(|id| self.state.open.contains_key(id))
    }
}
