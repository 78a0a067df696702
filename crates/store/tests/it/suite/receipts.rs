//! Receipts and claims: written with the commit that they belong to, or not at all.

use abide_core::{Start, TenantId};
use abide_store::{Commit, Receipt, Store};

use crate::engine::{commit, engines, submit, word, words};
use crate::live::{BEGIN, Live, TENANT, key, run_id, start};
use crate::workflow::{instant, waiting};

fn receipt(byte: u8) -> Receipt {
    Receipt {
        tenant: TENANT,
        endpoint: "createRun".to_owned(),
        key: [byte; 32],
        digest: [byte ^ 1; 32],
        status: 201,
        body: vec![b'{', byte, 0, b'}'],
        at: BEGIN,
    }
}

async fn kept(store: &dyn Store, receipt: &Receipt) -> Option<Receipt> {
    store.receipt(receipt.tenant, receipt.endpoint.clone(), receipt.key).await.unwrap()
}

/// The first commit of a run that has its scope to itself.
fn claiming(n: u32, scope: Option<&str>) -> (Live, Commit) {
    let scope = scope.map(str::to_owned);
    Live::start_with(Start { scope, exclusive: true, ..start(key(n), &waiting()) }, BEGIN)
}

async fn claimant(store: &dyn Store, scope: &str) -> Option<abide_core::RunId> {
    let workflow = waiting().workflow_id.to_string();
    store.claimant(TENANT, workflow, scope.to_owned()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_comes_with_its_commit_and_stays() {
    for engine in engines() {
        let store = engine.open();
        let (_, created) = Live::start(key(1), &waiting());
        commit(&*store, Commit { receipt: Some(receipt(1)), ..created }).await.unwrap();
        drop(store);
        let store = engine.open();
        assert_eq!(kept(&*store, &receipt(1)).await, Some(receipt(1)));
        assert_eq!(kept(&*store, &receipt(2)).await, None);
        for other in [
            Receipt { tenant: TenantId(2), ..receipt(1) },
            Receipt { endpoint: "cancelRun".to_owned(), ..receipt(1) },
        ] {
            assert_eq!(kept(&*store, &other).await, None, "{other:?}");
            assert!(store.put_receipt(other.clone()).await.unwrap());
            assert_eq!(kept(&*store, &other).await, Some(other));
        }
        assert_eq!(kept(&*store, &receipt(1)).await, Some(receipt(1)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_commit_under_the_same_key_writes_nothing_and_harms_no_other() {
    for engine in engines() {
        let store = engine.open();
        let (_, plug) = Live::start(key(100), &waiting());
        let stalled = engine.gate().stall(&*store, plug);
        let mut pending = Vec::new();
        for n in 1..=5 {
            let (_, created) = Live::start(key(n), &waiting());
            let body = vec![n as u8];
            pending
                .push(submit(&*store, Commit { receipt: Some(Receipt { body, ..receipt(1) }), ..created }));
            let (_, created) = Live::start(key(10 + n), &waiting());
            pending.push(submit(&*store, created));
        }
        drop(stalled);
        let told = words(pending).await;
        let (with, without): (Vec<_>, Vec<_>) = told.chunks(2).map(|pair| (pair[0], pair[1])).unzip();
        assert_eq!(with, ["ok", "receipted", "receipted", "receipted", "receipted"]);
        assert_eq!(without, ["ok"; 5]);
        assert!(store.head(key(1)).await.unwrap().is_some());
        for n in 2..=5 {
            assert!(store.head(key(n)).await.unwrap().is_none(), "run {n} came about all the same");
        }
        assert_eq!(kept(&*store, &receipt(1)).await.unwrap().body, [1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_commit_leaves_no_receipt() {
    for engine in engines() {
        let store = engine.open();
        let (mut live, created) = Live::start(key(1), &waiting());
        commit(&*store, created).await.unwrap();
        let mut rival = live.clone();
        commit(&*store, live.pause()).await.unwrap();
        let late = Commit { receipt: Some(receipt(1)), ..rival.cancel() };
        assert_eq!(word(&commit(&*store, late).await), "stale");
        assert_eq!(kept(&*store, &receipt(1)).await, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_without_a_commit_is_kept_once() {
    for engine in engines() {
        let store = engine.open();
        assert!(store.put_receipt(receipt(1)).await.unwrap());
        assert!(!store.put_receipt(Receipt { status: 200, ..receipt(1) }).await.unwrap());
        assert_eq!(kept(&*store, &receipt(1)).await, Some(receipt(1)));
        let (_, created) = Live::start(key(1), &waiting());
        let again = Commit { receipt: Some(receipt(1)), ..created };
        assert_eq!(word(&commit(&*store, again).await), "receipted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_receipts_are_forgotten_some_at_a_time() {
    for engine in engines() {
        let store = engine.open();
        for n in 0..10 {
            let tenant = TenantId(1 + u32::from(n) % 2);
            let at = BEGIN + i64::from(n);
            assert!(store.put_receipt(Receipt { tenant, at, ..receipt(n) }).await.unwrap());
        }
        assert_eq!(store.purge_receipts(BEGIN, 100).await.unwrap(), 0);
        assert_eq!(store.purge_receipts(BEGIN + 6, 4).await.unwrap(), 4);
        assert_eq!(store.purge_receipts(BEGIN + 6, 4).await.unwrap(), 2);
        assert_eq!(store.purge_receipts(BEGIN + 6, 4).await.unwrap(), 0);
        assert_eq!(engine.dump()["receipts"].len(), 4);
        assert!(kept(&*store, &receipt(6)).await.is_some());
        assert!(kept(&*store, &receipt(4)).await.is_none());
        assert!(store.put_receipt(receipt(4)).await.unwrap(), "the key can be used again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_gets_the_scope() {
    for engine in engines() {
        let store = engine.open();
        let (_, plug) = Live::start(key(100), &waiting());
        let stalled = engine.gate().stall(&*store, plug);
        let pending = (1..=6).map(|n| submit(&*store, claiming(n, Some("order-7")).1)).collect();
        drop(stalled);
        let told = words(pending).await;
        assert_eq!(told.iter().filter(|word| **word == "ok").count(), 1, "{told:?}");
        assert_eq!(told.iter().filter(|word| **word == "claimed").count(), 5, "{told:?}");
        assert_eq!(claimant(&*store, "order-7").await, Some(run_id(1)));
        let (_, elsewhere) = claiming(7, Some("order-8"));
        commit(&*store, elsewhere).await.unwrap();
        let (_, unscoped) = claiming(8, None);
        commit(&*store, unscoped).await.unwrap();
        assert_eq!(claimant(&*store, "").await, Some(run_id(8)));
        let (_, free) = Live::start(key(9), &waiting());
        commit(&*store, free).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_ends_with_its_run() {
    for engine in engines() {
        let store = engine.open();
        let (mut live, created) = claiming(1, None);
        commit(&*store, created).await.unwrap();
        commit(&*store, live.pause()).await.unwrap();
        assert_eq!(word(&commit(&*store, claiming(2, None).1).await), "claimed");
        commit(&*store, live.cancel()).await.unwrap();
        assert_eq!(claimant(&*store, "").await, None);
        assert!(engine.dump()["claims"].is_empty());
        commit(&*store, claiming(3, None).1).await.unwrap();
        assert_eq!(claimant(&*store, "").await, Some(run_id(3)));
        let scope = Some("brief".to_owned());
        let at_once = Start { scope, exclusive: true, ..start(key(4), &instant()) };
        for n in [4, 5] {
            let at_once = Start { key: key(n), ..at_once.clone() };
            commit(&*store, Live::start_with(at_once, BEGIN).1).await.unwrap();
        }
        assert_eq!(engine.dump()["claims"].len(), 1, "a run that ended in its first commit claims nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tenant_has_scopes_of_its_own() {
    for engine in engines() {
        let store = engine.open();
        commit(&*store, claiming(1, None).1).await.unwrap();
        let other = run_id(1).of(TenantId(2));
        let start = Start { exclusive: true, ..start(other, &waiting()) };
        commit(&*store, Live::start_with(start, BEGIN).1).await.unwrap();
        assert_eq!(claimant(&*store, "").await, Some(run_id(1)));
    }
}
