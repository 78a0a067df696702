//! Request bodies: bounded, closed, and refused with the place of the mistake.

use std::fmt;
use std::time::Duration;

use abide_core::{Problem, json_from_yaml};
use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use futures_util::{FutureExt, StreamExt};
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use tokio::time::Instant;

use crate::admission::Held;
use crate::error::{ApiError, Result};
use crate::limits;
use crate::newcomer::Newcomer;

/// How long a body may take in all.
const PATIENCE: Duration = Duration::from_secs(limits::BODY_SECONDS_MAX);

/// A JSON body. An empty one stands for `{}`.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        let (parts, body) = request.into_parts();
        parse(&read_json(&parts, body).await?).map(Self)
    }
}

/// The bytes of a JSON body. An empty one stands for `{}`.
pub(crate) async fn read_json(parts: &Parts, body: Body) -> Result<Vec<u8>> {
    let bytes = read(parts, body, limits::BODY_BYTES_MAX).await?;
    Ok(if bytes.is_empty() { b"{}".to_vec() } else { bytes })
}

/// A workflow definition as it was sent.
pub(crate) struct DefinitionBody {
    bytes: Vec<u8>,
    is_yaml: bool,
}

impl DefinitionBody {
    /// How large it is.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The very bytes that were sent, or the JSON form of YAML. What can't even be read is a problem of the definition
    /// like any other.
    ///
    /// A large one takes a while, so this is for threads that nobody waits for.
    pub(crate) fn source(self) -> std::result::Result<Vec<u8>, Problem> {
        let problem = |message| Problem { place: "definition".to_owned(), message };
        if self.is_yaml {
            let text = String::from_utf8(self.bytes);
            let text = text.map_err(|error| problem(format!("it is not UTF-8: {error}")))?;
            return json_from_yaml(&text);
        }
        check_readable(&self.bytes).map_err(|reason| problem(format!("it {reason}")))?;
        Ok(self.bytes)
    }
}

impl<S: Send + Sync> FromRequest<S> for DefinitionBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        let (parts, body) = request.into_parts();
        let is_yaml = is_yaml(&parts.headers);
        let bytes = read(&parts, body, limits::DEFINITION_BYTES_MAX).await?;
        Ok(Self { bytes, is_yaml })
    }
}

fn is_yaml(headers: &HeaderMap) -> bool {
    let told = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = told.split(';').next().unwrap_or_default().trim();
    ["application/yaml", "text/yaml", "application/x-yaml", "text/x-yaml"]
        .iter()
        .any(|yaml| kind.eq_ignore_ascii_case(yaml))
}

/// Reads a body, and takes room for it as it arrives.
pub(crate) async fn read(parts: &Parts, body: Body, bytes_max: usize) -> Result<Vec<u8>> {
    let said = body.size_hint().lower();
    let newcomer = parts.extensions.get::<Newcomer>().cloned().unwrap_or_default();
    let mut incoming =
        Incoming { chunks: body.into_data_stream(), until: Instant::now() + PATIENCE, newcomer };
    if said > bytes_max as u64 {
        // Nothing is kept of it. Whoever asks first whether to send it hears no; most clients send all they have before
        // they listen, so a little too much is let pass.
        if said <= limits::DISCARD_BYTES_MAX && !parts.headers.contains_key(header::EXPECT) {
            incoming.discard().await;
        }
        return Err(too_large(bytes_max));
    }
    let held = parts.extensions.get::<Held>();
    let mut bytes = Vec::new();
    while let Some(chunk) = incoming.next().await? {
        if bytes.len() + chunk.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        if let Some(Err(busy)) = held.map(|held| held.room().take(chunk.len())) {
            drop(bytes);
            incoming.discard().await;
            return Err(busy);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// A body on its way in.
struct Incoming {
    chunks: BodyDataStream,
    until: Instant,
    newcomer: Newcomer,
}

impl Incoming {
    /// The next piece; it has to come soon, and the last one in time.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if let Some(chunk) = self.chunks.next().now_or_never() {
            return readable(chunk);
        }
        self.newcomer.greet();
        let until = self.until.min(Instant::now() + limits::BODY_PAUSE_MAX);
        match tokio::time::timeout_at(until, self.chunks.next()).await {
            Ok(chunk) => readable(chunk),
            Err(_) => {
                let (pause, all) = (limits::BODY_PAUSE_MAX.as_secs(), PATIENCE.as_secs());
                let message = format!(
                    "the body paused for {pause} seconds or did not come within {all}; send it at once"
                );
                Err(ApiError::new("request_timeout", message))
            }
        }
    }

    /// Throws the rest away, as much as may be, so that its sender gets to the answer.
    async fn discard(&mut self) {
        let mut bytes = 0;
        while let Ok(Some(chunk)) = self.next().await {
            bytes += chunk.len() as u64;
            if bytes > limits::DISCARD_BYTES_MAX {
                break;
            }
        }
    }
}

fn readable(chunk: Option<std::result::Result<Bytes, axum::Error>>) -> Result<Option<Bytes>> {
    chunk
        .transpose()
        .map_err(|error| ApiError::new("validation_error", format!("the body could not be read: {error}")))
}

fn too_large(bytes_max: usize) -> ApiError {
    let message = format!("the body is larger than {bytes_max} bytes; send less");
    ApiError::new("payload_too_large", message).with("maxBytes", bytes_max)
}

/// Reads a body, or says where it is wrong.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    check_readable(bytes)
        .map_err(|reason| ApiError::new("validation_error", format!("the body {reason}")))?;
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let place = error.path().to_string();
        let message = format!("the body is not what this endpoint takes: {}", error.inner());
        if place == "." {
            ApiError::new("validation_error", message)
        } else {
            ApiError::invalid(&place, message)
        }
    })?;
    let trailing =
        |error| ApiError::new("validation_error", format!("the body goes on after its end: {error}"));
    reader.end().map_err(trailing)?;
    Ok(parsed)
}

/// Refuses what is not an object, and what is JSON by the letter but can't be read back everywhere: a
/// number beyond all doubles, half a surrogate pair, a nesting without end.
///
/// Users' values are carried as text and looked into much later, when it would be too late to say no.
fn check_readable(bytes: &[u8]) -> std::result::Result<(), String> {
    let opens = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if opens != Some(&b'{') {
        return Err("is not a JSON object".to_owned());
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    Readable(limits::BODY_DEPTH_MAX)
        .deserialize(&mut reader)
        .map_err(|error| format!("can't be read: {error}"))
}

/// Reads a value at so many levels of nesting or fewer, and keeps nothing of it.
struct Readable(usize);

impl Readable {
    fn inside<E: de::Error>(&self) -> std::result::Result<Self, E> {
        let too_deep =
            || E::custom(format_args!("it is nested deeper than {} levels", limits::BODY_DEPTH_MAX));
        self.0.checked_sub(1).map(Self).ok_or_else(too_deep)
    }
}

impl<'de> DeserializeSeed<'de> for Readable {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Readable {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while map.next_key_seed(self.inside()?)?.is_some() {
            map.next_value_seed(self.inside()?)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<(), A::Error> {
        while seq.next_element_seed(self.inside()?)?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> std::result::Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    async fn refusal(body: Body) -> serde_json::Value {
        let request = Request::new(body);
        let refused =
            JsonBody::<serde_json::Value>::from_request(request, &()).await.err().expect("a refusal");
        let response = axum::response::IntoResponse::into_response(refused);
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    #[tokio::test]
    async fn whoever_sends_slowly_keeps_nobody_out() {
        let (threshold, newcomers) = crate::newcomer::Threshold::crowded().await;
        let mut request = Request::new(Body::from_stream(stream::pending::<std::io::Result<Vec<u8>>>()));
        request.extensions_mut().insert(newcomers[0].clone());
        tokio::select! {
            _ = JsonBody::<serde_json::Value>::from_request(request, &()) => panic!("nothing has come"),
            _ = threshold.next() => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_comes_is_not_waited_for() {
        let never = stream::pending::<std::io::Result<Vec<u8>>>();
        assert_eq!(refusal(Body::from_stream(never)).await["error"], "request_timeout");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_pauses_is_given_up_before_its_time_and_a_slow_one_is_not() {
        let began = Instant::now();
        let one = stream::once(async { Ok::<_, std::io::Error>(b"{".to_vec()) });
        let body = Body::from_stream(one.chain(stream::pending()));
        assert_eq!(refusal(body).await["error"], "request_timeout");
        assert!(began.elapsed() < PATIENCE / 2);
        let slow = stream::iter([&b"{"[..], b"\"a\"", b":1}"]).then(|piece| async move {
            tokio::time::sleep(limits::BODY_PAUSE_MAX * 9 / 10).await;
            Ok::<_, std::io::Error>(piece)
        });
        let read =
            JsonBody::<serde_json::Value>::from_request(Request::new(Body::from_stream(slow)), &()).await;
        assert_eq!(read.map(|body| body.0).ok(), Some(serde_json::json!({ "a": 1 })));
        let drip = stream::repeat(b" ").then(|piece| async move {
            tokio::time::sleep(limits::BODY_PAUSE_MAX * 9 / 10).await;
            Ok::<_, std::io::Error>(&piece[..])
        });
        assert_eq!(refusal(Body::from_stream(drip)).await["error"], "request_timeout");
    }
}
