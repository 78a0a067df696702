//! Who is told that an interrupt waits: attempts that nobody was told of yet, and the messages that were made of them.
//!
//! An attempt is written in the transaction of its event. It leaves with the one that writes down whom it is for, and
//! from then on each message has a row of its own, which stays as the record of what was sent to whom.

use std::fmt;
use std::str::FromStr;

use abide_core::event::Resolution;
use abide_core::{InterruptId, Key, Millis, RunId, TenantId, hex};
use serde::{Deserialize, Serialize};

use crate::store::Answer;

/// Rows that are looked at for one page of a list, however few of them are asked for.
pub const NOTICES_LOOK_MAX: usize = 1000;

/// Where attempts and messages are found.
pub trait Notices: Send + Sync {
    /// Attempts that nobody was told of yet: of each tenant those of its oldest runs, at most `of_tenant`, and `limit`
    /// in all. Tenants behind `after` come first.
    fn untold(&self, after: Option<TenantId>, of_tenant: usize, limit: usize) -> Answer<'_, Vec<NoticeRow>>;

    /// Durably turns attempts into messages. What waits of an earlier attempt is superseded. Of one whose interrupt was
    /// closed meanwhile nothing is written. Gives the lines that have something to send now.
    fn expand(&self, expanded: Vec<Expanded>) -> Answer<'_, Vec<NoticeLine>>;

    /// The channels over which a tenant, or anybody, has something to send, now or later.
    fn lines(&self, tenant: Option<TenantId>) -> Answer<'_, Vec<NoticeLine>>;

    /// What is due on a line, earliest first, at most `limit`, and when something more is.
    fn due(
        &self,
        line: NoticeLine,
        now: Millis,
        limit: usize,
    ) -> Answer<'_, (Vec<NoticeDelivery>, Option<Millis>)>;

    /// How many messages a recipient got after `since`, and when the first of them was sent.
    fn sent_since(
        &self,
        line: NoticeLine,
        recipient: String,
        since: Millis,
    ) -> Answer<'_, (u64, Option<Millis>)>;

    /// Durably writes down how tries ended: all of them or none. Messages count towards the limit of a recipient that is
    /// named for `counted`, if there is a limit.
    fn settle(&self, ends: Vec<NoticeEnd>, counted: Option<Millis>) -> Answer<'_, ()>;

    /// Lists a tenant's messages, those of the newest runs first. Rows that can't be read are left out and logged.
    fn list(&self, query: NoticesQuery) -> Answer<'_, NoticesPage>;

    /// Reads a message.
    fn get(&self, tenant: TenantId, id: NoticeId) -> Answer<'_, Option<NoticeDelivery>>;

    /// Durably has a message that was given up sent again. `false` if it was not given up, or its interrupt is closed.
    fn resend(&self, tenant: TenantId, id: NoticeId, now: Millis) -> Answer<'_, bool>;
}

/// An attempt that nobody was told of yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NoticeRow {
    /// The run that asked.
    pub key: Key,
    /// Which interrupt.
    pub interrupt: InterruptId,
    /// Which attempt.
    pub attempt: u32,
    /// When it began.
    pub at: Millis,
}

/// What becomes of an attempt.
#[derive(Clone, Debug)]
pub struct Expanded {
    /// Which one.
    pub notice: NoticeRow,
    /// Its messages, in the order in which they are numbered.
    pub messages: Vec<NewMessage>,
}

/// A message that is to be sent, or that is not.
#[derive(Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// Over which channel; empty if there is none.
    pub channel: String,
    /// To whom, as the channel has it; empty for whomever it tells by itself.
    pub recipient: String,
    /// Whose address that is.
    pub person: Option<String>,
    /// The channel that was asked for, if there is none of that name.
    pub hint: Option<String>,
    /// Waiting, or why nothing is sent.
    pub state: NoticeState,
    /// Why nothing is sent.
    pub reason: Option<String>,
    /// When it is sent at the earliest.
    pub due: Millis,
}

impl NewMessage {
    /// The same, and why it is not sent.
    #[must_use]
    pub fn unsent(self, state: NoticeState, reason: String) -> Self {
        Self { state, reason: Some(reason), ..self }
    }
}

/// Logs never show an address.
impl fmt::Debug for NewMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewMessage")
            .field("channel", &self.channel)
            .field("person", &self.person)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// A tenant's messages over one channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NoticeLine {
    /// Whose.
    pub tenant: TenantId,
    /// Over which channel.
    pub channel: String,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoticeState {
    /// It is to be sent.
    Waiting,
    /// It was sent.
    Sent,
    /// It was tried often enough.
    Dead,
    /// A later attempt was made before it was sent.
    Superseded,
    /// Its recipient may not be told.
    Refused,
    /// The interrupt was closed before it was sent.
    Withdrawn,
    /// There is nobody to tell, or no way to.
    Unreachable,
}

impl NoticeState {
    /// Every state, in the order of its number on disk.
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Sent,
        Self::Dead,
        Self::Superseded,
        Self::Refused,
        Self::Withdrawn,
        Self::Unreachable,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Sent => "sent",
            Self::Dead => "dead",
            Self::Superseded => "superseded",
            Self::Refused => "refused",
            Self::Withdrawn => "withdrawn",
            Self::Unreachable => "unreachable",
        }
    }

    /// The state with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn by_code(code: u8) -> Result<Self, String> {
        Self::ALL.get(usize::from(code)).copied().ok_or_else(|| format!("{code} is no state of a message"))
    }

    /// Whether an index tells all messages that stand so.
    pub(crate) fn is_indexed(self) -> bool {
        matches!(self, Self::Dead | Self::Refused | Self::Unreachable)
    }
}

/// Which message of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NoticeId {
    /// The run that asked.
    pub run: RunId,
    /// Which interrupt.
    pub interrupt: InterruptId,
    /// Which attempt.
    pub attempt: u32,
    /// Which message of it.
    pub n: u16,
}

const RUN_BYTES: usize = 16;
const ATTEMPT_BYTES: usize = 4;
const ID_BYTES: usize = RUN_BYTES + InterruptId::BYTES + ATTEMPT_BYTES + 2;

impl fmt::Display for NoticeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (attempt, n) = (self.attempt.to_be_bytes(), self.n.to_be_bytes());
        f.write_str(&hex(&[&self.run.as_bytes()[..], self.interrupt.as_bytes(), &attempt, &n].concat()))
    }
}

impl FromStr for NoticeId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let digits = text.as_bytes();
            if digits.len() != 2 * ID_BYTES {
                return None;
            }
            let mut bytes = [0; ID_BYTES];
            for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
                let digit = |digit: u8| char::from(digit).to_digit(16);
                *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
            }
            let (run, rest) = bytes.split_at(RUN_BYTES);
            let (interrupt, rest) = rest.split_at(InterruptId::BYTES);
            let (attempt, n) = rest.split_at(ATTEMPT_BYTES);
            Some(Self {
                run: RunId::from_bytes(run.try_into().ok()?),
                interrupt: InterruptId::from_bytes(interrupt.try_into().ok()?),
                attempt: u32::from_be_bytes(attempt.try_into().ok()?),
                n: u16::from_be_bytes(n.try_into().ok()?),
            })
        };
        read().ok_or_else(|| "it is no id of a message; `GET /v1/notices` lists them".to_owned())
    }
}

/// How an interrupt was closed, for those who were told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowUp {
    /// How it ended.
    pub outcome: Resolution,
    /// Who closed it.
    pub by: String,
    /// When.
    pub at: Millis,
}

/// A message to one recipient.
#[derive(Clone, PartialEq, Eq)]
pub struct NoticeDelivery {
    /// Whose.
    pub tenant: TenantId,
    /// Which one.
    pub id: NoticeId,
    /// Over which channel; empty if there is none.
    pub channel: String,
    /// To whom, as the channel has it; empty for whomever it tells by itself.
    pub recipient: String,
    /// Whose address that is.
    pub person: Option<String>,
    /// The channel that was asked for, if there is none of that name.
    pub hint: Option<String>,
    /// Where it stands.
    pub state: NoticeState,
    /// How often it was tried.
    pub tries: u32,
    /// When it is tried next.
    pub due: Option<Millis>,
    /// Why the last try failed, or why there is none.
    pub reason: Option<String>,
    /// When it was sent.
    pub sent_at: Option<Millis>,
    /// What the recipient is to be told now that the interrupt is closed.
    pub follow: Option<FollowUp>,
}

impl NoticeDelivery {
    /// The run that asked.
    pub fn key(&self) -> Key {
        self.id.run.of(self.tenant)
    }
}

/// Logs never show an address.
impl fmt::Debug for NoticeDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoticeDelivery")
            .field("id", &self.id)
            .field("channel", &self.channel)
            .field("person", &self.person)
            .field("state", &self.state)
            .field("tries", &self.tries)
            .field("due", &self.due)
            .field("reason", &self.reason)
            .field("sent_at", &self.sent_at)
            .field("follow", &self.follow)
            .finish_non_exhaustive()
    }
}

/// A try that ended.
#[derive(Clone, Debug)]
pub struct NoticeEnd {
    /// Whose.
    pub tenant: TenantId,
    /// Of which message.
    pub id: NoticeId,
    /// How.
    pub how: HowEnded,
}

/// How a try ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HowEnded {
    /// It was sent. One that was withdrawn meanwhile is followed up like any other.
    Sent {
        /// When.
        at: Millis,
    },
    /// It is tried again, unless nobody wants that any more.
    Again {
        /// When.
        due: Millis,
        /// Why.
        reason: String,
    },
    /// It has to wait, and was not tried.
    PutOff {
        /// Until when.
        due: Millis,
        /// Why.
        reason: String,
    },
    /// It is tried no more.
    Dead {
        /// Why.
        reason: String,
    },
    /// It is about nothing that is open.
    Withdrawn,
    /// The recipient knows that the interrupt is closed, or need not.
    Followed,
    /// The recipient is told later.
    FollowAgain {
        /// When.
        due: Millis,
        /// Why.
        reason: String,
    },
    /// The recipient is not told.
    Unfollowed {
        /// Why.
        reason: String,
    },
}

/// Which messages to list.
#[derive(Clone, Debug)]
pub struct NoticesQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Only those that stand so.
    pub state: Option<NoticeState>,
    /// Only those of this run.
    pub run: Option<RunId>,
    /// Only those about this interrupt, if a run is named.
    pub interrupt: Option<InterruptId>,
    /// Only those behind this one: the last of the page before.
    pub after: Option<NoticeId>,
    /// At most so many.
    pub limit: usize,
}

/// Messages, those of the newest runs first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticesPage {
    /// Those that were asked for.
    pub rows: Vec<NoticeDelivery>,
    /// Where to go on, if there may be more.
    pub next: Option<NoticeId>,
}

/// What agents ask for by default.
pub trait Agents: Send + Sync {
    /// Durably sets an agent's record.
    fn put(&self, agent: AgentRow) -> Answer<'_, ()>;

    /// Reads an agent's record.
    fn get(&self, tenant: TenantId, name: String) -> Answer<'_, Option<AgentRow>>;

    /// The agents of a tenant by name, those behind `after`, at most `limit`.
    fn list(&self, tenant: TenantId, after: String, limit: usize) -> Answer<'_, Vec<AgentRow>>;

    /// Durably removes an agent's record. `false` if there is none.
    fn delete(&self, tenant: TenantId, name: String) -> Answer<'_, bool>;
}

/// An agent's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRow {
    /// Whose.
    pub tenant: TenantId,
    /// What it is called.
    pub name: String,
    /// Its policy: the text of a JSON object.
    pub policy: String,
    /// When it was set last.
    pub updated_at: Millis,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_message_survives_a_round_trip_through_text_and_nothing_else_is_one() {
        let id = NoticeId {
            run: RunId::from_bytes([0xab; 16]),
            interrupt: InterruptId::from_bytes([7; InterruptId::BYTES]),
            attempt: 3,
            n: 258,
        };
        let text = id.to_string();
        assert_eq!(text.parse(), Ok(id));
        for wrong in ["", "00", &text[1..], &text.replace('a', "g"), &"é".repeat(ID_BYTES)] {
            assert!(wrong.parse::<NoticeId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn states_are_known_by_name_and_by_number() {
        for state in NoticeState::ALL {
            assert_eq!(NoticeState::by_name(state.name()), Some(state));
            assert_eq!(NoticeState::by_code(state.code()), Ok(state));
        }
        assert!(NoticeState::by_code(7).is_err());
    }
}
