//! Changes of the state of an intent, at a path of keys with slashes between.
//!
//! Only what lies on the path is read and written again; everything else stays the bytes that it was.

use crate::event::{Patch, PatchOp};
use crate::{Json, JsonMap, Rejection, limits};

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

/// The state as a patch leaves it, or why it can't be carried out on what stands there.
pub(super) fn apply(mut state: JsonMap, patch: &Patch) -> Result<JsonMap, String> {
    let keys = keys(&patch.path);
    let (first, rest) = keys.split_first().ok_or("a path has at least one key")?;
    match changed(state.get(*first), rest, patch)? {
        Some(value) => drop(state.insert((*first).to_owned(), value)),
        None => drop(state.remove(*first)),
    }
    Ok(state)
}

/// What stands at a place after a patch of something at or below it; nothing if nothing does.
fn changed(standing: Option<&Json>, keys: &[&str], patch: &Patch) -> Result<Option<Json>, String> {
    let Some((key, rest)) = keys.split_first() else { return at_its_end(standing, patch) };
    match standing {
        Some(list) if list.type_name() == "array" => in_list(list, key, rest, patch).map(Some),
        Some(object) if object.type_name() == "object" => {
            let mut entries: JsonMap =
                object.parse().map_err(|error| format!("it can't be read: {error}"))?;
            match changed(entries.get(*key), rest, patch)? {
                Some(value) => drop(entries.insert((*key).to_owned(), value)),
                None => drop(entries.remove(*key)),
            }
            Ok(Some(Json::of(&entries)))
        }
        Some(other) if other.type_name() != "null" => {
            Err(format!("'{}' leads into a {}, which has no '{key}'", patch.path, other.type_name()))
        }
        _ if patch.op == PatchOp::Remove => Err(nothing_there(patch)),
        // Whatever is missing on the way is made.
        _ => {
            let below = changed(None, rest, patch)?;
            let entries: JsonMap = below.into_iter().map(|value| ((*key).to_owned(), value)).collect();
            Ok(Some(Json::of(&entries)))
        }
    }
}

fn at_its_end(standing: Option<&Json>, patch: &Patch) -> Result<Option<Json>, String> {
    match patch.op {
        PatchOp::Set => Ok(patch.value.clone()),
        PatchOp::Remove => standing.map(|_| None).ok_or_else(|| nothing_there(patch)),
        PatchOp::Append => {
            let mut list: Vec<Json> = match standing.filter(|standing| standing.type_name() != "null") {
                Some(standing) => standing
                    .parse()
                    .map_err(|_| format!("'{}' is a {}, and no list", patch.path, standing.type_name()))?,
                None => Vec::new(),
            };
            list.extend(patch.value.clone());
            Ok(Some(Json::of(&list)))
        }
    }
}

fn in_list(list: &Json, key: &str, rest: &[&str], patch: &Patch) -> Result<Json, String> {
    let mut items: Vec<Json> = list.parse().map_err(|error| format!("it can't be read: {error}"))?;
    let at = key.parse::<usize>().ok().filter(|at| *at < items.len());
    let at = at.ok_or_else(|| {
        format!("'{}' leads into a list of {}, which has no '{key}'", patch.path, items.len())
    })?;
    match changed(items.get(at), rest, patch)? {
        Some(value) => items[at] = value,
        None => drop(items.remove(at)),
    }
    Ok(Json::of(&items))
}

fn nothing_there(patch: &Patch) -> String {
    format!("nothing stands at '{}', so it can't be removed", patch.path)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn patched(state: &Value, op: PatchOp, path: &str, value: Option<Value>) -> Result<Value, String> {
        let state: JsonMap = Json::of(state).parse().unwrap();
        let value = value.map(|value| Json::of(&value));
        apply(state, &Patch { op, path: path.to_owned(), value })
            .map(|state| Json::of(&state).parse().unwrap())
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
        let state = Json::of(&apply(state, &patch).unwrap());
        assert_eq!(state.text(), r#"{"exact":12345678901234567890123,"o":{"small":1.10,"x":1}}"#);
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
