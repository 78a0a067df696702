//! The list of what happened to an intent: its journal and what clients told, newest first, and telling more.

use std::collections::BTreeSet;
use std::sync::Arc;

use abide_core::{Key, Millis, Permission};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::journal::{Backwards, Happened};
use super::posted::{self, EVENT};
use super::{Mark, Told, is_known, mark, shown};
use crate::app::App;
use crate::auth::Principal;
use crate::error::Result;
use crate::limits;
use crate::openintent::asking::{Asked, Asking, Body, Path};
use crate::openintent::intents::{of_body, offset, seen};
use crate::openintent::records::{New, check, keep, object, said, unfit};
use crate::openintent::words;

/// Characters of a type, of an actor, and of what an event belongs to.
const NAME_CHARS_MAX: usize = 256;

/// Which events are wanted.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    limit: Option<usize>,
    offset: Option<usize>,
    event_type: Option<String>,
    since: Option<String>,
    /// Also those of types that the client does not know.
    all: Option<bool>,
}

/// Which events are wanted, as it is read.
struct Filter {
    event_type: Option<String>,
    since: Option<Millis>,
    all: bool,
}

impl Filter {
    fn wants(&self, told: &Told, at: Millis) -> bool {
        let typed = self.event_type.as_deref().is_none_or(|wanted| told.event_type == wanted);
        typed && (self.all || is_known(&told.event_type)) && self.since.is_none_or(|since| at >= since)
    }
}

/// An event with its place among the others.
struct Listed {
    /// When, behind how many events of the journal, and at which place among what lies there.
    place: (Millis, u64, u64, usize),
    mark: Option<Mark>,
    shown: Value,
}

/// What happened, newest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&id, &principal)?;
    let limit = wanted.limit.unwrap_or(limits::INTENT_EVENTS_DEFAULT);
    if !(1..=limits::INTENT_EVENTS_MAX).contains(&limit) {
        let message = format!("'limit' is a whole number from 1 to {}", limits::INTENT_EVENTS_MAX);
        return Err(unfit("limit", message));
    }
    let offset = offset(wanted.offset)?;
    let since = wanted.since.as_deref().map(|since| words::read_moment("since", since));
    let filter = Filter {
        event_type: wanted.event_type.filter(|wanted| !wanted.is_empty()),
        since: since.transpose().map_err(of_body)?,
        all: wanted.all.unwrap_or(false),
    };
    seen(&app, key, &actor.agent, |_| ()).await?;
    let most = offset.saturating_add(limit);
    let mut found = of_journal(&app, key, &filter, most).await?;
    let told: BTreeSet<Mark> = found.iter().filter_map(|listed| listed.mark.clone()).collect();
    let posted = posted::of_intent(&app, key, most.min(limits::RECORDS_MAX)).await?;
    let twice = |told_by_client: &Told| told_by_client.mark().is_some_and(|mark| told.contains(&mark));
    let posted =
        posted.into_iter().filter(|posted| filter.wants(&posted.told, posted.at) && !twice(&posted.told));
    found.extend(posted.enumerate().map(|(part, posted)| Listed {
        place: (posted.at, posted.journal, posted.sequence + 1, part),
        mark: None,
        shown: posted.shown,
    }));
    found.sort_by_key(|listed| std::cmp::Reverse(listed.place));
    let page = found.into_iter().skip(offset).take(limit).map(|listed| listed.shown);
    Ok(Json(Value::Array(page.collect())))
}

/// What a journal says, newest first: as many as are asked for, or somewhat more.
async fn of_journal(app: &App, key: Key, filter: &Filter, most: usize) -> Result<Vec<Listed>> {
    let mut journal = Backwards::of(app, key).await?;
    let mut found = Vec::new();
    while found.len() < most {
        let page = journal.next().await?;
        let Some(oldest) = page.last().map(|happened| happened.record.at) else { break };
        for happened in &page {
            found.extend(wanted_of(key, happened, filter));
        }
        if filter.since.is_some_and(|since| oldest < since) {
            break;
        }
    }
    Ok(found)
}

fn wanted_of(key: Key, happened: &Happened, filter: &Filter) -> Vec<Listed> {
    let record = &happened.record;
    let wanted = happened.told.iter().enumerate().filter(|(_, told)| filter.wants(told, record.at));
    let listed = wanted.map(|(part, told)| Listed {
        place: (record.at, record.sequence + 1, 0, part),
        mark: told.mark(),
        shown: shown(key.id, record, happened.before.as_ref(), part, told),
    });
    listed.collect()
}

/// Something that a client tells of.
#[derive(Deserialize)]
pub(crate) struct NewEvent {
    event_type: Option<String>,
    actor: Option<String>,
    #[serde(default)]
    payload: Option<Value>,
    #[serde(default)]
    trace_id: Option<String>,
    #[serde(default)]
    parent_event_id: Option<String>,
}

fn name(field: &str, given: Option<String>) -> Result<String> {
    let text = said(field, given)?;
    if text.chars().count() > NAME_CHARS_MAX {
        return Err(unfit(field, format!("'{field}' has at most {NAME_CHARS_MAX} characters")));
    }
    Ok(text)
}

/// Tells of something. What the server has told of already is told once.
pub(crate) async fn post(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    Body(new): Body<NewEvent>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&id, &principal)?;
    let (event_type, by) = (name("event_type", new.event_type)?, name("actor", new.actor)?);
    let of = |field: &str, given: Option<String>| given.map(|given| name(field, Some(given))).transpose();
    let payload = object("payload", new.payload)?;
    let body = json!({
        "event_type": event_type,
        "actor": by,
        "payload": payload,
        "trace_id": of("trace_id", new.trace_id.filter(|id| !id.is_empty()))?,
        "parent_event_id": of("parent_event_id", new.parent_event_id.filter(|id| !id.is_empty()))?,
    });
    check(&app, key, &actor.agent, Permission::Write).await?;
    if let Some(mark) = mark(&event_type, &payload)
        && let Some(known) = told_already(&app, key, &mark).await?
    {
        return Ok(Json(known));
    }
    let kept = keep(&app, key, New::of(EVENT, &actor.agent, body)).await?;
    Ok(Json(posted::own(&kept).shown))
}

/// The server's own event of the same, if it is among the last: a client tells of what has just happened. Of what lies
/// further back both are kept, and a list that shows both tells it once.
async fn told_already(app: &App, key: Key, wanted: &Mark) -> Result<Option<Value>> {
    let filter = Filter { event_type: Some(wanted.0.to_owned()), since: None, all: true };
    let last = Backwards::last(app, key).await?;
    let mut found = last.iter().flat_map(|happened| wanted_of(key, happened, &filter));
    Ok(found.find(|listed| listed.mark.as_ref() == Some(wanted)).map(|listed| listed.shown))
}
