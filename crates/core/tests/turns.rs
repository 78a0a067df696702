//! Turns, told command by command: calls of models that fail, wait, answer, use tools, and end.

#[expect(dead_code, reason = "commands.rs tells the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "commands.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

#[path = "turns/beginning.rs"]
mod beginning;
#[path = "turns/ending.rs"]
mod ending;
#[path = "turns/postponing.rs"]
mod postponing;
#[path = "turns/random.rs"]
mod random;
#[path = "turns/retrying.rs"]
mod retrying;
#[path = "turns/tools.rs"]
mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::{
    CallRef, ChunkKind, Command, Effect, ErrorKind, Json, ModelAnswer, ModelCall, ModelError, Performance,
    Price, ProviderTerms, Schedule, Surroundings, TaskId, ToolCall, TurnCommand, TurnView, Usage,
};
use serde_json::{Value, json};
use story::{Opening, Story};
use workflow::{Sketch, Workflow, of_kind, workflow};

/// A server with the provider `claude`, on the usual terms.
fn around() -> Surroundings {
    under(ProviderTerms {
        model: Some("opus".to_owned()),
        prices: BTreeMap::from([(
            "opus".to_owned(),
            Price { input: 3_000_000, output: 15_000_000, cached: None },
        )]),
        ..ProviderTerms::default()
    })
}

fn under(terms: ProviderTerms) -> Surroundings {
    let providers = Arc::new(BTreeMap::from([("claude".to_owned(), terms)]));
    Surroundings { providers, ..Surroundings::default() }
}

/// A server whose provider has a schedule of its own.
fn scheduled(schedule: Option<Schedule>) -> Surroundings {
    under(ProviderTerms { retry: schedule, ..ProviderTerms::default() })
}

fn turn(id: &str) -> Sketch {
    of_kind(id, "core.llm.turn").config("prompt", json!("Say hello."))
}

fn of(workflow: &Workflow) -> Opening {
    Story::of(workflow).under(around())
}

/// A run whose model is being called for the first time.
fn calling() -> Story {
    of(&workflow([turn("ask")])).start()
}

/// The provider is overloaded.
fn overloaded() -> ModelError {
    emitted("HTTP 429: {\"error\":{\"type\":\"overloaded_error\"}}", Some("429"), Some(true))
}

fn emitted(message: &str, code: Option<&str>, retryable: Option<bool>) -> ModelError {
    ModelError {
        message: message.to_owned(),
        code: code.map(str::to_owned),
        kind: ErrorKind::Emitted { retryable },
        had_content: false,
        retry_after_ms: None,
    }
}

fn thrown() -> ModelError {
    ModelError { kind: ErrorKind::Thrown, ..emitted("the stream was cut", None, None) }
}

fn saying(text: &str) -> ModelAnswer {
    let usage = Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() };
    ModelAnswer {
        content: text.to_owned(),
        usage,
        stop_reason: Some("end_turn".to_owned()),
        model: Some("opus".to_owned()),
        ..ModelAnswer::default()
    }
}

fn using(calls: &[(&str, &str, Value)]) -> ModelAnswer {
    let call = |(id, name, arguments): &(&str, &str, Value)| ToolCall {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        arguments: Json::of(arguments),
    };
    ModelAnswer { tool_calls: calls.iter().map(call).collect(), ..saying("") }
}

impl Story {
    /// What the executor of the node's call knows it by.
    fn call_ref(&self, node: &str) -> CallRef {
        let task = TaskId { node: node.into(), execution: self.node(node).execution };
        let last = self.journal().iter().rev().find(|record| story::type_name(record) == "model.called");
        CallRef { task, fence: last.expect("a model was called").sequence << 16 }
    }

    #[track_caller]
    fn turn(self, command: TurnCommand) -> Self {
        self.ask(Command::Turn(Box::new(command)))
    }

    #[track_caller]
    fn says(self, text: &str) -> Self {
        let call = self.call_ref("ask");
        self.turn(TurnCommand::Said { call, kind: ChunkKind::Text, text: text.to_owned() })
    }

    #[track_caller]
    fn fails(self, error: ModelError) -> Self {
        let call = self.call_ref("ask");
        self.turn(TurnCommand::Ended { call, outcome: Err(error), rest: Vec::new() })
    }

    #[track_caller]
    fn answers(self, answer: ModelAnswer) -> Self {
        let call = self.call_ref("ask");
        self.turn(TurnCommand::Ended { call, outcome: Ok(Box::new(answer)), rest: Vec::new() })
    }

    /// The provider's breaker is open.
    #[track_caller]
    fn put_off(self) -> Self {
        let call = self.call_ref("ask");
        self.turn(TurnCommand::Refused { call })
    }

    /// The breaker lets the turn try.
    #[track_caller]
    fn may_go(self) -> Self {
        let task = self.call_ref("ask").task;
        self.turn(TurnCommand::Go { task })
    }

    /// The time of the wait has come.
    #[track_caller]
    fn waits_out(self) -> Self {
        let until = self.node("ask").until.expect("the node waits");
        self.at(until - story::BEGIN).fire_timer("provider/1/ask")
    }

    #[track_caller]
    fn model_call(&self, node: &str) -> ModelCall {
        match self.performance(node) {
            Performance::Model(call) => *call,
            other => panic!("no model is to be called: {other:?}"),
        }
    }

    #[track_caller]
    fn view(&self) -> TurnView {
        self.run().turns().into_iter().next().expect("there is a turn")
    }

    /// The events of a type so far.
    fn count(&self, name: &str) -> usize {
        self.journal().iter().filter(|record| story::type_name(record) == name).count()
    }

    /// The payloads of the events of a type, in order.
    fn payloads(&self, name: &str) -> Vec<Value> {
        let all = self.journal().iter().filter(|record| story::type_name(record) == name);
        all.map(|record| serde_json::from_str(&story::payload_text(record)).expect("a payload is JSON"))
            .collect()
    }

    /// Whether the last command left the turn with nothing but rows: no task, a timer.
    fn is_parked(&self) -> bool {
        self.run().tasks().next().is_none() && self.run().is_at_rest()
    }

    fn calls_again(&self) -> bool {
        self.step().effects.iter().any(|effect| matches!(effect, Effect::Dispatch { .. }))
    }
}
