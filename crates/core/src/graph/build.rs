//! Putting a graph together from its definition, and everything that can be wrong with that.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::loops::{self, BadCycle};
use super::names::{is_node_id, is_type_id, is_workflow_id, nearest_kind};
use super::reads::{EDGE_ROOTS, FIXED_ROOTS, NODE_ROOTS, PORT_ROOTS};
use super::{GATES, Graph, GraphEdge, GraphNode, Kind, NodeIx, Port, Variable, Work};
use crate::channel::Channel;
use crate::condition::Condition;
use crate::definition::{Definition, EdgeDefinition, NodeDefinition, PortDefinition};
use crate::expression::Expression;
use crate::fields::Findings;
use crate::phase;
use crate::retry::RetryPolicy;
use crate::rule::Rule;
use crate::schema::Schema;
use crate::work::OWN_KEYS;
use crate::{limits, sha256};

/// The types of ports, and the keys that each needs.
const PORT_KINDS: &[(&str, &[&str])] = &[
    ("static", &["value"]),
    ("expression", &["expression"]),
    ("connection", &["nodeId", "outputKey"]),
    ("variable", &["variableName"]),
];

const VARIABLE_KINDS: &[&str] = &["string", "number", "boolean", "object", "array"];

/// Names of a cycle that are shown; nobody reads more.
const CYCLE_NAMES_MAX: usize = 20;

/// Builds a graph. It is whole only if no problem was found.
pub(super) fn build(
    definition: Definition,
    source: &[u8],
    implies: bool,
    findings: &mut Findings,
) -> Option<Graph> {
    let mut builder = Builder { findings, index: HashMap::new(), channels: BTreeMap::new() };
    builder.check_head(&definition);
    builder.index_nodes(&definition.nodes);
    builder.read_channels(&definition);
    let variables = builder.variables(&definition);
    let default_retry = definition.settings.max_retries.map(RetryPolicy::of_retries);
    let mut nodes: Vec<GraphNode> =
        definition.nodes.iter().map(|node| builder.node(node, default_retry.as_ref())).collect();
    let mut edges = builder.edges(&definition, &mut nodes);
    let configurable_schema = builder.configurable_schema(&definition);
    if !builder.findings.problems.is_empty() {
        return None;
    }
    if implies {
        builder.imply(&definition.nodes, &mut nodes, &mut edges);
    }
    let loops = builder.loops(&mut nodes, &mut edges)?;
    builder.group(&mut nodes, &mut edges);
    builder.check_ancestors(&nodes, &edges);
    let channels = builder.channels;
    let index = builder.index;
    let own_node = own_node(&index);
    let phases = phase::wire(&definition, &mut nodes, &edges, builder.findings);
    let foreign_kinds = nodes.iter().filter(|node| matches!(node.work, Work::Unknown));
    let foreign_kinds = foreign_kinds.map(|node| node.type_id.clone()).collect();
    Some(Graph {
        workflow_id: definition.id.into(),
        version: definition.version,
        name: definition.name,
        hash: sha256(source),
        source: source.into(),
        nodes,
        edges,
        loops,
        variables,
        channels,
        configurable_schema,
        settings: definition.settings,
        active: definition.active,
        offers: super::Offers::default(),
        index,
        foreign_kinds,
        own_node,
        phases,
        unrefined: None,
    })
}

/// What stands for a node where the run itself asks. A definition of long ago may have a node of that name, and keeps it.
fn own_node(index: &HashMap<Arc<str>, NodeIx>) -> Arc<str> {
    let mut name = crate::RESUME_NODE.to_owned();
    while index.contains_key(name.as_str()) {
        name.push('\'');
    }
    name.into()
}

pub(super) struct Builder<'a> {
    pub(super) findings: &'a mut Findings,
    pub(super) index: HashMap<Arc<str>, NodeIx>,
    pub(super) channels: BTreeMap<String, Channel>,
}

impl Builder<'_> {
    fn check_head(&mut self, definition: &Definition) {
        if !is_workflow_id(&definition.id) {
            self.findings.problem(
                "id",
                "use lower-case letters, digits, '-' and '_', starting with a letter, at most 128",
            );
        }
        if definition.nodes.is_empty() && self.findings.problems.is_empty() {
            self.findings.problem("nodes", "a workflow needs at least one node");
        }
        if definition.nodes.len() > limits::NODES_MAX {
            self.findings.problem("nodes", format!("at most {} nodes", limits::NODES_MAX));
        }
        if definition.edges.len() > limits::EDGES_MAX {
            self.findings.problem("edges", format!("at most {} edges", limits::EDGES_MAX));
        }
        if let Some(status) = definition.status.as_deref()
            && !["active", "inactive", "draft", "archived"].contains(&status)
        {
            self.findings.objection("status", "use active, inactive, draft or archived");
        }
    }

    fn index_nodes(&mut self, nodes: &[NodeDefinition]) {
        for (ix, node) in nodes.iter().enumerate() {
            let at = &node.at;
            if !is_node_id(&node.id) {
                let message = format!(
                    "a node id has 1 to {} characters, and no control characters",
                    limits::NODE_ID_CHARS_MAX
                );
                self.findings.problem(format!("{at}.id"), message);
            }
            if node.id.starts_with(OWN_KEYS) {
                let message = format!("ids that begin with {OWN_KEYS} are the server's own; use another one");
                self.findings.objection(format!("{at}.id"), message);
            }
            if self.index.insert(node.id.as_str().into(), ix as NodeIx).is_some() {
                let message = format!("'{}' is used twice; rename one", node.id);
                self.findings.problem(format!("{at}.id"), message);
            }
        }
    }

    fn read_channels(&mut self, definition: &Definition) {
        let variables: HashSet<&str> =
            definition.variables.iter().map(|variable| variable.name.as_str()).collect();
        for (name, json) in &definition.channels {
            let place = format!("channels.{name}");
            let mut wrong = Vec::new();
            let channel = Channel::parse(&place, json, &mut wrong);
            wrong.into_iter().for_each(|problem| self.findings.objection(problem.place, problem.message));
            self.channels.extend(channel.map(|channel| (name.clone(), channel)));
            if variables.contains(name.as_str()) {
                self.findings.objection(place, format!("'{name}' is a variable too; rename one"));
            }
        }
    }

    fn variables(&mut self, definition: &Definition) -> Vec<Variable> {
        let mut names = HashSet::new();
        let mut variables = Vec::with_capacity(definition.variables.len());
        for variable in &definition.variables {
            let place = &variable.place;
            if !names.insert(variable.name.as_str()) {
                let message = format!("'{}' is declared twice", variable.name);
                self.findings.problem(format!("{place}.name"), message);
            }
            if !VARIABLE_KINDS.contains(&variable.kind.as_str()) {
                let message = format!("use one of {}", VARIABLE_KINDS.join(", "));
                self.findings.problem(format!("{place}.type"), message);
            }
            if variable.default_value.as_ref().is_some_and(|value| value.type_name() != variable.kind) {
                let message = format!("it must be of type {}", variable.kind);
                self.findings.problem(format!("{place}.defaultValue"), message);
            }
            variables.push(Variable {
                name: variable.name.clone(),
                kind: variable.kind.clone(),
                required: variable.required,
                default: variable.default_value.clone(),
                sensitive: variable.sensitive,
            });
        }
        variables
    }

    fn configurable_schema(&mut self, definition: &Definition) -> Option<Schema> {
        let compiled = Schema::compile(definition.configurable_schema.as_ref()?);
        compiled.map_err(|message| self.findings.objection("configurableSchema", message)).ok()
    }

    fn node(&mut self, node: &NodeDefinition, default_retry: Option<&RetryPolicy>) -> GraphNode {
        let place = &node.place;
        let kind = Kind::of(&node.type_id);
        if let (Kind::Unknown, Some(near)) = (kind, nearest_kind(&node.type_id)) {
            let message = format!("there is no kind '{}'; did you mean {near}?", node.type_id);
            self.findings.objection(format!("{place}.typeId"), message);
        } else if !is_type_id(&node.type_id) {
            let message = "a kind looks like core.noop: letters, digits, '.', '_' and '-'";
            self.findings.problem(format!("{place}.typeId"), message);
        }
        let work = Work::read(kind, &node.config, place, self.findings);
        self.check_settings(node, kind, &work);
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for (name, port) in &node.inputs {
            let port = self.port(node, &format!("{place}.inputs.{name}"), port);
            inputs.extend(port.map(|port| (name.clone(), port)));
        }
        let idempotent = node.abide.idempotent.unwrap_or_else(|| is_idempotent(&work));
        GraphNode {
            id: node.id.as_str().into(),
            type_id: node.type_id.as_str().into(),
            kind,
            work,
            config: node.config.clone(),
            durable: node.abide.durable,
            idempotent,
            told_idempotent: node.abide.idempotent,
            reversible: node.abide.reversible,
            timeout_ms: node.abide.timeout_ms,
            retry: node.abide.retry.as_ref().or(default_retry).filter(|_| may_retry(kind)).cloned(),
            loop_max: node.abide.loop_max,
            disabled: node.disabled,
            credentials: node.credentials_ref.clone(),
            inputs,
            output_sensitivity: node.output_sensitivity.iter().cloned().collect(),
            artifact_type: node.artifact_type.as_deref().map(Into::into),
            sensitive: node.abide.sensitive,
            token_ms: node.abide.token_ms,
            ladder: node.abide.ladder.clone(),
            agent: node.abide.agent.as_deref().map(Into::into),
            pinned: node.pinned.clone(),
            respondents: node.abide.respondents.clone(),
            approval: node.abide.approval.clone(),
            producer: None,
            names_maker: false,
            refinable: false,
            out: Vec::new(),
            groups: Vec::new(),
            loops: Vec::new(),
        }
    }

    /// Settings that would do nothing, and expressions that read what they can't.
    fn check_settings(&mut self, node: &NodeDefinition, kind: Kind, work: &Work) {
        let place = &node.place;
        if node.credentials_ref.is_some() && kind != Kind::Http {
            let message = "only core.http.request takes credentials; remove it";
            self.findings.objection(format!("{place}.credentialsRef"), message);
        }
        if node.abide.retry.is_some() && !may_retry(kind) {
            let message =
                "only core.http.request and what workers and models do is ever tried again; remove it";
            self.findings.objection(format!("{place}.settings.abide.retry"), message);
        }
        if node.abide.timeout_ms.is_some() && !may_time_out(kind) {
            let message = "only what workers and models do has a timeout of its own; remove it";
            self.findings.objection(format!("{place}.settings.abide.timeoutMs"), message);
        }
        self.check_rules(node, work);
        let successor = node.abide.retry.as_ref().and_then(|retry| retry.fallback_agent.as_ref());
        if successor.is_some() && kind != Kind::Unknown {
            let message = "only what workers do can be taken over by another agent; remove it";
            self.findings.objection(format!("{place}.settings.abide.retry.fallbackAgent"), message);
        }
        if let Work::ChannelWrite(write) = work {
            self.check_channel_write(node, write);
        }
        if let Work::Transform(transform) = work {
            for (name, _) in transform.assign.iter().filter(|(name, _)| self.channels.contains_key(name)) {
                let message = format!("'{name}' is a channel; write to it with core.channelWrite");
                self.findings.objection(format!("{place}.config.assign.{name}"), message);
            }
        }
        if let Work::Gate(gate) = work {
            let given = |key: &&str| node.inputs.iter().any(|(name, _)| name == key);
            if !gate.form.keys().iter().any(given) {
                gate.check(&format!("{place}.config"), self.findings);
                gate.check_ladder(
                    node.abide.ladder.as_ref(),
                    &format!("{place}.settings.abide.ladder"),
                    self.findings,
                );
            }
        } else if node.abide.is_about_asking() && !matches!(kind, Kind::Unknown | Kind::ByHand | Kind::Phase)
        {
            let message = "only nodes that ask have answers, tokens and ladders; remove it";
            self.findings.objection(format!("{place}.settings.abide"), message);
        }
        // What runs later, in an executor, sees the inputs that were recorded and what never changes.
        let later = kind == Kind::Http || node.abide.durable || kind.form().is_some();
        let roots: &[&str] = if later { FIXED_ROOTS } else { NODE_ROOTS };
        for (below, reads) in work.expressions() {
            self.check_reads(node, &format!("{place}.config.{below}"), &reads, roots);
        }
    }

    fn check_channel_write(&mut self, node: &NodeDefinition, write: &super::ChannelWrite) {
        let place = &node.place;
        match self.channels.get(&write.channel) {
            Some(channel) if !channel.may_write(&node.id, &node.type_id) => {
                let message =
                    format!("channel '{}' does not let this node write; see its access", write.channel);
                self.findings.objection(format!("{place}.config.channelName"), message);
            }
            Some(_) => {}
            None => {
                let undeclared =
                    Channel::undeclared(write.reducer.as_deref().unwrap_or("replace"), write.ttl_ms);
                if let Err(message) = undeclared {
                    self.findings.objection(format!("{place}.config.reducer"), message);
                }
            }
        }
        if write.value.is_none() && !node.inputs.iter().any(|(name, _)| name == "value") {
            let message = "what is written is missing; give config.value or an input named value";
            self.findings.objection(format!("{place}.config"), message);
        }
    }

    fn port(&mut self, node: &NodeDefinition, place: &str, port: &PortDefinition) -> Option<Port> {
        self.check_port_keys(place, port)?;
        let optional = port.optional.unwrap_or(false);
        match port.kind.as_str() {
            "static" => port.value.clone().map(Port::Static),
            "variable" => port.variable_name.clone().map(|name| Port::Variable { name, optional }),
            "connection" => {
                let id = port.node_id.as_deref()?;
                let Some(&node) = self.index.get(id) else {
                    self.findings.problem(place, format!("there is no node '{id}'"));
                    return None;
                };
                port.output_key.clone().map(|key| Port::Connection { node, key, optional })
            }
            _ => match Expression::parse(port.expression.as_deref()?) {
                Ok(expression) => {
                    self.check_reads(node, place, expression.reads(), PORT_ROOTS);
                    Some(Port::Expression(expression))
                }
                Err(message) => {
                    self.findings.problem(place, message);
                    None
                }
            },
        }
    }

    /// Each type of port has keys of its own: all of them must be there, and no others.
    fn check_port_keys(&mut self, place: &str, port: &PortDefinition) -> Option<()> {
        let Some((_, needed)) = PORT_KINDS.iter().find(|(kind, _)| *kind == port.kind) else {
            let message = "use static, expression, connection or variable";
            self.findings.problem(format!("{place}.type"), message);
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
                    self.findings.problem(place, format!("'{key}' does not belong to type {}", port.kind));
                }
                (false, true) => self.findings.problem(place, format!("type {} needs '{key}'", port.kind)),
                _ => {}
            }
        }
        if port.optional.is_some() && !matches!(port.kind.as_str(), "connection" | "variable") {
            self.findings.problem(place, format!("'optional' does not belong to type {}", port.kind));
        }
        Some(())
    }

    fn edges(&mut self, definition: &Definition, nodes: &mut [GraphNode]) -> Vec<GraphEdge> {
        let mut ids = HashSet::new();
        let mut edges = Vec::with_capacity(definition.edges.len());
        for written in &definition.edges {
            let place = &written.place;
            if !ids.insert(written.id.as_str()) {
                let message = format!("'{}' is used twice; rename one", written.id);
                self.findings.problem(format!("{place}.id"), message);
            }
            let source = self.end(place, "sourceNodeId", &written.source);
            let target = self.end(place, "targetNodeId", &written.target);
            let (Some(source), Some(target)) = (source, target) else { continue };
            let edge = self.edge(place, written, source, target, &definition.nodes[source as usize], nodes);
            nodes[source as usize].out.push(edges.len() as u32);
            edges.push(edge);
        }
        edges
    }

    fn edge(
        &mut self,
        place: &str,
        written: &EdgeDefinition,
        source: NodeIx,
        target: NodeIx,
        from: &NodeDefinition,
        nodes: &mut [GraphNode],
    ) -> GraphEdge {
        let rule = written.trigger_rule.as_deref().map_or(Some(Rule::AllSuccess), Rule::named);
        if rule.is_none() {
            let known: Vec<_> = Rule::ALL.iter().map(|(_, name)| *name).collect();
            self.findings.problem(format!("{place}.triggerRule"), format!("use one of {}", known.join(", ")));
        }
        let condition = written.condition.as_ref().and_then(|written| {
            let place = format!("{place}.condition");
            match Condition::read(written) {
                Ok(condition) => {
                    if let Condition::Expression(expression) = &condition {
                        self.check_reads(from, &place, expression.reads(), EDGE_ROOTS);
                    }
                    Some(condition)
                }
                Err(message) => {
                    self.findings.problem(place, message);
                    None
                }
            }
        });
        let case = self.case(place, written, &nodes[source as usize].work);
        if case.is_none() {
            self.carry(place, written, source, &mut nodes[target as usize]);
        }
        GraphEdge {
            id: written.id.as_str().into(),
            source,
            target,
            group: 0,
            rule: rule.unwrap_or(Rule::AllSuccess),
            condition,
            case,
            back: None,
            leaves: None,
            implied: false,
        }
    }

    /// An edge that leaves a branch by a case is followed only if that case was chosen.
    fn case(&mut self, place: &str, written: &EdgeDefinition, work: &Work) -> Option<String> {
        let (Work::Branch(branch), Some(name)) = (work, &written.source_output) else {
            return None;
        };
        if !branch.offers(name) {
            let message = format!("the branch has no case '{name}'; add it, or leave sourceOutput out");
            self.findings.objection(format!("{place}.sourceOutput"), message);
        }
        if written.target_input.is_some() {
            let message = "an edge that leaves a branch by a case carries no value; take it in with a port";
            self.findings.objection(format!("{place}.targetInput"), message);
        }
        Some(name.clone())
    }

    /// An edge that names a `targetInput` carries the source's output there.
    fn carry(&mut self, place: &str, written: &EdgeDefinition, source: NodeIx, target: &mut GraphNode) {
        let Some(input) = &written.target_input else { return };
        if target.inputs.iter().any(|(name, _)| name == input) {
            let message = format!("node '{}' has an input '{input}' already; remove one of them", target.id);
            return self.findings.objection(format!("{place}.targetInput"), message);
        }
        let key = written.source_output.clone().unwrap_or_else(|| "output".to_owned());
        target.inputs.push((input.clone(), Port::Carried { node: source, key }));
    }

    fn end(&mut self, place: &str, key: &str, id: &str) -> Option<NodeIx> {
        let found = self.index.get(id).copied();
        if found.is_none() {
            self.findings.problem(format!("{place}.{key}"), format!("there is no node '{id}'"));
        }
        found
    }

    /// Finds the loops and marks the edges that close or leave them.
    fn loops(&mut self, nodes: &mut [GraphNode], edges: &mut Vec<GraphEdge>) -> Option<Vec<loops::Loop>> {
        let pairs =
            |edges: &[GraphEdge]| -> Vec<_> { edges.iter().map(|edge| (edge.source, edge.target)).collect() };
        let may_loop: Vec<bool> =
            nodes.iter().map(|node| node.loop_max.is_some() || GATES.contains(&&*node.type_id)).collect();
        let begins = super::refine::beginnings(nodes.len(), edges);
        let mut found = loops::find(&pairs(edges), &may_loop, &begins)
            .and_then(|found| super::refine::lead_back(found, edges));
        if let Some(bad) = found.as_ref().err().filter(|_| edges.iter().any(|edge| edge.implied)) {
            self.take_back(bad, nodes, edges);
            found = loops::find(&pairs(edges), &may_loop, &vec![false; nodes.len()]);
        }
        let found = match found {
            Ok(found) => found,
            Err(bad) => {
                self.findings.problem("edges", explain(&bad, nodes));
                return None;
            }
        };
        for (ix, found) in found.iter().enumerate().rev() {
            for &member in &found.members {
                nodes[member as usize].loops.push(ix as u32);
            }
            for &back in &found.back {
                edges[back as usize].back = Some(ix as u32);
            }
        }
        for edge in edges.iter_mut() {
            let (around, inside) = (&nodes[edge.source as usize].loops, &nodes[edge.target as usize].loops);
            edge.leaves = around.iter().rev().find(|&ix| !inside.contains(ix)).copied();
        }
        Some(found)
    }

    /// Counts the edges that lead to each node by their rules.
    fn group(&mut self, nodes: &mut [GraphNode], edges: &mut [GraphEdge]) {
        for edge in edges.iter_mut().filter(|edge| edge.back.is_none()) {
            let groups = &mut nodes[edge.target as usize].groups;
            let at = groups.iter().position(|(rule, _)| *rule == edge.rule).unwrap_or_else(|| {
                groups.push((edge.rule, 0));
                groups.len() - 1
            });
            groups[at].1 += 1;
            edge.group = at as u8;
        }
    }
}

/// What a kind is taken for if its definition does not say: only what HTTP itself calls idempotent, and what has no
/// effect at all.
fn is_idempotent(work: &Work) -> bool {
    match work {
        Work::Http(http) => !matches!(http.method.as_str(), "POST" | "PATCH"),
        // Somebody has seen what it said.
        Work::Turn(_) => false,
        _ => true,
    }
}

pub(super) fn explain(bad: &BadCycle, nodes: &[GraphNode]) -> String {
    let name = |ix: &NodeIx| &*nodes[*ix as usize].id;
    match bad {
        BadCycle::Undeclared(cycle) => {
            let mut names: Vec<&str> = cycle.iter().take(CYCLE_NAMES_MAX).map(name).collect();
            let more = cycle.len().saturating_sub(CYCLE_NAMES_MAX);
            let rest = format!("… ({more} more)");
            if more > 0 {
                names.push(&rest);
            }
            format!(
                "{} is a cycle that nothing bounds; remove one of its edges, or declare the loop with \
                 settings.abide.loop on one of its nodes",
                names.join(" → ")
            )
        }
        BadCycle::TwoEntries(a, b) => {
            format!("a loop is entered at '{}' and at '{}'; let it have one entry", name(a), name(b))
        }
        BadCycle::Ahead(at) => format!("'{}' does not come before what would have it made again", name(at)),
        BadCycle::TooMany(at) => format!(
            "there are more than {} loops, or more than {} within each other, at '{}'; split the workflow",
            loops::LOOPS_MAX,
            loops::DEPTH_MAX,
            name(at)
        ),
    }
}

/// Whether one attempt of such a node may be told how long it may take.
fn may_time_out(kind: Kind) -> bool {
    kind.is_turn() || kind == Kind::Unknown
}

/// Whether failed attempts of such a node may be made again.
fn may_retry(kind: Kind) -> bool {
    kind.is_turn() || matches!(kind, Kind::Http | Kind::Unknown)
}
