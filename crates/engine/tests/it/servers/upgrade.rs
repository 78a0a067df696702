//! Two versions side by side: what a newer server has written, this one leaves alone.

use abide_core::{Command, Drain, Head, Status};
use abide_engine::{Error, verify};
use abide_pgtest::Database;
use abide_store::{Commit, Lane, Store};

use super::Server;
use crate::support::within;

/// Pauses a run as a build would in which one event has a version more.
async fn pause_as_a_newer_one(server: &Server, database: &Database, key: abide_core::Key) -> Head {
    let (mut run, salt) = (
        server.engine.read(key, Clone::clone).await.unwrap(),
        server.store.load(key).await.unwrap().unwrap().salt.unwrap(),
    );
    let now = run.head().at;
    let mut step =
        run.decide(Command::Pause { reason: None, by: None, drain: Drain::Immediate }, now).unwrap();
    let mut before = step.base.chain;
    for record in &mut step.records {
        record.version += 1;
        record.chain = record.link(&before, Some(&salt)).unwrap();
        before = record.chain;
    }
    let (done, answer) = tokio::sync::oneshot::channel();
    let commit = Commit::of(&run, step);
    let newer = abide_store::Postgres::open(&abide_store::PostgresOptions::new(database.url())).unwrap();
    assert!(newer.submit(commit, Lane::Interactive, Box::new(|result| drop(done.send(result)))).is_ok());
    within("the newer server to commit", answer).await.unwrap().unwrap();
    newer.tip(key).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_newer_server_has_gone_on_with_is_left_to_it() {
    let database = Database::new();
    let server = Server::start(&database);
    let (theirs, ours) = (server.run_waiting(1_500).await, server.run_waiting(1_500).await);
    let tip = pause_as_a_newer_one(&server, &database, theirs).await;
    let read = server.engine.read(theirs, abide_core::Run::status).await;
    assert!(matches!(read, Err(Error::Newer { sequence, .. }) if sequence + 1 == tip.next), "{read:?}");
    let cancelled = server.engine.cancel(theirs, None, None).await;
    assert!(matches!(cancelled, Err(Error::Newer { .. })), "{cancelled:?}");
    assert_eq!(server.end_of(ours).await, Status::Completed, "the others are none the worse for it");
    // Its timer was due as well by now, and was left alone.
    assert_eq!(server.store.tip(theirs).await.unwrap(), Some(tip));
    assert_eq!(server.store.timers(None, i64::MAX, 10).await.unwrap().len(), 1);
    // Whoever checks the data with the older one is told to upgrade it.
    let report = verify::verify(&*server.store, |_| ()).await.unwrap();
    let said: Vec<String> = report.findings.iter().map(|finding| format!("{finding:?}")).collect();
    assert!(said.iter().all(|finding| finding.contains("upgrade")) && !said.is_empty(), "{said:?}");
}
