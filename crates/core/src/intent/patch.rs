//! Changes of the state of an intent, at a path of keys with slashes between.
//!
//! Only what lies on the path is read and written again; everything else stays the bytes that it was. What a path has led
//! into stays taken apart for the changes behind it, so that the work grows with the size of the state and with that of the
//! changes, and not with both multiplied.

use std::collections::{BTreeMap, VecDeque};

use serde::{Serialize, Serializer};

use crate::event::{Patch, PatchOp};
use crate::{Json, JsonMap, Rejection, limits};

/// How large a state is.
pub(super) fn bytes_of(state: &JsonMap) -> usize {
    state.iter().map(|(key, value)| key.len() + value.text().len()).sum()
}

/// The keys of a path. One that begins with a slash is the same as one that does not.
pub(super) fn keys(path: &str) -> Vec<&str> {
    path.strip_prefix('/').unwrap_or(path).split('/').collect()
}

/// Refuses what could not be carried out, whatever stands there.
pub(super) fn check(patch: &Patch, at: usize) -> Result<(), Rejection> {
    let field = |name: &str| format!("patches.{at}.{name}");
    let keys = keys(&patch.path);
    if keys.iter().any(|key| key.is_empty()) {
        let message = "'path' is one or more keys with slashes between, such as progress or report/title";
        return Err(Rejection::invalid(field("path"), message));
    }
    if keys.len() > limits::STATE_DEPTH_MAX {
        let message = format!("'path' has {} keys, and {} are allowed", keys.len(), limits::STATE_DEPTH_MAX);
        return Err(Rejection::invalid(field("path"), message));
    }
    match (patch.op, &patch.value) {
        (PatchOp::Set | PatchOp::Append, None) => {
            Err(Rejection::invalid(field("value"), "'value' is missing; null is a value, too"))
        }
        (_, Some(value)) if keys.len() + value.depth() > limits::STATE_DEPTH_MAX => {
            let message = format!("it is nested deeper than {} levels", limits::STATE_DEPTH_MAX);
            Err(Rejection::invalid(field("value"), message))
        }
        _ => Ok(()),
    }
}

/// The state as changes leave it, one after the other; or which of them can't be carried out on what stands there, and why.
pub(super) fn apply(state: JsonMap, patches: &[Patch]) -> Result<JsonMap, (usize, String)> {
    let mut root = Part::Object(state.into_iter().map(|(key, value)| (key, Part::Whole(value))).collect());
    for (at, patch) in patches.iter().enumerate() {
        let changed = changed(Some(root), &keys(&patch.path), patch).map_err(|message| (at, message))?;
        // A path has a key at least, so that the root itself is never removed.
        root = changed.unwrap_or_else(|| Part::Object(BTreeMap::new()));
    }
    let Part::Object(entries) = root else { return Ok(JsonMap::new()) };
    Ok(entries.into_iter().map(|(key, part)| (key, part.written())).collect())
}

/// A value of the state: as the text that it was, or taken apart because a path led into it.
enum Part {
    Whole(Json),
    Object(BTreeMap<String, Part>),
    /// Both ends are near, since lists are mostly worked off from one and filled up at the other.
    List(VecDeque<Part>),
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Whole(json) => json.serialize(serializer),
            Self::Object(entries) => serializer.collect_map(entries),
            Self::List(items) => serializer.collect_seq(items),
        }
    }
}

impl Part {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Whole(json) => json.type_name(),
            Self::Object(_) => "object",
            Self::List(_) => "array",
        }
    }

    /// The same, taken apart by one level if there is one.
    fn opened(self) -> Result<Self, String> {
        let Self::Whole(json) = self else { return Ok(self) };
        let unread = |error: serde_json::Error| format!("it can't be read: {error}");
        match json.type_name() {
            "object" => {
                count(&json);
                let entries: JsonMap = json.parse().map_err(unread)?;
                Ok(Self::Object(entries.into_iter().map(|(key, value)| (key, Self::Whole(value))).collect()))
            }
            "array" => {
                count(&json);
                let items: VecDeque<Json> = json.parse().map_err(unread)?;
                Ok(Self::List(items.into_iter().map(Self::Whole).collect()))
            }
            _ => Ok(Self::Whole(json)),
        }
    }

    fn written(self) -> Json {
        match self {
            Self::Whole(json) => json,
            opened => Json::of(&opened),
        }
    }
}

/// What stands at a place after a patch of something at or below it; nothing if nothing does.
fn changed(standing: Option<Part>, keys: &[&str], patch: &Patch) -> Result<Option<Part>, String> {
    let Some((key, rest)) = keys.split_first() else { return at_its_end(standing, patch) };
    match standing.map(Part::opened).transpose()? {
        Some(Part::List(items)) => in_list(items, key, rest, patch).map(Some),
        Some(Part::Object(mut entries)) => {
            let below = changed(entries.remove(*key), rest, patch)?;
            entries.extend(below.map(|value| ((*key).to_owned(), value)));
            Ok(Some(Part::Object(entries)))
        }
        Some(other) if other.type_name() != "null" => {
            Err(format!("'{}' leads into a {}, which has no '{key}'", patch.path, other.type_name()))
        }
        _ if patch.op == PatchOp::Remove => Err(nothing_there(patch)),
        // Whatever is missing on the way is made.
        _ => {
            let below = changed(None, rest, patch)?;
            let entries = below.into_iter().map(|value| ((*key).to_owned(), value)).collect();
            Ok(Some(Part::Object(entries)))
        }
    }
}

fn at_its_end(standing: Option<Part>, patch: &Patch) -> Result<Option<Part>, String> {
    let value = || patch.value.clone().map(Part::Whole);
    match patch.op {
        PatchOp::Set => Ok(value()),
        PatchOp::Remove => standing.map(|_| None).ok_or_else(|| nothing_there(patch)),
        PatchOp::Append => match standing.map(Part::opened).transpose()? {
            Some(Part::List(mut items)) => {
                items.extend(value());
                Ok(Some(Part::List(items)))
            }
            Some(other) if other.type_name() != "null" => {
                Err(format!("'{}' is a {}, and no list", patch.path, other.type_name()))
            }
            _ => Ok(Some(Part::List(value().into_iter().collect()))),
        },
    }
}

fn in_list(mut items: VecDeque<Part>, key: &str, rest: &[&str], patch: &Patch) -> Result<Part, String> {
    let at = key.parse::<usize>().ok().filter(|at| *at < items.len());
    let at = at.ok_or_else(|| {
        format!("'{}' leads into a list of {}, which has no '{key}'", patch.path, items.len())
    })?;
    let standing = if rest.is_empty() && patch.op == PatchOp::Remove {
        items.remove(at)
    } else {
        Some(std::mem::replace(&mut items[at], Part::List(VecDeque::new())))
    };
    if let Some(value) = changed(standing, rest, patch)? {
        items[at] = value;
    }
    Ok(Part::List(items))
}

fn nothing_there(patch: &Patch) -> String {
    format!("nothing stands at '{}', so it can't be removed", patch.path)
}

/// How much is read to take values apart, for a test of what that grows with.
#[cfg(test)]
fn count(json: &Json) {
    tests::READ.with(|read| read.set(read.get() + json.text().len()));
}

#[cfg(not(test))]
fn count(_: &Json) {}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::{Value, json};

    use super::*;

    thread_local! {
        /// Bytes that this thread has read to take values apart.
        pub(super) static READ: Cell<usize> = const { Cell::new(0) };
    }

    fn patched(state: &Value, op: PatchOp, path: &str, value: Option<Value>) -> Result<Value, String> {
        let state: JsonMap = Json::of(state).parse().unwrap();
        let value = value.map(|value| Json::of(&value));
        let changed = apply(state, &[Patch { op, path: path.to_owned(), value }]);
        changed.map(|state| Json::of(&state).parse().unwrap()).map_err(|(_, message)| message)
    }

    #[test]
    fn a_value_is_set_where_the_path_leads_and_nowhere_else() {
        let state = json!({ "a": { "b": [1, { "c": 2 }] }, "n": true });
        let set = |path: &str| patched(&state, PatchOp::Set, path, Some(json!("x")));
        assert_eq!(set("new"), Ok(json!({ "a": { "b": [1, { "c": 2 }] }, "n": true, "new": "x" })));
        assert_eq!(set("/a/b/1/c"), Ok(json!({ "a": { "b": [1, { "c": "x" }] }, "n": true })));
        assert_eq!(set("a/d/e"), Ok(json!({ "a": { "b": [1, { "c": 2 }], "d": { "e": "x" } }, "n": true })));
        assert!(set("n/below").unwrap_err().contains("leads into a boolean"));
        assert!(set("a/b/7").unwrap_err().contains("a list of 2, which has no '7'"));
        assert!(set("a/b/x").unwrap_err().contains("which has no 'x'"));
    }

    #[test]
    fn numbers_beside_the_path_stay_the_text_that_they_were() {
        let state: JsonMap =
            serde_json::from_str(r#"{"exact":12345678901234567890123,"o":{"small":1.10}}"#).unwrap();
        let patch = Patch { op: PatchOp::Set, path: "o/x".to_owned(), value: Some(Json::of(&1)) };
        let state = Json::of(&apply(state, &[patch]).unwrap());
        assert_eq!(state.text(), r#"{"exact":12345678901234567890123,"o":{"small":1.10,"x":1}}"#);
    }

    #[test]
    fn what_a_path_has_led_into_is_not_read_again_for_the_next_change() {
        let levels = limits::STATE_DEPTH_MAX - 4;
        let large = "x".repeat(limits::STATE_BYTES_MAX / 2);
        let deep = format!(r#"{}{{"large":"{large}"}}{}"#, r#"{"a":"#.repeat(levels), "}".repeat(levels));
        let state: JsonMap = serde_json::from_str(&deep).unwrap();
        let path = format!("{}n", "a/".repeat(levels));
        let set = |n: usize| Patch { op: PatchOp::Set, path: path.clone(), value: Some(Json::of(&n)) };
        let add =
            |n: usize| Patch { op: PatchOp::Append, path: format!("{path}s"), value: Some(Json::of(&n)) };
        let patches: Vec<Patch> = (0..limits::PATCHES_MAX / 2).flat_map(|n| [set(n), add(n)]).collect();
        READ.set(0);
        let changed = Json::of(&apply(state, &patches).unwrap());
        assert!(READ.get() <= levels * deep.len(), "each level is read once: {} bytes", READ.get());
        let last = format!(r#""n":{},"ns":[0,1,2,"#, limits::PATCHES_MAX / 2 - 1);
        assert!(changed.text().contains(&last) && changed.text().contains(&large));
    }

    #[test]
    fn the_first_change_that_can_not_be_carried_out_is_named() {
        let state = || serde_json::from_str::<JsonMap>(r#"{"l":[1,2,3],"t":"x"}"#).unwrap();
        let patch = |op, path: &str, value: Option<i32>| Patch {
            op,
            path: path.to_owned(),
            value: value.map(|value| Json::of(&value)),
        };
        let fits = [patch(PatchOp::Remove, "l/1", None), patch(PatchOp::Set, "l/1", Some(7))];
        assert_eq!(Json::of(&apply(state(), &fits).unwrap()).text(), r#"{"l":[1,7],"t":"x"}"#);
        let wrong = [patch(PatchOp::Remove, "l/2", None), patch(PatchOp::Set, "l/2", Some(7))];
        assert_eq!(apply(state(), &wrong).unwrap_err().0, 1);
    }

    #[test]
    fn something_is_appended_to_a_list_and_to_nothing_else() {
        let state = json!({ "l": [1], "s": "x", "null": null });
        let append = |path: &str| patched(&state, PatchOp::Append, path, Some(json!(2)));
        assert_eq!(append("l").unwrap()["l"], json!([1, 2]));
        assert_eq!(append("fresh/list").unwrap()["fresh"], json!({ "list": [2] }));
        assert_eq!(append("null").unwrap()["null"], json!([2]));
        assert!(append("s").unwrap_err().contains("is a string, and no list"));
    }

    #[test]
    fn what_is_removed_is_gone_and_what_is_not_there_can_not_be() {
        let state = json!({ "a": { "b": [1, 2], "c": 3 } });
        let remove = |path: &str| patched(&state, PatchOp::Remove, path, None);
        assert_eq!(remove("a/c"), Ok(json!({ "a": { "b": [1, 2] } })));
        assert_eq!(remove("a/b/0"), Ok(json!({ "a": { "b": [2], "c": 3 } })));
        assert_eq!(remove("a"), Ok(json!({})));
        assert!(remove("a/x").unwrap_err().contains("nothing stands at 'a/x'"));
        assert!(remove("x/y").unwrap_err().contains("nothing stands at 'x/y'"));
    }

    #[test]
    fn paths_and_values_are_bounded() {
        let patch =
            |path: &str, value: Option<Json>| Patch { op: PatchOp::Set, path: path.to_owned(), value };
        let one = || Some(Json::of(&1));
        for path in ["", "/", "a//b", "a/"] {
            assert!(check(&patch(path, one()), 0).is_err(), "{path:?}");
        }
        assert!(check(&patch("a", None), 0).is_err());
        assert!(check(&patch("a/b", one()), 0).is_ok());
        let deep = vec!["k"; limits::STATE_DEPTH_MAX + 1].join("/");
        assert!(check(&patch(&deep, one()), 3).unwrap_err().to_string().contains("keys"));
        let nested =
            format!("{}1{}", "[".repeat(limits::STATE_DEPTH_MAX), "]".repeat(limits::STATE_DEPTH_MAX));
        let nested: Json = serde_json::from_str(&nested).unwrap();
        assert!(check(&patch("a", Some(nested)), 0).is_err());
    }
}
