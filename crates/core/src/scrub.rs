//! Takes the values of secrets out of what comes back.
//!
//! Servers echo what they were sent, and rarely as they were sent it. So a text is searched as it is, and
//! again with its escapes undone: those of URLs and forms, those of JSON, and those of JSON inside of JSON.
//! Each search is one pass, so the work is a fixed multiple of the text, whatever the secrets are.

mod search;

use std::collections::BTreeSet;

use crate::limits::SECRET_CHARS_MIN;
use search::{Range, Seen, Words};

const INSTEAD: &str = "[secret]";

/// JSON that carries JSON as a string is unescaped twice. Deeper nests are not heard of.
const JSON_LAYERS: u8 = 2;

/// Every form in which the secrets of one request may stand in a text. It is never printed.
#[derive(Default)]
pub struct SecretForms(BTreeSet<Vec<u8>>);

impl SecretForms {
    /// Adds a secret that was put somewhere.
    pub fn add(&mut self, secret: &str) {
        // Spaces around a secret get lost on the way.
        let secret = secret.trim();
        if secret.chars().count() >= SECRET_CHARS_MIN {
            self.add_form(secret.as_bytes());
            // In the place of a host, letters become small.
            self.add_form(secret.to_lowercase().as_bytes());
        }
    }

    /// Adds what a secret became when it was put into a URL, where a `%` may stand for another character.
    pub fn add_url_part(&mut self, became: &str) {
        self.add_form(became.as_bytes());
        self.add_form(&undone(became.as_bytes(), percent));
    }

    fn add_form(&mut self, form: &[u8]) {
        let form = form.trim_ascii();
        if form.len() >= SECRET_CHARS_MIN {
            // Forms write a space as `+`, and then nobody can tell it from a plus.
            self.0.insert(form.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect());
            self.0.insert(form.to_vec());
        }
    }

    /// How many bytes they have together.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

/// Takes the secrets of one request out of texts. It is never printed.
pub struct Scrub {
    words: Words,
    instead: &'static str,
}

impl Scrub {
    /// One for the secrets that were put somewhere.
    pub fn new(forms: &SecretForms) -> Self {
        Self { words: Words::new(forms.0.iter().map(Vec::as_slice)), instead: INSTEAD }
    }

    /// One for words that are kept to oneself, with something else in their place.
    pub fn of_words<'a>(words: impl IntoIterator<Item = &'a str>, instead: &'static str) -> Self {
        let mut forms = SecretForms::default();
        words.into_iter().for_each(|word| forms.add(word));
        Self { instead, ..Self::new(&forms) }
    }

    /// `text` without secrets.
    pub fn text(&self, text: &str) -> String {
        let clean = self.bytes(text.as_bytes().to_vec(), false);
        String::from_utf8_lossy(&clean).into_owned()
    }

    /// `text` without secrets. If it was `cut` off, a secret that begins at its end is taken out as well.
    pub fn bytes(&self, text: Vec<u8>, cut: bool) -> Vec<u8> {
        if self.words.is_empty() {
            return text;
        }
        let seen = self.look(&text, JSON_LAYERS);
        let end = if cut { seen.begun } else { text.len() };
        if seen.words.is_empty() && end == text.len() {
            return text;
        }
        let mut clean = Vec::with_capacity(text.len());
        let mut at = 0;
        for (start, until) in seen.words.into_iter().take_while(|(start, _)| *start < end) {
            clean.extend_from_slice(&text[at..start]);
            clean.extend_from_slice(self.instead.as_bytes());
            at = until;
        }
        clean.extend_from_slice(&text[at.min(end)..end]);
        clean
    }

    fn look(&self, text: &[u8], json_layers: u8) -> Seen {
        let mut seen = self.words.search(text);
        if text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
            seen = seen.and(through(text, percent, |plain| self.words.search(plain)));
        }
        if json_layers > 0 && text.contains(&b'\\') {
            seen = seen.and(through(text, json, |plain| self.look(plain, json_layers - 1)));
        }
        seen
    }
}

/// Reads the first character of a text that is not empty.
type Reader = fn(&[u8]) -> Character;

/// A character that was read.
struct Character {
    /// What it means.
    means: [u8; 4],
    /// How many bytes of `means` count.
    length: usize,
    /// How many bytes of the text it takes, or `None` if the text ends within an escape.
    taken: Option<usize>,
}

impl Character {
    fn byte(byte: u8, taken: usize) -> Self {
        Self { means: [byte, 0, 0, 0], length: 1, taken: Some(taken) }
    }

    fn char(c: char, taken: usize) -> Self {
        let mut means = [0; 4];
        let length = c.encode_utf8(&mut means).len();
        Self { means, length, taken: Some(taken) }
    }

    const UNFINISHED: Self = Self { means: [0; 4], length: 0, taken: None };
}

/// What is seen in the text with its escapes undone, told in places of the text itself.
fn through(text: &[u8], read: Reader, look: impl Fn(&[u8]) -> Seen) -> Seen {
    let plain = undone(text, read);
    let seen = look(&plain);
    let begun = back(text, read, &[(seen.begun, plain.len())])[0].0;
    Seen { words: back(text, read, &seen.words), begun }
}

/// The text with its escapes undone, up to one that is not finished.
fn undone(text: &[u8], read: Reader) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let one = read(rest);
        let Some(taken) = one.taken else { break };
        plain.extend_from_slice(&one.means[..one.length]);
        rest = &rest[taken..];
    }
    plain
}

/// The places in `text` of ranges in what it means. They are in order; reading again is cheaper than keeping
/// the place of every byte.
fn back(text: &[u8], read: Reader, ranges: &[Range]) -> Vec<Range> {
    let (mut at, mut meant) = (0, 0);
    // Goes on until the character that holds a byte of the meaning, or to the end.
    let mut go_on = |to: usize, past: bool| {
        while at < text.len() {
            let one = read(&text[at..]);
            let Some(taken) = one.taken else { break };
            let enough = if past { meant >= to } else { meant + one.length > to };
            if enough {
                break;
            }
            at += taken;
            meant += one.length;
        }
        at
    };
    ranges.iter().map(|(start, end)| (go_on(*start, false), go_on(*end, true))).collect()
}

/// In URLs and forms.
fn percent(text: &[u8]) -> Character {
    match text {
        [b'+', ..] => Character::byte(b' ', 1),
        [b'%', digits @ ..] => match hex(digits, 2) {
            Hex::Value(value) => Character::byte(value as u8, 3),
            Hex::Unfinished => Character::UNFINISHED,
            Hex::Other => Character::byte(b'%', 1),
        },
        _ => Character::byte(text[0], 1),
    }
}

/// Inside JSON strings.
fn json(text: &[u8]) -> Character {
    match text {
        [b'\\'] => Character::UNFINISHED,
        [b'\\', b'u', digits @ ..] => json_unicode(digits),
        [b'\\', letter, ..] => match short_escape(*letter) {
            Some(byte) => Character::byte(byte, 2),
            None => Character::byte(b'\\', 1),
        },
        _ => Character::byte(text[0], 1),
    }
}

fn short_escape(letter: u8) -> Option<u8> {
    Some(match letter {
        b'"' | b'\\' | b'/' => letter,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        _ => return None,
    })
}

/// What follows `\u`: one unit of UTF-16, or two.
fn json_unicode(text: &[u8]) -> Character {
    let first = match hex(text, 4) {
        Hex::Value(unit) => unit,
        Hex::Unfinished => return Character::UNFINISHED,
        Hex::Other => return Character::byte(b'\\', 1),
    };
    if let Some(c) = char::from_u32(first.into()) {
        return Character::char(c, 6);
    }
    let second = match &text[4..] {
        [] | [b'\\'] => Hex::Unfinished,
        [b'\\', b'u', digits @ ..] => hex(digits, 4),
        _ => Hex::Other,
    };
    match second {
        Hex::Unfinished => Character::UNFINISHED,
        Hex::Other => Character::byte(b'\\', 1),
        Hex::Value(second) => match char::decode_utf16([first, second]).next() {
            Some(Ok(c)) => Character::char(c, 12),
            _ => Character::byte(b'\\', 1),
        },
    }
}

enum Hex {
    Value(u16),
    /// The text ends before so many digits.
    Unfinished,
    Other,
}

fn hex(text: &[u8], digits: usize) -> Hex {
    let own = &text[..text.len().min(digits)];
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u16);
    let value = own.iter().try_fold(0_u16, |value, byte| Some(value << 4 | digit(byte)?));
    match value {
        None => Hex::Other,
        Some(_) if own.len() < digits => Hex::Unfinished,
        Some(value) => Hex::Value(value),
    }
}

#[cfg(test)]
mod tests {
    use super::search::steps;
    use super::*;

    fn forms(secrets: &[&str]) -> SecretForms {
        let mut forms = SecretForms::default();
        secrets.iter().for_each(|secret| forms.add(secret));
        forms
    }

    fn scrub(secrets: &[&str], text: &str) -> String {
        Scrub::new(&forms(secrets)).text(text)
    }

    #[test]
    fn a_secret_is_found_however_it_is_written() {
        let secret = "a/b +\"é\\%😀z";
        let spellings = [
            secret,
            r#"a/b +\"é\\%😀z"#,
            r#"a\/b +\"\u00e9\\%\ud83d\ude00z"#,
            r"a\u002Fb\u0020+\u0022\u00E9\u005c\u0025\uD83D\uDE00z",
            "a%2Fb%20%2B%22%C3%A9%5C%25%F0%9F%98%80z",
            "a/b++%22%c3%a9%5c%25%f0%9f%98%80z",
            "%61%2f%62%20%2b%22%c3%a9%5c%25%f0%9f%98%80%7a",
            r"a\/b%20%2B%22%C3%A9%5C%25%F0%9F%98%80z",
            r#"a/b +\\\"é\\\\%😀z"#,
        ];
        for spelling in spellings {
            assert_eq!(scrub(&[secret], &format!("<{spelling}>")), "<[secret]>", "{spelling}");
        }
    }

    #[test]
    fn only_secrets_are_taken_out() {
        assert_eq!(scrub(&["hunter22"], "hunter2, hunter222, HUNTER22"), "hunter2, [secret]2, HUNTER22");
        assert_eq!(scrub(&[], "hunter2"), "hunter2");
        assert_eq!(scrub(&["abc"], "abc"), "abc", "three characters stand in any text");
        assert_eq!(scrub(&["abcd", "abcdef"], "abcdef abcd"), "[secret] [secret]", "the longest counts");
        assert_eq!(scrub(&["hunter22\n"], "hunter22"), "[secret]", "the line break got lost");
        assert_eq!(scrub(&["Hunter22"], "Hunter22 hunter22"), "[secret] [secret]", "hosts are in lower case");
        assert_eq!(scrub(&["aaab"], "aaaab"), "a[secret]");
    }

    #[test]
    fn a_secret_cut_off_at_the_end_is_taken_out_too() {
        let scrub = Scrub::new(&forms(&["hunter/22"]));
        for cut in ["key=h", "key=hunter", "key=hunter%", "key=hunter%2", "key=hunter\\u00", "key=hunter/2"] {
            assert_eq!(scrub.bytes(cut.as_bytes().to_vec(), true), b"key=", "{cut}");
            assert_eq!(scrub.bytes(cut.as_bytes().to_vec(), false), cut.as_bytes(), "{cut}");
        }
    }

    #[test]
    fn the_work_is_a_multiple_of_the_text_whatever_the_secrets_are() {
        let secrets = [format!("{}b", "a".repeat(60_000)), "a%".repeat(2000), "aaaa".to_owned()];
        let scrub = Scrub::new(&forms(&secrets.each_ref().map(String::as_str)));
        for text in
            ["a".repeat(200_000), "a%61".repeat(50_000), "\\\\a+".repeat(50_000), "\\u".repeat(100_000)]
        {
            let before = steps();
            let clean = scrub.text(&text);
            assert!(clean.len() <= 2 * text.len());
            // Six readings of the text, and at most two steps for each byte of them.
            assert!(steps() - before <= 12 * text.len(), "{} steps", steps() - before);
        }
    }

    #[test]
    fn a_secret_that_is_used_often_is_searched_for_once() {
        let often = forms(&["hunter22"; 256]);
        assert_eq!(often.bytes(), "hunter22".len());
    }

    #[test]
    fn words_may_have_something_else_in_their_place() {
        let scrub = Scrub::of_words(["hunter/22", "abc"], "[gone]");
        assert_eq!(scrub.text("key=hunter%2F22 abc"), "key=[gone] abc");
        assert_eq!(Scrub::of_words([], "[gone]").text("hunter"), "hunter");
    }

    #[test]
    fn broken_escapes_are_read_as_they_stand() {
        for text in
            ["%", "%zz", "\\", "\\x", "\\u12", "\\u12zz", "\\ud83d", "\\ud83dx", "\\ud83d\\u0041", "\\udc00"]
        {
            assert_eq!(
                scrub(&["hunter22"], &format!("{text}hunter22{text}")),
                format!("{text}[secret]{text}")
            );
        }
    }
}
