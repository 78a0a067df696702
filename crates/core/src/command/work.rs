//! Work: what a worker does with a task it has. One that has it no longer changes nothing.

use crate::climb::LadderTerms;
use crate::command::{Draft, report};
use crate::event::{
    EngagementDecided, Failure, Loss, NodeEvent, NodeNoted, NodeParked, NodeSuspended, SleepStarted,
    StepBegun, StepRecorded, TaskLost, VersionRecorded, Wait,
};
use crate::event::{Hooks, LogLine, Progress};
use crate::gate::payload_form;
use crate::http::{Reached, TaskFailure};
use crate::interrupt::{Asked, NodeContext, Stop};
use crate::perform::Product;
use crate::work::{
    FailureClass, Memo, OWN_KEYS, Work, WorkAsk, WorkChild, WorkFailure, WorkJudgement, WorkOp, WorkState,
};
use crate::{
    Ask, InterruptionClass, Json, JsonMap, LadderCall, NodeIx, NodePhase, Rejection, Run, TaskId, limits,
};

pub(super) fn decide(run: &mut Run, draft: &mut Draft, work: Work) -> Result<(), Rejection> {
    let ix = held(run, &work.task, work.fence)?;
    match work.op {
        WorkOp::Begin { key } => begin(run, draft, ix, key),
        WorkOp::Record { key, outcome } => record(run, draft, ix, key, outcome),
        WorkOp::Ask(asked) => ask(run, draft, ix, &asked),
        WorkOp::Judge(made) => judge(run, draft, ix, &made),
        WorkOp::Sleep { key, ms } => sleep(run, draft, ix, key, ms),
        WorkOp::Child(asked) => child(run, draft, ix, asked),
        WorkOp::Version { key, version, old } => choose(run, draft, ix, key, if old { 0 } else { version }),
        WorkOp::Park { waits } => park(run, draft, ix, waits),
        WorkOp::Complete { outputs, by } => complete(run, draft, ix, outputs, by),
        WorkOp::Fail(failed) => fail(run, draft, ix, failed),
        WorkOp::Note { progress, lines } => note(run, draft, ix, progress, lines),
        WorkOp::Decide { decision } => decided(run, draft, ix, decision),
        WorkOp::Lose { reason, worker } => lose(run, draft, ix, reason, &worker),
    }
}

/// The node, if the task is under way under this very fence.
fn held(run: &Run, task: &TaskId, fence: u64) -> Result<NodeIx, Rejection> {
    run.check_open().map_err(|_| Rejection::StaleFence)?;
    let ix = run.graph.node(&task.node).ok_or(Rejection::StaleFence)?;
    let node = run.node(ix);
    let under_way = node.phase == NodePhase::Running && node.execution == task.execution;
    let same = node.work.as_ref().is_some_and(|work| work.fence == fence);
    if under_way && same { Ok(ix) } else { Err(Rejection::StaleFence) }
}

/// Nothing new begins in a run that is ending.
fn check_going_on(run: &Run) -> Result<(), Rejection> {
    if run.state.ending.is_some() { Err(Rejection::Cancelling) } else { Ok(()) }
}

/// Whether a key may be used for something new.
fn check_new(run: &Run, ix: NodeIx, key: &str) -> Result<(), Rejection> {
    if key.is_empty() || key.chars().count() > limits::STEP_KEY_CHARS_MAX || key.chars().any(char::is_control)
    {
        let most = limits::STEP_KEY_CHARS_MAX;
        return Err(Rejection::invalid(
            "key",
            format!("'key' has 1 to {most} characters, and no control characters; use another name"),
        ));
    }
    if key.starts_with(OWN_KEYS) {
        let message = format!("names that begin with {OWN_KEYS} are the server's own; use another name");
        return Err(Rejection::invalid("key", message));
    }
    let memos = run.node(ix).work.as_ref().map_or(0, |work| work.memos.len());
    if memos >= limits::STEPS_MAX {
        let most = limits::STEPS_MAX;
        let message =
            format!("the node has recorded {most} steps, and may record no more; split it, or run children");
        return Err(Rejection::Work(Failure::new("step_limit", message)));
    }
    Ok(())
}

/// The code asked for one thing under a key under which it did another.
fn conflict(run: &Run, ix: NodeIx, key: &str, found: &Memo, wanted: &str) -> Rejection {
    let message = format!(
        "'{}' of node '{}' is recorded as {}, and is asked for as {wanted}; the code has changed: use another name, or \
         keep the old way for old runs with version()",
        crate::excerpt::excerpt(key),
        run.graph.at(ix).id,
        found.noun()
    );
    Rejection::Work(Failure::new("code_changed", message))
}

fn begin(run: &mut Run, draft: &mut Draft, ix: NodeIx, key: String) -> Result<(), Rejection> {
    match run.memo(ix, &key) {
        Some(Memo::Begun | Memo::Done(_) | Memo::Failed(_)) => return Ok(()),
        Some(other) => return Err(conflict(run, ix, &key, other, "a step")),
        None => check_new(run, ix, &key)?,
    }
    check_going_on(run)?;
    run.emit_node(draft, ix, NodeEvent::StepBegun(StepBegun { key }), None);
    Ok(())
}

fn record(
    run: &mut Run,
    draft: &mut Draft,
    ix: NodeIx,
    key: String,
    outcome: Result<Json, Failure>,
) -> Result<(), Rejection> {
    match run.memo(ix, &key) {
        Some(Memo::Done(_) | Memo::Failed(_)) => return Ok(()),
        Some(Memo::Begun) => {}
        Some(other) => return Err(conflict(run, ix, &key, other, "a step")),
        None => check_new(run, ix, &key)?,
    }
    let sensitive = run.node(ix).sensitive || run.graph.at(ix).hides_answers();
    let (value, error) = match outcome {
        Ok(value) => (Some(value), None),
        Err(failure) => (None, Some(run.told(ix, failure))),
    };
    let size = value.as_ref().map_or(0, |value| value.text().len());
    check_size("value", size)?;
    let recorded = StepRecorded { key, value, error, sensitive };
    run.emit_node(draft, ix, NodeEvent::StepRecorded(recorded), None);
    Ok(())
}

fn check_size(what: &str, bytes: usize) -> Result<(), Rejection> {
    if bytes <= limits::STEP_BYTES_MAX {
        return Ok(());
    }
    let most = limits::STEP_BYTES_MAX;
    let message = format!(
        "'{what}' has {bytes} bytes, and {most} are allowed; keep it elsewhere and give back where it is"
    );
    Err(Rejection::Work(Failure::new("value_too_large", message)))
}

fn ask(run: &mut Run, draft: &mut Draft, ix: NodeIx, asked: &WorkAsk) -> Result<(), Rejection> {
    let told = |problems: Vec<crate::Problem>| {
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Rejection::invalid("payload", told.join("; "))
    };
    let mut ask = Ask::read(&asked.payload).map_err(told)?;
    ask.key = asked.key.clone().or(ask.key);
    let ladder = asked.ladder.as_ref().map(LadderCall::parse).transpose().map_err(told)?;
    let key = run.ask_key(ix, &WorkAsk { key: ask.key.clone(), ..asked.clone() });
    let known = run.state.answers.contains_key(&key);
    if !known {
        check_going_on(run)?;
    }
    let node = run.graph.at(ix);
    let terms = LadderTerms {
        call: ladder.as_ref().or(node.ladder.as_ref()),
        agent: node.agent.as_deref().or(Some(&asked.agent)),
        form: payload_form(asked.single),
    };
    let mut context = NodeContext::new(run, ix, run.node(ix).execution, draft.defaults.clone());
    context.calls = asked.call.saturating_sub(1);
    match context.ask(ask, &terms) {
        // What became of it is told from the run.
        Ok(_) => return Ok(()),
        Err(Stop::Failed(_)) if known && run.same_as_answered(&key, asked) => return Ok(()),
        Err(Stop::Failed(failure)) => return Err(Rejection::Work(failure)),
        Err(Stop::Suspended) => {}
    }
    let wanted = context.into_wanted().0;
    let mut by = vec![asked.agent.clone()];
    by.extend(asked.principal.clone().filter(|principal| *principal != asked.agent));
    let hooks = Hooks { agent: asked.agent.clone(), on: asked.hooks.clone() };
    let terms = asked_of(run, ix, asked.respondents.as_ref(), hooks, by);
    wanted.into_iter().for_each(|call| _ = run.open_call(draft, ix, call, terms.clone()));
    Ok(())
}

/// What goes with whatever a worker asks.
fn asked_of(
    run: &Run,
    ix: NodeIx,
    respondents: Option<&Vec<String>>,
    hooks: Hooks,
    by: Vec<String>,
) -> Asked {
    Asked {
        respondents: respondents.unwrap_or(&run.graph.at(ix).respondents).clone(),
        by,
        hooks: (!hooks.on.is_empty()).then_some(hooks),
        sensitive: run.node(ix).sensitive,
    }
}

/// An agent has decided. If it is not sure enough, somebody has to ratify that.
fn judge(run: &mut Run, draft: &mut Draft, ix: NodeIx, made: &WorkJudgement) -> Result<(), Rejection> {
    let told = |problems: Vec<crate::Problem>| {
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Rejection::invalid("ladder", told.join("; "))
    };
    let ladder = made.ladder.as_ref().map(LadderCall::parse).transpose().map_err(told)?;
    let key = run.question_key(ix, made.key.clone(), made.call);
    if !run.state.answers.contains_key(&key) {
        check_going_on(run)?;
    }
    let node = run.graph.at(ix);
    let agent = made.judged.agent.as_str();
    let call = ladder.as_ref().or(node.ladder.as_ref());
    let terms = LadderTerms { call, agent: node.agent.as_deref().or(Some(agent)), form: payload_form(false) };
    let mut context = NodeContext::new(run, ix, run.node(ix).execution, draft.defaults.clone());
    context.calls = made.call.saturating_sub(1);
    match context.decide(made.judged.clone(), made.key.clone(), None, &terms) {
        Ok(_) | Err(Stop::Suspended) => {}
        // What became of it is told from the run.
        Err(Stop::Failed(_)) if run.state.answers.contains_key(&key) => return Ok(()),
        Err(Stop::Failed(failure)) => return Err(Rejection::Work(failure)),
    }
    let (wanted, decided, _) = context.into_wanted();
    decided.into_iter().for_each(|decided| run.tell_decided(draft, ix, decided));
    let hooks = Hooks { agent: agent.to_owned(), on: made.hooks.clone() };
    let terms = asked_of(run, ix, made.respondents.as_ref(), hooks, vec![agent.to_owned()]);
    wanted.into_iter().for_each(|call| _ = run.open_call(draft, ix, call, terms.clone()));
    Ok(())
}

fn sleep(run: &mut Run, draft: &mut Draft, ix: NodeIx, key: String, ms: i64) -> Result<(), Rejection> {
    match run.memo(ix, &key) {
        Some(Memo::Sleep { .. }) => return Ok(()),
        Some(other) => return Err(conflict(run, ix, &key, other, "a sleep")),
        None => check_new(run, ix, &key)?,
    }
    check_going_on(run)?;
    if !(0..=limits::DELAY_MS_MAX).contains(&ms) {
        let message = format!("'ms' is a whole number from 0 to {}", limits::DELAY_MS_MAX);
        return Err(Rejection::invalid("ms", message));
    }
    let until = draft.now.saturating_add(ms);
    run.emit_node(draft, ix, NodeEvent::SleepStarted(SleepStarted { key, until }), None);
    Ok(())
}

fn child(run: &mut Run, draft: &mut Draft, ix: NodeIx, asked: WorkChild) -> Result<(), Rejection> {
    match run.memo(ix, &asked.key) {
        Some(Memo::Child { .. }) => return Ok(()),
        Some(other) => return Err(conflict(run, ix, &asked.key, other, "a child")),
        None => check_new(run, ix, &asked.key)?,
    }
    check_going_on(run)?;
    check_size("inputs", asked.inputs.values().map(|value| value.text().len()).sum())?;
    run.spawn_for_worker(draft, ix, asked).map_err(Rejection::Work)
}

fn choose(run: &mut Run, draft: &mut Draft, ix: NodeIx, key: String, version: u32) -> Result<(), Rejection> {
    match run.memo(ix, &key) {
        Some(Memo::Version(_)) => return Ok(()),
        Some(other) => return Err(conflict(run, ix, &key, other, "a version")),
        None => check_new(run, ix, &key)?,
    }
    run.emit_node(draft, ix, NodeEvent::VersionRecorded(VersionRecorded { key, version }), None);
    Ok(())
}

fn park(run: &mut Run, draft: &mut Draft, ix: NodeIx, waits: Vec<Wait>) -> Result<(), Rejection> {
    check_going_on(run)?;
    if waits.is_empty() || waits.len() > limits::WAITS_MAX {
        let message = format!("'waits' names 1 to {} things that are waited for", limits::WAITS_MAX);
        return Err(Rejection::invalid("waits", message));
    }
    let mut come = false;
    for wait in &waits {
        come |= has_come(run, ix, wait)?;
    }
    if come {
        return Ok(());
    }
    check_nothing_begun(run, ix)?;
    let asked: Vec<_> = waits
        .iter()
        .filter_map(|wait| if let Wait::Interrupt(id) = wait { Some(*id) } else { None })
        .collect();
    run.emit_node(draft, ix, NodeEvent::Parked(NodeParked { waits, unfit: None }), None);
    for interrupt_id in asked {
        let asked = &run.state.open[&interrupt_id].requested;
        let suspended = NodeSuspended::of(asked, run.node(ix).sensitive);
        run.emit_node(draft, ix, NodeEvent::Suspended(suspended), draft.last_sequence());
    }
    // Nothing else may be under way: a pause that waits for it is complete.
    run.advance(draft);
    Ok(())
}

/// Whoever gets the task next would do a step again that is under way.
fn check_nothing_begun(run: &Run, ix: NodeIx) -> Result<(), Rejection> {
    if !run.has_begun(ix) {
        return Ok(());
    }
    let message = "a step is under way that must not be done twice, so the task can't be given back; record the step \
                   first, and wait for nothing inside it";
    Err(Rejection::invalid("waits", message))
}

/// Whether what is waited for has come already.
fn has_come(run: &Run, ix: NodeIx, wait: &Wait) -> Result<bool, Rejection> {
    let unknown =
        || Rejection::invalid("waits", "a wait is named that nothing is known of; ask for it first");
    Ok(match wait {
        Wait::Interrupt(id) => {
            if !id.is_of(&run.salt, run.head.next) {
                return Err(unknown());
            }
            !run.state.open.contains_key(id)
        }
        Wait::Sleep(key) => match run.memo(ix, key) {
            Some(Memo::Sleep { over, .. }) => *over,
            _ => return Err(unknown()),
        },
        Wait::Child(key) => match run.memo(ix, key) {
            Some(Memo::Child { ended, .. }) => ended.is_some(),
            _ => return Err(unknown()),
        },
    })
}

fn complete(
    run: &mut Run,
    draft: &mut Draft,
    ix: NodeIx,
    outputs: Option<Json>,
    by: Vec<String>,
) -> Result<(), Rejection> {
    check_size("outputs", outputs.as_ref().map_or(0, |outputs| outputs.text().len()))?;
    let sensitive = run.node(ix).sensitive;
    let made_by = if run.graph.at(ix).names_maker { by } else { Vec::new() };
    run.finish(draft, ix, Product { sensitive, made_by, ..Product::of(outputs) });
    run.advance(draft);
    Ok(())
}

fn fail(run: &mut Run, draft: &mut Draft, ix: NodeIx, failed: WorkFailure) -> Result<(), Rejection> {
    check_size("error", failed.failure.details.as_ref().map_or(0, |details| details.text().len()))?;
    let maybe = failed.possible_effect || run.has_begun(ix);
    let mut failure = failed.failure;
    let waits = run.node(ix).work.as_ref().is_some_and(|work| work.unfit < limits::UNFIT_ROUNDS_MAX);
    if failed.class == FailureClass::CodeChanged && waits && !maybe && run.state.ending.is_none() {
        await_fitting_code(run, draft, ix, failure);
        return Ok(());
    }
    if let Some(ms) = failed.retry_after_ms.filter(|&ms| ms > 0) {
        let mut details: JsonMap =
            failure.details.as_ref().and_then(|details| details.parse().ok()).unwrap_or_default();
        details.insert("retryAfterMs".to_owned(), Json::of(&ms));
        failure.details = Some(Json::of(&details));
    }
    let told = TaskFailure {
        failure,
        retryable: failed.retryable && failed.class.may_pass(),
        reached: if maybe { Reached::Maybe } else { Reached::No },
        class: failed.class.interruption(),
    };
    report::fail(run, draft, ix, told);
    run.advance(draft);
    Ok(())
}

/// Nothing is wrong with the run: its worker has other code than the one before. It waits until one comes whose code
/// fits, and asks every now and then.
fn await_fitting_code(run: &mut Run, draft: &mut Draft, ix: NodeIx, failure: Failure) {
    let before = run.node(ix).work.as_ref().map_or(0, |work| work.unfit);
    let delay = limits::UNFIT_DELAY_MS_MAX.min(limits::UNFIT_DELAY_MS << before.min(16));
    let key = format!("{OWN_KEYS}unfit/{}", run.head.next);
    let until = draft.now.saturating_add(delay);
    run.emit_node(draft, ix, NodeEvent::SleepStarted(SleepStarted { key: key.clone(), until }), None);
    let unfit = Some(run.told(ix, failure));
    let parked = NodeParked { waits: vec![Wait::Sleep(key)], unfit };
    run.emit_node(draft, ix, NodeEvent::Parked(parked), draft.last_sequence());
    run.advance(draft);
}

fn note(
    run: &mut Run,
    draft: &mut Draft,
    ix: NodeIx,
    progress: Option<Progress>,
    lines: Vec<LogLine>,
) -> Result<(), Rejection> {
    let long = lines.iter().any(|line| line.message.len() > limits::LOG_LINE_BYTES_MAX);
    if long || lines.len() > limits::LOG_LINES_MAX {
        let (lines, bytes) = (limits::LOG_LINES_MAX, limits::LOG_LINE_BYTES_MAX);
        return Err(Rejection::invalid("lines", format!("at most {lines} lines of {bytes} bytes each")));
    }
    if !lines.iter().all(|line| ["debug", "info", "warn", "error"].contains(&line.level.as_str())) {
        return Err(Rejection::invalid("lines", "a line's level is debug, info, warn or error"));
    }
    if progress.is_none() && lines.is_empty() {
        return Ok(());
    }
    let sensitive = run.node(ix).sensitive || run.graph.at(ix).hides_answers();
    run.emit_node(draft, ix, NodeEvent::Noted(NodeNoted { progress, lines, sensitive }), None);
    Ok(())
}

fn decided(run: &mut Run, draft: &mut Draft, ix: NodeIx, mut decision: JsonMap) -> Result<(), Rejection> {
    check_size("payload", decision.values().map(|value| value.text().len()).sum())?;
    let text = |key: &str| decision.get(key).and_then(|value| value.parse::<String>().ok());
    let modes = ["autonomous", "request_input", "require_input", "defer"];
    if !text("mode").is_some_and(|mode| modes.contains(&mode.as_str())) {
        return Err(Rejection::invalid("payload.mode", format!("'mode' is one of {}", modes.join(", "))));
    }
    if decision.get("should_ask").is_none_or(|ask| ask.parse::<bool>().is_err()) {
        return Err(Rejection::invalid("payload.should_ask", "'should_ask' is true or false"));
    }
    if run.node(ix).sensitive || run.graph.at(ix).hides_answers() {
        // Why it was decided may repeat what went in.
        decision.retain(|name, _| ["mode", "should_ask"].contains(&name.as_str()));
    }
    run.emit_node(draft, ix, NodeEvent::EngagementDecided(EngagementDecided { decision }), None);
    Ok(())
}

/// Nobody will tell how the task ended. If nothing was under way that must not be done twice, it is offered again.
fn lose(run: &mut Run, draft: &mut Draft, ix: NodeIx, reason: Loss, worker: &str) -> Result<(), Rejection> {
    let Some(work) = run.node(ix).work.as_deref() else { return Err(Rejection::StaleFence) };
    let who = if worker.is_empty() { "the worker" } else { worker };
    match loss(run, ix, work, reason, who) {
        Some(failed) => report::fail(run, draft, ix, failed),
        None => {
            let worker = worker.chars().take(limits::REASON_CHARS_MAX).collect();
            run.emit_node(draft, ix, NodeEvent::TaskLost(TaskLost { reason, worker }), None);
        }
    }
    run.advance(draft);
    Ok(())
}

/// What a loss fails with; nothing if no outcome is unknown, so that the task is just offered again. Steps of what is
/// idempotent are not announced, so one may have been under way.
fn loss(run: &Run, ix: NodeIx, work: &WorkState, reason: Loss, who: &str) -> Option<TaskFailure> {
    let id = &run.graph.at(ix).id;
    let begun = work.has_begun();
    let unknown = begun || work.offered.idempotent && reason != Loss::Released;
    let class = match reason {
        Loss::Timeout => InterruptionClass::Timeout,
        Loss::Forgotten => InterruptionClass::ContextReset,
        _ => InterruptionClass::ProcessCrash,
    };
    let failure = if begun {
        let steps: Vec<String> =
            work.begun().iter().map(|key| format!("'{}'", crate::excerpt::excerpt(key))).collect();
        let message = format!(
            "{who} that had node '{id}' stopped in the middle of step {}, so nobody knows whether that was done; it is not \
             done again, because it is not marked idempotent",
            steps.join(", ")
        );
        Failure::new("outcome_unknown", message)
    } else if run.state.ending.is_some() {
        Failure::new("worker_stopped", format!("the run ended before a worker had finished node '{id}'"))
    } else if reason == Loss::Timeout {
        let message =
            format!("{who} took longer for node '{id}' than it may; raise its timeout, or do less at once");
        Failure::new("task_timeout", message)
    } else if unknown {
        let message = format!("{who} that had node '{id}' stopped before it told how far it got");
        Failure::new("worker_lost", message)
    } else if reason != Loss::Released && work.losses + 1 >= limits::LOSSES_MAX {
        let message = format!(
            "{} workers in a row went silent with node '{id}' and recorded nothing; look at the log of the last one, {who}",
            work.losses + 1
        );
        Failure::new("worker_lost", message)
    } else {
        return None;
    };
    let reached = if unknown { Reached::Maybe } else { Reached::No };
    Some(TaskFailure { failure, retryable: true, reached, class })
}
