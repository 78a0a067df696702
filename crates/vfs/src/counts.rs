//! What went through a shim, by kind of file.
//!
//! Only calls that succeeded count. Syncs of directories are SQLite's own affair and are not seen here.

use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rusqlite::ffi;

/// What went through a shim, at one moment. Subtract an earlier one to get what lies between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Database files.
    pub main: Tally,
    /// Write-ahead logs.
    pub wal: Tally,
    /// Rollback journals, temporary files and the rest.
    pub other: Tally,
}

/// What went through to one kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Successful `xSync` calls, each of them one `fsync` or `fdatasync`.
    pub syncs: u64,
    /// Successful `xWrite` calls.
    pub writes: u64,
    /// The bytes of those writes.
    pub bytes_written: u64,
}

impl Counts {
    /// Syncs of all files.
    pub fn syncs(&self) -> u64 {
        self.main.syncs + self.wal.syncs + self.other.syncs
    }

    /// Writes to all files.
    pub fn writes(&self) -> u64 {
        self.main.writes + self.wal.writes + self.other.writes
    }

    /// Bytes written to all files.
    pub fn bytes_written(&self) -> u64 {
        self.main.bytes_written + self.wal.bytes_written + self.other.bytes_written
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            main: self.main - earlier.main,
            wal: self.wal - earlier.wal,
            other: self.other - earlier.other,
        }
    }
}

impl Sub for Tally {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            syncs: self.syncs - earlier.syncs,
            writes: self.writes - earlier.writes,
            bytes_written: self.bytes_written - earlier.bytes_written,
        }
    }
}

/// What SQLite said a file is for when it opened it.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Main,
    Wal,
    Other,
}

impl Kind {
    pub(crate) fn of(open_flags: i32) -> Self {
        if open_flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
            Self::Main
        } else if open_flags & ffi::SQLITE_OPEN_WAL != 0 {
            Self::Wal
        } else {
            Self::Other
        }
    }
}

/// The running counts. Nothing is ordered by them, so relaxed atomics do.
#[derive(Default)]
pub(crate) struct Counters {
    main: Counter,
    wal: Counter,
    other: Counter,
}

#[derive(Default)]
pub(crate) struct Counter {
    syncs: AtomicU64,
    writes: AtomicU64,
    bytes_written: AtomicU64,
}

impl Counters {
    pub(crate) fn of(&self, kind: Kind) -> &Counter {
        match kind {
            Kind::Main => &self.main,
            Kind::Wal => &self.wal,
            Kind::Other => &self.other,
        }
    }

    pub(crate) fn read(&self) -> Counts {
        Counts { main: self.main.read(), wal: self.wal.read(), other: self.other.read() }
    }
}

impl Counter {
    pub(crate) fn synced(&self) {
        self.syncs.fetch_add(1, Relaxed);
    }

    pub(crate) fn wrote(&self, bytes: u64) {
        self.writes.fetch_add(1, Relaxed);
        self.bytes_written.fetch_add(bytes, Relaxed);
    }

    fn read(&self) -> Tally {
        Tally {
            syncs: self.syncs.load(Relaxed),
            writes: self.writes.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
        }
    }
}
