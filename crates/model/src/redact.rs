//! Takes secrets out of what a provider says of its failures, and cuts it to a length.
//!
//! Providers repeat what they were sent, the key included. So the values that went out are searched for in every
//! spelling, and what only looks like a key is taken out as well.

use abide_core::{Scrub, SecretForms, mask_secrets};
use reqwest::header::HeaderMap;

use crate::event::{ProviderError, Thrown};
use crate::limits::MESSAGE_BYTES_MAX;

/// Words in the names of headers whose values are secrets.
const SECRET_WORDS: [&str; 5] = ["key", "token", "secret", "auth", "password"];

/// What is taken out of the errors of one call.
pub(crate) struct Redact {
    scrub: Scrub,
}

impl Redact {
    /// For a call with this key and these headers.
    pub(crate) fn new(key: Option<&str>, headers: &HeaderMap) -> Self {
        let mut forms = SecretForms::default();
        key.into_iter().for_each(|key| forms.add(key));
        let is_secret = |name: &str| SECRET_WORDS.iter().any(|word| name.contains(word));
        for (_, value) in headers.iter().filter(|(name, _)| is_secret(name.as_str())) {
            forms.add(&String::from_utf8_lossy(value.as_bytes()));
        }
        Self { scrub: Scrub::new(&forms) }
    }

    /// A text as it may be told. If it was `cut` off, a secret that begins at its end is taken out as well.
    pub(crate) fn bytes(&self, text: Vec<u8>, cut: bool) -> String {
        let clean = self.scrub.bytes(text, cut);
        let text = String::from_utf8_lossy(&clean);
        let mut masked = mask_secrets(&text).into_owned();
        masked.truncate(masked.floor_char_boundary(MESSAGE_BYTES_MAX));
        masked
    }

    /// A text as it may be told.
    pub(crate) fn text(&self, text: String) -> String {
        self.bytes(text.into_bytes(), false)
    }

    /// An error as it may be told.
    pub(crate) fn error(&self, error: ProviderError) -> ProviderError {
        ProviderError { message: self.text(error.message), ..error }
    }

    /// The same of a stream that broke.
    pub(crate) fn thrown(&self, Thrown(message): Thrown) -> Thrown {
        Thrown(self.text(message))
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn the_key_is_taken_out_in_every_spelling_and_what_looks_like_one_too() {
        let redact = Redact::new(Some("plant/ed-key"), &HeaderMap::new());
        let told = redact.text(r#"{"a":"plant/ed-key","b":"plant\/ed-key","c":"plant%2Fed-key"}"#.to_owned());
        assert_eq!(told, r#"{"a":"[secret]","b":"[secret]","c":"[secret]"}"#);
        assert_eq!(redact.text("key sk-proj-aaaabbbbccccdddd".to_owned()), "key [secret]");
        assert_eq!(redact.bytes(b"your key is plant/e".to_vec(), true), "your key is ");
    }

    #[test]
    fn headers_that_are_secrets_by_their_name_are_taken_out() {
        let mut headers = HeaderMap::new();
        headers.insert("api-key", HeaderValue::from_static("azure-ish"));
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        let told = Redact::new(None, &headers).text("azure-ish 2023-06-01".to_owned());
        assert_eq!(told, "[secret] 2023-06-01");
    }

    #[test]
    fn a_message_is_cut_between_characters() {
        let redact = Redact::new(None, &HeaderMap::new());
        let told = redact.text(format!("x{}", "é".repeat(MESSAGE_BYTES_MAX)));
        assert_eq!(told.len(), MESSAGE_BYTES_MAX - 1);
        assert!(told.ends_with('é'));
    }
}
