//! The types of a workflow, written out where they are named.

use std::collections::BTreeMap;

use serde_json::json;

use crate::fields::Findings;
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
            let place = format!("types.{name}");
            let Ok(fields) = json.parse::<JsonMap>() else {
                findings.objection(place, "a type is {field: type} or {enum: [values]}");
                continue;
            };
            let shape = match fields.get("enum") {
                Some(values) if fields.len() == 1 && values.type_name() == "array" => json,
                _ => Json::of(&json!({ "keys": required(&fields) })),
            };
            named.insert(name, shape);
        }
        Self { named, bytes_left: limits::DEFINITION_BYTES_MAX }
    }

    /// What has to come out of a phase. A mere list of names was enough once.
    pub(super) fn outputs(&mut self, json: &Json, place: &str, findings: &mut Findings) -> Option<JsonMap> {
        if let Ok(names) = json.parse::<Vec<String>>() {
            return Some(names.into_iter().map(|name| (name, Json::of("any"))).collect());
        }
        let Ok(outputs) = json.parse::<JsonMap>() else {
            findings.problem(place, "an object is expected: each output with its type");
            return None;
        };
        Some(outputs.into_iter().map(|(name, want)| (name, self.want(want))).collect())
    }

    /// A type, or a type and whether it has to be there.
    fn want(&mut self, want: Json) -> Json {
        let Ok(mut fields) = want.parse::<JsonMap>() else { return self.shape(want) };
        let Some(kind) = fields.remove("type") else { return want };
        fields.insert("type".to_owned(), self.shape(kind));
        Json::of(&fields)
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

/// The fields that a value has to have.
fn required(fields: &JsonMap) -> Vec<&String> {
    let optional = |json: &Json| {
        let spec = json.parse::<JsonMap>().ok();
        spec.and_then(|spec| spec.get("required")?.parse::<bool>().ok()) == Some(false)
    };
    fields.iter().filter(|(_, json)| !optional(json)).map(|(name, _)| name).collect()
}
