//! Pages for a browser: sign in, see what waits for an answer, answer it, and watch a run.
//!
//! They are made here, as whole pages and forms. Only the page of a run has a script, which puts newer parts of the page in
//! the place of older ones; it does everything without. What pages show and do goes through the functions that the HTTP API goes through, so a page can do nothing that a request could not. They are not
//! operations of that API: they have their own gate, which knows people by a cookie, or lets a link vouch for them, and
//! answers in HTML.
//!
//! | what | where |
//! |---|---|
//! | who is let in, and what every page says to browsers | `gate.rs` |
//! | a signed cookie in the place of a session's table | `session.rs`, `sign_in.rs` |
//! | what a form brought, and that it was one of ours | `form.rs`, `origin.rs` |
//! | what waits, one of it or many at once, for those who signed in or hold a link | `inbox.rs`, `many.rs`, `answer.rs`, `reader.rs`, `sheet.rs` |
//! | where that comes from, and what a page shows of it | `source.rs`, `view.rs`, `words.rs`, `pretty.rs` |
//! | fields of a form from questions and their schemas, and back | `questions.rs`, `answering.rs` |
//! | one run, live | `run.rs` |
//! | pages that say no | `refusal.rs` |
//! | HTML, whose every value is escaped by the template | `../templates/` |

mod answer;
mod answering;
mod chat;
mod deciding;
mod form;
mod gate;
mod html;
mod inbox;
mod many;
mod origin;
mod pretty;
mod questions;
mod reader;
mod refusal;
mod run;
mod session;
mod sheet;
mod sign_in;
mod source;
mod standing;
mod timeline;
mod view;
mod words;

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::middleware;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get, post};

use crate::app::App;
use crate::scope::Scope;
use gate::{Does, Door, Lets};

/// Where people begin.
const HOME: &str = "/inbox";

/// Where the pages of runs are.
const RUNS: &str = "/runs/";

const STYLE: &str = include_str!("../templates/style.css");
const RUN_SCRIPT: &str = include_str!("../templates/run.js");

/// The pages, each behind its door.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let moving = |route: &'static str, does: Does, lets: Lets, handlers: MethodRouter<Arc<App>>| {
        let door = Door { app: app.clone(), lets, does, route };
        Router::new().route(route, handlers.layer(middleware::from_fn_with_state(door, gate::pass)))
    };
    let page = |route, lets, handlers| moving(route, Does::Stands, lets, handlers);
    let (answers, reads) = (Lets::SignedIn(Scope::ApprovalsRespond), Lets::SignedIn(Scope::RunsRead));
    let (resumes, holds) = (Lets::SignedIn(Scope::RunsResume), Lets::SignedIn(Scope::RunsCancel));
    Router::new()
        .merge(page("/", Lets::Anybody, get(home)))
        .merge(page("/style.css", Lets::Anybody, get(style)))
        .merge(page("/sign-in", Lets::Anybody, get(sign_in::show).post(sign_in::enter)))
        .merge(page("/sign-out", Lets::Anybody, post(sign_in::leave)))
        .merge(page("/inbox", answers, get(inbox::show)))
        .merge(page("/inbox/answers", answers, post(many::give)))
        .merge(page("/inbox/{runId}/{interruptId}", answers, get(answer::show).post(answer::give)))
        .merge(page("/answer/{token}", Lets::Holders, get(answer::show_link).post(answer::give_link)))
        .merge(page("/run.js", Lets::Anybody, get(run_script)))
        .merge(moving("/runs/{runId}", Does::Follows, reads, get(run::show)))
        .merge(moving("/runs/{runId}/events", Does::Tells, reads, get(run::follow)))
        .merge(page("/runs/{runId}/hold", holds, post(run::hold)))
        .merge(page("/runs/{runId}/release", holds, post(run::release)))
        .merge(page("/runs/{runId}/retry", resumes, post(run::retry)))
        .merge(page("/runs/{runId}/give-up", resumes, get(run::ask_give_up).post(run::give_up)))
}

async fn home() -> Redirect {
    Redirect::to(HOME)
}

async fn style() -> Response {
    file("text/css; charset=utf-8", STYLE)
}

async fn run_script() -> Response {
    file("text/javascript; charset=utf-8", RUN_SCRIPT)
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "public, max-age=300")];
    (headers, text).into_response()
}
