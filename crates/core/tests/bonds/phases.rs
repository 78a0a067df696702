//! Phases: runs that are done by hand and wait for each other, and the workflow that only looks on.

use std::sync::Arc;

use abide_core::{Graph, HandOp, Json, JsonMap, PhaseStatus, PhaseView, Start, Status, Unclaimed};
use serde_json::json;

use crate::story::hours;
use crate::world::World;

/// Who wants a phase while it can't be had yet.
const BOB: &str = "bob";

/// Phases as OpenIntent writes them, all of which have begun. All but the last come after the first.
pub(crate) fn flow() -> World {
    let definition = json!({
        "openintent": "1.0", "info": { "name": "flow" },
        "workflow": {
            "first": { "title": "First", "assign": "ann", "outputs": { "sum": { "type": "number", "required": false } } },
            "wired": { "title": "Wired", "assign": "bob", "depends_on": ["first"], "inputs": { "sum": "first.sum" } },
            "lacking": {
                "title": "Lacking", "assign": "bob", "depends_on": ["first"],
                "inputs": { "amount": "$trigger.amount", "sum": "first.sum", "zone": "$trigger.zone" },
            },
            "behind": { "title": "Behind", "assign": "bob", "depends_on": ["first"], "inputs": { "who": "$trigger.who" } },
            "beside": { "title": "Beside", "assign": "bob", "inputs": { "who": "$trigger.who" } },
        },
    });
    let graph = Graph::admit(definition.to_string().as_bytes()).expect("the definition is sound");
    let inputs = JsonMap::from([("who".to_owned(), Json::of("us"))]);
    let mut world = World::new();
    world.begin_with("flow", Arc::new(graph), &[], |start| Start { inputs, ..start }).settle();
    world
}

/// The same, with somebody who asks people about the first phase.
fn suspended() -> World {
    let mut world = flow();
    world.suspend("flow/first").settle();
    world
}

/// Why nobody can have a run that is done by hand, if that is so.
fn unclaimed(world: &World, name: &str) -> Option<Unclaimed> {
    let run = world.run(name);
    run.unclaimed(run.hand_node(None).expect("it is done by hand"))
}

/// A phase, as the workflow shows it.
pub(crate) fn phase(world: &World, name: &str) -> PhaseView {
    world.run("flow").phases().into_iter().find(|view| view.phase == name).expect("it is a phase")
}

fn task_status(world: &World, name: &str) -> PhaseStatus {
    phase(world, name).task_status
}

#[test]
fn a_workflow_is_as_active_as_before_while_its_phases_wait_for_people() {
    let mut world = suspended();
    world.stands("flow/first", Status::WaitingInput).stands("flow", Status::Running);
    assert_eq!(world.run("flow").suspended_phases().len(), 1);
    world.later(hours(1)).answer("flow/first").settle().stands("flow", Status::Running);
    let of_itself = world.history("flow").into_iter().filter(|told| told.starts_with("run."));
    assert_eq!(of_itself.collect::<Vec<_>>(), ["run.started"], "its own status never changed");
}

#[test]
fn a_refused_claim_leaves_the_task_as_it_was() {
    let mut world = suspended();
    assert_eq!(task_status(&world, "wired"), PhaseStatus::Pending);
    let before = world.run("flow").snapshot();
    world.by("flow/wired", BOB, HandOp::Claim).expect("that they are refused is recorded");
    world.settle().stands("flow/wired", Status::Blocked);
    assert!(matches!(unclaimed(&world, "flow/wired"), Some(Unclaimed::UpstreamSuspended { .. })));
    assert_eq!((world.holder("flow/wired"), world.waiting("flow/wired")), (None, vec![BOB.to_owned()]));
    assert_eq!(task_status(&world, "wired"), PhaseStatus::Pending);
    assert!(world.run("flow").snapshot() == before, "the workflow does not even hear of it");
}

#[test]
fn whoever_was_refused_has_the_phase_once_the_one_before_is_through_and_nobody_has_to_do_anything() {
    let mut world = suspended();
    world.by("flow/wired", BOB, HandOp::Claim).expect("that they are refused is recorded");
    world.answer("flow/first").settle();
    assert_eq!(world.holder("flow/wired"), None, "an answer alone is not enough");
    world.complete_with("flow/first", &json!({ "sum": 3 })).settle();
    assert_eq!(world.holder("flow/wired").as_deref(), Some(BOB));
    let events = world.history("flow/wired").len();
    world.by("flow/wired", BOB, HandOp::Claim).expect("it is theirs");
    assert_eq!(world.history("flow/wired").len(), events, "and was before they asked again");
    assert_eq!(
        world.payloads("flow/wired", "node.claimed"),
        [json!({ "agent": BOB, "inputs": { "sum": 3 } })]
    );
    assert_eq!(world.holder("flow/behind"), None, "nobody asked for that");
    world.fork_all();
}

#[test]
fn that_an_upstream_waits_for_people_is_told_before_what_can_not_be_found() {
    let mut world = suspended();
    let suspended = Unclaimed::UpstreamSuspended {
        task_id: "lacking".to_owned(),
        phase_name: "first".to_owned(),
        suspended_intent_id: world.id("flow/first"),
        expected_resume_at: None,
    };
    assert_eq!(unclaimed(&world, "flow/lacking"), Some(suspended));
    world.answer("flow/first").settle();
    let missing = ["$trigger.amount", "first.sum", "$trigger.zone"].map(ToOwned::to_owned);
    assert_eq!(unclaimed(&world, "flow/lacking"), Some(Unclaimed::Unresolvable(missing.to_vec())));
}

#[test]
fn whoever_takes_nothing_from_a_phase_that_waits_is_not_refused_for_that() {
    let mut world = suspended();
    world.by("flow/beside", BOB, HandOp::Claim).expect("nothing keeps them from it");
    assert_eq!(
        world.payloads("flow/beside", "node.claimed"),
        [json!({ "agent": BOB, "inputs": { "who": "us" } })]
    );
    // The run of a phase that comes after it waits, but not for want of inputs.
    let blocked = unclaimed(&world, "flow/behind");
    assert!(
        matches!(blocked, Some(Unclaimed::Blocked(reason)) if reason.name() == "dependency_suspended"),
        "{blocked:?}"
    );
}
