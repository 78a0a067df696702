//! What somebody is told: that an answer is needed, still needed, or no longer needed.

use std::fmt;

use abide_core::{InterruptId, InterruptKind, Json, Millis, RunId, hex, sha256};

use crate::limits::KEY_CHARS_MAX;

/// One message to one recipient, or to a channel that many read. It is complete: sending it needs to know nothing else.
#[derive(Clone, PartialEq)]
pub struct Message {
    /// The same for every attempt to send it, so that a receiver can tell that it has it already.
    pub idempotency_key: String,
    /// Why it is sent.
    pub purpose: Purpose,
    /// When it is sent, as the engine's clock has it.
    pub at: Millis,
    /// What it is about. A test is about nothing.
    pub about: Option<About>,
    /// What is asked, in a few words.
    pub title: String,
    /// What is asked, in full.
    pub question: Option<String>,
    /// What helps to answer.
    pub context: Option<Json>,
    /// The answers to choose from.
    pub choices: Vec<Choice>,
    /// Where it is answered, or looked at. If it lets its holder answer, it is the only thing in a message that does.
    pub link: Option<String>,
    /// Until when an answer counts.
    pub deadline: Option<Millis>,
    /// When somebody is told again.
    pub next_attempt_at: Option<Millis>,
    /// Who is told.
    pub recipient: Recipient,
    /// Whom a message to a shared channel names.
    pub mentions: Vec<Recipient>,
}

/// Why a message is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An answer is needed.
    Ask {
        /// The so-manieth time that somebody is told, from 1.
        attempt: u32,
        /// How often somebody is told at most.
        max_attempts: u32,
    },
    /// An answer is no longer needed.
    FollowUp {
        /// What became of the question.
        outcome: Outcome,
        /// Who brought that about, if it was somebody.
        by: Option<String>,
        /// When.
        at: Millis,
    },
    /// To see whether the channel works.
    Test,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Somebody answered.
    Resolved,
    /// Somebody decided against it.
    Rejected,
    /// Its time was over before anybody answered.
    Timeout,
    /// Everybody was told as often as there was to be, and nobody answered.
    Expired,
    /// Its run ended, or went another way.
    Cancelled,
}

impl Outcome {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resolved => "resolved",
            Self::Rejected => "rejected",
            Self::Timeout => "timeout",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The interrupt that a message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its run.
    pub run: RunId,
    /// Its id.
    pub interrupt: InterruptId,
    /// What is sought.
    pub kind: InterruptKind,
    /// The node that waits.
    pub node: Option<String>,
    /// The workflow that the run follows.
    pub workflow: Option<String>,
}

/// One answer to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What it is called.
    pub label: String,
    /// What it means.
    pub description: Option<String>,
}

/// Who is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipient {
    /// What the directory calls them, or the address itself.
    pub name: String,
    /// Where the channel reaches them: an e-mail address, or the id of a member in Slack.
    pub address: Option<String>,
    /// What people call them.
    pub display_name: Option<String>,
}

impl Recipient {
    /// What people call them, or else their name.
    pub fn called(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }
}

impl Message {
    /// A message that only shows that a channel works.
    pub fn test(idempotency_key: String, at: Millis, recipient: Recipient) -> Self {
        Self {
            idempotency_key,
            purpose: Purpose::Test,
            at,
            about: None,
            title: "this channel works".to_owned(),
            question: None,
            context: None,
            choices: Vec::new(),
            link: None,
            deadline: None,
            next_attempt_at: None,
            recipient,
            mentions: Vec::new(),
        }
    }

    /// The idempotency key as any receiver takes it: its hash where it is long, or has characters that no header has.
    pub(crate) fn key(&self) -> String {
        let plain = self.idempotency_key.bytes().all(|byte| byte.is_ascii_graphic());
        if plain && (1..=KEY_CHARS_MAX).contains(&self.idempotency_key.len()) {
            return self.idempotency_key.clone();
        }
        hex(&sha256(self.idempotency_key.as_bytes()))
    }

    /// What everything that is said about one question has in common.
    pub(crate) fn thread(&self) -> String {
        self.about.as_ref().map_or_else(|| self.key(), |about| about.interrupt.to_string())
    }
}

/// Without the link, which may let its holder answer, and without what the question says.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("idempotency_key", &self.idempotency_key)
            .field("purpose", &self.purpose)
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}
