//! Three levels: the operator's, the agent's, and that of the question.

use super::*;

const ATTEMPTS: &str = "max_attempts";
const INTERVAL: &str = "interval_seconds";
const RUNGS: &str = "escalation_ladder";

fn rung(attempt: u32, channel: &str) -> Value {
    json!({ "attempt": attempt, "channel_hint": channel, "notify_to": null })
}

#[tokio::test]
async fn the_question_wins_over_its_agent_and_that_over_the_operator_field_by_field() {
    let site = Site::new();
    let operator = json!({
        "max_attempts": 5, "interval_seconds": 3600, "escalation_ladder": [rung(3, "pagerduty")],
    });
    let server = start_under(&site, &operator);
    set_agent(&server, "planner", json!({ "max_attempts": 2, "interval_seconds": 1800 })).await;
    let own = json!({ "retry_policy": { "max_attempts": 4 } });
    let run = ask(&server, json!({ "agent": "planner", "ladder": own })).await;
    assert_eq!(
        from(&ladder(&server, &run).await, &[ATTEMPTS, INTERVAL, RUNGS, "strategy"]),
        [
            given(json!(4), "call"),
            given(json!(1800), "agent"),
            given(json!([rung(3, "pagerduty")]), "platform"),
            given(json!("fixed"), "default"),
        ]
    );
    let agents = ask(&server, json!({ "agent": "planner" })).await;
    assert_eq!(from(&ladder(&server, &agents).await, &[ATTEMPTS]), [given(json!(2), "agent")]);
    let nobodys = ask(&server, json!({})).await;
    assert_eq!(from(&ladder(&server, &nobodys).await, &[ATTEMPTS]), [given(json!(5), "platform")]);
}

#[tokio::test]
async fn what_is_given_counts_as_given_even_if_it_is_the_default() {
    let site = Site::new();
    let server = start_under(&site, &json!({ "max_attempts": 5, "interval_seconds": 60 }));
    let run = ask(&server, json!({ "ladder": { "retry_policy": { "max_attempts": 1 } } })).await;
    assert_eq!(from(&ladder(&server, &run).await, &[ATTEMPTS]), [given(json!(1), "call")]);
    server.advance(60_000).await;
    assert_eq!(server.events(&run).await.last().unwrap()["type"], "run.failed", "nobody is told again");
    assert!(said(&server, &run, "interrupt.renotified", 0).await.is_empty());
}

#[tokio::test]
async fn a_list_of_rungs_is_replaced_whole() {
    let site = Site::new();
    let operator =
        json!({ "max_attempts": 3, "interval_seconds": 60, "escalation_ladder": [rung(1, "slack")] });
    let server = start_under(&site, &operator);
    let two = json!({ "escalation_ladder": [rung(2, "email"), rung(3, "pagerduty")] });
    set_agent(&server, "planner", two).await;
    let own = json!({ "retry_policy": { "escalation_ladder": [rung(3, "telephone")] } });
    let run = ask(&server, json!({ "agent": "planner", "ladder": own })).await;
    let rungs = from(&ladder(&server, &run).await, &[RUNGS]);
    assert_eq!(rungs, [given(json!([rung(3, "telephone")]), "call")]);
    server.advance(180_000).await;
    server.events(&run).await;
    let escalated = said(&server, &run, "interrupt.escalated", 1).await;
    assert_eq!(escalated[0]["payload"]["attempt"], 3, "{escalated:?}");
}

#[tokio::test]
async fn an_inherited_rung_beyond_the_attempts_of_a_question_is_taken_and_never_reached() {
    let site = Site::new();
    let operator =
        json!({ "max_attempts": 3, "interval_seconds": 60, "escalation_ladder": [rung(3, "slack")] });
    let server = start_under(&site, &operator);
    let run = ask(&server, json!({ "ladder": { "retry_policy": { "max_attempts": 2 } } })).await;
    server.advance(120_000).await;
    assert_eq!(server.events(&run).await.last().unwrap()["type"], "run.failed");
    said(&server, &run, "interrupt.renotified", 1).await;
    said(&server, &run, "interrupt.escalated", 0).await;
    said(&server, &run, "interrupt.expired", 1).await;
}

#[tokio::test]
async fn an_inherited_interval_is_no_longer_than_the_window_of_the_question() {
    let site = Site::new();
    let server = start_under(&site, &json!({ "max_attempts": 2, "interval_seconds": 3600 }));
    let run = ask(&server, json!({ "ladder": { "timeout_seconds": 600 } })).await;
    let shown = ladder(&server, &run).await;
    assert_eq!(
        from(&shown, &[ATTEMPTS, INTERVAL]),
        [given(json!(2), "platform"), given(json!(600), "platform")]
    );
    let asked = millis(&journal(&server, &run).await[0]["timestamp"]);
    server.advance(600_000).await;
    let again = said(&server, &run, "interrupt.renotified", 1).await;
    assert_eq!(millis(&again[0]["timestamp"]) - asked, 600_000);
}
