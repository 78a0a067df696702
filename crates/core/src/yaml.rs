//! One YAML document as JSON.
//!
//! A definition may be written in YAML; everything behind this file reads JSON. The events of the parser are
//! written out as they come: nothing is built in memory but the keys of the open mappings, nothing recurses.
//!
//! Only the part of YAML that says the same as JSON is read, by the core schema of YAML 1.2: `no` and `on` are
//! texts, and `012` (ten to one reader, twelve to another) is refused. Anchors and aliases are refused
//! altogether: a few lines of them stand for gigabytes, a definition has other ways to name what it repeats,
//! and a budget would refuse some honest documents at a size that nobody could predict.

use std::borrow::Cow;
use std::collections::BTreeSet;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError};
use serde::Serialize;

use crate::Problem;
use crate::excerpt::excerpt;
use crate::limits::{DEFINITION_BYTES_MAX, YAML_DEPTH_MAX};

/// The document in compact JSON, its keys in the order in which they are written.
pub fn json_from_yaml(text: &str) -> Result<Vec<u8>, Problem> {
    if text.len() > DEFINITION_BYTES_MAX {
        let message = format!("the text is longer than {DEFINITION_BYTES_MAX} bytes: split the definition");
        return Err(Problem { place: "the document".into(), message });
    }
    let mut writer = Writer::default();
    for next in Parser::new_from_str_with_options(text, options()) {
        let (event, span) = next.map_err(|error| problem(error.marker(), unreadable(&error)))?;
        writer.take(event).map_err(|message| problem(&span.start, message))?;
    }
    match writer.documents {
        0 => Err(problem(&Marker::new(0, 1, 0), "the document is empty: write a definition".into())),
        _ => Ok(writer.json),
    }
}

fn options() -> granit_parser::Options {
    granit_parser::options! {
        disallow_directives: true,
        emit_unresolved_aliases: true,
        emit_comments: false,
        flow_nesting_limit: YAML_DEPTH_MAX,
        block_nesting_limit: YAML_DEPTH_MAX,
    }
}

fn problem(at: &Marker, message: String) -> Problem {
    Problem { place: format!("line {}, column {}", at.line(), at.col() + 1), message }
}

/// What to say where the text is not YAML at all.
fn unreadable(error: &ScanError) -> String {
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => too_deep(),
        ErrorKind::DirectiveDisallowed => {
            "directives are not read: remove the line that begins with %".into()
        }
        ErrorKind::ExpectedDocumentStart => SECOND_DOCUMENT.into(),
        kind => format!("this is not YAML ({}): correct it here or just above", excerpt(kind)),
    }
}

const SECOND_DOCUMENT: &str = "a second document begins here: keep one document in a text";

fn too_deep() -> String {
    format!("the nesting is deeper than {YAML_DEPTH_MAX} levels: make it flatter")
}

/// Turns events into JSON text.
#[derive(Default)]
struct Writer<'t> {
    json: Vec<u8>,
    open: Vec<Open<'t>>,
    documents: usize,
}

/// A collection whose end is still to come.
enum Open<'t> {
    Sequence { empty: bool },
    Mapping { keys: BTreeSet<Cow<'t, str>>, value_is_next: bool },
}

impl<'t> Writer<'t> {
    fn take(&mut self, event: Event<'t>) -> Result<(), String> {
        if let Some(tag) = event.tag() {
            return Err(format!(
                "the tag {} is not read: remove it, and quote the value if it is text",
                excerpt(tag)
            ));
        }
        if event.anchor_id().is_some() {
            return Err(NO_ALIASES.into());
        }
        match event {
            Event::Alias(_) | Event::UnresolvedAlias(_) => Err(NO_ALIASES.into()),
            Event::DocumentStart(..) => self.begin_document(),
            Event::Scalar(text, style, ..) => self.scalar(text, style),
            Event::SequenceStart(..) => self.begin(b'[', Open::Sequence { empty: true }),
            Event::MappingStart(..) => {
                self.begin(b'{', Open::Mapping { keys: BTreeSet::new(), value_is_next: false })
            }
            Event::SequenceEnd => self.end(b']'),
            Event::MappingEnd => self.end(b'}'),
            _ => Ok(()),
        }
    }

    fn begin_document(&mut self) -> Result<(), String> {
        self.documents += 1;
        if self.documents > 1 { Err(SECOND_DOCUMENT.into()) } else { Ok(()) }
    }

    fn begin(&mut self, bracket: u8, collection: Open<'t>) -> Result<(), String> {
        if self.key_is_next() {
            return Err(
                "a key is a text, not a list or a mapping: write it in quotes (a value that begins with \
                        {{ needs quotes too)"
                    .into(),
            );
        }
        if self.open.len() == YAML_DEPTH_MAX {
            return Err(too_deep());
        }
        self.separate();
        self.json.push(bracket);
        self.open.push(collection);
        Ok(())
    }

    fn end(&mut self, bracket: u8) -> Result<(), String> {
        self.open.pop();
        self.json.push(bracket);
        Ok(())
    }

    fn scalar(&mut self, text: Cow<'t, str>, style: ScalarStyle) -> Result<(), String> {
        let plain = style == ScalarStyle::Plain;
        if self.key_is_next() {
            return self.key(text, plain);
        }
        let value = if plain { Scalar::of_plain(&text)? } else { Scalar::Text };
        self.separate();
        match value {
            Scalar::Null => write(&mut self.json, &()),
            Scalar::Bool(value) => write(&mut self.json, &value),
            Scalar::Signed(value) => write(&mut self.json, &value),
            Scalar::Unsigned(value) => write(&mut self.json, &value),
            Scalar::Float(value) => write(&mut self.json, &value),
            Scalar::Text => write(&mut self.json, &text),
        }
        Ok(())
    }

    fn key(&mut self, key: Cow<'t, str>, plain: bool) -> Result<(), String> {
        if plain && key == "<<" {
            return Err("merge keys are not read: write the keys out, or quote \"<<\" if it is a name".into());
        }
        if plain && !matches!(Scalar::of_plain(&key), Ok(Scalar::Text)) {
            return Err(format!("the key {} is not a text: quote it", excerpt(key)));
        }
        let Some(Open::Mapping { keys, value_is_next }) = self.open.last_mut() else { return Ok(()) };
        if keys.contains(&key) {
            return Err(format!("the key {} stands twice in one mapping: keep one", excerpt(key)));
        }
        *value_is_next = true;
        if !keys.is_empty() {
            self.json.push(b',');
        }
        write(&mut self.json, &key);
        keys.insert(key);
        Ok(())
    }

    fn key_is_next(&self) -> bool {
        matches!(self.open.last(), Some(Open::Mapping { value_is_next: false, .. }))
    }

    /// Writes what stands between the value to come and what is before it.
    fn separate(&mut self) {
        match self.open.last_mut() {
            Some(Open::Sequence { empty: false }) => self.json.push(b','),
            Some(Open::Sequence { empty }) => *empty = false,
            Some(Open::Mapping { value_is_next, .. }) => {
                *value_is_next = false;
                self.json.push(b':');
            }
            None => {}
        }
    }
}

fn write<T: Serialize + ?Sized>(json: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(json, value).expect("a plain value is written into memory");
}

const NO_ALIASES: &str = "anchors and aliases are not read: write the value out at each place";

/// What a plain scalar means by the core schema of YAML 1.2.
#[derive(Debug, PartialEq)]
enum Scalar {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text,
}

impl Scalar {
    fn of_plain(text: &str) -> Result<Self, String> {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => return Ok(Self::Null),
            "true" | "True" | "TRUE" => return Ok(Self::Bool(true)),
            "false" | "False" | "FALSE" => return Ok(Self::Bool(false)),
            _ => {}
        }
        for (prefix, radix) in [("0x", 16), ("0o", 8)] {
            if let Some(digits) = text.strip_prefix(prefix) {
                return Self::of_prefixed(text, digits, radix);
            }
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        match unsigned {
            ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN" => {
                Err(format!("JSON has no number {text}: quote it if it is text"))
            }
            _ if is_digits(unsigned) => Self::of_integer(text, unsigned),
            _ if is_decimal(unsigned) => Self::of_decimal(text),
            _ => Ok(Self::Text),
        }
    }

    /// `0x1F` and `0o17`; what only begins like one is a text.
    fn of_prefixed(text: &str, digits: &str, radix: u32) -> Result<Self, String> {
        if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
            return Ok(Self::Text);
        }
        let number = u64::from_str_radix(digits, radix);
        number.map(Self::Unsigned).map_err(|_| format!("{} is too large: quote it", excerpt(text)))
    }

    fn of_integer(text: &str, digits: &str) -> Result<Self, String> {
        if digits.len() > 1 && digits.starts_with('0') {
            return Err(format!(
                "{} may be read as octal: quote it if it is text, or drop the leading zero",
                excerpt(text)
            ));
        }
        if let Ok(number) = text.parse() {
            return Ok(Self::Signed(number));
        }
        text.parse().map(Self::Unsigned).or_else(|_| Self::of_decimal(text))
    }

    fn of_decimal(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Self::Float(number)),
            _ => Err(format!("the number {} is too large: quote it if it is text", excerpt(text))),
        }
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Digits, a point and an exponent as the core schema has them. Rust alone would also read `infinity`.
fn is_decimal(text: &str) -> bool {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits_or_none = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    digits_or_none(whole)
        && digits_or_none(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|it| is_digits(it.strip_prefix(['+', '-']).unwrap_or(it)))
}
