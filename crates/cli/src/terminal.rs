//! The terminal, where there is one: its size, its colours, and reading without showing.

use std::io::{IsTerminal, Write};

use anyhow::Context;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

/// The columns that are written where there is no terminal to ask.
const COLUMNS_USUAL: usize = 100;

/// How standard output is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// The columns of a line.
    pub(crate) columns: usize,
    /// Whether colours are welcome.
    pub(crate) colours: bool,
}

impl Look {
    /// How this standard output wants it.
    pub(crate) fn of_stdout() -> Self {
        let size = tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
        let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let columns = size.filter(|columns| *columns > 0).or(asked).unwrap_or(COLUMNS_USUAL);
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { columns, colours: is_terminal() && !plain }
    }
}

/// Whether somebody reads standard output on a terminal.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// The lines that fit on the terminal at once.
pub(crate) fn rows() -> usize {
    let size = tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_row));
    size.filter(|rows| *rows > 0).unwrap_or(24)
}

/// Asks a question that is answered by yes or no.
pub(crate) fn confirm(question: &str) -> anyhow::Result<bool> {
    prompt(&format!("{question} [y/N] "))?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Writes a question, and stays on its line.
pub(crate) fn prompt(question: &str) -> std::io::Result<()> {
    write!(std::io::stderr(), "{question}")
}

/// Asks for a line on the terminal that standard input is, and does not show what is typed. It is shown again
/// afterwards, whatever happens meanwhile.
pub(crate) async fn ask_hidden(question: &str, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut quit = signal(SignalKind::quit())?;
    let _hidden = Hidden::begin().context("the terminal can't be kept from showing what is typed")?;
    write!(std::io::stderr(), "{question}")?;
    let line = read_line(bytes_max);
    // The thread that reads may outlive this; the process does not wait for it.
    let line = tokio::select! {
        line = line => line,
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
        _ = hangup.recv() => None,
        _ = quit.recv() => None,
    };
    // The newline that was typed was not shown either.
    let _ = writeln!(std::io::stderr());
    line.context("interrupted, nothing was changed")?.context("the terminal can't be read")
}

/// A line from standard input, without its newline, read on a thread of its own.
async fn read_line(bytes_max: u64) -> Option<std::io::Result<Vec<u8>>> {
    let (told, line) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // Nobody listens any more if a signal came first.
        let _ = told.send(line_of(std::io::stdin().lock(), bytes_max));
    });
    line.await.ok()
}

fn line_of(input: impl std::io::BufRead, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    std::io::BufRead::read_until(&mut input.take(bytes_max), b'\n', &mut line)?;
    line.pop_if(|last| *last == b'\n');
    Ok(line)
}

/// A terminal that does not show what is typed, as long as this lives.
struct Hidden(Termios);

impl Hidden {
    fn begin() -> std::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // A terminal that is gone needs no setting back.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_its_newline_or_at_its_limit() {
        assert_eq!(line_of(&b"abc\ndef"[..], 100).unwrap(), b"abc");
        assert_eq!(line_of(&b"abc"[..], 100).unwrap(), b"abc");
        assert_eq!(line_of(&b"abc\n"[..], 2).unwrap(), b"ab");
        assert_eq!(line_of(&b"\n"[..], 2).unwrap(), b"");
    }
}
