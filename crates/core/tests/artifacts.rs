//! Which outputs get a name, and when.

#[expect(dead_code, reason = "commands.rs tells the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "commands.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{Record, limits};
use serde_json::{Value, json};
use story::{Story, type_name};
use workflow::{Sketch, fail, fixed, identity, noop, workflow};

fn artifact(id: &str) -> Sketch {
    identity(id).input("x", fixed(&json!(1))).with("artifactType", json!("report"))
}

fn names(story: &Story) -> Vec<Value> {
    let created = story.journal().iter().filter(|record| type_name(record) == "artifact.created");
    created.map(|record| payload(record)["artifactId"].clone()).collect()
}

fn payload(record: &Record) -> Value {
    match &record.payload {
        abide_core::Payload::Present(bytes) => serde_json::from_slice(bytes).expect("a payload is JSON"),
        abide_core::Payload::Erased(_) => Value::Null,
    }
}

#[test]
fn what_a_node_produces_gets_a_name_right_after_it_completed() {
    Story::of(&workflow([artifact("draft"), noop("after")]).flow("draft > after")).start().expect([
        "run.started",
        "node.started draft",
        "node.completed draft",
        "artifact.created draft",
        "node.started after",
        "node.completed after",
        "run.completed",
    ]);
}

#[test]
fn every_execution_of_a_loop_makes_its_own() {
    let again = noop("again").looping(2);
    let story = Story::of(&workflow([artifact("draft"), again]).flow("draft > again > draft")).start();
    let names = names(&story);
    assert_eq!(names.len(), 3);
    assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2], "{names:?}");
    for name in &names {
        let name = name.as_str().unwrap().strip_prefix("art-").unwrap();
        assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    }
}

#[test]
fn nothing_produced_is_no_artifact() {
    let nodes = [
        noop("nothing").with("artifactType", json!("report")),
        fail("broken").with("artifactType", json!("report")),
        identity("plain").input("x", fixed(&json!(1))),
        artifact("null").with("artifactType", json!(null)),
    ];
    assert_eq!(names(&Story::of(&workflow(nodes)).start()), Vec::<Value>::new());
}

#[test]
fn a_type_that_is_no_text_is_objected_to_and_was_once_taken() {
    for strange in [json!(5), json!(""), json!("x".repeat(limits::ARTIFACT_TYPE_CHARS_MAX + 1))] {
        let odd = workflow([artifact("draft").with("artifactType", strange)]);
        let problems = odd.problems();
        assert!(problems.contains("nodes['draft'].artifactType: a text of 1 to"), "{problems}");
        assert_eq!(odd.old_graph().len(), 1, "a run that is pinned to it goes on");
    }
}
