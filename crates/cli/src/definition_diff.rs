//! What changed between two versions of a workflow definition, in the words of its author.
//!
//! Nodes, edges, variables, channels and triggers are matched by their ids or names, so that moving one is not
//! a change of all that follow. The definitions need not be valid: what has another shape is compared as JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::draw::words::{legible, shorten};

/// Values longer than this are abbreviated.
const VALUE_COLUMNS_MAX: usize = 60;

/// The lists whose elements have identities: the key, the word for one element, and what it is known by.
const LISTS: [(&str, &str, &[&str]); 5] = [
    ("nodes", "node", &["id"]),
    ("edges", "edge", &["id"]),
    ("variables", "variable", &["name", "id"]),
    ("channels", "channel", &["name", "id"]),
    ("triggers", "trigger", &["id", "name"]),
];

/// One difference between two definitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "lowercase")]
pub(crate) enum Change {
    /// Something is new: what it is, and a few words about it.
    Added {
        /// The path or the name, like `node "draft"`.
        what: String,
        /// Its value in short.
        value: String,
    },
    /// Something is gone.
    Removed {
        /// The path or the name, like `node "draft"`.
        what: String,
        /// Its value in short.
        value: String,
    },
    /// Fields of something differ.
    Changed {
        /// The path or the name, like `node "draft"`.
        what: String,
        /// The fields that differ, in the order of their paths.
        fields: Vec<Field>,
    },
    /// The definitions differ in nothing but the order of lists.
    Reordered {
        /// The lists.
        lists: Vec<&'static str>,
    },
}

/// A field that differs; a side that does not have it is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Field {
    /// Where it is within what changed, like `config.url`; empty when all of it is another value.
    pub(crate) path: String,
    /// The old value in short.
    pub(crate) old: Option<String>,
    /// The new value in short.
    pub(crate) new: Option<String>,
}

/// The differences from `old` to `new`: first the fields of the workflow itself, then its lists.
pub(crate) fn diff(old: &Value, new: &Value) -> Vec<Change> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return changed("the definition", old, new).into_iter().collect();
    };
    let mut changes = workflow_fields(old, new);
    let mut moved = Vec::new();
    for (list, word, keys) in LISTS {
        let (before, after) = (old.get(list), new.get(list));
        match members(before, keys).zip(members(after, keys)).filter(|_| same_shape(before, after)) {
            Some((before, after)) => {
                changes.extend(member_changes(word, &before, &after));
                moved.extend((before.order != after.order).then_some(list));
            }
            None => changes.extend(field_change(list, before, after)),
        }
    }
    if changes.is_empty() && !moved.is_empty() {
        changes.push(Change::Reordered { lists: moved });
    }
    changes
}

/// The changes as lines that begin with `+`, `-` or `~`, and a line that counts them.
pub(crate) fn render(changes: &[Change]) -> String {
    let mut page = String::new();
    let (mut added, mut removed, mut altered) = (0, 0, 0);
    for change in changes {
        match change {
            Change::Added { what, value } => {
                added += 1;
                page += &format!("+ {what}{}\n", described(value));
            }
            Change::Removed { what, value } => {
                removed += 1;
                page += &format!("- {what}{}\n", described(value));
            }
            Change::Changed { what, fields } => {
                altered += 1;
                page += &format!("~ {what}");
                let start = if fields.iter().any(|field| field.path.is_empty()) { "" } else { "\n    " };
                fields.iter().for_each(|field| page += &format!("{start}{}", field.line()));
                page.push('\n');
            }
            Change::Reordered { lists } => {
                page += &format!("only the order of {} changed\n", lists.join(" and "));
            }
        }
    }
    match (changes, added + removed + altered) {
        ([], _) => "no changes\n".to_owned(),
        (_, 0) => page,
        _ => page + &format!("{added} added, {removed} removed, {altered} changed\n"),
    }
}

fn described(value: &str) -> String {
    if value.is_empty() { String::new() } else { format!(": {value}") }
}

impl Field {
    fn line(&self) -> String {
        let path = &self.path;
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => format!("{path}: {old} → {new}"),
            (None, Some(new)) => format!("{path}: added {new}"),
            (Some(old), None) => format!("{path}: removed {old}"),
            (None, None) => path.clone(),
        }
    }
}

/// The elements of a list by what they are known by.
struct Members<'a> {
    by_key: BTreeMap<&'a str, &'a Value>,
    order: Vec<&'a str>,
}

impl<'a> Members<'a> {
    /// Channels are written as an object: the keys are their names, and have no order.
    fn named(elements: &'a Map<String, Value>) -> Members<'a> {
        let by_key: BTreeMap<&str, &Value> =
            elements.iter().map(|(key, value)| (key.as_str(), value)).collect();
        Members { order: by_key.keys().copied().collect(), by_key }
    }
}

/// None if it is neither a list nor an object, or not every element has a key of its own. A missing list is an empty one.
fn members<'a>(list: Option<&'a Value>, keys: &[&str]) -> Option<Members<'a>> {
    let elements = match list {
        None => &[][..],
        Some(Value::Object(named)) => return Some(Members::named(named)),
        Some(list) => list.as_array()?,
    };
    let key = |element: &'a Value| keys.iter().find_map(|key| element.get(key)?.as_str());
    let order: Vec<&str> = elements.iter().map(key).collect::<Option<_>>()?;
    let by_key: BTreeMap<&str, &Value> = order.iter().copied().zip(elements).collect();
    (by_key.len() == order.len()).then_some(Members { by_key, order })
}

/// Whether both are lists or both are objects; a side that is missing goes with what has elements.
fn same_shape(old: Option<&Value>, new: Option<&Value>) -> bool {
    let is_empty = |side: &Value| {
        side.as_array().is_some_and(Vec::is_empty) || side.as_object().is_some_and(Map::is_empty)
    };
    match (old, new) {
        (Some(old), Some(new)) => old.is_array() == new.is_array(),
        (None, Some(side)) | (Some(side), None) => !is_empty(side),
        (None, None) => true,
    }
}

/// What was removed, then what changed, then what is new; each in the order of its own list.
fn member_changes(word: &str, old: &Members<'_>, new: &Members<'_>) -> Vec<Change> {
    let name = |key: &str| format!("{word} {}", quoted(key));
    let gone = old.order.iter().filter(|key| !new.by_key.contains_key(*key));
    let mut changes: Vec<Change> =
        gone.map(|key| Change::Removed { what: name(key), value: gist(old.by_key[key]) }).collect();
    let kept = new.order.iter().filter_map(|key| Some((key, old.by_key.get(key)?)));
    changes.extend(kept.filter_map(|(key, before)| changed(&name(key), before, new.by_key[key])));
    let fresh = new.order.iter().filter(|key| !old.by_key.contains_key(*key));
    changes.extend(fresh.map(|key| Change::Added { what: name(key), value: gist(new.by_key[key]) }));
    changes
}

fn workflow_fields(old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<Change> {
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let own = keys.into_iter().filter(|key| !LISTS.iter().any(|(list, ..)| list == key));
    own.filter_map(|key| field_change(key, old.get(key), new.get(key))).collect()
}

fn field_change(key: &str, old: Option<&Value>, new: Option<&Value>) -> Option<Change> {
    let what = step("", key);
    match (old, new) {
        (Some(old), Some(new)) => changed(&what, old, new),
        (None, Some(new)) => Some(Change::Added { what, value: short(new) }),
        (Some(old), None) => Some(Change::Removed { what, value: short(old) }),
        (None, None) => None,
    }
}

fn changed(what: &str, old: &Value, new: &Value) -> Option<Change> {
    let mut fields = Vec::new();
    compare(String::new(), Some(old), Some(new), &mut fields);
    (!fields.is_empty()).then(|| Change::Changed { what: what.to_owned(), fields })
}

/// Collects the differences of two values. It goes as deep as the values do, and those were parsed with a limit.
fn compare(path: String, old: Option<&Value>, new: Option<&Value>, fields: &mut Vec<Field>) {
    match (old, new) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for key in keys {
                compare(step(&path, key), before.get(key), after.get(key), fields);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) if before.len() == after.len() => {
            for (at, (before, after)) in before.iter().zip(after).enumerate() {
                compare(format!("{path}[{at}]"), Some(before), Some(after), fields);
            }
        }
        _ if old == new => {}
        _ => fields.push(Field { path, old: old.map(short), new: new.map(short) }),
    }
}

/// The path one key farther. A key that would be misread stands in quotes.
fn step(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-$".contains(c));
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{}]", quoted(key)),
    }
}

/// What an element is, in a few words: the kind of a node, the ends of an edge, the type of anything else.
fn gist(element: &Value) -> String {
    let word = |key: &str| element[key].as_str().map(abbreviated);
    let ends = word("sourceNodeId").zip(word("targetNodeId")).map(|(from, to)| format!("{from} → {to}"));
    let kind = ["typeId", "type", "reducer"].iter().find_map(|key| word(key));
    ends.or(kind).unwrap_or_default()
}

/// The value as JSON on one line.
fn short(value: &Value) -> String {
    abbreviated(&value.to_string())
}

fn quoted(text: &str) -> String {
    legible(&Value::from(text).to_string())
}

/// The text safe for the terminal, and without its middle if it is long.
fn abbreviated(text: &str) -> String {
    shorten(&legible(text), VALUE_COLUMNS_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition() -> Value {
        json!({
            "id": "orders", "name": "Orders", "version": "1.0",
            "nodes": [
                { "id": "fetch", "typeId": "core.http.request", "name": "Fetch",
                  "config": { "url": "https://example.test/a", "headers": { "x.y": "1" } }, "inputs": {} },
                { "id": "check", "typeId": "core.branch", "name": "Check",
                  "config": { "cases": [{ "name": "ok", "when": "inputs.ok" }] }, "inputs": {} },
                { "id": "done", "typeId": "core.noop", "name": "Done", "config": {}, "inputs": {} },
            ],
            "edges": [
                { "id": "e1", "sourceNodeId": "fetch", "targetNodeId": "check" },
                { "id": "e2", "sourceNodeId": "check", "targetNodeId": "done", "sourceOutput": "ok" },
            ],
            "variables": [{ "name": "customer", "type": "string" }],
            "triggers": [{ "id": "daily", "type": "schedule" }],
            "metadata": { "owner": "sales" }, "settings": {},
        })
    }

    fn changes(edit: impl Fn(&mut Value)) -> String {
        let mut new = definition();
        edit(&mut new);
        render(&diff(&definition(), &new))
    }

    #[test]
    fn the_same_definition_has_no_changes() {
        insta::assert_snapshot!(changes(|_| {}), @"no changes");
    }

    #[test]
    fn changed_fields_are_named_by_their_path() {
        let page = changes(|new| {
            new["nodes"][0]["config"]["url"] = json!("https://example.test/b");
            new["nodes"][0]["config"]["headers"]["x.y"] = json!(2);
            new["nodes"][0]["settings"] = json!({ "abide": { "idempotent": true } });
            new["nodes"][1]["config"]["cases"][0]["when"] = json!("inputs.ok == true");
            new["nodes"][1]["name"].take();
            new["version"] = json!("1.1");
            new["metadata"] = json!({ "owner": "service", "note": "x".repeat(200) });
        });
        insta::assert_snapshot!(page);
    }

    #[test]
    fn what_comes_and_goes_is_told_by_name() {
        let page = changes(|new| {
            new["nodes"][2] = json!({ "id": "ship", "typeId": "core.subWorkflow", "name": "Ship" });
            new["edges"][1] = json!({ "id": "e3", "sourceNodeId": "check", "targetNodeId": "ship" });
            new["variables"] = json!([{ "name": "address", "type": "object" }]);
            new["channels"] = json!({ "log": { "reducer": "append" } });
            new["triggers"] = json!([]);
            new["settings"].take();
            new["description"] = json!("Ships orders");
        });
        insta::assert_snapshot!(page);
    }

    #[test]
    fn the_order_of_nodes_counts_only_by_itself() {
        let turned = |new: &mut Value| new["nodes"].as_array_mut().unwrap().reverse();
        insta::assert_snapshot!(changes(turned), @"only the order of nodes changed");
        let both = changes(|new| {
            turned(new);
            new["edges"].as_array_mut().unwrap().reverse();
        });
        insta::assert_snapshot!(both, @"only the order of nodes and edges changed");
        let page = changes(|new| {
            turned(new);
            new["name"] = json!("Bestellungen");
        });
        insta::assert_snapshot!(page, @r#"
        ~ name: "Orders" → "Bestellungen"
        0 added, 0 removed, 1 changed
        "#);
    }

    #[test]
    fn what_has_no_identity_is_compared_as_it_is() {
        let page = changes(|new| {
            let twin = new["nodes"][0].clone();
            new["nodes"].as_array_mut().unwrap().push(twin);
            new["edges"] = json!("none");
            new["channels"] = json!({});
            new["triggers"] = json!({ "daily": { "type": "schedule" } });
        });
        insta::assert_snapshot!(page);
        insta::assert_snapshot!(render(&diff(&json!(1), &json!([1]))), @"
        ~ the definition: 1 → [1]
        0 added, 0 removed, 1 changed
        ");
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let page = changes(|new| {
            new["nodes"][0]["id"] = json!("\u{1b}[2J");
            new["nodes"][0]["typeId"] = json!("\u{1b}[2J");
            new["\u{7}\u{9b}"] = json!("\u{1b}[31m\n\u{202e}");
        });
        assert!(!page.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'), "{page:?}");
    }
}
