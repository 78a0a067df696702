//! What follows a commit that is durable: each effect wakes whoever sees to it.

use std::sync::Arc;

use abide_core::{Effect, Key};
use abide_store::{Hint, TaskRow, TimerRow};
use tokio::sync::OwnedSemaphorePermit;

use super::{Pending, Shell};

impl Shell {
    /// Everything here is also on disk: if the process dies now, the next start does it.
    pub(super) fn carry_out(self: &Arc<Self>, key: Key, commit: &mut Pending) {
        let mut places = commit.places.take();
        for effect in std::mem::take(&mut commit.effects) {
            match effect {
                Effect::ArmTimer { timer, due } => self.arm(TimerRow { due, key, timer }, commit.held),
                Effect::DropTimer { timer, due } => self.timers.disarm(&TimerRow { due, key, timer }),
                Effect::Dispatch { task, fence } => {
                    let place = places.as_mut().and_then(|places| places.split(1));
                    self.begin(TaskRow { key, task, fence, retaken: false }, place);
                }
                Effect::Send { .. }
                | Effect::Spawn(_)
                | Effect::Cascade(_)
                | Effect::Bid { .. }
                | Effect::Order { .. }
                | Effect::BidAll(_)
                | Effect::Tell { .. }
                | Effect::Announce(_) => {
                    self.send(key, commit.first, effect, commit.held);
                }
                Effect::OpenInterrupt(_) | Effect::CloseInterrupt(_) | Effect::Notify(_) => {
                    self.see_to_interrupt(key, &effect);
                }
                Effect::Assign(_) => self.assigned.send_modify(|count| *count += 1),
                Effect::Abort(task) => self.models.abort(key, task),
                Effect::AwaitProvider(wait) if wait.postponed => self.breakers.note_postponed(key, &wait),
                // Workers have heard of theirs.
                Effect::Offer(_)
                | Effect::OfferAgain(_)
                | Effect::Withdraw(_)
                | Effect::CallOff(_)
                | Effect::Wake(_)
                | Effect::AwaitProvider(_)
                | Effect::LeaveProvider(_)
                | Effect::Hook(_) => {}
                Effect::FinishTask(_)
                | Effect::Hear { .. }
                | Effect::Disown(_)
                | Effect::TakeName(_)
                | Effect::MoveDeadline { .. }
                | Effect::DependOn(_)
                | Effect::Independ(_)
                | Effect::Watch(_)
                | Effect::Unwatch(_)
                | Effect::Enlist(_)
                | Effect::Dismiss { .. }
                | Effect::Unassign(_)
                | Effect::NoteMember(_)
                | Effect::NoteHeadway { .. } => {}
            }
        }
    }

    /// A task that has no place waits on disk, for this server or another.
    fn begin(self: &Arc<Self>, row: TaskRow, place: Option<OwnedSemaphorePermit>) {
        match place {
            Some(place) => self.execute(row, place),
            None => {
                self.executor.note_backlog();
                self.tell_peers(Hint::Tasks);
            }
        }
    }

    /// Whoever brings messages to people or answers from outside looks whether there is anything to do.
    fn see_to_interrupt(&self, key: Key, effect: &Effect) {
        match effect {
            Effect::OpenInterrupt(open) => {
                if let Some(event_type) = &open.event_type {
                    self.look_for_event(key.tenant, event_type);
                }
                if open.callback_url.is_some() {
                    self.callbacks.wake();
                    self.tell_peers(Hint::Callbacks);
                }
            }
            Effect::Notify(_) => {
                self.notices.wake_for_attempt();
                self.tell_peers(Hint::Notices(key.tenant));
            }
            Effect::CloseInterrupt(closed) if closed.told => {
                self.notices.wake_for(key.tenant);
                self.tell_peers(Hint::Notices(key.tenant));
            }
            _ => {}
        }
    }
}
