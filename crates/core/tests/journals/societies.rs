//! Journals of runs that have to do with each other: phases and who coordinates them, groups, dependencies, children.

use std::fmt::Write;
use std::sync::Arc;

use abide_core::{
    BondCommand, Command, CoordinatorCommand, Governance, Graph, HandOp, Registration, Status, Tidings,
};
use serde_json::json;

use crate::story::{BEGIN, hours};
use crate::world::{World, question};

const MINUTE_MS: i64 = 60_000;

const PHASES: &str = r#"{"openintent":"1.0","info":{"name":"flow"},"workflow":{
  "first":{"title":"First","assign":"ann","outputs":{"sum":"number"}},
  "second":{"title":"Second","assign":"bob","depends_on":["first"],"inputs":{"sum":"first.sum"}}}}"#;

fn coordinator(world: &mut World, command: impl FnOnce(String) -> CoordinatorCommand) {
    let held = world.run("flow").coordinators().next().map(|(id, _)| id.to_owned());
    world.accept("flow", Command::Coordinator(Box::new(command(held.unwrap_or_default())))).settle();
}

/// Two phases. Their coordinator holds the second back, has people look at it, pauses, is missed, replaced, and done.
pub(crate) fn coordinated() -> World {
    let graph = Graph::admit(PHASES.as_bytes()).expect("the definition is sound");
    let mut world = World::new();
    world.begin_with("flow", Arc::new(graph), &[], |start| start).settle();
    let lead = Registration {
        agent: "lead".to_owned(),
        supervisor: Some("ops".to_owned()),
        suspension_policy: Some("block_dependents".to_owned()),
        ..Registration::default()
    };
    coordinator(&mut world, |_| CoordinatorCommand::Register(lead));
    world.suspend("flow/first").settle();
    world.by("flow/second", "bob", HandOp::Claim).expect("that they are refused is recorded");
    world.answer("flow/first").complete_with("flow/first", &json!({ "sum": 3 })).settle();
    let suspension_policy = "escalate".to_owned();
    coordinator(&mut world, |id| CoordinatorCommand::SetPolicy { id, suspension_policy });
    let asked = abide_core::HandAsk { payload: question(), ladder: None, respondents: None };
    world.by("flow/second", "bob", HandOp::Ask(Box::new(asked))).expect("they have it");
    world.settle().later(40_000);
    coordinator(&mut world, |id| CoordinatorCommand::Heartbeat { id });
    coordinator(&mut world, |id| CoordinatorCommand::Pause { id, reason: Some("lunch".to_owned()) });
    coordinator(&mut world, |id| CoordinatorCommand::Resume { id });
    world.answer("flow/second").settle().later(3 * MINUTE_MS);
    coordinator(&mut world, |id| CoordinatorCommand::TakeOver { id, agent: "ops".to_owned() });
    coordinator(&mut world, |id| CoordinatorCommand::Complete { id });
    world.by("flow/second", "bob", HandOp::Release).expect("they have it");
    world.claim("flow/second").complete("flow/second").settle();
    world.stands("flow", Status::Completed);
    world
}

/// A group whose members come, ask, go on, cost more than they may, and leave.
pub(crate) fn grouped() -> World {
    let mut world = World::new();
    let governance = Governance { deadline: Some(BEGIN + hours(2)), ..Governance::default() };
    world.group("group", governance.clone()).begin("one").begin("two").add("group", &["one", "two"]).settle();
    world.suspend("one").settle().later(hours(1)).answer("one").settle();
    world.complete("one").settle();
    world.govern("group", Governance { budget_limit_cents: Some(1), ..governance }).settle();
    let known = world.member("group", "two").cloned();
    let tidings = Tidings { cost_micros: 20_000, sequence: 90, ..world.run("two").tidings() };
    world.accept("group", Command::Bond(Box::new(BondCommand::Hear { tidings, known })));
    world.try_remove("group", "two").expect("it is a member");
    world.settle().close("group").expect("all that are left have completed");
    world
}

/// Runs that wait for others: from the beginning, as a draft, later, and not any more. One of them starts a child.
pub(crate) fn waiting() -> World {
    let mut world = World::new();
    world.begin("first").begin_after("second", &["first"]).draft_after("third", &["second"]);
    world.begin("fourth").claim("fourth").settle();
    world.activate("third").expect("it is a draft");
    world.depend("fourth", "third").settle();
    world.independ("fourth", "third").expect("it waits for that");
    world.adopt("fourth", "child", &["first"]).expect("it is done by hand");
    world.settle().claim("first").complete("first").settle();
    world.claim("child").complete("child").settle();
    world.complete("fourth").settle();
    world
}

/// The journals of all runs of a world.
fn written(world: &World) -> String {
    let mut text = String::new();
    for name in world.names() {
        writeln!(text, "{name}\n{}\n", super::written(world.journal(&name)))
            .expect("a string takes any text");
    }
    text
}

#[test]
fn phases_that_are_coordinated() {
    insta::assert_snapshot!(written(&coordinated()));
}

#[test]
fn a_group_and_its_members() {
    insta::assert_snapshot!(written(&grouped()));
}

#[test]
fn runs_that_wait_for_runs() {
    insta::assert_snapshot!(written(&waiting()));
}
