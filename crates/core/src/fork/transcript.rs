//! Another run's events, in this run's names and at its times.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Cut, Names};
use crate::conversation::minted;
use crate::event::{
    ArtifactCreated, ChildReported, ConversationOpened, Event, InterruptRequested, NodeEvent, PlanChange,
    RunEvent, TaskChange,
};
use crate::planning::{PlanId, TaskId};
use crate::{InterruptId, Millis, Run, RunId, Salt};

/// Writes another run's events into the journal of a fork.
pub(crate) struct Transcript {
    source: String,
    source_salt: Salt,
    own: String,
    own_id: RunId,
    /// The node that the run itself asks on.
    own_node: Arc<str>,
    moved_ms: Millis,
    pub(crate) names: Names,
    /// The children that are started anew.
    awaited: BTreeSet<RunId>,
    /// The conversations whose ids are this run's own.
    opened: BTreeSet<String>,
    replays: bool,
}

impl Transcript {
    pub(super) fn new(source: RunId, run: &Run, cut: &Cut, moved_ms: Millis, replays: bool) -> Self {
        let mut names = Names::default();
        // What a node produces is named by its run, its place and how often it was executed.
        for (ix, node) in cut.end.state.nodes.iter().enumerate() {
            let node_id = &cut.end.graph.at(ix as crate::NodeIx).id;
            for execution in 0..=node.execution {
                let named = |run| ArtifactCreated::of(run, node_id, execution, node_id).artifact_id;
                names.add(named(source), named(run.key.id));
            }
        }
        let (source, own) = (source.to_string(), run.key.id.to_string());
        Self {
            source,
            source_salt: cut.end.salt,
            own,
            own_id: run.key.id,
            own_node: run.graph.own_node.clone(),
            moved_ms,
            names,
            awaited: cut.awaited.clone(),
            opened: BTreeSet::new(),
            replays,
        }
    }

    /// An event's payload, with the fork's name wherever the other run's stood. In a replay expressions speak of the other
    /// run, and what the run itself makes up speaks of the fork.
    pub(super) fn own_names(&self, event: &Event) -> Vec<u8> {
        let payload = String::from_utf8(event.encode()).expect("a payload is JSON, which is text");
        payload.replace(&self.source, &self.own).into_bytes()
    }

    /// The event as the fork has it, if it comes next there.
    pub(super) fn write(&mut self, run: &Run, event: &Event) -> Event {
        self.name(run, event);
        let mut event = self.renamed(event);
        self.adapt(&mut event);
        event
    }

    /// Gives what an event makes its name in the fork.
    fn name(&mut self, run: &Run, event: &Event) {
        let event = match event {
            Event::Run(event) => return self.name_posted(run, event),
            Event::Node { event, .. } => event,
        };
        match event {
            NodeEvent::InterruptRequested(asked) => {
                self.names.add(asked.interrupt_id, InterruptId::of(&run.salt, run.head.next));
                self.name_conversation(run, asked);
            }
            NodeEvent::Spawned(spawned) if self.awaited.contains(&spawned.child) && !self.replays => {
                self.names.add(spawned.child, run.own_child(run.head.at));
            }
            _ => {}
        }
    }

    /// A task or a plan that is posted is known by where it is posted.
    fn name_posted(&mut self, run: &Run, event: &RunEvent) {
        match event {
            RunEvent::Task(told) if told.change == TaskChange::Created => {
                self.names.add(told.task_id, TaskId::of(&run.salt, run.head.next));
            }
            RunEvent::Plan(told) if told.change == PlanChange::Created => {
                self.names.add(told.plan_id, PlanId::of(&run.salt, run.head.next));
            }
            _ => {}
        }
    }

    /// An id that the other run made itself is one that the fork makes itself: whoever opened the conversation asks for
    /// its turns by the id that it would get here. An id that somebody chose is still what they chose.
    pub(super) fn name_conversation(&mut self, run: &Run, asked: &InterruptRequested) {
        let Some(id) = asked.minted_conversation().filter(|id| *id == minted(&self.source_salt, &asked.key))
        else {
            return;
        };
        let own = run.minted_conversation(&self.own_key(asked));
        self.names.add(id, &own);
        self.opened.insert(own);
    }

    /// What a question of the other run is known by here.
    fn own_key(&self, asked: &InterruptRequested) -> String {
        match asked.key.strip_prefix(&self.source).filter(|_| asked.keyless) {
            Some(rest) => format!("{}{rest}", self.own),
            None => asked.key.clone(),
        }
    }

    /// Whether the run that a branch was forked off keeps a conversation's name.
    fn is_elsewhere(&self, opened: &ConversationOpened) -> bool {
        !self.replays && !self.opened.contains(&opened.conversation_id)
    }

    /// The event in the fork's names.
    pub(super) fn renamed(&self, event: &Event) -> Event {
        let payload = String::from_utf8(event.encode()).expect("a payload is JSON, which is text");
        let kind = event.event_type();
        let mut renamed = self.names.rename(&payload);
        // A turn is named by its run wherever it is spoken of, and so is all that the run itself asks.
        if event.node().is_some_and(|node| *node == self.own_node) {
            renamed = renamed.replace(&self.source, &self.own);
        } else {
            let turn = |run: &str| format!("\"turnId\":\"{run}:");
            renamed = renamed.replace(&turn(&self.source), &turn(&self.own));
        }
        let read = Event::decode(kind.code, kind.version, event.node(), renamed.as_bytes());
        read.expect("a name took the place of one of the same form")
    }

    /// What an event says of the run itself, and of times that are still to come.
    pub(super) fn adapt(&self, event: &mut Event) {
        let moved = self.moved_ms;
        let own = |text: &mut String| {
            if let Some(rest) = text.strip_prefix(&self.source) {
                *text = format!("{}{rest}", self.own);
            }
        };
        match event {
            Event::Run(RunEvent::ResumeDecided(decided)) => own(&mut decided.run_id),
            Event::Run(RunEvent::ChildReported(told)) => self.adapt_report(told),
            // A task that waits because its run does waits for the fork there.
            Event::Run(RunEvent::Task(told)) => {
                let waits_for = told.suspended_intent_id.filter(|_| told.interrupt_id.is_some());
                told.suspended_intent_id = waits_for.map(|_| self.own_id).or(told.suspended_intent_id);
            }
            Event::Run(_) => {}
            Event::Node { event, .. } => match event {
                NodeEvent::Started(started) => started.until = started.until.map(|until| until + moved),
                NodeEvent::Retried(retried) => retried.until += moved,
                NodeEvent::SleepStarted(sleep) => sleep.until += moved,
                NodeEvent::ProviderPostponed(postponed) => postponed.since += moved,
                NodeEvent::InterruptRenotified(again) => {
                    again.next_attempt_at = again.next_attempt_at.map(|at| at + moved);
                }
                NodeEvent::InterruptRequested(asked) => asked.key = self.own_key(asked),
                NodeEvent::AgentDecided(decided) if decided.keyless => own(&mut decided.key),
                NodeEvent::Suspended(suspended) => own(&mut suspended.key),
                NodeEvent::TurnBegan(began) => {
                    own(&mut began.conversation_id);
                    own(&mut began.turn_id);
                }
                NodeEvent::TurnSealed(sealed) => {
                    own(&mut sealed.conversation_id);
                    own(&mut sealed.turn_id);
                }
                NodeEvent::ProviderRetry(retry) => {
                    own(&mut retry.conversation_id);
                    own(&mut retry.turn_id);
                }
                NodeEvent::ConversationOpened(opened) => opened.elsewhere = self.is_elsewhere(opened),
                NodeEvent::Spawned(spawned) => {
                    // A branch starts those anew that somebody waits for; it named them after itself.
                    spawned.elsewhere = !self.replays && !self.is_started(spawned.child);
                }
                _ => {}
            },
        }
    }

    /// A child that is started anew has told nothing yet.
    fn adapt_report(&self, told: &mut ChildReported) {
        if self.is_started(told.child) && !self.replays {
            (told.sequence, told.still) = (0, false);
            (told.status, told.suspended, told.claimed) = (None, None, false);
        }
    }

    /// Whether this is the new name of a child that is started anew.
    fn is_started(&self, child: RunId) -> bool {
        self.awaited.iter().any(|awaited| self.names.run(*awaited) == Some(child))
    }
}
