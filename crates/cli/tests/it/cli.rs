//! The command line, as people and scripts see it: what it prints, where, and how it exits.

mod agents;
mod backup;
mod bench;
mod bundle;
mod compact;
mod exit;
mod feedback;
mod graphs;
mod groups;
mod hands;
mod help;
mod inbox;
mod keyring;
mod keys;
mod ladder;
mod notify;
mod people;
mod pipes;
mod purge;
mod resume;
mod runs;
mod secrets;
mod serve;
mod terminal;
mod turns;
mod webhooks;
mod workflows;

use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::support::{PATIENCE, Server, Site, abide, chain, node, workflow};

/// A site with a workflow that greets and waits, one that is done at once, and one that fails.
fn site() -> Site {
    let site = Site::new();
    let inputs = json!({ "name": { "type": "variable", "variableName": "name" } });
    let greet = node("greet", "core.identity", json!({}), inputs, json!({}));
    let wait = node("wait", "core.delay", json!({ "ms": 1000 }), json!({}), json!({}));
    let variables = json!([{ "name": "name", "type": "string", "defaultValue": "world" }]);
    site.workflow(&workflow("hello", &[greet, wait], &[("greet", "wait")], variables)).workflow(&chain(
        "quick",
        "core.noop",
        1,
        &json!({}),
    ));
    let fail = node("fail", "core.fail", json!({ "message": "no luck" }), json!({}), json!({}));
    let after = node("after", "core.noop", json!({}), json!({}), json!({}));
    site.workflow(&workflow("sad", &[fail, after], &[("fail", "after")], json!([])));
    site
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// The exit code, and both streams for a message.
fn code(output: &Output) -> i32 {
    let code = output.status.code();
    code.unwrap_or_else(|| panic!("ended by a signal: {output:?}"))
}

/// What a command printed, for a snapshot: both streams and the exit code, without what differs each time.
fn told(output: &Output) -> String {
    let mut told = format!("exit {}\n", code(output));
    for (name, text) in [("stdout", stdout(output)), ("stderr", stderr(output))] {
        if !text.is_empty() {
            told += &format!("--- {name}\n{text}");
        }
    }
    redacted(&told).replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

/// Text with the same width and all ids, times and ports made alike. The first id that is met is 1, and so on.
fn redacted(text: &str) -> String {
    let (mut rest, mut out, mut ids) = (text, String::new(), Vec::new());
    while let Some(first) = rest.chars().next() {
        let taken = if let Some(id) = shaped(rest, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") {
            out += &format!("00000000-0000-0000-0000-{:012}", number(&mut ids, id));
            id.len()
        } else if let Some(span) = shaped(rest, &format!("00-{}-{}-dd", "x".repeat(32), "x".repeat(16))) {
            out += &format!("00-{:032}-{:016}-00", number(&mut ids, &span[3..35]), 0);
            span.len()
        } else if let Some(id) = rest.strip_prefix("int-").and_then(|rest| shaped(rest, &"x".repeat(36))) {
            out += &format!("int-{:036}", number(&mut ids, id));
            "int-".len() + id.len()
        } else if let Some(id) = shaped(rest, &"x".repeat(32)) {
            out += &format!("{:032}", number(&mut ids, id));
            id.len()
        } else if let Some(at) = shaped(rest, "dddd-dd-ddTdd:dd:dd.dddZ") {
            out += "2000-01-01T00:00:00.000Z";
            at.len()
        } else if let Some(port) = rest.strip_prefix("127.0.0.1:") {
            out += "127.0.0.1:PORT";
            "127.0.0.1:".len() + port.find(|c: char| !c.is_ascii_digit()).unwrap_or(port.len())
        } else if let (false, Some(taken)) = (out.ends_with(char::is_alphanumeric), duration(rest)) {
            // A column of durations is as wide as the longest of them.
            out += "TIME";
            let rest = &rest[taken..];
            taken + (rest.len() - rest.trim_start_matches(' ').len()).saturating_sub(2)
        } else {
            out.push(first);
            first.len_utf8()
        };
        rest = &rest[taken..];
    }
    out
}

/// How long the duration is that `text` begins with, as the tree of a run has it.
fn duration(text: &str) -> Option<usize> {
    let number = |text: &str| text.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0);
    let unit = |text: &str, units: &[&str]| {
        let word = text.strip_prefix(' ')?.split(|c: char| !c.is_ascii_alphabetic()).next()?;
        units.contains(&word).then_some(word.len() + 1)
    };
    let first = number(text)?;
    let end = first + unit(&text[first..], &["ms", "s", "min", "h", "d"])?;
    let second = text[end..].strip_prefix(' ').and_then(|more| Some((more, number(more)?)));
    let second = second.and_then(|(more, at)| Some(1 + at + unit(&more[at..], &["s", "min", "h"])?));
    Some(end + second.unwrap_or(0))
}

/// The start of `text`, if it has this shape: `x` is a hexadecimal digit, `d` a decimal one.
fn shaped<'a>(text: &'a str, shape: &str) -> Option<&'a str> {
    let start = text.get(..shape.len())?;
    let fits = start.bytes().zip(shape.bytes()).all(|(byte, shape)| match shape {
        b'x' => byte.is_ascii_hexdigit(),
        b'd' => byte.is_ascii_digit(),
        _ => byte == shape,
    });
    fits.then_some(start)
}

fn number(ids: &mut Vec<String>, id: &str) -> usize {
    let id = id.replace('-', "");
    let known = ids.iter().position(|known| *known == id);
    known.unwrap_or_else(|| {
        ids.push(id);
        ids.len() - 1
    }) + 1
}

#[test]
fn durations_are_made_alike() {
    assert_eq!(
        redacted("✓ a  12 ms   {}\n◔ b  3 min 5 s  x (in 1.0 s)"),
        "✓ a  TIME  {}\n◔ b  TIME  x (in TIME)"
    );
    assert_eq!(redacted("n1 s 12 months, 1.5"), "n1 s 12 months, 1.5");
}
