//! What a scripted provider does with one request.

use std::time::Duration;

use abide_core::ToolCall;

use super::Speech;

/// What is done with one request.
#[derive(Clone, Debug)]
pub enum Step {
    /// It is answered as a model would.
    Say(Speech),
    /// It is answered with a status.
    Status {
        /// Which.
        status: u16,
        /// Headers beside those that every answer has.
        headers: Vec<(String, String)>,
        /// What is said with it.
        body: String,
    },
    /// It is answered with a stream of events, part by part. The stream ends in order unless a part says otherwise.
    Stream(Vec<Part>),
    /// The connection is closed before an answer.
    Close,
    /// The connection is reset before an answer.
    Reset,
    /// Nothing is done for as long as the client waits.
    Hang,
    /// Something is done after a while.
    After(Duration, Box<Step>),
    /// Something is done once [`ScriptedProvider::release`](super::ScriptedProvider::release) was called for it.
    Held(Box<Step>),
    /// Bytes in place of an answer, and then the connection is closed.
    Raw(Vec<u8>),
}

/// A part of a stream of events.
#[derive(Clone, Debug)]
pub enum Part {
    /// Text of the stream, as it is. It is sent together with what follows, up to the next part of another kind.
    Text(String),
    /// Nothing for a while.
    Pause(Duration),
    /// Nothing until it is let go.
    Held,
    /// Nothing more for as long as the client waits.
    Hang,
    /// The connection is closed in the middle.
    Cut,
    /// The connection is reset in the middle.
    Reset,
}

impl Step {
    /// A model that says this.
    pub fn answer(text: &str) -> Self {
        Self::Say(Speech::text(text))
    }

    /// A model that calls these tools.
    pub fn tool_calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self::Say(Speech::calls(calls))
    }

    /// A status, and what is said with it.
    pub fn status(status: u16, body: &str) -> Self {
        Self::Status { status, headers: Vec::new(), body: body.to_owned() }
    }

    /// What a provider says that has too much to do.
    pub fn overloaded(status: u16) -> Self {
        Self::status(status, OVERLOADED)
    }

    /// The same with a header.
    ///
    /// # Panics
    /// If it is no step with a status.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        match &mut self {
            Self::Status { headers, .. } => headers.push((name.to_owned(), value.to_owned())),
            other => panic!("{other:?} has no headers to add to"),
        }
        self
    }

    /// A stream of these texts, which ends in order.
    pub fn stream<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::Stream(texts.into_iter().map(|text| Part::Text(text.into())).collect())
    }

    /// A stream of these texts, after which something else comes.
    pub fn stream_then<T: Into<String>>(texts: impl IntoIterator<Item = T>, last: Part) -> Self {
        let texts = texts.into_iter().map(|text| Part::Text(text.into()));
        Self::Stream(texts.chain([last]).collect())
    }
}

/// As a provider was seen to say it.
const OVERLOADED: &str = r#"{"error":{"type":"overloaded_error","message":"The service is temporarily overloaded. Please retry."}}"#;
