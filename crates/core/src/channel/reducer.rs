//! What a write does to the state of a channel.
//!
//! Entries of a list are carried as text. Only a reducer that tells entries apart looks into them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Number;
use serde_json::value::RawValue;

use super::{TOO_LARGE, WRITE_INVALID, WriteRefused};
use crate::excerpt::excerpt;
use crate::limits::CHANNEL_BYTES_MAX;
use crate::{Json, JsonMap, Millis};

/// How a write joins what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reducer {
    /// The latest value wins.
    Replace,
    /// Every value is added at the end of a list.
    Append,
    /// The keys of an object replace those of the same name.
    Merge,
    /// Numbers are added up.
    Counter,
    /// A list of objects with a `userId`, the latest of each.
    Votes,
    /// A list of objects.
    Feedback,
    /// A list of objects with a `messageId`, the first of each.
    Message,
}

/// Every reducer with its name.
const NAMES: [(&str, Reducer); 7] = [
    ("replace", Reducer::Replace),
    ("append", Reducer::Append),
    ("merge", Reducer::Merge),
    ("counter", Reducer::Counter),
    ("votes", Reducer::Votes),
    ("feedback", Reducer::Feedback),
    ("message", Reducer::Message),
];

/// What a write meets.
pub(super) struct State<'s> {
    pub(super) current: Option<&'s Json>,
    pub(super) size_max: Option<usize>,
    pub(super) ttl_ms: Option<Millis>,
    pub(super) at: Millis,
}

/// An entry of a list whose entries age.
#[derive(Deserialize, Serialize)]
struct Aging<'e> {
    #[serde(borrow)]
    value: &'e RawValue,
    #[serde(rename = "_ts")]
    written_at: Millis,
}

/// The one key of an entry that tells it from others.
#[derive(Deserialize)]
struct Voter<'e> {
    #[serde(rename = "userId", borrow)]
    id: Cow<'e, str>,
}

#[derive(Deserialize)]
struct Sent<'e> {
    #[serde(rename = "messageId", borrow)]
    id: Cow<'e, str>,
}

impl Reducer {
    /// The reducer of a name, or why there is none.
    pub fn named(name: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, reducer)| *reducer).ok_or_else(|| {
            let known: Vec<&str> = NAMES.iter().map(|(known, _)| *known).collect();
            format!("this server has no reducer {}: use one of {}", excerpt(name), known.join(", "))
        })
    }

    /// The name in definitions.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, reducer)| *reducer == self).map_or("", |(name, _)| name)
    }

    /// Whether the state is a list of what was written.
    pub(super) fn is_list(self) -> bool {
        matches!(self, Self::Append | Self::Votes | Self::Feedback | Self::Message)
    }

    /// Whether entries may be dropped after a time.
    ///
    /// Messages may not: one that was forgotten could come in a second time.
    pub(super) fn ages(self) -> bool {
        matches!(self, Self::Append | Self::Votes | Self::Feedback)
    }

    pub(super) fn reduce(self, state: &State<'_>, write: &Json) -> Result<Json, WriteRefused> {
        if write.text().len() > CHANNEL_BYTES_MAX {
            return Err((TOO_LARGE, format!("a channel holds {CHANNEL_BYTES_MAX} bytes: write less to it")));
        }
        match self {
            Self::Replace => Ok(write.clone()),
            Self::Merge => merge(state.current, write),
            Self::Counter => count(state.current, write),
            Self::Append => state.join(write, |_| false),
            Self::Feedback => {
                object(write, "an entry of feedback")?;
                state.join(write, |_| false)
            }
            Self::Votes => {
                let voter: Voter<'_> = entry(write, "a vote", "userId")?;
                state.join(write, |entry| read(entry).is_some_and(|other: Voter<'_>| other.id == voter.id))
            }
            Self::Message => message(state, write),
        }
    }

    /// The writes that a state is made of, or why it is not a state of this reducer.
    pub(super) fn writes_in(self, state: &Json) -> Result<Vec<Json>, String> {
        let expected = match self {
            Self::Replace => return Ok(vec![state.clone()]),
            Self::Merge => "object",
            Self::Counter => "number",
            _ => "array",
        };
        if state.type_name() != expected {
            return Err(format!("the reducer {} starts from a value of type {expected}", self.name()));
        }
        if !self.is_list() {
            return Ok(vec![state.clone()]);
        }
        let entries: Vec<Json> = state.parse().map_err(|error| error.to_string())?;
        for entry in &entries {
            let alone = State { current: None, size_max: None, ttl_ms: None, at: 0 };
            self.reduce(&alone, entry).map_err(|(_, message)| message)?;
        }
        Ok(entries)
    }
}

/// A list whose entries age, as it was written.
pub(super) fn without_times(state: &Json) -> Json {
    let values = serde_json::from_str::<Vec<Aging<'_>>>(state.text());
    let values: Vec<&RawValue> = values.unwrap_or_default().into_iter().map(|entry| entry.value).collect();
    Json::of(&values)
}

impl State<'_> {
    /// The list with `write` at its end, without the entries that it `replaces` and those that are too old.
    fn join(&self, write: &Json, replaces: impl Fn(&RawValue) -> bool) -> Result<Json, WriteRefused> {
        let written: &RawValue = raw(write);
        let Some(ttl_ms) = self.ttl_ms else {
            let mut entries: Vec<&RawValue> = self.entries()?;
            entries.retain(|entry| !replaces(entry));
            entries.push(written);
            return Ok(Json::of(self.newest(&entries)));
        };
        let oldest = self.at.saturating_sub(ttl_ms);
        let mut entries: Vec<Aging<'_>> = self.entries()?;
        entries.retain(|entry| entry.written_at >= oldest && !replaces(entry.value));
        entries.push(Aging { value: written, written_at: self.at });
        Ok(Json::of(self.newest(&entries)))
    }

    /// The entries of the current list; none before the first write.
    fn entries<'e, T: Deserialize<'e>>(&'e self) -> Result<Vec<T>, WriteRefused> {
        let Some(current) = self.current else { return Ok(Vec::new()) };
        serde_json::from_str(current.text()).map_err(|_| held(current, "a list made by this reducer"))
    }

    fn newest<'e, T>(&self, entries: &'e [T]) -> &'e [T] {
        let excess = entries.len().saturating_sub(self.size_max.unwrap_or(usize::MAX));
        &entries[excess..]
    }
}

fn message(state: &State<'_>, write: &Json) -> Result<Json, WriteRefused> {
    let sent: Sent<'_> = entry(write, "a message", "messageId")?;
    let known: Vec<&RawValue> = state.entries()?;
    match state.current {
        Some(current)
            if known.iter().any(|entry| read(entry).is_some_and(|other: Sent<'_>| other.id == sent.id)) =>
        {
            Ok(current.clone())
        }
        _ => state.join(write, |_| false),
    }
}

fn merge(current: Option<&Json>, write: &Json) -> Result<Json, WriteRefused> {
    object(write, "a write to a channel that merges")?;
    let mut merged = match current {
        Some(current) => current.parse::<JsonMap>().map_err(|_| held(current, "an object"))?,
        None => JsonMap::new(),
    };
    merged.extend(write.parse::<JsonMap>().map_err(|error| (WRITE_INVALID, error.to_string()))?);
    Ok(Json::of(&merged))
}

fn count(current: Option<&Json>, write: &Json) -> Result<Json, WriteRefused> {
    let step: Number = write.parse().map_err(|_| {
        (WRITE_INVALID, format!("a counter takes numbers, not {}: write a number", excerpt(write.text())))
    })?;
    let count: Number = match current {
        Some(current) => current.parse().map_err(|_| held(current, "a number"))?,
        None => 0.into(),
    };
    sum(&count, &step).ok_or_else(|| {
        (
            WRITE_INVALID,
            format!("{count} and {step} add up to more than a counter holds: write a smaller number"),
        )
    })
}

/// Whole numbers are added exactly, within 64 bits; others as floating point.
fn sum(count: &Number, step: &Number) -> Option<Json> {
    match (count.as_i128(), step.as_i128()) {
        (Some(count), Some(step)) => i64::try_from(count.checked_add(step)?).ok().map(|sum| Json::of(&sum)),
        _ => Some(count.as_f64()? + step.as_f64()?).filter(|sum| sum.is_finite()).map(|sum| Json::of(&sum)),
    }
}

fn object(write: &Json, what: &str) -> Result<(), WriteRefused> {
    match write.type_name() {
        "object" => Ok(()),
        other => Err((WRITE_INVALID, format!("{what} is an object, not of type {other}: write an object"))),
    }
}

/// Looks into a written entry for the key that it must have.
fn entry<'e, T: Deserialize<'e>>(write: &'e Json, what: &str, key: &str) -> Result<T, WriteRefused> {
    object(write, what)?;
    read(raw(write)).ok_or_else(|| (WRITE_INVALID, format!("{what} needs a text as {key}, once: add it")))
}

fn read<'e, T: Deserialize<'e>>(entry: &'e RawValue) -> Option<T> {
    serde_json::from_str(entry.get()).ok()
}

fn raw(json: &Json) -> &RawValue {
    serde_json::from_str(json.text()).expect("the text of a JSON value is JSON")
}

fn held(current: &Json, expected: &str) -> WriteRefused {
    let message = format!(
        "the channel holds {}, not {expected}: let all its writers use one reducer and one ttlMs",
        excerpt(current.text())
    );
    (WRITE_INVALID, message)
}
