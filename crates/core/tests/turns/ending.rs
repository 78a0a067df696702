//! How turns end: with an answer, with an error, or with their run.

use abide_core::{ErrorKind, ModelError, NodePhase, Rejection, Status};
use serde_json::json;

use super::*;

#[test]
fn an_answer_completes_the_node_with_what_it_used_and_cost() {
    let story = calling().answers(saying("Hello!")).expect([
        "model.answered ask",
        "provider.usage ask",
        "turn.sealed ask",
        "node.completed ask",
        "run.completed",
    ]);
    let outputs: Value = serde_json::from_str(story.node("ask").outputs.as_ref().unwrap().text()).unwrap();
    assert_eq!(
        (&outputs["text"], &outputs["steps"], &outputs["model"]),
        (&json!("Hello!"), &json!(1), &json!("opus"))
    );
    assert_eq!(outputs["usage"], json!({ "inputTokens": 100, "outputTokens": 10 }));
    assert_eq!(outputs["costMicros"], 300 + 150);
    assert_eq!(
        story.run().model_usage(),
        (Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() }, Some(450))
    );
    assert_eq!(story.payloads("turn.sealed")[0]["status"], "completed");
    assert_eq!(story.view().status.name(), "completed");
}

#[test]
fn what_the_model_says_is_told_as_it_comes_and_once() {
    let story = calling().says("Hel").says("lo");
    let call = story.call_ref("ask");
    let rest = vec![(ChunkKind::Text, "!".to_owned())];
    let story = story.turn(TurnCommand::Ended { call, outcome: Ok(Box::new(saying("Hello!"))), rest });
    let told = story.payloads("ai.message.chunk");
    let text: String = told.iter().filter_map(|chunk| chunk["chunk"].as_str()).collect();
    assert_eq!(text, "Hello!");
    let last: Vec<_> = told.iter().map(|chunk| chunk["isLast"] == true).collect();
    assert_eq!(last, [false, false, true]);
}

#[test]
fn aborting_a_wait_ends_it_at_once_and_seals_the_turn() {
    let story = calling().fails(overloaded()).cancel().expect([
        "turn.sealed ask",
        "node.cancelled ask",
        "run.cancelled",
    ]);
    assert_eq!(story.payloads("turn.sealed")[0]["status"], "aborted");
    assert!(story.run().timers().is_empty());
    let story = story.stands(Status::Cancelled).after(5_000).fire_timer("provider/1/ask");
    assert_eq!(story.last_rejection(), &Rejection::Ended(abide_core::Lifecycle::Cancelled));
    assert_eq!(story.count("model.called"), 1);
}

#[test]
fn a_wait_is_an_effect_of_its_exact_length_that_an_abort_takes_back() {
    let asks = ModelError { retry_after_ms: Some(61_234), ..overloaded() };
    let story = calling().after(7).fails(asks);
    let armed = story.step().effects.iter().find_map(|effect| match effect {
        Effect::ArmTimer { timer, due } => Some((timer.clone(), *due)),
        _ => None,
    });
    let (timer, due) = armed.expect("the shell is asked to wait");
    assert_eq!((timer.to_string().as_str(), due), ("provider/1/ask", story::BEGIN + 7 + 61_234));
    let story = story.cancel();
    let taken_back = Effect::DropTimer { timer, due };
    assert!(story.step().effects.contains(&taken_back), "{:?}", story.step().effects);
}

#[test]
fn an_abort_tells_no_error_of_the_provider_and_no_further_retry() {
    let story = calling().fails(overloaded()).waits_out().cancel().expect(["run.cancelling"]);
    assert!(
        story.step().effects.iter().any(|effect| matches!(effect, Effect::Abort(_))),
        "the call is given up"
    );
    let story = story.fails(ModelError { kind: ErrorKind::Aborted, ..overloaded() });
    let story = story.expect(["turn.sealed ask", "node.cancelled ask", "run.cancelled"]);
    assert_eq!(story.count("provider-retry"), 1);
    assert_eq!(story.payloads("turn.sealed")[0].get("error"), None);
    story.node_is("ask", NodePhase::Cancelled);
}

#[test]
fn a_call_that_fails_while_the_run_is_cancelled_is_no_retry() {
    let story = calling().cancel().fails(overloaded()).stands(Status::Cancelled);
    assert_eq!((story.count("provider-retry"), story.count("node.failed")), (0, 0));
}

#[test]
fn nothing_is_said_in_a_run_that_is_being_cancelled() {
    calling().cancel().says("Hel").refused(&Rejection::Cancelling);
}

#[test]
fn a_stream_that_breaks_off_is_closed_and_what_follows_is_another_call() {
    let sketch = turn("ask").setting("idempotent", json!(true));
    let story =
        of(&workflow([sketch])).start().says("Hel").fails(thrown()).after(30_000).fire_timer("resume");
    assert!(
        story.calls_again(),
        "an author who says that it may be repeated has it repeated: {:?}",
        story.history()
    );
    let story = story.says("Hello").answers(saying("Hello"));
    let told = story.payloads("ai.message.chunk");
    let calls: Vec<_> =
        told.iter().map(|chunk| (chunk["call"].clone(), chunk["brokenOff"] == true)).collect();
    assert_eq!(calls, [(json!(1), false), (json!(1), true), (json!(2), false), (json!(2), false)]);
    story.stands(Status::Completed);
}

#[test]
fn a_definition_that_deals_with_the_failure_goes_its_own_way() {
    let flow = workflow([turn("ask"), workflow::noop("else")]).under("any_failed", "ask > else");
    let story = of(&flow).start().fails(emitted("HTTP 400: no", Some("400"), Some(false)));
    story.node_is("else", NodePhase::Completed).stands(Status::Completed);
}

#[test]
fn words_that_could_repeat_something_sensitive_are_withheld() {
    let secret = workflow([turn("ask").config("prompt", json!("Say {{ variables.pin }}"))])
        .required("pin", "string")
        .sensitive();
    let story = of(&secret).input("pin", &json!("4711")).start();
    let story = story.fails(emitted("HTTP 429: you said 4711", Some("429"), Some(true)));
    assert!(!story.payloads("provider-retry")[0]["message"].as_str().unwrap().contains("4711"));
    let story = story.waits_out().says("4711 it is");
    assert_eq!(story.payloads("ai.message.chunk")[0]["chunk"], "");
    let story = story.answers(saying("4711 it is")).stands(Status::Completed);
    assert!(story.node("ask").hides_something());
    let shown = story.journal().iter().filter(|record| !record.hides());
    assert!(shown.map(story::payload_text).all(|text| !text.contains("4711")));
}
