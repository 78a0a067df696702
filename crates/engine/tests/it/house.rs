//! Servers on one of the two stores, each of which may die and be followed by another.

use std::sync::Arc;

use abide_core::Millis;
use abide_engine::{Clock, Engine, TestClock};
use abide_pgtest::Database;
use abide_store::{Postgres, PostgresOptions, Sqlite, SqliteOptions, Store};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::{START, options};

/// Where everything is kept.
enum Place {
    Sqlite(TempDir),
    Postgres(Database),
}

pub(crate) struct House {
    /// Dropped before what they keep their things in.
    servers: Vec<Server>,
    place: Place,
}

/// An engine on threads of its own, so that it can die.
struct Server {
    engine: Engine,
    store: Arc<dyn Store>,
    clock: Arc<TestClock>,
    runtime: Option<Runtime>,
}

impl Server {
    async fn on(store: Arc<dyn Store>) -> Self {
        let clock = Arc::new(TestClock::open(store.clone(), START).await.unwrap());
        let runtime = Runtime::new().unwrap();
        let engine = {
            let _within = runtime.enter();
            Engine::start(options(store.clone(), clock.clone()))
        };
        Self { engine, store, clock, runtime: Some(runtime) }
    }
}

/// It dies, as by SIGKILL: nothing is put in order.
impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl House {
    pub(crate) async fn on_sqlite(servers: usize) -> Self {
        Self::on(Place::Sqlite(tempfile::tempdir().unwrap()), servers).await
    }

    pub(crate) async fn on_postgres(servers: usize) -> Self {
        Self::on(Place::Postgres(Database::new()), servers).await
    }

    async fn on(place: Place, count: usize) -> Self {
        let mut house = Self { servers: Vec::with_capacity(count), place };
        for _ in 0..count {
            let server = Server::on(house.store_for_another()).await;
            house.servers.push(server);
        }
        house
    }

    /// A file has one owner, whom all servers share, and who does not die with their threads.
    fn store_for_another(&self) -> Arc<dyn Store> {
        match (&self.place, self.servers.first()) {
            (Place::Sqlite(_), Some(server)) => server.store.clone(),
            (place, _) => place.open(),
        }
    }

    /// A server dies, and another one starts.
    pub(crate) async fn crash(&mut self, at: usize) {
        let store = self.store_for_another();
        drop(self.servers.remove(at));
        let server = Server::on(store).await;
        self.servers.insert(at, server);
    }

    /// The first of the servers.
    pub(crate) fn engine(&self) -> &Engine {
        self.engine_at(0)
    }

    pub(crate) fn engine_at(&self, at: usize) -> &Engine {
        &self.servers[at].engine
    }

    pub(crate) fn servers(&self) -> usize {
        self.servers.len()
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.servers[0].store
    }

    pub(crate) fn now(&self) -> Millis {
        self.servers[0].clock.now()
    }

    /// Moves the time on, for all servers.
    pub(crate) async fn advance(&self, ms: Millis) -> Millis {
        let now = self.servers[0].clock.advance(ms).await.unwrap();
        for server in &self.servers[1..] {
            if let Some(catching_up) = server.clock.catch_up() {
                catching_up.await;
            }
        }
        now
    }
}

impl Place {
    fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(dir) => Arc::new(Sqlite::open(&SqliteOptions::new(dir.path())).unwrap()),
            Self::Postgres(database) => {
                Arc::new(Postgres::open(&PostgresOptions::new(database.url())).unwrap())
            }
        }
    }
}
