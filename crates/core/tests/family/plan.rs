//! Random families of workflow definitions: what a run and its children will follow.
//!
//! Nodes are numbered, and edges lead from lower to higher numbers. A loop is a stretch of numbers that is entered
//! only at its first node, so whatever is drawn here is admitted.

use std::sync::Arc;

use abide_core::{Graph, Json, JsonMap};
use serde_json::{Value, json};

use crate::dice::{Dice, Tape};
use crate::expressions::{self, Place};

/// What must be shown nowhere.
pub(crate) const MARKER: &str = "marker-4f1d9c";

/// The definitions of one family, what the first run is started with, and what others answer.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) inputs: JsonMap,
    pub(crate) configurable: Option<Json>,
    /// Nothing in it depends on who is quicker.
    pub(crate) calm: bool,
    /// Fixes what other systems answer.
    pub(crate) answers: u64,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "inputs {:?}, options {:?}", self.inputs, self.configurable)?;
        self.drafts.iter().try_for_each(|draft| {
            writeln!(f, "workflow {}, settings {}", draft.definition["id"], draft.definition["settings"])?;
            let parts = ["nodes", "edges"].into_iter().filter_map(|part| draft.definition[part].as_array());
            parts.flatten().try_for_each(|part| writeln!(f, "  {part}"))
        })
    }
}

/// One definition with what the judge has to know of it.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) graph: Arc<Graph>,
    pub(crate) definition: Value,
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) loops: Vec<Loop>,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: &'static str,
    pub(crate) disabled: bool,
    /// The ports that take another node's output: the port, the node, the output.
    pub(crate) connections: Vec<(String, usize, String)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) source: usize,
    pub(crate) target: usize,
    pub(crate) rule: &'static str,
    pub(crate) back: bool,
}

/// A stretch of nodes that is entered at the first one and goes back to it.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) head: usize,
    pub(crate) last: usize,
}

impl Loop {
    fn holds(&self, node: usize) -> bool {
        (self.head..=self.last).contains(&node)
    }
}

/// The iterations of a loop that outlasts a single decision.
const LONG: usize = 650;

pub(crate) const RULES: [&str; 5] =
    ["all_success", "all_complete", "none_failed", "any_success", "any_failed"];

/// Workflows of a family are called by their depth: each runs only those behind it.
pub(crate) fn workflow_id(at: usize) -> String {
    format!("w{at}")
}

impl Plan {
    pub(crate) fn draw(tape: &Tape, calm: bool) -> Self {
        let dice = &mut Dice::new(tape);
        let answers = dice.below(1 << 16) as u64;
        let count = dice.weighted(&[(3, 1), (4, 2), (3, 3), (2, 4)]);
        let configurable = (!calm).then(|| caps(dice)).flatten();
        let inputs = inputs(dice);
        let drafts = (0..count).map(|at| Draft::draw(dice, at, count, calm)).collect();
        Self { drafts, inputs, configurable, calm, answers }
    }

    /// The definition with this id.
    pub(crate) fn named(&self, id: &str) -> Option<usize> {
        (0..self.drafts.len()).find(|&at| workflow_id(at) == id)
    }
}

fn caps(dice: &mut Dice) -> Option<Json> {
    let mut caps = serde_json::Map::new();
    if dice.chance(12) {
        caps.insert("recursionLimit".into(), json!(dice.among(1..=25)));
    }
    if dice.chance(12) {
        caps.insert("runTimeoutMs".into(), json!(dice.among(1..=900)));
    }
    if dice.chance(12) {
        caps.insert("maxLoopIterations".into(), json!(dice.among(1..=3)));
    }
    (!caps.is_empty()).then(|| Json::of(&caps))
}

fn inputs(dice: &mut Dice) -> JsonMap {
    let mut inputs = JsonMap::from([("secret".to_owned(), Json::of(&format!("it is {MARKER}")))]);
    if dice.chance(50) {
        inputs.insert("count".into(), Json::of(&dice.below(4)));
    }
    if dice.chance(20) {
        inputs.insert("stray".into(), Json::of("nobody declared this"));
    }
    inputs
}

/// A definition in the making.
struct Drawing<'a> {
    dice: &'a mut Dice,
    at: usize,
    count: usize,
    calm: bool,
    size: usize,
    loops: Vec<Loop>,
    edges: Vec<Edge>,
    written: Vec<Value>,
    kinds: Vec<&'static str>,
    children: usize,
}

impl Draft {
    fn draw(dice: &mut Dice, at: usize, count: usize, calm: bool) -> Self {
        let size = dice.among(1..=if at == 0 { 12 } else { 6 });
        let (loops, edges, written, kinds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut drawing = Drawing { dice, at, count, calm, size, loops, edges, written, kinds, children: 0 };
        drawing.draw_loops();
        drawing.kinds = (0..size).map(|ix| drawing.draw_kind(ix)).collect();
        drawing.draw_edges();
        drawing.close_loops();
        let nodes: Vec<(Node, Value)> = (0..size).map(|ix| drawing.draw_node(ix)).collect();
        (0..drawing.edges.len()).for_each(|ix| drawing.write_edge(ix, &nodes));
        drawing.finish(nodes)
    }
}

impl Drawing<'_> {
    /// Up to three loops; two lie in each other or beside each other, never across.
    fn draw_loops(&mut self) {
        let most = self.dice.weighted(&[(4, 0), (5, 1), (3, 2), (1, 3)]);
        for _ in 0..most {
            let head = self.dice.below(self.size);
            let last = self.dice.among(head..=self.size - 1);
            let drawn = Loop { head, last };
            let across = |other: &Loop| {
                let apart = drawn.last < other.head || other.last < drawn.head;
                let within = |inner: &Loop, outer: &Loop| outer.holds(inner.head) && outer.holds(inner.last);
                !(apart || within(&drawn, other) || within(other, &drawn))
            };
            if !self.loops.iter().any(across) {
                self.loops.push(drawn);
            }
        }
    }

    fn draw_edges(&mut self) {
        for target in 1..self.size {
            // What lies in a loop is reached from its entry, or the loop would have a second one.
            let around = self.loops.iter().filter(|found| found.holds(target) && found.head != target);
            if let Some(head) = around.map(|found| found.head).max() {
                let source = self.dice.among(head..=target - 1);
                self.add_edge(source, target);
            }
            for _ in 0..self.dice.weighted(&[(5, 1), (2, 0), (3, 2), (1, 3)]) {
                let source = target - 1 - self.dice.below(target);
                self.add_edge(source, target);
            }
        }
    }

    /// Adds an edge, led to the entry of the loop that it would otherwise break into.
    fn add_edge(&mut self, source: usize, target: usize) {
        let broken = self.loops.iter().filter(|found| found.holds(target) && !found.holds(source));
        let target = broken.map(|found| found.head).min().unwrap_or(target);
        let rules = if self.calm { &RULES[..3] } else { &RULES[..] };
        let same = self.edges.iter().find(|edge| edge.target == target).map(|edge| edge.rule);
        let fails = matches!(self.kinds[source], "core.fail" | "acme.unknown" | "core.http.request");
        let rule = match self.dice.below(10) {
            0..=3 if fails && !self.calm => *self.dice.pick(&["all_complete", "any_failed", "any_success"]),
            0..=6 if fails => "all_complete",
            7..=9 => *self.dice.pick(rules),
            _ => same.unwrap_or(RULES[0]),
        };
        self.edges.push(Edge { source, target, rule, back: false });
    }

    fn close_loops(&mut self) {
        for found in self.loops.clone() {
            for _ in 0..self.dice.weighted(&[(4, 1), (1, 2)]) {
                let source = self.dice.among(found.head..=found.last);
                let rule = if self.dice.chance(50) { self.dice.pick(&RULES) } else { RULES[0] };
                self.edges.push(Edge { source, target: found.head, rule, back: true });
            }
        }
    }

    /// The nodes that a node may read: those before it, or only those next to it if nothing may depend on time.
    fn readable(&self, node: usize) -> Vec<usize> {
        let into = |node: usize| self.edges.iter().filter(move |edge| edge.target == node);
        let mut found: Vec<usize> = into(node).filter(|edge| !edge.back).map(|edge| edge.source).collect();
        if !self.calm {
            let mut at = 0;
            while let Some(&node) = found.get(at) {
                for edge in into(node) {
                    if !found.contains(&edge.source) {
                        found.push(edge.source);
                    }
                }
                at += 1;
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn draw_kind(&mut self, node: usize) -> &'static str {
        let looping = self.loops.iter().any(|found| found.holds(node));
        let may_call = self.at + 1 < self.count && self.children < 2 && (!looping || self.at == 0);
        let kind = self.dice.weighted(&[
            (10, "core.noop"),
            (12, "core.identity"),
            (16, "core.transform"),
            (14, "core.delay"),
            (16, "core.http.request"),
            (8, "core.branch"),
            (8, "core.channelWrite"),
            (4, "core.fail"),
            (2, "acme.unknown"),
            (if may_call { 25 } else { 0 }, "core.subWorkflow"),
        ]);
        self.children += usize::from(kind == "core.subWorkflow");
        kind
    }

    fn draw_node(&mut self, ix: usize) -> (Node, Value) {
        let kind = self.kinds[ix];
        let pure = !matches!(kind, "core.http.request" | "core.delay" | "core.subWorkflow" | "acme.unknown");
        let durable = pure && self.dice.chance(25);
        let later = durable || kind == "core.http.request";
        let place = Place { calm: self.calm, readable: self.readable(ix) };
        let mut connections = Vec::new();
        let mut inputs = serde_json::Map::new();
        for name in port_names(kind) {
            if self.dice.chance(55) {
                let port = self.draw_port(name, kind, &place, &mut connections);
                inputs.insert((*name).to_owned(), port);
            }
        }
        if kind == "core.channelWrite" {
            inputs.entry("value").or_insert_with(|| json!({"type": "static", "value": ix}));
        }
        let named = inputs.keys().cloned().collect::<Vec<_>>();
        let config = self.draw_config(ix, kind, later, &named, &place);
        let mut abide = serde_json::Map::new();
        if durable {
            abide.insert("durable".into(), json!(true));
        }
        self.draw_settings(ix, kind, &mut abide);
        let disabled = self.dice.chance(4);
        let mut written = json!({
            "id": node_id(ix), "typeId": kind, "name": "A node", "position": {"x": 0, "y": 0},
            "config": config, "inputs": inputs, "settings": {"abide": abide}, "disabled": disabled,
        });
        if self.dice.chance(5) {
            written["outputSensitivity"] = json!({"x": true});
        }
        if ix.is_multiple_of(3) {
            written["artifactType"] = json!("thing");
        }
        (Node { kind, disabled, connections }, written)
    }

    fn draw_settings(&mut self, ix: usize, kind: &str, abide: &mut serde_json::Map<String, Value>) {
        if kind == "core.http.request" {
            if self.dice.chance(60) {
                let strategy = *self.dice.pick(&["fixed", "linear", "exponential", "none"]);
                let (retries, jitter) = (self.dice.among(1..=3), self.dice.chance(30));
                abide.insert(
                    "retry".into(),
                    json!({"strategy": strategy, "maxRetries": retries, "baseDelayMs": 10, "maxDelayMs": 100, "jitter": jitter}),
                );
            }
            if self.dice.chance(40) {
                abide.insert("idempotent".into(), json!(self.dice.chance(50)));
            }
        }
        if self.loops.iter().any(|found| found.head == ix) {
            let calling = self.at + 1 < self.count;
            let long = !calling && self.loops.len() == 1 && self.dice.chance(8);
            let most = if long { LONG } else { self.dice.among(1..=4) };
            let declared = if self.dice.chance(10) { json!({}) } else { json!({"maxIterations": most}) };
            abide.insert("loop".into(), declared);
        }
    }

    fn draw_port(
        &mut self,
        name: &str,
        kind: &str,
        place: &Place,
        connections: &mut Vec<(String, usize, String)>,
    ) -> Value {
        if kind == "core.delay" && !self.dice.chance(10) {
            return json!({"type": "static", "value": self.dice.below(100)});
        }
        match self.dice.below(4) {
            1 => {
                let known = ["count", "text", "secret", "never"];
                json!({"type": "variable", "variableName": self.dice.pick(&known), "optional": !self.dice.chance(5)})
            }
            2 if !place.readable.is_empty() => {
                let from = *self.dice.pick(&place.readable);
                let key = *self.dice.pick(&["x", "x", "y", "branch", "none"]);
                connections.push((name.to_owned(), from, key.to_owned()));
                let optional = !self.dice.chance(5);
                json!({"type": "connection", "nodeId": node_id(from), "outputKey": key, "optional": optional})
            }
            3 => json!({"type": "expression", "expression": expressions::value(self.dice, place, &[])}),
            _ => json!({"type": "static", "value": "plain"}),
        }
    }

    fn draw_config(&mut self, ix: usize, kind: &str, later: bool, inputs: &[String], place: &Place) -> Value {
        // What an executor runs sees nothing but its inputs.
        let alone = Place { calm: true, readable: Vec::new() };
        let (place, inputs) = if later { (&alone, inputs) } else { (place, inputs) };
        let value = |dice: &mut Dice| match later {
            true => expressions::of_inputs(dice, inputs),
            false => expressions::value(dice, place, inputs),
        };
        match kind {
            "core.transform" => {
                let mut config = json!({"outputs": {"x": value(self.dice)}});
                if self.dice.chance(40) {
                    config["outputs"]["y"] = json!(value(self.dice));
                }
                if self.dice.chance(50) {
                    let assigned = value(self.dice);
                    config["assign"] = match self.dice.below(3) {
                        1 if !self.calm && !later => {
                            json!({"count": "size(variables) + 1", "free": assigned})
                        }
                        _ => json!({self.draw_variable(ix): assigned}),
                    };
                }
                config
            }
            "core.branch" => {
                let when = |dice: &mut Dice| match later {
                    true => expressions::test_of_inputs(dice, inputs),
                    false => expressions::test(dice, place),
                };
                let mut config = json!({"cases": [{"name": "left", "when": when(self.dice)},
                    {"name": "right", "when": when(self.dice)}]});
                if !self.dice.chance(15) {
                    config["default"] = json!("else");
                }
                config
            }
            "core.channelWrite" => self.draw_write(ix),
            "core.delay" => json!({"ms": self.dice.below(400)}),
            "core.fail" => json!({"code": "planned", "message": "it was to fail"}),
            "core.http.request" => {
                let method = *self.dice.pick(&["GET", "POST", "PUT"]);
                let path = inputs.first().map_or(String::new(), |name| format!("{{{{ inputs.{name} }}}}"));
                json!({"method": method, "url": format!("https://service.example/{path}")})
            }
            "core.subWorkflow" => self.draw_call(ix),
            _ => json!({}),
        }
    }

    /// A variable that a node assigns. In a calm plan it is nobody else's.
    fn draw_variable(&mut self, ix: usize) -> String {
        if self.calm {
            format!("own{ix}")
        } else {
            (*self.dice.pick(&["free", "free", "free", "free", "free2", "free2", "free2", "text"])).into()
        }
    }

    fn draw_write(&mut self, ix: usize) -> Value {
        if self.calm {
            return json!({"channelName": format!("own{ix}"), "reducer": "append"});
        }
        match self.dice.below(10) {
            1 | 2 => json!({"channelName": "last"}),
            3..=5 => json!({"channelName": "hush"}),
            6 => json!({"channelName": "total"}),
            7 => json!({"channelName": "loose", "reducer": self.dice.pick(&["replace", "append", "merge"])}),
            _ => json!({"channelName": "log"}),
        }
    }

    fn draw_call(&mut self, ix: usize) -> Value {
        let missing = self.dice.chance(8);
        let called = self.at + 1 + self.dice.below(self.count - self.at - 1);
        let id = if missing { "missing".to_owned() } else { workflow_id(called) };
        let mut config = json!({"workflowId": id});
        let wait = !self.dice.chance(25);
        config["waitForCompletion"] = json!(wait);
        config["onChildFailure"] = json!(self.dice.pick(&["absorb", "fail-parent"]));
        config["propagateCancellation"] = json!(!self.dice.chance(30));
        if self.dice.chance(70) {
            config["inputMapping"] = match self.dice.below(12) {
                0..=3 => json!({"count": "count"}),
                4..=6 => json!({"text": "secret"}),
                7..=9 => json!({"secret": "secret", "stray": "stray"}),
                10 => json!({"secret": "secret", "count": "never"}),
                _ => json!({"count": "text"}),
            };
        }
        if wait && self.dice.chance(60) {
            let ours = self.draw_variable(ix);
            config["outputMapping"] =
                json!({ours: self.dice.pick(&["count", "text", "secret", "free", "own0"])});
        }
        config
    }

    fn write_edge(&mut self, ix: usize, nodes: &[(Node, Value)]) {
        let edge = self.edges[ix].clone();
        let (source, target) = (node_id(edge.source), node_id(edge.target));
        let mut written = json!({"id": format!("e{ix}"), "sourceNodeId": source, "targetNodeId": target, "triggerRule": edge.rule});
        let place = Place { calm: self.calm, readable: Vec::new() };
        if edge.back {
            written["condition"] = {
                let declared = &nodes[edge.target].1["settings"]["abide"]["loop"]["maxIterations"];
                expressions::again(self.dice, edge.source, *declared == LONG)
            };
        } else if self.dice.chance(40) {
            written["condition"] = expressions::condition(self.dice, &place);
        }
        if nodes[edge.source].0.kind == "core.branch" && self.dice.chance(60) {
            let known = nodes[edge.source].1["config"]["default"].is_string();
            let cases: &[&str] = if known { &["left", "right", "else"] } else { &["left", "right"] };
            written["sourceOutput"] = json!(self.dice.pick(cases));
        }
        self.written.push(written);
    }

    fn finish(self, nodes: Vec<(Node, Value)>) -> Draft {
        let mut settings = json!({});
        if !self.calm && self.dice.chance(8) {
            settings["timeout"] = json!(self.dice.among(1..=900));
        }
        // A run that is held for people goes on when it does, which depends on who is quicker.
        if self.calm || self.dice.chance(50) {
            settings["abide"] = json!({"resume": {"maxAttempts": 0, "onRefusal": "fail"}});
        }
        if self.dice.chance(15) {
            settings["maxRetries"] = json!(self.dice.among(0..=3));
        }
        if self.dice.chance(15) {
            settings["maxLoopbackIterations"] = json!(self.dice.among(1..=3));
        }
        let (nodes, written): (Vec<Node>, Vec<Value>) = nodes.into_iter().unzip();
        let definition = json!({
            "id": workflow_id(self.at), "name": "Drawn", "version": "1", "nodes": written,
            "edges": self.written, "triggers": [], "variables": variables(), "metadata": {},
            "settings": settings, "channels": channels(),
        });
        let admitted = Graph::admit(definition.to_string().as_bytes());
        let graph = admitted.unwrap_or_else(|wrong| panic!("a drawn definition is refused: {wrong:#?}"));
        let (loops, edges) = (self.loops, self.edges);
        Draft { graph: Arc::new(graph), definition, nodes, edges, loops }
    }
}

pub(crate) fn node_id(ix: usize) -> String {
    format!("n{ix}")
}

fn port_names(kind: &str) -> &'static [&'static str] {
    match kind {
        "core.delay" => &["delayMs"],
        "core.channelWrite" => &["value"],
        "core.subWorkflow" => &["text"],
        "core.noop" | "core.fail" | "acme.unknown" => &["x"],
        _ => &["x", "y"],
    }
}

fn variables() -> Value {
    json!([
        {"name": "count", "type": "number", "defaultValue": 0},
        {"name": "text", "type": "string", "defaultValue": "a text"},
        {"name": "secret", "type": "string", "sensitive": true, "defaultValue": format!("it was {MARKER}")},
        {"name": "never", "type": "number"},
    ])
}

fn channels() -> Value {
    json!({
        "log": {"reducer": "append"},
        "last": {"reducer": "replace", "default": "nothing"},
        "hush": {"reducer": "replace", "sensitive": true},
        "total": {"reducer": "counter"},
    })
}
