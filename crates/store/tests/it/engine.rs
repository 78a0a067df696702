//! Engines under test: how one is opened, held still, and looked into from outside.
//!
//! The suite knows a store by its trait alone. What it needs beyond that is here, so that a second engine
//! joins by one more `impl Engine` and one more line in [`engines`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use abide_core::Key;
use abide_pgtest::{Cluster, Database};
use abide_store::{
    Commit, Error, Lane, Postgres, PostgresOptions, Sealer, Sealing, Sqlite, SqliteOptions, Stage, StageHook,
    Store,
};
use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// Seals so that a reader sees no word of it, under a key with the number 7.
struct TestSealer;

const KID: [u8; 4] = [0, 0, 0, 7];

impl Sealer for TestSealer {
    fn seal(&self, owner: Key, place: &[u8], plain: &[u8]) -> Result<Vec<u8>, String> {
        let bound = abide_core::sha256(format!("{owner:?} {place:?}").as_bytes());
        Ok([&KID, &bound[..], &plain.iter().map(|byte| !byte).collect::<Vec<_>>()].concat())
    }

    fn open(&self, owner: Key, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, String> {
        let plain = sealed.get(36..).unwrap_or_default().iter().map(|byte| !byte).collect::<Vec<_>>();
        let fits = self.seal(owner, place, &plain)? == sealed;
        fits.then_some(plain)
            .ok_or_else(|| "it is sealed under key 7, and was made for another place".to_owned())
    }
}

/// How stores under test keep what is never shown.
pub(crate) fn sealing() -> Sealing {
    Sealing::with(Arc::new(TestSealer))
}

/// A place that a store can be opened in, again and again, with nothing in it at first.
pub(crate) trait Engine {
    /// Opens a store.
    fn try_open(&self) -> Result<Box<dyn Store>, Error>;

    /// Opens the place beside a store that may be running, only to read.
    fn open_for_reading(&self) -> Result<Box<dyn Store>, Error>;

    /// Whether several may be open at a time.
    fn is_shared(&self) -> bool;

    /// What a refusal has to call it by.
    fn place(&self) -> String;

    /// Every row there is, past the store.
    fn dump(&self) -> Dump;

    /// What the writer of a store opened here has to pass at each commit.
    fn gate(&self) -> &Gate;

    fn open(&self) -> Box<dyn Store> {
        self.try_open().unwrap()
    }
}

/// Every row as text, by table.
pub(crate) type Dump = BTreeMap<String, Vec<String>>;

/// Every engine, each in a place of its own.
pub(crate) fn engines() -> Vec<Box<dyn Engine>> {
    vec![Box::new(SqliteEngine::new()), Box::new(PostgresEngine::new())]
}

/// A database of its own in the cluster of this process.
pub(crate) struct PostgresEngine {
    database: Database,
    gate: Gate,
    options: PostgresOptions,
}

/// A database with the tables in it: copying one is quicker than making them for every test.
fn template() -> &'static str {
    static TEMPLATE: OnceLock<Database> = OnceLock::new();
    let made = || {
        let database = Database::new();
        drop(Postgres::open_beside(&database.url(), Sealing::in_clear()).unwrap());
        database.mark_as_template();
        database
    };
    TEMPLATE.get_or_init(made).name()
}

impl PostgresEngine {
    pub(crate) fn new() -> Self {
        let database = Cluster::shared().database_from(template());
        let gate = Gate::default();
        let options = PostgresOptions {
            on_stage: Some(gate.hook()),
            sealing: sealing(),
            ..PostgresOptions::new(database.url())
        };
        Self { database, gate, options }
    }
}

impl Engine for PostgresEngine {
    fn try_open(&self) -> Result<Box<dyn Store>, Error> {
        Ok(Box::new(Postgres::open(&self.options)?))
    }

    fn open_for_reading(&self) -> Result<Box<dyn Store>, Error> {
        Ok(Box::new(Postgres::open_for_reading(&self.options.url, sealing())?))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn place(&self) -> String {
        self.database.name().to_owned()
    }

    fn dump(&self) -> Dump {
        let names = self.database.sql(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' \
             AND tablename NOT IN ('servers', 'roles', 'migrations') ORDER BY 1",
        );
        // How often webhooks were changed is the engine's own affair.
        let only = |name: &str| if name == "settings" { "name <> 'wanted'" } else { "true" };
        let all = names.lines().map(|name| {
            format!("SELECT '# {name}';\nSELECT * FROM {name} WHERE {} ORDER BY 1, 2;\n", only(name))
        });
        let mut dump = Dump::new();
        let mut rows = &mut Vec::new();
        let said = self.database.sql(&all.collect::<String>());
        for line in said.lines() {
            match line.strip_prefix("# ") {
                Some(name) => rows = dump.entry(name.to_owned()).or_default(),
                None => rows.push(line.replace('|', " | ")),
            }
        }
        dump
    }

    fn gate(&self) -> &Gate {
        &self.gate
    }
}

/// The embedded engine in a temporary directory.
pub(crate) struct SqliteEngine {
    dir: TempDir,
    gate: Gate,
    options: SqliteOptions,
}

impl SqliteEngine {
    pub(crate) fn new() -> Self {
        Self::on(None)
    }

    /// On a registered shim.
    pub(crate) fn on(vfs: Option<String>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let gate = Gate::default();
        let on_stage = Some(gate.hook());
        let options = SqliteOptions { vfs, on_stage, sealing: sealing(), ..SqliteOptions::new(dir.path()) };
        Self { dir, gate, options }
    }
}

impl Engine for SqliteEngine {
    fn try_open(&self) -> Result<Box<dyn Store>, Error> {
        Ok(Box::new(Sqlite::open(&self.options)?))
    }

    fn open_for_reading(&self) -> Result<Box<dyn Store>, Error> {
        Ok(Box::new(Sqlite::open_for_reading(self.dir.path(), sealing())?))
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn place(&self) -> String {
        self.dir.path().display().to_string()
    }

    fn dump(&self) -> Dump {
        dump(&self.dir.path().join("abide.db"))
    }

    fn gate(&self) -> &Gate {
        &self.gate
    }
}

/// Every row of a SQLite file.
pub(crate) fn dump(file: &Path) -> Dump {
    let db = Connection::open(file).unwrap();
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let mut tables = db.prepare(tables).unwrap();
    let names = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
    names
        .map(|name| {
            let name = name.unwrap();
            let rows = rows(&db, &format!("SELECT * FROM {name}"));
            (name, rows)
        })
        .collect()
}

/// The answer to a query, row by row.
pub(crate) fn rows(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(sql).unwrap();
    let columns = statement.column_count();
    let text = |value: Value| match value {
        Value::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Value::Text(text) => text,
        Value::Integer(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    statement
        .query_map([], |row| {
            let values: rusqlite::Result<Vec<String>> =
                (0..columns).map(|at| row.get(at).map(text)).collect();
            Ok(values?.join(" | "))
        })
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

/// Holds the writer in the middle of a commit, so that what a test submits meanwhile is known to wait.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<Passage>, Condvar)>);

#[derive(Default)]
struct Passage {
    shut: bool,
    /// The writer stands before it.
    reached: bool,
}

/// The writer stands still until this is dropped.
pub(crate) struct Stalled<'a>(&'a Gate);

impl Gate {
    pub(crate) fn hook(&self) -> StageHook {
        let gate = self.clone();
        Arc::new(move |stage| {
            if stage == Stage::Committing {
                gate.pass();
            }
        })
    }

    /// Gives the writer `plug` and keeps it in that commit.
    pub(crate) fn stall(&self, store: &dyn Store, plug: Commit) -> Stalled<'_> {
        let (passage, changed) = &*self.0;
        *passage.lock().unwrap() = Passage { shut: true, reached: false };
        let taken_in = store.submit(plug, Lane::Interactive, Box::new(|_| {}));
        assert!(taken_in.is_ok(), "the store is closed");
        let waiting = |passage: &mut Passage| !passage.reached;
        let reached = changed.wait_timeout_while(passage.lock().unwrap(), PATIENCE, waiting).unwrap();
        assert!(!reached.1.timed_out(), "the writer never came to its commit");
        drop(reached);
        Stalled(self)
    }

    fn pass(&self) {
        let (passage, changed) = &*self.0;
        let mut passage = passage.lock().unwrap();
        if passage.shut {
            passage.reached = true;
            changed.notify_all();
            drop(changed.wait_while(passage, |passage| passage.shut).unwrap());
        }
    }
}

impl Drop for Stalled<'_> {
    fn drop(&mut self) {
        let (passage, changed) = &*self.0.0;
        passage.lock().unwrap().shut = false;
        changed.notify_all();
    }
}

/// How long a test waits for something that should have happened long ago before it calls it a failure.
const PATIENCE: Duration = Duration::from_secs(300);

/// An answer that may not have come yet.
pub(crate) struct Pending(oneshot::Receiver<Result<(), Error>>);

impl Pending {
    pub(crate) async fn answer(self) -> Result<(), Error> {
        let answer = tokio::time::timeout(PATIENCE, self.0).await;
        answer.expect("an answer comes").expect("the store calls `done`, and does not only drop it")
    }
}

impl From<oneshot::Receiver<Result<(), Error>>> for Pending {
    fn from(answer: oneshot::Receiver<Result<(), Error>>) -> Self {
        Self(answer)
    }
}

pub(crate) fn submit(store: &dyn Store, commit: Commit) -> Pending {
    submit_in(store, commit, Lane::Interactive)
}

/// Submits a commit. What a closed store gives back is answered here, in its stead.
pub(crate) fn submit_in(store: &dyn Store, commit: Commit, lane: Lane) -> Pending {
    let (done, answer) = oneshot::channel();
    // A test that has failed no longer waits.
    let done = Box::new(move |result| drop(done.send(result)));
    if let Err(done) = store.submit(commit, lane, done) {
        done(Err(Error::Closed));
    }
    Pending(answer)
}

/// Submits a commit and waits for its answer.
pub(crate) async fn commit(store: &dyn Store, commit: Commit) -> Result<(), Error> {
    submit(store, commit).answer().await
}

/// Waits for many answers, each as one word.
pub(crate) async fn words(pending: Vec<Pending>) -> Vec<&'static str> {
    let mut words = Vec::with_capacity(pending.len());
    for answer in pending {
        words.push(word(&answer.answer().await));
    }
    words
}

/// An answer in one word, so that answers can be compared.
pub(crate) fn word<T>(answer: &Result<T, Error>) -> &'static str {
    match answer {
        Ok(_) => "ok",
        Err(Error::Stale) => "stale",
        Err(Error::Fenced) => "fenced",
        Err(Error::Delivered) => "delivered",
        Err(Error::Receipted) => "receipted",
        Err(Error::Claimed) => "claimed",
        Err(Error::Taken) => "taken",
        Err(Error::Raced) => "raced",
        Err(Error::Damaged { .. }) => "damaged",
        Err(Error::Refused(_)) => "refused",
        Err(Error::Failed(_)) => "failed",
        Err(Error::Unavailable(_)) => "unavailable",
        Err(Error::Sealed(_)) => "sealed",
        Err(Error::Closed) => "closed",
    }
}
