//! What waiting for a provider is: no part of a run's time, and no reason for a server to stay.

use super::*;

/// A workflow whose runs may last ten minutes.
fn hurried() -> Value {
    let mut flow = asking("ask", json!({}));
    flow["settings"]["timeout"] = json!(10 * MINUTE_MS);
    flow
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_provider_does_not_count_against_the_timeout_of_a_run() {
    let mut drill = Drill::with(Protocol::OpenAi, NO_BREAKER, &[hurried()]);
    drill.provider.usually(Step::overloaded(429));
    let run = drill.run("ask").await;
    for (attempt, seconds) in [5, 10, 30, 60, 300, 600, 900, 1800].into_iter().enumerate() {
        drill.await_retry(&run, attempt).await;
        if attempt % 3 == 1 {
            drill.kill();
        }
        drill.later(seconds * SECOND_MS - 1).await;
        if attempt == 7 {
            drill.provider.recover();
        }
        drill.server.advance(1).await;
    }
    drill.demand_completed(&run, "ok").await;
    assert_eq!(drill.provider.count(), 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_breaker_does_not_count_against_the_timeout_of_a_run() {
    let more = "[providers.main.breaker]\nmin-calls = 1\ncooldown = \"3h\"\n";
    let drill = Drill::with(Protocol::OpenAi, more, &[hurried()]);
    drill.provider.script([Step::overloaded(429)]);
    let run = drill.run("ask").await;
    drill.await_retry(&run, 0).await;
    drill.server.advance(5 * SECOND_MS).await;
    drill.await_turn(&run, |turn| turn["wait"]["kind"] == "breaker").await;
    drill.later(2 * HOUR_MS).await;
    assert_eq!(drill.turn(&run).await["status"], "waiting");
    drill.server.advance(HOUR_MS).await;
    drill.demand_completed(&run, "ok").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_in_which_a_model_is_called_counts() {
    let drill = Drill::with(Protocol::OpenAi, "", &[hurried()]);
    drill.provider.script([Step::overloaded(429), Step::Hang]);
    let run = drill.run("ask").await;
    drill.await_retry(&run, 0).await;
    drill.server.advance(5 * SECOND_MS).await;
    drill.await_asked(2);
    drill.server.advance(10 * MINUTE_MS).await;
    let shown = drill.demand_failed(&run, "run_timeout").await;
    drill.await_hung_up().await;
    assert_eq!(drill.turn(&run).await["status"], "aborted", "{shown:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_asked_to_stop_before_the_first_word_stops_and_the_next_one_calls_again() {
    let mut drill = Drill::begin();
    drill.provider.script([Step::Hang]);
    let run = drill.run("ask").await;
    drill.await_asked(1);
    drill.server.terminate();
    assert!(drill.server.exit().await.success());
    assert!(!drill.site.said().contains("some work did not end in time"), "{}", drill.site.said());
    drill.await_hung_up().await;
    drill.server = start(&drill.site);
    drill.demand_completed(&run, "ok").await;
    drill.await_asked(2);
    assert!(drill.recorded(&run, "provider-retry").await.is_empty(), "it used no attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_asked_to_stop_lets_a_model_finish_that_has_begun_to_speak() {
    let mut drill = Drill::begin();
    let events = hello().events(Protocol::OpenAi, "small");
    let (begun, rest) = events.split_at(2);
    let text = |events: &[String]| Part::Text(events.concat());
    drill.provider.script([Step::Stream(vec![text(begun), Part::Held, text(rest)])]);
    let run = drill.run("ask").await;
    let began = Instant::now();
    while drill.recorded(&run, "ai.message.chunk").await.is_empty() {
        assert!(began.elapsed() < PATIENCE);
    }
    drill.server.terminate();
    drill.provider.release();
    assert!(drill.server.exit().await.success());
    drill.server = start(&drill.site);
    drill.demand_completed(&run, "Hello").await;
    drill.await_asked(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_asked_to_stop_while_turns_wait_and_the_next_one_knows_of_them() {
    let mut drill = Drill::begin();
    drill.provider.script([Step::overloaded(429)]);
    let run = drill.run("ask").await;
    let wait = drill.await_retry(&run, 0).await;
    drill.server.terminate();
    assert!(drill.server.exit().await.success());
    drill.server = start(&drill.site);
    assert_eq!(drill.await_retry(&run, 0).await, wait);
    drill.server.advance(5 * SECOND_MS).await;
    drill.demand_completed(&run, "ok").await;
}
