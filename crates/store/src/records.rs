//! What is kept beside an aggregate and decides nothing: what clients tell of it, in records of many kinds.
//!
//! Records share their places with the other notes of an aggregate, so that no two of it are at the same one. Erasing an
//! aggregate erases what its records say, and removing it removes them.

use abide_core::{Json, Key, Millis, RunId, TenantId};

use crate::Note;
use crate::store::Answer;

/// The kind of records that say who wants to hear of an aggregate. They are found by who made them, too.
pub const SUBSCRIPTION: &str = "subscription";

/// Records beside aggregates.
pub trait Records: Send + Sync {
    /// Durably keeps a record, whether the aggregate has ended or not. Its journal is not touched.
    fn add(&self, record: NewRecord) -> Answer<'_, Recorded>;

    /// Reads one record, if it is there and was not taken back or erased.
    fn get(&self, key: Key, kind: String, sequence: u64) -> Answer<'_, Option<Note>>;

    /// Durably puts another body in the place of the one that whoever asks has seen. `false` if it says something else by
    /// now, or nothing.
    fn replace(&self, key: Key, kind: String, sequence: u64, seen: Json, body: Json) -> Answer<'_, bool>;

    /// Durably takes a record back. That somebody made it stays. `false` if there is none.
    fn remove(&self, key: Key, kind: String, sequence: u64) -> Answer<'_, bool>;

    /// How many of one kind were ever kept, those included that were taken back.
    fn count(&self, key: Key, kind: String) -> Answer<'_, u64>;

    /// Reads records of one kind, oldest first, those behind a place, at most `limit`.
    fn after(&self, key: Key, kind: String, after: Option<u64>, limit: usize) -> Answer<'_, Vec<Note>>;

    /// Reads what is kept beside an aggregate, whatever it is, oldest first, from a place on, at most `limit`. What was
    /// taken back or erased is left out.
    fn from(&self, key: Key, from: u64, limit: usize) -> Answer<'_, Vec<Note>>;

    /// The place that the next record beside an aggregate gets.
    fn next(&self, key: Key) -> Answer<'_, u64>;

    /// Reads the subscriptions that somebody made in a tenant, each with its aggregate, at most `limit`.
    fn subscriptions(&self, tenant: TenantId, by: String, limit: usize) -> Answer<'_, Vec<(RunId, Note)>>;

    /// Reads records of one kind, newest first, those before a place, at most `limit`.
    fn before(&self, key: Key, kind: String, before: Option<u64>, limit: usize) -> Answer<'_, Vec<Note>>;
}

/// A record that is to be kept.
#[derive(Clone, Debug)]
pub struct NewRecord {
    /// Beside which aggregate.
    pub key: Key,
    /// What kind it is. The kinds of the store's own notes are not to be taken.
    pub kind: String,
    /// When it was made.
    pub at: Millis,
    /// Who made it.
    pub by: Option<String>,
    /// What it says.
    pub body: Json,
    /// How many of this kind the aggregate may ever have, this one included.
    pub most: usize,
    /// The newest of this kind that whoever asks has seen, if it may only be kept right behind that.
    pub behind: Option<Option<u64>>,
}

/// What became of a record that was to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// There is no such aggregate.
    NotFound,
    /// What the aggregate said was erased, or is being erased.
    Erased,
    /// It has as many of this kind as it may.
    Full,
    /// Another one of this kind was kept meanwhile. Nothing was kept now.
    Raced,
    /// It is kept, at this place among the aggregate's notes.
    Done {
        /// The place.
        sequence: u64,
    },
}
