//! What must hold for a journal, worked out from the journal and the written definition alone.
//!
//! Nothing here asks the code under test: loops, rules and outcomes are found a second time, in the plainest way.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use abide_core::event::NodeStarted;
use abide_core::{Event, Mask, NodeEvent, RESUME_NODE, Record, RunEvent};
use serde_json::Value;

use crate::plan::{Draft, node_id};
use crate::play::REACHED;

/// How an edge turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Good,
    Bad,
    None,
}

/// Where a node stands, as far as a journal tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Fresh,
    Begun,
    Done,
    Broken,
    Passed,
    Gone,
}

impl Stand {
    fn is_settled(self) -> bool {
        !matches!(self, Self::Fresh | Self::Begun)
    }
}

/// A loop: its head, and every node that leads from it back to it.
struct Ring {
    head: usize,
    members: BTreeSet<usize>,
}

/// Follows one journal event by event.
pub(crate) struct Judge<'d> {
    draft: &'d Draft,
    rings: Vec<Ring>,
    stands: Vec<Stand>,
    ways: Vec<Option<Way>>,
    outputs: HashMap<usize, Value>,
    begun: u64,
    in_flight: BTreeSet<usize>,
    /// The attempts of nodes before they were resumed.
    counted_from: BTreeMap<usize, u32>,
    waiting: BTreeSet<usize>,
    /// Nodes whose next attempt may start.
    due: BTreeSet<usize>,
    held: bool,
    /// A pause waits for work in flight.
    draining: bool,
    closing: bool,
    breached: bool,
    ended: bool,
}

/// Checks a whole journal.
pub(crate) fn judge(draft: &Draft, journal: &[Record], recursion_limit: Option<u64>) {
    let mut judge = Judge::of(draft);
    for (at, record) in journal.iter().enumerate() {
        assert!(!judge.ended, "something follows the end");
        assert_eq!(record.sequence, at as u64);
        assert!(record.cause.is_none_or(|cause| cause < record.sequence), "an effect before its cause");
        let event = record.event().expect("a record of this version can be read");
        match event {
            Event::Run(event) => judge.hear_run(&event, record.cause),
            // The run's own question starts nothing and ends nothing.
            Event::Node { node, .. } if *node == *RESUME_NODE => {}
            Event::Node { node, event } => {
                let ix = node.trim_start_matches('n').parse().expect("nodes are called by their numbers");
                judge.hear_node(ix, &event);
            }
        }
    }
    assert!(judge.ended, "the run has not ended");
    assert!(recursion_limit.is_none_or(|limit| judge.begun <= limit), "more executions than allowed");
}

impl<'d> Judge<'d> {
    fn of(draft: &'d Draft) -> Self {
        let heads: BTreeSet<usize> = draft.loops.iter().map(|found| found.head).collect();
        let rings = heads.into_iter().map(|head| ring(draft, head)).collect();
        let (nodes, edges) = (draft.nodes.len(), draft.edges.len());
        Self {
            draft,
            rings,
            stands: vec![Stand::Fresh; nodes],
            ways: vec![None; edges],
            outputs: HashMap::new(),
            begun: 0,
            in_flight: BTreeSet::new(),
            counted_from: BTreeMap::new(),
            waiting: BTreeSet::new(),
            due: BTreeSet::new(),
            held: false,
            draining: false,
            closing: false,
            breached: false,
            ended: false,
        }
    }

    fn hear_run(&mut self, event: &RunEvent, cause: Option<u64>) {
        match event {
            RunEvent::Pausing(_) => (self.held, self.draining) = (true, true),
            RunEvent::Paused(_) => {
                // Nobody asked for it just now: it is the pause that waited.
                let drained = cause.is_none() || self.draining && self.in_flight.is_empty();
                assert!(drained, "paused before the last outcome was known: {:?}", self.in_flight);
                (self.held, self.draining) = (true, false);
            }
            RunEvent::Resumed(_) => {
                assert!(self.held, "nothing held the run that was resumed");
                (self.held, self.draining) = (false, false);
            }
            RunEvent::ResumeEscalated(_) => {
                assert!(!self.waiting.is_empty(), "people are asked about nothing");
                self.held = true;
            }
            RunEvent::ResumeDecided(decided) if decided.eligible => self.held = false,
            RunEvent::CapBreached(_) => (self.closing, self.breached) = (true, true),
            RunEvent::Cancelling(_) => self.closing = true,
            RunEvent::LoopRestarted(restarted) => self.start_over(&restarted.node),
            RunEvent::Completed(_) => {
                assert!(!self.breached, "a run that reached a limit fails");
                self.check_completed();
                self.end();
            }
            RunEvent::Failed(_) | RunEvent::Cancelled(_) => self.end(),
            _ => {}
        }
    }

    fn end(&mut self) {
        self.ended = true;
        assert!(self.in_flight.is_empty(), "an outcome is unknown at the end: {:?}", self.in_flight);
        assert!(self.waiting.is_empty(), "a node waits beyond the end: {:?}", self.waiting);
    }

    /// A run is complete only if every node is settled, and every failure was taken over from.
    fn check_completed(&self) {
        assert!(self.stands.iter().all(|stand| stand.is_settled()), "{:?}", self.stands);
        for (ix, _) in self.stands.iter().enumerate().filter(|(_, stand)| **stand == Stand::Broken) {
            let edges = self.draft.edges.iter().enumerate().filter(|(_, edge)| edge.source == ix);
            let mut taking = edges.filter(|(at, edge)| self.ways[*at] == Some(Way::Bad) && takes(edge.rule));
            let taken =
                taking.any(|(_, edge)| matches!(self.stands[edge.target], Stand::Done | Stand::Broken));
            assert!(taken, "nobody took over from n{ix}, and the run completed");
        }
    }

    fn hear_start(&mut self, ix: usize, started: &NodeStarted) {
        if started.attempt == 0 {
            self.counted_from.remove(&ix);
        }
        assert!(!self.held && !self.closing, "n{ix} starts although the run is held or ends");
        self.waiting.remove(&ix);
        if started.attempt == 0 {
            self.begun += 1;
            self.check_may_start(ix);
            self.check_inputs(ix, started.inputs.as_ref());
        } else {
            assert!(self.due.remove(&ix), "n{ix} is tried again, but not because its time came");
        }
        self.stands[ix] = Stand::Begun;
        if started.dispatched {
            self.in_flight.insert(ix);
        } else if started.until.is_some() || started.for_child {
            self.waiting.insert(ix);
        }
    }

    fn hear_node(&mut self, ix: usize, event: &NodeEvent) {
        match event {
            NodeEvent::Started(started) => self.hear_start(ix, started),
            NodeEvent::Completed(done) => {
                if let Some(outputs) = &done.outputs {
                    self.outputs.insert(ix, outputs.parse().expect("outputs are JSON"));
                }
                self.closing |= done.fault.is_some();
                self.settle(ix, Stand::Done, Way::Good, &done.untaken);
            }
            NodeEvent::Failed(failed) => self.settle(ix, Stand::Broken, Way::Bad, &failed.untaken),
            NodeEvent::Skipped(skipped) => {
                assert!(!self.held && !self.closing, "n{ix} is skipped although the run is held or ends");
                assert_eq!(self.stands[ix], Stand::Fresh, "n{ix} is skipped late");
                if skipped.reason == "disabled" {
                    assert!(self.draft.nodes[ix].disabled, "n{ix} is not disabled");
                    self.check_may_start(ix);
                } else {
                    assert!(self.can_never_start(ix), "n{ix} is skipped although it might have run");
                }
                self.settle(ix, Stand::Passed, Way::None, &[]);
            }
            NodeEvent::Retried(retried) => {
                self.check_retry(ix, retried.attempt, &retried.error.message);
                self.in_flight.remove(&ix);
                self.waiting.insert(ix);
            }
            NodeEvent::Interrupted(interrupted) => {
                self.counted_from.insert(ix, interrupted.attempt);
                assert!(self.in_flight.remove(&ix), "n{ix} is interrupted, but not under way");
                self.waiting.insert(ix);
            }
            NodeEvent::Due(_) => {
                assert!(self.due.insert(ix), "n{ix} is due twice");
            }
            NodeEvent::Cancelled(_) => {
                self.due.remove(&ix);
                self.waiting.remove(&ix);
                self.stands[ix] = Stand::Gone;
            }
            NodeEvent::ArtifactCreated(_) => {
                let made = self.stands[ix] == Stand::Done && self.outputs.contains_key(&ix);
                assert!(made && ix.is_multiple_of(3), "n{ix} made no artifact");
            }
            NodeEvent::Spawned(_) | NodeEvent::ChannelWritten(_) | NodeEvent::Decided(_) => {
                assert_eq!(self.stands[ix], Stand::Begun, "n{ix} acts before it starts or after it ended");
            }
            other => panic!("no node of these graphs asks, is for workers or asks a model: {other:?}"),
        }
    }

    /// Another attempt is made only if one is left, and only if the last one did no harm or may be repeated.
    fn check_retry(&self, ix: usize, attempt: u32, why: &str) {
        let node = &self.draft.definition["nodes"][ix];
        let own = &node["settings"]["abide"];
        let most = match &own["retry"] {
            Value::Null => &self.draft.definition["settings"]["maxRetries"],
            policy if policy["strategy"] == "none" => panic!("n{ix} is tried again, which it forbids"),
            policy => &policy["maxRetries"],
        };
        // Whoever was resumed begins to count anew.
        let counted = u64::from(attempt - self.counted_from.get(&ix).copied().unwrap_or(0));
        assert!(most.as_u64().is_some_and(|most| counted <= most), "n{ix} is tried too often");
        let harmless = own["idempotent"].as_bool().unwrap_or(node["config"]["method"] != "POST");
        assert!(harmless || !why.contains(REACHED), "n{ix} is repeated, which may do harm");
    }

    fn settle(&mut self, ix: usize, stand: Stand, way: Way, untaken: &[String]) {
        if stand != Stand::Passed {
            assert_eq!(self.stands[ix], Stand::Begun, "n{ix} ends without a start");
        }
        self.in_flight.remove(&ix);
        self.waiting.remove(&ix);
        self.stands[ix] = stand;
        for (at, edge) in self.draft.edges.iter().enumerate().filter(|(_, edge)| edge.source == ix) {
            let taken = !untaken.contains(&format!("e{at}"));
            assert!(self.ways[at].is_none(), "e{at} from n{ix} is followed twice ({})", edge.rule);
            self.ways[at] = Some(if taken { way } else { Way::None });
        }
    }

    /// What came along an edge, if that is decided: one that leaves a loop is decided when the loop is over.
    fn arrived(&self, at: usize) -> Option<Way> {
        let edge = &self.draft.edges[at];
        let left = self
            .rings
            .iter()
            .filter(|ring| ring.members.contains(&edge.source) && !ring.members.contains(&edge.target));
        let over = left.into_iter().all(|ring| self.is_over(ring));
        self.ways[at].filter(|_| over)
    }

    fn is_over(&self, ring: &Ring) -> bool {
        let settled = ring.members.iter().all(|&node| self.stands[node].is_settled());
        let within = self.rings.iter().filter(|other| other.members.is_subset(&ring.members));
        settled && !within.into_iter().any(|other| self.goes_back(other))
    }

    fn goes_back(&self, ring: &Ring) -> bool {
        let edges = self.draft.edges.iter().enumerate();
        let mut back =
            edges.filter(|(_, edge)| edge.target == ring.head && ring.members.contains(&edge.source));
        back.any(|(at, edge)| match self.arrived(at) {
            Some(Way::Good) => edge.rule != "any_failed",
            Some(Way::Bad) => matches!(edge.rule, "any_failed" | "all_complete"),
            _ => false,
        })
    }

    fn start_over(&mut self, head: &str) {
        let ring = self.rings.iter().find(|ring| node_id(ring.head) == head).expect("there is such a loop");
        assert!(self.goes_back(ring), "the loop of {head} starts over, but nothing led back");
        let members = ring.members.clone();
        for &node in &members {
            assert!(
                self.stands[node].is_settled(),
                "the loop of {head} starts over before n{node} is settled"
            );
            self.stands[node] = Stand::Fresh;
        }
        for (at, edge) in self.draft.edges.iter().enumerate() {
            if members.contains(&edge.source) {
                self.ways[at] = None;
            }
        }
    }

    /// The edges that lead to a node, by their rules: those that close a loop don't count.
    fn groups(&self, ix: usize) -> BTreeMap<&'static str, Vec<Option<Way>>> {
        let mut groups: BTreeMap<&'static str, Vec<Option<Way>>> = BTreeMap::new();
        for (at, edge) in self.draft.edges.iter().enumerate().filter(|(_, edge)| edge.target == ix) {
            let closes = self.rings.iter().any(|ring| ring.head == ix && ring.members.contains(&edge.source));
            if !closes {
                groups.entry(edge.rule).or_default().push(self.arrived(at));
            }
        }
        groups
    }

    fn check_may_start(&self, ix: usize) {
        assert_eq!(self.stands[ix], Stand::Fresh, "n{ix} starts twice");
        for (rule, ways) in self.groups(ix) {
            assert!(allows(rule, &ways), "n{ix} starts against {rule}: {ways:?}");
        }
    }

    /// Whether no outcome of what is still open would let a node start.
    fn can_never_start(&self, ix: usize) -> bool {
        self.groups(ix).into_iter().any(|(rule, ways)| !might_allow(rule, &ways))
    }

    /// What an executor got from another node is what that node gave last.
    fn check_inputs(&self, ix: usize, inputs: Option<&abide_core::JsonMap>) {
        let Some(inputs) = inputs else { return };
        for (port, from, key) in &self.draft.nodes[ix].connections {
            let given = inputs.get(port).map(|json| json.parse::<Value>().expect("inputs are JSON"));
            let last = self.outputs.get(from).and_then(|outputs| outputs.get(key)).cloned();
            assert_eq!(given, last, "port {port} of n{ix} takes {key} of n{from}");
        }
    }
}

fn takes(rule: &str) -> bool {
    matches!(rule, "any_success" | "all_complete" | "any_failed")
}

fn allows(rule: &str, ways: &[Option<Way>]) -> bool {
    let count = |wanted: Option<Way>| ways.iter().filter(|way| **way == wanted).count();
    let (good, bad) = (count(Some(Way::Good)), count(Some(Way::Bad)));
    let settled = count(None) == 0;
    match rule {
        "all_success" => good == ways.len(),
        "any_success" => good > 0,
        "any_failed" => bad > 0,
        "all_complete" => settled && good + bad > 0,
        _ => settled && bad == 0 && good > 0,
    }
}

/// Whether some end of what is open would satisfy the rule: every way of filling the gaps is tried.
fn might_allow(rule: &str, ways: &[Option<Way>]) -> bool {
    let Some(open) = ways.iter().position(Option::is_none) else { return allows(rule, ways) };
    [Way::Good, Way::Bad, Way::None].into_iter().any(|way| {
        let mut filled = ways.to_vec();
        filled[open] = Some(way);
        might_allow(rule, &filled)
    })
}

/// The loop that is entered at `head`: what the head leads to and what leads back, without leaving its stretch.
fn ring(draft: &Draft, head: usize) -> Ring {
    let last = draft.loops.iter().filter(|found| found.head == head).map(|found| found.last).max();
    let stretch = head..=last.expect("the head is of a loop");
    let mut members = BTreeSet::from([head]);
    loop {
        let before = members.len();
        for edge in &draft.edges {
            let inside = stretch.contains(&edge.source) && stretch.contains(&edge.target);
            if inside && members.contains(&edge.target) {
                members.insert(edge.source);
            }
        }
        if members.len() == before {
            return Ring { head, members };
        }
    }
}

/// An event as it may leave the server: everything that is never shown is taken out.
pub(crate) fn outward(draft: &Draft, event: &Event) -> String {
    let declared = |channel: &str| draft.definition["channels"][channel]["sensitive"] == true;
    let mut event = event.clone();
    match &mut event {
        Event::Run(RunEvent::Started(started)) => {
            let hidden = started.sensitive.clone();
            started.inputs.retain(|name, _| !hidden.contains(name));
        }
        Event::Run(RunEvent::VariableChanged(changed)) if changed.sensitive => {
            changed.next = abide_core::Json::of("(hidden)");
        }
        Event::Run(RunEvent::ChildReported(reported)) => {
            let hidden = reported.sensitive.clone();
            reported.outputs.retain(|name, _| !hidden.contains(name));
        }
        Event::Node { event: NodeEvent::ChannelWritten(written), .. }
            if written.sensitive || declared(&written.channel) =>
        {
            written.value = abide_core::Json::of("(hidden)");
        }
        Event::Node { event: NodeEvent::Started(started), .. } if started.sensitive => started.inputs = None,
        Event::Node { event: NodeEvent::Spawned(spawned), .. } => {
            let hidden = spawned.sensitive.clone();
            spawned.inputs.retain(|name, _| !hidden.contains(name));
        }
        Event::Node { event: NodeEvent::Completed(done), .. } => {
            done.outputs = shown(done.outputs.take(), &done.masked);
        }
        _ => {}
    }
    String::from_utf8(event.encode()).expect("payloads are JSON")
}

fn shown(outputs: Option<abide_core::Json>, mask: &Mask) -> Option<abide_core::Json> {
    let outputs = outputs?;
    match mask {
        Mask::Nothing => Some(outputs),
        Mask::All => None,
        Mask::Keys(keys) => {
            let mut map: abide_core::JsonMap = outputs.parse().ok()?;
            map.retain(|key, _| !keys.contains(key));
            Some(abide_core::Json::of(&map))
        }
    }
}
