//! Connections for reads and rare writes: made when they are needed, kept while they are sound, and replaced when they are
//! not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::connect::Target;
use super::session::{Fault as Lost, Session};
use crate::Error;
use crate::db::{self, Connection, Fault};

/// How long something is tried again while the database is away, or others are in the way. A server that is promoted in
/// place of another takes some seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(12);

/// The longest rest between two tries.
const REST_MAX: Duration = Duration::from_millis(500);

pub(super) struct Pool {
    target: Arc<Target>,
    runtime: Handle,
    idle: Mutex<Vec<Session>>,
    permits: Arc<Semaphore>,
    size: usize,
    pinned: AtomicBool,
}

impl Pool {
    pub(super) fn new(target: Arc<Target>, runtime: Handle, size: usize) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(size.max(1)));
        Arc::new(Self {
            target,
            runtime,
            idle: Mutex::default(),
            permits,
            size: size.max(1),
            pinned: AtomicBool::new(false),
        })
    }

    /// A new connection.
    pub(super) fn connect(&self) -> Result<Session, Lost> {
        let (client, wire) = self.runtime.block_on(self.target.connect())?;
        let shown = self.target.shown().to_owned();
        self.runtime.spawn(async move {
            if let Err(error) = wire.await {
                tracing::warn!(store = shown, %error, "a connection to the store was lost");
            }
        });
        Ok(Session::new(client, self.runtime.clone()))
    }

    fn lend(&self) -> Result<Session, Lost> {
        loop {
            let kept = self.idle.lock().expect("no thread panics holding this").pop();
            match kept {
                Some(session) if session.is_sound() => return Ok(session),
                Some(_) => {}
                None if self.pinned.load(Ordering::Relaxed) => {
                    return Err(Lost::Failed(
                        "the connection was lost, and with it the moment it saw".to_owned(),
                    ));
                }
                None => return self.connect(),
            }
        }
    }

    fn give_back(&self, session: Session) {
        if session.is_sound() {
            self.idle.lock().expect("no thread panics holding this").push(session);
        }
    }

    pub(super) fn close(&self) {
        self.permits.close();
        self.idle.lock().expect("no thread panics holding this").clear();
    }

    /// Waits for what is under way.
    pub(super) async fn drain(&self) {
        // A pool that was closed has nothing under way.
        let _ = self.permits.acquire_many(self.size as u32).await;
    }

    /// Keeps the one connection of this pool at this moment. If it is lost, there is no other.
    pub(super) fn pin(self: &Arc<Self>) -> Result<(), Error> {
        self.once(|session| session.pin().map_err(|error| Error::Unavailable(error.to_string())))?;
        self.pinned.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Tries something on a connection until it goes through, or time is up.
    fn insist<T>(&self, mut job: impl FnMut(&Session) -> Result<T, Failed>) -> Result<T, Error> {
        let mut tries = Tries::begin(PATIENCE);
        loop {
            let done = match self.lend() {
                Ok(session) => {
                    let done = job(&session);
                    self.give_back(session);
                    done
                }
                Err(error) => Err(Failed::from(Fault::from(error))),
            };
            match done {
                Ok(done) => return Ok(done),
                Err(Failed::Again(error)) if tries.rest() => {
                    tracing::debug!(%error, "trying again");
                }
                Err(Failed::Again(error)) => return Err(Error::Unavailable(error.to_string())),
                Err(Failed::For(error)) => return Err(explain(&self.target, error)),
                Err(Failed::Unknown(reason)) => return Err(Error::Failed(reason)),
            }
        }
    }

    /// Tries something once more for as long as the connection is the only reason for its failing.
    pub(super) fn once<T>(
        self: &Arc<Self>,
        job: impl Fn(&Session) -> Result<T, Error> + Send,
    ) -> Result<T, Error>
    where
        T: Send,
    {
        let pool = self.clone();
        blocking(move || {
            let session = pool.lend().map_err(|error| Error::Unavailable(error.to_string()))?;
            let done = job(&session);
            pool.give_back(session);
            done
        })
    }

    /// A rare write, from a thread that may wait.
    pub(super) fn write_now<T: Send>(
        self: &Arc<Self>,
        mut job: impl FnMut(Connection<'_>) -> db::Result<T> + Send,
    ) -> Result<T, Error> {
        let pool = self.clone();
        blocking(move || pool.insist(|session| write(session, &mut job)))
    }

    pub(super) async fn read<T: Send + 'static>(
        self: Arc<Self>,
        mut job: impl FnMut(Connection<'_>) -> db::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        self.off_thread(move |session| job(Connection::Postgres(session)).map_err(Failed::from)).await
    }

    pub(super) async fn write<T: Send + 'static>(
        self: Arc<Self>,
        mut job: impl FnMut(Connection<'_>) -> db::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        self.off_thread(move |session| write(session, &mut job)).await
    }

    async fn off_thread<T: Send + 'static>(
        self: Arc<Self>,
        job: impl FnMut(&Session) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, Error> {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
        let done = tokio::task::spawn_blocking(move || {
            let done = self.insist(job);
            drop(permit);
            done
        });
        done.await.map_err(|error| Error::Failed(format!("it was cut off: {error}")))?
    }
}

/// Runs something that waits where waiting is allowed, whichever thread asks.
fn blocking<T: Send>(job: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        scope.spawn(job).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Why something did not go through.
enum Failed {
    /// It may when it is tried again, and nothing of it was kept.
    Again(Fault),
    /// It won't.
    For(Fault),
    /// Nobody can say whether it was kept.
    Unknown(String),
}

impl From<Fault> for Failed {
    fn from(error: Fault) -> Self {
        match error {
            Fault::Postgres(Lost::Lost(_) | Lost::Again(_)) => Self::Again(error),
            error => Self::For(error),
        }
    }
}

/// Runs a job in a transaction of its own and commits it.
fn write<T>(session: &Session, job: &mut impl FnMut(Connection<'_>) -> db::Result<T>) -> Result<T, Failed> {
    session.begin().map_err(|error| Failed::from(Fault::from(error)))?;
    match job(Connection::Postgres(session)) {
        Ok(done) => match session.commit() {
            Ok(()) => Ok(done),
            Err(Lost::Lost(reason)) => {
                Err(Failed::Unknown(format!("the answer to a commit was lost: {reason}")))
            }
            Err(error) => {
                session.roll_back();
                Err(Failed::from(Fault::from(error)))
            }
        },
        Err(error) => {
            session.roll_back();
            Err(Failed::from(error))
        }
    }
}

/// Tries of one thing, with rests in between that grow.
pub(super) struct Tries {
    until: Instant,
    rest: Duration,
}

impl Tries {
    pub(super) fn begin(patience: Duration) -> Self {
        Self { until: Instant::now() + patience, rest: Duration::from_millis(5) }
    }

    /// Rests, unless time is up.
    pub(super) fn rest(&mut self) -> bool {
        if Instant::now() >= self.until {
            return false;
        }
        std::thread::sleep(self.rest);
        self.rest = (self.rest * 2).min(REST_MAX);
        true
    }
}

/// An error of PostgreSQL in the words of this crate.
pub(super) fn explain(target: &Target, error: Fault) -> Error {
    let shown = target.shown();
    match error {
        Fault::Sealed(reason) => Error::Sealed(reason),
        Fault::Awaited(reason) => Error::Unavailable(reason),
        Fault::Postgres(Lost::Lost(reason) | Lost::Again(reason)) => Error::Unavailable(reason),
        Fault::Postgres(error) => Error::Failed(format!("{shown}: {error}")),
        unreadable @ (Fault::Unreadable { .. } | Fault::NoRow) => Error::Damaged {
            file: shown.into(),
            reason: unreadable.to_string(),
            way_out: "Nothing was changed. `abide verify` tells what can be read; restore the database to a time before"
                .to_owned(),
        },
        Fault::Sqlite(error) => Error::Failed(error.to_string()),
    }
}
