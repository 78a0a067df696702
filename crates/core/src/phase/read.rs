//! Reading phases, and how they depend on each other.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::definition::{Definition, NodeDefinition};
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
        let list = fields.optional_list("dependsOn").unwrap_or_default();
        let place = fields.place("dependsOn");
        let mut depends_on: Vec<String> = Vec::new();
        for (at, name) in list.iter().enumerate() {
            let place = format!("{place}[{at}]");
            match name.parse::<String>() {
                Ok(name) if depends_on.contains(&name) => {
                    fields.findings().objection(place, format!("'{name}' stands there twice; remove one"));
                }
                Ok(name) => depends_on.push(name),
                Err(_) => fields.findings().objection(place, "the id of a phase is expected"),
            }
        }
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
    for (&ix, found) in &wiring.of {
        let node = &definition.nodes[ix as usize];
        wiring.check(node, found, nodes, findings);
    }
    let order = wiring.order(nodes, findings);
    let upstreams: BTreeMap<NodeIx, Vec<String>> = wiring.upstreams(nodes);
    for (ix, upstreams) in upstreams {
        complete(&definition.id, &definition.nodes[ix as usize], upstreams, &mut nodes[ix as usize]);
    }
    order
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
    /// Those that it depends on.
    before: Vec<NodeIx>,
    /// Names that nothing has.
    unknown: Vec<String>,
    /// Inputs that come from other phases, and which.
    inputs: Vec<(String, String)>,
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
            let inputs = work.sources().map(|(input, phase)| (input.clone(), phase.to_owned()));
            found.inputs = inputs.collect();
            of.insert(ix, found);
        }
        Self { names, of }
    }

    fn check(&self, node: &NodeDefinition, found: &Found, nodes: &[GraphNode], findings: &mut Findings) {
        let place = &node.place;
        for name in &found.unknown {
            let known: Vec<&str> = self.names.keys().map(String::as_str).collect();
            let hint = match nearest(name, &known, usize::MAX) {
                Some(near) => format!("did you mean '{near}'?"),
                None => "name phases of this definition by their ids".to_owned(),
            };
            findings.objection(
                format!("{place}.config.dependsOn"),
                format!("there is no phase '{name}'; {hint}"),
            );
        }
        if found.before.len() > limits::DEPENDENCIES_MAX {
            let message = format!("a phase depends on at most {} others", limits::DEPENDENCIES_MAX);
            findings.objection(format!("{place}.config.dependsOn"), message);
        }
        for before in found.before.iter().map(|&ix| &nodes[ix as usize]).filter(|node| node.disabled) {
            let message = format!(
                "'{}' is disabled, so it would never be done; remove it here, or enable it",
                before.id
            );
            findings.objection(format!("{place}.config.dependsOn"), message);
        }
        if !node.inputs.is_empty() {
            let message = "a phase takes its inputs from config.inputs; remove these";
            findings.objection(format!("{place}.inputs"), message);
        }
        let before = self.ancestors(found);
        for (input, phase) in &found.inputs {
            let message = match self.names.get(phase) {
                None => format!("there is no phase '{phase}'"),
                Some(ix) if before.contains(ix) => continue,
                Some(_) => {
                    format!("it comes from '{phase}', which is not done before; add that to dependsOn")
                }
            };
            findings.objection(format!("{place}.config.inputs.{input}"), message);
        }
    }

    /// Everything that is done before a phase.
    fn ancestors(&self, found: &Found) -> BTreeSet<NodeIx> {
        if found.inputs.is_empty() {
            return BTreeSet::new();
        }
        let (mut seen, mut next) = (BTreeSet::new(), found.before.clone());
        while let Some(ix) = next.pop() {
            if seen.insert(ix) {
                next.extend(self.of.get(&ix).into_iter().flat_map(|found| &found.before));
            }
        }
        seen
    }

    /// The phases, each after those that it depends on, and otherwise as they are written.
    fn order(&self, nodes: &[GraphNode], findings: &mut Findings) -> Vec<NodeIx> {
        let mut waits: BTreeMap<NodeIx, usize> =
            self.of.iter().map(|(&ix, found)| (ix, found.before.len())).collect();
        let mut after: BTreeMap<NodeIx, Vec<NodeIx>> = BTreeMap::new();
        for (&ix, found) in &self.of {
            found.before.iter().for_each(|before| after.entry(*before).or_default().push(ix));
        }
        let free = waits.iter().filter(|(_, waits)| **waits == 0).map(|(&ix, _)| ix);
        let (mut free, mut order): (VecDeque<NodeIx>, Vec<NodeIx>) = (free.collect(), Vec::new());
        while let Some(ix) = free.pop_front() {
            order.push(ix);
            waits.remove(&ix);
            for next in after.remove(&ix).unwrap_or_default() {
                let Some(left) = waits.get_mut(&next) else { continue };
                *left -= 1;
                if *left == 0 {
                    free.push_back(next);
                }
            }
        }
        if !waits.is_empty() {
            let names: Vec<&str> =
                self.cycle(&waits).iter().take(CYCLE_NAMES_MAX).map(|&ix| &*nodes[ix as usize].id).collect();
            let message = format!(
                "{} wait for each other, so none would ever begin; remove one dependency",
                names.join(" → ")
            );
            findings.objection("nodes", message);
            order.extend(waits.into_keys());
        }
        order
    }

    /// One circle among phases that wait for each other.
    fn cycle(&self, waits: &BTreeMap<NodeIx, usize>) -> Vec<NodeIx> {
        let mut path: Vec<NodeIx> = waits.keys().take(1).copied().collect();
        while let Some(&last) = path.last() {
            let before = self.of.get(&last).into_iter().flat_map(|found| &found.before);
            let Some(&next) = before.into_iter().find(|ix| waits.contains_key(ix)) else { return path };
            if let Some(at) = path.iter().position(|ix| *ix == next) {
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
        let of = |found: &Found| {
            let inputs = found.inputs.iter().filter_map(|(_, phase)| self.names.get(phase));
            let all: BTreeSet<NodeIx> = found.before.iter().chain(inputs).copied().collect();
            all.into_iter().map(|ix| nodes[ix as usize].id.to_string()).collect()
        };
        self.of.iter().map(|(&ix, found)| (ix, of(found))).collect()
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
