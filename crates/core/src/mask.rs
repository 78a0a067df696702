//! What is never shown: values that a run holds as sensitive, in its snapshot and in its events.
//!
//! The state and the journal have it all. It is taken out on the way to the wire, and before two journals are compared:
//! whoever learns that two hidden values are the same has learnt one of them.

use std::borrow::Cow;

use crate::event::Mask;
use crate::{EventType, Json, JsonMap, is_minted_conversation};

/// What stands in the place of a value.
pub const MASKED: &str = "[masked]";

/// Which fields of an event's payload hold users' values, and which flag beside them says that they are never shown.
/// The fields of one type share one flag.
const FIELDS: &[(&str, &str, &str, Extent)] = &[
    ("run.started", "sensitive", "inputs", Extent::Values),
    ("variable.changed", "sensitive", "next", Extent::Whole),
    ("channel.written", "sensitive", "value", Extent::Whole),
    ("node.started", "sensitive", "inputs", Extent::Values),
    ("node.completed", "masked", "outputs", Extent::Values),
    ("node.spawned", "sensitive", "inputs", Extent::Values),
    ("child.reported", "sensitive", "outputs", Extent::Values),
    ("interrupt.requested", "sensitive", "data", Extent::Values),
    ("interrupt.requested", "sensitive", "resumeSchema", Extent::Whole),
    ("interrupt.requested", "sensitive", "key", Extent::Whole),
    ("node.suspended", "sensitive", "key", Extent::Whole),
    ("clarification.requested", "sensitive", "questions", Extent::Whole),
    ("approval.received", "sensitive", "feedback", Extent::Whole),
    ("approval.received", "sensitive", "reason", Extent::Whole),
    ("approval.received", "sensitive", "refineFeedback", Extent::Whole),
    ("approval.received", "sensitive", "editedArtifactData", Extent::Whole),
    ("approval.voted", "sensitive", "feedback", Extent::Whole),
    ("approval.voted", "sensitive", "reason", Extent::Whole),
    ("approval.voted", "sensitive", "refineFeedback", Extent::Whole),
    ("approval.asked", "sensitive", "question", Extent::Whole),
    ("approval.replied", "sensitive", "answer", Extent::Whole),
    ("node.refined", "sensitive", "refineFeedback", Extent::Whole),
    ("node.refined", "sensitive", "previousArtifact", Extent::Whole),
    ("clarification.resolved", "sensitive", "answers", Extent::Values),
    ("interrupt.resolved", "sensitive", "resumeValue", Extent::Whole),
    ("interrupt.resolved", "sensitive", "reason", Extent::Whole),
    ("step.recorded", "sensitive", "value", Extent::Whole),
    ("step.recorded", "sensitive", "error", Extent::Whole),
    ("conversation.opened", "sensitive", "conversationId", Extent::Name),
    ("conversation.exchanged", "sensitive", "conversationId", Extent::Name),
    ("conversation.closed", "sensitive", "conversationId", Extent::Name),
    ("conversation.opened", "sensitive", "title", Extent::Whole),
    ("conversation.opened", "sensitive", "initialPrompt", Extent::Whole),
    ("conversation.exchanged", "sensitive", "prompt", Extent::Whole),
    ("conversation.exchanged", "sensitive", "outcome", Extent::Whole),
    ("conversation.closed", "sensitive", "reason", Extent::Whole),
    ("agent.decided", "sensitive", "decision", Extent::Whole),
    ("turn.began", "sensitive", "messages", Extent::Messages),
    ("turn.began", "sensitive", "params", Extent::Values),
    ("model.answered", "sensitive", "message", Extent::Message),
    ("tool.answered", "sensitive", "content", Extent::Whole),
    ("node.noted", "sensitive", "lines", Extent::Whole),
    ("node.noted", "sensitive", "progress", Extent::Whole),
];

/// How much of a field is the user's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All of it.
    Whole,
    /// The values; the keys stand in the definition.
    Values,
    /// What a message says; who says it is shown.
    Message,
    /// What each of several messages says.
    Messages,
    /// All of it, unless the run made it itself and it says nothing.
    Name,
}

/// A payload without what is never shown. One that carries no flag is not even parsed.
pub fn payload(kind: EventType, bytes: &[u8]) -> serde_json::Result<Cow<'_, [u8]>> {
    let fields = || FIELDS.iter().filter(|(name, ..)| *name == kind.name);
    let Some((_, flag, ..)) = fields().next() else { return Ok(Cow::Borrowed(bytes)) };
    if !mentions(bytes, flag) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut payload: JsonMap = serde_json::from_slice(bytes)?;
    let mask = payload.get(*flag).map_or(Ok(Mask::Nothing), read)?;
    if mask == Mask::Nothing {
        return Ok(Cow::Borrowed(bytes));
    }
    for (_, _, field, extent) in fields() {
        if let Some(value) = payload.get_mut(*field) {
            *value = match extent {
                Extent::Whole => Json::of(MASKED),
                Extent::Values => object(value, &mask),
                Extent::Message => message(value),
                Extent::Name if value.parse::<String>().is_ok_and(|id| is_minted_conversation(&id)) => {
                    value.clone()
                }
                Extent::Name => Json::of(MASKED),
                Extent::Messages => {
                    Json::of(&value.parse::<Vec<Json>>()?.iter().map(message).collect::<Vec<_>>())
                }
            };
        }
    }
    serde_json::to_vec(&payload).map(Cow::Owned)
}

/// Whether a key of this name may stand in the payload.
fn mentions(bytes: &[u8], flag: &str) -> bool {
    let quoted = format!("\"{flag}\":");
    bytes.windows(quoted.len()).any(|window| window == quoted.as_bytes())
}

/// Flags come in three forms: true, a list of names, and a mask.
fn read(flag: &Json) -> serde_json::Result<Mask> {
    match flag.type_name() {
        "boolean" => Ok(if flag.parse()? { Mask::All } else { Mask::Nothing }),
        "array" => Ok(Mask::Keys(flag.parse()?)),
        _ => flag.parse(),
    }
}

/// An object without the values that a mask hides.
pub fn object(value: &Json, mask: &Mask) -> Json {
    match (mask, value.parse::<JsonMap>()) {
        (Mask::Nothing, _) => value.clone(),
        (_, Ok(values)) => Json::of(&map(&values, |key| mask.hides(key))),
        (_, Err(_)) => Json::of(MASKED),
    }
}

/// A message to or from a model, without what it says.
fn message(value: &Json) -> Json {
    let fields: JsonMap = value.parse().unwrap_or_default();
    let content = [("content".to_owned(), Json::of(MASKED))];
    let shown =
        fields.into_iter().filter(|(name, _)| ["role", "toolCallId", "name"].contains(&name.as_str()));
    Json::of(&shown.chain(content).collect::<JsonMap>())
}

/// A map without the values under hidden names.
pub fn map<'a>(values: &'a JsonMap, hides: impl Fn(&str) -> bool) -> Cow<'a, JsonMap> {
    if !values.keys().any(|name| hides(name)) {
        return Cow::Borrowed(values);
    }
    let shown = |name: &String, value: &Json| if hides(name) { Json::of(MASKED) } else { value.clone() };
    Cow::Owned(values.iter().map(|(name, value)| (name.clone(), shown(name, value))).collect())
}

#[cfg(test)]
mod tests {
    use crate::event_types;

    use super::*;

    fn masked(name: &str, text: &str) -> String {
        let kind = event_types().iter().find(|kind| kind.name == name).unwrap();
        String::from_utf8(payload(*kind, text.as_bytes()).unwrap().into_owned()).unwrap()
    }

    #[test]
    fn every_masked_event_is_one_that_there_is() {
        for (name, ..) in FIELDS {
            assert!(event_types().iter().any(|kind| kind.name == *name), "{name}");
        }
    }

    #[test]
    fn flagged_values_are_taken_out_and_no_others() {
        let cases = [
            (
                "run.started",
                r#"{"inputs":{"a":1,"b":2},"sensitive":["b"]}"#,
                r#"{"inputs":{"a":1,"b":"[masked]"},"sensitive":["b"]}"#,
            ),
            (
                "variable.changed",
                r#"{"name":"a","next":{"b":1},"sensitive":true}"#,
                r#"{"name":"a","next":"[masked]","sensitive":true}"#,
            ),
            (
                "channel.written",
                r#"{"sensitive":true,"value":[1]}"#,
                r#"{"sensitive":true,"value":"[masked]"}"#,
            ),
            (
                "node.started",
                r#"{"inputs":{"a":{"b":1}},"sensitive":true}"#,
                r#"{"inputs":{"a":"[masked]"},"sensitive":true}"#,
            ),
            (
                "node.completed",
                r#"{"masked":"all","outputs":{"a":1}}"#,
                r#"{"masked":"all","outputs":{"a":"[masked]"}}"#,
            ),
            (
                "node.completed",
                r#"{"masked":{"keys":["a"]},"outputs":{"a":1,"b":2}}"#,
                r#"{"masked":{"keys":["a"]},"outputs":{"a":"[masked]","b":2}}"#,
            ),
            (
                "interrupt.requested",
                r#"{"data":{"title":"x"},"key":"k","resumeSchema":{"const":1},"sensitive":true}"#,
                r#"{"data":{"title":"[masked]"},"key":"[masked]","resumeSchema":"[masked]","sensitive":true}"#,
            ),
            (
                "interrupt.requested",
                r#"{"data":{"title":"x"},"sensitiveAnswer":true}"#,
                r#"{"data":{"title":"x"},"sensitiveAnswer":true}"#,
            ),
            (
                "approval.received",
                r#"{"action":"reject","decidedBy":"ada","feedback":"x","reason":"y","sensitive":true}"#,
                r#"{"action":"reject","decidedBy":"ada","feedback":"[masked]","reason":"[masked]","sensitive":true}"#,
            ),
            (
                "clarification.resolved",
                r#"{"answers":{"q":7},"sensitive":true}"#,
                r#"{"answers":{"q":"[masked]"},"sensitive":true}"#,
            ),
            (
                "interrupt.resolved",
                r#"{"outcome":"resolved","resumeValue":{"a":1},"sensitive":true}"#,
                r#"{"outcome":"resolved","resumeValue":"[masked]","sensitive":true}"#,
            ),
            (
                "turn.began",
                r#"{"messages":[{"role":"user","content":[1]},{"role":"tool","toolCallId":"c","name":"n","content":"x"}],"sensitive":true}"#,
                r#"{"messages":[{"content":"[masked]","role":"user"},{"content":"[masked]","name":"n","role":"tool","toolCallId":"c"}],"sensitive":true}"#,
            ),
            (
                "model.answered",
                r#"{"message":{"role":"assistant","content":"x","toolCalls":[{"id":"c","name":"n","arguments":{}}]},"sensitive":true}"#,
                r#"{"message":{"content":"[masked]","role":"assistant"},"sensitive":true}"#,
            ),
            (
                "conversation.opened",
                r#"{"conversationId":"of-ada","sensitive":true,"title":"T"}"#,
                r#"{"conversationId":"[masked]","sensitive":true,"title":"[masked]"}"#,
            ),
            (
                "conversation.closed",
                r#"{"conversationId":"conv-00112233445566778899aabbccddeeff","reason":"x","sensitive":true}"#,
                r#"{"conversationId":"conv-00112233445566778899aabbccddeeff","reason":"[masked]","sensitive":true}"#,
            ),
            ("node.completed", r#"{"masked":"all","outputs":7}"#, r#"{"masked":"all","outputs":"[masked]"}"#),
        ];
        for (name, text, expected) in cases {
            assert_eq!(masked(name, text), expected);
        }
    }

    #[test]
    fn ordinary_events_stay_byte_for_byte() {
        let cases = [
            ("variable.changed", r#"{"next": 1.0,  "name":"a"}"#),
            ("variable.changed", r#"{"next": {"sensitive":true}, "name":"a"}"#),
            ("variable.changed", r#"{"next": 1, "sensitive":false}"#),
            ("node.failed", r#"{"sensitive":true, "outputs":1}"#),
        ];
        for (name, text) in cases {
            assert_eq!(masked(name, text), text);
        }
    }
}
