//! Runs that have ended and need not be kept any longer.
//!
//! A run goes with its **family**: itself, the runs that it started, the runs that those started. Only a run that no
//! other started is looked at; its family is removed when all of it has ended before the moment that is asked for, and
//! stays as a whole otherwise.

use abide_core::{Key, Millis, RunId, Status, TenantId};

use crate::store::Answer;

/// Finds and removes runs that have ended.
pub trait Retention: Send + Sync {
    /// The workflows of which a run has ended that no other started, those behind `after`, in order, at most `limit`.
    fn ended_workflows(
        &self,
        after: Option<(TenantId, String)>,
        limit: usize,
    ) -> Answer<'_, Vec<(TenantId, String)>>;

    /// Runs that no other started and that have ended, earliest end first, at most so many. One ordered look.
    fn ended(&self, query: EndedQuery) -> Answer<'_, Vec<EndedRun>>;

    /// How large a run's family is; `None` if not all of it has ended before `before` and is settled: something under
    /// way to or from one of them, or in a worker's hands, keeps all of them.
    fn family(&self, root: Key, before: Millis) -> Answer<'_, Option<FamilySize>>;

    /// Durably removes runs of a tenant that have ended from all lists, and writes that into the record, whose number is
    /// the answer. What else there is of them and of their families goes with the pages that follow. `None` if there are
    /// no such runs, or none has ended.
    fn begin_purge(&self, tenant: TenantId, roots: Vec<RunId>, purge: Purge) -> Answer<'_, Option<u64>>;

    /// Durably removes the next page of what is left of the runs that were removed, of every tenant.
    fn purge_page(&self) -> Answer<'_, PurgedPage>;

    /// What was removed, latest first, those before number `before`, at most `limit`.
    fn purges(&self, tenant: TenantId, before: Option<u64>, limit: usize) -> Answer<'_, Vec<PurgeRow>>;

    /// The workflows whose latest version says for how long its runs are kept, as JSON.
    fn retentions(&self) -> Answer<'_, Vec<(TenantId, String, String)>>;
}

/// Which runs to look at.
#[derive(Clone, Debug)]
pub struct EndedQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Of which workflow.
    pub workflow: String,
    /// How they ended.
    pub status: Status,
    /// They ended before this.
    pub before: Millis,
    /// They ended behind this one.
    pub after: Option<(Millis, RunId)>,
    /// At most so many.
    pub limit: usize,
}

/// A run that has ended, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedRun {
    /// Which.
    pub key: Key,
    /// When it ended.
    pub at: Millis,
}

/// How much there is of a family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilySize {
    /// Its runs.
    pub runs: u64,
    /// Their events.
    pub events: u64,
}

/// Why runs are removed.
#[derive(Clone, Debug)]
pub struct Purge {
    /// The record that this belongs to; none yet at the first run.
    pub number: Option<u64>,
    /// When.
    pub at: Millis,
    /// Who asked for it; nobody if they were kept for as long as they should.
    pub by: Option<String>,
    /// What was asked for: a JSON object.
    pub filter: String,
}

/// What became of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgedPage {
    /// Runs of which nothing is left now.
    pub gone: Vec<Key>,
    /// There is more to remove.
    pub more: bool,
}

/// The record of one purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeRow {
    /// Counted from 1 for each tenant.
    pub number: u64,
    /// When.
    pub at: Millis,
    /// Who asked for it.
    pub by: Option<String>,
    /// What was asked for: a JSON object.
    pub filter: String,
    /// How many runs went.
    pub runs: u64,
    /// How many events they had.
    pub events: u64,
}
