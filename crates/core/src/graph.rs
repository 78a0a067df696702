//! A workflow definition, checked and indexed: what a run follows for life.
//!
//! All problems are reported at once, each with its place. Parts of OpenWOP that this build can't run yet
//! are refused here, never ignored.

use std::collections::HashMap;
use std::sync::Arc;

use crate::definition::{Definition, NodeDefinition, PortDefinition, Problem};
use crate::object::Object;
use crate::{Hash, Json, JsonMap, Rejection, hex, limits, sha256};

/// A node's place in its graph.
pub type NodeIx = u32;

/// A checked definition. Cheap to share: runs hold it behind an `Arc`.
#[derive(Debug)]
pub struct Graph {
    /// The definition's id.
    pub workflow_id: Arc<str>,
    /// The definition's own version label.
    pub version: String,
    /// The definition's display name.
    pub name: String,
    /// The hash of the definition's bytes, which pins it.
    pub hash: Hash,
    /// The bytes themselves.
    pub source: Arc<[u8]>,
    pub(crate) nodes: Vec<GraphNode>,
    pub(crate) variables: Vec<Variable>,
    index: HashMap<Arc<str>, NodeIx>,
}

/// A node with what is needed to run it.
#[derive(Debug)]
pub(crate) struct GraphNode {
    pub(crate) id: Arc<str>,
    pub(crate) type_id: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) durable: bool,
    pub(crate) config: JsonMap,
    pub(crate) inputs: Vec<(String, Port)>,
    /// The nodes that wait for this one, once per edge.
    pub(crate) next: Vec<NodeIx>,
    /// How many edges it waits for.
    pub(crate) incoming: u32,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Noop,
    /// Gives its inputs back as outputs.
    Identity,
    /// Waits for a durable timer.
    Delay,
    /// Fails.
    Fail,
    /// Something no executor here provides.
    Unknown,
}

/// Where an input comes from, resolved against the graph.
#[derive(Debug)]
pub(crate) enum Port {
    Static(Json),
    Connection { node: NodeIx, key: String, optional: bool },
    Variable { name: String, optional: bool },
}

/// A declared variable.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) required: bool,
    pub(crate) default: Option<Json>,
}

/// Kinds that OpenWOP puts behind a capability, none of which is offered yet.
const GATED_KINDS: &[(&str, &str)] = &[
    ("core.conversationGate", "conversationPrimitive"),
    ("core.orchestrator.supervisor", "orchestrator.supported"),
    ("core.dispatch", "dispatch.supported"),
];

/// The types of ports, and the keys that each needs.
const PORT_KINDS: &[(&str, &[&str])] = &[
    ("static", &["value"]),
    ("expression", &["expression"]),
    ("connection", &["nodeId", "outputKey"]),
    ("variable", &["variableName"]),
];

const VARIABLE_KINDS: &[&str] = &["string", "number", "boolean", "object", "array"];

impl Kind {
    fn of(type_id: &str) -> Self {
        match type_id {
            "core.noop" => Self::Noop,
            "core.identity" => Self::Identity,
            "core.delay" => Self::Delay,
            "core.fail" => Self::Fail,
            _ => Self::Unknown,
        }
    }
}

impl Graph {
    /// Reads and checks a definition.
    pub fn parse(source: &[u8]) -> Result<Self, Vec<Problem>> {
        if source.len() > limits::DEFINITION_BYTES_MAX {
            let message =
                format!("it has {} bytes; {} are allowed", source.len(), limits::DEFINITION_BYTES_MAX);
            return Err(vec![Problem { place: "definition".into(), message }]);
        }
        let mut reader = serde_json::Deserializer::from_slice(source);
        let Object(definition): Object<Definition> =
            serde_path_to_error::deserialize(&mut reader).map_err(|error| {
                vec![Problem { place: error.path().to_string(), message: error.inner().to_string() }]
            })?;
        reader
            .end()
            .map_err(|error| vec![Problem { place: "definition".into(), message: error.to_string() }])?;
        Builder::default().build(definition, source)
    }

    /// The hash as text, the form it has in events.
    pub fn hash_hex(&self) -> String {
        hex(&self.hash)
    }

    /// The node with this id.
    pub fn node(&self, id: &str) -> Option<NodeIx> {
        self.index.get(id).copied()
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A graph has at least one node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A node's id and kind.
    pub fn describe(&self, ix: NodeIx) -> (&Arc<str>, &Arc<str>, Kind) {
        let node = self.at(ix);
        (&node.id, &node.type_id, node.kind)
    }

    pub(crate) fn at(&self, ix: NodeIx) -> &GraphNode {
        &self.nodes[ix as usize]
    }

    /// Refuses kinds behind a capability that is not offered.
    pub(crate) fn check_capabilities(&self) -> Result<(), Rejection> {
        for node in &self.nodes {
            if let Some((_, capability)) = GATED_KINDS.iter().find(|(kind, _)| *kind == &*node.type_id) {
                let (node, type_id) = (node.id.to_string(), node.type_id.to_string());
                return Err(Rejection::CapabilityRequired { node, type_id, capability });
            }
        }
        Ok(())
    }
}

/// Collects problems while a graph is put together.
#[derive(Default)]
struct Builder {
    problems: Vec<Problem>,
    index: HashMap<Arc<str>, NodeIx>,
}

impl Builder {
    fn build(mut self, definition: Definition, source: &[u8]) -> Result<Graph, Vec<Problem>> {
        self.check_head(&definition);
        self.index_nodes(&definition.nodes);
        let variables = self.variables(&definition);
        let mut nodes: Vec<GraphNode> = definition.nodes.iter().map(|Object(node)| self.node(node)).collect();
        self.edges(&definition, &mut nodes);
        if self.problems.is_empty() {
            self.check_cycles(&nodes);
        }
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        Ok(Graph {
            workflow_id: definition.id.into(),
            version: definition.version,
            name: definition.name,
            hash: sha256(source),
            source: source.into(),
            nodes,
            variables,
            index: self.index,
        })
    }

    fn problem(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem { place: place.into(), message: message.into() });
    }

    fn check_head(&mut self, definition: &Definition) {
        if !is_workflow_id(&definition.id) {
            self.problem(
                "id",
                "use lower-case letters, digits, '-' and '_', starting with a letter, at most 128",
            );
        }
        if definition.nodes.is_empty() {
            self.problem("nodes", "a workflow needs at least one node");
        }
        if definition.nodes.len() > limits::NODES_MAX {
            self.problem("nodes", format!("at most {} nodes", limits::NODES_MAX));
        }
        if definition.edges.len() > limits::EDGES_MAX {
            self.problem("edges", format!("at most {} edges", limits::EDGES_MAX));
        }
        if definition.channels.as_ref().is_some_and(|channels| !channels.is_empty()) {
            self.problem("channels", "channels are not supported by this version yet");
        }
        if definition.configurable_schema.is_some() {
            self.problem("configurableSchema", "configurable runs are not supported by this version yet");
        }
    }

    fn index_nodes(&mut self, nodes: &[Object<NodeDefinition>]) {
        for (ix, Object(node)) in nodes.iter().enumerate() {
            if !is_node_id(&node.id) {
                let message = format!(
                    "a node id has 1 to {} characters, and no control characters",
                    limits::NODE_ID_CHARS_MAX
                );
                self.problem(format!("nodes[{ix}].id"), message);
            }
            if self.index.insert(node.id.as_str().into(), ix as NodeIx).is_some() {
                self.problem(format!("nodes[{ix}].id"), format!("'{}' is used twice; rename one", node.id));
            }
        }
    }

    fn variables(&mut self, definition: &Definition) -> Vec<Variable> {
        let mut variables: Vec<Variable> = Vec::new();
        let mut names = std::collections::HashSet::new();
        for (ix, Object(variable)) in definition.variables.iter().enumerate() {
            let place = format!("variables[{ix}]");
            if !names.insert(variable.name.as_str()) {
                self.problem(format!("{place}.name"), format!("'{}' is declared twice", variable.name));
            }
            if !VARIABLE_KINDS.contains(&variable.kind.as_str()) {
                self.problem(format!("{place}.type"), format!("use one of {}", VARIABLE_KINDS.join(", ")));
            }
            if variable.sensitive {
                self.problem(
                    format!("{place}.sensitive"),
                    "sensitive variables are not supported by this version yet",
                );
            }
            if variable.default_value.as_ref().is_some_and(|value| value.type_name() != variable.kind) {
                self.problem(
                    format!("{place}.defaultValue"),
                    format!("it must be of type {}", variable.kind),
                );
            }
            variables.push(Variable {
                name: variable.name.clone(),
                kind: variable.kind.clone(),
                required: variable.required,
                default: variable.default_value.clone(),
            });
        }
        variables
    }

    fn node(&mut self, node: &NodeDefinition) -> GraphNode {
        let place = format!("nodes['{}']", node.id);
        if !is_type_id(&node.type_id) {
            self.problem(
                format!("{place}.typeId"),
                "a kind looks like core.noop: letters, digits, '.', '_' and '-'",
            );
        }
        if node.disabled == Some(true) {
            self.problem(
                format!("{place}.disabled"),
                "disabled nodes are not supported by this version yet; remove it",
            );
        }
        for (key, given) in
            [("credentialsRef", &node.credentials_ref), ("outputSensitivity", &node.output_sensitivity)]
        {
            if given.is_some() {
                self.problem(format!("{place}.{key}"), "it is not supported by this version yet; remove it");
            }
        }
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for (name, Object(port)) in &node.inputs {
            if let Some(port) = self.port(&format!("{place}.inputs.{name}"), port) {
                inputs.push((name.clone(), port));
            }
        }
        GraphNode {
            id: node.id.as_str().into(),
            type_id: node.type_id.as_str().into(),
            kind: Kind::of(&node.type_id),
            durable: node.settings.0.abide.0.durable,
            config: node.config.clone(),
            inputs,
            next: Vec::new(),
            incoming: 0,
        }
    }

    fn port(&mut self, place: &str, port: &PortDefinition) -> Option<Port> {
        self.check_port_keys(place, port)?;
        let optional = port.optional.unwrap_or(false);
        match port.kind.as_str() {
            "static" => port.value.clone().map(Port::Static),
            "variable" => port.variable_name.clone().map(|name| Port::Variable { name, optional }),
            "connection" => {
                let id = port.node_id.as_deref()?;
                let Some(&node) = self.index.get(id) else {
                    self.problem(place, format!("there is no node '{id}'"));
                    return None;
                };
                port.output_key.clone().map(|key| Port::Connection { node, key, optional })
            }
            _ => {
                let expression = port.expression.as_deref()?;
                let message = format!("expressions are not supported by this version yet ('{expression}')");
                self.problem(place, message);
                None
            }
        }
    }

    /// Each type of port has keys of its own: all of them must be there, and no others.
    fn check_port_keys(&mut self, place: &str, port: &PortDefinition) -> Option<()> {
        let Some((_, needed)) = PORT_KINDS.iter().find(|(kind, _)| *kind == port.kind) else {
            self.problem(format!("{place}.type"), "use static, expression, connection or variable");
            return None;
        };
        let given = [
            ("value", port.value.is_some()),
            ("expression", port.expression.is_some()),
            ("nodeId", port.node_id.is_some()),
            ("outputKey", port.output_key.is_some()),
            ("variableName", port.variable_name.is_some()),
        ];
        for (key, given) in given {
            match (given, needed.contains(&key)) {
                (true, false) => {
                    self.problem(place, format!("'{key}' does not belong to type {}", port.kind));
                }
                (false, true) => self.problem(place, format!("type {} needs '{key}'", port.kind)),
                _ => {}
            }
        }
        if port.optional.is_some() && !matches!(port.kind.as_str(), "connection" | "variable") {
            self.problem(place, format!("'optional' does not belong to type {}", port.kind));
        }
        Some(())
    }

    fn edges(&mut self, definition: &Definition, nodes: &mut [GraphNode]) {
        let mut ids = std::collections::HashSet::new();
        for (ix, Object(edge)) in definition.edges.iter().enumerate() {
            let place = format!("edges[{ix}]");
            if !ids.insert(edge.id.as_str()) {
                self.problem(format!("{place}.id"), format!("'{}' is used twice; rename one", edge.id));
            }
            if edge.trigger_rule.as_deref().is_some_and(|rule| rule != "all_success") {
                self.problem(
                    format!("{place}.triggerRule"),
                    "only all_success is supported by this version yet",
                );
            }
            if edge.condition.is_some() {
                self.problem(
                    format!("{place}.condition"),
                    "conditions are not supported by this version yet",
                );
            }
            let source = self.end(&place, "sourceNodeId", &edge.source_node_id);
            let target = self.end(&place, "targetNodeId", &edge.target_node_id);
            if let (Some(source), Some(target)) = (source, target) {
                nodes[source as usize].next.push(target);
                nodes[target as usize].incoming += 1;
            }
        }
    }

    fn end(&mut self, place: &str, key: &str, id: &str) -> Option<NodeIx> {
        let found = self.index.get(id).copied();
        if found.is_none() {
            self.problem(format!("{place}.{key}"), format!("there is no node '{id}'"));
        }
        found
    }

    /// Kahn's algorithm; whatever is left over lies on a cycle or behind one.
    fn check_cycles(&mut self, nodes: &[GraphNode]) {
        let mut unmet: Vec<u32> = nodes.iter().map(|node| node.incoming).collect();
        let mut ready: Vec<usize> = (0..nodes.len()).filter(|&ix| unmet[ix] == 0).collect();
        while let Some(ix) = ready.pop() {
            for &next in &nodes[ix].next {
                unmet[next as usize] -= 1;
                if unmet[next as usize] == 0 {
                    ready.push(next as usize);
                }
            }
        }
        if let Some(cycle) = name_cycle(nodes, &unmet) {
            self.problem("edges", format!("{cycle} is a cycle; remove one of its edges"));
        }
    }
}

/// Names of a cycle that are shown; nobody reads more.
const CYCLE_NAMES_MAX: usize = 20;

/// Walks backwards among the nodes left over until one repeats.
fn name_cycle(nodes: &[GraphNode], unmet: &[u32]) -> Option<String> {
    let start = unmet.iter().position(|&count| count > 0)?;
    let mut before = vec![None; nodes.len()];
    for (ix, node) in nodes.iter().enumerate().filter(|&(ix, _)| unmet[ix] > 0) {
        for &next in &node.next {
            before[next as usize] = Some(ix);
        }
    }
    let mut at = start;
    for _ in 0..nodes.len() {
        at = before[at]?;
    }
    let mut names = vec![&*nodes[at].id];
    let mut walk = before[at]?;
    while walk != at {
        names.push(&nodes[walk].id);
        walk = before[walk]?;
    }
    names.push(&nodes[at].id);
    names.reverse();
    if names.len() > CYCLE_NAMES_MAX {
        let more = names.len() - CYCLE_NAMES_MAX;
        names.truncate(CYCLE_NAMES_MAX);
        return Some(format!("{} → … ({more} more)", names.join(" → ")));
    }
    Some(names.join(" → "))
}

fn is_workflow_id(id: &str) -> bool {
    let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    id.len() <= 128 && id.starts_with(|c: char| c.is_ascii_lowercase()) && id.chars().all(rest)
}

fn is_node_id(id: &str) -> bool {
    !id.is_empty() && id.chars().count() <= limits::NODE_ID_CHARS_MAX && !id.contains(char::is_control)
}

fn is_type_id(id: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    id.len() <= 256 && id.starts_with(|c: char| c.is_ascii_lowercase()) && id.chars().all(rest)
}
