//! Random lives of many runs: a stream of commits, each decided on top of all before it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use abide_core::{Effect, Graph, Json, Key, Notice, Parent, RunId, Start, TaskId};
use abide_store::{Commit, MessageRef, TaskRow};

use crate::live::{BEGIN, Live, TENANT, key, start, text_input};
use crate::workflow::voyage;

/// How many runs are under way at once.
const CROWD: usize = 6;

/// A `SplitMix64` generator: the same seed gives the same lives.
#[derive(Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

pub(crate) struct World {
    pub(crate) dice: Dice,
    pub(crate) graph: Arc<Graph>,
    /// The number of the last start that dispatched, so that its tasks are known as its own.
    pub(crate) boot: u64,
    runs: Vec<Live>,
    born: u32,
    mail: Vec<(MessageRef, Notice)>,
    heard: BTreeMap<(RunId, RunId), u64>,
    fences: HashMap<(Key, TaskId), u64>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Dice(seed),
            graph: voyage(),
            boot: 0,
            runs: Vec::new(),
            born: 0,
            mail: Vec::new(),
            heard: BTreeMap::new(),
            fences: HashMap::new(),
        }
    }

    /// The next thing that happens to somebody.
    pub(crate) fn next_commit(&mut self) -> Commit {
        let commit = self.deliver().unwrap_or_else(|| {
            if self.runs.len() < CROWD {
                self.begin()
            } else {
                let at = self.dice.below(self.runs.len());
                self.move_on(at)
            }
        });
        self.send(&commit);
        let snapshot = self.snapshot(commit.key);
        self.runs.retain(|live| !live.run.lifecycle().is_terminal());
        let boot = self.boot;
        Commit { boot, snapshot, ..commit }
    }

    /// A new start has taken the lease on these.
    pub(crate) fn claimed(&mut self, boot: u64, tasks: Vec<TaskRow>) {
        self.boot = boot;
        let fences = tasks.into_iter().map(|row| ((row.key, row.task), row.fence));
        self.fences.extend(fences);
    }

    /// A new run, perhaps the child of another, perhaps with more to say than a row holds.
    fn begin(&mut self) -> Commit {
        self.born += 1;
        let length = [0, 10, 200, 6000][self.dice.below(4)];
        let adopts = !self.runs.is_empty() && self.dice.one_in(2);
        let parent = adopts.then(|| {
            let parent = self.dice.below(self.runs.len());
            Parent::of(self.runs[parent].key().id, "child")
        });
        let text = format!("{:length$}", self.born);
        // Nobody else has this scope, so no start is refused.
        let exclusive = self.born.is_multiple_of(3);
        let start = Start {
            inputs: text_input(&text),
            parent,
            metadata: Some(Json::of(&BTreeMap::from([("born", self.born)]))),
            scope: exclusive.then(|| self.born.to_string()),
            exclusive,
            ..start(key(self.born), &self.graph)
        };
        let (live, commit) = Live::start_with(start, BEGIN);
        self.runs.push(live);
        commit
    }

    fn move_on(&mut self, at: usize) -> Commit {
        let (whim, dice) = (self.dice.below(10), &mut self.dice);
        let live = &mut self.runs[at];
        let paused = live.run.status() == abide_core::Status::Paused;
        let cancelling = live.run.status() == abide_core::Status::Cancelling;
        if paused && dice.one_in(2) || paused && live.run.is_parked() && live.run.timers().is_empty() {
            return live.resume();
        }
        match whim {
            0 if !cancelling => live.cancel(),
            1 | 2 if !paused && !cancelling && live.run.waiting().is_none() => live.pause(),
            3..=8 if live.run.waiting().is_some() && !cancelling => {
                live.resolve(&serde_json::json!({"eventPayload": {"order": 7}}))
            }
            _ if live.run.tasks().next().is_some() => {
                let task = (live.key(), live.first_task());
                match self.fences.get(&task) {
                    Some(fence) => live.report_under(*fence),
                    None => live.report(1),
                }
            }
            _ => live.fire(),
        }
    }

    /// Brings a message to a receiver that can still hear; one that has ended leaves it in the outbox.
    fn deliver(&mut self) -> Option<Commit> {
        let (message, notice) = self.mail.pop()?;
        let key = message.receiver.of(TENANT);
        let live = self.runs.iter_mut().find(|live| live.key() == key)?;
        let heard = self.heard.insert((message.receiver, notice.from), notice.sequence);
        Some(live.hear(message, notice, heard))
    }

    fn send(&mut self, commit: &Commit) {
        for effect in &commit.effects {
            if let Effect::Send { to, notice } = effect {
                let (sender, sequence, receiver) = (commit.key, notice.sequence, *to);
                let message = MessageRef { sender, sequence, receiver };
                self.mail.push((message, notice.clone()));
            }
        }
    }

    fn snapshot(&mut self, key: Key) -> Option<Vec<u8>> {
        let live = self.runs.iter().find(|live| live.key() == key)?;
        self.dice.one_in(4).then(|| live.run.snapshot())
    }
}
