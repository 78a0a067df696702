//! Where an intent may be sent, and how its state changes.

use abide_core::{Actor, IntentCommand, IntentSent, PatchOp, Rejection, Status};
use serde_json::json;

use super::*;

#[test]
fn an_intent_is_sent_where_it_may_go_and_nowhere_else() {
    use IntentSent::{Abandoned, Active, Blocked, Completed, Suspended};
    // From where, to where, and how it stands then; nothing if it is refused.
    let table = [
        (
            "draft",
            [
                Some("active"),
                Some("blocked"),
                Some("suspended_awaiting_input"),
                Some("completed"),
                Some("abandoned"),
            ],
        ),
        (
            "active",
            [
                Some("active"),
                Some("blocked"),
                Some("suspended_awaiting_input"),
                Some("completed"),
                Some("abandoned"),
            ],
        ),
        ("blocked", [Some("active"), Some("blocked"), None, None, Some("abandoned")]),
        ("suspended_awaiting_input", [None, None, Some("suspended_awaiting_input"), None, Some("abandoned")]),
        ("completed", [None, None, None, Some("completed"), None]),
        ("abandoned", [None, None, None, None, Some("abandoned")]),
    ];
    for (from, outcomes) in table {
        for (to, expected) in [Active, Blocked, Suspended, Completed, Abandoned].into_iter().zip(outcomes) {
            let mut world = World::new();
            made(&mut world, "a", &json!({}), from == "draft", &[]);
            if let Some(there) = IntentSent::by_name(from) {
                world.send("a", there).unwrap();
            }
            assert_eq!(world.intent_status("a"), from);
            let before = world.history("a");
            match (world.send("a", to), expected) {
                (Ok(()), Some(stands)) => assert_eq!(world.intent_status("a"), stands, "{from} to {to:?}"),
                (Err(_), None) => assert_eq!(world.history("a"), before, "{from} to {to:?}"),
                (sent, _) => panic!("{from} to {to:?}: {sent:?}"),
            }
        }
    }
}

#[test]
fn an_intent_that_waits_for_others_is_blocked_and_goes_nowhere_by_anybodys_wish() {
    let mut world = World::new();
    made(&mut world, "a", &json!({}), false, &[]);
    made(&mut world, "b", &json!({}), true, &["a"]);
    for to in [IntentSent::Suspended, IntentSent::Completed] {
        assert!(world.send("b", to).is_err(), "{to:?}");
    }
    world.send("b", IntentSent::Active).expect("it begins");
    assert_eq!(world.intent_status("b"), "blocked");
    for to in [IntentSent::Active, IntentSent::Suspended, IntentSent::Completed] {
        assert!(matches!(world.send("b", to), Err(Rejection::IllegalTransition(_))), "{to:?}");
    }
    world.send("a", IntentSent::Completed).unwrap();
    assert_eq!(world.intent_status("b"), "active");
    world.send("b", IntentSent::Completed).expect("nothing is in its way");
}

#[test]
fn whoever_has_seen_another_version_changes_nothing() {
    let mut world = active("a");
    let seen = world.version("a");
    world.set("a", "n", json!(1)).unwrap();
    assert_eq!(world.version("a"), seen + 1);
    let late = |world: &mut World, command: fn(u64) -> IntentCommand| world.drive("a", command(1));
    let patch_late = |expected| IntentCommand::Patch {
        expected,
        patches: vec![patch(PatchOp::Set, "n", Some(json!(2)))],
        actor: Actor::of(ADA),
    };
    let send_late = |expected| IntentCommand::Send {
        expected,
        to: IntentSent::Completed,
        reason: None,
        actor: Actor::of(ADA),
    };
    for command in [patch_late, send_late] {
        assert!(matches!(
            late(&mut world, command),
            Err(Rejection::VersionConflict { expected: 1, found: 2 })
        ));
    }
    assert_eq!(world.state("a"), json!({ "n": 1 }));
}

#[test]
fn patches_are_carried_out_together_or_not_at_all() {
    let mut world = World::new();
    made(&mut world, "a", &json!({ "list": [1], "text": "x" }), false, &[]);
    let expected = world.version("a");
    let patches =
        vec![patch(PatchOp::Append, "list", Some(json!(2))), patch(PatchOp::Append, "text", Some(json!(3)))];
    let refused = world.drive("a", IntentCommand::Patch { expected, patches, actor: Actor::of(ADA) });
    let Err(Rejection::Invalid { field, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(field, "patches.1.path");
    assert_eq!(world.state("a"), json!({ "list": [1], "text": "x" }));
    let patches = vec![
        patch(PatchOp::Append, "/list", Some(json!(2))),
        patch(PatchOp::Remove, "text", None),
        patch(PatchOp::Set, "deep/er", Some(json!(null))),
    ];
    world.drive("a", IntentCommand::Patch { expected, patches, actor: Actor::of(ADA) }).unwrap();
    assert_eq!(world.state("a"), json!({ "list": [1, 2], "deep": { "er": null } }));
    assert_eq!(world.payloads("a", "intent.patched").len(), 1, "one event for all of them");
}

#[test]
fn a_state_that_is_too_large_is_refused() {
    let mut world = active("a");
    let large = "x".repeat(abide_core::limits::STATE_BYTES_MAX);
    assert!(matches!(world.set("a", "large", json!(large)), Err(Rejection::Invalid { .. })));
    let expected = world.version("a");
    let none = IntentCommand::Patch { expected, patches: Vec::new(), actor: Actor::of(ADA) };
    assert!(matches!(world.drive("a", none), Err(Rejection::Invalid { .. })));
}

#[test]
fn what_came_of_an_intent_goes_into_those_that_say_so() {
    let mut world = World::new();
    made(
        &mut world,
        "a",
        &json!({ "_io_outputs": { "rows": "array", "level": "Level" }, "_io_types": { "Level": { "enum": ["low"] } } }),
        false,
        &[],
    );
    let unfit = world.send("a", IntentSent::Completed);
    let Err(Rejection::Outputs { missing, .. }) = unfit else { panic!("{unfit:?}") };
    assert_eq!(missing, ["level", "rows"]);
    world.set("a", "rows", json!([1])).unwrap();
    world.set("a", "level", json!("high")).unwrap();
    assert!(
        matches!(world.send("a", IntentSent::Completed), Err(Rejection::Outputs { .. })),
        "it is no such level"
    );
    world.set("a", "level", json!("low")).unwrap();
    world.send("a", IntentSent::Completed).expect("it has what it has to have");
    world.stands("a", Status::Completed);
}

#[test]
fn a_parent_is_not_done_before_its_children() {
    let mut world = active("a");
    world.adopt("a", "child", &[]).expect("it has a child");
    world.settle();
    assert!(matches!(world.send("a", IntentSent::Completed), Err(Rejection::ChildrenUnfinished { .. })));
    world.claim("child").complete("child").settle();
    world.send("a", IntentSent::Completed).expect("nothing is left");
}
