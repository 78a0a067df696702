//! What the model is told first, put together once: a later try sends the same, whatever has changed since.

use serde_json::Value;

use crate::event::{Failure, TurnBegan};
use crate::expression::Fault;
use crate::graph::TurnWork;
use crate::ports::Inputs;
use crate::scope::RunScope;
use crate::template::{Piece, Template};
use crate::turn::{ModelCall, Stage};
use crate::{
    Json, JsonMap, Message, Mock, NodeIx, Run, Surroundings, ToolSpec, TurnEnd, invocation_id, limits,
};

impl Run {
    /// Everything that fixes what the model is asked in this execution.
    pub(crate) fn begin_turn(
        &self,
        ix: NodeIx,
        work: &TurnWork,
        inputs: &Inputs,
        execution: u32,
        around: &Surroundings,
    ) -> Result<TurnBegan, Failure> {
        let id = &self.graph.at(ix).id;
        let options = self.configurable().and_then(|options| options.parse::<JsonMap>().ok());
        let option = |key: &str| options.as_ref().and_then(|options| options.get(key));
        let scope = RunScope::node(self, &inputs.values);
        let reads = work.expressions();
        let hidden = inputs.sensitive
            || reads.iter().any(|(_, reads)| scope.hides(reads, inputs.sensitive))
            || self.hides_conversation(work);
        let mock = self.mock(option("mockProvider"));
        let recorded = around.recorded.as_ref().and_then(|recorded| recorded.turn(id, execution));
        let provider = match (&mock, recorded) {
            (Some(_), _) => "mock".to_owned(),
            (None, Some(asked)) => asked.provider.clone(),
            (None, None) => self.provider(ix, work, around)?,
        };
        // The turn keeps to this model, whatever the operator says later.
        let usual = match recorded {
            Some(asked) => asked.model.clone(),
            None => around.providers.get(&provider).and_then(|terms| terms.model.clone()),
        };
        let messages = self.first_messages(ix, work, inputs, option("promptOverrides"), hidden)?;
        let says_something = messages.iter().any(|message| matches!(message, Message::User { .. }));
        if !says_something && mock.is_none() {
            return Err(speechless(id));
        }
        let bytes: usize = messages.iter().map(|message| Json::of(message).text().len()).sum();
        if bytes > limits::TURN_BYTES_MAX {
            return Err(too_long(id, bytes));
        }
        Ok(TurnBegan {
            conversation_id: self.key.id.to_string(),
            turn_id: format!("{}:{id}:{execution}", self.key.id),
            provider,
            model: option("model")
                .and_then(|model| model.parse().ok())
                .or_else(|| work.model.clone())
                .or(usual),
            messages,
            max_tokens: option("maxTokens").and_then(|most| most.parse().ok()).or(work.max_tokens),
            temperature: option("temperature")
                .filter(|given| given.type_name() != "null")
                .cloned()
                .or_else(|| work.temperature.clone()),
            params: work.params.clone(),
            mock,
            sensitive: hidden,
        })
    }

    /// The provider that the node names, or the only one.
    fn provider(&self, ix: NodeIx, work: &TurnWork, around: &Surroundings) -> Result<String, Failure> {
        let id = &self.graph.at(ix).id;
        let known = || around.providers.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let message = match &work.provider {
            Some(name) if around.providers.contains_key(name) => return Ok(name.clone()),
            Some(name) if around.providers.is_empty() => format!(
                "node '{id}' asks provider '{name}', and this server has none; add [providers.{name}] to its configuration"
            ),
            Some(name) => format!(
                "node '{id}' asks provider '{name}', which this server does not have; it has {}",
                known()
            ),
            None => match around.providers.len() {
                1 => return Ok(known()),
                0 => format!(
                    "node '{id}' asks a model, and this server has no provider; add one to its configuration"
                ),
                _ => format!("node '{id}' does not say which provider it asks; this server has {}", known()),
            },
        };
        Err(Failure::new("provider_unknown", message))
    }

    /// What a mock of the public fixtures says, if the run may ask for one.
    fn mock(&self, asked: Option<&Json>) -> Option<Mock> {
        Mock::asked(asked.filter(|_| self.graph.plays_mocks())?).ok()
    }

    fn first_messages(
        &self,
        ix: NodeIx,
        work: &TurnWork,
        inputs: &Inputs,
        overrides: Option<&Json>,
        hidden: bool,
    ) -> Result<Vec<Message>, Failure> {
        let id = &self.graph.at(ix).id;
        let text = |key: &str, template: Option<&Template>| -> Result<Option<String>, Failure> {
            match (given(inputs, key), template) {
                (Some(given), _) => Ok(Some(plain(given))),
                (None, Some(template)) => {
                    let scope = RunScope::node(self, &inputs.values);
                    let told = |fault: Fault| {
                        scope.told(
                            fault,
                            &template.reads(),
                            inputs.sensitive,
                            &format!("'{key}' of node '{id}'"),
                        )
                    };
                    Ok(Some(joined(&template.render(&scope).map_err(told)?)))
                }
                (None, None) => Ok(None),
            }
        };
        let mut messages = Vec::new();
        messages.extend(text("system", work.system.as_ref())?.map(|content| Message::System { content }));
        messages.extend(self.gone_on_with(ix, work)?);
        messages.extend(self.given_messages(ix, work, inputs, hidden)?);
        let named = work.prompt_id.as_ref().zip(overrides.and_then(|all| all.parse::<JsonMap>().ok()));
        let replaced = named.and_then(|(id, all)| all.get(id).map(plain));
        let prompt = match replaced {
            Some(prompt) => Some(prompt),
            None => text("prompt", work.prompt.as_ref())?,
        };
        messages.extend(prompt.map(|content| Message::User { content: Json::of(&content) }));
        Ok(messages)
    }

    /// Whether something that is never shown was said in the turn that is gone on with.
    fn hides_conversation(&self, work: &TurnWork) -> bool {
        let before = work.continues.as_ref().and_then(|before| self.graph.node(before));
        before.is_some_and(|ix| {
            let node = self.node(ix);
            node.turn.is_some() && (node.sensitive || self.graph.at(ix).hides_answers())
        })
    }

    /// The conversation of the turn that is gone on with. If that failed, the model is told so.
    fn gone_on_with(&self, ix: NodeIx, work: &TurnWork) -> Result<Vec<Message>, Failure> {
        let Some(before) = &work.continues else { return Ok(Vec::new()) };
        let id = &self.graph.at(ix).id;
        let Some(other) = self.graph.node(before) else {
            let message = format!("node '{id}' continues '{before}', which is not there");
            return Err(Failure::new("invalid_config", message));
        };
        let Some(turn) = self.node(other).turn.as_deref() else { return Ok(Vec::new()) };
        let system = |message: &Message| work.system.is_some() && matches!(message, Message::System { .. });
        let mut messages: Vec<Message> =
            turn.began.messages.iter().filter(|message| !system(message)).cloned().collect();
        messages.extend(unanswered(&messages));
        if let Stage::Sealed { end: TurnEnd::Failed, error: Some(error) } = &turn.stage {
            let content = format!("[The previous turn failed: {}]", error.message);
            messages.push(Message::User { content: Json::of(&content) });
        }
        Ok(messages)
    }

    fn given_messages(
        &self,
        ix: NodeIx,
        work: &TurnWork,
        inputs: &Inputs,
        hidden: bool,
    ) -> Result<Vec<Message>, Failure> {
        let id = &self.graph.at(ix).id;
        let given = match (given(inputs, "messages"), &work.messages) {
            (Some(given), _) => given.clone(),
            (None, Some(template)) => {
                let scope = RunScope::node(self, &inputs.values);
                let place = format!("'messages' of node '{id}'");
                let told = |fault: Fault| scope.told(fault, &template.reads(), inputs.sensitive, &place);
                template.render_value(&scope).map_err(told)?.unwrap_or_else(|| Json::of(&Value::Null))
            }
            (None, None) => return Ok(Vec::new()),
        };
        given.parse::<Vec<Message>>().map_err(|error| {
            let reason = if hidden { "they are sensitive".to_owned() } else { error.to_string() };
            let message = format!(
                "the messages of node '{id}' can't be read: {reason}; each has a role (system, user, assistant or tool) and a content"
            );
            Failure::new("invalid_messages", message)
        })
    }

    /// The call that is to be made for a turn, if one is.
    pub(crate) fn model_call(&self, ix: NodeIx) -> Option<ModelCall> {
        let (node, graph) = (self.node(ix), self.graph.at(ix));
        let turn = node.turn.as_deref()?;
        let Stage::Calling { content } = turn.stage else { return None };
        let tools = match &graph.work {
            crate::graph::Work::Turn(work) => work.tools.iter().map(|tool| tool.spec.clone()).collect(),
            _ => Vec::<ToolSpec>::new(),
        };
        let TurnBegan { provider, model, messages, max_tokens, temperature, params, mock, sensitive, .. } =
            (*turn.began).clone();
        let idempotency_key = invocation_id(
            self.key.tenant,
            self.key.id,
            &graph.id,
            node.execution,
            &format!("core.llm/{}", turn.step),
        );
        Some(ModelCall {
            provider,
            model,
            messages,
            tools,
            max_tokens,
            temperature,
            params,
            timeout_ms: graph.timeout_ms,
            sensitive: sensitive || node.sensitive || graph.hides_answers(),
            cut_off: content,
            mock,
            idempotency_key,
        })
    }
}

/// What stands for the answers of tools that a turn called last and never heard of: no provider takes a call without
/// an answer.
fn unanswered(messages: &[Message]) -> Vec<Message> {
    let calls = messages.iter().rposition(|message| matches!(message, Message::Assistant { .. }));
    let Some((Message::Assistant { tool_calls, .. }, answers)) =
        calls.and_then(|at| messages[at..].split_first())
    else {
        return Vec::new();
    };
    let is_answered = |id: &str| {
        answers.iter().any(|said| matches!(said, Message::Tool { tool_call_id, .. } if tool_call_id == id))
    };
    let open = tool_calls.iter().filter(|call| !is_answered(&call.id));
    open.map(|call| Message::Tool {
        tool_call_id: call.id.clone(),
        name: call.name.clone(),
        content: "the turn ended before the tool answered".to_owned(),
        is_error: true,
    })
    .collect()
}

fn speechless(node: &str) -> Failure {
    let message = format!(
        "node '{node}' has nothing to say to its model; give it a 'prompt' or 'messages', in its config or as an input"
    );
    Failure::new("input_missing", message)
}

/// An input; `null` is as good as none.
fn given<'a>(inputs: &'a Inputs, key: &str) -> Option<&'a Json> {
    inputs.values.get(key).filter(|value| value.type_name() != "null")
}

/// A text as it is, anything else as JSON.
fn plain(value: &Json) -> String {
    value.parse::<String>().unwrap_or_else(|_| value.text().to_owned())
}

fn joined(pieces: &[Piece]) -> String {
    pieces.iter().map(|piece| if let Piece::Text(text) = piece { text.as_str() } else { "" }).collect()
}

pub(crate) fn too_long(node: &str, bytes: usize) -> Failure {
    let message = format!(
        "the conversation of node '{node}' has {bytes} bytes; {} are allowed: shorten what goes in, or what its tools say",
        limits::TURN_BYTES_MAX
    );
    Failure::new("turn_too_long", message)
}
