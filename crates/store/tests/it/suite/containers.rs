//! Runs that wait for others, and groups of runs: rows, messages to many, and commits that came too late for either.

use abide_core::event::MemberReported;
use abide_core::{
    Appointment, Effect, GroupSpec, Json, JsonMap, Key, MemberRow, Order, Role, RunId, Start, Status,
    Suspension, TenantId, Tidings, Watch,
};
use abide_store::{Beside, Commit, Containers, Expected, Message, MessageRef, MessageRow, Purge, Store};

use crate::engine::{commit, engines, submit, word, words};
use crate::live::{BEGIN, Live, TENANT, key, run_id};
use crate::workflow::{instant, waiting};

const OTHER: TenantId = TenantId(2);

/// How deep the chains of these tests are.
const DEPTH: u32 = 300;

/// What a run says for the first time that brings all this about.
fn started(key: Key, effects: impl IntoIterator<Item = Effect>) -> (Live, Commit) {
    let (live, mut created) = Live::start(key, &waiting());
    created.effects.extend(effects);
    (live, created)
}

/// What it says next.
fn next(live: &mut Live, effects: impl IntoIterator<Item = Effect>) -> Commit {
    let mut said = if live.run.status() == Status::Paused { live.resume() } else { live.pause() };
    said.effects.extend(effects);
    said
}

async fn start(store: &dyn Store, key: Key, effects: impl IntoIterator<Item = Effect>) -> Live {
    let (live, created) = started(key, effects);
    commit(store, created).await.unwrap();
    live
}

fn group_of(key: Key, effects: impl IntoIterator<Item = Effect>) -> (Live, Commit) {
    let spec = GroupSpec { name: "Q3".to_owned(), ..GroupSpec::default() };
    let (live, mut created) = Live::start_with(Start::group(key, [7; 16], spec), BEGIN);
    created.effects.extend(effects);
    (live, created)
}

/// What a group says next; its clock is all that changes.
fn next_of_group(live: &mut Live, effects: impl IntoIterator<Item = Effect>) -> Commit {
    next(live, effects)
}

fn tidings(from: &Live, status: Status) -> Tidings {
    let sequence = from.run.head().next - 1;
    Tidings { sequence, status, ..Tidings::of_nobody(from.key().id) }
}

fn watch(from: &Live, deadline: Option<i64>) -> Watch {
    let head = from.run.head();
    Watch { from: from.key().id, sequence: head.next - 1, watching: true, at: Some(head.at), deadline }
}

fn member(n: u32, status: Status) -> MemberRow {
    MemberRow {
        run: run_id(n),
        role: Role::Member,
        priority: -3,
        added_at: BEGIN,
        status,
        suspended: None,
        cost_micros: 0,
        heard: 4,
    }
}

fn reported(was: &MemberRow, status: Status, sequence: u64) -> MemberReported {
    MemberReported {
        run: was.run,
        sequence,
        was: was.status,
        status,
        suspended: Some(Suspension { since: BEGIN, expires_at: Some(BEGIN + 5) }),
        cost_micros: 70,
        cost_was: was.cost_micros,
        was_suspended: was.suspended.is_some(),
    }
}

fn dismissed(row: &MemberRow) -> Effect {
    Effect::Dismiss { run: row.run, was: row.status, cost_micros: row.cost_micros }
}

async fn members(store: &dyn Store, group: Key) -> Vec<MemberRow> {
    store.containers().members(group, Vec::new(), None, 1000).await.unwrap()
}

async fn beside(store: &dyn Store, key: Key) -> Beside {
    store.beside(key, Expected::default()).await.unwrap()
}

/// Who is told what, in the order in which it is delivered.
async fn told(store: &dyn Store) -> Vec<(MessageRef, Message)> {
    let rows: Vec<MessageRow> = store.outbox(None, 10_000).await.unwrap();
    rows.into_iter().map(|row| (row.at, row.message)).collect()
}

fn at(sender: &Live, receiver: u32) -> MessageRef {
    MessageRef { sender: sender.key(), sequence: sender.run.head().next - 1, receiver: run_id(receiver) }
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_a_run_waits_for_and_who_watches_it_are_rows() {
    for engine in engines() {
        let store = engine.open();
        let waits = [12, 11].map(|n| Effect::DependOn(run_id(n)));
        let watched = [22, 21].map(|n| Effect::Watch(run_id(n)));
        let mut live = start(&*store, key(1), waits.into_iter().chain(watched)).await;
        start(&*store, key(2), [Effect::DependOn(run_id(11))]).await;
        let found = beside(&*store, key(1)).await;
        assert_eq!(found.dependencies, [run_id(11), run_id(12)]);
        assert_eq!(found.watchers, [run_id(21), run_id(22)]);
        let totals = store.totals().await.unwrap();
        assert_eq!((totals.dependencies, totals.watchers, totals.members), (3, 2, 0));

        // To say it again changes nothing, and neither does to take back what was never said.
        let before = engine.dump();
        let again = [
            Effect::DependOn(run_id(12)),
            Effect::Watch(run_id(21)),
            Effect::Independ(run_id(77)),
            Effect::Unwatch(run_id(77)),
        ];
        commit(&*store, next(&mut live, again)).await.unwrap();
        for table in ["dependencies", "watchers"] {
            assert_eq!(engine.dump()[table], before[table]);
        }
        commit(&*store, next(&mut live, [Effect::Independ(run_id(11)), Effect::Unwatch(run_id(22))]))
            .await
            .unwrap();
        let found = beside(&*store, key(1)).await;
        assert_eq!((found.dependencies, found.watchers), (vec![run_id(12)], vec![run_id(21)]));
        assert_eq!(beside(&*store, key(2)).await.dependencies, [run_id(11)], "what others wait for stays");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_wait_for_a_run_are_listed_page_by_page_as_they_stand() {
    for engine in engines() {
        let store = engine.open();
        let watchers = (10..16).map(|n| Effect::Watch(run_id(n)));
        let live = start(&*store, key(1), watchers).await;
        for n in [10, 11, 13] {
            start(&*store, key(n), []).await;
        }
        commit(&*store, Live::start(key(12), &instant()).1).await.unwrap();
        // One is a group, and one was never there.
        commit(&*store, group_of(key(14), []).1).await.unwrap();
        let (running, done) = (Status::Running, Status::Completed);
        let all = [(10, running), (11, running), (12, done), (13, running)].map(|(n, it)| (run_id(n), it));
        for limit in 0..6 {
            let page = store.containers().dependents(live.key(), None, limit).await.unwrap();
            assert_eq!(page, all[..limit.min(4)], "at most {limit}");
        }
        let rest = store.containers().dependents(live.key(), Some(run_id(11)), 10).await.unwrap();
        assert_eq!(rest, all[2..]);
        let elsewhere = store.containers().dependents(run_id(1).of(OTHER), None, 10).await.unwrap();
        assert_eq!(elsewhere, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn how_a_run_stands_is_told_to_all_who_watch_it_and_to_nobody_else() {
    for engine in engines() {
        let store = engine.open();
        let mut live = start(&*store, key(1), [21, 22, 23].map(|n| Effect::Watch(run_id(n)))).await;
        start(&*store, key(2), [Effect::Watch(run_id(29))]).await;
        start(&*store, run_id(1).of(OTHER), [Effect::Watch(run_id(28))]).await;
        // One comes and one goes with the commit that tells of it.
        let mut said = next(&mut live, [Effect::Unwatch(run_id(22)), Effect::Watch(run_id(24))]);
        let told_of = tidings(&live, Status::Paused);
        said.effects.push(Effect::Announce(told_of.clone()));
        commit(&*store, said).await.unwrap();
        let expected = [21, 23, 24].map(|n| (at(&live, n), Message::Tidings(told_of.clone())));
        assert_eq!(told(&*store).await, expected);

        // Whoever hears it takes it out, and leaves what the others are to hear.
        let (mut hears, _) = Live::start(key(23), &waiting());
        start(&*store, key(23), []).await;
        let consumed = vec![at(&live, 23)];
        commit(&*store, Commit { consumed, ..hears.pause() }).await.unwrap();
        let left: Vec<MessageRef> = told(&*store).await.into_iter().map(|(at, _)| at).collect();
        assert_eq!(left, [at(&live, 21), at(&live, 24)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_nobody_watches_tells_nobody() {
    for engine in engines() {
        let store = engine.open();
        let mut live = start(&*store, key(1), []).await;
        let mut said = next(&mut live, []);
        said.effects.push(Effect::Announce(tidings(&live, Status::Paused)));
        commit(&*store, said).await.unwrap();
        assert_eq!(told(&*store).await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_asks_every_member_it_has_then() {
    for engine in engines() {
        let store = engine.open();
        let enlisted = [31, 32, 33].map(|n| Effect::Enlist(member(n, Status::Running)));
        let (mut group, created) = group_of(key(9), enlisted);
        commit(&*store, created).await.unwrap();
        let foreign = [Effect::Enlist(member(38, Status::Running))];
        commit(&*store, group_of(run_id(9).of(OTHER), foreign).1).await.unwrap();
        let gone = dismissed(&member(32, Status::Running));
        let mut said = next_of_group(&mut group, [gone, Effect::Enlist(member(34, Status::Running))]);
        let asked = watch(&group, Some(BEGIN + 9));
        said.effects.push(Effect::BidAll(asked.clone()));
        commit(&*store, said).await.unwrap();
        let expected = [31, 33, 34].map(|n| (at(&group, n), Message::Watch(asked.clone())));
        assert_eq!(told(&*store).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_to_one_other_run_is_read_back_as_it_was_said() {
    for engine in engines() {
        let store = engine.open();
        let mut live = start(&*store, key(1), []).await;
        let mut said = next(&mut live, []);
        let sequence = live.run.head().next - 1;
        let suspended = Some(Suspension { since: BEGIN, expires_at: None });
        let outputs = JsonMap::from([("rows".to_owned(), Json::of(&[1, 2]))]);
        let news = Tidings { suspended, outputs, cost_micros: 7, ..tidings(&live, Status::WaitingApproval) };
        let (asked, taken_back) = (watch(&live, None), Watch { watching: false, ..watch(&live, Some(5)) });
        said.effects.extend([
            Effect::Tell { to: run_id(21), tidings: news.clone() },
            Effect::Bid { to: run_id(22), watch: asked.clone() },
            Effect::Bid { to: run_id(23), watch: taken_back.clone() },
            Effect::Order { to: run_id(24), order: Order::Hold, sequence },
            Effect::Order { to: run_id(25), order: Order::Release, sequence },
        ]);
        commit(&*store, said).await.unwrap();
        let expected = [
            (at(&live, 21), Message::Tidings(news)),
            (at(&live, 22), Message::Watch(asked)),
            (at(&live, 23), Message::Watch(taken_back)),
            (at(&live, 24), Message::Order(Order::Hold)),
            (at(&live, 25), Message::Order(Order::Release)),
        ];
        assert_eq!(told(&*store).await, expected);
        drop(store);
        let store = engine.open();
        assert_eq!(told(&*store).await, expected, "whoever starts next finds the same");
        let sent = beside(&*store, key(1)).await.sent;
        assert_eq!(sent, expected.map(|(at, message)| (at.receiver, message)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tidings_that_hide_something_are_sealed_and_open_for_each_who_watches() {
    const WORD: &str = "nobody may read this";
    for engine in engines() {
        let store = engine.open();
        let mut live = start(&*store, key(1), [21, 22].map(|n| Effect::Watch(run_id(n)))).await;
        let mut said = next(&mut live, []);
        let outputs = JsonMap::from([("who".to_owned(), Json::of(WORD))]);
        let hidden = Tidings { outputs, sensitive: true, ..tidings(&live, Status::Paused) };
        said.effects.extend([
            Effect::Announce(hidden.clone()),
            Effect::Tell { to: run_id(23), tidings: hidden.clone() },
        ]);
        commit(&*store, said).await.unwrap();
        let in_hex: String = WORD.bytes().map(|byte| format!("{byte:02x}")).collect();
        let outbox = engine.dump()["outbox"].concat();
        assert_eq!(engine.dump()["outbox"].len(), 3);
        assert!(!outbox.contains(WORD) && !outbox.contains(&in_hex), "{outbox}");
        let expected = [21, 22, 23].map(|n| (at(&live, n), Message::Tidings(hidden.clone())));
        assert_eq!(told(&*store).await, expected);
        assert_eq!(beside(&*store, key(1)).await.sent.len(), 3);

        let open = Tidings { sensitive: false, ..hidden };
        let mut said = next(&mut live, []);
        said.effects.push(Effect::Announce(Tidings { sequence: live.run.head().next - 1, ..open }));
        commit(&*store, said).await.unwrap();
        let outbox = engine.dump()["outbox"].concat();
        assert!(outbox.contains(&in_hex), "what hides nothing is kept as it is");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_group_are_kept_as_the_group_has_heard_of_them() {
    for engine in engines() {
        let store = engine.open();
        let rows = [member(31, Status::Running), member(32, Status::Completed)];
        let (mut group, created) = group_of(key(9), rows.iter().cloned().map(Effect::Enlist));
        commit(&*store, created).await.unwrap();
        assert_eq!(members(&*store, key(9)).await, rows);
        assert_eq!(store.containers().member(key(9), run_id(32)).await.unwrap().as_ref(), Some(&rows[1]));
        assert_eq!(store.containers().member(key(9), run_id(33)).await.unwrap(), None);
        assert_eq!(store.containers().member(run_id(9).of(OTHER), run_id(32)).await.unwrap(), None);

        let heard = reported(&rows[0], Status::WaitingInput, 5);
        commit(&*store, next_of_group(&mut group, [Effect::NoteMember(heard.clone())])).await.unwrap();
        let mut noted = rows[0].clone();
        noted.note(&heard);
        assert_eq!(members(&*store, key(9)).await, [noted.clone(), rows[1].clone()]);
        assert_eq!(beside(&*store, key(9)).await.members, [noted.clone(), rows[1].clone()]);
        assert_eq!(store.totals().await.unwrap().members, 2);

        commit(&*store, next_of_group(&mut group, [dismissed(&noted)])).await.unwrap();
        assert_eq!(members(&*store, key(9)).await, rows[1..]);
    }
}

/// A group with two members, and what comes too late for it.
async fn group_with_members(store: &dyn Store) -> (Live, [MemberRow; 2]) {
    let rows = [member(31, Status::Running), member(32, Status::Running)];
    let (group, created) = group_of(key(9), rows.iter().cloned().map(Effect::Enlist));
    commit(store, created).await.unwrap();
    (group, rows)
}

/// Everything that rests on a member standing as it does not.
fn too_late(row: &MemberRow) -> Vec<Effect> {
    let otherwise = MemberRow { status: Status::WaitingInput, ..row.clone() };
    let dearer = MemberRow { cost_micros: 1, ..row.clone() };
    vec![
        Effect::Enlist(MemberRow { role: Role::Primary, ..row.clone() }),
        dismissed(&otherwise),
        dismissed(&dearer),
        dismissed(&member(39, Status::Running)),
        Effect::NoteMember(reported(&otherwise, Status::Completed, 9)),
        Effect::NoteMember(reported(&dearer, Status::Completed, 9)),
        Effect::NoteMember(reported(row, Status::Completed, row.heard)),
        Effect::NoteMember(reported(&member(39, Status::Running), Status::Completed, 9)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_rests_on_a_member_that_stands_otherwise_by_now_is_refused_whole() {
    for engine in engines() {
        let store = engine.open();
        let (group, rows) = group_with_members(&*store).await;
        let before = engine.dump();
        for late in too_late(&rows[0]) {
            // What goes before it in the same commit is undone with it.
            let effects = [dismissed(&rows[1]), Effect::BidAll(watch(&group, None)), late.clone()];
            let refused = commit(&*store, next_of_group(&mut group.clone(), effects)).await;
            assert_eq!(word(&refused), "raced", "{late:?}");
            assert_eq!(engine.dump(), before, "{late:?}");
        }
        let mut group = group;
        commit(&*store, next_of_group(&mut group, [dismissed(&rows[0])])).await.unwrap();
        assert_eq!(members(&*store, key(9)).await, rows[1..], "the group itself is none the worse for it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_together_with_a_refused_commit_is_written() {
    for engine in engines() {
        let store = engine.open();
        let (group, rows) = group_with_members(&*store).await;
        for (n, late) in (0..).zip(too_late(&rows[0])) {
            let stalled = engine.gate().stall(&*store, Live::start(key(1000 + n), &waiting()).1);
            let (one, other) = (100 + 2 * n, 101 + 2 * n);
            let batch = vec![
                started(key(one), [Effect::DependOn(run_id(1))]).1,
                next_of_group(&mut group.clone(), [late.clone()]),
                started(key(other), [Effect::Watch(run_id(1))]).1,
            ];
            let pending = batch.into_iter().map(|commit| submit(&*store, commit)).collect();
            drop(stalled);
            assert_eq!(words(pending).await, ["ok", "raced", "ok"], "{late:?}");
            assert_eq!(beside(&*store, key(one)).await.dependencies, [run_id(1)]);
            assert_eq!(beside(&*store, key(other)).await.watchers, [run_id(1)]);
            assert_eq!(members(&*store, key(9)).await, rows);
            assert_eq!(store.head(key(9)).await.unwrap().unwrap().next, group.run.head().next);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_those_who_looked_for_a_circle_at_the_same_time_one_is_taken() {
    for engine in engines() {
        let store = engine.open();
        assert_eq!(store.containers().circle_version(TENANT).await.unwrap(), 0);
        let mut lives = Vec::new();
        for n in 1..5 {
            lives.push(start(&*store, key(n), []).await);
        }
        let late = |live: &mut Live, circle| Commit {
            circle: Some(circle),
            ..next(live, [Effect::DependOn(run_id(9))])
        };
        commit(&*store, late(&mut lives[0], 0)).await.unwrap();
        assert_eq!(store.containers().circle_version(TENANT).await.unwrap(), 1);
        for (seen, expected) in [(0, "raced"), (2, "raced"), (1, "ok")] {
            let before = engine.dump();
            let answer = commit(&*store, late(&mut lives[1].clone(), seen)).await;
            assert_eq!(word(&answer), expected, "with {seen}");
            assert_eq!(engine.dump() == before, expected != "ok");
        }
        assert_eq!(store.containers().circle_version(TENANT).await.unwrap(), 2);

        // Two in one transaction, and somebody beside them.
        let stalled = engine.gate().stall(&*store, Live::start(key(1000), &waiting()).1);
        let batch =
            [late(&mut lives[2], 2), started(key(50), []).1, late(&mut lives[3], 2), started(key(51), []).1];
        let pending = batch.into_iter().map(|commit| submit(&*store, commit)).collect();
        drop(stalled);
        assert_eq!(words(pending).await, ["ok", "ok", "raced", "ok"]);
        assert_eq!(store.containers().circle_version(TENANT).await.unwrap(), 3);
        assert_eq!(beside(&*store, key(4)).await.dependencies, []);

        // What another tenant does is nothing to this one.
        assert_eq!(store.containers().circle_version(OTHER).await.unwrap(), 0);
        let mut foreign = start(&*store, run_id(1).of(OTHER), []).await;
        commit(&*store, late(&mut foreign, 0)).await.unwrap();
        assert_eq!(store.containers().circle_version(TENANT).await.unwrap(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_drops_out_for_another_reason_takes_nobodys_turn() {
    for engine in engines() {
        let store = engine.open();
        let (mut one, mut two) = (start(&*store, key(1), []).await, start(&*store, key(2), []).await);
        let nowhere = MessageRef { sender: key(8), sequence: 3, receiver: run_id(1) };
        let stalled = engine.gate().stall(&*store, Live::start(key(1000), &waiting()).1);
        let batch = [
            Commit { circle: Some(0), consumed: vec![nowhere], ..next(&mut one, []) },
            Commit { circle: Some(0), ..next(&mut two, [Effect::DependOn(run_id(1))]) },
        ];
        let pending = batch.into_iter().map(|commit| submit(&*store, commit)).collect();
        drop(stalled);
        assert_eq!(words(pending).await, ["delivered", "ok"]);
        assert_eq!(store.containers().circle_version(TENANT).await.unwrap(), 1);
    }
}

async fn waits(store: &dyn Store, tenant: TenantId, run: u32, other: u32) -> bool {
    store.containers().waits_for(run_id(run).of(tenant), run_id(other)).await.unwrap()
}

/// A run that has started this one.
fn adopted(parent: u32, child: u32) -> Effect {
    Effect::Spawn(super::children::spawn(key(parent), child, true))
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_a_run_waits_for_is_found_however_far_away() {
    for engine in engines() {
        let store = engine.open();
        let mut pending = Vec::new();
        for n in 1..DEPTH {
            // By turns, it was told to wait for the next, or has started it.
            let bond = if n % 2 == 0 { Effect::DependOn(run_id(n + 1)) } else { adopted(n, n + 1) };
            pending.push(submit(&*store, started(key(n), [bond]).1));
        }
        assert!(words(pending).await.iter().all(|word| *word == "ok"));
        for (from, to) in [(1, 2), (1, 3), (2, 4), (1, DEPTH), (7, DEPTH - 1)] {
            assert!(waits(&*store, TENANT, from, to).await, "{from} waits for {to}");
            assert!(!waits(&*store, TENANT, to, from).await, "{to} does not wait for {from}");
        }
        assert!(!waits(&*store, OTHER, 1, 2).await, "not in another tenant");
        assert!(!waits(&*store, TENANT, 1, DEPTH + 1).await, "nor for somebody who is not there");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_from_one_run_to_another_counts_and_a_circle_ends_the_search() {
    for engine in engines() {
        let store = engine.open();
        let on = |n: u32| Effect::DependOn(run_id(n));
        start(&*store, key(1), [on(2), on(3)]).await;
        start(&*store, key(2), [adopted(2, 4)]).await;
        let mut three = start(&*store, key(3), [on(4)]).await;
        start(&*store, key(4), []).await;
        // What no door lets in may still have come about: a copy of the data that somebody mended by hand.
        start(&*store, key(5), [on(6)]).await;
        start(&*store, key(6), [on(5)]).await;
        assert!(waits(&*store, TENANT, 1, 4).await);
        commit(&*store, next(&mut three, [Effect::Independ(run_id(4))])).await.unwrap();
        assert!(waits(&*store, TENANT, 1, 4).await, "the other way is left");
        assert!(!waits(&*store, TENANT, 3, 4).await);
        assert!(waits(&*store, TENANT, 5, 6).await && waits(&*store, TENANT, 6, 5).await);
        assert!(!waits(&*store, TENANT, 5, 1).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn children_are_counted_by_how_they_stand() {
    for engine in engines() {
        let store = engine.open();
        start(&*store, key(1), (11..17).map(|n| adopted(1, n))).await;
        start(&*store, key(2), [adopted(2, 18)]).await;
        for n in [11, 12, 18] {
            start(&*store, key(n), []).await;
        }
        for n in [13, 14, 15] {
            commit(&*store, Live::start(key(n), &instant()).1).await.unwrap();
        }
        let counts = store.containers().child_counts(key(1)).await.unwrap();
        assert_eq!(counts, [(None, 1), (Some(Status::Running), 2), (Some(Status::Completed), 3)]);
        assert_eq!(store.containers().child_counts(run_id(1).of(OTHER)).await.unwrap(), []);
        assert_eq!(store.containers().child_counts(key(11)).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whether_a_run_was_asked_for_is_known_before_it_has_started() {
    for engine in engines() {
        let store = engine.open();
        let loose = Effect::Spawn(super::children::spawn(key(1), 12, false));
        let mut live = start(&*store, key(1), [adopted(1, 11), loose]).await;
        let asked = async |parent: Key, n| store.containers().asked_for(parent, run_id(n)).await.unwrap();
        assert_eq!(asked(key(1), 11).await, Some(true), "it goes with its parent");
        assert_eq!(asked(key(1), 12).await, Some(false));
        assert_eq!(asked(key(1), 13).await, None);
        assert_eq!(asked(run_id(1).of(OTHER), 11).await, None);
        commit(&*store, next(&mut live, [Effect::Disown(run_id(11))])).await.unwrap();
        assert_eq!(asked(key(1), 11).await, None, "it could not be started");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_and_their_members_are_listed_page_by_page() {
    for engine in engines() {
        let store = engine.open();
        let containers: &dyn Containers = store.containers();
        for n in [1, 3, 5] {
            let rows = (31..36).map(|run| {
                let status = if run % 2 == 0 { Status::WaitingApproval } else { Status::Running };
                Effect::Enlist(MemberRow { role: Role::Primary, ..member(run, status) })
            });
            commit(&*store, group_of(key(n), rows).1).await.unwrap();
            start(&*store, key(n + 1), []).await;
        }
        commit(&*store, group_of(run_id(9).of(OTHER), []).1).await.unwrap();
        let ids = async |before, limit| {
            let listed = containers.groups(TENANT, before, limit).await.unwrap();
            assert!(listed.iter().all(|listed| listed.group && !listed.child));
            listed.into_iter().map(|listed| listed.id).collect::<Vec<_>>()
        };
        let newest = [run_id(5), run_id(3), run_id(1)];
        for limit in 0..5 {
            assert_eq!(ids(None, limit).await, newest[..limit.min(3)], "runs are no groups");
        }
        assert_eq!(ids(Some(run_id(5)), 10).await, newest[1..]);

        let runs = async |statuses: &[Status], after, limit| {
            let found = containers.members(key(3), statuses.to_vec(), after, limit).await.unwrap();
            found.into_iter().map(|row| row.run).collect::<Vec<_>>()
        };
        let all: Vec<RunId> = (31..36).map(run_id).collect();
        for limit in 0..7 {
            assert_eq!(runs(&[], None, limit).await, all[..limit.min(5)]);
        }
        assert_eq!(runs(&[], Some(run_id(32)), 2).await, all[2..4]);
        let asked = [Status::WaitingApproval, Status::WaitingInput];
        assert_eq!(runs(&asked, None, 10).await, [run_id(32), run_id(34)]);
        assert_eq!(runs(&asked, Some(run_id(32)), 10).await, [run_id(34)]);

        let of = async |run: Key, limit| containers.groups_of(run, limit).await.unwrap();
        let every = [1, 3, 5].map(|n| (run_id(n), Role::Primary));
        assert_eq!(of(key(31), 10).await, every);
        assert_eq!(of(key(31), 2).await, every[..2]);
        assert_eq!(of(run_id(31).of(OTHER), 10).await, []);
    }
}

async fn purged(store: &dyn Store, n: u32) {
    let purge = Purge { number: None, at: BEGIN, by: None, filter: "{}".to_owned() };
    let begun = store.retention().begin_purge(TENANT, vec![run_id(n)], purge).await.unwrap();
    assert!(begun.is_some(), "it has ended");
    while store.retention().purge_page().await.unwrap().more {}
}

/// A run with everything that it may have to do with others, and those others, each with something to do with it.
async fn entangled(store: &dyn Store) -> [Live; 2] {
    let own = [Effect::DependOn(run_id(2)), Effect::Watch(run_id(2)), Effect::Watch(run_id(9))];
    let mut one = start(store, key(1), own).await;
    commit(store, one.cancel()).await.unwrap();
    let other = start(store, key(2), [Effect::DependOn(run_id(1)), Effect::Watch(run_id(1))]).await;
    let (group, created) = group_of(key(9), [Effect::Enlist(member(1, Status::Cancelled))]);
    commit(store, created).await.unwrap();
    [other, group]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_purged_takes_its_own_rows_along_and_nobody_elses() {
    for engine in engines() {
        let store = engine.open();
        let [mut other, mut group] = entangled(&*store).await;
        purged(&*store, 1).await;
        let dump = engine.dump();
        let id: String = run_id(1).as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let named = |table: &str| dump[table].iter().filter(|row| row.contains(&id)).count();
        assert_eq!((named("dependencies"), named("watchers"), named("members")), (1, 1, 1));
        // What is left follows from the journals of those who said it, and counts as theirs.
        assert_eq!(beside(&*store, key(2)).await.dependencies, [run_id(1)]);
        assert_eq!(members(&*store, key(9)).await, [member(1, Status::Cancelled)]);
        let totals = store.totals().await.unwrap();
        assert_eq!((totals.dependencies, totals.watchers, totals.members), (1, 1, 1));
        // Nothing that walks over these rows trips over the hole.
        assert_eq!(store.containers().dependents(key(2), None, 10).await.unwrap(), []);
        assert!(waits(&*store, TENANT, 2, 1).await && !waits(&*store, TENANT, 1, 2).await);
        assert_eq!(store.containers().groups_of(key(1), 10).await.unwrap().len(), 1);
        // And whoever said them can take them back.
        commit(&*store, next(&mut other, [Effect::Independ(run_id(1)), Effect::Unwatch(run_id(1))]))
            .await
            .unwrap();
        commit(&*store, next_of_group(&mut group, [dismissed(&member(1, Status::Cancelled))])).await.unwrap();
        let totals = store.totals().await.unwrap();
        assert_eq!((totals.dependencies, totals.watchers, totals.members), (0, 0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_is_purged_takes_its_members_rows_along() {
    for engine in engines() {
        let store = engine.open();
        start(&*store, key(31), []).await;
        let rows = [31, 32].map(|n| Effect::Enlist(member(n, Status::Running)));
        let (mut group, created) = group_of(key(9), rows);
        commit(&*store, created).await.unwrap();
        commit(&*store, group.cancel()).await.unwrap();
        for (at, _) in told(&*store).await {
            store.discard(vec![at]).await.unwrap();
        }
        purged(&*store, 9).await;
        assert_eq!(store.totals().await.unwrap().members, 0);
        assert_eq!(store.containers().groups(TENANT, None, 10).await.unwrap().len(), 0);
        assert_eq!(store.containers().groups_of(key(31), 10).await.unwrap(), []);
        assert!(store.head(key(31)).await.unwrap().is_some(), "its members are runs of their own");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_how_an_erased_run_stands_is_still_told() {
    for engine in engines() {
        let store = engine.open();
        let mut one = start(&*store, key(1), []).await;
        let mut asks = start(&*store, key(2), []).await;
        let mut said = next(&mut asks, []);
        let wish = watch(&asks, None);
        said.effects.push(Effect::Bid { to: run_id(1), watch: wish.clone() });
        commit(&*store, said).await.unwrap();
        let asked = (at(&asks, 1), Message::Watch(wish));
        let mut said = next(&mut asks, []);
        said.effects.push(Effect::Tell { to: run_id(1), tidings: tidings(&asks, Status::Running) });
        commit(&*store, said).await.unwrap();
        commit(&*store, one.cancel()).await.unwrap();
        let erasure = abide_store::Erasure { at: BEGIN, by: None, reason: None };
        store.erase(key(1), erasure).await.unwrap();
        assert_eq!(told(&*store).await, [asked], "what it was told itself is nothing to anybody any more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_heard_behind_something_later_is_refused_whole() {
    for engine in engines() {
        let store = engine.open();
        let mut live = start(&*store, key(1), []).await;
        let hear = |sequence| Effect::Hear { from: run_id(2), sequence };
        commit(&*store, next(&mut live, [hear(7), Effect::Watch(run_id(2))])).await.unwrap();
        let before = engine.dump();
        for late in [6, 7] {
            // Whoever decided this had looked before the other was heard.
            let effects = [Effect::Unwatch(run_id(2)), hear(late)];
            let refused = commit(&*store, next(&mut live.clone(), effects)).await;
            assert_eq!(word(&refused), "delivered", "{late} behind 7");
            assert_eq!(engine.dump(), before);
        }
        commit(&*store, next(&mut live, [hear(8)])).await.unwrap();
        assert_eq!(store.heard(key(1), run_id(2)).await.unwrap(), Some(8));
    }
}

/// Whoever decides at once on two servers that a run belongs to a group, or how it stands, does so one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_servers_that_write_about_a_group_at_once_one_is_stale() {
    for engine in engines().into_iter().filter(|engine| engine.is_shared()) {
        let stores: [Box<dyn Store>; 2] = [engine.open(), engine.open()];
        let (group, created) = group_of(key(9), []);
        commit(&*stores[0], created).await.unwrap();
        let mut group = group;
        for n in 30..50 {
            let mut tries = [group.clone(), group.clone()];
            let [one, two] = &mut tries;
            let pending = vec![
                submit(&*stores[0], next_of_group(one, [Effect::Enlist(member(n, Status::Running))])),
                submit(&*stores[1], next_of_group(two, [Effect::Enlist(member(n, Status::Running))])),
            ];
            let mut answers = words(pending).await;
            group = tries.into_iter().next().unwrap();
            answers.sort_unstable();
            assert_eq!(answers, ["ok", "stale"]);
        }
        assert_eq!(members(&*stores[1], key(9)).await.len(), 20);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_ended_is_told_nothing_and_who_is_not_there_yet_is() {
    for engine in engines() {
        let store = engine.open();
        let watchers = [21, 22, 23].map(|n| Effect::Watch(run_id(n)));
        let mut live = start(&*store, key(1), watchers).await;
        start(&*store, key(21), []).await;
        commit(&*store, Live::start(key(22), &instant()).1).await.unwrap();
        let mut said = next(&mut live, []);
        said.effects.push(Effect::Announce(tidings(&live, Status::Paused)));
        commit(&*store, said).await.unwrap();
        let told_of: Vec<RunId> = told(&*store).await.into_iter().map(|(at, _)| at.receiver).collect();
        assert_eq!(told_of, [run_id(21), run_id(23)]);
        store.discard(told(&*store).await.into_iter().map(|(at, _)| at).collect()).await.unwrap();

        let members =
            [Status::Running, Status::Completed, Status::Failed, Status::Cancelled, Status::Blocked];
        let rows = (31..).zip(members).map(|(n, status)| Effect::Enlist(member(n, status)));
        let (mut group, created) = group_of(key(9), rows);
        commit(&*store, created).await.unwrap();
        let mut said = next_of_group(&mut group, []);
        said.effects.push(Effect::BidAll(watch(&group, Some(5))));
        commit(&*store, said).await.unwrap();
        let bid: Vec<RunId> = told(&*store).await.into_iter().map(|(at, _)| at.receiver).collect();
        assert_eq!(bid, [run_id(31), run_id(35)]);
        assert_eq!(store.containers().words(key(9), run_id(35)).await.unwrap().len(), 1);
        assert_eq!(store.containers().words(key(9), run_id(32)).await.unwrap(), []);
    }
}

/// How a child stood in the middle of a commit is nothing that its parent ever hears.
#[tokio::test(flavor = "multi_thread")]
async fn a_parent_is_told_once_for_each_commit() {
    for engine in engines() {
        let store = engine.open();
        let (live, mut created) = Live::start_child(key(11), &waiting(), run_id(1));
        let notice = |sequence| abide_core::Notice {
            from: key(11).id,
            sequence,
            node: "call".to_owned(),
            lifecycle: abide_core::Lifecycle::Running,
            execution: 1,
            outputs: JsonMap::new(),
            sensitive: Vec::new(),
            error: None,
            still: false,
            status: Some(Status::Running),
            suspended: None,
            claimed: false,
        };
        created.effects.extend([0, 1].map(|at| Effect::Send { to: run_id(1), notice: notice(at) }));
        commit(&*store, created).await.unwrap();
        let expected = MessageRef { sender: live.key(), sequence: 1, receiver: run_id(1) };
        assert_eq!(told(&*store).await, [(expected, Message::Notice(notice(1)))]);
    }
}

fn appointed(live: &Live, agent: &str) -> Effect {
    let head = live.run.head();
    Effect::Assign(Appointment { agent: agent.to_owned(), sequence: head.next - 1, at: head.at })
}

async fn assigned(store: &dyn Store, agent: &str, after: Option<u64>) -> Vec<(u64, RunId)> {
    let rows = store.containers().assignments(TENANT, agent.to_owned(), after, 1000).await.unwrap();
    rows.into_iter().map(|row| (row.place, row.run)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_is_to_work_on_lies_behind_all_that_was_committed_before() {
    for engine in engines() {
        let store = engine.open();
        let (mut newer, mut older) = (start(&*store, key(2), []).await, start(&*store, key(1), []).await);
        assert_eq!(store.containers().last_assignment(TENANT).await.unwrap(), 0);
        // All of it happens at one moment, and the older run comes second.
        let effect = appointed(&newer, "x");
        commit(&*store, next(&mut newer, [effect])).await.unwrap();
        let seen = assigned(&*store, "x", None).await;
        assert_eq!(seen, [(1, run_id(2))]);
        let effect = appointed(&older, "x");
        commit(&*store, next(&mut older, [effect])).await.unwrap();
        assert_eq!(assigned(&*store, "x", Some(1)).await, [(2, run_id(1))]);
        // What is taken back leaves no place to be given once more.
        commit(&*store, next(&mut older, [Effect::Unassign("x".to_owned())])).await.unwrap();
        let effects = [appointed(&older, "y"), appointed(&older, "x")];
        commit(&*store, next(&mut older, effects)).await.unwrap();
        assert_eq!(assigned(&*store, "x", Some(2)).await, [(4, run_id(1))]);
        assert_eq!(assigned(&*store, "y", None).await, [(3, run_id(1))]);
        // Whoever is assigned anew, as something else, is told so.
        let effect = appointed(&newer, "x");
        commit(&*store, next(&mut newer, [effect])).await.unwrap();
        assert_eq!(assigned(&*store, "x", None).await, [(4, run_id(1)), (5, run_id(2))]);
        assert_eq!(store.containers().last_assignment(TENANT).await.unwrap(), 5);
        assert_eq!(store.containers().last_assignment(OTHER).await.unwrap(), 0);
        assert_eq!(assigned(&*store, "x", Some(u64::MAX)).await, []);
    }
}
