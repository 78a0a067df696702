//! Two clocks on one question, and clocks that nobody heard: what falls due happens in its order, however late.

use abide_core::{Rejection, Status};
use story::{BEGIN, hours};

use super::*;

/// Attempts a minute apart.
fn minutes(attempts: u32) -> Value {
    json!({ "max_attempts": attempts, "interval_seconds": 60 })
}

/// A question of one's own that is given up after so many seconds.
fn limited(seconds: i64) -> Sketch {
    custom("gate", "k").config("timeoutMs", json!(secs(seconds)))
}

/// The question with an operator's ladder, which is no fault of its own.
fn under_platform(gate: Sketch, policy: &Value) -> Story {
    Story::of(&gated(gate)).under(said(Some(policy), None)).start()
}

fn give_up(story: Story, id: InterruptId) -> Story {
    story.fire_timer(&TimerId::Interrupt(id).to_string())
}

/// What happened on the ladder, in order: attempts, those that nobody was told of with an `s`, and the end.
fn climbed(story: &Story) -> Vec<String> {
    let line = |record: &Record| {
        let payload = parsed(&payload_text(record));
        match type_name(record) {
            "interrupt.renotified" if payload["superseded"] == true => {
                Some(format!("{}s", payload["attempt"]))
            }
            "interrupt.renotified" => Some(payload["attempt"].to_string()),
            "interrupt.expired" => Some("expired".to_owned()),
            "interrupt.resolved" => payload["outcome"].as_str().map(str::to_owned),
            _ => None,
        }
    };
    story.journal().iter().filter_map(line).collect()
}

mod limits {
    use super::*;

    #[test]
    fn reminders_do_not_move_the_end_of_a_question() {
        let story = under_platform(limited(150), &minutes(9));
        let id = story.asked();
        let due = |story: &Story| story.run().timers()[&TimerId::Interrupt(id)] - BEGIN;
        assert_eq!(due(&story), secs(150));
        let story = story.at(secs(60)).climb(id);
        assert_eq!(due(&story), secs(150));
        let story = story.at(secs(120)).climb(id);
        assert_eq!((due(&story), story.armed()), (secs(150), None));
        let story = give_up(story.at(secs(150)), id);
        assert_eq!(climbed(&story), ["2", "3", "timeout"]);
    }

    #[test]
    fn a_ladder_of_its_own_that_lasts_longer_than_the_question_is_refused() {
        let refused = |gate: Sketch, ladder: Value| {
            let told = places(&gated(gate.setting("ladder", ladder)).problems());
            told["nodes['gate'].settings.abide.ladder.retry_policy"].clone()
        };
        let message = refused(limited(100), json!({ "retry_policy": minutes(3) }));
        assert!(message.contains("180000 ms") && message.contains("100000 ms"), "{message}");
        refused(limited(100), json!({ "timeout_seconds": 101 }));
        refused(limited(100), json!({ "timeout_seconds": 60, "retry_policy": { "max_attempts": 2 } }));
        refused(approval("gate").config("timeoutMs", json!(1)), json!({ "timeout_seconds": 1 }));
        for (seconds, attempts) in [(180, 3), (181, 3), (60, 1)] {
            let ladder = json!({ "retry_policy": minutes(attempts) });
            gated(limited(seconds).setting("ladder", ladder)).graph();
        }
        // No limit is no limit.
        gated(limited(0).setting("ladder", json!({ "retry_policy": minutes(3) }))).graph();
    }

    #[test]
    fn a_ladder_that_is_too_long_is_refused_when_it_is_asked_for_too() {
        let gate = of_kind("gate", "core.interrupt")
            .config("kind", json!("custom"))
            .config("data", json!({ "customKind": "any" }))
            .input("timeoutMs", workflow::fixed(&json!(100_000)))
            .setting("ladder", json!({ "retry_policy": minutes(3) }));
        let story = Story::of(&gated(gate)).start();
        let story = story.expect(["run.started", "node.started gate", "node.failed gate", "run.failed"]);
        let error = story.run().error().expect("it failed");
        assert_eq!(error.code, "invalid_ladder");
        assert!(error.message.starts_with("settings.abide.ladder.retry_policy: "), "{}", error.message);
    }

    #[test]
    fn an_inherited_ladder_is_cut_at_the_end_of_the_question() {
        let story = under_platform(limited(100), &minutes(3));
        let id = story.asked();
        let story = story.at(secs(60)).climb(id);
        assert_eq!(story.all("interrupt.renotified")[0]["nextAttemptAt"], Value::Null, "there is no third");
        assert_eq!(story.armed(), None);
        let story = story.at(secs(100)).climb(id).refused(&Rejection::NoSuchTimer);
        let story = give_up(story, id).stands(Status::Failed);
        assert_eq!(
            (climbed(&story), story.notified()),
            (vec!["2".to_owned(), "timeout".to_owned()], vec![1, 2])
        );
        // A part that is inherited makes it somebody else's.
        for (platform, call) in [
            (json!({ "interval_seconds": 60 }), json!({ "retry_policy": { "max_attempts": 3 } })),
            (json!({ "max_attempts": 3 }), json!({ "retry_policy": { "interval_seconds": 60 } })),
            (json!({ "max_attempts": 3 }), json!({ "timeout_seconds": 60 })),
        ] {
            let story = under_platform(limited(100).setting("ladder", call), &platform);
            assert_eq!((story.armed(), story.ladder()["max_attempts"].clone()), (Some(secs(60)), json!(3)));
        }
    }

    #[test]
    fn a_ladder_that_ends_first_falls_back_and_a_question_that_ends_first_times_out() {
        let platform = json!({ "max_attempts": 2, "interval_seconds": 60, "final_fallback_policy": "complete_with_fallback" });
        let value = json!({ "fallback_value": "fallen back" });
        let shorter = under_platform(limited(121).setting("ladder", value.clone()), &platform);
        let id = shorter.asked();
        let shorter = shorter.at(secs(60)).climb(id).at(secs(120)).climb(id).stands(Status::Completed);
        assert_eq!(climbed(&shorter), ["2", "expired", "expired"]);
        let longer = under_platform(limited(119).setting("ladder", value), &platform);
        let id = longer.asked();
        let longer = give_up(longer.at(secs(60)).climb(id).at(secs(119)), id).stands(Status::Failed);
        assert_eq!(climbed(&longer), ["2", "timeout"]);
        assert_eq!(longer.run().error().expect("it failed").code, "interrupt_timeout");
    }

    #[test]
    fn an_approval_that_times_out_under_a_ladder_is_rejected() {
        let story = under_platform(approval("gate").config("timeoutMs", json!(secs(90))), &minutes(3));
        let id = story.asked();
        let story = give_up(story.at(secs(60)).climb(id).at(secs(90)), id);
        assert_eq!(climbed(&story), ["2", "rejected"]);
        assert_eq!(story.all("approval.received")[0]["action"], "timeout");
        assert_eq!(story.run().error().expect("it failed").code, "approval_timeout");
    }

    #[test]
    fn if_both_end_at_once_the_question_times_out() {
        let own = json!({ "retry_policy": minutes(2) });
        let story = Story::of(&gated(limited(120).setting("ladder", own))).start();
        let id = story.asked();
        let story = story.at(secs(60)).climb(id);
        assert_eq!(story.armed(), None, "the ladder's own end never comes");
        let story = give_up(story.at(secs(120)), id);
        assert_eq!(climbed(&story), ["2", "timeout"]);
    }

    #[test]
    fn an_attempt_at_the_very_end_of_the_question_is_not_made() {
        let story = under_platform(limited(60), &minutes(3));
        let id = story.asked();
        assert_eq!(story.armed(), None);
        let story = give_up(story.at(secs(60)), id);
        assert_eq!((climbed(&story), story.notified()), (vec!["timeout".to_owned()], vec![1]));
    }

    #[test]
    fn an_answer_after_either_clock_is_late() {
        let cut = under_platform(limited(100), &minutes(3));
        let ended = under_platform(limited(1_000), &minutes(3));
        for (story, end) in [(cut, 100), (ended, 180)] {
            let id = story.asked();
            assert_eq!(story.run().interrupt(id).expect("it is open").deadline(), Some(BEGIN + secs(end)));
            let late = story.clone().at(secs(end)).answer_to(id, &json!(1), "late");
            drop(late.refused(&Rejection::AlreadyResolved));
            story.at(secs(end) - 1).answer_to(id, &json!(1), "alice").stands(Status::Completed);
        }
    }
}

mod downtime {
    use super::*;

    #[test]
    fn attempts_that_nobody_heard_are_recorded_in_order_and_the_latest_is_told() {
        let story = Story::of(&asking(json!({ "retry_policy": example() }))).start();
        let id = story.asked();
        let story = story.at(hours(2) + 5).climb(id).expect([
            "interrupt.renotified gate",
            "interrupt.escalated gate",
            "interrupt.renotified gate",
            "interrupt.escalated gate",
        ]);
        assert_eq!((climbed(&story), story.notified()), (vec!["2s".to_owned(), "3".to_owned()], vec![1, 3]));
        let told = story.step().effects.iter().filter(|effect| matches!(effect, Effect::Notify(_))).count();
        assert_eq!((told, story.armed()), (1, Some(hours(3))));
        assert_eq!(
            story.all("interrupt.renotified")[0]["nextAttemptAt"],
            BEGIN + hours(2),
            "it was due then"
        );
        let story = story.at(hours(3)).climb(id);
        assert_eq!(climbed(&story), ["2s", "3", "expired", "expired"]);
    }

    #[test]
    fn an_expiry_that_nobody_heard_comes_with_everything_before_it_and_nobody_is_told() {
        let story = Story::of(&asking(json!({ "retry_policy": example() }))).start();
        let id = story.asked();
        let story = story.at(hours(50)).climb(id).stands(Status::Failed);
        assert_eq!(climbed(&story), ["2s", "3s", "expired", "expired"]);
        assert_eq!((story.notified(), story.count("interrupt.escalated")), (vec![1], 2));
        assert!(story.step().records.iter().all(|record| record.at == BEGIN + hours(50)), "never back-dated");
        assert_eq!(story.all("interrupt.expired")[0]["attempts"], 3);
    }

    #[test]
    fn an_expiry_is_never_early() {
        let story = Story::of(&asking(json!({ "retry_policy": example() }))).start();
        let id = story.asked();
        let story = story.at(hours(3) - 1).climb(id);
        assert_eq!((climbed(&story), story.armed()), (vec!["2s".to_owned(), "3".to_owned()], Some(hours(3))));
        story.climb(id).refused(&Rejection::NotDue { due: BEGIN + hours(3) });
    }

    #[test]
    fn the_end_of_a_question_that_nobody_heard_comes_after_the_reminders_before_it() {
        // Either timer may be heard first.
        let story = under_platform(limited(150), &minutes(9));
        let id = story.asked();
        let by_end = give_up(story.clone().at(hours(5)), id).stands(Status::Failed);
        let by_attempt = story.at(hours(5)).climb(id);
        assert_eq!(by_attempt.armed(), None);
        let by_attempt = give_up(by_attempt, id).stands(Status::Failed);
        for story in [&by_end, &by_attempt] {
            assert_eq!(climbed(story), ["2s", "3s", "timeout"]);
            assert_eq!(story.notified(), [1]);
        }
        assert_eq!(by_end.history(), by_attempt.history());
    }

    #[test]
    fn a_ladder_that_ended_before_the_question_falls_back_whichever_timer_is_heard_first() {
        let ladder = json!({ "retry_policy": minutes(2), "fallback_policy": "complete_with_fallback", "fallback_value": 7 });
        let story = Story::of(&gated(limited(150).setting("ladder", ladder))).start();
        let id = story.asked();
        let by_end = give_up(story.clone().at(hours(5)), id).stands(Status::Completed);
        let by_attempt = story.at(hours(5)).climb(id).stands(Status::Completed);
        assert_eq!(climbed(&by_end), ["2s", "expired", "expired"]);
        assert_eq!(by_end.history(), by_attempt.history());
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_early() {
        let story = Story::of(&asking(json!({ "retry_policy": example() }))).start();
        let id = story.asked();
        let story = story.at(hours(1)).climb(id).at(-hours(24)).climb(id);
        let story = story.refused(&Rejection::NotDue { due: BEGIN + hours(2) });
        story.answer_to(id, &well(), "alice").stands(Status::Completed);
    }
}

mod occasions {
    use super::*;

    /// A wait until an hour after the beginning, with reminders.
    fn until_an_hour(ladder: Value) -> (Story, InterruptId) {
        let gate = of_kind("gate", "core.interrupt")
            .config("kind", json!("external-event"))
            .config("data", json!({ "eventType": "scheduled-time:2023-11-14T23:13:20Z", "correlation": {} }))
            .setting("ladder", ladder);
        let story = Story::of(&gated(gate)).start();
        let id = story.asked();
        assert_eq!(story.run().timers()[&TimerId::Occasion(id)] - BEGIN, hours(1));
        (story, id)
    }

    fn happen(story: Story, id: InterruptId) -> Story {
        story.fire_timer(&TimerId::Occasion(id).to_string())
    }

    #[test]
    fn nobody_is_reminded_of_what_has_happened_by_itself() {
        let (story, id) =
            until_an_hour(json!({ "retry_policy": { "max_attempts": 9, "interval_seconds": 1500 } }));
        let by_attempt = story.clone().at(hours(9)).climb(id);
        assert_eq!(climbed(&by_attempt), ["2s", "3s"]);
        let by_attempt = happen(by_attempt, id).stands(Status::Completed);
        let by_occasion = happen(story.at(hours(9)), id).stands(Status::Completed);
        for story in [&by_attempt, &by_occasion] {
            assert_eq!(
                (climbed(story), story.notified()),
                (["2s", "3s", "resolved"].map(str::to_owned).to_vec(), vec![1])
            );
        }
    }

    #[test]
    fn what_expired_before_it_could_happen_has_expired() {
        let (story, id) =
            until_an_hour(json!({ "retry_policy": { "max_attempts": 2, "interval_seconds": 60 } }));
        let by_attempt = story.clone().at(hours(9)).climb(id);
        let by_occasion = happen(story.at(hours(9)), id);
        for story in [by_attempt, by_occasion] {
            assert_eq!(climbed(&story), ["2s", "expired", "expired"]);
            story.stands(Status::Failed);
        }
    }

    #[test]
    fn what_was_given_up_before_it_could_happen_was_given_up() {
        let gate = of_kind("gate", "core.interrupt")
            .config("kind", json!("external-event"))
            .config("timeoutMs", json!(secs(60)))
            .config("data", json!({ "eventType": "scheduled-time:2023-11-14T23:13:20Z", "correlation": {} }));
        let story = Story::of(&gated(gate)).start();
        let id = story.asked();
        let given_up = give_up(story.clone().at(hours(9)), id);
        let happened = happen(story.at(hours(9)), id);
        for story in [given_up, happened] {
            assert_eq!(climbed(&story), ["timeout"]);
            story.stands(Status::Failed);
        }
    }

    #[test]
    fn what_happened_before_it_was_given_up_has_happened() {
        let gate = of_kind("gate", "core.interrupt")
            .config("kind", json!("external-event"))
            .config("timeoutMs", json!(hours(2)))
            .config("data", json!({ "eventType": "scheduled-time:2023-11-14T23:13:20Z", "correlation": {} }));
        let story = Story::of(&gated(gate)).start();
        let id = story.asked();
        let given_up = give_up(story.clone().at(hours(9)), id);
        let happened = happen(story.at(hours(9)), id);
        for story in [given_up, happened] {
            assert_eq!(climbed(&story), ["resolved"]);
            story.stands(Status::Completed);
        }
    }
}
