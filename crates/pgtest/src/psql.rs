//! SQL through the `psql` program, for administration and for looking at what another client has left.

use std::io::Write;
use std::process::Stdio;

use crate::tools::Tools;

/// Runs `sql` at the database of `url` and returns the rows as `psql` prints them: a line each, fields apart by `|`.
///
/// Every statement is a transaction of its own, and the first that fails ends it.
///
/// # Errors
///
/// What `psql` says, when it cannot connect or a statement fails.
///
/// # Panics
///
/// When there is no PostgreSQL on this machine.
pub fn psql(url: &str, sql: &str) -> Result<String, String> {
    let mut command = Tools::find().client("psql");
    command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
    command.args(["--no-password", "--file=-", "--dbname", url]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("`psql` can be started: `scripts/ensure` installs it");
    let mut input = child.stdin.take().expect("its input is a pipe");
    // In a thread, because psql prints rows before it has read everything. One that could not connect reads nothing
    // and says why, which is what the caller wants to know.
    let sql = sql.to_owned();
    let writer = std::thread::spawn(move || input.write_all(sql.as_bytes()));
    let output = child.wait_with_output().expect("its output is a pipe");
    let _ = writer.join();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{}: {}", output.status, text(&output.stderr)))
    }
}

/// An SQL name in quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// An SQL text in quotes.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}
