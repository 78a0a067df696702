//! Makes one call of a model, hands out what is said as it comes, and says how it ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use abide_core::{JsonMap, ModelAnswer, ModelCall, ModelError};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, redirect, retry};
use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::endpoint::{Endpoint, Protocol};
use crate::event::{ProviderError, Thrown};
use crate::events::{Patience, ProviderEvents};
use crate::fold::{Fold, Folded};
use crate::gather::{Chunk, Gather};
use crate::judge::{emitted, is_passing};
use crate::network::{refused, root, silent, unanswered};
use crate::providers::Providers;
use crate::redact::Redact;
use crate::retry_after::retry_after_ms;
use crate::{anthropic, limits, openai};

/// Why there is no client for a provider.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client for model providers can't start: {0}; install the system's CA certificates")]
pub struct Unavailable(String);

/// Nobody wants to hear the rest of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Takes what a model says, chunk by chunk.
pub trait Sink: Send {
    /// Takes one chunk. Nothing more is handed out until it is done with, so it may be made durable first.
    fn take(&mut self, chunk: Chunk) -> impl Future<Output = Result<(), Stopped>> + Send;
}

impl<F, Taken> Sink for F
where
    F: FnMut(Chunk) -> Taken + Send,
    Taken: Future<Output = Result<(), Stopped>> + Send,
{
    fn take(&mut self, chunk: Chunk) -> impl Future<Output = Result<(), Stopped>> + Send {
        self(chunk)
    }
}

/// The clients of all providers, by name.
#[derive(Clone, Default)]
pub struct Clients(BTreeMap<String, Arc<Client>>);

impl Clients {
    /// One for each provider.
    pub fn new(providers: &Providers) -> Result<Self, Unavailable> {
        let each = providers.iter().map(|(name, provider)| {
            let client = Client::new(provider.endpoint.clone())?;
            Ok((name.to_owned(), Arc::new(client)))
        });
        each.collect::<Result<_, Unavailable>>().map(Self)
    }

    /// That of one provider.
    pub fn get(&self, provider: &str) -> Option<&Arc<Client>> {
        self.0.get(provider)
    }
}

/// Calls the models of one provider.
///
/// Connections are kept for the next call. One that the provider has closed meanwhile fails like any network does, and
/// before content that costs another try.
pub struct Client {
    endpoint: Arc<Endpoint>,
    http: reqwest::Client,
}

impl Client {
    /// A client of the provider at `endpoint`.
    pub fn new(endpoint: Arc<Endpoint>) -> Result<Self, Unavailable> {
        let http = reqwest::Client::builder()
            .user_agent(concat!("abide/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            .redirect(redirect::Policy::none())
            .referer(false)
            .retry(retry::never())
            .pool_max_idle_per_host(limits::IDLE_CONNECTIONS_MAX)
            .pool_idle_timeout(Duration::from_millis(limits::IDLE_CONNECTION_MS))
            .connect_timeout(endpoint.timeouts.connect)
            .build()
            .map_err(|error| Unavailable(root(&error)))?;
        Ok(Self { endpoint, http })
    }

    /// Where its calls go.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Makes one call: hands out what the model says, gathered into chunks, and returns all of it.
    ///
    /// Chunks that were gathered when the answer breaks off are handed out before the error is returned. To stop the
    /// call, drop it: nothing is handed out after that.
    pub async fn call(
        &self,
        key: Option<&str>,
        call: &ModelCall,
        sink: &mut impl Sink,
    ) -> Result<ModelAnswer, ModelError> {
        let mut events = self.open(key, call).await;
        let (mut fold, mut gather) = (Fold::default(), Gather::default());
        let ended = loop {
            let due = gather.due();
            let next = tokio::select! {
                biased;
                next = events.next() => Some(next.unwrap_or_else(|| Err(ended_twice()))),
                () = wait_until(due) => None,
            };
            let folded = match next {
                None => Ok(Folded::Kept),
                Some(Ok(event)) => fold.take(event),
                Some(Err(thrown)) => Err(fold.thrown(thrown)),
            };
            match folded {
                Ok(Folded::Words(kind, text)) => gather.push(kind, &text, Instant::now()),
                Ok(Folded::Kept) => {}
                Ok(Folded::Complete) => break Ok(()),
                Err(error) => break Err(error),
            }
            while let Some(chunk) = gather.ready(Instant::now()) {
                sink.take(chunk).await.map_err(|Stopped| fold.aborted())?;
                events.listen_again();
            }
        };
        for chunk in gather.rest(ended.is_ok()) {
            sink.take(chunk).await.map_err(|Stopped| fold.aborted())?;
        }
        ended.map(|()| fold.answer())
    }

    /// Makes one call, and gives what the provider says as it says it.
    pub async fn open(&self, key: Option<&str>, call: &ModelCall) -> ProviderEvents {
        let key = key.map(str::trim).filter(|key| !key.is_empty());
        let redact = Redact::new(key, &self.endpoint.headers);
        let most = call.timeout_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
        let whole = self.endpoint.timeouts.whole;
        let patience = Patience::new(self.endpoint.timeouts, most.map_or(whole, |most| most.min(whole)));
        match self.send(key, call, &patience).await {
            Err(error) => ProviderEvents::failed(error, redact),
            Ok(response) if !response.status().is_success() => {
                let error = refusal(response, &redact).await;
                ProviderEvents::failed(error, redact)
            }
            Ok(response) => match foreign(&response) {
                Some(media_type) => not_a_stream(response, &media_type, redact).await,
                None => ProviderEvents::of(response, self.endpoint.protocol, patience, redact),
            },
        }
    }

    async fn send(
        &self,
        key: Option<&str>,
        call: &ModelCall,
        patience: &Patience,
    ) -> Result<Response, ProviderError> {
        let body = self.body(call)?;
        let headers = self.headers(key, &call.idempotency_key)?;
        let request = self.http.post(self.endpoint.url.clone()).headers(headers).body(body);
        match timeout_at(patience.until(), request.send()).await {
            Err(_) => Err(silent(&self.endpoint)),
            Ok(answered) => answered.map_err(|error| unanswered(error, &self.endpoint)),
        }
    }

    fn body(&self, call: &ModelCall) -> Result<Vec<u8>, ProviderError> {
        let model = call.model.as_deref().or(self.endpoint.model.as_deref()).ok_or_else(|| {
            let provider = &call.provider;
            refused(format!(
                "no model is named: give the node a 'model', or set one in [providers.{provider}] of abide.toml"
            ))
        })?;
        let body: JsonMap = match self.endpoint.protocol {
            Protocol::Anthropic => anthropic::body(call, model),
            Protocol::OpenAi => openai::body(call, model),
        };
        let bytes = serde_json::to_vec(&body).expect("a map of JSON values serialises");
        if bytes.len() > limits::REQUEST_BYTES_MAX {
            let most = limits::REQUEST_BYTES_MAX >> 20;
            return Err(refused(format!(
                "the conversation is longer than {most} MiB: send less of it, or put the data elsewhere"
            )));
        }
        Ok(bytes)
    }

    fn headers(&self, key: Option<&str>, idempotency_key: &str) -> Result<HeaderMap, ProviderError> {
        let protocol = self.endpoint.protocol;
        let mut headers = HeaderMap::new();
        if protocol == Protocol::Anthropic {
            let (name, version) = anthropic::VERSION;
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(version));
        }
        headers.extend(self.endpoint.headers.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        // What the call is known by is ours to choose, so it fits; a provider that knows no such header passes over it.
        let known_by = HeaderValue::from_str(idempotency_key).ok().filter(|value| !value.is_empty());
        known_by.into_iter().for_each(|value| drop(headers.insert("idempotency-key", value)));
        if let Some(key) = key {
            let (name, text) = match protocol {
                Protocol::Anthropic => (HeaderName::from_static("x-api-key"), key.to_owned()),
                Protocol::OpenAi => (AUTHORIZATION, format!("Bearer {key}")),
            };
            let mut value = HeaderValue::from_str(&text).map_err(|_| {
                refused("the provider's key has characters that can't be sent: set the secret again")
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }
}

async fn wait_until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn ended_twice() -> Thrown {
    Thrown("the provider's answer ended before it was complete".to_owned())
}

/// An answer whose status is an error, in the provider's own words.
async fn refusal(mut response: Response, redact: &Redact) -> ProviderError {
    let status = response.status();
    let retry_after_ms = retry_after_ms(response.headers(), SystemTime::now());
    let (body, whole) = beginning(&mut response).await;
    let code = status.as_str().to_owned();
    let told = redact.bytes(body, !whole);
    let message = if told.is_empty() { format!("HTTP {code}") } else { format!("HTTP {code}: {told}") };
    ProviderError { message, code: Some(code), retryable: Some(is_passing(status)), retry_after_ms }
}

/// What an answer is, if it is no stream of events.
fn foreign(response: &Response) -> Option<String> {
    let text = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    let media_type = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    (media_type != "text/event-stream").then_some(media_type)
}

/// A welcome status with something else than events: an error in a gateway's wrapping, or another server altogether.
async fn not_a_stream(mut response: Response, media_type: &str, redact: Redact) -> ProviderEvents {
    let (body, whole) = beginning(&mut response).await;
    let text = redact.bytes(body, !whole);
    let told: Value = serde_json::from_str(&text).unwrap_or_default();
    if told.get("error").is_some_and(|error| !error.is_null()) {
        return ProviderEvents::failed(emitted(&text), redact);
    }
    let excerpt = &text[..text.floor_char_boundary(limits::NONSENSE_BYTES_MAX)];
    let thrown = Thrown(format!(
        "the provider answered with {media_type} instead of a stream of events; check its base-url: {excerpt}"
    ));
    ProviderEvents::thrown(thrown, redact)
}

/// The beginning of a body, and whether it is all of it. It is a courtesy, so one that breaks off is no matter.
async fn beginning(response: &mut Response) -> (Vec<u8>, bool) {
    let until = Instant::now() + Duration::from_millis(limits::ERROR_READ_MS);
    let mut body = Vec::new();
    while let Ok(Ok(next)) = timeout_at(until, response.chunk()).await {
        let Some(bytes) = next else { return (body, true) };
        let room = limits::ERROR_READ_BYTES_MAX - body.len();
        body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room {
            break;
        }
    }
    (body, false)
}
