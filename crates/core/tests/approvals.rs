//! Approvals in full: the five actions, votes, questions back, and what is made again.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

#[expect(dead_code, reason = "commands.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

#[path = "approvals/asking.rs"]
mod asking;
#[path = "approvals/deciding.rs"]
mod deciding;
#[path = "approvals/eligible.rs"]
mod eligible;
#[path = "approvals/random.rs"]
mod random;
#[path = "approvals/refining.rs"]
mod refining;
#[path = "approvals/voting.rs"]
mod voting;

use abide_core::{Answerer, Command, Json, Rejection, Resolve};
use serde_json::{Value, json};
use story::Story;
use workflow::{Sketch, of_kind, output, transform};

const ALL: [&str; 5] = ["accept", "reject", "refine", "edit-accept", "ask"];

/// A gate that offers everything.
fn gate(id: &str) -> Sketch {
    of_kind(id, "core.approvalGate").config("title", json!("Send it?")).config("actions", json!(ALL))
}

/// A node that makes a letter, and says what it was told about the one before.
fn draft() -> Sketch {
    transform("draft").config(
        "outputs",
        json!({
            "letter": "{\"text\": 'v' + string(nodes.draft.execution + 1), \"items\": [{\"price\": 7}]}",
            "told": "has(inputs.refineFeedback) ? inputs.refineFeedback : null",
            "before": "has(inputs.previousArtifact) ? inputs.previousArtifact : null",
        }),
    )
}

/// The same gate behind the node that makes what it is about.
fn gate_on_draft() -> Sketch {
    gate("gate").input("artifact", output("draft", "letter"))
}

fn outputs(story: &Story, node: &str) -> Value {
    story.node(node).outputs.as_ref().map_or(Value::Null, |outputs| outputs.parse().unwrap())
}

fn payload(story: &Story, name: &str) -> Value {
    serde_json::from_str(&story.payload(name)).unwrap()
}

/// Somebody answers, known as what the directory says.
fn answer_as(story: Story, by: Answerer, value: &Value) -> Story {
    let id = story.run().interrupt_of("gate").expect("the gate asked");
    story.ask(Command::Resolve(Resolve { id, value: Json::of(value), by }))
}

fn says(story: Story, who: &str, value: &Value) -> Story {
    answer_as(story, Answerer::of(who), value)
}

fn act(action: &str) -> Value {
    json!({ "action": action })
}

/// What is wrong with the last answer, as `path: message`.
fn wrong(story: &Story) -> Vec<String> {
    match story.last_rejection() {
        Rejection::BadAnswer(errors) => errors.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}
