//! From a journal to spans: what has begun in a run, and what has ended.
//!
//! Events are folded in order. One that begins something opens a span, one that ends it closes the span, with the times
//! that both have in the journal. Nothing is kept but what is open, and all of it can be had again from the journal.
//!
//! A span never holds what went into a run or came out of it: it has ids, kinds, counts, and the codes of failures.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::{
    CapBreached, Event, EventType, Failure, InterruptId, InterruptRequested, InterruptResolved, Key, Millis,
    ModelCalled, NodeEvent, NodeStarted, Parent, ProviderUsage, Record, RunEvent, RunId, Started, Trace,
    TurnBegan, TurnEnd, TurnSealed,
};

use super::{Moment, Span, SpanKind, Value, id, time};

type Attributes = Vec<(&'static str, Value)>;

/// The kind of node whose attempts are requests to another system.
const REQUEST: &str = "core.http.request";

/// How many attempts failed before, as OpenWOP counts them. Only nodes and their attempts have it.
const ATTEMPT: &str = "openwop.node_attempt";

/// Events that end a span, by their names.
const ENDS: [&str; 16] = [
    "run.completed",
    "run.failed",
    "run.cancelled",
    "run.resumed",
    "run.released",
    "node.completed",
    "node.failed",
    "node.cancelled",
    "node.retried",
    "node.interrupted",
    "interrupt.resolved",
    "model.answered",
    "provider-retry",
    "turn.sealed",
    "step.recorded",
    "sleep.ended",
];

/// Events that begin a span, or that a span tells of.
const OTHERS: [&str; 17] = [
    "run.started",
    "run.paused",
    "run.held",
    "cap.breached",
    "node.started",
    "interrupt.requested",
    "interrupt.renotified",
    "interrupt.escalated",
    "interrupt.expired",
    "turn.began",
    "model.called",
    "provider.usage",
    "provider.postponed",
    "step.begun",
    "sleep.started",
    "task.lost",
    "node.parked",
];

/// How many spans these events end, about: each has one, and those inside of it end on their own.
pub(super) fn ends(records: &[Record]) -> usize {
    records.iter().filter(|record| ENDS.contains(&name_of(record))).count()
}

fn name_of(record: &Record) -> &'static str {
    EventType::by_code(record.type_code).map_or("", |kind| kind.name)
}

/// What has begun in one run, and what has ended.
pub(super) struct Timeline {
    key: Key,
    next: u64,
    /// What is said on every span, once the run has begun.
    about: Option<About>,
    open: BTreeMap<Place, Open>,
    ended: Vec<Span>,
    /// The call that was answered last. What it used is told behind its answer.
    answered: Option<[u8; 8]>,
}

struct About {
    trace: Trace,
    workflow: String,
}

/// What is open, each under the name of what it is. What lies inside of something else stands before it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Step(Arc<str>, String),
    Sleep(Arc<str>, String),
    Call(Arc<str>),
    Turn(Arc<str>),
    Attempt(Arc<str>),
    Interrupt(InterruptId),
    Node(Arc<str>),
    Pause,
    Run,
}

impl Place {
    /// Whether it ends with an attempt at this node, if not before.
    fn is_of_attempt(&self, at: &str) -> bool {
        match self {
            Self::Step(node, _) | Self::Call(node) | Self::Turn(node) | Self::Attempt(node) => **node == *at,
            Self::Sleep(..) | Self::Interrupt(_) | Self::Node(_) | Self::Pause | Self::Run => false,
        }
    }

    /// Whether it ends with this node, if not before. A question may outlive who asked it: others may have joined.
    fn is_of_node(&self, at: &str) -> bool {
        self.is_of_attempt(at) || matches!(self, Self::Sleep(node, _) if **node == *at)
    }
}

/// A span that has begun.
struct Open {
    name: String,
    kind: SpanKind,
    id: [u8; 8],
    parent: [u8; 8],
    began: Millis,
    attributes: Attributes,
    moments: Vec<Moment>,
}

impl Open {
    fn new(name: &str, id: [u8; 8], parent: [u8; 8], at: At<'_>) -> Self {
        Self {
            name: name.to_owned(),
            kind: SpanKind::Internal,
            id,
            parent,
            began: at.at,
            attributes: Vec::new(),
            moments: Vec::new(),
        }
    }
}

/// Where an event stands.
#[derive(Clone, Copy)]
struct At<'a> {
    run: RunId,
    sequence: u64,
    at: Millis,
    /// The request in another trace that led to it.
    cause: Option<&'a Trace>,
}

/// How something ended.
struct End<'a> {
    status: &'static str,
    error: Option<&'a str>,
}

impl<'a> End<'a> {
    fn well(status: &'static str) -> Self {
        Self { status, error: None }
    }

    fn badly(error: &'a Failure) -> Self {
        Self { status: "failed", error: Some(&error.code) }
    }
}

impl Timeline {
    pub(super) fn new(key: Key) -> Self {
        Self { key, next: 0, about: None, open: BTreeMap::new(), ended: Vec::new(), answered: None }
    }

    /// The event that comes next.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// How much is open.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// The spans that have ended since this was asked last.
    pub(super) fn take(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.ended)
    }

    /// Folds the next event. `cause` is the request that led to it.
    pub(super) fn fold(&mut self, record: &Record, cause: Option<&Trace>) -> Result<(), String> {
        self.next = record.sequence + 1;
        let name = name_of(record);
        if !ENDS.contains(&name) && !OTHERS.contains(&name) {
            return Ok(());
        }
        let own = self.about.as_ref().map(|about| about.trace.trace_id);
        let cause = cause.filter(|cause| cause.sampled && Some(cause.trace_id) != own);
        let at = At { run: self.key.id, sequence: record.sequence, at: record.at, cause };
        match record.event()? {
            Event::Run(event) => self.fold_run(&event, at),
            Event::Node { node, event } => self.fold_node(&node, event, at),
        }
        Ok(())
    }

    fn fold_run(&mut self, event: &RunEvent, at: At<'_>) {
        match event {
            RunEvent::Started(started) => self.begin_run(started, at),
            RunEvent::Completed(_) => self.end_run(&End::well("completed"), at),
            RunEvent::Failed(failed) => self.end_run(&End::badly(&failed.error), at),
            RunEvent::Cancelled(_) => self.end_run(&End::well("cancelled"), at),
            // A pause that becomes a stop is one hold.
            RunEvent::Held(_) if self.open.contains_key(&Place::Pause) => {}
            RunEvent::Paused(_) | RunEvent::Held(_) => {
                let own = id::of_event(self.key.id, at.sequence);
                let pause = Open::new("abide.pause", own, id::of_run(self.key.id), at);
                self.open.insert(Place::Pause, pause);
            }
            RunEvent::Resumed(_) | RunEvent::Released(_) => {
                self.end(&Place::Pause, &End::well("resumed"), at);
            }
            RunEvent::CapBreached(breach) => self.tell_breach(breach, at),
            _ => {}
        }
    }

    fn fold_node(&mut self, node: &Arc<str>, event: NodeEvent, at: At<'_>) {
        match event {
            NodeEvent::Started(started) => self.begin_node(node, &started, at),
            NodeEvent::Completed(_) => self.end_node(node, &End::well("completed"), at),
            NodeEvent::Failed(failed) => self.end_node(node, &End::badly(&failed.error), at),
            NodeEvent::Cancelled(_) => self.end_node(node, &End::well("cancelled"), at),
            NodeEvent::Retried(retried) => self.end_attempt(node, &End::badly(&retried.error), at),
            NodeEvent::Interrupted(broken) => self.end_attempt(node, &End::badly(&broken.error), at),
            NodeEvent::InterruptRequested(asked) => self.begin_interrupt(node, &asked, at),
            NodeEvent::InterruptResolved(resolved) => self.end_interrupt(&resolved, at),
            NodeEvent::InterruptRenotified(again) => {
                let said = vec![("abide.interrupt.attempt", again.attempt.into())];
                self.tell(&Place::Interrupt(again.interrupt_id), "interrupt.renotified", said, at);
            }
            NodeEvent::InterruptEscalated(up) => {
                let said = vec![("abide.interrupt.attempt", up.attempt.into())];
                self.tell(&Place::Interrupt(up.interrupt_id), "interrupt.escalated", said, at);
            }
            NodeEvent::InterruptExpired(expired) => {
                self.tell(&Place::Interrupt(expired.interrupt_id), "interrupt.expired", Vec::new(), at);
            }
            NodeEvent::StepBegun(step) => {
                let said = vec![("abide.step.key", step.key.as_str().into())];
                let place = Place::Step(node.clone(), step.key);
                self.begin_below(place, node, "abide.step", said, at);
            }
            NodeEvent::StepRecorded(step) => {
                let end = step.error.as_ref().map_or_else(|| End::well("completed"), End::badly);
                self.end(&Place::Step(node.clone(), step.key.clone()), &end, at);
            }
            NodeEvent::SleepStarted(sleep) => {
                let said = vec![("abide.sleep.key", sleep.key.as_str().into())];
                let place = Place::Sleep(node.clone(), sleep.key);
                self.begin_below(place, node, "abide.sleep", said, at);
            }
            NodeEvent::SleepEnded(ended) => {
                self.end(&Place::Sleep(node.clone(), ended.key), &End::well("completed"), at);
            }
            NodeEvent::TaskLost(_) => self.tell(&Place::Attempt(node.clone()), "task.lost", Vec::new(), at),
            NodeEvent::Parked(_) => self.tell(&Place::Attempt(node.clone()), "node.parked", Vec::new(), at),
            event => self.fold_turn(node, event, at),
        }
    }

    fn fold_turn(&mut self, node: &Arc<str>, event: NodeEvent, at: At<'_>) {
        let (turn, call) = (Place::Turn(node.clone()), Place::Call(node.clone()));
        match event {
            NodeEvent::TurnBegan(began) => self.begin_turn(node, &began, at),
            NodeEvent::ModelCalled(called) => self.begin_call(node, &called, at),
            NodeEvent::ModelAnswered(_) => {
                self.answered = self.open.get(&call).map(|open| open.id);
                self.end(&call, &End::well("completed"), at);
            }
            NodeEvent::ProviderUsage(used) => self.tell_usage(&used),
            NodeEvent::ProviderRetry(retry) => {
                let code = retry.code.as_deref().unwrap_or("provider_error");
                self.end(&call, &End { status: "failed", error: Some(code) }, at);
                self.tell(&turn, "provider-retry", vec![("abide.retry", (retry.attempt + 1).into())], at);
            }
            NodeEvent::ProviderPostponed(_) => {
                // The provider was not even asked: that is no call.
                self.open.remove(&call);
                self.tell(&turn, "provider.postponed", Vec::new(), at);
            }
            NodeEvent::TurnSealed(sealed) => self.end_turn(node, &sealed, at),
            _ => {}
        }
    }

    fn begin_run(&mut self, started: &Started, at: At<'_>) {
        let Some(trace) = started.trace.clone().filter(|trace| trace.sampled) else { return };
        let parent = started.parent.as_ref();
        let above = parent.and_then(node_above).unwrap_or(trace.span_id);
        let mut run = Open::new("openwop.run", id::of_run(self.key.id), above, at);
        if let Some(parent) = parent {
            run.attributes = vec![
                ("abide.parent.run.id", parent.run.to_string().into()),
                ("abide.parent.node.id", parent.node.as_str().into()),
                ("openwop.parent.run_id", parent.run.to_string().into()),
                ("openwop.parent.node_id", parent.node.as_str().into()),
            ];
        }
        self.about = Some(About { trace, workflow: started.workflow_id.clone() });
        self.open.insert(Place::Run, run);
    }

    /// Nothing outlives the run: what is open ends with it.
    fn end_run(&mut self, end: &End<'_>, at: At<'_>) {
        while let Some(place) = self.open.keys().next().filter(|place| **place != Place::Run).cloned() {
            self.end(&place, &End::well("cancelled"), at);
        }
        self.end(&Place::Run, end, at);
        if let Some((span, cause)) = self.ended.last_mut().zip(at.cause).filter(|_| end.status == "cancelled")
        {
            span.links.push(cause.clone());
        }
    }

    /// The first attempt begins the execution; those that follow go on with it.
    fn begin_node(&mut self, node: &Arc<str>, started: &NodeStarted, at: At<'_>) {
        let (run, place) = (self.key.id, Place::Node(node.clone()));
        if started.attempt == 0 || !self.open.contains_key(&place) {
            let own = id::of_node(run, node, started.execution);
            let mut open = Open::new(&format!("openwop.node.{}", started.type_id), own, id::of_run(run), at);
            open.attributes = vec![
                ("abide.node.id", (&**node).into()),
                ("abide.node.type", (&*started.type_id).into()),
                ("abide.node.execution", started.execution.into()),
                ("openwop.node_id", (&**node).into()),
                ("openwop.node_type", (&*started.type_id).into()),
            ];
            self.open.insert(place.clone(), open);
        }
        note(self.open.get_mut(&place), ATTEMPT, started.attempt);
        if started.dispatched {
            self.begin_attempt(node, started, at);
        }
    }

    fn begin_attempt(&mut self, node: &Arc<str>, started: &NodeStarted, at: At<'_>) {
        let name = format!("openwop.node.{}.attempt", started.type_id);
        let said = vec![("abide.attempt", (started.attempt + 1).into()), (ATTEMPT, started.attempt.into())];
        let open = self.begin_below(Place::Attempt(node.clone()), node, &name, said, at);
        open.id = id::of_try(at.run, node, started.execution, started.attempt);
        open.kind = if &*started.type_id == REQUEST { SpanKind::Client } else { SpanKind::Internal };
    }

    fn end_attempt(&mut self, node: &str, end: &End<'_>, at: At<'_>) {
        self.end_all(|place| place.is_of_attempt(node), end, at);
    }

    fn end_node(&mut self, node: &Arc<str>, end: &End<'_>, at: At<'_>) {
        self.end_all(|place| place.is_of_node(node), end, at);
        self.end(&Place::Node(node.clone()), end, at);
    }

    fn end_all(&mut self, which: impl Fn(&Place) -> bool, end: &End<'_>, at: At<'_>) {
        let places: Vec<Place> = self.open.keys().filter(|place| which(place)).cloned().collect();
        places.iter().for_each(|place| self.end(place, end, at));
    }

    fn begin_interrupt(&mut self, node: &Arc<str>, asked: &InterruptRequested, at: At<'_>) {
        let said = vec![
            ("abide.interrupt.id", asked.interrupt_id.to_string().into()),
            ("abide.interrupt.kind", asked.kind.name().into()),
            ("openwop.interrupt_id", asked.interrupt_id.to_string().into()),
            ("openwop.interrupt_kind", asked.kind.name().into()),
            ("openwop.interrupt_count", asked.call.into()),
        ];
        self.begin_below(Place::Interrupt(asked.interrupt_id), node, "openwop.interrupt", said, at);
    }

    /// Whoever answered did so in a trace of their own, which the span leads to.
    fn end_interrupt(&mut self, resolved: &InterruptResolved, at: At<'_>) {
        let place = Place::Interrupt(resolved.interrupt_id);
        if self.open.contains_key(&place) {
            self.end(&place, &End::well(resolved.outcome.name()), at);
            if let Some((span, cause)) = self.ended.last_mut().zip(at.cause) {
                span.links.push(cause.clone());
            }
        }
    }

    fn begin_turn(&mut self, node: &Arc<str>, began: &TurnBegan, at: At<'_>) {
        let mut said = vec![
            ("abide.turn.id", began.turn_id.as_str().into()),
            ("abide.provider", began.provider.as_str().into()),
        ];
        said.extend(began.model.as_deref().map(|model| ("gen_ai.request.model", model.into())));
        self.begin_below(Place::Turn(node.clone()), node, "abide.turn", said, at);
    }

    fn begin_call(&mut self, node: &Arc<str>, called: &ModelCalled, at: At<'_>) {
        let turn = self.open.get(&Place::Turn(node.clone()));
        let of_turn =
            |name| turn.and_then(|turn| turn.attributes.iter().find(|(key, _)| *key == name)).cloned();
        let provider = match of_turn("abide.provider") {
            Some((_, Value::Text(provider))) => provider,
            _ => "model".to_owned(),
        };
        let mut said = vec![
            ("abide.provider", provider.as_str().into()),
            ("gen_ai.operation.name", "chat".into()),
            ("abide.turn.step", (called.step + 1).into()),
            ("abide.attempt", (called.attempt + 1).into()),
        ];
        said.extend(of_turn("gen_ai.request.model"));
        let name = format!("openwop.activity.{provider}");
        self.begin_below(Place::Call(node.clone()), node, &name, said, at).kind = SpanKind::Client;
    }

    fn end_turn(&mut self, node: &Arc<str>, sealed: &TurnSealed, at: At<'_>) {
        let place = Place::Turn(node.clone());
        let end = match (&sealed.error, sealed.status) {
            (Some(error), _) => End::badly(error),
            (None, TurnEnd::Completed) => End::well("completed"),
            (None, TurnEnd::Failed) => End { status: "failed", error: Some("provider_error") },
            (None, TurnEnd::Aborted) => End::well("aborted"),
        };
        self.end(&Place::Call(node.clone()), &end, at);
        let mut turn = self.open.get_mut(&place);
        note(turn.as_deref_mut(), "abide.turn.steps", sealed.steps);
        note(turn.as_deref_mut(), "gen_ai.usage.input_tokens", sealed.usage.input_tokens);
        note(turn, "gen_ai.usage.output_tokens", sealed.usage.output_tokens);
        self.end(&place, &end, at);
    }

    /// What the last call used. Its answer stands before that, in the same commit, so its span is still here.
    fn tell_usage(&mut self, used: &ProviderUsage) {
        let Some(span) = self.ended.iter_mut().rev().find(|span| Some(span.trace.span_id) == self.answered)
        else {
            return;
        };
        span.attributes.extend(used.model.as_deref().map(|model| ("gen_ai.response.model", model.into())));
        span.attributes.push(("gen_ai.usage.input_tokens", used.input_tokens.into()));
        span.attributes.push(("gen_ai.usage.output_tokens", used.output_tokens.into()));
    }

    fn tell_breach(&mut self, breach: &CapBreached, at: At<'_>) {
        let said = vec![
            ("openwop.cap_kind", breach.kind.as_str().into()),
            ("openwop.cap_limit", breach.limit.into()),
            ("openwop.cap_observed", breach.observed.into()),
        ];
        self.tell(&Place::Run, "cap.breached", said, at);
    }

    /// Opens a span below what the node is at: its turn for a call, its attempt for a step, or the node itself. What the
    /// run asks by itself belongs to no node, and is below the run.
    fn begin_below(
        &mut self,
        place: Place,
        node: &Arc<str>,
        name: &str,
        said: Attributes,
        at: At<'_>,
    ) -> &mut Open {
        let of = |place: &Place| self.open.get(place);
        let whole = of(&Place::Node(node.clone()));
        let near = match &place {
            Place::Call(_) => of(&Place::Turn(node.clone())),
            Place::Step(..) => of(&Place::Attempt(node.clone())),
            _ => None,
        };
        let parent = near.or(whole).map_or_else(|| id::of_run(at.run), |open| open.id);
        let mut open = Open::new(name, id::of_event(at.run, at.sequence), parent, at);
        open.attributes = match whole {
            Some(whole) => whole.attributes.iter().filter(|(key, _)| *key != ATTEMPT).cloned().collect(),
            None => vec![("abide.node.id", (&**node).into()), ("openwop.node_id", (&**node).into())],
        };
        open.attributes.extend(said);
        self.open.entry(place).insert_entry(open).into_mut()
    }

    /// Notes that something happened within a span.
    fn tell(&mut self, place: &Place, name: &'static str, attributes: Attributes, at: At<'_>) {
        if let Some(open) = self.open.get_mut(place) {
            open.moments.push(Moment { name, at: time(at.at), attributes });
        }
    }

    /// Closes a span. What is not open has no span.
    fn end(&mut self, place: &Place, end: &End<'_>, at: At<'_>) {
        let Some((about, open)) = self.about.as_ref().zip(self.open.remove(place)) else { return };
        let mut attributes = about.attributes(self.key);
        attributes.extend(open.attributes);
        attributes.push(("abide.status", end.status.into()));
        attributes.push(("openwop.event_seq", at.sequence.into()));
        attributes.extend(end.error.map(|code| ("error.type", code.into())));
        self.ended.push(Span {
            name: open.name,
            kind: open.kind,
            trace: about.trace.span(open.id),
            parent: Some(open.parent),
            began: time(open.began),
            ended: time(at.at),
            failed: end.error.is_some(),
            attributes,
            moments: open.moments,
            links: Vec::new(),
        });
    }
}

impl About {
    fn attributes(&self, Key { tenant, id }: Key) -> Attributes {
        vec![
            ("abide.run.id", id.to_string().into()),
            ("abide.workflow.id", self.workflow.as_str().into()),
            ("abide.tenant.id", tenant.0.into()),
            ("openwop.run_id", id.to_string().into()),
            ("openwop.workflow_id", self.workflow.as_str().into()),
        ]
    }
}

/// The span of the node that a child stands for.
fn node_above(parent: &Parent) -> Option<[u8; 8]> {
    let Parent { run, node, execution, .. } = parent;
    Some(id::of_node(*run, node, (*execution)?))
}

/// Notes what is known, in place of what was known before.
fn note(open: Option<&mut Open>, name: &'static str, value: impl Into<Value>) {
    if let Some(open) = open {
        open.attributes.retain(|(key, _)| *key != name);
        open.attributes.push((name, value.into()));
    }
}
