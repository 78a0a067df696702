//! Whether two JSON values say the same.

use serde_json::{Number, Value};

use crate::Json;

/// Whether two values are equal, however they are written: the order of keys, blanks and escapes don't count.
pub(super) fn same(one: &Json, other: &Json) -> bool {
    one == other
        || matches!((one.parse::<Value>(), other.parse::<Value>()), (Ok(one), Ok(other)) if equal(&one, &other))
}

/// Deep equality, with numbers by their value: `1` is `1.0`. The JSON reader has bounded the depth.
pub(super) fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => equal_numbers(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let held = |(key, value)| other.get(key).is_some_and(|other| equal(value, other));
            one.len() == other.len() && one.iter().all(held)
        }
        _ => one == other,
    }
}

fn equal_numbers(one: &Number, other: &Number) -> bool {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.as_f64() == other.as_f64(),
        _ => false,
    }
}

/// A number without a fraction, exactly; the same number has one result, whichever way it was written.
fn whole(number: &Number) -> Option<i128> {
    if let Some(number) = number.as_i128() {
        return Some(number);
    }
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < EXACT_MAX)?;
    #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and fits")]
    Some(float as i128)
}

/// Two to the power of 64. The reader keeps smaller whole numbers as they are, and rounds larger ones.
pub(super) const EXACT_MAX: f64 = 18_446_744_073_709_551_616.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn values_are_compared_by_what_they_say() {
        for (one, other) in [
            ("1", "1.0"),
            ("0", "-0.0"),
            ("100", "1e2"),
            ("0.5", "5e-1"),
            (r#"{"a":[1,{"b":null}],"c":"x"}"#, r#"{ "c": "\u0078", "a": [1.0, {"b": null}] }"#),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            assert!(same(&json(one), &json(other)), "{one} {other}");
        }
        for (one, other) in [
            ("1", "2"),
            ("1", "\"1\""),
            ("1", "true"),
            ("null", "false"),
            ("[]", "{}"),
            ("[1,2]", "[2,1]"),
            ("[1]", "[1,1]"),
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#),
            (r#"{"a":null}"#, r#"{"b":null}"#),
            ("9007199254740993", "9007199254740992.0"),
            ("18446744073709551615", "18446744073709551616"),
        ] {
            assert!(!same(&json(one), &json(other)), "{one} {other}");
            assert!(!same(&json(other), &json(one)), "{other} {one}");
        }
    }
}
