//! Workers: who gets a task, who keeps it, and what becomes of it when somebody dies.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use abide_core::event::{HookKind, Loss};
use abide_core::{
    AskState, Failure, FailureClass, Json, Key, Millis, Rejection, Status, WorkAsk, WorkFailure, WorkOp,
};
use abide_engine::{
    Did, Engine, Error, Holding, Letter, Message, NewSession, Op, OpFailure, Place, Post, TaskMessage, limits,
};
use abide_store::{KindRow, SessionId, Store};
use serde_json::{Value, json};

use crate::asked::start;
use crate::support::{Rig, TENANT, within};

pub(crate) const KIND: &str = "acme.work";

/// A worker, as a test plays it.
pub(crate) struct Hand<'a> {
    engine: &'a Engine,
    pub(crate) id: SessionId,
    after: u64,
    /// Tasks that came with another.
    tasks: VecDeque<TaskMessage>,
}

fn kind(name: &str, timeout_ms: Option<Millis>) -> KindRow {
    KindRow {
        tenant: TENANT,
        kind: name.to_owned(),
        agent: "ada".to_owned(),
        idempotent: false,
        reversible: None,
        timeout_ms,
        code_version: None,
        registered_at: 0,
    }
}

pub(crate) fn new_session(n: u8, capacity: usize) -> NewSession {
    NewSession {
        tenant: TENANT,
        id: SessionId::from_bytes([n; 16]),
        agent: "ada".to_owned(),
        kinds: vec![kind(KIND, None)],
        capacity,
        labels: BTreeMap::from([("host".to_owned(), n.to_string())]),
        hooks: HookKind::ALL.to_vec(),
        code_version: None,
        sdk: None,
        holding: Vec::new(),
    }
}

impl<'a> Hand<'a> {
    async fn new(rig: &'a Rig, n: u8, capacity: usize) -> Self {
        Self::of(rig, new_session(n, capacity)).await
    }

    async fn of(rig: &'a Rig, new: NewSession) -> Self {
        let (hand, lost) = Self::at(&rig.engine, new).await;
        assert!(lost.is_empty());
        hand
    }

    /// A worker that comes, and what it says it has and has not.
    pub(crate) async fn at(engine: &'a Engine, new: NewSession) -> (Self, Vec<Place>) {
        let id = new.id;
        let lost = engine.register_worker(new).await.unwrap();
        (Self { engine, id, after: 0, tasks: VecDeque::new() }, lost)
    }

    pub(crate) fn listen(&self) -> Post {
        self.engine.listen_to(TENANT, self.id, self.after).unwrap()
    }

    /// What there is for it now.
    async fn letters(&mut self) -> Vec<Message> {
        let mut post = self.listen();
        let letters = post.letters(self.after, 1000).unwrap();
        post.answer();
        self.read(letters).await
    }

    /// What there is for it, when there is something.
    pub(crate) async fn wait(&mut self) -> Vec<Message> {
        let mut post = self.listen();
        let letters = within("a letter", async {
            loop {
                let letters = post.letters(self.after, 1000).unwrap();
                if !letters.is_empty() {
                    return letters;
                }
                post.news().await;
            }
        })
        .await;
        post.answer();
        self.read(letters).await
    }

    async fn read(&mut self, letters: Vec<(u64, Letter)>) -> Vec<Message> {
        let mut messages = Vec::new();
        for (n, letter) in letters {
            self.after = n;
            messages.extend(self.engine.message(TENANT, self.id, &letter).await.unwrap());
        }
        messages
    }

    /// The next task, when there is one.
    pub(crate) async fn task(&mut self) -> TaskMessage {
        while self.tasks.is_empty() {
            for message in self.wait().await {
                if let Message::Task(task) = message {
                    self.tasks.push_back(*task);
                }
            }
        }
        self.tasks.pop_front().unwrap()
    }

    async fn ops(&self, holding: &Holding, ops: Vec<WorkOp>) -> Vec<Result<Did, OpFailure>> {
        let ops = ops.into_iter().map(|op| Op::Work(holding.clone(), Box::new(op))).collect();
        self.engine.work(TENANT, self.id, ops).await.unwrap()
    }

    pub(crate) async fn op(&self, holding: &Holding, op: WorkOp) -> Result<Did, OpFailure> {
        self.ops(holding, vec![op]).await.pop().unwrap()
    }

    pub(crate) async fn complete(&self, holding: &Holding) {
        self.op(holding, WorkOp::Complete { outputs: None, by: Vec::new() }).await.unwrap();
    }

    /// Its line breaks off: nobody gives it the benefit of the doubt.
    pub(crate) fn die(&self) {
        drop(self.listen());
    }
}

pub(crate) fn step(key: &str, value: u32) -> WorkOp {
    WorkOp::Record { key: key.to_owned(), outcome: Ok(Json::of(&value)) }
}

pub(crate) fn failure() -> WorkOp {
    WorkOp::Fail(WorkFailure {
        failure: Failure::new("broken", "it broke"),
        class: FailureClass::Cancelled,
        retryable: false,
        possible_effect: false,
        retry_after_ms: None,
    })
}

pub(crate) fn is_stale(refused: &Result<Did, OpFailure>) -> bool {
    matches!(refused, Err(OpFailure::Failed(Error::Rejected(Rejection::StaleFence))))
}

pub(crate) fn workflow(nodes: &[&str]) -> Value {
    let node = |id: &&str| json!({ "id": id, "typeId": KIND, "name": id, "position": {}, "config": {}, "inputs": {} });
    let edge =
        |pair: &[&str]| json!({ "id": pair.concat(), "sourceNodeId": pair[0], "targetNodeId": pair[1] });
    json!({
        "id": format!("work-{}", nodes.len()), "name": "work", "version": "1", "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
        "nodes": nodes.iter().map(node).collect::<Vec<_>>(),
        "edges": nodes.windows(2).map(edge).collect::<Vec<_>>(),
    })
}

async fn work(rig: &Rig) -> Key {
    start(&rig.engine, &workflow(&["one"])).await
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

async fn open(dir: &Path) -> Rig {
    Rig::open(dir).await
}

/// Makes the kind known, and leaves.
async fn introduce(rig: &Rig) {
    let hand = Hand::new(rig, 0xee, 1).await;
    rig.engine.leave(TENANT, hand.id).unwrap();
}

fn written(rig: &Rig) -> u64 {
    rig.store.counts().rows
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_room_has_a_task_with_the_commit_that_offers_it() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let mut hand = Hand::new(&rig, 1, 1).await;
    rig.engine.push_workflow(TENANT, workflow(&["one"]).to_string().as_bytes(), None).await.unwrap();
    let before = rig.store.counts();
    let run = work(&rig).await;
    let after = rig.store.counts();
    assert_eq!(after.commits - before.commits, 1, "nothing else was written");
    let task = hand.task().await;
    assert_eq!((task.holding.place.run, task.attempt, &*task.kind), (run.id, 1, KIND));
    let left = rig.store.work().left_behind().await.unwrap();
    assert_eq!(left[0].held.map(|(session, _)| session), Some(hand.id));
    rig.verify().await;
    hand.complete(&task.holding).await;
    assert_eq!(rig.end_of(run).await, Status::Completed);
    assert!(rig.store.work().left_behind().await.unwrap().is_empty());
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_claimed_in_batches_and_nothing_is_polled() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    introduce(&rig).await;
    let mut runs = BTreeSet::new();
    for _ in 0..20 {
        runs.insert(work(&rig).await.id);
    }
    let mut hand = Hand::new(&rig, 1, 8).await;
    let mut done = BTreeSet::new();
    while done.len() < 20 {
        for message in hand.wait().await {
            let Message::Task(task) = message else { panic!("{message:?}") };
            assert!(done.insert(task.holding.place.run), "handed out twice");
            hand.complete(&task.holding).await;
        }
    }
    assert_eq!(done, runs);
    let before = written(&rig);
    hand.letters().await;
    rig.clock.advance(limits::LEASE_MS / 2).await.unwrap();
    hand.letters().await;
    assert_eq!(written(&rig), before, "whoever waits costs no writes");
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_workers_each_gets_its_share_and_none_more_than_it_takes() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let (mut one, mut other) = (Hand::new(&rig, 1, 2).await, Hand::new(&rig, 2, 2).await);
    for _ in 0..6 {
        work(&rig).await;
    }
    let (ones, others) = (one.letters().await.len(), other.letters().await.len());
    assert_eq!((ones, others), (2, 2), "two wait on disk");
    assert_eq!(rig.store.work().waiting().await.unwrap()[0].2, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_node_of_a_chain_takes_the_place_of_the_one_before() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let mut hand = Hand::new(&rig, 1, 1).await;
    let run = start(&rig.engine, &workflow(&["a", "b", "c"])).await;
    let before = rig.store.counts().transactions;
    for node in ["a", "b", "c"] {
        let task = hand.task().await;
        assert_eq!(&*task.holding.place.task.node, node);
        hand.complete(&task.holding).await;
    }
    assert_eq!(rig.end_of(run).await, Status::Completed);
    assert_eq!(rig.store.counts().transactions - before, 3, "no claim was needed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_worker_loses_its_task_and_can_say_nothing_more() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let mut one = Hand::new(&rig, 1, 1).await;
    let run = work(&rig).await;
    let lost = one.task().await;
    one.op(&lost.holding, step("a", 1)).await.unwrap();
    one.die();
    rig.clock.advance(limits::LEASE_MS).await.unwrap();
    let mut other = Hand::new(&rig, 2, 1).await;
    let again = other.task().await;
    assert_eq!(again.holding.place, lost.holding.place);
    assert!(again.holding.fence > lost.holding.fence);
    assert_eq!(again.history.items.len(), 1, "what was recorded is recorded");
    let head = rig.engine.head(run).await.unwrap().next;
    assert!(is_stale(&one.op(&lost.holding, step("b", 2)).await));
    assert!(is_stale(&one.op(&lost.holding, WorkOp::Complete { outputs: None, by: Vec::new() }).await));
    // Nor does it help to know the new fence: it is another's.
    assert!(is_stale(&one.op(&again.holding, WorkOp::Complete { outputs: None, by: Vec::new() }).await));
    assert_eq!(rig.engine.head(run).await.unwrap().next, head, "nothing was changed");
    assert!(rig.story(run).await.contains(&"task.lost"));
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_listens_keeps_its_tasks_however_far_a_test_moves_the_clock() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let mut hand = Hand::new(&rig, 1, 1).await;
    work(&rig).await;
    let task = hand.task().await;
    let line = hand.listen();
    rig.clock.advance(100 * limits::LEASE_MS).await.unwrap();
    hand.complete(&task.holding).await;
    line.answer();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_outlives_the_server_keeps_what_it_has() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let mut hand = Hand::new(&rig, 1, 4).await;
    let (kept, unheard) = (work(&rig).await, work(&rig).await);
    let task = hand.task().await;
    let has = [task.holding.clone()];
    let gone = Holding { place: Place { run: kept.id, ..task.holding.place.clone() }, fence: 7 };
    rig.close().await;

    let rig = open(dir.path()).await;
    assert!(matches!(
        rig.engine.hear_worker(TENANT, SessionId::from_bytes([1; 16]), None),
        Err(Error::WorkerUnknown(_))
    ));
    let holding = vec![has[0].clone(), gone.clone()];
    let new = NewSession { holding, ..new_session(1, 4) };
    let id = new.id;
    let lost = rig.engine.register_worker(new).await.unwrap();
    assert_eq!(lost, [gone.place]);
    let mut hand = Hand { engine: &rig.engine, id, after: 0, tasks: VecDeque::new() };
    let again = hand.task().await;
    assert_ne!(again.holding.place, has[0].place, "only what it does not know of is told again");
    hand.complete(&again.holding).await;
    hand.complete(&has[0]).await;
    for run in [kept, unheard] {
        assert_eq!(rig.end_of(run).await, Status::Completed);
        assert!(!rig.story(run).await.contains(&"task.lost"));
    }
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_had_that_dies_with_the_server_is_handed_out_again() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let mut hand = Hand::new(&rig, 1, 1).await;
    let run = work(&rig).await;
    let lost = hand.task().await;
    rig.close().await;

    let rig = open(dir.path()).await;
    let mut other = Hand::new(&rig, 2, 1).await;
    rig.clock.advance(limits::LEASE_MS - 1).await.unwrap();
    assert!(other.letters().await.is_empty(), "it may come back");
    rig.clock.advance(1).await.unwrap();
    let again = other.task().await;
    assert!(again.holding.fence > lost.holding.fence);
    other.complete(&again.holding).await;
    assert_eq!(rig.end_of(run).await, Status::Completed);
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_leaves_loses_what_it_may_have_begun_and_gives_back_the_rest() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let mut one = Hand::new(&rig, 1, 2).await;
    let begun = work(&rig).await;
    let task = one.task().await;
    let unheard = work(&rig).await;
    rig.engine.leave(TENANT, one.id).unwrap();
    let mut other = Hand::new(&rig, 2, 2).await;
    let mut got = BTreeMap::new();
    while got.len() < 2 {
        let task = other.task().await;
        got.insert(task.holding.place.run, task.holding.fence);
    }
    assert!(got[&begun.id] > task.holding.fence);
    assert!(rig.story(begun).await.contains(&"task.lost"));
    assert!(!rig.story(unheard).await.contains(&"task.lost"), "nobody had it");
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_too_long_is_taken_away_and_interrupts_the_run() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let new = NewSession { kinds: vec![kind(KIND, Some(1000))], ..new_session(1, 1) };
    let mut hand = Hand::of(&rig, new).await;
    let run = work(&rig).await;
    let task = hand.task().await;
    assert_eq!(task.timeout_ms, Some(1000));
    rig.clock.advance(1000).await.unwrap();
    let mut news = rig.engine.subscribe(run);
    while rig.status(run).await != Status::Paused {
        within("people to be asked", news.changed()).await;
    }
    assert!(is_stale(&hand.op(&task.holding, WorkOp::Complete { outputs: None, by: Vec::new() }).await));
    let steps = rig.engine.read(run, abide_core::Run::interrupted_steps).await.unwrap();
    assert_eq!((steps[0].error.code.as_str(), steps[0].class.as_str()), ("task_timeout", "timeout"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_calls_off_its_tasks() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let mut hand = Hand::new(&rig, 1, 2).await;
    let (obeyed, ignored) = (work(&rig).await, work(&rig).await);
    let mut tasks = BTreeMap::new();
    while tasks.len() < 2 {
        for message in hand.wait().await {
            let Message::Task(task) = message else { panic!("{message:?}") };
            tasks.insert(task.holding.place.run, task.holding);
        }
    }
    let waiting = work(&rig).await;
    for run in [obeyed, ignored, waiting] {
        rig.engine.cancel(run, None, None).await.unwrap();
    }
    assert_eq!(rig.end_of(waiting).await, Status::Cancelled, "nobody had it");
    let told = hand.wait().await;
    let told: Vec<_> = told
        .into_iter()
        .map(|message| match message {
            Message::Cancel { holding, reason } => (holding, reason),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told[0], (tasks[&obeyed.id].clone(), "run_cancelled"));
    hand.op(&tasks[&obeyed.id], failure()).await.unwrap();
    assert_eq!(rig.end_of(obeyed).await, Status::Cancelled);
    let refused = hand.op(&tasks[&ignored.id], WorkOp::Sleep { key: "s".to_owned(), ms: 1 }).await;
    assert!(matches!(refused, Err(OpFailure::Failed(Error::Rejected(Rejection::Cancelling)))), "{refused:?}");
    rig.clock.advance(limits::CANCEL_GRACE_MS).await.unwrap();
    assert_eq!(rig.end_of(ignored).await, Status::Cancelled);
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_called_off_before_the_server_died_still_is() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let mut hand = Hand::new(&rig, 1, 1).await;
    let run = work(&rig).await;
    hand.task().await;
    rig.engine.cancel(run, None, None).await.unwrap();
    rig.close().await;
    let rig = open(dir.path()).await;
    // Whoever comes waits until it is known what was left, and from then on the time counts.
    introduce(&rig).await;
    rig.clock.advance(limits::CANCEL_GRACE_MS).await.unwrap();
    assert_eq!(rig.end_of(run).await, Status::Cancelled);
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_of_one_task_follow_each_other_and_a_refused_one_stops_them() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let mut hand = Hand::new(&rig, 1, 1).await;
    let run = work(&rig).await;
    let task = hand.task().await;
    let begin = |key: &str| WorkOp::Begin { key: key.to_owned() };
    let sleep = WorkOp::Sleep { key: "a".to_owned(), ms: 1 };
    let done =
        hand.ops(&task.holding, vec![begin("a"), step("a", 1), step("a", 2), sleep, step("b", 3)]).await;
    assert!(matches!(done[0], Ok(Did::Begun { before: false })), "{done:?}");
    let first = |did: &Result<Did, OpFailure>, was: bool| matches!(did, Ok(Did::Step { outcome: Ok(value), repeated }) if value.text() == "1" && *repeated == was);
    assert!(first(&done[1], false) && first(&done[2], true), "{done:?}");
    assert!(matches!(done[3], Err(OpFailure::Failed(Error::Rejected(Rejection::Work(_))))), "{done:?}");
    assert!(matches!(done[4], Err(OpFailure::Skipped)), "{done:?}");
    let story = rig.story(run).await;
    assert_eq!(story.iter().filter(|name| **name == "step.recorded").count(), 1);
    let before = written(&rig);
    assert!(first(&hand.op(&task.holding, step("a", 9)).await, true));
    assert!(matches!(hand.op(&task.holding, begin("a")).await, Ok(Did::Begun { before: true })));
    assert_eq!(written(&rig), before, "what changes nothing writes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_of_many_tasks_share_a_sync() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let mut hand = Hand::new(&rig, 1, 50).await;
    for _ in 0..50 {
        work(&rig).await;
    }
    let mut ops = Vec::new();
    while ops.len() < 100 {
        for message in hand.wait().await {
            let Message::Task(task) = message else { panic!("{message:?}") };
            ops.push(Op::Work(task.holding.clone(), Box::new(step("a", 1))));
            ops.push(Op::Work(task.holding, Box::new(step("b", 2))));
        }
    }
    let before = rig.store.counts();
    let done = rig.engine.work(TENANT, hand.id, ops).await.unwrap();
    assert!(done.iter().all(Result::is_ok));
    let after = rig.store.counts();
    assert_eq!(after.commits - before.commits, 100);
    assert!(after.transactions - before.transactions < 30, "{before:?} {after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_released_goes_to_another() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let (mut one, mut other) = (Hand::new(&rig, 1, 100).await, Hand::new(&rig, 2, 100).await);
    // Whoever has got a task looks for none on disk just now.
    let mut ones = Vec::new();
    while ones.is_empty() || other.letters().await.is_empty() {
        work(&rig).await;
        ones.extend(one.letters().await);
    }
    let Message::Task(task) = ones.remove(0) else { panic!("{ones:?}") };
    let run = task.holding.place.run.of(TENANT);
    let released = rig.engine.work(TENANT, one.id, vec![Op::Release(task.holding.clone())]).await.unwrap();
    assert!(matches!(released[0], Ok(Did::Done)));
    let again = other.task().await;
    assert!(again.holding.fence > task.holding.fence);
    assert!(one.letters().await.is_empty());
    let lost = rig.engine.events(run, 0, 100).await.unwrap();
    let lost = lost.iter().find_map(|record| match record.event() {
        Ok(abide_core::Event::Node { event: abide_core::NodeEvent::TaskLost(lost), .. }) => Some(lost),
        _ => None,
    });
    assert_eq!(lost.unwrap().reason, Loss::Released);
}

pub(crate) fn ask() -> WorkOp {
    let data = json!({ "questions": [{ "id": "answer", "question": "Well?" }] });
    WorkOp::Ask(Box::new(WorkAsk {
        agent: "ada".to_owned(),
        principal: None,
        key: None,
        call: 1,
        payload: Json::of(&json!({ "kind": "clarification", "data": data })),
        ladder: None,
        respondents: None,
        single: true,
        hooks: vec![HookKind::InputRequested, HookKind::InputReceived],
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_called_until_one_of_its_workers_has_taken_it() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let mut hand = Hand::new(&rig, 1, 1).await;
    let run = work(&rig).await;
    let task = hand.task().await;
    let asked = hand.op(&task.holding, ask()).await.unwrap();
    let Did::Ask(state) = asked else { panic!("{asked:?}") };
    let AskState::Open { id, .. } = *state else { panic!("{state:?}") };
    let hook = |messages: Vec<Message>| match messages.into_iter().next() {
        Some(Message::Hook(hook)) => *hook,
        other => panic!("{other:?}"),
    };
    let first = hook(hand.wait().await);
    assert_eq!((first.id.interrupt, first.id.hook, first.id.attempt), (id, HookKind::InputRequested, 1));
    assert_eq!((first.agent.as_str(), &*first.node), ("ada", "one"));
    let end = |error: Option<&str>| {
        let error = error.map(str::to_owned);
        rig.engine.work(TENANT, hand.id, vec![Op::EndHook { id: first.id, error, answer: None }])
    };
    assert!(end(Some("no network")).await.unwrap()[0].is_ok());
    assert!(matches!(end(None).await.unwrap()[0], Err(OpFailure::NoSuchHook)));
    rig.clock.advance(limits::HOOK_WAIT_MS).await.unwrap();
    let again = hook(hand.wait().await);
    assert_eq!(again.id, first.id);
    // One that dies with a call leaves it to another.
    rig.engine.leave(TENANT, hand.id).unwrap();
    let mut other = Hand::new(&rig, 2, 1).await;
    within("the retry to be written", async {
        while rig.store.work().hooks(TENANT, "ada".to_owned(), HookKind::ALL.to_vec(), 9).await.unwrap()[0]
            .tries
            < 2
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    rig.clock.advance(4 * limits::HOOK_WAIT_MS).await.unwrap();
    let mut called = Vec::new();
    while called.is_empty() {
        called.extend(other.wait().await.into_iter().filter(|message| matches!(message, Message::Hook(_))));
    }
    assert_eq!(hook(called).id, first.id);
    let done = rig
        .engine
        .work(TENANT, other.id, vec![Op::EndHook { id: first.id, error: None, answer: None }])
        .await
        .unwrap();
    assert!(done[0].is_ok());
    assert!(
        rig.store.work().hooks(TENANT, "ada".to_owned(), HookKind::ALL.to_vec(), 9).await.unwrap().is_empty()
    );
    assert!(!rig.status(run).await.is_terminal());
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_sent_home_gets_no_more() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let mut hand = Hand::new(&rig, 1, 5).await;
    rig.engine.drain_worker(TENANT, hand.id).unwrap();
    work(&rig).await;
    assert_eq!(hand.letters().await, [Message::Drain]);
    let view = &rig.engine.sessions(TENANT).await.unwrap()[0];
    assert!(view.draining && view.held == 0);
    assert!(rig.engine.drain_worker(abide_core::TenantId(2), hand.id).is_err(), "another's");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_nobody_knows_fails_a_run_and_a_known_one_waits() {
    let dir = temporary();
    let rig = open(dir.path()).await;
    let failed = work(&rig).await;
    assert_eq!(rig.end_of(failed).await, Status::Failed);
    introduce(&rig).await;
    let waits = work(&rig).await;
    assert_eq!(rig.status(waits).await, Status::Running);
    assert!(rig.engine.forget_kind(TENANT, KIND.to_owned()).await.unwrap());
    assert!(!rig.engine.forget_kind(TENANT, KIND.to_owned()).await.unwrap());
    let failed = work(&rig).await;
    assert_eq!(rig.end_of(failed).await, Status::Failed);
    let error = rig.engine.read(failed, |run| run.error().cloned()).await.unwrap().unwrap();
    assert_eq!(error.code, "capability_not_provided");
}
