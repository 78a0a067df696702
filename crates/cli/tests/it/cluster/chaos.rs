//! Somebody who makes trouble for a while.

use std::time::{Duration, Instant};

use abide_pgtest::Cluster;
use rustix::process::Signal;

use super::fleet::Fleet;
use crate::crash::Dice;

/// What the trouble is.
pub(super) enum Chaos {
    /// Servers are killed, stopped in an orderly way, and paused, one at a time, for longer than their lease now and then.
    Servers,
    /// The same, and in the middle the database's server is killed and its standby is promoted.
    Database(Cluster, Cluster),
}

impl Chaos {
    /// Makes trouble, and tells how much.
    pub(super) async fn make_trouble(&self, fleet: &Fleet, mut dice: Dice, until: Instant) -> String {
        let (mut kills, mut pauses, mut stops, mut promoted) = (0, 0, 0, false);
        let begun = Instant::now();
        let middle = begun + (until - begun) / 2;
        while Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(300 + dice.below(700))).await;
            if let Self::Database(primary, standby) = self
                && !promoted
                && Instant::now() > middle
            {
                tokio::task::block_in_place(|| {
                    primary.kill();
                    standby.promote();
                });
                promoted = true;
                continue;
            }
            let at = dice.below(fleet.size() as u64) as usize;
            match dice.below(5) {
                0 | 1 => {
                    kills += 1;
                    fleet.kill(at);
                    tokio::time::sleep(Duration::from_millis(dice.below(1_500))).await;
                }
                2 => {
                    stops += 1;
                    tokio::task::block_in_place(|| fleet.stop(at));
                }
                _ => {
                    pauses += 1;
                    fleet.signal(at, Signal::STOP);
                    // Its lease is ten seconds long.
                    let long = if dice.one_in(4) { 11_000 } else { dice.below(3_000) };
                    tokio::time::sleep(Duration::from_millis(long)).await;
                    fleet.signal(at, Signal::CONT);
                }
            }
            tokio::task::block_in_place(|| fleet.raise(at));
        }
        let database = if promoted { ", a standby promoted" } else { "" };
        format!("{kills} kills, {pauses} pauses, {stops} stops{database}")
    }
}
