//! What may be read of a plan.

use abide_core::planning::TaskStatus;
use serde_json::json;

use super::story::{BEGIN, key};
use super::*;

fn planned() -> Story {
    begun().plan_out(of_new([named("write"), named("file"), behind("send", &["write"])])).activate()
}

#[track_caller]
fn progress(story: &Story) -> abide_core::planning::PlanProgress {
    story.run().plan_progress(story.plan_id()).expect("the plan is there")
}

#[test]
fn oi_089_what_waits_is_a_list_that_is_there_even_if_nothing_does() {
    let story = planned();
    assert_eq!(progress(&story).suspended_tasks, []);
    let story = story.works_on("write", AGENT).asks(AGENT, 1);
    assert_eq!(progress(&story).suspended_tasks.len(), 1);
}

#[test]
fn oi_090_each_entry_says_what_waits_for_whom_since_when_and_until_when() {
    let limited = json!({ "max_attempts": 3, "interval_seconds": 3600 });
    let story = Story::of(&driven()).under(reminding(&limited)).start();
    let story = story
        .plan_out(of_new([named("write")]))
        .activate()
        .works_on("write", AGENT)
        .after(60_000)
        .asks(AGENT, 1);
    let told = progress(&story).suspended_tasks[0];
    assert_eq!((told.task_id, told.intent_id), (story.id_of("write"), key().id));
    assert_eq!(
        (told.suspended_since, told.expires_at),
        (BEGIN + 60_000, Some(BEGIN + 60_000 + 3 * 3_600_000))
    );
}

#[test]
fn oi_093_entries_vanish_with_the_answer_and_have_no_end_if_the_question_has_none() {
    let story = planned().works_on("write", AGENT).asks(AGENT, 1);
    assert_eq!(progress(&story).suspended_tasks[0].expires_at, None);
    let id = story.question();
    assert_eq!(progress(&story.answer_well(id)).suspended_tasks, []);
}

#[test]
fn tasks_are_counted_by_where_they_stand() {
    let story = planned().does_task("write");
    let told = progress(&story);
    assert_eq!((told.total, told.completion_percentage), (3, 33));
    assert_eq!(told.by_status.len(), TaskStatus::ALL.len());
    assert_eq!((told.by_status[&TaskStatus::Completed], told.by_status[&TaskStatus::Ready]), (1, 2));
    assert_eq!(progress(&begun().plan_out(NewPlan::default())).completion_percentage, 0);
}
