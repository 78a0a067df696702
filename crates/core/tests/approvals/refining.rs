//! Refinements: what has to be said, who is told, and how often.

use abide_core::Status;
use serde_json::{Value, json};

use super::story::Story;
use super::workflow::{Workflow, http, noop, of_kind, workflow};
use super::*;

fn letter() -> Workflow {
    workflow([draft(), gate_on_draft(), noop("send")]).flow("draft > gate > send")
}

fn refine(feedback: &Value) -> Value {
    json!({ "action": "refine", "refineFeedback": feedback })
}

fn whole(text: &str) -> Value {
    refine(&json!({ "scope": "whole", "text": text }))
}

#[test]
fn a_refinement_has_what_is_made_made_again_and_tells_what_was_said() {
    let said = json!({ "scope": "items", "itemIds": ["i1"], "tags": ["tone", "short"], "text": "be kind" });
    let story = says(Story::of(&letter()).start(), "ann", &refine(&said)).expect([
        "approval.received gate",
        "interrupt.resolved gate",
        "node.resumed gate",
        "node.refined draft",
        "node.completed gate",
        "loop.restarted",
        "node.started draft",
        "node.completed draft",
        "node.started gate",
        "interrupt.requested gate",
        "node.suspended gate",
    ]);
    let made = outputs(&story, "draft");
    assert_eq!(made["told"], said, "tags and text as they were given");
    assert_eq!(made["before"]["text"], "v1");
    assert_eq!((story.node("draft").execution, &made["letter"]["text"]), (2, &json!("v2")));
    let story = says(story, "ann", &act("accept")).stands(Status::Completed);
    assert_eq!(outputs(&story, "gate")["artifactData"]["text"], "v2");
}

#[test]
fn the_sixth_refinement_is_one_too_many() {
    let mut story = Story::of(&letter()).start();
    for round in 0..5 {
        story = says(story, "ann", &whole("again")).stands(Status::WaitingApproval);
        assert_eq!(story.node("draft").execution, round + 2);
    }
    let story = says(story, "ann", &whole("again")).stands(Status::Failed);
    assert!(story.history().contains(&"workflow.loopback-limit".to_owned()), "{:?}", story.history());
    let few = letter().settings("maxLoopbackIterations", json!(1));
    let story = says(says(Story::of(&few).start(), "ann", &whole("a")), "ann", &whole("b"));
    story.stands(Status::Failed);
}

#[test]
fn a_scope_is_one_of_three() {
    let told = |feedback: &Value| wrong(&says(Story::of(&letter()).start(), "ann", &refine(feedback)));
    assert_eq!(told(&json!({ "text": "t" })), ["/refineFeedback: 'scope' is missing; add it"]);
    assert!(
        told(&json!({ "scope": "all" }))[0].starts_with("/refineFeedback/scope: 'all' is not known here")
    );
    assert!(
        told(&json!({ "scope": "whole", "why": 1 }))[0].starts_with("/refineFeedback/why: there is no 'why'")
    );
}

#[test]
fn a_section_is_named_by_a_path_that_the_artifact_has() {
    let story = || Story::of(&letter()).start();
    let section = |path: Option<&str>| {
        let mut feedback = json!({ "scope": "section", "text": "t" });
        if let Some(path) = path {
            feedback["sectionPath"] = json!(path);
        }
        refine(&feedback)
    };
    for bad in [None, Some("/items/1"), Some("$.nothing"), Some("a..b")] {
        let told = wrong(&says(story(), "ann", &section(bad)));
        assert!(told[0].starts_with("/refineFeedback/sectionPath: "), "{bad:?}: {told:?}");
    }
    for good in ["/items/0/price", "$.items[0].price", "items[0]"] {
        let story = says(story(), "ann", &section(Some(good))).stands(Status::WaitingApproval);
        assert_eq!(outputs(&story, "draft")["told"]["sectionPath"], good);
    }
}

#[test]
fn items_are_named_by_their_ids() {
    for bad in [json!({ "scope": "items" }), json!({ "scope": "items", "itemIds": [] })] {
        let story = says(Story::of(&letter()).start(), "ann", &refine(&bad));
        assert!(wrong(&story)[0].starts_with("/refineFeedback/itemIds: "), "{bad}");
    }
    let story =
        says(Story::of(&letter()).start(), "ann", &refine(&json!({ "scope": "items", "itemIds": ["7"] })));
    assert_eq!(outputs(&story, "draft")["told"]["itemIds"], json!(["7"]));
}

#[test]
fn a_refinement_without_feedback_is_refused_and_feedback_of_old_becomes_one() {
    let story = says(Story::of(&letter()).start(), "ann", &act("refine"));
    assert_eq!(wrong(&story), ["'refineFeedback' is missing; 'refine' needs it"]);
    let story = story.stands(Status::WaitingApproval);
    let story = says(story, "ann", &json!({ "decision": "rejected", "feedback": "shorter" }));
    assert_eq!(outputs(&story, "draft")["told"], json!({ "scope": "whole", "text": "shorter" }));
}

#[test]
fn an_edge_back_of_the_definition_goes_before_the_implied_one() {
    let flow = workflow([noop("plan"), draft(), gate_on_draft(), noop("send")]);
    let flow = flow.flow("plan > draft > gate > send").flow("gate > plan").when("output.action == 'refine'");
    let story = says(Story::of(&flow).start(), "ann", &whole("again")).stands(Status::WaitingApproval);
    assert_eq!((story.node("plan").execution, story.node("draft").execution), (2, 2));
    assert_eq!(outputs(&story, "draft")["told"]["text"], "again", "whoever made it is told");
    let made = transform("draft").config("outputs", json!({ "letter": "1" }));
    let forward = workflow([made, gate_on_draft(), noop("mend")]).flow("draft > gate > mend");
    let forward = forward.edge("condition", json!({ "type": "equals", "left": "action", "right": "refine" }));
    let story = says(Story::of(&forward).start(), "ann", &whole("mend")).stands(Status::Completed);
    assert_eq!(story.node("draft").execution, 1, "nothing is made again");
}

#[test]
fn other_gates_have_things_made_again_too() {
    let data = |artifact: Value| json!({ "artifactId": "a", "artifactType": "t", "title": "T", "actions": ["accept", "refine"], "artifactData": artifact });
    let plain = of_kind("gate", "core.interrupt")
        .config("kind", json!("approval"))
        .config("data", data(json!({ "x": 1 })));
    let request =
        of_kind("gate", "core.hitl.approval-request").config("actions", json!(["accept", "refine"]));
    for gate in [plain, request] {
        let flow = workflow([draft(), gate]).flow("draft > gate");
        let story = says(Story::of(&flow).start(), "ann", &whole("again")).stands(Status::WaitingApproval);
        assert_eq!(outputs(&story, "draft")["told"]["text"], "again");
        says(story, "ann", &act("accept")).stands(Status::Completed);
    }
}

#[test]
fn a_task_of_an_executor_is_told_as_well() {
    let post = http("draft", "POST").config(
        "body",
        json!({ "wish": "{{ has(inputs.refineFeedback) ? inputs.refineFeedback.text : 'none' }}" }),
    );
    let flow = workflow([post, gate("gate")]).flow("draft > gate");
    let body = |story: &Story| format!("{:?}", story.performance("draft"));
    let story = Story::of(&flow).start();
    assert!(body(&story).contains("none"), "{}", body(&story));
    let story = story.report("draft");
    let story = says(story, "ann", &whole("be kind"));
    assert!(body(&story).contains("be kind"), "{}", body(&story));
}

#[test]
fn a_gate_that_nobody_could_refine_for_is_refused_at_the_door() {
    let alone = workflow([gate("gate"), noop("next")]).flow("gate > next");
    assert!(
        alone.problems().contains("it offers 'refine', but nothing tells what is made again"),
        "{}",
        alone.problems()
    );
    let joined =
        workflow([noop("first"), draft(), gate_on_draft()]).flow("first > draft > gate").flow("first > gate");
    assert!(
        joined.problems().contains("would run 'draft' again, but then a loop is entered"),
        "{}",
        joined.problems()
    );
    // What is offered is known only when it is asked for here.
    let late = of_kind("gate", "core.approvalGate").input("actions", workflow::variable("actions"));
    let story =
        Story::of(&workflow([late]).variable("actions", "array").or(json!(["accept", "refine"]))).start();
    assert_eq!(story.run().error().unwrap().code, "invalid_interrupt");
}

#[test]
fn what_leaves_the_loop_waits_for_the_gate_and_goes_on_once() {
    let flow = workflow([draft(), gate_on_draft(), noop("send"), noop("log")])
        .flow("draft > gate > send")
        .flow("draft > log");
    let story = says(Story::of(&flow).start(), "ann", &whole("again"));
    let story = says(story, "ann", &act("accept")).stands(Status::Completed);
    assert_eq!((story.node("log").execution, story.node("send").execution), (1, 1));
}

#[test]
fn what_is_made_comes_first_in_whatever_order_the_nodes_are_written() {
    let parts = || [noop("send"), gate_on_draft(), draft(), noop("check")];
    for order in [[0, 1, 2, 3], [1, 2, 3, 0], [3, 1, 2, 0], [2, 3, 1, 0], [3, 2, 1, 0], [1, 3, 0, 2]] {
        let nodes = order.map(|at| parts()[at].clone());
        let story = Story::of(&workflow(nodes).flow("draft > check > gate > send")).start();
        assert_eq!(outputs(&story, "draft")["letter"]["text"], "v1", "{order:?}");
        let story = says(story, "ann", &whole("again"));
        assert_eq!((story.node("check").execution, story.node("send").execution), (2, 0), "{order:?}");
        let story = says(story, "ann", &act("accept")).stands(Status::Completed);
        assert_eq!(outputs(&story, "gate")["artifactData"]["text"], "v2", "{order:?}");
    }
}

#[test]
fn a_gate_that_is_reached_without_what_would_be_made_again_does_not_offer_that() {
    let two = workflow([noop("other"), gate_on_draft(), draft()]).flow("draft > gate").flow("other > gate");
    assert!(
        two.problems().contains("would run 'draft' again, but then a loop is entered"),
        "{}",
        two.problems()
    );
    let later = output("draft", "letter").optional();
    let ahead = workflow([noop("begin"), gate("gate").input("artifact", later), draft()])
        .flow("begin > gate > draft")
        .flow("draft > gate")
        .when("output.letter.text == 'v1'");
    assert!(
        ahead.problems().contains("does not come before what would have it made again"),
        "{}",
        ahead.problems()
    );
}

#[test]
fn a_condition_that_only_mentions_refining_does_not_ask_for_it() {
    let guarded = |condition: &str| {
        let flow = workflow([draft(), gate_on_draft(), noop("send")]);
        let story = Story::of(&flow.flow("draft > gate").flow("gate > send").when(condition)).start();
        says(story, "ann", &whole("again"))
    };
    for guard in [
        "output.action != 'refine'",
        "!(output.action == 'refine')",
        "output.artifactData != 'refine'",
        "nodes.gate.outputs.action != 'refine' && variables == {}",
    ] {
        let story = guarded(guard).stands(Status::WaitingApproval);
        assert_eq!(story.node("draft").execution, 2, "{guard}");
    }
    let made = transform("draft").config("outputs", json!({ "letter": "1" }));
    let flow = workflow([made, gate_on_draft(), noop("send")]).flow("draft > gate > send");
    let asked = flow.when("output.action in ['refine', 'accept']");
    let story = says(Story::of(&asked).start(), "ann", &whole("again")).stands(Status::Completed);
    assert_eq!(story.node("draft").execution, 1, "nothing is made again");
}
