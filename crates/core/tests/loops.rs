//! Loops: how they start over, when they are over, what is seen of the iteration before, and what stops them.

#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{Json, NodePhase, Status};
use serde_json::json;
use story::Story;
use workflow::{
    Sketch, Workflow, delay, expression, fail, identity, noop, of_kind, task, transform, workflow,
};

/// A node that counts its executions in a variable and as its output `n`.
fn counter(id: &str, variable: &str) -> Sketch {
    let next = format!("variables.{variable} + 1");
    transform(id).config("assign", json!({variable: next})).config("outputs", json!({"n": next}))
}

/// `before > count > check`, and back to `count` until it has counted to `target`; then `after`.
fn counting(target: u32, most: u32) -> Workflow {
    workflow([noop("before"), counter("count", "i"), noop("check").looping(most), noop("after")])
        .variable("i", "number")
        .or(json!(0))
        .flow("before > count > check > count")
        .when(&format!("variables.i < {target}"))
        .flow("check > after")
}

fn executions(story: &Story, id: &str) -> usize {
    let started = format!("node.started {id}");
    story.history().iter().filter(|line| **line == started).count()
}

mod going_back {
    use super::*;

    #[test]
    fn a_loop_starts_over_until_its_condition_no_longer_holds() {
        let story = Story::of(&counting(3, 10)).start().stands(Status::Completed);
        assert_eq!(executions(&story, "count"), 3);
        assert_eq!(executions(&story, "before"), 1);
        assert_eq!(executions(&story, "after"), 1);
        assert_eq!(story.variable("i"), Some("3"));
        assert_eq!(story.node("count").execution, 3, "executions count up");
        assert_eq!(story.payload("loop.restarted"), r#"{"node":"count","iteration":2}"#);
    }

    #[test]
    fn the_events_of_one_more_iteration() {
        Story::of(&counting(2, 10)).start().expect([
            "run.started",
            "node.started before",
            "node.completed before",
            "node.started count",
            "variable.changed",
            "node.completed count",
            "node.started check",
            "node.completed check",
            "loop.restarted",
            "node.started count",
            "variable.changed",
            "node.completed count",
            "node.started check",
            "node.completed check",
            "node.started after",
            "node.completed after",
            "run.completed",
        ]);
    }

    #[test]
    fn a_node_may_go_back_to_itself() {
        let workflow = workflow([counter("count", "i").looping(10), noop("after")])
            .variable("i", "number")
            .or(json!(0))
            .flow("count > count")
            .when("output.n < 4")
            .flow("count > after");
        let story =
            Story::of(&workflow).start().stands(Status::Completed).outputs("count", Some(r#"{"n":4}"#));
        assert_eq!(executions(&story, "after"), 1);
    }

    #[test]
    fn outputs_of_the_iteration_before_are_seen() {
        let sum = identity("sum")
            .input("total", expression("nodes.sum.outputs == null ? 1 : nodes.sum.outputs.total * 2"));
        let workflow = workflow([sum.looping(9)]).flow("sum > sum").when("output.total < 16");
        Story::of(&workflow).start().outputs("sum", Some(r#"{"total":16}"#)).stands(Status::Completed);
    }

    #[test]
    fn a_value_carried_back_arrives_in_the_next_iteration() {
        let workflow = workflow([identity("head"), counter("tail", "i").looping(5)])
            .variable("i", "number")
            .or(json!(0))
            .flow("head > tail > head")
            .edge("sourceOutput", json!("n"))
            .edge("targetInput", json!("last"))
            .when("output.n < 3");
        Story::of(&workflow).start().outputs("head", Some(r#"{"last":2}"#)).stands(Status::Completed);
    }

    #[test]
    fn a_delay_in_a_loop_has_a_timer_per_execution() {
        let workflow = workflow([delay("wait", 10), counter("count", "i").looping(5)])
            .variable("i", "number")
            .or(json!(0))
            .flow("wait > count > wait")
            .when("output.n < 2");
        Story::of(&workflow)
            .start()
            .expect_effects(["arm delay/1/wait +10"])
            .after(10)
            .fire_timer("delay/1/wait")
            .expect_effects(["drop delay/1/wait +10", "arm delay/2/wait +20"])
            .after(10)
            .fire_timer("delay/2/wait")
            .stands(Status::Completed);
    }

    #[test]
    fn a_gate_may_close_a_loop_that_nobody_declared() {
        let gate = of_kind("gate", "core.approvalGate");
        let workflow = workflow([noop("work"), gate]).flow("work > gate > work");
        assert_eq!(workflow.graph().len(), 2);
    }
}

mod parallel_members {
    use super::*;

    fn pair() -> Workflow {
        workflow([noop("head").looping(5), task("one"), task("two"), noop("after")])
            .flow("head > one")
            .flow("head > two")
            .flow("one > head")
            .when("output.again == true")
            .flow("one > after")
            .flow("two > after")
    }

    fn again(yes: bool) -> Option<Json> {
        Some(Json::of(&json!({ "again": yes })))
    }

    #[test]
    fn a_loop_starts_over_once_all_its_members_are_settled() {
        let closed = pair().flow("two > head").when("false");
        Story::of(&closed)
            .start()
            .report_of("one", 1, Ok(again(true)))
            .expect(["node.completed one"])
            .node_is("after", NodePhase::Pending)
            .report("two")
            .expect([
                "node.completed two",
                "loop.restarted",
                "node.started head",
                "node.completed head",
                "node.started one",
                "node.started two",
            ])
            .expect_effects(["finish two/1", "dispatch one/2", "dispatch two/2"])
            .report_of("two", 2, Ok(None))
            .report_of("one", 2, Ok(again(false)))
            .expect(["node.completed one", "node.started after", "node.completed after", "run.completed"]);
    }

    #[test]
    fn one_edge_back_is_enough() {
        let both = pair().flow("two > head").when("true");
        Story::of(&both)
            .start()
            .report_of("one", 1, Ok(again(false)))
            .report("two")
            .node_is("one", NodePhase::Running)
            .node_is("after", NodePhase::Pending);
    }

    #[test]
    fn a_node_on_no_cycle_is_not_part_of_the_loop() {
        // `two` does not lead back to the head, so nothing waits for it but what comes after.
        Story::of(&pair())
            .start()
            .report_of("one", 1, Ok(again(false)))
            .stands(Status::Running)
            .report("two")
            .stands(Status::Completed);
    }

    #[test]
    fn a_node_that_only_leaves_the_loop_waits_until_the_loop_is_over() {
        Story::of(&pair())
            .start()
            .expect(["run.started", "node.started head", "node.completed head", "node.started one"])
            .node_is("two", NodePhase::Pending)
            .report_of("one", 1, Ok(again(false)))
            .expect(["node.completed one", "node.started two"]);
    }
}

mod leaving {
    use super::*;

    #[test]
    fn an_edge_that_leaves_is_followed_with_the_outcome_of_the_last_iteration() {
        let workflow = workflow([counter("count", "i").looping(5), noop("odd"), noop("even")])
            .variable("i", "number")
            .or(json!(0))
            .flow("count > count")
            .when("output.n < 2")
            .flow("count > odd")
            .when("output.n == 1")
            .flow("count > even")
            .when("output.n == 2");
        Story::of(&workflow)
            .start()
            .node_is("odd", NodePhase::Skipped)
            .node_is("even", NodePhase::Completed)
            .stands(Status::Completed);
    }

    #[test]
    fn nothing_outside_starts_while_the_loop_goes_on() {
        let workflow = workflow([task("work").looping(5), noop("after")])
            .flow("work > work")
            .when("output.more")
            .flow("work > after");
        Story::of(&workflow)
            .start()
            .report_of("work", 1, Ok(Some(Json::of(&json!({"more": true})))))
            .expect(["node.completed work", "loop.restarted", "node.started work"])
            .node_is("after", NodePhase::Pending)
            .report_of("work", 2, Ok(Some(Json::of(&json!({"more": false})))))
            .expect(["node.completed work", "node.started after", "node.completed after", "run.completed"]);
    }

    #[test]
    fn a_loop_that_is_never_entered_is_skipped_whole() {
        let workflow =
            workflow([noop("off").disabled(), noop("head").looping(3), noop("tail"), noop("after")])
                .flow("off > head > tail > head")
                .flow("tail > after");
        Story::of(&workflow).start().node_is("after", NodePhase::Skipped).stands(Status::Completed).expect([
            "run.started",
            "node.skipped off",
            "node.skipped head",
            "node.skipped tail",
            "node.skipped after",
            "run.completed",
        ]);
    }

    #[test]
    fn members_that_were_skipped_once_may_run_the_next_time() {
        let workflow = workflow([counter("count", "i").looping(5), noop("even"), noop("join")])
            .variable("i", "number")
            .or(json!(0))
            .flow("count > even")
            .when("output.n == 2")
            .under("none_failed", "count > join")
            .under("none_failed", "even > join")
            .flow("join > count")
            .when("variables.i < 2");
        let story = Story::of(&workflow).start().stands(Status::Completed);
        assert_eq!(executions(&story, "even"), 1);
        assert_eq!(executions(&story, "join"), 2);
        story.node_is("even", NodePhase::Completed);
    }
}

mod nested {
    use super::*;

    /// The inner loop counts `i` up to 2, the outer one does so three times.
    fn nested() -> Workflow {
        let reset = counter("outer", "o").config("assign", json!({"o": "variables.o + 1", "i": "0"}));
        workflow([reset.looping(5), counter("inner", "i").looping(5), noop("tail"), noop("after")])
            .variable("i", "number")
            .or(json!(0))
            .variable("o", "number")
            .or(json!(0))
            .flow("outer > inner > inner")
            .when("output.n < 2")
            .flow("inner > tail > outer")
            .when("variables.o < 3")
            .flow("tail > after")
    }

    #[test]
    fn an_inner_loop_starts_afresh_in_every_iteration_of_the_outer_one() {
        let story = Story::of(&nested()).start().stands(Status::Completed);
        assert_eq!(executions(&story, "outer"), 3);
        assert_eq!(executions(&story, "inner"), 6);
        assert_eq!(executions(&story, "tail"), 3, "the tail waits until the inner loop is over");
        assert_eq!(executions(&story, "after"), 1);
    }

    #[test]
    fn each_loop_has_a_limit_of_its_own() {
        let workflow = workflow([noop("outer").looping(3), counter("inner", "i").looping(1), noop("tail")])
            .variable("i", "number")
            .or(json!(0))
            .flow("outer > inner > inner")
            .when("output.n % 2 == 1")
            .flow("inner > tail > outer")
            .when("variables.i < 8");
        let story = Story::of(&workflow).start().stands(Status::Completed);
        assert_eq!(executions(&story, "inner"), 8, "one time back in each of four iterations");
    }

    #[test]
    fn an_edge_from_the_inner_loop_to_the_outer_head_counts_only_in_the_last_inner_iteration() {
        // `inner` asks for the outer loop in its first iteration, and takes it back in its second.
        let workflow = workflow([noop("outer").looping(1), counter("inner", "i").looping(1), noop("after")])
            .variable("i", "number")
            .or(json!(0))
            .flow("outer > inner > inner")
            .when("output.n == 1")
            .flow("inner > outer")
            .when("output.n == 1")
            .flow("inner > after");
        let story = Story::of(&workflow).start().stands(Status::Completed);
        assert_eq!(executions(&story, "outer"), 1);
        assert_eq!(executions(&story, "inner"), 2);
    }

    #[test]
    fn an_edge_that_leaves_both_loops_waits_for_the_outer_one() {
        let workflow = nested().flow("inner > after").edge("triggerRule", json!("any_success"));
        let story = Story::of(&workflow).start().stands(Status::Completed);
        let history = story.history();
        let after = history.iter().position(|line| line == "node.started after").expect("it ran");
        let last = history.iter().rposition(|line| line == "node.completed tail").expect("it ran");
        assert!(after > last);
    }
}

mod failures {
    use super::*;

    /// `try` fails in its first execution; whether it does so again is up to the report.
    fn trying() -> Workflow {
        workflow([task("try").looping(5), noop("mend"), noop("after")])
            .under("any_failed", "try > mend")
            .under("all_success", "mend > try")
            .flow("try > after")
    }

    #[test]
    fn a_failed_member_that_is_taken_over_may_be_tried_again() {
        Story::of(&trying())
            .start()
            .report_failure("try", "not yet")
            .expect([
                "node.failed try",
                "node.started mend",
                "node.completed mend",
                "loop.restarted",
                "node.started try",
            ])
            .report_of("try", 2, Ok(None))
            .expect([
                "node.completed try",
                "node.skipped mend",
                "node.started after",
                "node.completed after",
                "run.completed",
            ])
            .stands(Status::Completed);
    }

    #[test]
    fn an_edge_back_may_take_over_by_itself() {
        let workflow = workflow([task("try").looping(2)]).under("any_failed", "try > try");
        Story::of(&workflow)
            .start()
            .report_failure("try", "not yet")
            .expect(["node.failed try", "loop.restarted", "node.started try"])
            .report_of("try", 2, Ok(None))
            .stands(Status::Completed);
    }

    #[test]
    fn an_edge_back_under_a_rule_that_needs_success_takes_nothing_over() {
        for rule in ["all_success", "any_success", "none_failed"] {
            let workflow = workflow([task("try").looping(2)]).under(rule, "try > try");
            Story::of(&workflow)
                .start()
                .report_failure("try", "no")
                .failed_with("node_execution_failed", "no");
        }
    }

    #[test]
    fn an_edge_back_under_all_complete_goes_back_in_any_case() {
        let workflow = workflow([task("try").looping(2)]).under("all_complete", "try > try");
        let again = ["node.failed try", "loop.restarted", "node.started try"];
        Story::of(&workflow)
            .start()
            .report_failure("try", "no")
            .expect(again)
            .report_of("try", 2, Ok(None))
            .expect(["node.completed try", "loop.restarted", "node.started try"]);
    }

    #[test]
    fn a_handler_outside_runs_once_the_loop_is_over() {
        let workflow = workflow([task("head"), noop("tail").looping(2), noop("handler"), noop("after")])
            .flow("head > tail > head")
            .when("false")
            .under("any_failed", "head > handler")
            .flow("tail > after");
        Story::of(&workflow)
            .start()
            .report_failure("head", "broken")
            .expect([
                "node.failed head",
                "node.skipped tail",
                "node.skipped after",
                "node.started handler",
                "node.completed handler",
                "run.completed",
            ])
            .stands(Status::Completed);
    }

    #[test]
    fn a_handler_outside_that_can_not_run_after_all_leaves_the_failure_to_the_run() {
        let workflow =
            workflow([task("head"), noop("tail").looping(2), noop("off").disabled(), noop("handler")])
                .flow("head > tail > head")
                .when("false")
                .under("all_complete", "head > handler")
                .under("all_success", "off > handler");
        Story::of(&workflow)
            .start()
            .report_failure("head", "broken")
            .expect(["node.failed head", "node.skipped tail", "run.failed"])
            .failed_with("node_execution_failed", "broken");
    }

    #[test]
    fn a_failing_member_that_nobody_takes_over_fails_the_run() {
        let workflow = workflow([noop("head").looping(2), fail("boom")]).flow("head > boom > head");
        Story::of(&workflow)
            .start()
            .expect([
                "run.started",
                "node.started head",
                "node.completed head",
                "node.started boom",
                "node.failed boom",
                "run.failed",
            ])
            .failed_with("node_execution_failed", "node 'boom' is of kind core.fail");
    }
}

mod limits {
    use super::*;

    fn endless(node: Sketch) -> Workflow {
        workflow([node]).flow("spin > spin")
    }

    /// How often the loop ran before it was stopped.
    fn ran(story: &Story) -> usize {
        let history = story.history();
        let end: Vec<&str> = history.iter().rev().take(3).map(String::as_str).collect();
        assert_eq!(end, ["run.failed", "cap.breached", "workflow.loopback-limit"]);
        executions(story, "spin")
    }

    #[test]
    fn a_loop_goes_back_as_often_as_it_declares() {
        let story = Story::of(&endless(noop("spin").looping(3))).start().failed_with(
            "loop_limit_exceeded",
            "the loop at node 'spin' went back 3 times, which is as often as it may",
        );
        assert_eq!(ran(&story), 4);
        assert_eq!(story.payload("workflow.loopback-limit"), r#"{"nodeId":"spin","iterations":3}"#);
        assert_eq!(
            story.payload("cap.breached"),
            r#"{"kind":"loop-iterations","limit":3,"observed":4,"nodeId":"spin"}"#
        );
    }

    #[test]
    fn exactly_as_often_as_it_declares_is_no_breach() {
        Story::of(&counting(4, 3)).start().stands(Status::Completed);
        Story::of(&counting(5, 3)).start().stands(Status::Failed);
    }

    #[test]
    fn a_loop_that_declares_no_number_goes_back_five_times() {
        let declared = noop("spin").setting("loop", json!({}));
        assert_eq!(ran(&Story::of(&endless(declared)).start()), 6);
    }

    #[test]
    fn the_definition_may_say_it_for_gates() {
        // The gate's kind is provided by nobody, so it fails and is taken over from.
        let gate =
            || workflow([of_kind("spin", "core.chat.approvalGate")]).under("any_failed", "spin > spin");
        assert_eq!(ran(&Story::of(&gate()).start()), 6);
        assert_eq!(ran(&Story::of(&gate().settings("maxLoopbackIterations", json!(2))).start()), 3);
    }

    #[test]
    fn what_the_loop_declares_goes_before_what_the_definition_says() {
        let workflow = endless(noop("spin").looping(7)).settings("maxLoopbackIterations", json!(2));
        assert_eq!(ran(&Story::of(&workflow).start()), 8);
    }

    #[test]
    fn the_caller_may_lower_the_limit_but_not_raise_it() {
        let opening = Story::of(&endless(noop("spin").looping(3)));
        assert_eq!(ran(&opening.clone().configurable(&json!({"maxLoopIterations": 1})).start()), 2);
        assert_eq!(ran(&opening.configurable(&json!({"maxLoopIterations": 100})).start()), 4);
    }

    #[test]
    fn a_breach_waits_for_work_in_flight() {
        let workflow = workflow([noop("spin").looping(1), task("other")]).flow("spin > spin");
        Story::of(&workflow)
            .start()
            .stands(Status::Running)
            .report("other")
            .expect(["node.completed other", "run.failed"])
            .stands(Status::Failed);
    }

    #[test]
    fn a_long_loop_yields_like_any_long_stretch() {
        let workflow = workflow([counter("count", "i").looping(2_000)])
            .variable("i", "number")
            .or(json!(0))
            .flow("count > count")
            .when("output.n < 1000");
        let mut story = Story::of(&workflow).start();
        let mut yields = 0;
        while story.run().status() == Status::Running {
            story = story.fire_timer("stretch");
            yields += 1;
        }
        assert!(yields >= 2, "{yields}");
        assert_eq!(story.variable("i"), Some("1000"));
    }
}

mod holding {
    use super::*;

    #[test]
    fn a_loop_does_not_start_over_while_the_run_is_paused() {
        let workflow = workflow([task("work").looping(5)]).flow("work > work").when("output.more");
        let more = |yes: bool| Ok(Some(Json::of(&json!({ "more": yes }))));
        Story::of(&workflow)
            .start()
            .pause()
            .report_of("work", 1, more(true))
            .expect(["node.completed work"])
            .stands(Status::Paused)
            .resume()
            .expect(["run.resumed", "loop.restarted", "node.started work"])
            .report_of("work", 2, more(false))
            .stands(Status::Completed);
    }

    #[test]
    fn a_cancellation_between_two_iterations_ends_the_run() {
        let workflow = workflow([task("work").looping(5)]).flow("work > work");
        Story::of(&workflow)
            .start()
            .pause()
            .report("work")
            .cancel()
            .expect(["run.cancelled"])
            .stands(Status::Cancelled);
        Story::of(&workflow).start().cancel().report("work").expect(["node.completed work", "run.cancelled"]);
    }

    #[test]
    fn a_report_of_an_earlier_execution_is_refused() {
        let workflow = workflow([task("work").looping(5)]).flow("work > work");
        Story::of(&workflow)
            .start()
            .report("work")
            .expect_effects(["finish work/1", "dispatch work/2"])
            .report("work")
            .refused(&abide_core::Rejection::NoSuchTask)
            .report_of("work", 2, Ok(None))
            .stands(Status::Running);
    }
}

mod held {
    use super::*;

    /// An outer loop of `h` and `x` with an inner one of `i`, which goes back once.
    fn nested(x_again: u32) -> Workflow {
        workflow([noop("h").looping(5), task("i").looping(5), task("x"), noop("after")])
            .flow("h > i > i")
            .when("nodes.i.execution < 2")
            .flow("i > h")
            .when("false")
            .flow("h > x > h")
            .when(&format!("nodes.x.execution < {x_again}"))
            .flow("x > after")
            .flow("i > after")
    }

    fn play_out(mut story: Story) -> Story {
        loop {
            let next = story.run().tasks().next();
            let Some(task) = next else { return story };
            story = story.report_of(&task.node, task.execution, Ok(None));
        }
    }

    #[test]
    fn an_outer_loop_waits_for_an_inner_one_that_starts_over_after_a_pause() {
        let story = Story::of(&nested(2)).start().pause().report("i").report("x").resume();
        play_out(story).stands(Status::Completed);
    }

    #[test]
    fn nothing_behind_an_outer_loop_starts_while_an_inner_one_is_to_start_over() {
        let story = Story::of(&nested(1)).start().pause().report("i").report("x").resume();
        assert_eq!(story.node("after").phase, NodePhase::Pending);
        play_out(story).stands(Status::Completed);
    }
}
