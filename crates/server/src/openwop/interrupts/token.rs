//! Interrupts by token. The token is the only credential: another one may be there, and is not looked at.

use std::sync::Arc;

use abide_core::{Answerer, InterruptId, Key, Run};
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::inspect::inspected;
use super::respondents::{self, Answering};
use super::{Given, ResumeWith, Way, resolve, seen};
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::idempotency::{Repeatable, once};
use crate::token::{Intent, Refused, Token, Verifier};

/// What a path says that ends with a token of ours. It is not shown to anybody, not even to the log.
pub(crate) struct Held(Token);

impl FromRequestParts<Arc<App>> for Held {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        let Ok(Path(text)) = Path::<String>::from_request_parts(parts, app).await else {
            return Err(Refused::Unknown.into());
        };
        let verifier = Verifier::new(app.keys().keyring().clone());
        Ok(Self(verifier.verify(&text, app.engine().clock().now())?))
    }
}

impl Held {
    fn names(&self) -> (Key, InterruptId) {
        (self.0.run.of(self.0.tenant), self.0.interrupt)
    }
}

/// Shows an open interrupt. It changes nothing, however often it is asked for: links are opened by machines, too.
pub(crate) async fn inspect(State(app): State<Arc<App>>, held: Held) -> Result<Response> {
    let (key, id) = held.names();
    let answers = may_answer(&app, key, id, &held.0).await?;
    let look = |run: &Run| run.check_open_interrupt(id).map(|open| inspected(run, open, &held.0, answers));
    let shown = seen(&app, key, Way::Token, look).await?;
    let private = [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    Ok((private, Json(shown)).into_response())
}

/// Whether an answer of whoever holds a token would be heard, for all that is known of them.
async fn may_answer(app: &App, key: Key, id: InterruptId, token: &Token) -> Result<bool> {
    if token.intent != Intent::Resolve {
        return Ok(false);
    }
    let look = |run: &Run| {
        let open = run.check_open_interrupt(id)?;
        Ok((open.requested.clone(), run.starters()))
    };
    let (asked, starters) = seen(app, key, Way::Token, look).await?;
    let who = Answering { tenant: token.tenant, principal: &token.sub, roles: &[] };
    match respondents::check(app, &asked, &starters, who).await {
        Ok(_) => Ok(true),
        Err(refused) if refused.status() == StatusCode::FORBIDDEN => Ok(false),
        Err(error) => Err(error),
    }
}

/// Answers an interrupt.
pub(crate) async fn answer_by_token(
    State(app): State<Arc<App>>,
    held: Held,
    Repeatable(body, ticket): Repeatable<ResumeWith>,
) -> Result<Response> {
    let (key, id) = held.names();
    if held.0.intent != Intent::Resolve {
        let message =
            "this link is good to look, not to answer; answer with a key that has approvals:respond";
        return Err(ApiError::new("forbidden", message));
    }
    // Whoever has a link speaks for whom it was made for, and for nobody else.
    let by = Answerer { principal: held.0.sub, may_act_for_others: false, ..Answerer::default() };
    let (value, roles) = (body.resume_value, Vec::new());
    let work = {
        let app = app.clone();
        move |blank| async move {
            // A token that lets answer is made only for those who may, or sent to the person it is for.
            let given = Given { key, id, value, by, roles, may_force: true, way: Way::Token };
            resolve(&app, given, blank).await
        }
    };
    // The token itself must not be kept, not even in a receipt.
    let endpoint = format!("resolveByToken {} {id}", key.id);
    once(&app, key.tenant, endpoint, ticket, StatusCode::OK, work).await
}
