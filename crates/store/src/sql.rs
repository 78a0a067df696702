//! The SQL of a commit, shared by every engine.
//!
//! Parameters are written `$1`, `$2` … in the order of their first appearance, which SQLite and PostgreSQL
//! read alike.

pub(crate) mod containers;
mod interrupts;
mod providers;
mod work;

use std::borrow::Cow;

use abide_core::{Cascade, Effect, Millis, Notice, Payload, Record, RunId, Spawn, Status, TaskId, TimerId};
use serde::Serialize;

pub use crate::db::Value;
use crate::db::{self, Connection};
use crate::sealing::{Place, Sealing};
use crate::{Commit, Error, Message, Receipt};
pub(crate) use work::AT_HOME;

/// A payload above this many bytes goes into a blob: rows of a clustered table should stay small.
pub(crate) const INLINE_PAYLOAD_BYTES_MAX: usize = 4096;

/// The number of a run, as a kind of aggregate.
const RUN: u8 = 1;

/// The number of a group, as a kind of aggregate.
const GROUP: u8 = 2;

/// Every status in which a run has ended: as many as the cascade's statement names.
pub(crate) const ENDED: [Status; 3] = [Status::Completed, Status::Failed, Status::Cancelled];

/// One statement of a plan.
#[derive(Clone, Debug)]
pub struct Statement<'a> {
    /// The text; statements with the same text are prepared once.
    pub sql: &'static str,
    /// The parameters.
    pub values: Vec<Value<'a>>,
    /// What it means if no row was written.
    pub otherwise: Otherwise,
}

/// What it means if a statement wrote no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// Nothing special.
    Fine,
    /// Another commit came first.
    Stale,
    /// The lease was lost.
    Fenced,
    /// The message has been delivered before.
    Delivered,
    /// The request has been carried out before.
    Receipted,
    /// Another run has the scope.
    Claimed,
    /// Another run has the name.
    Taken,
    /// Something that was looked at before is otherwise by now.
    Raced,
}

pub(crate) const CREATE: &str = "INSERT INTO aggregates \
    (tenant, id, kind, next, chain, at, status, workflow, definition, started_at, snapshot_at, snapshot, child) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING";
pub(crate) const MOVE: &str = "UPDATE aggregates SET next = $1, chain = $2, at = $3, status = $4 \
    WHERE tenant = $5 AND id = $6 AND next = $7 AND chain = $8";
pub(crate) const MOVE_WITH_SNAPSHOT: &str = "UPDATE aggregates SET next = $1, chain = $2, at = $3, status = $4, \
    snapshot_at = $5, snapshot = $6 WHERE tenant = $7 AND id = $8 AND next = $9 AND chain = $10";
pub(crate) const APPEND: &str = "INSERT INTO events \
    (tenant, id, seq, at, type, version, cause, node, salt, chain, payload) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
pub(crate) const PUT_BLOB: &str =
    "INSERT INTO blobs (tenant, hash, bytes) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
pub(crate) const ARM: &str = "INSERT INTO timers (due, tenant, id, timer) VALUES ($1, $2, $3, $4)";
pub(crate) const DISARM: &str =
    "DELETE FROM timers WHERE due = $1 AND tenant = $2 AND id = $3 AND timer = $4";
pub(crate) const DISPATCH: &str =
    "INSERT INTO tasks (tenant, id, node, execution, boot, fence) VALUES ($1, $2, $3, $4, $5, $6)";
pub(crate) const FINISH: &str =
    "DELETE FROM tasks WHERE tenant = $1 AND id = $2 AND node = $3 AND execution = $4 AND fence = $5";
pub(crate) const HOLD: &str = "UPDATE tasks SET fence = fence \
    WHERE tenant = $1 AND id = $2 AND node = $3 AND execution = $4 AND fence = $5";
pub(crate) const SEND: &str = "INSERT INTO outbox (tenant, sender, seq, receiver, type, version, message) \
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
pub(crate) const ADOPT: &str =
    "INSERT INTO children (tenant, parent, child, node, execution, cascade) VALUES ($1, $2, $3, $4, $5, $6)";
pub(crate) const CASCADE: &str = "INSERT INTO outbox (tenant, sender, seq, receiver, type, version, message) \
    SELECT c.tenant, c.parent, $1, c.child, $2, $3, $4 \
    FROM children c LEFT JOIN aggregates a ON a.tenant = c.tenant AND a.id = c.child \
    WHERE c.tenant = $5 AND c.parent = $6 AND c.cascade = 1 \
    AND (a.id IS NULL OR a.status NOT IN ($7, $8, $9))";
pub(crate) const CONSUME: &str =
    "DELETE FROM outbox WHERE tenant = $1 AND sender = $2 AND seq = $3 AND receiver = $4";
pub(crate) const DISOWN: &str = "DELETE FROM children WHERE tenant = $1 AND parent = $2 AND child = $3";
pub(crate) const HEAR: &str = "INSERT INTO heard (tenant, receiver, sender, seq) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (tenant, receiver, sender) DO UPDATE SET seq = excluded.seq WHERE excluded.seq > heard.seq";

pub(crate) const RECEIPT: &str = "INSERT INTO receipts (tenant, endpoint, key, digest, status, body, at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
pub(crate) const CLAIM: &str = "INSERT INTO claims (tenant, workflow, scope, run) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (tenant, workflow, scope) DO UPDATE SET run = excluded.run \
    WHERE NOT EXISTS (SELECT 1 FROM aggregates a WHERE a.tenant = claims.tenant AND a.id = claims.run \
    AND a.status NOT IN ($5, $6, $7))";
pub(crate) const RELEASE: &str =
    "DELETE FROM claims WHERE tenant = $1 AND workflow = $2 AND scope = $3 AND run = $4";

/// A name is had for good, so that taking it twice is as good as once for whoever has it.
pub(crate) const TAKE_NAME: &str = "INSERT INTO conversations (tenant, name, run) VALUES ($1, $2, $3) \
    ON CONFLICT (tenant, name) DO UPDATE SET run = excluded.run WHERE conversations.run = excluded.run";

/// Puts a run's first new event that a webhook wants on its way, unless an earlier one is there. What follows it is
/// found in the journal when its turn comes.
pub(crate) const ENQUEUE: &str = "WITH fresh AS \
    (SELECT tenant, id, seq, at, type FROM events WHERE tenant = $1 AND id = $2 AND seq >= $3) \
    INSERT INTO deliveries (tenant, webhook, run, seq, due, attempts) \
    SELECT e.tenant, t.webhook, e.id, min(e.seq), min(e.at), 0 \
    FROM fresh e JOIN webhook_types t ON t.tenant = e.tenant AND t.type = e.type \
    GROUP BY e.tenant, t.webhook, e.id \
    UNION ALL SELECT e.tenant, r.webhook, e.id, min(e.seq), min(e.at), 0 \
    FROM fresh e JOIN webhook_runs r ON r.tenant = e.tenant AND r.run = e.id \
    GROUP BY e.tenant, r.webhook, e.id \
    ON CONFLICT (tenant, webhook, run) DO NOTHING RETURNING webhook";

/// The statements of a commit. The first decides whether it is stale, so a stale commit writes nothing.
pub fn plan<'a>(commit: &'a Commit, sealing: &Sealing) -> Result<Vec<Statement<'a>>, Error> {
    let mut plan = Vec::with_capacity(2 + commit.records.len() + commit.effects.len());
    plan.push(head(commit, sealing)?);
    plan.extend(commit.receipt.as_ref().map(receipt));
    plan.extend(containers::circle(commit));
    plan.extend(work::in_hands(commit));
    if let Some(scope) = &commit.claim {
        hold(commit, scope, &mut plan);
    }
    plan.extend(commit.holds.as_ref().map(|(task, fence)| holds(commit, task, *fence)));
    for record in &commit.records {
        append(commit, record, sealing, &mut plan)?;
    }
    carry_out_all(commit, sealing, &mut plan)?;
    for message in &commit.consumed {
        let values = vec![
            int(message.sender.tenant.0),
            blob(message.sender.id.as_bytes()),
            int(message.sequence as i64),
            owned(message.receiver.as_bytes()),
        ];
        plan.push(Statement { sql: CONSUME, values, otherwise: Otherwise::Delivered });
    }
    for (hash, bytes) in &commit.blobs {
        plan.push(put_blob(commit, hash, Cow::Borrowed(&**bytes)));
    }
    Ok(plan)
}

/// Executes a statement and counts the rows that it wrote.
pub(crate) fn execute(connection: Connection<'_>, statement: &Statement<'_>) -> db::Result<usize> {
    connection.prepare_cached(statement.sql)?.execute(&statement.values)
}

/// The statements of a commit's effects alone.
pub(crate) fn carry_out_all<'a>(
    commit: &'a Commit,
    sealing: &Sealing,
    plan: &mut Vec<Statement<'a>>,
) -> Result<(), Error> {
    let mut sessions = commit.sessions.iter();
    for effect in commit.told() {
        let apart = work::statement(commit, effect, &mut sessions);
        let apart = apart.or_else(|| providers::statement(commit, effect));
        let apart = match apart {
            Some(statement) => Some(statement),
            None => containers::statement(commit, effect, sealing)?,
        };
        match apart {
            Some(statement) => plan.push(statement),
            None => carry_out(commit, effect, sealing, plan)?,
        }
    }
    Ok(())
}

/// Whoever decided this still has the task, and keeps it until this is written.
fn holds<'a>(commit: &'a Commit, task: &'a TaskId, fence: u64) -> Statement<'a> {
    let [tenant, id] = key(commit);
    let values = vec![tenant, id, text(&task.node), int(task.execution), Value::Int(fence as i64)];
    Statement { sql: HOLD, values, otherwise: Otherwise::Fenced }
}

fn head<'a>(commit: &'a Commit, sealing: &Sealing) -> Result<Statement<'a>, Error> {
    let next = Value::Int(commit.base.next as i64 + commit.records.len() as i64);
    let last = commit.records.last();
    let at = Value::Int(last.map_or(0, |record| record.at));
    let chain = last.map_or(Value::Null, |record| blob(&record.chain));
    let status = int(commit.summary.status.code());
    let [tenant, id] = key(commit);
    let (base_next, base_chain) = (Value::Int(commit.base.next as i64), blob(&commit.base.chain));
    let snapshot = snapshot(commit, sealing)?.map(|bytes| (next.clone(), Value::Blob(bytes)));
    let (sql, values) = match (commit.base.next, snapshot) {
        (0, snapshot) => {
            let summary = &commit.summary;
            let (workflow, definition) = (text(&summary.workflow_id), blob(&summary.definition));
            let started = Value::Int(summary.started_at);
            let (kept, bytes) = snapshot.unwrap_or((Value::Null, Value::Null));
            let child = int(commit.child);
            let kind = int(if commit.group { GROUP } else { RUN });
            let values = vec![
                tenant, id, kind, next, chain, at, status, workflow, definition, started, kept, bytes, child,
            ];
            (CREATE, values)
        }
        (_, None) => (MOVE, vec![next, chain, at, status, tenant, id, base_next, base_chain]),
        (_, Some((kept, bytes))) => {
            let values = vec![next, chain, at, status, kept, bytes, tenant, id, base_next, base_chain];
            (MOVE_WITH_SNAPSHOT, values)
        }
    };
    Ok(Statement { sql, values, otherwise: Otherwise::Stale })
}

fn snapshot<'a>(commit: &'a Commit, sealing: &Sealing) -> Result<Option<Cow<'a, [u8]>>, Error> {
    let place = Place::Snapshot(commit.base.next + commit.records.len() as u64);
    let kept = commit.snapshot.as_deref().map(|bytes| match commit.hides {
        true => sealing.seal(commit.key, &place, bytes),
        false => Ok(Cow::Borrowed(bytes)),
    });
    kept.transpose()
}

/// The statement that keeps an answer for whoever asks again.
pub(crate) fn receipt(receipt: &Receipt) -> Statement<'_> {
    let values = vec![
        int(receipt.tenant.0),
        text(&receipt.endpoint),
        blob(&receipt.key),
        blob(&receipt.digest),
        int(receipt.status),
        blob(&receipt.body),
        Value::Int(receipt.at),
    ];
    Statement { sql: RECEIPT, values, otherwise: Otherwise::Receipted }
}

/// Takes the scope at the beginning and gives it back at the end, which may be the same commit.
fn hold<'a>(commit: &'a Commit, scope: &'a str, plan: &mut Vec<Statement<'a>>) {
    let values = || {
        let [tenant, id] = key(commit);
        vec![tenant, text(&commit.summary.workflow_id), text(scope), id]
    };
    if commit.base.next == 0 {
        let mut values = values();
        values.extend(ENDED.map(|status| int(status.code())));
        plan.push(Statement { sql: CLAIM, values, otherwise: Otherwise::Claimed });
    }
    if commit.summary.status.is_terminal() {
        plan.push(Statement { sql: RELEASE, values: values(), otherwise: Otherwise::Fine });
    }
}

fn append<'a>(
    commit: &'a Commit,
    record: &'a Record,
    sealing: &Sealing,
    plan: &mut Vec<Statement<'a>>,
) -> Result<(), Error> {
    let [tenant, id] = key(commit);
    let salt = commit.salt.as_ref().filter(|_| record.sequence == 0).map_or(Value::Null, |salt| blob(salt));
    let payload = match payload(commit, record, sealing)? {
        Some(bytes) if bytes.len() <= INLINE_PAYLOAD_BYTES_MAX => Value::Blob(bytes),
        Some(bytes) => {
            // Filed under the record's own link of the chain: that is salted, so it tells nothing of the bytes,
            // and no other record shares it, so that one can be erased without the other.
            plan.push(put_blob(commit, &record.chain, bytes));
            Value::Null
        }
        None => Value::Null,
    };
    let values = vec![
        tenant,
        id,
        Value::Int(record.sequence as i64),
        Value::Int(record.at),
        int(record.type_code),
        int(record.version),
        record.cause.map_or(Value::Null, |cause| Value::Int(cause as i64)),
        record.node.as_deref().map_or(Value::Null, text),
        salt,
        blob(&record.chain),
        payload,
    ];
    plan.push(Statement { sql: APPEND, values, otherwise: Otherwise::Fine });
    Ok(())
}

/// The payload as it is kept; none if it was erased.
fn payload<'a>(
    commit: &Commit,
    record: &'a Record,
    sealing: &Sealing,
) -> Result<Option<Cow<'a, [u8]>>, Error> {
    let Payload::Present(bytes) = &record.payload else { return Ok(None) };
    // An event is read again only in runs that hide something.
    if commit.hides && record.hides() {
        return sealing.seal(commit.key, &Place::Event(record.sequence), &**bytes).map(Some);
    }
    Ok(Some(Cow::Borrowed(bytes)))
}

fn carry_out<'a>(
    commit: &'a Commit,
    effect: &'a Effect,
    sealing: &Sealing,
    plan: &mut Vec<Statement<'a>>,
) -> Result<(), Error> {
    match effect {
        Effect::Send { to, notice } => plan.push(notify(commit, to, notice, sealing)?),
        Effect::Spawn(spawn) => plan.extend(adopt(commit, spawn, sealing)?),
        Effect::Assign(assigned) => plan.extend(containers::assign(commit, assigned)),
        Effect::Cascade(cascade) => plan.push(cascade_to_children(commit, cascade)),
        Effect::OpenInterrupt(_)
        | Effect::CloseInterrupt(_)
        | Effect::MoveDeadline { .. }
        | Effect::NoteHeadway { .. }
        | Effect::Notify(_) => interrupts::see_to(commit, effect, plan),
        effect => plan.extend(row(commit, effect)),
    }
    Ok(())
}

/// The one statement of an effect. What workers do, turns wait for and runs have to do with each other has statements of
/// its own.
fn row<'a>(commit: &'a Commit, effect: &'a Effect) -> Option<Statement<'a>> {
    let [tenant, id] = key(commit);
    let fine = Otherwise::Fine;
    let (sql, values, otherwise) = match effect {
        Effect::ArmTimer { timer, due } => (ARM, timer_row(commit, timer, *due), fine),
        Effect::DropTimer { timer, due } => (DISARM, timer_row(commit, timer, *due), fine),
        Effect::Dispatch { task, fence } => {
            let (node, execution) = (text(&task.node), int(task.execution));
            let (boot, fence) = (Value::Int(commit.boot as i64), Value::Int(*fence as i64));
            (DISPATCH, vec![tenant, id, node, execution, boot, fence], fine)
        }
        Effect::FinishTask(task) => {
            let fence = Value::Int(commit.fence.map_or(-1, |fence| fence as i64));
            (FINISH, vec![tenant, id, text(&task.node), int(task.execution), fence], Otherwise::Fenced)
        }
        Effect::Disown(child) => (DISOWN, vec![tenant, id, blob(child.as_bytes())], fine),
        Effect::TakeName(name) => (TAKE_NAME, vec![tenant, blob(name), id], Otherwise::Taken),
        // Whoever decided this may have looked before something later was heard. Of what came before it, nothing is to be
        // recorded behind it; a first commit brings along what another run has heard.
        Effect::Hear { from, sequence } => {
            let otherwise = if commit.base.next == 0 { fine } else { Otherwise::Delivered };
            (HEAR, heard(commit, from, *sequence), otherwise)
        }
        _ => return None,
    };
    Some(Statement { sql, values, otherwise })
}

fn timer_row<'a>(commit: &'a Commit, timer: &TimerId, due: Millis) -> Vec<Value<'a>> {
    let [tenant, id] = key(commit);
    vec![Value::Int(due), tenant, id, Value::Text(timer.to_string().into())]
}

fn heard<'a>(commit: &'a Commit, from: &'a RunId, sequence: u64) -> Vec<Value<'a>> {
    let [tenant, id] = key(commit);
    vec![tenant, id, blob(from.as_bytes()), Value::Int(sequence as i64)]
}

fn notify<'a>(
    commit: &'a Commit,
    to: &'a RunId,
    notice: &Notice,
    sealing: &Sealing,
) -> Result<Statement<'a>, Error> {
    let place = Place::Message { sequence: notice.sequence, receiver: *to, kind: Message::NOTICE };
    let message = kept(commit, &place, notice, notice.hides(), sealing)?;
    Ok(send(commit, notice.sequence, to, Message::NOTICE, message))
}

/// A child, and the message that starts it.
///
/// The message goes under the first sequence of its commit, and so never under that of the event that ends the
/// parent: a parent that ends in the same commit sends the same child a second message under that one.
fn adopt<'a>(commit: &'a Commit, spawn: &'a Spawn, sealing: &Sealing) -> Result<[Statement<'a>; 2], Error> {
    let [tenant, id] = key(commit);
    let (child, node) = (blob(spawn.child.as_bytes()), text(&spawn.parent.node));
    let execution = int(spawn.parent.execution.unwrap_or(0));
    let values = vec![tenant, id, child, node, execution, int(spawn.cascade)];
    let sequence = commit.base.next;
    let place = Place::Message { sequence, receiver: spawn.child, kind: Message::SPAWN };
    let message = kept(commit, &place, spawn, spawn.hides(), sealing)?;
    let start = send(commit, sequence, &spawn.child, Message::SPAWN, message);
    Ok([Statement { sql: ADOPT, values, otherwise: Otherwise::Fine }, start])
}

fn send<'a>(
    commit: &'a Commit,
    sequence: u64,
    to: &'a RunId,
    kind: u8,
    message: Cow<'a, [u8]>,
) -> Statement<'a> {
    let [tenant, id] = key(commit);
    let (sequence, to) = (Value::Int(sequence as i64), blob(to.as_bytes()));
    let values = vec![tenant, id, sequence, to, int(kind), int(Message::VERSION), Value::Blob(message)];
    Statement { sql: SEND, values, otherwise: Otherwise::Fine }
}

/// One message to each child that goes with its parent and has not ended. One that has not even started gets it
/// too: it is told after its start, which lies in the outbox before this.
fn cascade_to_children<'a>(commit: &'a Commit, cascade: &Cascade) -> Statement<'a> {
    let [tenant, id] = key(commit);
    let (kind, version) = (int(Message::CASCADE), int(Message::VERSION));
    // Why a parent ended is no secret, and the same bytes go to every child.
    let message = Value::Blob(encoded(cascade).into());
    let mut values = vec![Value::Int(cascade.sequence as i64), kind, version, message, tenant, id];
    values.extend(ENDED.map(|status| int(status.code())));
    Statement { sql: CASCADE, values, otherwise: Otherwise::Fine }
}

/// A message as it is kept.
fn kept<'a>(
    commit: &Commit,
    place: &Place,
    message: &impl Serialize,
    hides: bool,
    sealing: &Sealing,
) -> Result<Cow<'a, [u8]>, Error> {
    let bytes = encoded(message);
    if hides { sealing.seal(commit.key, place, bytes) } else { Ok(bytes.into()) }
}

fn encoded(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("a message is plain data, which serialises")
}

fn put_blob<'a>(commit: &'a Commit, hash: &'a [u8], bytes: Cow<'a, [u8]>) -> Statement<'a> {
    let values = vec![int(commit.key.tenant.0), blob(hash), Value::Blob(bytes)];
    Statement { sql: PUT_BLOB, values, otherwise: Otherwise::Fine }
}

fn key(commit: &Commit) -> [Value<'_>; 2] {
    [int(commit.key.tenant.0), blob(commit.key.id.as_bytes())]
}

fn int<'a>(number: impl Into<i64>) -> Value<'a> {
    Value::Int(number.into())
}

fn text(text: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(text))
}

fn blob(bytes: &[u8]) -> Value<'_> {
    Value::Blob(Cow::Borrowed(bytes))
}

fn owned<'a>(bytes: &[u8]) -> Value<'a> {
    Value::Blob(Cow::Owned(bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_by_first_appearance() {
        let statements = [
            CREATE,
            MOVE,
            MOVE_WITH_SNAPSHOT,
            APPEND,
            PUT_BLOB,
            ARM,
            DISARM,
            DISPATCH,
            FINISH,
            SEND,
            ADOPT,
            CASCADE,
            CONSUME,
            HEAR,
            ENQUEUE,
            RECEIPT,
            CLAIM,
            RELEASE,
            TAKE_NAME,
            interrupts::OPEN_INTERRUPT,
            interrupts::MOVE_DEADLINE,
            interrupts::NOTE_HEADWAY,
            interrupts::COUNT_OPENED,
            interrupts::CLOSE_INTERRUPT,
            interrupts::COUNT_CLOSED,
            interrupts::CALL_BACK,
            interrupts::TELL,
            interrupts::UNTELL,
            interrupts::FOLLOW_UP,
            interrupts::WITHDRAW,
            containers::DEPEND,
            containers::INDEPEND,
            containers::WATCH,
            containers::UNWATCH,
            containers::ANNOUNCE,
            containers::BID_ALL,
            containers::ENLIST,
            containers::DISMISS,
            containers::NOTE_MEMBER,
            containers::CIRCLE,
            work::OFFER,
            work::WITHDRAW,
            work::CALL_OFF,
            work::HOOK,
            work::UNHOOK,
            work::IN_HANDS,
            AT_HOME,
        ];
        for sql in statements {
            let numbers: Vec<u32> = sql
                .split('$')
                .skip(1)
                .map(|rest| {
                    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
                })
                .collect();
            let ascending: Vec<u32> = (1..=numbers.len() as u32).collect();
            assert_eq!(numbers, ascending, "{sql}");
        }
    }

    #[test]
    fn a_cascade_knows_every_status_in_which_a_run_has_ended() {
        let terminal: Vec<Status> =
            Status::ALL.iter().map(|entry| entry.0).filter(|status| status.is_terminal()).collect();
        assert_eq!(terminal, ENDED);
    }
}
