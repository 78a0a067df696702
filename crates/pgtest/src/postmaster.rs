//! The server's process: its start, its readiness and its end.

use std::fs::{self, OpenOptions};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::folder::{Folder, random};
use crate::tools::Tools;
use crate::wait_for;

/// Ports below those that systems give to clients and to servers which ask for any: a cluster that is down must find
/// its port free when it comes back.
const PORTS: std::ops::Range<u16> = 12_000..32_000;

/// How many ports are tried, when others take them between a look and the start.
const ATTEMPTS: usize = 20;

/// A running `postgres`.
pub(crate) struct Postmaster {
    child: Child,
}

/// Why a server did not start.
enum Failure {
    /// Somebody else has the port.
    PortTaken,
    /// Anything else. The log says what.
    Other(String),
}

impl Postmaster {
    /// Starts the server of `folder` at some free port.
    #[track_caller]
    pub(crate) fn start_anywhere(folder: &Folder) -> (Postmaster, u16) {
        for _ in 0..ATTEMPTS {
            let port = free_port();
            match Self::launch(folder, port) {
                Ok(postmaster) => return (postmaster, port),
                Err(Failure::PortTaken) => {}
                Err(Failure::Other(log)) => panic!("PostgreSQL did not start. Its log:\n{log}"),
            }
        }
        panic!("PostgreSQL found {ATTEMPTS} ports taken that were free a moment before")
    }

    /// Starts the server of `folder` at `port`, where it was before.
    #[track_caller]
    pub(crate) fn start_at(folder: &Folder, port: u16) -> Postmaster {
        wait_for(&format!("port {port} is free again"), || match Self::launch(folder, port) {
            Ok(postmaster) => Some(postmaster),
            Err(Failure::PortTaken) => None,
            Err(Failure::Other(log)) => panic!("PostgreSQL did not start again. Its log:\n{log}"),
        })
    }

    /// Whether the process is still there.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks the server to stop: it ends all sessions, writes everything down and is gone.
    #[track_caller]
    pub(crate) fn stop(mut self, folder: &Folder) {
        // SIGINT is PostgreSQL's "fast" shutdown. The shell has `kill` built in.
        let kill = Command::new("sh").args(["-c", "kill -INT \"$0\"", &self.child.id().to_string()]).status();
        assert!(kill.is_ok_and(|status| status.success()), "PostgreSQL was gone before it was stopped");
        let what = format!("PostgreSQL has stopped; its log is {}", folder.log().display());
        wait_for(&what, || self.child.try_wait().expect("the server is a child of this process"));
    }

    fn launch(folder: &Folder, port: u16) -> Result<Postmaster, Failure> {
        let log =
            OpenOptions::new().create(true).append(true).open(folder.log()).expect("the folder is ours");
        let told_before = log.metadata().map_or(0, |metadata| metadata.len());
        let mut command = Tools::find().server("postgres", folder.path());
        command.arg("-D").arg(folder.data()).arg("-p").arg(port.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // Ctrl-C ends the tests, and the guardian ends the server: it needs no signal of its own.
        let child = command.process_group(0).spawn().expect("`postgres` can be started");
        let mut postmaster = Postmaster { child };
        let running =
            wait_for(&format!("PostgreSQL is ready; its log is {}", folder.log().display()), || {
                let running = postmaster.is_running();
                (!running || postmaster.is_ready(folder)).then_some(running)
            });
        if running { Ok(postmaster) } else { Err(failure(&folder.log(), told_before)) }
    }

    /// The server writes its pid into the first line of a file, and how it is into the eighth.
    fn is_ready(&self, folder: &Folder) -> bool {
        let Ok(text) = fs::read_to_string(folder.data().join("postmaster.pid")) else { return false };
        let mut lines = text.lines();
        // A crash leaves the file of the server before.
        lines.next() == Some(&self.child.id().to_string())
            && lines.nth(6).is_some_and(|status| ["ready", "standby"].contains(&status.trim()))
    }
}

impl Drop for Postmaster {
    /// Usually the server is gone by now, and this only fetches the status that the kernel keeps for its parent.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failure(log: &Path, told_before: u64) -> Failure {
    let told = fs::read(log).unwrap_or_default();
    let start = usize::try_from(told_before).unwrap_or(0).min(told.len());
    let told = String::from_utf8_lossy(&told[start..]).into_owned();
    if told.contains("could not bind IPv4 address") { Failure::PortTaken } else { Failure::Other(told) }
}

/// A port at which nobody listens right now.
fn free_port() -> u16 {
    let span = u64::from(PORTS.end - PORTS.start);
    wait_for("a port is free", || {
        let port = PORTS.start + u16::try_from(random() % span).expect("the range is of ports");
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok().then_some(port)
    })
}
