//! One run: how it stands, what it waits for, and what happens to it, live.
//!
//! | noun | file | what it is |
//! |---|---|---|
//! | `Seen` | `run/seen.rs` | how a run stands, as plain data |
//! | `Notice` | `run/notice.rs` | a turn that waits for its provider, and what may be done about it |
//! | `Log` | `run/log.rs`, `run/told.rs` | the latest of what happened, in plain words |
//! | `Live` | `run/live.rs` | the same again whenever something changes |
//!
//! The page is whole without its script. The script only puts newer parts of the same page in the place of older ones, so
//! whoever reconnects gets everything as it is then, and has missed nothing.

mod live;
mod log;
mod notice;
mod seen;
mod told;

use std::sync::Arc;

use abide_core::event::{Held, Released};
use abide_core::{Command, HoldMode, Key, Millis, Rejection, Run, RunId};
use abide_engine::{Error as EngineError, Reply};
use askama::Template;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};

use super::form::{Fields, OwnForm};
use super::gate::Visitor;
use super::html::{self, Frame};
use super::refusal::Result;
use crate::app::App;
use crate::error::ApiError;
use crate::scope::Scope;
use live::Live;
use log::{Line, Log};
use notice::Notice;
use seen::Seen;

/// The run that a path names, if it is text at all.
type Which = std::result::Result<Path<String>, PathRejection>;

/// What a reader may do beside looking.
#[derive(Clone, Copy)]
struct May {
    /// Answer what a run asks.
    answer: bool,
    /// Have a turn try again, or give it up.
    retry: bool,
    /// Hold a run, and release it.
    hold: bool,
}

impl May {
    fn of(visitor: &Visitor) -> Self {
        Self {
            answer: visitor.may(Scope::ApprovalsRespond),
            retry: visitor.may(Scope::RunsResume),
            hold: visitor.may(Scope::RunsCancel),
        }
    }
}

#[derive(Template)]
#[template(path = "run.html")]
struct Shown {
    frame: Frame,
    run: RunId,
    seen: Seen,
    lines: Vec<Line>,
    may: May,
    now: Millis,
}

#[derive(Template)]
#[template(path = "give_up.html")]
struct Sure {
    frame: Frame,
    run: RunId,
    notice: Notice,
}

/// A run as it stands.
pub(super) async fn show(State(app): State<Arc<App>>, visitor: Visitor, which: Which) -> Result<Response> {
    let key = key_of(&visitor, which)?;
    let seen = Seen::of(&app, key).await?;
    let mut log = Log::open(&app, key).await?;
    log.read_on(&app).await?;
    let frame = visitor.frame(&app, format!("{}: {}", seen.head.workflow, seen.head.status()));
    let (may, now) = (May::of(&visitor), app.engine().clock().now());
    Ok(html::page(StatusCode::OK, &Shown { frame, run: key.id, seen, lines: log.newest_first(), may, now }))
}

/// The same, for as long as it changes.
pub(super) async fn follow(State(app): State<Arc<App>>, visitor: Visitor, which: Which) -> Result<Response> {
    let key = key_of(&visitor, which)?;
    Ok(Live::begin(app, key, (May::of(&visitor), &visitor)).await?.into_response())
}

/// Holds a run.
pub(super) async fn hold(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    which: Which,
    OwnForm(fields): OwnForm,
) -> Result<Response> {
    let mode = if fields.get("mode") == Some("stop") { HoldMode::Stop } else { HoldMode::Pause };
    let (reason, by) = (fields.said("reason").map(str::to_owned), Some(visitor.principal.name.clone()));
    change_hold(&app, &visitor, which, Command::Hold(Held { mode, reason, by })).await
}

/// Lets a held run go on.
pub(super) async fn release(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    which: Which,
    OwnForm(fields): OwnForm,
) -> Result<Response> {
    let (reason, by) = (fields.said("reason").map(str::to_owned), Some(visitor.principal.name.clone()));
    change_hold(&app, &visitor, which, Command::Release(Released { by, reason })).await
}

/// Whoever is told that a run is held or goes on sees how it stands, also if somebody was faster.
async fn change_hold(app: &App, visitor: &Visitor, which: Which, command: Command) -> Result<Response> {
    use Rejection::{AlreadyPaused, AlreadyStopped, Cancelling, Ended, NotHeld};
    let key = key_of(visitor, which)?;
    match app.engine().ask_for(key, &command, Reply::new(None, |_: &Run| Vec::new())).await {
        Err(EngineError::RunNotFound(_)) => Err(nothing().into()),
        Ok(_)
        | Err(EngineError::Rejected(AlreadyPaused | AlreadyStopped | Cancelling | Ended(_) | NotHeld)) => {
            Ok(Redirect::to(&place(key.id)).into_response())
        }
        Err(error) => Err(ApiError::from(error).into()),
    }
}

/// Has a turn try again at once.
pub(super) async fn retry(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    which: Which,
    OwnForm(fields): OwnForm,
) -> Result<Response> {
    let key = key_of(&visitor, which)?;
    notice::retry(&app, key, node(&fields), &visitor.principal.name).await?;
    Ok(Redirect::to(&place(key.id)).into_response())
}

/// Asks whether a turn is really to be given up.
pub(super) async fn ask_give_up(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    which: Which,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let key = key_of(&visitor, which)?;
    let fields = Fields::read(query.unwrap_or_default().as_bytes())?;
    let mut notices = Seen::of(&app, key).await?.notices;
    let Some(at) = notices.iter().position(|notice| notice.node == node(&fields)) else {
        return Ok(Redirect::to(&place(key.id)).into_response());
    };
    let frame = visitor.frame(&app, "Give up on this turn?");
    Ok(html::page(StatusCode::OK, &Sure { frame, run: key.id, notice: notices.swap_remove(at) }))
}

/// Gives a turn up.
pub(super) async fn give_up(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    which: Which,
    OwnForm(fields): OwnForm,
) -> Result<Response> {
    let key = key_of(&visitor, which)?;
    let reason = fields.said("reason").map(str::to_owned);
    notice::give_up(&app, key, node(&fields), (&visitor.principal.name, reason)).await?;
    Ok(Redirect::to(&place(key.id)).into_response())
}

fn node(fields: &Fields) -> &str {
    fields.get("node").unwrap_or_default()
}

/// Where the page of a run is.
pub(super) fn place(run: RunId) -> String {
    format!("{}{run}", super::RUNS)
}

fn key_of(visitor: &Visitor, which: Which) -> Result<Key> {
    let named = which.ok().and_then(|Path(run)| run.parse::<RunId>().ok());
    Ok(named.ok_or_else(nothing)?.of(visitor.principal.tenant))
}

fn nothing() -> ApiError {
    ApiError::new("run_not_found", "There is no such run. Check the link that you followed.")
}

#[cfg(test)]
mod tests {
    use abide_core::{NodePhase, Status};

    use super::notice::Waits;
    use super::seen::{Head, Node, Nodes};
    use super::*;

    const NOW: Millis = 1_767_603_600_000;

    fn notice(waits: Waits) -> Notice {
        Notice {
            node: "draft".to_owned(),
            provider: "anthropic".to_owned(),
            waits,
            since: NOW - 60_000,
            until: NOW + 299_000,
            message: Some("HTTP 429: {\"error\":{\"type\":\"overloaded_error\"}}<script>".to_owned()),
            code: Some("429".to_owned()),
        }
    }

    fn node(id: &str, phase: NodePhase) -> Node {
        let (id, kind) = (id.to_owned(), "core.llm.turn".to_owned());
        Node { id, kind, phase, attempts: 0, execution: 1, child: None, waits: Vec::new(), error: None }
    }

    fn page(may: May, notices: Vec<Notice>) -> String {
        let head = Head {
            workflow: "letters".to_owned(),
            stands: Status::Running,
            started_at: NOW - 3_600_000,
            ended_at: None,
            summary: "It is running and waits for its provider.".to_owned(),
            hold: None,
            parent: None,
        };
        let first = vec![node("fetch", NodePhase::Completed), node("draft", NodePhase::Waiting)];
        let nodes = Nodes { first, ..Nodes::default() };
        let seen = Seen { head, notices, questions: Vec::new(), nodes };
        let visitor = Some(("ada".to_owned(), "t0ken".to_owned()));
        let frame = Frame { title: "letters: running".to_owned(), visitor };
        let run = RunId::from_bytes([7; 16]);
        Shown { frame, run, seen, lines: Vec::new(), may, now: NOW }.render().unwrap()
    }

    #[test]
    fn a_turn_that_waits_is_warned_of_with_what_its_provider_said_and_what_to_do() {
        let html = page(May { answer: true, retry: true, hold: false }, vec![notice(Waits::Retry(3))]);
        for said in [
            "<h2>draft waits for anthropic</h2>",
            "HTTP 429: {&#34;error&#34;:{&#34;type&#34;:&#34;overloaded_error&#34;}}&#60;script&#62;",
            "code 429",
            "data-until=\"1767603899000\"",
            "data-now=\"1767603600000\"",
            "Retry 3 in <span class=\"left\">4 min 59 s</span>",
            "2026-01-05 09:04:59 UTC",
            "name=\"form-token\" value=\"t0ken\"",
            "name=\"node\" value=\"draft\"",
            ">Retry now</button>",
            ">Give up</button>",
        ] {
            assert!(html.contains(said), "{said} is not in {html}");
        }
    }

    #[test]
    fn whoever_may_not_resume_runs_sees_the_warning_without_its_buttons() {
        let html = page(May { answer: true, retry: false, hold: false }, vec![notice(Waits::Breaker)]);
        assert!(html.contains("<h2>draft is held back while anthropic fails</h2>"), "{html}");
        assert!(html.contains("Gives up in <span class=\"left\">4 min 59 s</span>"), "{html}");
        assert!(html.contains("takes a key with the scope runs:resume"), "{html}");
        assert!(!html.contains("/retry\"") && !html.contains("/give-up\""), "{html}");
        assert!(!page(May { answer: true, retry: true, hold: false }, Vec::new()).contains("class=\"notice"));
    }
}
