//! Requests that may be repeated: under one `Idempotency-Key` a thing is done once, and answered alike ever after.
//!
//! There is no row for a request that is under way. What was answered is kept by the very commit that does it, so it
//! stands exactly if the thing was done; [`once`] finds it there. Two requests with one key on this server wait for
//! each other; on two servers, the commit of one of them finds the receipt of the other and writes nothing.
//!
//! Only what was done is kept. A refusal changed nothing, so the same request is decided again.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_core::TenantId;
use abide_engine::trace;
use abide_store::Receipt;
use axum::extract::{FromRequest, Request};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;
use tracing::Instrument;

use crate::admission::Held;
use crate::app::App;
use crate::auth::Principal;
use crate::body;
use crate::error::{ApiError, Result};
use crate::limits;

const KEY: &str = "Idempotency-Key";
const REPLAY: HeaderName = HeaderName::from_static("openwop-idempotent-replay");

/// A JSON body, and the key under which the request may be repeated.
pub(crate) struct Repeatable<T>(pub(crate) T, pub(crate) Ticket);

/// The key of a request and what tells it from others, if it has a key at all. Both are MACs: nobody learns the key
/// from a receipt, or what was asked.
///
/// What the request takes up at the gate goes along, because the work may outlast the connection.
#[derive(Clone)]
pub(crate) struct Ticket(Option<Marks>, Option<Held>);

#[derive(Clone, Copy, Debug)]
struct Marks {
    key: [u8; 32],
    digest: [u8; 32],
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Repeatable<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        let (parts, body) = request.into_parts();
        let key = key_of(&parts.headers)?;
        let bytes = body::read_json(&parts, body).await?;
        let parsed = body::parse(&bytes)?;
        let marks = key.map(|key| {
            let keyring = app.keys().keyring();
            let alone = parts.headers.get("x-dedup").map_or(&b""[..], HeaderValue::as_bytes);
            // Two people who say the same under one key have said two things.
            let by = parts.extensions.get::<Principal>().map_or("", |principal| &principal.name);
            let asked = canonical((parts.method.as_str(), asked_of(&parts.uri), by), alone, &bytes);
            Marks {
                key: keyring.lasting_mac("idempotency", key.as_bytes()),
                digest: keyring.lasting_mac("idempotent-request", &asked),
            }
        });
        Ok(Self(parsed, Ticket(marks, parts.extensions.get::<Held>().cloned())))
    }
}

fn key_of(headers: &HeaderMap) -> Result<Option<String>> {
    let mut sent = headers.get_all(KEY).iter();
    let Some(first) = sent.next() else { return Ok(None) };
    let is_key = |bytes: &[u8]| {
        (1..=limits::IDEMPOTENCY_KEY_CHARS_MAX).contains(&bytes.len())
            && bytes.iter().all(u8::is_ascii_graphic)
    };
    let key = Some(first.as_bytes()).filter(|bytes| sent.next().is_none() && is_key(bytes));
    let key = key.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()).ok_or_else(|| {
        let most = limits::IDEMPOTENCY_KEY_CHARS_MAX;
        let message = format!("'{KEY}' is sent once and has 1 to {most} visible ASCII characters, no spaces");
        ApiError::invalid(KEY, message)
    })?;
    Ok(Some(key))
}

/// What is asked of: a query is part of it.
fn asked_of(uri: &Uri) -> &str {
    uri.path_and_query().map_or_else(|| uri.path(), PathAndQuery::as_str)
}

/// What is asked, whatever the order of its keys and the space between them.
///
/// Whether a run shall be alone is told by a header, and is part of what is asked all the same.
fn canonical((method, path, by): (&str, &str, &str), alone: &[u8], body: &[u8]) -> Vec<u8> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let mut asked = format!("{method}\n{path}\n{}\n", Value::from(by)).into_bytes();
    asked.extend(alone);
    asked.push(b'\n');
    write_sorted(&body, &mut asked);
    asked
}

/// Whether maps keep their order depends on how serde_json was built, so it is not relied on.
fn write_sorted(value: &Value, to: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(name, _)| *name);
            to.push(b'{');
            for (name, value) in entries {
                to.extend(Value::from(name.as_str()).to_string().into_bytes());
                to.push(b':');
                write_sorted(value, to);
                to.push(b',');
            }
            to.push(b'}');
        }
        Value::Array(items) => {
            to.push(b'[');
            for item in items {
                write_sorted(item, to);
                to.push(b',');
            }
            to.push(b']');
        }
        plain => to.extend(plain.to_string().into_bytes()),
    }
}

/// Does something once for each key, and answers with what it gives.
///
/// `endpoint` is the operation's id and, if its path names a run, that: a key is good for one of them. `work` gets the
/// receipt to be written in the same transaction as what it does, without its body and its time; it is `None` if there
/// is no key. It gives the JSON that is answered, and what it wrote into the receipt must be the same bytes. Work that
/// writes in several transactions hands them to [`keep`] at its end.
///
/// With a key, it goes on even if the caller goes away.
pub(crate) async fn once<W, F>(
    app: &Arc<App>,
    tenant: TenantId,
    endpoint: String,
    ticket: Ticket,
    status: StatusCode,
    work: W,
) -> Result<Response>
where
    W: FnOnce(Option<Receipt>) -> F + Send + 'static,
    F: Future<Output = Result<Vec<u8>>> + Send + 'static,
{
    let Ticket(Some(Marks { key, digest }), held) = ticket else {
        return work(None).await.map(|body| answer(status, body));
    };
    let blank = Receipt { tenant, endpoint, key, digest, status: status.as_u16(), body: Vec::new(), at: 0 };
    let app = app.clone();
    let all = async move {
        let _held = held;
        let id = (tenant, blank.endpoint.clone(), key);
        let _slot = app.slots().enter(id, limits::IDEMPOTENCY_WAIT).await.ok_or_else(in_flight)?;
        if let Some(found) = kept(&app, &blank).await? {
            return replay(&blank, found);
        }
        match work(Some(blank.clone())).await {
            Ok(body) => Ok(marked(answer(status, body), false)),
            // It was done, and came to nothing: what was kept would say otherwise for ever.
            Err(undone) if undone.undoes() => {
                app.engine().store().drop_receipt(blank.tenant, blank.endpoint, blank.key).await?;
                Err(undone)
            }
            // Another server may have done it meanwhile, which is why this one could not.
            Err(refused) => match kept(&app, &blank).await? {
                Some(found) => replay(&blank, found),
                None => Err(refused),
            },
        }
    };
    let all = trace::carried(trace::current(), all);
    let done = tokio::spawn(all.in_current_span()).await;
    done.unwrap_or_else(|error| Err(ApiError::internal(&error)))
}

/// Keeps what is answered, if the request may be repeated: for work that is not one transaction, at its end. Such work
/// must be as good twice as once, because a crash before this leaves no receipt.
pub(crate) async fn keep(app: &App, blank: Option<Receipt>, body: Vec<u8>) -> Result<Vec<u8>> {
    let Some(receipt) = blank else { return Ok(body) };
    let at = app.engine().clock().now();
    let is_first = app.engine().store().put_receipt(Receipt { body: body.clone(), at, ..receipt }).await?;
    if is_first { Ok(body) } else { Err(abide_store::Error::Receipted.into()) }
}

async fn kept(app: &App, blank: &Receipt) -> Result<Option<Receipt>> {
    Ok(app.engine().store().receipt(blank.tenant, blank.endpoint.clone(), blank.key).await?)
}

fn replay(asked: &Receipt, found: Receipt) -> Result<Response> {
    if found.digest != asked.digest {
        let message = format!("this {KEY} was used for another request; use a new key for a new request");
        return Err(ApiError::new("idempotency_key_mismatch", message));
    }
    let status = StatusCode::from_u16(found.status).map_err(|error| ApiError::internal(&error))?;
    Ok(marked(answer(status, found.body), true))
}

fn answer(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn marked(mut response: Response, is_replay: bool) -> Response {
    let value = if is_replay { "true" } else { "false" };
    response.headers_mut().insert(REPLAY, HeaderValue::from_static(value));
    response
}

/// The same request is being carried out.
pub(crate) fn in_flight() -> ApiError {
    let message =
        "a request with this Idempotency-Key is under way; repeat it after details.retryAfter seconds";
    ApiError::new("idempotency_in_flight", message).with("retryAfter", limits::IDEMPOTENCY_RETRY_SECONDS)
}

/// The keys of requests that are under way on this server, so that a second one waits for the first.
#[derive(Default)]
pub(crate) struct Slots {
    taken: Mutex<HashMap<SlotId, Arc<tokio::sync::Mutex<()>>>>,
}

type SlotId = (TenantId, String, [u8; 32]);

/// A place in the line for one key. Whoever leaves last takes the line away.
struct Slot<'a> {
    slots: &'a Slots,
    id: SlotId,
    line: Option<Arc<tokio::sync::Mutex<()>>>,
    turn: Option<OwnedMutexGuard<()>>,
}

impl Slots {
    /// Waits for the others with this key; `None` if that takes too long.
    async fn enter(&self, id: SlotId, patience: Duration) -> Option<Slot<'_>> {
        let line = self.lock().entry(id.clone()).or_default().clone();
        let mut slot = Slot { slots: self, id, line: Some(line.clone()), turn: None };
        slot.turn = Some(tokio::time::timeout(patience, line.lock_owned()).await.ok()?);
        Some(slot)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SlotId, Arc<tokio::sync::Mutex<()>>>> {
        self.taken.lock().expect("no thread panics holding this")
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.turn = None;
        let mut taken = self.slots.lock();
        // Let go of under the lock, so that of two who leave at once the second one sees that it is the last.
        self.line = None;
        if taken.get(&self.id).is_some_and(|line| Arc::strong_count(line) == 1) {
            taken.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn id(byte: u8) -> SlotId {
        (TenantId(1), "createRun".to_owned(), [byte; 32])
    }

    #[tokio::test]
    async fn a_second_request_waits_for_the_first_and_no_longer_than_it_may() {
        let slots = Slots::default();
        let first = slots.enter(id(1), Duration::ZERO).await.unwrap();
        assert!(slots.enter(id(1), Duration::ZERO).await.is_none());
        assert!(slots.enter(id(2), Duration::ZERO).await.is_some(), "another key is another line");
        let second = slots.enter(id(1), Duration::from_secs(60));
        tokio::pin!(second);
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        let second = second.await.unwrap();
        assert_eq!(slots.lock().len(), 1);
        drop(second);
        assert_eq!(slots.lock().len(), 0, "nothing is left of a line that is empty");
    }

    #[tokio::test]
    async fn whoever_gives_up_leaves_nothing_behind() {
        let slots = Slots::default();
        let first = slots.enter(id(1), Duration::ZERO).await.unwrap();
        {
            let gone = slots.enter(id(1), Duration::from_secs(60));
            tokio::pin!(gone);
            assert!((&mut gone).now_or_never().is_none());
            drop(first);
        }
        assert_eq!(slots.lock().len(), 0);
    }

    #[test]
    fn order_and_space_make_no_other_request() {
        let one = canonical(
            ("POST", "/v1/runs", "ann"),
            b"",
            br#"{"a": {"y": [1, 2.50], "x": "\u0041"}, "b": null}"#,
        );
        let same = canonical(("POST", "/v1/runs", "ann"), b"", br#" {"b":null,"a":{"x":"A","y":[1,2.5]}} "#);
        assert_eq!(one, same);
        let others = [
            canonical(("POST", "/v1/runs", "ann"), b"", br#"{"a": {"y": [2.5, 1], "x": "A"}, "b": null}"#),
            canonical(("POST", "/v1/runs/x", "ann"), b"", br#"{"a": {"y": [1, 2.5], "x": "A"}, "b": null}"#),
            canonical(("POST", "/v1/runs", "bob"), b"", br#"{"a": {"y": [1, 2.5], "x": "A"}, "b": null}"#),
            canonical(("PUT", "/v1/runs", "ann"), b"", br#"{"a": {"y": [1, 2.5], "x": "A"}, "b": null}"#),
            canonical(("POST", "/v1/runs", "ann"), b"", br#"{"a": {"y": [1, 2.5], "x": "A"}}"#),
            canonical(
                ("POST", "/v1/runs", "ann"),
                b"enforce",
                br#"{"a": {"y": [1, 2.5], "x": "A"}, "b": null}"#,
            ),
        ];
        assert!(others.iter().all(|other| *other != one));
    }

    #[test]
    fn a_key_is_short_visible_and_sent_once() {
        let with = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(KEY, HeaderValue::from_bytes(value).unwrap());
            }
            key_of(&headers)
        };
        assert_eq!(with(&[]).unwrap(), None);
        assert_eq!(with(&[b"order-7"]).unwrap().as_deref(), Some("order-7"));
        assert!(with(&[&[b'k'; 255]]).is_ok());
        for wrong in [&[&b""[..]][..], &[&[b'k'; 256]], &[b"a b"], &["ä".as_bytes()], &[b"a", b"b"]] {
            assert!(with(wrong).unwrap_err().is_invalid(), "{wrong:?}");
        }
    }
}
