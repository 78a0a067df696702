//! Finds what looks like a secret in the words of people, so that it is not kept.
//!
//! Nothing is known here of anybody's secrets: a text is judged by its shape alone. Taking out too much costs a
//! word of a remark; leaving a key in it may cost a lot more.

use std::borrow::Cow;

/// What stands in the place of a secret.
const INSTEAD: &str = "[secret]";

/// How keys of well-known makers begin, and how many characters follow at least.
const PREFIXES: &[(&str, usize)] = &[
    ("abk_", 8),
    ("sk-", 16),
    ("sk_live_", 8),
    ("sk_test_", 8),
    ("rk_live_", 8),
    ("pk_live_", 8),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxa-", 10),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxs-", 10),
    ("xapp-", 10),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("ya29.", 20),
    ("hf_", 20),
    ("npm_", 30),
    ("pypi-", 30),
    ("whsec_", 16),
    ("SG.", 30),
    ("eyJ", 24),
];

/// Names whose values are secrets, as they stand before a `:` or `=`.
const NAMES: &[&str] = &[
    "password",
    "passwd",
    "pwd",
    "secret",
    "token",
    "api_key",
    "api-key",
    "apikey",
    "access_key",
    "private_key",
    "authorization",
    "bearer",
];

/// A word of this length that mixes capitals, small letters and digits is nobody's prose.
const OPAQUE_CHARS_MIN: usize = 32;

/// A text without what looks like a secret: keys of well-known forms, bearer tokens, passwords in URLs and
/// assignments, private keys, and long words that mix all kinds of characters.
pub fn mask_secrets(text: &str) -> Cow<'_, str> {
    let mut clean = String::new();
    let (mut at, mut kept) = (0, 0);
    while at < text.len() {
        match secret_at(text, at) {
            Some((start, end)) => {
                clean.push_str(&text[kept..start]);
                clean.push_str(INSTEAD);
                (at, kept) = (end, end);
            }
            None => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    if kept == 0 { Cow::Borrowed(text) } else { Cow::Owned(clean + &text[kept..]) }
}

/// The secret that a place leads to: where it begins and ends. No word is looked at from its middle.
fn secret_at(text: &str, at: usize) -> Option<(usize, usize)> {
    let (before, rest) = (text[..at].chars().next_back(), &text[at..]);
    // Not every language puts spaces between its words, and no secret has other letters than these.
    let begins = |char: char| char.is_ascii_alphanumeric();
    if before.is_some_and(begins) && rest.starts_with(begins) {
        return None;
    }
    let found = private_key(rest)
        .or_else(|| known_key(rest))
        .or_else(|| user_of_url(rest))
        .or_else(|| named(rest))
        .or_else(|| opaque(rest, before));
    found.map(|(start, end)| (at + start, at + end))
}

fn private_key(rest: &str) -> Option<(usize, usize)> {
    let head = rest.strip_prefix("-----BEGIN ")?.split_once("-----")?.0;
    if !head.contains("PRIVATE KEY") {
        return None;
    }
    let end = format!("-----END {head}-----");
    Some((0, rest.find(&end).map_or(rest.len(), |at| at + end.len())))
}

fn known_key(rest: &str) -> Option<(usize, usize)> {
    let (prefix, least) = PREFIXES.iter().find(|(prefix, _)| rest.starts_with(prefix))?;
    let end = token_end(rest);
    (end >= prefix.len() + least).then_some((0, end))
}

/// What stands between `://` and `@`.
fn user_of_url(rest: &str) -> Option<(usize, usize)> {
    let user = rest.strip_prefix("://")?;
    let end = user.find(|char: char| char.is_whitespace() || matches!(char, '/' | '@' | '?' | '#'))?;
    (user[end..].starts_with('@') && user[..end].contains(':')).then_some((3, 3 + end))
}

/// The value behind a name that says what it is: `password=…`, `token: …`, `Bearer …`.
fn named(rest: &str) -> Option<(usize, usize)> {
    let name = NAMES
        .iter()
        .find(|name| rest.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name)))?;
    let behind = &rest[name.len()..];
    let value = behind.trim_start_matches([' ', '\t', '"', '\'', ':', '=']);
    let between = &behind[..behind.len() - value.len()];
    // Most names stand in a sentence, and some in a word without end: only what is given a value is looked into.
    if between.is_empty() {
        return None;
    }
    let end = token_end(value);
    let assigned = between.contains('=') && end >= 4;
    let told = (between.contains(':') || *name == "bearer") && looks_drawn(&value[..end]);
    let start = rest.len() - value.len();
    (assigned || told).then_some((start, start + end))
}

/// Whether somebody drew it at random rather than wrote it.
fn looks_drawn(word: &str) -> bool {
    word.len() >= 16 || word.len() >= 6 && word.bytes().any(|byte| byte.is_ascii_digit())
}

/// A long word is looked at once, from its beginning.
fn opaque(rest: &str, before: Option<char>) -> Option<(usize, usize)> {
    if before.is_some_and(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-')) {
        return None;
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let end = rest.bytes().position(|byte| !plain(byte)).unwrap_or(rest.len());
    let has = |is: fn(&u8) -> bool| rest.as_bytes()[..end].iter().any(is);
    let mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit);
    (end >= OPAQUE_CHARS_MIN && mixed).then_some((0, end))
}

/// Where a token that begins here ends. The full stop of a sentence is no part of it.
fn token_end(rest: &str) -> usize {
    let part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.~+/=".contains(&byte);
    let end = rest.bytes().position(|byte| !part(byte)).unwrap_or(rest.len());
    rest[..end].trim_end_matches('.').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_secret_is_taken_out() {
        let cases = [
            ("use abk_dev_0123456789abcdef, it works", "use [secret], it works"),
            ("(abk_a1b2c3_ffffffffffffffff).", "([secret])."),
            ("curl -H 'Authorization: Bearer s3cr3t-t0ken'", "curl -H 'Authorization: Bearer [secret]'"),
            ("bearer abcdefghijklmnop", "bearer [secret]"),
            ("key=sk-proj-aaaabbbbccccdddd eee", "key=[secret] eee"),
            ("ghp_abcdefghijklmnopqrst0123", "[secret]"),
            ("the id is AKIAABCDEFGHIJKLMNOP.", "the id is [secret]."),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "[secret]"),
            ("postgres://bob:hunter@db/main", "postgres://[secret]@db/main"),
            ("password=hunter and more", "password=[secret] and more"),
            ("{\"password\": \"hunter2\"}", "{\"password\": \"[secret]\"}"),
            ("Token: 8f3a9c22", "Token: [secret]"),
            ("x Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MGFiY2RlZg y", "x [secret] y"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nthanks",
                "[secret]\nthanks",
            ),
            ("-----BEGIN PRIVATE KEY-----\nMIIE", "[secret]"),
        ];
        for (text, expected) in cases {
            assert_eq!(mask_secrets(text), expected, "{text}");
        }
    }

    #[test]
    fn ordinary_words_stay() {
        let texts = [
            "",
            "the token expired; the password: must be longer than the secret",
            "run-01a1e10b-110b-737b-ade8-1a967fa3b7ff gave 01a1e10b110b737bade81a967fa3b7ff-12",
            "7d3768804fa1421b766b96b71488070fe5759f5fec2046b0fa9e57d87c39c38a",
            "the bearer of bad news, a task-force, https://example.com/a/b?c=d#e",
            "größer als 5 € – schön: ja",
            "ask me@example.com: sk-short, eyJ, AKIA",
            "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        ];
        for text in texts {
            assert!(
                matches!(mask_secrets(text), Cow::Borrowed(same) if same == text),
                "{}",
                mask_secrets(text)
            );
        }
    }

    #[test]
    fn a_secret_is_found_where_words_have_no_spaces_between_them() {
        for (text, expected) in [
            ("パスワードはsk-proj-aaaabbbbccccdddd", "パスワードは[secret]"),
            ("密钥Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MGFiY2RlZg。", "密钥[secret]。"),
        ] {
            assert_eq!(mask_secrets(text), expected);
        }
    }

    #[test]
    fn a_word_without_end_is_gone_through_once() {
        // Looked at from each of its parts, any of these would take minutes.
        for part in ["a-", "pwd-", "eyJ-"] {
            let text = part.repeat(1 << 18);
            assert!(mask_secrets(&text).len() <= text.len());
        }
    }

    #[test]
    fn a_mask_is_not_masked_again() {
        for text in ["password=hunter2", "Bearer abcdefgh12345678", "abk_a_0123456789"] {
            let once = mask_secrets(text).into_owned();
            assert_eq!(mask_secrets(&once), once);
        }
    }
}
