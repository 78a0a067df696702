//! Data of an earlier version: brought up to date by a server, with everything that was in it.

use abide_store::{Sqlite, Store};
use rusqlite::Connection;

use crate::data_dir::DataDir;
use crate::engine::{dump, rows};

/// What the first release left behind.
const FIRST: &str = include_str!("../../../cli/tests/golden/0.1.sql");

const NEW_TABLES: [&str; 38] = [
    "agents",
    "audit_heads",
    "assignment_heads",
    "assignments",
    "audit_log",
    "backups",
    "breakers",
    "callbacks",
    "children",
    "circles",
    "claims",
    "conversations",
    "dead_letters",
    "deliveries",
    "dependencies",
    "external_events",
    "hooks",
    "interrupt_counts",
    "interrupts",
    "kinds",
    "members",
    "notes",
    "notice_counts",
    "notice_deliveries",
    "notices",
    "people",
    "provider_waits",
    "sessions",
    "purges",
    "purging",
    "receipts",
    "secrets",
    "watchers",
    "webhook_runs",
    "webhook_types",
    "webhooks",
    "work",
    "workflows",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_server_brings_the_first_schema_up_to_date_and_keeps_its_rows() {
    let dir = DataDir::foreign(FIRST);
    let mut before = dump(&dir.db());
    assert!(before["events"].len() > 20 && !before.contains_key("children"));
    let store = Sqlite::open(&dir.options()).unwrap();
    assert_eq!(store.totals().await.unwrap().events, before["events"].len() as u64);
    drop(store);

    let mut after = dump(&dir.db());
    for table in NEW_TABLES {
        assert_eq!(after.remove(table), Some(Vec::new()), "{table}");
    }
    for grown in ["settings", "event_types"] {
        let (kept, now) = (before.remove(grown).unwrap(), after.remove(grown).unwrap());
        assert!(now.len() >= kept.len(), "{grown}");
    }
    // No run of the first release was started by another.
    before.get_mut("aggregates").unwrap().iter_mut().for_each(|row| *row += " | 0");
    assert_eq!(after, before);
    let db = Connection::open(dir.db()).unwrap();
    assert_eq!(rows(&db, "PRAGMA user_version"), ["15"]);
    drop(db);
    let reader =
        Sqlite::open_for_reading(dir.place(), crate::engine::sealing()).expect("now it can be read, too");
    assert_eq!(reader.totals().await.unwrap().events, after["events"].len() as u64);
}

#[test]
fn a_reader_leaves_the_first_schema_alone_and_says_who_brings_it_up_to_date() {
    let dir = DataDir::foreign(FIRST);
    let before = dir.content();
    let message = Sqlite::open_for_reading(dir.place(), crate::engine::sealing()).err().unwrap().to_string();
    for part in ["schema has version 1", "this abide reads 15", "Start this version's server"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(dir.content() == before);
}

#[test]
fn an_earlier_schema_that_was_changed_is_refused_before_anything_is_done_to_it() {
    let dir = DataDir::foreign(FIRST).tamper("ALTER TABLE timers ADD COLUMN more TEXT");
    let before = dir.content();
    let message = Sqlite::open(&dir.options()).err().unwrap().to_string();
    assert!(message.contains("changed") && message.contains("'timers'"), "{message}");
    assert!(dir.content() == before);
}
