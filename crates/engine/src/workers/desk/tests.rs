//! What becomes of tasks and calls when things happen at the same time.

use abide_core::{Effect, InterruptId, Key, Offer, RunId, TaskId};
use abide_store::{HookRow, KindRow};

use super::*;

const TENANT: TenantId = TenantId(1);
const KIND: &str = "acme.work";
const AGENT: &str = "scribe";

fn session(n: u8) -> SessionId {
    SessionId::from_bytes([n; 16])
}

fn seat(n: u8) -> Seat {
    (TENANT, session(n))
}

fn worker(n: u8, capacity: usize) -> NewSession {
    let kind = KindRow {
        tenant: TENANT,
        kind: KIND.to_owned(),
        agent: AGENT.to_owned(),
        idempotent: false,
        reversible: None,
        timeout_ms: None,
        code_version: None,
        registered_at: 0,
    };
    NewSession {
        tenant: TENANT,
        id: session(n),
        agent: AGENT.to_owned(),
        kinds: vec![kind],
        capacity,
        labels: BTreeMap::new(),
        hooks: HookKind::ALL.to_vec(),
        code_version: None,
        sdk: None,
        holding: Vec::new(),
    }
}

fn run(n: u8) -> Key {
    RunId::from_bytes([n; 16]).of(TENANT)
}

fn task() -> TaskId {
    TaskId { node: "job".into(), execution: 1 }
}

fn spot(n: u8) -> Spot {
    Place::of(run(n), &task())
}

fn offer(fence: u64) -> Effect {
    let (kind, agent) = (KIND.into(), None);
    Effect::Offer(Offer {
        task: task(),
        fence,
        kind,
        agent,
        attempt: 1,
        timeout_ms: None,
        at: 0,
        held: false,
    })
}

/// A task as it lies on disk.
fn row(n: u8, held: Option<SessionId>) -> WorkRow {
    WorkRow {
        key: run(n),
        task: task(),
        kind: KIND.into(),
        agent: None,
        fence: 1,
        attempt: 1,
        timeout_ms: None,
        queued_at: 0,
        held: held.map(|session| (session, 0)),
        called_off: false,
    }
}

impl Desk {
    fn open(rows: Vec<WorkRow>) -> Self {
        let mut desk = Self::new(1, false);
        assert!(desk.settle(rows, 0).is_empty());
        desk
    }

    fn comes(&mut self, worker: &NewSession) {
        assert!(self.register(worker, 0).is_ok());
    }

    /// A commit with these effects becomes durable.
    fn commit(&mut self, n: u8, effects: &[Effect]) -> Chores {
        let reservation = self.reserve(run(n), effects);
        self.carry_out(run(n), effects, &reservation, 0)
    }

    fn room(&self, n: u8) -> usize {
        self.sessions[&seat(n)].room()
    }
}

#[test]
fn what_was_called_off_before_its_worker_heard_of_it_is_lost_when_the_worker_goes() {
    let mut desk = Desk::open(Vec::new());
    desk.comes(&worker(1, 1));
    desk.commit(7, &[offer(1)]);
    assert!(desk.commit(7, &[Effect::CallOff(task())]).is_empty(), "the worker is told");
    // Nobody claims what was called off, so it would be nobody's for ever if it went back to the others.
    let chores = desk.leave(seat(1)).unwrap();
    assert!(chores.unclaim.is_empty());
    assert_eq!(chores.lose.iter().map(|lost| lost.spot.clone()).collect::<Vec<_>>(), [spot(7)]);
}

#[test]
fn what_is_over_when_a_worker_comes_back_takes_none_of_its_room() {
    let mut desk = Desk::open(vec![row(7, Some(session(1)))]);
    desk.comes(&worker(2, 1));
    // It is lost before the first is heard of again, and goes to another.
    assert!(desk.commit(7, &[Effect::Withdraw(task()), offer(2)]).is_empty());
    assert_eq!(desk.fence(seat(2), &spot(7).1), Some(2));
    desk.comes(&worker(1, 1));
    assert_eq!(desk.room(1), 1);
    // And when the first goes it takes nothing along that is the other's.
    assert!(desk.leave(seat(1)).unwrap().is_empty());
    assert_eq!(desk.fence(seat(2), &spot(7).1), Some(2));
}

fn call(attempt: u32) -> HookRow {
    let interrupt = InterruptId::from_bytes([3; InterruptId::BYTES]);
    let id = HookId { run: run(7).id, interrupt, hook: HookKind::InputRequested, attempt };
    HookRow { tenant: TENANT, id, agent: AGENT.to_owned(), queued_at: 0, due: 0, tries: 0 }
}

#[test]
fn a_call_that_ends_while_the_calls_are_read_is_not_made_again() {
    let mut desk = Desk::open(Vec::new());
    desk.comes(&worker(1, 1));
    let agent: Agent = (TENANT, AGENT.to_owned());
    assert_eq!(desk.agents_to_call(0).len(), 1);
    desk.place_calls(&agent, vec![call(1)], 0);
    desk.call(agent.clone());
    assert_eq!(desk.agents_to_call(0).len(), 1);
    // Both are on disk when they are read, and the first is done before they are placed.
    desk.end_call(agent.clone(), call(1).id);
    desk.place_calls(&agent, vec![call(1), call(2)], 0);
    assert!(desk.call_of(seat(1), call(1).id).is_none());
    assert!(desk.call_of(seat(1), call(2).id).is_some());
    // One that failed is on disk still, and has its next try when it is read again.
    assert_eq!(desk.agents_to_call(0).len(), 1);
    desk.place_calls(&agent, vec![call(1), call(2)], 0);
    assert!(desk.call_of(seat(1), call(1).id).is_some());
}

#[test]
fn a_worker_that_comes_and_goes_leaves_nothing_behind() {
    let mut desk = Desk::open(vec![row(7, Some(session(1)))]);
    for round in 0..100 {
        let kind = if round % 2 == 0 { KIND } else { "acme.other" };
        let mut worker = worker(1, 8);
        worker.kinds[0].kind = kind.to_owned();
        desk.comes(&worker);
        if round % 3 == 0 {
            desk.leave(seat(1)).unwrap();
        }
    }
    assert!(desk.due.len() <= 2, "{} things are due", desk.due.len());
    assert!(desk.ready.values().all(|ready| ready.len() <= 1));
}

#[test]
fn a_worker_whose_line_broke_off_gets_nothing_and_gives_back_what_it_has_not_heard_of() {
    let mut desk = Desk::open(Vec::new());
    desk.comes(&worker(1, 4));
    desk.open_line(seat(1), 0).unwrap();
    desk.commit(7, &[offer(1)]);
    desk.letters(seat(1), 0, 9).unwrap();
    desk.commit(8, &[offer(1)]);
    let chores = desk.close_line(seat(1), 0, false);
    let back: Vec<Place> = chores.unclaim.iter().map(|untold| untold.holding.place.clone()).collect();
    assert_eq!((back, chores.lose.len()), (vec![spot(8).1], 0), "what it was told of is its own for a lease");
    desk.comes(&worker(2, 1));
    desk.commit(9, &[offer(1)]);
    assert_eq!((desk.room(1), desk.room(2)), (0, 0), "the one that is there has the task");
    // It is there after all.
    assert!(desk.touch(seat(1), 0));
    assert_eq!(desk.room(1), 3);
    desk.commit(10, &[offer(1)]);
    assert_eq!(desk.holder(&spot(10)).map(|holder| holder.session), Some(session(1)));
}

#[test]
fn what_a_worker_took_and_does_not_have_any_more_is_forgotten() {
    let mut desk = Desk::open(vec![row(7, Some(session(1)))]);
    // It comes back after a start of the server: whether it ever took the task is not known, so it is told again.
    assert!(desk.register(&worker(1, 2), 0).unwrap().1.is_empty());
    let letters = desk.letters(seat(1), 0, 10).unwrap();
    let [(n, Letter::Task(told))] = letters.as_slice() else { panic!("{letters:?}") };
    // As long as it has not said that it took the letter, it gets the same one again.
    assert!(desk.register(&worker(1, 2), 0).unwrap().1.is_empty());
    desk.acknowledge(seat(1), *n);
    let holding = NewSession { holding: vec![told.clone()], ..worker(1, 2) };
    assert!(desk.register(&holding, 0).unwrap().1.is_empty(), "it still has it");
    let (_, chores) = desk.register(&worker(1, 2), 0).unwrap();
    let lost: Vec<_> = chores.lose.iter().map(|lost| (lost.spot.clone(), lost.reason)).collect();
    assert_eq!(lost, [(spot(7), Loss::Forgotten)]);
    assert!(desk.register(&worker(1, 2), 0).unwrap().1.is_empty(), "it is lost once");
}

/// A desk of one of several servers.
fn shared() -> Desk {
    let mut desk = Desk::new(1, true);
    assert!(desk.settle(Vec::new(), 0).is_empty());
    desk
}

impl Desk {
    /// A worker comes, who has this on disk. Gives what it says it has and has not.
    fn moves_here(&mut self, look: u64, worker: &NewSession, rows: &[WorkRow]) -> Vec<Place> {
        let seat = (worker.tenant, worker.id);
        self.expect(seat);
        assert!(self.looked(look, &Scope::Session(seat), rows, 0).is_empty());
        let (lost, chores) = self.register(worker, 0).unwrap();
        assert!(chores.is_empty());
        self.end_look(look);
        lost
    }
}

fn holding(n: u8) -> Holding {
    Holding { place: spot(n).1, fence: 1 }
}

#[test]
fn a_worker_that_comes_back_while_its_going_is_noticed_keeps_what_it_has() {
    let mut desk = shared();
    desk.comes(&worker(1, 2));
    desk.commit(7, &[offer(1)]);
    let noticed = desk.begin_look();
    let comes = desk.begin_look();
    // It was elsewhere when this was asked, and is here when it is answered.
    desk.moved_away(seat(1), noticed);
    desk.end_look(noticed);
    let back = NewSession { holding: vec![holding(7)], ..worker(1, 2) };
    assert_eq!(desk.moves_here(comes, &back, &[row(7, Some(session(1)))]), []);
    assert_eq!(desk.room(1), 1);
    let late = desk.begin_look();
    assert!(desk.looked(late, &Scope::Home([seat(1)].into()), &[row(7, Some(session(1)))], 0).is_empty());
    assert_eq!(desk.fence(seat(1), &spot(7).1), Some(1));
}

#[test]
fn a_look_takes_nothing_from_a_worker_that_registers_meanwhile() {
    let mut desk = shared();
    desk.comes(&worker(1, 2));
    desk.commit(7, &[offer(1)]);
    let look = desk.begin_look();
    let comes = desk.begin_look();
    let rows = [row(7, Some(session(1)))];
    let again = NewSession { holding: vec![holding(7)], ..worker(1, 2) };
    assert_eq!(desk.moves_here(comes, &again, &rows), []);
    for found in [&rows[..], &[]] {
        assert!(desk.looked(look, &Scope::Home([seat(1)].into()), found, 0).is_empty());
        assert_eq!(desk.fence(seat(1), &spot(7).1), Some(1));
    }
}

#[test]
fn a_place_in_the_mail_of_another_server_acknowledges_nothing_here() {
    let mut desk = shared();
    desk.comes(&worker(1, 2));
    desk.commit(7, &[offer(1)]);
    let elsewhere = Desk::new(9, true).first + 5;
    desk.acknowledge(seat(1), elsewhere);
    let letters = desk.letters(seat(1), elsewhere, 9).unwrap();
    let [(n, Letter::Task(told))] = letters.as_slice() else { panic!("{letters:?}") };
    assert_eq!(*told, holding(7));
    desk.acknowledge(seat(1), *n);
    assert!(desk.letters(seat(1), *n, 9).unwrap().is_empty());
}

#[test]
fn a_look_leaves_alone_what_has_changed_since_it_began() {
    let mut desk = shared();
    desk.comes(&worker(1, 4));
    desk.commit(7, &[offer(1)]);
    let look = desk.begin_look();
    desk.commit(7, &[Effect::Withdraw(task())]);
    desk.commit(8, &[offer(1)]);
    // The look found the first, which is gone, and not the second, which is new.
    let home = Scope::Home([seat(1)].into());
    assert!(desk.looked(look, &home, &[row(7, Some(session(1)))], 0).is_empty());
    desk.end_look(look);
    assert_eq!((desk.fence(seat(1), &spot(7).1), desk.fence(seat(1), &spot(8).1)), (None, Some(1)));
    // The next one finds what other servers did: the second is over, and a third has come.
    let look = desk.begin_look();
    assert!(desk.looked(look, &home, &[row(9, Some(session(1)))], 0).is_empty());
    assert_eq!((desk.fence(seat(1), &spot(8).1), desk.fence(seat(1), &spot(9).1)), (None, Some(1)));
    assert_eq!(desk.room(1), 3);
}

#[test]
fn what_is_being_taken_back_is_not_found_again() {
    let mut desk = shared();
    desk.comes(&worker(1, 4));
    desk.open_line(seat(1), 0).unwrap();
    desk.commit(7, &[offer(1)]);
    assert_eq!(desk.close_line(seat(1), 0, false).unclaim.len(), 1);
    let home = Scope::Home([seat(1)].into());
    let look = desk.begin_look();
    assert!(desk.looked(look, &home, &[row(7, Some(session(1)))], 0).is_empty());
    assert_eq!(desk.fence(seat(1), &spot(7).1), None, "it is not written yet");
    let later = desk.begin_look();
    desk.gave_back(&spot(7), 1);
    assert!(desk.looked(later, &home, &[row(7, Some(session(1)))], 0).is_empty());
    assert_eq!(desk.fence(seat(1), &spot(7).1), None, "it was written after this look began");
}

#[test]
fn what_is_called_off_elsewhere_is_told_and_taken_away_only_after_a_while() {
    let mut desk = shared();
    desk.comes(&worker(1, 4));
    desk.commit(7, &[offer(1)]);
    desk.letters(seat(1), 0, 9).unwrap();
    let called_off = WorkRow { called_off: true, ..row(7, Some(session(1))) };
    desk.run_moved(run(8));
    assert!(desk.moved_runs().is_empty(), "nobody here has a task of it");
    desk.run_moved(run(7));
    let (look, runs) = (desk.begin_look(), desk.moved_runs());
    assert!(desk.looked(look, &Scope::Runs(runs), &[called_off], 0).is_empty());
    let letters = desk.letters(seat(1), 0, 9).unwrap();
    assert!(letters.iter().any(|(_, letter)| *letter == Letter::Cancel(holding(7))), "{letters:?}");
    let (chores, _) = desk.expire(limits::CANCEL_GRACE_MS, tokio::time::Instant::now());
    assert_eq!(chores.lose.len(), 1);
    // Of what nobody here has, somebody else may know more.
    assert_eq!(desk.commit(9, &[Effect::CallOff(task())]).elsewhere, [spot(9)]);
}

#[test]
fn one_worker_of_each_agent_looks_for_what_waits_elsewhere_until_nothing_is_found() {
    let mut desk = shared();
    for n in 1..=3 {
        desk.comes(&worker(n, 1));
    }
    while let Some(claiming) = desk.next_claim(0) {
        assert!(desk.claimed(&claiming, Some(Vec::new())).is_empty());
    }
    desk.heard_of_work(&(TENANT, KIND.into()));
    let first = desk.next_claim(0).unwrap();
    assert!(desk.next_claim(0).is_none(), "the others are left in peace");
    assert!(desk.claimed(&first, Some(vec![row(7, Some(first.claim.session))])).is_empty());
    let second = desk.next_claim(0).unwrap();
    assert_ne!(first.claim.session, second.claim.session);
    assert!(desk.claimed(&second, Some(Vec::new())).is_empty());
    assert!(desk.next_claim(0).is_none());
}
