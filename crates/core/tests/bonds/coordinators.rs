//! Coordinators: a lease that is over commands nothing, and people are asked about what is suspended, once.

use abide_core::{
    BondCommand, Command, CoordinatorCommand, CoordinatorStatus, Effect, GroupCommand, GroupSpec,
    MemberAdded, MemberRow, Registration, Rejection, Role, Run, RunId, Start, Status, Suspension, TenantId,
    Tidings, limits,
};

use crate::phases::flow;
use crate::story::{BEGIN, hours};
use crate::world::World;

fn lead(policy: &str) -> Registration {
    Registration {
        agent: "lead".to_owned(),
        suspension_policy: Some(policy.to_owned()),
        heartbeat_interval_ms: Some(limits::HEARTBEAT_INTERVAL_MS_MAX),
        ..Registration::default()
    }
}

fn coordinate(world: &mut World, name: &str, command: CoordinatorCommand) -> Result<(), Rejection> {
    world.ask(name, Command::Coordinator(Box::new(command)))
}

fn lease(world: &World, name: &str) -> String {
    world.run(name).held_lease().expect("somebody has it").0.to_owned()
}

/// The questions about what is suspended.
fn asked(world: &World, name: &str) -> usize {
    world.run(name).interrupts().filter(|open| open.requested.topic.is_some()).count()
}

#[test]
fn a_lease_that_is_over_commands_nothing_though_its_timer_is_late() {
    let mut world = flow();
    let until = Registration { expires_at: Some(BEGIN + hours(1)), ..lead("block_dependents") };
    coordinate(&mut world, "flow", CoordinatorCommand::Register(until.clone())).expect("nobody has it");
    let id = lease(&world, "flow");
    world.later(hours(1) - 1).stall(1);
    let commands = [
        CoordinatorCommand::Heartbeat { id: id.clone() },
        CoordinatorCommand::Pause { id: id.clone(), reason: None },
        CoordinatorCommand::SetPolicy { id: id.clone(), suspension_policy: "escalate".to_owned() },
        CoordinatorCommand::Complete { id: id.clone() },
    ];
    for command in commands {
        let refused = coordinate(&mut world, "flow", command.clone());
        assert!(matches!(refused, Err(Rejection::Invalid { .. })), "{command:?}: {refused:?}");
    }
    let other = Registration { agent: "other".to_owned(), expires_at: None, ..until };
    coordinate(&mut world, "flow", CoordinatorCommand::Register(other)).expect("it is over");
    let status = world.run("flow").coordinator(&id).expect("it is remembered").status;
    assert_eq!(status, CoordinatorStatus::FailedOver);
    assert_eq!(world.run("flow").held_lease().map(|(_, lease)| lease.agent.as_str()), Some("other"));
    world.settle();
}

#[test]
fn people_are_asked_once_while_questions_follow_each_other() {
    let mut world = World::new();
    world.begin("asks").claim("asks");
    coordinate(&mut world, "asks", CoordinatorCommand::Register(lead("escalate"))).expect("nobody has it");
    world.asks("asks").settle();
    assert_eq!(asked(&world, "asks"), 1);
    let since = world.run("asks").suspension().expect("it waits").since;
    world.later(hours(1)).answer("asks").settle();
    assert_eq!((asked(&world, "asks"), world.run("asks").suspension()), (0, None));
    world.asks("asks").settle();
    assert_eq!(world.run("asks").suspension().map(|it| it.since), Some(since + hours(1)), "another time");
    assert_eq!(asked(&world, "asks"), 1);
}

/// A group by itself, without a world that looks at all of it after each word.
struct Alone(Run);

impl Alone {
    fn does(&mut self, command: Command) -> Vec<Effect> {
        self.0.decide(command, BEGIN).expect("it makes sense").effects
    }

    /// A member tells whether it waits for people. The answer is what the group does about that.
    fn hears(&mut self, run: RunId, sequence: u64, waits: bool) -> Vec<Effect> {
        let status = |waits| if waits { Status::WaitingInput } else { Status::Running };
        let suspended = waits.then_some(Suspension { since: BEGIN, expires_at: None });
        let known = MemberRow {
            run,
            role: Role::Member,
            priority: 0,
            added_at: BEGIN,
            status: status(sequence == 3 && !waits),
            suspended: None,
            cost_micros: 0,
            heard: sequence - 1,
        };
        let tidings = Tidings { sequence, status: status(waits), suspended, ..Tidings::of_nobody(run) };
        self.does(Command::Bond(Box::new(BondCommand::Hear { tidings, known: Some(known) })))
    }
}

#[test]
fn members_for_which_there_was_no_room_are_asked_again_once_there_is_some() {
    let spec = GroupSpec { name: "crowd".to_owned(), ..GroupSpec::default() };
    let start = Start::group(RunId::from_bytes([1; 16]).of(TenantId(1)), [2; 16], spec);
    let mut group = Alone(Run::start(start, BEGIN).expect("the group is accepted").0);
    group.does(Command::Coordinator(Box::new(CoordinatorCommand::Register(lead("escalate")))));
    let most = limits::COORDINATED_SUSPENDED_MAX as u128;
    let member = |number: u128| RunId::from_bytes((number + 1).to_be_bytes());
    for number in 0..=most {
        let added = MemberAdded {
            run: member(number),
            role: Role::Member,
            priority: 0,
            status: Status::Running,
            sequence: 1,
            by: None,
        };
        group.does(Command::Group(Box::new(GroupCommand::Add { member: added, known: None })));
        group.hears(member(number), 2, true);
    }
    let asked = |group: &Alone| group.0.interrupts().count();
    assert_eq!(asked(&group), limits::COORDINATED_SUSPENDED_MAX, "the last finds no room");
    let asks = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::BidAll(_)));
    for number in 1..most / 2 {
        assert!(!asks(&group.hears(member(number), 3, false)), "after {number}");
    }
    assert!(asks(&group.hears(member(0), 3, false)), "all are asked, once, when half of them have gone on");
    let before = asked(&group);
    group.hears(member(most), 3, true);
    assert_eq!(asked(&group), before + 1);
}

#[test]
fn what_was_asked_about_suspensions_leaves_nothing_behind() {
    let mut world = World::new();
    world.begin("asks").claim("asks");
    coordinate(&mut world, "asks", CoordinatorCommand::Register(lead("escalate"))).expect("nobody has it");
    let mut sizes = Vec::new();
    for _ in 0..4 {
        world.asks("asks").settle().answer("asks").settle().later(hours(1));
        let lost = world.run("asks").snapshot();
        sizes.push(String::from_utf8_lossy(&lost).matches("suspension-ended").count());
    }
    assert_eq!(sizes, [0, 0, 0, 0]);
}
