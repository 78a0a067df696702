//! Places where a test may kill the process, to show that nothing is lost there.
//!
//! Armed only by `abide dev`; a disarmed failpoint costs one comparison.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// A stretch of the work in which a process may die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Something was decided and is not durable.
    DecideCommit,
    /// Something is durable and nobody has heard.
    CommitAcknowledge,
    /// A task was performed or a timer came due, and nothing is recorded of it.
    EffectReport,
}

impl Window {
    /// Every window with its name.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::DecideCommit, "decide-commit"),
        (Self::CommitAcknowledge, "commit-acknowledge"),
        (Self::EffectReport, "effect-report"),
    ];
}

/// Kills the process the n-th time it passes a window.
#[derive(Debug)]
pub struct Failpoints {
    window: Window,
    left: AtomicU64,
}

impl Failpoints {
    /// Passes the window; may not return.
    pub fn pass(&self, window: Window) {
        if window == self.window && self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            // SIGKILL, as the crash of a machine: no destructor, no flush.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }
}

impl FromStr for Failpoints {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('=').and_then(|(name, count)| {
            let window = Window::ALL.iter().find(|(_, known)| *known == name)?.0;
            Some(Self { window, left: AtomicU64::new(count.parse().ok().filter(|count| *count > 0)?) })
        });
        parsed.ok_or_else(|| format!("'{text}' is no failpoint; one looks like decide-commit=3"))
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(window, _)| window == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}
