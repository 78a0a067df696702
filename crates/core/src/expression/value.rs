//! The values that expressions compute with, and their way from and to JSON.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::fuel::{Fuel, Halt};
use crate::{Json, limits};

/// One value, cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Arc<str>),
    List(Arc<Vec<Value>>),
    Map(Arc<Map>),
}

pub(crate) type Map = BTreeMap<Key, Value>;

/// A key of a map. Numbers that are equal are the same key, so `Uint` holds only what `Int` can't.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Text(Arc<str>),
}

impl Value {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn list(elements: Vec<Self>) -> Self {
        Self::List(Arc::new(elements))
    }

    /// The name of its type, in the words of CEL.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::List(_) => "list",
            Self::Map(_) => "map",
        }
    }

    /// The key that is equal to this value, if a key can be.
    pub(crate) fn key(&self) -> Option<Key> {
        match self {
            Self::Bool(value) => Some(Key::Bool(*value)),
            Self::Int(value) => Some(Key::Int(*value)),
            Self::Uint(value) => Some(i64::try_from(*value).map_or(Key::Uint(*value), Key::Int)),
            Self::Double(value) => whole(*value).map(Key::Int),
            Self::Text(value) => Some(Key::Text(Arc::clone(value))),
            Self::Null | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// Equality in the sense of CEL: numbers by their value, values of different types are not equal.
    pub(crate) fn equals(&self, other: &Self, fuel: &mut Fuel) -> Result<bool, Halt> {
        fuel.burn(1)?;
        match (self, other) {
            (Self::Null, Self::Null) => Ok(true),
            (Self::Bool(one), Self::Bool(two)) => Ok(one == two),
            (Self::Text(one), Self::Text(two)) => {
                fuel.scan(one.len().min(two.len()))?;
                Ok(one == two)
            }
            (Self::List(one), Self::List(two)) => lists_equal(one, two, fuel),
            (Self::Map(one), Self::Map(two)) => maps_equal(one, two, fuel),
            _ => Ok(compare_numbers(self, other) == Some(Ordering::Equal)),
        }
    }

    /// Which of two values comes first; fails where there is no order between them.
    pub(crate) fn compare(&self, other: &Self, fuel: &mut Fuel) -> Result<Option<Ordering>, Halt> {
        match (self, other) {
            (Self::Bool(one), Self::Bool(two)) => Ok(Some(one.cmp(two))),
            (Self::Text(one), Self::Text(two)) => {
                fuel.scan(one.len().min(two.len()))?;
                Ok(Some(one.cmp(two)))
            }
            _ if self.is_number() && other.is_number() => Ok(compare_numbers(self, other)),
            _ => Err(Halt::failed(format!(
                "{} and {} have no order; compare two numbers, two strings or two bools",
                self.kind(),
                other.kind()
            ))),
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Uint(_) | Self::Double(_))
    }

    /// A number as a double, the nearest one if there is no equal one.
    pub(crate) fn as_double(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Uint(value) => Some(*value as f64),
            Self::Double(value) => Some(*value),
            _ => None,
        }
    }
}

impl Key {
    /// The key as a value, for loops over a map.
    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::Text(value) => Value::Text(Arc::clone(value)),
        }
    }
}

/// As it stands in messages and as a key of a JSON object.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

/// The whole number that a double is, if it is one in the range of `int`.
pub(crate) fn whole(value: f64) -> Option<i64> {
    // 2^63 itself is the first double beyond the range, so the range ends before it.
    let within = (-TWO_TO_63..TWO_TO_63).contains(&value);
    (within && value.fract() == 0.0).then_some(value as i64)
}

pub(crate) const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

fn lists_equal(one: &[Value], two: &[Value], fuel: &mut Fuel) -> Result<bool, Halt> {
    if one.len() != two.len() {
        return Ok(false);
    }
    for (one, two) in one.iter().zip(two) {
        if !one.equals(two, fuel)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps_equal(one: &Map, two: &Map, fuel: &mut Fuel) -> Result<bool, Halt> {
    if one.len() != two.len() {
        return Ok(false);
    }
    for ((key, value), (other_key, other)) in one.iter().zip(two) {
        if let Key::Text(text) = key {
            fuel.scan(text.len())?;
        }
        if key != other_key || !value.equals(other, fuel)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The order of two numbers by their exact values; `None` for NaN and for what is no number.
fn compare_numbers(one: &Value, two: &Value) -> Option<Ordering> {
    match (one, two) {
        (Value::Double(one), Value::Double(two)) => one.partial_cmp(two),
        (Value::Double(one), _) => compare_whole(two.as_whole()?, *one).map(Ordering::reverse),
        (_, Value::Double(two)) => compare_whole(one.as_whole()?, *two),
        _ => Some(one.as_whole()?.cmp(&two.as_whole()?)),
    }
}

impl Value {
    /// An `int` or a `uint` in a type that holds both.
    fn as_whole(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(i128::from(*value)),
            Self::Uint(value) => Some(i128::from(*value)),
            _ => None,
        }
    }
}

/// Compares without rounding: a double beyond 2^53 is close to whole numbers that it is not equal to.
fn compare_whole(one: i128, two: f64) -> Option<Ordering> {
    if two.is_nan() {
        return None;
    }
    // The cast saturates at the ends of i128, which are beyond every whole number here.
    let floor = two.floor() as i128;
    let fraction = two > two.floor();
    Some(one.cmp(&floor).then(if fraction { Ordering::Less } else { Ordering::Equal }))
}

/// Price of an element of a list that is read from JSON, of a string, and of an entry of a map. The last two
/// take memory of their own.
const READ_ELEMENT: u64 = 2;
const READ_TEXT: u64 = 4;
const READ_ENTRY: u64 = 12;

/// Reads JSON as a value. `name` is what messages call it.
pub(crate) fn read(json: &Json, name: &dyn fmt::Display, fuel: &mut Fuel) -> Result<Value, Halt> {
    fuel.scan(json.text().len())?;
    let mut reader = serde_json::Deserializer::from_str(json.text());
    let read = Reader(fuel).deserialize(&mut reader);
    read.map_err(|error| match fuel.left() {
        0 => Halt::Costly,
        _ => Halt::failed(format!("the value of `{name}` can't be read: {error}")),
    })
}

/// Builds values while the JSON is parsed, so that too much of it stops the parser.
struct Reader<'f>(&'f mut Fuel);

impl Reader<'_> {
    fn pay<E: serde::de::Error>(&mut self, units: u64) -> Result<(), E> {
        self.0.burn(units).map_err(|_| E::custom("too costly"))
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Double(value as f64), Value::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Double(value))
    }

    fn visit_str<E: serde::de::Error>(mut self, value: &str) -> Result<Value, E> {
        self.pay(READ_TEXT)?;
        Ok(Value::text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Reader(self.0))? {
            self.pay(READ_ELEMENT)?;
            list.push(item);
        }
        Ok(Value::list(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.pay(READ_ENTRY)?;
            map.insert(Key::Text(key.into()), entries.next_value_seed(Reader(self.0))?);
        }
        Ok(Value::Map(Arc::new(map)))
    }
}

/// Writes a value as canonical JSON: keys sorted, no spaces.
pub(crate) fn write(value: &Value, fuel: &mut Fuel) -> Result<Json, Halt> {
    let mut text = String::new();
    write_value(value, &mut text, limits::EXPRESSION_RESULT_DEPTH_MAX, fuel)?;
    Ok(serde_json::from_str(&text).expect("the writer writes JSON"))
}

fn write_value(value: &Value, out: &mut String, depth: usize, fuel: &mut Fuel) -> Result<(), Halt> {
    fuel.burn(1)?;
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int(value) => out.push_str(&value.to_string()),
        Value::Uint(value) => out.push_str(&value.to_string()),
        Value::Double(value) => out.push_str(&double_json(*value)?),
        Value::Text(value) => write_text(value, out, fuel)?,
        Value::List(items) => write_list(items, out, below(depth)?, fuel)?,
        Value::Map(map) => write_map(map, out, below(depth)?, fuel)?,
    }
    Ok(())
}

fn below(depth: usize) -> Result<usize, Halt> {
    depth.checked_sub(1).ok_or_else(|| {
        let levels = limits::EXPRESSION_RESULT_DEPTH_MAX;
        Halt::failed(format!("the result nests lists and maps more than {levels} levels deep; flatten it"))
    })
}

fn double_json(value: f64) -> Result<String, Halt> {
    if value.is_finite() {
        return Ok(serde_json::to_string(&value).expect("a finite number serialises"));
    }
    Err(Halt::failed(format!(
        "the result holds {value}, which JSON can't express; check for a division by zero"
    )))
}

fn write_text(text: &str, out: &mut String, fuel: &mut Fuel) -> Result<(), Halt> {
    fuel.build(text.len())?;
    out.push_str(&serde_json::to_string(text).expect("a string serialises"));
    Ok(())
}

fn write_list(items: &[Value], out: &mut String, depth: usize, fuel: &mut Fuel) -> Result<(), Halt> {
    out.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_value(item, out, depth, fuel)?;
    }
    out.push(']');
    Ok(())
}

fn write_map(map: &Map, out: &mut String, depth: usize, fuel: &mut Fuel) -> Result<(), Halt> {
    fuel.elements(map.len())?;
    let mut entries: Vec<(String, &Value)> =
        map.iter().map(|(key, value)| (key.to_string(), value)).collect();
    entries.sort_by(|one, two| one.0.cmp(&two.0));
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let key = clip(&pair[0].0);
        return Err(Halt::failed(format!("two keys of a map are both written '{key}' in JSON; rename one")));
    }
    out.push('{');
    for (at, (key, value)) in entries.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_text(&key, out, fuel)?;
        out.push(':');
        write_value(value, out, depth, fuel)?;
    }
    out.push('}');
    Ok(())
}

/// The start of a text that comes from data, short enough for a message.
pub(crate) fn clip(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
