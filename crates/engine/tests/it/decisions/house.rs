//! A server on one of the two stores, which may die and be followed by another.

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

pub(super) struct House {
    server: Option<Server>,
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
    pub(super) async fn on_sqlite() -> Self {
        let place = Place::Sqlite(tempfile::tempdir().unwrap());
        let server = Some(Server::on(place.open()).await);
        Self { server, place }
    }

    pub(super) async fn on_postgres() -> Self {
        let place = Place::Postgres(Database::new());
        let server = Some(Server::on(place.open()).await);
        Self { server, place }
    }

    /// The server dies, and another one starts.
    pub(super) async fn crash(&mut self) {
        let died = self.server.take();
        // Files have one owner at a time, who does not die with a server's threads.
        let store = match (&self.place, &died) {
            (Place::Sqlite(_), Some(server)) => server.store.clone(),
            _ => self.place.open(),
        };
        drop(died);
        self.server = Some(Server::on(store).await);
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("there is always one")
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.server().engine
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.server().store
    }

    pub(super) fn now(&self) -> Millis {
        self.server().clock.now()
    }

    pub(super) async fn advance(&self, ms: Millis) -> Millis {
        self.server().clock.advance(ms).await.unwrap()
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
