//! The latest of what happened to a run, line by line. What a model says grows in one line.

use std::collections::VecDeque;

use abide_core::{Key, Millis, Record};
use serde_json::Value;

use super::super::words;
use super::told::{self, Told, Tone};
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::limits;
use crate::openwop::events::doc;
use crate::time::rfc3339;

/// The last lines, and how far the journal is read.
pub(super) struct Log {
    key: Key,
    next: u64,
    lines: VecDeque<Line>,
    /// Lines from this event on are new or have grown since somebody looked.
    fresh: u64,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The first event that it tells of.
    pub(super) sequence: u64,
    pub(super) at: Millis,
    pub(super) node: Option<String>,
    pub(super) text: String,
    tone: Tone,
    /// What a model said, if that is what the line is about.
    pub(super) said: Option<Said>,
}

/// What a model said so far in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// The step, the call and the kind of text that it belongs to.
    stretch: String,
    pub(super) text: String,
    /// Whether the beginning is missing.
    pub(super) is_cut: bool,
    pub(super) is_reasoning: bool,
    /// Whether it broke off, so that it is not the model's answer.
    pub(super) is_broken: bool,
}

impl Line {
    pub(super) fn time(&self) -> (String, String) {
        (rfc3339(self.at), words::clock(self.at))
    }

    pub(super) fn tone(&self) -> &'static str {
        self.tone.class()
    }
}

impl Said {
    fn of(stretch: String, payload: &Value) -> Self {
        let is_reasoning = payload["kind"] == "reasoning";
        let mut said = Self { stretch, text: String::new(), is_cut: false, is_reasoning, is_broken: false };
        said.grow(payload);
        said
    }

    fn grow(&mut self, payload: &Value) {
        self.is_broken |= payload["brokenOff"] == true;
        self.text += payload["chunk"].as_str().unwrap_or_default();
        if self.text.len() > limits::RUN_SAID_BYTES_MAX {
            let from = self.text.ceil_char_boundary(self.text.len() - limits::RUN_SAID_BYTES_MAX);
            self.text.drain(..from);
            self.is_cut = true;
        }
    }
}

impl Log {
    /// A log of which nothing is read yet, near the end of the journal.
    pub(super) async fn open(app: &App, key: Key) -> Result<Self> {
        let head = app.engine().head(key).await.map_err(|error| match error {
            abide_engine::Error::RunNotFound(_) => super::nothing(),
            other => other.into(),
        })?;
        let next = head.next.saturating_sub(limits::RUN_EVENTS_READ_MAX);
        Ok(Self { key, next, lines: VecDeque::new(), fresh: 0 })
    }

    /// Reads what is there. Large journals are read a little at a time, so that they never stand in memory.
    pub(super) async fn read_on(&mut self, app: &App) -> Result<()> {
        loop {
            let records = app.engine().events(self.key, self.next, limits::STREAM_EVENTS_MAX).await?;
            let Some(last) = records.last() else { return Ok(()) };
            self.next = last.sequence + 1;
            for record in &records {
                self.take(record).map_err(|error| ApiError::internal(&error))?;
            }
        }
    }

    fn take(&mut self, record: &Record) -> std::result::Result<(), String> {
        let kind = doc::type_of(record)?.name;
        let payload = if told::is_plain(kind) { Value::Null } else { payload(self.key, record)? };
        if kind == told::CHUNK {
            self.hear(record, &payload);
        } else if let Some(Told { text, tone }) = told::words(kind, &payload) {
            self.push(record, text, (tone, None));
        }
        Ok(())
    }

    /// A stretch of what a model says: it continues the last one of the same call, or begins a line.
    fn hear(&mut self, record: &Record, payload: &Value) {
        let stretch = format!("{} {} {}", payload["step"], payload["call"], payload["kind"]);
        let node = record.node.as_deref();
        let is_same = |line: &&mut Line| {
            line.node.as_deref() == node && line.said.as_ref().is_some_and(|said| said.stretch == stretch)
        };
        // Other nodes may have been heard of meanwhile, but not very many.
        if let Some(line) = self.lines.iter_mut().rev().take(limits::RUN_TALKING_MAX).find(is_same) {
            self.fresh = self.fresh.min(line.sequence);
            line.said.as_mut().expect("it was just found by it").grow(payload);
            return;
        }
        let said = Said::of(stretch, payload);
        // What is never shown has no words; that something is said is told by what comes of it.
        if said.text.is_empty() {
            return;
        }
        let text = if said.is_reasoning { "thinks" } else { "says" };
        self.push(record, text.to_owned(), (Tone::Plain, Some(said)));
    }

    fn push(&mut self, record: &Record, text: String, (tone, said): (Tone, Option<Said>)) {
        let node = record.node.as_deref().map(str::to_owned);
        self.lines.push_back(Line { sequence: record.sequence, at: record.at, node, text, tone, said });
        if self.lines.len() > limits::RUN_LINES_MAX {
            self.lines.pop_front();
        }
    }

    /// All lines, the latest at the top.
    pub(super) fn newest_first(&self) -> Vec<Line> {
        self.lines.iter().rev().cloned().collect()
    }

    /// The lines that are new or have grown since the last call, the oldest first.
    pub(super) fn fresh(&mut self) -> Vec<Line> {
        let from = std::mem::replace(&mut self.fresh, self.next);
        self.lines.iter().filter(|line| line.sequence >= from).cloned().collect()
    }
}

/// What an event says, without what is never shown.
fn payload(key: Key, record: &Record) -> std::result::Result<Value, String> {
    let (_, text) = doc::journal(key.id, record)?;
    let mut event: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    Ok(event["payload"].take())
}
