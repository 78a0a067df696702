//! Intents: where they may be sent, how their state changes, and how a record and the word that an intent is suspended
//! become one question, whichever comes first.

#[path = "intents/driving.rs"]
mod driving;
#[path = "intents/keeping.rs"]
mod keeping;
#[path = "intents/random.rs"]
mod random;
#[path = "domain/seeded.rs"]
mod seeded;
#[expect(dead_code, reason = "commands.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[path = "intents/suspending.rs"]
mod suspending;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;
#[expect(dead_code, reason = "bonds.rs and others tell the rest of the vocabulary")]
#[path = "domain/world.rs"]
mod world;

use std::sync::Arc;

use abide_core::{
    Actor, Answerer, Command, IntentCommand, IntentSent, Json, JsonMap, Patch, PatchOp, Rejection, Resolve,
    Start, intent_graph,
};
use serde_json::{Value, json};
use world::World;

/// Who drives intents, if nobody else is named.
const ADA: &str = "ada";

fn json_map(value: &Value) -> JsonMap {
    Json::of(value).parse().expect("an object")
}

/// An intent that was made with this state.
fn made(world: &mut World, name: &str, state: &Value, draft: bool, after: &[&str]) {
    let inputs = json_map(&json!({ "title": name, "created_by": ADA, "state": state }));
    world
        .begin_with(name, Arc::new(intent_graph()), after, |start| Start { inputs, draft, ..start })
        .settle();
}

/// An intent that is being worked on.
fn active(name: &str) -> World {
    let mut world = World::new();
    made(&mut world, name, &json!({}), false, &[]);
    world
}

fn intent(command: IntentCommand) -> Command {
    Command::Intent(Box::new(command))
}

fn patch(op: PatchOp, path: &str, value: Option<Value>) -> Patch {
    Patch { op, path: path.to_owned(), value: value.map(|value| Json::of(&value)) }
}

impl World {
    fn drive(&mut self, name: &str, command: IntentCommand) -> Result<(), Rejection> {
        let driven = self.ask(name, intent(command));
        self.settle();
        driven
    }

    fn version(&self, name: &str) -> u64 {
        self.run(name).intent_version()
    }

    fn send_as(&mut self, name: &str, to: IntentSent, agent: &str) -> Result<(), Rejection> {
        let expected = self.version(name);
        self.drive(name, IntentCommand::Send { expected, to, reason: None, actor: Actor::of(agent) })
    }

    fn send(&mut self, name: &str, to: IntentSent) -> Result<(), Rejection> {
        self.send_as(name, to, ADA)
    }

    fn set(&mut self, name: &str, path: &str, value: Value) -> Result<(), Rejection> {
        let expected = self.version(name);
        let patches = vec![patch(PatchOp::Set, path, Some(value))];
        self.drive(name, IntentCommand::Patch { expected, patches, actor: Actor::of(ADA) })
    }

    /// Somebody answers by the name of a suspension.
    fn respond(&mut self, name: &str, suspension: &str, value: &Value) -> Result<(), Rejection> {
        let (id, value) = self.run(name).answered_by_name(suspension, Json::of(value))?;
        let answered = self.ask(name, Command::Resolve(Resolve { id, value, by: Answerer::of("zoe") }));
        self.settle();
        answered
    }

    /// A value of the state as it is shown.
    fn state(&self, name: &str) -> Value {
        Json::of(&self.run(name).shown_state()).parse().expect("a state is JSON")
    }

    fn suspension(&self, name: &str) -> Value {
        self.state(name)["_suspension"].clone()
    }

    fn intent_status(&self, name: &str) -> &'static str {
        self.run(name).status().intent_name()
    }
}

/// The record of a question with two answers.
fn record(id: &str) -> Value {
    json!({
        "id": id, "question": "Sign off?", "response_type": "choice", "fallback_policy": "fail",
        "choices": [{ "value": "yes", "label": "Yes" }, { "value": "no", "label": "No" }],
    })
}

/// The same with more said.
fn record_with(id: &str, more: &Value) -> Value {
    let mut record = record(id);
    for (key, value) in more.as_object().expect("an object") {
        record[key] = value.clone();
    }
    record
}
