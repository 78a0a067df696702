//! Tasks that are given back until something comes.

use super::*;
use abide_core::event::Resolution;
use abide_core::{ChildState, Lifecycle, NodePhase, Status};

#[test]
fn a_task_is_given_back_until_somebody_answers() {
    let story = begun()
        .does("job", step("a", &json!(1)))
        .does("job", ask(1))
        .expect(["interrupt.requested job", "clarification.requested job"])
        .node_is("job", NodePhase::Running)
        .stands(Status::WaitingInput);
    let AskState::Open { .. } = story.answer_told("job", &ask(1)) else { panic!("it is open") };
    let waits = story.waits();
    let story = story
        .does("job", park(waits))
        .expect(["node.parked job", "node.suspended job"])
        .expect_effects(["withdraw job/1"])
        .node_is("job", NodePhase::Suspended)
        .answer("job", &well())
        .expect(["clarification.resolved job", "interrupt.resolved job", "node.resumed job"]);
    assert_eq!(story.offered().attempt, 1, "waiting uses no attempt");
    // The function runs from the top: what it did and what was answered is there.
    let story = story.does("job", step("a", &json!(2))).expect([]).does("job", ask(1)).expect([]);
    let told = story.answer_told("job", &ask(1));
    let AskState::Answered { outcome: Resolution::Resolved, value, by, .. } = told else {
        panic!("{told:?}")
    };
    assert_eq!((value.text(), by.as_deref()), (r#""well""#, Some("alice")));
    story.does("job", complete(&json!({}))).stands(Status::Completed);
}

#[test]
fn an_answer_that_comes_at_once_needs_no_giving_back() {
    let story = begun().does("job", ask(1));
    let waits = story.waits();
    let story = story.answer("job", &well()).node_is("job", NodePhase::Running);
    let had: Vec<bool> =
        story.step().effects.iter().map(|effect| matches!(effect, Effect::Wake(_))).collect();
    assert!(had.contains(&true), "whoever waits in place is told");
    // Whoever gives it back all the same learns that it has come.
    let story = story.does("job", park(waits)).expect([]);
    assert_eq!(story.outcome("job", &park([])), WorkOutcome::Parked(false));
    story.does("job", complete(&json!({}))).stands(Status::Completed);
}

#[test]
fn any_of_several_answers_wakes_the_task() {
    let story = begun().does("job", ask(1)).does("job", ask(2));
    let waits = story.waits();
    let story = story.does("job", park(waits.clone()));
    let [Wait::Interrupt(first), Wait::Interrupt(second)] = waits[..] else { panic!("two are open") };
    let story = story.answer_to(second, &well(), "bob").node_is("job", NodePhase::Running);
    let open = story.open_at("job");
    assert!(open.is_empty(), "it has the task again, and is stopped for nothing");
    let story =
        story.does("job", park([Wait::Interrupt(first)])).expect(["node.parked job", "node.suspended job"]);
    let story = story.answer_to(first, &well(), "bob").node_is("job", NodePhase::Running);
    story.does("job", complete(&json!({}))).stands(Status::Completed);
}

#[test]
fn two_answers_while_it_is_given_back_wake_it_once() {
    let story = begun().pause().does("job", ask(1)).does("job", ask(2));
    let waits = story.waits();
    let [Wait::Interrupt(first), Wait::Interrupt(second)] = waits[..] else { panic!("two are open") };
    let story = story.does("job", park(waits));
    // A held run takes its answers and starts nothing.
    let story = story.answer_to(first, &well(), "bob").answer_to(second, &well(), "bob");
    story.resume().expect(["run.resumed", "node.resumed job"]).expect_effects(["offer job/1 attempt 1"]);
}

#[test]
fn a_sleep_lasts_as_long_as_it_was_told_however_often_it_is_begun() {
    let story = begun().does("job", sleep("nap", 100)).expect(["sleep.started job"]);
    let WorkOutcome::Sleep { until, over: false } = story.outcome("job", &sleep("nap", 1)) else { panic!() };
    let story = story.after(60).does("job", lose(Loss::Silent)).does("job", sleep("nap", 100)).expect([]);
    assert_eq!(story.outcome("job", &sleep("nap", 1)), WorkOutcome::Sleep { until, over: false });
    let timer = "sleep/1/2/job";
    let story = story
        .does("job", park([Wait::Sleep("nap".to_owned())]))
        .expect(["node.parked job"])
        .node_is("job", NodePhase::Waiting)
        .fire_timer(timer)
        .refused(&Rejection::NotDue { due: until })
        .at(100)
        .fire_timer(timer)
        .expect(["sleep.ended job", "node.resumed job"]);
    assert_eq!(story.outcome("job", &sleep("nap", 1)), WorkOutcome::Sleep { until, over: true });
    story.fire_timer(timer).refused(&Rejection::NoSuchTimer);
}

#[test]
fn sleeps_end_with_their_node() {
    begun()
        .does("job", sleep("nap", 100))
        .does("job", complete(&json!({})))
        .stands(Status::Completed)
        .expect_effects(["withdraw job/1", "drop sleep/1/2/job +100"]);
}

#[test]
fn a_childs_end_is_told_to_the_worker() {
    let story = begun().does("job", child("sub")).expect(["node.spawned job"]);
    let run = story.spawn().child;
    assert_eq!(story.outcome("job", &child("sub")), WorkOutcome::Child { run, state: ChildState::Running });
    let story = story.does("job", child("sub")).expect([]).does("job", park([Wait::Child("sub".to_owned())]));
    let story = story
        .child_ends("job", Lifecycle::Completed, &json!({ "total": 9 }))
        .expect(["child.reported", "node.resumed job"]);
    let WorkOutcome::Child { state: ChildState::Ended(sequence), .. } = story.outcome("job", &child("sub"))
    else {
        panic!("it has ended")
    };
    assert_eq!(story::type_name(&story.journal()[sequence as usize]), "child.reported");
    story.does("job", complete(&json!({}))).stands(Status::Completed);
}

#[test]
fn a_child_that_fails_or_never_was_does_not_fail_the_node() {
    let story = begun().does("job", child("sub"));
    let refused = story.child_refused("job", Failure::new("workflow_not_found", "there is none"));
    let refused = refused.expect(["child.refused"]).node_is("job", NodePhase::Running);
    let WorkOutcome::Child { state: ChildState::Ended(_), .. } = refused.outcome("job", &child("sub")) else {
        panic!("it has ended")
    };
    let story = begun().does("job", child("sub"));
    let story = story.child_ends("job", Lifecycle::Failed, &json!({})).node_is("job", NodePhase::Running);
    story.does("job", complete(&json!({}))).stands(Status::Completed);
}

#[test]
fn what_is_waited_for_must_be_known() {
    let foreign = begun().does("job", ask(1)).run().interrupts().next().unwrap().requested.interrupt_id;
    for wait in [Wait::Sleep("nap".to_owned()), Wait::Child("sub".to_owned()), Wait::Interrupt(foreign)] {
        let story = begun().does("job", park([wait]));
        assert!(matches!(story.last_rejection(), Rejection::Invalid { .. }));
    }
    assert!(matches!(begun().does("job", park([])).last_rejection(), Rejection::Invalid { .. }));
}

#[test]
fn people_are_not_paid_for_by_the_runs_clock_and_sleeps_are() {
    let clocked = || working(work("job")).settings("timeout", json!(1_000));
    let story = Story::of(&clocked()).under(known()).start().does("job", ask(1));
    let waits = story.waits();
    let story = story.does("job", park(waits)).after(5_000).answer("job", &well());
    story.does("job", complete(&json!({}))).stands(Status::Completed);
    let story = Story::of(&clocked()).under(known()).start().does("job", sleep("nap", 5_000));
    let story = story.does("job", park([Wait::Sleep("nap".to_owned())]));
    story.after(1_000).fire_timer("run-timeout").stands(Status::Failed);
}

#[test]
fn a_run_that_ends_takes_a_parked_node_along() {
    let story = begun().does("job", ask(1)).does("job", sleep("nap", 9));
    let mut waits = story.waits();
    waits.push(Wait::Sleep("nap".to_owned()));
    story
        .does("job", park(waits))
        .cancel()
        .expect(["interrupt.resolved job", "node.cancelled job", "run.cancelled"])
        .stands(Status::Cancelled);
}
