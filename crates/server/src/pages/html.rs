//! A template becomes an answer.

use askama::Template;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

use crate::error::ApiError;

/// Nothing but our own stylesheet is loaded, forms go to us alone, and no other site may put a page into a frame.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
);

/// The same for a page that follows something: our own script is loaded too, and hears from us alone. What stands in the
/// page itself is never taken for a script.
const POLICY_LIVE: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; \
     frame-ancestors 'none'; base-uri 'none'",
);

/// What the head of every page is made of.
pub(super) struct Frame {
    /// What the page is.
    pub(super) title: String,
    /// Who is signed in, and the token of their forms.
    pub(super) visitor: Option<(String, String)>,
}

/// A page with this status.
pub(super) fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(text) => (status, Html(text)).into_response(),
        Err(error) => ApiError::internal(&error).into_response(),
    }
}

/// A path with a query.
pub(super) fn link(path: &str, query: &[(&str, &str)]) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    format!("{path}?{query}")
}

/// To whom a browser tells where somebody came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Referrer {
    /// To us alone: with less, browsers would not say where our own forms stand either.
    SameOrigin,
    /// To nobody: the address is a credential.
    Nobody,
}

impl Referrer {
    fn policy(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::SameOrigin => "same-origin",
            Self::Nobody => "no-referrer",
        })
    }
}

/// What every answer tells the browser. A page may hold what its reader alone may see, so nobody keeps it, and no
/// search engine lists it.
pub(super) fn guard(headers: &mut HeaderMap, referrer: Referrer, is_live: bool) {
    let told = [
        (header::CONTENT_SECURITY_POLICY, if is_live { POLICY_LIVE } else { POLICY }),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (header::REFERRER_POLICY, referrer.policy()),
        (HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex, nofollow")),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    ];
    headers.extend(told);
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
