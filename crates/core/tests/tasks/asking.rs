//! Questions of workers: who is told how often, by whom it is answered, and what becomes of them.

use super::*;
use abide_core::{InterruptId, NodePhase, Status, TimerId};

fn with_ladder(ladder: &Value) -> WorkOp {
    WorkOp::Ask(Box::new(WorkAsk { ladder: Some(Json::of(ladder)), ..question(1) }))
}

fn policy(value: &Value) -> HumanRetryPolicy {
    HumanRetryPolicy::read(&Json::of(value)).expect("the test's own policy is sound")
}

fn three() -> Value {
    json!({ "max_attempts": 3, "interval_seconds": 60, "escalation_ladder": [{ "attempt": 2, "channel_hint": "email" }] })
}

fn only(story: &Story) -> InterruptId {
    story.run().interrupts().next().expect("one is open").requested.interrupt_id
}

#[test]
fn a_call_has_a_ladder_of_its_own() {
    let story = begun().does("job", with_ladder(&json!({ "retry_policy": three() })));
    let told: Value = serde_json::from_str(&story.payload("interrupt.requested")).unwrap();
    assert_eq!(told["ladder"]["max_attempts"], 3);
    assert_eq!(told["ladder"]["levels"]["max_attempts"], "call");
}

#[test]
fn an_agents_own_policy_holds_when_the_call_gives_none() {
    let around = || {
        let agents = [(AGENT.to_owned(), policy(&three()))].into();
        Surroundings { agents, ..known() }
    };
    let story = Story::of(&working(work("job"))).under(around()).start().does("job", ask(1));
    let told: Value = serde_json::from_str(&story.payload("interrupt.requested")).unwrap();
    assert_eq!(told["ladder"]["max_attempts"], 3);
    assert_eq!(told["ladder"]["levels"]["max_attempts"], "agent");
    let own = json!({ "retry_policy": { "max_attempts": 2 } });
    let story = Story::of(&working(work("job"))).under(around()).start().does("job", with_ladder(&own));
    let told: Value = serde_json::from_str(&story.payload("interrupt.requested")).unwrap();
    assert_eq!(
        (&told["ladder"]["max_attempts"], &told["ladder"]["interval_seconds"]),
        (&json!(2), &json!(60))
    );
}

#[test]
fn reminders_use_no_attempt_of_the_agent_and_leave_it_the_node() {
    let named = work("job").setting("agent", json!(AGENT)).setting("retry", json!({ "maxRetries": 2 }));
    let story = Story::of(&working(named)).under(known()).start();
    let story = story.does("job", with_ladder(&json!({ "retry_policy": three() })));
    let (id, waits) = (only(&story), story.waits());
    let mut story = story.does("job", park(waits));
    for minute in 1..=2 {
        story = story.at(minute * 60_000).fire_timer(&TimerId::Attempt(id).to_string());
        story = story.stands(Status::WaitingInput).node_is("job", NodePhase::Suspended);
        let assignment = story.run().assignment("job").unwrap();
        assert_eq!((assignment.attempt, assignment.offered.agent.as_deref()), (1, Some(AGENT)));
    }
    assert_eq!(story.history().iter().filter(|line| line.starts_with("interrupt.renotified")).count(), 2);
    let story = story.answer("job", &well());
    assert_eq!((story.offered().attempt, story.offered().agent.as_deref()), (1, Some(AGENT)));
}

#[test]
fn an_agent_that_wants_to_be_called_is_called_at_each_attempt_and_at_the_end() {
    let ask = |on: &[HookKind]| {
        let ladder = Some(Json::of(&json!({ "retry_policy": three() })));
        WorkOp::Ask(Box::new(WorkAsk { ladder, hooks: on.to_vec(), ..question(1) }))
    };
    let hooks = |story: &Story| -> Vec<(HookKind, u32)> {
        let effects = story.step().effects.iter();
        effects
            .filter_map(
                |effect| if let Effect::Hook(hook) = effect { Some((hook.kind, hook.attempt)) } else { None },
            )
            .collect()
    };
    let story = begun().does("job", ask(&HookKind::ALL));
    assert_eq!(hooks(&story), [(HookKind::InputRequested, 1)]);
    let timer = TimerId::Attempt(only(&story)).to_string();
    let mut story = story;
    for minute in 1..=2 {
        story = story.at(minute * 60_000).fire_timer(&timer);
        assert_eq!(hooks(&story), [(HookKind::InputRequested, minute as u32 + 1)]);
    }
    let answered = story.clone().answer("job", &well());
    assert_eq!(hooks(&answered), [(HookKind::InputReceived, 3)]);
    let expired = story.at(180_000).fire_timer(&timer);
    assert_eq!(hooks(&expired), [(HookKind::SuspensionExpired, 3)]);
    // Whoever does not want to be called is not.
    let quiet = begun().does("job", ask(&[])).at(60_000);
    assert_eq!(hooks(&quiet), []);
}

#[test]
fn a_question_that_nobody_answers_is_told_as_such() {
    let story =
        begun().does("job", with_ladder(&json!({ "timeout_seconds": 60, "fallback_policy": "fail" })));
    let (id, waits) = (only(&story), story.waits());
    let story = story.does("job", park(waits)).at(60_000).fire_timer(&TimerId::Attempt(id).to_string());
    let story = story.node_is("job", NodePhase::Running);
    let AskState::Failed { failure, .. } = story.answer_told("job", &ask(1)) else {
        panic!("nobody answered")
    };
    assert_eq!(failure.code, "input_timeout");
    // It is the worker's to say what follows.
    story.does("job", ask(1)).expect([]).does("job", complete(&json!({}))).stands(Status::Completed);
}

#[test]
fn a_fallback_is_the_answer_to_the_only_question() {
    let ladder =
        json!({ "timeout_seconds": 60, "fallback_policy": "complete_with_fallback", "fallback_value": "no" });
    let story = begun().does("job", with_ladder(&ladder));
    let id = only(&story);
    let story = story.at(60_000).fire_timer(&TimerId::Attempt(id).to_string());
    let AskState::Answered { value, .. } = story.answer_told("job", &ask(1)) else {
        panic!("there is a fallback")
    };
    assert_eq!(value.text(), r#""no""#);
}

#[test]
fn whoever_waits_when_the_run_is_cancelled_is_told_so() {
    let story = begun().does("job", ask(1)).cancel();
    assert!(story.step().effects.iter().any(|effect| matches!(effect, Effect::Wake(_))));
    let story = story.does("job", ask(1)).expect([]);
    let AskState::Failed { failure, .. } = story.answer_told("job", &ask(1)) else {
        panic!("it was cancelled")
    };
    assert_eq!(failure.code, "interrupt_cancelled");
}

#[test]
fn a_node_that_ends_leaves_none_of_its_questions_open() {
    let story = begun().does("job", ask(1)).does("job", complete(&json!({})));
    let story = story.expect([
        "interrupt.resolved job",
        "node.completed job",
        "node.started next",
        "node.completed next",
        "run.completed",
    ]);
    assert_eq!(story.run().interrupts().count(), 0);
    let story = begun().does("job", ask(1));
    let id = only(&story);
    let story = story.does("job", trouble(FailureClass::Validation, false, false)).stands(Status::Failed);
    story.answer_to(id, &well(), "bob").refused(&Rejection::InterruptGone);
}

#[test]
fn a_question_stays_open_while_the_next_attempt_is_waited_for() {
    let retried =
        work("job").setting("retry", json!({ "maxRetries": 1, "baseDelayMs": 10, "jitter": false }));
    let story = Story::of(&working(retried)).under(known()).start().does("job", ask(1));
    let story = story.does("job", trouble(FailureClass::Tool, true, false)).expect(["node.retried job"]);
    let story = story.answer("job", &well()).node_is("job", NodePhase::Waiting);
    let story = story.after(10).fire_timer("retry/1/job").does("job", ask(1)).expect([]);
    let AskState::Answered { .. } = story.answer_told("job", &ask(1)) else { panic!("it was answered") };
}

#[test]
fn code_that_asks_for_something_else_at_the_same_place_is_told() {
    let other = || {
        let payload = Json::of(&json!({ "kind": "custom", "data": { "customKind": "any", "payload": {} } }));
        WorkOp::Ask(Box::new(WorkAsk { payload, single: false, ..question(1) }))
    };
    let story = begun().does("job", ask(1)).does("job", other()).refused_as("interrupt_key_conflict");
    let story = story.answer("job", &well());
    story.does("job", other()).refused_as("interrupt_key_conflict");
}

#[test]
fn a_question_that_makes_no_sense_is_refused_and_the_worker_keeps_the_task() {
    let bad = |payload: Value| WorkOp::Ask(Box::new(WorkAsk { payload: Json::of(&payload), ..question(1) }));
    for payload in [json!({}), json!({ "kind": "guess", "data": {} }), json!([1])] {
        let story = begun().does("job", bad(payload));
        assert!(matches!(story.last_rejection(), Rejection::Invalid { .. }));
        story.does("job", complete(&json!({}))).stands(Status::Completed);
    }
    let story = begun().does("job", with_ladder(&json!({ "retry_policy": { "max_attempts": 0 } })));
    assert!(matches!(story.last_rejection(), Rejection::Invalid { .. }));
    let story = begun().does("job", with_ladder(&json!({ "retry_policy": { "max_attempts": 2 } })));
    story.refused_as("invalid_ladder");
}

#[test]
fn a_worker_may_say_who_answers() {
    let asked = WorkAsk { respondents: Some(vec!["group:finance".to_owned()]), ..question(1) };
    let story = begun().does("job", WorkOp::Ask(Box::new(asked)));
    assert!(story.payload("interrupt.requested").contains(r#""respondents":["group:finance"]"#));
}

fn named(key: &str) -> WorkOp {
    WorkOp::Ask(Box::new(WorkAsk { key: Some(key.to_owned()), ..question(1) }))
}

#[test]
fn a_question_that_another_worker_asks_too_outlives_the_node_that_asked_first() {
    let two = Story::of(&workflow([work("one"), work("two")])).under(known()).start();
    let story = two.does("one", named("budget")).does("two", named("budget")).expect([]);
    let id = only(&story);
    let story = story.does("one", complete(&json!({})));
    let answered = story.clone().answer_to(id, &well(), "bob");
    let AskState::Answered { .. } = answered.answer_told("two", &named("budget")) else {
        panic!("it was answered")
    };
    // When nobody is left that could wait for it, it is closed.
    let story = story.does("two", complete(&json!({}))).stands(Status::Completed);
    assert_eq!(story.run().interrupts().count(), 0);
}

#[test]
fn a_question_that_was_closed_with_its_node_can_be_asked_anew() {
    let flow = workflow([work("one"), work("two")]).flow("one > two");
    let story = Story::of(&flow).under(known()).start().does("one", named("budget"));
    let story = story.does("one", complete(&json!({}))).does("two", named("budget"));
    let AskState::Open { id, .. } = story.answer_told("two", &named("budget")) else {
        panic!("nobody was asked on behalf of this node")
    };
    let story = story.answer_to(id, &well(), "bob").does("two", complete(&json!({})));
    story.stands(Status::Completed);
}
