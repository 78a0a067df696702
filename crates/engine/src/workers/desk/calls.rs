//! Calls of agents about their questions: any session of the agent that wants such calls gets one.

use std::collections::HashSet;

use abide_core::event::HookKind;
use abide_core::{Millis, TenantId};
use abide_store::{HookId, HookRow};

use super::{Call, Desk, Seat};
use crate::limits;
use crate::workers::session::Letter;

/// An agent of a tenant.
pub(crate) type Agent = (TenantId, String);

impl Desk {
    /// An agent may have to be called.
    pub(crate) fn call(&mut self, agent: Agent) {
        self.called.insert(agent);
        self.news.calls = true;
    }

    /// The agents that may have to be called now, and that somebody speaks for: what for, and how many calls are under
    /// way.
    pub(crate) fn agents_to_call(&mut self, now: Millis) -> Vec<(Agent, Vec<HookKind>, usize)> {
        while let Some(first) = self.calls_due.first_entry().filter(|first| *first.key() <= now) {
            self.called.extend(first.remove());
        }
        self.ended.clear();
        let agents: Vec<Agent> = self.called.drain().collect();
        let wanted = |agent: Agent| {
            let of_agent = self
                .sessions
                .iter()
                .filter(|((tenant, _), session)| *tenant == agent.0 && session.agent == agent.1);
            let kinds: HashSet<HookKind> =
                of_agent.clone().flat_map(|(_, session)| session.hooks.iter().copied()).collect();
            let under_way = of_agent.map(|(_, session)| session.calls.len()).sum();
            (!kinds.is_empty()).then(|| (agent, kinds.into_iter().collect(), under_way))
        };
        agents.into_iter().filter_map(wanted).collect()
    }

    /// When an agent has to be called next, as far as that is known.
    pub(crate) fn next_call(&self) -> Option<Millis> {
        self.calls_due.first_key_value().map(|(at, _)| *at)
    }

    /// An agent has to be called then.
    pub(crate) fn call_at(&mut self, due: Millis, agent: Agent) {
        self.calls_due.entry(due).or_default().insert(agent);
        self.news.calls = true;
    }

    /// Gives calls to sessions that have room for them. Gives those that are due and found nobody.
    pub(crate) fn place_calls(
        &mut self,
        agent: &Agent,
        rows: Vec<HookRow>,
        now: Millis,
    ) -> Vec<(TenantId, HookId)> {
        let mut nobodys = Vec::new();
        for row in rows {
            let call = (row.tenant, row.id);
            // One that ended while these were read is read again: its end was not on disk yet.
            if self.under_way.contains_key(&call) || self.ended.contains(&call) {
                continue;
            }
            if row.due > now {
                self.calls_due.entry(row.due).or_default().insert(agent.clone());
                continue;
            }
            let Some(seat) = self.listener(agent, row.id.hook) else {
                nobodys.push(call);
                continue;
            };
            let session = self.sessions.get_mut(&seat).expect("it was just found");
            session.calls.insert(row.id);
            let n = self.next;
            self.next += 1;
            let call = Call { session: seat.1, tries: row.tries, letter: n };
            self.under_way.insert((row.tenant, row.id), call);
            session.tell(n, Letter::Hook(Box::new(row)));
        }
        nobodys
    }

    /// The calls that are under way.
    pub(crate) fn calls_under_way(&self) -> Vec<(TenantId, HookId)> {
        self.under_way.keys().copied().collect()
    }

    /// Every agent that somebody here speaks for may have to be called.
    pub(crate) fn call_all(&mut self) {
        let wants = self.sessions.iter().filter(|(_, session)| !session.hooks.is_empty());
        let agents: Vec<Agent> = wants.map(|(seat, session)| (seat.0, session.agent.clone())).collect();
        agents.into_iter().for_each(|agent| self.call(agent));
    }

    /// The session that has the fewest calls, if one wants such calls and has room.
    fn listener(&self, agent: &Agent, hook: HookKind) -> Option<Seat> {
        let suits = self.sessions.iter().filter(|((tenant, _), session)| {
            *tenant == agent.0
                && session.agent == agent.1
                && session.hooks.contains(&hook)
                && !session.contact.is_gone()
                && session.calls.len() < limits::HOOKS_OF_SESSION_MAX
        });
        suits.min_by_key(|((_, id), session)| (session.calls.len(), *id)).map(|(seat, _)| *seat)
    }

    /// The agent of a call that a session has, and how often it was tried before.
    pub(crate) fn call_of(&self, seat: Seat, hook: HookId) -> Option<(Agent, u32)> {
        let call = self.under_way.get(&(seat.0, hook)).filter(|call| call.session == seat.1)?;
        let session = self.sessions.get(&seat)?;
        Some(((seat.0, session.agent.clone()), call.tries))
    }

    /// It is written down how a call ended: there is room for another.
    pub(crate) fn end_call(&mut self, agent: Agent, hook: HookId) {
        if let Some(call) = self.under_way.remove(&(agent.0, hook))
            && let Some(session) = self.sessions.get_mut(&(agent.0, call.session))
        {
            session.calls.remove(&hook);
            session.untell(Some(call.letter));
        }
        self.ended.insert((agent.0, hook));
        self.call(agent);
    }
}
