//! What a person with a SQL prompt sees in the file.

use abide_core::{Payload, Start, event_types};
use abide_store::{Commit, Sqlite, SqliteOptions};
use rusqlite::Connection;

use crate::engine::{commit, rows};
use crate::live::{BEGIN, Live, key, start, text_input};
use crate::workflow::{echo, waiting};

fn payload_texts(commit: &Commit) -> Vec<String> {
    let text = |payload: &Payload| match payload {
        Payload::Present(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Payload::Erased(_) => panic!("nothing was erased"),
    };
    commit.records.iter().map(|record| text(&record.payload)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_reads_as_text() {
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&SqliteOptions::new(dir.path())).unwrap();
    // The second is longer than a row holds, so that its payload lies in a blob.
    for (n, text) in [(0xabcd_ef01_u32, "grüezi".to_owned()), (2, "grüezi ".repeat(1000))] {
        let start = Start { inputs: text_input(&text), ..start(key(n), &echo()) };
        let (_, created) = Live::start_with(start, BEGIN + 7);
        commit(&store, created.clone()).await.unwrap();
        let db = Connection::open(store.file()).unwrap();
        let run = key(n).id.to_string();
        let query = format!("SELECT tenant, seq, at, type, node, payload FROM journal WHERE run = '{run}'");
        let texts = payload_texts(&created);
        let expected = [
            format!("1 | 0 | 2023-11-14T22:13:20.007Z | run.started | Null | {}", texts[0]),
            format!("1 | 1 | 2023-11-14T22:13:20.007Z | node.started | echo | {}", texts[1]),
            format!("1 | 2 | 2023-11-14T22:13:20.007Z | node.completed | echo | {}", texts[2]),
            format!("1 | 3 | 2023-11-14T22:13:20.007Z | run.completed | Null | {}", texts[3]),
        ];
        assert_eq!(rows(&db, &query), expected);
        assert!(texts[0].contains(&text) && texts[2].contains(&text), "the text is legible");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_type_has_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&SqliteOptions::new(dir.path())).unwrap();
    let db = Connection::open(store.file()).unwrap();
    let mut known: Vec<_> = event_types().iter().map(|kind| (kind.code, kind.name)).collect();
    known.sort_unstable();
    let expected: Vec<String> = known.iter().map(|(code, name)| format!("{code} | {name}")).collect();
    assert_eq!(rows(&db, "SELECT code, name FROM event_types ORDER BY code"), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_payload_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&SqliteOptions::new(dir.path())).unwrap();
    let (_, created) = Live::start(key(1), &echo());
    commit(&store, created).await.unwrap();
    let db = Connection::open(store.file()).unwrap();
    db.execute("UPDATE events SET payload = NULL, erased = zeroblob(32) WHERE seq = 0", []).unwrap();
    let payloads = rows(&db, "SELECT payload FROM journal WHERE seq = 0");
    assert_eq!(payloads, ["(erased)"]);
}

/// Erasing a run's secret is erasing it in one place.
#[tokio::test(flavor = "multi_thread")]
async fn a_runs_secret_stands_beside_its_first_event_only() {
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&SqliteOptions::new(dir.path())).unwrap();
    let (mut live, created) = Live::start(key(1), &waiting());
    commit(&store, created).await.unwrap();
    commit(&store, live.pause()).await.unwrap();
    let db = Connection::open(store.file()).unwrap();
    assert_eq!(rows(&db, "SELECT seq FROM events WHERE salt IS NOT NULL"), ["0"]);
}
