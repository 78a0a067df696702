//! Opening a data directory: locked, checked, migrated, or refused with a way out.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::readers::Readers;
use super::{Sqlite, migrate, writer};
use crate::answers::{Counters, answer, spawn};
use crate::db::{self, Fault};
use crate::queue::Queue;
use crate::tables::deliveries::Wanted;
use crate::tables::external::KeptTypes;
use crate::tables::{admin, webhooks};
use crate::{Error, Sealing};

/// The database's name within a data directory.
pub(super) const FILE_NAME: &str = "abide.db";

/// Log pages after which the writer folds the log into the file: 16 MiB keeps a start after a kill short.
const LOG_PAGES_MAX: i64 = 4000;

/// How long a connection waits for another that holds a lock.
pub(super) const BUSY_PATIENCE: Duration = Duration::from_secs(10);

/// How often a lock is tried for, and how long in between: whoever held it may be on its way out, or may just have started
/// another program, which shares it for a moment.
const LOCK_TRIES: usize = 10;
const LOCK_REST: Duration = Duration::from_millis(20);

/// How a data directory is opened.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The data directory; made if it does not exist.
    pub dir: PathBuf,
    /// How many reads go on at once.
    pub readers: usize,
    /// What a commit waits for. Anything but `Full` is for tests that show why.
    pub synchronous: Synchronous,
    /// A registered shim under SQLite, for tests and benches.
    pub vfs: Option<String>,
    /// Called by the writer around each commit, for tests that kill the process there.
    pub on_stage: Option<StageHook>,
    /// How what is never shown is kept.
    pub sealing: Sealing,
}

/// Called by the writer as it goes.
pub type StageHook = Arc<dyn Fn(Stage) + Send + Sync>;

/// Where the writer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Everything is written, nothing is durable.
    Committing,
    /// Everything is durable, nobody has heard.
    Committed,
}

/// What a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    /// The disk has it.
    Full,
    /// The operating system has it.
    Normal,
    /// Nothing.
    Off,
}

impl SqliteOptions {
    /// The usual way to open a data directory, but for the keys under which runs are sealed.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            readers: 4,
            synchronous: Synchronous::Full,
            vfs: None,
            on_stage: None,
            sealing: Sealing::in_clear(),
        }
    }

    fn connect(&self, file: &Path, flags: OpenFlags) -> Result<Connection, Error> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = match &self.vfs {
            Some(vfs) => Connection::open_with_flags_and_vfs(file, flags, vfs.as_str()),
            None => Connection::open_with_flags(file, flags),
        };
        let connection = opened.map_err(|error| explain(file, error))?;
        // Closing would fold a log into the file, which must wait until the data is known to be ours.
        fold_at_close(&connection, log_bytes(file) == 0).map_err(|error| explain(file, error))?;
        Ok(connection)
    }
}

impl Sqlite {
    /// Opens a data directory for one server.
    pub fn open(options: &SqliteOptions) -> Result<Self, Error> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&options.dir)
            .map_err(|error| io(&options.dir, &error))?;
        let lock = lock(&options.dir)?;
        let file = options.dir.join(FILE_NAME);
        check_file(&file)?;
        let mut connection = connect_writer(options, &file)?;
        let begin = |transaction: db::Connection<'_>| {
            webhooks::begin(transaction)?;
            admin::begin_boot(transaction)
        };
        let boot = writer::in_transaction(&mut connection, begin).map_err(|error| explain(&file, error))?;
        let shared = db::Connection::Sqlite(&connection);
        let wanted = Wanted::default();
        wanted.read_all(shared).map_err(|error| explain(&file, error))?;
        let kept = KeptTypes::read(shared);
        let readers = connect_readers(options, &file)?;
        for connection in readers.iter().chain([&connection]) {
            fold_at_close(connection, true).map_err(|error| explain(&file, error))?;
        }
        let readers = Readers::new(readers, file.clone());
        Ok(Self::start(connection, (Arc::new(wanted), kept), boot, readers, lock, options))
    }

    /// The writer's connection to a data directory, with nothing around it: for a bench that wants to know what
    /// SQLite alone can do.
    pub fn bare_writer(options: &SqliteOptions) -> Result<Connection, Error> {
        drop(Self::open(options)?);
        connect_writer(options, &options.dir.join(FILE_NAME))
    }

    /// Opens a data directory to look at it as of now, beside a server that may be running and going on.
    ///
    /// The server must be another process: opening and closing the file here drops the locks that this process
    /// holds on it, as POSIX has it, and SQLite in a third process would then believe that nobody uses the log.
    pub fn open_for_reading(dir: &Path, sealing: Sealing) -> Result<Self, Error> {
        let file = dir.join(FILE_NAME);
        if !file.exists() {
            return Err(Error::Refused(format!(
                "{} holds no Abide data: there is no {FILE_NAME} in it",
                dir.display()
            )));
        }
        Self::open_file(file, sealing)
    }

    /// Opens one file to look at it as of now.
    pub(super) fn open_file(file: PathBuf, sealing: Sealing) -> Result<Self, Error> {
        let options = SqliteOptions { readers: 1, ..SqliteOptions::new(file.clone()) };
        check_file(&file)?;
        let connections = connect_readers(&options, &file)?;
        for connection in &connections {
            migrate::check(connection, &file)?;
            let pinned = connection.execute_batch("BEGIN; SELECT count(*) FROM settings");
            pinned.map_err(|error| explain(&file, error))?;
        }
        let queue = Arc::new(Queue::default());
        queue.close();
        let readers = Readers::new(connections, file.clone());
        let threads = Mutex::new(Vec::new());
        Ok(Self {
            file,
            boot: 0,
            queue,
            readers,
            counts: Arc::default(),
            threads,
            uncut: Arc::default(),
            wanted: Arc::default(),
            kept: KeptTypes::default(),
            sealing,
            _lock: None,
        })
    }

    fn start(
        connection: Connection,
        (wanted, kept): (Arc<Wanted>, KeptTypes),
        boot: u64,
        readers: Arc<Readers>,
        lock: File,
        options: &SqliteOptions,
    ) -> Self {
        let file = options.dir.join(FILE_NAME);
        let queue = Arc::new(Queue::default());
        let counts: Arc<Counters> = Arc::default();
        let (answers, waiting) = mpsc::channel();
        let writer = writer::Writer {
            connection,
            queue: queue.clone(),
            answers,
            counters: counts.clone(),
            wanted: wanted.clone(),
            file: file.clone(),
            sealing: options.sealing.clone(),
            on_stage: options.on_stage.clone(),
            made: Vec::new(),
        };
        let threads = vec![
            spawn("store-writer", move || writer.run()),
            spawn("store-answers", move || answer(&waiting)),
        ];
        Self {
            file,
            boot,
            queue,
            readers,
            counts,
            threads: Mutex::new(threads),
            uncut: Arc::new(true.into()),
            wanted,
            kept,
            sealing: options.sealing.clone(),
            _lock: Some(lock),
        }
    }
}

/// One server per data directory. The lock dies with the process, however that dies.
pub(super) fn lock(dir: &Path) -> Result<File, Error> {
    let path = dir.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|error| io(&path, &error))?;
    let mut patience = LOCK_TRIES;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::WouldBlock) if patience > 0 => {
                patience -= 1;
                std::thread::sleep(LOCK_REST);
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(Error::Refused(format!(
                    "another abide is using {}; stop it first, or give this one its own --data directory",
                    dir.display()
                )));
            }
            Err(std::fs::TryLockError::Error(error)) => return Err(io(&path, &error)),
        }
    }
}

/// What can be seen wrong with a file before SQLite touches it.
pub(super) fn check_file(file: &Path) -> Result<(), Error> {
    let log = log_bytes(file);
    let mut opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(file, &error)),
        Err(_) if log > 0 => return Err(damaged(file, "it is gone, but its log is not")),
        Err(_) => return Ok(()),
    };
    let metadata = opened.metadata().map_err(|error| io(file, &error))?;
    if !metadata.is_file() {
        let file = file.display();
        let message = format!("{file} is not a file; move it away, or choose another --data directory");
        return Err(Error::Refused(message));
    }
    let length = metadata.len();
    if length == 0 {
        return match log {
            0 => Ok(()),
            _ => Err(damaged(file, "it is empty, but its log is not")),
        };
    }
    let mut header = [0; 32];
    if opened.read_exact(&mut header).is_err() {
        return Err(damaged(file, "it is too short to be a database"));
    }
    if !header.starts_with(b"SQLite format 3\0") {
        return Err(damaged(file, "it is not a SQLite database"));
    }
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    let pages = u64::from(u32::from_be_bytes([header[28], header[29], header[30], header[31]]));
    // With a log beside it the file may lawfully be behind; without one it must be whole.
    if log == 0 && length < page * pages {
        return Err(damaged(file, &format!("it was cut short: {length} bytes of {}", page * pages)));
    }
    Ok(())
}

/// How much lies in the log beside the file.
fn log_bytes(file: &Path) -> u64 {
    std::fs::metadata(file.with_extension("db-wal")).map_or(0, |log| log.len())
}

/// Whether the last connection to close folds the log into the file and removes it.
pub(super) fn fold_at_close(connection: &Connection, fold: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !fold).map(drop)
}

/// Connects as the writer does, and brings the schema up to date.
fn connect_writer(options: &SqliteOptions, file: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = options.connect(file, flags)?;
    migrate::check_before(&connection, file)?;
    prepare_writer(&mut connection, options).map_err(|error| explain(file, error))?;
    migrate::run(&mut connection, file)?;
    Ok(connection)
}

fn prepare_writer(connection: &mut Connection, options: &SqliteOptions) -> rusqlite::Result<()> {
    let synchronous = match options.synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
        Synchronous::Off => "OFF",
    };
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES_MAX)?;
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    connection.pragma_update(None, "cache_size", -32_768)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // What is deleted is overwritten, always and not only while something is erased: a snapshot that was replaced or
    // a message that was delivered would otherwise be left behind in free pages, where no erasure finds it.
    connection.pragma_update(None, "secure_delete", true)?;
    connection.busy_timeout(BUSY_PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

fn connect_readers(options: &SqliteOptions, file: &Path) -> Result<Vec<Connection>, Error> {
    (0..options.readers.max(1))
        .map(|_| {
            let connection = options.connect(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            let prepare = || {
                connection.pragma_update(None, "query_only", true)?;
                connection.pragma_update(None, "cache_size", -4_096)?;
                connection.busy_timeout(BUSY_PATIENCE)
            };
            prepare().map_err(|error| explain(file, error))?;
            Ok(connection)
        })
        .collect()
}

pub(super) fn io(path: &Path, error: &std::io::Error) -> Error {
    Error::Refused(format!(
        "{}: {error}; check that it exists and that this user may write there",
        path.display()
    ))
}

pub(super) fn damaged(file: &Path, reason: &str) -> Error {
    let way_out =
        "Nothing was changed. Stop the server, keep a copy of the directory, and restore the last backup; \
                   `abide verify` tells what can be read"
            .to_owned();
    Error::Damaged { file: file.to_owned(), reason: reason.to_owned(), way_out }
}

/// An error of SQLite in the words of this crate.
///
/// All statements are ours, so one that makes no sense to SQLite means that the schema is not what it was;
/// and we never wrote a value that does not fit its column.
pub(super) fn explain(file: &Path, error: impl Into<Fault>) -> Error {
    use rusqlite::Error::SqlInputError;
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, Unknown};
    let error = match error.into() {
        Fault::Sqlite(error) => error,
        Fault::Sealed(reason) => return Error::Sealed(reason),
        Fault::Awaited(reason) => return Error::Unavailable(reason),
        unreadable @ (Fault::Unreadable { .. } | Fault::NoRow) => {
            return damaged(file, &unreadable.to_string());
        }
        Fault::Postgres(error) => return Error::Failed(error.to_string()),
    };
    match (error.sqlite_error_code(), &error) {
        _ if error.sqlite_extended_error_code() == Some(rusqlite::ffi::SQLITE_IOERR_SHORT_READ) => {
            damaged(file, "it was cut short")
        }
        (_, SqlInputError { msg, .. }) => damaged(file, msg),
        (Some(DatabaseCorrupt | NotADatabase | Unknown), _) => damaged(file, &error.to_string()),
        _ => Error::Failed(format!("{}: {error}", file.display())),
    }
}
