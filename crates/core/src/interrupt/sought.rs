//! What an event is found by that is waited for.
//!
//! Many runs may wait for events of one type, each for another order or another person. To hold an event against all of
//! them would take time in proportion to their number. So the values that are waited for are hashed, and an event is
//! hashed the same way: by the keys that somebody waits for. Those that fit are then found by equality.

use serde_json::{Number, Value};

use crate::{Json, JsonMap, sha256};

/// What an external event is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sought {
    /// The names of the keys that have to be equal, sorted, as a JSON array.
    pub keys: String,
    /// The start of a hash of their values.
    pub digest: [u8; DIGEST_BYTES],
}

/// Bytes of a hash: enough that two values share one only if somebody works on it, and then nothing but time is lost,
/// because a resolution compares the values themselves.
const DIGEST_BYTES: usize = 16;

/// A key with this name may stand for the whole payload or for a part of it, so it is left to the comparison.
const EVENT_PAYLOAD: &str = "eventPayload";

impl Sought {
    /// What an interrupt with this data is found by.
    pub fn of(data: &Json) -> Option<Self> {
        let mut correlation: JsonMap = data.parse::<JsonMap>().ok()?.get("correlation")?.parse().ok()?;
        correlation.remove(EVENT_PAYLOAD);
        let names: Vec<&String> = correlation.keys().collect();
        let keys = Json::of(&names).text().to_owned();
        Some(Self { digest: digest(correlation.values())?, keys })
    }

    /// What an event with this payload would be found by, if somebody waits for it by these keys.
    pub fn by(keys: &str, payload: &Json) -> Option<Self> {
        let names: Vec<String> = serde_json::from_str(keys).ok()?;
        let payload: JsonMap = payload.parse().unwrap_or_default();
        let values: Option<Vec<&Json>> = names.iter().map(|name| payload.get(name)).collect();
        Some(Self { digest: digest(values?.into_iter())?, keys: keys.to_owned() })
    }
}

fn digest<'a>(values: impl Iterator<Item = &'a Json>) -> Option<[u8; DIGEST_BYTES]> {
    let mut text = String::new();
    for value in values {
        write(&value.parse().ok()?, &mut text);
        text.push('\n');
    }
    sha256(text.as_bytes())[..DIGEST_BYTES].try_into().ok()
}

/// Writes what is equal in one way, however it was written. The JSON reader has bounded the depth.
fn write(value: &Value, to: &mut String) {
    match value {
        Value::Number(number) => write_number(number, to),
        Value::Array(items) => {
            to.push('[');
            for item in items {
                write(item, to);
                to.push(',');
            }
            to.push(']');
        }
        Value::Object(entries) => {
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_by_key(|(key, _)| *key);
            to.push('{');
            for (key, value) in sorted {
                to.push_str(&Value::from(key.as_str()).to_string());
                to.push(':');
                write(value, to);
                to.push(',');
            }
            to.push('}');
        }
        Value::Null | Value::Bool(_) | Value::String(_) => to.push_str(&value.to_string()),
    }
}

/// A whole number is the same with and without a fraction of nothing.
fn write_number(number: &Number, to: &mut String) {
    let text = match (number.as_i128(), number.as_f64()) {
        (Some(whole), _) => whole.to_string(),
        (None, Some(float)) if float.fract() == 0.0 => format!("{:.0}", float + 0.0),
        (None, Some(float)) => format!("{float:e}"),
        (None, None) => number.to_string(),
    };
    to.push_str(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        serde_json::from_str(text).unwrap()
    }

    fn finds(correlation: &str, payload: &str) -> bool {
        let sought = Sought::of(&json(&format!(r#"{{"correlation": {correlation}}}"#))).unwrap();
        Sought::by(&sought.keys, &json(payload)).is_some_and(|found| found == sought)
    }

    #[test]
    fn an_event_is_found_by_the_keys_that_are_waited_for_and_no_others() {
        assert!(finds(r#"{"b": 2, "a": "x"}"#, r#"{"a": "x", "b": 2, "c": 3}"#));
        assert!(!finds(r#"{"b": 2, "a": "x"}"#, r#"{"a": "x", "b": 3}"#));
        assert!(!finds(r#"{"b": 2, "a": "x"}"#, r#"{"a": "x"}"#));
        assert!(!finds(r#"{"a": "x"}"#, r#""x""#));
        assert!(finds("{}", "7"), "whoever waits for nothing in particular takes everything");
        assert!(finds(r#"{"eventPayload": 1, "a": 1}"#, r#"{"a": 1}"#), "this key is left to the comparison");
    }

    #[test]
    fn what_is_equal_is_found_however_it_is_written() {
        for (one, other) in [
            ("1", "1.0"),
            ("100", "1e2"),
            ("0", "-0.0"),
            ("0.5", "5e-1"),
            (r#"{"x": [1, {"y": null, "z": "é"}]}"#, r#"{"x":[1.0,{"z":"\u00e9","y":null}]}"#),
        ] {
            assert!(finds(&format!(r#"{{"a": {one}}}"#), &format!(r#"{{"a": {other}}}"#)), "{one} {other}");
        }
        for (one, other) in
            [("1", "2"), ("1", "\"1\""), ("[1,2]", "[2,1]"), ("[[1],2]", "[1,[2]]"), ("null", "false")]
        {
            assert!(!finds(&format!(r#"{{"a": {one}}}"#), &format!(r#"{{"a": {other}}}"#)), "{one} {other}");
        }
    }
}
