//! What a node asks for, read and checked before anybody hears of it.
//!
//! Every shape is closed.

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

    /// Whether it is about a decision and offers this action.
    pub(crate) fn offers(&self, action: &str) -> bool {
        let data: JsonMap = self.data.parse().unwrap_or_default();
        let actions = data.get("actions").and_then(|actions| actions.parse::<Vec<String>>().ok());
        self.kind == InterruptKind::Approval
            && actions.is_some_and(|actions| actions.iter().any(|offered| offered == action))
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
    let kind = one_of(&mut fields, names.kind, read_kind, String::eq);
    let key = one_of(&mut fields, names.key, read_key, String::eq);
    let resume_schema = one_of(&mut fields, names.resume_schema, read_schema, same);
    let timeout_ms = fields.optional_whole("timeoutMs", 0..=INTERRUPT_TIMEOUT_MS_MAX).filter(|ms| *ms > 0);
    let data = fields.any("data");
    fields.finish();
    if kind.is_none() && !is_told(findings, names.kind) {
        findings.problem("kind", format!("'kind' is missing; add one of {}", kinds().join(", ")));
    }
    if data.is_none() {
        findings.problem("data", "'data' is missing; add what belongs to the kind");
    }
    let kind = kind.and_then(|(name, place)| known_kind(&name, place, findings))?;
    let data = read_data(kind, &data?, findings)?;
    let (key, resume_schema) = (key.map(|(key, _)| key), resume_schema.map(|(schema, _)| schema));
    Some(Ask { kind, key, resume_schema, timeout_ms, data })
}

fn read_kind(fields: &mut Fields<'_>, name: &'static str) -> Option<String> {
    fields.optional_text(name)
}

fn read_key(fields: &mut Fields<'_>, name: &'static str) -> Option<String> {
    optional_text(fields, name, 1..=INTERRUPT_KEY_CHARS_MAX)
}

fn read_schema(fields: &mut Fields<'_>, name: &'static str) -> Option<Json> {
    schema(fields, name).map(|(json, _)| json)
}

/// The value under any of these names, and that name. Two of them have to say the same.
fn one_of<T>(
    fields: &mut Fields<'_>,
    names: &[&'static str],
    mut read: impl FnMut(&mut Fields<'_>, &'static str) -> Option<T>,
    same: impl Fn(&T, &T) -> bool,
) -> Option<(T, &'static str)> {
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
    found
}

/// Whether something is wrong with one of these keys already.
fn is_told(findings: &Findings, names: &[&str]) -> bool {
    findings.problems.iter().any(|problem| names.contains(&problem.place.as_str()))
}

fn kinds() -> [&'static str; 8] {
    InterruptKind::ALL.map(InterruptKind::name)
}

fn known_kind(name: &str, place: &str, findings: &mut Findings) -> Option<InterruptKind> {
    known_word(name, &kinds(), place.to_owned(), findings);
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
    optional_text(&mut fields, "conversationId", 1..=ASK_NAME_CHARS_MAX);
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The data of a question of each kind, with all that must be there.
    fn data(kind: InterruptKind) -> Value {
        match kind {
            InterruptKind::Approval => json!({
                "artifactId": "a1", "artifactType": "letter", "title": "A letter", "actions": ["accept", "reject"]
            }),
            InterruptKind::Clarification => {
                json!({ "questions": [{ "id": "q1", "question": "Which one?" }] })
            }
            InterruptKind::ExternalEvent => json!({ "eventType": "paid", "correlation": { "orderId": 7 } }),
            InterruptKind::Custom => json!({ "customKind": "colour" }),
            InterruptKind::ConversationStart => json!({ "conversationId": "c1" }),
            InterruptKind::ConversationExchange => json!({ "conversationId": "c1", "prompt": "And now?" }),
            InterruptKind::ConversationClose => json!({ "conversationId": "c1" }),
            InterruptKind::LowConfidence => {
                json!({ "agentId": "planner", "threshold": 0.7, "observed": 0.5 })
            }
        }
    }

    fn payload(kind: InterruptKind) -> Value {
        json!({ "kind": kind, "data": data(kind) })
    }

    fn with(mut payload: Value, key: &str, value: Value) -> Value {
        payload[key] = value;
        payload
    }

    fn custom(key: &str, value: Value) -> Value {
        with(payload(InterruptKind::Custom), key, value)
    }

    #[track_caller]
    fn read(payload: &Value) -> Ask {
        Ask::read(&Json::of(payload)).expect("the payload is sound")
    }

    #[track_caller]
    fn told(payload: &Value) -> String {
        let problems = Ask::read(&Json::of(payload)).expect_err(&payload.to_string());
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[track_caller]
    fn refused(payload: &Value, part: &str) {
        let told = told(payload);
        assert!(told.contains(part), "{part:?} is not in {told:?}");
    }

    #[test]
    fn a_question_is_of_one_of_eight_kinds() {
        for kind in InterruptKind::ALL {
            assert_eq!(read(&payload(kind)).kind, kind);
        }
        let data = data(InterruptKind::Approval);
        refused(&json!({ "data": data }), "kind: 'kind' is missing; add one of approval, ");
        refused(
            &json!({ "kind": "aproval", "data": data }),
            "kind: 'aproval' is not known here; did you mean 'approval'?",
        );
        refused(&json!({ "kind": "credential", "data": data }), "it is one of approval, clarification");
        refused(&json!({ "kind": 1, "data": data }), "kind: a string is expected, not a number");
        refused(&json!({ "kind": null, "data": data }), "'kind' is missing");
        refused(&json!({ "kind": "custom" }), "data: 'data' is missing");
        refused(&json!(["custom"]), "interrupt: an object is expected here, not an array");
    }

    #[test]
    fn a_key_has_1_to_256_characters() {
        for good in [1, 256] {
            let key = "ü".repeat(good);
            assert_eq!(read(&custom("key", json!(key))).key, Some(key));
        }
        for bad in [0, 257] {
            refused(&custom("key", json!("k".repeat(bad))), "key: 'key' has 1 to 256 characters");
        }
        refused(&custom("key", json!(7)), "key: a string is expected");
        assert_eq!(read(&payload(InterruptKind::Custom)).key, None);
    }

    #[test]
    fn a_schema_that_can_not_be_used_is_refused_before_anybody_is_asked() {
        let schema = json!({ "type": "object" });
        assert_eq!(read(&custom("resumeSchema", schema.clone())).resume_schema, Some(Json::of(&schema)));
        refused(
            &custom("resumeSchema", json!({ "type": "colour" })),
            "resumeSchema: the schema is not valid",
        );
        for remote in ["https://example.com/schema.json", "other.json#/a", "file:///etc/passwd"] {
            refused(&custom("resumeSchema", json!({ "$ref": remote })), "leads out of the schema");
        }
        refused(&custom("resumeSchema", json!("string")), "resumeSchema: a JSON Schema is expected");
    }

    #[test]
    fn a_question_without_a_timeout_waits_for_ever() {
        assert_eq!(read(&payload(InterruptKind::Custom)).timeout_ms, None);
        assert_eq!(read(&custom("timeoutMs", json!(60_000))).timeout_ms, Some(60_000));
    }

    #[test]
    fn a_timeout_of_zero_is_none() {
        assert_eq!(read(&custom("timeoutMs", json!(0))).timeout_ms, None);
    }

    #[test]
    fn a_timeout_is_a_whole_number_and_not_negative() {
        for bad in
            [json!(-1), json!(1.5), json!("60"), json!(true), json!([1]), json!(INTERRUPT_TIMEOUT_MS_MAX + 1)]
        {
            refused(&custom("timeoutMs", bad), "timeoutMs: a whole number from 0");
        }
    }

    #[test]
    fn the_data_has_the_shape_of_its_kind_and_of_no_other() {
        for kind in InterruptKind::ALL {
            for other in InterruptKind::ALL {
                let given = json!({ "kind": kind, "data": data(other) });
                // What opens and what closes a conversation may look alike.
                let alike =
                    kind.name().starts_with("conversation.") && other.name().starts_with("conversation.");
                if kind == other {
                    read(&given);
                } else if !alike {
                    refused(&given, "data");
                }
            }
            refused(&with(payload(kind), "data", json!([])), "is an object, not an array");
            let mut odd = payload(kind);
            odd["data"]["colour"] = json!("red");
            refused(&odd, "data.colour: there is no 'colour' here");
        }
        refused(
            &custom("timoutMs", json!(1)),
            "timoutMs: there is no 'timoutMs' here; did you mean 'timeoutMs'?",
        );
    }

    #[test]
    fn a_custom_question_has_a_kind_of_its_own_and_any_payload() {
        for any in [json!(null), json!(1), json!([{ "a": [] }]), json!("x")] {
            let data = json!({ "customKind": "colour/of the day", "payload": any });
            assert_eq!(read(&custom("data", data.clone())).data, Json::of(&data));
        }
        refused(&custom("data", json!({ "payload": 1 })), "data: 'customKind' is missing");
        refused(&custom("data", json!({ "customKind": 1 })), "data.customKind: a string is expected");
    }

    #[test]
    fn conversations_and_doubts_are_read_in_full() {
        for (kind, data) in [
            ("conversation.start", json!({ "conversationId": "c", "title": "T", "initialPrompt": "P" })),
            (
                "conversation.exchange",
                json!({ "conversationId": "c", "prompt": "P", "turnIndex": 3, "outcomeSchema": { "type": "string" } }),
            ),
            ("conversation.close", json!({ "conversationId": "c", "reason": "R" })),
            ("low-confidence", json!({ "agentId": "a", "threshold": 1, "observed": 0.2, "decision": [1] })),
        ] {
            assert_eq!(read(&json!({ "kind": kind, "data": data })).data, Json::of(&data));
        }
        for (kind, data, part) in [
            ("conversation.start", json!({ "conversationId": "" }), "data.conversationId"),
            ("conversation.exchange", json!({ "prompt": "P" }), "data: 'conversationId' is missing"),
            ("conversation.exchange", json!({ "conversationId": "c" }), "data: 'prompt' is missing"),
            (
                "conversation.exchange",
                json!({ "conversationId": "c", "prompt": "", "outcomeSchema": { "$ref": "x.json" } }),
                "data.outcomeSchema: the $ref",
            ),
            (
                "conversation.exchange",
                json!({ "conversationId": "c", "prompt": "", "turnIndex": -1 }),
                "data.turnIndex: a whole number",
            ),
            (
                "low-confidence",
                json!({ "agentId": "a", "threshold": "high", "observed": 0 }),
                "data.threshold: a number is expected, not a string",
            ),
        ] {
            refused(&json!({ "kind": kind, "data": data }), part);
        }
    }

    #[test]
    fn suspend_knows_the_other_names_and_interrupt_does_not() {
        let schema = json!({ "type": "string" });
        let data = data(InterruptKind::Custom);
        let other = json!({ "reason": "custom", "resumeKey": "k", "answerSchema": schema, "data": data });
        let canonical = json!({ "kind": "custom", "key": "k", "resumeSchema": schema, "data": data });
        assert_eq!(Ask::read_alias(&Json::of(&other)), Ask::read(&Json::of(&canonical)));
        assert_eq!(Ask::read_alias(&Json::of(&canonical)), Ask::read(&Json::of(&canonical)));
        let both: Json = serde_json::from_str(
            r#"{"kind":"custom","reason":"custom","resumeKey":"k","data":{"customKind":"x"},
                "resumeSchema":{"minLength":1,"type":"string"},"answerSchema":{"type":"string","minLength":1.0}}"#,
        )
        .unwrap();
        assert_eq!(Ask::read_alias(&both).unwrap().key.as_deref(), Some("k"));
        refused(&other, "reason: there is no 'reason' here");
        for (key, value) in [
            ("kind", json!("approval")),
            ("key", json!("other")),
            ("resumeSchema", json!({ "type": "number" })),
        ] {
            let problems = Ask::read_alias(&Json::of(&with(other.clone(), key, value))).unwrap_err();
            let told = problems[0].to_string();
            assert!(told.contains(&format!("and '{key}' are one thing")), "{told}");
        }
        let wrong = Ask::read_alias(&Json::of(&with(other, "reason", json!("custm")))).unwrap_err();
        assert_eq!(wrong[0].to_string(), "reason: 'custm' is not known here; did you mean 'custom'?");
    }

    #[test]
    fn questions_are_the_same_by_kind_and_schema_however_they_are_written() {
        let schema = |text: &str| -> Json { serde_json::from_str(text).unwrap() };
        let ask = read(&custom("resumeSchema", json!({ "type": "string", "minLength": 1 })));
        let other = schema(r#"{ "minLength": 1.0, "type": "string" }"#);
        assert!(ask.same_question(InterruptKind::Custom, Some(&other)));
        assert!(!ask.same_question(InterruptKind::Approval, Some(&other)), "another kind");
        assert!(!ask.same_question(InterruptKind::Custom, None), "no schema");
        assert!(
            !ask.same_question(InterruptKind::Custom, Some(&schema(r#"{"type":"string"}"#))),
            "another schema"
        );
        let plain = read(&payload(InterruptKind::Custom));
        assert!(plain.same_question(InterruptKind::Custom, None));
        assert!(!plain.same_question(InterruptKind::Custom, Some(&other)));
    }

    #[test]
    fn the_inbox_shows_one_line_of_each_kind() {
        let titles = InterruptKind::ALL.map(|kind| read(&payload(kind)).title());
        assert_eq!(
            titles,
            [
                "A letter",
                "Which one?",
                "paid",
                "colour",
                "conversation.start",
                "And now?",
                "end of conversation c1",
                "low confidence of planner"
            ]
        );
        let long = custom("data", json!({ "customKind": "ü".repeat(256) }));
        assert_eq!(read(&long).title(), format!("{}…", "ü".repeat(199)));
        let breaks = custom("data", json!({ "customKind": " a\n\tb\u{1b}[31m\u{7}c  d " }));
        assert_eq!(read(&breaks).title(), "a b [31m c d");
        let blank = custom("data", json!({ "customKind": " \n" }));
        assert_eq!(read(&blank).title(), "custom");
    }

    #[test]
    fn what_is_too_large_or_too_deep_is_refused() {
        let data =
            |payload: &str| format!(r#"{{"kind":"custom","data":{{"customKind":"x","payload":{payload}}}}}"#);
        let told = |text: &str| Ask::read(&serde_json::from_str(text).unwrap()).unwrap_err()[0].to_string();
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Ask::read(&serde_json::from_str(&data(&deep(98))).unwrap()).is_ok());
        assert!(told(&data(&deep(99))).contains("nested deeper than 100 levels"));
        assert!(told(&data(&deep(200_000))).contains("nested deeper than 100 levels"));
        assert!(
            told(&data(&format!("\"{}\"", "x".repeat(ASK_BYTES_MAX)))).contains("longer than 1048576 bytes")
        );
        assert!(told(&data(r#""\ud800""#)).contains("it can't be read"));
        assert!(told(&data("1e999")).contains("it can't be read"));
        let quoted = data(&format!("\"{}\"", "[\\\"{".repeat(500)));
        assert!(
            Ask::read(&serde_json::from_str(&quoted).unwrap()).is_ok(),
            "brackets in a text nest nothing"
        );
    }
}
