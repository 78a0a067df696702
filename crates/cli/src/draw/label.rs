//! What is written on an edge: when it is taken, in few words.

use serde_json::Value;

/// The label that the author gave, else the condition, else the output it leaves by, else the trigger rule;
/// what every edge has by default is not worth a word.
pub(super) fn of(edge: &Value) -> Option<String> {
    let word = |key: &str, usual: &str| {
        edge[key].as_str().filter(|word| !word.trim().is_empty() && *word != usual).map(str::to_owned)
    };
    word("label", "")
        .or_else(|| condition(&edge["condition"]))
        .or_else(|| word("sourceOutput", "output"))
        .or_else(|| word("triggerRule", "all_success"))
}

fn condition(condition: &Value) -> Option<String> {
    let left = bare(&condition["left"]);
    let right = &condition["right"];
    let short = match condition["type"].as_str() {
        None => bare(condition),
        Some("expression") => bare(&condition["expression"]),
        Some("equals") => format!("{left} is {right}"),
        Some("notEquals") => format!("{left} is not {right}"),
        Some("contains") => format!("{left} contains {right}"),
        Some("regex") => format!("{left} matches {right}"),
        Some("truthy") => left,
        Some("falsy") => format!("not {left}"),
        Some(other) => other.to_owned(),
    };
    let short = short.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(short).filter(|short| !short.is_empty())
}

/// A string without its quotes: on the left of a condition it is a path, not a text.
fn bare(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
