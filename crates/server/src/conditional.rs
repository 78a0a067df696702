//! Conditional requests: what a client has already is not sent again.

use axum::http::{HeaderMap, header};

/// Whether a client that sent these headers has the body with this entity tag.
///
/// `tag` stands in quotes. A weak tag counts as the strong one of the same text, as RFC 9110 says for `If-None-Match`.
pub(crate) fn has_already(headers: &HeaderMap, tag: &str) -> bool {
    let lists = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|one| {
        let one = one.trim();
        one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sends(lists: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        for list in lists {
            headers.append(header::IF_NONE_MATCH, list.parse().unwrap());
        }
        has_already(&headers, "\"7\"")
    }

    #[test]
    fn a_tag_is_found_in_any_form_a_client_may_send() {
        for lists in [&["\"7\""][..], &["W/\"7\""], &["*"], &["\"6\", \"7\""], &["\"6\"", " W/\"7\" "]] {
            assert!(sends(lists), "{lists:?}");
        }
    }

    #[test]
    fn another_tag_is_not() {
        for lists in [&[][..], &[""], &["7"], &["\"77\""], &["\"6\",\"8\""], &["W/7"]] {
            assert!(!sends(lists), "{lists:?}");
        }
    }
}
