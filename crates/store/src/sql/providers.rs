//! The part of a commit that is about turns: that they wait for their provider, or don't any more.

use abide_core::{Effect, ProviderWait};

use super::work::{fine, named};
use super::{Statement, Value, int, text};
use crate::Commit;

pub(crate) const AWAIT: &str = "INSERT INTO provider_waits (tenant, id, node, execution, provider, postponed, since, until) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant, id, node, execution) DO UPDATE SET \
    provider = excluded.provider, postponed = excluded.postponed, since = excluded.since, until = excluded.until";
pub(crate) const LEAVE: &str =
    "DELETE FROM provider_waits WHERE tenant = $1 AND id = $2 AND node = $3 AND execution = $4";

/// The statement of an effect that is about a turn's wait.
pub(super) fn statement<'a>(commit: &'a Commit, effect: &'a Effect) -> Option<Statement<'a>> {
    match effect {
        Effect::AwaitProvider(wait) => Some(fine(AWAIT, awaited(commit, wait))),
        Effect::LeaveProvider(task) => Some(fine(LEAVE, named(commit, task))),
        _ => None,
    }
}

fn awaited<'a>(commit: &'a Commit, wait: &'a ProviderWait) -> Vec<Value<'a>> {
    let mut values = named(commit, &wait.task);
    let (since, until) = (Value::Int(wait.since), Value::Int(wait.until));
    values.extend([text(&wait.provider), int(wait.postponed), since, until]);
    values
}
