//! Runs that are interrupted: what is resumed by itself, what waits for a person, and what is on record.

#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use std::collections::BTreeMap;

use abide_core::{
    Artifacts, Command, Failure, Hold, InterruptionClass, Json, Millis, NodePhase, OnRefusal, Performance,
    RESUME_NODE, Reached, ReasonCode, Rejection, ResumeNow, ResumeSettings, ResumeStatus, Status,
    Surroundings, TaskFailure,
};
use serde_json::{Value, json};
use story::Story;
use workflow::{Sketch, Workflow, http, noop, workflow};

fn secs(count: i64) -> Millis {
    count * 1000
}

fn calling(call: Sketch) -> Workflow {
    workflow([call, noop("next")]).flow("call > next")
}

fn fetch() -> Story {
    Story::of(&calling(http("call", "GET"))).start()
}

/// A payment: nothing says that paying twice is as good as once.
fn payment() -> Story {
    Story::of(&calling(http("call", "POST"))).start()
}

fn now(by: &str) -> ResumeNow {
    ResumeNow {
        by: by.to_owned(),
        reason: None,
        force: false,
        approve: Vec::new(),
        done: BTreeMap::new(),
        class: None,
        artifacts: Artifacts::READABLE,
    }
}

fn forced(approve: &[&str]) -> ResumeNow {
    let approve = approve.iter().map(|node| (*node).to_owned()).collect();
    ResumeNow { force: true, approve, reason: Some("the provider is back".to_owned()), ..now("ops") }
}

impl Story {
    fn fails(self, class: InterruptionClass) -> Self {
        self.fails_at("call", class, Reached::Maybe)
    }

    fn fails_at(self, node: &str, class: InterruptionClass, reached: Reached) -> Self {
        let failure = Failure::new("http_status", "the provider said 503");
        self.report_product(node, 1, Err(TaskFailure { failure, retryable: true, reached, class }))
    }

    fn resume_now(self, asked: ResumeNow) -> Self {
        self.ask(Command::ResumeNow(Box::new(asked)))
    }

    fn switch(self, auto: bool) -> Self {
        self.ask(Command::SwitchResume { auto, by: "ops".to_owned(), reason: None })
    }

    fn looked_at(self) -> Self {
        self.fire_timer("resume")
    }

    /// Interrupted and resumed, so many times.
    fn resumed(mut self, times: u32) -> Self {
        for _ in 0..times {
            self = self.fails(InterruptionClass::ToolFailure).looked_at();
            if self.run().resume_decision().is_some_and(|decided| !decided.eligible) {
                self = self.after(secs(30)).looked_at();
            }
        }
        self
    }

    fn last_code(&self) -> ReasonCode {
        self.run().resume_decision().expect("something was decided").reason_code
    }

    fn decisions(&self) -> usize {
        self.journal().iter().filter(|record| story::type_name(record) == "resume_decision").count()
    }

    fn status_now(&self) -> ResumeStatus {
        let at = self.journal().last().expect("it has begun").at;
        self.run().resume_status(Artifacts::READABLE, at, &Surroundings::default())
    }

    fn decision(&self) -> Value {
        serde_json::from_str(&self.payload("resume_decision")).expect("JSON")
    }
}

mod by_itself {
    use super::*;

    #[test]
    fn the_first_resume_is_immediate_and_goes_on_where_it_stopped() {
        let story = fetch().fails(InterruptionClass::ToolFailure).expect(["node.interrupted call"]);
        let story =
            story.expect_effects(["finish call/1", "arm resume +0"]).node_is("call", NodePhase::Waiting);
        let story = story.looked_at().expect(["resume_decision", "node.due call", "node.started call"]);
        let story = story.expect_effects(["drop resume +0", "dispatch call/1"]);
        assert_eq!((story.last_code(), story.run().resume_attempts()), (ReasonCode::Allowed, 1));
        story.report("call").stands(Status::Completed);
    }

    #[test]
    fn each_interruption_has_one_class_on_record() {
        for class in InterruptionClass::ALL {
            let story = fetch().fails(class);
            let interrupted: Value = serde_json::from_str(&story.payload("node.interrupted")).unwrap();
            assert_eq!(interrupted["class"], class.name());
            assert_eq!(story.looked_at().decision()["interruption_class"], class.name());
        }
    }

    #[test]
    fn within_the_cool_down_it_waits_and_then_goes_on_without_anybody() {
        let story = fetch().resumed(1).after(secs(33)).fails(InterruptionClass::Timeout).looked_at();
        let story =
            story.expect(["resume_decision"]).expect_effects(["drop resume +33000", "arm resume +120000"]);
        let decided = story.decision();
        assert_eq!(decided["reason_code"], "resume_blocked_cooldown");
        assert_eq!(decided["cooldown_seconds_remaining"], 87);
        assert_eq!((&decided["attempt"], &decided["max_attempts"]), (&json!(2), &json!(3)));
        let early = story.clone().after(secs(86)).looked_at();
        assert!(matches!(early.last_rejection(), Rejection::NotDue { .. }));
        let story = story.after(secs(87)).looked_at();
        story.expect(["resume_decision", "node.due call", "node.started call"]);
    }

    #[test]
    fn a_step_that_always_fails_is_resumed_three_times_and_no_more() {
        let story = fetch().resumed(3);
        assert_eq!(story.run().resume_attempts(), 3);
        let story = story.after(secs(500)).fails(InterruptionClass::ToolFailure).looked_at();
        let story = story.expect(["resume_decision", "resume.escalated", "interrupt.requested abide:resume"]);
        assert_eq!(story.last_code(), ReasonCode::AttemptLimit);
        assert_eq!(story.run().hold(), Hold::Escalated);
        let shown = story.run().status();
        assert_eq!((shown.name(), shown.intent_name()), ("paused", "blocked"));
        story.stands(Status::Paused).node_is("call", NodePhase::Waiting);
    }

    #[test]
    fn retries_come_before_and_are_counted_anew_after() {
        let policy = json!({"strategy": "fixed", "maxRetries": 1, "baseDelayMs": 10, "jitter": false});
        let story = Story::of(&calling(http("call", "GET").setting("retry", policy))).start();
        let story = story.fails(InterruptionClass::ToolFailure).expect(["node.retried call"]);
        let story = story.after(10).fire_timer("retry/1/call").fails(InterruptionClass::ToolFailure);
        let story = story.expect(["node.interrupted call"]).looked_at();
        let story = story.fails(InterruptionClass::ToolFailure).expect(["node.retried call"]);
        let told: Vec<&str> = story.journal().iter().map(story::type_name).collect();
        let place = |name: &str| told.iter().position(|told| *told == name).expect("it happened");
        assert!(place("node.retried") < place("node.interrupted"));
        assert!(place("node.interrupted") < place("resume_decision"));
    }

    #[test]
    fn what_the_definition_deals_with_is_no_interruption() {
        let flow = workflow([http("call", "GET"), noop("handler")]).under("any_failed", "call > handler");
        let story = Story::of(&flow).start().fails(InterruptionClass::ToolFailure);
        story.expect(["node.failed call", "node.started handler", "node.completed handler", "run.completed"]);
    }

    #[test]
    fn a_failure_that_is_final_interrupts_nothing() {
        let story = fetch().report_failure("call", "404").expect(["node.failed call", "run.failed"]);
        assert_eq!(story.decisions(), 0);
    }

    #[test]
    fn nodes_that_are_interrupted_together_are_resumed_together() {
        let flow = workflow([http("a", "GET"), http("b", "GET")]);
        let story = Story::of(&flow).start();
        let story = story.fails_at("a", InterruptionClass::ToolFailure, Reached::Maybe);
        let story = story.fails_at("b", InterruptionClass::Timeout, Reached::Maybe).looked_at();
        let story =
            story.expect(["resume_decision", "node.due a", "node.due b", "node.started a", "node.started b"]);
        assert_eq!(story.run().resume_attempts(), 1, "one attempt is one, however many nodes it is of");
        assert_eq!(story.decision()["interruption_class"], "timeout", "the one that is waited for longest");
    }

    #[test]
    fn a_paused_run_is_looked_at_when_the_pause_is_over() {
        let story = fetch().pause().fails(InterruptionClass::ToolFailure).expect_effects(["finish call/1"]);
        let story = story.resume_now(now("ops")).refused(&Rejection::AlreadyPaused);
        let story = story.resume().expect_effects(["arm resume +0"]);
        story.looked_at().expect(["resume_decision", "node.due call", "node.started call"]);
        let cooling = fetch().resumed(1).fails(InterruptionClass::ToolFailure).looked_at();
        cooling.pause().expect_effects(["drop resume +30000"]).resume().expect_effects(["arm resume +0"]);
    }

    #[test]
    fn a_run_that_is_cancelled_or_ends_is_resumed_no_more() {
        let story = fetch().resumed(1).fails(InterruptionClass::ToolFailure).looked_at().cancel();
        let story = story.stands(Status::Cancelled).node_is("call", NodePhase::Cancelled);
        assert!(story.run().timers().is_empty());
        story.looked_at();
        let escalated = payment().fails(InterruptionClass::Timeout).looked_at().cancel();
        let escalated = escalated.stands(Status::Cancelled);
        assert_eq!(escalated.run().interrupts().count(), 0);
    }

    #[test]
    fn the_count_and_the_window_are_in_the_journal() {
        // A story compares the run with one that was folded from its journal after every word; this one says of what.
        let story = fetch().resumed(2).after(secs(12)).fails(InterruptionClass::ToolFailure).looked_at();
        let decided = story.decision();
        assert_eq!((&decided["attempt"], &decided["cooldown_seconds_remaining"]), (&json!(3), &json!(18)));
    }
}

mod unsafe_steps {
    use super::*;

    #[test]
    fn what_nothing_says_may_be_repeated_waits_for_a_person() {
        for reached in [Reached::No, Reached::Maybe] {
            let story = payment().fails_at("call", InterruptionClass::ToolFailure, reached).looked_at();
            let story =
                story.expect(["resume_decision", "resume.escalated", "interrupt.requested abide:resume"]);
            assert_eq!(
                (story.last_code(), story.run().resume_attempts()),
                (ReasonCode::NonIdempotentStep, 0)
            );
        }
    }

    #[test]
    fn once_it_is_approved_it_is_done_once_more() {
        let story = payment().fails(InterruptionClass::Timeout).looked_at();
        let approved = ResumeNow { approve: vec!["call".to_owned()], ..now("ops") };
        let story = story.resume_now(approved).expect([
            "resume.requested",
            "interrupt.resolved abide:resume",
            "resume_decision",
            "node.due call",
            "node.started call",
        ]);
        assert_eq!(story.decision()["actor"], "ops");
        // The approval was for that time.
        let story = story.fails(InterruptionClass::Timeout).looked_at();
        assert_eq!(story.last_code(), ReasonCode::NonIdempotentStep);
    }

    #[test]
    fn approving_one_step_does_not_free_another() {
        let flow = workflow([http("a", "POST"), http("b", "POST")]);
        let story = Story::of(&flow).start();
        let story = story.fails_at("a", InterruptionClass::Timeout, Reached::Maybe);
        let story = story.fails_at("b", InterruptionClass::Timeout, Reached::Maybe).looked_at();
        let story = story.resume_now(forced(&["a"])).expect(["resume_decision"]);
        assert_eq!(story.last_code(), ReasonCode::NonIdempotentStep);
        assert_eq!(story.run().hold(), Hold::Escalated);
        story.resume_now(forced(&["a", "b"])).node_is("b", NodePhase::Running);
    }

    #[test]
    fn force_alone_does_not_repeat_it() {
        let story = payment().fails(InterruptionClass::Timeout).looked_at();
        let before = story.journal().len();
        let story = story.resume_now(forced(&[])).expect(["resume_decision"]);
        assert_eq!((story.last_code(), story.journal().len()), (ReasonCode::NonIdempotentStep, before + 1));
        story.resume_now(forced(&["call"])).node_is("call", NodePhase::Running);
    }

    #[test]
    fn what_was_done_after_all_is_not_done_again() {
        let story = payment().fails(InterruptionClass::Timeout).looked_at();
        let done = |outcome: Value| ResumeNow {
            done: [("call".to_owned(), Json::of(&outcome))].into(),
            ..now("ops")
        };
        let story = story.resume_now(done(json!(7)));
        assert!(matches!(story.last_rejection(), Rejection::Invalid { field, .. } if field == "done"));
        let story = story.resume_now(done(json!({"receipt": 7}))).expect([
            "resume.requested",
            "interrupt.resolved abide:resume",
            "resume_decision",
            "node.completed call",
            "node.started next",
            "node.completed next",
            "run.completed",
        ]);
        story.outputs("call", Some(r#"{"receipt":7}"#));
    }

    #[test]
    fn a_branch_does_not_do_again_what_an_operator_said_was_done() {
        let plan = workflow([http("call", "POST"), http("other", "POST"), noop("next")])
            .flow("call > next")
            .flow("other > next");
        let story = Story::of(&plan).start().fails(InterruptionClass::ToolFailure);
        let story = story.fails_at("other", InterruptionClass::ToolFailure, Reached::Maybe).looked_at();
        let begun = story.journal().len();
        let done = [("call".to_owned(), Json::of(&json!({"receipt": 7})))].into();
        let story = story.resume_now(ResumeNow { done, ..forced(&["other"]) });
        let story = story.node_is("call", NodePhase::Completed).node_is("other", NodePhase::Running);
        for at in begun + 1..=story.journal().len() {
            let branch = story.origin().branch_from(at as u64);
            assert_eq!(branch.run.nodes()[0].phase, NodePhase::Completed, "at {at}");
            assert_eq!(branch.run.nodes()[1].phase, NodePhase::Running, "at {at}");
            let replayed = story.origin().replay_from(at as u64);
            let mut off_it = story.origin();
            (off_it.key, off_it.salt, off_it.journal) =
                (replayed.run.key(), [0xee; 16], &replayed.step.records);
            let second = off_it.branch_from(at as u64);
            assert_eq!(second.run.nodes()[0].phase, NodePhase::Completed, "at {at} of a replay");
        }
    }

    #[test]
    fn what_can_not_be_undone_and_may_have_happened_is_not_even_tried_again() {
        let retry = json!({"strategy": "fixed", "maxRetries": 3, "baseDelayMs": 10, "jitter": false});
        let node = http("call", "PUT").setting("retry", retry).setting("reversible", json!(false));
        let story = Story::of(&calling(node)).start();
        let unheard = story.clone().fails_at("call", InterruptionClass::ToolFailure, Reached::No);
        unheard.expect(["node.retried call"]);
        let story = story.fails(InterruptionClass::Timeout).expect(["node.interrupted call"]).looked_at();
        assert_eq!((story.last_code(), story.run().resume_attempts()), (ReasonCode::NonIdempotentStep, 0));
        assert_eq!(story.run().hold(), Hold::Escalated);
    }

    #[test]
    fn an_effect_that_is_unknown_is_shown_as_that() {
        let story = payment().fails(InterruptionClass::Timeout).looked_at();
        let step = &story.run().interrupted_steps()[0];
        assert_eq!((step.effect(), step.may_repeat()), ("unknown", false));
        let why = story.run().why();
        let told = why.reasons.iter().find(|reason| reason.kind == "interrupted").expect("it is told");
        assert!(told.what.contains("its effect may or may not have happened"), "{}", told.what);
        let known = payment().fails_at("call", InterruptionClass::ToolFailure, Reached::No);
        assert_eq!(known.run().interrupted_steps()[0].effect(), "none");
    }
}

mod people {
    use super::*;

    fn escalated() -> Story {
        fetch().resumed(3).fails(InterruptionClass::ToolFailure).looked_at()
    }

    #[test]
    fn the_question_says_what_happened_and_what_to_do() {
        let story = escalated();
        let asked: Value = serde_json::from_str(&story.payload("interrupt.requested")).unwrap();
        let data = &asked["data"]["artifactData"];
        assert_eq!(data["reasonCode"], "resume_attempt_limit_reached");
        assert_eq!(data["interrupted"][0]["node"], "call");
        assert_eq!(data["interrupted"][0]["class"], "tool_failure");
        assert_eq!(data["interrupted"][0]["message"], "the provider said 503");
        let checklist = data["checklist"].as_array().expect("a list");
        assert!(
            checklist.iter().any(|line| line.as_str().unwrap().contains("abide resume now")),
            "{checklist:?}"
        );
        assert_eq!(story.status_now().checklist.len(), checklist.len());
    }

    #[test]
    fn time_alone_never_resumes_it() {
        let story = escalated().after(secs(1_000_000));
        assert!(story.run().timers().is_empty(), "nothing is left that could");
        let story = story.looked_at().refused(&Rejection::NoSuchTimer);
        story
            .resume()
            .refused(&Rejection::Escalated)
            .pause()
            .refused(&Rejection::Waiting(abide_core::Waiting::Approval));
    }

    #[test]
    fn whoever_accepts_resumes_it_and_is_on_record() {
        let story = escalated();
        let accepted = story.answer(RESUME_NODE, &json!({"action": "accept", "feedback": "fixed"}));
        let story = accepted.expect([
            "approval.received abide:resume",
            "interrupt.resolved abide:resume",
            "resume.requested",
        ]);
        let story = story.looked_at().expect(["resume_decision", "node.due call", "node.started call"]);
        let decided = story.decision();
        assert_eq!((&decided["eligible"], &decided["attempt"]), (&json!(true), &json!(4)));
        assert_ne!(decided["actor"], "system");
        story.report("call").stands(Status::Completed);
    }

    #[test]
    fn whoever_rejects_gives_the_run_up() {
        let story = escalated().answer(RESUME_NODE, &json!({"action": "reject"}));
        let story = story.failed_with("http_status", "the provider said 503");
        assert_eq!(story.run().resume_attempts(), 3);
    }

    #[test]
    fn whoever_gives_up_what_the_definition_deals_with_by_then_lets_the_run_go_on() {
        let flow = workflow([http("call", "POST"), http("other", "GET"), noop("handler")])
            .under("any_failed", "call > handler")
            .when("nodes.other.status == 'completed'");
        let story = Story::of(&flow).start().fails(InterruptionClass::Timeout).looked_at();
        let story = story.stands(Status::Paused).report("other");
        let story = story.answer(RESUME_NODE, &json!({"action": "reject"})).expect([
            "approval.received abide:resume",
            "interrupt.resolved abide:resume",
            "node.failed call",
            "run.resumed",
            "node.started handler",
            "node.completed handler",
            "run.completed",
        ]);
        assert_eq!(story.run().hold(), Hold::None);
    }

    #[test]
    fn whoever_gives_up_one_of_two_is_asked_about_the_other() {
        let flow = workflow([http("call", "POST"), http("other", "GET"), http("b", "POST"), noop("handler")])
            .under("any_failed", "call > handler")
            .when("nodes.other.status == 'completed'");
        let story = Story::of(&flow).start().fails(InterruptionClass::Timeout).looked_at().report("other");
        let story = story.fails_at("b", InterruptionClass::Timeout, Reached::Maybe);
        let story = story.answer(RESUME_NODE, &json!({"action": "reject"})).looked_at();
        let asked = story.run().interrupts().next().expect("a run that is held asks somebody");
        let asked: Value = serde_json::from_str(asked.requested.data.text()).unwrap();
        let steps = asked["artifactData"]["interrupted"].as_array().unwrap();
        assert_eq!((steps.len(), &steps[0]["node"]), (1, &json!("b")));
    }

    #[test]
    fn whoever_switched_it_off_looks_at_it_whatever_the_policy_makes_of_others() {
        let settings = json!({"resume": {"onRefusal": "fail"}});
        let flow = calling(http("call", "GET")).settings("abide", settings);
        let story = Story::of(&flow).start().switch(false).fails(InterruptionClass::Timeout).looked_at();
        story.expect(["resume.escalated", "interrupt.requested abide:resume"]);
    }

    #[test]
    fn force_goes_on_at_once_and_counts() {
        let story = escalated();
        let story = story.resume_now(now("ops")).expect(["resume_decision"]);
        assert_eq!(story.last_code(), ReasonCode::AttemptLimit);
        let unexplained = ResumeNow { reason: None, ..forced(&[]) };
        let story = story.resume_now(unexplained);
        assert!(matches!(story.last_rejection(), Rejection::Invalid { field, .. } if field == "reason"));
        let story = story.resume_now(forced(&[])).node_is("call", NodePhase::Running);
        assert_eq!((story.run().resume_attempts(), story.run().hold()), (4, Hold::None));
        let story = story.fails(InterruptionClass::ToolFailure).looked_at();
        assert_eq!(story.last_code(), ReasonCode::AttemptLimit, "the next one is as far as this one was");
    }

    #[test]
    fn what_is_interrupted_after_people_were_asked_is_not_approved_with_it() {
        let flow = workflow([http("a", "POST"), http("b", "POST")]);
        let story =
            Story::of(&flow).start().fails_at("a", InterruptionClass::Timeout, Reached::Maybe).looked_at();
        let story = story.fails_at("b", InterruptionClass::Timeout, Reached::Maybe);
        let story = story.answer(RESUME_NODE, &json!({"action": "accept"})).looked_at();
        assert_eq!(story.last_code(), ReasonCode::NonIdempotentStep);
        let story = story.expect(["resume_decision", "resume.escalated", "interrupt.requested abide:resume"]);
        let story = story.answer(RESUME_NODE, &json!({"action": "accept"})).looked_at();
        story.node_is("a", NodePhase::Running).node_is("b", NodePhase::Running);
    }

    #[test]
    fn a_ladder_reminds_people_and_never_answers_for_them() {
        let platform = json!({"max_attempts": 2, "interval_seconds": 60, "final_fallback_policy": "complete_with_fallback"});
        let platform = serde_json::from_value(platform);
        let around = Surroundings {
            platform: Some(platform.expect("a policy")),
            notifies: true,
            ..Surroundings::default()
        };
        let story = Story::of(&calling(http("call", "POST"))).under(around).start();
        let story = story.fails(InterruptionClass::Timeout).looked_at();
        let id = story.run().interrupts().next().expect("people are asked").requested.interrupt_id;
        let climb = format!("attempt/{id}");
        let story = story.after(secs(60)).fire_timer(&climb).expect(["interrupt.renotified abide:resume"]);
        assert!(
            !story.run().timers().keys().any(|timer| timer.to_string() == climb),
            "there is no end to it"
        );
        let story = story.after(secs(1_000_000)).answer(RESUME_NODE, &json!({"action": "accept"}));
        story.looked_at().node_is("call", NodePhase::Running);
    }

    #[test]
    fn a_policy_may_let_it_fail_instead() {
        let fail = ResumeSettings { on_refusal: Some(OnRefusal::Fail), ..ResumeSettings::default() };
        let around = Surroundings { resume: fail, ..Surroundings::default() };
        let story = Story::of(&calling(http("call", "POST"))).under(around).start();
        let story = story.fails(InterruptionClass::Timeout).looked_at();
        story.expect(["resume_decision", "node.failed call", "run.failed"]);
    }
}

mod operators {
    use super::*;

    #[test]
    fn a_run_that_is_not_interrupted_is_not_resumed() {
        fetch().resume_now(now("ops")).refused(&Rejection::NotInterrupted);
        fetch()
            .report("call")
            .resume_now(now("ops"))
            .refused(&Rejection::Ended(abide_core::Lifecycle::Completed));
    }

    #[test]
    fn a_refused_wish_changes_nothing_but_the_record() {
        let story = fetch().resumed(1).fails(InterruptionClass::ToolFailure).looked_at();
        let timers = story.run().timers().clone();
        let mut story = story.after(secs(3));
        for _ in 0..10 {
            story = story.resume_now(now("ops")).expect(["resume_decision"]).expect_effects([]);
            assert_eq!(story.last_code(), ReasonCode::Cooldown);
        }
        assert_eq!((story.run().resume_attempts(), story.run().timers()), (1, &timers));
        assert_eq!(story.decision()["cooldown_seconds_remaining"], 27);
        story.resume_now(forced(&[])).node_is("call", NodePhase::Running);
    }

    #[test]
    fn nobody_makes_a_class_up_and_naming_one_needs_force() {
        let story = fetch().resumed(1).fails(InterruptionClass::ToolFailure).looked_at();
        let named =
            |class: &str, force: bool| ResumeNow { class: Some(class.to_owned()), force, ..forced(&[]) };
        let story = story.resume_now(named("timeout", false));
        assert!(
            matches!(story.last_rejection(), Rejection::Invalid { field, .. } if field == "interruptionClass")
        );
        let story = story.resume_now(named("gremlin", true)).expect(["resume_decision"]);
        assert_eq!(story.last_code(), ReasonCode::UnknownClass);
        assert_eq!(story.decision()["interruption_class"], "gremlin");
        story.resume_now(named("timeout", true)).node_is("call", NodePhase::Running);
    }

    #[test]
    fn only_what_was_interrupted_is_approved() {
        let story = payment().fails(InterruptionClass::Timeout).looked_at();
        let story = story.resume_now(forced(&["next"]));
        assert!(
            matches!(story.last_rejection(), Rejection::Invalid { field, .. } if field == "approveSteps")
        );
    }

    #[test]
    fn what_can_not_be_read_is_not_resumed_by_anybody() {
        let broken = Artifacts { history: false, ..Artifacts::READABLE };
        let story =
            fetch().fails(InterruptionClass::ToolFailure).ask(Command::ResumeDue { artifacts: broken });
        assert_eq!(story.last_code(), ReasonCode::MissingArtifacts);
        let story = story.resume_now(ResumeNow { artifacts: broken, ..forced(&["call"]) });
        assert_eq!(story.last_code(), ReasonCode::MissingArtifacts);
    }

    #[test]
    fn a_run_that_was_switched_off_waits_for_a_person_whatever_would_be_decided() {
        let story = fetch().switch(false).expect(["resume.switched"]).switch(false).expect([]);
        let story = story.fails(InterruptionClass::ToolFailure).looked_at();
        let story = story.expect(["resume.escalated", "interrupt.requested abide:resume"]);
        let status = story.status_now();
        assert_eq!((status.auto_resume, status.escalated, story.decisions()), (false, true, 0));
        assert_eq!(status.decision.expect("it was interrupted").reason_code, ReasonCode::Allowed);
        let story = story.switch(true).resume_now(now("ops")).node_is("call", NodePhase::Running);
        assert!(story.status_now().auto_resume);
    }

    #[test]
    fn a_decision_has_the_fields_of_its_contract_and_no_others() {
        let story = fetch().fails(InterruptionClass::ProcessCrash).looked_at();
        let decided = story.decision();
        let names: Vec<&str> = decided.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = vec![
            "event",
            "run_id",
            "interruption_class",
            "eligible",
            "reason_code",
            "cooldown_seconds_remaining",
            "attempt",
            "max_attempts",
            "at",
            "actor",
        ];
        expected.sort_unstable();
        let mut found = names.clone();
        found.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!((&decided["event"], &decided["actor"]), (&json!("resume_decision"), &json!("system")));
        assert_eq!(decided["run_id"], story.run().key().id.to_string());
        assert!(decided["at"].as_str().unwrap().ends_with('Z'));
        assert_eq!(decided["eligible"], json!(decided["reason_code"] == "resume_allowed"));
    }

    #[test]
    fn looking_changes_nothing() {
        let story = fetch().resumed(1).fails(InterruptionClass::ToolFailure).looked_at();
        let (before, events) = (story.run().snapshot(), story.journal().len());
        for _ in 0..10 {
            assert_eq!(story.status_now().decision.unwrap().reason_code, ReasonCode::Cooldown);
        }
        assert_eq!((story.run().snapshot(), story.journal().len()), (before, events));
        assert_eq!(story.status_now(), story.status_now());
    }
}

#[test]
fn an_interrupted_request_is_made_again_as_it_was() {
    let story = fetch();
    let first = story.performance("call");
    let story = story.fails(InterruptionClass::ProcessCrash).looked_at();
    let (Performance::Http(first), Performance::Http(again)) = (first, story.performance("call")) else {
        panic!("it is a request")
    };
    assert_eq!(first, again, "the other side knows it by its key");
}

/// What must not happen to a run that people were asked about.
mod held {
    use super::*;

    fn escalated() -> Story {
        fetch().resumed(3).fails(InterruptionClass::ToolFailure).looked_at()
    }

    #[test]
    fn a_refused_wish_does_not_take_away_what_somebody_accepted() {
        let story = escalated().answer(RESUME_NODE, &json!({"action": "accept"}));
        let timers = story.run().timers().clone();
        for who in ["ops", "alice", "system"] {
            let story = story.clone().resume_now(now(who)).expect(["resume_decision"]).expect_effects([]);
            assert_eq!((story.last_code(), story.run().timers()), (ReasonCode::AttemptLimit, &timers));
            story.looked_at().node_is("call", NodePhase::Running);
        }
    }

    #[test]
    fn nobody_is_taken_for_the_system_by_their_name() {
        let story = fetch().switch(false).resumed(0).fails(InterruptionClass::ToolFailure).looked_at();
        let story = story.resume_now(now("ops")).fails(InterruptionClass::ToolFailure).looked_at();
        let story = story.resume_now(now("system")).expect(["resume_decision"]).expect_effects([]);
        assert_eq!(story.last_code(), ReasonCode::Cooldown);
        assert!(story.run().timers().is_empty(), "it is held until a person decides");
    }

    #[test]
    fn a_run_whose_policy_lets_it_fail_by_now_is_not_left_held() {
        let flow = workflow([http("call", "POST"), http("other", "GET"), noop("handler")])
            .under("any_failed", "call > handler")
            .when("nodes.other.status == 'completed'");
        let story = Story::of(&flow).start().fails(InterruptionClass::Timeout).looked_at().report("other");
        let story = story.answer(RESUME_NODE, &json!({"action": "accept"}));
        let fail = ResumeSettings { on_refusal: Some(OnRefusal::Fail), ..ResumeSettings::default() };
        let around = Surroundings { resume: fail, ..Surroundings::default() };
        let broken = Artifacts { history: false, ..Artifacts::READABLE };
        let story = story.amid(around).ask(Command::ResumeDue { artifacts: broken });
        story.stands(Status::Completed);
    }
}

/// What the definition deals with is no interruption; what would end the run is.
mod routes {
    use super::*;

    #[test]
    fn a_failure_that_nothing_can_follow_on_interrupts_the_run() {
        let flow = workflow([http("call", "GET"), noop("next")]).under("any_success", "call > next");
        let story = Story::of(&flow).start().fails(InterruptionClass::ToolFailure);
        story.expect(["node.interrupted call"]).looked_at().report("call").stands(Status::Completed);
    }

    #[test]
    fn the_last_of_several_ways_is_resumed() {
        let flow = workflow([http("a", "GET"), http("b", "GET"), noop("next")])
            .under("any_success", "a > next")
            .under("any_success", "b > next");
        let story = Story::of(&flow).start();
        let story = story.fails_at("a", InterruptionClass::ToolFailure, Reached::Maybe);
        let story = story.expect(["node.failed a"]);
        let story = story.fails_at("b", InterruptionClass::ToolFailure, Reached::Maybe);
        story.expect(["node.interrupted b"]).looked_at().report("b").stands(Status::Completed);
    }

    #[test]
    fn a_way_that_another_way_closes_is_none() {
        let flow = workflow([http("call", "GET"), noop("next")])
            .under("any_failed", "call > next")
            .under("all_success", "call > next");
        Story::of(&flow).start().fails(InterruptionClass::ToolFailure).expect(["node.interrupted call"]);
    }

    #[test]
    fn a_failure_that_the_definition_deals_with_is_none() {
        for rule in ["any_failed", "all_complete"] {
            let flow = workflow([http("call", "GET"), noop("next")]).under(rule, "call > next");
            let story = Story::of(&flow).start().fails(InterruptionClass::ToolFailure);
            story.stands(Status::Completed);
        }
    }
}

#[test]
fn a_node_with_the_name_of_the_runs_own_questions_is_refused_and_harms_nobody() {
    let flow = workflow([http("call", "POST"), noop(RESUME_NODE)]).flow("call > abide:resume");
    let story = Story::following(flow.old_graph()).start().fails(InterruptionClass::Timeout).looked_at();
    assert_eq!(story.run().hold(), Hold::Escalated);
    let id = story.run().interrupts().next().expect("people are asked").requested.interrupt_id;
    let story = story.answer_to(id, &json!({"action": "accept"}), "alice").looked_at();
    story.report("call").stands(Status::Completed);
    assert!(flow.problems().contains("abide:"), "{}", flow.problems());
}
