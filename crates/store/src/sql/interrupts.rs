//! The part of a commit that is about people: rows of the inbox, and what those who are asked are told.

use abide_core::{ClosedInterrupt, Effect, Headway, OpenInterrupt};

use super::{Otherwise, Statement, Value, blob, int, key, text, work};
use crate::Commit;
use crate::notices::FollowUp;

pub(crate) const OPEN_INTERRUPT: &str = "INSERT INTO interrupts (tenant, run, id, node, kind, title, event_type, \
    keys, sought, custom_kind, approvers, requested_at, deadline, headway) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
pub(crate) const COUNT_OPENED: &str = "INSERT INTO interrupt_counts (tenant, kind, open) VALUES ($1, $2, 1) \
    ON CONFLICT (tenant, kind) DO UPDATE SET open = interrupt_counts.open + 1";
pub(crate) const CLOSE_INTERRUPT: &str = "DELETE FROM interrupts WHERE tenant = $1 AND run = $2 AND id = $3";
pub(crate) const MOVE_DEADLINE: &str =
    "UPDATE interrupts SET deadline = $1 WHERE tenant = $2 AND run = $3 AND id = $4";
pub(crate) const NOTE_HEADWAY: &str =
    "UPDATE interrupts SET headway = $1 WHERE tenant = $2 AND run = $3 AND id = $4";
pub(crate) const COUNT_CLOSED: &str =
    "UPDATE interrupt_counts SET open = open - 1 WHERE tenant = $1 AND kind = $2";
pub(crate) const CALL_BACK: &str = "INSERT INTO callbacks (tenant, run, id, url, due, attempts) \
    VALUES ($1, $2, $3, $4, $5, 0)";

pub(crate) const TELL: &str =
    "INSERT INTO notices (tenant, run, interrupt, attempt, at) VALUES ($1, $2, $3, $4, $5)";
pub(crate) const UNTELL: &str = "DELETE FROM notices WHERE tenant = $1 AND run = $2 AND interrupt = $3";
/// Whoever got a message, or may have got one, is told how it ended: once, however many messages they got over one
/// channel. One that is being sent right now is withdrawn like the others that wait, and found out about when its try
/// ends.
pub(crate) const FOLLOW_UP: &str = "UPDATE notice_deliveries AS d SET follow = $1, due = $2, tries = 0, \
    state = CASE d.state WHEN 0 THEN 5 ELSE d.state END WHERE d.tenant = $3 AND d.run = $4 AND d.interrupt = $5 \
    AND d.state IN (0, 1, 2, 3) AND (d.state = 1 OR d.tries > 0 OR (d.state = 0 AND d.due <= $6)) \
    AND NOT EXISTS (SELECT 1 FROM notice_deliveries l WHERE l.tenant = d.tenant AND l.run = d.run \
    AND l.interrupt = d.interrupt AND l.attempt > d.attempt AND l.channel = d.channel \
    AND l.recipient = d.recipient AND l.state = 1)";
pub(crate) const WITHDRAW: &str = "UPDATE notice_deliveries SET state = 5, due = NULL \
    WHERE tenant = $1 AND run = $2 AND interrupt = $3 AND state = 0";

/// What becomes of an interrupt beside its run.
pub(super) fn see_to<'a>(commit: &'a Commit, effect: &'a Effect, plan: &mut Vec<Statement<'a>>) {
    let [tenant, run] = key(commit);
    let (sql, values) = match effect {
        Effect::OpenInterrupt(open) => return open_interrupt(commit, open, plan),
        Effect::CloseInterrupt(closed) => return close_interrupt(commit, closed, plan),
        Effect::MoveDeadline { id, deadline } => {
            let deadline = deadline.map_or(Value::Null, Value::Int);
            (MOVE_DEADLINE, vec![deadline, tenant, run, blob(id.as_bytes())])
        }
        Effect::NoteHeadway { id, headway } => {
            (NOTE_HEADWAY, vec![noted(headway.as_ref()), tenant, run, blob(id.as_bytes())])
        }
        Effect::Notify(notify) => {
            let named = blob(notify.id.as_bytes());
            (TELL, vec![tenant, run, named, int(notify.attempt), Value::Int(notify.at)])
        }
        _ => return,
    };
    plan.push(Statement { sql, values, otherwise: Otherwise::Fine });
}

/// How far an approval has come, as it stands in its row.
fn noted(headway: Option<&Headway>) -> Value<'static> {
    let text = |headway| serde_json::to_string(headway).expect("numbers serialise");
    headway.map_or(Value::Null, |headway| Value::Text(text(headway).into()))
}

fn open_interrupt<'a>(commit: &'a Commit, open: &'a OpenInterrupt, plan: &mut Vec<Statement<'a>>) {
    let [tenant, run] = key(commit);
    let kind = text(open.kind.name());
    let approvers = serde_json::to_string(&open.approvers).expect("a list of text serialises");
    let or_null = |value: Option<&'a String>| value.map_or(Value::Null, |value| text(value));
    let sought = open.sought.as_ref();
    let values = vec![
        tenant.clone(),
        run.clone(),
        blob(open.id.as_bytes()),
        text(&open.node),
        kind.clone(),
        text(&open.title),
        or_null(open.event_type.as_ref()),
        or_null(sought.map(|sought| &sought.keys)),
        sought.map_or(Value::Null, |sought| blob(&sought.digest)),
        or_null(open.custom_kind.as_ref()),
        Value::Text(approvers.into()),
        Value::Int(open.requested_at),
        open.deadline.map_or(Value::Null, Value::Int),
        noted(open.headway.as_ref()),
    ];
    let fine = Otherwise::Fine;
    plan.push(Statement { sql: OPEN_INTERRUPT, values, otherwise: fine });
    plan.push(Statement { sql: COUNT_OPENED, values: vec![tenant.clone(), kind], otherwise: fine });
    if let Some(url) = &open.callback_url {
        let values = vec![tenant, run, blob(open.id.as_bytes()), text(url), Value::Int(open.requested_at)];
        plan.push(Statement { sql: CALL_BACK, values, otherwise: fine });
    }
}

fn close_interrupt<'a>(commit: &'a Commit, closed: &'a ClosedInterrupt, plan: &mut Vec<Statement<'a>>) {
    let [tenant, run] = key(commit);
    let counted = vec![tenant.clone(), text(closed.kind.name())];
    let named = vec![tenant, run, blob(closed.id.as_bytes())];
    let mut push = |sql, values| plan.push(Statement { sql, values, otherwise: Otherwise::Fine });
    push(CLOSE_INTERRUPT, named.clone());
    push(COUNT_CLOSED, counted);
    if closed.told {
        let follow_up = FollowUp { outcome: closed.outcome, by: closed.by.clone(), at: closed.at };
        let follow_up = serde_json::to_string(&follow_up).expect("names and numbers serialise");
        let mut values = vec![Value::Text(follow_up.into()), Value::Int(closed.at)];
        values.extend(named.iter().cloned());
        values.push(Value::Int(closed.at));
        push(UNTELL, named.clone());
        push(FOLLOW_UP, values);
        push(WITHDRAW, named);
    }
    plan.push(work::unhook(commit, &closed.id));
}
