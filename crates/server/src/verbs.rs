//! OpenWOP writes what is done to a thing behind a colon: `/v1/runs/run-1:pause`. The router knows only whole segments,
//! so a path with such a verb is rewritten before it gets there.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::{Request, Uri, uri::PathAndQuery};
use tower_service::Service;

/// A service behind the rewriting.
#[derive(Clone)]
pub struct Verbs<S> {
    inner: S,
    /// What a path begins with that may end with a verb.
    prefixes: Arc<BTreeSet<&'static str>>,
}

impl<S> Verbs<S> {
    pub(crate) fn new(inner: S, prefixes: BTreeSet<&'static str>) -> Self {
        Self { inner, prefixes: prefixes.into() }
    }

    /// The path that the router has for this one, if it has another.
    fn rewritten(&self, path: &str) -> Option<String> {
        // The router's own form is nobody else's.
        let own = path.contains("/~").then(|| path.replace("/~", "/%7E"));
        let path = own.as_deref().unwrap_or(path);
        // A verb that is not known here becomes a segment all the same, so that it is not found: what it would be done
        // to is not what was asked for.
        let with_verb = self.prefixes.iter().find_map(|prefix| {
            let rest = behind(path, prefix)?;
            let (thing, verb) = rest.split_once(':')?;
            let is_plain =
                !thing.is_empty() && !verb.is_empty() && !thing.contains('/') && !verb.contains('/');
            let before = &path[..path.len() - rest.len()];
            is_plain.then(|| format!("{before}{thing}/~{verb}"))
        });
        with_verb.or(own)
    }
}

/// What stands behind a prefix, which may hold a parameter: `/v1/runs/{runId}/turns/`.
fn behind<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let Some((before, after)) = prefix.split_once('{') else { return path.strip_prefix(prefix) };
    let (_, after) = after.split_once('}')?;
    let (parameter, rest) = path.strip_prefix(before)?.split_once('/')?;
    let rest = rest.strip_prefix(after.strip_prefix('/')?)?;
    (!parameter.is_empty()).then_some(rest)
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

/// A path of the router as the client sent it.
pub(crate) fn as_sent(path: &str) -> String {
    path.replace("/~", ":").replace("/%7E", "/~")
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
        let verbs = Verbs::new((), ["/v1/runs/", "/v1/keys/", "/v1/runs/{runId}/turns/"].into());
        let cases = [
            ("/v1/runs/run-1/turns/ask:retry", Some("/v1/runs/run-1/turns/ask/~retry")),
            ("/v1/runs/run-1/turns/a%3Ab:give-up", Some("/v1/runs/run-1/turns/a%3Ab/~give-up")),
            ("/v1/runs/run-1/turns/:retry", None),
            ("/v1/runs//turns/ask:retry", None),
            ("/v1/runs/run-1/turns", None),
            ("/v1/runs/run-1:pause", Some("/v1/runs/run-1/~pause")),
            ("/v1/keys/k:rotate", Some("/v1/keys/k/~rotate")),
            ("/v1/runs/run-1", None),
            ("/v1/runs/run-1:sing", Some("/v1/runs/run-1/~sing")),
            ("/v1/runs/run-1:", None),
            ("/v1/runs/:pause", None),
            ("/v1/runs/run-1/events:pause", None),
            ("/v1/runs:bulk-cancel", None),
            ("/v1/people/a:pause", None),
            ("/v1/runs/run-1/~pause", Some("/v1/runs/run-1/%7Epause")),
            ("/v1/runs/~:pause", Some("/v1/runs/%7E/~pause")),
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
