//! Reading phases, and how they depend on each other.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use crate::definition::{Definition, NodeDefinition};
use crate::excerpt::excerpt;
use crate::fields::{Fields, Findings, nearest};
use crate::graph::{GraphEdge, GraphNode, Work};
use crate::hand::HandWork;
use crate::phase::definition_of;
use crate::{Json, JsonMap, NodeIx, limits};

/// `core.phase`.
#[derive(Debug)]
pub(crate) struct PhaseWork {
    /// What it is called.
    pub(crate) title: String,
    /// The agent that it is meant for.
    pub(crate) assign: Option<String>,
    /// The phases whose runs its own run waits for: those that it names, and those that its inputs come from.
    pub(crate) upstreams: Vec<String>,
    /// What its run begins with.
    pub(crate) initial_state: JsonMap,
    /// What its run follows.
    pub(crate) definition: Json,
    /// What that is called.
    pub(crate) workflow_id: String,
    hand: HandWork,
    depends_on: Vec<String>,
    /// The part of the config that its run takes over.
    config: JsonMap,
}

/// The settings of a phase that are its run's: all that is about asking.
const HANDED_ON: &[&str] =
    &["ladder", "agent", "respondents", "sensitive", "tokenMs", "approval", "artifactSchema"];

/// Names of a cycle that are shown; nobody reads more.
const CYCLE_NAMES_MAX: usize = 20;

impl PhaseWork {
    /// Reads the node's config.
    pub(crate) fn read(fields: &mut Fields<'_>) -> Self {
        let title = fields.optional_text("title").unwrap_or_default();
        // What people are to know of it changes nothing about what happens.
        fields.optional_map("about");
        let depends_on = read_depends_on(fields);
        let initial_state = fields.optional_map("initialState").unwrap_or_default();
        let (hand, config) = HandWork::read_with_config(fields);
        let assign = hand.assign.clone();
        let (definition, workflow_id) = (Json::of(&JsonMap::new()), String::new());
        let upstreams = Vec::new();
        Self { title, assign, upstreams, initial_state, definition, workflow_id, hand, depends_on, config }
    }

    fn sources(&self) -> impl Iterator<Item = (&String, &str)> {
        self.hand.inputs.iter().filter_map(|(name, source)| Some((name, source.phase()?)))
    }
}

/// Reads what a phase depends on. What is beyond the limit is not even looked at.
fn read_depends_on(fields: &mut Fields<'_>) -> Vec<String> {
    let list = fields.optional_list("dependsOn").unwrap_or_default();
    let place = fields.place("dependsOn");
    if list.len() > limits::DEPENDENCIES_MAX {
        let message = format!("a phase depends on at most {} others", limits::DEPENDENCIES_MAX);
        fields.findings().objection(&*place, message);
    }
    let (mut seen, mut depends_on) = (HashSet::new(), Vec::new());
    for (at, name) in list.iter().take(limits::DEPENDENCIES_MAX).enumerate() {
        let place = || format!("{place}[{at}]");
        let Ok(name) = name.parse::<String>() else {
            fields.findings().objection(place(), "the id of a phase is expected");
            continue;
        };
        if seen.insert(name.clone()) {
            depends_on.push(name);
        } else {
            let message = format!("'{}' stands there twice; remove one", excerpt(&name));
            fields.findings().objection(place(), message);
        }
    }
    depends_on
}

/// Looks at the phases of a definition together. The answer is their order: each after those that it depends on.
///
/// A phase's run names the runs of the phases before it, so those have to be there already. That is why a phase begins
/// with its workflow, and no edge leads to it.
pub(crate) fn wire(
    definition: &Definition,
    nodes: &mut [GraphNode],
    edges: &[GraphEdge],
    findings: &mut Findings,
) -> Vec<NodeIx> {
    let phases: Phases = nodes.iter().zip(0..).filter(|(node, _)| is_phase(node)).collect();
    if phases.is_empty() {
        return Vec::new();
    }
    for edge in edges.iter().filter(|edge| is_phase(&nodes[edge.target as usize])) {
        let message = format!(
            "a phase begins with its run, so no edge leads to '{}'; name what it waits for in its dependsOn",
            nodes[edge.target as usize].id
        );
        findings.objection(format!("edges['{}']", edge.id), message);
    }
    let wiring = Wiring::of(nodes, &phases);
    let order = wiring.order();
    wiring.check(definition, nodes, &order, findings);
    let upstreams: BTreeMap<NodeIx, Vec<String>> = wiring.upstreams(nodes);
    for (ix, upstreams) in upstreams {
        complete(&definition.id, &definition.nodes[ix as usize], upstreams, &mut nodes[ix as usize]);
    }
    order.begun.into_iter().chain(order.stuck).collect()
}

fn is_phase(node: &GraphNode) -> bool {
    matches!(node.work, Work::Phase(_))
}

fn work(node: &GraphNode) -> Option<&PhaseWork> {
    if let Work::Phase(work) = &node.work { Some(work) } else { None }
}

/// What is known of all phases but their dependencies.
struct Phases(HashMap<String, NodeIx>);

impl Phases {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> FromIterator<(&'a GraphNode, NodeIx)> for Phases {
    fn from_iter<I: IntoIterator<Item = (&'a GraphNode, NodeIx)>>(phases: I) -> Self {
        Self(phases.into_iter().map(|(node, ix)| (node.id.to_string(), ix)).collect())
    }
}

/// How the phases depend on each other.
struct Wiring<'a> {
    names: &'a HashMap<String, NodeIx>,
    of: BTreeMap<NodeIx, Found>,
}

/// What one phase names.
#[derive(Default)]
struct Found {
    /// Those that it depends on, sorted.
    before: Vec<NodeIx>,
    /// Those and the ones that its inputs come from.
    upstreams: BTreeSet<NodeIx>,
    /// Names that nothing has.
    unknown: Vec<String>,
    /// Inputs that come from other phases, and which.
    inputs: Vec<(String, String)>,
}

impl Found {
    fn depends_on(&self, ix: NodeIx) -> bool {
        self.before.binary_search(&ix).is_ok()
    }
}

/// In which order phases begin.
struct Order {
    /// The phases, each after those that it depends on, and otherwise as they are written.
    begun: Vec<NodeIx>,
    /// Those that wait for each other, and what comes after them.
    stuck: BTreeSet<NodeIx>,
}

/// Phases that are looked for at once among all that come before each phase: with a row of so many bits, a definition as
/// large as is allowed is gone through twenty times, and every row together takes a few megabytes.
const LOOKED_FOR_MAX: usize = 1_024;

/// Which of the phases that are looked for come before a phase or are that one.
type Row = [u64; LOOKED_FOR_MAX / 64];

fn has(row: &Row, bit: usize) -> bool {
    row[bit / 64] >> (bit % 64) & 1 == 1
}

/// Which phases come before which, of those that somebody takes an input from without depending on them directly: each
/// with who does.
type Reached = HashSet<(NodeIx, NodeIx)>;

/// Names that a mistyped one may be compared with.
struct Hints<'a> {
    known: Vec<&'a str>,
    /// How many comparisons may still be made.
    left: usize,
}

impl Hints<'_> {
    fn of(&mut self, name: &str) -> String {
        let left = self.left.checked_sub(self.known.len());
        self.left = left.unwrap_or(0);
        match left.and_then(|_| nearest(name, &self.known, usize::MAX)) {
            Some(near) => format!("did you mean '{near}'?"),
            None => "name phases of this definition by their ids".to_owned(),
        }
    }
}

/// Whether more was found than is ever told, so that looking on is of no use.
fn is_full(findings: &Findings) -> bool {
    findings.objections.len() > limits::PROBLEMS_MAX
}

impl<'a> Wiring<'a> {
    fn of(nodes: &[GraphNode], phases: &'a Phases) -> Self {
        let names = &phases.0;
        let mut of = BTreeMap::new();
        for &ix in names.values() {
            let Some(work) = work(&nodes[ix as usize]) else { continue };
            let mut found = Found::default();
            for name in &work.depends_on {
                match names.get(name) {
                    Some(&before) => found.before.push(before),
                    None => found.unknown.push(name.clone()),
                }
            }
            found.before.sort_unstable();
            let inputs = work.sources().map(|(input, phase)| (input.clone(), phase.to_owned()));
            found.inputs = inputs.collect();
            let sources = found.inputs.iter().filter_map(|(_, phase)| names.get(phase));
            found.upstreams = found.before.iter().chain(sources).copied().collect();
            of.insert(ix, found);
        }
        Self { names, of }
    }

    fn check(&self, definition: &Definition, nodes: &[GraphNode], order: &Order, findings: &mut Findings) {
        let known = self.names.keys().map(String::as_str).collect();
        let mut hints = Hints { known, left: limits::NAMES_COMPARED_MAX };
        let reached = self.reached(&order.begun, nodes.len());
        for (&ix, found) in &self.of {
            if is_full(findings) {
                return;
            }
            let node = &definition.nodes[ix as usize];
            check_before(node, found, nodes, &mut hints, findings);
            if !order.stuck.contains(&ix) {
                self.check_inputs(ix, node, &reached, findings);
            }
        }
        self.check_stuck(order, nodes, findings);
    }

    /// Refuses inputs that come from nowhere, or from what need not be done before.
    fn check_inputs(&self, ix: NodeIx, node: &NodeDefinition, reached: &Reached, findings: &mut Findings) {
        let found = &self.of[&ix];
        for (input, phase) in &found.inputs {
            let shown = excerpt(phase);
            let message = match self.names.get(phase) {
                None => format!("there is no phase '{shown}'"),
                Some(&from) if found.depends_on(from) || reached.contains(&(from, ix)) => continue,
                Some(_) => {
                    format!("it comes from '{shown}', which is not done before; add that to dependsOn")
                }
            };
            findings.objection(format!("{}.config.inputs.{}", node.place, excerpt(input)), message);
        }
    }

    /// Who takes an input from a phase without depending on it directly.
    fn far(&self) -> BTreeMap<NodeIx, BTreeSet<NodeIx>> {
        let mut far: BTreeMap<NodeIx, BTreeSet<NodeIx>> = BTreeMap::new();
        for (&ix, found) in &self.of {
            for &from in found.upstreams.iter().filter(|&&from| from != ix && !found.depends_on(from)) {
                far.entry(from).or_default().insert(ix);
            }
        }
        far
    }

    /// Which of the inputs that come from far away come from what is done before.
    fn reached(&self, order: &[NodeIx], nodes: usize) -> Reached {
        let far: Vec<(NodeIx, BTreeSet<NodeIx>)> = self.far().into_iter().collect();
        let mut reached = Reached::new();
        for sought in far.chunks(LOOKED_FOR_MAX) {
            let rows = self.rows(sought, order, nodes);
            for (bit, (from, takers)) in sought.iter().enumerate() {
                let takers = takers.iter().filter(|&&taker| has(&rows[taker as usize], bit));
                reached.extend(takers.map(|&taker| (*from, taker)));
            }
        }
        reached
    }

    /// Goes through the phases once, and carries along what comes before each.
    fn rows(&self, sought: &[(NodeIx, BTreeSet<NodeIx>)], order: &[NodeIx], nodes: usize) -> Vec<Row> {
        let mut rows: Vec<Row> = vec![Row::default(); nodes];
        for (bit, (from, _)) in sought.iter().enumerate() {
            rows[*from as usize][bit / 64] |= 1 << (bit % 64);
        }
        for ix in order {
            let mut row = rows[*ix as usize];
            for &before in &self.of[ix].before {
                row.iter_mut().zip(&rows[before as usize]).for_each(|(word, more)| *word |= more);
            }
            rows[*ix as usize] = row;
        }
        rows
    }

    /// The phases, each after those that it depends on, and otherwise as they are written.
    fn order(&self) -> Order {
        let mut waits: BTreeMap<NodeIx, usize> =
            self.of.iter().map(|(&ix, found)| (ix, found.before.len())).collect();
        let mut after: BTreeMap<NodeIx, Vec<NodeIx>> = BTreeMap::new();
        for (&ix, found) in &self.of {
            found.before.iter().for_each(|before| after.entry(*before).or_default().push(ix));
        }
        let free = waits.iter().filter(|(_, waits)| **waits == 0).map(|(&ix, _)| ix);
        let (mut free, mut begun): (VecDeque<NodeIx>, Vec<NodeIx>) = (free.collect(), Vec::new());
        while let Some(ix) = free.pop_front() {
            begun.push(ix);
            waits.remove(&ix);
            for next in after.remove(&ix).unwrap_or_default() {
                let Some(left) = waits.get_mut(&next) else { continue };
                *left -= 1;
                if *left == 0 {
                    free.push_back(next);
                }
            }
        }
        Order { begun, stuck: waits.into_keys().collect() }
    }

    /// Refuses phases that wait for each other.
    fn check_stuck(&self, order: &Order, nodes: &[GraphNode], findings: &mut Findings) {
        if order.stuck.is_empty() {
            return;
        }
        let cycle = self.cycle(&order.stuck);
        let names: Vec<&str> =
            cycle.iter().take(CYCLE_NAMES_MAX).map(|&ix| &*nodes[ix as usize].id).collect();
        let message = format!(
            "{} wait for each other, so none would ever begin; remove one dependency",
            names.join(" → ")
        );
        findings.objection("nodes", message);
    }

    /// One circle among phases that wait for each other.
    fn cycle(&self, stuck: &BTreeSet<NodeIx>) -> Vec<NodeIx> {
        let mut path: Vec<NodeIx> = stuck.iter().take(1).copied().collect();
        let mut met: BTreeSet<NodeIx> = path.iter().copied().collect();
        while let Some(&last) = path.last() {
            let before = self.of.get(&last).into_iter().flat_map(|found| &found.before);
            let Some(&next) = before.into_iter().find(|ix| stuck.contains(ix)) else { return path };
            if !met.insert(next) {
                let at = path.iter().position(|ix| *ix == next).unwrap_or(0);
                let mut circle = path.split_off(at);
                circle.push(next);
                return circle;
            }
            path.push(next);
        }
        path
    }

    /// What each phase's run waits for. An input may come from further up, and brings that run's outputs along.
    fn upstreams(&self, nodes: &[GraphNode]) -> BTreeMap<NodeIx, Vec<String>> {
        let name = |&ix: &NodeIx| nodes[ix as usize].id.to_string();
        self.of.iter().map(|(&ix, found)| (ix, found.upstreams.iter().map(name).collect())).collect()
    }
}

/// Refuses dependencies that nothing would come of, and inputs that a phase doesn't take.
fn check_before(
    node: &NodeDefinition,
    found: &Found,
    nodes: &[GraphNode],
    hints: &mut Hints<'_>,
    findings: &mut Findings,
) {
    let place = &node.place;
    for name in &found.unknown {
        if is_full(findings) {
            return;
        }
        let message = format!("there is no phase '{}'; {}", excerpt(name), hints.of(name));
        findings.objection(format!("{place}.config.dependsOn"), message);
    }
    if found.upstreams.len() > limits::DEPENDENCIES_MAX {
        let most = limits::DEPENDENCIES_MAX;
        let message =
            format!("with those that its inputs come from, a phase waits for at most {most} others");
        findings.objection(format!("{place}.config.inputs"), message);
    }
    for before in found.before.iter().map(|&ix| &nodes[ix as usize]).filter(|node| node.disabled) {
        let message =
            format!("'{}' is disabled, so it would never be done; remove it here, or enable it", before.id);
        findings.objection(format!("{place}.config.dependsOn"), message);
    }
    if !node.inputs.is_empty() {
        let message = "a phase takes its inputs from config.inputs; remove these";
        findings.objection(format!("{place}.inputs"), message);
    }
}

/// Makes of a phase what its run follows.
fn complete(workflow: &str, written: &NodeDefinition, upstreams: Vec<String>, node: &mut GraphNode) {
    let id = node.id.to_string();
    let sensitivity: JsonMap =
        node.output_sensitivity.iter().map(|(name, hidden)| (name.clone(), Json::of(hidden))).collect();
    let Work::Phase(work) = &mut node.work else { return };
    work.upstreams = upstreams;
    if work.title.is_empty() {
        work.title = written.name.clone().unwrap_or(id.clone());
    }
    work.workflow_id = workflow_id(workflow, &id);
    let mut rest = JsonMap::new();
    let own = written.settings.as_ref().and_then(|settings| settings.parse::<JsonMap>().ok());
    let own = own.and_then(|mut own| own.remove("abide")?.parse::<JsonMap>().ok()).unwrap_or_default();
    let own: JsonMap = own.into_iter().filter(|(key, _)| HANDED_ON.contains(&key.as_str())).collect();
    if !own.is_empty() {
        rest.insert("settings".to_owned(), Json::of(&JsonMap::from([("abide".to_owned(), Json::of(&own))])));
    }
    if !sensitivity.is_empty() {
        rest.insert("outputSensitivity".to_owned(), Json::of(&sensitivity));
    }
    work.definition = definition_of(&work.workflow_id, &work.title, &work.config, &rest);
}

/// What the definition of a phase's run is called. It is pinned by its hash, so two that share a name are no matter.
fn workflow_id(workflow: &str, phase: &str) -> String {
    let slug = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() || c == '_' => c,
        _ => '-',
    };
    let id: String =
        format!("{workflow}-{phase}").chars().map(slug).take(limits::WORKFLOW_ID_CHARS_MAX).collect();
    if id.starts_with(|c: char| c.is_ascii_lowercase()) {
        id
    } else {
        format!("w{}", &id[..id.len().min(127)])
    }
}
