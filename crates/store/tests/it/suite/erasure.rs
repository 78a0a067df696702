//! Erasure: what a run said is gone, that it was there can still be proved.

use abide_core::{Effect, Head, Json, Key, Parent, Payload, Spawn, Start, Status, Summary, TenantId};
use abide_store::{Commit, Erased, Erasure, Message, Note, Store};
use serde_json::json;

use crate::engine::{commit, engines, word};
use crate::live::{BEGIN, Live, TENANT, ended_well, key, run_id, start, text_input};
use crate::workflow::{echo, instant, waiting};

fn erasure() -> Erasure {
    Erasure { at: BEGIN + 5, by: Some("somebody".to_owned()), reason: Some("they asked".to_owned()) }
}

/// A run that has ended: in its journal are small payloads and large ones, and it has a snapshot.
async fn ended(store: &dyn Store, key: Key) -> Live {
    let graph = echo();
    let inputs = text_input(&"hush ".repeat(2000));
    let (live, created) = Live::start_with(Start { inputs, ..start(key, &graph) }, BEGIN);
    assert_eq!(live.run.status(), Status::Completed);
    let (snapshot, blobs) = (Some(live.run.snapshot()), vec![(graph.hash, graph.source.clone())]);
    commit(store, Commit { snapshot, blobs, ..created }).await.unwrap();
    live
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_run_says_nothing_and_its_chain_still_verifies() {
    for engine in engines() {
        let store = engine.open();
        let live = ended(&*store, key(1)).await;
        let before = store.journal(key(1), 0, usize::MAX).await.unwrap();
        assert!(before.iter().any(|record| record.payload.len() > 4096));
        assert!(before.iter().any(|record| (1..4096).contains(&record.payload.len())));
        let salt = store.load(key(1)).await.unwrap().unwrap().salt;
        let events = before.len() as u64;
        assert_eq!(store.erase(key(1), erasure()).await.unwrap(), Erased::Done { events });
        drop(store);

        let store = engine.open();
        let after = store.journal(key(1), 0, usize::MAX).await.unwrap();
        let mut head = Head::new(key(1));
        for (record, was) in after.iter().zip(&before) {
            let left = was.digest(salt.as_ref()).unwrap();
            assert_eq!(record.payload, Payload::Erased(left));
            assert_eq!((&record.node, record.at, record.chain), (&was.node, was.at, was.chain));
            head.accept(record, None).unwrap();
        }
        assert_eq!(head, live.run.head());
        let loaded = store.load(key(1)).await.unwrap().unwrap();
        assert_eq!((loaded.salt, loaded.snapshot, loaded.head), (None, None, head));
        assert_eq!(loaded.summary, live.run.summary(), "that it ran, and how it ended, is known");
        assert_eq!(loaded.tail, after);
        let dump = engine.dump();
        let hush: String = b"hush".iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!dump.values().flatten().any(|row| row.contains("hush") || row.contains(&hush)));
        assert_eq!(dump["blobs"].len(), 1, "the definition is other runs' too");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_is_noted_and_not_repeated() {
    for engine in engines() {
        let store = engine.open();
        let live = ended(&*store, key(1)).await;
        assert_eq!(store.notes(key(1)).await.unwrap(), []);
        let events = live.run.head().next;
        assert_eq!(store.erase(key(1), erasure()).await.unwrap(), Erased::Done { events });
        let before = engine.dump();
        assert_eq!(store.erase(key(1), erasure()).await.unwrap(), Erased::Already);
        assert_eq!(engine.dump(), before);
        let note = Note {
            sequence: 0,
            at: BEGIN + 5,
            kind: "erased".to_owned(),
            by: Some("somebody".to_owned()),
            body: Json::of(&json!({"events": events, "reason": "they asked"})),
        };
        assert_eq!(store.notes(key(1)).await.unwrap(), [note]);

        let live = ended(&*store, key(2)).await;
        store.erase(key(2), Erasure { at: BEGIN, by: None, reason: None }).await.unwrap();
        let note = store.notes(key(2)).await.unwrap().remove(0);
        assert_eq!((note.sequence, note.by), (0, None));
        assert_eq!(note.body, Json::of(&json!({"events": live.run.head().next})));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_run_that_has_ended_is_erased() {
    for engine in engines() {
        let store = engine.open();
        for (n, (status, ..)) in (0..).zip(Status::ALL) {
            let (_, created) = Live::start(key(n), &waiting());
            let summary = Summary { status, ..created.summary.clone() };
            commit(&*store, Commit { summary, ..created }).await.unwrap();
            let before = engine.dump();
            let erased = store.erase(key(n), erasure()).await.unwrap();
            if status.is_terminal() {
                assert_eq!(erased, Erased::Done { events: 2 }, "{status:?}");
            } else {
                assert_eq!(erased, Erased::NotEnded, "{status:?}");
                assert_eq!(engine.dump(), before);
            }
        }
        assert_eq!(store.erase(key(100), erasure()).await.unwrap(), Erased::NotFound);
        assert_eq!(store.notes(key(100)).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_elses_run_is_touched() {
    for engine in engines() {
        let store = engine.open();
        let (mine, yours, other) = (key(1), run_id(1).of(TenantId(2)), key(2));
        for key in [mine, yours, other] {
            ended(&*store, key).await;
        }
        let whole = async |key| {
            let loaded = store.load(key).await.unwrap().unwrap();
            (loaded.salt, loaded.snapshot, store.journal(key, 0, usize::MAX).await.unwrap())
        };
        let before = (whole(yours).await, whole(other).await);
        assert!(matches!(store.erase(mine, erasure()).await.unwrap(), Erased::Done { .. }));
        assert_eq!((whole(yours).await, whole(other).await), before);
        assert_eq!(store.notes(yours).await.unwrap(), []);
        assert_eq!(store.erase(run_id(2).of(TenantId(2)), erasure()).await.unwrap(), Erased::NotFound);
        assert_eq!(store.notes(mine).await.unwrap().len(), 1);
    }
}

/// A run with more than two pages of events that has ended.
async fn long(store: &dyn Store) -> Live {
    let (mut live, created) = Live::start(key(1), &waiting());
    commit(store, created).await.unwrap();
    for _ in 0..1100 {
        for moved in [live.pause(), live.resume()] {
            crate::engine::submit(store, moved);
        }
    }
    commit(store, live.fire()).await.unwrap();
    assert!(live.run.head().next > 2 * 1000, "it takes more than two pages");
    live
}

/// Nothing is left of a journal but what proves that it was there.
async fn check_erased(store: &dyn Store, live: &Live) {
    let mut head = Head::new(key(1));
    for record in store.journal(key(1), 0, usize::MAX).await.unwrap() {
        assert!(matches!(record.payload, Payload::Erased(_)));
        head.accept(&record, None).unwrap();
    }
    assert_eq!(head, live.run.head());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_journal_is_erased_to_its_end() {
    for engine in engines() {
        let store = engine.open();
        let live = long(&*store).await;
        let events = live.run.head().next;
        assert_eq!(store.erase(key(1), erasure()).await.unwrap(), Erased::Done { events });
        check_erased(&*store, &live).await;
    }
}

/// The first page is done, then whoever erases dies. The run counts as erased, and erasing it again does the rest.
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_that_was_interrupted_is_done_by_the_next() {
    for engine in engines() {
        let store = engine.open();
        let live = long(&*store).await;
        let mut erasing = store.erase(key(1), erasure());
        tokio::select! {
            biased;
            ended = &mut erasing => panic!("it takes more than one page: {ended:?}"),
            () = std::future::ready(()) => drop(erasing),
        }
        store.close().await.unwrap();
        drop(store);

        let store = engine.open();
        let loaded = store.load(key(1)).await.unwrap().unwrap();
        assert_eq!((loaded.salt, loaded.snapshot), (None, None), "nobody can go on with it");
        let journal = store.journal(key(1), 0, usize::MAX).await.unwrap();
        let is_left = |at: usize| matches!(journal[at].payload, Payload::Present(_));
        assert_eq!((is_left(0), is_left(999), is_left(1000)), (false, false, true));
        assert!(store.notes(key(1)).await.unwrap()[0].is_unfinished());

        let late = Erasure { at: BEGIN + 9, by: None, reason: None };
        let events = live.run.head().next;
        assert_eq!(store.erase(key(1), late.clone()).await.unwrap(), Erased::Done { events });
        check_erased(&*store, &live).await;
        let notes = store.notes(key(1)).await.unwrap();
        assert_eq!((notes.len(), notes[0].is_unfinished(), notes[0].at), (1, false, BEGIN + 5));
        assert_eq!(store.erase(key(1), late).await.unwrap(), Erased::Already);
    }
}

/// Ended, with messages to a parent that waits, to a parent that has ended, to a parent that nobody knows, and to a
/// child that has not started; and one that came too late for it.
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_somebody_can_still_hear_outlive_their_sender() {
    for engine in engines() {
        let store = engine.open();
        let (waits, over, unknown, unborn, late) = (run_id(2), run_id(3), run_id(4), run_id(5), run_id(6));
        commit(&*store, Live::start(waits.of(TENANT), &waiting()).1).await.unwrap();
        commit(&*store, Live::start(over.of(TENANT), &instant()).1).await.unwrap();
        let (live, mut created) = Live::start(key(1), &instant());
        let sequence = live.run.head().next - 1;
        for to in [waits, over, unknown] {
            created.effects.push(Effect::Send { to, notice: ended_well(run_id(1), sequence) });
        }
        created.effects.push(Effect::Spawn(Spawn {
            child: unborn,
            workflow_id: "errand".to_owned(),
            definition: None,
            inputs: text_input("for the child"),
            sensitive: Vec::new(),
            unset: Vec::new(),
            parent: Parent::of(run_id(1), "call"),
            cascade: false,
            trace: None,
            by: None,
            depends_on: Vec::new(),
            draft: false,
        }));
        commit(&*store, created).await.unwrap();
        let (_, mut created) = Live::start(late.of(TENANT), &instant());
        created.effects.push(Effect::Send { to: run_id(1), notice: ended_well(late, sequence) });
        created.effects.push(Effect::Send { to: over, notice: ended_well(late, sequence) });
        commit(&*store, created).await.unwrap();

        assert!(matches!(store.erase(key(1), erasure()).await.unwrap(), Erased::Done { .. }));
        let left = store.outbox(None, 10).await.unwrap();
        let places: Vec<_> = left.iter().map(|row| (row.at.sender.id, row.at.receiver)).collect();
        assert_eq!(places, [(run_id(1), unborn), (run_id(1), waits), (run_id(1), unknown), (late, over)]);
        assert!(matches!(left[0].message, Message::Spawn(_)), "it lies under the commit's first sequence");
        assert_eq!(store.children(key(1), 10).await.unwrap().len(), 1, "whom it started is known");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_added_to_an_erased_journal_by_a_commit_that_comes_late() {
    for engine in engines() {
        let store = engine.open();
        let (mut live, created) = Live::start(key(1), &waiting());
        commit(&*store, created).await.unwrap();
        let mut late = live.clone();
        commit(&*store, live.cancel()).await.unwrap();
        assert!(matches!(store.erase(key(1), erasure()).await.unwrap(), Erased::Done { .. }));
        let before = engine.dump();
        assert_eq!(word(&commit(&*store, late.pause()).await), "stale");
        assert_eq!(engine.dump(), before);
    }
}
