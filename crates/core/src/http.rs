//! A request that a node makes to another system, and how an attempt at it may end.
//!
//! These are descriptions only. Values of secrets never stand in them, so they may be stored and printed;
//! whoever sends the request looks the values up.

use crate::template::Piece;
use crate::{Failure, InterruptionClass};

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
    /// Whether values stand in it that are never shown. Such a request is not sent on to another server.
    pub sensitive: bool,
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
    /// What it counts as if it interrupts the run.
    pub class: InterruptionClass,
}

/// Whether an attempt reached the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Provably nothing reached it.
    No,
    /// It may have, and may have acted on it.
    Maybe,
}

/// Headers that say how a message is framed or where it goes. They are the client's to set, as are all that begin
/// with `proxy-`.
const FRAMING: [&str; 7] =
    ["connection", "content-length", "host", "te", "trailer", "transfer-encoding", "upgrade"];

/// What keeps a header of this name from being sent, and what to do about it.
pub fn header_problem(name: &str) -> Option<&'static str> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let small = name.to_ascii_lowercase();
    if name.is_empty() || !name.bytes().all(token) {
        Some("a header's name has letters, digits and '-' only; templates may stand in values")
    } else if small == "idempotency-key" {
        Some("Abide sends its own; remove it")
    } else if FRAMING.contains(&small.as_str()) || small.starts_with("proxy-") {
        Some("the client sets it; remove it")
    } else {
        None
    }
}

/// What is said of a secret in the place of a host.
pub const SECRET_IN_HOST: &str = "a secret can't stand in the host: hosts are looked up and logged in clear; write the URL's beginning up to the path into the template, and use secrets after it, or in a header";

/// Whether a URL that begins so has not come to its path, its query or its fragment yet.
pub fn ends_before_path(beginning: &str) -> bool {
    // However many slashes follow the scheme, the host comes after them.
    let rest = match beginning.split_once(':') {
        Some((_, rest)) => rest.trim_start_matches(['/', '\\']),
        None => beginning,
    };
    !rest.contains(['/', '?', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_ends_where_the_path_begins() {
        for host in
            ["", "http", "http:", "http:/", "https://", "https:///", "https://u:", "https://a.example:80"]
        {
            assert!(ends_before_path(host), "{host}");
        }
        for path in ["https://a/", "https://a:80/x", "https://a?", "https://a#", "http:/a/b", "x/y"] {
            assert!(!ends_before_path(path), "{path}");
        }
    }

    #[test]
    fn headers_that_the_client_sets_are_refused_in_any_case() {
        for name in [
            "",
            "X A",
            "X-{{ inputs.a }}",
            "é",
            "a:b",
            "HOST",
            "Te",
            "Proxy-Authorization",
            "idempotency-KEY",
        ] {
            assert!(header_problem(name).is_some(), "{name}");
        }
        for name in ["Authorization", "X-A", "x_b", "Content-Type", "Proxied", "Hosts"] {
            assert_eq!(header_problem(name), None, "{name}");
        }
    }
}
