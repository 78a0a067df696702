//! Rows that this version can't read: they are left alone, and hold up no other.

use abide_core::{Effect, Parent, RunId, Spawn};
use abide_store::{Message, Sqlite, Store};

use crate::data_dir::DataDir;
use crate::engine::commit;
use crate::live::{Live, key, run_id, text_input};
use crate::workflow::{instant, working};

/// A stopped server's data: a run with three children, two tasks, and a message of another run.
async fn furnished() -> DataDir {
    let dir = DataDir::empty();
    let store = Sqlite::open(&dir.options()).unwrap();
    let (_, mut created) = Live::start(key(1), &working());
    for child in [11, 12, 13] {
        created.effects.push(Effect::Spawn(Spawn {
            child: run_id(child),
            workflow_id: "errand".to_owned(),
            inputs: text_input("for the child"),
            sensitive: Vec::new(),
            unset: Vec::new(),
            parent: Parent::of(run_id(1), "call"),
            cascade: true,
            trace: None,
        }));
    }
    for created in [created, Live::start(key(2), &working()).1] {
        commit(&store, created).await.unwrap();
    }
    commit(&store, Live::start_child(key(3), &instant(), run_id(9)).1).await.unwrap();
    drop(store);
    dir
}

async fn receivers(store: &Sqlite, limit: usize) -> Vec<RunId> {
    let rows = store.outbox(None, limit).await.unwrap();
    rows.iter().map(|row| row.at.receiver).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_later_version_is_left_for_it() {
    for set in ["type = 4", "version = 2", "message = x'7b'", "type = 3", "type = 'two'"] {
        let first = format!("UPDATE outbox SET {set} WHERE substr(receiver, 16) = x'0b'");
        let dir = furnished().await.tamper(&first);
        let store = Sqlite::open(&dir.options()).unwrap();
        assert_eq!(receivers(&store, 10).await, [12, 13, 9].map(run_id), "{set}");
        assert_eq!(receivers(&store, 1).await, [run_id(12)], "{set}: a page is as long as it may be");
        assert_eq!(store.totals().await.unwrap().outbox, 4, "{set}: it is still there");
        let rows = store.outbox(None, 10).await.unwrap();
        assert!(matches!(rows[2].message, Message::Notice(_)), "{set}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_cannot_be_read_hides_no_other() {
    let sql = "UPDATE children SET node = x'ff' WHERE substr(child, 16) = x'0b'";
    let dir = furnished().await.tamper(sql);
    let store = Sqlite::open(&dir.options()).unwrap();
    let children = store.children(key(1), 2).await.unwrap();
    assert_eq!(children.iter().map(|row| row.child).collect::<Vec<_>>(), [12, 13].map(run_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_cannot_be_read_is_claimed_past() {
    for set in [
        "node = CAST(x'ff' AS TEXT)",
        "node = x'ff'",
        "id = x'01'",
        "execution = 'first'",
        "fence = -7",
        "boot = 'nobody'",
    ] {
        let dir = furnished().await.tamper(&format!("UPDATE tasks SET {set} WHERE substr(id, 16) = x'01'"));
        let store = Sqlite::open(&dir.options()).unwrap();
        let claimed = store.claim_tasks(store.boot(), 2).await.unwrap();
        assert!(claimed.iter().any(|row| row.key == key(2) && !row.retaken), "{set}: {claimed:?}");
        assert!(
            store.claim_tasks(store.boot(), 2).await.unwrap().is_empty(),
            "{set}: nothing is left to claim"
        );
    }
}
