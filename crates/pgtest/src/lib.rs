//! Throw-away PostgreSQL clusters for tests and drills.
//!
//! Each cluster is a real one: made with `initdb` in a temporary folder, served by `postgres` at a free port of
//! 127.0.0.1, reached with a password. It writes nowhere else, and nothing of it outlives the process that started
//! it, not even if that is killed with SIGKILL. Nothing that ships depends on this crate, and this crate speaks to
//! PostgreSQL only through its own programs.
//!
//! ```no_run
//! use abide_pgtest::Database;
//!
//! let database = Database::new(); // In the cluster that all tests of this process share.
//! assert_eq!(database.sql("SELECT 6 * 7"), "42");
//! // Hand `database.url()` to what is tested. The database is gone when the value is dropped.
//! ```
//!
//! | noun | file | what it is |
//! |---|---|---|
//! | [`Cluster`] | `cluster.rs` | a running cluster, and what can be done to it |
//! | [`Options`] | `options.rs` | what a cluster of one's own is like |
//! | [`Database`] | `database.rs` | a fresh database that is dropped with its value |
//! | [`psql`] | `psql.rs` | SQL through the `psql` program |
//! | – | `settings.rs` | the configuration of a cluster |
//! | – | `postmaster.rs` | the server's process: start, readiness, stop |
//! | – | `folder.rs` | where a cluster lives, and the guardian that cleans up after a killed process |
//! | – | `tools.rs` | where PostgreSQL's programs are, and the account they run under |
//!
//! `cargo run -p abide-pgtest` starts a cluster and holds it until its standard input ends.
//!
//! # What it needs
//!
//! PostgreSQL 13 or newer on Linux. `scripts/ensure` installs it on a Debian-like machine. PostgreSQL refuses to
//! serve as root, so as root its programs run under the account `postgres`, or `nobody` where that is missing.
//!
//! Everything here panics when it fails: a test that cannot have its database has failed.

mod cluster;
mod database;
mod folder;
mod options;
mod postmaster;
mod psql;
mod settings;
mod tools;

pub use cluster::Cluster;
pub use database::Database;
pub use options::{Options, Tls};
pub use psql::psql;

use std::time::{Duration, Instant};

/// How long anything of PostgreSQL may take before it is said to hang. Far more than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Looks again and again until `found` has something, and panics with `what` when it never comes.
#[track_caller]
fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(started.elapsed() < PATIENCE, "waited {} s in vain until {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(10));
    }
}
