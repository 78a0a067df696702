//! Interrupts: a node stops until somebody outside says how it goes on.
//!
//! There is one machine for all kinds; a kind only says what is shown, what an answer looks like, and what a run that
//! waits for it is called.

mod answer;
mod approval;
mod clarification;
mod context;
mod equal;
mod exchange;
mod external;
mod form;
mod legacy;
mod payload;
mod quorum;
mod refine;
mod respondent;
mod response;
mod rules;
mod sought;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use answer::{Action, Answerer, Checked, Decision, Refused, check_answer};
pub(crate) use context::{Answered, Asked, Call, NewAsk};
pub use context::{NodeContext, Open, Stop};
pub(crate) use exchange::{AskedBack, is_of_exchanges, read_asked_back};
pub use exchange::{Exchange, ask_id, ask_number, exchanges_variable};
pub use external::{Occurrence, correlates, scheduled_time};
pub(crate) use form::readable;
pub use payload::Ask;
pub(crate) use quorum::closing;
pub use quorum::{Progress, Quorum, Standing, Vote};
pub use refine::says_something;
pub use respondent::{Named, Respondent};
pub use response::ResponseType;
pub use rules::ApprovalRules;
pub use sought::Sought;

/// The name of the question of those that have one alone.
pub(crate) const ANSWER: &str = "answer";

use crate::journal::Salt;
use crate::{hex, sha256};

/// What an interrupt is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum InterruptKind {
    /// Somebody decides about an artifact.
    #[serde(rename = "approval")]
    Approval,
    /// Somebody answers questions.
    #[serde(rename = "clarification")]
    Clarification,
    /// Something happens elsewhere.
    #[serde(rename = "external-event")]
    ExternalEvent,
    /// Whatever the workflow's author agreed on with whoever answers.
    #[serde(rename = "custom")]
    Custom,
    /// A conversation begins.
    #[serde(rename = "conversation.start")]
    ConversationStart,
    /// Somebody takes a turn in a conversation.
    #[serde(rename = "conversation.exchange")]
    ConversationExchange,
    /// A conversation ends.
    #[serde(rename = "conversation.close")]
    ConversationClose,
    /// An agent is not sure enough of its decision.
    #[serde(rename = "low-confidence")]
    LowConfidence,
}

/// What a run with an open interrupt waits for, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Waiting {
    /// Somebody's decision.
    Approval,
    /// Somebody's answer.
    Input,
    /// Something that happens elsewhere.
    External,
}

impl InterruptKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Approval,
        Self::Clarification,
        Self::ExternalEvent,
        Self::Custom,
        Self::ConversationStart,
        Self::ConversationExchange,
        Self::ConversationClose,
        Self::LowConfidence,
    ];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Clarification => "clarification",
            Self::ExternalEvent => "external-event",
            Self::Custom => "custom",
            Self::ConversationStart => "conversation.start",
            Self::ConversationExchange => "conversation.exchange",
            Self::ConversationClose => "conversation.close",
            Self::LowConfidence => "low-confidence",
        }
    }

    /// The kind with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether it is resolved as it is asked, so that nobody ever sees it open.
    pub(crate) fn is_momentary(self) -> bool {
        matches!(self, Self::ConversationStart | Self::ConversationClose)
    }

    /// Whether it is part of a conversation.
    pub fn is_of_conversation(self) -> bool {
        matches!(self, Self::ConversationStart | Self::ConversationExchange | Self::ConversationClose)
    }

    /// What a run waits for that has one of these open.
    pub fn waiting(self) -> Waiting {
        match self {
            Self::Approval
            | Self::LowConfidence
            | Self::ConversationStart
            | Self::ConversationExchange
            | Self::ConversationClose => Waiting::Approval,
            Self::Clarification | Self::Custom => Waiting::Input,
            Self::ExternalEvent => Waiting::External,
        }
    }
}

impl Waiting {
    /// Everything that a run may wait for.
    pub const ALL: [Self; 3] = [Self::Approval, Self::Input, Self::External];
}

impl fmt::Display for InterruptKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which interrupt of a run. It says where in the journal it was asked for, and nobody can make one up: the rest is a
/// hash of the run's salt. So a run knows its own, however long ago they were closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterruptId([u8; InterruptId::BYTES]);

impl InterruptId {
    /// How long one is.
    pub const BYTES: usize = SEQUENCE_BYTES + HASH_BYTES;

    /// The id of the interrupt that the event at this place of the journal asks for.
    pub(crate) fn of(salt: &Salt, sequence: u64) -> Self {
        let mut seed = b"interrupt".to_vec();
        seed.extend(salt);
        seed.extend(sequence.to_be_bytes());
        let mut bytes = [0; Self::BYTES];
        bytes[..SEQUENCE_BYTES].copy_from_slice(&sequence.to_be_bytes()[8 - SEQUENCE_BYTES..]);
        bytes[SEQUENCE_BYTES..].copy_from_slice(&sha256(&seed)[..HASH_BYTES]);
        Self(bytes)
    }

    /// Whether a run with this salt and so many events has asked for it.
    pub(crate) fn is_of(self, salt: &Salt, events: u64) -> bool {
        let sequence = self.sequence();
        sequence < events && Self::of(salt, sequence) == self
    }

    /// The place in the journal of the event that asks for it.
    pub fn sequence(self) -> u64 {
        let mut sequence = [0; 8];
        sequence[8 - SEQUENCE_BYTES..].copy_from_slice(&self.0[..SEQUENCE_BYTES]);
        u64::from_be_bytes(sequence)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// From bytes that were one.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }
}

/// Bytes of the sequence in an id: more events than any journal will have.
const SEQUENCE_BYTES: usize = 6;

/// Bytes of the hash in an id: nobody guesses one.
const HASH_BYTES: usize = 12;

const ID_PREFIX: &str = "int-";

impl fmt::Display for InterruptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ID_PREFIX}{}", hex(&self.0))
    }
}

impl fmt::Debug for InterruptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for InterruptId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{}' is no interrupt id; one looks like int-0123..", crate::excerpt::excerpt(text));
        let digits = text
            .strip_prefix(ID_PREFIX)
            .filter(|digits| digits.len() == 2 * Self::BYTES)
            .ok_or_else(wrong)?;
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(wrong()),
        };
        let mut bytes = [0; Self::BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for InterruptId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for InterruptId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_known_by_the_run_that_made_it_and_by_no_other() {
        let (salt, other) = ([7; 16], [8; 16]);
        let id = InterruptId::of(&salt, 41);
        assert_eq!(id.to_string().parse::<InterruptId>(), Ok(id));
        assert!(id.is_of(&salt, 42));
        assert!(!id.is_of(&salt, 41), "the event is still to come");
        assert!(!id.is_of(&other, 42));
        let mut forged = *id.as_bytes();
        forged[InterruptId::BYTES - 1] ^= 1;
        assert!(!InterruptId::from_bytes(forged).is_of(&salt, 42));
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in ["", "int-", "int-zz", "run-1", &format!("int-{}", "A".repeat(36)), &"é".repeat(18)] {
            assert!(text.parse::<InterruptId>().is_err(), "{text}");
        }
    }

    #[test]
    fn there_are_eight_kinds_and_no_ninth() {
        let names = InterruptKind::ALL.map(InterruptKind::name);
        assert_eq!(
            names,
            [
                "approval",
                "clarification",
                "external-event",
                "custom",
                "conversation.start",
                "conversation.exchange",
                "conversation.close",
                "low-confidence"
            ]
        );
        for kind in InterruptKind::ALL {
            assert_eq!(InterruptKind::by_name(kind.name()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert_eq!(InterruptKind::by_name("credential"), None);
    }
}
