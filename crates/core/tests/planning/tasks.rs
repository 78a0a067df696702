//! A task by itself: from when it is posted until it is done.

use abide_core::planning::{PlanCommand, TaskAct, TaskStatus};
use abide_core::{Json, Rejection};
use serde_json::json;

use super::*;

#[test]
fn a_task_is_posted_claimed_begun_and_done() {
    let story = begun()
        .post(NewTask { input: Some(Json::of(&json!({ "pages": 3 }))), ..named("write") })
        .expect(["task.created", "task.ready"])
        .claim("write", AGENT)
        .expect(["task.claimed"])
        .after(5)
        .act("write", TaskAct::Start)
        .expect(["task.started"])
        .act("write", TaskAct::Progress { progress: Json::of(&json!(0.5)) })
        .expect(["task.progress"])
        .after(5)
        .act("write", TaskAct::Complete { output: Some(Json::of(&json!({ "text": "…" }))) })
        .expect(["task.completed"]);
    let task = story.of_name("write");
    assert_eq!(task.output.as_ref().map(Json::text), Some(r#"{"text":"…"}"#));
    assert_eq!(task.assigned_agent.as_deref(), Some(AGENT));
    assert_eq!(task.started_at, Some(story::BEGIN + 5));
    assert_eq!(task.completed_at, Some(story::BEGIN + 10));
    assert_eq!(task.version, 6, "every change counts");
}

#[test]
fn one_that_was_only_claimed_is_begun_as_it_is_done() {
    begun().post(named("write")).does_task("write").expect(["task.started", "task.completed"]);
    begun().post(named("write")).fails_task("write").expect(["task.started", "task.failed"]);
}

#[test]
fn what_an_agent_gives_back_another_may_have() {
    let story =
        begun().post(named("write")).claim("write", AGENT).act("write", TaskAct::Release { reason: None });
    let story = story.expect(["task.released"]).stands_at("write", TaskStatus::Ready).claim("write", OTHER);
    assert_eq!(story.of_name("write").assigned_agent.as_deref(), Some(OTHER));
}

#[test]
fn a_task_is_ready_when_all_that_it_depends_on_is_done() {
    let story = begun().post(named("one")).post(named("two"));
    let (one, two) = (story.id_of("one").to_string(), story.id_of("two").to_string());
    story
        .post(behind("both", &[&one, &two]))
        .expect(["task.created"])
        .does_task("one")
        .expect(["task.started", "task.completed"])
        .stands_at("both", TaskStatus::Pending)
        .act("two", TaskAct::Skip { reason: Some("not needed".to_owned()) })
        .expect(["task.skipped", "task.ready"]);
}

#[test]
fn a_chain_is_let_go_on_in_one_decision() {
    let story = begun().post(named("one"));
    let one = story.id_of("one").to_string();
    let story = story.post(behind("two", &[&one])).post(behind("three", &[&one]));
    story.does_task("one").expect(["task.started", "task.completed", "task.ready", "task.ready"]);
}

#[test]
fn what_will_never_be_done_leaves_those_behind_it_pending_and_says_why() {
    for ending in [TaskAct::Cancel { reason: None }, TaskAct::Fail { error: failure() }] {
        let story = begun().post(named("one"));
        let one = story.id_of("one").to_string();
        let story = story.post(behind("two", &[&one])).works_on("one", AGENT).act("one", ending);
        let story = story.stands_at("two", TaskStatus::Pending);
        let told = story.run().held_back(story.of_name("two")).expect("something holds it back");
        assert!(told.contains("'one'") && (told.contains("cancelled") || told.contains("failed")), "{told}");
    }
}

#[test]
fn a_failed_task_is_tried_again_as_often_as_it_may() {
    let story = begun()
        .post(NewTask { max_attempts: Some(2), ..named("write") })
        .fails_task("write")
        .act("write", TaskAct::Retry)
        .expect(["task.retrying"])
        .stands_at("write", TaskStatus::Ready);
    assert_eq!((story.of_name("write").attempt, &story.of_name("write").assigned_agent), (2, &None));
    story
        .fails_task("write")
        .act("write", TaskAct::Retry)
        .refused_for("as often as it may be")
        .stands_at("write", TaskStatus::Failed);
}

#[test]
fn a_task_that_somebody_blocked_goes_on_when_somebody_says_so() {
    let story = begun()
        .post(named("write"))
        .works_on("write", AGENT)
        .act("write", TaskAct::Block { reason: "no ink".to_owned() })
        .expect(["task.blocked"]);
    assert_eq!(story.of_name("write").blocked_reason(), Some("no ink"));
    assert_eq!(story.of_name("write").suspended_intent(), None);
    let why = story.run().why();
    let reason = why.reasons.iter().find(|reason| reason.kind == "task").expect("it is told");
    assert!(reason.what.contains("no ink"), "{}", reason.what);
    let story = story.act("write", TaskAct::Unblock).expect(["task.unblocked"]);
    assert_eq!(story.of_name("write").blocked, None);
}

#[test]
fn whoever_was_slower_is_told() {
    let story = begun().post(named("write"));
    let (id, version) = (story.id_of("write"), Some(story.of_name("write").version));
    let claim = |agent: &str| {
        let act = TaskAct::Claim { agent: agent.to_owned() };
        plan_command(PlanCommand::Task { id, version, agent: None, act, by: None })
    };
    story
        .ask(claim(AGENT))
        .expect(["task.claimed"])
        .ask(claim(OTHER))
        .refused(&Rejection::VersionConflict { expected: 2, found: 3 });
}

#[test]
fn ids_are_the_runs_own_and_differ_from_each_other() {
    let story = begun().post(named("one")).post(named("one"));
    let ids: Vec<String> = story.run().tasks_posted().map(|task| task.id.to_string()).collect();
    assert!(ids.iter().all(|id| id.starts_with("task-")) && ids[0] != ids[1]);
    assert_eq!(story.run().posted_task(ids[1].parse().unwrap()).unwrap().id.to_string(), ids[1]);
}

#[test]
fn a_task_may_be_for_one_agent_alone() {
    let task = NewTask { agent: Some(OTHER.to_owned()), ..named("write") };
    begun()
        .post(task)
        .claim("write", AGENT)
        .refused_for("another agent")
        .claim("write", OTHER)
        .expect(["task.claimed"]);
}

#[test]
fn nothing_of_a_held_run_is_claimed() {
    let story = begun().post(named("write")).hold(abide_core::HoldMode::Pause);
    story
        .claim("write", AGENT)
        .refused_for("somebody holds the run")
        .release()
        .claim("write", AGENT)
        .expect(["task.claimed"]);
}
