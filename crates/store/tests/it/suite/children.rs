//! Children: filed with the message that starts them, and told when their parent ends before them.

use abide_core::{Cascade, Effect, Key, Parent, RunId, Spawn, Status, Summary, TaskId, TenantId};
use abide_store::{Beside, ChildRow, Commit, Expected, Message, MessageRef, MessageRow, Store};

use crate::engine::{commit, engines, word};
use crate::live::{Live, TENANT, key, run_id, text_input};
use crate::workflow::{instant, waiting};

pub(super) fn spawn(parent: Key, child: u32, cascade: bool) -> Spawn {
    Spawn {
        child: run_id(child),
        workflow_id: "errand".to_owned(),
        definition: None,
        inputs: text_input("for the child"),
        sensitive: vec!["text".to_owned()],
        unset: Vec::new(),
        parent: Parent { execution: Some(child), ..Parent::of(parent.id, "call") },
        cascade,
        trace: None,
        by: None,
        depends_on: Vec::new(),
        draft: false,
    }
}

fn cascade(parent: &Live) -> Cascade {
    let sequence = parent.run.head().next - 1;
    Cascade { from: parent.key().id, sequence, reason: "parent-cancelled".to_owned() }
}

/// A run that waits, and has started these children with its first commit.
fn parent_of(key: Key, children: &[(u32, bool)]) -> (Live, Commit) {
    let (live, mut created) = Live::start(key, &waiting());
    let spawns = children.iter().map(|(child, cascade)| Effect::Spawn(spawn(key, *child, *cascade)));
    created.effects.extend(spawns);
    (live, created)
}

/// The run's end, and word of it to its children.
fn cancelled(parent: &mut Live) -> Commit {
    let mut cancelled = parent.cancel();
    cancelled.effects.push(Effect::Cascade(cascade(parent)));
    cancelled
}

/// Has a child begin and stand so.
async fn stand(store: &dyn Store, key: Key, status: Status) {
    let (_, created) = Live::start(key, &waiting());
    let summary = Summary { status, ..created.summary.clone() };
    commit(store, Commit { summary, ..created }).await.unwrap();
}

fn row(child: u32, cascade: bool, status: Option<Status>) -> ChildRow {
    ChildRow { child: run_id(child), node: "call".into(), execution: child, cascade, status }
}

fn starts(parent: Key, sequence: u64, child: u32, cascade: bool) -> MessageRow {
    let at = MessageRef { sender: parent, sequence, receiver: run_id(child) };
    MessageRow { at, message: Message::Spawn(spawn(parent, child, cascade)) }
}

/// Who is told to end.
async fn told(store: &dyn Store, by: &Live) -> Vec<(MessageRef, RunId)> {
    let rows = store.outbox(None, 1000).await.unwrap().into_iter();
    let told = rows.filter_map(|row| match row.message {
        Message::Cascade(said) if row.at.sender == by.key() => {
            assert_eq!(said, cascade(by));
            Some((row.at, row.at.receiver))
        }
        _ => None,
    });
    told.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_is_filed_with_the_message_that_starts_it() {
    for engine in engines() {
        let store = engine.open();
        let (_, created) = parent_of(key(1), &[(12, true), (11, false)]);
        commit(&*store, created).await.unwrap();
        let messages = [starts(key(1), 0, 11, false), starts(key(1), 0, 12, true)];
        assert_eq!(store.outbox(None, 10).await.unwrap(), messages);
        let children = store.children(key(1), 10).await.unwrap();
        assert_eq!(children, [row(11, false, None), row(12, true, None)]);

        let task = |execution| TaskId { node: "call".into(), execution };
        let beside = store.beside(key(1), Expected::default()).await.unwrap();
        let sent = messages.map(|row| (row.at.receiver, row.message)).to_vec();
        let children = vec![(run_id(11), task(11), false), (run_id(12), task(12), true)];
        assert_eq!(beside, Beside { sent, children, ..Beside::default() });
        assert_eq!(store.totals().await.unwrap().children, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_starts_once_with_the_commit_that_takes_the_message() {
    for engine in engines() {
        let store = engine.open();
        let (_, created) = parent_of(key(1), &[(11, true)]);
        commit(&*store, created).await.unwrap();
        let consumed = vec![store.outbox(None, 10).await.unwrap().remove(0).at];
        let (mut child, created) = Live::start_child(key(11), &waiting(), run_id(1));
        let start = Commit { consumed, ..created };
        commit(&*store, start.clone()).await.unwrap();
        assert!(store.outbox(None, 10).await.unwrap().is_empty());
        assert_eq!(store.children(key(1), 10).await.unwrap(), [row(11, true, Some(Status::Running))]);

        let before = engine.dump();
        assert_eq!(word(&commit(&*store, start).await), "stale", "a repeat starts no second child");
        assert_eq!(engine.dump(), before);
        commit(&*store, child.pause()).await.unwrap();
        assert_eq!(store.children(key(1), 10).await.unwrap(), [row(11, true, Some(Status::Paused))]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn later_children_join_the_earlier_ones() {
    for engine in engines() {
        let store = engine.open();
        let (mut live, created) = parent_of(key(1), &[(12, true)]);
        commit(&*store, created).await.unwrap();
        let sequence = live.run.head().next;
        let mut paused = live.pause();
        paused.effects.push(Effect::Spawn(spawn(key(1), 11, true)));
        commit(&*store, paused).await.unwrap();
        let messages = [starts(key(1), 0, 12, true), starts(key(1), sequence, 11, true)];
        assert_eq!(store.outbox(None, 10).await.unwrap(), messages);
        let children = [row(11, true, None), row(12, true, None)];
        for limit in 0..4 {
            let listed = store.children(key(1), limit).await.unwrap();
            assert_eq!(listed, children[..limit.min(2)], "at most {limit}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_refused_starts_no_child() {
    for engine in engines() {
        let store = engine.open();
        let (live, created) = parent_of(key(1), &[(11, true)]);
        commit(&*store, created).await.unwrap();
        let mut late = live.clone();
        commit(&*store, live.clone().pause()).await.unwrap();
        let before = engine.dump();

        let mut stale = late.cancel();
        stale.effects.push(Effect::Spawn(spawn(key(1), 12, true)));
        stale.effects.push(Effect::Cascade(cascade(&late)));
        assert_eq!(word(&commit(&*store, stale).await), "stale");

        // The second child is one that the run has already: the first must not be left behind.
        let mut paused = live;
        paused.pause();
        let mut twice = paused.resume();
        for child in [13, 11] {
            twice.effects.push(Effect::Spawn(spawn(key(1), child, true)));
        }
        assert_eq!(word(&commit(&*store, twice).await), "failed");
        assert_eq!(engine.dump(), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_children_that_are_alive_and_go_with_their_parent_are_told_of_its_end() {
    for engine in engines() {
        let store = engine.open();
        let mut children = vec![(10, true), (20, false), (21, false)];
        children.extend((0..).zip(Status::ALL).map(|(n, _)| (30 + n, true)));
        let (mut parent, created) = parent_of(key(1), &children);
        commit(&*store, created).await.unwrap();
        stand(&*store, key(20), Status::Running).await;
        let mut expected = vec![run_id(10)];
        for (n, (status, ..)) in (0..).zip(Status::ALL) {
            stand(&*store, key(30 + n), status).await;
            expected.extend(Some(run_id(30 + n)).filter(|_| !status.is_terminal()));
        }
        assert_eq!(expected.len(), 1 + 9);

        commit(&*store, cancelled(&mut parent)).await.unwrap();
        let told = told(&*store, &parent).await;
        assert_eq!(told.iter().map(|(_, child)| *child).collect::<Vec<_>>(), expected);
        let sequence = parent.run.head().next - 1;
        assert!(told.iter().all(|(at, _)| at.sequence == sequence));

        let consumed = vec![told[1].0];
        let (mut child, _) = Live::start(key(30), &waiting());
        commit(&*store, Commit { consumed, ..child.cancel() }).await.unwrap();
        assert!(!store.outbox(None, 1000).await.unwrap().iter().any(|row| row.at == told[1].0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_may_start_a_child_and_end_in_one_commit() {
    for engine in engines() {
        let store = engine.open();
        let (live, mut created) = Live::start(key(1), &instant());
        created.effects.push(Effect::Spawn(spawn(key(1), 11, true)));
        created.effects.push(Effect::Cascade(cascade(&live)));
        commit(&*store, created).await.unwrap();
        let rows = store.outbox(None, 10).await.unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0], starts(key(1), 0, 11, true), "its start comes first");
        assert_eq!(rows[1].message, Message::Cascade(cascade(&live)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn children_belong_to_one_parent_of_one_tenant() {
    for engine in engines() {
        let store = engine.open();
        let (mine, yours, other) = (key(1), run_id(1).of(TenantId(2)), key(2));
        let mut parents = Vec::new();
        for (parent, children) in [(mine, [(11, true), (12, true)]), (yours, [(11, true), (13, false)])] {
            let (live, created) = parent_of(parent, &children);
            commit(&*store, created).await.unwrap();
            parents.push(live);
        }
        let (_, created) = parent_of(other, &[(14, true)]);
        commit(&*store, created).await.unwrap();
        stand(&*store, run_id(11).of(TenantId(2)), Status::Completed).await;

        let children = store.children(mine, 10).await.unwrap();
        assert_eq!(children, [row(11, true, None), row(12, true, None)], "a run of another tenant is not it");
        let children = store.children(yours, 10).await.unwrap();
        assert_eq!(children, [row(11, true, Some(Status::Completed)), row(13, false, None)]);
        assert_eq!(store.children(run_id(1).of(TenantId(3)), 10).await.unwrap(), []);
        assert_eq!(store.children(key(11), 10).await.unwrap(), []);

        for parent in &mut parents {
            commit(&*store, cancelled(parent)).await.unwrap();
        }
        let children = told(&*store, &parents[0]).await;
        assert_eq!(children.iter().map(|(_, child)| *child).collect::<Vec<_>>(), [run_id(11), run_id(12)]);
        assert!(children.iter().all(|(at, _)| at.sender.tenant == TENANT));
        assert_eq!(told(&*store, &parents[1]).await, [], "one has ended, the other stays");
    }
}
