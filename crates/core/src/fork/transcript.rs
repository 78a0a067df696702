//! Another run's events, in this run's names and at its times.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Cut, Names};
use crate::event::{ArtifactCreated, ChildReported, Event, NodeEvent, RunEvent};
use crate::{InterruptId, Millis, Run, RunId};

/// Writes another run's events into the journal of a fork.
pub(crate) struct Transcript {
    source: String,
    own: String,
    /// The node that the run itself asks on.
    own_node: Arc<str>,
    moved_ms: Millis,
    pub(crate) names: Names,
    /// The children that are started anew.
    awaited: BTreeSet<RunId>,
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
        let own_node = run.graph.own_node.clone();
        Self { source, own, own_node, moved_ms, names, awaited: cut.awaited.clone(), replays }
    }

    /// An event's payload, with the fork's name wherever the other run's stood.
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
        let Event::Node { event, .. } = event else { return };
        match event {
            NodeEvent::InterruptRequested(asked) => {
                self.names.add(asked.interrupt_id, InterruptId::of(&run.salt, run.head.next));
            }
            NodeEvent::Spawned(spawned) if self.awaited.contains(&spawned.child) && !self.replays => {
                self.names.add(spawned.child, run.own_child(run.head.at));
            }
            _ => {}
        }
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
            Event::Run(_) => {}
            Event::Node { event, .. } => match event {
                NodeEvent::Started(started) => started.until = started.until.map(|until| until + moved),
                NodeEvent::Retried(retried) => retried.until += moved,
                NodeEvent::SleepStarted(sleep) => sleep.until += moved,
                NodeEvent::ProviderPostponed(postponed) => postponed.since += moved,
                NodeEvent::InterruptRenotified(again) => {
                    again.next_attempt_at = again.next_attempt_at.map(|at| at + moved);
                }
                NodeEvent::InterruptRequested(asked) if asked.keyless => own(&mut asked.key),
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
                NodeEvent::ConversationOpened(opened) => opened.elsewhere = !self.replays,
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
        }
    }

    /// Whether this is the new name of a child that is started anew.
    fn is_started(&self, child: RunId) -> bool {
        self.awaited.iter().any(|awaited| self.names.run(*awaited) == Some(child))
    }
}
