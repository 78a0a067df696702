//! Workers and several servers on one PostgreSQL: whichever they talk to, nothing is done twice and nothing is thrown away.

use std::sync::{Arc, Condvar, Mutex};

use abide_core::{Answerer, AskState, Json, Status};
use abide_engine::{Did, Error, Message, NewSession, Op, OpFailure, Reply, TaskMessage, TestClock, limits};
use abide_pgtest::Database;
use abide_store::{Role, SessionId, SessionRow, Store};
use serde_json::json;

use crate::asked::start;
use crate::servers::{Server, count};
use crate::support::{TENANT, within};
use crate::workers::{Hand, KIND, ask, failure, is_stale, new_session, step, workflow};

/// Two servers that know of each other, on one clock that is moved by hand.
async fn two(database: &Database) -> (Server, Server, Arc<TestClock>) {
    let (one, _) = Server::with_test_clock(database).await;
    let (two, clock) = Server::with_test_clock(database).await;
    for server in [&one, &two] {
        server.sees(|view| view.servers.len() == 2).await;
    }
    (one, two, clock)
}

/// The same worker, which says that it has a task.
fn with(task: &TaskMessage, new: NewSession) -> NewSession {
    NewSession { holding: vec![task.holding.clone()], ..new }
}

/// Waits until a server knows that a worker is not at it.
async fn forgets(server: &Server, id: SessionId) {
    within("a server to forget a worker", async {
        while server.engine.is_here(TENANT, id) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Holds the threads of a server, as SIGSTOP would, until it is dropped. Its store goes on: nobody else may take its place.
struct Stopped(Arc<(Mutex<bool>, Condvar)>);

impl Stopped {
    fn stop(server: &Server) -> Self {
        let gate = Arc::new((Mutex::new(true), Condvar::new()));
        let runtime = server.runtime.as_ref().unwrap();
        for _ in 0..runtime.metrics().num_workers() {
            let gate = gate.clone();
            runtime.spawn(async move {
                let held = gate.0.lock().unwrap();
                drop(gate.1.wait_while(held, |held| *held).unwrap());
            });
        }
        Self(gate)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap() = false;
        self.0.1.notify_all();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_one_server_offers_goes_to_a_worker_at_another() {
    let database = Database::new();
    let (one, two, _) = two(&database).await;
    let (mut hand, _) = Hand::at(&one.engine, new_session(1, 2)).await;
    for round in 0..3 {
        let run = start(&two.engine, &workflow(&["one", "two"])).await;
        for _ in 0..2 {
            let task = hand.task().await;
            assert_eq!(task.holding.place.run, run.id, "round {round}");
            hand.op(&task.holding, step("a", 1)).await.unwrap();
            hand.complete(&task.holding).await;
        }
        assert_eq!(two.end_of(run).await, Status::Completed);
        assert_eq!(count(&one.story(run).await, "task.lost"), 0);
    }
    one.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_goes_to_another_server_keeps_what_it_has() {
    let database = Database::new();
    let (one, two, clock) = two(&database).await;
    let (mut hand, _) = Hand::at(&one.engine, new_session(1, 1)).await;
    let run = start(&one.engine, &workflow(&["one"])).await;
    let task = hand.task().await;
    hand.op(&task.holding, step("a", 1)).await.unwrap();
    let (moved, lost) = Hand::at(&two.engine, with(&task, new_session(1, 1))).await;
    assert_eq!(lost, []);
    forgets(&one, moved.id).await;
    // Whatever the first one believed of it, it is silent there for longer than its lease.
    clock.advance(limits::LEASE_MS / 2).await.unwrap();
    two.engine.hear_worker(TENANT, moved.id, None).unwrap();
    clock.advance(limits::LEASE_MS * 2 / 3).await.unwrap();
    moved.op(&task.holding, step("b", 2)).await.unwrap();
    // Where it was, it is told to come again, and not that the task is another's.
    let late = vec![Op::Work(task.holding.clone(), Box::new(step("c", 3)))];
    let unknown = one.engine.work(TENANT, moved.id, late).await;
    assert!(matches!(unknown, Err(Error::WorkerUnknown(_))), "{unknown:?}");
    let (stranger, _) = Hand::at(&two.engine, new_session(2, 1)).await;
    let refused = stranger.op(&task.holding, step("c", 3)).await;
    assert!(is_stale(&refused), "{refused:?}");
    moved.complete(&task.holding).await;
    assert_eq!(one.end_of(run).await, Status::Completed);
    assert_eq!(count(&one.story(run).await, "task.lost"), 0);
    two.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_back_and_forth_and_gets_every_task_once() {
    let database = Database::new();
    let (one, two, _) = two(&database).await;
    let servers = [&one, &two];
    let mut runs = Vec::new();
    let mut holding = Vec::new();
    Hand::at(&two.engine, new_session(1, 9)).await;
    for round in 0..6 {
        runs.push(start(&servers[(round / 2) % 2].engine, &workflow(&["one"])).await);
        let new = NewSession { holding: holding.clone(), ..new_session(1, 9) };
        let (mut hand, lost) = Hand::at(&servers[round % 2].engine, new).await;
        assert_eq!(lost, [], "round {round}");
        while holding.len() <= round {
            let task = hand.task().await;
            if !holding.contains(&task.holding) {
                holding.push(task.holding);
            }
        }
    }
    let (hand, lost) =
        Hand::at(&two.engine, NewSession { holding: holding.clone(), ..new_session(1, 9) }).await;
    assert_eq!(lost, []);
    for held in &holding {
        hand.complete(held).await;
    }
    for run in runs {
        assert_eq!(one.end_of(run).await, Status::Completed);
        assert_eq!(count(&one.story(run).await, "task.lost"), 0);
    }
    one.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_stopped_takes_nothing_from_workers_that_went_elsewhere() {
    let database = Database::new();
    let (one, two, clock) = two(&database).await;
    let (mut hand, _) = Hand::at(&one.engine, new_session(1, 2)).await;
    let told = start(&one.engine, &workflow(&["one"])).await;
    let task = hand.task().await;
    hand.die();
    let stopped = Stopped::stop(&one);
    let (mut moved, lost) = Hand::at(&two.engine, with(&task, new_session(1, 2))).await;
    assert_eq!(lost, []);
    let later = start(&two.engine, &workflow(&["one"])).await;
    let second = moved.task().await;
    // By the time that the first one goes on, it finds a worker that nobody has heard of for an hour.
    for _ in 0..120 {
        clock.advance(limits::LEASE_MS).await.unwrap();
        two.engine.hear_worker(TENANT, moved.id, None).unwrap();
    }
    drop(stopped);
    forgets(&one, moved.id).await;
    for task in [&task, &second] {
        moved.op(&task.holding, step("a", 1)).await.unwrap();
        moved.complete(&task.holding).await;
    }
    for run in [told, later] {
        assert_eq!(two.end_of(run).await, Status::Completed);
        assert_eq!(count(&two.story(run).await, "task.lost"), 0);
    }
    one.verify().await;
}

/// Nobody tells the first one that its worker has gone, and it gives the worker up before it looks: what it had been told of
/// and what it had not is its own all the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_takes_from_a_worker_that_is_not_its_own_any_more_stays_where_it_is() {
    let database = Database::new();
    let (one, two, _) = two(&database).await;
    let (mut hand, _) = Hand::at(&one.engine, new_session(1, 2)).await;
    let told = start(&one.engine, &workflow(&["one"])).await;
    let task = hand.task().await;
    let untold = start(&one.engine, &workflow(&["one"])).await;
    let row = one.store.sessions().get(TENANT, hand.id).await.unwrap().unwrap();
    let moved = SessionRow { home: two.store.boot(), ..row };
    let came = two.store.sessions().put(moved, limits::SESSIONS_OF_TENANT_MAX).await.unwrap().unwrap();
    assert_eq!((came.before, came.tasks.len()), (Some(one.store.boot()), 2));
    // Unless it has looked by chance, it believes that the worker is there, and takes everything from it.
    let _ = one.engine.leave(TENANT, hand.id);
    // Whatever it wants to write of that is written before this.
    let other = Hand::at(&one.engine, NewSession { kinds: Vec::new(), ..new_session(2, 1) }).await.0;
    one.engine.leave(TENANT, other.id).unwrap();
    within("the other worker to be forgotten", async {
        while one.store.sessions().get(TENANT, other.id).await.unwrap().is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    let (mut hand, lost) = Hand::at(&two.engine, with(&task, new_session(1, 2))).await;
    assert_eq!(lost, []);
    let second = hand.task().await;
    assert_eq!(second.holding.place.run, untold.id);
    for (task, run) in [(&task, told), (&second, untold)] {
        hand.complete(&task.holding).await;
        assert_eq!(two.end_of(run).await, Status::Completed);
        let events = two.engine.events(run, 0, usize::MAX).await.unwrap();
        assert_eq!(count(&two.story(run).await, "task.lost"), 0, "{events:?}");
    }
    one.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_outlives_its_server_and_what_it_has_is_done_once() {
    let database = Database::new();
    let (one, two, _) = two(&database).await;
    let run = {
        let (mut hand, _) = Hand::at(&one.engine, new_session(1, 1)).await;
        let run = start(&one.engine, &workflow(&["one"])).await;
        let task = hand.task().await;
        hand.op(&task.holding, step("a", 1)).await.unwrap();
        one.die();
        let (hand, lost) = Hand::at(&two.engine, with(&task, new_session(1, 1))).await;
        assert_eq!(lost, []);
        hand.op(&task.holding, step("b", 2)).await.unwrap();
        hand.complete(&task.holding).await;
        run
    };
    assert_eq!(two.end_of(run).await, Status::Completed);
    let story = two.story(run).await;
    assert_eq!((count(&story, "task.lost"), count(&story, "step.recorded")), (0, 2), "{story:?}");
    two.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_had_that_died_with_its_server_is_done_by_another() {
    let database = Database::new();
    let (one, two, clock) = two(&database).await;
    let (mut hand, _) = Hand::at(&one.engine, new_session(1, 1)).await;
    let run = start(&one.engine, &workflow(&["one"])).await;
    hand.task().await;
    one.die();
    let (mut other, _) = Hand::at(&two.engine, new_session(2, 1)).await;
    two.sees(|view| view.servers.len() == 1 && view.roles.contains(&Role::Workers)).await;
    let boot = two.store.boot();
    within("the worker to be looked after", async {
        while two.store.sessions().at(boot).await.unwrap().sessions.len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(count(&two.story(run).await, "task.lost"), 0, "it has a lease's time to come back");
    let task = within("the task", async {
        let mut waiting = Box::pin(other.task());
        loop {
            tokio::select! {
                task = &mut waiting => return task,
                () = tokio::time::sleep(std::time::Duration::from_millis(50)) => {
                    clock.advance(limits::LEASE_MS / 10).await.unwrap();
                }
            }
        }
    })
    .await;
    other.complete(&task.holding).await;
    assert_eq!(two.end_of(run).await, Status::Completed);
    assert_eq!(count(&two.story(run).await, "task.lost"), 1);
    two.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_at_one_server_is_called_off_at_the_other() {
    let database = Database::new();
    let (one, two, clock) = two(&database).await;
    let (mut hand, _) = Hand::at(&one.engine, new_session(1, 2)).await;
    let (obeyed, ignored) =
        (start(&one.engine, &workflow(&["one"])).await, start(&one.engine, &workflow(&["one"])).await);
    let tasks = [hand.task().await, hand.task().await];
    let of = |run: abide_core::Key| {
        tasks.iter().find(|task| task.holding.place.run == run.id).map(|task| task.holding.clone()).unwrap()
    };
    let nobodys = start(&one.engine, &workflow(&["one"])).await;
    for run in [obeyed, ignored, nobodys] {
        two.engine.cancel(run, None, None).await.unwrap();
    }
    assert_eq!(two.end_of(nobodys).await, Status::Cancelled, "nobody had it");
    let mut told = Vec::new();
    while told.len() < 2 {
        for message in hand.wait().await {
            let Message::Cancel { holding, reason } = message else { panic!("{message:?}") };
            assert_eq!(reason, "run_cancelled");
            told.push(holding);
        }
    }
    assert!(told.contains(&of(obeyed)) && told.contains(&of(ignored)), "{told:?}");
    hand.op(&of(obeyed), failure()).await.unwrap();
    assert_eq!(two.end_of(obeyed).await, Status::Cancelled);
    assert!(!two.status(ignored).await.is_terminal(), "the worker has a while to stop");
    clock.advance(limits::CANCEL_GRACE_MS).await.unwrap();
    assert_eq!(two.end_of(ignored).await, Status::Cancelled);
    one.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_at_one_server_wakes_the_worker_at_the_other() {
    let database = Database::new();
    let (one, two, _) = two(&database).await;
    let (mut hand, _) = Hand::at(&one.engine, NewSession { hooks: Vec::new(), ..new_session(1, 1) }).await;
    let run = start(&one.engine, &workflow(&["one"])).await;
    let task = hand.task().await;
    let asked = hand.op(&task.holding, ask()).await.unwrap();
    let Did::Ask(state) = asked else { panic!("{asked:?}") };
    let AskState::Open { id, .. } = *state else { panic!("{state:?}") };
    let answer = Json::of(&json!({ "answers": { "answer": "so" } }));
    let by = Answerer::of("bob");
    two.engine.resolve(run, id, answer, by, Reply::new(None, |_| Vec::new())).await.unwrap();
    let messages = hand.wait().await;
    assert_eq!(messages, [Message::Wake(task.holding.clone())]);
    let again = hand.op(&task.holding, ask()).await.unwrap();
    let Did::Ask(state) = again else { panic!("{again:?}") };
    assert!(!matches!(*state, AskState::Open { .. }), "{state:?}");
    hand.complete(&task.holding).await;
    assert_eq!(two.end_of(run).await, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_workers_at_two_servers_is_called_by_one_of_them() {
    let database = Database::new();
    let (one, two, _) = two(&database).await;
    let (mut hand, _) = Hand::at(&one.engine, new_session(1, 1)).await;
    let run = start(&one.engine, &workflow(&["one"])).await;
    let task = hand.task().await;
    let (other, _) = Hand::at(&two.engine, NewSession { kinds: Vec::new(), ..new_session(2, 1) }).await;
    hand.op(&task.holding, ask()).await.unwrap();
    // It is with one of the two, and with that one alone: both look every few seconds.
    let (mut hand_post, mut other_post) = (hand.listen(), other.listen());
    let called = |post: &mut abide_engine::Post| {
        let letters = post.letters(0, 100).unwrap();
        let hook = |letter: &abide_engine::Letter| match letter {
            abide_engine::Letter::Hook(row) => Some(row.id),
            _ => None,
        };
        letters.iter().filter_map(|(_, letter)| hook(letter)).collect::<Vec<_>>()
    };
    let (at_one, at_two) = within("the call", async {
        loop {
            let calls = (called(&mut hand_post), called(&mut other_post));
            if !calls.0.is_empty() || !calls.1.is_empty() {
                return calls;
            }
            tokio::select! { () = hand_post.news() => {}, () = other_post.news() => {} }
        }
    })
    .await;
    assert_eq!(at_one.len() + at_two.len(), 1, "{at_one:?} {at_two:?}");
    let (with, without, id) = match at_one.first() {
        Some(id) => ((&one, hand.id), (&two, other.id), *id),
        None => ((&two, other.id), (&one, hand.id), at_two[0]),
    };
    let end = |(server, session): (&Server, SessionId)| {
        let engine = server.engine.clone();
        async move {
            engine.work(TENANT, session, vec![Op::EndHook { id, error: None, answer: None }]).await.unwrap()
        }
    };
    assert!(matches!(end(without).await[0], Err(OpFailure::NoSuchHook)));
    assert!(end(with).await[0].is_ok());
    assert!(one.store.work().hooks(TENANT, "ada".to_owned(), vec![id.hook], 9).await.unwrap().is_empty());
    hand.complete(&task.holding).await;
    assert_eq!(two.end_of(run).await, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_server_tells_of_all_workers_and_of_who_has_what() {
    let database = Database::new();
    let (one, two, _) = two(&database).await;
    let (mut hand, _) = Hand::at(&one.engine, new_session(1, 3)).await;
    let run = start(&two.engine, &workflow(&["one"])).await;
    let task = hand.task().await;
    let views = two.engine.sessions(TENANT).await.unwrap();
    let seen: Vec<_> = views.iter().map(|view| (view.id, view.capacity, view.held, view.gone)).collect();
    assert_eq!(seen, [(hand.id, 3, 1, false)]);
    assert_eq!(views[0].kinds, [KIND.into()]);
    let hands = two.engine.hands(run).await.unwrap();
    let holder = hands.holder(&task.holding.place).unwrap();
    assert_eq!((holder.session, holder.agent.as_deref()), (hand.id, Some("ada")));
    assert_eq!(holder.labels["host"], "1");
    assert!(hands.is_provided(KIND, None) && !hands.is_provided("acme.other", None));
    assert!(!hands.is_provided(KIND, Some("bob")));
    one.engine.leave(TENANT, hand.id).unwrap();
    within("the worker to be forgotten", async {
        while !two.engine.sessions(TENANT).await.unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    let story = two.story(run).await;
    assert_eq!(count(&story, "task.lost"), 1, "what it may have begun is lost: {story:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_sent_home_stays_so_at_another_server() {
    let database = Database::new();
    let (one, two, _) = two(&database).await;
    let (hand, _) = Hand::at(&one.engine, new_session(1, 1)).await;
    one.engine.drain_worker(TENANT, hand.id).unwrap();
    within("it to be written", async {
        while !one.store.sessions().get(TENANT, hand.id).await.unwrap().unwrap().state.draining {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    let (mut moved, _) = Hand::at(&two.engine, new_session(1, 1)).await;
    assert_eq!(moved.wait().await, [Message::Drain]);
}
