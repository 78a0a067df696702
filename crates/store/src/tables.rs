//! The tables and what is done with them, in one text for every engine.
//!
//! [`Database`] is what an engine brings along: connections, commits, and its ways of starting and stopping. Everything
//! else of [`Store`] is written once, on top of that.

pub(crate) mod access;
pub(crate) mod admin;
mod agents;
mod annotations;
pub(crate) mod audit;
mod audit_log;
mod containers;
mod conversations;
pub(crate) mod deliveries;
pub(crate) mod erase;
pub(crate) mod external;
mod inbox;
mod notices;
mod providers;
pub(crate) mod reader;
mod receipts;
mod records;
mod retention;
mod secrets;
mod sessions;
mod truncate;
pub(crate) mod webhooks;
mod work;
mod workflows;

use std::sync::Arc;

use abide_core::{Hash, Head, Key, Millis, Record, RunId, TenantId};

use crate::access::Access;
use crate::audit_log::AuditLog;
use crate::cluster::Cluster;
use crate::containers::Containers;
use crate::db::{self, Connection};
use crate::external::{Callbacks, ExternalEvents};
use crate::inbox::Inbox;
use crate::notices::{Agents, Notices};
use crate::providers::Providers;
use crate::records::Records;
use crate::retention::Retention;
use crate::sessions::Sessions;
use crate::store::{Answer, Counts, ListQuery, Store};
use crate::truncation::{Outline, Truncated, Truncation};
use crate::webhooks::Webhooks;
use crate::work::Work;
use crate::{
    Annotated, Annotations, ApiKey, Beside, ChildRow, Commit, Done, Erased, Erasure, Expected, Lane, Listed,
    Loaded, MessageRef, MessageRow, NewAnnotation, NewWorkflow, Note, Person, Receipt, Sealing, SecretRow,
    TaskRow, TimerRow, Totals, WorkflowVersion,
};
use deliveries::Wanted;
use erase::Progress;
use external::KeptTypes;

/// What an engine brings along.
pub(crate) trait Database: Send + Sync + Sized + 'static {
    /// Reads. What it reads is as of one moment only if it asks for that.
    fn read<T: Send + 'static>(
        &self,
        job: impl FnMut(Connection<'_>) -> db::Result<T> + Send + 'static,
    ) -> Answer<'_, T>;

    /// Runs a rare write in a transaction of its own, after all others that were answered. An engine may run it again if
    /// it could not be kept.
    fn write_in<T: Send + 'static>(
        &self,
        lane: Lane,
        job: impl FnMut(Connection<'_>) -> db::Result<T> + Send + 'static,
    ) -> Answer<'_, T>;

    /// The same, while somebody waits for it.
    fn write<T: Send + 'static>(
        &self,
        job: impl FnMut(Connection<'_>) -> db::Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        self.write_in(Lane::Interactive, job)
    }

    /// The same, of what changes which events webhooks hear of. The job tells for which tenants it does. Every commit
    /// whose writing begins once this is answered knows of it.
    fn write_wanted<T: Send + 'static>(
        &self,
        job: impl FnMut(Connection<'_>) -> db::Result<(T, Vec<TenantId>)> + Send + 'static,
    ) -> Answer<'_, T>;

    /// Erases one page of a journal.
    fn erase_page(&self, key: Key, erasure: Erasure, from: u64) -> Answer<'_, Progress>;

    /// See [`Store::submit`].
    fn hand_in(&self, commit: Commit, lane: Lane, done: Done) -> Result<(), Done>;

    /// See [`Store::compact`].
    fn write_anew(&self) -> Answer<'_, ()>;

    /// See [`Store::close`].
    fn shut_down(&self) -> Answer<'_, ()>;

    /// See [`Store::boot`].
    fn start_number(&self) -> u64;

    /// See [`Store::counts`].
    fn written(&self) -> Counts;

    /// See [`Store::cluster`].
    fn cluster(&self) -> Option<&dyn Cluster> {
        None
    }

    /// How what is never shown is kept.
    fn sealing(&self) -> &Sealing;

    /// What webhooks want to hear of.
    fn wanted(&self) -> &Arc<Wanted>;

    /// Which events may be kept for somebody.
    fn kept(&self) -> &KeptTypes;
}

impl<E: Database> Store for E {
    fn submit(&self, commit: Commit, lane: Lane, done: Done) -> Result<(), Done> {
        self.hand_in(commit, lane, done)
    }

    fn load(&self, key: Key) -> Answer<'_, Option<Loaded>> {
        let sealing = self.sealing().clone();
        self.read(move |connection| reader::load(connection, &sealing, key))
    }

    fn head(&self, key: Key) -> Answer<'_, Option<Listed>> {
        self.read(move |connection| reader::head(connection, key))
    }

    fn tip(&self, key: Key) -> Answer<'_, Option<Head>> {
        self.read(move |connection| reader::tip(connection, key))
    }

    fn journal(&self, key: Key, from: u64, limit: usize) -> Answer<'_, Vec<Record>> {
        let sealing = self.sealing().clone();
        self.read(move |connection| reader::journal(connection, &sealing, key, from, limit))
    }

    fn outline(&self, key: Key) -> Answer<'_, Option<Outline>> {
        let sealing = self.sealing().clone();
        self.read(move |connection| truncate::outline(connection, &sealing, key))
    }

    fn truncate(&self, truncation: Truncation) -> Answer<'_, Truncated> {
        let sealing = self.sealing().clone();
        self.write(move |connection| truncate::truncate(connection, &sealing, &truncation))
    }

    fn events_of_type(&self, key: Key, type_code: u16, from: u64, limit: usize) -> Answer<'_, Vec<Record>> {
        let sealing = self.sealing().clone();
        self.read(move |connection| reader::events_of_type(connection, &sealing, key, type_code, from, limit))
    }

    fn list(&self, query: ListQuery) -> Answer<'_, Vec<Listed>> {
        self.read(move |connection| reader::list(connection, &query))
    }

    fn scan(&self, after: Option<Key>, limit: usize) -> Answer<'_, Vec<(Key, Result<Listed, String>)>> {
        self.read(move |connection| audit::scan(connection, after, limit))
    }

    fn beside(&self, key: Key, expected: Expected) -> Answer<'_, Beside> {
        let sealing = self.sealing().clone();
        self.read(move |connection| audit::beside(connection, &sealing, key, expected.clone()))
    }

    fn totals(&self) -> Answer<'_, Totals> {
        self.read(audit::totals)
    }

    fn blob(&self, tenant: TenantId, hash: Hash) -> Answer<'_, Option<Arc<[u8]>>> {
        self.read(move |connection| reader::blob(connection, tenant, &hash))
    }

    fn timers(&self, after: Option<TimerRow>, until: Millis, limit: usize) -> Answer<'_, Vec<TimerRow>> {
        self.read(move |connection| reader::timers(connection, after.as_ref(), until, limit))
    }

    fn claim_tasks(&self, boot: u64, limit: usize) -> Answer<'_, Vec<TaskRow>> {
        self.write(move |connection| admin::claim_tasks(connection, boot, limit))
    }

    fn outbox(&self, after: Option<MessageRef>, limit: usize) -> Answer<'_, Vec<MessageRow>> {
        let sealing = self.sealing().clone();
        self.read(move |connection| reader::outbox(connection, &sealing, after, limit))
    }

    fn discard(&self, messages: Vec<MessageRef>) -> Answer<'_, ()> {
        self.write(move |connection| admin::discard(connection, &messages))
    }

    fn heard(&self, receiver: Key, sender: RunId) -> Answer<'_, Option<u64>> {
        self.read(move |connection| reader::heard(connection, receiver, sender))
    }

    fn test_clock(&self) -> Answer<'_, Option<Millis>> {
        self.read(|connection| admin::setting(connection, admin::TEST_CLOCK))
    }

    fn set_test_clock(&self, to: Millis) -> Answer<'_, Millis> {
        self.write(move |connection| admin::raise_setting(connection, admin::TEST_CLOCK, to))
    }

    fn advance_test_clock(&self, by: Millis) -> Answer<'_, Option<Millis>> {
        self.write(move |connection| admin::add_to_setting(connection, admin::TEST_CLOCK, by))
    }

    fn tenant(&self, name: String, create: bool) -> Answer<'_, Option<TenantId>> {
        if create {
            self.write(move |connection| admin::make_tenant(connection, &name))
        } else {
            self.read(move |connection| admin::tenant(connection, &name))
        }
    }

    fn tenants(&self) -> Answer<'_, Vec<(TenantId, String)>> {
        self.read(admin::tenants)
    }

    fn access(&self) -> &dyn Access {
        self
    }

    fn put_api_keys(&self, keys: Vec<ApiKey>) -> Answer<'_, ()> {
        self.write(move |connection| access::put_api_keys(connection, &keys))
    }

    fn api_keys(&self) -> Answer<'_, Vec<ApiKey>> {
        self.read(access::api_keys)
    }

    fn revoke_api_key(&self, id: String, at: Millis) -> Answer<'_, bool> {
        self.write(move |connection| access::revoke_api_key(connection, &id, at))
    }

    fn forget_api_keys(&self, ids: Vec<String>) -> Answer<'_, ()> {
        self.write(move |connection| access::forget_api_keys(connection, &ids))
    }

    fn put_person(&self, person: Person) -> Answer<'_, ()> {
        self.write(move |connection| access::put_person(connection, &person))
    }

    fn person(&self, tenant: TenantId, principal: String) -> Answer<'_, Option<Person>> {
        self.read(move |connection| access::get_person(connection, tenant, &principal))
    }

    fn people(&self, tenant: TenantId, after: String, limit: usize) -> Answer<'_, Vec<Person>> {
        self.read(move |connection| access::list_people(connection, tenant, &after, limit))
    }

    fn delete_person(&self, tenant: TenantId, principal: String) -> Answer<'_, bool> {
        self.write(move |connection| access::delete_person(connection, tenant, &principal))
    }

    fn children(&self, parent: Key, limit: usize) -> Answer<'_, Vec<ChildRow>> {
        self.read(move |connection| reader::children(connection, parent, limit))
    }

    fn put_workflow(&self, new: NewWorkflow) -> Answer<'_, WorkflowVersion> {
        self.write(move |connection| workflows::put(connection, new.clone()))
    }

    fn workflow(
        &self,
        tenant: TenantId,
        id: String,
        version: Option<u32>,
    ) -> Answer<'_, Option<(WorkflowVersion, Arc<[u8]>)>> {
        self.read(move |connection| workflows::get(connection, tenant, &id, version))
    }

    fn latest_workflow(&self, tenant: TenantId, id: String) -> Answer<'_, Option<WorkflowVersion>> {
        self.read(move |connection| Ok(workflows::versions(connection, tenant, &id, 1)?.pop()))
    }

    fn workflows(&self, tenant: TenantId) -> Answer<'_, Vec<WorkflowVersion>> {
        self.read(move |connection| workflows::latest(connection, tenant))
    }

    fn workflow_versions(&self, tenant: TenantId, id: String) -> Answer<'_, Vec<WorkflowVersion>> {
        self.read(move |connection| workflows::versions(connection, tenant, &id, i64::MAX))
    }

    fn put_secret(&self, secret: SecretRow) -> Answer<'_, ()> {
        self.write(move |connection| secrets::put(connection, &secret))
    }

    fn secret(&self, tenant: TenantId, name: String) -> Answer<'_, Option<SecretRow>> {
        self.read(move |connection| secrets::get(connection, tenant, &name))
    }

    fn secrets(&self, tenant: TenantId) -> Answer<'_, Vec<SecretRow>> {
        self.read(move |connection| secrets::list(connection, tenant))
    }

    fn delete_secret(&self, tenant: TenantId, name: String) -> Answer<'_, bool> {
        self.write(move |connection| secrets::delete(connection, tenant, &name))
    }

    fn receipt(&self, tenant: TenantId, endpoint: String, key: [u8; 32]) -> Answer<'_, Option<Receipt>> {
        self.read(move |connection| receipts::get(connection, tenant, &endpoint, &key))
    }

    fn put_receipt(&self, receipt: Receipt) -> Answer<'_, bool> {
        self.write(move |connection| receipts::put(connection, &receipt))
    }

    fn drop_receipt(&self, tenant: TenantId, endpoint: String, key: [u8; 32]) -> Answer<'_, ()> {
        self.write(move |connection| receipts::forget(connection, tenant, &endpoint, &key))
    }

    fn purge_receipts(&self, before: Millis, limit: usize) -> Answer<'_, usize> {
        self.write(move |connection| receipts::purge(connection, before, limit))
    }

    fn claimant(&self, tenant: TenantId, workflow: String, scope: String) -> Answer<'_, Option<RunId>> {
        self.read(move |connection| receipts::claimant(connection, tenant, &workflow, &scope))
    }

    fn taken_names(&self, key: Key, names: Vec<Hash>) -> Answer<'_, Vec<Hash>> {
        self.read(move |connection| conversations::taken(connection, key, &names))
    }

    fn erase(&self, key: Key, erasure: Erasure) -> Answer<'_, Erased> {
        Box::pin(async move {
            let mut from = 0;
            loop {
                match self.erase_page(key, erasure.clone(), from).await? {
                    Progress::Next(next) => from = next,
                    Progress::Ended(erased) => return Ok(erased),
                }
            }
        })
    }

    fn compact(&self) -> Answer<'_, ()> {
        self.write_anew()
    }

    fn sealed_kids(&self) -> Answer<'_, Vec<u32>> {
        self.read(audit::sealed_kids)
    }

    fn notes(&self, key: Key) -> Answer<'_, Vec<Note>> {
        self.read(move |connection| erase::notes(connection, key))
    }

    fn containers(&self) -> &dyn Containers {
        self
    }

    fn records(&self) -> &dyn Records {
        self
    }

    fn retention(&self) -> &dyn Retention {
        self
    }

    fn webhooks(&self) -> &dyn Webhooks {
        self
    }

    fn inbox(&self) -> &dyn Inbox {
        self
    }

    fn audit_log(&self) -> &dyn AuditLog {
        self
    }

    fn external_events(&self) -> &dyn ExternalEvents {
        self
    }

    fn callbacks(&self) -> &dyn Callbacks {
        self
    }

    fn notices(&self) -> &dyn Notices {
        self
    }

    fn agents(&self) -> &dyn Agents {
        self
    }

    fn work(&self) -> &dyn Work {
        self
    }

    fn sessions(&self) -> &dyn Sessions {
        self
    }

    fn providers(&self) -> &dyn Providers {
        self
    }

    fn annotate(&self, annotation: NewAnnotation) -> Answer<'_, Annotated> {
        self.write(move |connection| annotations::add(connection, &annotation))
    }

    fn annotations(&self, key: Key, after: Option<u64>, limit: usize) -> Answer<'_, Annotations> {
        self.read(move |connection| annotations::page(connection, key, after, limit))
    }

    fn boot(&self) -> u64 {
        self.start_number()
    }

    fn cluster(&self) -> Option<&dyn Cluster> {
        Database::cluster(self)
    }

    fn counts(&self) -> Counts {
        self.written()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.shut_down()
    }
}
