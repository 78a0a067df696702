//! Binary operators over values.
//!
//! Where CEL knows no `int + double`, the `int` is taken as a double: in JSON the same quantity is `9` in
//! one run and `9.5` in the next, and no expression could be written for both.

use std::cmp::Ordering;
use std::sync::Arc;

use cel::common::ast::operators;

use super::fuel::{Fuel, Halt};
use super::value::{Key, Value, clip};

/// A binary operator that evaluates both of its sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

impl Operator {
    /// The operator that the parser names so.
    pub(super) fn find(name: &str) -> Option<Self> {
        Some(match name {
            operators::ADD => Self::Add,
            operators::SUBSTRACT => Self::Subtract,
            operators::MULTIPLY => Self::Multiply,
            operators::DIVIDE => Self::Divide,
            operators::MODULO => Self::Remainder,
            operators::EQUALS => Self::Equal,
            operators::NOT_EQUALS => Self::NotEqual,
            operators::LESS => Self::Less,
            operators::LESS_EQUALS => Self::LessOrEqual,
            operators::GREATER => Self::Greater,
            operators::GREATER_EQUALS => Self::GreaterOrEqual,
            operators::IN => Self::In,
            _ => return None,
        })
    }

    fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
        }
    }

    /// Applies it.
    pub(super) fn apply(self, one: &Value, two: &Value, fuel: &mut Fuel) -> Result<Value, Halt> {
        let ordered = |wanted: fn(Ordering) -> bool, fuel: &mut Fuel| {
            Ok(Value::Bool(one.compare(two, fuel)?.is_some_and(wanted)))
        };
        match self {
            Self::Equal => one.equals(two, fuel).map(Value::Bool),
            Self::NotEqual => one.equals(two, fuel).map(|equal| Value::Bool(!equal)),
            Self::Less => ordered(Ordering::is_lt, fuel),
            Self::LessOrEqual => ordered(Ordering::is_le, fuel),
            Self::Greater => ordered(Ordering::is_gt, fuel),
            Self::GreaterOrEqual => ordered(Ordering::is_ge, fuel),
            Self::In => contains(two, one, fuel).map(Value::Bool),
            Self::Add => add(one, two, fuel),
            _ => self.compute(one, two),
        }
    }

    fn compute(self, one: &Value, two: &Value) -> Result<Value, Halt> {
        match (one, two) {
            (Value::Int(one), Value::Int(two)) => self.ints(*one, *two).map(Value::Int),
            (Value::Uint(one), Value::Uint(two)) => self.uints(*one, *two).map(Value::Uint),
            (Value::Double(_), _) | (_, Value::Double(_)) => match (one.as_double(), two.as_double()) {
                (Some(left), Some(right)) => self.doubles(left, right),
                _ => Err(self.no_overload(one, two)),
            },
            _ => Err(self.no_overload(one, two)),
        }
    }

    fn ints(self, one: i64, two: i64) -> Result<i64, Halt> {
        let result = match self {
            Self::Add => one.checked_add(two),
            Self::Subtract => one.checked_sub(two),
            Self::Multiply => one.checked_mul(two),
            Self::Divide if two != 0 => one.checked_div(two),
            Self::Remainder if two != 0 => one.checked_rem(two),
            _ => return Err(self.by_zero()),
        };
        result.ok_or_else(|| self.overflow("int"))
    }

    fn uints(self, one: u64, two: u64) -> Result<u64, Halt> {
        let result = match self {
            Self::Add => one.checked_add(two),
            Self::Subtract => one.checked_sub(two),
            Self::Multiply => one.checked_mul(two),
            Self::Divide if two != 0 => one.checked_div(two),
            Self::Remainder if two != 0 => one.checked_rem(two),
            _ => return Err(self.by_zero()),
        };
        result.ok_or_else(|| self.overflow("uint"))
    }

    fn doubles(self, one: f64, two: f64) -> Result<Value, Halt> {
        Ok(Value::Double(match self {
            Self::Add => one + two,
            Self::Subtract => one - two,
            Self::Multiply => one * two,
            Self::Divide => one / two,
            _ => return Err(Halt::failed("% needs two whole numbers; convert with int()")),
        }))
    }

    fn by_zero(self) -> Halt {
        Halt::failed(format!("the right side of {} is zero; test for it first", self.symbol()))
    }

    fn overflow(self, kind: &str) -> Halt {
        let symbol = self.symbol();
        Halt::failed(format!("the result of {symbol} is outside the range of {kind}; use double()"))
    }

    fn no_overload(self, one: &Value, two: &Value) -> Halt {
        let (symbol, one, two) = (self.symbol(), one.kind(), two.kind());
        Halt::failed(format!("{one} {symbol} {two} has no meaning; convert one side"))
    }
}

/// `-value`.
pub(super) fn negate(value: &Value) -> Result<Value, Halt> {
    match value {
        Value::Int(value) => {
            let negated = value.checked_neg().map(Value::Int);
            negated.ok_or_else(|| Halt::failed("the negation is outside the range of int; use double()"))
        }
        Value::Double(value) => Ok(Value::Double(-value)),
        other => Err(Halt::failed(format!("- needs an int or a double, not {}", other.kind()))),
    }
}

fn add(one: &Value, two: &Value, fuel: &mut Fuel) -> Result<Value, Halt> {
    match (one, two) {
        (Value::Text(one), Value::Text(two)) => {
            fuel.build(one.len() + two.len())?;
            let joined: String = [&**one, &**two].concat();
            Ok(Value::Text(joined.into()))
        }
        (Value::List(one), Value::List(two)) => {
            fuel.elements(one.len() + two.len())?;
            Ok(Value::List(Arc::new(one.iter().chain(two.iter()).cloned().collect())))
        }
        _ => Operator::Add.compute(one, two),
    }
}

/// `wanted in within`.
fn contains(within: &Value, wanted: &Value, fuel: &mut Fuel) -> Result<bool, Halt> {
    match within {
        Value::List(items) => {
            for item in items.iter() {
                if item.equals(wanted, fuel)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => {
            pay_for_key(wanted, fuel)?;
            Ok(wanted.key().is_some_and(|key| map.contains_key(&key)))
        }
        Value::Text(_) => {
            Err(Halt::failed("in looks into lists and maps; use text.contains(part) for strings"))
        }
        other => Err(Halt::failed(format!("in looks into lists and maps, not into {}", other.kind()))),
    }
}

/// `of[index]`.
pub(super) fn index(of: &Value, index: &Value, fuel: &mut Fuel) -> Result<Value, Halt> {
    match of {
        Value::List(items) => {
            let position = match index.key() {
                Some(Key::Int(position)) => usize::try_from(position).ok(),
                _ => None,
            };
            let found = position.and_then(|position| items.get(position));
            found.cloned().ok_or_else(|| outside(index, items.len()))
        }
        Value::Map(map) => {
            pay_for_key(index, fuel)?;
            let found = index.key().and_then(|key| map.get(&key));
            found.cloned().ok_or_else(|| missing(index))
        }
        other => Err(Halt::failed(format!("{} has no elements to index; use a list or a map", other.kind()))),
    }
}

/// Finding a key compares it with some others along the way.
fn pay_for_key(key: &Value, fuel: &mut Fuel) -> Result<(), Halt> {
    match key {
        Value::Text(text) => fuel.scan(text.len()),
        _ => Ok(()),
    }
}

fn outside(index: &Value, length: usize) -> Halt {
    match index.key() {
        Some(Key::Int(index)) => Halt::failed(format!("there is no element {index} in a list of {length}")),
        _ => Halt::failed(format!("an index of a list is a whole number, not {}", index.kind())),
    }
}

fn missing(index: &Value) -> Halt {
    match index.key() {
        Some(key) => no_such_key(&key.to_string()),
        None => Halt::failed(format!("a key is a string, a number or a bool, not {}", index.kind())),
    }
}

/// The failure of selecting `key` where it is not.
pub(super) fn no_such_key(key: &str) -> Halt {
    let key = clip(key);
    Halt::failed(format!("there is no key '{key}'; ask with has() or `in` before selecting it"))
}
