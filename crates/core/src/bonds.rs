//! What a run has to do with other runs: those that it waits for, those that watch it, and the deadlines of its groups.
//!
//! While it waits for others the run is *blocked*: no node of it starts, and what is under way goes on. Only one thing
//! ends that, and it can't be taken back: every run that it waits for has completed. So it does not matter in which order
//! others are heard, nor how often. A *draft* does not start either, until somebody activates it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::command::Draft;
use crate::effect::{Effect, Order, TimerId};
use crate::event::{
    BlockedReason, Cancellation, DependencyReported, DependsOn, Event, HookKind, InterruptExpired, NodeEvent,
    RunBlocked, RunEvent, RunUnblocked, RunWatched,
};
use crate::fold::Folding;
use crate::run::Ending;
use crate::{
    Hold, JsonMap, Lifecycle, Millis, Notice, Open, Rejection, Run, RunId, Status, Suspension, Tidings,
    Watch, limits,
};

/// Why a run is abandoned whose group waits no longer.
pub const DEADLINE_EXCEEDED: &str = "portfolio_deadline_exceeded";

/// Why its questions expire then.
pub(crate) const PORTFOLIO_DEADLINE: &str = "portfolio_deadline";

/// How a run is seen that is not to go on for now.
const BLOCKED: &str = "blocked";

/// Who abandons it.
const BY_DEADLINE: &str = "system:deadline";

/// What a run has to do with other runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bonds {
    /// The runs that it waits for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) upstreams: BTreeMap<RunId, Upstream>,
    /// It begins only when somebody says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) draft: bool,
    /// Since when it is blocked, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) blocked: Option<Millis>,
    /// Somebody has ever wanted to hear how it stands.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) watched: bool,
    /// Until when it may wait for people, by the group that says so.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) deadlines: BTreeMap<RunId, Millis>,
    /// What those said last who coordinate other runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) orders: BTreeMap<RunId, StandingOrder>,
    /// Why it was abandoned, if not by anybody's wish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) abandonment: Option<String>,
}

/// What was said last by whoever coordinates another run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StandingOrder {
    /// The sequence of that run then: what was said before is heard no more.
    sequence: u64,
    /// Since when this one is held back, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Millis>,
}

/// A run that another one waits for, as far as that has heard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Upstream {
    /// What the run that waits calls it, if it takes inputs from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How it stands; nothing if nobody has looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Since when it waits for people, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspension>,
    /// What it has produced.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub outputs: JsonMap,
    /// Its outputs are never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// Its sequence when it was heard last; nothing if it has not answered yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

impl Bonds {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Upstream {
    /// Whether it is through, which is all that anybody waits for.
    pub fn is_completed(&self) -> bool {
        self.status == Some(Status::Completed)
    }

    /// Whether it has ended and will never be through.
    pub fn has_failed(&self) -> bool {
        matches!(self.status, Some(Status::Failed | Status::Cancelled))
    }

    /// Whether it waits for people.
    pub fn is_suspended(&self) -> bool {
        self.suspended.is_some() || self.status.is_some_and(Status::is_waiting)
    }
}

/// What may be read.
impl Run {
    /// The runs that it waits for, or has waited for.
    pub fn upstreams(&self) -> &BTreeMap<RunId, Upstream> {
        &self.state.bonds.upstreams
    }

    /// Whether somebody could work on it: it has not ended, waits for nobody, and nobody holds it.
    pub fn is_ready(&self) -> bool {
        let begins = matches!(self.status(), Status::Draft | Status::Pending | Status::Running);
        begins && self.unmet().next().is_none()
    }

    /// Whether others keep it from going on, be it that it is to begin yet.
    pub fn is_kept_waiting(&self) -> bool {
        let status = self.status();
        !status.is_terminal() && (status.intent_name() == BLOCKED || self.unmet().next().is_some())
    }

    /// Whether it begins only when somebody says so.
    pub fn is_draft(&self) -> bool {
        self.state.bonds.draft
    }

    /// Since when no node starts because of others, if that is so.
    pub fn blocked_since(&self) -> Option<Millis> {
        let kept = self.state.bonds.orders.values().filter_map(|order| order.since);
        self.state.bonds.blocked.into_iter().chain(kept).min()
    }

    /// The runs whose coordinators hold it back.
    pub fn kept_by(&self) -> impl Iterator<Item = RunId> {
        let orders = self.state.bonds.orders.iter();
        orders.filter(|(_, order)| order.since.is_some()).map(|(by, _)| *by)
    }

    /// Why it is blocked, as far as it has heard.
    pub fn blocked_reason(&self) -> Option<BlockedReason> {
        if self.state.bonds.blocked.is_none() {
            return self.kept_by().next().map(|_| BlockedReason::CoordinatorBlocked);
        }
        Some(self.reason_for(self.unmet().map(|(_, upstream)| upstream)))
    }

    /// The runs that it still waits for.
    pub fn unmet(&self) -> impl Iterator<Item = (RunId, &Upstream)> {
        let upstreams = self.state.bonds.upstreams.iter();
        upstreams.filter(|(_, upstream)| !upstream.is_completed()).map(|(run, upstream)| (*run, upstream))
    }

    /// When it is abandoned if it waits for people then: the earliest deadline of its groups, and which group's it is.
    pub fn group_deadline(&self) -> Option<(Millis, RunId)> {
        self.state.bonds.deadlines.iter().map(|(group, deadline)| (*deadline, *group)).min()
    }

    /// Why it was abandoned, if nobody wished it.
    pub fn abandonment_reason(&self) -> Option<&str> {
        self.state.bonds.abandonment.as_deref()
    }

    /// Whether it waits for people. One that is held because it was interrupted does not.
    pub fn is_suspended(&self) -> bool {
        self.state.hold != Hold::Escalated && self.waiting().is_some()
    }

    /// Whether its nodes have to wait, whoever holds it.
    pub(crate) fn is_kept_back(&self) -> bool {
        self.state.bonds.draft || self.blocked_since().is_some()
    }

    /// Whether nothing of it may be had by workers.
    pub(crate) fn is_withheld(&self) -> bool {
        let held = matches!(self.state.hold, Hold::Paused | Hold::Stopped | Hold::Escalated);
        (held || self.is_kept_back()) && self.state.lifecycle == Lifecycle::Running
    }

    fn reason_for<'a>(&self, mut unmet: impl Iterator<Item = &'a Upstream>) -> BlockedReason {
        let mut reason = BlockedReason::DependencyIncomplete;
        unmet.try_for_each(|upstream| {
            let own = match upstream {
                failed if failed.has_failed() => BlockedReason::OnDependencyFailed,
                asked if asked.is_suspended() => BlockedReason::DependencySuspended,
                _ => BlockedReason::DependencyIncomplete,
            };
            reason = reason.max(own);
            (reason != BlockedReason::OnDependencyFailed).then_some(())
        });
        reason
    }

    /// Whether an event of a fork only tells what happened to the run that it was forked off. Nobody waits for a fork
    /// that waited for the other, and it waits for nobody.
    pub(crate) fn is_of_other(&self, sequence: u64) -> bool {
        let forked = self.state.forked.as_ref();
        forked.is_some_and(|forked| self.is_replay() || sequence < forked.history)
    }
}

/// What a decision does.
impl Run {
    /// Blocks the run if it waits for others, or lets it go on if it does not any more.
    pub(crate) fn settle_blocked(&mut self, draft: &mut Draft) {
        let bonds = &self.state.bonds;
        if bonds.draft || self.state.ending.is_some() || self.state.lifecycle != Lifecycle::Running {
            return;
        }
        let unmet: Vec<RunId> = self.unmet().map(|(run, _)| run).take(limits::BLOCKED_BY_MAX).collect();
        let cause = draft.last_sequence();
        match (unmet.is_empty(), bonds.blocked.is_some()) {
            (false, false) => {
                let reason = self.reason_for(self.unmet().map(|(_, upstream)| upstream));
                draft.emit_run(self, RunEvent::Blocked(RunBlocked { reason, by: unmet }), cause);
            }
            (true, true) => draft.emit_run(self, RunEvent::Unblocked(RunUnblocked {}), cause),
            _ => {}
        }
    }

    /// A child that it waits for tells its parent how it stands. That goes under the name under which it would tell whoever
    /// watches it the same, so it is not told twice. The answer is whether it said anything new.
    pub(crate) fn hear_child_waited_for(&mut self, draft: &mut Draft, notice: &Notice) -> bool {
        let waited = self.upstreams().get(&notice.from);
        let is_new = waited.is_some_and(|on| on.sequence.is_none_or(|heard| heard < notice.sequence));
        let status = notice.status.or(match notice.lifecycle {
            Lifecycle::Completed => Some(Status::Completed),
            Lifecycle::Failed => Some(Status::Failed),
            Lifecycle::Cancelled => Some(Status::Cancelled),
            _ => None,
        });
        let Some(status) = status.filter(|_| is_new) else { return false };
        let told = Tidings {
            from: notice.from,
            sequence: notice.sequence,
            status,
            suspended: notice.suspended,
            outputs: notice.outputs.clone(),
            sensitive: notice.hides(),
            cost_micros: 0,
        };
        self.note_upstream(draft, &told);
        self.settle_blocked(draft);
        true
    }

    /// Records how a run stands that this one waits for. What it has produced is kept only where it goes into something.
    pub(crate) fn note_upstream(&mut self, draft: &mut Draft, tidings: &Tidings) {
        let mut told = DependencyReported::of(tidings);
        let name = self.upstreams().get(&tidings.from).and_then(|upstream| upstream.name.as_deref());
        let wired: BTreeSet<String> =
            name.into_iter().flat_map(|name| self.wired_to(name)).map(|(_, key)| key).collect();
        told.outputs.retain(|key, _| wired.contains(key));
        told.sensitive &= !told.outputs.is_empty();
        let cause = draft.last_sequence();
        draft.emit_run(self, RunEvent::DependencyReported(Box::new(told)), cause);
    }

    /// Whatever may go on does, and so does whoever wants a node that could not be had.
    pub(crate) fn set_free(&mut self, draft: &mut Draft) {
        self.advance(draft);
        self.grant_waiting(draft);
    }

    /// The sequence of another run when its coordinator was heard last.
    pub fn ordered_at(&self, by: RunId) -> Option<u64> {
        self.state.bonds.orders.get(&by).map(|order| order.sequence)
    }

    /// Whether a group's deadline has passed while the run waits for people.
    pub(crate) fn is_overdue(&self, now: Millis) -> bool {
        self.is_suspended()
            && self.state.ending.is_none()
            && self.group_deadline().is_some_and(|(deadline, _)| deadline <= now)
    }

    /// The deadlines that have passed while it waits for people, each with the group that says so.
    pub fn passed_deadlines(&self, now: Millis) -> Vec<(RunId, Millis)> {
        if !self.is_overdue(now) {
            return Vec::new();
        }
        let deadlines = self.state.bonds.deadlines.iter().filter(|(_, deadline)| **deadline <= now);
        deadlines.map(|(group, deadline)| (*group, *deadline)).collect()
    }

    /// Refuses an answer that comes after the deadline of a group, or after the question's own end if that was before.
    pub(crate) fn check_in_time(&self, open: &Open, now: Millis) -> Result<(), Rejection> {
        let end = open.deadline().filter(|end| *end <= now);
        let deadline = self.group_deadline().map(|(deadline, _)| deadline).filter(|_| self.is_overdue(now));
        match (end, deadline) {
            (Some(end), Some(deadline)) if end < deadline => Err(Rejection::AlreadyResolved),
            (_, Some(_)) => Err(Rejection::DeadlineExceeded),
            (Some(_), None) => Err(Rejection::AlreadyResolved),
            (None, None) => Ok(()),
        }
    }

    /// The deadline of a group has passed: the run is abandoned, unless what it waited for had ended before. The answer is
    /// whether it is.
    pub(crate) fn meet_deadline(&mut self, draft: &mut Draft) -> bool {
        self.end_before_deadline(draft);
        let overdue = self.is_overdue(draft.now);
        if overdue {
            self.abandon(draft);
        }
        overdue
    }

    /// Questions that had ended when the deadline of a group passed ended by themselves, however late anybody hears of
    /// either. At the same moment, the deadline comes first.
    pub(crate) fn end_before_deadline(&mut self, draft: &mut Draft) {
        while self.is_overdue(draft.now)
            && let Some((deadline, _)) = self.group_deadline()
        {
            let end = |open: &Open| open.deadline().into_iter().chain(open.occasion()).min();
            let ended =
                self.awaited_answers().filter_map(|open| Some((end(open)?, open.requested.interrupt_id)));
            let Some((_, first)) = ended.filter(|(end, _)| *end < deadline).min() else { return };
            self.end_interrupt(draft, first);
        }
    }

    /// The deadline of a group has passed: nobody is waited for, and no fallback takes an answer's place.
    pub(crate) fn abandon(&mut self, draft: &mut Draft) {
        let open: Vec<_> = self
            .awaited_answers()
            .map(|open| (open.node, open.requested.interrupt_id, open.attempt))
            .collect();
        for (ix, interrupt_id, attempts) in open {
            let expired = InterruptExpired {
                interrupt_id,
                attempts,
                fallback_policy: None,
                reason: Some(PORTFOLIO_DEADLINE.to_owned()),
            };
            self.emit_of(draft, ix, NodeEvent::InterruptExpired(expired), None);
        }
        let asked = Cancellation {
            reason: Some(DEADLINE_EXCEEDED.to_owned()),
            cancelled_by: Some(BY_DEADLINE.to_owned()),
            parent_run_id: None,
            abandonment_reason: Some(DEADLINE_EXCEEDED.to_owned()),
        };
        if self.state.in_flight > 0 {
            draft.emit_run(self, RunEvent::Cancelling(asked), draft.last_sequence());
            let ending = self.state.ending.clone();
            self.conclude(draft, ending);
        } else {
            self.conclude(draft, Some(Ending::cancelled(&asked)));
        }
    }
}

/// What an event changes.
impl Run {
    pub(crate) fn fold_bond(&mut self, event: &RunEvent, folding: &mut Folding<'_>) -> Result<(), String> {
        if self.is_of_other(folding.sequence) {
            return Ok(());
        }
        let bonds = &mut self.state.bonds;
        match event {
            RunEvent::Activated(_) => bonds.draft = false,
            RunEvent::Blocked(_) => {
                bonds.blocked = Some(folding.at);
                self.disarm(&TimerId::Stretch, folding);
            }
            RunEvent::Unblocked(_) => bonds.blocked = None,
            RunEvent::DependencyAdded(added) => {
                self.fold_dependency(&added.dependency, folding);
                self.raise_version(folding.at);
            }
            RunEvent::DependencyRemoved(removed) => {
                let run = removed.run;
                let upstream = bonds.upstreams.remove(&run).ok_or("it did not wait for that run")?;
                let watch = self.watch(folding, false);
                folding.effects.extend((!upstream.is_completed()).then_some(Effect::Independ(run)));
                folding.effects.push(Effect::Bid { to: run, watch });
                self.raise_version(folding.at);
            }
            RunEvent::DependencyReported(told) => self.fold_told(told, folding)?,
            RunEvent::Watched(watched) => self.fold_watched(watched, folding),
            RunEvent::Ordered(ordered) => {
                let before = bonds.orders.get(&ordered.by).and_then(|order| order.since);
                let since = (ordered.order == Order::Hold).then(|| before.unwrap_or(folding.at));
                bonds.orders.insert(ordered.by, StandingOrder { sequence: ordered.sequence, since });
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn fold_dependency(&mut self, dependency: &DependsOn, folding: &mut Folding<'_>) {
        let DependsOn { run, name, status } = dependency.clone();
        let upstream = Upstream { name, status, ..Upstream::default() };
        let watch = self.watch(folding, true);
        folding.effects.extend((!upstream.is_completed()).then_some(Effect::DependOn(run)));
        folding.effects.push(Effect::Bid { to: run, watch });
        self.state.bonds.upstreams.insert(run, upstream);
    }

    fn watch(&self, folding: &Folding<'_>, watching: bool) -> Watch {
        Watch {
            from: self.key.id,
            sequence: folding.sequence,
            watching,
            at: Some(folding.at),
            deadline: None,
        }
    }

    /// The deadline of a group has ended a question: whoever asked is called, as at any other end that nobody answered. What
    /// closes it then is the end of the run, of which nobody is called.
    pub(crate) fn fold_expired(&mut self, expired: &InterruptExpired, folding: &mut Folding<'_>) {
        let by_group = expired.reason.as_deref() == Some(PORTFOLIO_DEADLINE);
        self.fold_expired_intent(expired.interrupt_id);
        if let Some(open) = self.interrupt(expired.interrupt_id).filter(|_| by_group) {
            self.call_hook(open, HookKind::SuspensionExpired, open.attempt, folding);
        }
    }

    /// Whoever has completed is not waited for any more, whatever becomes of them: they may be purged.
    fn fold_told(&mut self, told: &DependencyReported, folding: &mut Folding<'_>) -> Result<(), String> {
        let upstream = self.state.bonds.upstreams.get_mut(&told.run);
        let upstream = upstream.ok_or("a run is heard that is not waited for")?;
        if told.status == Status::Completed && !upstream.is_completed() {
            folding.effects.push(Effect::Independ(told.run));
        }
        (upstream.status, upstream.suspended) = (Some(told.status), told.suspended);
        (upstream.outputs, upstream.sensitive) = (told.outputs.clone(), told.sensitive);
        upstream.sequence = Some(told.sequence);
        Ok(())
    }

    fn fold_watched(&mut self, watched: &RunWatched, folding: &mut Folding<'_>) {
        let RunWatched { by, sequence, watching, deadline } = *watched;
        let bonds = &mut self.state.bonds;
        match deadline.filter(|_| watching) {
            Some(deadline) => drop(bonds.deadlines.insert(by, deadline)),
            None => drop(bonds.deadlines.remove(&by)),
        }
        bonds.watched |= watching;
        folding.effects.push(Effect::Hear { from: by, sequence });
        folding.effects.push(if watching { Effect::Watch(by) } else { Effect::Unwatch(by) });
        if watching {
            let tidings = Tidings { sequence: folding.sequence, ..self.tidings() };
            folding.effects.push(Effect::Tell { to: by, tidings });
        }
    }

    /// While it waits for people, a run waits for the earliest deadline of its groups too.
    pub(crate) fn settle_deadline(&mut self, folding: &mut Folding<'_>) {
        let alive = !self.state.lifecycle.is_terminal() && self.state.ending.is_none();
        let wanted = self.group_deadline().filter(|_| alive && self.is_suspended());
        let wanted = wanted.map(|(deadline, _)| deadline);
        let armed = self.state.timers.get(&TimerId::Deadline).copied();
        match wanted {
            Some(due) if armed != Some(due) => self.arm(TimerId::Deadline, due, folding),
            None if armed.is_some() => self.disarm(&TimerId::Deadline, folding),
            _ => {}
        }
    }

    /// Tells those who watch the run, if they see it otherwise than before.
    pub(crate) fn settle_sight(&self, before: Option<crate::tidings::Sight>, folding: &mut Folding<'_>) {
        let Some(before) = before else { return };
        if before != self.sight() {
            let tidings = Tidings { sequence: folding.sequence, ..self.tidings() };
            folding.effects.push(Effect::Announce(tidings));
        }
    }

    /// How it is seen before an event, if somebody watches.
    pub(crate) fn sight_if_watched(&self, event: &Event) -> Option<crate::tidings::Sight> {
        let bond = matches!(event, Event::Run(RunEvent::Watched(_)));
        (self.state.bonds.watched && !bond && !self.is_replay()).then(|| self.sight())
    }
}
