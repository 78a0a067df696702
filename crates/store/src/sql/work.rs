//! The part of a commit that is about workers: tasks that they get or lose, and calls of their agents.

use std::slice::Iter;

use abide_core::{Effect, Hook, InterruptId, Offer, TaskId};

use super::{Otherwise, Statement, Value, blob, int, key, text};
use crate::Commit;
use crate::work::{SessionId, hook_code};

pub(crate) const OFFER: &str = "INSERT INTO work (tenant, id, node, execution, kind, agent, fence, attempt, timeout_ms, \
    queued_at, session, claimed_at, called_off) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 0) \
    ON CONFLICT (tenant, id, node, execution) DO UPDATE SET kind = excluded.kind, agent = excluded.agent, \
    fence = excluded.fence, attempt = excluded.attempt, timeout_ms = excluded.timeout_ms, \
    queued_at = excluded.queued_at, session = excluded.session, claimed_at = excluded.claimed_at, called_off = 0";
pub(crate) const WITHDRAW: &str =
    "DELETE FROM work WHERE tenant = $1 AND id = $2 AND node = $3 AND execution = $4";
pub(crate) const CALL_OFF: &str =
    "UPDATE work SET called_off = 1 WHERE tenant = $1 AND id = $2 AND node = $3 AND execution = $4";
pub(crate) const HOOK: &str = "INSERT INTO hooks (tenant, run, interrupt, hook, attempt, agent, queued_at, due, tries) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0) ON CONFLICT DO NOTHING";
/// Nobody has to be asked any more for what is closed. That it was is still told.
pub(crate) const UNHOOK: &str =
    "DELETE FROM hooks WHERE tenant = $1 AND run = $2 AND interrupt = $3 AND hook = 0";

/// Writes nothing new: it finds a task in the hands of a session, and keeps it there until the commit is written.
pub(crate) const IN_HANDS: &str = "UPDATE work SET fence = fence WHERE tenant = $1 AND id = $2 AND node = $3 \
    AND execution = $4 AND fence = $5 AND session = $6";
/// The same of a session at its home.
pub(crate) const AT_HOME: &str =
    "UPDATE sessions SET home = home WHERE tenant = $1 AND id = $2 AND home = $3";

/// What has to hold of a worker's task that a commit is about. The session comes first: that is what whoever moves it
/// to another home writes before looking at its tasks.
pub(super) fn in_hands(commit: &Commit) -> impl Iterator<Item = Statement<'_>> {
    let otherwise = Otherwise::Fenced;
    commit.holder.iter().flat_map(move |holder| {
        let session = || blob(holder.session.as_bytes());
        let at_home = holder.home.map(|home| {
            let values = vec![int(commit.key.tenant.0), session(), Value::Int(home as i64)];
            Statement { sql: AT_HOME, values, otherwise }
        });
        let mut values = named(commit, &holder.task);
        values.extend([Value::Int(holder.fence as i64), session()]);
        at_home.into_iter().chain([Statement { sql: IN_HANDS, values, otherwise }])
    })
}

/// The statement of an effect that is about workers. Each offer takes the next of the sessions.
pub(super) fn statement<'a>(
    commit: &'a Commit,
    effect: &'a Effect,
    sessions: &mut Iter<'a, Option<SessionId>>,
) -> Option<Statement<'a>> {
    Some(match effect {
        Effect::Offer(task) => offer(commit, task, sessions.next().and_then(Option::as_ref)),
        Effect::Withdraw(task) => fine(WITHDRAW, named(commit, task)),
        Effect::CallOff(task) => fine(CALL_OFF, named(commit, task)),
        Effect::Hook(called) => hook(commit, called),
        _ => return None,
    })
}

/// A task that waits for a worker, or is in the hands of one from the start.
fn offer<'a>(commit: &'a Commit, offer: &'a Offer, session: Option<&'a SessionId>) -> Statement<'a> {
    let mut values = named(commit, &offer.task);
    values.extend([
        text(&offer.kind),
        offer.agent.as_deref().map_or(Value::Null, text),
        Value::Int(offer.fence as i64),
        int(offer.attempt),
        offer.timeout_ms.map_or(Value::Null, Value::Int),
        Value::Int(offer.at),
        session.map_or(Value::Null, |session| blob(session.as_bytes())),
        session.map_or(Value::Null, |_| Value::Int(offer.at)),
    ]);
    fine(OFFER, values)
}

fn hook<'a>(commit: &'a Commit, hook: &'a Hook) -> Statement<'a> {
    let [tenant, run] = key(commit);
    let values = vec![
        tenant,
        run,
        blob(hook.id.as_bytes()),
        int(hook_code(hook.kind)),
        int(hook.attempt),
        text(&hook.agent),
        Value::Int(hook.at),
        Value::Int(hook.at),
    ];
    fine(HOOK, values)
}

pub(super) fn unhook<'a>(commit: &'a Commit, id: &'a InterruptId) -> Statement<'a> {
    let [tenant, run] = key(commit);
    fine(UNHOOK, vec![tenant, run, blob(id.as_bytes())])
}

pub(super) fn named<'a>(commit: &'a Commit, task: &'a TaskId) -> Vec<Value<'a>> {
    let [tenant, id] = key(commit);
    vec![tenant, id, text(&task.node), int(task.execution)]
}

pub(super) fn fine<'a>(sql: &'static str, values: Vec<Value<'a>>) -> Statement<'a> {
    Statement { sql, values, otherwise: Otherwise::Fine }
}
