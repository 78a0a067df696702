//! What a node asks for, read and checked before anybody hears of it.
//!
//! Every shape is closed. What only a later release can do is read all the same, and named by [`Ask::unbuilt`].

use super::InterruptKind;
use super::equal::same;
use super::form::{known_word, optional_text, readable, schema, text};
use super::{approval, clarification, external};
use crate::fields::{Fields, Findings, ROOT, article};
use crate::limits::{
    ASK_BYTES_MAX, ASK_NAME_CHARS_MAX, ASK_TEXT_CHARS_MAX, ASK_TITLE_CHARS_MAX, INBOX_TITLE_CHARS_MAX,
    INTERRUPT_KEY_CHARS_MAX, INTERRUPT_TIMEOUT_MS_MAX,
};
use crate::{Json, JsonMap, Millis, Problem};

/// What a node asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// What it is about.
    pub kind: InterruptKind,
    /// What names the question in its run, if the node says so.
    pub key: Option<String>,
    /// What an answer has to look like.
    pub resume_schema: Option<Json>,
    /// How long it waits; nothing is for ever, and so is zero.
    pub timeout_ms: Option<Millis>,
    /// What whoever answers is shown: as given, but each action has its one name.
    pub data: Json,
}

/// Something that is understood but that this release does not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbuilt {
    /// Where it stands in the payload.
    pub what: &'static str,
    /// The capability that would do it.
    pub capability: &'static str,
    /// What to change.
    pub message: String,
}

/// How the keys of a payload are called.
struct Names {
    kind: &'static [&'static str],
    key: &'static [&'static str],
    resume_schema: &'static [&'static str],
}

/// The names of `interrupt`.
const CANONICAL: Names = Names { kind: &["kind"], key: &["key"], resume_schema: &["resumeSchema"] };

/// The names of `suspend`, which also takes its own.
const ALIASES: Names = Names {
    kind: &["kind", "reason"],
    key: &["key", "resumeKey"],
    resume_schema: &["resumeSchema", "answerSchema"],
};

impl Ask {
    /// Reads what is passed to `interrupt`.
    pub fn read(payload: &Json) -> Result<Self, Vec<Problem>> {
        Self::read_as(payload, &CANONICAL)
    }

    /// Reads what is passed to `suspend`: the same, and some keys have a second name.
    pub fn read_alias(payload: &Json) -> Result<Self, Vec<Problem>> {
        Self::read_as(payload, &ALIASES)
    }

    fn read_as(payload: &Json, names: &Names) -> Result<Self, Vec<Problem>> {
        let mut findings = Findings::about(WHOLE);
        let ask = match readable(payload, ASK_BYTES_MAX) {
            Ok(()) => read(payload, names, &mut findings),
            Err(message) => {
                findings.problem(WHOLE, message);
                None
            }
        };
        let problems = findings.all();
        match ask {
            Some(ask) if problems.is_empty() => Ok(ask),
            _ => Err(problems),
        }
    }

    /// Whether a question of this kind and with this schema is the same question. Texts may differ: they are often
    /// generated.
    pub fn same_question(&self, kind: InterruptKind, resume_schema: Option<&Json>) -> bool {
        let same_schema = match (&self.resume_schema, resume_schema) {
            (Some(one), Some(other)) => same(one, other),
            (None, None) => true,
            _ => false,
        };
        self.kind == kind && same_schema
    }

    /// The first thing in it that this release does not do.
    pub fn unbuilt(&self) -> Option<Unbuilt> {
        match self.kind {
            InterruptKind::Approval => approval::unbuilt(&self.data),
            InterruptKind::ConversationStart
            | InterruptKind::ConversationExchange
            | InterruptKind::ConversationClose => Some(Unbuilt {
                what: "kind",
                capability: "conversationPrimitive",
                message: format!("'{}' is not built yet; ask with a clarification", self.kind),
            }),
            InterruptKind::Clarification
            | InterruptKind::ExternalEvent
            | InterruptKind::Custom
            | InterruptKind::LowConfidence => None,
        }
    }

    /// What it is about, in one line.
    pub fn title(&self) -> String {
        let data: JsonMap = self.data.parse().unwrap_or_default();
        let text = |key: &str| data.get(key).and_then(|value| value.parse::<String>().ok());
        let named = |key: &str| text(key).unwrap_or_default();
        let title = match self.kind {
            InterruptKind::Approval => text("title"),
            InterruptKind::Clarification => clarification::first_question(&self.data),
            InterruptKind::ExternalEvent => text("eventType"),
            InterruptKind::Custom => text("customKind"),
            InterruptKind::ConversationStart => text("title").or_else(|| text("initialPrompt")),
            InterruptKind::ConversationExchange => text("prompt"),
            InterruptKind::ConversationClose => {
                Some(format!("end of conversation {}", named("conversationId")))
            }
            InterruptKind::LowConfidence => Some(format!("low confidence of {}", named("agentId"))),
        };
        let line = one_line(&title.unwrap_or_default());
        if line.is_empty() { self.kind.name().to_owned() } else { line }
    }
}

/// How the payload itself is called in a problem.
const WHOLE: &str = "interrupt";

fn read(payload: &Json, names: &Names, findings: &mut Findings) -> Option<Ask> {
    let mut fields = Fields::of(payload, ROOT, findings)?;
    let kind =
        one_of(&mut fields, names.kind, |fields, key| fields.optional_text(key), |one, other| one == other);
    let key_chars = 1..=INTERRUPT_KEY_CHARS_MAX;
    let key = one_of(
        &mut fields,
        names.key,
        |fields, key| optional_text(fields, key, key_chars.clone()),
        |one, other| one == other,
    );
    let resume_schema =
        one_of(&mut fields, names.resume_schema, |fields, key| Some(schema(fields, key)?.0), same);
    let timeout_ms = fields.optional_whole("timeoutMs", 0..=INTERRUPT_TIMEOUT_MS_MAX).filter(|ms| *ms > 0);
    let data = fields.any("data");
    fields.finish();
    if kind.is_none() && !is_told(findings, names.kind) {
        findings.problem("kind", format!("'kind' is missing; add one of {}", kinds().join(", ")));
    }
    let kind = known_kind(&kind?, findings);
    let Some(data) = data else {
        findings.problem("data", "'data' is missing; add what belongs to the kind");
        return None;
    };
    let data = read_data(kind?, &data, findings)?;
    Some(Ask { kind: kind?, key, resume_schema, timeout_ms, data })
}

/// The value under any of these names. Two of them have to say the same.
fn one_of<T>(
    fields: &mut Fields<'_>,
    names: &[&'static str],
    mut read: impl FnMut(&mut Fields<'_>, &'static str) -> Option<T>,
    same: impl Fn(&T, &T) -> bool,
) -> Option<T> {
    let mut found: Option<(T, &'static str)> = None;
    for name in names {
        match (read(fields, name), &found) {
            (Some(value), Some((first, first_name))) if !same(first, &value) => {
                let message =
                    format!("'{name}' and '{first_name}' are one thing; give one, or both the same");
                let place = fields.place(name);
                fields.findings().problem(place, message);
            }
            (Some(value), None) => found = Some((value, name)),
            _ => {}
        }
    }
    found.map(|(value, _)| value)
}

/// Whether something is wrong with one of these keys already.
fn is_told(findings: &Findings, names: &[&str]) -> bool {
    findings.problems.iter().any(|problem| names.contains(&problem.place.as_str()))
}

fn kinds() -> [&'static str; 8] {
    InterruptKind::ALL.map(InterruptKind::name)
}

fn known_kind(name: &str, findings: &mut Findings) -> Option<InterruptKind> {
    known_word(name, &kinds(), "kind".to_owned(), findings);
    InterruptKind::by_name(name)
}

/// Checks that the data has the shape of its kind, and gives it back as it is kept.
fn read_data(kind: InterruptKind, data: &Json, findings: &mut Findings) -> Option<Json> {
    if data.type_name() != "object" {
        let found = article(data.type_name());
        findings.problem("data", format!("the data of '{kind}' is an object, not {found}"));
        return None;
    }
    let fields = Fields::of(data, "data", findings)?;
    match kind {
        InterruptKind::Approval => return approval::read_data(data, fields),
        InterruptKind::Clarification => clarification::read_data(fields),
        InterruptKind::ExternalEvent => external::read_data(fields),
        InterruptKind::Custom => read_custom(fields),
        InterruptKind::ConversationStart => read_conversation_start(fields),
        InterruptKind::ConversationExchange => read_conversation_exchange(fields),
        InterruptKind::ConversationClose => read_conversation_close(fields),
        InterruptKind::LowConfidence => read_low_confidence(fields),
    }
    Some(data.clone())
}

fn read_custom(mut fields: Fields<'_>) {
    text(&mut fields, "customKind", 1..=ASK_NAME_CHARS_MAX);
    fields.any("payload");
    fields.finish();
}

fn read_conversation_start(mut fields: Fields<'_>) {
    text(&mut fields, "conversationId", 1..=ASK_NAME_CHARS_MAX);
    optional_text(&mut fields, "title", 0..=ASK_TITLE_CHARS_MAX);
    optional_text(&mut fields, "initialPrompt", 0..=ASK_TEXT_CHARS_MAX);
    fields.finish();
}

fn read_conversation_exchange(mut fields: Fields<'_>) {
    text(&mut fields, "conversationId", 1..=ASK_NAME_CHARS_MAX);
    text(&mut fields, "prompt", 0..=ASK_TEXT_CHARS_MAX);
    schema(&mut fields, "outcomeSchema");
    fields.optional_whole("turnIndex", 0..=i64::from(u32::MAX));
    fields.finish();
}

fn read_conversation_close(mut fields: Fields<'_>) {
    text(&mut fields, "conversationId", 1..=ASK_NAME_CHARS_MAX);
    optional_text(&mut fields, "reason", 0..=ASK_TEXT_CHARS_MAX);
    fields.finish();
}

fn read_low_confidence(mut fields: Fields<'_>) {
    text(&mut fields, "agentId", 1..=ASK_NAME_CHARS_MAX);
    for key in ["threshold", "observed"] {
        let Some(value) = fields.required(key) else { continue };
        if value.type_name() != "number" {
            let place = fields.place(key);
            let message = format!("a number is expected, not {}", article(value.type_name()));
            fields.findings().problem(place, message);
        }
    }
    fields.any("decision");
    fields.finish();
}

/// A text without breaks, as long as a line of the inbox.
fn one_line(text: &str) -> String {
    let words =
        text.split(|char: char| char.is_whitespace() || char.is_control()).filter(|word| !word.is_empty());
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    match line.char_indices().nth(INBOX_TITLE_CHARS_MAX) {
        None => line,
        Some(_) => {
            let end = line.char_indices().nth(INBOX_TITLE_CHARS_MAX - 1).map_or(0, |(end, _)| end);
            line.truncate(end);
            line.push('…');
            line
        }
    }
}
