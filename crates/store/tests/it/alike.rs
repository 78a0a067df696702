//! The same random commits to every engine: the same answers, the same journals, the same rows beside them.

use std::collections::BTreeMap;

use abide_core::{Key, Record};
use abide_store::{Commit, Expected, Store};

use crate::engine::{engines, submit, words};
use crate::live::key;
use crate::world::{Dice, World};

/// How many lives are lived, each with a seed of its own.
fn seeds() -> u64 {
    std::env::var("ABIDE_ALIKE_SEEDS")
        .map_or(6, |seeds| seeds.parse().expect("ABIDE_ALIKE_SEEDS is a number"))
}

/// A life with its troubles: a commit that comes twice, one that comes too late, one without the lease.
fn troubled(seed: u64) -> Vec<Vec<Commit>> {
    let (mut world, mut dice) = (World::new(seed), Dice(seed ^ 0x5ca1_ab1e));
    world.boot = 1;
    let mut batches = Vec::new();
    let mut earlier: Vec<Commit> = Vec::new();
    for _ in 0..40 {
        let mut batch = Vec::new();
        for _ in 0..=dice.below(8) {
            let commit = world.next_commit();
            if dice.one_in(6) {
                batch.push(commit.clone());
            }
            batch.push(commit.clone());
            if !earlier.is_empty() && dice.one_in(5) {
                batch.push(earlier[dice.below(earlier.len())].clone());
            }
            earlier.push(commit);
        }
        batches.push(batch);
    }
    batches
}

/// Everything that a store tells of the runs in it.
#[derive(Debug, PartialEq)]
struct Told {
    answers: Vec<Vec<&'static str>>,
    journals: BTreeMap<Key, Vec<Record>>,
    beside: Vec<String>,
    timers: String,
    outbox: String,
    totals: String,
}

async fn tell(store: &dyn Store, life: &[Vec<Commit>]) -> Told {
    let mut answers = Vec::new();
    for batch in life {
        let pending = batch.iter().map(|commit| submit(store, commit.clone())).collect();
        answers.push(words(pending).await);
    }
    let mut told = Told {
        answers,
        journals: BTreeMap::new(),
        beside: Vec::new(),
        timers: format!("{:?}", store.timers(None, i64::MAX, 10_000).await.unwrap()),
        outbox: format!("{:?}", store.outbox(None, 10_000).await.unwrap()),
        totals: format!("{:?}", store.totals().await.unwrap()),
    };
    for (run, listed) in store.scan(None, 10_000).await.unwrap() {
        told.journals.insert(run, store.journal(run, 0, usize::MAX).await.unwrap());
        let loaded = store.load(run).await.unwrap().unwrap();
        let beside = store.beside(run, Expected::default()).await.unwrap();
        told.beside.push(format!("{listed:?} {:?} {:?} {beside:?}", loaded.head, loaded.snapshot));
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_commits_have_the_same_outcome_on_every_engine() {
    for seed in 1..=seeds() {
        let life = troubled(seed);
        let mut told: Vec<Told> = Vec::new();
        for engine in engines() {
            told.push(tell(&*engine.open(), &life).await);
        }
        let refused = told[0].answers.iter().flatten().filter(|word| **word != "ok").count();
        assert!(refused > 20 && told[0].journals.len() > 10, "the lives of seed {seed} are dull");
        assert!(told[0].journals.contains_key(&key(1)));
        for other in &told[1..] {
            assert_eq!(*other, told[0], "seed {seed}");
        }
    }
}
