//! A run that waits for somebody is rows on disk: nothing of it is held in memory, in a queue or under a lease.

use abide_core::Status;
use abide_engine::{NewRun, limits};
use abide_store::Store;
use serde_json::json;

use crate::asked::workflow;
use crate::support::{Rig, TENANT};

/// Runs that are started at once.
const AT_ONCE: usize = 128;

async fn park(rig: &Rig, count: usize) {
    for _ in 0..count.div_ceil(AT_ONCE) {
        let starts = (0..AT_ONCE).map(|_| rig.engine.start_run(NewRun::of(TENANT, "gate")));
        for started in futures_util::future::join_all(starts).await {
            assert_eq!(started.unwrap().1, Status::WaitingApproval);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_runs_hold_no_memory_no_task_and_no_lease_however_many_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let gate = workflow("gate", "core.approvalGate", &json!({ "title": "Well?" }));
    rig.engine.push_workflow(TENANT, gate.to_string().as_bytes(), None).await.unwrap();
    let mut parked = 0;
    for more in [limits::HOT_RUNS_MAX + AT_ONCE, 2 * AT_ONCE, 4 * AT_ONCE] {
        park(&rig, more).await;
        parked += more.div_ceil(AT_ONCE) * AT_ONCE;
        let stats = rig.engine.stats();
        // What is kept beside is a cache with a bound, which does not grow with what is parked.
        assert!(stats.runs_in_memory <= limits::HOT_RUNS_MAX as u64, "{}", stats.runs_in_memory);
        assert_eq!((stats.tasks, stats.tasks_under_way, stats.commits_under_way), (0, 0, 0));
        let rows = rig.store.totals().await.unwrap();
        assert_eq!((rows.tasks, rows.work, rows.outbox, rows.timers), (0, 0, 0, 0));
        assert_eq!(rows.interrupts, parked as u64);
    }
}
