//! Votes: how many it takes, who counts, and what closes the question.

use abide_core::{Graph, InterruptId, Status, TimerId};
use serde_json::{Value, json};

use super::story::Story;
use super::workflow::{Workflow, noop, workflow};
use super::*;

fn quorum(required: u32, policy: Option<&str>) -> Workflow {
    let mut gate = gate_on_draft().config("requiredApprovals", json!(required));
    if let Some(policy) = policy {
        gate = gate.config("rejectionPolicy", json!(policy));
    }
    workflow([draft(), gate, noop("send")]).flow("draft > gate > send")
}

fn open(required: u32, policy: Option<&str>) -> Story {
    Story::of(&quorum(required, policy)).start()
}

fn votes(mut story: Story, votes: &[(&str, &str)]) -> Story {
    for (who, action) in votes {
        story = says(story, who, &act(action));
    }
    story
}

fn received(story: &Story) -> Vec<Value> {
    let told = story.journal().iter().filter(|record| story::type_name(record) == "approval.received");
    told.map(|record| serde_json::from_str(&story::payload_text(record)).unwrap()).collect()
}

#[test]
fn a_run_goes_on_only_when_enough_have_accepted() {
    let story = says(open(3, None), "ann", &act("accept"));
    let story = story.expect(["approval.voted gate"]).stands(Status::WaitingApproval);
    let story = votes(story, &[("bob", "accept")]).stands(Status::WaitingApproval);
    let story = says(story, "eve", &act("accept")).stands(Status::Completed);
    assert_eq!(received(&story).len(), 1);
    assert_eq!(received(&story)[0]["decidedBy"], "eve", "whoever closed it");
    let quorum = &outputs(&story, "gate")["quorum"];
    assert_eq!((&quorum["approvals"], &quorum["required"]), (&json!(3), &json!(3)));
    assert_eq!(quorum["votes"][0]["by"], "ann");
}

#[test]
fn every_vote_is_kept_with_who_when_what_and_why() {
    let value = json!({ "action": "reject", "reason": "budget", "feedback": "too much" });
    let story = says(open(3, Some("majority")), "ann", &value);
    let voted = payload(&story, "approval.voted");
    assert_eq!(
        (&voted["decidedBy"], &voted["action"], &voted["reason"], &voted["feedback"]),
        (&json!("ann"), &json!("reject"), &json!("budget"), &json!("too much"))
    );
    assert!(voted.get("replaces").is_none());
}

#[test]
fn nobody_votes_twice_and_a_change_of_mind_is_told() {
    let story = votes(open(3, Some("majority")), &[("ann", "accept"), ("ann", "accept"), ("ann", "accept")]);
    let story = story.stands(Status::WaitingApproval);
    let told: Vec<String> =
        story.history().into_iter().filter(|line| line.starts_with("approval.voted")).collect();
    assert_eq!(told.len(), 3, "each is in the journal");
    let id = story.run().interrupt_of("gate").unwrap();
    let standing = |story: &Story, id: InterruptId| {
        let open = story.run().interrupt(id).unwrap();
        let quorum = open.quorum().unwrap();
        let progress = quorum.progress(open.votes());
        (progress.approvals, progress.rejections)
    };
    assert_eq!(standing(&story, id), (1, 0));
    let story = votes(story, &[("ann", "reject")]);
    assert_eq!(standing(&story, id), (0, 1));
    assert_eq!(payload(&story, "approval.voted")["replaces"], true);
}

#[test]
fn one_veto_is_enough_unless_a_majority_is_asked_for() {
    let story = votes(open(3, None), &[("ann", "accept"), ("bob", "accept"), ("eve", "reject")]);
    let story = story.stands(Status::Failed);
    assert_eq!(story.run().error().unwrap().code, "approval_rejected");
    assert_eq!(received(&story)[0]["action"], "reject");
    votes(open(3, Some("single-veto")), &[("ann", "reject")]).stands(Status::Failed);
}

#[test]
fn a_majority_rejects_and_nothing_less() {
    for (required, needed) in [(2, 2), (3, 2), (4, 3), (5, 3)] {
        let mut story = open(required, Some("majority"));
        for voter in 1..needed {
            story = says(story, &format!("v{voter}"), &act("reject")).stands(Status::WaitingApproval);
        }
        says(story, "last", &act("reject")).stands(Status::Failed);
    }
}

#[test]
fn several_people_can_neither_edit_nor_have_it_refined() {
    let edit = json!({ "action": "edit-accept", "editedArtifactData": 1 });
    let story = says(open(2, None), "ann", &edit);
    assert!(wrong(&story)[0].starts_with("/action: an edited artifact can't be voted on"));
    let refine = json!({ "action": "refine", "refineFeedback": { "scope": "whole", "text": "shorter" } });
    let story = says(story.stands(Status::WaitingApproval), "ann", &refine).stands(Status::Failed);
    assert_eq!(
        (&received(&story)[0]["action"], &received(&story)[0]["feedback"]),
        (&json!("reject"), &json!("shorter"))
    );
    assert_eq!(payload(&story, "approval.voted")["action"], "refine");
    let story = says(open(3, Some("majority")), "ann", &refine).stands(Status::WaitingApproval);
    says(story, "bob", &act("reject")).stands(Status::Failed);
}

#[test]
fn a_quorum_that_can_never_be_is_refused() {
    let named = |names: Value| {
        let gate = gate_on_draft().config("requiredApprovals", json!(3)).config("approversList", names);
        let flow = workflow([draft(), gate]).flow("draft > gate");
        let found = Graph::admit(flow.text().as_bytes()).err().unwrap_or_default();
        found.iter().map(ToString::to_string).collect::<String>()
    };
    assert!(
        named(json!(["ann", "bob", "ann"])).contains("3 approvals are needed, but 'approversList' names 2")
    );
    for good in [json!([]), json!(["ann", "bob", "eve"]), json!(["ann", "group:finance"])] {
        assert_eq!(named(good.clone()), "", "{good}");
    }
}

#[test]
fn who_decided_is_the_same_on_every_replay() {
    let story = votes(open(2, None), &[("ann", "accept"), ("bob", "accept")]).stands(Status::Completed);
    let mut again = abide_core::Run::empty(story.run().key(), story::SALT, story.run().graph().clone());
    for record in story.journal() {
        again.apply(record).expect("it folds");
    }
    assert_eq!(again.snapshot(), story.run().snapshot());
    assert_eq!(received(&story)[0]["decidedBy"], "bob");
}

#[test]
fn a_timeout_rejects_whatever_the_votes_are() {
    let gate = gate_on_draft().config("requiredApprovals", json!(2)).config("timeoutMs", json!(1000));
    let story = Story::of(&workflow([draft(), gate]).flow("draft > gate")).start();
    let id = story.run().interrupt_of("gate").unwrap();
    let story = says(story, "ann", &act("accept")).after(1000);
    let story = story.ask(story::fire(TimerId::Interrupt(id))).stands(Status::Failed);
    assert_eq!(story.run().error().unwrap().code, "approval_timeout");
}
