//! Where a cluster lives, and the guardian that ends it and removes the folder.
//!
//! The guardian is a shell that reads from a pipe whose other end this process holds. Nothing is ever written there:
//! the read returns when this process lets go of its end, which it does when it dies, however it dies.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::tools::Account;

const CRASH: &str = include_str!("crash.sh");

/// What the guardian does before and after the crash. It must not be stopped by what stops the tests.
const WATCH: &str = "trap '' HUP INT TERM; read -r _\n";
const REMOVE: &str = "\nrm -rf -- \"$1\"\n";

/// A folder that vanishes, with everything that runs in it, when it is dropped or this process ends.
pub(crate) struct Folder {
    path: PathBuf,
    guardian: Child,
}

impl Folder {
    /// A new one that belongs to `owner`, or else to the user of this process.
    pub(crate) fn new(owner: Option<Account>) -> Folder {
        let name = format!("abide-pg-{}-{:016x}", std::process::id(), random());
        let path = parent(owner).join(name);
        // The guardian comes first, so that there is no moment in which a kill leaves the folder behind.
        let guardian = guardian(&path);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.unwrap_or_else(|error| panic!("cannot make the folder {}: {error}", path.display()));
        give(&path, owner);
        Folder { path, guardian }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where PostgreSQL keeps the cluster.
    pub(crate) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// What the server writes on its standard error.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Kills every process that works in the folder, and returns when all are gone.
    pub(crate) fn crash(&self) {
        let status = shell(CRASH, &self.path).status().expect("`sh` can be started");
        // The last command may fail: a server that ended by itself has left no shared memory.
        assert!(status.code().is_some(), "the shell that kills the cluster was killed itself");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.guardian.stdin.take());
        let _ = self.guardian.wait();
    }
}

/// Makes `path` belong to `owner`, if there is one.
pub(crate) fn give(path: &Path, owner: Option<Account>) {
    let Some(owner) = owner else { return };
    let given = chown(path, Some(owner.uid), Some(owner.gid));
    given.unwrap_or_else(|error| panic!("cannot hand {} to PostgreSQL's account: {error}", path.display()));
}

/// A number that no other process is likely to draw. The standard library seeds its hash tables at random.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

fn guardian(path: &Path) -> Child {
    let mut command = shell(&format!("{WATCH}{CRASH}{REMOVE}"), path);
    // A group of its own, because Ctrl-C and impatient test runners end whole groups.
    command.stdin(Stdio::piped()).process_group(0).spawn().expect("`sh` can be started")
}

fn shell(script: &str, path: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "abide-pgtest"]).arg(path).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The first place for temporary files that the owner of the folder can reach.
fn parent(owner: Option<Account>) -> PathBuf {
    let places = [std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/var/tmp")];
    // PostgreSQL's processes are found by where they work, and the kernel tells that without links.
    let mut real = places.iter().filter_map(|place| place.canonicalize().ok());
    let found = real.find(|place| owner.is_none() || place.ancestors().all(open_to_all));
    found.unwrap_or_else(|| {
        panic!(
            "PostgreSQL does not serve as root, and its account can reach neither {}, /tmp nor /var/tmp: set TMPDIR \
             to a directory that every user may enter",
            std::env::temp_dir().display()
        )
    })
}

fn open_to_all(directory: &Path) -> bool {
    directory.metadata().is_ok_and(|metadata| metadata.mode() & 0o001 != 0)
}
