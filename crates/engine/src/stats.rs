//! What the engine counts as things happen, for whoever watches it. Reading it looks through nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use abide_core::{ErrorKind, Millis, ModelError, ReasonCode, Status};
use abide_store::{Counts, HowEnded};

use crate::limits;
use crate::shell::Shell;

/// Counters that the parts of the engine raise.
#[derive(Default)]
pub(crate) struct Counters {
    runs_started: AtomicU64,
    runs_completed: AtomicU64,
    runs_failed: AtomicU64,
    runs_cancelled: AtomicU64,
    tasks: AtomicU64,
    timers_fired: AtomicU64,
    timers_late_ms: AtomicU64,
    messages_delivered: AtomicU64,
    messages_waiting: AtomicU64,
    notices_sent: AtomicU64,
    notices_failed: AtomicU64,
    notices_dead: AtomicU64,
    notices_put_off: AtomicU64,
    notices_refused: AtomicU64,
    notices_unreachable: AtomicU64,
    notices_followed: AtomicU64,
    resume_decisions: [AtomicU64; ReasonCode::ALL.len()],
    resume_escalations: AtomicU64,
    provider_calls: [AtomicU64; CallEnd::ALL.len()],
    provider_retries: AtomicU64,
    provider_postponements: AtomicU64,
}

/// How a call of a model ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// The model has answered.
    Answered,
    /// The provider said no, and would again.
    Refused,
    /// The provider could not answer.
    Failed,
    /// The answer broke off.
    BrokenOff,
    /// Nobody wanted it any more.
    Aborted,
}

impl CallEnd {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::Answered, Self::Refused, Self::Failed, Self::BrokenOff, Self::Aborted];

    /// Its name, as metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::BrokenOff => "broken_off",
            Self::Aborted => "aborted",
        }
    }

    /// How a call ended that failed so, or did not fail.
    pub fn of(error: Option<&ModelError>) -> Self {
        match error {
            None => Self::Answered,
            Some(error) if error.kind == ErrorKind::Aborted => Self::Aborted,
            Some(error) if error.had_content => Self::BrokenOff,
            Some(error) => match error.kind {
                ErrorKind::Emitted { retryable } if retryable != Some(true) => Self::Refused,
                _ => Self::Failed,
            },
        }
    }
}

impl Counters {
    /// A commit became durable, with which a run may have begun, ended, or both.
    pub(crate) fn count(&self, begins: bool, ended: Option<Status>) {
        if begins {
            add(&self.runs_started, 1);
        }
        match ended {
            Some(Status::Completed) => add(&self.runs_completed, 1),
            Some(Status::Failed) => add(&self.runs_failed, 1),
            Some(Status::Cancelled) => add(&self.runs_cancelled, 1),
            _ => {}
        }
    }

    /// A task was begun.
    pub(crate) fn dispatched(&self) {
        add(&self.tasks, 1);
    }

    /// A timer fires, so long after its time.
    pub(crate) fn fired(&self, late_ms: Millis) {
        add(&self.timers_fired, 1);
        add(&self.timers_late_ms, u64::try_from(late_ms).unwrap_or(0));
    }

    /// It was decided whether an interrupted run is resumed.
    pub(crate) fn decided(&self, code: ReasonCode) {
        let at = ReasonCode::ALL.iter().position(|known| *known == code);
        at.iter().for_each(|at| add(&self.resume_decisions[*at], 1));
    }

    /// An interrupted run waits for a person.
    pub(crate) fn escalated(&self) {
        add(&self.resume_escalations, 1);
    }

    /// The call of a model has ended.
    pub(crate) fn called(&self, end: CallEnd) {
        add(&self.provider_calls[end as usize], 1);
    }

    /// A turn waits for its provider: until its own next try, or until the provider is back.
    pub(crate) fn awaits_provider(&self, postponed: bool) {
        add(if postponed { &self.provider_postponements } else { &self.provider_retries }, 1);
    }

    /// A try at a message to somebody has ended.
    pub(crate) fn told(&self, how: &HowEnded) {
        match how {
            HowEnded::Sent { .. } => add(&self.notices_sent, 1),
            HowEnded::Again { .. } | HowEnded::FollowAgain { .. } => add(&self.notices_failed, 1),
            HowEnded::Dead { .. } | HowEnded::Unfollowed { .. } => {
                add(&self.notices_failed, 1);
                add(&self.notices_dead, 1);
            }
            HowEnded::Followed => add(&self.notices_followed, 1),
            HowEnded::PutOff { .. } | HowEnded::Withdrawn => {}
        }
    }

    /// So many messages have to wait until their recipients may get another.
    pub(crate) fn put_off(&self, messages: usize) {
        add(&self.notices_put_off, messages as u64);
    }

    /// Somebody may not be told, or can't be.
    pub(crate) fn not_told(&self, refused: bool, unreachable: bool) {
        add(&self.notices_refused, u64::from(refused));
        add(&self.notices_unreachable, u64::from(unreachable));
    }

    /// A pass through the outbox has ended, with so many messages delivered and so many left.
    pub(crate) fn passed(&self, delivered: usize, left: usize) {
        add(&self.messages_delivered, delivered as u64);
        self.messages_waiting.store(left as u64, Ordering::Relaxed);
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// What has happened since an engine was started, and how much is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// What the store has written.
    pub store: Counts,
    /// Runs that began.
    pub runs_started: u64,
    /// Runs that completed.
    pub runs_completed: u64,
    /// Runs that failed.
    pub runs_failed: u64,
    /// Runs that were cancelled.
    pub runs_cancelled: u64,
    /// Runs that are in memory, because something was asked of them lately.
    pub runs_in_memory: u64,
    /// Tasks that were begun.
    pub tasks: u64,
    /// Tasks under way.
    pub tasks_under_way: u64,
    /// Tasks that may be under way at once.
    pub tasks_max: u64,
    /// Commits under way.
    pub commits_under_way: u64,
    /// Commits that may be under way at once.
    pub commits_max: u64,
    /// Timers that fired.
    pub timers_fired: u64,
    /// How late they fired, all together.
    pub timers_late_ms: u64,
    /// How long the most overdue timer has been waiting to fire.
    pub timers_overdue_ms: u64,
    /// Messages between runs that were delivered.
    pub messages_delivered: u64,
    /// Messages that the last pass through the outbox could not deliver.
    pub messages_waiting: u64,
    /// Messages to people that were sent.
    pub notices_sent: u64,
    /// Tries at messages to people that failed.
    pub notices_failed: u64,
    /// Messages to people that were given up.
    pub notices_dead: u64,
    /// Messages to people that had to wait because their recipients had got enough.
    pub notices_put_off: u64,
    /// People who were not told because they may not be.
    pub notices_refused: u64,
    /// People who were not told because nothing reaches them.
    pub notices_unreachable: u64,
    /// Recipients of messages for whom all is said since an interrupt was closed.
    pub notices_followed: u64,
    /// Decisions about resuming runs, by [`ReasonCode::ALL`].
    pub resume_decisions: [u64; ReasonCode::ALL.len()],
    /// Interrupted runs that came to wait for a person.
    pub resume_escalations: u64,
    /// Calls of models, by [`CallEnd::ALL`].
    pub provider_calls: [u64; CallEnd::ALL.len()],
    /// Waits of turns until their own next try.
    pub provider_retries: u64,
    /// Waits of turns until their provider is back.
    pub provider_postponements: u64,
}

impl Shell {
    pub(crate) fn stats(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        let taken = |most: usize, free: usize| most.saturating_sub(free) as u64;
        let overdue = self.timers.overdue_ms(self.clock.now());
        Stats {
            store: self.store.counts(),
            runs_started: read(&counters.runs_started),
            runs_completed: read(&counters.runs_completed),
            runs_failed: read(&counters.runs_failed),
            runs_cancelled: read(&counters.runs_cancelled),
            tasks: read(&counters.tasks),
            tasks_under_way: taken(limits::TASKS_IN_FLIGHT_MAX, self.executor.free_places()),
            tasks_max: limits::TASKS_IN_FLIGHT_MAX as u64,
            runs_in_memory: self.hot.len() as u64,
            commits_under_way: taken(limits::COMMITS_IN_FLIGHT_MAX, self.permits.available_permits()),
            commits_max: limits::COMMITS_IN_FLIGHT_MAX as u64,
            timers_fired: read(&counters.timers_fired),
            timers_late_ms: read(&counters.timers_late_ms),
            timers_overdue_ms: u64::try_from(overdue).unwrap_or(0),
            messages_delivered: read(&counters.messages_delivered),
            messages_waiting: read(&counters.messages_waiting),
            notices_sent: read(&counters.notices_sent),
            notices_failed: read(&counters.notices_failed),
            notices_dead: read(&counters.notices_dead),
            notices_put_off: read(&counters.notices_put_off),
            notices_refused: read(&counters.notices_refused),
            notices_unreachable: read(&counters.notices_unreachable),
            notices_followed: read(&counters.notices_followed),
            resume_decisions: counters.resume_decisions.each_ref().map(read),
            resume_escalations: read(&counters.resume_escalations),
            provider_calls: counters.provider_calls.each_ref().map(read),
            provider_retries: read(&counters.provider_retries),
            provider_postponements: read(&counters.provider_postponements),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_counted_by_how_it_ended() {
        let error = |kind, had_content| ModelError {
            message: String::new(),
            code: None,
            kind,
            had_content,
            retry_after_ms: None,
        };
        let emitted = |retryable| ErrorKind::Emitted { retryable };
        let cases = [
            (None, CallEnd::Answered),
            (Some(error(emitted(Some(true)), false)), CallEnd::Failed),
            (Some(error(emitted(Some(false)), false)), CallEnd::Refused),
            (Some(error(emitted(None), false)), CallEnd::Refused),
            (Some(error(ErrorKind::Thrown, false)), CallEnd::Failed),
            (Some(error(ErrorKind::Crashed, false)), CallEnd::Failed),
            (Some(error(emitted(Some(true)), true)), CallEnd::BrokenOff),
            (Some(error(ErrorKind::Aborted, true)), CallEnd::Aborted),
        ];
        for (error, end) in cases {
            assert_eq!(CallEnd::of(error.as_ref()), end, "{error:?}");
        }
        for (at, end) in CallEnd::ALL.into_iter().enumerate() {
            assert_eq!(end as usize, at, "{}", end.name());
        }
    }
}
