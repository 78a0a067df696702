//! A provider that can't answer is asked again, visibly, and never after it has said something.

use abide_core::{ErrorKind, ModelError, NodePhase, Schedule, Status};
use serde_json::json;

use super::*;

#[test]
fn a_provider_that_fails_twice_and_then_answers_is_a_wait_and_no_failure() {
    calling()
        .fails(overloaded())
        .node_is("ask", NodePhase::Waiting)
        .waits_out()
        .fails(overloaded())
        .waits_out()
        .answers(saying("Hello!"))
        .stands(Status::Completed);
}

#[test]
fn the_flag_of_an_error_alone_decides_whether_it_is_retried() {
    let of = |retryable| calling().fails(emitted("no", Some("429"), retryable)).run().status();
    assert_eq!([Some(true), Some(false), None].map(of), [Status::Running, Status::Failed, Status::Failed]);
}

#[test]
fn each_retry_is_told_once_and_before_its_wait() {
    let story = calling();
    let story = story
        .fails(overloaded())
        .expect(["provider-retry ask"])
        .expect_effects(["finish ask/1", "arm provider/1/ask +5000", "await provider ask/1"])
        .after(4_999)
        .fire_timer("provider/1/ask");
    assert!(matches!(story.last_rejection(), abide_core::Rejection::NotDue { .. }), "never early");
    let story = story.after(1).fire_timer("provider/1/ask").expect(["node.due ask", "model.called ask"]);
    let story = story.fails(overloaded()).expect(["provider-retry ask"]).waits_out().fails(thrown());
    assert_eq!(story.count("provider-retry"), 3);
}

#[test]
fn a_retry_tells_its_turn_its_number_its_wait_and_the_error() {
    let story = calling().fails(overloaded());
    assert_eq!(
        story.payloads("provider-retry"),
        [json!({
            "type": "provider-retry", "conversationId": story.run().key().id.to_string(),
            "turnId": format!("{}:ask:1", story.run().key().id), "attempt": 0, "delayMs": 5000,
            "message": "HTTP 429: {\"error\":{\"type\":\"overloaded_error\"}}", "code": "429",
        })]
    );
}

#[test]
fn attempts_are_numbered_from_0_and_a_code_is_told_only_if_there_was_one() {
    let story = calling().fails(thrown()).waits_out().fails(overloaded()).waits_out().fails(thrown());
    let told = story.payloads("provider-retry");
    let of = |key: &str| told.iter().map(|retry| retry[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("attempt"), [0, 1, 2]);
    assert_eq!(of("delayMs"), [5_000, 10_000, 30_000]);
    assert_eq!(of("code"), [json!(null), json!("429"), json!(null)]);
    assert!(told[0].get("code").is_none());
}

#[test]
fn a_wait_that_the_provider_asks_for_is_told_and_waited() {
    let asks = |ms| ModelError { retry_after_ms: Some(ms), ..overloaded() };
    let story = calling().fails(asks(90_000)).waits_out().fails(asks(1_000));
    let waits: Vec<_> =
        story.payloads("provider-retry").iter().map(|retry| retry["delayMs"].clone()).collect();
    assert_eq!(waits, [90_000, 10_000], "the longer of the two");
}

#[test]
fn a_longer_wait_is_no_part_of_the_budget() {
    let schedule = Schedule { steps_ms: vec![10, 10].into(), tail_ms: 10, budget_ms: 20 };
    let story = Story::of(&workflow([turn("ask")])).under(scheduled(Some(schedule))).start();
    let asks = ModelError { retry_after_ms: Some(1_000), ..overloaded() };
    let story = story.fails(asks.clone()).waits_out().fails(asks.clone()).waits_out();
    assert_eq!(story.count("provider-retry"), 2, "though 2,000 ms were waited");
    story.fails(asks).stands(Status::Failed);
}

#[test]
fn slow_calls_between_waits_do_not_shorten_the_schedule() {
    let mut story = calling();
    for _ in 0..21 {
        story = story.after(story::hours(1)).fails(overloaded()).waits_out();
    }
    assert_eq!(story.count("provider-retry"), 21);
    story.fails(overloaded()).stands(Status::Failed);
}

#[test]
fn after_the_last_retry_the_error_is_told_and_final() {
    let retried = json!({ "retry": { "maxRetries": 5 } });
    let sketch = turn("ask").setting("retry", retried["retry"].clone()).setting("idempotent", json!(true));
    let mut story = of(&workflow([sketch])).start();
    for attempt in 0..21 {
        story = story.fails(overloaded());
        assert_eq!(story.count("provider-retry"), attempt + 1);
        assert!(story.journal().iter().all(|record| story::type_name(record) != "node.failed"));
        story = story.waits_out();
    }
    let last = emitted("HTTP 503: the last word", Some("503"), Some(true));
    let story = story.fails(last).expect(["turn.sealed ask", "node.failed ask", "run.failed"]);
    assert_eq!(story.count("provider-retry"), 21);
    assert!(story.run().interrupted_steps().is_empty() && story.count("node.retried") == 0);
    story.failed_with("provider_exhausted", "HTTP 503: the last word");
}

#[test]
fn a_turn_that_gave_up_is_sealed_with_its_error() {
    let schedule = Schedule { budget_ms: 0, ..Schedule::default() };
    let story = Story::of(&workflow([turn("ask")])).under(scheduled(Some(schedule))).start();
    let story = story.fails(overloaded());
    let sealed = &story.payloads("turn.sealed")[0];
    assert_eq!(
        (&sealed["status"], &sealed["error"]["code"]),
        (&json!("failed"), &json!("provider_exhausted"))
    );
    let reopened = abide_core::Run::from_snapshot(
        story.run().key(),
        story::SALT,
        story.run().graph().clone(),
        &story.run().snapshot(),
    );
    let seen = reopened.expect("it is read back").turns().remove(0);
    assert_eq!(
        (seen.status.name(), seen.error.map(|error| error.message)),
        ("failed", Some(overloaded().message))
    );
}

#[test]
fn without_a_strategy_the_first_error_ends_the_step() {
    let story = Story::of(&workflow([turn("ask")])).under(scheduled(None)).start().fails(overloaded());
    assert_eq!(story.count("provider-retry"), 0);
    story.failed_with("provider_error", "HTTP 429: {\"error\":{\"type\":\"overloaded_error\"}}");
}

#[test]
fn a_strategy_with_one_wait_retries_once_and_then_tells_the_error() {
    let one = Schedule { steps_ms: vec![7].into(), tail_ms: 7, budget_ms: 7 };
    let story = Story::of(&workflow([turn("ask")])).under(scheduled(Some(one))).start();
    let story = story.fails(overloaded()).waits_out().fails(thrown());
    assert_eq!((story.count("model.called"), story.count("provider-retry")), (2, 1));
    story.failed_with("provider_exhausted", "the stream was cut");
}

#[test]
fn an_error_that_is_thrown_before_content_is_retried() {
    assert_eq!(calling().fails(thrown()).waits_out().count("model.called"), 2);
}

#[test]
fn an_error_that_is_thrown_after_content_is_not_retried() {
    let story = calling().says("Hel").fails(thrown());
    assert_eq!((story.count("model.called"), story.count("provider-retry")), (1, 0));
    assert_eq!(story.run().interrupted_steps().len(), 1, "a person decides whether it is done again");
}

#[test]
fn a_retryable_error_after_content_is_not_retried() {
    let story = calling().says("Hel").fails(overloaded());
    assert_eq!((story.count("model.called"), story.count("provider-retry")), (1, 0));
}

#[test]
fn content_that_nobody_was_told_of_counts_too() {
    let story = calling().fails(ModelError { had_content: true, ..overloaded() });
    assert_eq!((story.count("model.called"), story.count("provider-retry")), (1, 0));
}

#[test]
fn an_error_that_would_not_help_ends_the_step_at_once() {
    let story = calling().fails(emitted("HTTP 401: bad key", Some("401"), Some(false)));
    assert_eq!(story.count("model.called"), 1);
    story.failed_with("provider_error", "HTTP 401: bad key");
}

#[test]
fn the_error_that_is_waited_out_is_not_told_as_the_turns() {
    let story = calling().fails(overloaded()).waits_out().answers(saying("Hi"));
    let names = story.history();
    assert!(!names.iter().any(|name| name.contains("failed")), "{names:?}");
    assert_eq!(story.view().error, None);
}

#[test]
fn two_failures_make_three_calls_with_attempts_0_and_1_between_them() {
    let story = calling().fails(overloaded()).waits_out().fails(overloaded()).waits_out();
    let called: Vec<_> = story.payloads("model.called").iter().map(|call| call["attempt"].clone()).collect();
    assert_eq!(called, [0, 1, 2]);
    let told: Vec<_> =
        story.payloads("provider-retry").iter().map(|retry| retry["attempt"].clone()).collect();
    assert_eq!(told, [0, 1]);
}

#[test]
fn what_is_sent_is_the_same_with_and_without_retries() {
    let plain = calling().model_call("ask");
    let after = calling().fails(overloaded()).waits_out().fails(thrown()).waits_out().model_call("ask");
    assert_eq!(plain, after);
    let text = format!("{after:?}");
    assert!(!text.contains("overloaded") && !text.contains("provider-retry"), "{text}");
}

#[test]
fn a_waiting_turn_holds_nothing_but_a_timer() {
    let story = calling().fails(overloaded());
    assert!(story.is_parked());
    let timers: Vec<String> = story.run().timers().keys().map(ToString::to_string).collect();
    assert_eq!(timers, ["provider/1/ask"]);
}

#[test]
fn a_run_does_not_age_while_its_provider_is_away() {
    let aging = workflow([turn("ask")]).settings("timeout", json!(600_000));
    let story = of(&aging).start();
    assert!(story.run().timers().keys().any(|timer| timer.to_string() == "run-timeout"));
    let story = story.fails(ModelError { retry_after_ms: Some(1_800_000), ..overloaded() });
    assert!(!story.run().timers().keys().any(|timer| timer.to_string() == "run-timeout"), "it stands still");
    let story = story.waits_out();
    let due = story.run().timers().iter().find(|(timer, _)| timer.to_string() == "run-timeout");
    assert_eq!(due.map(|(_, due)| *due), Some(story::BEGIN + 1_800_000 + 600_000));
    story.answers(saying("Hi")).stands(Status::Completed);
}

#[test]
fn a_report_of_an_earlier_call_comes_too_late() {
    let story = calling();
    let first = story.call_ref("ask");
    let story = story.fails(overloaded()).waits_out();
    let late =
        TurnCommand::Ended { call: first.clone(), outcome: Ok(Box::new(saying("late"))), rest: vec![] };
    let story = story.turn(late).refused(&abide_core::Rejection::NoSuchTask);
    let late = TurnCommand::Said { call: first, kind: ChunkKind::Text, text: "late".to_owned() };
    story.turn(late).refused(&abide_core::Rejection::NoSuchTask);
}

#[test]
fn a_kill_before_content_makes_the_same_call_and_after_it_does_not() {
    let story = calling();
    assert!(!story.model_call("ask").cut_off, "whoever takes it over calls again");
    let story = story.says("Hel");
    assert!(story.model_call("ask").cut_off, "whoever takes it over reports it");
    let crashed = ModelError { kind: ErrorKind::Crashed, had_content: true, ..thrown() };
    let story = story.fails(crashed);
    assert_eq!(story.run().interrupted_steps()[0].class, "process_crash");
    assert_eq!(story.count("model.called"), 1);
}
