//! The runners of the SDKs: programs that play scenarios. `sdk/scenarios/README.md` says how they are called.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::home::{python, sdk_home};
use crate::support::repository;

/// An SDK's runner.
#[derive(Clone, Copy)]
pub(crate) struct Runner {
    /// The program, up to what every runner is given.
    pub(crate) program: fn() -> Command,
}

/// Python, in async functions.
pub(crate) const PYTHON: Runner = Runner { program: python_runner };
/// Python, in functions that are not async.
pub(crate) const PYTHON_SYNC: Runner = Runner {
    program: || {
        let mut runner = python_runner();
        runner.arg("--sync");
        runner
    },
};

fn python_runner() -> Command {
    let mut runner = python(sdk_home());
    runner.arg(repository().join("sdk/python/tests/scenario_worker.py"));
    runner
}

/// A worker that plays a scenario.
pub(crate) struct Worker {
    child: Child,
}

/// How a worker is started.
pub(crate) struct Start<'a> {
    pub(crate) scenario: &'a Path,
    pub(crate) folder: &'a Path,
    pub(crate) capacity: usize,
    /// Its code is the one after the change.
    pub(crate) changed: bool,
}

impl Worker {
    pub(crate) fn start(runner: Runner, url: &str, key: &str, start: &Start<'_>) -> Self {
        let mut command = (runner.program)();
        command.arg(start.scenario).arg(start.folder).args(["--capacity", &start.capacity.to_string()]);
        if start.changed {
            command.arg("--changed");
        }
        let log = std::fs::File::options().create(true).append(true).open(start.folder.join("worker.log"));
        let log = log.unwrap();
        let child = command
            .env("ABIDE_URL", url)
            .env("ABIDE_API_KEY", key)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child }
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Fails if it has ended by itself.
    pub(crate) fn demand_alive(&mut self) {
        assert!(self.child.try_wait().unwrap().is_none(), "the worker ended by itself");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A test that fails must not leave its worker behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
