//! Clusters of one's own: their settings, crashes and restarts.

use std::net::TcpListener;
use std::path::Path;

use abide_pgtest::{Cluster, Options, psql};

use crate::eventually;

fn setting(cluster: &Cluster, name: &str) -> String {
    cluster.sql("postgres", &format!("SHOW {name}"))
}

#[test]
fn the_shared_cluster_is_quick_and_stays_in_its_folder() {
    let cluster = Cluster::shared();
    let expected = [
        ("fsync", "off"),
        ("full_page_writes", "off"),
        ("max_connections", "400"),
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", ""),
        ("server_encoding", "UTF8"),
        ("lc_collate", "C"),
    ];
    for (name, value) in expected {
        assert_eq!(setting(cluster, name), value, "{name}");
    }
    let data = cluster.folder().join("data");
    assert_eq!(Path::new(&setting(cluster, "data_directory")), data);
    assert!(std::ptr::eq(cluster, Cluster::shared()), "there is one for the whole process");
}

#[test]
fn options_are_obeyed_and_the_last_setting_wins() {
    let options = Options { fsync: true, ..Options::default() };
    let options = options.with("max_connections", "30").with("work_mem", "1MB").with("work_mem", "3MB");
    let cluster = Cluster::start(options.with("cluster_name", "it's mine"));
    for (name, value) in [
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("max_connections", "30"),
        ("work_mem", "3MB"),
        ("cluster_name", "it's mine"),
    ] {
        assert_eq!(setting(&cluster, name), value, "{name}");
    }
    cluster.set("work_mem", "5MB");
    assert_eq!(setting(&cluster, "work_mem"), "5MB");
}

#[test]
#[should_panic(expected = "needs a restart")]
fn a_setting_that_needs_a_restart_is_not_taken_silently() {
    Cluster::start(Options::default()).set("max_connections", "50");
}

#[test]
#[should_panic(expected = "unrecognized configuration parameter \"no_such_setting\"")]
fn a_cluster_that_does_not_start_says_why() {
    let _ = Cluster::start(Options::default().with("no_such_setting", "1"));
}

#[test]
fn what_was_committed_survives_a_crash_and_what_was_not_does_not() {
    let cluster = Cluster::start(Options::default());
    let database = cluster.database();
    database.sql("CREATE TABLE notes (text text); INSERT INTO notes VALUES ('kept')");
    let url = database.url();
    let open = "BEGIN; INSERT INTO notes VALUES ('lost'); SELECT pg_sleep(600); COMMIT";
    let session = std::thread::spawn(move || psql(&url, open));
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    eventually("the row is inserted", || cluster.sql("postgres", sleeping) == "1");

    cluster.kill();
    session.join().unwrap().expect_err("its server was killed");
    assert!(!cluster.is_running());
    let refused = psql(&database.url(), "SELECT 1").unwrap_err();
    assert!(refused.contains("Connection refused"), "{refused}");

    cluster.restart();
    assert_eq!(database.sql("SELECT text FROM notes"), "kept");
    assert!(cluster.log().contains("database system was not properly shut down"), "{}", cluster.log());
}

#[test]
fn a_cluster_that_was_stopped_comes_back_at_its_port() {
    let cluster = Cluster::start(Options::default());
    let database = cluster.database();
    database.sql("CREATE TABLE notes ()");
    let port = cluster.port();
    cluster.stop();
    assert!(!cluster.is_running());
    drop(TcpListener::bind(("127.0.0.1", port)).expect("nobody listens at the port of a stopped cluster"));
    cluster.restart();
    cluster.restart();
    assert_eq!(cluster.port(), port);
    assert_eq!(database.sql("SELECT to_regclass('notes')"), "notes");
    assert!(!cluster.log().contains("was not properly shut down"), "{}", cluster.log());
}

/// A drill may kill the server itself. Its sessions live on for a moment then, and must not keep it from starting.
#[test]
fn a_server_that_somebody_else_killed_can_be_restarted() {
    let cluster = Cluster::start(Options::default());
    let database = cluster.database();
    database.sql("CREATE TABLE notes ()");
    let pid = std::fs::read_to_string(cluster.folder().join("data/postmaster.pid")).unwrap();
    let pid = pid.lines().next().unwrap().to_owned();
    let killed = std::process::Command::new("sh").args(["-c", "kill -KILL \"$0\"", &pid]).status().unwrap();
    assert!(killed.success());
    eventually("the server is gone", || !cluster.is_running());
    cluster.restart();
    assert_eq!(database.sql("SELECT to_regclass('notes')"), "notes");
}

#[test]
fn a_cluster_lives_as_long_as_its_last_database_and_leaves_nothing() {
    let cluster = Cluster::start(Options::default());
    let (folder, port) = (cluster.folder().to_owned(), cluster.port());
    let segment = shared_memory(&folder);
    assert!(exists(&segment), "{segment} is not listed while the server runs");
    let database = cluster.database();
    drop(cluster);
    assert_eq!(database.sql("SELECT 1"), "1");
    drop(database);
    assert!(!folder.exists());
    assert!(!exists(&segment), "the server's shared memory {segment} was left in the kernel");
    drop(
        TcpListener::bind(("127.0.0.1", port)).expect("nobody listens at the port of a cluster that is gone"),
    );
}

/// The number of the segment of shared memory that the server of `folder` has taken from the kernel.
fn shared_memory(folder: &Path) -> String {
    let text = std::fs::read_to_string(folder.join("data/postmaster.pid")).unwrap();
    text.lines().nth(6).unwrap().split_whitespace().last().unwrap().to_owned()
}

fn exists(segment: &str) -> bool {
    let listing = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
    listing.lines().any(|line| line.split_whitespace().nth(1) == Some(segment))
}
