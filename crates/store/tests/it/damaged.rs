//! Data directories that must not be worked on: each is refused by name, with a way out, and left as it is.

use std::fs;

use abide_store::{Error, Sqlite, SqliteOptions, Store};
use rusqlite::Connection;

use crate::data_dir::DataDir;
use crate::derived::fold_everything;
use crate::engine::{commit, rows};
use crate::live::{Live, key};
use crate::workflow::instant;
use crate::world::World;

const RESTORE: &str = "restore the last backup";

/// Demands that a server and a reader both refuse the directory, name the file and say all of `parts`, and
/// that it is the same afterwards, byte for byte.
#[track_caller]
fn check(dir: &DataDir, parts: &[&str]) {
    let before = dir.content();
    check_refusal(dir, "a server", Sqlite::open(&dir.options()), parts);
    check_refusal(dir, "a reader", Sqlite::open_for_reading(dir.place(), crate::engine::sealing()), parts);
    let after = dir.content();
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    for (name, bytes) in &before {
        assert!(after[name] == *bytes, "{name} was changed");
    }
}

#[track_caller]
fn check_refusal(dir: &DataDir, who: &str, opened: Result<Sqlite, Error>, parts: &[&str]) {
    let error = opened.err().unwrap_or_else(|| panic!("{who} opened it"));
    assert!(matches!(error, Error::Damaged { .. } | Error::Refused(_)), "{who}: {error:?}");
    let message = error.to_string();
    assert!(message.contains(&dir.db().display().to_string()), "{who}: {message}");
    for part in parts {
        assert!(message.contains(part), "{who}: no '{part}' in: {message}");
    }
}

/// Before they are damaged, they are fine: what the other tests see is the damage.
#[tokio::test(flavor = "multi_thread")]
async fn sound_directories_are_opened() {
    for dir in [DataDir::stopped().await, DataDir::killed().await] {
        let reader = Sqlite::open_for_reading(dir.place(), crate::engine::sealing()).unwrap();
        let events = reader.totals().await.unwrap().events;
        assert!(events > 200);
        drop(reader);
        let store = Sqlite::open(&dir.options()).unwrap();
        assert_eq!(store.totals().await.unwrap().events, events);
        fold_everything(&store, &World::new(0).graph).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_file_is_a_new_database() {
    let dir = DataDir::with(b"");
    let message = Sqlite::open_for_reading(dir.place(), crate::engine::sealing()).err().unwrap().to_string();
    assert!(message.contains("abide.db") && message.contains("Start this version's server"), "{message}");
    let store = Sqlite::open(&dir.options()).unwrap();
    commit(&store, Live::start(key(1), &instant()).1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_not_there_is_made_but_not_by_a_reader() {
    let dir = DataDir::empty();
    let inner = dir.path("a/b");
    let message = Sqlite::open_for_reading(&inner, crate::engine::sealing()).err().unwrap().to_string();
    assert!(message.contains(&inner.display().to_string()) && message.contains("no abide.db"), "{message}");
    assert!(!inner.exists());
    drop(Sqlite::open(&SqliteOptions::new(&inner)).unwrap());
    assert!(inner.join("abide.db").exists());
}

#[test]
fn a_file_in_place_of_the_directory_is_refused() {
    let dir = DataDir::empty();
    let place = dir.path("data");
    fs::write(&place, "not a directory").unwrap();
    for opened in [
        Sqlite::open(&SqliteOptions::new(&place)),
        Sqlite::open_for_reading(&place, crate::engine::sealing()),
    ] {
        let message = opened.err().unwrap().to_string();
        assert!(message.contains(&place.display().to_string()), "{message}");
    }
    assert_eq!(fs::read(&place).unwrap(), b"not a directory");
}

#[test]
fn a_directory_in_place_of_the_file_is_refused() {
    let dir = DataDir::empty();
    fs::create_dir(dir.db()).unwrap();
    check(&dir, &["is not a file", "move it away"]);
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    check(&DataDir::with(b"short"), &["too short to be a database", RESTORE]);
    check(&DataDir::with(&[b'x'; 5000]), &["not a SQLite database", RESTORE]);
    check(&DataDir::with(&[0; 8192]), &["not a SQLite database", RESTORE]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_cut_short_is_refused() {
    let length = DataDir::stopped().await.bytes("abide.db").len() as u64;
    for left in [31, 100, 4096, 6000, length / 2, length - 4096, length - 1] {
        let dir = DataDir::stopped().await.truncate("abide.db", left);
        let reason = if left < 32 { "too short" } else { "cut short" };
        check(&dir, &[reason, RESTORE]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_first_page_is_refused() {
    for (at, bytes) in [
        (16, &[0x12, 0x34][..]), // the page size
        (18, &[9, 9]),           // the format's version
        (44, &[0, 0, 0, 77]),    // the schema's format
        (100, &[0xaa; 3000]),    // the schema itself
        (100, &[0; 3996]),
    ] {
        let dir = DataDir::stopped().await.overwrite("abide.db", at, bytes);
        check(&dir, &[RESTORE]);
    }
}

#[test]
fn a_database_of_another_application_is_refused() {
    for sql in [
        "CREATE TABLE bookmarks (url TEXT); INSERT INTO bookmarks VALUES ('a')",
        "PRAGMA application_id = 7; CREATE TABLE bookmarks (url TEXT)",
        "PRAGMA user_version = 1; CREATE TABLE aggregates (tenant INTEGER)",
        "PRAGMA journal_mode = WAL; CREATE TABLE bookmarks (url TEXT)",
        "PRAGMA user_version = 3",
    ] {
        check(&DataDir::foreign(sql), &["not one of Abide's", "choose another --data directory"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_a_newer_version_is_refused() {
    for dir in [DataDir::stopped().await, DataDir::killed().await] {
        let dir = dir.tamper("PRAGMA user_version = 99");
        check(&dir, &["newer abide", "schema 99", "upgrade this abide", "Nothing was changed"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_migrated_database_is_refused() {
    for dir in [DataDir::stopped().await, DataDir::killed().await] {
        check(&dir.tamper("PRAGMA user_version = 0"), &[RESTORE]);
    }
    let begun =
        DataDir::foreign("PRAGMA application_id = 0x41424944; CREATE TABLE aggregates (tenant INTEGER)");
    check(&begun, &[RESTORE]);
    let begun = DataDir::foreign("PRAGMA application_id = 0x41424944; PRAGMA user_version = 1");
    check(&begun, &["incomplete", RESTORE]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_table_is_refused_by_name() {
    let dir = DataDir::stopped().await;
    let db = Connection::open(dir.db()).unwrap();
    let entries = rows(&db, "SELECT type || ' ' || name FROM sqlite_schema WHERE sql IS NOT NULL");
    drop(db);
    assert_eq!(entries.len(), 76, "{entries:?}");
    for entry in entries {
        let (_, name) = entry.split_once(' ').unwrap();
        for dir in [DataDir::stopped().await, DataDir::killed().await] {
            let dir = dir.tamper(&format!("DROP {entry}"));
            check(&dir, &["schema is incomplete or was changed", &format!("'{name}'"), RESTORE]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_schema_is_refused_by_name() {
    for (name, sql) in [
        ("timers", "ALTER TABLE timers ADD COLUMN more TEXT"),
        ("events", "ALTER TABLE events RENAME COLUMN cause TO reason"),
        ("journal", "DROP VIEW journal; CREATE VIEW journal AS SELECT * FROM events"),
        ("event_types", "DROP TABLE event_types; CREATE TABLE event_types (code INTEGER PRIMARY KEY)"),
    ] {
        for dir in [DataDir::stopped().await, DataDir::killed().await] {
            check(&dir.tamper(sql), &["changed", &format!("'{name}'"), RESTORE]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_file_beside_a_log_is_refused() {
    let dir = DataDir::killed().await.truncate("abide.db", 0);
    check(&dir, &["log", RESTORE]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_file_beside_a_log_is_refused() {
    let dir = DataDir::killed().await;
    fs::remove_file(dir.db()).unwrap();
    let before = dir.content();
    let message = Sqlite::open(&dir.options()).err().unwrap().to_string();
    assert!(message.contains("abide.db") && message.contains(RESTORE), "{message}");
    assert!(dir.content() == before);
}
