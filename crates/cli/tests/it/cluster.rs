//! Several servers on one PostgreSQL while they are killed, paused and restarted, with clocks an hour apart.
//!
//! Clients send each command to a server of their choice and write down what they were told. At the end a checker holds
//! that history, and what subscribers saw, against the journals. `ABIDE_CLUSTER_SECONDS` sets for how long it goes on, for a
//! big run by hand; `ABIDE_CRASH_SEED` repeats the choices.

mod chaos;
mod fleet;
mod forwarded;
mod history;
mod spread;
mod work;
mod workers;

use std::time::Duration;

use abide_pgtest::{Cluster, Options};
use serde_json::json;
use tokio::task::JoinSet;

use crate::crash::{Dice, from_environment, seed};
use chaos::Chaos;
use fleet::Fleet;
use history::History;

/// For how long commands are sent in one go of the test.
const SECONDS: u64 = 20;

fn seconds() -> Duration {
    Duration::from_secs(from_environment("ABIDE_CLUSTER_SECONDS").unwrap_or(SECONDS))
}

/// Sends commands to a fleet while somebody makes trouble, and checks what came of it.
async fn drill(fleet: &Fleet, chaos: &Chaos, seed: u64) -> String {
    let history = History::default();
    let mut dice = Dice::new(seed);
    let mut clients = JoinSet::new();
    let until = std::time::Instant::now() + seconds();
    for number in 0..6 {
        let client = work::Client::new(fleet, &history, dice.fork(), number);
        clients.spawn(async move {
            while std::time::Instant::now() < until {
                client.race().await;
            }
        });
    }
    for number in 6..8 {
        let client = work::Client::new(fleet, &history, dice.fork(), number);
        clients.spawn(async move {
            while std::time::Instant::now() < until {
                client.nap().await;
            }
        });
    }
    let troubled = chaos.make_trouble(fleet, dice.fork(), until).await;
    fleet.all_up().await;
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
    let told = history.take();
    let seen = work::look(fleet, &told, dice.fork()).await;
    let summary = history::check(&told, &seen);
    assert!(summary.races > 5 && summary.naps > 2, "the drill was dull: {summary}");
    fleet.verify(summary.runs());
    format!("{summary}, {troubled}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_that_are_killed_and_paused_have_one_winner_each_time_and_lose_nothing() {
    let seed = seed();
    println!("ABIDE_CRASH_SEED={seed} ABIDE_CLUSTER_SECONDS={}", seconds().as_secs());
    let fleet = Fleet::start(Cluster::shared().database(), None, &["", "+1h", "-1h"]).await;
    println!("{}", drill(&fleet, &Chaos::Servers, seed).await);
    let status = fleet.get("/v1/cluster").await;
    let ahead = |server: &serde_json::Value| server["clockAheadMs"].as_i64().unwrap().abs() > 3_000_000;
    let servers = status["servers"].as_array().unwrap();
    assert!(servers.iter().any(ahead), "the clocks were an hour apart: {status:#}");
    assert_eq!(status["alone"], json!(false));
}

/// The same, and in the middle the database's server is killed and its standby takes its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_is_promoted_in_the_middle_has_all_that_was_acknowledged() {
    let seed = seed();
    println!("ABIDE_CRASH_SEED={seed} ABIDE_CLUSTER_SECONDS={}", seconds().as_secs());
    let primary = Cluster::start(Options::default());
    let standby = Cluster::start(Options { standby_of: Some(&primary), ..Options::default() });
    primary.synchronize_with(&standby);
    let fleet = Fleet::start(primary.database(), Some(&standby), &["", "", ""]).await;
    println!("{}", drill(&fleet, &Chaos::Database(primary, standby), seed).await);
}
