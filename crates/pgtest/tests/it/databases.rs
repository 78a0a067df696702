//! Databases of the shared cluster: fresh, copied, dropped.

use abide_pgtest::{Cluster, Database, psql};

use crate::eventually;

#[test]
fn a_database_is_empty_and_belongs_to_an_ordinary_user() {
    let database = Database::new();
    assert_eq!(database.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0");
    let who = "SELECT current_user, rolsuper, rolcreatedb FROM pg_roles WHERE rolname = current_user";
    assert_eq!(database.sql(who), "abide|f|f");
    database.sql("CREATE TABLE notes (text text); INSERT INTO notes VALUES ('naïve')");
    assert_eq!(database.sql("SELECT length(text) FROM notes"), "5");
}

#[test]
fn two_databases_know_nothing_of_each_other() {
    let (one, other) = (Database::new(), Database::new());
    assert_ne!(one.url(), other.url());
    one.sql("CREATE TABLE notes ()");
    assert_eq!(other.sql("SELECT to_regclass('notes') IS NULL"), "t");
}

#[test]
fn a_database_vanishes_with_its_value_though_somebody_is_connected() {
    let database = Database::new();
    let (name, url) = (database.name().to_owned(), database.url());
    let there = format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'");
    assert_eq!(Cluster::shared().sql("postgres", &there), "1");
    let somebody = std::thread::spawn(move || psql(&url, "SELECT pg_sleep(600)"));
    wait_for_session(&name);
    drop(database);
    assert_eq!(Cluster::shared().sql("postgres", &there), "0");
    somebody.join().unwrap().expect_err("a session of a dropped database was thrown out");
}

#[test]
fn a_copy_has_what_its_template_had() {
    let template = Database::new();
    template.sql("CREATE TABLE notes AS SELECT generate_series(1, 3) AS number");
    let (name, url) = (template.name().to_owned(), template.url());
    let somebody = std::thread::spawn(move || psql(&url, "SELECT pg_sleep(600)"));
    wait_for_session(&name);
    template.mark_as_template();
    somebody.join().unwrap().expect_err("nobody may be connected to a template");
    psql(&template.url(), "SELECT 1").expect_err("a template takes no connections");

    let (one, other) = (Cluster::shared().database_from(&name), Cluster::shared().database_from(&name));
    one.sql("DELETE FROM notes WHERE number = 2");
    assert_eq!(one.sql("SELECT sum(number) FROM notes"), "4");
    assert_eq!(other.sql("SELECT sum(number) FROM notes"), "6");

    drop(template);
    let there = format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'");
    assert_eq!(Cluster::shared().sql("postgres", &there), "0");
}

#[test]
fn a_wrong_password_is_refused() {
    let database = Database::new();
    let url = database.url();
    assert!(url.starts_with("postgres://abide:secret@127.0.0.1:"), "{url}");
    let error = psql(&url.replace("secret", "guess"), "SELECT 1").unwrap_err();
    assert!(error.contains("password authentication failed"), "{error}");
}

#[test]
fn many_databases_are_made_at_once() {
    let makers: Vec<_> = (0..8).map(|_| std::thread::spawn(|| Database::new().sql("SELECT 1"))).collect();
    for maker in makers {
        assert_eq!(maker.join().unwrap(), "1");
    }
}

#[test]
fn more_sql_and_more_rows_than_a_pipe_holds_go_through() {
    let database = Database::new();
    let answer = database.sql(&"SELECT repeat('x', 10000);\n".repeat(200));
    assert_eq!(answer.lines().count(), 200);
}

fn wait_for_session(database: &str) {
    let sql =
        format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND state = 'active'");
    eventually("the session runs", || Cluster::shared().sql("postgres", &sql) == "1");
}
