//! What clients were told, and whether that can be true.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

/// One thing that a client was told, or saw.
#[derive(Clone, Debug)]
pub(super) enum Told {
    /// A start under an idempotency key was answered with this run.
    Started { key: String, run: String },
    /// An answer was taken.
    Won { run: String, value: u64 },
    /// An answer came too late.
    Lost,
    /// A subscriber saw this run from its beginning to its end, with these sequences.
    Followed { run: String, sequences: Vec<u64> },
    /// A run that naps was started.
    Napped { run: String },
}

/// What clients were told so far.
#[derive(Clone, Default)]
pub(super) struct History(Arc<Mutex<Vec<Told>>>);

impl History {
    pub(super) fn note(&self, told: Told) {
        self.0.lock().unwrap().push(told);
    }

    pub(super) fn take(&self) -> Vec<Told> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// What a run's journal says at the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) completed: bool,
    pub(super) sequences: Vec<u64>,
    /// The values of all resolutions.
    pub(super) resolutions: Vec<u64>,
    /// What the node that came after got.
    pub(super) kept: Option<u64>,
    /// How long each nap was, and how long it should have been.
    pub(super) naps: Vec<(i64, i64)>,
}

/// How much was checked.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) races: u64,
    pub(super) naps: u64,
    followed: u64,
    answers: u64,
}

impl Summary {
    pub(super) fn runs(&self) -> u64 {
        self.races + self.naps
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { races, naps, followed, answers } = self;
        write!(to, "{races} races with {answers} answers, {followed} followed to their end, {naps} naps")
    }
}

/// Holds what clients were told against the journals. It panics at the first thing that can't be.
pub(super) fn check(history: &[Told], seen: &BTreeMap<String, Seen>) -> Summary {
    let mut summary = Summary::default();
    let mut by_key: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut winners: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for told in history {
        match told {
            Told::Started { key, run } => {
                by_key.entry(key).or_default().insert(run);
                winners.entry(run).or_default();
            }
            Told::Won { run, value } => {
                summary.answers += 1;
                winners.entry(run).or_default().push(*value);
            }
            Told::Lost => summary.answers += 1,
            Told::Followed { run, sequences } => {
                summary.followed += 1;
                assert_eq!(
                    *sequences, seen[run].sequences,
                    "a subscriber of {run} saw other events than happened"
                );
            }
            Told::Napped { run } => {
                summary.naps += 1;
                let nap = &seen[run];
                assert!(nap.completed && nap.naps.len() == 1, "{run} woke up once: {nap:?}");
                for (slept, wanted) in &nap.naps {
                    assert!(slept >= wanted, "{run} slept {slept} ms of {wanted}");
                }
            }
        }
    }
    for (key, runs) in by_key {
        assert_eq!(runs.len(), 1, "the key {key} gave more than one run: {runs:?}");
    }
    for (run, values) in winners {
        summary.races += 1;
        assert_eq!(values.len(), 1, "{run} was won by {values:?}");
        let race = seen.get(run).unwrap_or_else(|| panic!("{run} was acknowledged, and is not there"));
        assert!(race.completed, "{run} goes on for ever");
        assert_eq!(
            (&race.resolutions, race.kept),
            (&values, Some(values[0])),
            "what won in {run} is what counts"
        );
    }
    summary
}

mod tests {
    use super::*;

    fn run() -> String {
        "run-1".to_owned()
    }

    /// A history without fault.
    fn fine() -> (Vec<Told>, BTreeMap<String, Seen>) {
        let history = vec![
            Told::Started { key: "k".to_owned(), run: run() },
            Told::Started { key: "k".to_owned(), run: run() },
            Told::Won { run: run(), value: 3 },
            Told::Lost,
            Told::Followed { run: run(), sequences: vec![0, 1, 2] },
            Told::Napped { run: "run-2".to_owned() },
        ];
        let race = Seen {
            completed: true,
            sequences: vec![0, 1, 2],
            resolutions: vec![3],
            kept: Some(3),
            naps: vec![],
        };
        let nap = Seen { completed: true, naps: vec![(1500, 1500)], ..Seen::default() };
        (history, BTreeMap::from([(run(), race), ("run-2".to_owned(), nap)]))
    }

    /// What makes a fault.
    type Breaking = dyn Fn(&mut Vec<Told>, &mut BTreeMap<String, Seen>);

    /// The checker must find each of these, or it proves nothing.
    #[test]
    fn the_checker_finds_what_cant_be() {
        let (history, seen) = fine();
        assert_eq!(check(&history, &seen).runs(), 2);
        let broken = |break_it: &Breaking| {
            let (mut history, mut seen) = fine();
            break_it(&mut history, &mut seen);
            std::panic::catch_unwind(|| check(&history, &seen)).is_err()
        };
        assert!(broken(&|history, _| history.push(Told::Won { run: run(), value: 4 })), "two winners");
        assert!(broken(&|history, _| drop(history.remove(2))), "no winner");
        assert!(broken(&|_, seen| drop(seen.remove("run-1"))), "a lost run");
        assert!(broken(&|_, seen| seen.get_mut("run-1").unwrap().kept = Some(4)), "another value counts");
        assert!(broken(&|_, seen| seen.get_mut("run-1").unwrap().resolutions.push(3)), "it was taken twice");
        assert!(
            broken(&|_, seen| seen.get_mut("run-1").unwrap().sequences.push(3)),
            "a subscriber missed one"
        );
        assert!(broken(&|_, seen| seen.get_mut("run-1").unwrap().completed = false), "a silent hang");
        assert!(broken(&|_, seen| seen.get_mut("run-2").unwrap().naps[0].0 = 1499), "a timer fired early");
        assert!(
            broken(&|_, seen| seen.get_mut("run-2").unwrap().naps.push((1500, 1500))),
            "a timer fired twice"
        );
        let second = || Told::Started { key: "k".to_owned(), run: "run-9".to_owned() };
        assert!(broken(&move |history, _| history.push(second())), "one key, two runs");
    }
}
