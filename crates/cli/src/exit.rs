//! Exit codes, and how an error is told.

use std::fmt;
use std::process::ExitCode;

use crate::output;

/// What kind of failure it was, for scripts. Most wrong usage is found by the argument parser, which exits with 2 too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The request was refused, or the run that was waited for did not complete.
    Refused = 1,
    /// A flag or a variable that can't be right.
    Usage = 2,
    /// The server can't be reached.
    Unreachable = 3,
    /// There is no such run, workflow or key.
    NotFound = 4,
    /// Data is damaged, or `verify` found something.
    Damaged = 5,
}

/// An error that knows its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// With something more to say.
    pub(crate) fn with(mut self, more: &str) -> Self {
        self.message += more;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Tells an error on standard error and gives its exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    output::say(&format!("error: {error:#}"));
    let exit = match error.downcast_ref::<Failure>() {
        Some(failure) => failure.exit,
        None if is_damage(error) => Exit::Damaged,
        None => Exit::Refused,
    };
    ExitCode::from(exit as u8)
}

/// The store met data that is damaged or can't be opened, whether it was asked directly or through the engine.
fn is_damage(error: &anyhow::Error) -> bool {
    let store = match error.downcast_ref::<abide_engine::Error>() {
        Some(abide_engine::Error::Store(store)) => Some(store),
        _ => error.downcast_ref::<abide_store::Error>(),
    };
    matches!(store, Some(abide_store::Error::Damaged { .. } | abide_store::Error::Sealed(_)))
}

/// `abide run list | head` is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
