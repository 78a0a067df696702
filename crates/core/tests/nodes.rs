//! What the kinds of nodes do, where their inputs come from, and in which order they run.

#[expect(dead_code, reason = "commands.rs tells the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "commands.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{
    Failure, Graph, Kind, Millis, NodePhase, Performance, Product, Record, Rejection, Status, TaskId, limits,
};
use serde_json::{Value, json};
use story::{BEGIN, Story, hours, type_name};
use workflow::{
    Sketch, Workflow, delay, fail, fixed, identity, noop, of_kind, output, task, variable, workflow,
};

mod order {
    use super::*;

    #[test]
    fn a_run_fans_out_and_in() {
        let story = Story::of(
            &workflow([noop("split"), delay("left", 10), delay("right", 20), noop("join")])
                .flow("split > left > join")
                .flow("split > right > join"),
        )
        .start()
        .expect([
            "run.started",
            "node.started split",
            "node.completed split",
            "node.started left",
            "node.started right",
        ])
        .expect_effects(["arm delay/1/left +10", "arm delay/1/right +20"])
        .after(20)
        .fire("right")
        .expect(["node.completed right"])
        .fire("left")
        .expect(["node.completed left", "node.started join", "node.completed join", "run.completed"]);
        let causes: Vec<Option<u64>> = story.journal().iter().map(|record| record.cause).collect();
        let split_done = Some(2);
        let left_done = Some(6);
        assert_eq!(
            causes,
            [None, Some(0), Some(1), split_done, split_done, None, None, left_done, Some(7), Some(8)],
            "a node's start names the event that made it ready"
        );
    }

    #[test]
    fn ready_nodes_start_in_the_order_they_became_ready() {
        Story::of(
            &workflow([noop("z"), noop("a"), noop("deep"), noop("shallow")])
                .flow("a > shallow")
                .flow("z > deep"),
        )
        .start()
        .expect([
            "run.started",
            "node.started z",
            "node.completed z",
            "node.started a",
            "node.completed a",
            "node.started deep",
            "node.completed deep",
            "node.started shallow",
            "node.completed shallow",
            "run.completed",
        ]);
    }

    #[test]
    fn two_edges_between_the_same_nodes_are_one_wait() {
        Story::of(&workflow([noop("a"), noop("b")]).flow("a > b").flow("a > b")).start().expect([
            "run.started",
            "node.started a",
            "node.completed a",
            "node.started b",
            "node.completed b",
            "run.completed",
        ]);
    }
}

mod core_identity {
    use super::*;

    #[test]
    fn it_gives_its_inputs_back() {
        let echo = identity("echo").input("word", fixed(&json!("hi"))).input("who", variable("who"));
        Story::of(&workflow([echo]).variable("who", "object"))
            .input("who", &json!({"name": "Ann"}))
            .start()
            .outputs("echo", Some(r#"{"who":{"name":"Ann"},"word":"hi"}"#))
            .stands(Status::Completed);
    }

    #[test]
    fn without_inputs_it_gives_an_empty_object() {
        Story::of(&workflow([identity("echo")])).start().outputs("echo", Some("{}"));
    }

    #[test]
    fn a_noop_gives_nothing() {
        Story::of(&workflow([noop("quiet").input("x", fixed(&json!(1)))]))
            .start()
            .outputs("quiet", None)
            .stands(Status::Completed);
    }

    #[test]
    fn its_outputs_flow_along_a_connection() {
        let first = identity("first").input("x", fixed(&json!([1, 2])));
        let second = identity("second").input("y", output("first", "x"));
        Story::of(&workflow([first, second]).flow("first > second"))
            .start()
            .outputs("second", Some(r#"{"y":[1,2]}"#));
    }
}

mod inputs {
    use super::*;

    fn fails(node: Sketch, message: &str) {
        let id = "echo";
        Story::of(&workflow([noop("before"), node]).flow("before > echo"))
            .start()
            .node_is(id, NodePhase::Failed)
            .failed_with("input_missing", message);
    }

    #[test]
    fn a_variable_that_is_not_set_fails_the_node() {
        fails(
            identity("echo").input("x", variable("v")),
            "input 'x' of node 'echo' needs variable 'v', which is not set",
        );
    }

    #[test]
    fn inputs_that_repeat_a_large_value_fail_the_node() {
        let large = json!("x".repeat(limits::NODE_INPUT_BYTES_MAX / 4));
        let echo = |ports: usize| {
            (0..ports).fold(identity("echo"), |node, ix| node.input(&format!("x{ix}"), variable("v")))
        };
        let run =
            |ports| Story::of(&workflow([echo(ports)]).variable("v", "string")).input("v", &large).start();
        run(3).node_is("echo", NodePhase::Completed);
        let failed = run(4).node_is("echo", NodePhase::Failed);
        assert_eq!(failed.run().error().map(|error| error.code.as_str()), Some("input_too_large"));
    }

    #[test]
    fn a_fixed_value_is_given_as_it_was_written() {
        let text = workflow([identity("echo").input("x", fixed(&json!("HERE")))]).text();
        let exact = text.replace(r#""HERE""#, r#"{"b":12345678901234567890123,"a":1.50}"#);
        let graph = Graph::admit(exact.as_bytes()).expect("the definition is sound");
        Story::following(graph.into())
            .start()
            .outputs("echo", Some(r#"{"x":{"b":12345678901234567890123,"a":1.50}}"#));
    }

    #[test]
    fn an_output_that_is_not_there_fails_the_node() {
        fails(
            identity("echo").input("x", output("before", "k")),
            "input 'x' of node 'echo' needs output 'k' of node 'before', which is not set",
        );
    }

    #[test]
    fn a_durable_node_without_its_input_fails_and_is_never_dispatched() {
        for kind in [noop("work"), identity("work"), fail("work")] {
            Story::of(&workflow([kind.durable().input("x", variable("v"))]))
                .start()
                .expect(["run.started", "node.started work", "node.failed work", "run.failed"])
                .expect_effects([])
                .failed_with(
                    "input_missing",
                    "input 'x' of node 'work' needs variable 'v', which is not set",
                );
        }
    }

    #[test]
    fn a_durable_node_without_its_input_does_not_end_the_tasks_of_others() {
        let missing = noop("bad").durable().input("x", variable("v"));
        Story::of(&workflow([task("work"), missing]))
            .start()
            .expect_effects(["dispatch work/1"])
            .stands(Status::Running)
            .report("work")
            .expect_effects(["finish work/1"])
            .stands(Status::Failed);
    }

    #[test]
    fn an_optional_input_is_left_out() {
        let echo = identity("echo")
            .input("a", variable("v").optional())
            .input("b", output("before", "k").optional())
            .input("c", fixed(&json!(null)));
        Story::of(&workflow([noop("before"), echo]).flow("before > echo"))
            .start()
            .outputs("echo", Some(r#"{"c":null}"#))
            .stands(Status::Completed);
    }

    #[test]
    fn outputs_that_are_no_object_have_no_keys() {
        let echo = identity("echo").input("x", output("work", "0"));
        Story::of(&workflow([task("work"), echo]).flow("work > echo"))
            .start()
            .report_of("work", 1, Ok(Some(story::json(&json!(["zero"])))))
            .failed_with(
                "input_missing",
                "input 'x' of node 'echo' needs output '0' of node 'work', which is not set",
            );
    }

    #[test]
    fn deep_values_are_carried_and_never_walked() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let value: abide_core::Json = serde_json::from_str(&deep).unwrap();
        let first = identity("first").input("x", output("work", "x"));
        let work = task("work");
        let outputs = abide_core::Json::of(&abide_core::JsonMap::from([("x".to_owned(), value)]));
        let story = Story::of(&workflow([work, first, task("last")]).flow("work > first > last"))
            .start()
            .report_of("work", 1, Ok(Some(outputs.clone())))
            .outputs("first", Some(outputs.text()));
        let graph = story.run().graph().clone();
        let woken = abide_core::Run::from_snapshot(story::key(), story::SALT, graph, &story.run().snapshot());
        assert_eq!(woken.expect("it is readable").snapshot(), story.run().snapshot());
    }
}

mod core_delay {
    use super::*;

    fn bare() -> Sketch {
        of_kind("gate", "core.delay")
    }

    #[track_caller]
    fn waits(gate: Sketch, ms: Millis) {
        let story = Story::of(&workflow([gate]).variable("ms", "number").or(json!(7)))
            .start()
            .expect(["run.started", "node.started gate"])
            .expect_effects([&*format!("arm delay/1/gate +{ms}")])
            .node_is("gate", NodePhase::Waiting);
        assert_eq!(story.node("gate").until, Some(BEGIN + ms));
    }

    #[track_caller]
    fn is_invalid(gate: Sketch, got: &str) {
        let message = format!(
            "node 'gate' needs a whole number of milliseconds from 0 to 316224000000 in inputs.delayMs, \
             config.ms or config.durationMs; it got {got}"
        );
        Story::of(&workflow([gate]))
            .start()
            .expect(["run.started", "node.started gate", "node.failed gate", "run.failed"])
            .expect_effects([])
            .failed_with("invalid_delay", &message);
    }

    #[test]
    fn its_time_comes_from_three_places_in_this_order() {
        let everywhere =
            bare().input("delayMs", variable("ms")).config("ms", json!(8)).config("durationMs", json!(9));
        waits(everywhere, 7);
        waits(bare().input("delayMs", fixed(&json!(6))), 6);
        waits(bare().config("ms", json!(8)).config("durationMs", json!(9)), 8);
        waits(bare().config("durationMs", json!(9)), 9);
        let absent = bare().input("delayMs", variable("absent").optional());
        waits(absent.config("ms", json!(8)), 8);
    }

    #[test]
    fn whole_numbers_may_be_written_in_any_way() {
        waits(bare().config("ms", json!(0)), 0);
        waits(bare().config("ms", json!(1000.0)), 1000);
        waits(bare().config("ms", json!(1e3)), 1000);
        waits(bare().config("ms", json!(limits::DELAY_MS_MAX)), limits::DELAY_MS_MAX);
    }

    #[test]
    fn anything_else_fails_the_node() {
        for (bad, shown) in [
            (json!(-1), "-1"),
            (json!(0.5), "0.5"),
            (json!("1000"), r#""1000""#),
            (json!(null), "null"),
            (json!([5]), "[5]"),
            (json!(limits::DELAY_MS_MAX + 1), "316224000001"),
        ] {
            is_invalid(bare().config("ms", bad.clone()), shown);
            is_invalid(bare().config("durationMs", bad.clone()), shown);
            is_invalid(bare().input("delayMs", fixed(&bad)).config("ms", json!(5)), shown);
        }
        is_invalid(bare(), "nothing");
    }

    #[test]
    fn a_durable_delay_waits_like_any_other() {
        waits(delay("gate", 5).durable(), 5);
        is_invalid(bare().durable(), "nothing");
    }

    #[test]
    fn a_delay_gives_no_outputs() {
        Story::of(&workflow([delay("gate", 0)]))
            .start()
            .fire("gate")
            .outputs("gate", None)
            .stands(Status::Completed);
    }
}

mod failures {
    use super::*;

    #[test]
    fn a_failing_node_says_what_its_config_says() {
        let boom = fail("boom").config("message", json!("no luck"));
        let story = Story::of(&workflow([boom]))
            .start()
            .expect(["run.started", "node.started boom", "node.failed boom", "run.failed"])
            .failed_with("node_execution_failed", "no luck");
        assert!(story.payload("run.failed").contains(r#""failedNodeId":"boom""#));
        for other in [None, Some(json!(5))] {
            let boom =
                other.into_iter().fold(fail("boom"), |boom, message: Value| boom.config("message", message));
            Story::of(&workflow([boom]))
                .start()
                .failed_with("node_execution_failed", "node 'boom' is of kind core.fail");
        }
    }

    #[test]
    fn a_kind_that_nothing_provides_fails_when_its_turn_comes() {
        for mail in [of_kind("mail", "acme.mail"), of_kind("mail", "acme.mail").durable()] {
            Story::of(&workflow([delay("gate", 1), mail]).flow("gate > mail"))
                .start()
                .stands(Status::Running)
                .after(1)
                .fire("gate")
                .expect(["node.completed gate", "node.started mail", "node.failed mail", "run.failed"])
                .failed_with(
                    "capability_not_provided",
                    "node 'mail' is of kind acme.mail, which neither this server nor any worker provides; check the spelling, or start a worker for it",
                );
        }
    }

    #[test]
    fn a_failing_branch_takes_waiting_delays_along() {
        Story::of(
            &workflow([delay("long", hours(2)), delay("soon", 1), fail("boom"), noop("after")])
                .flow("soon > boom > after"),
        )
        .start()
        .after(1)
        .fire("soon")
        .expect([
            "node.completed soon",
            "node.started boom",
            "node.failed boom",
            "node.cancelled long",
            "run.failed",
        ])
        .expect_effects(["drop delay/1/soon +1", "drop delay/1/long +7200000"])
        .node_is("long", NodePhase::Cancelled)
        .node_is("after", NodePhase::Pending);
    }

    #[test]
    fn nodes_that_were_ready_behind_a_failure_do_not_start() {
        Story::of(&workflow([fail("boom"), noop("next")]))
            .start()
            .expect(["run.started", "node.started boom", "node.failed boom", "run.failed"])
            .node_is("next", NodePhase::Pending);
    }
}

mod tasks {
    use super::*;

    #[test]
    fn a_durable_node_is_dispatched_and_waited_for() {
        let echo = identity("echo").durable().input("x", fixed(&json!(1)));
        let story = Story::of(&workflow([echo, noop("next")]).flow("echo > next"))
            .start()
            .expect(["run.started", "node.started echo"])
            .expect_effects(["dispatch echo/1"])
            .node_is("echo", NodePhase::Running);
        assert_eq!(story.payload("node.started"), STARTED);
        let id = TaskId { node: "echo".into(), execution: 1 };
        assert!(story.run().tasks().eq([id.clone()]));
        let story = story.perform("echo").expect([
            "node.completed echo",
            "node.started next",
            "node.completed next",
            "run.completed",
        ]);
        assert_eq!(story.run().perform_task(&id), None, "it is over");
        story.outputs("echo", Some(r#"{"x":1}"#));
    }

    const STARTED: &str = r#"{"typeId":"core.identity","execution":1,"dispatched":true,"inputs":{"x":1}}"#;

    #[test]
    fn a_task_is_performed_as_the_pure_node_would_be() {
        let boom = fail("boom").durable().config("message", json!("no luck"));
        let story = Story::of(&workflow([boom, task("quiet")])).start();
        let perform = |node: &str, execution| {
            let node = node.into();
            story.run().perform_task(&TaskId { node, execution })
        };
        let failure = Failure::new("node_execution_failed", "no luck");
        assert_eq!(perform("boom", 1), Some(Performance::Done(Err(failure))));
        assert_eq!(perform("quiet", 1), Some(Performance::Done(Ok(Product::default()))));
        assert_eq!(perform("quiet", 2), None, "of another execution");
        assert_eq!(perform("nobody", 1), None);
    }

    #[test]
    fn kinds_are_told_by_their_names() {
        let graph =
            workflow([noop("a"), identity("b"), delay("c", 1), fail("d"), of_kind("e", "x.y")]).graph();
        let kinds: Vec<Kind> = (0..5).map(|ix| graph.describe(ix).2).collect();
        use Kind::{Delay, Fail, Identity, Noop, Unknown};
        assert_eq!(kinds, [Noop, Identity, Delay, Fail, Unknown]);
    }
}

mod stretches {
    use super::*;

    /// Many no-ops that may all start at once.
    fn crowd(count: usize) -> Vec<Sketch> {
        (0..count).map(|n| noop(&format!("n{n}"))).collect()
    }

    fn chain(count: usize) -> Workflow {
        let ids: Vec<String> = (0..count).map(|n| format!("n{n}")).collect();
        workflow(crowd(count)).flow(&ids.join(" > "))
    }

    fn starts(records: &[Record]) -> usize {
        let starts = records.iter().filter(|record| type_name(record) == "node.started");
        starts.count()
    }

    #[test]
    fn a_long_stretch_yields_and_goes_on_when_its_timer_fires() {
        for workflow in [workflow(crowd(2_000)), chain(2_000)] {
            let mut story = Story::of(&workflow).start();
            let mut started = vec![starts(&story.step().records)];
            while story.run().status() == Status::Running {
                let last = story.step().records.last().expect("a step has records");
                assert_eq!(type_name(last), "run.yielded");
                assert_eq!(story.run().timers().len(), 1, "one timer, however often it yields");
                story = story.fire_timer("stretch");
                started.push(starts(&story.step().records));
            }
            let max = limits::STRETCH_NODES_MAX;
            assert_eq!(started, [max, max, max, 2_000 - 3 * max]);
            story
                .stands(Status::Completed)
                .fire_timer("stretch")
                .refused(&Rejection::Ended(abide_core::Lifecycle::Completed));
        }
    }

    #[test]
    fn a_stretch_of_exactly_the_limit_does_not_yield() {
        Story::of(&workflow(crowd(limits::STRETCH_NODES_MAX))).start().stands(Status::Completed);
        Story::of(&workflow(crowd(limits::STRETCH_NODES_MAX + 1)))
            .start()
            .stands(Status::Running)
            .expect_effects(["arm stretch +0"])
            .fire_timer("stretch")
            .expect(["node.started n512", "node.completed n512", "run.completed"])
            .expect_effects(["drop stretch +0"]);
    }

    #[test]
    fn a_pause_takes_the_stretch_timer_away_and_a_resume_goes_on() {
        Story::of(&workflow(crowd(600)))
            .start()
            .pause()
            .expect_effects(["drop stretch +0"])
            .fire_timer("stretch")
            .refused(&Rejection::NoSuchTimer)
            .resume()
            .stands(Status::Completed);
    }

    #[test]
    fn a_cancellation_takes_the_stretch_timer_away() {
        Story::of(&workflow(crowd(600)))
            .start()
            .cancel()
            .expect(["run.cancelled"])
            .expect_effects(["drop stretch +0"]);
        let mut nodes = vec![task("work")];
        nodes.extend(crowd(600));
        Story::of(&workflow(nodes))
            .start()
            .cancel()
            .expect(["run.cancelling"])
            .expect_effects(["drop stretch +0"])
            .fire_timer("stretch")
            .refused(&Rejection::NoSuchTimer);
    }

    #[test]
    fn a_failure_takes_the_stretch_timer_away_though_other_tasks_are_in_flight() {
        let mut nodes = vec![task("bad"), task("good")];
        nodes.extend(crowd(600));
        Story::of(&workflow(nodes))
            .start()
            .report_failure("bad", "broken")
            .expect(["node.failed bad"])
            .expect_effects(["finish bad/1", "drop stretch +0"])
            .fire_timer("stretch")
            .refused(&Rejection::NoSuchTimer)
            .report("good")
            .expect(["node.completed good", "run.failed"]);
    }

    #[test]
    fn another_command_may_carry_the_stretch_on() {
        let mut nodes = vec![task("work")];
        nodes.extend(crowd(600));
        let story = Story::of(&workflow(nodes)).start().after(5).report("work");
        assert_eq!(starts(&story.step().records), 601 - limits::STRETCH_NODES_MAX);
        story.expect_effects(["finish work/1", "drop stretch +0"]).stands(Status::Completed);
    }
}
