//! The power goes, at any moment. What was acknowledged is there afterwards, and nothing is half there.
//!
//! The same lives are cut short with `NORMAL` and `OFF`, which must lose what they acknowledged: that shows
//! that these tests would notice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use abide_core::RunId;
use abide_store::{Commit, Error, Lane, ListQuery, Sqlite, SqliteOptions, Store, Synchronous};
use abide_vfs::{Keep, Shim};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::derived::fold_everything;
use crate::engine::rows;
use crate::live::TENANT;
use crate::world::{Dice, World};

/// Cuts per way of cutting.
const SEEDS: u64 = 48;

/// A cut falls somewhere in the first so many writes. Opening a new directory takes about a hundred.
const WRITES_MAX: usize = 1200;

/// A machine that lost its power while a server was at work on it.
struct Wreck {
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
        for _ in 0..1 + self.world.dice.below(6) {
            let burst = 1 + self.world.dice.below(8);
            let commits: Vec<Commit> = (0..burst).map(|_| self.world.next_commit()).collect();
            self.commit(&store, commits).await?;
        }
        Ok(())
    }

    /// Submits commits that build on each other, without waiting in between.
    async fn commit(&mut self, store: &Sqlite, commits: Vec<Commit>) -> Result<(), Error> {
        let (answers, mut answered) = mpsc::unbounded_channel();
        for commit in commits {
            let next = commit.expected + commit.records.len() as u64;
            let (answers, at) = (answers.clone(), self.submitted.len());
            self.submitted.push((commit.key.id, next));
            let done = move |result| answers.send((at, result)).expect("the test waits for it");
            store.submit(commit, Lane::Interactive, Box::new(done));
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

/// Lives of many runs, cut short.
async fn wreck(synchronous: Synchronous, keep: Keep, seed: u64) -> Wreck {
    static SHIMS: AtomicU64 = AtomicU64::new(0);
    let name = format!("wreck {}", SHIMS.fetch_add(1, Ordering::Relaxed));
    let shim = Shim::power_loss(&name).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = SqliteOptions {
        synchronous,
        readers: 1,
        vfs: Some(name),
        ..SqliteOptions::new(dir.path())
    };
    let mut shift = Shift {
        options,
        world: World::new(seed),
        submitted: Vec::new(),
        acknowledged: 0,
    };
    let writes = Dice(seed).below(WRITES_MAX) as u64;
    let gave_up = Arc::new(AtomicBool::new(false));
    let cut = cut_after(shim, writes, keep, gave_up.clone());
    let error = shift.work().await;
    gave_up.store(true, Ordering::Release);
    let cut = cut.join().expect("the power goes");
    assert!(cut, "the server failed while it had power: {error}");
    let Shift { world, submitted, acknowledged, .. } = shift;
    Wreck {
        dir,
        world,
        submitted,
        acknowledged,
    }
}

/// Cuts the power once so many writes have gone through; `false` if the server gave up before that.
fn cut_after(shim: Shim, writes: u64, keep: Keep, gave_up: Arc<AtomicBool>) -> JoinHandle<bool> {
    thread::spawn(move || {
        while shim.counts().writes() < writes {
            if gave_up.load(Ordering::Acquire) {
                return false;
            }
            thread::yield_now();
        }
        shim.lose_power(keep).unwrap();
        true
    })
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
        assert_eq!(scattered, 0, "a commit survived, one before it did not");
        survived
    }

    /// Demands that the data is sound, and tells how many commits are in it and which start this is.
    async fn inspect(&self) -> (usize, u64) {
        let store = self.restart().unwrap();
        let runs = fold_everything(&store, &self.world.graph).await;
        let reached = runs.iter().map(|(id, run)| (*id, run.head().next)).collect();
        let survived = self.survived(&reached);
        assert_eq!(
            reached.values().sum::<u64>(),
            store.totals().await.unwrap().events,
            "an event without a run"
        );
        let db = Connection::open(store.file()).unwrap();
        assert_eq!(rows(&db, "PRAGMA integrity_check"), ["ok"]);
        (survived, store.boot())
    }

    /// How many commits can still be read, if the data can be read at all.
    async fn salvage(&self) -> Result<usize, Error> {
        let store = self.restart()?;
        let query = ListQuery {
            tenant: TENANT,
            status: None,
            before: None,
            limit: usize::MAX,
        };
        let listed = store.list(query).await?.into_iter();
        let reached: BTreeMap<RunId, u64> = listed.map(|listed| (listed.id, listed.next)).collect();
        let is_there = |(run, next): &&(RunId, u64)| reached.get(run).is_some_and(|reached| reached >= next);
        Ok(self.submitted.iter().filter(is_there).count())
    }
}

fn cuts(seeds: u64) -> impl Iterator<Item = (Keep, u64)> {
    (0..seeds).flat_map(move |seed| [(Keep::Nothing, seed), (Keep::Random(seed), seed + seeds)])
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_and_nothing_is_half_there() {
    let (mut acknowledged, mut while_opening, mut unheard) = (0, 0, 0);
    for (keep, seed) in cuts(SEEDS) {
        let wreck = wreck(Synchronous::Full, keep, seed).await;
        println!(
            "{keep:?}, seed {seed}: {} of {} acknowledged",
            wreck.acknowledged,
            wreck.submitted.len()
        );
        let (survived, boot) = wreck.inspect().await;
        assert!(survived >= wreck.acknowledged, "{survived} survived");
        assert!(boot > wreck.world.boot, "a start of the server was forgotten");
        acknowledged += wreck.acknowledged;
        while_opening += usize::from(wreck.submitted.is_empty());
        unheard += survived - wreck.acknowledged;
    }
    println!("{acknowledged} {while_opening} {unheard}");
    assert!(acknowledged > 1000, "the lives were too short: {acknowledged} commits");
    assert!(while_opening > 0, "no cut fell into the first start");
}

#[tokio::test(flavor = "multi_thread")]
async fn normal_loses_what_it_acknowledged_but_stays_sound() {
    let mut lost = 0;
    for (keep, seed) in cuts(8) {
        let wreck = wreck(Synchronous::Normal, keep, seed).await;
        lost += wreck.acknowledged.saturating_sub(wreck.inspect().await.0);
    }
    assert!(lost > 0, "NORMAL lost nothing: the shim or these tests are blind");
}

#[tokio::test(flavor = "multi_thread")]
async fn off_loses_what_it_acknowledged() {
    let mut lost = 0;
    for (keep, seed) in cuts(8) {
        let wreck = wreck(Synchronous::Off, keep, seed).await;
        lost += wreck.acknowledged.saturating_sub(wreck.salvage().await.unwrap_or(0));
    }
    assert!(lost > 0, "OFF lost nothing: the shim or these tests are blind");
}
