//! Reading a closed JSON object by hand, so that every problem is found at once and not only the first.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::definition::Problem;
use crate::{Json, JsonMap, limits};

/// What is wrong with a definition, or with another closed object.
///
/// A *problem* makes it unreadable. An *objection* keeps it from being admitted, but a run that is already pinned
/// to it goes on: rules that a later version adds are always objections.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    pub(crate) objections: Vec<Problem>,
    /// How the outermost object is called, if it is no definition.
    whole: Option<&'static str>,
}

impl Findings {
    /// Findings about something that is no definition, but is called `whole`.
    pub(crate) fn about(whole: &'static str) -> Self {
        Self { whole: Some(whole), ..Self::default() }
    }

    /// A place as it is told.
    fn shown(&self, place: &str) -> String {
        if place == ROOT { self.whole.unwrap_or("definition").to_owned() } else { place.to_owned() }
    }

    /// The definition can't be read.
    pub(crate) fn problem(&mut self, place: impl Into<String>, message: impl Into<String>) {
        note(&mut self.problems, place.into(), message.into());
    }

    /// The definition can be read, but must not be admitted.
    pub(crate) fn objection(&mut self, place: impl Into<String>, message: impl Into<String>) {
        note(&mut self.objections, place.into(), message.into());
    }

    /// Everything that was found.
    pub(crate) fn all(mut self) -> Vec<Problem> {
        self.problems.append(&mut self.objections);
        if self.problems.len() > limits::PROBLEMS_MAX {
            self.problems.truncate(limits::PROBLEMS_MAX);
            let message = format!("there are more than {} problems; mend these first", limits::PROBLEMS_MAX);
            self.problems.push(Problem { place: self.shown(ROOT), message });
        }
        self.problems
    }
}

fn note(list: &mut Vec<Problem>, place: String, message: String) {
    if list.len() <= limits::PROBLEMS_MAX {
        list.push(Problem { place, message });
    }
}

/// One object that is being read. Each key is asked for once; what nobody asked for is unknown.
pub(crate) struct Fields<'a> {
    place: String,
    entries: Vec<(String, Json)>,
    known: Vec<&'static str>,
    findings: &'a mut Findings,
}

impl<'a> Fields<'a> {
    /// The object at `place`, or nothing if it is none.
    pub(crate) fn of(json: &Json, place: impl Into<String>, findings: &'a mut Findings) -> Option<Self> {
        let place = place.into();
        if json.type_name() != "object" {
            let message = format!("an object is expected here, not {}", article(json.type_name()));
            findings.problem(findings.shown(&place), message);
            return None;
        }
        match json.parse::<Entries>() {
            Ok(Entries(entries)) => Some(Self { place, entries, known: Vec::new(), findings }),
            Err(error) => {
                findings.problem(findings.shown(&place), format!("it can't be read: {error}"));
                None
            }
        }
    }

    /// The place of one of its keys.
    pub(crate) fn place(&self, key: &str) -> String {
        if self.place == ROOT { key.to_owned() } else { format!("{}.{key}", self.place) }
    }

    /// Where findings go.
    pub(crate) fn findings(&mut self) -> &mut Findings {
        self.findings
    }

    /// Calls the object by a better name from here on.
    pub(crate) fn rename(&mut self, place: String) {
        self.place = place;
    }

    /// Any value, `null` included.
    pub(crate) fn any(&mut self, key: &'static str) -> Option<Json> {
        self.known.push(key);
        let mut found = self.entries.extract_if(.., |(name, _)| name == key).map(|(_, value)| value);
        let (value, again) = (found.next(), found.next().is_some());
        drop(found);
        if again {
            let place = self.place(key);
            self.findings.problem(place, format!("'{key}' stands there twice; remove one"));
        }
        value
    }

    /// Any value; `null` is as good as none.
    pub(crate) fn optional(&mut self, key: &'static str) -> Option<Json> {
        self.any(key).filter(|value| value.type_name() != "null")
    }

    /// Any value; it must be there.
    pub(crate) fn required(&mut self, key: &'static str) -> Option<Json> {
        let value = self.any(key);
        if value.is_none() {
            let place = self.findings.shown(&self.place);
            self.findings.problem(place, format!("'{key}' is missing; add it"));
        }
        value
    }

    /// A text that must be there.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<String> {
        let value = self.required(key)?;
        self.as_text(key, &value)
    }

    /// A text that may be there.
    pub(crate) fn optional_text(&mut self, key: &'static str) -> Option<String> {
        let value = self.optional(key)?;
        self.as_text(key, &value)
    }

    fn as_text(&mut self, key: &str, value: &Json) -> Option<String> {
        self.typed(key, value, "string")?.parse().ok()
    }

    /// True or false, if it is there.
    pub(crate) fn optional_flag(&mut self, key: &'static str) -> Option<bool> {
        let value = self.optional(key)?;
        self.typed(key, &value, "boolean")?.parse().ok()
    }

    /// A whole number within a range, if it is there.
    pub(crate) fn optional_whole(
        &mut self,
        key: &'static str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Option<i64> {
        let value = self.optional(key)?;
        let number = value.parse::<i64>().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let place = self.place(key);
            let message = format!("a whole number from {} to {} is expected", range.start(), range.end());
            self.findings.objection(place, message);
        }
        number
    }

    /// A list that must be there.
    pub(crate) fn list(&mut self, key: &'static str) -> Vec<Json> {
        let value = self.required(key);
        value.and_then(|value| self.as_list(key, &value)).unwrap_or_default()
    }

    /// A list that may be there.
    pub(crate) fn optional_list(&mut self, key: &'static str) -> Option<Vec<Json>> {
        let value = self.optional(key)?;
        self.as_list(key, &value)
    }

    fn as_list(&mut self, key: &str, value: &Json) -> Option<Vec<Json>> {
        self.typed(key, value, "array")?.parse().ok()
    }

    /// An object that must be there, as its entries.
    pub(crate) fn map(&mut self, key: &'static str) -> JsonMap {
        let value = self.required(key);
        value.and_then(|value| self.as_map(key, &value)).unwrap_or_default()
    }

    /// An object that may be there, as its entries.
    pub(crate) fn optional_map(&mut self, key: &'static str) -> Option<JsonMap> {
        let value = self.optional(key)?;
        self.as_map(key, &value)
    }

    fn as_map(&mut self, key: &str, value: &Json) -> Option<JsonMap> {
        let entries = self.typed(key, value, "object")?.parse::<Entries>().ok()?.0;
        let mut map = JsonMap::new();
        for (name, value) in entries {
            if map.contains_key(&name) {
                // The first release took the last one.
                let place = self.place(key);
                self.findings.objection(place, format!("'{name}' stands there twice; remove one"));
            }
            map.insert(name, value);
        }
        Some(map)
    }

    fn typed<'v>(&mut self, key: &str, value: &'v Json, expected: &str) -> Option<&'v Json> {
        let found = value.type_name();
        if found == expected {
            return Some(value);
        }
        let place = self.place(key);
        self.findings.problem(place, format!("{} is expected, not {}", article(expected), article(found)));
        None
    }

    /// Names every key that nobody asked for.
    pub(crate) fn finish(self) {
        // Looking for the nearest key takes time, and more than so many are never told.
        for (key, _) in self.entries.iter().take(limits::PROBLEMS_MAX + 1) {
            let place = self.place(key);
            let message = match nearest(key, &self.known, usize::MAX) {
                Some(near) => format!("there is no '{key}' here; did you mean '{near}'?"),
                None => format!("there is no '{key}' here; the keys are {}", self.known.join(", ")),
            };
            self.findings.problem(place, message);
        }
    }
}

/// The place of the definition itself.
pub(crate) const ROOT: &str = "";

pub(crate) fn article(type_name: &str) -> String {
    match type_name {
        "null" => "null".to_owned(),
        "object" | "array" => format!("an {type_name}"),
        name => format!("a {name}"),
    }
}

/// The known word that a mistyped one is closest to, if it is close: `most` letters, or a quarter of a short word.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str], most: usize) -> Option<&'k str> {
    let distances = known.iter().map(|known| (distance(word, known), *known));
    let close = |(distance, known): &(usize, &str)| *distance <= most.min(known.len().div_ceil(4));
    distances.min().filter(close).map(|(_, known)| known)
}

/// How many letters have to be changed, added or removed; capped, since long keys are never a slip.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    let (a, b): (Vec<char>, Vec<char>) =
        (a.to_lowercase().chars().collect(), b.to_lowercase().chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

/// An object's entries in their order, repeats included.
pub(crate) struct Entries(pub(crate) Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Entries(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_different_word_is_not() {
        assert_eq!(nearest("typeid", &["id", "typeId", "name"], 9), Some("typeId"));
        assert_eq!(nearest("trigerRule", &["triggerRule", "label"], 9), Some("triggerRule"));
        assert_eq!(nearest("colour", &["id", "typeId", "name"], 9), None);
    }
}
