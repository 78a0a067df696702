//! The engine for several servers: one PostgreSQL database that all of them share.
//!
//! The tables and nearly all of the SQL are the embedded engine's. What is different is here: how connections are made and
//! lost, how commits are written in batches while other servers write theirs, and how servers know of each other.

mod clock;
mod connect;
mod events;
mod import;
mod migrate;
mod peers;
mod pool;
pub(crate) mod session;
mod writer;

use std::sync::{Arc, Mutex};

use abide_core::{Key, Millis, TenantId};
use tokio::runtime::{Handle, Runtime};

use crate::answers::{Counters, answer, join, spawn};
use crate::cluster::Cluster;
use crate::db::{self, Connection};
use crate::queue::Queue;
use crate::store::{Answer, Counts};
use crate::tables::deliveries::Wanted;
use crate::tables::erase::{self, Progress};
use crate::tables::external::KeptTypes;
use crate::tables::{Database, admin, webhooks};
use crate::{Commit, Done, Erasure, Error, Lane, Sealing, StageHook};
use connect::Target;
pub use import::ImportedTable;
use peers::Peers;
use pool::Pool;
use session::Session;
use writer::Writer;

/// How a database is opened.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Where it is: `postgres://user:password@host/database`. Several hosts may be named; the one that takes writes is
    /// used.
    pub url: String,
    /// What this server is called.
    pub name: String,
    /// Where other servers reach this one.
    pub advertise: String,
    /// Which abide this is.
    pub version: String,
    /// How what is never shown is kept.
    pub sealing: Sealing,
    /// Called by the writer around each commit, for tests that kill the process there.
    pub on_stage: Option<StageHook>,
    /// How many reads and rare writes go on at once.
    pub connections: usize,
}

impl PostgresOptions {
    /// The usual way to open a database, but for the keys under which runs are sealed.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            name: "abide".to_owned(),
            advertise: String::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sealing: Sealing::in_clear(),
            on_stage: None,
            connections: 8,
        }
    }
}

/// A PostgreSQL database, and this server's part in it.
pub struct Postgres {
    boot: u64,
    /// Whether it may write although it is no server.
    writes: bool,
    shown: String,
    queue: Arc<Queue<writer::Job>>,
    pool: Arc<Pool>,
    peers: Option<Peers>,
    counts: Arc<Counters>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
    wanted: Arc<Wanted>,
    kept: KeptTypes,
    sealing: Sealing,
    /// Drives the connections. It goes last.
    drive: Mutex<Option<Drive>>,
}

impl Postgres {
    /// Opens a database as one of its servers, and brings its tables up to date.
    pub fn open(options: &PostgresOptions) -> Result<Self, Error> {
        let target = Arc::new(Target::parse(&options.url)?);
        let drive = drive()?;
        let pool = Pool::new(target.clone(), drive.handle().clone(), options.connections);
        pool.once(|session| migrate::run(session, &target))?;
        let boot = pool.write_now(|transaction| {
            transaction.exclude("start", TenantId(0))?;
            webhooks::begin(transaction)?;
            peers::replace(transaction, &options.advertise)?;
            transaction.query_row("SELECT nextval('boots')", (), |row| row.get(0))
        })?;
        let wanted = Arc::new(Wanted::default());
        let peers = Peers::join(target.clone(), drive.handle(), boot, options, wanted.news.clone())?;
        let (queue, counts): (Arc<Queue<_>>, Arc<Counters>) = (Arc::default(), Arc::default());
        let (answers, waiting) = std::sync::mpsc::channel();
        let writer = Writer {
            pool: pool.clone(),
            session: None,
            queue: queue.clone(),
            answers,
            counters: counts.clone(),
            wanted: wanted.clone(),
            known: -1,
            sealing: options.sealing.clone(),
            on_stage: options.on_stage.clone(),
        };
        let threads = vec![
            spawn("store-writer", move || writer.run()),
            spawn("store-answers", move || answer(&waiting)),
        ];
        Ok(Self {
            boot,
            writes: false,
            shown: target.shown().to_owned(),
            queue,
            pool,
            peers: Some(peers),
            counts,
            threads: Mutex::new(threads),
            wanted,
            kept: KeptTypes::default(),
            sealing: options.sealing.clone(),
            drive: Mutex::new(Some(drive)),
        })
    }

    /// Opens a database to look at it, beside servers that may be running and going on.
    pub fn open_for_reading(url: &str, sealing: Sealing) -> Result<Self, Error> {
        let target = Arc::new(Target::parse(url)?);
        Self::without_part(&target, sealing, false, migrate::check)
    }

    /// Opens a database for a command that changes something beside the servers, such as keys, and is none of them: it
    /// takes no part in what they do and commits nothing to runs. The tables are brought up to date.
    pub fn open_beside(url: &str, sealing: Sealing) -> Result<Self, Error> {
        let target = Arc::new(Target::parse(url)?);
        Self::without_part(&target, sealing, true, migrate::run)
    }

    fn without_part(
        target: &Arc<Target>,
        sealing: Sealing,
        writes: bool,
        ready: fn(&Session, &Target) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let drive = drive()?;
        let pool = Pool::new(target.clone(), drive.handle().clone(), 1);
        pool.once(|session| ready(session, target))?;
        if !writes {
            pool.pin()?;
        }
        let queue: Arc<Queue<_>> = Arc::default();
        queue.close();
        Ok(Self {
            boot: 0,
            writes,
            shown: target.shown().to_owned(),
            queue,
            pool,
            peers: None,
            counts: Arc::default(),
            threads: Mutex::default(),
            wanted: Arc::default(),
            kept: KeptTypes::default(),
            sealing,
            drive: Mutex::new(Some(drive)),
        })
    }

    /// Where the database is, without the password.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Where the database of a URL is, without the password, or what is wrong with the URL.
    pub fn address(url: &str) -> Result<String, Error> {
        Ok(Target::parse(url)?.shown().to_owned())
    }

    /// The names of the servers that count as alive, in the order of their starts.
    pub fn servers_alive(&self) -> Answer<'_, Vec<String>> {
        let sql = "SELECT name FROM servers WHERE until > CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) \
                   ORDER BY boot";
        self.read(move |connection| {
            connection.prepare_cached(sql)?.query_map((), |row| row.get(0))?.collect()
        })
    }

    /// The database's time.
    pub fn time(&self) -> Answer<'_, Millis> {
        let sql = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)";
        self.read(move |connection| connection.query_row(sql, (), |row| row.get(0)))
    }

    /// Takes in no more, and gives the threads that write and answer what is queued.
    fn shut(&self) -> Vec<std::thread::JoinHandle<()>> {
        self.queue.close();
        std::mem::take(&mut *self.threads.lock().expect("no thread panics holding this"))
    }

    /// Ends the connections.
    fn hang_up(&self) {
        if let Some(peers) = &self.peers {
            peers.stop();
        }
        self.pool.close();
        drop(self.drive.lock().expect("no thread panics holding this").take());
    }
}

/// What drives the connections. It may be dropped wherever nobody may wait for it.
struct Drive(Option<Runtime>);

impl Drive {
    fn handle(&self) -> &Handle {
        self.0.as_ref().expect("it is there until it is dropped").handle()
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn drive() -> Result<Drive, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("store-postgres")
        .enable_all()
        .build()
        .map(|runtime| Drive(Some(runtime)))
        .map_err(|error| Error::Refused(format!("the system gives no thread for the store: {error}")))
}

impl Drop for Postgres {
    fn drop(&mut self) {
        join(self.shut());
        self.hang_up();
    }
}

impl Database for Postgres {
    fn read<T: Send + 'static>(
        &self,
        job: impl FnMut(Connection<'_>) -> db::Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        let pool = self.pool.clone();
        Box::pin(async move { pool.read(job).await })
    }

    fn write_in<T: Send + 'static>(
        &self,
        _lane: Lane,
        job: impl FnMut(Connection<'_>) -> db::Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        let (pool, closed) = (self.pool.clone(), self.queue.is_closed() && !self.writes);
        Box::pin(async move { if closed { Err(Error::Closed) } else { pool.write(job).await } })
    }

    /// Every commit begins with the lock that a change of what is wanted holds alone, and looks whether there was one. So
    /// one that begins once this is answered knows of it, on whichever server.
    fn write_wanted<T: Send + 'static>(
        &self,
        mut job: impl FnMut(Connection<'_>) -> db::Result<(T, Vec<TenantId>)> + Send + 'static,
    ) -> Answer<'_, T> {
        self.write_in(Lane::Interactive, move |transaction| {
            let (changed, tenants) = job(transaction)?;
            if !tenants.is_empty() {
                transaction.exclude_commits()?;
                admin::count_up(transaction, writer::WANTED)?;
            }
            Ok(changed)
        })
    }

    fn erase_page(&self, key: Key, erasure: Erasure, from: u64) -> Answer<'_, Progress> {
        let sealing = self.sealing.clone();
        self.write(move |transaction| erase::erase_page(transaction, &sealing, key, &erasure, from))
    }

    fn hand_in(&self, commit: Commit, lane: Lane, done: Done) -> Result<(), Done> {
        self.queue.push((Box::new(commit), done), lane).map_err(|(_, done)| done)
    }

    fn write_anew(&self) -> Answer<'_, ()> {
        if self.queue.is_closed() {
            return Box::pin(async { Err(Error::Closed) });
        }
        let reason =
            "PostgreSQL cleans up by itself; VACUUM FULL on its own prompt gives room back".to_owned();
        Box::pin(async { Err(Error::Refused(reason)) })
    }

    fn shut_down(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let threads = self.shut();
            let joined = tokio::task::spawn_blocking(|| join(threads)).await;
            self.pool.drain().await;
            if let Some(peers) = &self.peers {
                peers.leave().await;
            }
            self.hang_up();
            joined.map_err(|error| Error::Failed(format!("the shutdown was cut off: {error}")))
        })
    }

    fn start_number(&self) -> u64 {
        self.boot
    }

    fn written(&self) -> Counts {
        self.counts.read()
    }

    fn cluster(&self) -> Option<&dyn Cluster> {
        self.peers.as_ref().map(|_| self as &dyn Cluster)
    }

    fn sealing(&self) -> &Sealing {
        &self.sealing
    }

    fn wanted(&self) -> &Arc<Wanted> {
        &self.wanted
    }

    fn kept(&self) -> &KeptTypes {
        &self.kept
    }
}
