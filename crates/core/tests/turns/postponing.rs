//! A provider that is known to be away is not even asked, and a person need not wait for it.

use abide_core::{NodePhase, Rejection, Status};
use serde_json::json;

use super::*;

const DAY: i64 = 24 * 3_600_000;

#[test]
fn a_refusal_by_the_breaker_uses_no_attempt_and_tells_nobody() {
    let story = calling().fails(overloaded()).waits_out().put_off().expect(["provider.postponed ask"]);
    assert_eq!(story.count("provider-retry"), 1);
    assert_eq!(story.view().wait.map(|wait| (wait.postponed, wait.attempt)), Some((true, 1)));
    let story = story.after(60_000).may_go().fails(overloaded());
    let told: Vec<_> =
        story.payloads("provider-retry").iter().map(|retry| retry["attempt"].clone()).collect();
    assert_eq!(told, [0, 1], "the same attempt, later");
}

#[test]
fn a_turn_that_was_never_asked_is_postponed_too() {
    let story = calling().put_off();
    assert!(story.is_parked());
    story.may_go().answers(saying("Hi")).stands(Status::Completed);
}

#[test]
fn after_a_day_of_postponement_the_last_error_is_final() {
    let story = calling().fails(overloaded()).waits_out().put_off();
    let began = story.node("ask").until.expect("it is given up some day") - DAY;
    let story = story.after(3 * 3_600_000).may_go().put_off();
    assert_eq!(story.node("ask").until, Some(began + DAY), "a refused try does not begin the day anew");
    story.waits_out().failed_with("provider_exhausted", &overloaded().message);
}

#[test]
fn a_real_call_ends_the_postponement() {
    let story = calling().put_off().after(DAY - 1).may_go().fails(overloaded()).waits_out().put_off();
    let until = story.node("ask").until.expect("it waits");
    assert!(until > story::BEGIN + DAY + 5_000, "{until}");
}

#[test]
fn whoever_was_never_asked_for_a_day_says_so() {
    let message = "provider 'claude' was known to be away, and was not asked";
    calling().put_off().waits_out().failed_with("provider_exhausted", message);
}

#[test]
fn only_a_postponed_turn_is_woken() {
    calling().may_go().refused(&Rejection::NoSuchTask);
    calling().fails(overloaded()).may_go().refused(&Rejection::NoSuchTask);
    calling().put_off().may_go().may_go().refused(&Rejection::NoSuchTask);
}

#[test]
fn somebody_may_retry_now_and_uses_the_attempt_that_was_scheduled() {
    let now =
        |node: Option<&str>| TurnCommand::RetryNow { node: node.map(str::to_owned), by: "ops".to_owned() };
    let story = calling().fails(overloaded()).after(1).turn(now(None));
    let story = story.expect(["node.due ask", "model.called ask"]);
    assert_eq!(story.payloads("node.due"), [json!({ "by": "ops" })]);
    let story = story.fails(overloaded());
    assert_eq!(story.payloads("provider-retry")[1]["attempt"], 1);
    let story = story.fire_timer("provider/1/ask");
    assert!(
        matches!(story.last_rejection(), Rejection::NotDue { .. }),
        "the timer of the first wait is gone"
    );
    story.turn(now(Some("ask"))).answers(saying("Hi")).stands(Status::Completed);
}

#[test]
fn somebody_may_give_up_and_the_withheld_error_is_told() {
    let give_up = |reason: Option<&str>| TurnCommand::GiveUp {
        node: None,
        by: "ops".to_owned(),
        reason: reason.map(str::to_owned),
    };
    let story = calling().fails(overloaded()).turn(give_up(Some("too late now")));
    let details = story.run().error().and_then(|error| error.details.clone()).expect("there are details");
    assert!(
        details.text().contains(r#""by":"ops""#) && details.text().contains("too late now"),
        "{details:?}"
    );
    story.failed_with("provider_given_up", &overloaded().message);
}

#[test]
fn what_does_not_wait_can_be_neither_retried_nor_given_up() {
    let now =
        |node: Option<&str>| TurnCommand::RetryNow { node: node.map(str::to_owned), by: "ops".to_owned() };
    let not =
        |node: Option<&str>| Rejection::TurnNotWaiting { node: node.map(str::to_owned), waiting: vec![] };
    calling().turn(now(None)).refused(&not(None));
    calling().turn(now(Some("ask"))).refused(&not(Some("ask")));
    calling().fails(overloaded()).turn(now(Some("other"))).refused(&Rejection::TurnNotWaiting {
        node: Some("other".to_owned()),
        waiting: vec!["ask".to_owned()],
    });
}

#[test]
fn a_paused_run_tries_its_provider_when_it_is_resumed() {
    let story = calling().fails(overloaded()).pause().waits_out().expect(["node.due ask"]);
    let story = story.node_is("ask", NodePhase::Pending).resume();
    assert!(story.calls_again());
    story.answers(saying("Hi")).stands(Status::Completed);
}
