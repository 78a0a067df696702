//! The types of a workflow, written out where they are named.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::excerpt::excerpt;
use crate::fields::{Entries, Findings};
use crate::{Json, JsonMap, limits};

/// What needs no declaration.
const PLAIN: &[&str] = &["any", "string", "number", "boolean", "object", "array"];

/// The types that have names.
pub(super) struct Types {
    named: BTreeMap<String, Json>,
    /// How many bytes they may still take up where they are named: a long one that is named everywhere would be longer
    /// than any definition.
    bytes_left: usize,
}

impl Types {
    pub(super) fn read(declared: JsonMap, findings: &mut Findings) -> Self {
        let mut named = BTreeMap::new();
        for (name, json) in declared {
            let place = format!("types.{}", excerpt(&name));
            if PLAIN.contains(&name.as_str()) {
                findings.objection(place, format!("'{name}' is a type already; call yours otherwise"));
                continue;
            }
            named.extend(declaration(&json, &place, findings).map(|shape| (name, shape)));
        }
        Self { named, bytes_left: limits::DEFINITION_BYTES_MAX }
    }

    /// What has to come out of a phase. A mere list of names was enough once.
    pub(super) fn outputs(&mut self, json: &Json, place: &str, findings: &mut Findings) -> Option<JsonMap> {
        if let Ok(names) = json.parse::<Vec<String>>() {
            let names = names.into_iter().map(|name| (name, Json::of("any"))).collect();
            return Some(once(names, place, findings));
        }
        let Ok(Entries(outputs)) = json.parse::<Entries>() else {
            findings.problem(place, "an object is expected: each output with its type");
            return None;
        };
        let outputs = once(outputs, place, findings);
        Some(outputs.into_iter().map(|(name, want)| (name, self.want(want))).collect())
    }

    /// A type, or an object that names one. What is wrong with its keys is told when the phase's own config is read.
    fn want(&mut self, want: Json) -> Json {
        let Ok(Entries(mut entries)) = want.parse::<Entries>() else { return self.shape(want) };
        let keys: BTreeSet<&String> = entries.iter().map(|(key, _)| key).collect();
        if keys.len() != entries.len() {
            return want;
        }
        let Some((_, kind)) = entries.iter_mut().find(|(key, _)| key == "type") else { return want };
        *kind = self.shape(kind.clone());
        Json::of(&entries.into_iter().collect::<JsonMap>())
    }

    fn shape(&mut self, kind: Json) -> Json {
        let Ok(name) = kind.parse::<String>() else { return kind };
        if PLAIN.contains(&name.as_str()) {
            return kind;
        }
        let any = || Json::of("any");
        let Some(shape) = self.named.get(&name) else { return any() };
        match self.bytes_left.checked_sub(shape.text().len()) {
            Some(left) => self.bytes_left = left,
            None => {
                self.bytes_left = 0;
                return any();
            }
        }
        shape.clone()
    }

    /// Refuses types that are too long for as often as they are named.
    pub(super) fn check_size(&self, findings: &mut Findings) {
        if self.bytes_left == 0 {
            let most = limits::DEFINITION_BYTES_MAX;
            findings.objection(
                "types",
                format!("written out where they are named, they take more than {most} bytes"),
            );
        }
    }
}

/// Entries, each of which may stand there once.
fn once(entries: Vec<(String, Json)>, place: &str, findings: &mut Findings) -> JsonMap {
    let mut map = JsonMap::new();
    for (name, value) in entries {
        if map.contains_key(&name) {
            findings.objection(place, format!("'{}' stands there twice; remove one", excerpt(&name)));
        }
        map.insert(name, value);
    }
    map
}

/// What a type with a name stands for: one of some values, or an object with some fields.
fn declaration(json: &Json, place: &str, findings: &mut Findings) -> Option<Json> {
    let Ok(Entries(fields)) = json.parse::<Entries>() else {
        findings.objection(place, "a type is {field: type} or {enum: [values]}");
        return None;
    };
    let fields = once(fields, place, findings);
    match fields.get("enum") {
        Some(values) if values.type_name() == "array" => Some(one_of(&fields, values, place, findings)),
        _ => Some(Json::of(&json!({ "keys": required(&fields, place, findings) }))),
    }
}

/// One of some values. What is described changes nothing, and anything else would not be looked at.
fn one_of(fields: &JsonMap, values: &Json, place: &str, findings: &mut Findings) -> Json {
    for key in fields.keys().filter(|key| !["enum", "description"].contains(&key.as_str())) {
        let message =
            format!("a type with 'enum' is one of its values and nothing else; remove '{}'", excerpt(key));
        findings.objection(place, message);
    }
    Json::of(&JsonMap::from([("enum".to_owned(), values.clone())]))
}

/// The fields that a value has to have.
fn required<'a>(fields: &'a JsonMap, place: &str, findings: &mut Findings) -> Vec<&'a String> {
    let mut is_required = |name: &str, spec: &Json| {
        spec.type_name() == "string"
            || field_is_required(spec, &format!("{place}.{}", excerpt(name)), findings)
    };
    fields.iter().filter(|(name, spec)| is_required(name, spec)).map(|(name, _)| name).collect()
}

/// Whether a field has to be there. That is all that is looked at, so whatever asks for more is refused.
fn field_is_required(spec: &Json, place: &str, findings: &mut Findings) -> bool {
    let Ok(Entries(entries)) = spec.parse::<Entries>() else {
        findings.objection(place, "a field has a word for its type, or {type, required}");
        return true;
    };
    let mut spec = once(entries, place, findings);
    let required = spec.remove("required").map_or(Ok(true), |required| required.parse());
    if required.is_err() {
        findings.objection(place, "'required' is true or false");
    }
    for key in spec.keys().filter(|key| !["type", "description"].contains(&key.as_str())) {
        let message = format!(
            "'{}' can't be kept to: a field has 'type' and 'required', and only that it is there is looked at; remove it",
            excerpt(key)
        );
        findings.objection(place, message);
    }
    required.unwrap_or(true)
}
