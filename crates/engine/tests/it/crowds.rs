//! Many runs that wait for one, and many members of one group: all of them stand right in the end, and what is written is in
//! proportion to what changed.

use std::sync::atomic::Ordering;

use abide_core::{Governance, Group, GroupSpec, Key, Role, Run, RunId, Status};
use abide_engine::{AskedChild, Engine, Error, NewMember, NewRun, Reply};
use abide_pgtest::Database;
use serde_json::json;
use tokio::task::JoinSet;

use crate::servers::Server;
use crate::support::{Rig, START, TENANT, within};
use crate::tapped::Fate;

/// How many there are of whatever there are many of.
const MANY: usize = 200;

fn silent() -> Reply {
    Reply::new(None, |_| Vec::new())
}

async fn make_group(engine: &Engine) -> Key {
    let spec = GroupSpec { name: "everybody".to_owned(), ..GroupSpec::default() };
    let named = Reply::new(None, |run: &Run| run.key().id.to_string().into_bytes());
    let id = engine.make_group(TENANT, spec, None, named).await.unwrap();
    String::from_utf8(id).unwrap().parse::<RunId>().unwrap().of(TENANT)
}

async fn add(engine: &Engine, group: Key, run: Key) {
    let new = NewMember { run: run.id, role: Role::Member, priority: 0 };
    engine.add_member(group, new, None, silent()).await.unwrap();
}

async fn group_of(engine: &Engine, key: Key) -> Group {
    engine.read(key, |run| run.group().cloned()).await.unwrap().unwrap()
}

/// A run that starts when another one has completed.
async fn after(rig: &Rig, upstream: Key, workflow: &str) -> Key {
    let new = NewRun { depends_on: vec![upstream.id], ..NewRun::of(TENANT, workflow) };
    let (run, status) = rig.engine.start_run(new).await.unwrap();
    assert_eq!(status, Status::Blocked);
    run.of(TENANT)
}

/// Has the rig know a workflow that asks one question.
async fn teach_to_ask(rig: &Rig) {
    let gate = json!({
        "id": "gate", "typeId": "core.approvalGate", "name": "gate", "position": {}, "config": { "title": "Go on?" },
        "inputs": {},
    });
    let definition = json!({
        "id": "asks", "name": "asks", "version": "1", "nodes": [gate], "edges": [], "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
    });
    rig.engine.push_workflow(TENANT, definition.to_string().as_bytes(), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_wait_for_one_go_on_with_one_commit_each() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let upstream = rig.start_waiting(1000).await;
    let mut waiting = Vec::with_capacity(MANY);
    for _ in 0..MANY {
        waiting.push(after(&rig, upstream, "noop").await);
    }
    rig.outbox_is_empty().await;
    let before = rig.engine.store().counts().commits;
    rig.clock.advance(1000).await.unwrap();
    for run in &waiting {
        assert_eq!(rig.end_of(*run).await, Status::Completed);
    }
    rig.outbox_is_empty().await;
    let commits = rig.engine.store().counts().commits - before;
    assert_eq!(commits, MANY as u64 + 1, "one for the one that completes, and one for each that goes on");
    rig.verify().await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_members_all_ask_at_once_counts_each_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    teach_to_ask(&rig).await;
    let (upstream, group) = (rig.start_waiting(1000).await, make_group(&rig.engine).await);
    for _ in 0..MANY {
        let run = after(&rig, upstream, "asks").await;
        add(&rig.engine, group, run).await;
    }
    rig.outbox_is_empty().await;
    assert_eq!(group_of(&rig.engine, group).await.by_status, [("blocked".to_owned(), MANY as u64)].into());
    let before = rig.engine.store().counts().commits;
    rig.clock.advance(1000).await.unwrap();
    within("all members to ask", async {
        while group_of(&rig.engine, group).await.suspended() < MANY as u64 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    rig.outbox_is_empty().await;
    let commits = rig.engine.store().counts().commits - before;
    assert!(commits <= 2 * MANY as u64 + 1, "{commits} commits for {MANY} members");
    let counted = group_of(&rig.engine, group).await;
    assert_eq!((counted.total, counted.suspended(), counted.by_status.len()), (200, 200, 1));
    let told = rig.story(group).await.iter().filter(|name| **name == "portfolio.member_suspended").count();
    assert_eq!(told, MANY, "each of them is told of");
    rig.verify().await;
    rig.close().await;
}

/// The group is kept from hearing the first of its members until all others have something to say too.
#[tokio::test(flavor = "multi_thread")]
async fn what_many_members_have_said_meanwhile_is_heard_in_few_commits() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let group = make_group(&rig.engine).await;
    let mut members = Vec::with_capacity(MANY);
    for _ in 0..MANY {
        members.push(rig.start_waiting(1_000_000).await);
    }
    for member in &members {
        add(&rig.engine, group, *member).await;
    }
    rig.outbox_is_empty().await;
    // Messages are looked at in the order of their senders, so that all others are behind this one.
    members.sort();
    let (first, others) = members.split_first().unwrap();
    rig.store.next(&[Fate::Pass, Fate::Hold]);
    rig.engine.cancel(*first, None, None).await.unwrap();
    within("the group to hear the first", async {
        while rig.store.held() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    for member in others {
        rig.engine.cancel(*member, None, None).await.unwrap();
    }
    assert_eq!(rig.engine.store().totals().await.unwrap().outbox, MANY as u64);
    let before = rig.store.submitted.load(Ordering::SeqCst);
    rig.store.release(Fate::Pass);
    rig.outbox_is_empty().await;
    let commits = rig.store.submitted.load(Ordering::SeqCst) - before;
    assert_eq!(commits, (MANY as u64 - 1).div_ceil(64), "64 messages share a commit");
    let counted = group_of(&rig.engine, group).await;
    assert_eq!(counted.by_status, [("abandoned".to_owned(), MANY as u64)].into());
    rig.verify().await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_reports_while_it_is_removed_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let (group, other) = (make_group(&rig.engine).await, make_group(&rig.engine).await);
    let (member, bystander) = (rig.start_waiting(1_000_000).await, rig.start_waiting(1_000_000).await);
    add(&rig.engine, group, member).await;
    add(&rig.engine, other, bystander).await;
    rig.outbox_is_empty().await;
    rig.store.next(&[Fate::Hold]);
    let removed = tokio::spawn({
        let engine = rig.engine.clone();
        async move { engine.remove_member(group, member.id, None, silent()).await }
    });
    within("the removal", async {
        while rig.store.held() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // The group knows already that it has no such member, and the disk does not.
    rig.engine.cancel(member, None, None).await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    rig.store.release(Fate::Pass);
    within("the removal", removed).await.unwrap().unwrap();
    rig.engine.cancel(bystander, None, None).await.unwrap();
    rig.outbox_is_empty().await;
    assert_eq!(group_of(&rig.engine, group).await.total, 0);
    assert_eq!(group_of(&rig.engine, other).await.by_status, [("abandoned".to_owned(), 1)].into());
    rig.verify().await;
    rig.close().await;
}

/// Whoever adds edges waits for a turn, so that nobody is sent away because of the others.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_pairs_that_are_to_wait_for_each_other_each_has_one_edge() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let mut asked = JoinSet::new();
    for pair in 0..50 {
        let (one, other) = (rig.start_waiting(1_000_000).await, rig.start_waiting(1_000_000).await);
        for (run, on) in [(one, other), (other, one)] {
            let engine = rig.engine.clone();
            asked.spawn(async move { (pair, engine.add_dependency(run, on.id, None, None, silent()).await) });
        }
    }
    let (mut made, mut refused) = (Vec::new(), Vec::new());
    for (pair, added) in asked.join_all().await {
        match added {
            Ok(_) => made.push(pair),
            Err(Error::Circle { .. }) => refused.push(pair),
            Err(error) => panic!("pair {pair}: {error}"),
        }
    }
    made.sort_unstable();
    refused.sort_unstable();
    let all: Vec<i32> = (0..50).collect();
    assert_eq!((&made, &refused), (&all, &all));
    rig.outbox_is_empty().await;
    rig.verify().await;
    rig.close().await;
}

/// Neither server knows what the other is about to write; the database has both pass through one row.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_servers_that_add_opposite_edges_at_once_one_is_refused() {
    let database = Database::new();
    let servers = [Server::start(&database), Server::start(&database)];
    for pair in 0..20 {
        let mut runs = Vec::new();
        for server in &servers {
            let inputs = [("delayMs".to_owned(), abide_core::Json::of(&3_600_000))].into();
            let new = NewRun { inputs, ..NewRun::of(TENANT, "wait") };
            runs.push(server.engine.start_run(new).await.unwrap().0.of(TENANT));
        }
        let (one, other) = tokio::join!(
            servers[0].engine.add_dependency(runs[0], runs[1].id, None, None, silent()),
            servers[1].engine.add_dependency(runs[1], runs[0].id, None, None, silent()),
        );
        let refused = [&one, &other].into_iter().filter(|told| matches!(told, Err(Error::Circle { .. })));
        assert_eq!(refused.count(), 1, "pair {pair}: {one:?} {other:?}");
        assert_ne!(one.is_ok(), other.is_ok(), "pair {pair}: {one:?} {other:?}");
        for server in &servers {
            for run in &runs {
                let itself = server.engine.add_dependency(*run, run.id, None, None, silent()).await;
                assert!(matches!(itself, Err(Error::Rejected(_))), "{itself:?}");
            }
        }
    }
    within("nothing to be told", async {
        while servers[0].engine.store().totals().await.unwrap().outbox > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    servers[0].verify().await;
}

/// Between the moment in which a parent has its child and the child's first commit the child waits for nobody, as far as the
/// rows tell.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_has_not_begun_closes_no_circle() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let by_hand = json!({
        "id": "hand", "name": "By hand", "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "edges": [],
        "nodes": [{ "id": "self", "typeId": "core.byHand", "name": "Self", "position": {}, "config": {}, "inputs": {} }],
    });
    rig.engine.push_workflow(TENANT, by_hand.to_string().as_bytes(), None).await.unwrap();
    for _ in 0..40 {
        let (parent, other) = (rig.start("hand").await, rig.start("hand").await);
        let asked = AskedChild {
            workflow_id: "hand".to_owned(),
            inputs: abide_core::JsonMap::new(),
            depends_on: vec![other.id],
            draft: false,
            by: None,
            actor: None,
        };
        let told = |run: &Run| run.key().id.to_string().into_bytes();
        // The edge is added as soon as the parent has the child, which may not have begun by then.
        let edge = async {
            let mut news = rig.engine.subscribe(parent);
            while !rig.story(parent).await.contains(&"child.added") {
                news.changed().await;
            }
            rig.engine.add_dependency(other, parent.id, None, None, silent()).await
        };
        let (child, edge) = tokio::join!(rig.engine.add_child(parent, asked, None, told), edge);
        rig.outbox_is_empty().await;
        let refused = rig.story(parent).await.contains(&"child.refused");
        assert_eq!(child.is_ok(), !refused, "whoever asked hears of it: {child:?}");
        let told = match &child {
            Err(Error::ChildRefused(error)) => error.code == "dependency_circle",
            told => told.is_ok() || matches!(told, Err(Error::Circle { .. })),
        };
        assert!(told, "and of why: {child:?}");
        assert_eq!(edge.is_ok(), refused, "either the edge is refused or the child is: {edge:?}");
    }
    rig.verify().await;
    rig.close().await;
}

/// A walk that finds a circle may begin at either end, and has to go all the way.
#[tokio::test(flavor = "multi_thread")]
async fn a_circle_is_found_however_long_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let first = rig.start_waiting(1_000_000).await;
    let mut last = first;
    for _ in 0..700 {
        last = after(&rig, last, "noop").await;
    }
    let circle = rig.engine.add_dependency(first, last.id, None, None, silent()).await;
    assert!(matches!(circle, Err(Error::Circle { .. })), "{circle:?}");
    let beside = rig.start_waiting(1_000_000).await;
    rig.engine.add_dependency(beside, last.id, None, None, silent()).await.unwrap();
    rig.engine.add_dependency(first, beside.id, None, None, silent()).await.unwrap_err();
    let before = rig.start_waiting(1_000_000).await;
    rig.engine.add_dependency(first, before.id, None, None, silent()).await.unwrap();
    rig.outbox_is_empty().await;
    rig.verify().await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_report_to_one_group_through_two_servers_are_each_heard_once() {
    let database = Database::new();
    let servers = [Server::start(&database), Server::start(&database)];
    let group = make_group(&servers[0].engine).await;
    let mut members = Vec::new();
    for at in 0..60 {
        let new = NewRun::of(TENANT, "wait");
        let server = &servers[at % 2];
        let inputs = [("delayMs".to_owned(), abide_core::Json::of(&3_600_000))].into();
        let run = server.engine.start_run(NewRun { inputs, ..new }).await.unwrap().0.of(TENANT);
        add(&server.engine, group, run).await;
        members.push(run);
    }
    let mut asked = JoinSet::new();
    for (at, member) in members.into_iter().enumerate() {
        let engine = servers[at % 2].engine.clone();
        asked.spawn(async move { engine.cancel(member, None, None).await.unwrap() });
    }
    asked.join_all().await;
    let all = [("abandoned".to_owned(), 60)].into();
    within("the group to hear all of them", async {
        while group_of(&servers[1].engine, group).await.by_status != all {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        while servers[0].engine.store().totals().await.unwrap().outbox > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(group_of(&servers[0].engine, group).await.total, 60);
    servers[0].verify().await;
}

/// What somebody said before a deadline holds, also if the member hears it after.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_was_moved_in_time_abandons_nobody_who_has_not_heard_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    teach_to_ask(&rig).await;
    let spec = GroupSpec {
        name: "in a hurry".to_owned(),
        governance: Governance { deadline: Some(START + 60_000), ..Governance::default() },
        ..GroupSpec::default()
    };
    let named = Reply::new(None, |run: &Run| run.key().id.to_string().into_bytes());
    let id = rig.engine.make_group(TENANT, spec, None, named).await.unwrap();
    let group = String::from_utf8(id).unwrap().parse::<RunId>().unwrap().of(TENANT);
    let member = rig.start("asks").await;
    add(&rig.engine, group, member).await;
    rig.outbox_is_empty().await;
    // The member can't write down that the deadline was moved, and before it is told again its old one has passed.
    rig.store.next(&[Fate::Pass, Fate::Fail]);
    let before = rig.store.submitted.load(Ordering::SeqCst);
    let later = Governance { deadline: Some(START + 3_600_000), ..Governance::default() };
    rig.engine.govern(group, (later, None), None, silent()).await.unwrap();
    within("the message to fail", async {
        while rig.store.submitted.load(Ordering::SeqCst) < before + 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    rig.clock.advance(60_000).await.unwrap();
    rig.outbox_is_empty().await;
    assert_eq!(rig.status(member).await, Status::WaitingApproval);
    rig.clock.advance(3_600_000).await.unwrap();
    assert_eq!(rig.end_of(member).await, Status::Cancelled);
    rig.outbox_is_empty().await;
    rig.verify().await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_met_a_bug_is_delivered_though_nobody_says_anything_more() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let upstream = rig.start_waiting(1000).await;
    rig.store.break_once();
    let waits = after(&rig, upstream, "noop").await;
    rig.outbox_is_empty().await;
    rig.clock.advance(1000).await.unwrap();
    assert_eq!(rig.end_of(waits).await, Status::Completed);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_how_another_run_stands_that_was_lost_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let upstream = rig.start_waiting(1_000_000).await;
    rig.store.next(&[Fate::Pass, Fate::Fail]);
    let before = rig.store.submitted.load(Ordering::SeqCst);
    let waits = after(&rig, upstream, "noop").await;
    within("the message to fail", async {
        while rig.store.submitted.load(Ordering::SeqCst) < before + 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Before it is tried again, it is gone.
    let db = rusqlite::Connection::open(dir.path().join("abide.db")).unwrap();
    assert_eq!(db.execute("DELETE FROM outbox", []).unwrap(), 1);
    let report = abide_engine::verify::verify(&*rig.store, |_| ()).await.unwrap();
    let [found] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!(found.run, Some(waits));
    assert!(found.what.contains("was lost"), "{}", found.what);
    rig.close().await;
}
