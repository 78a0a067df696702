//! What pure nodes make of their inputs.
//!
//! Nothing here changes the run: a product says what the node produced and what it wants changed, and is checked
//! again against the state that it meets.

use std::collections::BTreeMap;

use crate::channel::Channel;
use crate::effect::TaskId;
use crate::event::{ChannelWritten, Failure, Mask};
use crate::expression::{Expression, Fuel};
use crate::graph::{Branch, ChannelWrite, GraphNode, HttpBody, Transform, Work};
use crate::http::HttpRequest;
use crate::ports::{self, Inputs};
use crate::scope::RunScope;
use crate::template::Piece;
use crate::{Json, JsonMap, Millis, ModelCall, NodeIx, NodePhase, Run, http, invocation_id, limits};

/// What a node produced, and what it wants changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Product {
    /// Its outputs.
    pub outputs: Option<Json>,
    pub(crate) changes: Vec<Change>,
    /// Something that is never shown went in.
    pub(crate) sensitive: bool,
    /// Who made it, where a gate wants to know.
    pub(crate) made_by: Vec<String>,
}

/// Something that a node wants changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Variable { name: String, value: Json },
    Channel { write: ChannelWritten },
    Decision(JsonMap),
}

/// What a task asks of its executor.
#[derive(Clone, Debug, PartialEq)]
pub enum Performance {
    /// Nothing: it is done.
    Done(Result<Product, Failure>),
    /// To send this request.
    Http(Box<HttpRequest>),
    /// To call this model.
    Model(Box<ModelCall>),
}

impl Product {
    /// A product that is nothing but outputs.
    pub fn of(outputs: Option<Json>) -> Self {
        Self { outputs, ..Self::default() }
    }
}

impl Run {
    /// Executes a dispatched task: it sees what was recorded when it started.
    ///
    /// Pure, so an executor that died may run it again. `None` if no such task is under way.
    pub fn perform_task(&self, task: &TaskId) -> Option<Performance> {
        let ix = self.graph.node(&task.node)?;
        let (node, state) = (self.graph.at(ix), self.node(ix));
        if state.phase != NodePhase::Running || state.execution != task.execution {
            return None;
        }
        if state.turn.is_some() {
            return self.model_call(ix).map(|call| Performance::Model(Box::new(call)));
        }
        let inputs = match &state.inputs {
            Some(values) => Inputs { values: values.clone(), sensitive: state.sensitive },
            // Nothing was recorded: the node has no ports, or a first release wrote the event.
            None => match ports::resolve(self, node) {
                Ok(inputs) => inputs,
                Err(failure) => return Some(Performance::Done(Err(failure))),
            },
        };
        Some(match &node.work {
            Work::Http(_) => match self.request(ix, &inputs) {
                Ok(request) => Performance::Http(Box::new(request)),
                Err(failure) => Performance::Done(Err(failure)),
            },
            _ => Performance::Done(self.perform(ix, &inputs)),
        })
    }

    /// What a pure node makes of its inputs.
    pub(crate) fn perform(&self, ix: NodeIx, inputs: &Inputs) -> Result<Product, Failure> {
        let node = self.graph.at(ix);
        let product = match &node.work {
            Work::Identity(identity) => {
                let changes = if identity.repeats_message && self.graph.plays_mocks() {
                    self.repeated_message(node)
                } else {
                    Vec::new()
                };
                Product { changes, ..Product::of(Some(Json::of(&inputs.values))) }
            }
            Work::Fail { code, message } => {
                let message =
                    message.clone().unwrap_or_else(|| format!("node '{}' is of kind core.fail", node.id));
                let code = code.as_deref().filter(|_| self.state.reading > 0);
                return Err(Failure::new(code.unwrap_or("node_execution_failed"), message));
            }
            Work::Transform(transform) => self.transform(node, transform, inputs)?,
            Work::Branch(branch) => self.branch(node, branch, inputs)?,
            Work::ChannelWrite(write) => self.channel_write(node, write, inputs)?,
            _ => Product::default(),
        };
        Ok(Product { sensitive: product.sensitive || inputs.sensitive, ..product })
    }

    fn evaluate(
        &self,
        node: &GraphNode,
        inputs: &Inputs,
        list: &[(String, Expression)],
        fuel: &mut Fuel,
        sensitive: &mut bool,
    ) -> Result<Vec<(String, Json)>, Failure> {
        let scope = RunScope::node(self, &inputs.values);
        let mut values = Vec::with_capacity(list.len());
        for (name, expression) in list {
            let place = format!("'{name}' of node '{}'", node.id);
            let told = |fault| scope.told(fault, expression.reads(), inputs.sensitive, &place);
            let value = expression.evaluate_within(&scope, fuel).map_err(told)?;
            *sensitive |= scope.hides(expression.reads(), inputs.sensitive);
            values.push((name.clone(), value));
        }
        Ok(values)
    }

    fn transform(&self, node: &GraphNode, work: &Transform, inputs: &Inputs) -> Result<Product, Failure> {
        let (mut sensitive, mut fuel) = (false, Fuel::for_node());
        let outputs: JsonMap =
            self.evaluate(node, inputs, &work.outputs, &mut fuel, &mut sensitive)?.into_iter().collect();
        let assigned = self.evaluate(node, inputs, &work.assign, &mut fuel, &mut sensitive)?;
        let changes = assigned.into_iter().map(|(name, value)| Change::Variable { name, value }).collect();
        Ok(Product { changes, sensitive, ..Product::of(Some(Json::of(&outputs))) })
    }

    fn branch(&self, node: &GraphNode, work: &Branch, inputs: &Inputs) -> Result<Product, Failure> {
        let scope = RunScope::node(self, &inputs.values);
        let (mut chosen, mut sensitive, mut fuel) = (None, false, Fuel::for_node());
        for (name, when) in &work.cases {
            let place = format!("case '{name}' of node '{}'", node.id);
            let told = |fault| scope.told(fault, when.reads(), inputs.sensitive, &place);
            // Which case was chosen says something about what it read.
            sensitive |= scope.hides(when.reads(), inputs.sensitive);
            if when.holds_within(&scope, &mut fuel).map_err(told)? {
                chosen = Some(name);
                break;
            }
        }
        let Some(chosen) = chosen.or(work.default.as_ref()) else {
            let message = format!("no case of node '{}' holds, and it has no default; add one", node.id);
            return Err(Failure::new("no_branch", message));
        };
        let mut outputs = inputs.values.clone();
        outputs.insert("branch".to_owned(), Json::of(chosen));
        Ok(Product { sensitive, ..Product::of(Some(Json::of(&outputs))) })
    }

    /// The request of a `core.http.request`, with the names of secrets in place of their values.
    fn request(&self, ix: NodeIx, inputs: &Inputs) -> Result<HttpRequest, Failure> {
        let node = self.graph.at(ix);
        let Work::Http(work) = &node.work else {
            return Err(Failure::new("invalid_config", format!("node '{}' sends no request", node.id)));
        };
        let scope = RunScope::node(self, &inputs.values);
        let fail = |fault: crate::expression::Fault| fault.at(&format!("the request of node '{}'", node.id));
        let mut headers = Vec::with_capacity(work.headers.len() + 1);
        for (name, template) in &work.headers {
            headers.push((name.clone(), template.render(&scope).map_err(fail)?));
        }
        let given = |name: &str| work.headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name));
        if let Some(secret) = node.credentials.as_ref().filter(|_| !given("authorization")) {
            let value = vec![Piece::Text("Bearer ".to_owned()), Piece::Secret(secret.clone())];
            headers.push(("Authorization".to_owned(), value));
        }
        let body = match &work.body {
            Some(HttpBody::Text(template)) => {
                let pieces = template.render(&scope).map_err(fail)?;
                Some(http::HttpBody { content_type: "text/plain; charset=utf-8".to_owned(), pieces })
            }
            Some(HttpBody::Json(template)) => {
                let pieces = template.render(&scope).map_err(fail)?;
                Some(http::HttpBody { content_type: "application/json".to_owned(), pieces })
            }
            None => None,
        };
        Ok(HttpRequest {
            method: work.method.clone(),
            url: work.url.render(&scope).map_err(fail)?,
            headers,
            body,
            timeout_ms: work.timeout_ms,
            response_bytes_max: work.response_bytes_max,
            accept_statuses: work.accept_statuses.clone(),
            redirects_max: work.redirects_max,
            idempotency_key: invocation_id(
                self.key.tenant,
                self.key.id,
                &node.id,
                self.node(ix).execution,
                "core.http.request",
            ),
            // A request reads nothing else that could be.
            sensitive: inputs.sensitive,
        })
    }

    fn channel_write(
        &self,
        node: &GraphNode,
        work: &ChannelWrite,
        inputs: &Inputs,
    ) -> Result<Product, Failure> {
        let value = inputs.values.get("value").or(work.value.as_ref());
        let Some(value) = value.cloned() else {
            let message =
                format!("node '{}' has nothing to write; give config.value or inputs.value", node.id);
            return Err(Failure::new("input_missing", message));
        };
        let declared = self.graph.channels.get(&work.channel).map(|channel| channel.reducer().name());
        let write = ChannelWritten {
            channel: work.channel.clone(),
            value,
            reducer: declared.or(work.reducer.as_deref()).unwrap_or("replace").to_owned(),
            ttl_ms: work.ttl_ms,
            sensitive: inputs.sensitive,
        };
        Ok(Product { changes: vec![Change::Channel { write }], ..Product::default() })
    }

    /// A mock of the public fixtures: one message, written twice to each channel that folds messages.
    fn repeated_message(&self, node: &GraphNode) -> Vec<Change> {
        let channels =
            self.graph.channels.iter().filter(|(_, channel)| channel.reducer().name() == "message");
        let message = Json::of(&serde_json::json!({
            "messageId": format!("{}-1", node.id), "role": "assistant", "content": "repeated",
        }));
        let write = |name: &String| Change::Channel {
            write: ChannelWritten {
                channel: name.clone(),
                value: message.clone(),
                reducer: "message".to_owned(),
                ttl_ms: None,
                sensitive: false,
            },
        };
        channels.flat_map(|(name, _)| [write(name), write(name)]).collect()
    }

    /// Whether a change may be made now.
    pub(crate) fn check_change(&self, change: &Change, now: Millis) -> Result<(), Failure> {
        match change {
            Change::Variable { .. } | Change::Decision(_) => Ok(()),
            Change::Channel { write } => {
                let undeclared;
                let channel = match self.graph.channels.get(&write.channel) {
                    Some(channel) => channel,
                    None => {
                        undeclared = Channel::undeclared(&write.reducer, write.ttl_ms)
                            .map_err(|message| Failure::new("invalid_config", message))?;
                        &undeclared
                    }
                };
                let current = self.state.channels.get(&write.channel);
                let reduced = channel.reduce(current, &write.value, now);
                let next = reduced.map_err(|(code, message)| {
                    // The message may repeat what the channel holds.
                    let hidden = self.hides_channel(&write.channel);
                    let why = if hidden { "why is withheld, because it is sensitive" } else { &message };
                    Failure::new(code, format!("channel '{}' does not take the value: {why}", write.channel))
                })?;
                check_room("channels", &self.state.channels, &BTreeMap::from([(&*write.channel, &next)]))
            }
        }
    }

    /// Whether these variables may get these values, all of them: none is changed if one may not be.
    pub(crate) fn check_variables(&self, changed: &BTreeMap<&str, &Json>) -> Result<(), Failure> {
        for (name, value) in changed {
            let declared = self.graph.variable(name).map(|declared| declared.kind.as_str());
            if let Some(kind) = declared.filter(|kind| *kind != value.type_name()) {
                let given = value.type_name();
                let message = format!("variable '{name}' is declared as {kind}, but it would get {given}");
                return Err(Failure::new("variable_type", message));
            }
        }
        check_room("variables", &self.state.variables, changed)
    }

    /// Which of a node's outputs are never shown.
    pub(crate) fn mask(&self, ix: NodeIx, outputs: Option<&Json>, sensitive: bool) -> Mask {
        let told = &self.graph.at(ix).output_sensitivity;
        let Some(outputs) = outputs else { return Mask::Nothing };
        if told.is_empty() {
            return if sensitive { Mask::All } else { Mask::Nothing };
        }
        let Ok(outputs) = outputs.parse::<JsonMap>() else {
            return if sensitive { Mask::All } else { Mask::Nothing };
        };
        let hidden = outputs.into_keys().filter(|key| told.get(key).copied().unwrap_or(sensitive));
        match hidden.collect::<std::collections::BTreeSet<_>>() {
            keys if keys.is_empty() => Mask::Nothing,
            keys => Mask::Keys(keys),
        }
    }
}

/// Values that a run carries along are written with every snapshot, so they have to stay small together.
fn check_room(what: &str, map: &JsonMap, changed: &BTreeMap<&str, &Json>) -> Result<(), Failure> {
    let others =
        map.iter().filter(|(other, _)| !changed.contains_key(other.as_str())).map(|(_, value)| value);
    let bytes: usize = others.chain(changed.values().copied()).map(|value| value.text().len()).sum();
    if changed.is_empty() || bytes <= limits::VARIABLES_BYTES_MAX {
        return Ok(());
    }
    let names: Vec<String> = changed.keys().take(5).map(|name| format!("'{name}'")).collect();
    let message = format!(
        "{} would bring the run's {what} to {bytes} bytes; {} are allowed",
        names.join(", "),
        limits::VARIABLES_BYTES_MAX
    );
    Err(Failure::new("variables_too_large", message))
}
