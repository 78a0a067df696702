//! Whether a form was sent from one of our own pages.
//!
//! Browsers say where a form stands that they send; other sites can't make them say something else. A request that does
//! not say it comes from no browser that this could protect, and is refused too.

use axum::http::{HeaderMap, HeaderName, header};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether the request comes from a page of the server at this address, or at the one that it was sent to.
pub(super) fn is_ours(headers: &HeaderMap, public_url: Option<&str>) -> bool {
    let (site, origin) = (text(headers, FETCH_SITE), text(headers, header::ORIGIN));
    let same_site = site.is_none_or(|site| site == "same-origin");
    let same_origin = origin.is_none_or(|origin| is_here(origin, headers, public_url));
    // A proxy may tell us another host than the browser was at; the browser's own word on it is enough then.
    let told = site.is_some() || origin.is_some();
    told && same_site && (same_origin || site.is_some())
}

/// Whether a browser says that the request comes from another site. A page whose policy is `no-referrer` is told of as
/// `null`, which may be any.
pub(super) fn is_foreign(headers: &HeaderMap, public_url: Option<&str>) -> bool {
    match (text(headers, FETCH_SITE), text(headers, header::ORIGIN)) {
        (Some(site), _) => site != "same-origin",
        (None, Some(origin)) => origin != "null" && !is_here(origin, headers, public_url),
        (None, None) => false,
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

fn is_here(origin: &str, headers: &HeaderMap, public_url: Option<&str>) -> bool {
    let host = origin.split_once("://").map(|(_, host)| host);
    let public = public_url.map(|url| url.trim_end_matches('/'));
    public == Some(origin) || (host.is_some() && host == text(headers, header::HOST))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_form_counts_only_if_the_browser_says_that_it_stands_on_a_page_of_ours() {
        let cases: [(&[(&'static str, &'static str)], bool); 10] = [
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
            assert_eq!(is_ours(&headers(given), Some("https://public.example/")), expected, "{given:?}");
        }
    }

    #[test]
    fn a_form_of_a_link_is_foreign_only_if_the_browser_says_so() {
        let cases: [(&[(&'static str, &'static str)], bool); 8] = [
            (&[("sec-fetch-site", "same-origin"), ("origin", "null"), ("host", "a:1")], false),
            (&[("origin", "null"), ("host", "a:1")], false),
            (&[("host", "a:1")], false),
            (&[("origin", "http://a:1"), ("host", "a:1")], false),
            (&[("origin", "https://public.example"), ("host", "inner:1")], false),
            (&[("sec-fetch-site", "cross-site"), ("origin", "null"), ("host", "a:1")], true),
            (&[("sec-fetch-site", "none"), ("host", "a:1")], true),
            (&[("origin", "http://b"), ("host", "a:1")], true),
        ];
        for (given, expected) in cases {
            assert_eq!(is_foreign(&headers(given), Some("https://public.example/")), expected, "{given:?}");
        }
    }

    fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        given.iter().map(header).collect()
    }
}
