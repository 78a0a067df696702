//! A standby that follows a primary, and takes its place.

use abide_pgtest::{Cluster, Options, psql};

use crate::eventually;

fn standby_of(primary: &Cluster) -> Cluster {
    Cluster::start(Options { standby_of: Some(primary), ..Options::default() })
}

#[test]
fn a_promoted_standby_has_what_was_committed_synchronously() {
    let primary = Cluster::start(Options::default());
    let database = primary.database();
    let standby = standby_of(&primary);
    primary.synchronize_with(&standby);
    for number in 1..=20 {
        let row = if number == 1 { "CREATE TABLE notes (number int);" } else { "" };
        database.sql(&format!("{row} INSERT INTO notes VALUES ({number})"));
    }
    let copy = standby.url(database.name());
    psql(&copy, "CREATE TABLE more ()").expect_err("a standby takes no writes");

    primary.kill();
    standby.promote();
    assert_eq!(psql(&copy, "SELECT count(*), max(number) FROM notes").unwrap(), "20|20");
    // Nobody follows the new primary, so it must not wait for anybody.
    psql(&copy, "INSERT INTO notes VALUES (21)").unwrap();
}

#[test]
fn commits_wait_for_a_synchronous_standby_that_is_down() {
    let primary = Cluster::start(Options::default());
    let database = primary.database();
    database.sql("CREATE TABLE notes (number int)");
    let standby = standby_of(&primary);
    primary.synchronize_with(&standby);
    standby.kill();
    // What the cluster does for its own purposes waits for nobody.
    drop(primary.database());

    let url = database.url();
    let commit = std::thread::spawn(move || psql(&url, "INSERT INTO notes VALUES (1)"));
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    eventually("the commit waits", || {
        assert!(!commit.is_finished(), "the commit did not wait for the standby");
        primary.sql("postgres", waiting) == "1"
    });
    standby.restart();
    commit.join().unwrap().unwrap();
    standby.promote();
    assert_eq!(psql(&standby.url(database.name()), "SELECT number FROM notes").unwrap(), "1");
}

#[test]
fn commits_go_on_without_the_standby_when_told_so() {
    let primary = Cluster::start(Options::default());
    let database = primary.database();
    let standby = standby_of(&primary);
    primary.synchronize_with(&standby);
    standby.stop();
    let url = database.url();
    let commit = std::thread::spawn(move || psql(&url, "CREATE TABLE notes ()"));
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    eventually("the commit waits", || primary.sql("postgres", waiting) == "1");
    primary.set("synchronous_standby_names", "");
    commit.join().unwrap().unwrap();
    assert_eq!(database.sql("SELECT to_regclass('notes')"), "notes");
}

/// A primary may also be synchronous from its first moment on.
#[test]
fn a_primary_that_waits_from_the_start_can_be_given_its_standby() {
    let primary = Cluster::start(Options::default().with("synchronous_standby_names", "*"));
    let database = primary.database();
    let standby = standby_of(&primary);
    database.sql("CREATE TABLE notes ()");
    primary.kill();
    standby.promote();
    let copy = standby.url(database.name());
    assert_eq!(psql(&copy, "CREATE TABLE more (); SELECT to_regclass('notes')").unwrap(), "notes");
}
