//! What goes into a node: its inputs resolved, its variables checked.

use std::collections::HashMap;

use crate::event::{Failure, Started};
use crate::expression::Fuel;
use crate::graph::{GraphNode, Port};
use crate::scope::RunScope;
use crate::{Graph, Json, JsonMap, Millis, NodeIx, Rejection, Run, limits};

/// The variables a run starts with: declared defaults, overlaid by the inputs.
pub(crate) fn initial_variables(graph: &Graph, started: &Started) -> JsonMap {
    let defaults = graph
        .variables
        .iter()
        .filter(|variable| !started.unset.contains(&variable.name))
        .filter_map(|variable| Some((variable.name.clone(), variable.default.clone()?)));
    let mut variables: JsonMap = defaults.collect();
    variables.extend(started.inputs.iter().map(|(name, value)| (name.clone(), value.clone())));
    variables
}

/// The channels a run starts with: those that declare a default.
pub(crate) fn initial_channels(graph: &Graph) -> JsonMap {
    let declared = graph.channels.iter();
    declared.filter_map(|(name, channel)| Some((name.clone(), channel.initial()?.clone()))).collect()
}

/// Checks the inputs of a new run against the declared variables.
pub(crate) fn check_inputs(graph: &Graph, inputs: &JsonMap, unset: &[String]) -> Result<(), Rejection> {
    if let Some(name) = inputs.keys().find(|name| graph.channels.contains_key(*name)) {
        let message =
            format!("'{name}' is a channel of workflow '{}', not an input; leave it out", graph.workflow_id);
        return Err(Rejection::invalid(format!("inputs.{name}"), message));
    }
    for variable in graph.variables.iter().filter(|variable| !unset.contains(&variable.name)) {
        let field = format!("inputs.{}", variable.name);
        match inputs.get(&variable.name) {
            Some(value) if value.type_name() != variable.kind => {
                let message =
                    format!("'{}' must be of type {}, not {}", field, variable.kind, value.type_name());
                return Err(Rejection::invalid(field, message));
            }
            None if variable.required && variable.default.is_none() => {
                let message = format!("'{field}' is required by workflow '{}'; add it", graph.workflow_id);
                return Err(Rejection::invalid(field, message));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What goes into a node.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) values: JsonMap,
    /// Something among them is never shown.
    pub(crate) sensitive: bool,
}

/// A node's inputs, each taken from where its port points.
pub(crate) fn resolve(run: &Run, node: &GraphNode) -> Result<Inputs, Failure> {
    let mut inputs = Inputs::default();
    let mut reader = Reader { run, node, outputs: HashMap::new(), fuel: Fuel::for_node() };
    for (name, port) in &node.inputs {
        let (value, optional) = reader.look_up(name, port)?;
        match value {
            Some(value) => drop(inputs.values.insert(name.clone(), value)),
            None if optional => {}
            None => return Err(missing(run, node, name, port)),
        }
        inputs.sensitive |= hides(run, port);
    }
    check_size(node, &inputs.values)?;
    Ok(inputs)
}

/// Whether a port takes in something that is never shown.
fn hides(run: &Run, port: &Port) -> bool {
    match port {
        Port::Static(_) => false,
        Port::Variable { name, .. } => run.hides_variable(name),
        Port::Connection { node, key, .. } | Port::Carried { node, key } => run.node(*node).masked.hides(key),
        Port::Expression(expression) => RunScope::port(run).hides(expression.reads(), false),
    }
}

fn check_size(node: &GraphNode, inputs: &JsonMap) -> Result<(), Failure> {
    let bytes: usize = inputs.values().map(|value| value.text().len()).sum();
    if bytes <= limits::NODE_INPUT_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "the inputs of node '{}' have {bytes} bytes together; {} are allowed",
        node.id,
        limits::NODE_INPUT_BYTES_MAX
    );
    Err(Failure::new("input_too_large", message))
}

/// Takes values from where ports point. Outputs are read once per node, however many ports take from it.
struct Reader<'a> {
    run: &'a Run,
    node: &'a GraphNode,
    outputs: HashMap<NodeIx, JsonMap>,
    fuel: Fuel,
}

impl Reader<'_> {
    fn look_up(&mut self, name: &str, port: &Port) -> Result<(Option<Json>, bool), Failure> {
        match port {
            Port::Static(value) => Ok((Some(value.clone()), false)),
            Port::Variable { name, optional } => Ok((self.run.variables().get(name).cloned(), *optional)),
            Port::Connection { node, key, optional } => Ok((self.output(*node, key), *optional)),
            // The first release let edges carry nothing.
            Port::Carried { .. } if self.run.state.reading == 0 => Ok((None, true)),
            Port::Carried { node, key } => Ok((self.output(*node, key), true)),
            Port::Expression(expression) => {
                let place = format!("input '{name}' of node '{}'", self.node.id);
                let scope = RunScope::port(self.run);
                let value = expression.evaluate_within(&scope, &mut self.fuel);
                let value = value.map_err(|fault| scope.told(fault, expression.reads(), false, &place))?;
                Ok((Some(value), false))
            }
        }
    }

    fn output(&mut self, from: NodeIx, key: &str) -> Option<Json> {
        let node = self.run.node(from);
        let read = || node.outputs.as_ref().and_then(|outputs| outputs.parse().ok()).unwrap_or_default();
        self.outputs.entry(from).or_insert_with(read).get(key).cloned()
    }
}

fn missing(run: &Run, node: &GraphNode, name: &str, port: &Port) -> Failure {
    let source = match port {
        Port::Static(_) | Port::Expression(_) => "its value".to_owned(),
        Port::Variable { name, .. } => format!("variable '{name}'"),
        Port::Connection { node, key, .. } | Port::Carried { node, key } => {
            format!("output '{key}' of node '{}'", run.graph().at(*node).id)
        }
    };
    Failure::new(
        "input_missing",
        format!("input '{name}' of node '{}' needs {source}, which is not set", node.id),
    )
}

/// How long a delay waits: `inputs.delayMs`, else `config.ms`, else `config.durationMs`.
pub(crate) fn delay_ms(node: &GraphNode, inputs: &Inputs) -> Result<Millis, Failure> {
    let given = inputs
        .values
        .get("delayMs")
        .or_else(|| node.config.get("ms"))
        .or_else(|| node.config.get("durationMs"));
    let whole = given.and_then(|value| {
        let number = value.parse::<f64>().ok()?;
        (number.fract() == 0.0 && number >= 0.0 && number <= limits::DELAY_MS_MAX as f64)
            .then_some(number as Millis)
    });
    whole.ok_or_else(|| {
        let given: String = given.map_or("nothing", |value| value.text()).chars().take(80).collect();
        let message = format!(
            "node '{}' needs a whole number of milliseconds from 0 to {} in inputs.delayMs, config.ms or \
             config.durationMs; it got {given}",
            node.id,
            limits::DELAY_MS_MAX
        );
        Failure::new("invalid_delay", message)
    })
}
