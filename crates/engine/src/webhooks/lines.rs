//! Which webhook is looked at next, and which of its runs get a place.
//!
//! Places are scarce when receivers are slow. So tenants take turns, the webhooks of a tenant take turns within theirs,
//! and a run that gave its place back comes after those that waited for it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use abide_core::{Millis, RunId, TenantId};
use abide_store::{Waiting, WebhookKey};

use crate::limits;

/// A webhook that something is on its way to.
#[derive(Default)]
pub(super) struct Line {
    /// The runs whose events are under way.
    pub(super) under_way: HashSet<RunId>,
    /// Runs that gave their place back with more to tell, latest last. Within one millisecond, and while a clock stands
    /// still, the time that they are due does not put them behind the others.
    rested: VecDeque<RunId>,
    /// Something may have changed since the last look, and it has its turn coming.
    stale: bool,
    /// When to look again in any case.
    pub(super) look_at: Option<Millis>,
}

impl Line {
    /// How many of those that are due have to be read so that every free place can be filled: those under way are due as
    /// well, and may be found before the others.
    pub(super) fn reach(&self) -> usize {
        self.under_way.len() + self.rested.len() + limits::WEBHOOK_IN_FLIGHT_MAX
    }

    /// Puts those that are due into the order in which they get places.
    pub(super) fn rank(&self, waiting: &mut [Waiting]) {
        waiting.sort_by_key(|delivery| self.rested.contains(&delivery.run));
    }

    pub(super) fn leave(&mut self, run: RunId) {
        self.under_way.insert(run);
        self.rested.retain(|rested| *rested != run);
    }

    pub(super) fn rest(&mut self, run: RunId) {
        if self.rested.len() >= limits::WEBHOOK_IN_FLIGHT_MAX {
            self.rested.pop_front();
        }
        self.rested.push_back(run);
    }
}

/// The webhooks that something is on its way to, and whose turn it is.
#[derive(Default)]
pub(super) struct Lines {
    lines: HashMap<WebhookKey, Line>,
    /// Tenants with webhooks to look at, in turn.
    tenants: VecDeque<TenantId>,
    /// Their webhooks to look at, in turn. None of these is empty.
    webhooks: HashMap<TenantId, VecDeque<Arc<str>>>,
}

impl Lines {
    pub(super) fn get_mut(&mut self, key: &WebhookKey) -> Option<&mut Line> {
        self.lines.get_mut(key)
    }

    /// Something may have changed: the webhook is to be looked at when it has its turn.
    pub(super) fn mark(&mut self, key: WebhookKey) {
        let line = self.lines.entry(key.clone()).or_default();
        if std::mem::replace(&mut line.stale, true) {
            return;
        }
        let webhooks = self.webhooks.entry(key.tenant).or_default();
        if webhooks.is_empty() {
            self.tenants.push_back(key.tenant);
        }
        webhooks.push_back(key.id);
    }

    /// Marks those whose time has come. It has passed then: until there is a place to look for, nothing waits for it.
    pub(super) fn mark_due(&mut self, now: Millis) {
        let due = self.lines.iter_mut().filter(|(_, line)| line.look_at.is_some_and(|at| at <= now));
        let due: Vec<WebhookKey> = due
            .map(|(key, line)| {
                line.look_at = None;
                key.clone()
            })
            .collect();
        due.into_iter().for_each(|key| self.mark(key));
    }

    /// When the first one is to be looked at in any case.
    pub(super) fn look_at(&self) -> Option<Millis> {
        self.lines.values().filter_map(|line| line.look_at).min()
    }

    /// Whose turn it is.
    pub(super) fn next(&mut self) -> Option<WebhookKey> {
        let tenant = self.tenants.pop_front()?;
        let webhooks = self.webhooks.get_mut(&tenant)?;
        let id = webhooks.pop_front()?;
        if webhooks.is_empty() {
            self.webhooks.remove(&tenant);
        } else {
            self.tenants.push_back(tenant);
        }
        let key = WebhookKey { tenant, id };
        self.lines.get_mut(&key)?.stale = false;
        Some(key)
    }

    /// Forgets a webhook that nothing is on its way to.
    pub(super) fn forget_idle(&mut self, key: &WebhookKey) {
        let idle = |line: &Line| line.under_way.is_empty() && !line.stale && line.look_at.is_none();
        if self.lines.get(key).is_some_and(idle) {
            self.lines.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: u32, id: &str) -> WebhookKey {
        WebhookKey { tenant: TenantId(tenant), id: id.into() }
    }

    #[test]
    fn tenants_take_turns_and_so_do_the_webhooks_of_each() {
        let mut lines = Lines::default();
        for id in ["a", "b", "c"] {
            lines.mark(key(1, id));
        }
        lines.mark(key(2, "a"));
        let first = lines.next().unwrap();
        assert_eq!(first, key(1, "a"));
        lines.mark(first);
        lines.mark(key(1, "b"));
        let order: Vec<WebhookKey> = std::iter::from_fn(|| lines.next()).collect();
        assert_eq!(order, [key(2, "a"), key(1, "b"), key(1, "c"), key(1, "a")]);
    }

    #[test]
    fn a_time_that_has_come_is_waited_for_no_longer() {
        let mut lines = Lines::default();
        for (id, at) in [("a", 10), ("b", 20)] {
            lines.mark(key(1, id));
            lines.get_mut(&key(1, id)).unwrap().look_at = Some(at);
        }
        while lines.next().is_some() {}
        lines.mark_due(9);
        assert_eq!((lines.next(), lines.look_at()), (None, Some(10)));
        lines.mark_due(10);
        assert_eq!(lines.look_at(), Some(20), "whether there is a place or not");
        assert_eq!((lines.next(), lines.next()), (Some(key(1, "a")), None));
    }

    #[test]
    fn a_run_that_rested_comes_after_those_that_waited() {
        let run = |n: u8| RunId::from_bytes([n; 16]);
        let delivery = |n| Waiting { run: run(n), sequence: 0, again: false };
        let mut line = Line::default();
        line.rest(run(1));
        line.rest(run(2));
        line.leave(run(2));
        let mut waiting = [1, 2, 3].map(delivery);
        line.rank(&mut waiting);
        assert_eq!(waiting, [2, 3, 1].map(delivery));
        (10..200).for_each(|n| line.rest(run(n)));
        assert!(line.reach() <= 3 * limits::WEBHOOK_IN_FLIGHT_MAX, "however many rested");
    }
}
