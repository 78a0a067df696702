//! What each command does to a run, one example at a time. What the kinds of nodes do is in `nodes.rs`.

#[expect(dead_code, reason = "children.rs, retries.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{Command, Drain, Lifecycle, NodePhase, Rejection, Run, Status, TimerId, limits};
use serde_json::json;
use story::{BEGIN, Story, cancellation, hours, key, notice, run_id};
use workflow::{Workflow, delay, fail, noop, of_kind, task, workflow};

fn one_noop() -> Workflow {
    workflow([noop("only")])
}

fn one_delay() -> Workflow {
    workflow([delay("gate", hours(1))])
}

fn one_task() -> Workflow {
    workflow([task("work")])
}

fn invalid(field: &str, message: &str) -> Rejection {
    Rejection::Invalid { field: field.to_owned(), message: message.to_owned() }
}

mod start {
    use super::*;

    #[test]
    fn pure_nodes_are_done_within_the_start() {
        Story::of(&workflow([noop("a"), noop("b")]).flow("a > b"))
            .start()
            .expect([
                "run.started",
                "node.started a",
                "node.completed a",
                "node.started b",
                "node.completed b",
                "run.completed",
            ])
            .expect_effects([])
            .stands(Status::Completed);
    }

    #[test]
    fn a_required_input_must_be_passed_in() {
        let refused = Story::of(&one_noop().required("city", "string")).refused();
        assert_eq!(refused, invalid("inputs.city", "'inputs.city' is required by workflow 'story'; add it"));
    }

    #[test]
    fn a_default_stands_in_for_a_required_input() {
        let story = Story::of(&one_noop().required("city", "string").or(json!("Bern"))).start();
        assert_eq!(story.run().variables()["city"].text(), r#""Bern""#);
        assert!(story.run().inputs().is_empty(), "a default is nobody's input");
    }

    #[test]
    fn an_input_goes_before_a_default() {
        let asked = one_noop().variable("city", "string").or(json!("Bern"));
        let story = Story::of(&asked).input("city", &json!("Rome")).start();
        assert_eq!(story.run().variables()["city"].text(), r#""Rome""#);
    }

    #[test]
    fn an_input_must_be_of_the_declared_type() {
        for (kind, good, bad, bad_kind) in [
            ("string", json!("x"), json!(1), "number"),
            ("number", json!(-1.5), json!("1"), "string"),
            ("boolean", json!(false), json!(null), "null"),
            ("object", json!({"a": 1}), json!([1]), "array"),
            ("array", json!([]), json!({}), "object"),
        ] {
            let opening = Story::of(&one_noop().variable("x", kind));
            opening.clone().input("x", &good).start();
            let message = format!("'inputs.x' must be of type {kind}, not {bad_kind}");
            assert_eq!(opening.input("x", &bad).refused(), invalid("inputs.x", &message));
        }
    }

    #[test]
    fn tags_have_limits_in_number_and_length() {
        let refusal = invalid("tags", "'tags' takes at most 100 tags of 256 characters");
        let opening = Story::of(&one_noop());
        let tags = |count: usize, chars: usize| vec!["ü".repeat(chars); count];
        let (most, longest) = (limits::TAGS_MAX, limits::TAG_CHARS_MAX);
        let story = opening.clone().tags(tags(most, longest)).start();
        assert_eq!(story.run().tags().len(), most, "the limits themselves are allowed");
        assert_eq!(opening.clone().tags(tags(most + 1, 1)).refused(), refusal);
        assert_eq!(opening.tags(tags(1, longest + 1)).refused(), refusal);
    }

    #[test]
    fn metadata_must_be_an_object() {
        for other in [json!([]), json!("x"), json!(1), json!(true), json!(null)] {
            let refused = Story::of(&one_noop()).metadata(&other).refused();
            assert_eq!(refused, invalid("metadata", "'metadata' must be an object"));
        }
    }

    #[test]
    fn a_kind_behind_a_capability_is_refused_by_name() {
        for (kind, needs) in [
            ("core.orchestrator.supervisor", "orchestrator.supported"),
            ("core.dispatch", "dispatch.supported"),
        ] {
            let refused = Story::of(&workflow([noop("a"), of_kind("gated", kind)])).refused();
            let expected = Rejection::CapabilityRequired {
                node: "gated".to_owned(),
                type_id: kind.to_owned(),
                capability: needs,
            };
            assert_eq!(refused, expected);
        }
    }

    #[test]
    fn what_the_caller_passes_in_is_kept() {
        let story = Story::of(&one_noop())
            .input("x", &json!(1))
            .tags(["red".to_owned()])
            .metadata(&json!({"team": "blue"}))
            .child_of(run_id(9), "child")
            .by("ann")
            .start();
        let run = story.run();
        assert_eq!(run.inputs()["x"].text(), "1");
        assert_eq!(run.variables()["x"].text(), "1", "an undeclared input is a variable too");
        assert_eq!(run.tags(), ["red"]);
        assert_eq!(run.metadata().map(abide_core::Json::text), Some(r#"{"team":"blue"}"#));
        assert_eq!(run.parent().map(|parent| parent.run), Some(run_id(9)));
        assert_eq!(run.started_at(), BEGIN);
        assert!(story.payload("run.started").contains(r#""by":"ann""#));
    }

    #[test]
    fn the_run_follows_the_definition_it_started_with() {
        let story = Story::of(&one_noop()).start();
        let summary = story.run().summary();
        assert_eq!(&*summary.workflow_id, "story");
        assert_eq!(summary.definition, abide_core::sha256(&story.run().graph().source));
        let hex: String = summary.definition.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(story.payload("run.started").contains(&hex));
    }

    #[test]
    fn a_clock_before_the_epoch_counts_as_the_epoch() {
        let start = abide_core::Start {
            key: key(),
            salt: story::SALT,
            graph: one_noop().graph(),
            inputs: abide_core::JsonMap::new(),
            tags: Vec::new(),
            metadata: None,
            parent: None,
            by: None,
            configurable: None,
            sensitive: Vec::new(),
            unset: Vec::new(),
            trace: None,
            scope: None,
            exclusive: false,
            callback_url: None,
            depends_on: Vec::new(),
            draft: false,
            group: None,
            defaults: std::sync::Arc::default(),
        };
        let mut twin = Run::empty(start.key, start.salt, start.graph.clone());
        let (run, step) = Run::start(start, -1).expect("the start is accepted");
        assert_eq!(run.started_at(), 0);
        for record in &step.records {
            twin.apply(record).expect("what was decided folds");
        }
    }
}

mod cancel {
    use super::*;

    #[test]
    fn with_nothing_in_flight_the_run_ends_at_once() {
        let story = Story::of(&workflow([delay("gate", hours(1)), noop("next")]).flow("gate > next"))
            .start()
            .after(5)
            .cancel_because("enough", "ann")
            .expect(["node.cancelled gate", "run.cancelled"])
            .expect_effects(["drop delay/1/gate +3600000"])
            .stands(Status::Cancelled)
            .node_is("gate", NodePhase::Cancelled)
            .node_is("next", NodePhase::Pending);
        assert_eq!(story.payload("run.cancelled"), r#"{"reason":"enough","cancelledBy":"ann"}"#);
        assert_eq!(story.run().ended_at(), Some(BEGIN + 5));
        assert_eq!(story.run().error(), None);
    }

    #[test]
    fn with_a_task_in_flight_its_outcome_is_recorded_first() {
        let nodes = [task("work"), delay("gate", hours(1)), noop("next")];
        let story = Story::of(&workflow(nodes).flow("work > next"))
            .start()
            .cancel_because("enough", "ann")
            .expect(["run.cancelling", "node.cancelled gate"])
            .expect_effects(["drop delay/1/gate +3600000"])
            .stands(Status::Cancelling)
            .node_is("work", NodePhase::Running)
            .report("work")
            .expect(["node.completed work", "run.cancelled"])
            .expect_effects(["finish work/1"])
            .stands(Status::Cancelled)
            .node_is("next", NodePhase::Pending);
        let said = r#"{"reason":"enough","cancelledBy":"ann"}"#;
        assert_eq!(story.payload("run.cancelling"), said);
        assert_eq!(story.payload("run.cancelled"), said, "who and why survive the wait");
    }

    #[test]
    fn every_task_in_flight_is_waited_for() {
        Story::of(&workflow([task("one"), task("two")]))
            .start()
            .cancel()
            .report("two")
            .expect(["node.completed two"])
            .stands(Status::Cancelling)
            .report("one")
            .expect(["node.completed one", "run.cancelled"]);
    }

    #[test]
    fn a_failure_reported_meanwhile_does_not_make_it_a_failed_run() {
        Story::of(&one_task())
            .start()
            .cancel()
            .report_failure("work", "broken")
            .expect(["node.failed work", "run.cancelled"])
            .stands(Status::Cancelled)
            .node_is("work", NodePhase::Failed);
    }

    #[test]
    fn a_run_that_is_being_cancelled_only_listens() {
        Story::of(&one_task())
            .start()
            .cancel()
            .cancel()
            .refused(&Rejection::Cancelling)
            .pause()
            .refused(&Rejection::Cancelling)
            .resume()
            .refused(&Rejection::Cancelling)
            .hear(notice(run_id(2), 7, Lifecycle::Completed), None)
            .expect(["child.reported"])
            .stands(Status::Cancelling);
    }

    #[test]
    fn a_paused_run_can_be_cancelled() {
        Story::of(&one_delay())
            .start()
            .pause()
            .cancel()
            .expect(["node.cancelled gate", "run.cancelled"])
            .stands(Status::Cancelled);
    }

    #[test]
    fn a_paused_run_that_is_being_cancelled_shows_the_cancellation() {
        Story::of(&one_task())
            .start()
            .pause()
            .cancel()
            .expect(["run.cancelling"])
            .stands(Status::Cancelling)
            .resume()
            .refused(&Rejection::Cancelling)
            .report("work")
            .stands(Status::Cancelled);
    }

    #[test]
    fn an_ended_run_refuses_everything() {
        let ends = [
            (Story::of(&one_noop()).start(), Lifecycle::Completed, "the run has already completed"),
            (Story::of(&workflow([fail("boom")])).start(), Lifecycle::Failed, "the run has already failed"),
            (
                Story::of(&one_delay()).start().cancel(),
                Lifecycle::Cancelled,
                "the run has already been cancelled",
            ),
        ];
        for (story, lifecycle, message) in ends {
            let ended = Rejection::Ended(lifecycle);
            assert_eq!(ended.to_string(), message);
            story
                .cancel()
                .refused(&ended)
                .pause()
                .refused(&ended)
                .resume()
                .refused(&ended)
                .fire("gate")
                .refused(&ended)
                .report("only")
                .refused(&ended)
                .hear(notice(run_id(2), 7, Lifecycle::Completed), None)
                .refused(&ended);
        }
    }

    #[test]
    fn a_reason_has_a_limit() {
        let refusal = invalid("reason", "'reason' is longer than 4096 characters; shorten it");
        let longest = "ü".repeat(limits::REASON_CHARS_MAX);
        let too_long = format!("{longest}!");
        Story::of(&one_delay())
            .start()
            .cancel_because(&too_long, "ann")
            .refused(&refusal)
            .pause_because(&too_long, "ann")
            .refused(&refusal)
            .pause_because(&longest, "ann")
            .expect(["run.paused"])
            .cancel_because(&longest, "ann")
            .stands(Status::Cancelled);
    }
}

mod pause {
    use super::*;

    #[test]
    fn no_node_starts_while_delays_still_end() {
        Story::of(&workflow([delay("gate", hours(1)), noop("next")]).flow("gate > next"))
            .start()
            .pause_because("lunch", "ann")
            .expect(["run.paused"])
            .expect_effects([])
            .stands(Status::Paused)
            .after(hours(1))
            .fire("gate")
            .expect(["node.completed gate"])
            .node_is("next", NodePhase::Pending)
            .stands(Status::Paused)
            .resume()
            .expect(["run.resumed", "node.started next", "node.completed next", "run.completed"]);
    }

    #[test]
    fn outcomes_are_recorded_and_what_they_release_waits() {
        Story::of(&workflow([task("work"), task("next")]).flow("work > next"))
            .start()
            .pause()
            .report("work")
            .expect(["node.completed work"])
            .expect_effects(["finish work/1"])
            .resume()
            .expect(["run.resumed", "node.started next"])
            .expect_effects(["dispatch next/1"])
            .stands(Status::Running);
    }

    #[test]
    fn a_paused_run_ends_when_nothing_is_left_to_start() {
        Story::of(&one_task())
            .start()
            .pause()
            .report("work")
            .expect(["node.completed work", "run.completed"])
            .stands(Status::Completed);
        Story::of(&one_task())
            .start()
            .pause()
            .report_failure("work", "broken")
            .expect(["node.failed work", "run.failed"])
            .stands(Status::Failed);
    }

    #[test]
    fn who_and_why_are_recorded() {
        let story = Story::of(&one_delay())
            .start()
            .pause_because("lunch", "ann")
            .ask(Command::Resume { reason: None, by: Some("bob".to_owned()) });
        assert_eq!(story.payload("run.paused"), r#"{"reason":"lunch","by":"ann"}"#);
        assert_eq!(story.payload("run.resumed"), r#"{"by":"bob"}"#);
    }

    #[test]
    fn pausing_twice_or_resuming_nothing_is_refused() {
        Story::of(&one_delay())
            .start()
            .resume()
            .refused(&Rejection::NotPaused)
            .pause()
            .pause()
            .refused(&Rejection::AlreadyPaused)
            .stands(Status::Paused)
            .resume()
            .stands(Status::Running)
            .resume()
            .refused(&Rejection::NotPaused);
    }
}

mod report {
    use super::*;

    #[test]
    fn only_the_execution_under_way_can_be_reported() {
        let unknown = Rejection::NoSuchTask;
        Story::of(&workflow([task("work"), task("later"), delay("gate", hours(1))]).flow("work > later"))
            .start()
            .report_of("work", 2, Ok(None))
            .refused(&unknown)
            .report_of("work", 0, Ok(None))
            .refused(&unknown)
            .report_of("later", 0, Ok(None))
            .refused(&unknown)
            .report("gate")
            .refused(&unknown)
            .report("nobody")
            .refused(&unknown)
            .report("work")
            .expect(["node.completed work", "node.started later"])
            .report("work")
            .refused(&unknown);
    }

    #[test]
    fn outputs_are_kept_as_they_were_written() {
        let written: abide_core::Json = serde_json::from_str(r#"{"b": 1.0, "a" :[ 1e2 ]}"#).unwrap();
        Story::of(&workflow([task("work"), task("other")]))
            .start()
            .report_of("work", 1, Ok(Some(written.clone())))
            .outputs("work", Some(written.text()))
            .outputs("other", None);
    }

    #[test]
    fn a_failure_waits_for_the_other_tasks_and_then_ends_the_run() {
        let nodes = [task("bad"), task("good"), delay("gate", hours(1)), noop("next")];
        Story::of(&workflow(nodes).flow("good > next"))
            .start()
            .report_failure("bad", "broken")
            .expect(["node.failed bad", "node.cancelled gate"])
            .expect_effects(["finish bad/1", "drop delay/1/gate +3600000"])
            .stands(Status::Running)
            .report("good")
            .expect(["node.completed good", "run.failed"])
            .node_is("next", NodePhase::Pending)
            .failed_with("node_execution_failed", "broken");
    }

    #[test]
    fn the_first_failure_is_the_one_that_is_told() {
        let story = Story::of(&workflow([task("one"), task("two")]))
            .start()
            .report_failure("two", "first")
            .report_failure("one", "second")
            .expect(["node.failed one", "run.failed"])
            .failed_with("node_execution_failed", "first");
        assert!(story.payload("run.failed").contains(r#""failedNodeId":"two""#));
    }

    #[test]
    fn a_failing_run_starts_nothing_even_when_it_is_resumed() {
        Story::of(&workflow([task("bad"), task("good"), noop("next")]).flow("good > next"))
            .start()
            .pause()
            .report_failure("bad", "broken")
            .resume()
            .expect(["run.resumed"])
            .node_is("next", NodePhase::Pending)
            .report("good")
            .expect(["node.completed good", "run.failed"]);
    }
}

mod fire {
    use super::*;

    #[test]
    fn a_timer_is_never_early_and_never_twice() {
        let not_due = Rejection::NotDue { due: BEGIN + hours(1) };
        Story::of(&workflow([delay("gate", hours(1)), delay("long", hours(2))]))
            .start()
            .fire("gate")
            .refused(&not_due)
            .after(hours(1) - 1)
            .fire("gate")
            .refused(&not_due)
            .after(1)
            .fire("gate")
            .expect(["node.completed gate"])
            .expect_effects(["drop delay/1/gate +3600000"])
            .fire("gate")
            .refused(&Rejection::NoSuchTimer);
    }

    #[test]
    fn a_timer_of_another_execution_or_node_is_refused() {
        Story::of(&workflow([delay("gate", 0), task("work")]))
            .start()
            .fire_timer("delay/2/gate")
            .refused(&Rejection::NoSuchTimer)
            .fire("work")
            .refused(&Rejection::NoSuchTimer)
            .fire("nobody")
            .refused(&Rejection::NoSuchTimer)
            .fire_timer("stretch")
            .refused(&Rejection::NoSuchTimer);
    }

    #[test]
    fn a_late_timer_is_recorded_when_it_fires() {
        let story = Story::of(&one_delay()).start().after(hours(5)).fire("gate");
        assert_eq!(story.node("gate").ended_at, Some(BEGIN + hours(5)));
        assert_eq!(story.payload("run.completed"), format!(r#"{{"durationMs":{}}}"#, hours(5)));
    }

    #[test]
    fn time_never_goes_backwards() {
        let story = Story::of(&workflow([delay("one", 0), delay("two", hours(1))]))
            .start()
            .after(hours(1))
            .fire("one")
            .after(hours(-30))
            .fire("two")
            .expect(["node.completed two", "run.completed"]);
        let times: Vec<i64> = story.journal().iter().map(|record| record.at - BEGIN).collect();
        assert_eq!(times, [0, 0, 0, hours(1), hours(1), hours(1)], "due-ness counts from the last event");
    }
}

mod hear {
    use super::*;

    #[test]
    fn a_notice_is_taken_in_once() {
        let child = run_id(2);
        let said = |sequence| notice(child, sequence, Lifecycle::Completed);
        let story = Story::of(&one_delay())
            .start()
            .hear(said(7), None)
            .expect(["child.reported"])
            .expect_effects([&*format!("heard {child} at 7")])
            .hear(said(7), Some(7))
            .refused(&Rejection::HeardBefore)
            .hear(said(6), Some(7))
            .refused(&Rejection::HeardBefore)
            .hear(said(8), Some(7))
            .expect(["child.reported"]);
        let expected =
            format!(r#"{{"child":"{child}","node":"child","sequence":8,"lifecycle":"completed"}}"#);
        assert_eq!(story.payload("child.reported"), expected);
    }

    #[test]
    fn the_first_word_of_a_child_may_be_its_event_0() {
        Story::of(&one_delay())
            .start()
            .hear(notice(run_id(2), 0, Lifecycle::Running), None)
            .expect(["child.reported"])
            .hear(notice(run_id(2), 0, Lifecycle::Running), Some(0))
            .refused(&Rejection::HeardBefore);
    }

    #[test]
    fn hearing_starts_nothing_and_a_paused_run_listens_too() {
        Story::of(&workflow([task("work"), noop("next")]).flow("work > next"))
            .start()
            .pause()
            .hear(notice(run_id(2), 3, Lifecycle::Failed), None)
            .expect(["child.reported"])
            .stands(Status::Paused)
            .node_is("next", NodePhase::Pending);
    }

    #[test]
    fn a_child_tells_its_parent_how_it_ended() {
        let parent = run_id(9);
        let of = |workflow: &Workflow| Story::of(workflow).child_of(parent, "child").start();
        let tell = |how: &str| format!("tell {parent} node child: {how}");
        of(&one_noop()).expect_effects([&*tell("Completed at 3")]);
        of(&workflow([fail("boom")])).expect_effects([&*tell("Failed at 3")]);
        of(&one_delay()).cancel().expect_effects(["drop delay/1/gate +3600000", &*tell("Cancelled at 3")]);
    }

    #[test]
    fn a_child_says_nothing_before_its_end() {
        Story::of(&one_task())
            .child_of(run_id(9), "child")
            .start()
            .expect_effects(["dispatch work/1"])
            .pause()
            .expect_effects([])
            .cancel()
            .expect_effects([]);
    }
}

mod parking {
    use super::*;

    #[test]
    fn a_run_parks_unless_work_is_in_flight_or_it_has_ended() {
        let parked = |story: &Story| story.run().is_parked();
        assert!(parked(&Story::of(&one_delay()).start()));
        assert!(!parked(&Story::of(&one_noop()).start()));
        let working = Story::of(&workflow([task("work"), delay("gate", hours(1))])).start();
        assert!(!parked(&working));
        assert!(parked(&working.report("work")));
    }
}

/// A run before its first event takes no command: it has nothing to cancel, pause or hear with.
mod before_the_start {
    use super::*;

    #[test]
    fn every_command_is_refused() {
        let graph = one_delay().graph();
        let mut run = Run::empty(key(), [7; 16], graph);
        let before = run.snapshot();
        let hear = Command::Hear { notice: notice(run_id(2), 1, Lifecycle::Completed), heard: None };
        let commands = [
            Command::Cancel(cancellation(None, None)),
            Command::Pause { reason: None, by: None, drain: Drain::CurrentNode },
            Command::Resume { reason: None, by: None },
            Command::Fire(TimerId::Stretch),
            hear,
        ];
        for command in commands {
            assert_eq!(run.decide(command.clone(), 5), Err(Rejection::NotStarted), "{command:?}");
            assert_eq!(run.snapshot(), before);
        }
    }
}
