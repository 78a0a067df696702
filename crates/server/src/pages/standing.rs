//! How an approval stands: who has voted, and what those who decide wanted to know.

use abide_core::{Exchange, Open};

use super::view::Excerpt;
use super::words;

/// What is shown in the place of what is only for those who answer.
const HIDDEN: &str = "(not shown)";

/// How far an approval has come that takes several people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) approvals: u32,
    pub(super) rejections: u32,
    pub(super) required: u32,
    /// Groups of which somebody has yet to accept.
    pub(super) missing: Vec<String>,
    pub(super) votes: Vec<Voted>,
}

/// A vote, as a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Voted {
    pub(super) by: String,
    pub(super) action: &'static str,
    pub(super) when: String,
    pub(super) said: Option<String>,
}

/// A question back, and what was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) id: String,
    pub(super) question: String,
    pub(super) by: String,
    /// The answer and who gave it, if there is one.
    pub(super) answer: Option<(String, String)>,
}

impl Tally {
    /// How far it has come, if it takes several people.
    pub(super) fn of(open: &Open) -> Option<Self> {
        let quorum = open.quorum()?;
        let progress = quorum.progress(open.votes());
        let hidden = open.requested.sensitive_answer;
        let votes = progress.votes.iter().map(|vote| {
            let said = vote.feedback.clone().or_else(|| vote.reason.clone());
            Voted {
                by: vote.by.clone(),
                action: vote.action.name(),
                when: words::moment(vote.at),
                said: said.map(|said| if hidden { HIDDEN.to_owned() } else { said }),
            }
        });
        Some(Self {
            approvals: progress.approvals,
            rejections: progress.rejections,
            required: progress.required,
            missing: progress.missing.iter().map(|group| (*group).to_owned()).collect(),
            votes: votes.collect(),
        })
    }
}

impl Asked {
    /// What was asked about an open interrupt, oldest first.
    pub(super) fn all(open: &Open) -> Vec<Self> {
        open.exchanges.iter().map(Self::of).collect()
    }

    fn of(exchange: &Exchange) -> Self {
        let answer = exchange
            .answer
            .as_ref()
            .map(|answer| (Excerpt::of(answer).text, exchange.answered_by.clone().unwrap_or_default()));
        let (id, question, by) = (exchange.id.clone(), exchange.question.clone(), exchange.asked_by.clone());
        Self { id, question, by, answer }
    }
}
