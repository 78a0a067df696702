//! Runs whose journal was damaged: told apart, refused, and cut behind their last good decision if somebody insists.

use abide_core::{Key, Status};
use abide_engine::{Cut, Error, NewRun, Soundness, verify};
use abide_store::{AuditRecord, Store};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::peer::{Act, Peer, answer};
use crate::support::{Rig, START, TENANT, within};

/// Changes the data behind everybody's back; `?1` is the run.
fn damage(dir: &std::path::Path, key: Key, sql: &str) {
    let db = Connection::open(dir.join("abide.db")).unwrap();
    assert!(db.execute(sql, [key.id.as_bytes().as_slice()]).unwrap() > 0, "{sql}");
}

/// Every row there is, table by table, but for the log of the test clock.
fn dump(dir: &std::path::Path) -> Vec<String> {
    let db = Connection::open(dir.join("abide.db")).unwrap();
    let mut all = Vec::new();
    for table in [
        "aggregates",
        "events",
        "timers",
        "tasks",
        "work",
        "outbox",
        "heard",
        "children",
        "interrupts",
        "interrupt_counts",
        "audit_log",
        "audit_heads",
        "claims",
    ] {
        let mut statement = db.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = statement.column_count();
        let rows = statement
            .query_map([], |row| {
                (0..columns).map(|ix| row.get::<_, rusqlite::types::Value>(ix)).collect::<Result<Vec<_>, _>>()
            })
            .unwrap();
        all.extend(rows.map(|row| format!("{table}: {:?}", row.unwrap())));
    }
    all
}

async fn log_of(rig: &Rig, key: Key) -> Vec<(AuditRecord, Value)> {
    let records = rig.store.audit_log().about(key, 10).await.unwrap();
    records.into_iter().map(|record| (record.clone(), record.body().unwrap().parse().unwrap())).collect()
}

/// A workflow that waits twice, so that two decisions stand in its journal.
async fn waits_twice(rig: &Rig) -> Key {
    let node = |id: &str, ms: u32| json!({ "id": id, "typeId": "core.delay", "name": id, "position": {}, "config": { "ms": ms }, "inputs": {} });
    let definition = json!({
        "id": "twice", "name": "twice", "version": "1", "nodes": [node("first", 1000), node("second", 1000)],
        "edges": [{ "id": "e", "sourceNodeId": "first", "targetNodeId": "second" }], "triggers": [],
        "variables": [], "metadata": {}, "settings": {},
    });
    rig.engine.push_workflow(TENANT, definition.to_string().as_bytes(), None).await.unwrap();
    rig.start("twice").await
}

/// A run that has come to its second wait, and the directory it lies in.
async fn at_the_second_wait() -> (tempfile::TempDir, Key) {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let key = waits_twice(&rig).await;
    let mut news = rig.engine.subscribe(key);
    rig.clock.advance(1000).await.unwrap();
    while rig.engine.head(key).await.unwrap().next < 4 {
        news.changed().await;
    }
    let told = ["run.started", "node.started", "node.completed", "node.started"];
    assert_eq!(rig.story(key).await, told);
    rig.close().await;
    (dir, key)
}

const GOOD: Result<(), String> = Ok(());

fn is_bad(part: &Result<(), String>, words: &str) -> bool {
    part.as_ref().is_err_and(|reason| reason.contains(words))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_part_that_a_run_needs_is_told_apart() {
    type Check = fn(&Soundness) -> bool;
    let cases: [(&str, u64, Check); 8] = [
        ("UPDATE aggregates SET at = at WHERE id = ?1", 4, Soundness::is_sound),
        ("UPDATE events SET payload = substr(payload, 2) WHERE id = ?1 AND seq = 3", 3, |found| {
            is_bad(&found.history, "event 3") && found.plan == GOOD && found.state == GOOD
        }),
        ("UPDATE events SET at = at + 1 WHERE id = ?1 AND seq = 2", 2, |found| {
            is_bad(&found.history, "hash chain") && found.plan == GOOD
        }),
        ("DELETE FROM events WHERE id = ?1 AND seq = 3", 3, |found| {
            is_bad(&found.history, "columns say (4 events)")
        }),
        ("DELETE FROM events WHERE id = ?1 AND seq = 0", 0, |found| {
            is_bad(&found.history, "first event is missing")
        }),
        ("UPDATE events SET chain = x'00' WHERE id = ?1 AND seq = 1", 1, |found| found.history.is_err()),
        ("DELETE FROM blobs WHERE hash = (SELECT definition FROM aggregates WHERE id = ?1)", 4, |found| {
            is_bad(&found.plan, "not in the store") && found.history == GOOD && found.state == GOOD
        }),
        ("UPDATE aggregates SET snapshot = x'7b7d', snapshot_at = 2 WHERE id = ?1", 4, |found| {
            is_bad(&found.state, "damaged") && found.history == GOOD && found.plan == GOOD
        }),
    ];
    for (sql, good, check) in cases {
        let (dir, key) = at_the_second_wait().await;
        damage(dir.path(), key, sql);
        let rig = Rig::open(dir.path()).await;
        let found = rig.engine.soundness(key).await.unwrap();
        assert!(check(&found), "{sql}: {found:?}");
        assert_eq!(found.good.next, good, "{sql}: {found:?}");
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_is_changed_on_disk_is_noticed_while_it_is_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let key = waits_twice(&rig).await;
    damage(
        dir.path(),
        key,
        "UPDATE blobs SET bytes = x'00' WHERE hash = (SELECT definition FROM aggregates WHERE id = ?1)",
    );
    assert!(is_bad(&rig.engine.soundness(key).await.unwrap().plan, "hash"));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_journal_is_not_cut() {
    let (dir, key) = at_the_second_wait().await;
    let rig = Rig::open(dir.path()).await;
    let before = dump(dir.path());
    let refused = rig.engine.truncate(key, "ada".to_owned(), "why not".to_owned()).await;
    assert!(
        matches!(&refused, Err(Error::Untruncatable { reason, .. }) if reason.contains("is good")),
        "{refused:?}"
    );
    assert_eq!(dump(dir.path()), before);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_first_decision_is_bad_is_not_cut() {
    for sql in [
        "UPDATE events SET at = at + 1 WHERE id = ?1 AND seq = 0",
        "UPDATE events SET at = at + 1 WHERE id = ?1 AND seq = 1",
        "DELETE FROM events WHERE id = ?1 AND seq = 0",
    ] {
        let (dir, key) = at_the_second_wait().await;
        damage(dir.path(), key, sql);
        let rig = Rig::open(dir.path()).await;
        let before = dump(dir.path());
        let refused = rig.engine.truncate(key, "ada".to_owned(), "why not".to_owned()).await;
        assert!(
            matches!(&refused, Err(Error::Untruncatable { reason, .. }) if reason.contains("first")),
            "{refused:?}"
        );
        assert_eq!(dump(dir.path()), before, "{sql}");
        rig.close().await;
    }
}

/// The second decision (the end of one delay and the start of the next) is torn, so the run waits for the first delay
/// again, which is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_end_is_cut_off_and_the_run_goes_on() {
    for sql in [
        "UPDATE events SET payload = substr(payload, 2) WHERE id = ?1 AND seq = 3",
        "UPDATE events SET at = at + 1 WHERE id = ?1 AND seq = 2",
        "DELETE FROM events WHERE id = ?1 AND seq = 3",
        "DELETE FROM events WHERE id = ?1 AND seq = 2",
    ] {
        let (dir, key) = at_the_second_wait().await;
        damage(dir.path(), key, sql);
        let rig = Rig::open(dir.path()).await;
        let report = verify::verify(&*rig.store, |_| ()).await.unwrap();
        assert_eq!(report.bad_runs, 1);

        let cut = rig.engine.truncate(key, "ada".to_owned(), "the disk was bad".to_owned()).await.unwrap();
        assert_eq!((cut.from, cut.to), (4, 2), "{sql}");
        let [(record, body)] = log_of(&rig, key).await.try_into().unwrap();
        assert_eq!(record.kind, "truncation");
        assert_eq!((&body["actor"], &body["reason"]), (&json!("ada"), &json!("the disk was bad")));
        assert_eq!((&body["from"], &body["to"]), (&json!(4), &json!(2)));
        assert_eq!(body["dropped"]["events"], json!(cut.dropped));
        assert_eq!(body["dropped"]["first"].as_array().unwrap().len() as u64, cut.dropped);

        // The first delay was over long ago, and the second begins anew.
        let mut news = rig.engine.subscribe(key);
        while rig.engine.head(key).await.unwrap().next < 4 {
            news.changed().await;
        }
        rig.verify().await;
        rig.clock.advance(2000).await.unwrap();
        assert_eq!(rig.end_of(key).await, Status::Completed);
        rig.verify().await;
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_snapshot_is_dropped_without_any_event() {
    let (dir, key) = at_the_second_wait().await;
    damage(dir.path(), key, "UPDATE aggregates SET snapshot = x'7b7d', snapshot_at = 2 WHERE id = ?1");
    let rig = Rig::open(dir.path()).await;
    let cut = rig.engine.truncate(key, "ada".to_owned(), "the disk was bad".to_owned()).await.unwrap();
    assert_eq!(cut, Cut { from: 4, to: 4, dropped: 0 });
    assert!(rig.engine.soundness(key).await.unwrap().is_sound());
    rig.verify().await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_provider_that_no_journal_tells_of_is_found() {
    for (run, words) in [("?1", "beside the journal lies"), ("zeroblob(length(?1))", "rows belong to no run")]
    {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::open(dir.path()).await;
        let key = rig.start_waiting(1000).await;
        rig.verify().await;
        let sql = format!("INSERT INTO provider_waits VALUES (1, {run}, 'n', 1, 'claude', 1, 0, 1)");
        damage(dir.path(), key, &sql);
        let report = verify::verify(&*rig.store, |_| ()).await.unwrap();
        let found: Vec<&str> = report.findings.iter().map(|finding| &*finding.what).collect();
        assert!(matches!(found[..], [what] if what.contains(words)), "{found:?}");
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_removed_or_moved_record_of_the_log_is_named() {
    for (sql, words) in [
        ("UPDATE audit_log SET body = x'7b7d' WHERE seq = 1 AND ?1 = ?1", "audit record 1 (test about run-"),
        ("UPDATE audit_log SET at = at + 1 WHERE seq = 0 AND ?1 = ?1", "audit record 0 (test"),
        ("UPDATE audit_log SET kind = 'other' WHERE seq = 2 AND run = ?1", "audit record 2 (other"),
        ("DELETE FROM audit_log WHERE seq = 1 AND ?1 = ?1", "audit record 1 is missing"),
        ("DELETE FROM audit_log WHERE seq = 2 AND ?1 = ?1", "audit record 2 is missing"),
        ("DELETE FROM audit_log WHERE ?1 = ?1", "audit record 0 is missing"),
        (
            "UPDATE audit_log SET seq = CASE seq WHEN 0 THEN 10 ELSE seq END WHERE ?1 = ?1",
            "audit record 0 is missing",
        ),
        ("DELETE FROM audit_heads WHERE ?1 = ?1", "it has 3 records"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::open(dir.path()).await;
        let key = rig.start("noop").await;
        for n in 0..3 {
            let body = abide_core::Json::of(&json!({ "n": n }));
            let new = abide_store::NewAudit { key, at: START, kind: "test".to_owned(), body };
            rig.store.audit_log().append(new).await.unwrap();
        }
        rig.verify().await;
        damage(dir.path(), key, sql);
        let report = verify::verify(&*rig.store, |_| ()).await.unwrap();
        let [finding] = report.findings.try_into().unwrap();
        assert!(finding.what.contains(words), "{sql}: {}", finding.what);
        rig.close().await;
    }
}

/// A workflow that asks for a decision after a delay, so that its inbox is behind the first decision.
async fn asks_later(rig: &Rig) -> Key {
    let node = |id: &str, kind: &str, config: Value| json!({ "id": id, "typeId": kind, "name": id, "position": {}, "config": config, "inputs": {} });
    let definition = json!({
        "id": "asks", "name": "asks", "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "nodes": [
            node("first", "core.delay", json!({ "ms": 1000 })),
            node("gate", "core.approvalGate", json!({ "title": "Go on?", "actions": ["accept", "reject"] })),
            node("last", "core.delay", json!({ "ms": 1000 })),
        ],
        "edges": [
            { "id": "a", "sourceNodeId": "first", "targetNodeId": "gate" },
            { "id": "b", "sourceNodeId": "gate", "targetNodeId": "last" },
        ],
    });
    rig.engine.push_workflow(TENANT, definition.to_string().as_bytes(), None).await.unwrap();
    rig.start("asks").await
}

async fn until_waiting(rig: &Rig, key: Key, status: Status) {
    let mut news = rig.engine.subscribe(key);
    while rig.status(key).await != status {
        within("a status", news.changed()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_was_asked_behind_the_cut_leaves_the_inbox_and_is_asked_again() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let key = asks_later(&rig).await;
    rig.clock.advance(1000).await.unwrap();
    until_waiting(&rig, key, Status::WaitingApproval).await;
    rig.close().await;
    damage(dir.path(), key, "UPDATE events SET at = at + 1 WHERE id = ?1 AND seq = 2");
    let rig = Rig::open(dir.path()).await;
    rig.engine.truncate(key, "ada".to_owned(), "the disk was bad".to_owned()).await.unwrap();
    until_waiting(&rig, key, Status::WaitingApproval).await;
    assert_eq!(rig.store.totals().await.unwrap().interrupts, 1);
    rig.verify().await;
    rig.close().await;
}

/// A durable node is a task; its dispatch stays and its end is cut. It is done again, as one that a dead process had.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_was_under_way_at_the_cut_is_taken_again() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let key = rig.start("steps").await;
    assert_eq!(rig.end_of(key).await, Status::Completed);
    let story = rig.story(key).await;
    let end = story.iter().position(|name| *name == "node.completed").unwrap();
    rig.close().await;
    damage(dir.path(), key, &format!("UPDATE events SET at = at + 1 WHERE id = ?1 AND seq = {end}"));
    let rig = Rig::open(dir.path()).await;
    let cut = rig.engine.truncate(key, "ada".to_owned(), "the disk was bad".to_owned()).await.unwrap();
    assert_eq!(cut.to, end as u64);
    assert_eq!(rig.end_of(key).await, Status::Completed);
    assert_eq!(rig.story(key).await, story);
    rig.verify().await;
    rig.close().await;
}

/// The parent had heard of its child's end, and that is cut off: the child says it again.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_child_said_behind_the_cut_is_said_again() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let call = json!({
        "id": "call", "typeId": "core.subWorkflow", "name": "call", "position": {}, "config": { "workflowId": "wait" },
        "inputs": {},
    });
    let definition = json!({
        "id": "calls", "name": "calls", "version": "1", "nodes": [call], "edges": [], "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
    });
    rig.engine.push_workflow(TENANT, definition.to_string().as_bytes(), None).await.unwrap();
    let key = rig.start("calls").await;
    rig.outbox_is_empty().await;
    let child = rig.engine.children(key, 1).await.unwrap()[0].child;
    rig.clock.advance(1000).await.unwrap();
    assert_eq!(rig.end_of(key).await, Status::Completed);
    let story = rig.story(key).await;
    let heard = story.iter().position(|name| *name == "child.reported").unwrap();
    rig.close().await;
    damage(dir.path(), key, &format!("UPDATE events SET at = at + 1 WHERE id = ?1 AND seq = {heard}"));
    let rig = Rig::open(dir.path()).await;
    rig.engine.truncate(key, "ada".to_owned(), "the disk was bad".to_owned()).await.unwrap();
    assert_eq!(rig.end_of(key).await, Status::Completed);
    assert_eq!(rig.story(key).await, story);
    rig.outbox_is_empty().await;
    rig.verify().await;

    // The child's end was told, and its parent has it: that can't be cut.
    rig.close().await;
    let child = child.of(TENANT);
    damage(
        dir.path(),
        child,
        "DELETE FROM events WHERE id = ?1 AND seq = (SELECT max(seq) FROM events WHERE id = ?1)",
    );
    let rig = Rig::open(dir.path()).await;
    let before = dump(dir.path());
    let refused = rig.engine.truncate(child, "ada".to_owned(), "the disk was bad".to_owned()).await;
    assert!(
        matches!(&refused, Err(Error::Untruncatable { reason, .. }) if reason.contains("has acted on")),
        "{refused:?}"
    );
    assert_eq!(dump(dir.path()), before);
    rig.close().await;
}

/// A run that was interrupted, and whose journal is damaged before it could be resumed.
async fn interrupted_and_damaged() -> (tempfile::TempDir, Key) {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    // It fails twice, so that it waits for the end of the cool-down.
    let peer = Peer::start(|_| Act::Say(answer(503, "", ""))).await;
    let request = json!({
        "id": "ask", "typeId": "core.http.request", "name": "ask", "position": {}, "inputs": {},
        "config": { "method": "POST", "url": peer.url("/") }, "settings": { "abide": { "idempotent": true } },
    });
    let definition = json!({
        "id": "ask", "name": "ask", "version": "1", "nodes": [request], "edges": [], "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
    });
    rig.engine.push_workflow(TENANT, definition.to_string().as_bytes(), None).await.unwrap();
    let key = rig.start("ask").await;
    let mut news = rig.engine.subscribe(key);
    while rig.story(key).await.iter().filter(|name| **name == "resume_decision").count() < 2 {
        within("two decisions", news.changed()).await;
    }
    rig.close().await;
    damage(dir.path(), key, "UPDATE events SET at = at + 1 WHERE id = ?1 AND seq = 2");
    (dir, key)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_run_is_not_resumed_and_that_is_recorded_once() {
    let (dir, key) = interrupted_and_damaged().await;
    for _ in 0..2 {
        let rig = Rig::open(dir.path()).await;
        let before = rig.engine.head(key).await.unwrap().next;
        rig.clock.advance(60_000).await.unwrap();
        within("a record", async {
            while log_of(&rig, key).await.is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        // The timer stays on disk and is read again, and nothing more comes of it.
        for _ in 0..4 {
            rig.clock.advance(60_000).await.unwrap();
            rig.start("noop").await;
        }
        let [(record, body)] = log_of(&rig, key).await.try_into().unwrap();
        assert_eq!(record.kind, "resume_decision");
        assert_eq!(body["reason_code"], "resume_missing_runtime_artifacts");
        assert_eq!((&body["actor"], &body["eligible"]), (&json!("system"), &json!(false)));
        assert_eq!(rig.engine.head(key).await.unwrap().next, before, "a broken chain is not touched");
        let told = rig.engine.resumption(key).await.unwrap();
        assert_eq!(told.decision.unwrap().reason_code.name(), "resume_missing_runtime_artifacts");
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_run_that_was_mended_is_resumed_without_a_start() {
    let (dir, key) = interrupted_and_damaged().await;
    let rig = Rig::open(dir.path()).await;
    rig.clock.advance(60_000).await.unwrap();
    within("a record", async {
        while log_of(&rig, key).await.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    rig.engine.truncate(key, "ada".to_owned(), "the disk was bad".to_owned()).await.unwrap();
    // The request was under way at the cut, so nobody knows whether it was sent: the run is interrupted once more, is
    // resumed at once, fails again and comes to rest in the cool-down.
    let mut news = rig.engine.subscribe(key);
    while rig.story(key).await.iter().filter(|name| **name == "resume_decision").count() < 2 {
        within("two decisions", news.changed()).await;
    }
    rig.verify().await;
    rig.close().await;
}

/// Two runs, the second of which waits for the first, and both of them through.
async fn one_after_the_other(rig: &Rig) -> [Key; 2] {
    let first = rig.start_waiting(1000).await;
    let after = NewRun { depends_on: vec![first.id], ..NewRun::of(TENANT, "wait") };
    let second = rig.engine.start_run(after).await.unwrap().0.of(TENANT);
    rig.outbox_is_empty().await;
    rig.clock.advance(1000).await.unwrap();
    assert_eq!(rig.end_of(first).await, Status::Completed);
    rig.outbox_is_empty().await;
    [first, second]
}

/// Tears the first event of a run that has this name, and everything behind it.
async fn tear_from(rig: Rig, dir: &std::path::Path, run: Key, name: &str) -> Rig {
    let at = rig.story(run).await.iter().position(|event| *event == name).unwrap();
    rig.close().await;
    damage(dir, run, &format!("UPDATE events SET at = at + 1 WHERE id = ?1 AND seq = {at}"));
    Rig::open(dir).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_that_wait_have_gone_by_is_not_cut_off() {
    for event in ["run.completed", "run.watched"] {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::open(dir.path()).await;
        let [first, second] = one_after_the_other(&rig).await;
        let rig = tear_from(rig, dir.path(), first, event).await;
        let refused = rig.engine.truncate(first, "ada".to_owned(), "the disk was bad".to_owned()).await;
        let told = format!("{} has acted", second.id);
        assert!(
            matches!(&refused, Err(Error::Untruncatable { reason, .. }) if reason.contains(&told)),
            "{event}: {refused:?}"
        );
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_forgotten_what_it_waits_for_is_told_again() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let [_, second] = one_after_the_other(&rig).await;
    let rig = tear_from(rig, dir.path(), second, "dependency.reported").await;
    rig.engine.truncate(second, "ada".to_owned(), "the disk was bad".to_owned()).await.unwrap();
    rig.outbox_is_empty().await;
    rig.clock.advance(1000).await.unwrap();
    assert_eq!(rig.end_of(second).await, Status::Completed);
    rig.verify().await;
    rig.close().await;
}

/// What was taken back behind the cut has been heard of, and nobody would say it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_would_wait_again_for_whom_it_told_otherwise_is_not_cut() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let upstream = rig.start_waiting(1_000_000).await;
    let silent = || abide_engine::Reply::new(None, |_| Vec::new());
    let new = NewRun { depends_on: vec![upstream.id], ..NewRun::of(TENANT, "noop") };
    let key = rig.engine.start_run(new).await.unwrap().0.of(TENANT);
    rig.outbox_is_empty().await;
    rig.engine.remove_dependency(key, upstream.id, None, None, silent()).await.unwrap();
    rig.outbox_is_empty().await;
    let removed = rig.story(key).await.iter().position(|name| *name == "dependency.removed").unwrap();
    rig.close().await;
    damage(dir.path(), key, &format!("UPDATE events SET at = at + 1 WHERE id = ?1 AND seq = {removed}"));
    let rig = Rig::open(dir.path()).await;
    let refused = rig.engine.truncate(key, "ada".to_owned(), "the disk was bad".to_owned()).await;
    assert!(
        matches!(&refused, Err(Error::Untruncatable { reason, .. }) if reason.contains("has acted on")),
        "{refused:?}"
    );
    rig.close().await;
}

/// The same of a group: its members go by the deadline that it said last.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_members_go_by_what_it_said_behind_the_cut_is_not_cut() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let silent = || abide_engine::Reply::new(None, |_| Vec::new());
    let named = abide_engine::Reply::new(None, |run: &abide_core::Run| run.key().id.to_string().into_bytes());
    let spec = abide_core::GroupSpec { name: "all".to_owned(), ..Default::default() };
    let id = rig.engine.make_group(TENANT, spec, None, named).await.unwrap();
    let group = String::from_utf8(id).unwrap().parse::<abide_core::RunId>().unwrap().of(TENANT);
    let member = rig.start_waiting(1_000_000).await;
    let new = abide_engine::NewMember { run: member.id, role: abide_core::Role::Member, priority: 0 };
    rig.engine.add_member(group, new, None, silent()).await.unwrap();
    rig.outbox_is_empty().await;
    let later = abide_core::Governance { deadline: Some(START + 5_000_000), ..Default::default() };
    rig.engine.govern(group, (later, None), None, silent()).await.unwrap();
    rig.outbox_is_empty().await;
    let set = rig.story(group).await.iter().position(|name| *name == "portfolio.governance_set").unwrap();
    rig.close().await;
    damage(dir.path(), group, &format!("UPDATE events SET at = at + 1 WHERE id = ?1 AND seq = {set}"));
    let rig = Rig::open(dir.path()).await;
    let refused = rig.engine.truncate(group, "ada".to_owned(), "the disk was bad".to_owned()).await;
    assert!(
        matches!(&refused, Err(Error::Untruncatable { reason, .. }) if reason.contains("has acted on")),
        "{refused:?}"
    );
    rig.close().await;
}
