//! Who asks, which version they have seen, and what they sent.
//!
//! `X-Agent-ID` says in whose name something is done; the key says who is let in. A body may hold more than is asked for,
//! as OpenIntent's clients send more; what is asked for and is of another type is refused with 422, as they expect.

use std::sync::Arc;

use abide_core::Actor;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode, header};
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::auth::Principal;
use crate::body;
use crate::error::{ApiError, Result};

/// In whose name something is done.
const X_AGENT_ID: HeaderName = HeaderName::from_static("x-agent-id");

/// Whoever asks: an agent that the key speaks for, or whoever has the key.
pub(crate) struct Asking(pub(crate) Actor);

impl<S: Send + Sync> FromRequestParts<S> for Asking {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let principal = Principal::from_request_parts(parts, state).await?;
        let named = parts.headers.get(X_AGENT_ID).map(|value| value.to_str()).transpose();
        // Whoever is not understood must not pass for whoever has the key.
        let named = named.map_err(|_| unreadable_agent())?.map(str::trim);
        let agent = named.filter(|agent| !agent.is_empty()).unwrap_or(&principal.name).to_owned();
        Ok(Self(Actor { agent, principal: Some(principal.name) }))
    }
}

fn unreadable_agent() -> ApiError {
    let message = "X-Agent-ID is an agent's name in ASCII letters, digits and signs, such as reviewer-1";
    ApiError::invalid("X-Agent-ID", message).under(StatusCode::UNPROCESSABLE_ENTITY)
}

/// What a path names. What is not even text names nothing.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        let nothing = |_| ApiError::new("not_found", "there is nothing here: what the path names is no text");
        path.map(|axum::extract::Path(path)| Self(path)).map_err(nothing)
    }
}

/// The version that whoever asks has seen, as a bare number or in quotes.
pub(crate) fn if_match(parts: &Parts) -> Option<u64> {
    let text = parts.headers.get(header::IF_MATCH)?.to_str().ok()?.trim();
    let text = text.strip_prefix("W/").unwrap_or(text);
    text.trim_matches('"').parse().ok()
}

fn lacks_version(status: StatusCode) -> ApiError {
    let message = "If-Match header required: send the version that you have seen, such as If-Match: 3";
    ApiError::invalid("If-Match", message).under(status)
}

/// The version of an intent that whoever asks has seen.
pub(crate) struct Seen(pub(crate) u64);

impl<S: Send + Sync> FromRequestParts<S> for Seen {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        if_match(parts).map(Self).ok_or_else(|| lacks_version(StatusCode::BAD_REQUEST))
    }
}

/// The version of a task or a plan that whoever asks has seen: those without one are told so in another way.
pub(crate) struct SeenPart(pub(crate) u64);

impl<S: Send + Sync> FromRequestParts<S> for SeenPart {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        if_match(parts).map(Self).ok_or_else(|| lacks_version(StatusCode::PRECONDITION_REQUIRED))
    }
}

/// A JSON object, or none for an empty one.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Self> {
        let (parts, body) = request.into_parts();
        let bytes = body::read_json(&parts, body).await?;
        let unfit = |error: ApiError| {
            if error.is_invalid() { error.under(StatusCode::UNPROCESSABLE_ENTITY) } else { error }
        };
        body::parse(&bytes).map(Self).map_err(unfit)
    }
}

/// A query, in which more may stand than is asked for.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        query.map(|axum::extract::Query(query)| Self(query)).map_err(|error| {
            ApiError::new("validation_error", error.body_text()).under(StatusCode::UNPROCESSABLE_ENTITY)
        })
    }
}
