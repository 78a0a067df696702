//! What a run may do at most, and who says so; what keeps one from being started.

#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{NodePhase, Rejection, Status, limits};
use serde_json::{Value, json};
use story::{Story, hours};
use workflow::{Workflow, delay, noop, task, workflow};

fn invalid(field: &str, message: &str) -> Rejection {
    Rejection::Invalid { field: field.to_owned(), message: message.to_owned() }
}

mod node_executions {
    use super::*;

    fn chain(count: usize) -> Workflow {
        let ids: Vec<String> = (0..count).map(|n| format!("n{n}")).collect();
        workflow(ids.iter().map(|id| noop(id))).flow(&ids.join(" > "))
    }

    #[test]
    fn a_run_starts_at_most_so_many_nodes() {
        let story = Story::of(&chain(5)).configurable(&json!({"recursionLimit": 3})).start();
        let history = story.history();
        assert_eq!(history.iter().filter(|line| line.starts_with("node.started")).count(), 3);
        assert_eq!(history[history.len() - 2..], ["cap.breached", "run.failed"]);
        assert_eq!(
            story.payload("cap.breached"),
            r#"{"kind":"node-executions","limit":3,"observed":4,"nodeId":"n3"}"#
        );
        story.node_is("n3", NodePhase::Pending).failed_with(
            "recursion_limit_exceeded",
            "the run executed 3 nodes, which is as many as it may, and stopped at node 'n3'",
        );
    }

    #[test]
    fn exactly_so_many_are_no_breach() {
        Story::of(&chain(3)).configurable(&json!({"recursionLimit": 3})).start().stands(Status::Completed);
    }

    #[test]
    fn skipped_nodes_do_not_count_and_iterations_do() {
        let skipping = workflow([noop("off").disabled(), noop("a"), noop("b")]).flow("off > a");
        Story::of(&skipping).configurable(&json!({"recursionLimit": 1})).start().stands(Status::Completed);
        let spinning = workflow([noop("spin").looping(100)]).flow("spin > spin");
        Story::of(&spinning).configurable(&json!({"recursionLimit": 4})).start().failed_with(
            "recursion_limit_exceeded",
            "the run executed 4 nodes, which is as many as it may, and stopped at node 'spin'",
        );
    }

    #[test]
    fn work_in_flight_is_waited_for_and_delays_are_taken_along() {
        let workflow = workflow([task("work"), delay("gate", hours(1)), noop("third")]);
        Story::of(&workflow)
            .configurable(&json!({"recursionLimit": 2}))
            .start()
            .expect([
                "run.started",
                "node.started work",
                "node.started gate",
                "cap.breached",
                "node.cancelled gate",
            ])
            .stands(Status::Running)
            .report("work")
            .expect(["node.completed work", "run.failed"]);
    }

    #[test]
    fn the_limit_is_a_whole_number_in_range() {
        for bad in [json!(0), json!(-1), json!(1.5), json!("5"), json!(limits::NODE_EXECUTIONS_MAX + 1)] {
            let refused = Story::of(&chain(1)).configurable(&json!({ "recursionLimit": bad })).refused();
            let field = "configurable.recursionLimit";
            let message = format!("'{field}' is a whole number from 1 to {}", limits::NODE_EXECUTIONS_MAX);
            assert_eq!(refused, invalid(field, &message));
        }
    }
}

mod run_timeout {
    use super::*;

    fn lasting(ms: i64) -> story::Opening {
        Story::of(&workflow([delay("gate", hours(1)), noop("next")]).flow("gate > next"))
            .configurable(&json!({ "runTimeoutMs": ms }))
    }

    #[test]
    fn a_run_that_lasts_too_long_fails() {
        let story = lasting(1_000)
            .start()
            .expect_effects(["arm run-timeout +1000", "arm delay/1/gate +3600000"])
            .after(1_500)
            .fire_timer("run-timeout")
            .expect(["cap.breached", "node.cancelled gate", "run.failed"])
            .expect_effects(["drop run-timeout +1000", "drop delay/1/gate +3600000"]);
        assert_eq!(story.payload("cap.breached"), r#"{"kind":"run-duration","limit":1000,"observed":1500}"#);
        story.failed_with("run_timeout", "the run lasted longer than the 1000 ms that it may");
    }

    #[test]
    fn it_is_never_early_and_goes_with_the_run() {
        let story = lasting(hours(2)).start();
        story
            .clone()
            .after(1)
            .fire_timer("run-timeout")
            .refused(&Rejection::NotDue { due: story::BEGIN + hours(2) });
        story
            .clone()
            .after(hours(1))
            .fire("gate")
            .expect_effects(["drop delay/1/gate +3600000", "drop run-timeout +7200000"])
            .stands(Status::Completed);
        story.cancel().expect_effects(["drop delay/1/gate +3600000", "drop run-timeout +7200000"]);
    }

    #[test]
    fn a_paused_run_does_not_age() {
        lasting(1_000)
            .start()
            .after(400)
            .pause()
            .expect_effects(["drop run-timeout +1000"])
            .after(hours(10))
            .fire_timer("run-timeout")
            .refused(&Rejection::NoSuchTimer)
            .resume()
            .expect_effects([&*format!("arm run-timeout +{}", hours(10) + 1_000)])
            .after(600)
            .fire_timer("run-timeout")
            .stands(Status::Failed);
    }

    #[test]
    fn a_second_pause_keeps_what_is_left() {
        lasting(1_000)
            .start()
            .after(400)
            .pause()
            .after(50)
            .resume()
            .after(500)
            .pause()
            .after(5_000)
            .resume()
            .expect_effects(["arm run-timeout +6050"]);
    }

    #[test]
    fn work_in_flight_is_waited_for() {
        Story::of(&workflow([task("work"), noop("next")]).flow("work > next"))
            .configurable(&json!({"runTimeoutMs": 10}))
            .start()
            .after(10)
            .fire_timer("run-timeout")
            .expect(["cap.breached"])
            .stands(Status::Running)
            .fire_timer("run-timeout")
            .refused(&Rejection::NoSuchTimer)
            .pause()
            .resume()
            .expect_effects([])
            .report("work")
            .expect(["node.completed work", "run.failed"])
            .node_is("next", NodePhase::Pending)
            .failed_with("run_timeout", "the run lasted longer than the 10 ms that it may");
    }

    #[test]
    fn a_cancellation_under_way_takes_the_timeout_away() {
        Story::of(&workflow([task("work")]))
            .configurable(&json!({"runTimeoutMs": 10}))
            .start()
            .cancel()
            .expect_effects(["drop run-timeout +10"])
            .after(50)
            .report("work")
            .stands(Status::Cancelled);
    }

    #[test]
    fn the_lesser_of_what_the_caller_and_the_definition_say_counts() {
        let written = |ms: i64| workflow([delay("gate", hours(1))]).settings("timeout", json!(ms));
        let armed = |workflow: &Workflow, asked: Option<i64>| {
            let opening = Story::of(workflow);
            let opening = match asked {
                Some(ms) => opening.configurable(&json!({ "runTimeoutMs": ms })),
                None => opening,
            };
            let story = opening.start();
            let timers = story.run().timers();
            timers.get(&abide_core::TimerId::RunTimeout).map(|due| due - story::BEGIN)
        };
        assert_eq!(armed(&written(500), None), Some(500));
        assert_eq!(armed(&written(500), Some(300)), Some(300));
        assert_eq!(armed(&written(500), Some(900)), Some(500));
        assert_eq!(armed(&workflow([delay("gate", hours(1))]), None), None);
        assert_eq!(armed(&written(0), None), None, "0 is no limit");
        assert_eq!(armed(&written(0), Some(7)), Some(7));
    }

    #[test]
    fn the_time_is_a_whole_number_in_range() {
        let large = json!(limits::RUN_TIMEOUT_MS_MAX + 1);
        for bad in
            [json!(0), json!(-1), json!(1.5), json!("soon"), json!("5"), json!(true), json!([5]), large]
        {
            let opening = Story::of(&workflow([noop("only")])).configurable(&json!({ "runTimeoutMs": bad }));
            let field = "configurable.runTimeoutMs";
            let message = format!("'{field}' is a whole number from 1 to {}", limits::RUN_TIMEOUT_MS_MAX);
            assert_eq!(opening.refused(), invalid(field, &message));
        }
    }

    #[test]
    fn a_null_counts_as_not_given() {
        let options = json!({"runTimeoutMs": null, "recursionLimit": null, "maxLoopIterations": null});
        let story = Story::of(&workflow([noop("only")])).configurable(&options).start();
        assert_eq!(story.run().caps(), abide_core::event::Caps::default());
        story.stands(Status::Completed);
    }
}

mod configurable {
    use super::*;

    fn open() -> Workflow {
        workflow([noop("only")])
    }

    fn schemed() -> Workflow {
        open().with(
            "configurableSchema",
            json!({
                "type": "object", "required": ["region"],
                "properties": {"region": {"enum": ["eu", "us"]}, "depth": {"type": "integer"}},
            }),
        )
    }

    #[test]
    fn options_are_an_object_of_a_bounded_size() {
        for other in [json!([]), json!("x"), json!(null)] {
            let refused = Story::of(&open()).configurable(&other).refused();
            assert_eq!(refused, invalid("configurable", "'configurable' must be an object"));
        }
        let large = json!({"x": "x".repeat(limits::CONFIGURABLE_BYTES_MAX)});
        let refused = Story::of(&open()).configurable(&large).refused();
        assert_eq!(refused, invalid("configurable", "'configurable' takes at most 65536 bytes"));
    }

    #[test]
    fn options_have_to_fit_the_schema_of_the_workflow() {
        let given = |options: &Value| Story::of(&schemed()).configurable(options);
        given(&json!({"region": "eu", "depth": 2, "other": 1})).start().stands(Status::Completed);
        assert_eq!(
            given(&json!({"region": "mars", "depth": "deep"})).refused(),
            invalid(
                "configurable",
                "'configurable' does not fit workflow 'story': /depth: \"deep\" is not of type \"integer\"; \
                 /region: \"mars\" is not one of \"eu\" or \"us\""
            )
        );
    }

    #[test]
    fn a_run_without_options_is_held_to_the_schema_too() {
        assert_eq!(
            Story::of(&schemed()).refused(),
            invalid(
                "configurable",
                "'configurable' does not fit workflow 'story': \"region\" is a required property"
            )
        );
    }

    #[test]
    fn expressions_read_the_options() {
        let echo = workflow::identity("echo").input("region", workflow::expression("configurable.region"));
        Story::of(&workflow([echo]))
            .configurable(&json!({"region": "eu"}))
            .start()
            .outputs("echo", Some(r#"{"region":"eu"}"#));
    }

    #[test]
    fn options_are_kept_with_the_run() {
        let story = Story::of(&open()).configurable(&json!({"recursionLimit": 9, "mine": [1]})).start();
        let kept = story.run().configurable().map(abide_core::Json::text);
        assert_eq!(kept, Some(r#"{"mine":[1],"recursionLimit":9}"#));
        assert_eq!(story.run().caps().node_executions, Some(9));
    }
}

mod inactive {
    use super::*;

    #[test]
    fn a_definition_that_is_switched_off_starts_no_runs() {
        let refusal = invalid("workflowId", "workflow 'story' is not active; set isActive and status in it");
        let only = || workflow([noop("only")]);
        for off in [
            only().with("isActive", json!(false)),
            only().with("status", json!("inactive")),
            only().with("status", json!("draft")),
            only().with("status", json!("archived")),
            only().with("status", json!("active")).with("isActive", json!(false)),
        ] {
            assert_eq!(Story::of(&off).refused(), refusal);
        }
        Story::of(&only().with("status", json!("active"))).start().stands(Status::Completed);
        Story::of(&only().with("isActive", json!(true))).start().stands(Status::Completed);
    }
}
