//! Who may decide: what the core says of people whom the host has looked up.

use abide_core::{Answerer, InterruptRequested, Respondent, Status};
use serde_json::{Value, json};

use super::story::Story;
use super::workflow::{Workflow, workflow};
use super::*;

fn gated(key: &str, value: Value) -> Workflow {
    workflow([draft(), gate_on_draft().config(key, value)]).flow("draft > gate")
}

fn ruled(rules: Value) -> Workflow {
    workflow([draft(), gate_on_draft().setting("approval", rules)]).flow("draft > gate")
}

fn asked(story: &Story) -> InterruptRequested {
    story.run().interrupts().next().expect("it is open").requested.clone()
}

fn of(name: &str, groups: &[&str], roles: &[&str]) -> Answerer {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Answerer { groups: texts(groups), roles: texts(roles), ..Answerer::of(name) }
}

fn may(asked: &InterruptRequested, who: &Answerer) -> bool {
    let Answerer { principal, groups, roles, .. } = who;
    asked.may_be_answered_by(&Respondent { principal, groups, roles, shown_roles: &[] })
}

#[test]
fn a_gate_names_people_groups_and_roles() {
    for (key, name) in
        [("approversList", "ann"), ("approverGroupRefs", "board"), ("approverRoleRefs", "chair")]
    {
        let asked = asked(&Story::of(&gated(key, json!([name]))).start());
        let found = [of("ann", &[], &[]), of("x", &["board"], &[]), of("x", &[], &["chair"])]
            .map(|who| may(&asked, &who));
        let wanted = ["ann", "board", "chair"].map(|meant| meant == name);
        assert_eq!(found, wanted, "{key}");
        assert!(
            !may(&asked, &of(name, &[], &[])) || key == "approversList",
            "nobody is a group by being called so"
        );
    }
    assert!(may(&asked(&Story::of(&gated("approversList", json!([]))).start()), &of("anybody", &[], &[])));
}

#[test]
fn the_core_takes_what_the_host_has_let_through() {
    let story = Story::of(&gated("approversList", json!(["ann"]))).start();
    let asked = payload(&story, "interrupt.requested");
    assert_eq!(asked["data"]["approversList"], json!(["ann"]), "clients are shown it");
    says(story, "somebody else", &act("accept")).stands(Status::Completed);
}

#[test]
fn what_entitled_somebody_is_kept_with_what_they_decided() {
    let story = Story::of(&gated("approverGroupRefs", json!(["board", "staff"]))).start();
    let story = answer_as(story, of("ann", &["board", "chess"], &[]), &act("accept"));
    assert_eq!(payload(&story, "approval.received")["qualifiedBy"], json!(["group:board"]));
}

#[test]
fn who_is_told_is_who_may_decide_unless_there_is_an_audience() {
    let eligible = asked(&Story::of(&gated("approverRoleRefs", json!(["chair"]))).start());
    assert_eq!(eligible.audience(), ["role:chair"]);
    let audience = json!({ "subjects": ["eve"], "groups": ["desk"], "roles": ["clerk"] });
    let named = asked(&Story::of(&gated("audience", audience)).start());
    assert_eq!(named.audience(), ["eve", "group:desk", "role:clerk"]);
    assert!(named.approvers().is_empty(), "and everybody may decide");
}

#[test]
fn whoever_started_or_asked_may_be_barred() {
    let rules =
        asked(&Story::of(&ruled(json!({ "notStarter": true, "notAsker": true }))).start()).rules.unwrap();
    let askers = ["scribe".to_owned()];
    let starters = ["ann".to_owned()];
    assert!(rules.bars("ann", &starters, &askers).unwrap().contains("started the run"));
    assert!(rules.bars("scribe", &starters, &askers).unwrap().contains("whoever asks"));
    assert_eq!(rules.bars("bob", &starters, &askers), None);
    let lax = asked(&Story::of(&ruled(json!({ "acrossGroups": ["a"] }))).start()).rules.unwrap();
    assert_eq!(lax.bars("ann", &starters, &starters), None);
    let story = Story::of(&ruled(json!({ "notStarter": true }))).by("ann").start();
    assert_eq!(story.run().starters(), starters);
}

#[test]
fn two_groups_have_to_agree_by_two_people() {
    let across = || Story::of(&ruled(json!({ "acrossGroups": ["finance", "legal"] }))).start();
    let story = answer_as(across(), of("ann", &["finance", "legal"], &[]), &act("accept"));
    let story = answer_as(story, of("bob", &[], &[]), &act("accept")).stands(Status::WaitingApproval);
    let story = answer_as(story, of("eve", &["legal"], &[]), &act("accept")).stands(Status::Completed);
    assert_eq!(payload(&story, "approval.received")["qualifiedBy"], json!(["group:legal"]));
    let story = answer_as(across(), of("ann", &["finance"], &[]), &act("accept"));
    answer_as(story, of("bob", &["finance"], &[]), &act("accept")).stands(Status::WaitingApproval);
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    for (rules, told) in [
        (json!({ "notstarter": true }), "did you mean 'notStarter'"),
        (json!({ "acrossGroups": ["a", "a"] }), "stands there twice"),
        (json!({ "acrossGroups": [] }), "a list of 1 to"),
        (json!({ "acrossGroups": ["group:legal"] }), "is no group's name"),
        (json!({ "acrossGroups": [" finance"] }), "is no group's name"),
    ] {
        assert!(ruled(rules).problems().contains(told), "{told}");
    }
    let elsewhere = workflow([workflow::noop("n").setting("approval", json!({ "notStarter": true }))]);
    assert!(elsewhere.problems().contains("only nodes that ask"), "{}", elsewhere.problems());
    let clarify =
        of_kind("n", "core.clarificationGate").config("questions", json!([{ "id": "q", "question": "?" }]));
    let undecided = workflow([clarify.setting("approval", json!({ "notStarter": true }))]);
    assert!(undecided.problems().contains("nobody is asked for one here"), "{}", undecided.problems());
    let few = gate("gate").config("actions", json!(["accept"])).config("approversList", json!(["ann"]));
    let few = workflow([few.setting("approval", json!({ "acrossGroups": ["a", "b"] }))]);
    assert!(few.problems().contains("names 1 who may; name more"), "{}", few.problems());
}
