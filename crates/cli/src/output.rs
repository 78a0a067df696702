//! Standard output: tables for people, JSON for pipes.

use std::io::Write;

use clap::CommandFactory;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

use crate::draw::words::{escaped, legible};
use crate::terminal;

/// Writes a line to standard output.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(())
}

/// Writes a page, with its last newline if it lacks one.
pub(crate) fn page(text: &str) -> anyhow::Result<()> {
    line(text.strip_suffix('\n').unwrap_or(text))
}

/// Writes JSON to standard output: as it is to a pipe, and without what would command a terminal to a terminal.
pub(crate) fn json(text: &str) -> anyhow::Result<()> {
    if terminal::is_terminal() { page(&escaped(text)) } else { page(text) }
}

/// A value as a cell of a table: text without quotes, safe for a terminal, nothing for `null`.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => legible(text),
        other => legible(&other.to_string()),
    }
}

/// Writes a line of talk to standard error. If nobody listens there, the work goes on all the same.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// A table in the house style.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    table
        .to_string()
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect::<String>()
        .trim_end()
        .to_owned()
}

/// Prints a completion script.
pub(crate) fn completions(shell: clap_complete::Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::args::Args::command(), "abide", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(())
}
