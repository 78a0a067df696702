//! Tasks that wait because their run does, or the run that they stand for.

use abide_core::INTENT_SUSPENDED;
use abide_core::planning::{PlanState, TaskAct, TaskStatus};
use serde_json::json;

use super::story::{BEGIN, hours, key};
use super::*;

/// Both agents work, and one of them asks.
fn asked() -> Story {
    begun()
        .post(named("write"))
        .post(named("file"))
        .works_on("write", AGENT)
        .works_on("file", OTHER)
        .asks(AGENT, 1)
}

#[test]
fn oi_057_a_plan_stays_active_while_its_run_waits_for_people() {
    let story = begun().plan_out(of_new([named("write")])).activate().works_on("write", AGENT).asks(AGENT, 1);
    let story = story.stands(Status::WaitingInput);
    assert_eq!(story.the_plan().state, PlanState::Active);
    let version = story.the_plan().version;
    let id = story.question();
    let story = story.answer_well(id);
    assert_eq!((story.the_plan().state, story.the_plan().version), (PlanState::Active, version));
}

#[test]
fn oi_069_a_question_blocks_the_task_of_whoever_asks_in_the_same_decision() {
    asked()
        .expect(["interrupt.requested self", "clarification.requested self", "task.blocked"])
        .stands_at("write", TaskStatus::Blocked);
}

#[test]
fn oi_070_it_says_that_the_intent_is_suspended() {
    let story = asked();
    assert_eq!(story.of_name("write").blocked_reason(), Some(INTENT_SUSPENDED));
    assert_eq!(story.said("task.blocked")["reason"], json!("intent_suspended"));
}

#[test]
fn oi_071_it_names_the_run_that_waits() {
    let story = asked();
    assert_eq!(story.of_name("write").suspended_intent(), Some(key().id));
    let told = story.said("task.blocked");
    assert_eq!(told["suspendedIntentId"], json!(key().id));
    assert_eq!(told["interruptId"], json!(story.question()));
}

#[test]
fn oi_072_the_answer_lets_it_go_on() {
    let story = asked();
    let id = story.question();
    story
        .answer_well(id)
        .expect(["clarification.resolved self", "interrupt.resolved self", "task.unblocked"])
        .stands_at("write", TaskStatus::Running);
}

#[test]
fn oi_073_nothing_is_left_of_the_block() {
    let story = asked();
    let id = story.question();
    let story = story.answer_well(id);
    let task = story.of_name("write");
    assert_eq!((task.blocked_reason(), task.suspended_intent(), &task.blocked), (None, None, &None));
}

#[test]
fn oi_074_what_others_work_on_goes_on() {
    asked().stands_at("write", TaskStatus::Blocked).stands_at("file", TaskStatus::Running);
}

#[test]
fn oi_075_all_that_is_worked_on_waits_if_nobody_knows_who_asks() {
    let waits = workflow([
        workflow::delay("wait", hours(1)),
        of_kind("gate", "core.approvalGate").config("title", json!("Pay?")),
        of_kind("self", KIND),
    ])
    .flow("wait > gate");
    let story = Story::of(&waits)
        .under(around())
        .start()
        .post(named("write"))
        .post(named("file"))
        .post(named("later"))
        .works_on("write", AGENT)
        .works_on("file", OTHER)
        .after(hours(1))
        .fire("wait")
        .expect([
            "node.completed wait",
            "node.started gate",
            "interrupt.requested gate",
            "task.blocked",
            "task.blocked",
            "node.suspended gate",
        ])
        .stands_at("write", TaskStatus::Blocked)
        .stands_at("file", TaskStatus::Blocked)
        .stands_at("later", TaskStatus::Ready);
    story.answer("gate", &accept()).expect([
        "approval.received gate",
        "interrupt.resolved gate",
        "node.resumed gate",
        "node.completed gate",
        "task.unblocked",
        "task.unblocked",
    ]);
}

#[test]
fn a_gate_that_speaks_for_an_agent_blocks_what_that_works_on() {
    let gate =
        of_kind("gate", "core.approvalGate").config("title", json!("Pay?")).setting("agent", json!(OTHER));
    let waits =
        workflow([workflow::delay("wait", hours(1)), gate, of_kind("self", KIND)]).flow("wait > gate");
    Story::of(&waits)
        .under(around())
        .start()
        .post(named("write"))
        .post(named("file"))
        .works_on("write", AGENT)
        .works_on("file", OTHER)
        .after(hours(1))
        .fire("wait")
        .stands_at("write", TaskStatus::Running)
        .stands_at("file", TaskStatus::Blocked);
}

#[test]
fn oi_076_exactly_what_was_blocked_is_unblocked() {
    let story = begun()
        .post(named("write"))
        .post(named("print"))
        .works_on("write", AGENT)
        .works_on("print", AGENT)
        .act("print", TaskAct::Block { reason: "no ink".to_owned() })
        .asks(AGENT, 1)
        .stands_at("write", TaskStatus::Blocked);
    let id = story.question();
    let story =
        story.answer_well(id).stands_at("write", TaskStatus::Running).stands_at("print", TaskStatus::Blocked);
    assert_eq!(story.of_name("print").blocked_reason(), Some("no ink"));
}

#[test]
fn a_task_waits_for_all_that_its_agent_asked() {
    let story = asked();
    let first = story.question();
    let story = story.asks(AGENT, 2).expect([
        "interrupt.requested self",
        "clarification.requested self",
        "task.blocked",
    ]);
    let second = story.question();
    let story = story.answer_well(first).stands_at("write", TaskStatus::Blocked);
    story.answer_well(second).stands_at("write", TaskStatus::Running);
}

#[test]
fn nobody_unblocks_by_hand_what_waits_for_an_answer() {
    asked().act("write", TaskAct::Unblock).refused_for("answer the run's open question");
}

#[test]
fn oi_077_both_are_in_the_journal_with_the_task() {
    let story = asked();
    let (id, task) = (story.question(), json!(story.id_of("write")));
    let story = story.answer_well(id);
    assert_eq!(story.said("task.blocked")["taskId"], task);
    assert_eq!(story.said("task.unblocked")["taskId"], task);
}

#[test]
fn oi_078_what_waited_ends_with_its_run() {
    let asks = of_kind("ask", "core.hitl.ask-user")
        .config("question", json!("Well?"))
        .setting("ladder", json!({ "timeout_seconds": 60, "fallback_policy": "fail" }));
    let waits = workflow([workflow::delay("wait", 1_000), asks]).flow("wait > ask");
    let waiting = || {
        let story = Story::of(&waits).under(around()).start().post(named("write")).post(named("later"));
        story.works_on("write", AGENT).after(1_000).fire("wait").stands_at("write", TaskStatus::Blocked)
    };
    let story = waiting();
    let timer = format!("attempt/{}", story.question());
    let story = story
        .after(60_000)
        .fire_timer(&timer)
        .expect([
            "interrupt.expired ask",
            "interrupt.resolved ask",
            "node.resumed ask",
            "node.failed ask",
            "task.failed",
            "task.failed",
            "run.failed",
        ])
        .stands_at("write", TaskStatus::Failed)
        .stands_at("later", TaskStatus::Failed);
    let code = |failure: &Failure| failure.code.clone();
    assert_eq!(story.of_name("write").error.as_ref().map(code), story.run().error().map(code));
    assert_eq!(story.of_name("write").blocked, None);
    let story = waiting().cancel_because("portfolio_deadline_exceeded", "system:deadline").expect([
        "interrupt.resolved ask",
        "node.cancelled ask",
        "task.cancelled",
        "task.cancelled",
        "run.cancelled",
    ]);
    let story = story.stands_at("write", TaskStatus::Cancelled);
    assert_eq!(story.of_name("write").blocked, None);
}

#[test]
fn a_fallback_lets_it_go_on_as_an_answer_does() {
    let asks = of_kind("ask", "core.hitl.ask-user").config("question", json!("Well?")).setting(
        "ladder",
        json!({ "timeout_seconds": 60, "fallback_policy": "use_default_and_continue", "fallback_value": "fine" }),
    );
    let waits = workflow([workflow::delay("wait", 1_000), asks, of_kind("self", KIND)]).flow("wait > ask");
    let story = Story::of(&waits).under(around()).start().post(named("write")).works_on("write", AGENT);
    let story = story.after(1_000).fire("wait").stands_at("write", TaskStatus::Blocked);
    let timer = format!("attempt/{}", story.question());
    story.after(60_000).fire_timer(&timer).stands_at("write", TaskStatus::Running);
}

fn child(status: Status) -> Command {
    tells(status, Some(BEGIN + hours(9)))
}

#[test]
fn a_task_that_stands_for_another_run_goes_with_it() {
    let story = parenting()
        .post(standing_for("review", 9))
        .expect(["task.created", "task.ready"])
        .ask(child(Status::Running))
        .expect(["child.reported", "task.claimed", "task.started"])
        .ask(child(Status::WaitingInput))
        .expect(["child.reported", "task.blocked"])
        .ask(child(Status::WaitingInput))
        .expect(["child.reported"]);
    assert_eq!(story.of_name("review").suspended_intent(), Some(run_id(9)));
    let suspended = story.run().suspension_of(story.of_name("review")).unwrap();
    assert_eq!((suspended.intent_id, suspended.expires_at), (run_id(9), Some(BEGIN + hours(9))));
    let story = story
        .ask(child(Status::Running))
        .expect(["child.reported", "task.unblocked"])
        .ask(child(Status::Completed))
        .expect(["child.reported", "task.completed"])
        .ask(child(Status::Completed))
        .expect(["child.reported"]);
    assert_eq!(story.of_name("review").output.as_ref().map(Json::text), Some(r#"{"total":7}"#));
}
