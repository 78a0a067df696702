//! Nodes that run other workflows: what goes into a child, what comes back, and who goes with whom.

#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{
    Cancellation, Command, Failure, Lifecycle, NodePhase, Notice, Parent, Rejection, Status, limits,
};
use serde_json::{Value, json};
use story::{Story, hours, json as as_json, key, notice, run_id};
use workflow::{Sketch, Workflow, child, delay, fixed, noop, task, workflow};

/// A parent whose node `ship` runs the workflow `shipment`, with `next` after it.
fn parent(ship: Sketch) -> Workflow {
    workflow([ship, noop("next")]).flow("ship > next")
}

fn ship() -> Sketch {
    child("ship", "shipment")
}

mod spawning {
    use super::*;

    #[test]
    fn the_node_asks_for_a_child_and_waits_for_it() {
        let story = Story::of(&parent(ship()))
            .start()
            .expect(["run.started", "node.started ship", "node.spawned ship"])
            .expect_effects(["spawn shipment for ship"])
            .node_is("ship", NodePhase::Waiting)
            .stands(Status::Running);
        assert!(story.run().is_parked(), "a run that waits for a child may leave memory");
        let spawn = story.spawn();
        assert_eq!(spawn.workflow_id, "shipment");
        assert!(spawn.inputs.is_empty() && spawn.sensitive.is_empty() && spawn.unset.is_empty());
        assert!(spawn.cascade);
        let parent = Parent {
            execution: Some(1),
            root: Some(key().id),
            depth: Some(1),
            ..Parent::of(key().id, "ship")
        };
        assert_eq!(spawn.parent, parent);
    }

    #[test]
    fn inputs_come_from_ports_and_from_the_mapping() {
        let node = ship()
            .input("label", fixed(&json!("fragile")))
            .config("inputMapping", json!({"weight": "kilos", "colour": "paint"}));
        let flow = parent(node).variable("kilos", "number").variable("paint", "string");
        let spawn = Story::of(&flow).input("kilos", &json!(7)).start().spawn();
        assert_eq!(as_json(&json!(spawn.inputs)).text(), r#"{"label":"fragile","weight":7}"#);
        assert_eq!(spawn.unset, ["colour"], "a variable without a value is passed on as such");
    }

    #[test]
    fn what_is_passed_on_without_a_value_suppresses_the_childs_default() {
        let node = ship().config("inputMapping", json!({"colour": "paint"}));
        let spawn = Story::of(&parent(node)).start().spawn();
        let shipment = workflow([noop("pack")]).required("colour", "string");
        let started = Story::of(&shipment.clone().or(json!("grey"))).spawned(&spawn).start();
        assert_eq!(started.variable("colour"), None);
        let required = Story::of(&shipment).spawned(&spawn).start();
        assert_eq!(required.variable("colour"), None, "and no one else could have given it");
        assert!(started.payload("run.started").contains(r#""unset":["colour"]"#));
    }

    #[test]
    fn a_child_belongs_to_its_parents_trace() {
        let parent_of_all = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let story = Story::of(&parent(ship())).traced(parent_of_all).start();
        assert_eq!(story.run().trace().map(abide_core::Trace::parent).as_deref(), Some(parent_of_all));
        assert_eq!(story.spawn().trace, story.run().trace().cloned());
        assert_eq!(Story::of(&parent(ship())).start().spawn().trace, None);
    }

    #[test]
    fn ids_of_children_are_the_same_whenever_they_are_drawn_and_never_shared() {
        let two = workflow([child("one", "shipment"), child("two", "shipment")]);
        let ids = |story: &Story| (story.node("one").child, story.node("two").child);
        let (story, again) = (Story::of(&two).start(), Story::of(&two).start());
        assert_eq!(ids(&story), ids(&again), "the same journal, the same children");
        let (one, two) = ids(&story);
        assert_ne!(one, two);
        assert_ne!(one, Some(key().id));
    }

    #[test]
    fn a_child_in_a_loop_is_another_one_each_time() {
        let looped = workflow([ship().looping(1)]).flow("ship > ship");
        let story = Story::of(&looped).start();
        let first = story.node("ship").child;
        let story = story.child_ends("ship", Lifecycle::Completed, &json!({})).expect([
            "child.reported",
            "node.completed ship",
            "loop.restarted",
            "node.started ship",
            "node.spawned ship",
        ]);
        assert_ne!(story.node("ship").child, first);
        assert_eq!(story.spawn().parent.execution, Some(2));
    }

    #[test]
    fn a_tree_of_runs_has_one_root_and_a_bounded_depth() {
        let at_depth = |depth: u32| {
            let above = Parent { root: Some(run_id(7)), depth: Some(depth), ..Parent::of(run_id(9), "call") };
            Story::of(&parent(ship())).parent(above).start()
        };
        let spawn = at_depth(41).spawn();
        assert_eq!((spawn.parent.root, spawn.parent.depth), (Some(run_id(7)), Some(42)));
        let last = at_depth(limits::CHILD_DEPTH_MAX - 1);
        assert_eq!(last.spawn().parent.depth, Some(limits::CHILD_DEPTH_MAX));
        at_depth(limits::CHILD_DEPTH_MAX)
            .expect(["run.started", "node.started ship", "node.failed ship", "run.failed"])
            .failed_with(
                "child_depth_exceeded",
                "node 'ship' would start a child 2000 runs below the first; does a workflow call itself without end?",
            );
    }
}

mod coming_back {
    use super::*;

    #[test]
    fn a_child_that_completes_lets_its_parent_go_on() {
        let story = Story::of(&parent(ship())).start();
        let id = story.node("ship").child.expect("it has a child");
        story
            .child_ends("ship", Lifecycle::Completed, &json!({}))
            .expect([
                "child.reported",
                "node.completed ship",
                "node.started next",
                "node.completed next",
                "run.completed",
            ])
            .expect_effects([&*format!("heard {id} at 5")])
            .outputs("ship", Some(&format!(r#"{{"childRunId":"{id}","childStatus":"completed"}}"#)));
    }

    #[test]
    fn the_mapping_says_which_of_its_variables_come_back() {
        let node = ship().config("outputMapping", json!({"parcels": "boxes", "cost": "price"}));
        let flow = parent(node).variable("parcels", "number").variable("cost", "number").or(json!(1));
        let story = Story::of(&flow).start();
        assert_eq!(story.spawn().parent.harvest, ["price", "boxes"]);
        let story =
            story.child_ends("ship", Lifecycle::Completed, &json!({"boxes": 3, "other": 1})).expect([
                "child.reported",
                "variable.changed",
                "node.completed ship",
                "node.started next",
                "node.completed next",
                "run.completed",
            ]);
        assert_eq!(story.variable("parcels"), Some("3"));
        assert_eq!(story.variable("cost"), Some("1"), "what the child never set stays as it was");
        assert_eq!(story.variable("other"), None);
    }

    #[test]
    fn a_child_tells_those_of_its_variables_that_were_asked_for() {
        let node = ship().config("outputMapping", json!({"a": "boxes", "b": "pin", "c": "absent"}));
        let spawn = Story::of(&parent(node)).start().spawn();
        let shipment = workflow([noop("pack")])
            .variable("boxes", "number")
            .or(json!(2))
            .variable("pin", "string")
            .or(json!("1234"))
            .sensitive()
            .variable("own", "string")
            .or(json!("mine"));
        let told = Story::of(&shipment).spawned(&spawn).start().told();
        assert_eq!(as_json(&json!(told.outputs)).text(), r#"{"boxes":2,"pin":"1234"}"#);
        assert_eq!(told.sensitive, ["pin"]);
        assert_eq!((told.node.as_str(), told.execution, told.lifecycle), ("ship", 1, Lifecycle::Completed));
    }

    #[test]
    fn a_child_that_did_not_complete_gives_nothing_back_but_its_error() {
        let node = ship().config("outputMapping", json!({"a": "boxes"}));
        let spawn = Story::of(&parent(node)).start().spawn();
        let shipment = workflow([workflow::fail("boom")]).variable("boxes", "number").or(json!(2));
        let told = Story::of(&shipment).spawned(&spawn).start().told();
        assert!(told.outputs.is_empty());
        assert_eq!(told.error.map(|error| error.code), Some("node_execution_failed".to_owned()));
    }

    #[test]
    fn a_value_of_the_wrong_type_fails_the_node_and_changes_nothing() {
        let node = ship().config("outputMapping", json!({"a": "one", "b": "two"}));
        let flow = parent(node).variable("a", "number").or(json!(0)).variable("b", "number").or(json!(0));
        let story = Story::of(&flow)
            .start()
            .child_ends("ship", Lifecycle::Completed, &json!({"one": 1, "two": "2"}))
            .expect(["child.reported", "node.failed ship", "run.failed"])
            .failed_with("variable_type", "variable 'b' is declared as number, but it would get string");
        assert_eq!((story.variable("a"), story.variable("b")), (Some("0"), Some("0")));
    }

    #[test]
    fn values_that_are_too_large_together_fail_the_node() {
        let node = ship().config("outputMapping", json!({"a": "one", "b": "two"}));
        let large = "x".repeat(limits::VARIABLES_BYTES_MAX / 2);
        let story = Story::of(&parent(node)).start().child_ends(
            "ship",
            Lifecycle::Completed,
            &json!({"one": large, "two": large}),
        );
        assert_eq!(story.run().error().map(|error| error.code.as_str()), Some("variables_too_large"));
        assert_eq!(story.variable("a"), None);
    }

    #[test]
    fn a_paused_parent_hears_its_child_and_starts_nothing() {
        Story::of(&parent(ship()))
            .start()
            .pause()
            .child_ends("ship", Lifecycle::Completed, &json!({}))
            .expect(["child.reported", "node.completed ship"])
            .node_is("next", NodePhase::Pending)
            .resume()
            .stands(Status::Completed);
    }

    #[test]
    fn only_the_child_that_is_waited_for_counts() {
        let stranger = Notice { node: "ship".to_owned(), ..notice(run_id(66), 3, Lifecycle::Completed) };
        let story = Story::of(&parent(ship())).start();
        let child = story.node("ship").child.expect("it has a child");
        let elsewhere = Notice { node: "next".to_owned(), ..notice(child, 3, Lifecycle::Completed) };
        let early = Notice { node: "ship".to_owned(), ..notice(child, 4, Lifecycle::Running) };
        story
            .hear(stranger, None)
            .expect(["child.reported"])
            .hear(elsewhere, None)
            .expect(["child.reported"])
            .hear(early, Some(3))
            .expect(["child.reported"])
            .node_is("ship", NodePhase::Waiting)
            .child_ends("ship", Lifecycle::Completed, &json!({}))
            .stands(Status::Completed);
    }
}

mod trouble {
    use super::*;

    fn failed(story: Story, lifecycle: Lifecycle, error: Option<Failure>) -> Story {
        let from = story.node("ship").child.expect("it has a child");
        let notice = Notice { node: "ship".to_owned(), error, ..notice(from, 5, lifecycle) };
        story.hear(notice, None)
    }

    #[test]
    fn a_child_that_fails_fails_its_node() {
        let story = Story::of(&parent(ship())).start();
        let id = story.node("ship").child.expect("it has a child");
        let error = Failure::new("node_execution_failed", "no paper");
        let story = failed(story, Lifecycle::Failed, Some(error))
            .expect(["child.reported", "node.failed ship", "run.failed"])
            .failed_with("child_failed", &format!("{id}, which node 'ship' waited for, failed: no paper"));
        let details = story.run().error().and_then(|error| error.details.clone()).expect("it has details");
        let expected = json!({"childRunId": id, "cause": {"runId": id, "code": "node_execution_failed", "message": "no paper"}});
        assert_eq!(details.parse::<Value>().ok(), Some(expected));
    }

    #[test]
    fn a_child_that_was_cancelled_says_so() {
        let story = Story::of(&parent(ship())).start();
        let id = story.node("ship").child.expect("it has a child");
        failed(story, Lifecycle::Cancelled, None)
            .failed_with("child_cancelled", &format!("{id}, which node 'ship' waited for, was cancelled"));
    }

    #[test]
    fn somebody_may_take_over_from_a_failed_child() {
        let flow = workflow([ship(), noop("handler")]).under("any_failed", "ship > handler");
        failed(Story::of(&flow).start(), Lifecycle::Failed, None)
            .node_is("handler", NodePhase::Completed)
            .stands(Status::Completed);
    }

    #[test]
    fn a_node_may_absorb_what_happens_to_its_child() {
        for (lifecycle, status) in [(Lifecycle::Failed, "failed"), (Lifecycle::Cancelled, "cancelled")] {
            let node = ship().config("onChildFailure", json!("absorb"));
            let story = failed(Story::of(&parent(node)).start(), lifecycle, None)
                .node_is("next", NodePhase::Completed)
                .stands(Status::Completed);
            assert!(
                story.payload_at("node.completed", "ship").contains(&format!(r#""childStatus":"{status}""#))
            );
        }
    }

    #[test]
    fn a_child_that_can_not_be_started_counts_as_failed() {
        let error = || Failure::new("workflow_not_found", "no workflow 'shipment' is loaded");
        Story::of(&parent(ship()))
            .start()
            .child_refused("ship", error())
            .expect(["child.refused", "node.failed ship", "run.failed"])
            .failed_with("workflow_not_found", "no workflow 'shipment' is loaded");
        let absorbing = ship().config("onChildFailure", json!("absorb"));
        Story::of(&parent(absorbing)).start().child_refused("ship", error()).stands(Status::Completed);
    }

    #[test]
    fn a_refusal_that_nobody_waits_for_is_recorded_and_nothing_else() {
        let flow = workflow([ship().config("waitForCompletion", json!(false)), task("work")]);
        Story::of(&flow)
            .start()
            .child_refused("ship", Failure::new("workflow_not_found", "no such workflow"))
            .expect(["child.refused"])
            .node_is("ship", NodePhase::Completed)
            .report("work")
            .stands(Status::Completed);
    }
}

mod fire_and_forget {
    use super::*;

    #[test]
    fn a_child_that_is_not_waited_for_is_started_and_left() {
        let story = Story::of(&parent(ship().config("waitForCompletion", json!(false))))
            .start()
            .expect([
                "run.started",
                "node.started ship",
                "node.spawned ship",
                "node.completed ship",
                "node.started next",
                "node.completed next",
                "run.completed",
            ])
            .expect_effects(["spawn shipment for ship"]);
        let id = story.node("ship").child.expect("it has a child");
        story.outputs("ship", Some(&format!(r#"{{"childRunId":"{id}","childStatus":"pending"}}"#)));
    }

    #[test]
    fn its_end_is_heard_and_changes_nothing() {
        let flow = workflow([ship().config("waitForCompletion", json!(false)), task("work")]);
        Story::of(&flow)
            .start()
            .child_ends("ship", Lifecycle::Failed, &json!({}))
            .expect(["child.reported"])
            .node_is("ship", NodePhase::Completed)
            .stands(Status::Running);
    }

    #[test]
    fn nothing_can_come_back_from_it() {
        let node =
            ship().config("waitForCompletion", json!(false)).config("outputMapping", json!({"a": "b"}));
        assert_eq!(
            parent(node).problems(),
            "nodes['ship'].config.outputMapping: a child that is not waited for gives nothing back; remove it"
        );
    }
}

mod going_along {
    use super::*;

    #[test]
    fn a_parent_that_is_cancelled_takes_its_children_along() {
        Story::of(&parent(ship()))
            .start()
            .cancel()
            .expect(["node.cancelled ship", "run.cancelled"])
            .expect_effects(["cascade parent-cancelled"]);
    }

    #[test]
    fn a_parent_that_fails_takes_its_children_along() {
        Story::of(&workflow([ship(), task("work")]))
            .start()
            .report_failure("work", "broken")
            .expect(["node.failed work", "node.cancelled ship", "run.failed"])
            .expect_effects(["finish work/1", "cascade parent-failed"]);
    }

    #[test]
    fn a_parent_that_completes_leaves_them_alone() {
        let flow = parent(ship().config("waitForCompletion", json!(false)));
        Story::of(&flow).start().stands(Status::Completed).expect_effects(["spawn shipment for ship"]);
    }

    #[test]
    fn a_child_may_be_kept_out_of_it_and_without_children_nothing_is_said() {
        let alone = ship().config("propagateCancellation", json!(false));
        let story = Story::of(&parent(alone)).start();
        assert!(!story.spawn().cascade);
        story.cancel().expect_effects([]);
        Story::of(&workflow([delay("gate", hours(1))]))
            .start()
            .cancel()
            .expect_effects(["drop delay/1/gate +3600000"]);
    }

    #[test]
    fn a_child_that_is_taken_along_says_by_whom() {
        let asked = Cancellation {
            reason: Some("parent-cancelled".to_owned()),
            cancelled_by: None,
            parent_run_id: Some(run_id(9)),
            abandonment_reason: None,
        };
        let story = Story::of(&workflow([task("work")]))
            .child_of(run_id(9), "ship")
            .start()
            .ask(Command::Cancel(asked))
            .expect(["run.cancelling"])
            .report("work")
            .stands(Status::Cancelled);
        let expected = format!(r#"{{"reason":"parent-cancelled","parentRunId":"{}"}}"#, run_id(9));
        assert_eq!(story.payload("run.cancelled"), expected);
    }

    #[test]
    fn what_a_child_says_after_its_parent_ended_is_refused() {
        let story = Story::of(&parent(ship())).start();
        let child = story.node("ship").child.expect("it has a child");
        let late = Notice { node: "ship".to_owned(), ..notice(child, 9, Lifecycle::Cancelled) };
        story.cancel().hear(late, None).refused(&Rejection::Ended(Lifecycle::Cancelled));
    }
}

mod still {
    use abide_core::TimerId;

    use super::*;

    fn gate() -> Sketch {
        workflow::of_kind("gate", "core.approvalGate").config("title", json!("Pay?"))
    }

    /// A parent that may last a second and a half, and what it told its child when it started it.
    fn begun() -> Story {
        Story::of(&parent(ship()).settings("timeout", json!(1_500))).start()
    }

    #[test]
    fn a_parents_time_stands_still_while_its_child_waits_for_people_alone() {
        let parent = begun();
        let asked =
            Story::of(&workflow([gate(), noop("then")]).flow("gate > then")).spawned(&parent.spawn()).start();
        let still = asked.told();
        assert!(still.still && still.lifecycle == Lifecycle::Running);
        let parent = parent.after(500).hear(still.clone(), None).expect(["child.reported"]);
        assert!(!parent.run().timers().contains_key(&TimerId::RunTimeout), "nobody counts a person's time");

        let answered = asked.after(hours(48)).answer("gate", &json!({ "action": "accept" }));
        let ended = answered.told();
        assert!(ended.lifecycle.is_terminal() && !ended.still);
        let parent = parent.after(hours(48)).hear(ended, Some(still.sequence));
        parent.stands(Status::Completed);
    }

    #[test]
    fn the_time_goes_on_when_the_child_does() {
        let parent = begun();
        let later = workflow([gate(), delay("sleep", 9_000)]).flow("gate > sleep");
        let asked = Story::of(&later).spawned(&parent.spawn()).start();
        let still = asked.told();
        let parent = parent.after(500).hear(still.clone(), None);
        let works = asked.after(hours(1)).answer("gate", &json!({ "action": "accept" })).told();
        assert!(!works.still && works.lifecycle == Lifecycle::Running);
        let parent = parent.after(hours(1)).hear(works, Some(still.sequence));
        let due = parent.run().timers()[&TimerId::RunTimeout];
        assert_eq!(due, story::BEGIN + 500 + hours(1) + 1_000, "the second that was left is left");
        let parent = parent.after(1_000).fire_timer("run-timeout");
        assert_eq!(parent.run().error().unwrap().code, "run_timeout");
    }

    #[test]
    fn a_child_whose_time_nobody_counts_tells_nothing() {
        let uncounted = Story::of(&parent(ship())).start();
        Story::of(&workflow([gate()]))
            .spawned(&uncounted.spawn())
            .start()
            .expect_effects(["open approval gate"]);
    }

    #[test]
    fn a_run_between_the_two_passes_it_on() {
        let top = begun();
        let middle = Story::of(&parent(ship())).spawned(&top.spawn()).start();
        let bottom = Story::of(&workflow([gate()])).spawned(&middle.spawn()).start();
        let middle = middle.after(1).hear(bottom.told(), None);
        let still = middle.told();
        assert!(still.still, "what its child waits for, it waits for");
        let top = top.after(2).hear(still, None);
        assert!(!top.run().timers().contains_key(&TimerId::RunTimeout));
    }
}
