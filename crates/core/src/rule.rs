//! Trigger rules: whether a node runs, given how the edges that lead to it turned out.

use serde::{Deserialize, Serialize};

/// How many of an edge's kind turned out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The source completed and the condition held.
    pub success: u32,
    /// The source failed and the condition held.
    pub failed: u32,
    /// The source was skipped, or the condition did not hold.
    pub skipped: u32,
}

/// How one edge turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The source completed and the condition held.
    Success,
    /// The source failed and the condition held.
    Failed,
    /// The source was skipped, or the condition did not hold: nothing came this way.
    Skipped,
}

/// When a node runs. Edges of one node that name different rules must all be satisfied, each rule by its own edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Every edge succeeded.
    AllSuccess,
    /// At least one succeeded; the others are not waited for.
    AnySuccess,
    /// Every edge is settled, however, and something came this way.
    AllComplete,
    /// Every edge is settled, none failed, and something came this way.
    NoneFailed,
    /// At least one failed; the others are not waited for.
    AnyFailed,
}

/// What follows from a tally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The node runs.
    Run,
    /// The node never runs.
    Skip,
    /// It can't be said yet.
    Wait,
}

impl Rule {
    /// Every rule with its name in definitions.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::AllSuccess, "all_success"),
        (Self::AnySuccess, "any_success"),
        (Self::AllComplete, "all_complete"),
        (Self::NoneFailed, "none_failed"),
        (Self::AnyFailed, "any_failed"),
    ];

    /// The rule with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(rule, _)| *rule)
    }

    /// What the rule says of `tally`, out of `total` edges. It never changes its mind: once it says run or skip,
    /// edges that settle later say the same.
    pub fn verdict(self, total: u32, tally: Tally) -> Verdict {
        let Tally { success, failed, skipped } = tally;
        let settled = success + failed + skipped == total;
        match self {
            Self::AllSuccess if failed + skipped > 0 => Verdict::Skip,
            Self::NoneFailed if failed > 0 => Verdict::Skip,
            Self::AnySuccess if success > 0 => Verdict::Run,
            Self::AnyFailed if failed > 0 => Verdict::Run,
            _ if !settled => Verdict::Wait,
            Self::AllSuccess => Verdict::Run,
            Self::AllComplete | Self::NoneFailed if success + failed > 0 => Verdict::Run,
            _ => Verdict::Skip,
        }
    }

    /// Whether a node with this rule can take over from a source that failed. If no edge of a failed node can,
    /// its run fails.
    pub fn takes_failures(self) -> bool {
        matches!(self, Self::AnySuccess | Self::AllComplete | Self::AnyFailed)
    }
}

impl Tally {
    /// Counts one more edge.
    pub fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Success => self.success += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Skipped => self.skipped += 1,
        }
    }
}

/// A tally in a snapshot: three numbers.
impl Serialize for Tally {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.success, self.failed, self.skipped).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Tally {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (success, failed, skipped) = Deserialize::deserialize(from)?;
        Ok(Self { success, failed, skipped })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every tally of up to four edges, settled or not.
    fn tallies(total: u32) -> impl Iterator<Item = Tally> {
        let up_to = 0..=total;
        up_to.clone().flat_map(move |success| {
            (0..=total - success).flat_map(move |failed| {
                (0..=total - success - failed).map(move |skipped| Tally { success, failed, skipped })
            })
        })
    }

    #[test]
    fn a_verdict_stands_once_it_is_given() {
        for (rule, name) in Rule::ALL {
            for total in 1..=4 {
                for tally in tallies(total) {
                    let verdict = rule.verdict(total, tally);
                    let settled = tally.success + tally.failed + tally.skipped;
                    if settled == total {
                        assert_ne!(verdict, Verdict::Wait, "{name} must decide: {tally:?}");
                        continue;
                    }
                    for outcome in [Outcome::Success, Outcome::Failed, Outcome::Skipped] {
                        let mut later = tally;
                        later.add(outcome);
                        let then = rule.verdict(total, later);
                        assert!(verdict == Verdict::Wait || verdict == then, "{name}: {tally:?} {later:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_rules_say_what_their_names_say() {
        let of = |rule: Rule, success, failed, skipped| rule.verdict(3, Tally { success, failed, skipped });
        assert_eq!(of(Rule::AllSuccess, 3, 0, 0), Verdict::Run);
        assert_eq!(of(Rule::AllSuccess, 2, 0, 0), Verdict::Wait);
        assert_eq!(of(Rule::AllSuccess, 0, 0, 1), Verdict::Skip);
        assert_eq!(of(Rule::AnySuccess, 1, 0, 0), Verdict::Run);
        assert_eq!(of(Rule::AnySuccess, 0, 2, 1), Verdict::Skip);
        assert_eq!(of(Rule::AllComplete, 0, 1, 2), Verdict::Run);
        assert_eq!(of(Rule::AllComplete, 1, 1, 0), Verdict::Wait);
        assert_eq!(of(Rule::AllComplete, 0, 0, 3), Verdict::Skip, "nothing came this way");
        assert_eq!(of(Rule::NoneFailed, 1, 0, 2), Verdict::Run);
        assert_eq!(of(Rule::NoneFailed, 0, 1, 0), Verdict::Skip);
        assert_eq!(of(Rule::NoneFailed, 0, 0, 3), Verdict::Skip, "nothing came this way");
        assert_eq!(of(Rule::AnyFailed, 0, 1, 0), Verdict::Run);
        assert_eq!(of(Rule::AnyFailed, 3, 0, 0), Verdict::Skip);
    }
}
