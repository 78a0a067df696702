//! One decision: what it has to say, and what the run goes on with.

use abide_core::Status;
use serde_json::json;

use super::story::{BEGIN, Story};
use super::workflow::{Workflow, noop, of_kind, transform, workflow};
use super::*;

/// A letter, its gate, and a node that takes what came out of the gate.
fn letter() -> Workflow {
    let send = transform("send").config("outputs", json!({ "sent": "inputs.letter" }));
    let send = send.input("letter", output("gate", "artifactData"));
    workflow([draft(), gate_on_draft(), send]).flow("draft > gate > send")
}

#[test]
fn accept_and_reject_take_feedback_or_none() {
    for action in ["accept", "reject"] {
        for feedback in [None, Some("well")] {
            let mut value = act(action);
            if let Some(said) = feedback {
                value["feedback"] = json!(said);
                value["decidedAt"] = json!("2026-05-01T10:00:00Z");
            }
            let story = says(Story::of(&letter()).start(), "ann", &value);
            let received = payload(&story, "approval.received");
            assert_eq!((&received["action"], &received["decidedBy"]), (&json!(action), &json!("ann")));
            assert_eq!(received["feedback"].as_str(), feedback);
        }
    }
}

#[test]
fn a_decision_is_stamped_with_our_time_whatever_is_said() {
    for said in
        [json!({ "action": "accept" }), json!({ "action": "accept", "decidedAt": "1999-01-01T00:00:00Z" })]
    {
        let story = says(Story::of(&letter()).start().after(5), "ann", &said);
        let at = outputs(&story, "gate")["decidedAt"].clone();
        assert_eq!(at, json!(abide_core::rfc3339(BEGIN + 5)));
    }
}

#[test]
fn accept_goes_on_with_the_artifact_as_it_was() {
    let story = says(Story::of(&letter()).start(), "ann", &act("accept")).stands(Status::Completed);
    assert_eq!(outputs(&story, "send")["sent"], json!({ "text": "v1", "items": [{ "price": 7 }] }));
}

#[test]
fn edit_accept_goes_on_with_what_was_edited_and_is_called_so() {
    let edited = json!({ "text": "mine", "more": [1.50] });
    let value = json!({ "action": "edit-accept", "editedArtifactData": edited });
    let story = says(Story::of(&letter()).start(), "ann", &value).stands(Status::Completed);
    assert_eq!(outputs(&story, "send")["sent"], edited);
    let received = payload(&story, "approval.received");
    assert_eq!((&received["action"], &received["editedArtifactData"]), (&json!("edit-accept"), &edited));
    assert_eq!(payload(&story, "interrupt.resolved")["resumeValue"]["action"], "edit-accept");
}

#[test]
fn other_gates_give_the_edited_artifact_as_well() {
    let data = json!({ "artifactId": "a", "artifactType": "t", "title": "T", "actions": ["accept", "edit"], "artifactData": 1 });
    let plain = of_kind("gate", "core.interrupt").config("kind", json!("approval")).config("data", data);
    let request = of_kind("gate", "core.hitl.approval-request").config("title", json!("T"));
    let request = request.config("actions", json!(["accept", "edit"]));
    for gate in [plain, request] {
        let value = json!({ "action": "edit-accept", "editedArtifactData": 2 });
        let story = says(Story::of(&workflow([gate])).start(), "ann", &value).stands(Status::Completed);
        assert_eq!(outputs(&story, "gate")["artifactData"], 2);
    }
}

#[test]
fn an_edited_artifact_fits_its_schema_or_is_refused_by_its_places() {
    let schema = json!({ "type": "object", "required": ["text"], "properties": { "items": { "items": { "type": "number" } } } });
    let flow = workflow([draft(), gate_on_draft().setting("artifactSchema", schema)]).flow("draft > gate");
    let edit = |data: &Value| json!({ "action": "edit-accept", "editedArtifactData": data });
    let story = says(Story::of(&flow).start(), "ann", &edit(&json!({ "items": [1, "x"] })));
    let told = wrong(&story);
    assert!(told.iter().any(|one| one.starts_with("/editedArtifactData: ")), "{told:?}");
    assert!(told.iter().any(|one| one.starts_with("/editedArtifactData/items/1: ")), "{told:?}");
    let story =
        says(story.stands(Status::WaitingApproval), "ann", &edit(&json!({ "text": "t", "items": [1] })));
    story.stands(Status::Completed);
    let bad = workflow([draft(), gate_on_draft().setting("artifactSchema", json!({ "type": 7 }))])
        .flow("draft > gate");
    assert!(bad.problems().contains("settings.abide.artifactSchema"), "{}", bad.problems());
}

#[test]
fn an_edit_without_the_artifact_is_refused() {
    let story = says(Story::of(&letter()).start(), "ann", &act("edit-accept"));
    assert_eq!(wrong(&story), ["'editedArtifactData' is missing; 'edit-accept' needs it"]);
    story.stands(Status::WaitingApproval);
}

#[test]
fn a_reject_fails_the_run_unless_an_edge_asks_for_it() {
    let story = says(Story::of(&letter()).start(), "ann", &act("reject")).stands(Status::Failed);
    assert_eq!(story.run().error().unwrap().code, "approval_rejected");
}

#[test]
fn a_reject_that_an_edge_asks_for_goes_that_way() {
    let flow = workflow([draft(), gate_on_draft(), noop("send"), noop("undo")]).flow("draft > gate > send");
    let flow = flow.flow("gate > undo").when("output.action == 'reject'");
    let story = says(Story::of(&flow).start(), "ann", &act("reject")).stands(Status::Completed);
    use abide_core::NodePhase::{Completed, Skipped};
    story.node_is("undo", Completed).node_is("send", Skipped);
}

#[test]
fn a_decision_is_told_once_as_received_and_once_as_resolved() {
    let story = says(Story::of(&letter()).start(), "ann", &act("accept"));
    let told = |name: &str| story.history().iter().filter(|line| line.starts_with(name)).count();
    assert_eq!((told("approval.received"), told("interrupt.resolved")), (1, 1));
}
