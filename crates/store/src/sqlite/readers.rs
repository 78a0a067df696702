//! Reads, each on one of a few connections, off the async threads.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::open::explain;
use crate::{Error, db};

/// Connections that only read, and the right to use one.
pub(super) struct Readers {
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    file: PathBuf,
}

impl Readers {
    pub(super) fn new(connections: Vec<Connection>, file: PathBuf) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(connections.len()));
        Arc::new(Self { idle: Mutex::new(connections), permits, file })
    }

    pub(super) async fn run<T: Send + 'static>(
        self: Arc<Self>,
        job: impl FnOnce(db::Connection<'_>) -> db::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let readers = self.clone();
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
        let read = tokio::task::spawn_blocking(move || {
            let connection = readers.idle.lock().expect("no thread panics holding this").pop();
            let lent = Lent { readers: &readers, connection, _permit: permit };
            let connection = lent.connection.as_ref().expect("there is a connection for every permit");
            job(db::Connection::Sqlite(connection)).map_err(|error| explain(&readers.file, error))
        });
        read.await.map_err(|error| Error::Failed(format!("a read was cut off: {error}")))?
    }
}

/// A connection in use. It goes back and then the permit, even if whoever asked is gone by then, or the read panics.
struct Lent<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.readers.idle.lock().expect("no thread panics holding this").extend(self.connection.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_read_that_panics_gives_its_connection_back() {
        let readers = Readers::new(vec![Connection::open_in_memory().unwrap()], PathBuf::new());
        let broken: Result<(), Error> = readers.clone().run(|_| panic!("a bug")).await;
        assert!(matches!(broken, Err(Error::Failed(_))));
        let answer: i64 = readers.run(|db| db.query_row("SELECT 7", (), |row| row.get(0))).await.unwrap();
        assert_eq!(answer, 7);
    }
}
