//! Which nodes run and which are skipped: trigger rules, conditions, branches, disabled nodes, and who takes over
//! from a failed node.

#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{Json, NodePhase, Status};
use serde_json::{Value, json};
use story::Story;
use workflow::{Sketch, Workflow, branch, fail, fixed, identity, noop, task, transform, workflow};

/// A node that ends as it is called: `ok` completes, `bad` fails, `off` is skipped, `later` waits for a report.
fn ending(how: &str, id: &str) -> Sketch {
    match how {
        "ok" => noop(id),
        "bad" => fail(id).config("message", json!(format!("{id} is broken"))),
        "off" => noop(id).disabled(),
        _ => task(id),
    }
}

/// Nodes `a`, `b`, … that end as they are called, all leading to `end` under one rule.
fn joined(rule: &str, sources: &[&str]) -> Workflow {
    let ids = ["a", "b", "c", "d"];
    let nodes = sources.iter().zip(ids).map(|(how, id)| ending(how, id)).chain([noop("end")]);
    let workflow = workflow(nodes);
    ids[..sources.len()].iter().fold(workflow, |workflow, id| workflow.under(rule, &format!("{id} > end")))
}

mod each_rule {
    use super::*;

    #[track_caller]
    fn runs(rule: &str, sources: &[&str]) {
        Story::of(&joined(rule, sources))
            .start()
            .node_is("end", NodePhase::Completed)
            .stands(Status::Completed);
    }

    #[track_caller]
    fn skips(rule: &str, sources: &[&str]) {
        let story = Story::of(&joined(rule, sources)).start();
        assert_eq!(story.payload_at("node.skipped", "end"), r#"{"reason":"trigger-rule"}"#);
        story.node_is("end", NodePhase::Skipped).stands(Status::Completed);
    }

    /// Nobody takes over from the failed node, so the run fails with its error.
    #[track_caller]
    fn fails(rule: &str, sources: &[&str], culprit: &str) {
        let story = Story::of(&joined(rule, sources))
            .start()
            .failed_with("node_execution_failed", &format!("{culprit} is broken"));
        assert!(story.payload("run.failed").contains(&format!(r#""failedNodeId":"{culprit}""#)));
    }

    #[test]
    fn all_success_needs_every_source_to_complete() {
        runs("all_success", &["ok", "ok", "ok"]);
        skips("all_success", &["ok", "off"]);
        skips("all_success", &["off", "off"]);
        fails("all_success", &["ok", "bad"], "b");
        fails("all_success", &["bad", "ok"], "a");
    }

    #[test]
    fn any_success_needs_one_source_to_complete() {
        runs("any_success", &["bad", "ok"]);
        runs("any_success", &["ok", "bad"]);
        runs("any_success", &["off", "ok"]);
        skips("any_success", &["off", "off"]);
        fails("any_success", &["bad", "off"], "a");
        fails("any_success", &["bad", "bad"], "a");
    }

    #[test]
    fn all_complete_needs_every_source_to_be_settled_and_one_that_was_not_skipped() {
        runs("all_complete", &["ok", "bad", "off"]);
        runs("all_complete", &["bad"]);
        runs("all_complete", &["bad", "off"]);
        skips("all_complete", &["off", "off"]);
    }

    #[test]
    fn none_failed_takes_skipped_sources_but_no_failed_ones() {
        runs("none_failed", &["ok", "off"]);
        skips("none_failed", &["off", "off"]);
        fails("none_failed", &["ok", "bad"], "b");
        fails("none_failed", &["off", "bad"], "b");
    }

    #[test]
    fn any_failed_needs_one_source_to_fail() {
        runs("any_failed", &["bad", "ok"]);
        runs("any_failed", &["ok", "bad"]);
        skips("any_failed", &["ok", "ok"]);
        skips("any_failed", &["ok", "off"]);
    }

    #[test]
    fn no_rule_is_all_success() {
        let workflow =
            workflow([noop("a"), noop("b").disabled(), noop("end")]).flow("a > end").flow("b > end");
        Story::of(&workflow).start().node_is("end", NodePhase::Skipped);
    }
}

mod early_firing {
    use super::*;

    #[test]
    fn any_success_does_not_wait_for_the_others() {
        Story::of(&joined("any_success", &["later", "later"]))
            .start()
            .report("b")
            .expect(["node.completed b", "node.started end", "node.completed end"])
            .stands(Status::Running)
            .report("a")
            .expect(["node.completed a", "run.completed"]);
    }

    #[test]
    fn a_source_that_fails_after_any_success_has_fired_is_taken_over_from() {
        Story::of(&joined("any_success", &["later", "later"]))
            .start()
            .report("b")
            .report_failure("a", "too late")
            .expect(["node.failed a", "run.completed"])
            .stands(Status::Completed);
    }

    #[test]
    fn any_failed_does_not_wait_for_the_others() {
        Story::of(&joined("any_failed", &["later", "later"]))
            .start()
            .report_failure("a", "broken")
            .expect(["node.failed a", "node.started end", "node.completed end"])
            .report("b")
            .expect(["node.completed b", "run.completed"])
            .stands(Status::Completed);
    }

    #[test]
    fn all_complete_and_none_failed_wait_for_all() {
        for rule in ["all_complete", "none_failed"] {
            Story::of(&joined(rule, &["later", "later"]))
                .start()
                .report("a")
                .expect(["node.completed a"])
                .node_is("end", NodePhase::Pending)
                .report("b")
                .expect(["node.completed b", "node.started end", "node.completed end", "run.completed"]);
        }
    }

    #[test]
    fn a_node_is_skipped_as_soon_as_it_can_never_run() {
        Story::of(&joined("all_success", &["off", "later"]))
            .start()
            .node_is("end", NodePhase::Skipped)
            .stands(Status::Running)
            .report("b")
            .expect(["node.completed b", "run.completed"]);
    }
}

mod mixed_rules {
    use super::*;

    fn mixed() -> Workflow {
        let nodes = [task("must"), task("one"), task("other"), noop("end")];
        workflow(nodes)
            .flow("must > end")
            .under("any_success", "one > end")
            .under("any_success", "other > end")
    }

    #[test]
    fn every_group_must_say_run() {
        Story::of(&mixed())
            .start()
            .report("one")
            .expect(["node.completed one"])
            .report("must")
            .expect(["node.completed must", "node.started end", "node.completed end"])
            .report("other")
            .stands(Status::Completed);
    }

    #[test]
    fn one_group_that_says_skip_is_enough() {
        let off = workflow([noop("must").disabled(), task("one"), noop("end")]);
        Story::of(&off.flow("must > end").under("any_success", "one > end"))
            .start()
            .expect(["run.started", "node.skipped must", "node.skipped end", "node.started one"])
            .report("one")
            .expect(["node.completed one", "run.completed"]);
    }

    #[test]
    fn a_failure_under_any_success_waits_for_the_other_group_to_decide() {
        Story::of(&mixed())
            .start()
            .report("must")
            .report_failure("one", "no luck")
            .expect(["node.failed one"])
            .stands(Status::Running)
            .report("other")
            .expect(["node.completed other", "node.started end", "node.completed end", "run.completed"])
            .stands(Status::Completed);
    }

    #[test]
    fn two_edges_of_a_failed_node_that_contradict_each_other_take_nothing_over() {
        for (first, second) in [("all_complete", "all_success"), ("all_success", "all_complete")] {
            Story::of(
                &workflow([ending("bad", "a"), noop("end")]).under(first, "a > end").under(second, "a > end"),
            )
            .start()
            .expect(["run.started", "node.started a", "node.failed a", "run.failed"])
            .failed_with("node_execution_failed", "a is broken");
        }
    }
}

mod taking_over {
    use super::*;

    #[test]
    fn a_handler_runs_and_the_usual_way_is_skipped() {
        let workflow = workflow([ending("bad", "work"), noop("next"), noop("handler"), noop("end")])
            .flow("work > next")
            .under("any_failed", "work > handler")
            .under("any_success", "next > end")
            .under("any_success", "handler > end");
        Story::of(&workflow)
            .start()
            .expect([
                "run.started",
                "node.started work",
                "node.failed work",
                "node.skipped next",
                "node.started handler",
                "node.completed handler",
                "node.started end",
                "node.completed end",
                "run.completed",
            ])
            .node_is("next", NodePhase::Skipped);
    }

    #[test]
    fn the_run_goes_on_while_somebody_may_yet_take_over() {
        Story::of(&joined("any_success", &["bad", "later"]))
            .start()
            .stands(Status::Running)
            .report("b")
            .expect(["node.completed b", "node.started end", "node.completed end", "run.completed"]);
    }

    #[test]
    fn the_run_fails_when_the_last_who_might_take_over_is_out() {
        Story::of(&joined("any_success", &["bad", "later", "later"]))
            .start()
            .report_failure("b", "b failed too")
            .expect(["node.failed b"])
            .stands(Status::Running)
            .report_failure("c", "c failed too")
            .expect(["node.failed c", "run.failed"])
            .failed_with("node_execution_failed", "a is broken");
    }

    #[test]
    fn it_fails_too_when_a_condition_closes_the_last_way() {
        let workflow = workflow([ending("bad", "a"), task("b"), noop("end")])
            .under("any_success", "a > end")
            .under("any_success", "b > end")
            .when("output.fine == true");
        Story::of(&workflow)
            .start()
            .report_of("b", 1, Ok(Some(Json::of(&json!({"fine": false})))))
            .expect(["node.completed b", "run.failed"])
            .failed_with("node_execution_failed", "a is broken");
    }

    #[test]
    fn a_failure_without_any_edge_fails_the_run() {
        Story::of(&workflow([ending("bad", "alone"), noop("other")]))
            .start()
            .failed_with("node_execution_failed", "alone is broken")
            .node_is("other", NodePhase::Pending);
    }

    #[test]
    fn a_disabled_handler_takes_nothing_over() {
        for rule in ["any_failed", "all_complete", "any_success"] {
            let workflow = workflow([ending("bad", "work"), noop("ok"), noop("handler").disabled()])
                .under(rule, "work > handler")
                .under(rule, "ok > handler");
            Story::of(&workflow).start().failed_with("node_execution_failed", "work is broken");
        }
    }

    #[test]
    fn a_condition_on_the_error_chooses_its_handler() {
        let handlers = |code: &str| {
            let work = fail("work").config("code", json!(code));
            workflow([work, noop("slow"), noop("other")])
                .under("any_failed", "work > slow")
                .when("error.code == 'rate_limited' && status == 'failed'")
                .under("any_failed", "work > other")
                .when("error.code != 'rate_limited'")
        };
        Story::of(&handlers("rate_limited"))
            .start()
            .node_is("slow", NodePhase::Completed)
            .node_is("other", NodePhase::Skipped)
            .stands(Status::Completed);
        Story::of(&handlers("out_of_paper"))
            .start()
            .node_is("slow", NodePhase::Skipped)
            .node_is("other", NodePhase::Completed);
    }

    #[test]
    fn a_handler_whose_condition_does_not_hold_or_can_not_be_told_takes_nothing_over() {
        for condition in ["error.code == 'other'", "error.missing == 'x'", "output.x == 1"] {
            let workflow = workflow([ending("bad", "work"), noop("handler")])
                .under("any_failed", "work > handler")
                .when(condition);
            let story = Story::of(&workflow).start().failed_with("node_execution_failed", "work is broken");
            assert!(story.payload("node.failed").contains(r#""untaken":["e0"]"#), "{condition}");
        }
    }

    #[test]
    fn the_error_stays_readable_after_it_was_taken_over() {
        let handler = identity("handler").input("why", workflow::expression("nodes.work.error.message"));
        Story::of(&workflow([ending("bad", "work"), handler]).under("any_failed", "work > handler"))
            .start()
            .outputs("handler", Some(r#"{"why":"work is broken"}"#));
    }
}

mod skipping {
    use super::*;

    #[test]
    fn a_skip_goes_down_the_line_and_a_join_may_stop_it() {
        let workflow =
            workflow([noop("off").disabled(), noop("next"), noop("last"), noop("ok"), noop("join")])
                .flow("off > next > last")
                .under("none_failed", "last > join")
                .under("none_failed", "ok > join");
        Story::of(&workflow)
            .start()
            .node_is("next", NodePhase::Skipped)
            .node_is("last", NodePhase::Skipped)
            .node_is("join", NodePhase::Completed)
            .stands(Status::Completed);
    }

    #[test]
    fn a_disabled_node_says_that_it_is() {
        let story = Story::of(&workflow([noop("off").disabled()])).start().expect([
            "run.started",
            "node.skipped off",
            "run.completed",
        ]);
        assert_eq!(story.payload("node.skipped"), r#"{"reason":"disabled"}"#);
    }

    #[test]
    fn a_disabled_node_is_skipped_only_when_its_turn_comes() {
        Story::of(&workflow([task("first"), noop("off").disabled()]).flow("first > off"))
            .start()
            .node_is("off", NodePhase::Pending)
            .report("first")
            .expect(["node.completed first", "node.skipped off", "run.completed"]);
    }

    #[test]
    fn a_skip_names_the_event_that_caused_it() {
        let story = Story::of(&workflow([noop("off").disabled(), noop("next")]).flow("off > next")).start();
        let causes: Vec<Option<u64>> = story.journal().iter().map(|record| record.cause).collect();
        assert_eq!(causes, [None, Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn nothing_is_skipped_while_the_run_is_paused() {
        Story::of(&joined("all_success", &["later", "later"]).edge(
            "condition",
            json!({
                "type": "truthy", "left": "output.go",
            }),
        ))
        .start()
        .pause()
        .report("b")
        .expect(["node.completed b"])
        .report("a")
        .expect(["node.completed a"])
        .resume()
        .expect(["run.resumed", "node.skipped end", "run.completed"]);
    }

    #[test]
    fn skips_count_towards_a_stretch() {
        let crowd = (0..1_000).map(|n| noop(&format!("n{n}")));
        let nodes = [noop("off").disabled()].into_iter().chain(crowd);
        let workflow = (0..1_000).fold(workflow(nodes), |workflow, n| workflow.flow(&format!("off > n{n}")));
        let story = Story::of(&workflow).start().expect_effects(["arm stretch +0"]);
        story.fire_timer("stretch").stands(Status::Completed);
    }
}

mod conditions {
    use super::*;

    /// The source gives `value` as its output `v`; the target runs if the condition holds.
    fn holds(value: &Value, condition: Value) -> bool {
        let source = identity("source").input("v", fixed(value));
        let flow = workflow([source, noop("target")]).variable("limit", "number").or(json!(5));
        let workflow = flow.flow("source > target").edge("condition", condition);
        let story = Story::of(&workflow).start().stands(Status::Completed);
        let untaken = story.payload("node.completed").contains("untaken");
        let ran = story.node("target").phase == NodePhase::Completed;
        assert!(ran || story.history().contains(&"node.skipped target".to_owned()));
        assert!(ran || story.journal().iter().any(|record| story::payload_text(record).contains("untaken")));
        assert!(!(ran && untaken));
        ran
    }

    fn test(kind: &str, left: &str, right: &Value) -> Value {
        json!({"type": kind, "left": left, "right": right})
    }

    #[test]
    fn an_expression_sees_the_output_and_the_run() {
        let cel = |text: &str| json!({"type": "expression", "expression": text});
        assert!(holds(&json!(7), cel("output.v > variables.limit && status == 'completed'")));
        assert!(!holds(&json!(3), cel("output.v > variables.limit")));
        assert!(holds(&json!(3), cel("nodes.source.outputs.v == null || true")));
        assert!(holds(&json!(3), cel("run.workflowId == 'story' && !has(configurable.x)")));
    }

    #[test]
    fn equality_is_that_of_json_values() {
        assert!(holds(&json!(1), test("equals", "output.v", &json!(1.0))));
        assert!(holds(&json!({"a": [1]}), test("equals", "output.v", &json!({"a": [1.0]}))));
        assert!(!holds(&json!("1"), test("equals", "output.v", &json!(1))));
        assert!(holds(&json!(null), test("equals", "output.v", &json!(null))));
        assert!(holds(&json!("x"), test("notEquals", "output.v", &json!("y"))));
        assert!(!holds(&json!("x"), test("notEquals", "output.v", &json!("x"))));
    }

    #[test]
    fn containing_is_for_texts_lists_and_objects() {
        assert!(holds(&json!("hello"), test("contains", "output.v", &json!("ell"))));
        assert!(holds(&json!([1, {"a": 2}]), test("contains", "output.v", &json!({"a": 2.0}))));
        assert!(holds(&json!({"key": 1}), test("contains", "output.v", &json!("key"))));
        assert!(!holds(&json!({"key": 1}), test("contains", "output.v", &json!(1))));
        assert!(!holds(&json!(12), test("contains", "output.v", &json!(1))));
    }

    #[test]
    fn a_pattern_is_searched_in_texts_only() {
        assert!(holds(&json!("order 12"), test("regex", "output.v", &json!(r"\d+$"))));
        assert!(!holds(&json!("order"), test("regex", "output.v", &json!(r"\d+$"))));
        assert!(!holds(&json!(12), test("regex", "output.v", &json!(r"\d+$"))));
    }

    #[test]
    fn null_false_zero_and_the_empty_text_are_falsy() {
        for (value, truthy) in [
            (json!(null), false),
            (json!(false), false),
            (json!(0), false),
            (json!(-0.0), false),
            (json!(""), false),
            (json!(true), true),
            (json!(0.1), true),
            (json!("0"), true),
            (json!([]), true),
            (json!({}), true),
        ] {
            assert_eq!(holds(&value, json!({"type": "truthy", "left": "output.v"})), truthy, "{value}");
            assert_eq!(holds(&value, json!({"type": "falsy", "left": "output.v"})), !truthy, "{value}");
        }
    }

    #[test]
    fn a_path_leads_into_objects_and_lists() {
        let value = json!({"list": [{"name": "first"}, {"name": "second"}]});
        assert!(holds(&value, test("equals", "output.v.list.1.name", &json!("second"))));
        assert!(holds(&value, test("equals", "v.list.0.name", &json!("first"))), "outputs need no root");
        assert!(holds(&value, test("equals", "limit", &json!(5))), "nor do variables");
        assert!(holds(&value, test("equals", "variables.limit", &json!(5))));
        assert!(holds(&value, test("equals", "run.workflowId", &json!("story"))));
        assert!(holds(&value, test("equals", "status", &json!("completed"))));
    }

    #[test]
    fn what_is_not_there_is_different_from_everything() {
        let value = json!({"list": [1]});
        for path in
            ["output.w", "output.v.list.1", "output.v.list.x", "output.v.list.0.y", "nowhere", "variables.x"]
        {
            assert!(!holds(&value, test("equals", path, &json!(null))), "{path}");
            assert!(holds(&value, test("notEquals", path, &json!(null))), "{path}");
            assert!(!holds(&value, test("contains", path, &json!(1))), "{path}");
            assert!(!holds(&value, test("regex", path, &json!(""))), "{path}");
            assert!(!holds(&value, json!({"type": "truthy", "left": path})), "{path}");
            assert!(holds(&value, json!({"type": "falsy", "left": path})), "{path}");
        }
    }

    #[test]
    fn a_condition_that_can_not_be_evaluated_fails_the_run_and_not_the_node() {
        let source = identity("source").input("v", fixed(&json!("seven")));
        let workflow = workflow([source, noop("target")]).flow("source > target").when("output.v > 5");
        let story = Story::of(&workflow).start().expect([
            "run.started",
            "node.started source",
            "node.completed source",
            "run.failed",
        ]);
        assert!(story.payload("node.completed").contains(r#""fault":{"code":"expression_failed""#));
        assert!(story.payload("run.failed").contains(r#""failedNodeId":"source""#));
        let error = story.run().error().expect("the run failed");
        assert!(error.message.starts_with("the condition of edge 'e0': in `output.v > 5`: "), "{error:?}");
        story.node_is("source", NodePhase::Completed).node_is("target", NodePhase::Pending);
    }

    #[test]
    fn a_condition_that_gives_no_bool_is_a_fault() {
        let workflow = workflow([noop("source"), noop("target")]).flow("source > target").when("'yes'");
        Story::of(&workflow).start().failed_with(
            "expression_failed",
            "the condition of edge 'e0': in `'yes'`: a condition has to give a bool, this one gives string",
        );
    }

    #[test]
    fn a_condition_is_evaluated_when_the_source_ends() {
        let set = transform("set").config("assign", json!({"go": "true"}));
        let workflow = workflow([noop("source"), set, noop("target")])
            .variable("go", "boolean")
            .or(json!(false))
            .flow("source > target")
            .when("variables.go")
            .flow("set > target");
        Story::of(&workflow).start().node_is("target", NodePhase::Skipped);
    }
}

mod branches {
    use super::*;

    fn sized() -> Workflow {
        let choose = branch("choose", &[("large", "variables.size > 10"), ("medium", "variables.size > 5")]);
        let choose = choose.config("default", json!("small")).input("size", workflow::variable("size"));
        workflow([choose, noop("l"), noop("m"), noop("s"), noop("always")])
            .variable("size", "number")
            .flow("choose > l")
            .case("large")
            .flow("choose > m")
            .case("medium")
            .flow("choose > s")
            .case("small")
            .flow("choose > always")
    }

    #[test]
    fn the_first_case_that_holds_is_taken() {
        for (size, taken, outputs) in [
            (11, "l", r#"{"branch":"large","size":11}"#),
            (6, "m", r#"{"branch":"medium","size":6}"#),
            (1, "s", r#"{"branch":"small","size":1}"#),
        ] {
            let story =
                Story::of(&sized()).input("size", &json!(size)).start().outputs("choose", Some(outputs));
            for id in ["l", "m", "s"] {
                let phase = if id == taken { NodePhase::Completed } else { NodePhase::Skipped };
                assert_eq!(story.node(id).phase, phase, "{id} for {size}");
            }
            story.node_is("always", NodePhase::Completed).stands(Status::Completed);
        }
    }

    #[test]
    fn without_a_default_one_case_has_to_hold() {
        let choose = branch("choose", &[("yes", "false")]);
        Story::of(&workflow([choose, noop("y")]).flow("choose > y").case("yes"))
            .start()
            .failed_with("no_branch", "no case of node 'choose' holds, and it has no default; add one");
    }

    #[test]
    fn a_case_may_have_a_condition_too() {
        let choose = branch("choose", &[("yes", "true")]);
        Story::of(
            &workflow([choose, noop("y")]).flow("choose > y").case("yes").when("output.branch == 'no'"),
        )
        .start()
        .node_is("y", NodePhase::Skipped);
    }

    #[test]
    fn a_case_that_can_not_be_told_fails_the_node() {
        let choose = branch("choose", &[("yes", "variables.nothing")]);
        let workflow = workflow([choose, noop("handler")]).under("any_failed", "choose > handler");
        Story::of(&workflow).start().node_is("choose", NodePhase::Failed).stands(Status::Completed);
    }

    #[test]
    fn a_case_that_the_branch_does_not_offer_is_refused() {
        let choose = branch("choose", &[("yes", "true")]);
        let workflow =
            workflow([choose, noop("y")]).flow("choose > y").case("no").edge("targetInput", json!("x"));
        assert_eq!(
            workflow.problems(),
            "edges[0].sourceOutput: the branch has no case 'no'; add it, or leave sourceOutput out\n\
             edges[0].targetInput: an edge that leaves a branch by a case carries no value; take it in with a port"
        );
    }
}

#[test]
fn a_condition_sees_what_its_source_has_just_produced() {
    for condition in [
        "nodes.check.outputs.ok",
        "nodes.check.status == 'completed'",
        "nodes.check.execution == 1 && output.ok",
    ] {
        let flow = workflow([transform("check").config("outputs", json!({"ok": "true"})), noop("after")])
            .flow("check > after")
            .when(condition);
        Story::of(&flow).start().stands(Status::Completed).node_is("after", NodePhase::Completed);
    }
}
