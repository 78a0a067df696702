//! The log of what is decided about runs apart from their journals: in order, chained, and nobody else's.

use abide_core::{Json, Key, TenantId};
use abide_store::{AuditHead, NewAudit, Store};
use serde_json::json;

use crate::engine::engines;
use crate::live::{BEGIN, key, run_id};

fn refused(key: Key, n: u64) -> NewAudit {
    let body = Json::of(&json!({ "n": n }));
    NewAudit { key, at: BEGIN + n as i64, kind: "resume_decision".to_owned(), body }
}

async fn verified(store: &dyn Store, tenant: TenantId) -> AuditHead {
    let mut head = AuditHead::new(tenant);
    for row in store.audit_log().page(tenant, 0, usize::MAX).await.unwrap() {
        head.accept(&row.unwrap()).unwrap();
    }
    head
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_chained_for_each_tenant_and_found_by_run() {
    for engine in engines() {
        let store = engine.open();
        assert_eq!(store.audit_log().heads().await.unwrap(), []);
        // Whether there is such a run does not matter: it may be purged, or beyond reading.
        let foreign = run_id(1).of(TenantId(2));
        for (n, key) in [key(1), key(2), key(1), foreign].into_iter().enumerate() {
            let place = store.audit_log().append(refused(key, n as u64)).await.unwrap();
            assert_eq!(place, [0, 1, 2, 0][n]);
        }
        drop(store);

        let store = engine.open();
        let about = store.audit_log().about(key(1), 10).await.unwrap();
        let told: Vec<_> = about.iter().map(|record| (record.sequence, record.at)).collect();
        assert_eq!(told, [(2, BEGIN + 2), (0, BEGIN)], "newest first");
        assert_eq!(about[0].body().unwrap().text(), r#"{"n":2}"#);
        assert_eq!(store.audit_log().about(key(1), 1).await.unwrap().len(), 1);
        assert_eq!(store.audit_log().about(foreign, 10).await.unwrap().len(), 1);
        let heads = store.audit_log().heads().await.unwrap();
        assert_eq!(heads, [verified(&*store, TenantId(1)).await, verified(&*store, TenantId(2)).await]);
        assert_eq!(heads[0].next, 3);
        let page = store.audit_log().page(TenantId(1), 1, 1).await.unwrap();
        assert_eq!(page[0].as_ref().unwrap().sequence, 1);
        assert_eq!(store.audit_log().page(TenantId(1), u64::MAX, 1).await.unwrap(), []);
    }
}
