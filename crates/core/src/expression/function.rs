//! The functions that expressions may call: one table of names and arities.

use super::value::clip;

/// A function, with its receiver as the first argument if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    Int,
    Uint,
    Double,
    Text,
    Bool,
    Min,
    Max,
    LowerAscii,
    UpperAscii,
    Trim,
    Split,
    Join,
    Replace,
    Substring,
    CharAt,
    IndexOf,
}

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// `f(a, b)`
    Global,
    /// `a.f(b)`
    Method,
}

/// Name, style, least and most arguments (the receiver not counted), and what is called.
type Row = (&'static str, Style, usize, usize, Function);

/// Arguments of `min` and `max`; more of them make a list.
const OPERANDS_MAX: usize = 16;

const TABLE: &[Row] = &[
    ("size", Style::Global, 1, 1, Function::Size),
    ("size", Style::Method, 0, 0, Function::Size),
    ("contains", Style::Method, 1, 1, Function::Contains),
    ("startsWith", Style::Method, 1, 1, Function::StartsWith),
    ("endsWith", Style::Method, 1, 1, Function::EndsWith),
    ("matches", Style::Method, 1, 1, Function::Matches),
    ("matches", Style::Global, 2, 2, Function::Matches),
    ("int", Style::Global, 1, 1, Function::Int),
    ("uint", Style::Global, 1, 1, Function::Uint),
    ("double", Style::Global, 1, 1, Function::Double),
    ("string", Style::Global, 1, 1, Function::Text),
    ("bool", Style::Global, 1, 1, Function::Bool),
    ("min", Style::Global, 1, OPERANDS_MAX, Function::Min),
    ("max", Style::Global, 1, OPERANDS_MAX, Function::Max),
    ("lowerAscii", Style::Method, 0, 0, Function::LowerAscii),
    ("upperAscii", Style::Method, 0, 0, Function::UpperAscii),
    ("trim", Style::Method, 0, 0, Function::Trim),
    ("split", Style::Method, 1, 2, Function::Split),
    ("join", Style::Method, 0, 1, Function::Join),
    ("replace", Style::Method, 2, 3, Function::Replace),
    ("substring", Style::Method, 1, 2, Function::Substring),
    ("charAt", Style::Method, 1, 1, Function::CharAt),
    ("indexOf", Style::Method, 1, 2, Function::IndexOf),
];

/// Names that the parser expands when they are called rightly, with the right way.
const MACROS: &[(&str, &str)] = &[
    ("has", "has(a.b)"),
    ("all", "list.all(x, condition)"),
    ("exists", "list.exists(x, condition)"),
    ("exists_one", "list.exists_one(x, condition)"),
    ("map", "list.map(x, value) or list.map(x, condition, value)"),
    ("filter", "list.filter(x, condition)"),
];

/// Functions of CEL that are left out on purpose, with the reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("now", "there is no clock in expressions"),
    ("timestamp", "there is no clock in expressions; carry times as numbers of milliseconds"),
    ("duration", "there is no clock in expressions; carry durations as numbers of milliseconds"),
    ("type", "expressions can't ask for types; use has(), or convert with int(), double(), string(), bool()"),
    ("bytes", "expressions have no bytes; carry them as text"),
];

/// The function behind a call, or what is wrong with the call.
pub(super) fn find(name: &str, is_method: bool, arguments: usize) -> Result<Function, String> {
    let style = if is_method { Style::Method } else { Style::Global };
    let fits = |row: &&Row| row.1 == style && (row.2..=row.3).contains(&arguments);
    let rows: Vec<&Row> = TABLE.iter().filter(|row| row.0 == name).collect();
    match rows.iter().copied().find(fits) {
        Some(row) => Ok(row.4),
        None if rows.is_empty() => Err(unknown(name)),
        None => {
            let usages: Vec<String> = rows.iter().map(|row| usage(row)).collect();
            Err(format!("{name} is called as {}", usages.join(" or ")))
        }
    }
}

fn unknown(name: &str) -> String {
    if let Some((_, usage)) = MACROS.iter().find(|(known, _)| *known == name) {
        return format!("{name} is called as {usage}");
    }
    if let Some((_, reason)) = LEFT_OUT.iter().find(|(known, _)| *known == name) {
        return format!("{name}() is not available: {reason}");
    }
    let mut names: Vec<&str> =
        TABLE.iter().map(|row| row.0).chain(MACROS.iter().map(|(name, _)| *name)).collect();
    names.sort_unstable();
    names.dedup();
    format!("there is no function {}(); known are {}", clip(name), names.join(", "))
}

fn usage(row: &Row) -> String {
    let (name, style, least, most, _) = *row;
    let count = match (least, most) {
        (0, 0) => "no argument".to_owned(),
        (1, 1) => "1 argument".to_owned(),
        (least, most) if least == most => format!("{least} arguments"),
        (least, most) => format!("{least} to {most} arguments"),
    };
    match style {
        Style::Global => format!("{name}(...) with {count}"),
        Style::Method => format!("value.{name}(...) with {count}"),
    }
}
