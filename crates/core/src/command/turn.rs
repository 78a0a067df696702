//! Turn: what happens to the call of a model, and what somebody wants of a turn that waits.

use crate::command::{Draft, check_reason, report};
use crate::event::{
    ChunkEnd, ChunkKind, MessageChunk, ModelAnswered, ModelCalled, NodeDue, NodeEvent, ProviderPostponed,
    ProviderRetry, ProviderUsage, TurnEnd, TurnSealed,
};
use crate::fold::FENCES_PER_EVENT_BITS;
use crate::graph::Work;
use crate::http::{Reached, TaskFailure};
use crate::turn::{ErrorKind, ModelAnswer, ModelError, Price, ProviderTerms, Stage, TurnState, Verdict};
use crate::{
    Failure, InterruptionClass, Json, JsonMap, Message, NodeIx, NodePhase, Product, Rejection, Run, TaskId,
    limits,
};

/// What may happen to a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnCommand {
    /// The model says something.
    Said {
        /// The call.
        call: CallRef,
        /// What it is.
        kind: ChunkKind,
        /// Its words.
        text: String,
    },
    /// A call has ended.
    Ended {
        /// The call.
        call: CallRef,
        /// All that came of it, or how it failed.
        outcome: Result<Box<ModelAnswer>, ModelError>,
        /// What of it was not told yet.
        rest: Vec<(ChunkKind, String)>,
    },
    /// The provider is known to be away, so it was not called.
    Refused {
        /// The call.
        call: CallRef,
    },
    /// A turn that was postponed may try its provider.
    Go {
        /// The turn's node and execution.
        task: TaskId,
    },
    /// Somebody does not want to wait for the next try.
    RetryNow {
        /// The node; the only one that waits if nobody says.
        node: Option<String>,
        /// Who.
        by: String,
    },
    /// Somebody does not want it tried any more.
    GiveUp {
        /// The node; the only one that waits if nobody says.
        node: Option<String>,
        /// Who.
        by: String,
        /// Why, in their words.
        reason: Option<String>,
    },
}

/// One call of a model, as its executor knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRef {
    /// The turn's node and execution.
    pub task: TaskId,
    /// The fence under which it is made.
    pub fence: u64,
}

pub(super) fn decide(run: &mut Run, draft: &mut Draft, command: TurnCommand) -> Result<(), Rejection> {
    run.check_open()?;
    match command {
        TurnCommand::Said { call, kind, text } => {
            let ix = under_way(run, &call)?;
            run.check_running()?;
            run.say(draft, ix, kind, text, Last::No);
            return Ok(());
        }
        TurnCommand::Ended { call, outcome, rest } => {
            let ix = under_way(run, &call)?;
            ended(run, draft, ix, outcome, rest);
        }
        TurnCommand::Refused { call } => {
            let ix = under_way(run, &call)?;
            // Whoever has said something was called.
            if run.has_said(ix) {
                return Err(Rejection::NoSuchTask);
            }
            refused(run, draft, ix);
        }
        TurnCommand::Go { task } => {
            let ix = run.graph.node(&task.node).ok_or(Rejection::NoSuchTask)?;
            let turn = run.node(ix).turn.as_deref().filter(|_| run.node(ix).execution == task.execution);
            if turn.is_none_or(|turn| turn.stage != Stage::Postponed) {
                return Err(Rejection::NoSuchTask);
            }
            run.emit_node(draft, ix, NodeEvent::Due(NodeDue::in_time()), None);
        }
        TurnCommand::RetryNow { node, by } => {
            run.check_running()?;
            let ix = waiting(run, node.as_deref())?;
            run.emit_node(draft, ix, NodeEvent::Due(NodeDue { by: Some(by) }), None);
        }
        TurnCommand::GiveUp { node, by, reason } => {
            run.check_running()?;
            check_reason(reason.as_ref())?;
            let ix = waiting(run, node.as_deref())?;
            let failure = run.withheld(ix, "provider_given_up", Some((by, reason)));
            run.give_up(draft, ix, failure);
        }
    }
    run.advance(draft);
    Ok(())
}

/// The node whose model is being called, if this is still the call.
fn under_way(run: &Run, call: &CallRef) -> Result<NodeIx, Rejection> {
    let ix = run.graph.node(&call.task.node).ok_or(Rejection::NoSuchTask)?;
    let node = run.node(ix);
    let turn = node.turn.as_deref().ok_or(Rejection::NoSuchTask)?;
    let current = turn.called == call.fence >> FENCES_PER_EVENT_BITS;
    let calling = matches!(turn.stage, Stage::Calling { .. }) && node.phase == NodePhase::Running;
    if calling && current && node.execution == call.task.execution {
        Ok(ix)
    } else {
        Err(Rejection::NoSuchTask)
    }
}

/// The node that waits for its provider: the one that is named, or the only one.
fn waiting(run: &Run, named: Option<&str>) -> Result<NodeIx, Rejection> {
    let waits = |ix: NodeIx| run.node(ix).turn.as_deref().is_some_and(TurnState::awaits_provider);
    let all: Vec<NodeIx> = (0..run.graph.len() as NodeIx).filter(|&ix| waits(ix)).collect();
    let names = || all.iter().map(|&ix| run.graph.at(ix).id.to_string()).collect::<Vec<_>>();
    match (named, all.as_slice()) {
        (Some(name), _) => {
            let found = run.graph.node(name).filter(|&ix| waits(ix));
            found.ok_or_else(|| Rejection::TurnNotWaiting { node: Some(name.to_owned()), waiting: names() })
        }
        (None, [only]) => Ok(*only),
        (None, _) => Err(Rejection::TurnNotWaiting { node: None, waiting: names() }),
    }
}

fn ended(
    run: &mut Run,
    draft: &mut Draft,
    ix: NodeIx,
    outcome: Result<Box<ModelAnswer>, ModelError>,
    rest: Vec<(ChunkKind, String)>,
) {
    let told_nothing = rest.is_empty();
    let mut rest = rest.into_iter().peekable();
    while let Some((kind, text)) = rest.next() {
        let last = match &outcome {
            Ok(answer) if rest.peek().is_none() => Last::Yes(answer),
            _ => Last::No,
        };
        run.say(draft, ix, kind, text, last);
    }
    // Whoever follows what is said has to hear that it was all.
    if let Ok(answer) = &outcome
        && told_nothing
        && run.has_said(ix)
    {
        run.say(draft, ix, ChunkKind::Text, String::new(), Last::Yes(answer));
    }
    match outcome {
        Ok(answer) => answered(run, draft, ix, *answer),
        Err(error) => failed(run, draft, ix, error),
    }
}

fn answered(run: &mut Run, draft: &mut Draft, ix: NodeIx, answer: ModelAnswer) {
    let Some(turn) = run.node(ix).turn.as_deref() else { return };
    let (step, provider) = (turn.step, turn.began.provider.clone());
    let sensitive = run.node(ix).sensitive || run.graph.at(ix).hides_answers();
    let ModelAnswer { content, reasoning, tool_calls, usage, stop_reason, model } = answer;
    let terms = draft.defaults.providers.get(&provider);
    let asked = turn.began.model.clone().or_else(|| terms.and_then(|terms| terms.model.clone()));
    let price = terms.and_then(|terms| price(terms, model.as_deref(), asked.as_deref()));
    let used = ProviderUsage {
        provider,
        model: model.or(asked),
        step,
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cached_tokens: usage.cached_tokens,
        reasoning_tokens: usage.reasoning_tokens,
        cost_micros: price.map(|price| price.of(usage)),
    };
    let tool_calls = turn.told_apart(tool_calls);
    let calls_tools = !tool_calls.is_empty();
    let text = content.clone();
    let message = Message::Assistant { content, reasoning, tool_calls };
    let bytes = run.conversation_bytes(ix) + Json::of(&message).text().len();
    let answered = ModelAnswered { step, message, stop_reason: stop_reason.clone(), sensitive };
    let cause = draft.last_sequence();
    run.emit_node(draft, ix, NodeEvent::ModelAnswered(Box::new(answered)), cause);
    let cause = draft.last_sequence();
    run.emit_node(draft, ix, NodeEvent::ProviderUsage(Box::new(used)), cause);
    if !calls_tools {
        return run.finish_turn(draft, ix, &text, stop_reason.as_deref(), sensitive);
    }
    if run.state.ending.is_some() {
        return run.seal(draft, ix, TurnEnd::Aborted, None);
    }
    let most = run.steps_max(ix);
    let node = &run.graph.at(ix).id;
    if bytes > limits::TURN_BYTES_MAX {
        let failure = crate::turn::too_long(node, bytes);
        return run.give_up(draft, ix, failure);
    }
    if step + 1 >= most {
        let message = format!(
            "the model of node '{node}' still calls tools in its answer {most}, and there may be no more; raise 'maxSteps'"
        );
        run.give_up(draft, ix, Failure::new("turn_steps_exceeded", message));
    }
    // The tools stand in line now, so that a run that is held does not call them.
}

fn price(terms: &ProviderTerms, answered: Option<&str>, asked: Option<&str>) -> Option<Price> {
    [answered, asked].into_iter().flatten().find_map(|model| terms.prices.get(model)).copied()
}

fn failed(run: &mut Run, draft: &mut Draft, ix: NodeIx, error: ModelError) {
    let seen = run.has_said(ix);
    let error = ModelError { had_content: error.had_content || seen, ..run.told_error(ix, error) };
    if seen {
        run.say(draft, ix, ChunkKind::Text, String::new(), Last::Broken);
    }
    if run.state.ending.is_some() {
        return run.seal(draft, ix, TurnEnd::Aborted, None);
    }
    let Some(turn) = run.node(ix).turn.as_deref() else { return };
    let attempt = turn.attempt;
    let terms = draft.defaults.providers.get(&turn.began.provider).cloned().unwrap_or_default();
    match terms.verdict(&error, attempt) {
        Verdict::Retry { delay_ms } => {
            let retry = ProviderRetry {
                r#type: ProviderRetry::TYPE.to_owned(),
                conversation_id: turn.began.conversation_id.clone(),
                turn_id: turn.began.turn_id.clone(),
                attempt,
                delay_ms,
                message: error.message,
                code: error.code,
            };
            run.emit_node(draft, ix, NodeEvent::ProviderRetry(Box::new(retry)), None);
        }
        Verdict::Exhausted => {
            let failure = of_provider("provider_exhausted", &error, turn);
            run.give_up(draft, ix, failure);
        }
        Verdict::Final => {
            let failure = of_provider("provider_error", &error, turn);
            run.give_up(draft, ix, failure);
        }
        Verdict::BrokenOff => {
            let crashed = error.kind == ErrorKind::Crashed;
            let failure = TaskFailure {
                failure: of_provider("provider_broken_off", &error, turn),
                retryable: true,
                reached: Reached::Maybe,
                class: if crashed { InterruptionClass::ProcessCrash } else { InterruptionClass::ToolFailure },
            };
            report::fail(run, draft, ix, failure);
        }
    }
}

fn refused(run: &mut Run, draft: &mut Draft, ix: NodeIx) {
    if run.state.ending.is_some() {
        return run.seal(draft, ix, TurnEnd::Aborted, None);
    }
    let Some(turn) = run.node(ix).turn.as_deref() else { return };
    let since = turn.postponed_since.unwrap_or(draft.now);
    if draft.now.saturating_sub(since) >= limits::POSTPONED_MS_MAX {
        let failure = run.withheld(ix, "provider_exhausted", None);
        return run.give_up(draft, ix, failure);
    }
    let postponed = ProviderPostponed { provider: turn.began.provider.clone(), since };
    run.emit_node(draft, ix, NodeEvent::ProviderPostponed(postponed), None);
}

/// The time of a turn's wait has come.
pub(super) fn due(run: &mut Run, draft: &mut Draft, ix: NodeIx) -> Result<(), Rejection> {
    let turn = run.node(ix).turn.as_deref().ok_or(Rejection::NoSuchTimer)?;
    match turn.stage {
        Stage::Retrying { .. } => run.emit_node(draft, ix, NodeEvent::Due(NodeDue::in_time()), None),
        Stage::Postponed => {
            let failure = run.withheld(ix, "provider_exhausted", None);
            run.give_up(draft, ix, failure);
        }
        _ => return Err(Rejection::NoSuchTimer),
    }
    Ok(())
}

/// A provider's error as the failure of a node.
fn of_provider(code: &str, error: &ModelError, turn: &TurnState) -> Failure {
    let details = serde_json::json!({
        "provider": turn.began.provider, "status": error.code, "retries": turn.attempt, "turnId": turn.began.turn_id,
    });
    Failure { details: Some(Json::of(&details)), ..Failure::new(code, error.message.clone()) }
}

/// Whether a stretch of an answer is its last.
#[derive(Clone, Copy)]
enum Last<'a> {
    No,
    /// And this is all of the answer.
    Yes(&'a ModelAnswer),
    /// And nothing of it counts.
    Broken,
}

impl Last<'_> {
    fn end(self) -> Option<Box<ChunkEnd>> {
        let Self::Yes(answer) = self else { return None };
        let (stop_reason, model) = (answer.stop_reason.clone(), answer.model.clone());
        Some(Box::new(ChunkEnd { stop_reason, model, usage: answer.usage }))
    }
}

impl Run {
    /// Records a stretch of an answer. What is never shown is not recorded, but that something was said is.
    fn say(&mut self, draft: &mut Draft, ix: NodeIx, kind: ChunkKind, text: String, last: Last<'_>) {
        let Some(turn) = self.node(ix).turn.as_deref() else { return };
        let hidden = self.node(ix).sensitive || self.graph.at(ix).hides_answers();
        let chunk = MessageChunk {
            step: turn.step,
            call: turn.calls,
            kind,
            chunk: if hidden { String::new() } else { text },
            is_last: !matches!(last, Last::No),
            broken_off: matches!(last, Last::Broken),
            end: last.end(),
        };
        self.emit_node(draft, ix, NodeEvent::MessageChunk(chunk), None);
    }

    /// Whether somebody has seen a part of what the call under way says.
    fn has_said(&self, ix: NodeIx) -> bool {
        let turn = self.node(ix).turn.as_deref();
        turn.is_some_and(|turn| turn.stage == Stage::Calling { content: true })
    }

    /// Calls the model of a turn that is next in line.
    pub(crate) fn call_model(&mut self, draft: &mut Draft, ix: NodeIx, cause: Option<u64>) {
        let Some(turn) = self.node(ix).turn.as_deref() else { return };
        let called = ModelCalled { step: turn.step, attempt: turn.attempt };
        self.emit_node(draft, ix, NodeEvent::ModelCalled(called), cause);
    }

    fn finish_turn(
        &mut self,
        draft: &mut Draft,
        ix: NodeIx,
        text: &str,
        stop_reason: Option<&str>,
        sensitive: bool,
    ) {
        let Some(turn) = self.node(ix).turn.as_deref() else { return };
        // What was said is carried as it is: not all that is JSON can be looked into.
        let mut outputs: JsonMap = [
            ("text", Json::of(text)),
            ("stopReason", Json::of(&stop_reason)),
            ("model", Json::of(&turn.answered_by)),
            ("steps", Json::of(&turn.step)),
            ("usage", Json::of(&turn.usage)),
            ("turnId", Json::of(&turn.began.turn_id)),
            ("messages", Json::of(&turn.began.messages)),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        outputs.extend(turn.cost_micros.map(|cost| ("costMicros".to_owned(), Json::of(&cost))));
        let product = Product { sensitive, ..Product::of(Some(Json::of(&outputs))) };
        self.finish(draft, ix, product);
    }

    /// Ends the turn of a node, if it has one that has not ended.
    pub(crate) fn seal(&mut self, draft: &mut Draft, ix: NodeIx, status: TurnEnd, error: Option<Failure>) {
        let Some(turn) = self.node(ix).turn.as_deref().filter(|turn| !turn.is_sealed()) else { return };
        let sealed = TurnSealed {
            conversation_id: turn.began.conversation_id.clone(),
            turn_id: turn.began.turn_id.clone(),
            status,
            steps: turn.step,
            usage: turn.usage,
            cost_micros: turn.cost_micros,
            error,
        };
        let cause = draft.last_sequence();
        self.emit_node(draft, ix, NodeEvent::TurnSealed(Box::new(sealed)), cause);
    }

    /// The error that was withheld, as the failure of the node.
    fn withheld(&self, ix: NodeIx, code: &str, by: Option<(String, Option<String>)>) -> Failure {
        let turn = self.node(ix).turn.as_deref();
        let said = turn.and_then(|turn| turn.withheld.as_ref());
        let provider = turn.map_or("", |turn| &turn.began.provider);
        let message = match said {
            Some(said) => said.message.clone(),
            None => format!("provider '{provider}' was known to be away, and was not asked"),
        };
        let (by, reason) = by.unzip();
        let details = serde_json::json!({
            "provider": provider, "status": said.and_then(|said| said.code.as_ref()),
            "retries": turn.map(|turn| turn.attempt), "turnId": turn.map(|turn| &turn.began.turn_id),
            "by": by, "reason": reason.flatten(),
        });
        Failure { details: Some(Json::of(&details)), ..Failure::new(code, message) }
    }

    /// A provider's words as they are recorded: they may repeat what went in.
    fn told_error(&self, ix: NodeIx, error: ModelError) -> ModelError {
        let message = self.told(ix, Failure::new("provider_error", error.message)).message;
        let end = message.floor_char_boundary(limits::PROVIDER_MESSAGE_BYTES_MAX);
        ModelError { message: message[..end].to_owned(), ..error }
    }

    fn steps_max(&self, ix: NodeIx) -> u32 {
        match &self.graph.at(ix).work {
            Work::Turn(work) => work.steps_max,
            _ => 1,
        }
    }

    fn conversation_bytes(&self, ix: NodeIx) -> usize {
        let turn = self.node(ix).turn.as_deref();
        let messages = turn.map_or(&[][..], |turn| &turn.began.messages);
        messages.iter().map(|message| Json::of(message).text().len()).sum()
    }
}
