//! OpenWOP writes what is done to a thing behind a colon: `/v1/runs/run-1:pause`. The router knows only whole segments,
//! so a path with such a verb is rewritten before it gets there.

use std::task::{Context, Poll};

use axum::http::{Request, Uri, uri::PathAndQuery};
use tower_service::Service;

/// A service behind the rewriting.
#[derive(Clone)]
pub struct Verbs<S> {
    inner: S,
    /// What a path begins with, and the verb that it may end with.
    known: Vec<(&'static str, &'static str)>,
}

impl<S> Verbs<S> {
    pub(crate) fn new(inner: S, known: Vec<(&'static str, &'static str)>) -> Self {
        Self { inner, known }
    }

    /// The path that the router has for this one, if it has another.
    fn rewritten(&self, path: &str) -> Option<String> {
        // The router's own form is nobody else's.
        if path.contains("/~") {
            return Some(path.replace("/~", "/%7E"));
        }
        self.known.iter().find_map(|(prefix, verb)| {
            let thing = path.strip_prefix(prefix)?.strip_suffix(verb)?.strip_suffix(':')?;
            (!thing.is_empty() && !thing.contains('/')).then(|| format!("{prefix}{thing}/~{verb}"))
        })
    }
}

impl<S, B> Service<Request<B>> for Verbs<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if let Some(path) = self.rewritten(request.uri().path()) {
            *request.uri_mut() = with_path(request.uri(), &path);
        }
        self.inner.call(request)
    }
}

/// The same address with another path; the address itself, if there can be no such path.
fn with_path(uri: &Uri, path: &str) -> Uri {
    let query = uri.query().map_or(String::new(), |query| format!("?{query}"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(format!("{path}{query}")).ok();
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_behind_a_colon_becomes_a_segment() {
        let verbs = Verbs::new((), vec![("/v1/runs/", "pause"), ("/v1/keys/", "rotate")]);
        let cases = [
            ("/v1/runs/run-1:pause", Some("/v1/runs/run-1/~pause")),
            ("/v1/keys/k:rotate", Some("/v1/keys/k/~rotate")),
            ("/v1/runs/run-1", None),
            ("/v1/runs/run-1:sing", None),
            ("/v1/runs/:pause", None),
            ("/v1/runs/run-1/events:pause", None),
            ("/v1/runs:bulk-cancel", None),
            ("/v1/people/a:pause", None),
            ("/v1/runs/run-1/~pause", Some("/v1/runs/run-1/%7Epause")),
        ];
        for (path, expected) in cases {
            assert_eq!(verbs.rewritten(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn the_query_stays() {
        let uri: Uri = "/v1/runs/run-1:diff?against=run-2".parse().unwrap();
        assert_eq!(with_path(&uri, "/v1/runs/run-1/~diff").to_string(), "/v1/runs/run-1/~diff?against=run-2");
    }
}
