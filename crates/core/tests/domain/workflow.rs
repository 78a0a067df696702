//! Workflow definitions as tests write them: nodes by kind, edges as `a > b > c`.
//!
//! What is written here is always well-formed. Malformed definitions are the matter of `definitions.rs`.

use std::sync::Arc;

use abide_core::{Graph, Millis};
use serde_json::{Value, json};

/// A definition in the making.
#[derive(Clone, Debug)]
pub(crate) struct Workflow {
    nodes: Vec<Sketch>,
    edges: Vec<(String, String)>,
    variables: Vec<Value>,
}

/// A node in the making.
#[derive(Clone, Debug)]
pub(crate) struct Sketch(Value);

/// Where an input comes from.
#[derive(Clone, Debug)]
pub(crate) struct Source(Value);

pub(crate) fn workflow(nodes: impl IntoIterator<Item = Sketch>) -> Workflow {
    Workflow { nodes: nodes.into_iter().collect(), edges: Vec::new(), variables: Vec::new() }
}

impl Workflow {
    /// Adds the edges of a path, written `a > b > c`.
    pub(crate) fn flow(mut self, path: &str) -> Self {
        let stops: Vec<&str> = path.split('>').map(str::trim).collect();
        let pairs = stops.windows(2);
        self.edges.extend(pairs.map(|pair| (pair[0].to_owned(), pair[1].to_owned())));
        self
    }

    /// Declares a variable that a caller may pass in.
    pub(crate) fn variable(mut self, name: &str, kind: &str) -> Self {
        self.variables.push(json!({"name": name, "type": kind}));
        self
    }

    /// Declares a variable that a caller must pass in.
    pub(crate) fn required(mut self, name: &str, kind: &str) -> Self {
        self.variables.push(json!({"name": name, "type": kind, "required": true}));
        self
    }

    /// Gives the variable declared last a default.
    pub(crate) fn or(mut self, default: Value) -> Self {
        let last = self.variables.last_mut().expect("a variable was declared");
        last["defaultValue"] = default;
        self
    }

    pub(crate) fn graph(&self) -> Arc<Graph> {
        let parsed = Graph::parse(self.text().as_bytes());
        Arc::new(parsed.unwrap_or_else(|problems| panic!("the test's own definition is wrong: {problems:?}")))
    }

    /// The definition as it is written.
    pub(crate) fn text(&self) -> String {
        let edges: Vec<Value> = (0..)
            .zip(&self.edges)
            .map(|(n, (from, to)): (u32, _)| {
                json!({"id": format!("e{n}"), "sourceNodeId": from, "targetNodeId": to})
            })
            .collect();
        let nodes: Vec<&Value> = self.nodes.iter().map(|node| &node.0).collect();
        let definition = json!({
            "id": "story", "name": "Story", "version": "1", "nodes": nodes, "edges": edges,
            "triggers": [], "variables": self.variables, "metadata": {}, "settings": {},
        });
        definition.to_string()
    }
}

pub(crate) fn of_kind(id: &str, type_id: &str) -> Sketch {
    Sketch(json!({
        "id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": {}, "inputs": {},
    }))
}

pub(crate) fn noop(id: &str) -> Sketch {
    of_kind(id, "core.noop")
}

pub(crate) fn identity(id: &str) -> Sketch {
    of_kind(id, "core.identity")
}

pub(crate) fn fail(id: &str) -> Sketch {
    of_kind(id, "core.fail")
}

pub(crate) fn delay(id: &str, ms: Millis) -> Sketch {
    of_kind(id, "core.delay").config("ms", json!(ms))
}

/// A no-op that is handed to an executor, so that its outcome is unknown until it is reported.
pub(crate) fn task(id: &str) -> Sketch {
    noop(id).durable()
}

impl Sketch {
    pub(crate) fn durable(mut self) -> Self {
        self.0["settings"] = json!({"abide": {"durable": true}});
        self
    }

    pub(crate) fn config(mut self, name: &str, value: Value) -> Self {
        self.0["config"][name] = value;
        self
    }

    pub(crate) fn input(mut self, name: &str, source: Source) -> Self {
        self.0["inputs"][name] = source.0;
        self
    }
}

pub(crate) fn fixed(value: &Value) -> Source {
    Source(json!({"type": "static", "value": value}))
}

pub(crate) fn variable(name: &str) -> Source {
    Source(json!({"type": "variable", "variableName": name}))
}

pub(crate) fn output(node: &str, key: &str) -> Source {
    Source(json!({"type": "connection", "nodeId": node, "outputKey": key}))
}

impl Source {
    pub(crate) fn optional(mut self) -> Self {
        self.0["optional"] = json!(true);
        self
    }
}
