//! Addresses that people may be told at, and forms of addresses such as `*@example.com`.

use crate::limits::ADDRESS_CHARS_MAX;

/// A form of addresses. A `*` stands for any characters but `@`, so that no form of one domain takes in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// What stands between the stars, in small letters.
    parts: Vec<String>,
}

impl Form {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.chars().count() > ADDRESS_CHARS_MAX || !is_one_word(text) {
            return Err("it is no address; write one such as *@example.com or oncall@example.com".to_owned());
        }
        if text.chars().all(|char| matches!(char, '*' | '@')) {
            return Err("it allows every address; name at least a domain, such as *@example.com".to_owned());
        }
        Ok(Self { parts: text.to_lowercase().split('*').map(str::to_owned).collect() })
    }

    /// Whether it takes in this address. Capitals don't matter.
    pub(crate) fn takes(&self, address: &str) -> bool {
        let address = address.to_lowercase();
        let (first, rest) = self.parts.split_first().expect("a split gives at least one part");
        let Some(mut left) = address.strip_prefix(first.as_str()) else { return false };
        let Some((last, between)) = rest.split_last() else { return left.is_empty() };
        for part in between {
            // The first place will do: whatever a later one leaves is left by it, too.
            let Some(at) = left.find(part.as_str()) else { return false };
            if left[..at].contains('@') {
                return false;
            }
            left = &left[at + part.len()..];
        }
        left.strip_suffix(last.as_str()).is_some_and(|starred| !starred.contains('@'))
    }
}

/// Whether it is one address and no list of them, on its own, without a name around it.
pub(crate) fn is_one_word(text: &str) -> bool {
    let parts = |char: char| char.is_whitespace() || char.is_control() || ",;:<>()[]\"'\\|".contains(char);
    !text.is_empty() && !text.contains(parts) && text.matches('@').count() <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(form: &str, address: &str) -> bool {
        Form::parse(form).unwrap().takes(address)
    }

    #[test]
    fn a_star_stands_for_anything_but_another_domain() {
        for (form, address) in [
            ("*@example.com", "alice@example.com"),
            ("*@example.com", "Alice.B+x@EXAMPLE.com"),
            ("oncall-*@example.com", "oncall-eu@example.com"),
            ("*@*.example.com", "a@mail.example.com"),
            ("U0*", "U012AB"),
            ("oncall@example.com", "oncall@example.com"),
            ("a*b*c@x.org", "aXbYbZc@x.org"),
        ] {
            assert!(takes(form, address), "{form} {address}");
        }
        for (form, address) in [
            ("*@example.com", "alice@example.com.evil.org"),
            ("*@example.com", "evil@evil.org@example.com"),
            ("*@example.com", "alice@notexample.com"),
            ("*example.com", "alice@example.com"),
            ("oncall@example.com", "xoncall@example.com"),
            ("*@*.example.com", "a@evil.org@x.example.com"),
            ("a*a@x.org", "a@x.org"),
        ] {
            assert!(!takes(form, address), "{form} {address}");
        }
    }

    #[test]
    fn a_form_that_allows_everybody_is_refused() {
        for form in ["*", "**", "*@*", "", "a b", "<a@b.c>", "a@b@c", "a@x.org,b@x.org"] {
            assert!(Form::parse(form).is_err(), "{form}");
        }
    }

    #[test]
    fn a_list_is_no_address() {
        for text in
            ["a@x.org,b@x.org", "a@x.org b@x.org", "A <a@x.org>", "a@x.org\r\nBcc:b@x.org", "a@b@c", ""]
        {
            assert!(!is_one_word(text), "{text:?}");
        }
    }
}
