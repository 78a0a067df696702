//! Where an intent may be sent from where it stands.
//!
//! | from | active | blocked | suspended | completed | abandoned |
//! |---|---|---|---|---|---|
//! | draft | it begins | it begins, held | it begins and asks | it begins and is done | yes |
//! | active | – | held | asks | if nothing is open that has to be done | yes |
//! | blocked, held | let go | – | no | no | yes |
//! | blocked by others | no | – | no | no | yes |
//! | suspended | no | no | – | no | yes |
//! | completed, abandoned | no | no | no | no | no |
//!
//! Whoever sends it where it stands has what they want, and nothing changes. A draft that waits for others becomes blocked
//! whatever it was to become.

use super::{Actor, IntentSent};
use crate::command::{Draft, check_reason};
use crate::event::{Cancellation, Held, HoldMode, IntentChanged, Released, RunActivated, RunEvent};
use crate::{Json, JsonMap, NodePhase, Rejection, Run, Status, limits};

/// Why it stays where it is.
const OTHERS: &str = "it waits for others that have not completed";
const ASKED: &str = "people are asked; answer it with suspend/respond, or cancel the suspension";

/// What the state is made of that is not what came of the work.
fn is_outcome(key: &str) -> bool {
    !key.starts_with('_')
}

impl Run {
    pub(super) fn send(
        &mut self,
        draft: &mut Draft,
        to: IntentSent,
        reason: Option<String>,
        actor: &Actor,
    ) -> Result<(), Rejection> {
        let stands = self.status();
        if stands.is_terminal() && stands.intent_name() == to.name() {
            return Ok(());
        }
        self.check_running()?;
        check_reason(reason.as_ref())?;
        self.check_reasoned(reason.as_ref())?;
        self.check_may_write(&actor.agent)?;
        if to == IntentSent::Abandoned {
            let asked =
                Cancellation { reason, cancelled_by: Some(actor.agent.clone()), ..Cancellation::default() };
            return crate::command::cancel(self, draft, asked);
        }
        if stands.intent_name() == to.name() {
            return Ok(());
        }
        let by = Some(actor.agent.clone());
        match (stands, to) {
            (Status::Draft, IntentSent::Active) => {
                self.note_sent(draft, to, &reason, actor);
                self.activate(draft, by);
            }
            (Status::Draft, _) if self.unmet().next().is_some() => match to {
                IntentSent::Blocked => self.activate(draft, by),
                _ => return Err(self.sent_amiss(to, OTHERS)),
            },
            (Status::Draft | Status::Running | Status::Pending, IntentSent::Blocked) => {
                self.activate(draft, by.clone());
                draft.emit_run(self, RunEvent::Held(Held { mode: HoldMode::Pause, reason, by }), None);
            }
            (Status::Draft | Status::Running | Status::Pending, IntentSent::Suspended) => {
                return self.try_out(draft, |run, draft| {
                    run.note_sent(draft, to, &reason, actor);
                    run.activate(draft, by.clone());
                    run.suspend(draft, actor)
                });
            }
            (Status::Draft | Status::Running | Status::Pending, IntentSent::Completed) => {
                self.check_approved()?;
                return self.try_out(draft, |run, draft| {
                    run.note_sent(draft, to, &reason, actor);
                    run.activate(draft, by.clone());
                    run.complete_intent(draft, actor)
                });
            }
            (Status::Paused, IntentSent::Active) if self.is_held_by_people() => {
                draft.emit_run(self, RunEvent::Released(Released { by, reason }), None);
                self.set_free(draft);
            }
            (Status::Paused, _) => return Err(self.sent_amiss(to, "it is held; set it to active first")),
            (Status::Blocked, _) => return Err(self.sent_amiss(to, OTHERS)),
            (Status::WaitingInput | Status::WaitingApproval | Status::WaitingExternal, _) => {
                return Err(self.sent_amiss(to, ASKED));
            }
            _ => return Err(self.sent_amiss(to, "it is ending")),
        }
        Ok(())
    }

    /// Records who sends it where, and why: what follows says only that it is there.
    fn note_sent(&mut self, draft: &mut Draft, to: IntentSent, reason: &Option<String>, actor: &Actor) {
        let sent = IntentChanged::Sent { to: to.name().to_owned(), reason: reason.clone() };
        self.emit_intent(draft, sent, actor);
    }

    fn sent_amiss(&self, to: IntentSent, why: &str) -> Rejection {
        let from = self.status().intent_name();
        Rejection::IllegalTransition(format!("an intent that is {from} can't become {}: {why}", to.name()))
    }

    /// Carries something out that may yet be refused: on a copy first, so that a refusal changes nothing.
    fn try_out(
        &mut self,
        draft: &mut Draft,
        act: impl Fn(&mut Self, &mut Draft) -> Result<(), Rejection>,
    ) -> Result<(), Rejection> {
        let mut probe = self.clone();
        let mut tried = Draft::new(self.head, draft.now, draft.defaults.clone());
        act(&mut probe, &mut tried)?;
        act(self, draft)
    }

    /// A draft begins; anything else has.
    fn activate(&mut self, draft: &mut Draft, by: Option<String>) {
        if !self.is_draft() {
            return;
        }
        draft.emit_run(self, RunEvent::Activated(RunActivated { by }), None);
        self.settle_blocked(draft);
        self.advance(draft);
    }

    /// Whoever drives the intent is through with it.
    fn complete_intent(&mut self, draft: &mut Draft, actor: &Actor) -> Result<(), Rejection> {
        let ix = self.check_driven()?;
        // Whoever would have to wait hears that before anything else.
        if let Some(reason) = self.blocked_reason() {
            return Err(Rejection::Unclaimed(crate::hand::Unclaimed::Blocked(reason)));
        }
        if let Some(unfinished) = Some(self.node(ix).unfinished).filter(|unfinished| *unfinished > 0) {
            return Err(Rejection::ChildrenUnfinished { unfinished });
        }
        let holder = self.drive(draft, ix, actor)?;
        if self.node(ix).phase != NodePhase::Running {
            return Err(Rejection::Asking);
        }
        let mut by = vec![holder];
        by.extend(actor.names().into_iter().filter(|name| *name != by[0]).collect::<Vec<_>>());
        let outputs = self.outcome(ix);
        self.complete_by_hand(draft, ix, by, outputs)
    }

    /// What came of it: what its definition wants, or else all of the state that is an outcome.
    fn outcome(&self, ix: crate::NodeIx) -> Option<Json> {
        let state = self.intent_state();
        let wanted: Vec<String> =
            self.hand_work(ix).map_or_else(Vec::new, |work| work.outputs.keys().cloned().collect());
        let outcome: JsonMap = state
            .into_iter()
            .filter(|(key, _)| if wanted.is_empty() { is_outcome(key) } else { wanted.contains(key) })
            .collect();
        let outcome = Json::of(&outcome);
        let fits = outcome.text().len() <= limits::STEP_BYTES_MAX;
        (fits || !wanted.is_empty()).then_some(outcome)
    }
}
