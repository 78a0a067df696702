//! What was erased is gone from the files, not only from the answers.

use std::fs;
use std::path::Path;

use abide_core::{Start, Status};
use abide_store::{Commit, Erased, Erasure, Sqlite, SqliteOptions, Store};

use crate::engine::{commit, dump, submit};
use crate::live::{BEGIN, Live, key, start, text_input};
use crate::workflow::{echo, journey};
use crate::world::Dice;

const MARK: &str = "a word that nobody else uses";

fn erasure() -> Erasure {
    Erasure { at: BEGIN, by: Some("somebody".to_owned()), reason: Some("they asked".to_owned()) }
}

/// How often a text stands in the files of a data directory.
fn count(dir: &Path, text: &str) -> usize {
    let files = ["abide.db", "abide.db-wal"].map(|name| fs::read(dir.join(name)).unwrap_or_default());
    let count =
        |bytes: &Vec<u8>| bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count();
    files.iter().map(count).sum()
}

/// Runs of all lengths that live through each other's commits, so that their rows are moved about the file.
async fn live_together(store: &Sqlite, runs: u32) -> Vec<Live> {
    let mut dice = Dice(11);
    let mut lives = Vec::new();
    for n in 0..runs {
        let length = [10, 300, 3000, 20_000][dice.below(4)];
        let text = format!("{MARK} {}", MARK.repeat(length / MARK.len()));
        // Ids are not in the order of their starts, so that pages are split in the middle.
        let id = key(n.wrapping_mul(0x9e37_79b9));
        let (live, created) =
            Live::start_with(Start { inputs: text_input(&text), ..start(id, &journey()) }, BEGIN);
        let snapshot = Some(live.run.snapshot());
        commit(store, Commit { snapshot, ..created }).await.unwrap();
        lives.push(live);
    }
    for turn in 0..4 {
        let mut pending = Vec::new();
        for live in &mut lives {
            let moved = match turn {
                0 => live.pause(),
                1 => live.resume(),
                2 => live.fire(),
                _ => live.report(1),
            };
            let snapshot = dice.one_in(2).then(|| live.run.snapshot());
            pending.push(submit(store, Commit { snapshot, ..moved }));
        }
        for answer in pending {
            answer.answer().await.unwrap();
        }
    }
    lives
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_run_is_gone_from_the_file_and_from_the_log() {
    for length in [0, 300, 20_000] {
        let dir = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&SqliteOptions::new(dir.path())).unwrap();
        let text = format!("{MARK}{:length$}", "");
        let inputs = text_input(&text);
        let (mut live, created) = Live::start_with(Start { inputs, ..start(key(1), &journey()) }, BEGIN);
        let snapshot = Some(live.run.snapshot());
        commit(&store, Commit { snapshot, ..created }).await.unwrap();
        for turn in 0..2 {
            let moved = if turn == 0 { live.fire() } else { live.report(1) };
            let snapshot = Some(live.run.snapshot());
            commit(&store, Commit { snapshot, ..moved }).await.unwrap();
        }
        assert!(count(dir.path(), MARK) >= 3, "the test can search");
        let events = live.run.head().next;
        assert_eq!(store.erase(key(1), erasure()).await.unwrap(), Erased::Done { events });
        assert_eq!(count(dir.path(), MARK), 0, "with {length} bytes");
        assert_eq!(fs::metadata(dir.path().join("abide.db-wal")).unwrap().len(), 0);
    }
}

/// A reader beside the server keeps the log as it needs it; whoever erases is not kept waiting for it for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_somebody_reads_is_cut_when_it_is_erased_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&SqliteOptions::new(dir.path())).unwrap();
    let inputs = text_input(MARK);
    let (_, created) = Live::start_with(Start { inputs, ..start(key(1), &echo()) }, BEGIN);
    commit(&store, created).await.unwrap();
    let reader = rusqlite::Connection::open(dir.path().join("abide.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM events").unwrap();
    let erased = store.erase(key(1), erasure());
    assert!(matches!(erased.await.unwrap(), Erased::Done { .. }));
    assert!(count(dir.path(), MARK) > 0, "the reader may still look at it");
    drop(reader);
    assert_eq!(store.erase(key(1), erasure()).await.unwrap(), Erased::Already);
    assert_eq!(count(dir.path(), MARK), 0);
}

/// Whoever asks again and again does not keep the writer busy: the log was cut when the run was erased.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_cut_is_not_cut_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&SqliteOptions::new(dir.path())).unwrap();
    let (_, created) = Live::start(key(1), &echo());
    commit(&store, created).await.unwrap();
    let log = || fs::metadata(dir.path().join("abide.db-wal")).unwrap().len();
    assert!(matches!(store.erase(key(1), erasure()).await.unwrap(), Erased::Done { .. }));
    assert_eq!(log(), 0);
    commit(&store, Live::start(key(2), &echo()).1).await.unwrap();
    let kept = log();
    assert!(kept > 0);
    assert_eq!(store.erase(key(1), erasure()).await.unwrap(), Erased::Already);
    assert_eq!(log(), kept);
    assert!(matches!(store.erase(key(2), erasure()).await.unwrap(), Erased::Done { .. }));
    assert_eq!(log(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_leaves_nothing_of_what_was_erased_wherever_it_once_stood() {
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&SqliteOptions::new(dir.path())).unwrap();
    let lives = live_together(&store, 150).await;
    assert!(lives.iter().all(|live| live.run.status() == Status::Completed));
    assert!(count(dir.path(), MARK) > 1000, "the test can search");
    let (kept, erased) = lives.split_last().unwrap();
    let whole = store.journal(kept.key(), 0, usize::MAX).await.unwrap();
    for live in erased {
        let events = live.run.head().next;
        assert_eq!(store.erase(live.key(), erasure()).await.unwrap(), Erased::Done { events });
    }
    let before = dump(store.file());
    store.compact().await.unwrap();
    assert_eq!(dump(store.file()), before, "what can be read is the same");
    assert_eq!(store.journal(kept.key(), 0, usize::MAX).await.unwrap(), whole);
    assert!(count(dir.path(), MARK) > 0, "one run was not erased");
    let events = kept.run.head().next;
    assert_eq!(store.erase(kept.key(), erasure()).await.unwrap(), Erased::Done { events });
    store.compact().await.unwrap();
    assert_eq!(count(dir.path(), MARK), 0);
    drop(store);
    Sqlite::open(&SqliteOptions::new(dir.path())).expect("its schema is what it was");
}
