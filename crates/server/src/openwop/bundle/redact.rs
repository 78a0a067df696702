//! Takes out of JSON text what must not leave with a bundle, and tells where something was.
//!
//! The text is copied as it is but for what is replaced: users' values are never read into numbers or maps on the way.
//! Whatever is left, a text stays a text and an object an object, so that the bundle keeps its shape.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use abide_core::{Scrub, mask_secrets};
use schemars::JsonSchema;
use serde::Serialize;

use crate::limits;
use crate::openwop::mask::MASKED;

/// What stands in the place of an answer.
pub(super) const LEFT_OUT: &str = "[left out]";

/// What stands in the place of a secret.
pub(super) const SECRET: &str = "[secret]";

/// Why something is not in a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "RedactionReason")]
pub(crate) enum Reason {
    /// The definition says that it is never shown.
    Sensitive,
    /// It is the value of one of the tenant's secrets.
    Secret,
    /// It looks like a key, a token or a password.
    Credential,
    /// Somebody answered so.
    Answer,
    /// There is too much of it.
    Size,
}

/// Where something was taken out, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Redaction")]
pub(crate) struct Redacted {
    /// A JSON pointer into the bundle.
    pub(super) path: String,
    /// Why.
    pub(super) reason: Reason,
}

/// Places where something was taken out. So many are named, and all are counted.
#[derive(Default)]
pub(super) struct Found {
    pub(super) named: Vec<Redacted>,
    pub(super) total: u64,
    /// How many of them for want of room.
    pub(super) sizes: u64,
}

impl Found {
    pub(super) fn note(&mut self, path: &str, reason: Reason) {
        self.total += 1;
        self.sizes += u64::from(reason == Reason::Size);
        if self.named.len() < limits::BUNDLE_REDACTIONS_MAX {
            let path = path.chars().take(limits::BUNDLE_PATH_CHARS_MAX).collect();
            self.named.push(Redacted { path, reason });
        }
    }

    /// What was found elsewhere, too.
    pub(super) fn add(&mut self, other: Self) {
        let room = limits::BUNDLE_REDACTIONS_MAX.saturating_sub(self.named.len());
        self.named.extend(other.named.into_iter().take(room));
        (self.total, self.sizes) = (self.total + other.total, self.sizes + other.sizes);
    }
}

/// How much of a value is taken out of its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it.
    Whole,
    /// The values of an object; its keys stay.
    Values,
}

/// What is taken out of a bundle.
#[derive(Default)]
pub(super) struct Rules {
    /// Words of ours and names of the definition: as a whole text they are never anybody's secret.
    pub(super) words: HashSet<String>,
    /// What does not leave its place, by pointer.
    pub(super) hidden: HashMap<String, (Reason, Extent)>,
    /// The values of secrets.
    pub(super) secrets: Vec<Scrub>,
    /// Values that are never shown.
    pub(super) sensitive: Option<Scrub>,
    /// Sentences of answers.
    pub(super) sentences: Option<Scrub>,
    /// Short answers, which count only as a whole.
    pub(super) answers: HashSet<String>,
}

impl Rules {
    /// JSON text without what is taken out, which stands at this place of the bundle.
    pub(super) fn clean(&self, path: &str, text: &str, found: &mut Found) -> String {
        let mut walk =
            Walk { rules: self, text, at: 0, kept: 0, out: String::new(), path: path.into(), found };
        walk.value(None);
        walk.out.push_str(&text[walk.kept..]);
        walk.out
    }

    /// A text without what is taken out, and why; `None` if it stays.
    fn cleaned(&self, text: &str) -> Option<(String, Reason)> {
        if self.is_plain(text) {
            return None;
        }
        if self.answers.contains(text) {
            return Some((LEFT_OUT.to_owned(), Reason::Answer));
        }
        let mut clean = Cow::Borrowed(text);
        let mut why = None;
        let sensitive = self.sensitive.iter().map(|scrub| (scrub, Reason::Sensitive));
        let sentences = self.sentences.iter().map(|scrub| (scrub, Reason::Answer));
        let secrets = self.secrets.iter().map(|scrub| (scrub, Reason::Secret));
        for (scrub, reason) in secrets.chain(sensitive).chain(sentences) {
            let less = scrub.text(&clean);
            if less != clean {
                (clean, why) = (Cow::Owned(less), why.or(Some(reason)));
            }
        }
        if let Cow::Owned(less) = mask_secrets(&clean) {
            (clean, why) = (Cow::Owned(less), why.or(Some(Reason::Credential)));
        }
        why.map(|why| (clean.into_owned(), why))
    }

    /// Whether a text is one of ours as a whole: a name, an id, a hash or a time.
    fn is_plain(&self, text: &str) -> bool {
        self.words.contains(text) || is_id(text) || is_hash(text) || is_moment(text)
    }
}

/// The id of a run or an interrupt, or of an event, which has no prefix.
fn is_id(text: &str) -> bool {
    let rest = ["run-", "int-"].iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
    let part = |byte: u8| byte.is_ascii_digit() || b"abcdef-".contains(&byte);
    (34..=60).contains(&rest.len()) && rest.bytes().all(part)
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// As `rfc3339` writes it.
fn is_moment(text: &str) -> bool {
    let fits = |(byte, shape): (u8, u8)| if shape == b'0' { byte.is_ascii_digit() } else { byte == shape };
    let shape = b"0000-00-00T00:00:00.000Z";
    text.len() == shape.len() && text.bytes().zip(*shape).all(fits)
}

/// Names of fields are words; what is no word may be a key that somebody keeps things under.
fn is_word(key: &str) -> bool {
    key.len() <= 40 && key.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// One walk over a text that is JSON.
struct Walk<'a> {
    rules: &'a Rules,
    text: &'a str,
    /// What is looked at.
    at: usize,
    /// From here on nothing is copied yet.
    kept: usize,
    out: String,
    path: String,
    found: &'a mut Found,
}

impl<'a> Walk<'a> {
    fn byte(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        bytes.get(self.at).copied().unwrap_or_default()
    }

    /// Goes over a value, which is hidden for this reason if there is one.
    fn value(&mut self, hidden: Option<Reason>) {
        let byte = self.byte();
        let rule = self.rules.hidden.get(&self.path).copied();
        let rule = hidden.map(|reason| (reason, Extent::Whole)).or(rule);
        match (byte, rule) {
            (b'{', Some((reason, Extent::Values))) => self.object(Some(reason)),
            (b'n', Some(_)) => self.skip(),
            (_, Some((reason, _))) => self.hide(reason),
            (b'{', None) => self.object(None),
            (b'[', None) => self.array(),
            (b'"', None) => self.string(),
            _ => self.skip(),
        }
    }

    fn object(&mut self, hidden: Option<Reason>) {
        self.at += 1;
        while self.byte() == b'"' {
            let length = self.path.len();
            self.key();
            if self.byte() == b':' {
                self.at += 1;
            }
            self.value(hidden);
            self.path.truncate(length);
            if self.byte() == b',' {
                self.at += 1;
            }
        }
        self.at += 1;
    }

    fn array(&mut self) {
        self.at += 1;
        let mut index = 0;
        while !matches!(self.byte(), b']' | 0) {
            let length = self.path.len();
            self.path.push_str(&format!("/{index}"));
            self.value(None);
            self.path.truncate(length);
            index += 1;
            if self.byte() == b',' {
                self.at += 1;
            }
        }
        self.at += 1;
    }

    fn key(&mut self) {
        let start = self.at;
        let key = self.literal();
        let cleaned =
            if is_word(&key) || self.rules.is_plain(&key) { None } else { self.rules.cleaned(&key) };
        let shown = cleaned.as_ref().map_or(&*key, |(clean, _)| clean);
        let pointer = shown.replace('~', "~0").replace('/', "~1");
        self.path.push('/');
        self.path.push_str(&pointer);
        if let Some((clean, reason)) = cleaned {
            self.put(start, &clean, reason);
        }
    }

    fn string(&mut self) {
        let start = self.at;
        let text = self.literal();
        if text == MASKED {
            self.found.note(&self.path, Reason::Sensitive);
            return;
        }
        let cleaned = self.rules.cleaned(&text);
        let shown = cleaned.as_ref().map_or(&*text, |(clean, _)| clean);
        if shown.len() > limits::BUNDLE_TEXT_BYTES_MAX {
            let short = cut(shown);
            return self.put(start, &short, cleaned.map_or(Reason::Size, |(_, reason)| reason));
        }
        if let Some((clean, reason)) = cleaned {
            self.put(start, &clean, reason);
        }
    }

    /// Leaves a value out of its place.
    fn hide(&mut self, reason: Reason) {
        let start = self.at;
        self.skip();
        let instead = if reason == Reason::Sensitive { MASKED } else { LEFT_OUT };
        self.put(start, instead, reason);
    }

    /// Writes a text in the place of what began at `start` and has been gone over.
    fn put(&mut self, start: usize, instead: &str, reason: Reason) {
        self.out.push_str(&self.text[self.kept..start]);
        self.out.push_str(&serde_json::Value::from(instead).to_string());
        self.kept = self.at;
        self.found.note(&self.path, reason);
    }

    /// Goes over a text, and gives what it means.
    fn literal(&mut self) -> Cow<'a, str> {
        let start = self.at;
        self.skip_text();
        let quoted = &self.text[start..self.at];
        let plain = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
        if !plain.contains('\\') {
            return Cow::Borrowed(plain);
        }
        serde_json::from_str(quoted).map_or(Cow::Borrowed(plain), Cow::Owned)
    }

    fn skip_text(&mut self) {
        let bytes = self.text.as_bytes();
        self.at += 1;
        while let Some(byte) = bytes.get(self.at) {
            self.at += if *byte == b'\\' { 2 } else { 1 };
            if *byte == b'"' {
                break;
            }
        }
        self.at = self.at.min(self.text.len());
    }

    /// Goes over a value without looking into it.
    fn skip(&mut self) {
        let mut depth = 0_usize;
        loop {
            match self.byte() {
                0 => return,
                b'"' => self.skip_text(),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                b',' | b':' => self.at += 1,
                _ => self.skip_scalar(),
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn skip_scalar(&mut self) {
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b",]}".contains(byte);
        while self.text.as_bytes().get(self.at).is_some_and(|byte| !ends(byte)) {
            self.at += 1;
        }
    }
}

/// The beginning of a text, up to the end of a word, and how much is missing.
fn cut(text: &str) -> String {
    let kept = &text[..text.floor_char_boundary(limits::BUNDLE_TEXT_BYTES_MAX / 2)];
    let kept = kept.rfind(char::is_whitespace).map_or(kept, |at| &kept[..at]);
    format!("{kept}… [{} bytes left out]", text.len() - kept.len())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules() -> Rules {
        Rules {
            words: ["completed".to_owned(), "A-very-long-name-of-a-Node-with-digits-12".to_owned()].into(),
            hidden: HashMap::from([
                ("/run/answers".to_owned(), (Reason::Answer, Extent::Values)),
                ("/run/whole".to_owned(), (Reason::Sensitive, Extent::Whole)),
            ]),
            secrets: vec![Scrub::of_words(["hunter22"], SECRET)],
            sensitive: Some(Scrub::of_words(["completed", "4711"], MASKED)),
            sentences: Some(Scrub::of_words(["because I say so"], LEFT_OUT)),
            answers: ["Berlin".to_owned()].into(),
        }
    }

    fn clean(text: &str) -> (String, Vec<(String, Reason)>) {
        let mut found = Found::default();
        let clean = rules().clean("/run", text, &mut found);
        (clean, found.named.into_iter().map(|one| (one.path, one.reason)).collect())
    }

    #[test]
    fn what_nobody_has_to_hide_stays_byte_for_byte() {
        let text = r#" {"a" : [1.0, 10000000000000000000000, -0, null, true,"\u0041\\"] , "b":{}, "c":[ ], "": "" } "#;
        assert_eq!(clean(text), (text.to_owned(), vec![]));
    }

    #[test]
    fn what_is_taken_out_is_named_by_its_place() {
        let text = json!({
            "answers": { "q1": { "deep": ["x"] }, "q2": null },
            "whole": [1, 2],
            "plain": "completed",
            "id": "A-very-long-name-of-a-Node-with-digits-12",
            "list": ["Berlin", "Berlin is a town", "it is so because I say so."],
            "a/b~c": "Authorization: Bearer abcdefgh12345678",
            "run": "run-019a8a3e-4711-7000-8000-000000000000",
            "event": "019a8a3e471170008000000000000000-12",
            "at": "2026-01-01T00:00:00.471Z",
            "pin": "4711",
            "masked": "[masked]",
            "echo": "you sent hunter22",
            "hunter22-x": 1,
        });
        let (clean, found) = clean(&text.to_string());
        let clean: Value = serde_json::from_str(&clean).unwrap();
        assert_eq!(
            clean,
            json!({
                "answers": { "q1": "[left out]", "q2": null },
                "whole": "[masked]",
                "plain": "completed",
                "id": "A-very-long-name-of-a-Node-with-digits-12",
                "list": ["[left out]", "Berlin is a town", "it is so [left out]."],
                "a/b~c": "Authorization: Bearer [secret]",
                "run": "run-019a8a3e-4711-7000-8000-000000000000",
                "event": "019a8a3e471170008000000000000000-12",
                "at": "2026-01-01T00:00:00.471Z",
                "pin": "[masked]",
                "masked": "[masked]",
                "echo": "you sent [secret]",
                "[secret]-x": 1,
            })
        );
        let mut expected = vec![
            ("/run/answers/q1", Reason::Answer),
            ("/run/whole", Reason::Sensitive),
            ("/run/list/0", Reason::Answer),
            ("/run/list/2", Reason::Answer),
            ("/run/a~1b~0c", Reason::Credential),
            ("/run/pin", Reason::Sensitive),
            ("/run/masked", Reason::Sensitive),
            ("/run/echo", Reason::Secret),
            ("/run/[secret]-x", Reason::Secret),
        ];
        expected.sort_by_key(|(path, _)| *path);
        let mut found: Vec<(&str, Reason)> = found.iter().map(|(path, why)| (path.as_str(), *why)).collect();
        found.sort_by_key(|(path, _)| *path);
        assert_eq!(found, expected);
    }

    #[test]
    fn a_long_text_is_cut_at_a_word_and_says_how_much_is_missing() {
        let text = json!({ "long": "word ".repeat(20_000) }).to_string();
        let (clean, found) = clean(&text);
        assert!(clean.len() < limits::BUNDLE_TEXT_BYTES_MAX && clean.contains("bytes left out]"), "{clean}");
        assert_eq!(found, [("/run/long".to_owned(), Reason::Size)]);
    }

    #[test]
    fn places_are_named_up_to_a_bound_and_all_counted() {
        let text = serde_json::to_string(&vec!["hunter22"; limits::BUNDLE_REDACTIONS_MAX + 5]).unwrap();
        let mut found = Found::default();
        rules().clean("/events", &text, &mut found);
        assert_eq!(found.named.len(), limits::BUNDLE_REDACTIONS_MAX);
        assert_eq!(found.total, limits::BUNDLE_REDACTIONS_MAX as u64 + 5);
    }

    #[test]
    fn what_is_no_json_ends_all_the_same() {
        for text in
            ["", "{", "[", "\"", "\"\\", "{\"a\"", "{\"a\":", "[1,", "nul", "]", "{]", "[}", "{\"a\" 1}"]
        {
            let mut found = Found::default();
            rules().clean("", text, &mut found);
        }
    }
}
