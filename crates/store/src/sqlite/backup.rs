//! Copies of a data directory: made beside a server that goes on, checked, and put back.
//!
//! The copy is read in one transaction. In SQLite's log mode a reader holds up nobody: the writer appends behind what
//! the reader sees, and the log can't be cut until the reader is done, so it grows by what is written meanwhile. A copy
//! is one file without a log.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::open::{BUSY_PATIENCE, FILE_NAME, check_file, damaged, explain, fold_at_close, io, lock};
use super::{Sqlite, migrate};
use crate::{Error, Sealing};

/// Pages that are copied at once, between two looks at how far it is.
const COPY_PAGES: i32 = 2048;

/// How long a copy waits when the file is locked for a moment, as by a server that starts.
const LOCKED_REST: Duration = Duration::from_millis(50);

/// How often it waits so in a row.
const LOCKED_MAX: usize = 200;

/// What a backup says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFacts {
    /// When it was made.
    pub made_at: i64,
    /// The version of the abide that made it.
    pub version: String,
    /// How many runs are in it.
    pub runs: u64,
    /// How many events they have.
    pub events: u64,
}

/// A data directory that nobody else can use for as long as this is held.
pub struct Held {
    dir: PathBuf,
    _lock: File,
}

impl Sqlite {
    /// Copies a data directory as of now into a file that is there and empty, beside a server that may be running and
    /// going on. `progress` hears how many pages of how many are copied.
    pub fn back_up(
        dir: &Path,
        to: &Path,
        made: (i64, &str),
        progress: impl FnMut(u64, u64),
    ) -> Result<BackupFacts, Error> {
        let from = dir.join(FILE_NAME);
        if !from.exists() {
            let dir = dir.display();
            let message = format!("{dir} holds no Abide data: there is no {FILE_NAME} in it; check --data");
            return Err(Error::Refused(message));
        }
        check_file(&from)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let source = Connection::open_with_flags(&from, flags).map_err(|error| explain(&from, error))?;
        let pin = || {
            // Nothing is changed where it is copied from, not even by whoever leaves last.
            fold_at_close(&source, false)?;
            source.pragma_update(None, "query_only", true)?;
            source.busy_timeout(BUSY_PATIENCE)?;
            // From here on the copy sees one moment, however long it takes.
            source.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")
        };
        pin().map_err(|error| explain(&from, error))?;
        if migrate::check_before(&source, &from)? < migrate::MIGRATIONS.len() {
            return Err(Error::Refused(format!(
                "{} was written by an older abide; back it up with that one, or start this version's server on it once",
                from.display()
            )));
        }
        let mut copy = Connection::open_with_flags(to, flags).map_err(|error| explain(to, error))?;
        copy_pages(&source, &mut copy, progress).map_err(|error| explain(&from, error))?;
        finish(&copy, made).map_err(|error| explain(to, error))
    }

    /// Opens a backup to look at it.
    pub fn open_backup(file: &Path, sealing: Sealing) -> Result<Self, Error> {
        Self::open_file(file.to_owned(), sealing)
    }

    /// Has SQLite check every page of a file.
    pub fn check_pages(file: &Path) -> Result<(), Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let checked = Connection::open_with_flags(file, flags)
            .and_then(|copy| copy.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0)));
        match checked {
            Ok(found) if found == "ok" => Ok(()),
            Ok(found) => Err(damaged(file, &found)),
            Err(error) => Err(explain(file, error)),
        }
    }

    /// What a file says of itself, if it is a backup that this version can restore. Nothing is changed.
    pub fn read_backup(file: &Path) -> Result<Option<BackupFacts>, Error> {
        if !file.exists() {
            let message = format!("there is no {}; check the name of the backup", file.display());
            return Err(Error::Refused(message));
        }
        check_file(file)?;
        let mut log = file.as_os_str().to_owned();
        log.push("-wal");
        if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            let message = format!(
                "{} has a log beside it, so it is in use or was copied from a live directory, and no backup; make one with \
                 `abide backup`",
                file.display()
            );
            return Err(Error::Refused(message));
        }
        // SQLite would make a log beside a file that says it has one, and the folder may not be ours to write in.
        let uri = format!("file:{}?immutable=1", escaped(file));
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let copy = Connection::open_with_flags(uri, flags).map_err(|error| explain(file, error))?;
        let version = migrate::check_before(&copy, file)?;
        if version == 0 {
            let message = format!("{} is empty; a backup is made with `abide backup`", file.display());
            return Err(Error::Refused(message));
        }
        let has_facts = copy.table_exists(None, "backups").map_err(|error| explain(file, error))?;
        if !has_facts {
            return Ok(None);
        }
        facts(&copy).map_err(|error| explain(file, error))
    }

    /// Keeps everybody else from using a data directory, which is made if it does not exist.
    pub fn hold(dir: &Path) -> Result<Held, Error> {
        use std::os::unix::fs::DirBuilderExt;
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|error| io(dir, &error))?;
        Ok(Held { dir: dir.to_owned(), _lock: lock(dir)? })
    }
}

impl Held {
    /// Whether there is data in it already.
    pub fn has_data(&self) -> bool {
        let log = self.dir.join(format!("{FILE_NAME}-wal"));
        self.dir.join(FILE_NAME).exists() || log.exists()
    }

    /// Where a data directory can be made ready that is to take this one's place.
    pub fn staging(&self) -> PathBuf {
        self.dir.join("restoring")
    }

    /// The file of a data directory.
    pub fn file_in(dir: &Path) -> PathBuf {
        dir.join(FILE_NAME)
    }

    /// Puts the file of another directory, which nobody uses, in the place of this one's, in one step. What was here is
    /// kept beside it, under a name that ends with `kept`, which is the answer.
    ///
    /// The old log goes before the new file comes: one must never stand beside the other.
    pub fn replace(&self, from: &Path, kept: &str) -> Result<Option<PathBuf>, Error> {
        let file = self.dir.join(FILE_NAME);
        let beside = |end: &str| self.dir.join(format!("{FILE_NAME}{end}"));
        let aside = beside(&format!(".{kept}"));
        let had_data = self.has_data();
        let replace = || {
            if had_data {
                fold_log(&file);
                if_there(std::fs::rename(beside("-wal"), beside(&format!(".{kept}-wal"))))?;
                if_there(std::fs::remove_file(beside("-shm")))?;
                if_there(std::fs::hard_link(&file, &aside))?;
            }
            std::fs::rename(from.join(FILE_NAME), &file)?;
            File::open(&self.dir)?.sync_all()
        };
        replace().map_err(|error| io(&file, &error))?;
        Ok(had_data.then_some(aside))
    }
}

/// What is not there need not be moved.
fn if_there(done: std::io::Result<()>) -> std::io::Result<()> {
    done.or_else(|error| if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Folds what the log holds into a file that is about to be put aside. One that is damaged is put aside with its log.
fn fold_log(file: &Path) {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let folded = Connection::open_with_flags(file, flags)
        .and_then(|old| old.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    if let Err(error) = folded {
        tracing::debug!(%error, "the log stays beside the file that is put aside");
    }
}

fn copy_pages(
    source: &Connection,
    copy: &mut Connection,
    mut progress: impl FnMut(u64, u64),
) -> rusqlite::Result<()> {
    let backup = Backup::new(source, copy)?;
    let mut locked = 0;
    loop {
        let step = backup.step(COPY_PAGES)?;
        let told = backup.progress();
        let pages = |count: i32| u64::try_from(count).unwrap_or(0);
        progress(pages(told.pagecount) - pages(told.remaining), pages(told.pagecount));
        match step {
            StepResult::Done => return Ok(()),
            StepResult::More => locked = 0,
            _ if locked == LOCKED_MAX => {
                let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
                return Err(rusqlite::Error::SqliteFailure(busy, None));
            }
            _ => {
                locked += 1;
                std::thread::sleep(LOCKED_REST);
            }
        }
    }
}

/// Makes a copy one file without a log, and has it say what it is.
fn finish(copy: &Connection, (made_at, version): (i64, &str)) -> rusqlite::Result<BackupFacts> {
    copy.pragma_update(None, "journal_mode", "DELETE")?;
    copy.execute("DELETE FROM backups", [])?;
    copy.execute(
        "INSERT INTO backups (made_at, version, runs, events) \
         SELECT $1, $2, (SELECT count(*) FROM aggregates), (SELECT count(*) FROM events)",
        (made_at, version),
    )?;
    facts(copy)?.ok_or(rusqlite::Error::QueryReturnedNoRows)
}

fn facts(copy: &Connection) -> rusqlite::Result<Option<BackupFacts>> {
    copy.query_row("SELECT made_at, version, runs, events FROM backups", [], |row| {
        Ok(BackupFacts { made_at: row.get(0)?, version: row.get(1)?, runs: row.get(2)?, events: row.get(3)? })
    })
    .optional()
}

/// A path within a URI: what has a meaning there is written as a number.
fn escaped(file: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.');
    let path = file.as_os_str().as_bytes().iter();
    path.map(|&byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
