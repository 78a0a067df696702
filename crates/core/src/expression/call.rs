//! What the functions do.

use std::cmp::Ordering;

use super::fuel::{Fuel, Halt};
use super::function::Function;
use super::pattern::Pattern;
use super::value::{TWO_TO_63, Value, clip};

/// Price of writing a number as text, or of reading one.
const NUMBER: u64 = 8;

/// Calls a function. The table of functions has checked the number of arguments.
pub(super) fn call(function: Function, arguments: &[Value], fuel: &mut Fuel) -> Result<Value, Halt> {
    match function {
        Function::Size => size(&arguments[0], fuel),
        Function::Contains => part(arguments, "contains", fuel, |text, part| text.contains(part)),
        Function::StartsWith => part(arguments, "startsWith", fuel, |text, part| text.starts_with(part)),
        Function::EndsWith => part(arguments, "endsWith", fuel, |text, part| text.ends_with(part)),
        Function::Matches => {
            let pattern = Pattern::compile(text(&arguments[1], "matches")?, fuel)?;
            pattern.is_match(text(&arguments[0], "matches")?, fuel).map(Value::Bool)
        }
        Function::Int => int(&arguments[0]).map(Value::Int),
        Function::Uint => uint(&arguments[0]).map(Value::Uint),
        Function::Double => {
            fuel.burn(NUMBER)?;
            double(&arguments[0]).map(Value::Double)
        }
        Function::Text => string(&arguments[0], fuel),
        Function::Bool => bool(&arguments[0]).map(Value::Bool),
        Function::Min => extreme(arguments, "min", Ordering::Less, fuel),
        Function::Max => extreme(arguments, "max", Ordering::Greater, fuel),
        Function::LowerAscii => rewrite(arguments, "lowerAscii", fuel, str::to_ascii_lowercase),
        Function::UpperAscii => rewrite(arguments, "upperAscii", fuel, str::to_ascii_uppercase),
        Function::Trim => rewrite(arguments, "trim", fuel, |text| text.trim().to_owned()),
        Function::Split => split(arguments, fuel),
        Function::Join => join(arguments, fuel),
        Function::Replace => replace(arguments, fuel),
        Function::Substring => substring(arguments, fuel),
        Function::CharAt => char_at(arguments, fuel),
        Function::IndexOf => index_of(arguments, fuel),
    }
}

/// The text that a function needs.
pub(super) fn text<'v>(value: &'v Value, function: &str) -> Result<&'v str, Halt> {
    match value {
        Value::Text(text) => Ok(text),
        other => Err(Halt::failed(format!(
            "{function} needs a string, not {}; convert with string()",
            other.kind()
        ))),
    }
}

fn whole_number(value: &Value, function: &str) -> Result<i64, Halt> {
    match value {
        Value::Int(number) => Ok(*number),
        other => {
            Err(Halt::failed(format!("{function} needs an int, not {}; convert with int()", other.kind())))
        }
    }
}

/// A position in a text of `length` characters, the end included.
fn position(value: &Value, length: usize, function: &str) -> Result<usize, Halt> {
    let number = whole_number(value, function)?;
    let within = usize::try_from(number).ok().filter(|position| *position <= length);
    within.ok_or_else(|| Halt::failed(format!("{function} has no position {number} in {length} characters")))
}

fn size(value: &Value, fuel: &mut Fuel) -> Result<Value, Halt> {
    let size = match value {
        Value::Text(text) => {
            fuel.scan(text.len())?;
            text.chars().count()
        }
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        other => {
            return Err(Halt::failed(format!("size needs a string, a list or a map, not {}", other.kind())));
        }
    };
    Ok(Value::Int(size as i64))
}

fn part(
    arguments: &[Value],
    name: &str,
    fuel: &mut Fuel,
    test: fn(&str, &str) -> bool,
) -> Result<Value, Halt> {
    let (text, part) = (text(&arguments[0], name)?, text(&arguments[1], name)?);
    fuel.scan(text.len() + part.len())?;
    Ok(Value::Bool(test(text, part)))
}

fn rewrite(arguments: &[Value], name: &str, fuel: &mut Fuel, how: fn(&str) -> String) -> Result<Value, Halt> {
    let text = text(&arguments[0], name)?;
    fuel.build(text.len())?;
    Ok(Value::Text(how(text).into()))
}

fn unusable(value: &Value, kind: &str) -> Halt {
    match value {
        Value::Text(text) => Halt::failed(format!("{kind}() can't read '{}'", clip(text))),
        Value::Int(_) | Value::Uint(_) | Value::Double(_) => {
            Halt::failed(format!("the number given to {kind}() is outside its range"))
        }
        other => Halt::failed(format!("{kind}() takes no {}", other.kind())),
    }
}

fn int(value: &Value) -> Result<i64, Halt> {
    let number = match value {
        Value::Int(number) => Some(*number),
        Value::Uint(number) => i64::try_from(*number).ok(),
        Value::Double(number) => {
            let number = number.trunc();
            (-TWO_TO_63..TWO_TO_63).contains(&number).then_some(number as i64)
        }
        Value::Text(text) => text.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| unusable(value, "int"))
}

fn uint(value: &Value) -> Result<u64, Halt> {
    let number = match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Uint(number) => Some(*number),
        Value::Double(number) => {
            let number = number.trunc();
            (0.0..2.0 * TWO_TO_63).contains(&number).then_some(number as u64)
        }
        Value::Text(text) => text.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| unusable(value, "uint"))
}

fn double(value: &Value) -> Result<f64, Halt> {
    let number = match value {
        Value::Text(text) => text.parse().ok(),
        other => other.as_double(),
    };
    number.ok_or_else(|| unusable(value, "double"))
}

fn bool(value: &Value) -> Result<bool, Halt> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        Value::Text(text) => match &**text {
            "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
            "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
            _ => Err(unusable(value, "bool")),
        },
        other => Err(Halt::failed(format!("bool() takes no {}", other.kind()))),
    }
}

fn string(value: &Value, fuel: &mut Fuel) -> Result<Value, Halt> {
    fuel.burn(NUMBER)?;
    Ok(match value {
        Value::Text(_) => value.clone(),
        Value::Bool(truth) => Value::text(if *truth { "true" } else { "false" }),
        Value::Int(number) => Value::text(&number.to_string()),
        Value::Uint(number) => Value::text(&number.to_string()),
        Value::Double(number) => Value::text(&double_text(*number)),
        other => return Err(Halt::failed(format!("string() takes no {}", other.kind()))),
    })
}

/// Without an exponent where people would write none.
fn double_text(number: f64) -> String {
    let size = number.abs();
    match size == 0.0 || !size.is_finite() || (1e-5..1e17).contains(&size) {
        true => number.to_string(),
        false => format!("{number:e}"),
    }
}

/// The least or the greatest of the arguments, or of the one list that is given.
fn extreme(arguments: &[Value], name: &str, wanted: Ordering, fuel: &mut Fuel) -> Result<Value, Halt> {
    let values = match arguments {
        [Value::List(list)] => list.as_slice(),
        values => values,
    };
    let (first, rest) = values
        .split_first()
        .ok_or_else(|| Halt::failed(format!("{name} of an empty list; test its size first")))?;
    let mut best = first;
    // One value is compared with itself, so that the kind is checked in any case.
    best.compare(best, fuel)?;
    for value in rest {
        fuel.burn(1)?;
        if value.compare(best, fuel)? == Some(wanted) {
            best = value;
        }
    }
    Ok(best.clone())
}

fn split(arguments: &[Value], fuel: &mut Fuel) -> Result<Value, Halt> {
    let (text, separator) = (text(&arguments[0], "split")?, text(&arguments[1], "split")?);
    let limit = match arguments.get(2) {
        Some(limit) => usize::try_from(whole_number(limit, "split")?).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    fuel.build(text.len())?;
    if limit == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let mut parts = Vec::new();
    let mut add = |part: &str, fuel: &mut Fuel| {
        fuel.elements(3)?;
        parts.push(Value::text(part));
        Ok(())
    };
    match separator {
        "" => characters(text, limit).try_for_each(|part| add(part, fuel))?,
        _ => text.splitn(limit, separator).try_for_each(|part| add(part, fuel))?,
    }
    Ok(Value::list(parts))
}

/// The characters of a text, the last part holding all that is beyond the limit.
fn characters(text: &str, limit: usize) -> impl Iterator<Item = &str> {
    text.char_indices().enumerate().take(limit).map(move |(count, (at, character))| {
        let end = if count + 1 == limit { text.len() } else { at + character.len_utf8() };
        &text[at..end]
    })
}

fn join(arguments: &[Value], fuel: &mut Fuel) -> Result<Value, Halt> {
    let Value::List(parts) = &arguments[0] else {
        return Err(Halt::failed(format!("join needs a list of strings, not {}", arguments[0].kind())));
    };
    let separator = arguments.get(1).map_or(Ok(""), |separator| text(separator, "join"))?;
    let mut joined = String::new();
    for (at, part) in parts.iter().enumerate() {
        let part = text(part, "join")?;
        fuel.build(separator.len() + part.len())?;
        if at > 0 {
            joined.push_str(separator);
        }
        joined.push_str(part);
    }
    Ok(Value::Text(joined.into()))
}

fn replace(arguments: &[Value], fuel: &mut Fuel) -> Result<Value, Halt> {
    let within = text(&arguments[0], "replace")?;
    let (old, new) = (text(&arguments[1], "replace")?, text(&arguments[2], "replace")?);
    let limit = match arguments.get(3) {
        Some(limit) => usize::try_from(whole_number(limit, "replace")?).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    // The size of the result is known, and paid for, before it is built.
    fuel.scan(within.len() + old.len())?;
    let found = within.matches(old).take(limit).count();
    fuel.build(within.len().saturating_add(found.saturating_mul(new.len())))?;
    fuel.burn(found as u64)?;
    Ok(Value::Text(within.replacen(old, new, limit).into()))
}

fn substring(arguments: &[Value], fuel: &mut Fuel) -> Result<Value, Halt> {
    let text = text(&arguments[0], "substring")?;
    fuel.build(text.len())?;
    let length = text.chars().count();
    let start = position(&arguments[1], length, "substring")?;
    let end = arguments.get(2).map_or(Ok(length), |end| position(end, length, "substring"))?;
    if start > end {
        return Err(Halt::failed(format!("substring can't start at {start} and end before it, at {end}")));
    }
    Ok(Value::text(&text[byte_at(text, start)..byte_at(text, end)]))
}

fn char_at(arguments: &[Value], fuel: &mut Fuel) -> Result<Value, Halt> {
    let text = text(&arguments[0], "charAt")?;
    fuel.scan(text.len())?;
    let at = position(&arguments[1], text.chars().count(), "charAt")?;
    Ok(Value::Text(text.chars().skip(at).take(1).collect::<String>().into()))
}

fn index_of(arguments: &[Value], fuel: &mut Fuel) -> Result<Value, Halt> {
    let (text, part) = (text(&arguments[0], "indexOf")?, text(&arguments[1], "indexOf")?);
    fuel.scan(2 * text.len() + part.len())?;
    let length = text.chars().count();
    let start = arguments.get(2).map_or(Ok(0), |start| position(start, length, "indexOf"))?;
    let tail = &text[byte_at(text, start)..];
    let found = tail.find(part).map(|at| start + tail[..at].chars().count());
    Ok(Value::Int(found.map_or(-1, |found| found as i64)))
}

/// The byte at which a character begins; the end for the position behind the last one.
fn byte_at(text: &str, position: usize) -> usize {
    text.char_indices().nth(position).map_or(text.len(), |(at, _)| at)
}
