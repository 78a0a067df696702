//! Random expressions and conditions: most can be evaluated, some can't, some read what is never shown.

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::plan::node_id;

/// Where an expression stands.
pub(crate) struct Place {
    /// It may read nothing that others change meanwhile.
    pub(crate) calm: bool,
    /// The nodes that it may read.
    pub(crate) readable: Vec<usize>,
}

/// Something that gives a value, in a port or in a node's config.
pub(crate) fn value(dice: &mut Dice, place: &Place, inputs: &[String]) -> String {
    let fixed = ["1 + 2", "\"text\"", "{\"a\": [1, 2]}"];
    let same = [
        "variables.secret",
        "\"say \" + variables.secret",
        "{\"inside\": {\"it\": variables.secret}}",
        "size(variables.secret)",
        "variables.secret == \"\" ? 1 : 2",
    ];
    let moving = [
        "\"count\" in variables ? variables.count + 1 : 0",
        "variables.text + \"!\"",
        "channels.last",
        "\"free\" in variables ? variables.free : 0",
        "variables",
    ];
    let risky = [
        "variables.secret + 1",
        "int(variables.secret)",
        "variables.stray",
        "1 / 0",
        "channels.hush",
        "channels.log",
        "variables.free",
        "size(channels.loose)",
    ];
    if dice.chance(2) {
        let known = if place.calm { &risky[..4] } else { &risky[..] };
        return (*dice.pick(known)).to_owned();
    }
    match dice.below(6) {
        1 if !place.readable.is_empty() => of_node(dice, place),
        2 => (*dice.pick(&same)).to_owned(),
        3 | 4 if !place.calm => (*dice.pick(&moving)).to_owned(),
        5 if !inputs.is_empty() => of_inputs(dice, inputs),
        _ => (*dice.pick(&fixed)).to_owned(),
    }
}

fn of_node(dice: &mut Dice, place: &Place) -> String {
    let node = node_id(*dice.pick(&place.readable));
    match dice.below(12) {
        0 | 1 => format!("nodes.{node}.status"),
        2 => format!("nodes.{node}.outputs.x"),
        3 => format!("nodes.{node}.error"),
        4 => format!("nodes.{node}"),
        _ => format!("nodes.{node}.outputs == null ? 0 : nodes.{node}.outputs"),
    }
}

/// Something that reads nothing but a node's inputs.
pub(crate) fn of_inputs(dice: &mut Dice, inputs: &[String]) -> String {
    if inputs.is_empty() {
        return (*dice.pick(&["7", "\"alone\"", "inputs"])).to_owned();
    }
    let name = dice.pick(inputs).clone();
    match dice.below(30) {
        0 => format!("inputs.{name}"),
        1 => format!("\"{name} is \" + inputs.{name}"),
        2 => format!("inputs.{name} + 1"),
        3..=11 => format!("has(inputs.{name}) ? [inputs.{name}] : 0"),
        12..=20 => format!("has(inputs.{name}) ? inputs.{name} : null"),
        _ => "[inputs, inputs]".to_owned(),
    }
}

/// A test that reads nothing but a node's inputs.
pub(crate) fn test_of_inputs(dice: &mut Dice, inputs: &[String]) -> String {
    match inputs.first() {
        Some(name) if dice.chance(60) => format!("has(inputs.{name})"),
        _ => (*dice.pick(&["false", "true", "inputs == {}"])).to_owned(),
    }
}

/// A test in the config of a node.
pub(crate) fn test(dice: &mut Dice, place: &Place) -> String {
    let same = ["true", "false", "variables.secret == \"x\"", "size(variables.secret) > 1"];
    let moving = ["variables.text == \"a text\"", "channels.last == \"nothing\""];
    if dice.chance(2) {
        return (*dice.pick(&["variables.secret > 1", "1", "variables.stray"])).to_owned();
    }
    match dice.below(3) {
        1 if !place.calm => (*dice.pick(&moving)).to_owned(),
        2 if !place.readable.is_empty() => {
            format!("nodes.{}.status == \"completed\"", node_id(*dice.pick(&place.readable)))
        }
        _ => (*dice.pick(&same)).to_owned(),
    }
}

/// The condition of an edge that leads on.
pub(crate) fn condition(dice: &mut Dice, place: &Place) -> Value {
    let same = [
        "true",
        "status == \"completed\"",
        "status == \"failed\"",
        "status == \"failed\" ? error.code == \"planned\" : true",
        "status == \"failed\" || output != null",
        "false",
        "variables.secret != \"\"",
    ];
    let moving = ["!(\"free\" in variables)", "channels.last != \"nothing\"", "variables.text != \"\""];
    let risky =
        ["output.x > 1", "variables.secret > 7", "output.x == variables.secret", "error.code == \"\""];
    let expression = |text: &&str| json!({"type": "expression", "expression": text});
    if dice.chance(2) {
        return expression(dice.pick(&risky));
    }
    match dice.below(12) {
        0 | 1 => json!({"type": "truthy", "left": "status"}),
        2 => json!({"type": "equals", "left": "status", "right": "completed"}),
        3 => json!({"type": "notEquals", "left": "output.x", "right": 3}),
        4 => json!({"type": "contains", "left": "output.x", "right": "a"}),
        5 => json!({"type": "regex", "left": "variables.secret", "right": "^it"}),
        6 => json!({"type": "falsy", "left": "error.code"}),
        7 if !place.calm => expression(dice.pick(&moving)),
        _ => expression(dice.pick(&same)),
    }
}

/// The condition of an edge that closes a loop: most stop by themselves, some only at the limit.
pub(crate) fn again(dice: &mut Dice, source: usize, long: bool) -> Value {
    let node = node_id(source);
    let expression = match dice.below(14) {
        _ if long => format!("nodes.{node}.execution < 600"),
        0..=3 => format!("nodes.{node}.execution % 2 != 0"),
        4..=6 => format!("nodes.{node}.execution % 3 != 0"),
        7 | 8 => format!("nodes.{node}.execution < 4"),
        9 => "status == \"failed\"".to_owned(),
        10 => "false".to_owned(),
        11 | 12 => "output != null && has(output.x)".to_owned(),
        _ => "true".to_owned(),
    };
    json!({"type": "expression", "expression": expression})
}
