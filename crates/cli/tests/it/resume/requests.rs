//! Requests that fail or take too long.

use super::other::Mood;
use super::*;

/// The whole life of a request that may be made twice and never gets anywhere.
async fn plays_to_the_end(mood: Mood, class: &str, window: i64) {
    let mut drill = Drill::begin().await;
    drill.other.is(mood);
    let run = drill.run("twice").await;
    assert_eq!(drill.other.effects("twice"), 2, "the first resume is immediate");
    let view = drill.view(&run).await;
    demand_cooling(&view, class, window, 2);
    assert_eq!(view["resumePoint"]["status"], "failed", "{view:#}");
    assert_eq!(view["steps"][0]["idempotent"], true, "{view:#}");

    // Nothing within the window, however often somebody looks or the server dies; the second attempt at its end.
    drill.later((window - 8) * SECOND_MS).await;
    demand_cooling(&drill.view(&run).await, class, 8, 2);
    drill.kill();
    drill.server.settle().await;
    demand_cooling(&drill.view(&run).await, class, 8, 2);
    drill.later(7 * SECOND_MS).await;
    demand_cooling(&drill.view(&run).await, class, 1, 2);
    assert_eq!(drill.other.effects("twice"), 2);
    drill.later(SECOND_MS).await;
    assert_eq!(drill.other.effects("twice"), 3);
    demand_cooling(&drill.view(&run).await, class, window, 3);

    // The third is the last; the fourth interruption waits for a person, and for nobody else.
    drill.later(window * SECOND_MS).await;
    assert_eq!(drill.other.effects("twice"), 4);
    demand_escalated(&drill.view(&run).await, "resume_attempt_limit_reached", class);
    drill.later(DAY_MS).await;
    drill.kill();
    drill.later(DAY_MS).await;
    drill.refused(&run, json!({}), "resume_attempt_limit_reached").await;
    assert_eq!(drill.other.effects("twice"), 4);
    drill.resume(&run, json!({ "force": true, "reason": "let us see" })).await;
    assert_eq!(drill.other.effects("twice"), 5);
    demand_escalated(&drill.view(&run).await, "resume_attempt_limit_reached", class);
    drill.other.is(Mood::Answers(200));
    drill.resume(&run, json!({ "force": true, "reason": "it is mended" })).await;
    drill.demand_completed(&run).await;
    assert_eq!(drill.other.effects("twice"), 6);
    let view = drill.view(&run).await;
    assert_eq!(attempts(&view), 5, "{view:#}");
    assert_eq!(
        (&view["decisions"][0]["actor"], &view["decisions"][0]["attempt"]),
        (&json!("dev"), &json!(5))
    );
    crate::support::verify(&drill.site.data());
}

/// A request that must not be made twice waits for a person at once, and is made again once it is approved.
async fn asks_at_once(mood: Mood, class: &str) {
    let mut drill = Drill::begin().await;
    drill.other.is(mood);
    let run = drill.run("once").await;
    let view = drill.view(&run).await;
    demand_escalated(&view, "resume_non_idempotent_step", class);
    assert_eq!((&view["steps"][0]["effect"], attempts(&view)), (&json!("unknown"), 0), "{view:#}");
    let (_, why) = drill.server.get(&format!("/v1/runs/{run}/why")).await;
    assert!(why.to_string().contains("its effect may or may not have happened"), "{why:#}");
    drill.later(DAY_MS).await;
    drill.kill();
    drill.later(DAY_MS).await;
    drill.refused(&run, json!({}), "resume_non_idempotent_step").await;
    drill.refused(&run, json!({ "force": true, "reason": "now" }), "resume_non_idempotent_step").await;
    assert_eq!(drill.other.effects("once"), 1, "it is never repeated without approval");
    drill.other.is(Mood::Answers(200));
    drill.resume(&run, json!({ "approveSteps": ["once"] })).await;
    drill.demand_completed(&run).await;
    assert_eq!(drill.other.effects("once"), 2, "it is done exactly once more with it");
    crate::support::verify(&drill.site.data());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_refused_is_resumed_three_times_and_then_by_hand() {
    plays_to_the_end(Mood::Answers(503), "tool_failure", 30).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_takes_too_long_is_resumed_three_times_and_then_by_hand() {
    plays_to_the_end(Mood::Silent, "timeout", 120).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_must_not_be_made_twice_and_is_hung_up_on_waits_for_approval() {
    asks_at_once(Mood::HangsUp, "tool_failure").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_must_not_be_made_twice_and_takes_too_long_waits_for_approval() {
    asks_at_once(Mood::Silent, "timeout").await;
}
