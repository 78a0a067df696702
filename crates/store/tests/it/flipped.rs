//! Bytes that changed on the disk: whatever is read afterwards is right, or is known to be wrong.
//!
//! A journal is known to be wrong if the store says `Damaged`, if its chain does not verify, or if it does
//! not end where its run's row says. It is never quietly another.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use abide_core::{Graph, Key, Payload, Record, Run};
use abide_store::{Error, Loaded, Sqlite, Store};
use rusqlite::Connection;

use crate::data_dir::DataDir;
use crate::derived::fold_everything;
use crate::engine::{rows, word};
use crate::live::TENANT;
use crate::world::{Dice, World};

/// What every read gave before anything was damaged.
struct Truth {
    graph: Arc<Graph>,
    journals: BTreeMap<Key, (Loaded, Vec<Record>)>,
}

/// What became of the reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Everything reads as before.
    Same,
    /// Something does not, and that can be told.
    Noticed,
}

impl Truth {
    async fn of(dir: &DataDir) -> Self {
        let store = Sqlite::open_for_reading(dir.place(), crate::engine::sealing()).unwrap();
        let mut journals = BTreeMap::new();
        for (key, _) in store.scan(None, usize::MAX >> 1).await.unwrap() {
            let loaded = store.load(key).await.unwrap().unwrap();
            let journal = store.journal(key, 0, usize::MAX).await.unwrap();
            journals.insert(key, (loaded, journal));
        }
        let graph = World::new(0).graph;
        Self { graph, journals }
    }

    /// A run whose first payload is so long, by its id in SQL.
    fn run_with(&self, length: impl Fn(usize) -> bool) -> String {
        let fits = |journal: &[Record]| match &journal[0].payload {
            Payload::Present(bytes) => length(bytes.len()),
            Payload::Erased(_) => false,
        };
        let mut found = self.journals.iter().filter(|(_, (_, journal))| fits(journal));
        hex(*found.next().expect("there are long ones and short ones").0)
    }

    /// Reads everything again. Panics if something is different and nobody could tell.
    async fn compare(&self, dir: &DataDir) -> Verdict {
        let store = match Sqlite::open_for_reading(dir.place(), crate::engine::sealing()) {
            Ok(store) => store,
            Err(error) => return noticed(&error),
        };
        let mut verdict = Verdict::Same;
        for key in self.journals.keys() {
            for found in [self.journal(&store, *key).await, self.load(&store, *key).await] {
                if found == Verdict::Noticed {
                    verdict = found;
                }
            }
        }
        verdict
    }

    async fn journal(&self, store: &Sqlite, key: Key) -> Verdict {
        let (truth, expected) = &self.journals[&key];
        let found = match store.journal(key, 0, usize::MAX).await {
            Ok(found) if found == *expected => return Verdict::Same,
            Ok(found) => found,
            Err(error) => return noticed(&error),
        };
        let run = Run::empty(key, truth.salt.unwrap(), self.graph.clone());
        assert!(!verifies(run, &found, truth.head.next), "{key:?} has quietly become {found:?}");
        Verdict::Noticed
    }

    async fn load(&self, store: &Sqlite, key: Key) -> Verdict {
        let (truth, _) = &self.journals[&key];
        let found = match store.load(key).await {
            Ok(found) => found.expect("the row of the run was not touched"),
            Err(error) => return noticed(&error),
        };
        let facts = |loaded: &Loaded| (loaded.summary.clone(), loaded.head.next, loaded.head.at, loaded.salt);
        if facts(&found) == facts(truth) && found.snapshot == truth.snapshot && found.tail == truth.tail {
            return Verdict::Same;
        }
        let Some(salt) = found.salt else {
            return Verdict::Noticed;
        };
        let run = match &found.snapshot {
            Some((_, bytes)) => Run::from_snapshot(key, salt, self.graph.clone(), bytes).unwrap(),
            None => Run::empty(key, salt, self.graph.clone()),
        };
        // A salt that is wrong shows when it is used, and here nothing is left to use it on.
        let unused = found.tail.is_empty() && found.salt != truth.salt;
        assert!(
            unused || !verifies(run, &found.tail, found.head.next),
            "{key:?} is quietly loaded as {found:?}"
        );
        Verdict::Noticed
    }
}

fn hex(key: Key) -> String {
    key.id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn noticed(error: &Error) -> Verdict {
    // A payload may have become one that looks as if somebody had sealed it.
    if matches!(error, Error::Sealed(_)) {
        return Verdict::Noticed;
    }
    let message = error.to_string();
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    assert!(message.contains("abide.db") && message.contains("restore the last backup"), "{message}");
    Verdict::Noticed
}

fn verifies(mut run: Run, records: &[Record], next: u64) -> bool {
    records.iter().all(|record| run.apply(record).is_ok()) && run.head().next == next
}

/// The pages that hold events and their large payloads.
fn pages_of_journals(dir: &DataDir) -> Vec<u64> {
    let db = Connection::open(dir.db()).unwrap();
    let sql = "SELECT pageno FROM dbstat WHERE name IN ('events', 'blobs') ORDER BY pageno";
    rows(&db, sql).iter().map(|page| page.parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_a_journal_is_noticed() {
    let dir = DataDir::stopped().await;
    let truth = Truth::of(&dir).await;
    assert_eq!(truth.compare(&dir).await, Verdict::Same);
    let pages = pages_of_journals(&dir);
    assert!(pages.len() > 20, "too little was written: {pages:?}");
    let file = fs::File::options().read(true).write(true).open(dir.db()).unwrap();
    let (mut dice, mut noticed) = (Dice(42), 0);
    for _ in 0..200 {
        let page = pages[dice.below(pages.len())] - 1;
        let (at, bit) = (page * 4096 + dice.below(4096) as u64, 1 << dice.below(8));
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ bit], at).unwrap();
        noticed += usize::from(truth.compare(&dir).await == Verdict::Noticed);
        file.write_all_at(&byte, at).unwrap();
    }
    assert!(noticed > 60, "only {noticed} of 200 hit anything");
    assert_eq!(truth.compare(&dir).await, Verdict::Same, "the test left something flipped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_journal_that_was_lost_is_noticed() {
    let pages = pages_of_journals(&DataDir::stopped().await);
    let truth = Truth::of(&DataDir::stopped().await).await;
    for page in pages.into_iter().step_by(5) {
        let at = (page as usize - 1) * 4096;
        for rubbish in [[0; 4096], [0xff; 4096], *b"rubbish!".repeat(512).first_chunk().unwrap()] {
            let dir = DataDir::stopped().await.overwrite("abide.db", at, &rubbish);
            assert_eq!(truth.compare(&dir).await, Verdict::Noticed, "page {page}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_column_of_an_event_is_noticed() {
    let truth = Truth::of(&DataDir::stopped().await).await;
    let (small, large) = (truth.run_with(|bytes| bytes <= 4096), truth.run_with(|bytes| bytes > 4096));
    for (column, values) in [
        ("tenant", &["tenant + 1"][..]),
        ("id", &["zeroblob(16)", "x'00'"]),
        ("seq", &["seq + 1000", "-1"]),
        ("at", &["at + 1", "at - 1", "'noon'"]),
        ("type", &["type + 1", "999", "70000", "-1"]),
        ("version", &["version + 1", "70000"]),
        ("cause", &["coalesce(cause, 0) + 1", "-1"]),
        ("node", &["coalesce(node, '') || 'x'", "CAST(x'ff' AS TEXT)", "x'00'"]),
        ("salt", &["zeroblob(16)", "x'00'"]),
        ("chain", &["zeroblob(32)", "x'00'", "'text'"]),
        ("payload", &["x'7b7d'", "NULL", "CAST(payload || ' ' AS BLOB)"]),
        ("erased", &["zeroblob(32)", "x'00'"]),
    ] {
        for value in values {
            // Only the first event has a salt.
            for seq in if column == "salt" { 0..1 } else { 0..2 } {
                let sql =
                    format!("UPDATE events SET {column} = {value} WHERE id = x'{small}' AND seq = {seq}");
                let dir = DataDir::stopped().await.tamper(&sql);
                assert_eq!(truth.compare(&dir).await, Verdict::Noticed, "{column} = {value} at {seq}");
            }
        }
    }
    let sql = format!(
        "DELETE FROM blobs WHERE hash IN (SELECT chain FROM events WHERE id = x'{large}' AND seq = 0)"
    );
    let dir = DataDir::stopped().await.tamper(&sql);
    assert_eq!(truth.compare(&dir).await, Verdict::Noticed, "the blob is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_swapped_and_borrowed_events_are_noticed() {
    let truth = Truth::of(&DataDir::stopped().await).await;
    let longest = truth.journals.iter().max_by_key(|(_, (loaded, _))| loaded.head.next);
    let (key, (loaded, _)) = longest.unwrap();
    let (run, last) = (hex(*key), loaded.head.next - 1);
    let own = format!("WHERE id = x'{run}' AND seq =");
    for sql in [
        format!("DELETE FROM events WHERE id = x'{run}'"),
        format!("DELETE FROM events {own} 0"),
        format!("DELETE FROM events {own} 2"),
        format!("DELETE FROM events {own} {last}"),
        format!(
            "UPDATE events SET seq = 999 {own} 1; UPDATE events SET seq = 1 {own} 2;
             UPDATE events SET seq = 2 {own} 999"
        ),
        format!(
            "UPDATE events SET payload =
             (SELECT payload FROM events o WHERE o.id <> events.id AND o.seq = 0) {own} 0"
        ),
        "DELETE FROM blobs".to_owned(),
        "UPDATE blobs SET bytes = CAST(bytes || ' ' AS BLOB)".to_owned(),
    ] {
        let dir = DataDir::stopped().await.tamper(&sql);
        assert_eq!(truth.compare(&dir).await, Verdict::Noticed, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_its_first_event_is_not_taken_for_one_whose_secret_was_erased() {
    let truth = Truth::of(&DataDir::stopped().await).await;
    let dir = DataDir::stopped().await.tamper("DELETE FROM events WHERE seq = 0");
    let store = Sqlite::open_for_reading(dir.place(), crate::engine::sealing()).unwrap();
    for key in truth.journals.keys() {
        assert_eq!(word(&store.load(*key).await), "damaged", "{key:?}");
    }
}

/// Without a log such a file is not even opened; with one, SQLite can't tell before it looks for the rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_cut_short_beside_its_log_is_noticed_when_it_is_read() {
    let truth = Truth::of(&DataDir::killed_later().await).await;
    let length = DataDir::killed_later().await.bytes("abide.db").len() as u64;
    for left in [4096, length / 4, length / 2] {
        let dir = DataDir::killed_later().await.truncate("abide.db", left);
        assert_eq!(truth.compare(&dir).await, Verdict::Noticed, "{left} of {length}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_the_log_invents_nothing() {
    let truth = Truth::of(&DataDir::killed().await).await;
    let length = DataDir::killed().await.bytes("abide.db-wal").len();
    let (mut dice, mut shorter) = (Dice(43), 0);
    for _ in 0..60 {
        let at = dice.below(length);
        let flipped = DataDir::killed().await.bytes("abide.db-wal")[at] ^ (1 << dice.below(8));
        let dir = DataDir::killed().await.overwrite("abide.db-wal", at, &[flipped]);
        let store = match Sqlite::open(&dir.options()) {
            Ok(store) => store,
            Err(error) => {
                assert!(error.to_string().contains("abide.db"), "{error}");
                continue;
            }
        };
        let runs = fold_everything(&store, &truth.graph).await;
        for (id, run) in &runs {
            let (_, expected) = &truth.journals[&id.of(TENANT)];
            let found = store.journal(id.of(TENANT), 0, usize::MAX).await.unwrap();
            assert_eq!(found[..], expected[..run.head().next as usize], "byte {at}");
        }
        shorter += usize::from(runs.len() < truth.journals.len());
    }
    assert!(shorter > 10, "only {shorter} of 60 hit anything");
}
