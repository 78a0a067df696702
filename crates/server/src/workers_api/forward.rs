//! Requests of workers that have come to another server than the one they talk to: they are passed on, and so are the
//! answers, as they come.
//!
//! What is passed on says so, under a code that only servers with the same keyring can make. It is never passed on twice:
//! a server that does not know the worker says so, and the worker registers again wherever it gets through.

use std::sync::Arc;
use std::time::Duration;

use abide_core::{TenantId, hex};
use abide_engine::Home;
use abide_store::SessionId;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use super::unknown;
use crate::app::App;
use crate::auth::Principal;
use crate::body;
use crate::error::{ApiError, Result};
use crate::limits::WORKER_OPS_BYTES_MAX;
use crate::newcomer::Newcomer;
use crate::verbs;

/// Says that a request was passed on: the number of the server's start that did, and a code that proves it.
const FORWARDED: HeaderName = HeaderName::from_static("abide-forwarded");

/// What the code is made for.
const PURPOSE: &str = "forwarded-request";

/// How long it may take to reach another server: they are near each other.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// How long a connection to another server is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(15);

/// What is between two neighbours alone, and what the client makes by itself.
const NOT_PASSED_ON: [HeaderName; 9] = [
    header::CONNECTION,
    header::HOST,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// What passes requests on.
pub(crate) fn client() -> std::result::Result<reqwest::Client, String> {
    reqwest::Client::builder()
        .connect_timeout(CONNECT_PATIENCE)
        .pool_idle_timeout(IDLE)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .tcp_nodelay(true)
        .build()
        .map_err(|error| error.to_string())
}

/// Passes a request on if the worker in its path talks to another server, or lets it through.
pub(crate) async fn pass(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let found = match whose(&app, &request) {
        Some((tenant, session)) => app.engine().home_of(tenant, session).await,
        None => Ok(None),
    };
    let passed = match found {
        Ok(None) => return next.run(request).await,
        Ok(Some(home)) => forward(&app, &home, request).await,
        Err(error) => Err(error.into()),
    };
    passed.unwrap_or_else(ApiError::into_response)
}

/// The worker that a request is about, if it may talk to another server.
fn whose(app: &App, request: &Request) -> Option<(TenantId, SessionId)> {
    let is_ours = app.engine().number_among_servers().is_none() || request.headers().contains_key(FORWARDED);
    let principal = request.extensions().get::<Principal>().filter(|_| !is_ours)?;
    let session = session_in(request)?;
    (!app.engine().is_here(principal.tenant, session)).then_some((principal.tenant, session))
}

/// The session that a path is about: `/v1/workers/{session}` and what follows.
fn session_in(request: &Request) -> Option<SessionId> {
    request.uri().path().split('/').nth(3)?.parse().ok()
}

async fn forward(app: &Arc<App>, home: &Home, request: Request) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let bytes = body::read(&parts, body, WORKER_OPS_BYTES_MAX).await?;
    if let Some(newcomer) = parts.extensions.get::<Newcomer>() {
        // From here on it is another server that the answer waits for.
        newcomer.greet();
    }
    let client = app.forwarder().map_err(|error| ApiError::internal(error))?;
    let asked = client
        .request(parts.method.clone(), address(home, &parts))
        .headers(headers_of(app, &parts.headers)?)
        .body(bytes)
        .send();
    let answered = tokio::select! {
        answered = asked => answered.map_err(|error| unreachable(home, &error))?,
        () = app.engine().until_gone(home.boot) => return Err(unknown()),
        () = app.stopped() => {
            let message = "the server is shutting down; try again at another or later";
            return Err(ApiError::new("unavailable", message));
        }
    };
    Ok(passed_back(app.clone(), home.boot, answered))
}

fn address(home: &Home, parts: &Parts) -> String {
    let query = parts.uri.query().map_or_else(String::new, |query| format!("?{query}"));
    format!("{}{}{query}", home.url.trim_end_matches('/'), verbs::as_sent(parts.uri.path()))
}

fn unreachable(home: &Home, error: &reqwest::Error) -> ApiError {
    tracing::warn!(server = home.boot, url = home.url, %error, "the server that a worker talks to can't be reached");
    let message = format!(
        "the server that this worker talks to can't be reached from here right now; try again. If that lasts, check that \
         {} is its address for other servers (--advertise)",
        home.url
    );
    ApiError::new("unavailable", message)
}

/// The headers that are passed on, and the one that says so.
fn headers_of(app: &App, sent: &HeaderMap) -> Result<HeaderMap> {
    let mut headers: HeaderMap = sent.clone();
    NOT_PASSED_ON.iter().for_each(|name| drop(headers.remove(name)));
    let boot = app.engine().number_among_servers().unwrap_or_default();
    let code = hex(&app.keys().keyring().mac(PURPOSE, &proven(boot, sent)));
    let value = HeaderValue::from_str(&format!("{boot} {code}"));
    headers.insert(FORWARDED, value.map_err(|error| ApiError::internal(&error))?);
    Ok(headers)
}

/// What the code stands for: who passes it on, and for whom.
fn proven(boot: u64, headers: &HeaderMap) -> Vec<u8> {
    let caller = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    [&boot.to_be_bytes(), caller].concat()
}

/// Whether another server has passed a request on.
pub(crate) fn is_passed_on(app: &App, headers: &HeaderMap) -> bool {
    let proof = || {
        let (boot, code) = headers.get(FORWARDED)?.to_str().ok()?.split_once(' ')?;
        let (boot, code) = (boot.parse().ok()?, unhex(code)?);
        Some(app.keys().keyring().verify(PURPOSE, &proven(boot, headers), &code))
    };
    proof().unwrap_or(false)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let pair = |pair: &[u8]| u8::try_from(digit(*pair.first()?)? * 16 + digit(*pair.get(1)?)?).ok();
    text.as_bytes().chunks(2).map(pair).collect()
}

/// An answer, as it comes. It ends with the server that gives it, and with this one.
fn passed_back(app: Arc<App>, home: u64, answered: reqwest::Response) -> Response {
    let (status, mut headers) = (answered.status(), answered.headers().clone());
    NOT_PASSED_ON
        .iter()
        .filter(|name| **name != header::CONTENT_LENGTH)
        .for_each(|name| drop(headers.remove(name)));
    let pieces = stream::unfold(Some(answered), move |answered| {
        let app = app.clone();
        async move {
            let mut answered = answered?;
            let piece = tokio::select! {
                piece = answered.chunk() => piece.map_err(axum::Error::new).transpose()?,
                () = app.engine().until_gone(home) => return None,
                () = app.stopped() => return None,
            };
            let rest = piece.is_ok().then_some(answered);
            Some((piece, rest))
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_passed_on_as_it_was_sent() {
        let home = Home { boot: 7, url: "http://10.0.0.7:8080/".to_owned() };
        let sent_to = |path: &str| {
            let request = Request::builder().uri(path).body(Body::empty()).unwrap();
            address(&home, &request.into_parts().0)
        };
        assert_eq!(sent_to("/v1/workers/a/~poll"), "http://10.0.0.7:8080/v1/workers/a:poll");
        assert_eq!(
            sent_to("/v1/workers/a/tasks/b/history?after=3"),
            "http://10.0.0.7:8080/v1/workers/a/tasks/b/history?after=3"
        );
    }

    #[test]
    fn the_session_is_found_in_every_path_of_a_worker() {
        let id = "0f8fad5b-d9cb-469f-a165-70867728950e";
        for rest in ["", "/~poll", "/stream", "/ops", "/tasks/ab/history?after=1"] {
            let request =
                Request::builder().uri(format!("/v1/workers/{id}{rest}")).body(Body::empty()).unwrap();
            assert_eq!(
                session_in(&request).map(|session| session.to_string()).as_deref(),
                Some(id),
                "{rest}"
            );
        }
    }
}
