//! How a run climbs the ladders of its questions: it has people told again, tells others, and gives up in the end.

use crate::command::Draft;
use crate::effect::{Effect, Notify, TimerId};
use crate::event::{
    Failure, HookKind, InterruptEscalated, InterruptExpired, InterruptRenotified, NodeEvent, NoticeRefused,
    Resolution,
};
use crate::fold::Folding;
use crate::gate::resume_value;
use crate::graph::{Form, Work};
use crate::interrupt::{Action, Answerer, Ask, Open, Refused, check_answer};
use crate::ladder::INTERVAL;
use crate::{
    FallbackPolicy, InterruptId, InterruptKind, Json, Ladder, LadderCall, Next, NodeIx, Rejection, Run,
    Surroundings, Unfit, cascade, limits,
};

/// Who answers when nobody does.
const BY_LADDER: &str = "system:ladder";

/// Why a node fails whose question has a ladder that makes no sense.
pub(crate) const UNFIT_LADDER: &str = "invalid_ladder";

/// Why an interrupt was closed at the end of its ladder.
const EXPIRED: &str = "expired";

/// What a question says of itself, beside what is asked.
pub(crate) struct LadderTerms<'a> {
    /// How it goes on if nobody answers.
    pub(crate) call: Option<&'a LadderCall>,
    /// The agent that asks.
    pub(crate) agent: Option<&'a str>,
    /// How a fallback value becomes an answer.
    pub(crate) form: Form,
}

/// What a decision does.
impl Run {
    /// The terms of a gate's questions.
    pub(crate) fn ladder_terms(&self, ix: NodeIx) -> LadderTerms<'_> {
        let node = self.graph.at(ix);
        let form = if let Work::Gate(gate) = &node.work { gate.form } else { Form::Interrupt };
        LadderTerms { call: node.ladder.as_ref(), agent: node.agent.as_deref(), form }
    }

    /// The ladder of a question that a node is about to ask.
    pub(crate) fn ladder_of(
        &self,
        terms: &LadderTerms<'_>,
        ask: &Ask,
        defaults: &Surroundings,
    ) -> Result<Option<Ladder>, Failure> {
        let call = terms.call;
        let agent = terms.agent.and_then(|name| defaults.agents.get(name));
        let platform = defaults.platform.as_ref();
        // What happens elsewhere is not up to anybody who could be reminded, unless the question says so.
        let anybody = agent.is_some() || platform.is_some() || defaults.notifies;
        if call.is_none() && (ask.kind == InterruptKind::ExternalEvent || !anybody) {
            return Ok(None);
        }
        let ladder = cascade(platform, agent, call, ask.timeout_ms);
        let mut ladder = ladder.map_err(|unfit| unfit_ladder(unfit.key, &unfit.message))?;
        if let Some(given) = ladder.fallback_value.take() {
            let value = resume_value(terms.form, &given);
            check_fallback(ask, &value).map_err(|message| unfit_ladder("fallback_value", &message))?;
            ladder.fallback_value = Some(value);
        }
        Ok(Some(ladder))
    }

    /// Does everything that is due on the ladder of an interrupt, in its order.
    pub(crate) fn climb(&mut self, draft: &mut Draft, id: InterruptId) {
        while let Some(open) = self.state.open.get(&id) {
            match open.next() {
                Some((Next::Attempt(attempt), due)) if due <= draft.now => {
                    let ix = open.node;
                    let again = renotified(open, attempt, draft.now);
                    self.emit_of(draft, ix, NodeEvent::InterruptRenotified(again), None);
                    self.escalate(draft, ix, id, attempt);
                }
                Some((Next::Expiry, due)) if due <= draft.now => return self.expire(draft, id),
                _ => return,
            }
        }
    }

    /// Records that an attempt reached a rung, if there is one.
    pub(crate) fn escalate(&mut self, draft: &mut Draft, ix: Option<NodeIx>, id: InterruptId, attempt: u32) {
        let ladder = self.state.open.get(&id).and_then(|open| open.requested.ladder.as_ref());
        let Some(rung) = ladder.and_then(|ladder| ladder.rung(attempt)) else { return };
        let escalated = InterruptEscalated {
            interrupt_id: id,
            attempt,
            escalated_to: rung.notify_to.clone(),
            channel_hint: rung.channel_hint.clone(),
        };
        self.emit_of(draft, ix, NodeEvent::InterruptEscalated(escalated), draft.last_sequence());
    }

    fn expire(&mut self, draft: &mut Draft, id: InterruptId) {
        let open = &self.state.open[&id];
        let (ix, asked) = (open.node, &open.requested);
        let Some(ladder) = &asked.ladder else { return };
        let fallback_policy = ladder.final_fallback_policy;
        let value = ladder.fallback_value.as_ref().filter(|_| fallback_policy != FallbackPolicy::Fail);
        let by = Answerer::of(BY_LADDER);
        let schema = asked.resume_schema.as_ref();
        let checked =
            value.and_then(|value| check_answer(asked.kind, &asked.data, schema, value, &by, draft.now).ok());
        let expired = InterruptExpired {
            interrupt_id: id,
            attempts: open.attempt,
            fallback_policy: Some(fallback_policy),
            reason: None,
        };
        self.emit_of(draft, ix, NodeEvent::InterruptExpired(expired), None);
        match checked {
            Some(checked) => self.resolve_as(draft, id, checked, Some((Resolution::Expired, EXPIRED))),
            None => self.close(draft, id, Resolution::Expired, EXPIRED, BY_LADDER),
        }
    }

    /// Records that somebody who was to be told may not be: once for each attempt.
    pub(crate) fn refuse_notice(
        &mut self,
        draft: &mut Draft,
        id: InterruptId,
        attempt: u32,
        notify_to: String,
        reason: String,
    ) -> Result<(), Rejection> {
        let open = self.check_open_interrupt(id)?;
        let made = open.requested.ladder.is_some() && (1..=open.attempt).contains(&attempt);
        if !made || open.refused.is_some_and(|last| last >= attempt) {
            return Err(Rejection::AlreadyResolved);
        }
        let ix = open.node;
        let shorten = |text: String| text.chars().take(limits::REASON_CHARS_MAX).collect();
        let refused = NoticeRefused {
            interrupt_id: id,
            attempt,
            notify_to: shorten(notify_to),
            reason: shorten(reason),
        };
        self.emit_of(draft, ix, NodeEvent::NoticeRefused(refused), None);
        Ok(())
    }
}

/// What an event changes.
impl Run {
    /// Waits for what comes next on a ladder.
    pub(crate) fn await_next(&mut self, open: &Open, folding: &mut Folding<'_>) {
        let timer = TimerId::Attempt(open.requested.interrupt_id);
        match open.next() {
            Some((_, due)) => self.arm(timer, due, folding),
            None => self.disarm(&timer, folding),
        }
    }

    pub(crate) fn fold_renotified(
        &mut self,
        again: &InterruptRenotified,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        let id = again.interrupt_id;
        let open = self.state.open.get_mut(&id).ok_or("people are told again of what is not open")?;
        if again.attempt != open.attempt + 1 {
            return Err(format!("attempt {} follows attempt {}", again.attempt, open.attempt));
        }
        open.attempt = again.attempt;
        let open = open.clone();
        self.await_next(&open, folding);
        if !again.superseded {
            folding.effects.push(Effect::Notify(Notify { id, attempt: again.attempt, at: folding.at }));
            self.call_hook(&open, HookKind::InputRequested, again.attempt, folding);
        }
        Ok(())
    }

    pub(crate) fn fold_refused(&mut self, refused: &NoticeRefused) -> Result<(), String> {
        let open = self.state.open.get_mut(&refused.interrupt_id);
        open.ok_or("nobody is told of what is not open")?.refused = Some(refused.attempt);
        Ok(())
    }
}

fn renotified(open: &Open, attempt: u32, now: crate::Millis) -> InterruptRenotified {
    let asked = &open.requested;
    let target = asked.ladder.as_ref().map(|ladder| ladder.target(attempt));
    let following = open.after(attempt);
    let ended = open.ends_at().is_some_and(|end| end <= now);
    InterruptRenotified {
        interrupt_id: asked.interrupt_id,
        attempt,
        max_attempts: asked.ladder.as_ref().map_or(1, |ladder| ladder.max_attempts),
        channel_hint: target.and_then(|target| target.channel_hint).map(ToOwned::to_owned),
        notify_to: target.and_then(|target| target.notify_to).map(ToOwned::to_owned),
        next_attempt_at: following.filter(|(next, _)| *next != Next::Expiry).map(|(_, due)| due),
        superseded: ended || following.is_some_and(|(_, due)| due <= now),
    }
}

impl LadderCall {
    /// Why no question like this one could be asked with it, whatever the levels above say.
    pub(crate) fn check_for(&self, ask: &Ask, form: Form) -> Result<(), Unfit> {
        if let Some(given) = &self.fallback_value {
            check_fallback(ask, &resume_value(form, given))
                .map_err(|message| Unfit { key: "fallback_value", message })?;
        }
        // The time between attempts may come from above.
        match cascade(None, None, Some(self), ask.timeout_ms) {
            Err(unfit) if unfit.key != INTERVAL => Err(unfit),
            _ => Ok(()),
        }
    }
}

/// Why this can't be taken for an answer.
fn check_fallback(ask: &Ask, value: &Json) -> Result<(), String> {
    let by = Answerer::of(BY_LADDER);
    let checked = check_answer(ask.kind, &ask.data, ask.resume_schema.as_ref(), value, &by, 0);
    let checked = checked.map_err(|refused| {
        let (Refused::Invalid(errors) | Refused::Mismatch(errors)) = refused;
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        format!("it is no answer to the question: {}", told.join("; "))
    })?;
    match checked.decision.map(|decision| decision.action) {
        Some(Action::Accept | Action::EditAccept) => {
            Err("nobody's silence is an approval; use a reject, or the policy fail".to_owned())
        }
        _ => Ok(()),
    }
}

fn unfit_ladder(key: &str, message: &str) -> Failure {
    Failure::new(UNFIT_LADDER, format!("settings.abide.ladder.{key}: {message}"))
}
