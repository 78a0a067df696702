//! Approvals that take more than one person: their votes, and when those are enough.
//!
//! Nobody's identity is judged here: who may vote was checked before, and what entitled them stands in the vote.

use serde::{Deserialize, Serialize};

use super::answer::{Action, Decision};
use super::{InterruptKind, Open};
use crate::event::{ApprovalVoted, InterruptRequested};
use crate::moment::rfc3339;
use crate::{Headway, Json, JsonMap, Millis};

/// One person's vote. A later one of theirs takes its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vote {
    /// Who.
    pub by: String,
    /// For what.
    pub action: Action,
    /// When.
    pub at: Millis,
    /// What they said, or what is to be made better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What entitled them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qualified_by: Vec<String>,
}

/// When an approval that takes several people is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// Accepts that are needed.
    pub required: u32,
    /// Rejections that close it.
    pub vetoes: u32,
    /// Groups of which somebody has to accept, each somebody else.
    pub across: Vec<String>,
}

/// How the votes stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// More votes are needed.
    Open,
    /// Enough accepted.
    Accepted,
    /// Enough did not.
    Rejected,
}

/// How far an approval has come that takes several people.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress<'a> {
    /// People who accept.
    pub approvals: u32,
    /// People who don't.
    pub rejections: u32,
    /// How many have to accept.
    pub required: u32,
    /// How many rejections close it.
    pub vetoes: u32,
    /// Groups of which somebody has yet to accept.
    pub missing: Vec<&'a str>,
    /// The votes, oldest first.
    pub votes: &'a [Vote],
}

impl Quorum {
    /// The quorum of a question, unless one decision closes it.
    pub fn of(requested: &InterruptRequested) -> Option<Self> {
        if requested.kind != InterruptKind::Approval {
            return None;
        }
        let data: JsonMap = requested.data.parse().unwrap_or_default();
        let asked = data.get("requiredApprovals").and_then(|count| count.parse::<u32>().ok()).unwrap_or(1);
        let across = requested.rules.as_ref().map(|rules| rules.across_groups.clone()).unwrap_or_default();
        let required = asked.max(across.len() as u32);
        if required <= 1 && across.is_empty() {
            return None;
        }
        let policy = data.get("rejectionPolicy").and_then(|policy| policy.parse::<String>().ok());
        let vetoes = if policy.as_deref() == Some("majority") { required / 2 + 1 } else { 1 };
        Some(Self { required, vetoes, across })
    }

    /// How the votes stand.
    pub fn standing(&self, votes: &[Vote]) -> Standing {
        let progress = self.progress(votes);
        if progress.rejections >= self.vetoes {
            Standing::Rejected
        } else if progress.approvals >= self.required && progress.missing.is_empty() {
            Standing::Accepted
        } else {
            Standing::Open
        }
    }

    /// How far it has come.
    pub fn progress<'a>(&'a self, votes: &'a [Vote]) -> Progress<'a> {
        let accepts = votes.iter().filter(|vote| vote.action == Action::Accept).count() as u32;
        Progress {
            approvals: accepts,
            rejections: votes.len() as u32 - accepts,
            required: self.required,
            vetoes: self.vetoes,
            missing: self.missing(votes),
            votes,
        }
    }

    /// The groups that nobody speaks for when each of those who accept speaks for one.
    fn missing(&self, votes: &[Vote]) -> Vec<&str> {
        let accepts: Vec<&Vote> = votes.iter().filter(|vote| vote.action == Action::Accept).collect();
        let mut speaks_for: Vec<Option<usize>> = vec![None; accepts.len()];
        let found = |group: usize, speaks_for: &mut Vec<Option<usize>>| {
            self.seat(group, &accepts, speaks_for, &mut vec![false; accepts.len()])
        };
        let unseated = (0..self.across.len()).filter(|&group| !found(group, &mut speaks_for));
        unseated.map(|group| self.across[group].as_str()).collect()
    }

    /// Finds somebody to speak for a group; those who speak for another may have to change. There are so few groups that
    /// the recursion is shallow.
    fn seat(
        &self,
        group: usize,
        accepts: &[&Vote],
        speaks_for: &mut Vec<Option<usize>>,
        tried: &mut Vec<bool>,
    ) -> bool {
        let name = format!("group:{}", self.across[group]);
        for voter in 0..accepts.len() {
            if tried[voter] || !accepts[voter].qualified_by.contains(&name) {
                continue;
            }
            tried[voter] = true;
            let free = match speaks_for[voter] {
                None => true,
                Some(other) => self.seat(other, accepts, speaks_for, tried),
            };
            if free {
                speaks_for[voter] = Some(group);
                return true;
            }
        }
        false
    }
}

impl Open {
    /// How far it has come, if it takes several people.
    pub fn quorum(&self) -> Option<Quorum> {
        Quorum::of(&self.requested)
    }

    /// How far it has come in numbers, if there is anything to tell.
    pub fn headway(&self) -> Option<Headway> {
        let asks = self.exchanges.iter().filter(|exchange| exchange.answer.is_none()).count() as u32;
        match self.quorum() {
            Some(quorum) => {
                let Progress { approvals, rejections, required, .. } = quorum.progress(&self.votes);
                Some(Headway { approvals, rejections, required, asks })
            }
            None => (asks > 0).then(|| Headway { required: 1, asks, ..Headway::default() }),
        }
    }

    /// The votes so far, oldest first.
    pub fn votes(&self) -> &[Vote] {
        &self.votes
    }
}

impl Vote {
    pub(crate) fn of(voted: &ApprovalVoted, at: Millis) -> Self {
        Self {
            by: voted.decided_by.clone(),
            action: voted.action,
            at,
            feedback: voted.feedback.clone().or_else(|| wish(voted.refine_feedback.as_ref())),
            reason: voted.reason.clone(),
            qualified_by: voted.qualified_by.clone(),
        }
    }

    /// Bytes that it takes in a run's state.
    pub(crate) fn bytes(&self) -> usize {
        let size = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let names: usize = self.qualified_by.iter().map(String::len).sum();
        self.by.len() + size(&self.feedback) + size(&self.reason) + names
    }
}

/// What a refinement says in words.
fn wish(feedback: Option<&Json>) -> Option<String> {
    feedback?.parse::<JsonMap>().ok()?.get("text")?.parse().ok()
}

/// The one decision that closes a quorum, in the name of whoever closed it, with everybody's votes.
pub(crate) fn closing(quorum: &Quorum, votes: &[Vote], accepted: bool, last: &Decision) -> (Decision, Json) {
    let action = if accepted { Action::Accept } else { Action::Reject };
    let decision = Decision {
        action,
        feedback: last.feedback.clone().or_else(|| wish(last.refine_feedback.as_ref())),
        refine_feedback: None,
        edited_artifact_data: None,
        ..last.clone()
    };
    let told: Vec<Json> = votes.iter().map(told).collect();
    let progress = quorum.progress(votes);
    let tally = JsonMap::from([
        ("approvals".to_owned(), Json::of(&progress.approvals)),
        ("rejections".to_owned(), Json::of(&progress.rejections)),
        ("required".to_owned(), Json::of(&progress.required)),
        ("votes".to_owned(), Json::of(&told)),
    ]);
    let mut value: JsonMap = decision.value().parse().unwrap_or_default();
    value.insert("quorum".to_owned(), Json::of(&tally));
    (decision, Json::of(&value))
}

/// A vote as the node receives it.
fn told(vote: &Vote) -> Json {
    let mut told = JsonMap::new();
    let mut put =
        |key: &str, text: Option<&str>| text.map(|text| told.insert(key.to_owned(), Json::of(text)));
    put("by", Some(&vote.by));
    put("action", Some(vote.action.name()));
    put("at", Some(&rfc3339(vote.at)));
    put("feedback", vote.feedback.as_deref());
    put("reason", vote.reason.as_deref());
    Json::of(&told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(by: &str, action: Action, groups: &[&str]) -> Vote {
        let qualified_by = groups.iter().map(|group| format!("group:{group}")).collect();
        Vote { by: by.to_owned(), action, at: 0, feedback: None, reason: None, qualified_by }
    }

    fn accept(by: &str, groups: &[&str]) -> Vote {
        vote(by, Action::Accept, groups)
    }

    fn across(groups: &[&str]) -> Quorum {
        let across: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        Quorum { required: across.len() as u32, vetoes: 1, across }
    }

    #[test]
    fn nobody_speaks_for_two_groups() {
        let quorum = across(&["finance", "legal"]);
        let both = accept("ann", &["finance", "legal"]);
        assert_eq!(quorum.standing(std::slice::from_ref(&both)), Standing::Open);
        assert_eq!(quorum.standing(&[both.clone(), accept("bob", &[])]), Standing::Open);
        assert_eq!(quorum.progress(&[accept("bob", &["legal"])]).missing, ["finance"]);
        for other in ["finance", "legal"] {
            let votes = [both.clone(), accept("bob", &[other])];
            assert_eq!(quorum.standing(&votes), Standing::Accepted, "ann speaks for the other one");
        }
    }

    #[test]
    fn a_seat_is_found_though_others_have_to_change_theirs() {
        let quorum = across(&["a", "b", "c"]);
        let votes = [accept("1", &["a", "b"]), accept("2", &["a"]), accept("3", &["b", "c"])];
        assert_eq!(quorum.standing(&votes), Standing::Accepted);
        let votes = [accept("1", &["a", "b"]), accept("2", &["a"]), accept("3", &["b"])];
        assert_eq!(quorum.progress(&votes).missing, ["c"]);
    }

    #[test]
    fn rejections_close_by_the_policy() {
        let quorum = |vetoes| Quorum { required: 3, vetoes, across: Vec::new() };
        let no = vote("no", Action::Refine, &[]);
        let yes = || [accept("1", &[]), accept("2", &[])];
        let with = |more: &[Vote]| [yes().as_slice(), more].concat();
        assert_eq!(quorum(1).standing(&with(std::slice::from_ref(&no))), Standing::Rejected);
        assert_eq!(quorum(2).standing(&with(std::slice::from_ref(&no))), Standing::Open);
        assert_eq!(quorum(2).standing(&with(&[no, vote("nay", Action::Reject, &[])])), Standing::Rejected);
    }
}
