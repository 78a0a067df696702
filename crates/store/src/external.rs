//! What happened elsewhere, and who is told that something waits. Neither follows from the journals.

use abide_core::{Hash, InterruptId, Json, Key, Millis, RunId, TenantId};
use serde::{Deserialize, Serialize};

use crate::store::Answer;

/// Where events that others tell of are kept.
///
/// An event is first kept, then given to those that wait for it. Whom it is given to is written down before the first of
/// them gets it, so that it is given to nobody else whatever dies in between.
pub trait ExternalEvents: Send + Sync {
    /// Durably keeps an event, unless there is one under its id. A tenant has at most `most` that nobody asked for yet.
    fn put(&self, event: NewEvent, most: usize) -> Answer<'_, Put>;

    /// Reads an event.
    fn get(&self, tenant: TenantId, id: String) -> Answer<'_, Option<EventRow>>;

    /// Whether there may be an event of this type that nobody asked for yet. It takes no look at the disk, and says yes
    /// rather than miss one that was answered to be kept before this is asked.
    fn may_keep(&self, tenant: TenantId, event_type: &str) -> bool;

    /// Those of a type that nobody asked for yet and that are still good at `now`, oldest first, behind a place.
    fn kept(
        &self,
        tenant: TenantId,
        event_type: String,
        now: Millis,
        after: Option<(Millis, String)>,
        limit: usize,
    ) -> Answer<'_, Vec<EventRow>>;

    /// Durably notes whom a kept event is given to. `false` if it is not kept any more: somebody else gives it.
    fn give(&self, tenant: TenantId, id: String, to: Vec<Target>) -> Answer<'_, bool>;

    /// Durably notes who has it, and forgets its payload. If nobody does, it is kept again. It is too late for that if
    /// another server has taken over.
    fn given(&self, tenant: TenantId, id: String, to: Vec<Target>) -> Answer<'_, ()>;

    /// Those that are being given, at most `limit`, but for those that another living server gives. At a start: those that
    /// a dead process was giving.
    fn being_given(&self, limit: usize) -> Answer<'_, Vec<EventRow>>;

    /// Durably has this server give what is being given. `false` if another living server does, or it is given.
    fn take_over(&self, tenant: TenantId, id: String) -> Answer<'_, bool>;

    /// Types of kept events that some interrupt waits for.
    fn awaited(&self) -> Answer<'_, Vec<(TenantId, String)>>;

    /// Durably forgets those that expired at `now` or before, at most `limit` at once. Gives how many.
    fn purge(&self, now: Millis, limit: usize) -> Answer<'_, usize>;
}

/// An event that is to be kept.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// To whom it is told.
    pub tenant: TenantId,
    /// What the sender calls it.
    pub id: String,
    /// What it is.
    pub event_type: String,
    /// A hash of type and payload.
    pub digest: Hash,
    /// What it says.
    pub payload: Json,
    /// Who says so.
    pub sender: String,
    /// When it was told.
    pub at: Millis,
    /// When it is forgotten.
    pub expires_at: Millis,
}

/// What became of an event that was to be kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Put {
    /// It is there.
    New,
    /// There is one under its id already.
    Known(EventRow),
    /// The tenant has as many as it may have.
    Full,
}

/// An event that others told of.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
    /// To whom it was told.
    pub tenant: TenantId,
    /// What the sender calls it.
    pub id: String,
    /// What it is.
    pub event_type: String,
    /// A hash of type and payload.
    pub digest: Hash,
    /// What it says, unless that is in journals.
    pub payload: Option<Json>,
    /// Who said so.
    pub sender: String,
    /// When it was told.
    pub at: Millis,
    /// Whether it is still for whoever asks.
    pub is_kept: bool,
    /// Whom it is given to.
    pub targets: Vec<Target>,
}

/// An interrupt that an event is given to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The run that waits.
    pub run_id: RunId,
    /// Its node.
    pub node_id: String,
    /// Which interrupt.
    pub interrupt_id: InterruptId,
}

/// Who is to be told that an interrupt is open. The rows are written with the interrupts.
pub trait Callbacks: Send + Sync {
    /// What is due, earliest first, at most `limit`, and when something more is.
    fn due(&self, now: Millis, limit: usize) -> Answer<'_, (Vec<CallbackRow>, Option<Millis>)>;

    /// Durably puts one off until `again`, or forgets it.
    fn settle(&self, run: Key, id: InterruptId, again: Option<Millis>) -> Answer<'_, ()>;
}

/// Somebody who is to be told that an interrupt is open.
#[derive(Clone, PartialEq, Eq)]
pub struct CallbackRow {
    /// The run that asked.
    pub key: Key,
    /// Which interrupt.
    pub id: InterruptId,
    /// Where.
    pub url: String,
    /// Attempts so far.
    pub attempts: u32,
}

/// Logs show what it is about. A URL may hold a secret.
impl std::fmt::Debug for CallbackRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallbackRow")
            .field("key", &self.key)
            .field("id", &self.id)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}
