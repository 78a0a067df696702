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
    edges: Vec<Value>,
    variables: Vec<Value>,
    /// Keys of the definition itself: settings, channels and what else a test names.
    rest: Value,
    mocks: bool,
}

/// A node in the making.
#[derive(Clone, Debug)]
pub(crate) struct Sketch(Value);

/// Where an input comes from.
#[derive(Clone, Debug)]
pub(crate) struct Source(Value);

pub(crate) fn workflow(nodes: impl IntoIterator<Item = Sketch>) -> Workflow {
    let nodes = nodes.into_iter().collect();
    Workflow { nodes, edges: Vec::new(), variables: Vec::new(), rest: json!({}), mocks: false }
}

impl Workflow {
    /// Adds the edges of a path, written `a > b > c`.
    pub(crate) fn flow(mut self, path: &str) -> Self {
        let stops: Vec<&str> = path.split('>').map(str::trim).collect();
        for pair in stops.windows(2) {
            let id = format!("e{}", self.edges.len());
            self.edges.push(json!({"id": id, "sourceNodeId": pair[0], "targetNodeId": pair[1]}));
        }
        self
    }

    /// Adds the edges of a path, all under one rule.
    pub(crate) fn under(self, rule: &str, path: &str) -> Self {
        let before = self.edges.len();
        let mut workflow = self.flow(path);
        workflow.edges[before..].iter_mut().for_each(|edge| edge["triggerRule"] = json!(rule));
        workflow
    }

    /// Says more about the edge added last: its rule, its condition, what it carries.
    pub(crate) fn edge(mut self, key: &str, value: Value) -> Self {
        let last = self.edges.last_mut().expect("an edge was added");
        last[key] = value;
        self
    }

    /// Gives the edge added last a condition in CEL.
    pub(crate) fn when(self, expression: &str) -> Self {
        self.edge("condition", json!({"type": "expression", "expression": expression}))
    }

    /// Lets the edge added last leave a branch by one of its cases.
    pub(crate) fn case(self, name: &str) -> Self {
        self.edge("sourceOutput", json!(name))
    }

    /// Keeps the values of the variable declared last from being shown.
    pub(crate) fn sensitive(mut self) -> Self {
        let last = self.variables.last_mut().expect("a variable was declared");
        last["sensitive"] = json!(true);
        self
    }

    pub(crate) fn channel(mut self, name: &str, declaration: Value) -> Self {
        self.rest["channels"][name] = declaration;
        self
    }

    pub(crate) fn settings(mut self, name: &str, value: Value) -> Self {
        self.rest["settings"][name] = value;
        self
    }

    /// A key of the definition itself.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.rest[key] = value;
        self
    }

    /// Lets its nodes play the mocks of the public fixtures.
    pub(crate) fn with_mocks(mut self) -> Self {
        self.mocks = true;
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
        let admitted = Graph::admit(self.text().as_bytes());
        let graph =
            admitted.unwrap_or_else(|problems| panic!("the test's own definition is wrong: {problems:?}"));
        Arc::new(graph.with_mocks(self.mocks))
    }

    /// The definition as one that was admitted long ago, by fewer rules.
    pub(crate) fn old_graph(&self) -> Arc<Graph> {
        Arc::new(Graph::read(self.text().as_bytes()).expect("the definition can be read"))
    }

    /// What is wrong with the definition, one problem per line.
    pub(crate) fn problems(&self) -> String {
        let refused = Graph::admit(self.text().as_bytes()).expect_err("the definition is refused");
        refused.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    /// The definition as it is written.
    pub(crate) fn text(&self) -> String {
        let nodes: Vec<&Value> = self.nodes.iter().map(|node| &node.0).collect();
        let mut definition = json!({
            "id": "story", "name": "Story", "version": "1", "nodes": nodes, "edges": self.edges,
            "triggers": [], "variables": self.variables, "metadata": {}, "settings": {},
        });
        for (key, value) in self.rest.as_object().expect("the rest is an object") {
            definition[key] = value.clone();
        }
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

/// A node that sends a request; nobody is called, since the tests report what came of it.
pub(crate) fn http(id: &str, method: &str) -> Sketch {
    let node = of_kind(id, "core.http.request").config("method", json!(method));
    node.config("url", json!("https://service.example/things"))
}

pub(crate) fn transform(id: &str) -> Sketch {
    of_kind(id, "core.transform")
}

/// A node that chooses the first of these cases that holds, each a name and an expression.
pub(crate) fn branch(id: &str, cases: &[(&str, &str)]) -> Sketch {
    let cases: Vec<Value> = cases.iter().map(|(name, when)| json!({"name": name, "when": when})).collect();
    of_kind(id, "core.branch").config("cases", json!(cases))
}

pub(crate) fn channel_write(id: &str, channel: &str) -> Sketch {
    of_kind(id, "core.channelWrite").config("channelName", json!(channel))
}

/// A node that runs another workflow and waits for it.
pub(crate) fn child(id: &str, workflow_id: &str) -> Sketch {
    of_kind(id, "core.subWorkflow").config("workflowId", json!(workflow_id))
}

/// A no-op that is handed to an executor, so that its outcome is unknown until it is reported.
pub(crate) fn task(id: &str) -> Sketch {
    noop(id).durable()
}

impl Sketch {
    pub(crate) fn durable(self) -> Self {
        self.setting("durable", json!(true))
    }

    /// One of the settings that are Abide's own.
    pub(crate) fn setting(mut self, name: &str, value: Value) -> Self {
        self.0["settings"]["abide"][name] = value;
        self
    }

    /// Lets the node close a loop that goes back at most so often.
    pub(crate) fn looping(self, most: u32) -> Self {
        self.setting("loop", json!({"maxIterations": most}))
    }

    pub(crate) fn disabled(mut self) -> Self {
        self.0["disabled"] = json!(true);
        self
    }

    /// A key of the node itself.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.0[key] = value;
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

pub(crate) fn expression(text: &str) -> Source {
    Source(json!({"type": "expression", "expression": text}))
}

impl Source {
    pub(crate) fn optional(mut self) -> Self {
        self.0["optional"] = json!(true);
        self
    }
}
