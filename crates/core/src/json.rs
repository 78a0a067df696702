//! JSON that is carried, not looked into.
//!
//! Users' values (inputs, outputs, metadata) travel through Abide as the bytes they arrived in. They are
//! parsed only where something has to look inside.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One JSON value as text, cheap to clone. Equality is equality of the text.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Arc<RawValue>);

/// An object whose values are carried as they are. Keys are sorted, so that the text is canonical.
pub type JsonMap = BTreeMap<String, Json>;

/// Reads a value that is there, be it null. Whoever answers null has answered.
pub(crate) fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}

impl Json {
    /// The value's text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Any serialisable value as JSON.
    ///
    /// Only values whose serialisation can't fail are passed here: maps with string keys, strings, numbers.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        let raw = serde_json::value::to_raw_value(value).expect("a plain value serialises");
        Self(raw.into())
    }

    /// Looks inside.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.text())
    }

    /// Whether it says the same as another, whatever spaces and escapes it is written with.
    pub(crate) fn says_same(&self, other: &Self) -> bool {
        let value = |json: &Self| json.parse::<serde_json::Value>().ok();
        self == other || value(self).is_some_and(|own| value(other) == Some(own))
    }

    /// Levels of lists and objects in it, counted without recursion.
    pub fn depth(&self) -> usize {
        let (mut depth, mut most, mut quoted, mut escaped) = (0_usize, 0, false, false);
        for byte in self.text().bytes() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b'[' | b'{' if !quoted => {
                    depth += 1;
                    most = most.max(depth);
                }
                b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        most
    }

    /// What kind of JSON value this is, in the words of workflow definitions.
    pub fn type_name(&self) -> &'static str {
        match self.text().as_bytes().first() {
            Some(b'"') => "string",
            Some(b'{') => "object",
            Some(b'[') => "array",
            Some(b't' | b'f') => "boolean",
            Some(b'n') => "null",
            _ => "number",
        }
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
