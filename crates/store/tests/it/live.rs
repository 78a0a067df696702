//! Runs as a server holds them in memory: decided by the core, and turned into commits.

use std::collections::HashMap;
use std::sync::Arc;

use abide_core::{
    Answerer, Cancellation, Command, Effect, Graph, InterruptId, Json, JsonMap, Key, Lifecycle, Millis,
    Notice, Parent, Product, Report, Resolve, Run, RunId, Start, Step, TaskId, TenantId, TimerId,
};
use abide_store::{Commit, Message, MessageRef, MessageRow};

/// When every run of these tests starts, unless its test says otherwise.
pub(crate) const BEGIN: Millis = 1_700_000_000_000;

pub(crate) const TENANT: TenantId = TenantId(1);

/// The run number `n`: a higher one is newer.
pub(crate) fn run_id(n: u32) -> RunId {
    let mut bytes = [0x01; 16];
    bytes[12..].copy_from_slice(&n.to_be_bytes());
    RunId::from_bytes(bytes)
}

/// The run number `n` of the tenant that most tests are about.
pub(crate) fn key(n: u32) -> Key {
    run_id(n).of(TENANT)
}

/// What a run is started with, if nothing else is said.
pub(crate) fn start(key: Key, graph: &Arc<Graph>) -> Start {
    let mut salt = *key.id.as_bytes();
    salt.reverse();
    Start::of(key, salt, graph.clone())
}

/// The input `text`.
pub(crate) fn text_input(text: &str) -> JsonMap {
    JsonMap::from([("text".to_owned(), Json::of(text))])
}

/// What a child says that stood for the node `child` and ended well.
pub(crate) fn ended_well(from: RunId, sequence: u64) -> Notice {
    Notice {
        from,
        sequence,
        node: "child".to_owned(),
        lifecycle: Lifecycle::Completed,
        execution: 0,
        outputs: JsonMap::new(),
        sensitive: Vec::new(),
        error: None,
        still: false,
        status: None,
        suspended: None,
        claimed: false,
    }
}

/// The place and the notice of a message that is one.
pub(crate) fn notice_of(row: MessageRow) -> (MessageRef, Notice) {
    match row.message {
        Message::Notice(notice) => (row.at, notice),
        other => panic!("{other:?} is no notice"),
    }
}

/// A run in memory. Each decision moves it on and gives the commit that would make it so on disk.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) run: Run,
    /// The first fence of each task that was dispatched.
    fences: HashMap<TaskId, u64>,
}

impl Live {
    pub(crate) fn start(key: Key, graph: &Arc<Graph>) -> (Self, Commit) {
        Self::start_with(start(key, graph), BEGIN)
    }

    /// Starts a run that will tell `parent` how it ended.
    pub(crate) fn start_child(key: Key, graph: &Arc<Graph>, parent: RunId) -> (Self, Commit) {
        let parent = Some(Parent::of(parent, "child"));
        Self::start_with(Start { parent, ..start(key, graph) }, BEGIN)
    }

    pub(crate) fn start_with(start: Start, now: Millis) -> (Self, Commit) {
        let salt = start.salt;
        let (run, step) = Run::start(start, now).expect("the start is accepted");
        let mut live = Self { run, fences: HashMap::new() };
        let commit = Commit { salt: Some(salt), ..live.commit(step) };
        (live, commit)
    }

    pub(crate) fn decide(&mut self, command: Command, now: Millis) -> Commit {
        let step = self.run.decide(command, now).expect("the test's command is accepted");
        self.commit(step)
    }

    pub(crate) fn pause(&mut self) -> Commit {
        self.decide(Command::Pause { reason: None, by: None, drain: abide_core::Drain::Immediate }, BEGIN)
    }

    pub(crate) fn resume(&mut self) -> Commit {
        self.decide(Command::Resume { reason: None, by: None }, BEGIN)
    }

    pub(crate) fn cancel(&mut self) -> Commit {
        let reason = Some("enough".to_owned());
        self.decide(Command::Cancel(Cancellation { reason, ..Cancellation::default() }), BEGIN)
    }

    /// The earliest timer's time has come.
    pub(crate) fn fire(&mut self) -> Commit {
        let (timer, due) = self.first_timer();
        self.decide(Command::Fire(timer), due)
    }

    /// The fence of the first task's n-th lease: 1 is the one it was dispatched with, 2 that of the first claim.
    pub(crate) fn fence(&self, lease: u64) -> u64 {
        self.fences[&self.first_task()] + lease - 1
    }

    /// The first task that is under way has ended well; its executor held this lease.
    pub(crate) fn report(&mut self, lease: u64) -> Commit {
        let fence = self.fence(lease);
        self.report_under(fence)
    }

    /// The first task that is under way has ended well; its executor held this fence.
    pub(crate) fn report_under(&mut self, fence: u64) -> Commit {
        let task = self.first_task();
        let report = Report { task, outcome: Ok(Product::default()) };
        Commit { fence: Some(fence), ..self.decide(Command::Report(report), BEGIN) }
    }

    /// A message is heard, and forgotten with the commit that records it.
    pub(crate) fn hear(&mut self, message: MessageRef, notice: Notice, heard: Option<u64>) -> Commit {
        Commit { consumed: vec![message], ..self.decide(Command::Hear { notice, heard }, BEGIN) }
    }

    /// The oldest open interrupt is resolved.
    pub(crate) fn resolve(&mut self, value: &serde_json::Value) -> Commit {
        let id = self.first_interrupt();
        let by = Answerer::of("ada");
        self.decide(Command::Resolve(Resolve { id, value: Json::of(value), by }), BEGIN)
    }

    pub(crate) fn first_interrupt(&self) -> InterruptId {
        self.run.interrupts().next().expect("it waits for an answer").requested.interrupt_id
    }

    pub(crate) fn key(&self) -> Key {
        self.run.key()
    }

    pub(crate) fn first_timer(&self) -> (TimerId, Millis) {
        let timers = self.run.timers().iter();
        let (timer, due) = timers.min_by_key(|(_, due)| **due).expect("it has a timer");
        (timer.clone(), *due)
    }

    pub(crate) fn first_task(&self) -> TaskId {
        self.run.tasks().next().expect("it has a task")
    }

    fn commit(&mut self, step: Step) -> Commit {
        for effect in &step.effects {
            if let Effect::Dispatch { task, fence } = effect {
                self.fences.insert(task.clone(), *fence);
            }
        }
        Commit::of(&self.run, step)
    }
}
