//! Data directories that no server is using, and what can be done to them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use abide_store::{Sqlite, SqliteOptions, Store};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::engine::submit;
use crate::world::World;

/// Files by name.
pub(crate) type Content = BTreeMap<String, Vec<u8>>;

/// A data directory that no server is using.
pub(crate) struct DataDir(TempDir);

/// What a server leaves behind: one that was killed, the same if it was stopped, and one that was started
/// on that and then killed.
struct Left {
    killed: Content,
    stopped: Content,
    killed_later: Content,
}

async fn left() -> &'static Left {
    static LEFT: OnceCell<Left> = OnceCell::const_new();
    LEFT.get_or_init(async || {
        let dir = DataDir::empty();
        let mut world = World::new(7);
        let store = dir.work(&mut world, 120).await;
        let killed = dir.content();
        drop(store);
        let stopped = dir.content();
        let store = dir.work(&mut world, 20).await;
        let killed_later = dir.content();
        drop(store);
        assert!(killed["abide.db-wal"].len() > 4096 && killed_later["abide.db-wal"].len() > 4096);
        assert_eq!(stopped.len(), 1, "everything is in one file");
        Left { killed, stopped, killed_later }
    })
    .await
}

impl DataDir {
    pub(crate) fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// As a server leaves it that was stopped: everything is in one file.
    pub(crate) async fn stopped() -> Self {
        Self::holding(&left().await.stopped)
    }

    /// As a server leaves it that was killed: much of it is in the log beside the file.
    pub(crate) async fn killed() -> Self {
        Self::holding(&left().await.killed)
    }

    /// As a server leaves it that was killed, after one before it had been stopped: it is spread over both.
    pub(crate) async fn killed_later() -> Self {
        Self::holding(&left().await.killed_later)
    }

    /// With one file of somebody else's.
    pub(crate) fn with(bytes: &[u8]) -> Self {
        Self::holding(&Content::from([("abide.db".to_owned(), bytes.to_vec())]))
    }

    /// With a database of another application, and with the log, if it has one.
    pub(crate) fn foreign(sql: &str) -> Self {
        let dir = Self::empty();
        let db = Connection::open(dir.db()).unwrap();
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        db.execute_batch(sql).unwrap();
        dir
    }

    fn holding(content: &Content) -> Self {
        let dir = Self::empty();
        for (name, bytes) in content {
            fs::write(dir.path(name), bytes).unwrap();
        }
        dir
    }

    /// So many commits, all of them acknowledged. The server is still running.
    async fn work(&self, world: &mut World, commits: usize) -> Sqlite {
        let store = Sqlite::open(&self.options()).unwrap();
        let tasks = store.claim_tasks(store.boot(), 1000).await.unwrap();
        world.claimed(store.boot(), tasks);
        let pending: Vec<_> = (0..commits).map(|_| submit(&store, world.next_commit())).collect();
        for answer in pending {
            answer.answer().await.unwrap();
        }
        store
    }

    pub(crate) fn options(&self) -> SqliteOptions {
        SqliteOptions { sealing: crate::engine::sealing(), ..SqliteOptions::new(self.place()) }
    }

    pub(crate) fn place(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place().join(name)
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.path("abide.db")
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// What is there, but for the lock and the shared memory, which are no data.
    pub(crate) fn content(&self) -> Content {
        let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
        let entries = fs::read_dir(self.place()).unwrap().map(Result::unwrap);
        let data = entries.filter(|entry| !matches!(name(entry).as_str(), "lock" | "abide.db-shm"));
        data.map(|entry| (name(&entry), fs::read(entry.path()).unwrap_or_default())).collect()
    }

    /// Changes something behind the store's back. A log that is there stays there.
    pub(crate) fn tamper(self, sql: &str) -> Self {
        let db = Connection::open(self.db()).unwrap();
        let has_log = self.path("abide.db-wal").exists();
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log).unwrap();
        db.execute_batch(sql).unwrap();
        drop(db);
        self
    }

    pub(crate) fn truncate(self, name: &str, len: u64) -> Self {
        let file = fs::File::options().write(true).open(self.path(name)).unwrap();
        file.set_len(len).unwrap();
        self
    }

    pub(crate) fn overwrite(self, name: &str, at: usize, with: &[u8]) -> Self {
        let mut bytes = self.bytes(name);
        bytes[at..at + with.len()].copy_from_slice(with);
        fs::write(self.path(name), bytes).unwrap();
        self
    }
}
