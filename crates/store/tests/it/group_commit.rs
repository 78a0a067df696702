//! What commits cost. Counted in transactions and in syncs of the log, never in time.

use std::sync::atomic::{AtomicU64, Ordering};

use abide_core::Start;
use abide_store::{Commit, Store};
use abide_vfs::{Counts, Shim};

use crate::engine::{Engine, SqliteEngine, commit, submit, words};
use crate::live::{BEGIN, Live, key, start, text_input};
use crate::workflow::{echo, instant, waiting, working};

/// Jobs that one transaction takes at the most: `BATCH_JOBS_MAX` of the queue.
const BATCH_MAX: u64 = 256;

/// A store on a disk that counts.
struct Counted {
    store: Box<dyn Store>,
    engine: SqliteEngine,
    shim: Shim,
}

/// What some work cost.
struct Cost {
    commits: u64,
    transactions: u64,
    disk: Counts,
}

impl Counted {
    fn open() -> Self {
        static SHIMS: AtomicU64 = AtomicU64::new(0);
        let name = format!("group commit {}", SHIMS.fetch_add(1, Ordering::Relaxed));
        let shim = Shim::counting(&name).unwrap();
        let engine = SqliteEngine::on(Some(name));
        let store = engine.open();
        Self { store, engine, shim }
    }

    async fn cost(&self, work: impl Future<Output = ()>) -> Cost {
        let (before, disk) = (self.store.counts(), self.shim.counts());
        work.await;
        let (after, disk) = (self.store.counts(), self.shim.counts() - disk);
        Cost {
            commits: after.commits - before.commits,
            transactions: after.transactions - before.transactions,
            disk,
        }
    }

    async fn one_by_one(&self, commits: Vec<Commit>) {
        for one in commits {
            commit(&*self.store, one).await.unwrap();
        }
    }

    /// Submits commits while the writer is busy with another one, so that all of them wait at once.
    async fn at_once(&self, commits: Vec<Commit>) -> Vec<&'static str> {
        let (_, plug) = Live::start(key(u32::MAX), &instant());
        let stalled = self.engine.gate().stall(&*self.store, plug);
        let commits = commits.into_iter();
        let pending = commits.map(|commit| submit(&*self.store, commit)).collect();
        drop(stalled);
        words(pending).await
    }
}

fn starts(runs: std::ops::Range<u32>) -> Vec<Commit> {
    runs.map(|n| Live::start(key(n), &waiting()).1).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_waited_for_costs_one_sync() {
    let counted = Counted::open();
    let cost = counted.cost(counted.one_by_one(starts(0..50))).await;
    assert_eq!((cost.commits, cost.transactions), (50, 50));
    assert_eq!((cost.disk.wal.syncs, cost.disk.syncs()), (50, 50));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_costs_one_commit_and_the_head_of_a_new_log() {
    let Counted { store, engine, shim } = Counted::open();
    drop(store);
    let before = shim.counts();
    let _store = engine.open();
    let opened = shim.counts() - before;
    assert_eq!((opened.wal.syncs, opened.syncs()), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_that_wait_together_share_a_sync() {
    const MANY: u64 = 1000;
    let counted = Counted::open();
    let cost = counted.cost(async {
        let answers = counted.at_once(starts(0..MANY as u32)).await;
        assert_eq!(answers, vec!["ok"; MANY as usize]);
    });
    let cost = cost.await;
    assert_eq!(cost.commits, MANY + 1, "and the one that kept the writer busy");
    assert_eq!(cost.transactions, MANY.div_ceil(BATCH_MAX) + 1, "as few as can be");
    assert_eq!((cost.disk.wal.syncs, cost.disk.syncs()), (cost.transactions, cost.transactions));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_transaction_is_one_sync_however_commits_arrive() {
    let counted = Counted::open();
    let cost = counted.cost(async {
        let pending = starts(0..500).into_iter().map(|start| submit(&*counted.store, start));
        assert_eq!(words(pending.collect()).await, ["ok"; 500]);
    });
    let cost = cost.await;
    assert_eq!(cost.commits, 500);
    assert!(cost.transactions >= 500_u64.div_ceil(BATCH_MAX) && cost.transactions <= 500);
    assert_eq!((cost.disk.wal.syncs, cost.disk.syncs()), (cost.transactions, cost.transactions));
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_commits_cost_the_others_nothing() {
    let counted = Counted::open();
    let cost = counted.cost(async {
        let commits = starts(0..50).into_iter().flat_map(|start| [start.clone(), start]);
        assert_eq!(counted.at_once(commits.collect()).await, ["ok", "stale"].repeat(50));
    });
    let cost = cost.await;
    assert_eq!((cost.commits, cost.transactions, cost.disk.syncs()), (51, 2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_costs_its_batch_the_sharing_and_no_more() {
    let counted = Counted::open();
    let (mut fenced, created) = Live::start(key(1000), &working());
    counted.one_by_one(vec![created]).await;
    let cost = counted.cost(async {
        let mut commits = starts(0..20);
        commits.insert(10, fenced.report(7));
        let mut expected = ["ok"; 21];
        expected[10] = "fenced";
        assert_eq!(counted.at_once(commits).await, expected);
    });
    let cost = cost.await;
    // What is undone is never synced: the batch at first, and the fenced one by itself.
    assert_eq!((cost.commits, cost.transactions), (21, 21));
    assert_eq!((cost.disk.wal.syncs, cost.disk.syncs()), (21, 21));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rare_write_costs_one_sync_and_parts_the_batch_around_it() {
    let counted = Counted::open();
    let cost = counted.cost(async {
        let (_, plug) = Live::start(key(u32::MAX), &instant());
        let stalled = counted.engine.gate().stall(&*counted.store, plug);
        let submit_all = |commits: Vec<Commit>| commits.into_iter().map(|one| submit(&*counted.store, one));
        let mut pending: Vec<_> = submit_all(starts(0..20)).collect();
        // It takes its place in the queue when it is called, not when it is awaited.
        let clock = counted.store.set_test_clock(BEGIN);
        pending.extend(submit_all(starts(20..40)));
        drop(stalled);
        assert_eq!(words(pending).await, ["ok"; 40]);
        assert_eq!(clock.await.unwrap(), BEGIN);
    });
    let cost = cost.await;
    assert_eq!((cost.commits, cost.transactions), (41, 3));
    assert_eq!(cost.disk.syncs(), 3 + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn folding_the_log_into_the_file_costs_a_few_syncs_in_thousands_of_pages() {
    let counted = Counted::open();
    // 16 MiB of log make a fold; each of these commits writes its text twice.
    let text = "x".repeat(512 * 1024);
    let large = (0..24).map(|n| {
        let inputs = text_input(&format!("{n}{text}"));
        let start = Start { inputs, ..start(key(n), &echo()) };
        Live::start_with(start, BEGIN).1
    });
    let cost = counted.cost(counted.one_by_one(large.collect())).await;
    assert_eq!((cost.transactions, cost.disk.main.syncs), (24, 1), "the log was folded once");
    // A fold syncs the log and then the file; the commit after it begins the log anew and syncs its head.
    assert_eq!(cost.disk.wal.syncs, cost.transactions + 2);
}
