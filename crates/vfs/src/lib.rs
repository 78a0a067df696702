//! A shim under SQLite that counts what reaches the disk, and can lose power.
//!
//! It wraps SQLite's own "unix" VFS: every call goes through to real files. On the way it counts writes and
//! syncs, and in power-loss mode it remembers what has been written but not synced, so that
//! [`Shim::lose_power`] can leave the files as a power cut could have left them. It is for tests and
//! benches; nothing that ships depends on it.
//!
//! | noun | file | what it is |
//! |---|---|---|
//! | [`Shim`] | `lib.rs` | a registered VFS, and the handle to it |
//! | [`Counts`] | `counts.rs` | what went through it |
//! | [`Keep`] | `disk.rs` | which unsynced changes a power cut leaves, and the rollback itself; safe code |
//! | – | `vfs.rs` | the VFS table that SQLite calls |
//! | – | `file.rs` | the file table that SQLite calls |
//!
//! # How a test uses it
//!
//! 1. Open connections with [`Shim::name`] as their VFS, and work.
//! 2. Call [`Shim::lose_power`]. From then on every write, truncate, sync, delete and open through this
//!    shim fails and changes nothing.
//! 3. **Drop every connection opened through it.** SQLite shares the WAL index and the locks between all
//!    connections of a process to one file, so a connection that is opened while a dead one still lives
//!    would be shown the index from before the cut.
//! 4. Open the path again, with the default VFS or a new shim, and look at what survived.
//!
//! # What is simulated
//!
//! - A file's changes are durable once its `xSync` has returned success, and not before.
//! - A file that was created and never synced is gone after the cut. Its first sync makes its name durable
//!   too: SQLite syncs the directory there for journals and WALs, and for the database file it trusts the
//!   file system.
//! - A deletion is durable at once. A cut therefore never brings a deleted journal back.
//! - Bytes that a write doesn't cover are never damaged, which is what SQLite assumes by default
//!   (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`).
//! - The `-shm` files are removed: they are memory.
//! - Memory maps are off (`PRAGMA mmap_size` has no effect).
//!
//! Between opening a file and losing power, only this shim may write to it. In power-loss mode all
//! unsynced changes are held in memory twice, so a long test with `synchronous=OFF` needs room.
#![expect(
    unsafe_code,
    reason = "SQLite calls a VFS through C function pointers; this is the one crate that speaks to it raw"
)]

mod counts;
mod disk;
mod file;
mod vfs;

use std::fmt;
use std::path::PathBuf;

pub use counts::{Counts, Tally};
pub use disk::Keep;
use vfs::State;

/// A VFS that is registered with SQLite, for as long as the process lives.
///
/// Copies of the handle mean the same VFS. SQLite may use a VFS at any time, so its state is never freed.
#[derive(Clone, Copy)]
pub struct Shim(&'static State);

impl Shim {
    /// Registers a shim that only counts. It costs an atomic addition or two per write or sync.
    pub fn counting(name: &str) -> Result<Self, Error> {
        vfs::register(name, None).map(Self)
    }

    /// Registers a shim that counts and can lose power. It reads what each write is about to replace and
    /// runs one write or sync at a time, so its speed says nothing about SQLite's.
    pub fn power_loss(name: &str) -> Result<Self, Error> {
        vfs::register(name, Some(disk::Disk::default())).map(Self)
    }

    /// The name to open connections with.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// What has gone through the shim since it was registered.
    pub fn counts(&self) -> Counts {
        self.0.counts()
    }

    /// Cuts the power between two calls of SQLite: the shim is dead from here on, and the files are left
    /// with what was synced and what `keep` says of the rest.
    ///
    /// A second cut does nothing. If it fails, the shim is dead and the files are in no defined state.
    pub fn lose_power(&self, keep: Keep) -> Result<(), Error> {
        self.0.lose_power(keep)
    }
}

impl fmt::Debug for Shim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shim").field(&self.name()).finish()
    }
}

/// Why a shim could not be registered, or could not lose power.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name is handed to C, so it can't hold a NUL byte.
    #[error("the VFS name {0:?} holds a NUL byte")]
    BadName(String),
    /// SQLite would silently replace the VFS of that name under the connections that use it.
    #[error("a VFS named {0:?} is already registered")]
    NameTaken(String),
    /// This SQLite was built for another system.
    #[error("SQLite has no \"unix\" VFS to wrap")]
    NoUnixVfs,
    /// SQLite refused.
    #[error("SQLite refused the VFS with code {0}")]
    Refused(i32),
    /// The shim was registered with [`Shim::counting`] and remembers no changes.
    #[error("a counting shim can't lose power; register it with Shim::power_loss")]
    OnlyCounts,
    /// A file could not be put into its state after the cut.
    #[error("could not roll back {path:?}")]
    RollBack {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}
