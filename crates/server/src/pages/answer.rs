//! One interrupt: what is asked, a form to answer it, and what came of that.
//!
//! Those who signed in and those who hold a link see the same page. Looking changes nothing, however often: links are
//! opened by machines, too.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};

use super::answering::reasons;
use super::form::{Fields, LinkForm, OwnForm};
use super::gate::Visitor;
use super::html;
use super::reader::{Holder, Link, Reader, unknown};
use super::refusal::Result;
use super::sheet::{Closed, Open};
use super::view::{Asked, Closing};
use super::{source, words};
use crate::app::App;
use crate::error::ApiError;

/// The path of the page for those who signed in.
type Which = Path<(String, String)>;

/// What is asked, or what was answered.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    Path((run, id)): Which,
) -> Result<Response> {
    shown(&app, &Reader::signed_in(visitor, &run, &id)?).await
}

/// Takes an answer. What came of it is on the page that follows.
pub(super) async fn give(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    Path((run, id)): Which,
    OwnForm(fields): OwnForm,
) -> Result<Response> {
    given(&app, &Reader::signed_in(visitor, &run, &id)?, &fields).await
}

/// What is asked, for whoever holds a link.
pub(super) async fn show_link(State(app): State<Arc<App>>, Holder(reader): Holder) -> Result<Response> {
    shown(&app, &reader).await
}

/// Takes an answer from whoever holds a link.
pub(super) async fn give_link(
    State(app): State<Arc<App>>,
    Holder(reader): Holder,
    LinkForm(fields): LinkForm,
) -> Result<Response> {
    if let Some(Link { answers: false, .. }) = reader.link() {
        let message = "This link is good to look, not to answer. Sign in to answer.";
        return Err(ApiError::new("forbidden", message).into());
    }
    given(&app, &reader, &fields).await
}

async fn shown(app: &App, reader: &Reader) -> Result<Response> {
    let asked = found(app, reader).await?;
    if let Some(closing) = &asked.closing {
        let status = if is_over(reader) { StatusCode::GONE } else { StatusCode::OK };
        return closed(app, reader, (status, false), (&asked, closing)).await;
    }
    check_time(reader)?;
    Ok(html::page(StatusCode::OK, &Open::of(app, reader, &asked).await?))
}

async fn given(app: &App, reader: &Reader, fields: &Fields) -> Result<Response> {
    let asked = found(app, reader).await?;
    if let (Some(closing), Some(_)) = (&asked.closing, reader.link()) {
        return closed(app, reader, (StatusCode::CONFLICT, true), (&asked, closing)).await;
    }
    check_time(reader)?;
    if fields.get("action") == Some("reply") {
        return replied(app, reader, &asked, fields).await;
    }
    let mut page = Open::of(app, reader, &asked).await?;
    page.fields = Some(fields);
    let value = match page.answering.read(fields) {
        Ok(value) => value,
        Err(problems) => {
            page.problems = problems;
            return Ok(html::page(StatusCode::BAD_REQUEST, &page));
        }
    };
    let Err(refused) = source::resolve(app, reader.gives(value)).await else {
        return Ok(Redirect::to(&reader.place()).into_response());
    };
    let status = refused.status();
    let now_is = found(app, reader).await?;
    if let Some(closing) = &now_is.closing {
        return closed(app, reader, (status, true), (&now_is, closing)).await;
    }
    if status.is_server_error() {
        return Err(refused.into());
    }
    (page.problems, page.refused) = reasons(refused);
    Ok(html::page(status, &page))
}

/// Tells those who decide what they wanted to know. A link is for those who decide.
async fn replied(app: &App, reader: &Reader, asked: &Asked, fields: &Fields) -> Result<Response> {
    if reader.link().is_some() {
        return Err(ApiError::new("forbidden", "This is not replied to by a link. Sign in to reply.").into());
    }
    let telling = reader.tells(&asked.node, fields.get("ask"), fields.said("reply"));
    let told = match fields.said("reply") {
        Some(_) => source::reply(app, telling).await.map(drop),
        None => {
            Err(ApiError::new("validation_error", "Say something: an empty reply tells nobody anything."))
        }
    };
    if let Err(refused) = told {
        let status = refused.status();
        if status.is_server_error() {
            return Err(refused.into());
        }
        let mut page = Open::of(app, reader, asked).await?;
        page.refused = reasons(refused).1;
        return Ok(html::page(status, &page));
    }
    Ok(Redirect::to(&reader.place()).into_response())
}

/// What a reader came to. A link tells nothing about what is not there.
async fn found(app: &App, reader: &Reader) -> crate::error::Result<Asked> {
    let found = source::find(app, reader.key, reader.id).await;
    match (found, reader.link()) {
        (Err(refused), Some(_)) if refused.status() == StatusCode::NOT_FOUND => Err(unknown()),
        (found, _) => found,
    }
}

fn is_over(reader: &Reader) -> bool {
    reader.link().is_some_and(|link| link.is_over)
}

/// Whether a link still works for what is open.
fn check_time(reader: &Reader) -> crate::error::Result<()> {
    match reader.link() {
        Some(link) if link.is_over => {
            let until = words::moment(link.expires_at);
            let message = format!("This link worked until {until}. Ask for a new one, or sign in to answer.");
            Err(ApiError::new("interrupt_expired", message))
        }
        _ => Ok(()),
    }
}

/// The page of what is closed; `late` for those who tried to answer it.
async fn closed(
    app: &App,
    reader: &Reader,
    (status, late): (StatusCode, bool),
    closing: (&Asked, &Closing),
) -> Result<Response> {
    Ok(html::page(status, &Closed::of(app, reader, late, closing).await?))
}
