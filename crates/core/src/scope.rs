//! The names that expressions of a run can read.

use serde::Serialize;

use crate::event::Failure;
use crate::expression::{Fault, Scope};
use crate::node::NodePhase;
use crate::{Json, JsonMap, Millis, Node, NodeIx, Run, RunId};

/// What an expression sees, by where it stands.
pub(crate) struct RunScope<'a> {
    run: &'a Run,
    /// In a node's config: what goes into the node.
    inputs: Option<&'a JsonMap>,
    /// On an edge: how its source ended.
    source: Option<Source<'a>>,
}

/// How the source of an edge ended.
pub(crate) struct Source<'a> {
    /// Which node it is.
    pub(crate) ix: NodeIx,
    pub(crate) outputs: Option<&'a Json>,
    pub(crate) error: Option<&'a Failure>,
    /// Something among the outputs is never shown.
    pub(crate) hidden: bool,
}

/// A node as expressions see it.
#[derive(Serialize)]
struct NodeView<'a> {
    status: &'static str,
    outputs: Option<&'a Json>,
    error: Option<&'a Failure>,
    execution: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RunView<'a> {
    id: RunId,
    workflow_id: &'a str,
    started_at_ms: Millis,
    tags: &'a [String],
}

impl<'a> RunScope<'a> {
    /// For a port: nothing but the run.
    pub(crate) fn port(run: &'a Run) -> Self {
        Self { run, inputs: None, source: None }
    }

    /// For a node's config.
    pub(crate) fn node(run: &'a Run, inputs: &'a JsonMap) -> Self {
        Self { run, inputs: Some(inputs), source: None }
    }

    /// For the condition of an edge.
    pub(crate) fn edge(run: &'a Run, source: Source<'a>) -> Self {
        Self { run, inputs: None, source: Some(source) }
    }

    /// Whether something that is never shown would be read.
    pub(crate) fn hides(&self, reads: &[(String, Option<String>)], inputs_hidden: bool) -> bool {
        let state = &self.run.state;
        reads.iter().any(|(root, field)| match (root.as_str(), field) {
            ("inputs", _) => inputs_hidden,
            ("variables", Some(name)) => self.run.hides_variable(name),
            ("variables", None) => !state.sensitive.is_empty(),
            ("channels", Some(name)) => self.run.hides_channel(name),
            ("channels", None) => state.channels.keys().any(|name| self.run.hides_channel(name)),
            ("nodes", Some(id)) => self.hides_node(id),
            ("output", _) => self.source.as_ref().is_some_and(|source| source.hidden),
            _ => false,
        })
    }

    /// A fault as it is recorded: its words may repeat what the expression read, so they are not kept if that is
    /// never shown.
    pub(crate) fn told(
        &self,
        fault: Fault,
        reads: &[(String, Option<String>)],
        inputs_hidden: bool,
        place: &str,
    ) -> Failure {
        if !self.hides(reads, inputs_hidden) {
            return fault.at(place);
        }
        let message =
            format!("{place} can't be evaluated; why is withheld, because it reads something sensitive");
        Failure::new(fault.code, message)
    }

    fn hides_node(&self, id: &str) -> bool {
        let ended = self.source.as_ref().filter(|source| self.run.graph().node(id) == Some(source.ix));
        ended.is_some_and(|source| source.hidden) || self.node_named(id).is_some_and(Node::hides_something)
    }

    /// A node as it stands. The source of an edge has ended, though that is not recorded yet.
    fn node_view(&self, id: &str) -> Option<Json> {
        let ix = self.run.graph().node(id)?;
        let node = self.run.node(ix);
        Some(match self.source.as_ref().filter(|source| source.ix == ix) {
            Some(source) => Json::of(&NodeView {
                status: self.status(),
                outputs: source.outputs,
                error: source.error,
                execution: node.execution,
            }),
            None => view(node),
        })
    }

    fn node_named(&self, id: &str) -> Option<&'a Node> {
        self.run.graph().node(id).map(|ix| self.run.node(ix))
    }

    fn run_view(&self) -> Json {
        Json::of(&RunView {
            id: self.run.spoken_id(),
            workflow_id: &self.run.graph().workflow_id,
            started_at_ms: self.run.started_at(),
            tags: self.run.tags(),
        })
    }
}

impl Scope for RunScope<'_> {
    fn get(&self, root: &str, field: Option<&str>) -> Option<Json> {
        let run = self.run;
        match root {
            "variables" => of_map(run.variables(), field),
            "channels" => of_map(run.channels(), field),
            "inputs" => of_map(self.inputs?, field),
            "nodes" => self.node_view(field?),
            "configurable" => of_json(run.configurable(), field),
            "run" => of_json(Some(&self.run_view()), field),
            "output" => of_json(self.source.as_ref()?.outputs, field),
            "status" => field.is_none().then(|| Json::of(self.status())),
            "error" => of_json(self.source.as_ref()?.error.map(Json::of).as_ref(), field),
            _ => None,
        }
    }

    fn knows(&self, root: &str) -> bool {
        match root {
            "variables" | "channels" | "nodes" | "configurable" | "run" => true,
            "inputs" => self.inputs.is_some(),
            "output" | "status" | "error" => self.source.is_some(),
            _ => false,
        }
    }
}

impl RunScope<'_> {
    fn status(&self) -> &'static str {
        let failed = self.source.as_ref().is_some_and(|source| source.error.is_some());
        if failed { NodePhase::Failed.name() } else { NodePhase::Completed.name() }
    }
}

fn view(node: &Node) -> Json {
    Json::of(&NodeView {
        status: node.phase.name(),
        outputs: node.outputs.as_ref(),
        error: node.error.as_ref(),
        execution: node.execution,
    })
}

fn of_map(map: &JsonMap, field: Option<&str>) -> Option<Json> {
    match field {
        Some(field) => map.get(field).cloned(),
        None => Some(Json::of(map)),
    }
}

fn of_json(json: Option<&Json>, field: Option<&str>) -> Option<Json> {
    match field {
        Some(field) => json?.parse::<JsonMap>().ok()?.remove(field),
        None => Some(json.cloned().unwrap_or_else(|| Json::of(&()))),
    }
}
