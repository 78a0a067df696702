//! Signing in with a personal API key, and signing out.

use std::sync::Arc;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

use super::form::{Fields, Form, OwnForm};
use super::gate::{self, Visitor};
use super::html::{self, Frame};
use super::refusal::Result;
use super::session::{self, Session};
use super::{HOME, RUNS};
use crate::app::App;
use crate::auth;
use crate::error::ApiError;
use crate::scope::Scope;

/// The field that says where to go afterwards.
const NEXT: &str = "next";

#[derive(Template)]
#[template(path = "sign_in.html")]
struct Shown<'a> {
    frame: Frame,
    next: &'a str,
    problem: Option<String>,
}

/// The form.
pub(super) async fn show(RawQuery(query): RawQuery) -> Result<Response> {
    let fields = Fields::read(query.unwrap_or_default().as_bytes())?;
    Ok(shown(StatusCode::OK, landing(&fields), None))
}

/// Checks the key and begins a session.
pub(super) async fn enter(State(app): State<Arc<App>>, Form(fields): Form) -> Result<Response> {
    let next = landing(&fields);
    let key = fields.said("key").unwrap_or_default();
    let now = app.engine().clock().now();
    let known = auth::holder_of(&app, key, now).await;
    let principal = match known.and_then(|known| gate::check_scope(&known, scope_of(next)).map(|()| known)) {
        Ok(principal) => principal,
        Err(refused) => return Ok(refusal(refused, next)),
    };
    app.count(&principal)?;
    let session = Session::begin(&principal, app.keys().keyring(), now);
    Ok(([(header::SET_COOKIE, session.set(app.is_secure()))], Redirect::to(next)).into_response())
}

/// Ends the session. Whoever has none is where they want to be.
pub(super) async fn leave(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    form: Result<OwnForm>,
) -> Result<Response> {
    if Visitor::of(&app, &headers).await?.is_some() {
        form?;
    }
    Ok(([(header::SET_COOKIE, session::forget(app.is_secure()))], Redirect::to("/sign-in")).into_response())
}

fn refusal(refused: ApiError, next: &str) -> Response {
    let status = refused.status();
    let message = match refused.into_words() {
        ("unauthenticated", _) => "There is no such key. Check that you copied all of it.".to_owned(),
        ("key_expired", _) => "The time of this key is over. Use the one that took its place.".to_owned(),
        ("key_revoked", _) => "This key was revoked. Use another.".to_owned(),
        (_, message) => message,
    };
    shown(status, next, Some(message))
}

fn shown(status: StatusCode, next: &str, problem: Option<String>) -> Response {
    let frame = Frame { title: "Sign in".to_owned(), visitor: None };
    html::page(status, &Shown { frame, next, problem })
}

/// Where to sign in, to come to this page afterwards.
pub(super) fn path_to(wanted: &str) -> String {
    match local(wanted) {
        Some(wanted) if wanted != HOME => html::link("/sign-in", &[(NEXT, wanted)]),
        _ => "/sign-in".to_owned(),
    }
}

fn landing(fields: &Fields) -> &str {
    fields.get(NEXT).and_then(local).unwrap_or(HOME)
}

/// What it takes to see the page that somebody signs in for.
fn scope_of(page: &str) -> Scope {
    if page.starts_with(RUNS) { Scope::RunsRead } else { Scope::ApprovalsRespond }
}

/// A path to the inbox or to something in it, or to a run. Nothing else may be redirected to: a link that begins here must
/// not end on somebody else's page.
fn local(path: &str) -> Option<&str> {
    let inbox = || path.strip_prefix(HOME).filter(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
    let run = || path.strip_prefix(RUNS).filter(|rest| !rest.is_empty());
    let rest = inbox().or_else(run)?;
    let is_plain = rest.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') && !path.contains("/.");
    is_plain.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_in_leads_to_a_page_of_ours_alone() {
        for path in ["/inbox", "/inbox/run-1/int-2", "/inbox?kind=approval&title=a%20b", "/runs/run-1"] {
            assert_eq!(local(path), Some(path));
        }
        for path in [
            "",
            "/",
            "//evil.example",
            "https://evil.example/inbox",
            "/inboxes",
            "/inbox\\..",
            "inbox",
            "/sign-in",
            "/inbox/\r\nSet-Cookie: a",
            "/inbox/../v1",
            "/\\evil",
            "/inbox@evil",
            "/inbox/ä",
            "/runs",
            "/runs/",
            "/runs/../v1",
            "/runs/run-1/../../v1",
            "/runs//evil.example\\",
        ] {
            assert_eq!(local(path), None, "{path}");
        }
        assert_eq!(path_to("/inbox/run-1/int-2?x=1"), "/sign-in?next=%2Finbox%2Frun-1%2Fint-2%3Fx%3D1");
        assert_eq!(path_to("//evil"), "/sign-in");
    }
}
