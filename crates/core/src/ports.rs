//! What goes into a node: its inputs resolved, its variables checked.

use crate::event::Failure;
use crate::graph::{GraphNode, Port};
use crate::{Graph, Json, JsonMap, Millis, Rejection, Run, limits};

/// The variables a run starts with: declared defaults, overlaid by the inputs.
pub(crate) fn initial_variables(graph: &Graph, inputs: &JsonMap) -> JsonMap {
    let defaults = graph
        .variables
        .iter()
        .filter_map(|variable| Some((variable.name.clone(), variable.default.clone()?)));
    let mut variables: JsonMap = defaults.collect();
    variables.extend(inputs.iter().map(|(name, value)| (name.clone(), value.clone())));
    variables
}

/// Checks the inputs of a new run against the declared variables.
pub(crate) fn check_inputs(graph: &Graph, inputs: &JsonMap) -> Result<(), Rejection> {
    for variable in &graph.variables {
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

/// A node's inputs, each taken from where its port points.
pub(crate) fn resolve(run: &Run, node: &GraphNode) -> Result<JsonMap, Failure> {
    let mut resolved = JsonMap::new();
    for (name, port) in &node.inputs {
        let (value, optional) = look_up(run, port);
        match value {
            Some(value) => drop(resolved.insert(name.clone(), value)),
            None if optional => {}
            None => return Err(missing(run, node, name, port)),
        }
    }
    check_size(node, &resolved)?;
    Ok(resolved)
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

fn look_up(run: &Run, port: &Port) -> (Option<Json>, bool) {
    match port {
        Port::Static(value) => (Some(value.clone()), false),
        Port::Variable { name, optional } => (run.variables().get(name).cloned(), *optional),
        Port::Connection { node, key, optional } => {
            let outputs = run.node(*node).outputs.as_ref();
            let value = outputs.and_then(|outputs| outputs.parse::<JsonMap>().ok()?.remove(key));
            (value, *optional)
        }
    }
}

fn missing(run: &Run, node: &GraphNode, name: &str, port: &Port) -> Failure {
    let source = match port {
        Port::Static(_) => "its value".to_owned(),
        Port::Variable { name, .. } => format!("variable '{name}'"),
        Port::Connection { node, key, .. } => {
            format!("output '{key}' of node '{}'", run.graph().at(*node).id)
        }
    };
    Failure::new(
        "input_missing",
        format!("input '{name}' of node '{}' needs {source}, which is not set", node.id),
    )
}

/// How long a delay waits: `inputs.delayMs`, else `config.ms`, else `config.durationMs`.
pub(crate) fn delay_ms(node: &GraphNode, inputs: &JsonMap) -> Result<Millis, Failure> {
    let given =
        inputs.get("delayMs").or_else(|| node.config.get("ms")).or_else(|| node.config.get("durationMs"));
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
