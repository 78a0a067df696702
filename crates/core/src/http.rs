//! A request that a node makes to another system, and how an attempt at it may end.
//!
//! These are descriptions only. Values of secrets never stand in them, so they may be stored and printed;
//! whoever sends the request looks the values up.

use crate::Failure;
use crate::template::Piece;

/// One attempt at one request, as the node asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS.
    pub method: String,
    /// The address. A secret in it is put in as it is.
    pub url: Vec<Piece>,
    /// Names and values, in order. A name may stand twice.
    pub headers: Vec<(String, Vec<Piece>)>,
    /// What is sent along.
    pub body: Option<HttpBody>,
    /// How long the attempt may take, redirects and the answer's body included.
    pub timeout_ms: i64,
    /// Bytes of the answer's body that are taken in; a longer one is a failure.
    pub response_bytes_max: usize,
    /// Statuses that count as success besides 2xx.
    pub accept_statuses: Vec<u16>,
    /// How many redirects are followed.
    pub redirects_max: u8,
    /// Sent as `Idempotency-Key` with methods that change something: the same for every attempt.
    pub idempotency_key: String,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpBody {
    /// Its media type, unless the headers name another.
    pub content_type: String,
    /// The text.
    pub pieces: Vec<Piece>,
}

/// How an attempt at a task failed, as far as can be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFailure {
    /// What is told to people and programs.
    pub failure: Failure,
    /// Whether another attempt could end better.
    pub retryable: bool,
    /// Whether the other side may have heard of the attempt.
    pub reached: Reached,
}

/// Whether an attempt reached the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Provably nothing reached it.
    No,
    /// It may have, and may have acted on it.
    Maybe,
}
