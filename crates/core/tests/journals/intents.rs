//! The journal of an intent: made as a draft, had, changed, suspended before anybody says what for, answered, governed, done.

use std::sync::Arc;

use abide_core::{
    Access, Actor, Answerer, Command, IntentCommand, IntentSent, Json, JsonMap, LeaseAct, Patch, PatchOp,
    RequestKind, Resolve, Start, Status, intent_graph,
};
use serde_json::{Value, json};

use crate::world::World;

const NAME: &str = "intent";

fn map(value: &Value) -> JsonMap {
    Json::of(value).parse().expect("an object")
}

fn drive(world: &mut World, command: impl FnOnce(u64, Actor) -> IntentCommand) {
    let command = command(world.run(NAME).intent_version(), Actor::of("ada"));
    world.accept(NAME, Command::Intent(Box::new(command))).settle();
}

fn set(world: &mut World, path: &str, value: &Value) {
    let patches = vec![Patch { op: PatchOp::Set, path: path.to_owned(), value: Some(Json::of(value)) }];
    drive(world, |expected, actor| IntentCommand::Patch { expected, patches, actor });
}

fn send(world: &mut World, to: IntentSent) {
    drive(world, |expected, actor| IntentCommand::Send {
        expected,
        to,
        reason: Some("why not".to_owned()),
        actor,
    });
}

fn answer(world: &mut World, value: &Value) {
    let id = world.run(NAME).interrupts().next().expect("something is asked").requested.interrupt_id;
    let remarks = Some(Json::of(&json!({ "device": "phone" })));
    let by = Answerer { remarks, ..Answerer::of("zoe") };
    world.accept(NAME, Command::Resolve(Resolve { id, value: Json::of(value), by })).settle();
}

pub(crate) fn driven() -> World {
    let mut world = World::new();
    let inputs = map(&json!({ "title": "Review", "created_by": "ada", "state": { "files": 3 } }));
    world
        .begin_with(NAME, Arc::new(intent_graph()), &[], |start| Start { inputs, draft: true, ..start })
        .settle();
    send(&mut world, IntentSent::Active);
    let acquire = LeaseAct::Acquire { scope: "all".to_owned(), seconds: 60 };
    drive(&mut world, |_, actor| IntentCommand::Lease { act: acquire, actor });
    let lease =
        world.run(NAME).intent().and_then(|intent| intent.leases.keys().next().cloned()).expect("a lease");
    let renew = LeaseAct::Renew { id: lease.clone(), seconds: 600 };
    drive(&mut world, |_, actor| IntentCommand::Lease { act: renew, actor });
    let bob = || "bob".to_owned();
    drive(&mut world, |_, actor| IntentCommand::Assign { agent: bob(), role: "worker".to_owned(), actor });
    drive(&mut world, |_, actor| IntentCommand::Unassign { agent: bob(), actor });
    drive(&mut world, |_, actor| IntentCommand::Assign {
        agent: "ada".to_owned(),
        role: "lead".to_owned(),
        actor,
    });
    drive(&mut world, |_, actor| IntentCommand::SetAccess { access: Box::new(Access::default()), actor });
    let policy = Some(Json::of(&json!({ "completion_mode": "require_approval" })));
    drive(&mut world, |expected, actor| IntentCommand::Govern { expected, policy, actor });
    send(&mut world, IntentSent::Suspended);
    let record = json!({
        "id": "sign-off", "question": "Release it?", "response_type": "choice", "fallback_policy": "fail",
        "choices": [{ "value": "yes", "label": "Yes" }], "timeout_seconds": 600,
    });
    set(&mut world, "_suspension", &record);
    answer(&mut world, &json!({ "answers": { "answer": "yes" } }));
    let release = LeaseAct::Release { id: lease };
    drive(&mut world, |_, actor| IntentCommand::Lease { act: release, actor });
    let asked = map(&json!({ "action": "complete", "reason": "all is done" }));
    drive(&mut world, |_, actor| IntentCommand::Request { kind: RequestKind::Approval, asked, actor });
    answer(&mut world, &json!({ "action": "accept" }));
    send(&mut world, IntentSent::Completed);
    world.stands(NAME, Status::Completed);
    world
}

#[test]
fn an_intent_that_is_driven() {
    insta::assert_snapshot!(crate::written(driven().journal(NAME)));
}
