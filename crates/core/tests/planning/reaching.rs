//! Tasks and plans that are brought where somebody wants them, by whatever has to be done for that.

use abide_core::planning::{PlanState, PlanWish, TaskWish};

use super::world::World;
use super::*;

/// A run with one task.
fn posted() -> World {
    let mut world = World::new();
    world.begin("run");
    world.accept("run", plan_command(PlanCommand::CreateTask { task: Box::new(named("write")), by: None }));
    world
}

fn task(world: &World) -> &Task {
    world.run("run").tasks_posted().last().expect("a task is posted")
}

fn wish(status: &str) -> TaskWish {
    TaskWish { status: Some(status.to_owned()), asking: AGENT.to_owned(), ..TaskWish::default() }
}

fn reach(world: &mut World, wish: TaskWish) -> Result<TaskStatus, Rejection> {
    let (id, version) = (task(world).id, Some(task(world).version));
    let command = PlanCommand::ReachTask { id, version, wish: Box::new(wish), by: None };
    world.ask("run", plan_command(command)).map(|()| task(world).status)
}

#[test]
fn a_task_goes_where_somebody_wants_it() {
    let mut world = posted();
    assert_eq!(reach(&mut world, wish("running")), Ok(TaskStatus::Running));
    assert_eq!(task(&world).assigned_agent.as_deref(), Some(AGENT));
    let blocked = TaskWish { reason: Some("paper".to_owned()), ..wish("blocked") };
    assert_eq!(reach(&mut world, blocked), Ok(TaskStatus::Blocked));
    assert_eq!(reach(&mut world, wish("running")), Ok(TaskStatus::Running));
    assert_eq!(reach(&mut world, wish("failed")), Ok(TaskStatus::Failed));
    assert_eq!(reach(&mut world, wish("ready")), Ok(TaskStatus::Ready));
    let given = TaskWish { agent: Some("other".to_owned()), ..TaskWish::default() };
    assert_eq!(reach(&mut world, given), Ok(TaskStatus::Claimed));
    assert_eq!(reach(&mut world, wish("ready")), Ok(TaskStatus::Ready));
    assert_eq!(reach(&mut world, wish("skipped")), Ok(TaskStatus::Skipped));
}

#[test]
fn and_nowhere_that_it_can_not_get_to() {
    let mut world = posted();
    for impossible in ["completed", "failed", "blocked", "pending"] {
        let refused = reach(&mut world, wish(impossible));
        assert!(matches!(refused, Err(Rejection::IllegalTransition(_))), "{impossible}: {refused:?}");
    }
    for nonsense in [wish("done"), TaskWish::default()] {
        let refused = reach(&mut world, nonsense);
        assert!(
            matches!(&refused, Err(Rejection::Invalid { field, .. }) if field == "status"),
            "{refused:?}"
        );
    }
    let id = task(&world).id;
    let stale = PlanCommand::ReachTask { id, version: Some(99), wish: Box::new(wish("running")), by: None };
    let refused = world.ask("run", plan_command(stale));
    assert!(matches!(refused, Err(Rejection::VersionConflict { expected: 99, .. })), "{refused:?}");
}

#[test]
fn a_plan_goes_where_somebody_wants_it_and_does_not_end_by_hand() {
    let mut world = posted();
    let tasks = vec![PlanTask::Posted(task(&world).id.to_string())];
    let plan = Box::new(NewPlan { tasks, ..NewPlan::default() });
    world.accept("run", plan_command(PlanCommand::CreatePlan { plan, by: None }));
    let mut reach = |state: &str| {
        let id = world.run("run").plans().last().expect("a plan is posted").id;
        let wish = PlanWish { state: state.to_owned(), reason: None };
        let command = PlanCommand::ReachPlan { id, version: None, wish, by: None };
        world
            .ask("run", plan_command(command))
            .map(|()| world.run("run").plan(id).expect("it is there").state)
    };
    assert_eq!(reach("draft"), Ok(PlanState::Draft));
    for state in [PlanState::Active, PlanState::Paused, PlanState::Active] {
        assert_eq!(reach(state.name()), Ok(state));
    }
    for impossible in ["draft", "completed", "failed"] {
        let refused = reach(impossible);
        assert!(matches!(refused, Err(Rejection::IllegalTransition(_))), "{impossible}: {refused:?}");
    }
    assert_eq!(reach("cancelled"), Ok(PlanState::Cancelled));
}
