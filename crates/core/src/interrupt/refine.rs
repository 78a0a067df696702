//! What is to be made better: all of an artifact, a section of it, or some of its items.

use serde_json::Value;

use super::form::{Faults, known_word, optional_text, texts};
use crate::fields::{Fields, Findings, ROOT};
use crate::limits::{ASK_NAME_CHARS_MAX, ASK_TEXT_CHARS_MAX, FEEDBACK_CHARS_MAX, FEEDBACK_ITEMS_MAX};
use crate::{Json, JsonMap};

/// Checks feedback against the artifact that it is about.
pub(super) fn check(feedback: &Json, artifact: Option<&Json>, faults: &mut Faults) {
    let mut findings = Findings::about("");
    if let Some(mut fields) = Fields::of(feedback, ROOT, &mut findings) {
        let scope = fields.text("scope");
        let section = optional_text(&mut fields, "sectionPath", 1..=ASK_TEXT_CHARS_MAX);
        let items = texts(&mut fields, "itemIds", FEEDBACK_ITEMS_MAX, ASK_NAME_CHARS_MAX);
        texts(&mut fields, "tags", FEEDBACK_ITEMS_MAX, ASK_NAME_CHARS_MAX);
        optional_text(&mut fields, "text", 0..=FEEDBACK_CHARS_MAX);
        fields.finish();
        match scope.as_deref() {
            Some("section") => check_section(section.as_deref(), artifact, &mut findings),
            Some("items") if items.is_none_or(|items| items.is_empty()) => {
                findings.problem("itemIds", "the scope 'items' needs at least one id of an item; add it");
            }
            Some(scope) => {
                known_word(scope, &["whole", "section", "items"], "scope".to_owned(), &mut findings);
            }
            None => {}
        }
    }
    faults.add_findings("/refineFeedback", findings);
}

fn check_section(path: Option<&str>, artifact: Option<&Json>, findings: &mut Findings) {
    let Some(path) = path else {
        let message = "the scope 'section' needs a path into the artifact; add it";
        return findings.problem("sectionPath", message);
    };
    let Some(steps) = steps(path) else {
        let message = "a path into the artifact is expected, such as /items/0/price or $.items[0].price";
        return findings.problem("sectionPath", message);
    };
    let artifact = artifact.and_then(|artifact| artifact.parse::<Value>().ok()).unwrap_or(Value::Null);
    if lookup(&artifact, &steps).is_none() {
        let path = crate::excerpt::excerpt(path);
        findings.problem("sectionPath", format!("the artifact has nothing at '{path}'; name a place it has"));
    }
}

fn lookup<'v>(value: &'v Value, steps: &[String]) -> Option<&'v Value> {
    steps.iter().try_fold(value, |at, step| match at {
        Value::Object(map) => map.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

/// The steps of a JSON pointer, or of a path with dots and brackets.
fn steps(path: &str) -> Option<Vec<String>> {
    if let Some(rest) = path.strip_prefix('/') {
        return Some(rest.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect());
    }
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut steps = Vec::new();
    let mut first = rest.len() == path.len();
    while !rest.is_empty() {
        let (step, after) =
            if let Some(inner) = rest.strip_prefix('[') { bracketed(inner)? } else { dotted(rest, first)? };
        steps.push(step);
        (rest, first) = (after, false);
    }
    Some(steps)
}

/// A step of the form `0]`, `'a']` or `"a"]`, and what follows.
fn bracketed(inner: &str) -> Option<(String, &str)> {
    let (step, after) = match inner.chars().next()? {
        quote @ ('\'' | '"') => inner[1..].split_once(&format!("{quote}]"))?,
        _ => inner.split_once(']').filter(|(step, _)| step.parse::<usize>().is_ok())?,
    };
    Some((step.to_owned(), after))
}

/// A step up to the next dot or bracket, and what follows. All but the first begin with a dot.
fn dotted(rest: &str, first: bool) -> Option<(String, &str)> {
    let rest = rest.strip_prefix('.').or(first.then_some(rest))?;
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    (end > 0).then(|| (rest[..end].to_owned(), &rest[end..]))
}

/// Whether feedback says anything at all. What our own clients send does.
pub fn says_something(feedback: &Json) -> bool {
    let feedback: JsonMap = feedback.parse().unwrap_or_default();
    let text = feedback.get("text").and_then(|text| text.parse::<String>().ok());
    let tags = feedback.get("tags").and_then(|tags| tags.parse::<Vec<String>>().ok());
    text.is_some_and(|text| !text.trim().is_empty()) || tags.is_some_and(|tags| !tags.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_is_a_pointer_or_has_dots_and_brackets() {
        let artifact = json!({ "a": { "b": [{ "c/d": 1 }] }, "x.y": [2] });
        for path in [
            "/a/b/0",
            "/a/b/0/c~1d",
            "$.a.b[0]",
            "a.b[0]",
            "a",
            "$",
            "$['a']['b'][0]",
            "$[\"x.y\"][0]",
            "a.b[0]['c/d']",
        ] {
            let steps = steps(path).unwrap_or_else(|| panic!("{path} is a path"));
            assert!(lookup(&artifact, &steps).is_some(), "{path}");
        }
        for path in ["/a/c", "a.b[1]", "$.a.b.c", "/a/b/x"] {
            assert!(lookup(&artifact, &steps(path).unwrap()).is_none(), "{path}");
        }
        for path in ["a..b", "a[", "a[x]", "$a", "$..a", ".", "a]b["] {
            assert!(steps(path).is_none(), "{path}");
        }
    }

    #[test]
    fn feedback_says_something_with_tags_or_a_text() {
        for (feedback, says) in [
            (json!({ "scope": "whole" }), false),
            (json!({ "scope": "whole", "text": " ", "tags": [] }), false),
            (json!({ "scope": "whole", "text": "shorter" }), true),
            (json!({ "scope": "whole", "tags": ["tone"] }), true),
        ] {
            assert_eq!(says_something(&Json::of(&feedback)), says, "{feedback}");
        }
    }
}
