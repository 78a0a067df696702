//! Holds by people: a pause and a stop of a run that works or waits, and what a release lets go on.

#[expect(dead_code, reason = "commands.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::event::{Held, HoldMode, Released};
use abide_core::{
    Command, Effect, Hold, InterruptId, NodePhase, Reached, Rejection, Status, TimerId, Waiting,
};
use serde_json::{Value, json};
use story::{BEGIN, Story, hours, type_name};
use workflow::{Sketch, Workflow, delay, http, noop, of_kind, task, workflow};

use HoldMode::{Pause, Stop};

/// A question with reminders each hour, three attempts in all, and a fallback at the end.
fn question(id: &str) -> Sketch {
    let policy = json!({ "max_attempts": 3, "interval_seconds": 3600, "final_fallback_policy": "fail" });
    of_kind(id, "core.hitl.ask-user")
        .config("question", json!("Well?"))
        .setting("ladder", json!({ "retry_policy": policy }))
}

fn timed(id: &str, ms: i64) -> Sketch {
    of_kind(id, "core.approvalGate").config("title", json!("Pay?")).config("timeoutMs", json!(ms))
}

/// Something that is waited for until this time of day.
fn scheduled(id: &str, at: &str, timeout_ms: i64) -> Sketch {
    let data = json!({ "eventType": format!("scheduled-time:{at}"), "correlation": {} });
    of_kind(id, "core.interrupt")
        .config("kind", json!("external-event"))
        .config("timeoutMs", json!(timeout_ms))
        .config("data", data)
}

fn followed(gate: Sketch) -> Workflow {
    workflow([gate, noop("next")]).flow("gate > next")
}

fn well() -> Value {
    json!({ "answers": { "answer": "yes" } })
}

fn accept() -> Value {
    json!({ "action": "accept" })
}

fn the_only(story: &Story) -> InterruptId {
    story.run().interrupts().next().expect("something is asked").requested.interrupt_id
}

fn due(story: &Story, timer: &TimerId) -> Option<i64> {
    story.run().timers().get(timer).map(|due| due - BEGIN)
}

#[test]
fn a_pause_of_a_run_that_waits_is_refused_and_the_question_is_kept() {
    let story = Story::of(&followed(timed("gate", hours(9)))).start();
    let story = story.pause().refused(&Rejection::Waiting(Waiting::Approval)).stands(Status::WaitingApproval);
    assert_eq!(story.run().interrupts().count(), 1);
    story.answer("gate", &accept()).stands(Status::Completed);
}

#[test]
fn under_a_pause_people_are_reminded_and_an_answer_is_kept_until_the_release() {
    let story = Story::of(&followed(question("gate"))).start().hold(Pause).expect(["run.held"]);
    let id = the_only(&story);
    let attempt = TimerId::Attempt(id);
    let story = story.expect_effects([]).stands(Status::Paused);
    let story = story.at(hours(1)).fire_timer(&attempt.to_string()).expect(["interrupt.renotified gate"]);
    assert_eq!(due(&story, &attempt), Some(hours(2)));
    let story = story
        .answer("gate", &well())
        .expect(["clarification.resolved gate", "interrupt.resolved gate"])
        .stands(Status::Paused)
        .node_is("gate", NodePhase::Suspended);
    let story = story.answer_to(id, &well(), "bob").refused(&Rejection::AlreadyResolved);
    story.at(hours(9)).release().stands(Status::Completed).expect([
        "run.released",
        "node.resumed gate",
        "node.completed gate",
        "node.started next",
        "node.completed next",
        "run.completed",
    ]);
}

#[test]
fn under_a_pause_a_question_runs_out_at_its_time() {
    let story = Story::of(&followed(question("gate"))).start().hold(Pause);
    let id = the_only(&story);
    let story = story.at(hours(3)).answer_to(id, &well(), "bob").refused(&Rejection::AlreadyResolved);
    let story = story.fire_timer(&TimerId::Attempt(id).to_string());
    assert!(story.history().contains(&"interrupt.expired gate".to_owned()));
    story.stands(Status::Paused).release().stands(Status::Failed);
}

#[test]
fn a_stop_of_an_hour_makes_the_next_reminder_an_hour_later() {
    let story = Story::of(&followed(question("gate"))).start();
    let id = the_only(&story);
    let attempt = TimerId::Attempt(id);
    let name = attempt.to_string();
    let story = story.at(hours(1) / 2).hold(Stop).expect(["run.held"]).stands(Status::Paused);
    let drop = format!("drop {name} +{}", hours(1));
    let story = story.expect_effects([&drop, "give up at no known time"]);
    let open = story.run().interrupt(id).expect("it is open");
    assert_eq!((open.deadline(), open.next_attempt_at()), (None, None));
    let story = story.at(hours(1)).fire_timer(&name).refused(&Rejection::NoSuchTimer);
    let story = story.at(hours(3) / 2).release().expect(["run.released"]).stands(Status::WaitingInput);
    let (arm, give_up) = (format!("arm {name} +{}", hours(2)), format!("give up +{}", hours(4)));
    let story = story.expect_effects([&arm, &give_up]);
    let story = story.at(hours(2)).fire_timer(&name).expect(["interrupt.renotified gate"]);
    assert_eq!(due(&story, &attempt), Some(hours(3)));
    // An answer is in time up to the moved end, and late from then on.
    let late = story.clone().at(hours(4)).answer_to(id, &well(), "bob");
    late.refused(&Rejection::AlreadyResolved);
    story.at(hours(4) - 1).answer_to(id, &well(), "bob").stands(Status::Completed);
}

#[test]
fn a_stop_moves_the_timeout_of_a_question_and_not_the_time_of_day_that_is_waited_for() {
    // 2023-11-14T22:13:20Z is the beginning of every story.
    let at = "2023-11-15T00:13:20Z";
    let flow = workflow([timed("gate", hours(1)), scheduled("event", at, hours(5)), noop("next")])
        .flow("gate > next")
        .flow("event > next");
    let story = Story::of(&flow).start();
    let ids: Vec<InterruptId> = story.run().interrupts().map(|open| open.requested.interrupt_id).collect();
    let timeouts = [TimerId::Interrupt(ids[0]), TimerId::Interrupt(ids[1])];
    let occasion = TimerId::Occasion(ids[1]);
    let story = story.at(hours(1) / 2).hold(Stop);
    assert_eq!(timeouts.each_ref().map(|timer| due(&story, timer)), [None, None]);
    assert_eq!(due(&story, &occasion), Some(hours(2)));
    let story = story.at(hours(3) / 2).release();
    assert_eq!(timeouts.each_ref().map(|timer| due(&story, timer)), [Some(hours(2)), Some(hours(6))]);
    assert_eq!(due(&story, &occasion), Some(hours(2)));
    let story = story.at(hours(2) - 1).answer_to(ids[0], &accept(), "ann");
    story.at(hours(2)).fire_timer(&occasion.to_string()).stands(Status::Completed);
}

#[test]
fn a_time_of_day_comes_while_the_run_is_stopped() {
    let story = Story::of(&followed(scheduled("gate", "2023-11-14T23:13:20Z", hours(3)))).start().hold(Stop);
    let id = the_only(&story);
    let story = story.at(hours(8)).fire_timer(&TimerId::Occasion(id).to_string());
    let story = story.expect(["interrupt.resolved gate"]).stands(Status::Paused);
    assert!(story.payload("interrupt.resolved").contains("system:schedule"));
    story.release().stands(Status::Completed);
}

#[test]
fn under_a_stop_an_answer_is_never_late_and_is_kept_until_the_release() {
    let story = Story::of(&followed(timed("gate", hours(1)))).start().hold(Stop);
    let story = story.at(hours(9)).answer("gate", &accept()).stands(Status::Paused);
    let story = story.expect(["approval.received gate", "interrupt.resolved gate"]);
    story.release().stands(Status::Completed);
}

#[test]
fn what_was_due_before_a_stop_happens_first_however_late_its_timer_is_heard() {
    let flow = workflow([question("gate"), timed("other", hours(2)), noop("next")])
        .flow("gate > next")
        .under("any_failed", "other > next");
    let story = Story::of(&flow).start().at(hours(2)).hold(Stop);
    let story = story.expect([
        "interrupt.renotified gate",
        "interrupt.renotified gate",
        "approval.received other",
        "interrupt.resolved other",
        "run.held",
    ]);
    assert!(story.payload("interrupt.resolved").contains(r#""reason":"timeout""#));
    assert_eq!(story.run().timers().len(), 0);
}

#[test]
fn stops_add_up() {
    let story = Story::of(&followed(timed("gate", hours(2)))).start();
    let timer = TimerId::Interrupt(the_only(&story));
    let story = story.at(hours(1)).hold(Stop).at(hours(2)).release();
    assert_eq!(due(&story, &timer), Some(hours(3)));
    let story = story.at(hours(5) / 2).hold(Pause).at(hours(5) / 2 + 10).hold(Stop).at(hours(5)).hold(Pause);
    assert_eq!(due(&story, &timer), Some(hours(3) + hours(5) / 2 - 10));
    let story = story.at(hours(5) + 20).release();
    assert_eq!(due(&story, &timer), Some(hours(3) + hours(5) / 2 - 10));
}

#[test]
fn a_hold_is_put_once_and_changed_or_lifted() {
    let held = |mode| Story::of(&followed(question("gate"))).start().hold(mode);
    held(Pause).hold(Pause).refused(&Rejection::AlreadyPaused);
    held(Stop).hold(Stop).refused(&Rejection::AlreadyStopped);
    held(Pause).hold(Stop).expect(["run.held"]).hold(Pause).expect(["run.held"]);
    held(Stop).resume().expect(["run.resumed"]).release().refused(&Rejection::NotHeld);
    let work = Story::of(&workflow([task("work"), noop("next")]).flow("work > next")).start();
    let paused = work.clone().pause().release().expect(["run.released"]);
    assert_eq!((paused.run().hold(), paused.run().holder()), (Hold::None, None));
    work.clone().drain().hold(Stop).expect(["run.held"]).pause().refused(&Rejection::AlreadyStopped);
    work.clone().cancel().hold(Stop).refused(&Rejection::Cancelling);
    let long = Some("x".repeat(5000));
    let wordy = work.clone().ask(Command::Hold(Held { mode: Stop, reason: long.clone(), by: None }));
    assert!(matches!(wordy.last_rejection(), Rejection::Invalid { .. }));
    let wordy = work.hold(Stop).ask(Command::Release(Released { by: None, reason: long }));
    assert!(matches!(wordy.last_rejection(), Rejection::Invalid { .. }));
}

#[test]
fn a_run_that_waits_for_a_decision_about_a_resume_is_held_by_that() {
    let story = Story::of(&workflow([http("call", "POST")])).start();
    let story = story.report_trouble("call", "no answer", Reached::Maybe).fire_timer("resume");
    assert_eq!(story.run().hold(), Hold::Escalated);
    story.hold(Stop).refused(&Rejection::Escalated).release().refused(&Rejection::Escalated);
}

#[test]
fn who_and_why_are_recorded_and_told() {
    let (reason, by) = (Some("fire drill".to_owned()), Some("ann".to_owned()));
    let story = Story::of(&followed(question("gate"))).start();
    let story = story.ask(Command::Hold(Held { mode: Stop, reason: reason.clone(), by: by.clone() }));
    assert_eq!(story.payload("run.held"), r#"{"mode":"stop","reason":"fire drill","by":"ann"}"#);
    let why = story.run().why();
    assert_eq!((why.reasons[0].kind, why.reasons[0].since), ("hold", Some(BEGIN)));
    assert_eq!(why.reasons[0].what, "it is stopped by ann: fire drill");
    assert!(why.summary.starts_with("it is stopped and waits for an answer"), "{}", why.summary);
    let story = story.ask(Command::Release(Released { by, reason }));
    assert_eq!(story.payload("run.released"), r#"{"by":"ann","reason":"fire drill"}"#);
}

#[test]
fn work_in_hand_is_recorded_and_delays_end_but_nothing_starts() {
    let flow = workflow([task("work"), delay("wait", hours(1)), noop("next")])
        .flow("work > next")
        .flow("wait > next");
    let story = Story::of(&flow).start().hold(Stop).report("work").expect(["node.completed work"]);
    let story = story.at(hours(1)).fire("wait").expect(["node.completed wait"]).stands(Status::Paused);
    story.release().stands(Status::Completed);
}

#[test]
fn the_runs_own_time_stands_still_under_either_hold() {
    for mode in HoldMode::ALL {
        let story = Story::of(&workflow([delay("wait", hours(9))]))
            .configurable(&json!({ "runTimeoutMs": hours(10) }))
            .start()
            .at(hours(1))
            .hold(mode)
            .at(hours(3))
            .release();
        assert_eq!(due(&story, &TimerId::RunTimeout), Some(hours(12)), "{mode:?}");
    }
}

#[test]
fn a_held_run_is_cancelled_with_what_it_asks() {
    let story = Story::of(&followed(question("gate"))).start().hold(Stop);
    let id = the_only(&story);
    let story = story.cancel().stands(Status::Cancelled);
    assert_eq!((story.run().hold(), story.run().holder(), story.run().timers().len()), (Hold::None, None, 0));
    story.answer_to(id, &well(), "ann").refused(&Rejection::InterruptCancelled);
}

#[test]
fn nobody_is_told_of_anything_while_a_run_is_stopped() {
    let story = Story::of(&followed(question("gate"))).start().hold(Stop).at(hours(50)).release();
    let told = story.journal().iter().filter(|record| type_name(record) == "interrupt.renotified").count();
    let effects = &story.step().effects;
    assert!(told == 0 && !effects.iter().any(|effect| matches!(effect, Effect::Notify(_))), "{effects:?}");
}
