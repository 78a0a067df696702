//! Attempts: when each is made, who is told, and what ends them.

use abide_core::{InterruptId, Lifecycle, NodePhase, Rejection, Status};
use story::{BEGIN, hours};

use super::*;

/// The protocol's own example, asked at the beginning.
fn started() -> (Story, InterruptId) {
    let story = Story::of(&asking(json!({ "channel_hint": "slack", "retry_policy": example() }))).start();
    let id = story.asked();
    (story, id)
}

fn timer(id: InterruptId) -> String {
    TimerId::Attempt(id).to_string()
}

#[test]
fn the_first_attempt_is_made_at_once() {
    let (story, id) = started();
    let timer = timer(id);
    let story = story
        .expect([
            "run.started",
            "node.started gate",
            "interrupt.requested gate",
            "clarification.requested gate",
            "node.suspended gate",
        ])
        .expect_effects(["open clarification gate", &format!("arm {timer} +3600000"), "notify attempt 1"]);
    let told = story.step().effects.iter().find_map(|effect| match effect {
        Effect::Notify(notify) => Some(*notify),
        _ => None,
    });
    let told = told.expect("people are told");
    assert_eq!((told.id, told.attempt, told.at), (id, 1, BEGIN));
}

#[test]
fn the_timeline_of_the_protocol_happens_as_it_is_told() {
    let gate = question("review").setting("ladder", json!({ "retry_policy": example() }));
    let flow = workflow([noop("fetch"), gate, noop("report")]).flow("fetch > review > report");
    let story = Story::of(&flow).start().stands(Status::WaitingInput);
    let id = story.asked();
    let story = story.node_is("report", NodePhase::Pending);
    let story =
        story.at(secs(3600)).climb(id).expect(["interrupt.renotified review", "interrupt.escalated review"]);
    assert_eq!(story.all("interrupt.renotified")[0]["channelHint"], "email");
    let story = story.node_is("report", NodePhase::Pending);
    let story = story.at(secs(5400)).answer_to(id, &well(), "operator").expect([
        "clarification.resolved review",
        "interrupt.resolved review",
        "node.resumed review",
        "node.completed review",
        "node.started report",
        "node.completed report",
        "run.completed",
    ]);
    assert_eq!((story.notified(), story.run().timers().len()), (vec![1, 2], 0));
}

#[test]
fn attempts_are_an_interval_apart_and_counted() {
    let (story, id) = started();
    let story = story.at(hours(1)).climb(id).at(hours(2)).climb(id);
    let again = story.all("interrupt.renotified");
    let attempts: Vec<&Value> = again.iter().map(|payload| &payload["attempt"]).collect();
    assert_eq!(attempts, [&json!(2), &json!(3)]);
    let at: Vec<Millis> = story
        .journal()
        .iter()
        .rev()
        .filter(|record| type_name(record) == "interrupt.renotified")
        .map(|record| record.at - BEGIN)
        .collect();
    assert_eq!(at, [hours(2), hours(1)]);
    assert_eq!((story.notified(), story.armed()), (vec![1, 2, 3], Some(hours(3))));
}

#[test]
fn lateness_does_not_add_up() {
    let (story, id) = started();
    let story = story.at(hours(1) + 59_000).climb(id);
    assert_eq!(story.armed(), Some(hours(2)), "the next is due as if this one had been on time");
    let story = story.at(hours(2) + 1).climb(id);
    assert_eq!(story.armed(), Some(hours(3)));
}

#[test]
fn an_attempt_is_told_before_people_are_and_comes_before_its_escalation() {
    let (story, id) = started();
    let timer = timer(id);
    let (drop, arm) = (format!("drop {timer} +3600000"), format!("arm {timer} +7200000"));
    let story = story
        .at(hours(1))
        .climb(id)
        .expect(["interrupt.renotified gate", "interrupt.escalated gate"])
        .expect_effects([&drop, &arm, "notify attempt 2"]);
    assert_eq!(story.count("interrupt.renotified"), 1, "there is none for the first attempt");
}

#[test]
fn an_attempt_says_six_things() {
    let (story, id) = started();
    let story = story.at(hours(1)).climb(id).at(hours(2)).climb(id);
    let expected = [
        json!({
            "interruptId": id.to_string(), "attempt": 2, "maxAttempts": 3, "channelHint": "email",
            "notifyTo": null, "nextAttemptAt": BEGIN + hours(2),
        }),
        json!({
            "interruptId": id.to_string(), "attempt": 3, "maxAttempts": 3, "channelHint": "pagerduty",
            "notifyTo": "supervisor@example.com", "nextAttemptAt": null,
        }),
    ];
    assert_eq!(story.all("interrupt.renotified"), expected);
}

#[test]
fn an_escalation_says_four_things() {
    let (story, id) = started();
    let story = story.at(hours(1)).climb(id).at(hours(2)).climb(id);
    let expected = [
        json!({ "interruptId": id.to_string(), "attempt": 2, "escalatedTo": null, "channelHint": "email" }),
        json!({
            "interruptId": id.to_string(), "attempt": 3, "escalatedTo": "supervisor@example.com",
            "channelHint": "pagerduty",
        }),
    ];
    assert_eq!(story.all("interrupt.escalated"), expected);
}

#[test]
fn a_rung_is_of_its_own_attempt_only() {
    let ladder = json!({
        "channel_hint": "slack", "notify_to": "team",
        "retry_policy": { "max_attempts": 4, "interval_seconds": 60, "escalation_ladder": [
            { "attempt": 2, "channel_hint": "email" },
            { "attempt": 3, "channel_hint": "pager", "notify_to": "boss" },
        ]},
    });
    let story = Story::of(&asking(ladder)).start();
    let open = story.run().interrupts().next().expect("it is open");
    let ladder = open.requested.ladder.clone().expect("it has one");
    let targets: Vec<_> = (1..=4)
        .map(|attempt| ladder.target(attempt))
        .map(|target| (target.channel_hint.unwrap_or("-"), target.notify_to.unwrap_or("-")))
        .collect();
    assert_eq!(targets, [("slack", "team"), ("email", "team"), ("pager", "boss"), ("slack", "team")]);
    let id = story.asked();
    let story = story.at(secs(60)).climb(id).at(secs(120)).climb(id).at(secs(180)).climb(id);
    let told: Vec<(String, String)> = story
        .all("interrupt.renotified")
        .iter()
        .map(|payload| {
            [&payload["channelHint"], &payload["notifyTo"]].map(|text| text.as_str().unwrap().to_owned())
        })
        .map(|[channel, to]| (channel, to))
        .collect();
    let expected = targets[1..].iter().map(|(channel, to)| ((*channel).to_owned(), (*to).to_owned()));
    assert_eq!(told, expected.collect::<Vec<_>>());
    assert_eq!(story.count("interrupt.escalated"), 2);
}

#[test]
fn without_rungs_there_are_reminders_and_no_escalation() {
    let ladder = json!({ "retry_policy": { "max_attempts": 3, "interval_seconds": 60 } });
    let story = Story::of(&asking(ladder)).start();
    let id = story.asked();
    let story = story.at(secs(60)).climb(id).at(secs(120)).climb(id);
    assert_eq!((story.count("interrupt.renotified"), story.count("interrupt.escalated")), (2, 0));
    assert_eq!(story.all("interrupt.renotified")[0]["channelHint"], Value::Null);
}

#[test]
fn a_rung_for_the_first_attempt_is_reached_when_the_question_is_asked() {
    let ladder = json!({ "channel_hint": "slack", "retry_policy": {
        "escalation_ladder": [{ "attempt": 1, "channel_hint": "pager", "notify_to": "boss" }],
    }});
    let story = Story::of(&asking(ladder)).start().expect([
        "run.started",
        "node.started gate",
        "interrupt.requested gate",
        "clarification.requested gate",
        "interrupt.escalated gate",
        "node.suspended gate",
    ]);
    let escalated = &story.all("interrupt.escalated")[0];
    assert_eq!((&escalated["attempt"], &escalated["escalatedTo"]), (&json!(1), &json!("boss")));
    let open = story.run().interrupts().next().expect("it is open");
    assert_eq!(open.requested.ladder.as_ref().expect("it has one").target(1).channel_hint, Some("pager"));
    assert_eq!((story.notified(), story.count("interrupt.renotified")), (vec![1], 0));
}

#[test]
fn one_attempt_is_the_default() {
    let story = Story::of(&asking(json!({ "timeout_seconds": 60 }))).start();
    let id = story.asked();
    let story = story.at(secs(60)).climb(id);
    assert_eq!((story.notified(), story.count("interrupt.renotified")), (vec![1], 0));
    assert_eq!(story.all("interrupt.expired")[0]["attempts"], 1);
}

#[test]
fn with_a_policy_the_window_of_the_question_is_not_the_whole() {
    let ladder = json!({
        "timeout_seconds": 3600,
        "retry_policy": { "max_attempts": 3, "interval_seconds": 300 },
    });
    let story = Story::of(&asking(ladder)).start();
    let open = story.run().interrupts().next().expect("it is open");
    assert_eq!((open.deadline(), open.next_attempt_at()), (Some(BEGIN + secs(900)), Some(BEGIN + secs(300))));
    let listed = story.step().effects.iter().find_map(|effect| match effect {
        Effect::OpenInterrupt(open) => open.deadline,
        _ => None,
    });
    assert_eq!(listed, Some(BEGIN + secs(900)), "the inbox shows the end of the whole ladder");
}

#[test]
fn the_id_stays_the_same_through_all_attempts() {
    let (story, id) = started();
    let story = story.at(hours(1)).climb(id).at(hours(2)).climb(id).at(hours(3)).climb(id);
    for name in ["interrupt.renotified", "interrupt.escalated", "interrupt.expired", "interrupt.resolved"] {
        let ids: Vec<Value> = story.all(name).iter().map(|payload| payload["interruptId"].clone()).collect();
        assert!(!ids.is_empty() && ids.iter().all(|other| *other == id.to_string()), "{name}: {ids:?}");
    }
}

#[test]
fn an_answer_during_any_attempt_is_taken_and_ends_the_ladder() {
    for climbed in 0..3 {
        let (mut story, id) = started();
        for attempt in 0..climbed {
            story = story.at(hours(attempt + 1)).climb(id);
        }
        let last = hours(climbed + 1) - 1;
        let story = story.at(last).answer_to(id, &well(), "alice").stands(Status::Completed);
        assert_eq!((story.armed(), story.run().timers().len()), (None, 0), "nothing is due any more");
        let before = story.history();
        let mut story = story;
        for hour in 1..=4 {
            story = story.at(hours(hour) + last).climb(id);
            story = story.refused(&Rejection::Ended(Lifecycle::Completed));
        }
        assert_eq!(story.history(), before);
        assert_eq!(story.notified().len() as i64, climbed + 1);
    }
}

#[test]
fn an_answer_before_an_overdue_attempt_is_heard_ends_it() {
    let (story, id) = started();
    let story = story.at(hours(1) + 5).answer_to(id, &well(), "alice").stands(Status::Completed);
    assert_eq!((story.count("interrupt.renotified"), story.notified()), (0, vec![1]));
}

#[test]
fn a_second_answer_is_refused_and_the_first_one_stands() {
    let (story, id) = started();
    let story = story.at(hours(1)).climb(id).answer_to(id, &well(), "alice");
    let other = json!({ "answers": { "answer": "not well" } });
    let story = story.answer_to(id, &other, "bob").refused(&Rejection::AlreadyResolved);
    let story = story.answer_to(id, &well(), "alice").refused(&Rejection::AlreadyResolved);
    let resolved = &story.all("interrupt.resolved");
    assert_eq!((resolved.len(), &resolved[0]["resolvedBy"]), (1, &json!("alice")));
    story.outputs("gate", Some(r#"{"answer":"well"}"#));
}

#[test]
fn an_answer_that_does_not_fit_leaves_the_ladder_as_it_is() {
    let gate = question("gate")
        .config("responseType", json!("confirm"))
        .setting("ladder", json!({ "retry_policy": example() }));
    let story = Story::of(&gated(gate)).start();
    let id = story.asked();
    let armed = story.armed();
    let story = story.at(hours(1) - 1).answer_to(id, &json!({ "answers": { "answer": "maybe" } }), "alice");
    assert_eq!(story.armed(), armed);
    let story = story.at(hours(1)).climb(id);
    assert_eq!(story.notified(), [1, 2]);
}

#[test]
fn a_timer_that_is_early_is_refused() {
    let (mut story, id) = started();
    for hour in 1..=3 {
        let early = Rejection::NotDue { due: BEGIN + hours(hour) };
        story = story.at(hours(hour) - 1).climb(id).refused(&early);
        story = story.at(hours(hour)).climb(id);
    }
    assert_eq!((story.count("interrupt.renotified"), story.count("interrupt.expired")), (2, 1));
}

#[test]
fn a_timer_that_is_heard_twice_does_nothing_more() {
    let (story, id) = started();
    let story = story.at(hours(1)).climb(id);
    let told = story.notified();
    let story = story.climb(id).refused(&Rejection::NotDue { due: BEGIN + hours(2) });
    let story = story.after(-500).climb(id).refused(&Rejection::NotDue { due: BEGIN + hours(2) });
    assert_eq!(story.notified(), told);
    let story = story.at(hours(3)).climb(id).climb(id);
    assert_eq!((story.count("interrupt.expired"), story.count("interrupt.resolved")), (1, 1));
}

#[test]
fn a_ladder_that_never_was_has_no_timer() {
    let story = Story::of(&gated(question("gate"))).start();
    let id = story.asked();
    story.at(hours(9)).climb(id).refused(&Rejection::NoSuchTimer);
    let (_, id) = started();
    let other = Story::of(&workflow([noop("x"), question("gate")]).flow("x > gate")).start();
    other.climb(id).refused(&Rejection::NoSuchTimer);
}
