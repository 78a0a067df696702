//! Calls of models over real HTTP, to a provider that plays a script.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected stops there")]

mod body;
mod content;
mod emitted;
mod key;
mod reading;
mod thrown;

use std::sync::Arc;
use std::time::Duration;

use abide_core::{ErrorKind, Json, Message, ModelAnswer, ModelCall, ModelError};
use abide_model::scripted::{ScriptedProvider, Step};
use abide_model::{Chunk, Client, Endpoint, Protocol, Stopped, Timeouts};

/// The key that is sent, and must not come back.
const KEY: &str = "planted/key-0815";

/// A question to nobody in particular.
fn question() -> ModelCall {
    ModelCall {
        provider: "scripted".to_owned(),
        model: None,
        messages: vec![Message::User { content: Json::of("why?") }],
        tools: Vec::new(),
        max_tokens: None,
        temperature: None,
        params: Default::default(),
        timeout_ms: None,
        sensitive: false,
        cut_off: false,
        mock: None,
        idempotency_key: "call-1".to_owned(),
    }
}

/// What became of a call.
#[derive(Debug)]
struct Outcome {
    answer: Result<ModelAnswer, ModelError>,
    chunks: Vec<Chunk>,
}

impl Outcome {
    fn error(self) -> ModelError {
        self.answer.expect_err("the call fails")
    }

    fn answer(self) -> ModelAnswer {
        self.answer.expect("the call succeeds")
    }

    /// All that was handed out, joined.
    fn text(&self) -> String {
        self.chunks.iter().map(|chunk| chunk.text.as_str()).collect()
    }
}

/// Makes one call.
async fn call(endpoint: Endpoint, key: Option<&str>, call: &ModelCall) -> Outcome {
    let client = Client::new(Arc::new(endpoint)).unwrap();
    let mut chunks = Vec::new();
    let mut sink = |chunk| {
        chunks.push(chunk);
        std::future::ready(Ok::<(), Stopped>(()))
    };
    let answer = client.call(key, call, &mut sink).await;
    Outcome { answer, chunks }
}

/// Asks a question of a provider that does this.
async fn asked(protocol: Protocol, step: Step) -> Outcome {
    let provider = ScriptedProvider::start();
    provider.script([step]);
    let outcome = call(provider.endpoint(protocol), Some(KEY), &question()).await;
    assert_eq!(provider.count(), 1, "a call is one request");
    outcome
}

/// The same of a provider that is waited for no longer than these.
async fn asked_within(protocol: Protocol, step: Step, timeouts: Timeouts) -> Outcome {
    let provider = ScriptedProvider::start();
    provider.script([step]);
    call(Endpoint { timeouts, ..provider.endpoint(protocol) }, Some(KEY), &question()).await
}

/// Enough for a provider that will never say anything.
const SOON: Duration = Duration::from_millis(50);

/// An error that the provider told, and whether it could pass.
fn emitted(retryable: impl Into<Option<bool>>) -> ErrorKind {
    ErrorKind::Emitted { retryable: retryable.into() }
}
