//! Deciding again, beside what was recorded.
//!
//! What was recorded says what came from outside, and when. What follows from it is worked out by the run itself, with the
//! same functions as ever, and held against what was recorded: events are matched by what happened to which execution of
//! which node, and never by their names. A difference is told and the replay goes on with what it has worked out.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::place::{Place, Places};
use super::transcript::Transcript;
use super::{Cut, Log, NewFork, Recorded, Told, Unforked};
use crate::command::Draft;
use crate::event::{
    DivergenceKind, Event, NodeEvent, NodeResumed, ReplayDiverged, Resolution, RunEvent, Started, TurnEnd,
};
use crate::graph::Work;
use crate::interrupt::is_of_exchanges;
use crate::run::Ending;
use crate::{
    Corrupt, EventId, Hold, Lifecycle, Millis, NodeIx, NodePhase, Notice, Performance, Run, Surroundings,
    TaskId, limits,
};

/// Why a question is closed to which no answer was recorded.
const NO_SOURCE: &str = "replay-source-missing";

/// Who closes it.
const BY_REPLAY: &str = "system:replay";

/// A replay under way.
pub(super) struct Replay<'a> {
    run: Run,
    log: Log,
    transcript: Transcript,
    /// The other run as it stands, and its events.
    source: &'a Run,
    told: &'a [Told],
    around: Arc<Surroundings>,
    /// Where the other run's events are, and which of them have happened again.
    indices: HashMap<Place, usize>,
    executions: Vec<u32>,
    done: Vec<bool>,
    places: Places,
    /// What came from outside for executions that have not begun.
    kept: BTreeSet<usize>,
    /// The place in the other run's journal.
    at: usize,
    copied: u64,
    executed: u64,
    diverged: u64,
}

/// How an event differs from the one that was recorded.
struct Divergence {
    at: usize,
    kind: DivergenceKind,
    recorded: bool,
    node: Option<Arc<str>>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(run: Run, log: Log, transcript: Transcript, cut: &'a Cut, told: &'a [Told]) -> Self {
        let (mut indices, mut executions, mut all) = (HashMap::new(), Vec::new(), Places::default());
        let mut places = Places::default();
        for (at, told) in told.iter().enumerate() {
            let place = all.next(&told.event);
            executions.push(place.execution);
            indices.insert(place, at);
            if at < cut.history {
                places.next(&told.event);
            }
        }
        let done = (0..told.len()).map(|at| at < cut.history || is_remark(&told[at].event)).collect();
        let recorded = Some(Arc::new(Recorded::of(told)));
        let around = Arc::new(Surroundings { recorded, ..Surroundings::default() });
        let copied = log.step.records.len() as u64;
        Self {
            run,
            log,
            transcript,
            source: &cut.end,
            told,
            around,
            indices,
            executions,
            done,
            places,
            kept: BTreeSet::new(),
            at: cut.history,
            copied,
            executed: 0,
            diverged: 0,
        }
    }

    /// Replays everything that was recorded, and as much as follows from it.
    pub(super) fn play(mut self, started: Started) -> Result<NewFork, Unforked> {
        if self.copied == 0 {
            let mut draft = self.draft();
            draft.emit_run(&mut self.run, RunEvent::Started(Box::new(started)), None);
            (self.done[0], self.at) = (true, 1);
            self.places.next(&self.told[0].event);
            self.log.take(draft)?;
        }
        while self.at < self.told.len() && !self.run.lifecycle().is_terminal() {
            self.meet(self.at)?;
            self.at += 1;
        }
        self.finish()?;
        let Self { run, log, copied, executed, diverged, .. } = self;
        Ok(NewFork { run, step: log.step, copied, executed, diverged })
    }

    /// Goes on to an event of the other run.
    fn meet(&mut self, at: usize) -> Result<(), Unforked> {
        self.give_kept()?;
        if self.done[at] {
            return Ok(());
        }
        if self.is_live(at) {
            while !self.done[at] && self.go_on()? {}
            return Ok(());
        }
        self.give(at)
    }

    fn now(&self) -> Millis {
        self.told[self.at.min(self.told.len() - 1)].at
    }

    fn draft(&self) -> Draft {
        Draft::new(self.run.head, self.now(), self.around.clone())
    }

    fn node_of(&self, at: usize) -> Option<NodeIx> {
        self.told[at].event.node().and_then(|node| self.run.graph.node(node))
    }

    /// Whether the run itself has to bring an event about, and it does not come from outside.
    fn is_live(&self, at: usize) -> bool {
        let ending = self.run.state.ending.is_some();
        // What people outside and workers ask comes from them.
        let own = |ix: NodeIx| self.run.node(ix).work.is_none() && !self.run.is_by_hand(ix);
        let asks = || self.node_of(at).is_some_and(own);
        match &self.told[at].event {
            Event::Run(event) => match event {
                RunEvent::Completed(_)
                | RunEvent::Failed(_)
                | RunEvent::LoopbackLimit(_)
                | RunEvent::LoopRestarted(_) => true,
                RunEvent::Cancelled(_) => ending,
                // What is posted comes from outside, but for what ends with the run.
                RunEvent::Task(changed) => ends_live(changed.with_run, ending),
                RunEvent::Plan(changed) => ends_live(changed.with_run, ending),
                RunEvent::CapBreached(breach) => breach.kind != "run-duration",
                _ => false,
            },
            Event::Node { event, .. } => match event {
                NodeEvent::Started(_) => !self.never_asked(at),
                NodeEvent::Skipped(_)
                | NodeEvent::Resumed(_)
                | NodeEvent::ModelCalled(_)
                | NodeEvent::TurnBegan(_)
                | NodeEvent::ToolAnswered(_)
                | NodeEvent::ArtifactCreated(_) => true,
                NodeEvent::Spawned(_)
                | NodeEvent::InterruptRequested(_)
                | NodeEvent::ClarificationRequested(_)
                | NodeEvent::Suspended(_) => asks(),
                NodeEvent::Cancelled(_) => ending,
                NodeEvent::InterruptResolved(resolved) => ending && resolved.outcome == Resolution::Cancelled,
                NodeEvent::TurnSealed(sealed) => {
                    let runs =
                        self.node_of(at).is_some_and(|ix| self.run.node(ix).phase == NodePhase::Running);
                    ending && sealed.status == TurnEnd::Aborted && !runs
                }
                _ => false,
            },
        }
    }

    /// Whether a node that asks a model failed before it could: that was due to how the server was set up.
    fn never_asked(&self, at: usize) -> bool {
        let Some(ix) = self.node_of(at) else { return false };
        let node = self.run.graph.at(ix);
        let asked = || self.around.recorded.as_ref()?.turn(&node.id, self.executions[at]);
        matches!(node.work, Work::Turn(_)) && asked().is_none()
    }

    /// Does what stands in line next, or ends the run if that is due. The answer is whether anything was done.
    fn go_on(&mut self) -> Result<bool, Unforked> {
        if self.run.lifecycle().is_terminal() {
            return Ok(false);
        }
        if !self.run.has_next() {
            return self.conclude(self.run.state.ending.clone());
        }
        let mut draft = self.draft();
        self.run.take_next(&mut draft);
        let went_on = !draft.step.records.is_empty();
        self.take(draft, true)?;
        Ok(went_on)
    }

    /// Ends the run if that is due. What is told of it has to be told before.
    fn conclude(&mut self, ending: Option<Ending>) -> Result<bool, Unforked> {
        let mut trial = self.run.clone();
        let mut draft = self.draft();
        trial.conclude(&mut draft, ending.clone());
        trial.settle_pause(&mut draft);
        if draft.step.records.is_empty() {
            return Ok(false);
        }
        if !trial.lifecycle().is_terminal() {
            self.run = trial;
            self.take(draft, true)?;
            return Ok(true);
        }
        let mut found = self.compare(&draft);
        found.extend(self.missing());
        self.tell(ended_otherwise(found))?;
        let mut draft = self.draft();
        self.run.conclude(&mut draft, ending);
        self.log.take(draft)?;
        Ok(true)
    }

    /// Takes over what was worked out, and tells how it differs from what was recorded.
    fn take(&mut self, draft: Draft, live: bool) -> Result<(), Unforked> {
        let found = self.compare(&draft);
        if live {
            self.executed += draft.step.records.iter().filter(|record| executes(record)).count() as u64;
        }
        self.log.take(draft)?;
        if self.run.lifecycle().is_terminal() { Ok(()) } else { self.tell(found) }
    }

    /// How events differ from those that were recorded.
    fn compare(&mut self, draft: &Draft) -> Vec<Divergence> {
        let mut found = Vec::new();
        for record in &draft.step.records {
            let Ok(event) = record.event() else { continue };
            let place = self.places.next(&event);
            let node = place.node.clone();
            let Some(&at) = self.indices.get(&place) else {
                found.push(Divergence { at: self.at, kind: DivergenceKind::Extra, recorded: false, node });
                continue;
            };
            self.done[at] = true;
            if !self.is_same(at, &event) {
                found.push(Divergence { at, kind: DivergenceKind::Output, recorded: true, node });
            }
        }
        found
    }

    fn is_same(&mut self, at: usize, event: &Event) -> bool {
        let recorded = &self.told[at].event;
        if let (
            Event::Node { event: NodeEvent::InterruptRequested(before), .. },
            Event::Node { event: NodeEvent::InterruptRequested(now), .. },
        ) = (recorded, event)
        {
            self.transcript.names.add(before.interrupt_id, now.interrupt_id);
            self.transcript.name_conversation(&self.run, before);
        }
        let mut expected = self.transcript.renamed(recorded);
        self.transcript.adapt(&mut expected);
        expected == *event || self.transcript.own_names(&expected) == self.transcript.own_names(event)
    }

    /// What was recorded and has not happened again.
    fn missing(&self) -> Vec<Divergence> {
        let missing = (0..self.told.len()).filter(|&at| !self.done[at]);
        let divergence = |at: usize| {
            let node = self.told[at].event.node().cloned();
            Divergence { at, kind: DivergenceKind::Missing, recorded: true, node }
        };
        missing.map(divergence).collect()
    }

    fn tell(&mut self, found: Vec<Divergence>) -> Result<(), Unforked> {
        for divergence in found {
            self.diverged += 1;
            if self.diverged > limits::DIVERGENCES_MAX {
                continue;
            }
            let (run, sequence) = (self.source.key.id, divergence.at as u64);
            let told = ReplayDiverged {
                source_run_id: run,
                at_sequence: sequence,
                original_event_id: divergence.recorded.then(|| EventId { run, sequence }.to_string()),
                divergence_kind: divergence.kind,
                node_id: divergence.node.map(|node| node.to_string()),
            };
            let mut draft = self.draft();
            draft.emit_run(&mut self.run, RunEvent::ReplayDiverged(told), None);
            self.log.take(draft)?;
        }
        Ok(())
    }

    /// Gives the run what came from outside.
    fn give(&mut self, at: usize) -> Result<(), Unforked> {
        if let Some(ending) = self.cancellation(at) {
            return self.conclude(Some(ending)).map(drop);
        }
        let told = self.told;
        match &told[at].event {
            Event::Run(RunEvent::ChildReported(told)) => {
                let notice = Notice {
                    from: told.child,
                    sequence: told.sequence,
                    node: told.node.clone(),
                    lifecycle: told.lifecycle,
                    execution: told.execution.unwrap_or(0),
                    outputs: told.outputs.clone(),
                    sensitive: told.sensitive.clone(),
                    error: told.error.clone(),
                    still: told.still,
                    status: told.status,
                    suspended: told.suspended,
                    claimed: told.claimed,
                };
                let mut draft = self.draft();
                self.run.hear_of(&mut draft, &notice);
                self.take(draft, false)
            }
            Event::Run(RunEvent::ChildRefused(refused)) => {
                let mut draft = self.draft();
                self.run.hear_refusal(&mut draft, refused);
                self.take(draft, false)
            }
            event => {
                let outcome = self.outcome_of(at);
                if !self.may_give(outcome.unwrap_or(at)) {
                    return Ok(());
                }
                match outcome {
                    Some(end) => self.end_node(end),
                    None => self.repeat(at, event),
                }
            }
        }
    }

    /// Tries again to give what came before its execution had begun.
    fn give_kept(&mut self) -> Result<(), Unforked> {
        for at in std::mem::take(&mut self.kept) {
            if !self.done[at] && !self.run.lifecycle().is_terminal() {
                self.give(at)?;
            }
        }
        Ok(())
    }

    /// Whether an event can come from outside now. If its execution has not begun it is kept for later.
    fn may_give(&mut self, at: usize) -> bool {
        match &self.told[at].event {
            Event::Run(event) => {
                let state = &self.run.state;
                state.lifecycle.after(event).is_some() && state.hold.after(event).is_some()
            }
            Event::Node { event, .. } => {
                // Only the run itself asks on a node that its definition does not have.
                let Some(ix) = self.node_of(at) else { return true };
                let (node, execution) = (self.run.node(ix), self.executions[at]);
                if matches!(event, NodeEvent::Started(_)) {
                    let next = self.run.state.ready.front().map(|(next, _)| *next);
                    return next == Some(ix) && node.phase.after(event).is_some();
                }
                if node.execution < execution {
                    self.kept.insert(at);
                }
                node.execution == execution && node.phase.after(event).is_some()
            }
        }
    }

    /// The event that ends the work of a node, if this is it, or comes right before it.
    fn outcome_of(&self, at: usize) -> Option<usize> {
        let changes = |told: &&Told| match &told.event {
            Event::Run(RunEvent::VariableChanged(changed)) => !is_of_exchanges(&changed.name),
            Event::Run(_) => false,
            Event::Node { event, .. } => {
                matches!(event, NodeEvent::ChannelWritten(_) | NodeEvent::Decided(_))
            }
        };
        let end = at + self.told[at..].iter().take_while(changes).count();
        let ends = matches!(
            self.told.get(end)?.event,
            Event::Node { event: NodeEvent::Completed(_) | NodeEvent::Failed(_), .. }
        );
        (ends && (end == at || self.is_pure(end))).then_some(end)
    }

    /// Whether the server itself worked out what a node produced, though under a lease.
    fn is_pure(&self, at: usize) -> bool {
        self.node_of(at).is_some_and(|ix| matches!(self.performed(ix), Some(Performance::Done(_))))
    }

    fn performed(&self, ix: NodeIx) -> Option<Performance> {
        let (id, node) = (&self.run.graph.at(ix).id, self.run.node(ix));
        let own = node.dispatched && node.work.is_none() && node.turn.is_none();
        let task = TaskId { node: id.clone(), execution: node.execution };
        own.then(|| self.run.perform_task(&task)).flatten()
    }

    /// Ends the work of a node: as it was recorded, unless it can be worked out again.
    fn end_node(&mut self, at: usize) -> Result<(), Unforked> {
        let Some(ix) = self.node_of(at) else { return Ok(()) };
        let mut draft = self.draft();
        let sensitive = self.run.node(ix).sensitive;
        match &self.transcript.renamed(&self.told[at].event) {
            // A failure may be that of whoever worked it out.
            Event::Node { event: NodeEvent::Completed(_), .. } if self.is_pure(at) => {
                self.work_out(&mut draft, ix);
            }
            Event::Node { event: NodeEvent::Completed(done), .. } => {
                let hidden = sensitive || done.masked == crate::Mask::All;
                let made = (done.outputs.clone(), done.made_by.clone());
                self.run.complete_made(&mut draft, ix, made, hidden);
            }
            Event::Node { event: NodeEvent::Failed(failed), .. } => {
                self.run.give_up(&mut draft, ix, failed.error.clone());
            }
            _ => {}
        }
        self.take(draft, false)
    }

    /// Works out again what a node produced under a lease.
    fn work_out(&mut self, draft: &mut Draft, ix: NodeIx) {
        self.executed += 1;
        match self.performed(ix) {
            Some(Performance::Done(Ok(mut product))) => {
                product.sensitive |= self.run.node(ix).sensitive;
                self.run.finish(draft, ix, product);
            }
            Some(Performance::Done(Err(failure))) => self.run.give_up(draft, ix, failure),
            _ => {}
        }
    }

    /// Records what came from outside as it was recorded.
    fn repeat(&mut self, at: usize, event: &Event) -> Result<(), Unforked> {
        let own = self.transcript.write(&self.run, event);
        // What the run has come to may be otherwise than what it was when this came.
        let before = (self.diverged > 0).then(|| self.run.clone());
        let mut draft = self.draft();
        let cause = self.told[at].cause.filter(|_| self.diverged == 0);
        match (draft.try_emit(&mut self.run, &own, cause), before) {
            (Ok(()), _) => self.take(draft, false),
            (Err(_), Some(before)) => {
                self.run = before;
                Ok(())
            }
            (Err(reason), None) => Err(Corrupt { sequence: at as u64, reason }.into()),
        }
    }

    /// What somebody said who cancelled the run when nothing was in flight: it stands behind what was closed with it.
    fn cancellation(&self, at: usize) -> Option<Ending> {
        if self.run.state.ending.is_some() {
            return None;
        }
        let closed = |told: &&Told| match &told.event {
            Event::Node { event, .. } => match event {
                NodeEvent::InterruptResolved(resolved) => resolved.outcome == Resolution::Cancelled,
                NodeEvent::TurnSealed(sealed) => sealed.status == TurnEnd::Aborted,
                NodeEvent::Released(released) => released.reason.is_some(),
                event => matches!(event, NodeEvent::Cancelled(_)),
            },
            Event::Run(RunEvent::Task(changed)) => changed.with_run.is_some(),
            Event::Run(RunEvent::Plan(changed)) => changed.with_run.is_some(),
            Event::Run(_) => false,
        };
        match &self.told[at..].iter().find(|told| !closed(told))?.event {
            Event::Run(RunEvent::Cancelled(asked)) => Some(Ending::cancelled(asked)),
            _ => None,
        }
    }

    /// Goes as far as it can without anything from outside. What is not over then was not over when it was recorded, or
    /// lacks what was never recorded.
    fn finish(&mut self) -> Result<(), Unforked> {
        if self.run.lifecycle().is_terminal() || self.diverged == 0 && self.done.iter().all(|done| *done) {
            return Ok(());
        }
        while !self.run.lifecycle().is_terminal() {
            self.give_kept()?;
            if self.run.lifecycle().is_terminal() || self.go_on()? {
                continue;
            }
            match self.lacking() {
                Some(ix) => self.fail_node(ix)?,
                None => break,
            }
        }
        if self.run.lifecycle().is_terminal() { Ok(()) } else { self.tell(self.missing()) }
    }

    /// A node that waits for what was never recorded.
    fn lacking(&self) -> Option<NodeIx> {
        if self.run.state.hold != Hold::None {
            return None;
        }
        let over = self.source.lifecycle().is_terminal();
        let mut nodes = self.run.state.nodes.iter().zip(&self.source.state.nodes).enumerate();
        let found = nodes.find(|(_, (node, recorded))| {
            let waits = matches!(node.phase, NodePhase::Running | NodePhase::Waiting | NodePhase::Suspended);
            let waited = !over && recorded.execution == node.execution && !recorded.phase.is_settled();
            waits && !waited
        });
        found.map(|(ix, _)| ix as NodeIx)
    }

    fn fail_node(&mut self, ix: NodeIx) -> Result<(), Unforked> {
        let mut draft = self.draft();
        let failure = self.run.lacks_source(ix);
        if self.run.node(ix).phase == NodePhase::Suspended {
            for id in self.run.node(ix).stopped_for.clone() {
                self.run.close(&mut draft, id, Resolution::Cancelled, NO_SOURCE, BY_REPLAY);
            }
            let resumed = NodeResumed { interrupt_id: self.run.node(ix).last_interrupt };
            self.run.emit_node(&mut draft, ix, NodeEvent::Resumed(resumed), None);
        }
        self.run.give_up(&mut draft, ix, failure);
        self.take(draft, false)
    }
}

/// Whether the run itself ends what was posted to it. One that somebody cancels is given that with the cancellation.
fn ends_live(with_run: Option<Lifecycle>, ending: bool) -> bool {
    with_run.is_some_and(|end| ending || end == Lifecycle::Completed)
}

/// Whether an event only tells of a replay.
fn is_remark(event: &Event) -> bool {
    matches!(event, Event::Run(RunEvent::ReplayDiverged(_)))
}

/// Whether a node was executed here: it is not handed to anybody and waits for nothing.
fn executes(record: &crate::Record) -> bool {
    match record.event() {
        Ok(Event::Node { event: NodeEvent::Started(started), .. }) => {
            let elsewhere = started.dispatched || started.offer.is_some() || started.for_child;
            !elsewhere && started.until.is_none()
        }
        Ok(Event::Node { event: NodeEvent::Resumed(_), .. }) => true,
        _ => false,
    }
}

/// If a run ends otherwise, that is one difference and not two.
fn ended_otherwise(mut found: Vec<Divergence>) -> Vec<Divergence> {
    let extra = found.iter().rposition(|one| one.kind == DivergenceKind::Extra && one.node.is_none());
    let missing = found.iter().rposition(|one| one.kind == DivergenceKind::Missing && one.node.is_none());
    if let (Some(extra), Some(missing)) = (extra, missing) {
        found[missing].kind = DivergenceKind::TypeMismatch;
        found.remove(extra);
    }
    found
}
