//! Nothing of a cluster outlives its process, even one that is killed in the middle.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use abide_pgtest::psql;

use crate::eventually;

/// The program of this crate, with a place of its own for temporary files.
struct Holder {
    child: Child,
    temporary: PathBuf,
}

impl Holder {
    fn start(name: &str) -> Holder {
        let temporary = std::env::temp_dir().join(format!("abide-pgtest-{name}-{}", std::process::id()));
        std::fs::create_dir(&temporary).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_abide-pgtest"));
        command.env("TMPDIR", &temporary).stdin(Stdio::piped()).stdout(Stdio::piped());
        Holder { child: command.spawn().unwrap(), temporary }
    }

    /// The next two lines that it prints: a URL and a folder.
    fn printed(&mut self) -> (String, PathBuf) {
        let mut lines = BufReader::new(self.child.stdout.as_mut().unwrap()).lines();
        let mut next = || lines.next().expect("the program prints two lines").unwrap();
        (next(), next().into())
    }

    fn leaves_nothing(&self) {
        eventually("the folder is removed", || entries(&self.temporary).is_empty());
        eventually("no process works there", || processes_in(&self.temporary).is_empty());
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.temporary);
    }
}

#[test]
fn a_cluster_ends_when_its_process_is_killed() {
    let mut holder = Holder::start("killed");
    let (url, folder) = holder.printed();
    assert!(folder.starts_with(&holder.temporary), "{} is not where it was told to be", folder.display());
    assert_eq!(psql(&url, "SELECT 1").unwrap(), "1");
    assert!(!processes_in(&folder).is_empty(), "the server works in its folder");
    let session = std::thread::spawn({
        let url = url.clone();
        move || psql(&url, "SELECT pg_sleep(600)")
    });
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    eventually("the session runs", || psql(&url, sleeping).unwrap() == "1");

    holder.child.kill().unwrap();
    holder.leaves_nothing();
    session.join().unwrap().expect_err("its server has ended");
    let address = url.split(['@', '/']).nth(3).unwrap();
    assert!(TcpStream::connect(address).is_err(), "somebody listens at {address}");
}

#[test]
fn a_cluster_ends_when_its_process_is_killed_while_it_is_made() {
    let mut holder = Holder::start("early");
    eventually("initdb has begun", || !processes_in(&holder.temporary).is_empty());
    holder.child.kill().unwrap();
    holder.leaves_nothing();
}

#[test]
fn a_cluster_ends_when_its_process_ends() {
    let mut holder = Holder::start("ended");
    holder.printed();
    drop(holder.child.stdin.take());
    assert!(holder.child.wait().unwrap().success());
    assert_eq!(entries(&holder.temporary), Vec::<PathBuf>::new(), "all is gone before the process is");
    holder.leaves_nothing();
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// The processes whose working directory is in `folder`.
fn processes_in(folder: &Path) -> Vec<PathBuf> {
    let works_there =
        |process: &PathBuf| process.join("cwd").read_link().is_ok_and(|at| at.starts_with(folder));
    entries(Path::new("/proc")).into_iter().filter(works_there).collect()
}
