//! Random votes, held against a count that is made anew each time. The story folds every journal a second time, and reads
//! every state back, so that each vote is followed by a crash.

use std::collections::BTreeMap;

use abide_core::{Answerer, Rejection, Status};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::story::Story;
use super::workflow::workflow;
use super::*;

const GROUPS: [&str; 3] = ["finance", "legal", "press"];

/// A gate that takes several people, who they are, and how they vote.
#[derive(Clone, Debug)]
struct Plan {
    required: u32,
    majority: bool,
    across: usize,
    /// The groups of each voter, as bits.
    voters: [u8; 5],
    votes: Vec<(usize, usize)>,
}

fn plans() -> impl Strategy<Value = Plan> {
    let votes = proptest::collection::vec((0..5usize, 0..4usize), 0..14);
    (2..5u32, any::<bool>(), 0..4usize, [0..8u8, 0..8, 0..8, 0..8, 0..8], votes).prop_map(
        |(required, majority, across, voters, votes)| Plan { required, majority, across, voters, votes },
    )
}

impl Plan {
    fn begin(&self) -> Story {
        let policy = if self.majority { "majority" } else { "single-veto" };
        let gate = gate_on_draft().config("requiredApprovals", json!(self.required));
        let mut gate = gate.config("rejectionPolicy", json!(policy));
        if self.across > 0 {
            gate = gate.setting("approval", json!({ "acrossGroups": GROUPS[..self.across] }));
        }
        Story::of(&workflow([draft(), gate]).flow("draft > gate")).start()
    }

    fn voter(&self, which: usize) -> Answerer {
        let groups = GROUPS.iter().enumerate().filter(|(bit, _)| self.voters[which] & 1 << bit != 0);
        let groups = groups.map(|(_, group)| (*group).to_owned()).collect();
        Answerer { groups, ..Answerer::of(&format!("v{which}")) }
    }

    /// How the run stands after these votes, counted by trying everything.
    fn expected(&self, cast: &BTreeMap<usize, bool>) -> Status {
        let required = self.required.max(self.across as u32);
        let vetoes = if self.majority { required / 2 + 1 } else { 1 };
        let accepts: Vec<usize> =
            cast.iter().filter(|(_, accepts)| **accepts).map(|(voter, _)| *voter).collect();
        if (cast.len() - accepts.len()) as u32 >= vetoes {
            Status::Failed
        } else if accepts.len() as u32 >= required && self.speak(0, &accepts) {
            Status::Completed
        } else {
            Status::WaitingApproval
        }
    }

    /// Whether each group from this one on finds a voter of its own.
    fn speak(&self, group: usize, left: &[usize]) -> bool {
        group >= self.across
            || left.iter().any(|voter| {
                let others: Vec<usize> = left.iter().copied().filter(|other| other != voter).collect();
                self.voters[*voter] & 1 << group != 0 && self.speak(group + 1, &others)
            })
    }
}

fn value(action: usize) -> (Value, bool) {
    match action {
        0 | 1 => (act("accept"), true),
        2 => (act("reject"), false),
        _ => (json!({ "action": "refine", "refineFeedback": { "scope": "whole", "tags": ["t"] } }), false),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_gate_closes_exactly_when_the_votes_are_enough(plan in plans()) {
        let mut story = plan.begin();
        let id = story.run().interrupt_of("gate").expect("it asks");
        let mut cast = BTreeMap::new();
        for (voter, action) in &plan.votes {
            let (value, accepts) = value(*action);
            let closed = story.run().interrupt(id).is_none();
            story = answer_as(story, plan.voter(*voter), &value);
            if closed {
                prop_assert_eq!(story.last_rejection(), &Rejection::AlreadyResolved);
                continue;
            }
            cast.insert(*voter, accepts);
            prop_assert_eq!(story.run().status(), plan.expected(&cast), "{:?}", cast);
        }
        let ends = story.history().iter().filter(|line| line.starts_with("approval.received")).count();
        prop_assert_eq!(ends, usize::from(story.run().interrupt(id).is_none()));
    }
}
