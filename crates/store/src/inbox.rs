//! The inbox: every interrupt that waits for an answer, and how many there are.
//!
//! Its rows are written in the transaction of the events that they follow from, so the list is never behind the runs.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use abide_core::{InterruptId, InterruptKind, Json, Key, Millis, OpenInterrupt, RunId, TenantId, hex};

use crate::store::Answer;

/// Rows that are looked at for one page, however few of them are asked for. A page that found fewer than it may have
/// says where to go on, so that a rare title takes many short reads and not a long one.
pub const INBOX_LOOK_MAX: usize = 1000;

/// Sets of keys that waiting interrupts of one event type are looked up by. Workflows name the same few; whoever makes
/// up others all the time waits for a resolution by name.
pub const EVENT_KEYS_MAX: usize = 256;

/// Where open interrupts are found.
pub trait Inbox: Send + Sync {
    /// Lists a tenant's open interrupts, oldest first. Rows that can't be read are left out and logged.
    fn list(&self, query: InboxQuery) -> Answer<'_, InboxPage>;

    /// An open interrupt.
    fn get(&self, run: Key, id: InterruptId) -> Answer<'_, Option<InterruptRow>>;

    /// How many a tenant has, by kind; kinds of which it has none are left out.
    fn counts(&self, tenant: TenantId) -> Answer<'_, Vec<(InterruptKind, u64)>>;

    /// How many there are of each tenant and kind, and since when the oldest waits.
    fn standing(&self) -> Answer<'_, Vec<Standing>>;

    /// Those that wait for an event of this type and seem to wait for this very one, those that have waited longest first, at
    /// most `limit`. Whether
    /// they do is seen when it is given to them.
    fn waiters(
        &self,
        tenant: TenantId,
        event_type: String,
        payload: Json,
        limit: usize,
    ) -> Answer<'_, Vec<Waiter>>;
}

/// Which open interrupts to list.
#[derive(Clone, Debug)]
pub struct InboxQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Only those about this.
    pub kind: Option<InterruptKind>,
    /// Only those of this run.
    pub run: Option<RunId>,
    /// Only those of runs of this workflow.
    pub workflow: Option<String>,
    /// Only those that somebody may answer whom these names mean: their own, and those of their groups and roles.
    pub approver: Option<Vec<String>>,
    /// Only those with this in their title, in whatever case.
    pub title: Option<String>,
    /// Only those that were asked for then or before.
    pub until: Option<Millis>,
    /// Only those behind this place.
    pub after: Option<InboxCursor>,
    /// At most so many.
    pub limit: usize,
}

impl InboxQuery {
    /// A tenant's oldest ones.
    pub fn of(tenant: TenantId, limit: usize) -> Self {
        Self {
            tenant,
            kind: None,
            run: None,
            workflow: None,
            approver: None,
            title: None,
            until: None,
            after: None,
            limit,
        }
    }

    /// Whether a row is one that is asked for, as far as no index tells.
    pub(crate) fn wants(&self, row: &InterruptRow) -> bool {
        let open = &row.open;
        let may_answer = |names: &Vec<String>| {
            open.approvers.is_empty() || open.approvers.iter().any(|approver| names.contains(approver))
        };
        let titled = |part: &String| open.title.to_lowercase().contains(&part.to_lowercase());
        self.kind.is_none_or(|kind| open.kind == kind)
            && self.until.is_none_or(|until| open.requested_at <= until)
            && self.workflow.as_ref().is_none_or(|workflow| *row.workflow == **workflow)
            && self.approver.as_ref().is_none_or(may_answer)
            && self.title.as_ref().is_none_or(titled)
    }
}

/// Open interrupts, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxPage {
    /// Those that were asked for.
    pub rows: Vec<InterruptRow>,
    /// Where to go on, if there may be more.
    pub next: Option<InboxCursor>,
}

/// An open interrupt in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptRow {
    /// The run that asked.
    pub run: RunId,
    /// The workflow that it runs.
    pub workflow: Arc<str>,
    /// What is asked. Who is told of it is not known here.
    pub open: OpenInterrupt,
}

impl InterruptRow {
    /// Its place in the list.
    pub fn cursor(&self) -> InboxCursor {
        InboxCursor { at: self.open.requested_at, run: self.run, id: self.open.id }
    }
}

/// An interrupt that waits for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The run that waits.
    pub run: RunId,
    /// Its node.
    pub node: String,
    /// Which interrupt.
    pub id: InterruptId,
}

/// How many interrupts of one kind a tenant has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whose.
    pub tenant: TenantId,
    /// What they are about.
    pub kind: InterruptKind,
    /// How many.
    pub open: u64,
    /// Since when the oldest waits.
    pub oldest: Option<Millis>,
}

/// A place in the list of open interrupts. It stays what it is while others come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InboxCursor {
    pub(crate) at: Millis,
    pub(crate) run: RunId,
    pub(crate) id: InterruptId,
}

const TIME_BYTES: usize = 8;
const RUN_BYTES: usize = 16;
const CURSOR_BYTES: usize = TIME_BYTES + RUN_BYTES + InterruptId::BYTES;

impl fmt::Display for InboxCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&self.at.to_be_bytes()[..], self.run.as_bytes(), self.id.as_bytes()].concat();
        f.write_str(&hex(&bytes))
    }
}

impl FromStr for InboxCursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "it is no cursor of this list; take `nextCursor` of the page before".to_owned();
        let digits = text.as_bytes();
        if digits.len() != 2 * CURSOR_BYTES {
            return Err(wrong());
        }
        let mut bytes = [0; CURSOR_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or_else(wrong);
            *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).map_err(|_| wrong())?;
        }
        let (at, rest) = bytes.split_at(TIME_BYTES);
        let (run, id) = rest.split_at(RUN_BYTES);
        Ok(Self {
            at: Millis::from_be_bytes(at.try_into().map_err(|_| wrong())?),
            run: RunId::from_bytes(run.try_into().map_err(|_| wrong())?),
            id: InterruptId::from_bytes(id.try_into().map_err(|_| wrong())?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_a_round_trip_through_text_and_nothing_else_is_one() {
        let cursor = InboxCursor {
            at: -7,
            run: RunId::from_bytes([0xab; 16]),
            id: InterruptId::from_bytes([9; InterruptId::BYTES]),
        };
        let text = cursor.to_string();
        assert_eq!(text.parse(), Ok(cursor));
        for wrong in ["", "00", &text[1..], &text.replace('a', "g"), &"é".repeat(CURSOR_BYTES)] {
            assert!(wrong.parse::<InboxCursor>().is_err(), "{wrong}");
        }
    }
}
