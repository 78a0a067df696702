//! On a terminal: colours, redrawing, questions, and values that are not shown.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Child;

use rustix::fd::OwnedFd;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::*;

/// A command on a terminal of its own, and what it has written there so far.
pub(super) struct Terminal {
    hand: File,
    /// Kept open, so that the terminal outlives the command.
    inside: File,
    child: Child,
    seen: String,
}

impl Terminal {
    pub(super) fn start(server: &Server, args: &[&str], edit: impl Fn(&mut Command)) -> Self {
        let hand: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&hand).unwrap();
        unlockpt(&hand).unwrap();
        let size = Winsize { ws_row: 30, ws_col: 90, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&hand, size).unwrap();
        let name = ptsname(&hand, Vec::new()).unwrap();
        let inside = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let mut command = abide();
        command.args(args).env("ABIDE_URL", &server.url).env("ABIDE_API_KEY", &server.key);
        edit(&mut command);
        let end = || inside.try_clone().unwrap();
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Self { hand: hand.into(), inside, child, seen: String::new() }
    }

    /// Reads until the command has written this.
    pub(super) fn await_text(&mut self, text: &str) {
        let mut bytes = [0; 4096];
        while !self.seen.contains(text) {
            let count = self.hand.read(&mut bytes).unwrap();
            self.seen += &String::from_utf8_lossy(&bytes[..count]);
        }
    }

    pub(super) fn types(&mut self, text: &str) {
        self.hand.write_all(text.as_bytes()).unwrap();
    }

    fn shows_what_is_typed(&self) -> bool {
        tcgetattr(&self.inside).unwrap().local_modes.contains(LocalModes::ECHO)
    }

    /// Waits for the end of the command: its exit code, and all that it wrote.
    pub(super) fn end(mut self) -> (i32, String) {
        let code = self.child.wait().unwrap().code().unwrap();
        // What the command wrote comes before this.
        write!(self.inside, "the end").unwrap();
        self.await_text("the end");
        (code, self.seen.replace("the end", ""))
    }
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let site = site();
    let server = site.start(&[]);
    let started = server.cli(&["run", "start", "sad"]);
    let args = ["run", "show", stdout(&started).trim()];
    let (code, seen) = Terminal::start(&server, &args, |_| {}).end();
    assert_eq!(code, 0);
    assert!(seen.contains("\x1b[31m✗\x1b[0m fail"), "{seen:?}");
    let plain = |command: &mut Command| {
        command.env("NO_COLOR", "1");
    };
    let (_, seen) = Terminal::start(&server, &args, plain).end();
    assert!(seen.contains("✗ fail") && !seen.contains('\x1b'), "{seen:?}");
    assert!(!stdout(&server.cli(&args)).contains('\x1b'));
}

#[test]
fn json_on_a_terminal_can_not_command_it() {
    let site = site();
    let server = site.start(&[]);
    let started = server.cli(&["run", "start", "quick", "--input", "name=\u{9b}2J"]);
    let args = ["run", "show", "--json", stdout(&started).trim()];
    let (_, seen) = Terminal::start(&server, &args, |_| {}).end();
    assert!(seen.contains("\\u009b2J") && !seen.contains('\u{9b}'), "{seen:?}");
    assert!(stdout(&server.cli(&args)).contains("\u{9b}2J"), "a pipe gets it as it is");
}

#[tokio::test]
async fn watching_redraws_until_the_end() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("hello", json!({})).await;
    let mut terminal = Terminal::start(&server, &["run", "show", "--watch", &run], |_| {});
    terminal.await_text("until");
    server.advance(1000).await;
    let (code, seen) = tokio::task::spawn_blocking(|| terminal.end()).await.unwrap();
    assert_eq!(code, 0);
    // The page of 8 lines is drawn over.
    let last = seen.rsplit("\x1b[8A\r\x1b[J").next().unwrap();
    assert!(last.contains("status    completed") && seen.len() > last.len(), "{seen:?}");
}

#[test]
fn an_erasure_is_asked_about() {
    let site = site();
    let server = site.start(&[]);
    let started = server.cli(&["run", "start", "quick"]);
    let args = ["run", "erase", stdout(&started).trim()];
    for (answer, expected) in [("\n", 1), ("n\n", 1), ("y\n", 0)] {
        let mut terminal = Terminal::start(&server, &args, |_| {});
        terminal.await_text("[y/N] ");
        terminal.types(answer);
        let (code, seen) = terminal.end();
        assert_eq!(code, expected, "{seen}");
        assert_eq!(seen.contains("is erased"), expected == 0, "{seen}");
    }
}

#[test]
fn a_secret_is_not_shown_while_it_is_typed() {
    let site = site();
    let server = site.start(&[]);
    let mut terminal = Terminal::start(&server, &["secrets", "set", "TOKEN"], |_| {});
    terminal.await_text("value of TOKEN");
    assert!(!terminal.shows_what_is_typed());
    terminal.types("s3cret\n");
    terminal.await_text("TOKEN is set");
    assert!(terminal.shows_what_is_typed());
    let (code, seen) = terminal.end();
    assert!(code == 0 && !seen.contains("s3cret"), "{seen}");
}

#[test]
fn an_interrupted_question_leaves_the_terminal_as_it_was() {
    let site = site();
    let server = site.start(&[]);
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let mut terminal = Terminal::start(&server, &["secrets", "set", "TOKEN"], |_| {});
        terminal.await_text("value of TOKEN");
        rustix::process::kill_process(rustix::process::Pid::from_child(&terminal.child), signal).unwrap();
        terminal.await_text("nothing was changed");
        assert!(terminal.shows_what_is_typed());
        assert_eq!(terminal.end().0, 1);
    }
}
