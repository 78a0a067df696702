//! What is never shown is sealed in the files, and opens at its own place alone.

use std::fs;

use abide_core::{Effect, Head, Parent, Payload, Run, Spawn, Start};
use abide_store::{Commit, Erased, Erasure, Error, Message, Sealing, Sqlite, SqliteOptions, Store};

use crate::data_dir::DataDir;
use crate::engine::commit;
use crate::live::{BEGIN, Live, key, run_id, start, text_input};
use crate::workflow::journey;

const MARK: &str = "a word that nobody may read";

/// A run that gives its text back, and asks for a child that gets it too.
fn told(n: u32, text: &str, sensitive: &[&str]) -> (Live, Commit) {
    let sensitive: Vec<String> = sensitive.iter().map(|&name| name.to_owned()).collect();
    let begin = Start { inputs: text_input(text), sensitive: sensitive.clone(), ..start(key(n), &journey()) };
    let (live, mut created) = Live::start_with(begin, BEGIN);
    created.effects.push(Effect::Spawn(Spawn {
        child: run_id(n + 100),
        workflow_id: "errand".to_owned(),
        definition: None,
        inputs: text_input(text),
        sensitive,
        unset: Vec::new(),
        parent: Parent::of(run_id(n), "call"),
        cascade: true,
        trace: None,
        by: None,
        depends_on: Vec::new(),
        draft: false,
    }));
    (live, created)
}

/// Takes a run to its end, with a snapshot at each step.
async fn live_on(store: &Sqlite, (mut live, created): (Live, Commit)) -> Live {
    let snapshot = Some(live.run.snapshot());
    commit(store, Commit { snapshot, ..created }).await.unwrap();
    for turn in 0..2 {
        let moved = if turn == 0 { live.fire() } else { live.report(1) };
        let snapshot = Some(live.run.snapshot());
        commit(store, Commit { snapshot, ..moved }).await.unwrap();
    }
    live
}

fn is_marked(dir: &DataDir) -> bool {
    let mut files = fs::read_dir(dir.place()).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    files.any(|bytes| bytes.windows(MARK.len()).any(|window| window == MARK.as_bytes()))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sensitive_stands_in_no_file_and_is_read_back_as_it_was() {
    for length in [0, 20_000] {
        let dir = DataDir::empty();
        let store = Sqlite::open(&dir.options()).unwrap();
        let text = format!("{MARK}{:length$}", "");
        let live = live_on(&store, told(1, &text, &["text"])).await;
        assert!(!is_marked(&dir), "with {length} bytes, in the log");
        let journal = store.journal(key(1), 0, 100).await.unwrap();
        let mut folded = Run::empty(key(1), start(key(1), &journey()).salt, journey());
        for record in &journal {
            folded.apply(record).expect("the chain runs over what was sealed");
        }
        assert_eq!(folded.snapshot(), live.run.snapshot());
        let (_, snapshot) = store.load(key(1)).await.unwrap().unwrap().snapshot.unwrap();
        assert_eq!(snapshot, live.run.snapshot());
        let sent = store.outbox(None, 10).await.unwrap();
        assert!(matches!(&sent[0].message, Message::Spawn(spawn) if spawn.inputs == text_input(&text)));
        assert_eq!(store.sealed_kids().await.unwrap(), [7]);
        store.close().await.unwrap();
        assert!(!is_marked(&dir), "with {length} bytes, in the file");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_hides_nothing_is_kept_as_it_is() {
    let dir = DataDir::empty();
    let store = Sqlite::open(&dir.options()).unwrap();
    live_on(&store, told(1, MARK, &[])).await;
    assert!(is_marked(&dir), "whoever has the file can read it");
    assert_eq!(store.sealed_kids().await.unwrap(), Vec::<u32>::new());
    store.close().await.unwrap();
    drop(store);
    let clear = Sqlite::open(&SqliteOptions::new(dir.place())).unwrap();
    assert!(clear.load(key(1)).await.unwrap().is_some(), "no key is needed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sealed_opens_in_its_own_row_alone() {
    let furnished = || async {
        let dir = DataDir::empty();
        let store = Sqlite::open(&dir.options()).unwrap();
        for n in [1, 2] {
            live_on(&store, told(n, MARK, &["text"])).await;
        }
        dir
    };
    // The first event of the first run gets the payload of the second run's, and of another event of its own run.
    let of_run = |n: u8| format!("substr(id, 16) = x'{n:02x}'");
    let last = "(SELECT max(seq) FROM events WHERE substr(payload, 1, 1) = x'01')";
    for (from, place) in [(2, "seq = 0".to_owned()), (1, format!("seq = {last}"))] {
        let other = format!("(SELECT payload FROM events WHERE {} AND {place})", of_run(from));
        let dir = furnished().await;
        let dir = dir.tamper(&format!("UPDATE events SET payload = {other} WHERE {} AND seq = 0", of_run(1)));
        let store = Sqlite::open(&dir.options()).unwrap();
        let refused = store.journal(key(1), 0, 100).await.unwrap_err();
        assert!(matches!(&refused, Error::Sealed(reason) if reason.contains("event 0")), "{refused}");
        assert!(store.load(key(2)).await.is_ok(), "the other run is as it was");
    }
    let dir = furnished().await;
    let dir = dir.tamper(
        "UPDATE outbox SET message = (SELECT message FROM outbox WHERE substr(sender, 16) = x'02') \
         WHERE substr(sender, 16) = x'01'",
    );
    let store = Sqlite::open(&dir.options()).unwrap();
    let sent = store.outbox(None, 10).await.unwrap();
    assert_eq!(sent.iter().map(|row| row.at.receiver).collect::<Vec<_>>(), [run_id(102)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_keys_a_sealed_run_is_refused_and_no_other() {
    let dir = DataDir::empty();
    let store = Sqlite::open(&dir.options()).unwrap();
    live_on(&store, told(1, MARK, &["text"])).await;
    live_on(&store, told(2, "in the open", &[])).await;
    store.close().await.unwrap();
    drop(store);
    let store = Sqlite::open_for_reading(dir.place(), Sealing::in_clear()).unwrap();
    let refused = store.load(key(1)).await.err();
    assert!(refused.is_none(), "its snapshot is a cache, and nothing lies behind it: {refused:?}");
    let refused = store.journal(key(1), 0, 100).await.unwrap_err();
    assert!(matches!(&refused, Error::Sealed(reason) if reason.contains("keyring")), "{refused}");
    assert_eq!(store.journal(key(2), 0, 100).await.unwrap()[0].sequence, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sealed_run_is_erased_and_its_chain_still_binds() {
    let dir = DataDir::empty();
    let store = Sqlite::open(&dir.options()).unwrap();
    let (live, mut created) = told(1, MARK, &["text"]);
    // What the child is told belongs to the child, and stays until it has heard it.
    created.effects.pop();
    let live = live_on(&store, (live, created)).await;
    assert_eq!(store.sealed_kids().await.unwrap(), [7]);
    let erasure = Erasure { at: BEGIN, by: None, reason: None };
    assert!(matches!(store.erase(key(1), erasure).await.unwrap(), Erased::Done { .. }));
    let mut head = Head::new(key(1));
    for record in store.journal(key(1), 0, 100).await.unwrap() {
        assert!(matches!(record.payload, Payload::Erased(_)));
        head.accept(&record, None).unwrap();
    }
    assert_eq!(head, live.run.head());
    assert_eq!(store.sealed_kids().await.unwrap(), Vec::<u32>::new());
}
