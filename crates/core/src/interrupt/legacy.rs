//! Decisions in the words that clients used before there were actions.

use super::answer::Action;
use super::form::known_word;
use crate::fields::Findings;

/// What a client of old said, in today's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Legacy {
    /// Go on.
    Approved,
    /// Don't. What was said about it may be meant to make it better.
    Rejected,
    /// Nobody decided, which is never an acceptance.
    Timeout,
    /// Nobody decides any more, which is never an acceptance.
    Cancelled,
}

const WORDS: [(&str, Legacy); 4] = [
    ("approved", Legacy::Approved),
    ("rejected", Legacy::Rejected),
    ("timeout", Legacy::Timeout),
    ("cancelled", Legacy::Cancelled),
];

impl Legacy {
    /// The decision with this name; another name is a problem.
    pub(super) fn read(word: &str, findings: &mut Findings) -> Option<Self> {
        known_word(word, &WORDS.map(|(name, _)| name), "decision".to_owned(), findings);
        WORDS.into_iter().find(|(name, _)| *name == word).map(|(_, legacy)| legacy)
    }

    /// What it means at a gate that does or does not offer to refine, with or without something said.
    pub(super) fn action(self, says_something: bool, offers_refine: bool) -> Action {
        match self {
            Self::Approved => Action::Accept,
            Self::Rejected if says_something && offers_refine => Action::Refine,
            Self::Rejected | Self::Cancelled => Action::Reject,
            Self::Timeout => Action::Timeout,
        }
    }

    /// The reason that is recorded, with the one that was given.
    pub(super) fn reason(self, given: Option<String>) -> Option<String> {
        match (self, given.filter(|given| !given.trim().is_empty())) {
            (Self::Cancelled, None) => Some("cancelled".to_owned()),
            (Self::Cancelled, Some(given)) => Some(format!("cancelled: {given}")),
            (_, given) => given,
        }
    }
}
