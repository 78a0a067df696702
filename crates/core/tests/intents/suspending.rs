//! How an intent comes to wait for people, and what becomes of it.

use abide_core::event::{Held, Released};
use abide_core::{
    Actor, Answerer, Command, HandAsk, HandOp, HoldMode, IntentCommand, IntentSent, PatchOp, Rejection,
    Resolve, Start, Status, limits,
};
use serde_json::json;

use super::*;

const HOUR: i64 = 3_600_000;

fn suspend(record: &Value, reason: Option<&str>) -> IntentCommand {
    let reason = reason.map(str::to_owned);
    IntentCommand::Suspend { record: Json::of(record), reason, actor: Actor::of(ADA) }
}

#[test]
fn the_word_and_the_record_make_one_question_in_either_order() {
    let more = json!({ "timeout_seconds": 600 });
    let mut first = active("a");
    first.send("a", IntentSent::Suspended).expect("it is suspended");
    assert_eq!(first.run("a").interrupts().count(), 1, "people see it although nothing is said yet");
    first.set("a", "_suspension", record_with("s1", &more)).expect("the record comes");
    let mut second = active("a");
    second.set("a", "_suspension", record_with("s1", &more)).expect("the record comes first");
    assert_eq!(second.intent_status("a"), "active");
    second.send("a", IntentSent::Suspended).expect("it is suspended");
    for world in [&first, &second] {
        assert_eq!(world.run("a").interrupts().count(), 1);
        assert_eq!(world.suspension("a")["id"], "s1");
        let timers = world.timers("a");
        assert_eq!(timers.values().copied().collect::<Vec<_>>(), [600_000], "{timers:?}");
        assert!(timers.keys().all(|timer| timer.starts_with("attempt/")), "{timers:?}");
    }
    assert_eq!(first.payloads("a", "interrupt.amended").len(), 1);
}

#[test]
fn an_answer_stands_in_the_state_and_lets_the_intent_go_on() {
    let mut world = active("a");
    world.set("a", "_suspension", record_with("s1", &json!({ "timeout_seconds": 600 }))).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    world.stands("a", Status::WaitingInput);
    assert_eq!(world.suspension("a")["expires_at"], json!(abide_core::naive(world.now + 600_000)));
    let before = world.version("a");
    assert!(matches!(world.respond("a", "other", &json!("yes")), Err(Rejection::OtherSuspension { .. })));
    assert!(matches!(world.respond("a", "s1", &json!("maybe")), Err(Rejection::InvalidChoice { .. })));
    assert_eq!((world.version("a"), world.intent_status("a")), (before, "suspended_awaiting_input"));
    world.respond("a", "s1", &json!("yes")).expect("it is answered");
    assert_eq!(world.intent_status("a"), "active");
    let told = world.suspension("a");
    assert_eq!(
        (&told["response"], &told["resolution"], &told["responded_by"]),
        (&json!("yes"), &json!("responded"), &json!("zoe"))
    );
    assert_eq!(world.version("a"), before + 1);
    assert!(matches!(world.respond("a", "s1", &json!("no")), Err(Rejection::NotSuspended(_))));
}

#[test]
fn a_resolved_record_does_not_hinder_the_next_and_its_id_answers_no_more() {
    let mut world = active("a");
    world.set("a", "_suspension", record("s1")).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    world.respond("a", "s1", &json!("yes")).unwrap();
    world.send("a", IntentSent::Suspended).expect("the old record says nothing of the next question");
    assert_eq!(world.run("a").interrupts().count(), 1);
    let old = world.respond("a", "s1", &json!("yes"));
    assert!(
        matches!(old, Err(Rejection::OtherSuspension { .. })),
        "what was answered once answers nothing: {old:?}"
    );
    world.set("a", "_suspension", record("s2")).expect("the next record comes");
    assert!(matches!(world.respond("a", "s1", &json!("yes")), Err(Rejection::OtherSuspension { .. })));
    world.respond("a", "s2", &json!("no")).expect("the second is answered");
    assert_eq!(world.suspension("a")["response"], "no");
    let again = world.set("a", "_suspension", record("s1"));
    assert!(matches!(again, Err(Rejection::Invalid { .. })), "an id is used once: {again:?}");
}

#[test]
fn whoever_never_says_what_is_asked_is_answered_all_the_same() {
    let mut world = active("a");
    world.send("a", IntentSent::Suspended).unwrap();
    assert!(world.timers("a").keys().any(|timer| timer.starts_with("grace/")), "{:?}", world.timers("a"));
    world.later(59_999);
    assert!(world.payloads("a", "interrupt.amended").is_empty());
    world.later(1);
    assert_eq!(
        world.payloads("a", "interrupt.amended").len(),
        1,
        "people are told that nobody says what is asked"
    );
    assert_eq!(world.run("a").interrupts().count(), 1, "it is the same question");
    world.respond("a", "whatever", &json!({ "any": "value" })).expect("any name and any value will do");
    assert_eq!(world.intent_status("a"), "active");
    let told = world.suspension("a");
    assert_eq!(
        (&told["response"], &told["resolution"]),
        (&json!({ "any": "value" }), &json!("responded")),
        "the answer is where the agent looks for it: {told}"
    );
    // What was written there is no record that waits to be asked.
    world.set("a", "n", json!(1)).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    assert_eq!(world.suspension("a")["provisional"], true);
    world.set("a", "_suspension", record("s1")).unwrap();
    world.respond("a", "s1", &json!("yes")).unwrap();
    assert_eq!(world.suspension("a")["response"], "yes");
}

#[test]
fn an_intent_is_not_made_with_an_answer_or_with_what_can_not_be_asked() {
    let begin = |record: &Value| {
        let mut world = World::new();
        let inputs =
            json_map(&json!({ "title": "a", "created_by": ADA, "state": { "_suspension": record } }));
        world.try_begin("a", Arc::new(intent_graph()), |start| Start { inputs, ..start })
    };
    for key in ["response", "resolution", "responded_by", "responded_at"] {
        let refused = begin(&record_with("s1", &json!({ key: "yes" })));
        let Err(Rejection::Invalid { field, .. }) = refused else { panic!("{key}: {refused:?}") };
        assert_eq!(field, format!("_suspension.{key}"));
    }
    for odd in [json!(5), json!("s1"), json!([]), json!({}), record_with("s1", &json!({ "choices": [] }))] {
        let refused = begin(&odd);
        assert!(matches!(refused, Err(Rejection::Invalid { .. })), "{odd}: {refused:?}");
    }
    begin(&record_with("s1", &json!({ "response": null }))).expect("nothing is said of an answer");
}

#[test]
fn what_is_asked_already_stays_as_it_was_asked() {
    let mut world = active("a");
    let policy = json!({ "retry_policy": { "max_attempts": 3, "interval_seconds": 3600 }, "context": { "é": 1 },
        "fallback_policy": "use_default_and_continue", "fallback_value": "no" });
    world.set("a", "_suspension", record_with("s1", &policy)).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    world.later(90 * 60_000);
    let (timers, before) = (world.timers("a"), world.suspension("a"));
    let others = [
        ("question", json!("Delete production?")),
        ("response_type", json!("confirm")),
        ("choices", json!([{ "value": "yes", "label": "No" }])),
        ("context", json!({ "more": 1 })),
        ("timeout_seconds", json!(3600)),
        ("fallback_policy", json!("complete_with_fallback")),
        ("fallback_value", json!("yes")),
        ("channel_hint", json!("chat")),
        ("retry_policy", json!({ "max_attempts": 4, "interval_seconds": 3600 })),
    ];
    for (key, other) in others {
        let refused = world.set("a", &format!("_suspension/{key}"), other);
        let Err(Rejection::Invalid { field, message }) = refused else { panic!("{key}: {refused:?}") };
        assert_eq!(field, "_suspension");
        assert!(message.contains("cancel it and suspend again under another id"), "{message}");
    }
    let other = world.set("a", "_suspension", record_with("s2", &policy));
    assert!(matches!(other, Err(Rejection::OtherSuspension { .. })), "{other:?}");
    assert_eq!((world.timers("a"), world.suspension("a")), (timers, before));
}

#[test]
fn what_asks_nothing_else_starts_nothing_anew() {
    let mut world = active("a");
    let policy = json!({ "retry_policy": { "max_attempts": 3, "interval_seconds": 3600 }, "context": { "é": [1, 2] } });
    world.set("a", "_suspension", record_with("s1", &policy)).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    world.later(90 * 60_000);
    let (timers, version) = (world.timers("a"), world.version("a"));
    world.set("a", "_suspension/progress", json!(1)).expect("an agent writes more than is asked for");
    // As a client that has read it writes it again: with spaces, escapes, and what only the server knows.
    let shown = world.suspension("a").to_string().replace("[1,2]", "[1, 2]").replace('é', "\\u00e9");
    let expected = world.version("a");
    let again: Json = serde_json::from_str(&shown).unwrap();
    for _ in 0..2 {
        let patches =
            vec![Patch { op: PatchOp::Set, path: "_suspension".to_owned(), value: Some(again.clone()) }];
        let expected = world.version("a").max(expected);
        let patch = IntentCommand::Patch { expected, patches, actor: Actor::of(ADA) };
        world.drive("a", patch).expect("it asks the same");
    }
    assert_eq!(world.timers("a"), timers, "its attempts go on as they were");
    assert_eq!(world.version("a"), version + 3);
    assert!(world.payloads("a", "interrupt.amended").is_empty(), "nobody is told anew");
    world.later(150 * 60_000);
    assert_eq!(world.suspension("a")["resolution"], "expired", "it ends at its time");
}

/// Somebody answers with remarks beside it.
fn remark(world: &mut World, name: &str, value: &Value, remarks: &Value) -> Result<(), Rejection> {
    let (id, value) = world.run("a").answered_by_name(name, Json::of(value))?;
    let by = Answerer { remarks: Some(Json::of(remarks)), ..Answerer::of("zoe") };
    let answered = world.ask("a", Command::Resolve(Resolve { id, value, by }));
    world.settle();
    answered
}

#[test]
fn remarks_stand_in_the_record_of_what_was_answered_and_in_no_other() {
    let mut world = active("a");
    world.set("a", "_suspension", record("s1")).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    remark(&mut world, "s1", &json!("yes"), &json!({ "device": "phone" })).unwrap();
    assert_eq!(world.suspension("a")["metadata"], json!({ "device": "phone" }));
    // What is answered next has no record, and that of the last stands there still.
    world.send("a", IntentSent::Suspended).unwrap();
    remark(&mut world, "any", &json!("go"), &json!({ "device": "desk" })).expect("it is taken");
    let told = world.suspension("a");
    assert_eq!((&told["response"], &told["metadata"]), (&json!("go"), &json!({ "device": "desk" })));
    assert_ne!(told["id"], "s1");
    assert_eq!(world.intent_status("a"), "active");
}

#[test]
fn what_is_asked_by_hand_leaves_the_record_of_the_last_suspension_alone() {
    let mut world = active("a");
    world.by("a", ADA, HandOp::Claim).expect("nobody has it");
    world.settle();
    world.set("a", "_suspension", record("s1")).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    world.respond("a", "s1", &json!("yes")).unwrap();
    let last = world.suspension("a");
    let question =
        json!({ "kind": "clarification", "data": { "questions": [{ "id": "q", "question": "And now?" }] } });
    let asked = HandAsk { payload: Json::of(&question), ladder: None, respondents: None };
    world.by("a", ADA, HandOp::Ask(Box::new(asked))).expect("she has it");
    world.settle();
    let name = world.suspension("a")["id"].as_str().unwrap().to_owned();
    remark(&mut world, &name, &json!("go"), &json!({ "device": "desk" })).expect("it is taken");
    assert_eq!((world.suspension("a"), world.intent_status("a")), (last, "active"));
}

#[test]
fn remarks_and_answers_are_bounded_and_a_short_answer_always_fits() {
    let mut world = active("a");
    world.set("a", "large", json!("x".repeat(limits::STATE_BYTES_MAX - 400))).unwrap();
    world.set("a", "_suspension", record_with("s1", &json!({ "response_type": "text" }))).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    let before = world.history("a");
    let field = |refused: Result<(), Rejection>| match refused {
        Err(Rejection::Invalid { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let text = |bytes: usize| json!("x".repeat(bytes));
    let too_much = json!({ "note": text(limits::REMARKS_BYTES_MAX) });
    assert_eq!(field(remark(&mut world, "s1", &json!("yes"), &too_much)), "metadata");
    let nested = format!("{}1{}", r#"{"a":"#.repeat(63), "}".repeat(63));
    let nested: Value = serde_json::from_str(&nested).unwrap();
    assert_eq!(field(remark(&mut world, "s1", &json!("yes"), &nested)), "metadata");
    assert_eq!(field(world.respond("a", "s1", &text(limits::ANSWER_BYTES_SURE))), "value");
    assert_eq!(world.history("a"), before, "what is refused leaves nothing");
    let most = json!({ "note": text(limits::REMARKS_BYTES_MAX - 16) });
    remark(&mut world, "s1", &text(limits::ANSWER_BYTES_SURE - 2), &most).expect("so much is always taken");
    assert_eq!(world.intent_status("a"), "active");
    // The state is larger than its agent may make it, and the agent can write all the same.
    let larger = world.set("a", "more", json!("x"));
    assert!(matches!(larger, Err(Rejection::Invalid { .. })), "{larger:?}");
    world.set("a", "large", text(limits::STATE_BYTES_MAX - 500)).expect("it gets smaller");
    world.set("a", "large", json!(1)).expect("it gets smaller still");
    world.set("a", "more", json!("x")).expect("there is room again");
}

#[test]
fn an_answer_may_be_as_large_as_the_room_that_there_is() {
    let mut world = active("a");
    let form = json!({ "response_type": "form", "choices": null });
    world.set("a", "_suspension", record_with("s1", &form)).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    let nested = format!("{}1{}", "[".repeat(63), "]".repeat(63));
    let nested: Value = serde_json::from_str(&nested).unwrap();
    let deep = world.respond("a", "s1", &json!({ "deep": nested }));
    assert!(matches!(&deep, Err(Rejection::Invalid { field, .. }) if field == "value"), "{deep:?}");
    let half = json!({ "text": "x".repeat(limits::STATE_BYTES_MAX / 2) });
    world.respond("a", "s1", &half).expect("there is room for it");
    assert_eq!(world.suspension("a")["response"], half);
}

#[test]
fn an_end_without_an_answer_comes_whatever_room_there_is() {
    let mut world = active("a");
    let fallback = "x".repeat(limits::STATE_BYTES_MAX / 2 - 1_000);
    let more = json!({
        "timeout_seconds": 600, "response_type": "text", "choices": null,
        "fallback_policy": "use_default_and_continue", "fallback_value": fallback,
    });
    world.set("a", "_suspension", record_with("s1", &more)).unwrap();
    world.set("a", "large", json!("x".repeat(limits::STATE_BYTES_MAX / 2 - 1_000))).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    world.later(600_000);
    assert_eq!(world.intent_status("a"), "active");
    assert_eq!(world.suspension("a")["response"], json!(fallback));
}

#[test]
fn a_suspension_at_once_has_the_reason_that_a_policy_wants() {
    let mut world = active("a");
    let expected = world.version("a");
    let policy = Some(Json::of(&json!({ "require_status_reason": true })));
    world.drive("a", IntentCommand::Govern { expected, policy, actor: Actor::of(ADA) }).unwrap();
    let refused = world.drive("a", suspend(&record("s1"), None));
    assert!(matches!(refused, Err(Rejection::Governed { rule: "require_status_reason", .. })), "{refused:?}");
    world.drive("a", suspend(&record("s1"), Some("a person decides"))).expect("there is a reason");
    assert!(world.suspension("a").get("reason").is_none());
    assert!(
        world.payloads("a", "intent.sent").iter().any(|sent| sent.to_string().contains("a person decides"))
    );
}

#[test]
fn a_record_that_comes_late_is_asked_all_the_same() {
    let mut world = active("a");
    world.send("a", IntentSent::Suspended).unwrap();
    world.later(2 * HOUR);
    world.set("a", "_suspension", record("s1")).expect("it is better late");
    assert!(matches!(world.respond("a", "s1", &json!("maybe")), Err(Rejection::InvalidChoice { .. })));
    world.respond("a", "s1", &json!("yes")).unwrap();
}

#[test]
fn nobody_but_the_run_writes_what_became_of_a_suspension() {
    let mut world = active("a");
    world.set("a", "_suspension", record("s1")).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    let before = (world.state("a"), world.version("a"));
    for key in ["response", "resolution", "responded_by", "responded_at"] {
        let patched = world.set("a", &format!("_suspension/{key}"), json!("yes"));
        assert!(matches!(patched, Err(Rejection::Invalid { .. })), "{key}: {patched:?}");
        let whole = world.set("a", "_suspension", record_with("s1", &json!({ key: "yes" })));
        assert!(matches!(whole, Err(Rejection::Invalid { .. })), "{key}: {whole:?}");
    }
    let expected = world.version("a");
    let gone = vec![patch(PatchOp::Remove, "_suspension", None)];
    let removed = world.drive("a", IntentCommand::Patch { expected, patches: gone, actor: Actor::of(ADA) });
    assert!(matches!(removed, Err(Rejection::Invalid { .. })), "{removed:?}");
    assert_eq!((world.state("a"), world.version("a")), before);
}

#[test]
fn without_a_time_it_waits_for_ever() {
    let mut world = active("a");
    world.set("a", "_suspension", record("s1")).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    assert_eq!(world.suspension("a").get("expires_at"), None);
    world.later(366 * 24 * HOUR);
    assert_eq!(world.intent_status("a"), "suspended_awaiting_input");
}

#[test]
fn an_end_without_an_answer_fails_the_intent_or_gives_it_the_fallback() {
    let mut world = active("a");
    world.set("a", "_suspension", record_with("s1", &json!({ "timeout_seconds": 600 }))).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    world.later(600_000);
    assert_eq!(
        (world.intent_status("a"), &world.suspension("a")["resolution"]),
        ("abandoned", &json!("expired"))
    );
    let mut world = active("b");
    let more = json!({ "timeout_seconds": 600, "fallback_policy": "complete_with_fallback", "fallback_value": "no" });
    world.set("b", "_suspension", record_with("s1", &more)).unwrap();
    world.send("b", IntentSent::Suspended).unwrap();
    world.later(600_000);
    let told = world.suspension("b");
    assert_eq!(
        (world.intent_status("b"), &told["resolution"], &told["response"]),
        ("active", &json!("expired"), &json!("no"))
    );
}

#[test]
fn a_record_without_a_policy_gives_one_notice_and_then_its_fallback() {
    let mut world = active("a");
    let more = json!({ "timeout_seconds": 600, "fallback_policy": "use_default_and_continue", "fallback_value": "no" });
    world.set("a", "_suspension", record_with("s1", &more)).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    world.later(599_999);
    assert!(world.payloads("a", "interrupt.renotified").is_empty());
    world.later(1);
    assert!(world.payloads("a", "interrupt.renotified").is_empty());
    assert_eq!(world.intent_status("a"), "active");
}

#[test]
fn reminders_leave_the_version_alone() {
    let mut world = active("a");
    let policy = json!({ "retry_policy": { "max_attempts": 3, "interval_seconds": 3600 } });
    world.set("a", "_suspension", record_with("s1", &policy)).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    let version = world.version("a");
    world.later(2 * HOUR);
    assert_eq!(world.payloads("a", "interrupt.renotified").len(), 2);
    assert_eq!(world.version("a"), version);
    assert_eq!(world.suspension("a")["expires_at"], json!(abide_core::naive(world.now + HOUR)));
}

#[test]
fn whoever_asks_may_take_it_back() {
    let mut world = active("a");
    world.set("a", "_suspension", record("s1")).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    let cancel = |id: &str| IntentCommand::CancelSuspension { id: id.to_owned(), actor: Actor::of(ADA) };
    assert!(matches!(world.drive("a", cancel("s2")), Err(Rejection::OtherSuspension { .. })));
    world.drive("a", cancel("s1")).expect("it is taken back");
    assert_eq!(
        (world.intent_status("a"), &world.suspension("a")["resolution"]),
        ("active", &json!("cancelled"))
    );
    assert!(matches!(world.drive("a", cancel("s1")), Err(Rejection::NotSuspended(_))));
    world.send("a", IntentSent::Completed).expect("it goes on, and is done");
}

#[test]
fn a_suspension_that_is_made_at_once_is_whole_or_is_not() {
    let mut world = active("a");
    let suspend = |record: &Value| suspend(record, None);
    let before = world.history("a");
    let odd = record_with("s1", &json!({ "response_type": "date" }));
    assert!(matches!(world.drive("a", suspend(&odd)), Err(Rejection::Invalid { .. })));
    let long = record_with("s1", &json!({ "retry_policy": { "max_attempts": 3 } }));
    assert!(world.drive("a", suspend(&long)).is_err(), "three attempts without any time between them");
    assert_eq!(world.history("a"), before, "what is refused leaves nothing");
    world.drive("a", suspend(&record("s1"))).expect("it is suspended");
    assert_eq!(
        (world.intent_status("a"), &world.suspension("a")["id"]),
        ("suspended_awaiting_input", &json!("s1"))
    );
    assert!(world.drive("a", suspend(&record("s2"))).is_err(), "one at a time");
}

#[test]
fn a_question_under_a_hold_still_takes_its_answer() {
    let mut world = active("a");
    world.set("a", "_suspension", record("s1")).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    world.accept("a", Command::Hold(Held { mode: HoldMode::Pause, reason: None, by: None }));
    assert_eq!(world.intent_status("a"), "blocked");
    world.respond("a", "s1", &json!("yes")).expect("the answer is taken");
    assert_eq!(world.suspension("a")["response"], "yes");
    world.accept("a", Command::Release(Released::default()));
    assert_eq!(world.intent_status("a"), "active");
}

#[test]
fn an_intent_whose_upstream_is_not_done_is_blocked_once_it_is_answered() {
    let mut world = World::new();
    made(&mut world, "a", &json!({}), false, &[]);
    made(&mut world, "b", &json!({}), false, &[]);
    world.set("b", "_suspension", record("s1")).unwrap();
    world.send("b", IntentSent::Suspended).unwrap();
    world.depend("b", "a").settle();
    world.respond("b", "s1", &json!("yes")).unwrap();
    assert_eq!(world.intent_status("b"), "blocked");
    world.send("a", IntentSent::Completed).unwrap();
    assert_eq!(world.intent_status("b"), "active", "it is unblocked by itself");
}

#[test]
fn an_approval_of_a_workflow_is_a_choice_of_its_actions() {
    let mut world = World::new();
    let definition = json!({
        "id": "gate", "name": "Gate", "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "nodes": [{ "id": "gate", "typeId": "core.approvalGate", "name": "Gate", "position": {},
                    "config": { "title": "Send it?", "actions": ["accept", "reject"] }, "inputs": {} }],
        "edges": [],
    });
    let graph = abide_core::Graph::admit(definition.to_string().as_bytes()).unwrap();
    world.begin_with("gate", Arc::new(graph), &[], |start| start).settle();
    let told = world.suspension("gate");
    assert_eq!((&told["response_type"], &told["question"]), (&json!("choice"), &json!("Send it?")));
    let values: Vec<&Value> =
        told["choices"].as_array().unwrap().iter().map(|choice| &choice["value"]).collect();
    assert_eq!(values, ["accept", "reject"]);
    let id = told["id"].as_str().unwrap().to_owned();
    world.respond("gate", &id, &json!("accept")).expect("it is accepted");
    world.stands("gate", Status::Completed);
    let refused = world.set("gate", "x", json!(1));
    assert!(matches!(refused, Err(Rejection::Ended(_) | Rejection::NotDriven)), "{refused:?}");
}
