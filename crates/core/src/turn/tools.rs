//! The runs that a model's calls become, and what the model is told of them.

use std::collections::BTreeSet;

use crate::children::ChildEnd;
use crate::command::Draft;
use crate::event::{NodeDue, NodeEvent, NodeSpawned, ToolAnswered};
use crate::graph::{TOOL_RESULT, Work};
use crate::turn::{Stage, TurnState};
use crate::{JsonMap, Lifecycle, Message, Node, NodeIx, NodePhase, Run, RunId, ToolCall, limits};

impl TurnState {
    /// The calls of an answer, each with an id that no other call of the conversation has: what a tool says is known by
    /// it, and not every provider keeps to that.
    pub(crate) fn told_apart(&self, mut calls: Vec<ToolCall>) -> Vec<ToolCall> {
        let before = self.began.messages.iter().flat_map(|message| match message {
            Message::Assistant { tool_calls, .. } => tool_calls.as_slice(),
            _ => &[],
        });
        let mut taken: BTreeSet<String> = before.map(|call| call.id.clone()).collect();
        for (at, call) in calls.iter_mut().enumerate() {
            if call.id.is_empty()
                || call.id.len() > limits::TOOL_CALL_ID_BYTES_MAX
                || taken.contains(&call.id)
            {
                let mut id = format!("call_{}_{at}", self.step);
                while taken.contains(&id) {
                    id.push('_');
                }
                call.id = id;
            }
            taken.insert(call.id.clone());
        }
        calls
    }
}

impl Run {
    /// Calls every tool that the model asked for. What can't be called is answered at once.
    pub(crate) fn call_tools(&mut self, draft: &mut Draft, ix: NodeIx, cause: Option<u64>) {
        for (at, call) in self.uncalled(ix).into_iter().enumerate() {
            let refused = match at < limits::TOOL_CALLS_MAX {
                true => self.call_tool(draft, ix, &call, cause).err(),
                false => Some(format!("no more than {} tools are called at once", limits::TOOL_CALLS_MAX)),
            };
            if let Some(message) = refused {
                self.answer_tool(draft, ix, &call, message, true, false);
            }
        }
        self.go_on_after_tools(draft, ix);
    }

    /// The calls of a model that nothing has become of yet.
    fn uncalled(&self, ix: NodeIx) -> Vec<ToolCall> {
        let stage = self.node(ix).turn.as_deref().map(|turn| &turn.stage);
        let Some(Stage::Tools(pending)) = stage else { return Vec::new() };
        let open = pending.iter().filter(|pending| pending.child.is_none() && !pending.answered);
        open.map(|pending| pending.call.clone()).collect()
    }

    /// Whether something becomes of every call that a turn waits for.
    pub(crate) fn awaits_tools(&self, ix: NodeIx) -> bool {
        let turn = self.node(ix).turn.as_deref();
        let called = self.uncalled(ix).is_empty() && turn.is_some_and(|turn| turn.awaited().next().is_some());
        called || self.is_worker_due(ix)
    }

    /// Starts the run of a tool, or says why that can't be in words for the model.
    fn call_tool(
        &mut self,
        draft: &mut Draft,
        ix: NodeIx,
        call: &ToolCall,
        cause: Option<u64>,
    ) -> Result<(), String> {
        let graph = self.graph.clone();
        let Work::Turn(work) = &graph.at(ix).work else { return Err("there are no tools".to_owned()) };
        let Some(tool) = work.tool(&call.name) else {
            let known: Vec<&str> = work.tools.iter().map(|tool| tool.spec.name.as_str()).collect();
            return Err(format!("there is no tool '{}'; the tools are {}", call.name, known.join(", ")));
        };
        let inputs = call.arguments.parse::<JsonMap>();
        let inputs = inputs.map_err(|_| "the arguments are no JSON object".to_owned())?;
        if let Err(wrong) = tool.schema.check(&call.arguments) {
            let told: Vec<String> = wrong.iter().take(8).map(ToString::to_string).collect();
            return Err(format!("the arguments don't fit: {}", told.join("; ")));
        }
        self.check_depth(ix).map_err(|failure| failure.message)?;
        let hidden = self.node(ix).sensitive || self.graph.at(ix).hides_answers();
        let sensitive = if hidden { inputs.keys().cloned().collect() } else { Vec::new() };
        let spawned = NodeSpawned {
            child: self.child_id(draft, ix),
            workflow_id: tool.workflow_id.clone(),
            inputs,
            sensitive,
            unset: Vec::new(),
            harvest: vec![tool.result.clone()],
            cascade: true,
            key: Some(call.id.clone()),
            waits: false,
            elsewhere: false,
        };
        let cause = draft.last_sequence().or(cause);
        self.emit_node(draft, ix, NodeEvent::Spawned(spawned), cause);
        Ok(())
    }

    fn answer_tool(
        &mut self,
        draft: &mut Draft,
        ix: NodeIx,
        call: &ToolCall,
        content: String,
        is_error: bool,
        sensitive: bool,
    ) {
        let answered = ToolAnswered {
            tool_call_id: call.id.clone(),
            name: call.name.clone(),
            content: cut(content),
            is_error,
            sensitive: sensitive || self.node(ix).sensitive || self.graph.at(ix).hides_answers(),
        };
        let cause = draft.last_sequence();
        self.emit_node(draft, ix, NodeEvent::ToolAnswered(answered), cause);
    }

    /// The node whose turn waits for this run of a tool.
    pub(crate) fn tool_of(&self, node: &str, child: RunId) -> Option<NodeIx> {
        let ix = self.graph.node(node)?;
        let turn = self.node(ix).turn.as_deref()?;
        turn.awaited().any(|awaited| awaited == child).then_some(ix)
    }

    /// The run of a tool has ended, or never began: the model is told.
    pub(crate) fn tool_ended(&mut self, draft: &mut Draft, ix: NodeIx, end: &ChildEnd<'_>) {
        let turn = self.node(ix).turn.as_deref();
        let Some(Stage::Tools(pending)) = turn.map(|turn| &turn.stage) else { return };
        let found = pending.iter().find(|pending| pending.child == Some(end.child) && !pending.answered);
        let Some(call) = found.map(|pending| pending.call.clone()) else { return };
        let (content, is_error) = match (end.lifecycle, end.error) {
            (Lifecycle::Completed, _) => (result(end.outputs), false),
            (Lifecycle::Cancelled, _) => ("the tool was cancelled".to_owned(), true),
            (_, Some(error)) => (format!("{} [{}]", error.message, error.code), true),
            (_, None) => ("the tool failed".to_owned(), true),
        };
        self.answer_tool(draft, ix, &call, content, is_error, !end.sensitive.is_empty());
        self.go_on_after_tools(draft, ix);
    }

    /// Whether a turn waits for anything but its provider and tools that wait for people.
    pub(crate) fn has_working_tool(&self, node: &Node) -> bool {
        let Some(turn) = node.turn.as_deref() else { return false };
        match &turn.stage {
            Stage::Tools(_) => turn.awaited().any(|child| !self.state.still_children.contains(&child)),
            _ => !turn.awaits_provider(),
        }
    }

    /// Once every tool has answered, the model is called again.
    fn go_on_after_tools(&mut self, draft: &mut Draft, ix: NodeIx) {
        let turn = self.node(ix).turn.as_deref();
        let Some(Stage::Tools(pending)) = turn.map(|turn| &turn.stage) else { return };
        let waits = self.node(ix).phase == NodePhase::Waiting;
        if waits && pending.iter().all(|pending| pending.answered) && self.state.ending.is_none() {
            let cause = draft.last_sequence();
            self.emit_node(draft, ix, NodeEvent::Due(NodeDue::in_time()), cause);
        }
    }
}

/// What a run of a tool left for the model.
fn result(outputs: &JsonMap) -> String {
    let Some(left) = outputs.values().next() else { return "done".to_owned() };
    // A kind of node leaves its outputs under a name; a workflow leaves what it likes.
    let wrapped = outputs.contains_key(TOOL_RESULT).then(|| left.parse::<JsonMap>().ok()).flatten();
    let inner = wrapped.filter(|map| map.len() == 1).and_then(|mut map| map.remove("outputs"));
    let said = inner.unwrap_or_else(|| left.clone());
    match said.parse::<String>() {
        Ok(text) => text,
        Err(_) if said.type_name() == "null" => "done".to_owned(),
        Err(_) => said.text().to_owned(),
    }
}

fn cut(content: String) -> String {
    if content.len() <= limits::TOOL_ANSWER_BYTES_MAX {
        return content;
    }
    let end = content.floor_char_boundary(limits::TOOL_ANSWER_BYTES_MAX);
    format!("{}… [cut: the tool said {} bytes]", &content[..end], content.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Json;

    fn said(value: &serde_json::Value) -> String {
        result(&JsonMap::from([(TOOL_RESULT.to_owned(), Json::of(value))]))
    }

    #[test]
    fn a_tools_outputs_are_told_as_they_are() {
        assert_eq!(said(&serde_json::json!({ "outputs": { "price": 3 } })), r#"{"price":3}"#);
        assert_eq!(said(&serde_json::json!({ "outputs": null })), "done");
        assert_eq!(said(&serde_json::json!("as text")), "as text");
        assert_eq!(result(&JsonMap::new()), "done");
    }

    #[test]
    fn a_tool_that_says_too_much_is_cut_and_the_model_knows() {
        let long = cut("é".repeat(limits::TOOL_ANSWER_BYTES_MAX));
        assert!(long.len() < limits::TOOL_ANSWER_BYTES_MAX + 100 && long.contains("[cut: the tool said"));
    }
}
