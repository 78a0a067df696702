//! Whether a form was sent from one of our own pages.
//!
//! Browsers say where a form stands that they send; other sites can't make them say something else. A request that does
//! not say it comes from no browser that this could protect, and is refused too.

use axum::http::{HeaderMap, HeaderName, header};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether the request comes from a page of the server at this address, or at the one that it was sent to.
pub(super) fn is_ours(headers: &HeaderMap, public_url: Option<&str>) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let site = text(FETCH_SITE);
    let origin = text(header::ORIGIN);
    let same_site = site.is_none_or(|site| site == "same-origin");
    let same_origin = origin.is_none_or(|origin| {
        let host = origin.split_once("://").map(|(_, host)| host);
        let public = public_url.map(|url| url.trim_end_matches('/'));
        public == Some(origin) || (host.is_some() && host == text(header::HOST))
    });
    // A proxy may tell us another host than the browser was at; the browser's own word on it is enough then.
    let told = site.is_some() || origin.is_some();
    told && same_site && (same_origin || site.is_some())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_form_counts_only_if_the_browser_says_that_it_stands_on_a_page_of_ours() {
        let cases: [(&[(&str, &str)], bool); 10] = [
            (&[("sec-fetch-site", "same-origin"), ("origin", "http://a:1"), ("host", "a:1")], true),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "same-origin"), ("origin", "https://a"), ("host", "inner:1")], true),
            (&[("origin", "http://a:1"), ("host", "a:1")], true),
            (&[("origin", "https://public.example"), ("host", "inner:1")], true),
            (&[("sec-fetch-site", "cross-site"), ("origin", "http://a:1"), ("host", "a:1")], false),
            (&[("sec-fetch-site", "same-site"), ("origin", "http://b.a"), ("host", "a")], false),
            (&[("origin", "http://b"), ("host", "a:1")], false),
            (&[("origin", "null"), ("host", "null")], false),
            (&[("host", "a:1")], false),
        ];
        for (given, expected) in cases {
            let headers: HeaderMap = given
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            assert_eq!(is_ours(&headers, Some("https://public.example/")), expected, "{given:?}");
        }
    }
}
