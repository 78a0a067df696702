//! A running cluster, and what can be done to it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::folder::{Folder, give, random};
use crate::postmaster::Postmaster;
use crate::psql::{literal, psql};
use crate::tools::Tools;
use crate::{Database, Options, settings, wait_for};

/// The password of both users. The clusters listen to this machine alone and live for minutes.
const PASSWORD: &str = "secret";

/// A PostgreSQL cluster of this process.
///
/// It has two users with the password `secret`: `abide`, who owns databases and is nobody special, and `postgres`, who
/// may do everything. Copies of the value mean the same cluster; it ends with the last of them and with the last of
/// its [`Database`]s.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    /// The name that a primary knows it by.
    name: String,
    port: u16,
    /// Dropped first: it ends the server that the next field then waits for.
    folder: Folder,
    /// None while the server is down.
    postmaster: Mutex<Option<Postmaster>>,
}

impl Cluster {
    /// The one that all tests of this process share, started when it is first asked for.
    ///
    /// It does without `fsync`, and lets 400 clients in.
    ///
    /// # Panics
    ///
    /// When there is no PostgreSQL on this machine, or it does not start.
    #[track_caller]
    pub fn shared() -> &'static Cluster {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| Cluster::start(Options::default()))
    }

    /// Makes one and starts it. A standby is following its primary when this returns.
    ///
    /// # Panics
    ///
    /// When there is no PostgreSQL on this machine, or it does not start: the message has its log.
    #[must_use]
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "options are made for one call and used up by it")]
    pub fn start(options: Options<'_>) -> Cluster {
        let folder = Folder::new(Tools::find().account());
        let name = format!("cluster_{:016x}", random());
        match options.standby_of {
            None => initialize(&folder, &options),
            Some(primary) => copy(&folder, &options, primary, &name),
        }
        settings::append(&folder.data(), &options.settings);
        let (postmaster, port) = Postmaster::start_anywhere(&folder);
        let inner = Inner { name, port, postmaster: Mutex::new(Some(postmaster)), folder };
        let cluster = Cluster { inner: Arc::new(inner) };
        match options.standby_of {
            None => drop(cluster.administer(&format!("CREATE ROLE abide LOGIN PASSWORD '{PASSWORD}'"))),
            Some(primary) => primary.wait_for_standby(&cluster, "state = 'streaming'"),
        }
        cluster
    }

    /// Where it listens, on 127.0.0.1. It stays the same over a restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.inner.port
    }

    /// How the user `abide` reaches `database`: `postgres://abide:secret@127.0.0.1:PORT/NAME`.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        self.url_of("abide", database)
    }

    /// How the superuser `postgres` reaches `database`.
    #[must_use]
    pub fn admin_url(&self, database: &str) -> String {
        self.url_of("postgres", database)
    }

    /// The folder of everything that it writes. It is removed when the cluster ends.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.inner.folder.path()
    }

    /// What the server has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.inner.folder.log()).unwrap_or_default()).into_owned()
    }

    /// A new, empty database.
    ///
    /// # Panics
    ///
    /// When the cluster is down or a standby.
    #[must_use]
    #[track_caller]
    pub fn database(&self) -> Database {
        Database::create(self, "template1")
    }

    /// A new database that is a copy of another one, which [`Database::mark_as_template`] has made a template.
    ///
    /// # Panics
    ///
    /// When the cluster is down or a standby, or somebody is connected to `template`.
    #[must_use]
    #[track_caller]
    pub fn database_from(&self, template: &str) -> Database {
        Database::create(self, template)
    }

    /// Runs `sql` in `database` as the superuser, with [`psql`].
    ///
    /// # Panics
    ///
    /// When a statement fails.
    #[track_caller]
    pub fn sql(&self, database: &str, sql: &str) -> String {
        psql(&self.admin_url(database), sql).unwrap_or_else(|error| panic!("{sql}\n{error}"))
    }

    /// Changes a setting of the running server, for those which need no restart. New sessions have it when this
    /// returns, and running ones soon.
    ///
    /// # Panics
    ///
    /// When PostgreSQL refuses the value, or does not take it without a restart.
    #[track_caller]
    pub fn set(&self, setting: &str, value: &str) {
        // A session is born with the time at which the server has read its configuration.
        let loaded = || self.administer("SELECT pg_conf_load_time()");
        let before = loaded();
        self.administer(&format!(
            "ALTER SYSTEM SET {setting} TO {}; SELECT pg_reload_conf()",
            literal(value)
        ));
        wait_for(&format!("{setting} is in force"), || (loaded() != before).then_some(()));
        let pending = format!("SELECT pending_restart FROM pg_settings WHERE name = {}", literal(setting));
        assert_eq!(self.administer(&pending), "f", "{setting} needs a restart: give it to `Cluster::start`");
    }

    /// Lets commits on this cluster wait until `standby` has them on its disk.
    ///
    /// Commits wait as long as it takes. While the standby is down only [`set`](Self::set) gets them going again:
    /// `synchronous_standby_names` to nothing.
    ///
    /// # Panics
    ///
    /// When `standby` does not follow this cluster.
    #[track_caller]
    pub fn synchronize_with(&self, standby: &Cluster) {
        self.set("synchronous_standby_names", &standby.inner.name);
        self.wait_for_standby(standby, "sync_state = 'sync'");
        // Commits wait from when the checkpointer has read the setting, which it does before it obeys this.
        self.administer("CHECKPOINT");
    }

    /// Ends all its processes at once with SIGKILL, as a crash of the machine would. What is on disk stays.
    ///
    /// # Panics
    ///
    /// When it is down already.
    #[track_caller]
    pub fn kill(&self) {
        let postmaster = self.postmaster().take().expect("only a cluster that is up can be killed");
        self.inner.folder.crash();
        drop(postmaster);
    }

    /// Stops it in good order, though without waiting for its clients.
    ///
    /// # Panics
    ///
    /// When it is down already, or does not stop.
    #[track_caller]
    pub fn stop(&self) {
        let postmaster = self.postmaster().take().expect("only a cluster that is up can be stopped");
        postmaster.stop(&self.inner.folder);
    }

    /// Starts it again at the same port: after [`stop`](Self::stop), [`kill`](Self::kill) or a kill by somebody else,
    /// or while it runs.
    ///
    /// # Panics
    ///
    /// When it does not start: the message has its log.
    #[track_caller]
    pub fn restart(&self) {
        let mut slot = self.postmaster();
        if let Some(mut postmaster) = slot.take() {
            if postmaster.is_running() {
                postmaster.stop(&self.inner.folder);
            } else {
                // Somebody else has killed the server: what is left of it would keep a new one from starting.
                self.inner.folder.crash();
            }
        }
        *slot = Some(Postmaster::start_at(&self.inner.folder, self.inner.port));
    }

    /// Makes a standby a primary, with everything that it has received. It takes writes when this returns.
    ///
    /// # Panics
    ///
    /// When it is no standby.
    #[track_caller]
    pub fn promote(&self) {
        assert_eq!(self.administer("SELECT pg_promote()"), "t", "the standby was not promoted in a minute");
    }

    /// Whether the server is up.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.postmaster().as_mut().is_some_and(Postmaster::is_running)
    }

    #[track_caller]
    pub(crate) fn administer(&self, sql: &str) -> String {
        self.try_administer(sql).unwrap_or_else(|error| panic!("{sql}\n{error}"))
    }

    /// Runs `sql` as the superuser. Unlike what tests do, this never waits for a standby.
    pub(crate) fn try_administer(&self, sql: &str) -> Result<String, String> {
        psql(&(self.admin_url("postgres") + "?options=-csynchronous_commit%3Dlocal"), sql)
    }

    #[track_caller]
    fn wait_for_standby(&self, standby: &Cluster, condition: &str) {
        let name = literal(&standby.inner.name);
        let sql = format!(
            "SELECT count(*) FROM pg_stat_replication WHERE application_name = {name} AND {condition}"
        );
        wait_for(&format!("the standby has {condition}"), || (self.administer(&sql) == "1").then_some(()));
    }

    fn url_of(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}:{PASSWORD}@127.0.0.1:{}/{database}", self.inner.port)
    }

    /// A test that panicked in the middle has left nothing here that would harm the next.
    fn postmaster(&self) -> MutexGuard<'_, Option<Postmaster>> {
        self.inner.postmaster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes an empty cluster in `folder`.
#[track_caller]
fn initialize(folder: &Folder, options: &Options<'_>) {
    let password = folder.path().join("password");
    fs::write(&password, PASSWORD).expect("the folder is ours");
    let mut command = Tools::find().server("initdb", folder.path());
    command.arg("--pgdata").arg(folder.data()).arg("--pwfile").arg(password);
    command.args([
        "--username=postgres",
        "--auth=scram-sha-256",
        "--locale=C",
        "--encoding=UTF8",
        "--no-sync",
    ]);
    finish(command);
    settings::admit(&folder.data(), options.tls.is_some());
    if let Some(tls) = &options.tls {
        settings::install(&folder.data(), tls, Tools::find().account());
    }
    settings::append(&folder.data(), &settings::of(options));
}

/// Makes a standby of `primary` in `folder`. The primary keeps for it what it has not received yet.
#[track_caller]
fn copy(folder: &Folder, options: &Options<'_>, primary: &Cluster, name: &str) {
    assert!(options.tls.is_none(), "a standby has the certificate of its primary");
    let source = primary.admin_url("postgres");
    let mut command = Tools::find().server("pg_basebackup", folder.path());
    command.arg("--pgdata").arg(folder.data()).args(["--dbname", &source, "--create-slot", "--slot", name]);
    command.args(["--checkpoint=fast", "--wal-method=stream", "--no-sync", "--no-password"]);
    finish(command);
    let data = folder.data();
    // What was set on the running primary would win over the standby's own settings.
    fs::write(data.join("postgresql.auto.conf"), "").expect("a copy of a cluster can be changed");
    let signal = data.join("standby.signal");
    fs::write(&signal, "").expect("a copy of a cluster can be changed");
    give(&signal, Tools::find().account());
    settings::append(&data, &settings::of(options));
    settings::append(&data, &settings::of_standby(name, &format!("{source}?application_name={name}")));
}

/// Runs a command to its end.
#[track_caller]
fn finish(mut command: Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed, {}:\n{told}", output.status);
}
