//! Rows that this version can't read: they are left alone, and hold up no other.

use abide_core::{Effect, EventType, Health, Parent, RunId, Spawn};
use abide_store::{Added, DeliveryQuery, Message, Sqlite, Store, WebhookKey, WebhookRow};

use crate::data_dir::DataDir;
use crate::engine::{commit, dump};
use crate::live::{BEGIN, Live, TENANT, key, run_id, text_input};
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
            definition: None,
            inputs: text_input("for the child"),
            sensitive: Vec::new(),
            unset: Vec::new(),
            parent: Parent::of(run_id(1), "call"),
            cascade: true,
            trace: None,
            by: None,
            depends_on: Vec::new(),
            draft: false,
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

/// A stopped server's data: two webhooks for everything, `bad` and `good`, and a run on its way to both.
async fn with_webhooks() -> DataDir {
    let dir = DataDir::empty();
    let store = Sqlite::open(&dir.options()).unwrap();
    for id in ["bad", "good"] {
        let row = WebhookRow {
            key: webhook(id),
            url: "https://a.example/".to_owned(),
            types: vec!["*".to_owned()],
            tags: Vec::new(),
            sealed: [].into(),
            fingerprint: String::new(),
            created_at: BEGIN,
            created_by: None,
            health: Health::default(),
            about: None,
        };
        assert_eq!(store.webhooks().put(row, 10, None).await.unwrap(), Added::Done);
    }
    commit(&store, Live::start(key(1), &instant()).1).await.unwrap();
    drop(store);
    dir
}

fn webhook(id: &str) -> WebhookKey {
    WebhookKey { tenant: TENANT, id: id.into() }
}

async fn on_their_way(store: &Sqlite, id: &str) -> usize {
    let query = DeliveryQuery { webhook: webhook(id), dead: false, after: None, limit: 10 };
    store.webhooks().deliveries(query).await.unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_cannot_be_read_keeps_no_server_from_opening() {
    for set in ["types = '['", "types = x'ff'", "types = 7"] {
        let dir = with_webhooks().await.tamper(&format!("UPDATE webhooks SET {set} WHERE id = 'bad'"));
        let store = Sqlite::open(&dir.options()).unwrap();
        commit(&store, Live::start(key(2), &instant()).1).await.unwrap();
        assert_eq!(on_their_way(&store, "good").await, 2, "{set}");
        assert!(store.webhooks().delete(webhook("bad")).await.unwrap(), "{set}: it can be removed");
        assert_eq!(store.webhooks().list(TENANT).await.unwrap().len(), 1, "{set}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_it_cannot_be_read_what_webhooks_want_every_commit_asks() {
    let started = EventType::by_name("run.started").unwrap().code;
    let sql = format!("UPDATE webhook_types SET type = 'none' WHERE webhook = 'bad' AND type = {started}");
    let dir = with_webhooks().await.tamper(&sql);
    let store = Sqlite::open(&dir.options()).unwrap();
    commit(&store, Live::start(key(2), &instant()).1).await.unwrap();
    assert_eq!(on_their_way(&store, "good").await, 2);
    assert!(
        store.webhooks().enable(webhook("good"), BEGIN).await.unwrap(),
        "what was done is not called failed"
    );
    assert!(store.webhooks().delete(webhook("bad")).await.unwrap());
    assert!(store.webhooks().delete(webhook("good")).await.unwrap());
    let before = store.counts().matched;
    commit(&store, Live::start(key(3), &instant()).1).await.unwrap();
    assert_eq!(store.counts().matched, before, "it is known again");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_webhook_that_is_gone_goes_at_the_next_start() {
    let letter =
        "INSERT INTO dead_letters (tenant, webhook, run, seq, attempts) VALUES (1, 'bad', x'00', 0, 9)";
    let dir = with_webhooks().await.tamper(letter).tamper("DELETE FROM webhooks WHERE id = 'bad'");
    let store = Sqlite::open(&dir.options()).unwrap();
    commit(&store, Live::start(key(2), &instant()).1).await.unwrap();
    assert_eq!((on_their_way(&store, "bad").await, on_their_way(&store, "good").await), (0, 2));
    drop(store);
    let dump = dump(&dir.db());
    assert!(dump["webhook_types"].iter().all(|row| row.ends_with(" | good")));
    assert!(dump["dead_letters"].is_empty() && dump["deliveries"].len() == 2);
}
