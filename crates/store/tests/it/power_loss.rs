//! The power goes, at any moment. What was acknowledged is there afterwards, and nothing is half there.
//!
//! The same lives are cut short with `NORMAL` and `OFF`, which must lose what they acknowledged: that shows
//! that these tests would notice.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;

use abide_core::RunId;
use abide_store::{Commit, Error, Lane, ListQuery, Sqlite, SqliteOptions, Stage, Store, Synchronous};
use abide_vfs::{Keep, Shim};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::derived::fold_everything;
use crate::engine::rows;
use crate::live::TENANT;
use crate::world::{Dice, World};

/// Stages of the writer after which the power is gone at the latest: two for each transaction.
const STAGES_MAX: usize = 30;

/// Writes that it takes to make a new directory, about.
const OPENING_WRITES: usize = 120;

/// Machines at work at the same time.
const AT_ONCE: usize = 4;

/// A machine that lost its power while a server was at work on it.
struct Wreck {
    keep: Keep,
    seed: u64,
    dir: TempDir,
    world: World,
    /// Which run got to which sequence, commit by commit.
    submitted: Vec<(RunId, u64)>,
    /// How many of those were answered with `Ok`: the first ones.
    acknowledged: usize,
}

/// A server at work, until its disk fails.
struct Shift {
    options: SqliteOptions,
    world: World,
    submitted: Vec<(RunId, u64)>,
    acknowledged: usize,
}

impl Shift {
    /// Starts, works and stops, over and over. Ends with the error that ends it all.
    async fn work(&mut self) -> Error {
        loop {
            if let Err(error) = self.serve().await {
                return error;
            }
        }
    }

    /// From start to stop, which folds the log into the file.
    async fn serve(&mut self) -> Result<(), Error> {
        let store = Sqlite::open(&self.options)?;
        let tasks = store.claim_tasks(store.boot(), 1000).await?;
        self.world.claimed(store.boot(), tasks);
        for _ in 0..1 + self.world.dice.below(4) {
            let burst = 1 + self.world.dice.below(10);
            let commits: Vec<Commit> = (0..burst).map(|_| self.world.next_commit()).collect();
            self.commit(&store, commits).await?;
        }
        Ok(())
    }

    /// Submits commits that build on each other, without waiting in between.
    async fn commit(&mut self, store: &Sqlite, commits: Vec<Commit>) -> Result<(), Error> {
        let (answers, mut answered) = mpsc::unbounded_channel();
        for commit in commits {
            let next = commit.base.next + commit.records.len() as u64;
            let (answers, at) = (answers.clone(), self.submitted.len());
            self.submitted.push((commit.key.id, next));
            let done = move |result| answers.send((at, result)).expect("the test waits for it");
            assert!(store.submit(commit, Lane::Interactive, Box::new(done)).is_ok());
        }
        drop(answers);
        let mut outcome = Ok(());
        while let Some((at, result)) = answered.recv().await {
            match result {
                Ok(()) => {
                    assert_eq!(at, self.acknowledged, "acknowledged after something before it had failed");
                    self.acknowledged += 1;
                }
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }
}

/// When the power goes.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// While a new directory is being made, about when so many writes have gone through.
    Opening { writes: u64 },
    /// About when the writer passes so many stages: before a commit, after it, or while the log is folded.
    Serving { stages: u64 },
}

impl Moment {
    fn of(seed: u64) -> Self {
        let mut dice = Dice(seed);
        match dice.below(8) {
            0 => Self::Opening { writes: dice.below(OPENING_WRITES) as u64 },
            _ => Self::Serving { stages: 1 + dice.below(STAGES_MAX) as u64 },
        }
    }
}

/// Lives of many runs, cut short.
async fn wreck(synchronous: Synchronous, keep: Keep, seed: u64) -> Wreck {
    static SHIMS: AtomicU64 = AtomicU64::new(0);
    let name = format!("wreck {}", SHIMS.fetch_add(1, Ordering::Relaxed));
    let shim = Shim::power_loss(&name).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (stages, passed) = std::sync::mpsc::channel();
    let options = SqliteOptions {
        synchronous,
        readers: 1,
        vfs: Some(name),
        on_stage: Some(Arc::new(move |stage| {
            // Once the power is gone, nobody counts any more.
            let _ = stages.send(stage);
        })),
        ..SqliteOptions::new(dir.path())
    };
    let mut shift = Shift { options, world: World::new(seed), submitted: Vec::new(), acknowledged: 0 };
    let cut = thread::spawn(move || cut_at(Moment::of(seed), shim, keep, &passed));
    let error = shift.work().await;
    // Hanging up the stages ends the wait for them, should the server have failed by itself.
    let Shift { options, world, submitted, acknowledged } = shift;
    drop(options);
    let cut = cut.join().expect("the power goes");
    assert!(cut, "the server failed while it had power: {error}");
    Wreck { keep, seed, dir, world, submitted, acknowledged }
}

/// Waits for the moment and cuts the power; `false` if the server gave up before that.
fn cut_at(moment: Moment, shim: Shim, keep: Keep, passed: &Receiver<Stage>) -> bool {
    let came = match moment {
        Moment::Serving { stages } => passed.iter().take(stages as usize).count() as u64 == stages,
        Moment::Opening { writes } => loop {
            if shim.counts().writes() >= writes {
                break true;
            }
            if passed.try_recv() == Err(TryRecvError::Disconnected) {
                break false;
            }
            thread::yield_now();
        },
    };
    if came {
        shim.lose_power(keep).unwrap();
    }
    came
}

impl fmt::Display for Wreck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keep, seed) = (self.keep, self.seed);
        let (submitted, acknowledged) = (self.submitted.len(), self.acknowledged);
        write!(f, "{keep:?}, seed {seed}, {acknowledged} of {submitted} acknowledged")
    }
}

impl Wreck {
    fn restart(&self) -> Result<Sqlite, Error> {
        Sqlite::open(&SqliteOptions::new(self.dir.path()))
    }

    /// How many of the submitted commits are there: all up to some point, and none after it.
    fn survived(&self, reached: &BTreeMap<RunId, u64>) -> usize {
        let is_there = |(run, next): &&(RunId, u64)| reached.get(run).is_some_and(|reached| reached >= next);
        let survived = self.submitted.iter().take_while(is_there).count();
        let scattered = self.submitted[survived..].iter().filter(is_there).count();
        assert_eq!(scattered, 0, "{self}: a commit survived, one before it did not");
        survived
    }

    /// Demands that the data is sound, and tells how many commits are in it and which start this is.
    async fn inspect(&self) -> (usize, u64) {
        let store = self.restart().unwrap_or_else(|error| panic!("{self}: {error}"));
        let runs = fold_everything(&store, &self.world.graph).await;
        let reached = runs.iter().map(|(id, run)| (*id, run.head().next)).collect();
        let survived = self.survived(&reached);
        assert_eq!(
            reached.values().sum::<u64>(),
            store.totals().await.unwrap().events,
            "{self}: an event without a run"
        );
        let db = Connection::open(store.file()).unwrap();
        assert_eq!(rows(&db, "PRAGMA integrity_check"), ["ok"], "{self}");
        (survived, store.boot())
    }

    /// How many commits can still be read, if the data can be read at all.
    async fn salvage(&self) -> Result<usize, Error> {
        let store = self.restart()?;
        let query =
            ListQuery { tenant: TENANT, status: None, workflow: None, before: None, limit: usize::MAX };
        let listed = store.list(query).await?.into_iter();
        let reached: BTreeMap<RunId, u64> = listed.map(|listed| (listed.id, listed.next)).collect();
        let is_there = |(run, next): &&(RunId, u64)| reached.get(run).is_some_and(|reached| reached >= next);
        Ok(self.submitted.iter().filter(is_there).count())
    }
}

/// Looks at a wreck for each way of cutting, a few at a time since most of it is waiting for disks.
async fn for_each_cut<F>(seeds: u64, look: fn(Keep, u64) -> F) -> Vec<usize>
where
    F: Future<Output = usize> + Send + 'static,
{
    let lane = move |first: u64| async move {
        let mut found = Vec::new();
        for seed in (first..seeds).step_by(AT_ONCE) {
            found.push(look(Keep::Nothing, seed).await);
            found.push(look(Keep::Random(seed), seeds + seed).await);
        }
        found
    };
    let lanes: Vec<_> = (0..AT_ONCE as u64).map(|first| tokio::spawn(lane(first))).collect();
    let mut found = Vec::new();
    for lane in lanes {
        found.extend(lane.await.expect("no wreck is beyond repair"));
    }
    found
}

async fn acknowledged_by_full(keep: Keep, seed: u64) -> usize {
    let wreck = wreck(Synchronous::Full, keep, seed).await;
    let (survived, boot) = wreck.inspect().await;
    assert!(survived >= wreck.acknowledged, "{wreck}: {survived} survived");
    assert!(boot > wreck.world.boot, "{wreck}: a start of the server was forgotten");
    wreck.acknowledged
}

async fn lost_by_normal(keep: Keep, seed: u64) -> usize {
    let wreck = wreck(Synchronous::Normal, keep, seed).await;
    let (survived, _) = wreck.inspect().await;
    wreck.acknowledged.saturating_sub(survived)
}

async fn lost_by_off(keep: Keep, seed: u64) -> usize {
    let wreck = wreck(Synchronous::Off, keep, seed).await;
    let survived = wreck.salvage().await.unwrap_or(0);
    wreck.acknowledged.saturating_sub(survived)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_acknowledged_survives_and_nothing_is_half_there() {
    let acknowledged = for_each_cut(40, acknowledged_by_full).await;
    let sum: usize = acknowledged.iter().sum();
    assert!(sum > 1000, "the lives were too short: {sum} commits");
    assert!(acknowledged.contains(&0), "no cut fell into the first start");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn normal_loses_what_it_acknowledged_but_stays_sound() {
    let lost: usize = for_each_cut(8, lost_by_normal).await.iter().sum();
    assert!(lost > 0, "NORMAL lost nothing: the shim or these tests are blind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn off_loses_what_it_acknowledged() {
    let lost: usize = for_each_cut(8, lost_by_off).await.iter().sum();
    assert!(lost > 0, "OFF lost nothing: the shim or these tests are blind");
}
