//! A fresh database that is dropped with its value.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::psql::{literal, psql, quoted};
use crate::{Cluster, wait_for};

/// Numbers the databases of this process. They are never the same in two clusters, which helps whoever reads logs.
static COUNTER: AtomicU64 = AtomicU64::new(1);

/// A database of one's own, empty or a copy of another. It belongs to the user `abide`.
///
/// It is dropped with this value, and whoever is still connected is thrown out. Its cluster lives at least as long.
/// While a commit anywhere in the cluster waits for a synchronous standby, PostgreSQL drops no database: then it stays
/// until the cluster ends.
pub struct Database {
    cluster: Cluster,
    name: String,
    is_template: AtomicBool,
}

impl Database {
    /// An empty one in the cluster that this process shares.
    ///
    /// # Panics
    ///
    /// When the cluster cannot be started or does not make the database.
    #[must_use]
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "a default should not start a server")]
    pub fn new() -> Database {
        Cluster::shared().database()
    }

    #[track_caller]
    pub(crate) fn create(cluster: &Cluster, template: &str) -> Database {
        let name = format!("abide_{}", COUNTER.fetch_add(1, Ordering::Relaxed));
        cluster.administer(&format!(
            "CREATE DATABASE {} OWNER abide TEMPLATE {}",
            quoted(&name),
            quoted(template)
        ));
        Database { cluster: cluster.clone(), name, is_template: AtomicBool::new(false) }
    }

    /// Its name, which no other database of this process has.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the user `abide` reaches it.
    #[must_use]
    pub fn url(&self) -> String {
        self.cluster.url(&self.name)
    }

    /// The cluster that it is in.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Runs `sql` in it as the user `abide`, with [`psql`].
    ///
    /// # Panics
    ///
    /// When a statement fails.
    #[track_caller]
    pub fn sql(&self, sql: &str) -> String {
        psql(&self.url(), sql).unwrap_or_else(|error| panic!("{sql}\n{error}"))
    }

    /// Makes it a template for [`Cluster::database_from`]: it is complete, and from now on nobody can connect to it.
    ///
    /// # Panics
    ///
    /// When the cluster refuses.
    #[track_caller]
    pub fn mark_as_template(&self) {
        let (name, text) = (quoted(&self.name), literal(&self.name));
        self.cluster
            .administer(&format!("ALTER DATABASE {name} WITH IS_TEMPLATE true ALLOW_CONNECTIONS false"));
        self.is_template.store(true, Ordering::Relaxed);
        // A copy fails while somebody is connected, and a session that was told to end takes a moment.
        let sessions = format!("FROM pg_stat_activity WHERE datname = {text}");
        self.cluster.administer(&format!("SELECT pg_terminate_backend(pid) {sessions}"));
        wait_for(&format!("nobody is connected to {}", self.name), || {
            (self.cluster.administer(&format!("SELECT count(*) {sessions}")) == "0").then_some(())
        });
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A cluster that is down, or became a standby, keeps the database until its folder is removed, which is soon.
        if !self.cluster.is_running() {
            return;
        }
        let name = quoted(&self.name);
        if self.is_template.load(Ordering::Relaxed) {
            let _ = self.cluster.try_administer(&format!("ALTER DATABASE {name} WITH IS_TEMPLATE false"));
        }
        // PostgreSQL drops nothing while any commit waits for a standby, and a test that failed then has to end.
        let drop = format!("SET statement_timeout TO '10s'; DROP DATABASE {name} WITH (FORCE)");
        let _ = self.cluster.try_administer(&drop);
    }
}
