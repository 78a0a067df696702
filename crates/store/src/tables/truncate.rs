//! Cutting a damaged journal behind the last event that is good, and making everything beside it anew.

use crate::db::{self, Connection, Fault, Optional, Row};
use abide_core::{Effect, Head, Json, Key, RunId, Status, hex, sha256};
use serde_json::{Value as JsonValue, json};

use super::reader::{checked, heard, run_id, summary};
use super::{audit_log, containers, conversations, receipts};
use crate::rows::hash;
use crate::sealing::Place;
use crate::sql::{ADOPT, CLAIM, DISPATCH, ENDED, HEAR, SEND, carry_out_all, execute};
use crate::truncation::{Outline, Truncated, Truncation};
use crate::{Commit, Message, MessageRow, NewAudit, Sealing, SessionId};

/// Hashes of dropped events that the log names one by one. A hash over all of them stands beside.
const NAMED_MAX: usize = 100;

/// The start of a server that never was: a task that it has is taken for one that a dead process had begun.
const NO_BOOT: i64 = -1;

/// Reads an aggregate's parts, each for itself.
pub(crate) fn outline(
    connection: Connection<'_>,
    sealing: &Sealing,
    key: Key,
) -> db::Result<Option<Outline>> {
    let named = (key.tenant.0, key.id.as_bytes());
    let mut statement = connection.prepare_cached(
        "SELECT next, chain, at, status, workflow, definition, started_at, snapshot_at, snapshot \
         FROM aggregates WHERE tenant = $1 AND id = $2",
    )?;
    let read = statement.query_row(named, |row| {
        let snapshot = || Ok(row.get::<Option<u64>>(7)?.zip(row.get::<Option<Vec<u8>>>(8)?));
        Ok((told(read_head(row)), told(summary(row, 3)), told(snapshot()).transpose()))
    });
    let Some((head, summary, snapshot)) = read.optional()? else { return Ok(None) };
    let open = |(folded, kept): (u64, Vec<u8>)| {
        let opened = sealing.open(key, &Place::Snapshot(folded), kept);
        opened.map(|bytes| (folded, bytes)).map_err(|error| error.to_string())
    };
    let snapshot = snapshot.map(|read| read.and_then(open));
    let salt = connection
        .prepare_cached("SELECT salt FROM events WHERE tenant = $1 AND id = $2 AND seq = 0")?
        .query_row(named, |row| row.get(0))
        .optional();
    let salt = told(salt).and_then(|salt| salt.ok_or_else(|| "the first event is missing".to_owned()));
    Ok(Some(Outline { head, summary, salt, snapshot }))
}

/// The columns next, chain and at.
fn read_head(row: &Row<'_>) -> db::Result<Head> {
    let chain = checked(1, hash(&row.get::<Vec<u8>>(1)?))?;
    Ok(Head { next: row.get(0)?, chain, at: row.get(2)? })
}

fn told<T>(read: db::Result<T>) -> Result<T, String> {
    read.map_err(|error: Fault| error.to_string())
}

/// Cuts a journal. A refusal comes before anything is written.
pub(crate) fn truncate(
    transaction: Connection<'_>,
    sealing: &Sealing,
    asked: &Truncation,
) -> db::Result<Truncated> {
    if let Some(refused) = refusal(transaction, asked)? {
        return Ok(refused);
    }
    cut_columns(transaction, asked)?;
    let dropped = drop_events(transaction, asked)?;
    rebuild_claim(transaction, asked)?;
    conversations::rebuild(transaction, asked.key, &asked.beside.names)?;
    rebuild_tasks(transaction, asked)?;
    rebuild_relations(transaction, asked)?;
    rebuild_waits(transaction, sealing, asked)?;
    containers::forget(transaction, asked.key)?;
    rebuild_bonds(transaction, sealing, asked)?;
    withdraw(transaction, asked)?;
    for row in &asked.again {
        send_again(transaction, sealing, row)?;
    }
    audit_log::append(transaction, &audit(asked, &dropped))?;
    Ok(Truncated::Done { dropped: dropped.len() as u64 })
}

fn refusal(transaction: Connection<'_>, asked: &Truncation) -> db::Result<Option<Truncated>> {
    let (tenant, id) = (asked.key.tenant.0, asked.key.id.as_bytes());
    let is_same = transaction
        .prepare_cached(
            "SELECT 1 FROM aggregates WHERE tenant = $1 AND id = $2 AND next = $3 AND chain = $4 /* FOR UPDATE */",
        )?
        .exists((tenant, id, asked.counted.next, asked.counted.chain))?;
    if !is_same {
        return Ok(Some(Truncated::Stale));
    }
    if let Some(other) = who_acted(transaction, asked)? {
        return Ok(Some(Truncated::Told(other)));
    }
    let Some(claim) = &asked.beside.claim else { return Ok(None) };
    let holder = receipts::claimant(transaction, asked.key.tenant, &claim.workflow, &claim.scope)?;
    Ok(holder.filter(|holder| *holder != asked.key.id).map(Truncated::Claimed))
}

/// A run that has recorded something which this one said behind the cut.
fn who_acted(transaction: Connection<'_>, asked: &Truncation) -> db::Result<Option<RunId>> {
    let key = asked.key;
    let mut children = transaction.prepare_cached(
        "SELECT c.child, a.id IS NOT NULL FROM children c \
         LEFT JOIN aggregates a ON a.tenant = c.tenant AND a.id = c.child WHERE c.tenant = $1 AND c.parent = $2",
    )?;
    let children: Vec<(RunId, bool)> = children
        .query_map((key.tenant.0, key.id.as_bytes()), |row| Ok((run_id(row, 0)?, row.get(1)?)))?
        .collect::<db::Result<_>>()?;
    let is_kept = |child: &RunId| asked.beside.children.iter().any(|(kept, ..)| kept == child);
    if let Some((child, _)) = children.iter().find(|(child, started)| *started && !is_kept(child)) {
        return Ok(Some(*child));
    }
    for other in asked.parent.into_iter().chain(children.into_iter().map(|(child, _)| child)) {
        let heard = heard(transaction, other.of(key.tenant), key.id)?;
        if heard.is_some_and(|heard| heard >= asked.kept.next) {
            return Ok(Some(other));
        }
    }
    watched_behind(transaction, asked)
}

/// A run that wants to hear how this one stands and would not any more, or a group that has recorded something which this one
/// said behind the cut.
fn watched_behind(transaction: Connection<'_>, asked: &Truncation) -> db::Result<Option<RunId>> {
    let (tenant, id) = (asked.key.tenant.0, asked.key.id.as_bytes());
    let mut watchers =
        transaction.prepare_cached("SELECT watcher FROM watchers WHERE tenant = $1 AND run = $2")?;
    let watchers = watchers.query_map((tenant, id), |row| run_id(row, 0))?.collect::<db::Result<Vec<_>>>()?;
    if let Some(watcher) = watchers.into_iter().find(|watcher| !asked.beside.watchers.contains(watcher)) {
        return Ok(Some(watcher));
    }
    if let Some(other) = spoken_to(transaction, asked)? {
        return Ok(Some(other));
    }
    transaction
        .prepare_cached("SELECT grp FROM members WHERE tenant = $1 AND run = $2 AND heard >= $3 LIMIT 1")?
        .query_row((tenant, id, asked.kept.next), |row| run_id(row, 0))
        .optional()
}

/// A run that this one waits for, or a member of it, that goes by what it said behind the cut: whether it wants to hear, or
/// which deadline holds. One that it waits for again may wait for it by now.
fn spoken_to(transaction: Connection<'_>, asked: &Truncation) -> db::Result<Option<RunId>> {
    let key = asked.key;
    let on_disk = containers::of_run(transaction, key)?;
    let beside = &asked.beside;
    let members = on_disk.members.iter().chain(&beside.members).map(|row| row.run);
    let others = on_disk.dependencies.iter().chain(&beside.dependencies).copied().chain(members);
    for other in others.collect::<std::collections::BTreeSet<RunId>>() {
        let heard = heard(transaction, other.of(key.tenant), key.id)?;
        if heard.is_some_and(|heard| heard >= asked.kept.next) {
            return Ok(Some(other));
        }
    }
    for again in beside.dependencies.iter().filter(|run| !on_disk.dependencies.contains(run)) {
        if containers::waits(transaction, again.of(key.tenant), key.id)? {
            return Ok(Some(*again));
        }
    }
    Ok(None)
}

fn cut_columns(transaction: Connection<'_>, asked: &Truncation) -> db::Result<()> {
    let (key, kept, summary) = (asked.key, asked.kept, &asked.summary);
    transaction.execute(
        "UPDATE aggregates SET next = $1, chain = $2, at = $3, status = $4, workflow = $5, definition = $6, \
         started_at = $7, snapshot_at = NULL, snapshot = NULL WHERE tenant = $8 AND id = $9",
        (
            kept.next,
            kept.chain,
            kept.at,
            summary.status.code(),
            &*summary.workflow_id,
            summary.definition,
            summary.started_at,
            key.tenant.0,
            key.id.as_bytes(),
        ),
    )?;
    Ok(())
}

/// It may have given back behind the cut what it had to itself.
fn rebuild_claim(transaction: Connection<'_>, asked: &Truncation) -> db::Result<()> {
    let (tenant, id) = (asked.key.tenant.0, asked.key.id.as_bytes());
    transaction.execute("DELETE FROM claims WHERE tenant = $1 AND run = $2", (tenant, id))?;
    let Some(claim) = &asked.beside.claim else { return Ok(()) };
    let [completed, failed, cancelled] = ENDED.map(Status::code);
    let values = (tenant, &*claim.workflow, &claim.scope, id, completed, failed, cancelled);
    transaction.prepare_cached(CLAIM)?.execute(values).map(drop)
}

/// Drops the events behind the cut, and what webhooks had still to be told of them. Gives their hashes.
fn drop_events(transaction: Connection<'_>, asked: &Truncation) -> db::Result<Vec<(u64, Vec<u8>)>> {
    let place = (asked.key.tenant.0, asked.key.id.as_bytes(), asked.kept.next);
    let mut dropped: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut statement = transaction.prepare_cached(
        "SELECT seq, CAST(chain AS BLOB) FROM events WHERE tenant = $1 AND id = $2 AND seq >= $3 ORDER BY seq",
    )?;
    for row in statement.query_map(place, |row| Ok((row.get(0)?, row.get(1)?)))? {
        dropped.push(row?);
    }
    for (table, run) in [("dead_letters", "run"), ("deliveries", "run")] {
        let sql = format!("DELETE FROM {table} WHERE tenant = $1 AND {run} = $2 AND seq >= $3");
        transaction.execute(&sql, place)?;
    }
    transaction.execute(
        "DELETE FROM blobs WHERE tenant = $1 AND hash IN \
         (SELECT chain FROM events WHERE tenant = $1 AND id = $2 AND seq >= $3 AND payload IS NULL)",
        place,
    )?;
    transaction.execute("DELETE FROM events WHERE tenant = $1 AND id = $2 AND seq >= $3", place)?;
    Ok(dropped)
}

/// Its tasks are taken for ones that a dead process had begun. Their fences lie above all that were given out.
fn rebuild_tasks(transaction: Connection<'_>, asked: &Truncation) -> db::Result<()> {
    let (tenant, id) = (asked.key.tenant.0, asked.key.id.as_bytes());
    let mut find = transaction.prepare_cached(
        "SELECT max(fence) FROM tasks WHERE tenant = $1 AND id = $2 AND node = $3 AND execution = $4",
    )?;
    let mut fences = Vec::with_capacity(asked.beside.tasks.len());
    for task in &asked.beside.tasks {
        let before: Option<i64> =
            find.query_row((tenant, id, &*task.node, task.execution), |row| row.get(0))?;
        let first = asked.fences.iter().find(|(of, _)| of == task).map_or(0, |(_, fence)| *fence as i64);
        fences.push(before.unwrap_or(0).max(first));
    }
    transaction.execute("DELETE FROM tasks WHERE tenant = $1 AND id = $2", (tenant, id))?;
    let mut insert = transaction.prepare_cached(DISPATCH)?;
    for (task, fence) in asked.beside.tasks.iter().zip(fences) {
        insert.execute((tenant, id, &*task.node, task.execution, NO_BOOT, fence))?;
    }
    Ok(())
}

/// Whom it has heard, which children it has, and what it says to others.
fn rebuild_relations(transaction: Connection<'_>, asked: &Truncation) -> db::Result<()> {
    let (tenant, id) = (asked.key.tenant.0, asked.key.id.as_bytes());
    transaction.execute("DELETE FROM heard WHERE tenant = $1 AND receiver = $2", (tenant, id))?;
    for (sender, sequence) in &asked.beside.heard {
        transaction.prepare_cached(HEAR)?.execute((tenant, id, sender.as_bytes(), sequence))?;
    }
    transaction.execute("DELETE FROM children WHERE tenant = $1 AND parent = $2", (tenant, id))?;
    for (child, task, cascade) in &asked.beside.children {
        let values = (tenant, id, child.as_bytes(), &*task.node, task.execution, cascade);
        transaction.prepare_cached(ADOPT)?.execute(values)?;
    }
    // A child is asked for under the first sequence of its commit, which may lie before the cut.
    transaction.execute(
        "DELETE FROM outbox WHERE tenant = $1 AND sender = $2 AND (seq >= $3 OR type = $4 AND receiver NOT IN \
         (SELECT child FROM children WHERE tenant = $1 AND parent = $2))",
        (tenant, id, asked.kept.next, Message::SPAWN),
    )?;
    Ok(())
}

/// What it waits for: timers, answers, workers, providers. All of it is made anew, as if it were decided now.
fn rebuild_waits(transaction: Connection<'_>, sealing: &Sealing, asked: &Truncation) -> db::Result<()> {
    let named = (asked.key.tenant.0, asked.key.id.as_bytes());
    transaction.execute("DELETE FROM timers WHERE tenant = $1 AND id = $2", named)?;
    transaction.execute("DELETE FROM work WHERE tenant = $1 AND id = $2", named)?;
    transaction.execute("DELETE FROM provider_waits WHERE tenant = $1 AND id = $2", named)?;
    transaction.execute(
        "UPDATE interrupt_counts SET open = open - (SELECT count(*) FROM interrupts i \
         WHERE i.tenant = $1 AND i.run = $2 AND i.kind = interrupt_counts.kind) WHERE tenant = $1",
        named,
    )?;
    transaction.execute("DELETE FROM interrupts WHERE tenant = $1 AND run = $2", named)?;
    let commit = waits(asked);
    let mut plan = Vec::new();
    checked(0, carry_out_all(&commit, sealing, &mut plan).map_err(|error| error.to_string()))?;
    plan.iter().try_for_each(|statement| execute(transaction, statement).map(drop))
}

/// Whom it waits for, who watches it, and who belongs to it.
fn rebuild_bonds(transaction: Connection<'_>, sealing: &Sealing, asked: &Truncation) -> db::Result<()> {
    let beside = &asked.beside;
    let dependencies = beside.dependencies.iter().map(|run| Effect::DependOn(*run));
    let watchers = beside.watchers.iter().map(|run| Effect::Watch(*run));
    let members = beside.members.iter().map(|row| Effect::Enlist(row.clone()));
    let assigned = beside.assignments.iter().cloned().map(Effect::Assign);
    let effects = dependencies.chain(watchers).chain(members).chain(assigned).collect();
    let commit = Commit { effects, ..waits(asked) };
    let mut plan = Vec::new();
    checked(0, carry_out_all(&commit, sealing, &mut plan).map_err(|error| error.to_string()))?;
    plan.iter().try_for_each(|statement| execute(transaction, statement).map(drop))
}

/// A commit of nothing but effects. Its tasks for workers are in the hands of a session that never was, so that they
/// are found to be lost even if the process dies now.
fn waits(asked: &Truncation) -> Commit {
    let timers = asked.beside.timers.iter();
    let timers = timers.map(|row| Effect::ArmTimer { timer: row.timer.clone(), due: row.due });
    let opened = asked.beside.interrupts.iter().map(|open| Effect::OpenInterrupt(Box::new(open.clone())));
    let offers = asked.offers.iter().map(|offer| Effect::Offer(offer.clone()));
    let waits = asked.beside.waits.iter().map(|wait| Effect::AwaitProvider(wait.clone()));
    Commit {
        key: asked.key,
        base: asked.kept,
        records: Vec::new(),
        untold: 0,
        salt: None,
        child: false,
        group: false,
        circle: None,
        summary: asked.summary.clone(),
        snapshot: None,
        hides: false,
        effects: timers.chain(opened).chain(offers).chain(waits).collect(),
        boot: 0,
        sessions: vec![Some(SessionId::from_bytes([0; 16])); asked.offers.len()],
        fence: None,
        holder: None,
        holds: None,
        held: false,
        consumed: Vec::new(),
        blobs: Vec::new(),
        receipt: None,
        claim: None,
    }
}

/// Nobody is told any more of questions that were never asked.
fn withdraw(transaction: Connection<'_>, asked: &Truncation) -> db::Result<()> {
    let named = (asked.key.tenant.0, asked.key.id.as_bytes());
    for (table, interrupt) in [("callbacks", "id"), ("notices", "interrupt"), ("hooks", "interrupt")] {
        let sql = format!(
            "DELETE FROM {table} WHERE tenant = $1 AND run = $2 AND {interrupt} NOT IN \
             (SELECT id FROM interrupts WHERE tenant = $1 AND run = $2)"
        );
        transaction.execute(&sql, named)?;
    }
    transaction.execute(
        "UPDATE notice_deliveries SET state = 5, due = NULL, follow = NULL \
         WHERE tenant = $1 AND run = $2 AND due IS NOT NULL \
         AND interrupt NOT IN (SELECT id FROM interrupts WHERE tenant = $1 AND run = $2)",
        named,
    )?;
    Ok(())
}

/// Files a message once more, unless it is still to be delivered.
fn send_again(transaction: Connection<'_>, sealing: &Sealing, row: &MessageRow) -> db::Result<()> {
    let (kind, bytes, hides) = match &row.message {
        Message::Notice(notice) => (Message::NOTICE, serde_json::to_vec(notice), notice.hides()),
        Message::Cascade(cascade) => (Message::CASCADE, serde_json::to_vec(cascade), false),
        Message::Spawn(spawn) => (Message::SPAWN, serde_json::to_vec(spawn), spawn.hides()),
        Message::Tidings(tidings) => (Message::TIDINGS, serde_json::to_vec(tidings), tidings.hides()),
        Message::Watch(watch) => (Message::WATCH, serde_json::to_vec(watch), false),
        Message::Order(order) => (Message::ORDER, serde_json::to_vec(order), false),
    };
    let bytes = bytes.expect("a message is plain data, which serialises");
    let at = row.at;
    let of = if kind == Message::TIDINGS { at.sender.id } else { at.receiver };
    let place = Place::Message { sequence: at.sequence, receiver: of, kind };
    let sealed = if hides { sealing.seal(at.sender, &place, bytes) } else { Ok(bytes.into()) };
    let bytes = checked(0, sealed.map_err(|error| error.to_string()))?;
    let (tenant, sender, receiver) = (at.sender.tenant.0, at.sender.id.as_bytes(), at.receiver.as_bytes());
    transaction
        .prepare_cached(&format!("{SEND} ON CONFLICT DO NOTHING"))?
        .execute((tenant, sender, at.sequence, receiver, kind, Message::VERSION, &*bytes))
        .map(drop)
}

/// What the log says: what was asked for, and what was dropped.
fn audit(asked: &Truncation, dropped: &[(u64, Vec<u8>)]) -> NewAudit {
    let all: Vec<u8> = dropped.iter().flat_map(|(_, chain)| chain.iter().copied()).collect();
    let named: Vec<JsonValue> = dropped
        .iter()
        .take(NAMED_MAX)
        .map(|(sequence, chain)| json!({ "sequence": sequence, "hash": hex(chain) }))
        .collect();
    let mut body: JsonValue = serde_json::from_str(asked.audit.body.text()).unwrap_or_default();
    body["from"] = json!(asked.counted.next);
    body["to"] = json!(asked.kept.next);
    body["dropped"] = json!({ "events": dropped.len(), "sha256": hex(&sha256(&all)), "first": named });
    NewAudit { body: Json::of(&body), ..asked.audit.clone() }
}
