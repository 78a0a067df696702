//! The part of a commit that is about other runs: who waits for whom, who is told how a run stands, and who belongs to a
//! group.

use std::borrow::Cow;

use abide_core::{Appointment, Effect, MemberReported, MemberRow, RunId, Status, Suspension, Tidings, Watch};

use super::{ENDED, Otherwise, Statement, Value, blob, encoded, int, kept, key, send, text};
use crate::sealing::{Place, Sealing};
use crate::{Commit, Error, Message};

pub(crate) const DEPEND: &str =
    "INSERT INTO dependencies (tenant, run, upstream) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
pub(crate) const INDEPEND: &str = "DELETE FROM dependencies WHERE tenant = $1 AND run = $2 AND upstream = $3";

/// Takes the next place. Others who want one wait until this is committed, so that no place is seen before a lower one.
const TAKE_PLACE: &str = "INSERT INTO assignment_heads (tenant, last) VALUES ($1, 1) \
    ON CONFLICT (tenant) DO UPDATE SET last = assignment_heads.last + 1";
pub(crate) const ASSIGN: &str = "INSERT INTO assignments (tenant, run, agent, seq, at, place) \
    SELECT h.tenant, $1, $2, $3, $4, h.last FROM assignment_heads h WHERE h.tenant = $5 \
    ON CONFLICT (tenant, run, agent) DO UPDATE SET seq = excluded.seq, at = excluded.at, place = excluded.place";
pub(crate) const UNASSIGN: &str = "DELETE FROM assignments WHERE tenant = $1 AND run = $2 AND agent = $3";
pub(crate) const WATCH: &str =
    "INSERT INTO watchers (tenant, run, watcher) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
pub(crate) const UNWATCH: &str = "DELETE FROM watchers WHERE tenant = $1 AND run = $2 AND watcher = $3";
pub(crate) const ANNOUNCE: &str = "INSERT INTO outbox (tenant, sender, seq, receiver, type, version, message) \
    SELECT w.tenant, w.run, $1, w.watcher, $2, $3, $4 FROM watchers w WHERE w.tenant = $5 AND w.run = $6 \
    AND NOT EXISTS (SELECT 1 FROM aggregates a WHERE a.tenant = w.tenant AND a.id = w.watcher \
    AND a.status IN ($7, $8, $9)) ON CONFLICT DO NOTHING";
pub(crate) const BID_ALL: &str = "INSERT INTO outbox (tenant, sender, seq, receiver, type, version, message) \
    SELECT m.tenant, m.grp, $1, m.run, $2, $3, $4 FROM members m WHERE m.tenant = $5 AND m.grp = $6 \
    AND m.status NOT IN ($7, $8, $9)";
pub(crate) const ENLIST: &str = "INSERT INTO members (tenant, grp, run, role, priority, added_at, status, since, \
    expires_at, cost, heard) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING";
pub(crate) const DISMISS: &str =
    "DELETE FROM members WHERE tenant = $1 AND grp = $2 AND run = $3 AND status = $4 AND cost = $5";
pub(crate) const NOTE_MEMBER: &str = "UPDATE members SET status = $1, since = $2, expires_at = $3, cost = $4, heard = $5 \
    WHERE tenant = $6 AND grp = $7 AND run = $8 AND status = $9 AND cost = $10 AND heard < $11";
pub(crate) const CIRCLE: &str = "INSERT INTO circles (tenant, version) VALUES ($1, 1) \
    ON CONFLICT (tenant) DO UPDATE SET version = circles.version + 1 WHERE circles.version = $2";

/// Whoever had a run wait for another has seen every circle that this could close.
pub(super) fn circle(commit: &Commit) -> Option<Statement<'_>> {
    let version = commit.circle?;
    let values = vec![int(commit.key.tenant.0), Value::Int(version as i64)];
    Some(Statement { sql: CIRCLE, values, otherwise: Otherwise::Raced })
}

/// The statement of an effect that is about other runs.
pub(super) fn statement<'a>(
    commit: &'a Commit,
    effect: &'a Effect,
    sealing: &Sealing,
) -> Result<Option<Statement<'a>>, Error> {
    Ok(Some(match effect {
        Effect::DependOn(run) => fine(DEPEND, named(commit, run)),
        Effect::Independ(run) => fine(INDEPEND, named(commit, run)),
        Effect::Unassign(agent) => {
            let [tenant, run] = key(commit);
            fine(UNASSIGN, vec![tenant, run, text(agent)])
        }
        Effect::Watch(run) => fine(WATCH, named(commit, run)),
        Effect::Unwatch(run) => fine(UNWATCH, named(commit, run)),
        Effect::Bid { to, watch } => {
            send(commit, watch.sequence, to, Message::WATCH, Cow::Owned(encoded(watch)))
        }
        Effect::BidAll(watch) => bid_all(commit, watch),
        Effect::Order { to, order, sequence } => {
            send(commit, *sequence, to, Message::ORDER, Cow::Owned(encoded(order)))
        }
        Effect::Tell { to, tidings } => {
            let message = sealed(commit, tidings, sealing)?;
            send(commit, tidings.sequence, to, Message::TIDINGS, message)
        }
        Effect::Announce(tidings) => announce(commit, tidings, sealing)?,
        Effect::Enlist(row) => enlist(commit, row),
        Effect::Dismiss { run, was, cost_micros } => {
            let mut values = named(commit, run);
            values.extend([int(was.code()), Value::Int(*cost_micros as i64)]);
            Statement { sql: DISMISS, values, otherwise: Otherwise::Raced }
        }
        Effect::NoteMember(told) => note(commit, told),
        _ => return Ok(None),
    }))
}

/// An agent is to work on it, as the last thing that was said of any agent in the tenant.
pub(super) fn assign<'a>(commit: &'a Commit, assigned: &'a Appointment) -> [Statement<'a>; 2] {
    let [tenant, run] = key(commit);
    let (sequence, at) = (Value::Int(assigned.sequence as i64), Value::Int(assigned.at));
    let values = vec![run, text(&assigned.agent), sequence, at, tenant.clone()];
    [fine(TAKE_PLACE, vec![tenant]), fine(ASSIGN, values)]
}

fn named<'a>(commit: &'a Commit, run: &'a RunId) -> Vec<Value<'a>> {
    let [tenant, id] = key(commit);
    vec![tenant, id, blob(run.as_bytes())]
}

fn fine<'a>(sql: &'static str, values: Vec<Value<'a>>) -> Statement<'a> {
    Statement { sql, values, otherwise: Otherwise::Fine }
}

/// The same bytes go to everybody who watches, so they are not sealed for one of them.
fn sealed<'a>(commit: &Commit, tidings: &Tidings, sealing: &Sealing) -> Result<Cow<'a, [u8]>, Error> {
    let place =
        Place::Message { sequence: tidings.sequence, receiver: commit.key.id, kind: Message::TIDINGS };
    kept(commit, &place, tidings, tidings.hides(), sealing)
}

fn announce<'a>(commit: &'a Commit, tidings: &Tidings, sealing: &Sealing) -> Result<Statement<'a>, Error> {
    let message = Value::Blob(sealed(commit, tidings, sealing)?);
    let [tenant, id] = key(commit);
    let (kind, version) = (int(Message::TIDINGS), int(Message::VERSION));
    let mut values = vec![Value::Int(tidings.sequence as i64), kind, version, message, tenant, id];
    values.extend(ended());
    Ok(fine(ANNOUNCE, values))
}

fn bid_all<'a>(commit: &'a Commit, watch: &Watch) -> Statement<'a> {
    let [tenant, id] = key(commit);
    let (kind, version) = (int(Message::WATCH), int(Message::VERSION));
    let message = Value::Blob(encoded(watch).into());
    let mut values = vec![Value::Int(watch.sequence as i64), kind, version, message, tenant, id];
    values.extend(ended());
    fine(BID_ALL, values)
}

/// Whoever stands so needs to hear nothing more. Of one that is not there yet nobody knows how it stands.
fn ended() -> [Value<'static>; 3] {
    ENDED.map(code)
}

fn times(suspended: Option<Suspension>) -> [Value<'static>; 2] {
    let or_null = |time: Option<i64>| time.map_or(Value::Null, Value::Int);
    [
        or_null(suspended.map(|suspended| suspended.since)),
        or_null(suspended.and_then(|suspended| suspended.expires_at)),
    ]
}

fn enlist<'a>(commit: &'a Commit, row: &'a MemberRow) -> Statement<'a> {
    let mut values = named(commit, &row.run);
    values.extend([int(row.role.code()), int(row.priority), Value::Int(row.added_at), code(row.status)]);
    values.extend(times(row.suspended));
    values.extend([Value::Int(row.cost_micros as i64), Value::Int(row.heard as i64)]);
    Statement { sql: ENLIST, values, otherwise: Otherwise::Raced }
}

fn note<'a>(commit: &'a Commit, told: &'a MemberReported) -> Statement<'a> {
    let mut values = vec![code(told.status)];
    values.extend(times(told.suspended));
    let heard = || Value::Int(told.sequence as i64);
    values.extend([Value::Int(told.cost_micros as i64), heard()]);
    values.extend(named(commit, &told.run));
    values.extend([code(told.was), Value::Int(told.cost_was as i64), heard()]);
    Statement { sql: NOTE_MEMBER, values, otherwise: Otherwise::Raced }
}

fn code(status: Status) -> Value<'static> {
    int(status.code())
}
