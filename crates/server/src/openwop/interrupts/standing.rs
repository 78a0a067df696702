//! How an approval stands before it is closed: who has voted, what is still needed, and what was asked back.

use abide_core::{Exchange, Json, Open, Vote};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::mask::MASKED;
use crate::{shape, time};

/// How far an approval has come that takes several people.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "QuorumProgress")]
pub(crate) struct QuorumView {
    /// People who accept.
    approvals: u32,
    /// People who don't.
    rejections: u32,
    /// How many have to accept.
    required: u32,
    /// How many rejections close it.
    rejections_to_close: u32,
    /// Groups of which somebody has yet to accept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    missing_groups: Vec<String>,
    /// One of each who voted, the latest last.
    votes: Vec<VoteView>,
}

/// A vote.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Vote")]
pub(crate) struct VoteView {
    /// Who.
    decided_by: String,
    /// `accept`, `reject` or `refine`.
    action: &'static str,
    #[schemars(with = "shape::Moment")]
    decided_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    feedback: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What entitled them: their name, or groups and roles that they had.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    qualified_by: Vec<String>,
}

/// A question back, and what was answered.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AskExchange")]
pub(crate) struct ExchangeView {
    /// What it is called where it is answered.
    id: String,
    question: String,
    /// Who wants to know.
    asked_by: String,
    #[schemars(with = "shape::Moment")]
    asked_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<shape::Anything>")]
    answer: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<shape::Moment>")]
    answered_at: Option<String>,
}

impl QuorumView {
    /// How far it has come, if it takes several people. What was said is masked for those whom it is not for.
    pub(crate) fn of(open: &Open, answers: bool) -> Option<Self> {
        let quorum = open.quorum()?;
        let progress = quorum.progress(open.votes());
        let hidden = open.requested.sensitive_answer && !answers;
        Some(Self {
            approvals: progress.approvals,
            rejections: progress.rejections,
            required: progress.required,
            rejections_to_close: progress.vetoes,
            missing_groups: progress.missing.iter().map(|group| (*group).to_owned()).collect(),
            votes: progress.votes.iter().map(|vote| VoteView::of(vote, hidden)).collect(),
        })
    }
}

impl VoteView {
    fn of(vote: &Vote, hidden: bool) -> Self {
        let said =
            |text: &Option<String>| text.clone().map(|text| if hidden { MASKED.to_owned() } else { text });
        Self {
            decided_by: vote.by.clone(),
            action: vote.action.name(),
            decided_at: time::rfc3339(vote.at),
            feedback: said(&vote.feedback),
            reason: said(&vote.reason),
            qualified_by: vote.qualified_by.clone(),
        }
    }
}

impl ExchangeView {
    /// An exchange as it is.
    pub(crate) fn of(exchange: &Exchange) -> Self {
        let Exchange { id, question, asked_by, asked_at, answer, answered_by, answered_at } =
            exchange.clone();
        Self { id, question, asked_by, asked_at, answer, answered_by, answered_at }
    }

    /// What was asked about an open interrupt. What is only for those who answer is masked for others.
    pub(crate) fn all(open: &Open, answers: bool) -> Vec<Self> {
        let asked = &open.requested;
        let hidden = (asked.sensitive || asked.sensitive_answer) && !answers;
        let masked = |view: Self| Self {
            question: MASKED.to_owned(),
            answer: view.answer.map(|_| Json::of(MASKED)),
            ..view
        };
        let views = open.exchanges.iter().map(Self::of);
        if hidden { views.map(masked).collect() } else { views.collect() }
    }
}
