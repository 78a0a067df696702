//! Standard output: tables for people, JSON for pipes.

use std::io::Write;

use clap::CommandFactory;
use comfy_table::{ContentArrangement, Table, presets};

/// Writes a line to standard output.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(())
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
