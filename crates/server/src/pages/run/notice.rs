//! A turn that waits for its provider: what people are warned of, and what they may do about it.

use abide_core::{Command, Key, Millis, Rejection, Run, TurnCommand, TurnView};
use abide_engine::{Error as EngineError, Reply};

use super::super::words;
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::time::rfc3339;

/// A warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) node: String,
    pub(super) provider: String,
    pub(super) waits: Waits,
    pub(super) since: Millis,
    pub(super) until: Millis,
    /// What the provider said, in its own words.
    pub(super) message: Option<String>,
    /// The HTTP status, if there was one.
    pub(super) code: Option<String>,
}

/// What a turn waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// Its own next try: this retry, from 1.
    Retry(u32),
    /// That the provider answers others again.
    Breaker,
}

impl Notice {
    /// What the wait is for, in a few words.
    pub(super) fn title(&self) -> String {
        match self.waits {
            Waits::Retry(_) => format!("{} waits for {}", self.node, self.provider),
            Waits::Breaker => format!("{} is held back while {} fails", self.node, self.provider),
        }
    }

    /// Which retry comes next, if it is the turn's own.
    pub(super) fn retry(&self) -> Option<u32> {
        match self.waits {
            Waits::Retry(retry) => Some(retry),
            Waits::Breaker => None,
        }
    }

    /// When it is over, for machines and for people.
    pub(super) fn ends(&self) -> (String, String) {
        (rfc3339(self.until), words::moment_exact(self.until))
    }

    /// Since when.
    pub(super) fn began(&self) -> String {
        words::moment_exact(self.since)
    }

    /// How much is left, for those whose browser does not count.
    pub(super) fn left(&self, now: Millis) -> String {
        words::left(self.until.saturating_sub(now))
    }
}

/// The turns of a run that wait for their provider.
pub(super) fn of(run: &Run) -> Vec<Notice> {
    run.turns().into_iter().filter_map(notice).collect()
}

fn notice(turn: TurnView) -> Option<Notice> {
    let wait = turn.wait?;
    Some(Notice {
        node: turn.node,
        provider: turn.provider,
        waits: if wait.postponed { Waits::Breaker } else { Waits::Retry(wait.attempt + 1) },
        since: wait.since,
        until: wait.until,
        message: wait.message,
        code: wait.code,
    })
}

/// Has a turn try again at once. One that does not wait any more is where it is wanted.
pub(super) async fn retry(app: &App, key: Key, node: &str, by: &str) -> Result<()> {
    let command = TurnCommand::RetryNow { node: Some(node.to_owned()), by: by.to_owned() };
    match tell(app, key, command).await {
        Err(error) if is_late(&error) => Ok(()),
        told => told.map_err(ApiError::from),
    }
}

/// Gives a turn up, for this reason.
pub(super) async fn give_up(
    app: &App,
    key: Key,
    node: &str,
    (by, reason): (&str, Option<String>),
) -> Result<()> {
    let command = TurnCommand::GiveUp { node: Some(node.to_owned()), by: by.to_owned(), reason };
    tell(app, key, command).await.map_err(|error| match is_late(&error) {
        true => ApiError::new("turn_not_waiting", "Nothing was given up: this turn does not wait any more."),
        false => error.into(),
    })
}

async fn tell(app: &App, key: Key, command: TurnCommand) -> std::result::Result<(), EngineError> {
    let reply = Reply::new(None, |_| Vec::new());
    app.engine().ask_for(key, &Command::Turn(Box::new(command)), reply).await.map(|_| ())
}

/// Whether somebody, or the turn itself, was quicker.
fn is_late(error: &EngineError) -> bool {
    let EngineError::Rejected(rejection) = error else { return false };
    matches!(rejection, Rejection::TurnNotWaiting { .. } | Rejection::Ended(_) | Rejection::Cancelling)
}
