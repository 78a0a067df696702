//! The contract between the engine and its storage.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use abide_core::{Hash, Head, Key, Millis, Record, RunId, Status, TenantId};

use crate::access::Access;
use crate::audit_log::AuditLog;
use crate::cluster::Cluster;
use crate::containers::Containers;
use crate::external::{Callbacks, ExternalEvents};
use crate::inbox::Inbox;
use crate::notices::{Agents, Notices};
use crate::providers::Providers;
use crate::records::Records;
use crate::retention::Retention;
use crate::sessions::Sessions;
use crate::truncation::{Outline, Truncated, Truncation};
use crate::webhooks::Webhooks;
use crate::work::Work;
use crate::{
    Annotated, Annotations, ApiKey, Beside, ChildRow, Commit, Done, Erased, Erasure, Error, Expected, Lane,
    Listed, Loaded, MessageRef, MessageRow, NewAnnotation, NewWorkflow, Note, Person, Receipt, SecretRow,
    TaskRow, TimerRow, Totals, WorkflowVersion,
};

/// A store's answer, when it comes.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Where journals live.
///
/// Reads see every commit that was answered before they were asked, and nothing of one that is not durable.
pub trait Store: Send + Sync + 'static {
    /// Hands in a commit. It never blocks; `done` gets the answer, from another thread.
    /// A store that is closed gives `done` back uncalled.
    ///
    /// `Ok` means that a power cut can't take it back. `Stale`, `Fenced`, `Delivered`, `Receipted`, `Claimed` and `Raced` mean
    /// that nothing of it was written. Commits in one lane are written in the order of submission; several share one transaction.
    fn submit(&self, commit: Commit, lane: Lane, done: Done) -> Result<(), Done>;

    /// Reads an aggregate: its latest snapshot and the events behind it, as of one moment.
    fn load(&self, key: Key) -> Answer<'_, Option<Loaded>>;

    /// Reads an aggregate's columns alone.
    fn head(&self, key: Key) -> Answer<'_, Option<Listed>>;

    /// Reads where an aggregate's journal ends.
    fn tip(&self, key: Key) -> Answer<'_, Option<Head>>;

    /// Reads events from sequence `from` on, at most `limit`.
    fn journal(&self, key: Key, from: u64, limit: usize) -> Answer<'_, Vec<Record>>;

    /// Reads an aggregate without its journal, each part as far as it can be read.
    fn outline(&self, key: Key) -> Answer<'_, Option<Outline>>;

    /// Durably drops the end of a damaged journal, makes anew what lies beside the rest of it, and records that in the
    /// log. It looks through the timers of all runs, so it takes time in proportion to them.
    fn truncate(&self, truncation: Truncation) -> Answer<'_, Truncated>;

    /// Reads events of one type from sequence `from` on, at most `limit`. It passes over all others, so it takes time in
    /// proportion to the journal.
    fn events_of_type(&self, key: Key, type_code: u16, from: u64, limit: usize) -> Answer<'_, Vec<Record>>;

    /// Lists runs of a tenant, newest first. One that can't be read is left out and logged.
    fn list(&self, query: ListQuery) -> Answer<'_, Vec<Listed>>;

    /// Goes through the aggregates of all tenants behind `after`, in order of their keys. Columns that can't be
    /// read are given as the reason why.
    fn scan(&self, after: Option<Key>, limit: usize) -> Answer<'_, Vec<(Key, Result<Listed, String>)>>;

    /// Reads what lies beside an aggregate's journal. Of its timers, those that are `expected`.
    fn beside(&self, key: Key, expected: Expected) -> Answer<'_, Beside>;

    /// Counts the rows of the tables that are derived from journals.
    fn totals(&self) -> Answer<'_, Totals>;

    /// Reads content-addressed bytes.
    fn blob(&self, tenant: TenantId, hash: Hash) -> Answer<'_, Option<Arc<[u8]>>>;

    /// Reads timers due up to `until` that lie behind `after`, earliest first, at most `limit`. Nothing is claimed:
    /// a timer leaves the table with the commit that it causes.
    /// A row that can't be read is left out and logged, so that it holds up no other.
    fn timers(&self, after: Option<TimerRow>, until: Millis, limit: usize) -> Answer<'_, Vec<TimerRow>>;

    /// Takes the lease on up to `limit` tasks that no living server holds, durably, each under a new fence.
    fn claim_tasks(&self, boot: u64, limit: usize) -> Answer<'_, Vec<TaskRow>>;

    /// Reads messages behind `after`, at most `limit`. One that can't be read is left out and logged.
    fn outbox(&self, after: Option<MessageRef>, limit: usize) -> Answer<'_, Vec<MessageRow>>;

    /// Durably forgets messages that nobody can receive (their receiver has ended or never was). The receiver of
    /// [`Message::Spawn`](crate::Message::Spawn) need not be there: it starts with the commit that consumes it.
    fn discard(&self, messages: Vec<MessageRef>) -> Answer<'_, ()>;

    /// The highest sequence that `receiver` has recorded from `sender`.
    fn heard(&self, receiver: Key, sender: RunId) -> Answer<'_, Option<u64>>;

    /// Lists the children of a run by their ids, at most `limit`, those that have not started yet included. One that
    /// can't be read is left out and logged.
    fn children(&self, parent: Key, limit: usize) -> Answer<'_, Vec<ChildRow>>;

    /// Durably adds a version of a workflow, with its bytes. If the latest version has the same hash, nothing is
    /// written and that version is the answer. Versions count from 1 for each tenant and id.
    fn put_workflow(&self, new: NewWorkflow) -> Answer<'_, WorkflowVersion>;

    /// Reads one version of a workflow and its bytes: the latest, if none is named.
    fn workflow(
        &self,
        tenant: TenantId,
        id: String,
        version: Option<u32>,
    ) -> Answer<'_, Option<(WorkflowVersion, Arc<[u8]>)>>;

    /// The latest version of a workflow, without its bytes.
    fn latest_workflow(&self, tenant: TenantId, id: String) -> Answer<'_, Option<WorkflowVersion>>;

    /// The latest version of each workflow of a tenant, by id.
    fn workflows(&self, tenant: TenantId) -> Answer<'_, Vec<WorkflowVersion>>;

    /// Every version of a workflow, newest first.
    fn workflow_versions(&self, tenant: TenantId, id: String) -> Answer<'_, Vec<WorkflowVersion>>;

    /// Durably sets a secret. One that was there is replaced and overwritten, but keeps its `created_at`.
    fn put_secret(&self, secret: SecretRow) -> Answer<'_, ()>;

    /// Reads a secret.
    fn secret(&self, tenant: TenantId, name: String) -> Answer<'_, Option<SecretRow>>;

    /// Every secret of a tenant by name, without the sealed bytes.
    fn secrets(&self, tenant: TenantId) -> Answer<'_, Vec<SecretRow>>;

    /// Durably removes a secret. `false` if there is none.
    fn delete_secret(&self, tenant: TenantId, name: String) -> Answer<'_, bool>;

    /// What was answered to a request under this key, if it was carried out.
    fn receipt(&self, tenant: TenantId, endpoint: String, key: [u8; 32]) -> Answer<'_, Option<Receipt>>;

    /// Durably keeps an answer that belongs to no single commit. `false` if there is one under the same key, which
    /// stays as it is.
    fn put_receipt(&self, receipt: Receipt) -> Answer<'_, bool>;

    /// Durably forgets an answer that does not hold any more.
    fn drop_receipt(&self, tenant: TenantId, endpoint: String, key: [u8; 32]) -> Answer<'_, ()>;

    /// Durably forgets answers given before `before`, at most `limit` at once, oldest first. Gives how many.
    fn purge_receipts(&self, before: Millis, limit: usize) -> Answer<'_, usize>;

    /// The run under way that has this workflow and scope to itself. The scope is empty if none was given.
    fn claimant(&self, tenant: TenantId, workflow: String, scope: String) -> Answer<'_, Option<RunId>>;

    /// Those of the names that another run of the tenant has.
    fn taken_names(&self, key: Key, names: Vec<Hash>) -> Answer<'_, Vec<Hash>>;

    /// Erases what an aggregate said: its payloads, its secret, its snapshot, and the messages to and from it that
    /// nobody can hear any more, and notes that. Its columns, the envelopes of its events,
    /// its children and its definition (which other runs share) stay, and the hash chain still verifies.
    ///
    /// Only an aggregate that has ended can be erased. `Done` means that a power cut can't bring anything back, and
    /// that the bytes were overwritten where they stood, in the file and in the log. If somebody reads the data as it
    /// was before, the log keeps them until that reader is gone and the store is closed or asked to erase again.
    ///
    /// An engine that moves rows about in its file may have left copies of a few of them where they stood earlier,
    /// out of everybody's reach but the bytes'. Only [`compact`](Self::compact) removes those. What lies in backups,
    /// or in a disk's own spare blocks, is beyond the store.
    fn erase(&self, key: Key, erasure: Erasure) -> Answer<'_, Erased>;

    /// Writes the data anew, so that nothing is in the files but what can be read. Takes time and room on the disk
    /// in proportion to the data, and commits wait meanwhile: for after an erasure, not for every day.
    fn compact(&self) -> Answer<'_, ()>;

    /// The numbers of the keys under which runs have sealed anything, in order. It goes through everything there is.
    fn sealed_kids(&self) -> Answer<'_, Vec<u32>>;

    /// What was noted about an aggregate, oldest first.
    fn notes(&self, key: Key) -> Answer<'_, Vec<Note>>;

    /// Durably keeps an annotation of an aggregate, whether that has ended or not, and the receipt with it. Its
    /// journal is not touched, and erasing the aggregate erases what its annotations say.
    fn annotate(&self, annotation: NewAnnotation) -> Answer<'_, Annotated>;

    /// Reads an aggregate's annotations behind a place, oldest first, at most `limit`, and counts all of them. Those
    /// whose words were erased are left out.
    fn annotations(&self, key: Key, after: Option<u64>, limit: usize) -> Answer<'_, Annotations>;

    /// The test clock's time, if this data directory runs on one.
    fn test_clock(&self) -> Answer<'_, Option<Millis>>;

    /// Durably sets the test clock. It only moves forward; the answer is the time it shows then.
    fn set_test_clock(&self, to: Millis) -> Answer<'_, Millis>;

    /// Durably moves the test clock forward, if this store runs on one. The answer is the time it shows then.
    fn advance_test_clock(&self, by: Millis) -> Answer<'_, Option<Millis>>;

    /// The tenant with this name, made durably if there is none and `create` is set.
    fn tenant(&self, name: String, create: bool) -> Answer<'_, Option<TenantId>>;

    /// Every tenant and its name.
    fn tenants(&self) -> Answer<'_, Vec<(TenantId, String)>>;

    /// API keys and tenants, for servers that share them.
    fn access(&self) -> &dyn Access;

    /// Durably adds API keys, or replaces those with the same ids: all of them or none.
    fn put_api_keys(&self, keys: Vec<ApiKey>) -> Answer<'_, ()>;

    /// Every API key, in force or not.
    fn api_keys(&self) -> Answer<'_, Vec<ApiKey>>;

    /// Durably revokes an API key. `false` if there is none.
    fn revoke_api_key(&self, id: String, at: Millis) -> Answer<'_, bool>;

    /// Durably forgets API keys: all of them or none. Those that are not there are left out.
    fn forget_api_keys(&self, ids: Vec<String>) -> Answer<'_, ()>;

    /// Webhooks, and what is on its way to them.
    fn webhooks(&self) -> &dyn Webhooks;

    /// Interrupts that wait for an answer.
    fn inbox(&self) -> &dyn Inbox;

    /// Events that others tell of.
    fn external_events(&self) -> &dyn ExternalEvents;

    /// Who is to be told that an interrupt is open.
    fn callbacks(&self) -> &dyn Callbacks;

    /// Who is told that an interrupt waits for them, and who was.
    fn notices(&self) -> &dyn Notices;

    /// What agents ask for by default.
    fn agents(&self) -> &dyn Agents;

    /// Tasks for workers, the kinds that they provide, and the calls of their agents.
    fn work(&self) -> &dyn Work;

    /// Which server each worker talks to, if several share the store.
    fn sessions(&self) -> &dyn Sessions;

    /// How downstreams do, and which turns wait for theirs.
    fn providers(&self) -> &dyn Providers;

    /// What was decided and done about runs and can stand in none of their journals.
    fn audit_log(&self) -> &dyn AuditLog;

    /// Runs that wait for others, and groups.
    fn containers(&self) -> &dyn Containers;

    /// What is kept beside aggregates and decides nothing.
    fn records(&self) -> &dyn Records;

    /// Runs that have ended and need not be kept.
    fn retention(&self) -> &dyn Retention;

    /// Durably sets a person's entry. One that was there is replaced and overwritten, but keeps its `created_at`.
    fn put_person(&self, person: Person) -> Answer<'_, ()>;

    /// Reads a person's entry.
    fn person(&self, tenant: TenantId, principal: String) -> Answer<'_, Option<Person>>;

    /// The people of a tenant by principal, those behind `after`, at most `limit`.
    fn people(&self, tenant: TenantId, after: String, limit: usize) -> Answer<'_, Vec<Person>>;

    /// Durably removes a person's entry. `false` if there is none.
    fn delete_person(&self, tenant: TenantId, principal: String) -> Answer<'_, bool>;

    /// The number of this start. It is higher at each opening, so a lease names the process that holds it.
    fn boot(&self) -> u64;

    /// The servers that share this store; none if it is one server's own.
    fn cluster(&self) -> Option<&dyn Cluster>;

    /// What has been written since the store was opened.
    fn counts(&self) -> Counts;

    /// Writes everything submitted so far, answers it, and closes. Later submissions are refused.
    fn close(&self) -> Answer<'_, ()>;
}

/// Which runs to list.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Only those that stand so.
    pub status: Option<Status>,
    /// Only those of this workflow.
    pub workflow: Option<String>,
    /// Only those older than this one: the last of the page before.
    pub before: Option<RunId>,
    /// At most so many.
    pub limit: usize,
}

/// What a store has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commits that became durable.
    pub commits: u64,
    /// Transactions that carried them.
    pub transactions: u64,
    /// Statements that wrote a row.
    pub rows: u64,
    /// Commits for which it was looked up which webhooks want their events.
    pub matched: u64,
}
