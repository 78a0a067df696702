//! A database that is lost, killed, promoted, or whose answer to a commit never arrives.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use abide_pgtest::{Cluster, Database, Options};
use abide_store::{Commit, Error, Postgres, PostgresOptions, Store};

use crate::engine::{Pending, commit, submit, words};
use crate::live::{Live, key};
use crate::workflow::waiting;

/// What happens to the next commit that passes.
const PASS: u8 = 0;
/// It reaches the database, and its answer is lost with the connection.
const LOSE_ANSWER: u8 = 1;
/// It is lost with the connection before it reaches the database.
const LOSE_COMMIT: u8 = 2;

/// A wire to a database that can be cut at the worst moment.
struct Wire {
    port: u16,
    fate: Arc<AtomicU8>,
}

impl Wire {
    fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let fate = Arc::new(AtomicU8::new(PASS));
        let fates = fate.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let fate = fates.clone();
                std::thread::spawn(move || carry(&client, target, &fate));
            }
        });
        Self { port, fate }
    }
}

/// Carries bytes both ways until one side ends, or fate strikes.
fn carry(client: &TcpStream, target: u16, fate: &AtomicU8) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { return };
    let (mut back_from, mut back_to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let cut = Arc::new(AtomicU8::new(0));
    let cut_back = cut.clone();
    let back = std::thread::spawn(move || {
        let mut bytes = [0; 65536];
        while let Ok(read @ 1..) = back_from.read(&mut bytes) {
            if cut_back.load(Ordering::SeqCst) != 0 {
                break;
            }
            if back_to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = back_to.shutdown(Shutdown::Both);
        let _ = back_from.shutdown(Shutdown::Both);
    });
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let mut bytes = [0; 65536];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        let is_commit = bytes[..read].windows(6).any(|word| word == b"COMMIT");
        let struck = if is_commit { fate.swap(PASS, Ordering::SeqCst) } else { PASS };
        if struck == LOSE_COMMIT {
            break;
        }
        if struck == LOSE_ANSWER {
            cut.store(1, Ordering::SeqCst);
        }
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
    let _ = back.join();
}

fn through(wire: &Wire, database: &Database) -> Postgres {
    let port = database.cluster().port().to_string();
    let url = database.url().replace(&format!(":{port}/"), &format!(":{}/", wire.port));
    Postgres::open(&PostgresOptions::new(url)).unwrap()
}

async fn start(store: &Postgres, n: u32) -> Live {
    let (live, created) = Live::start(key(n), &waiting());
    commit(store, created).await.unwrap();
    live
}

/// Waits for an answer, and asks again for what was not even tried because the database was away for so long.
async fn insist(store: &Postgres, asked: Commit, mut pending: Pending) {
    loop {
        match pending.answer().await {
            Ok(()) => return,
            Err(Error::Unavailable(_)) => pending = submit(store, asked.clone()),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The worst moment: it was kept, and nobody was told. Whoever waits hears that it was, and it is there once.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_found_and_acknowledged_once() {
    let database = Database::new();
    let wire = Wire::to(database.cluster().port());
    let store = through(&wire, &database);
    for n in 1..=5 {
        let mut live = start(&store, n).await;
        wire.fate.store(LOSE_ANSWER, Ordering::SeqCst);
        commit(&store, live.pause()).await.expect("it was kept, so that is the answer");
        assert_eq!(wire.fate.load(Ordering::SeqCst), PASS, "the answer was lost indeed");
        assert_eq!(store.tip(key(n)).await.unwrap().unwrap().next, live.run.head().next);
        assert_eq!(store.journal(key(n), 0, 100).await.unwrap().len() as u64, live.run.head().next);
        commit(&store, live.resume()).await.expect("it goes on from there");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_never_arrived_is_written_again() {
    let database = Database::new();
    let wire = Wire::to(database.cluster().port());
    let store = through(&wire, &database);
    for n in 1..=5 {
        let mut live = start(&store, n).await;
        wire.fate.store(LOSE_COMMIT, Ordering::SeqCst);
        commit(&store, live.pause()).await.unwrap();
        assert_eq!(wire.fate.load(Ordering::SeqCst), PASS, "the commit was lost indeed");
        assert_eq!(store.journal(key(n), 0, 100).await.unwrap().len() as u64, live.run.head().next);
    }
}

/// While the answer is looked for, another server goes on with the run. The commit was kept all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_acknowledged_even_if_another_server_goes_on_from_it() {
    let database = Database::new();
    let wire = Wire::to(database.cluster().port());
    let (store, other) =
        (through(&wire, &database), through(&Wire::to(database.cluster().port()), &database));
    let mut live = start(&store, 1).await;
    let paused = live.pause();
    wire.fate.store(LOSE_ANSWER, Ordering::SeqCst);
    let pending = submit(&store, paused);
    let resumed = live.resume();
    while commit(&other, resumed.clone()).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(words(vec![pending]).await, ["ok"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_ended_are_made_again_and_nothing_is_lost() {
    let database = Database::new();
    let store = Postgres::open(&PostgresOptions::new(database.url())).unwrap();
    let mut lives = Vec::new();
    for n in 1..=10 {
        lives.push(start(&store, n).await);
    }
    for round in 0..6_u64 {
        let change = |live: &mut Live| if round % 2 == 0 { live.pause() } else { live.resume() };
        let pending = lives.iter_mut().map(|live| submit(&store, change(live))).collect();
        database.cluster().sql(
            database.name(),
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        );
        assert!(words(pending).await.iter().all(|word| *word == "ok"));
        for live in &lives {
            assert_eq!(store.tip(live.key()).await.unwrap().unwrap().next, live.run.head().next);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_crashes_and_comes_back_has_all_that_was_acknowledged() {
    let cluster = Cluster::start(Options::default());
    let database = cluster.database();
    let store = Postgres::open(&PostgresOptions::new(database.url())).unwrap();
    let mut live = start(&store, 1).await;
    cluster.kill();
    let paused = live.pause();
    let pending = submit(&store, paused.clone());
    cluster.restart();
    insist(&store, paused, pending).await;
    assert_eq!(store.tip(key(1)).await.unwrap().unwrap().next, live.run.head().next);
}

/// A standby that is promoted has what was acknowledged, if the primary waited for it; the servers find it by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_is_promoted_takes_over() {
    let primary = Cluster::start(Options::default());
    let standby = Cluster::start(Options { standby_of: Some(&primary), ..Options::default() });
    primary.synchronize_with(&standby);
    let database = primary.database();
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", primary.port(), standby.port());
    let url = database.url().replace(&format!("127.0.0.1:{}", primary.port()), &hosts);
    let store =
        Postgres::open(&PostgresOptions::new(format!("{url}?target_session_attrs=read-write"))).unwrap();
    let mut live = start(&store, 1).await;
    primary.kill();
    let paused = live.pause();
    let pending = submit(&store, paused.clone());
    standby.promote();
    insist(&store, paused, pending).await;
    assert_eq!(store.journal(key(1), 0, 100).await.unwrap().len() as u64, live.run.head().next);
}
