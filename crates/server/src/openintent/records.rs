//! What is kept beside an intent and decides nothing: what its agents decided, what it cost, what belongs to it.
//!
//! Each is a record of the store, known by its intent and its place there. A record is made whole or not at all, and is
//! changed only as whoever changes it has seen it.

pub(crate) mod access_requests;
pub(crate) mod attachments;
pub(crate) mod channels;
pub(crate) mod costs;
pub(crate) mod decisions;
pub(crate) mod failures;
pub(crate) mod messages;
pub(crate) mod subscriptions;

use abide_core::{Json as RawJson, Key, Millis, Permission};
use abide_store::{NewRecord, Note, Recorded};
use axum::http::StatusCode;
use serde_json::Value;

use super::intents;
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::limits;

/// The field of a record that says how many events its journal had.
const JOURNAL: &str = "_journal";

/// What is to be kept.
pub(super) struct New<'a> {
    pub(super) kind: &'a str,
    pub(super) by: &'a str,
    pub(super) body: Value,
    pub(super) most: usize,
    /// The newest of its kind that whoever asks has seen, if it may only be kept right behind that.
    pub(super) behind: Option<Option<u64>>,
}

impl<'a> New<'a> {
    /// One of as many as there may be.
    pub(super) fn of(kind: &'a str, by: &'a str, body: Value) -> Self {
        Self { kind, by, body, most: limits::RECORDS_MAX, behind: None }
    }
}

/// A record as it is read.
pub(super) struct Kept {
    pub(super) key: Key,
    pub(super) sequence: u64,
    pub(super) at: Millis,
    pub(super) by: String,
    pub(super) body: Value,
}

impl Kept {
    pub(super) fn read(key: Key, note: &Note) -> Self {
        let body = note.body.parse().unwrap_or_default();
        Self { key, sequence: note.sequence, at: note.at, by: note.by.clone().unwrap_or_default(), body }
    }

    /// What it is known by.
    pub(super) fn id(&self) -> String {
        id(self.key, self.sequence)
    }

    /// How many events the journal had then.
    pub(super) fn journal(&self) -> u64 {
        self.body[JOURNAL].as_u64().unwrap_or(0)
    }

    /// The intent that it is beside.
    pub(super) fn intent(&self) -> String {
        words::id(self.key.id)
    }

    /// A text of it.
    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.body[field].as_str()
    }
}

/// A record is asked for without its intent, so it is named after that as well.
pub(super) fn id(key: Key, sequence: u64) -> String {
    format!("{}_{sequence}", words::id(key.id))
}

/// The record that is meant, among those of whoever asks.
pub(super) fn named(text: &str, principal: &Principal) -> Option<(Key, u64)> {
    let (run, sequence) = text.split_once('_')?;
    Some((words::run_id(run)?.of(principal.tenant), sequence.parse().ok()?))
}

/// The record of an intent that is meant.
pub(super) fn of_intent(key: Key, text: &str, principal: &Principal) -> Result<u64> {
    let found = named(text, principal).filter(|(of, _)| *of == key).map(|(_, sequence)| sequence);
    found.ok_or_else(|| no_such("such record"))
}

/// There is no such thing beside the intent.
pub(super) fn no_such(what: &str) -> ApiError {
    ApiError::new("record_not_found", format!("the intent has no {what}"))
}

/// A value that is not what it has to be.
pub(super) fn unfit(field: &str, message: impl Into<String>) -> ApiError {
    ApiError::invalid(field, message).under(StatusCode::UNPROCESSABLE_ENTITY)
}

/// An object, or none.
pub(super) fn object(field: &str, given: Option<Value>) -> Result<Value> {
    match given {
        None | Some(Value::Null) => Ok(Value::Object(serde_json::Map::new())),
        Some(given) if given.is_object() => Ok(given),
        Some(_) => Err(unfit(field, format!("'{field}' is an object"))),
    }
}

/// A text that has to be there.
pub(super) fn said(field: &str, given: Option<String>) -> Result<String> {
    given
        .filter(|text| !text.trim().is_empty())
        .ok_or_else(|| unfit(field, format!("'{field}' is missing: a text")))
}

/// Refuses whoever may not do this with the intent.
pub(super) async fn check(app: &App, key: Key, agent: &str, permission: Permission) -> Result<()> {
    intents::allowed(app, key, agent, permission, |_| ()).await
}

/// A body as it is kept, if it is not too large for that.
fn fitting(body: &Value) -> Result<RawJson> {
    let body = RawJson::of(body);
    if body.text().len() > limits::RECORD_BYTES_MAX {
        let message = format!("a record takes at most {} bytes", limits::RECORD_BYTES_MAX);
        return Err(ApiError::new("validation_error", message).under(StatusCode::UNPROCESSABLE_ENTITY));
    }
    Ok(body)
}

/// Keeps a record beside an intent or a portfolio. Nothing if another one came between.
pub(super) async fn try_keep(app: &App, key: Key, new: &New<'_>) -> Result<Option<Kept>> {
    // Where the journal stood then says which came first of what happened at the same moment.
    let head = app.engine().head(key).await.map_err(|error| match error {
        abide_engine::Error::RunNotFound(_) => words::no_such_intent(),
        error => error.into(),
    })?;
    let mut said = new.body.clone();
    said[JOURNAL] = head.next.into();
    let body = fitting(&said)?;
    let (at, by) = (app.engine().clock().now(), new.by.to_owned());
    let (kind, most, behind) = (new.kind.to_owned(), new.most, new.behind);
    let record = NewRecord { key, kind, at, by: Some(by.clone()), body, most, behind };
    match app.engine().keep(record).await? {
        Recorded::Done { sequence } => Ok(Some(Kept { key, sequence, at, by, body: said })),
        Recorded::Raced => Ok(None),
        Recorded::NotFound => Err(words::no_such_intent()),
        Recorded::Erased => Err(abide_engine::Error::Erased(key.id).into()),
        Recorded::Full => {
            let message = format!("there may be {} records of this kind, and there are", new.most);
            Err(ApiError::new("records_full", message))
        }
    }
}

/// Keeps a record that nothing races for.
pub(super) async fn keep(app: &App, key: Key, new: New<'_>) -> Result<Kept> {
    try_keep(app, key, &new).await?.ok_or_else(|| ApiError::internal(&"a record raced with nothing"))
}

/// All records of a kind, oldest first.
pub(super) async fn all(app: &App, key: Key, kind: &str) -> Result<Vec<Kept>> {
    behind(app, key, kind, None).await
}

/// All records of a kind behind a place, oldest first.
pub(super) async fn behind(app: &App, key: Key, kind: &str, after: Option<u64>) -> Result<Vec<Kept>> {
    let page = app.engine().records().after(key, kind.to_owned(), after, limits::RECORDS_MAX).await?;
    Ok(page.iter().map(|note| Kept::read(key, note)).collect())
}

/// Records of a kind, newest first.
pub(super) async fn newest(app: &App, key: Key, kind: &str, limit: usize) -> Result<Vec<Kept>> {
    let page = app.engine().records().before(key, kind.to_owned(), None, limit).await?;
    Ok(page.iter().map(|note| Kept::read(key, note)).collect())
}

/// One record, if it is there.
pub(super) async fn get(app: &App, key: Key, kind: &str, sequence: u64) -> Result<Option<Kept>> {
    let found = app.engine().records().get(key, kind.to_owned(), sequence).await?;
    Ok(found.map(|note| Kept::read(key, &note)))
}

/// Changes one record as it stands when it is changed.
pub(super) async fn change(
    app: &App,
    key: Key,
    (kind, sequence): (&str, u64),
    how: impl Fn(&Kept) -> Result<Value>,
) -> Result<Kept> {
    for _ in 0..limits::RECORD_TRIES_MAX {
        let note = app.engine().records().get(key, kind.to_owned(), sequence).await?;
        let note = note.ok_or_else(|| no_such("such record"))?;
        let seen = Kept::read(key, &note);
        let body = how(&seen)?;
        let next = fitting(&body)?;
        if app.engine().records().replace(key, kind.to_owned(), sequence, note.body, next).await? {
            return Ok(Kept { body, ..seen });
        }
    }
    Err(raced())
}

/// Others were quicker, time and again.
pub(super) fn raced() -> ApiError {
    ApiError::new("version_conflict", "others changed it at the same time, time and again; try it once more")
}
