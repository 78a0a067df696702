//! A real store with a tap on it: commits can be made to fail or to wait, and reads are counted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use abide_core::{Hash, Key, Millis, Record, RunId, TenantId};
use abide_store::{
    Annotated, Annotations, Answer, ApiKey, Beside, ChildRow, Commit, Counts, Done, Erased, Erasure, Error,
    Expected, Lane, ListQuery, Listed, Loaded, MessageRef, MessageRow, NewAnnotation, NewWorkflow, Note,
    Person, Receipt, Records, SecretRow, Sqlite, Store, TaskRow, TimerRow, Totals, WorkflowVersion,
};

/// What happens to a commit on its way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes through.
    Pass,
    /// It is answered with a failure and never written.
    Fail,
    /// It waits until the tap is opened.
    Hold,
}

pub(crate) struct Tapped {
    inner: Sqlite,
    fates: Mutex<VecDeque<Fate>>,
    held: Mutex<Vec<(Commit, Lane, Done)>>,
    damaged: Mutex<Option<u64>>,
    /// The run that is erased right before its journal is read.
    doomed: Mutex<Option<Key>>,
    /// Nobody's entry in the directory can be read.
    directory_lost: AtomicBool,
    /// Whoever asks next what was heard meets a bug.
    bug: AtomicBool,
    pub(crate) loads: AtomicU64,
    pub(crate) submitted: AtomicU64,
}

impl Tapped {
    pub(crate) fn new(inner: Sqlite) -> Arc<Self> {
        Arc::new(Self {
            inner,
            fates: Mutex::default(),
            held: Mutex::default(),
            damaged: Mutex::default(),
            doomed: Mutex::default(),
            directory_lost: AtomicBool::new(false),
            bug: AtomicBool::new(false),
            loads: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
        })
    }

    /// Decides the fate of the next commits; those after them pass.
    pub(crate) fn next(&self, fates: &[Fate]) {
        self.fates.lock().unwrap().extend(fates);
    }

    /// From now on the events with this sequence can't be read, of any run.
    pub(crate) fn damage(&self, sequence: u64) {
        *self.damaged.lock().unwrap() = Some(sequence);
    }

    /// From now on nobody's entry in the directory can be read.
    pub(crate) fn lose_directory(&self) {
        self.directory_lost.store(true, Ordering::Relaxed);
    }

    /// Erases a run right before its journal is read the next time.
    pub(crate) fn erase_before_reading(&self, key: Key) {
        *self.doomed.lock().unwrap() = Some(key);
    }

    /// Whoever asks next what a run has heard panics.
    pub(crate) fn break_once(&self) {
        self.bug.store(true, Ordering::SeqCst);
    }

    /// How many commits wait.
    pub(crate) fn held(&self) -> usize {
        self.held.lock().unwrap().len()
    }

    /// Lets the commits that wait go through, in order, or fail.
    pub(crate) fn release(&self, fate: Fate) {
        for (commit, lane, done) in std::mem::take(&mut *self.held.lock().unwrap()) {
            assert!(self.send(commit, lane, done, fate).is_ok());
        }
    }

    fn send(&self, commit: Commit, lane: Lane, done: Done, fate: Fate) -> Result<(), Done> {
        match fate {
            Fate::Pass => return self.inner.submit(commit, lane, done),
            Fate::Fail => drop(std::thread::spawn(|| done(Err(Error::Failed("the tap is closed".into()))))),
            Fate::Hold => self.held.lock().unwrap().push((commit, lane, done)),
        }
        Ok(())
    }
}

impl Store for Tapped {
    fn tip(&self, key: Key) -> Answer<'_, Option<abide_core::Head>> {
        self.inner.tip(key)
    }

    fn latest_workflow(&self, tenant: TenantId, id: String) -> Answer<'_, Option<WorkflowVersion>> {
        self.inner.latest_workflow(tenant, id)
    }

    fn advance_test_clock(&self, by: Millis) -> Answer<'_, Option<Millis>> {
        self.inner.advance_test_clock(by)
    }

    fn cluster(&self) -> Option<&dyn abide_store::Cluster> {
        self.inner.cluster()
    }

    fn submit(&self, commit: Commit, lane: Lane, done: Done) -> Result<(), Done> {
        self.submitted.fetch_add(1, Ordering::SeqCst);
        let fate = self.fates.lock().unwrap().pop_front().unwrap_or(Fate::Pass);
        self.send(commit, lane, done, fate)
    }

    fn load(&self, key: Key) -> Answer<'_, Option<Loaded>> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        self.inner.load(key)
    }

    fn taken_names(&self, key: Key, names: Vec<Hash>) -> Answer<'_, Vec<Hash>> {
        self.inner.taken_names(key, names)
    }

    fn head(&self, key: Key) -> Answer<'_, Option<Listed>> {
        self.inner.head(key)
    }

    fn journal(&self, key: Key, from: u64, limit: usize) -> Answer<'_, Vec<Record>> {
        if *self.damaged.lock().unwrap() == Some(from) {
            let (reason, way_out) = ("the disk is bad".to_owned(), "buy another".to_owned());
            return Box::pin(async { Err(Error::Damaged { file: "abide.db".into(), reason, way_out }) });
        }
        let doomed = self.doomed.lock().unwrap().take_if(|doomed| *doomed == key);
        Box::pin(async move {
            if let Some(key) = doomed {
                let erasure = Erasure { at: 0, by: None, reason: None };
                let erased = self.inner.erase(key, erasure).await?;
                assert!(matches!(erased, Erased::Done { .. }), "{erased:?}");
            }
            self.inner.journal(key, from, limit).await
        })
    }

    fn events_of_type(&self, key: Key, type_code: u16, from: u64, limit: usize) -> Answer<'_, Vec<Record>> {
        self.inner.events_of_type(key, type_code, from, limit)
    }

    fn list(&self, query: ListQuery) -> Answer<'_, Vec<Listed>> {
        self.inner.list(query)
    }

    fn scan(&self, after: Option<Key>, limit: usize) -> Answer<'_, Vec<(Key, Result<Listed, String>)>> {
        self.inner.scan(after, limit)
    }

    fn sealed_kids(&self) -> Answer<'_, Vec<u32>> {
        self.inner.sealed_kids()
    }

    fn beside(&self, key: Key, expected: Expected) -> Answer<'_, Beside> {
        self.inner.beside(key, expected)
    }

    fn totals(&self) -> Answer<'_, Totals> {
        self.inner.totals()
    }

    fn blob(&self, tenant: TenantId, hash: Hash) -> Answer<'_, Option<Arc<[u8]>>> {
        self.inner.blob(tenant, hash)
    }

    fn timers(&self, after: Option<TimerRow>, until: Millis, limit: usize) -> Answer<'_, Vec<TimerRow>> {
        self.inner.timers(after, until, limit)
    }

    fn claim_tasks(&self, boot: u64, limit: usize) -> Answer<'_, Vec<TaskRow>> {
        self.inner.claim_tasks(boot, limit)
    }

    fn outbox(&self, after: Option<MessageRef>, limit: usize) -> Answer<'_, Vec<MessageRow>> {
        self.inner.outbox(after, limit)
    }

    fn discard(&self, messages: Vec<MessageRef>) -> Answer<'_, ()> {
        self.inner.discard(messages)
    }

    fn heard(&self, receiver: Key, sender: RunId) -> Answer<'_, Option<u64>> {
        assert!(!self.bug.swap(false, Ordering::SeqCst), "this is the bug that was asked for");
        self.inner.heard(receiver, sender)
    }

    fn children(&self, parent: Key, limit: usize) -> Answer<'_, Vec<ChildRow>> {
        self.inner.children(parent, limit)
    }

    fn put_workflow(&self, new: NewWorkflow) -> Answer<'_, WorkflowVersion> {
        self.inner.put_workflow(new)
    }

    fn workflow(
        &self,
        tenant: TenantId,
        id: String,
        version: Option<u32>,
    ) -> Answer<'_, Option<(WorkflowVersion, Arc<[u8]>)>> {
        self.inner.workflow(tenant, id, version)
    }

    fn workflows(&self, tenant: TenantId) -> Answer<'_, Vec<WorkflowVersion>> {
        self.inner.workflows(tenant)
    }

    fn workflow_versions(&self, tenant: TenantId, id: String) -> Answer<'_, Vec<WorkflowVersion>> {
        self.inner.workflow_versions(tenant, id)
    }

    fn put_secret(&self, secret: SecretRow) -> Answer<'_, ()> {
        self.inner.put_secret(secret)
    }

    fn secret(&self, tenant: TenantId, name: String) -> Answer<'_, Option<SecretRow>> {
        self.inner.secret(tenant, name)
    }

    fn secrets(&self, tenant: TenantId) -> Answer<'_, Vec<SecretRow>> {
        self.inner.secrets(tenant)
    }

    fn delete_secret(&self, tenant: TenantId, name: String) -> Answer<'_, bool> {
        self.inner.delete_secret(tenant, name)
    }

    fn receipt(&self, tenant: TenantId, endpoint: String, key: [u8; 32]) -> Answer<'_, Option<Receipt>> {
        self.inner.receipt(tenant, endpoint, key)
    }

    fn put_receipt(&self, receipt: Receipt) -> Answer<'_, bool> {
        self.inner.put_receipt(receipt)
    }

    fn drop_receipt(&self, tenant: TenantId, endpoint: String, key: [u8; 32]) -> Answer<'_, ()> {
        self.inner.drop_receipt(tenant, endpoint, key)
    }

    fn purge_receipts(&self, before: Millis, limit: usize) -> Answer<'_, usize> {
        self.inner.purge_receipts(before, limit)
    }

    fn claimant(&self, tenant: TenantId, workflow: String, scope: String) -> Answer<'_, Option<RunId>> {
        self.inner.claimant(tenant, workflow, scope)
    }

    fn erase(&self, key: Key, erasure: Erasure) -> Answer<'_, Erased> {
        self.inner.erase(key, erasure)
    }

    fn compact(&self) -> Answer<'_, ()> {
        self.inner.compact()
    }

    fn notes(&self, key: Key) -> Answer<'_, Vec<Note>> {
        self.inner.notes(key)
    }

    fn annotate(&self, annotation: NewAnnotation) -> Answer<'_, Annotated> {
        self.inner.annotate(annotation)
    }

    fn annotations(&self, key: Key, after: Option<u64>, limit: usize) -> Answer<'_, Annotations> {
        self.inner.annotations(key, after, limit)
    }

    fn test_clock(&self) -> Answer<'_, Option<Millis>> {
        self.inner.test_clock()
    }

    fn set_test_clock(&self, to: Millis) -> Answer<'_, Millis> {
        self.inner.set_test_clock(to)
    }

    fn tenant(&self, name: String, create: bool) -> Answer<'_, Option<TenantId>> {
        self.inner.tenant(name, create)
    }

    fn tenants(&self) -> Answer<'_, Vec<(TenantId, String)>> {
        self.inner.tenants()
    }

    fn forget_api_keys(&self, ids: Vec<String>) -> Answer<'_, ()> {
        self.inner.forget_api_keys(ids)
    }

    fn put_api_keys(&self, keys: Vec<ApiKey>) -> Answer<'_, ()> {
        self.inner.put_api_keys(keys)
    }

    fn api_keys(&self) -> Answer<'_, Vec<ApiKey>> {
        self.inner.api_keys()
    }

    fn revoke_api_key(&self, id: String, at: Millis) -> Answer<'_, bool> {
        self.inner.revoke_api_key(id, at)
    }

    fn outline(&self, key: Key) -> Answer<'_, Option<abide_store::Outline>> {
        self.inner.outline(key)
    }

    fn truncate(&self, truncation: abide_store::Truncation) -> Answer<'_, abide_store::Truncated> {
        self.inner.truncate(truncation)
    }

    fn audit_log(&self) -> &dyn abide_store::AuditLog {
        self.inner.audit_log()
    }

    fn inbox(&self) -> &dyn abide_store::Inbox {
        self.inner.inbox()
    }

    fn external_events(&self) -> &dyn abide_store::ExternalEvents {
        self.inner.external_events()
    }

    fn callbacks(&self) -> &dyn abide_store::Callbacks {
        self.inner.callbacks()
    }

    fn notices(&self) -> &dyn abide_store::Notices {
        self.inner.notices()
    }

    fn containers(&self) -> &dyn abide_store::Containers {
        self.inner.containers()
    }

    fn records(&self) -> &dyn Records {
        self.inner.records()
    }

    fn retention(&self) -> &dyn abide_store::Retention {
        self.inner.retention()
    }

    fn providers(&self) -> &dyn abide_store::Providers {
        self.inner.providers()
    }

    fn sessions(&self) -> &dyn abide_store::Sessions {
        self.inner.sessions()
    }

    fn work(&self) -> &dyn abide_store::Work {
        self.inner.work()
    }

    fn agents(&self) -> &dyn abide_store::Agents {
        self.inner.agents()
    }

    fn access(&self) -> &dyn abide_store::Access {
        self.inner.access()
    }

    fn webhooks(&self) -> &dyn abide_store::Webhooks {
        self.inner.webhooks()
    }

    fn put_person(&self, person: Person) -> Answer<'_, ()> {
        self.inner.put_person(person)
    }

    fn person(&self, tenant: TenantId, principal: String) -> Answer<'_, Option<Person>> {
        if self.directory_lost.load(Ordering::Relaxed) {
            let (file, reason, way_out) = ("here".into(), "it is no list".to_owned(), String::new());
            return Box::pin(async { Err(Error::Damaged { file, reason, way_out }) });
        }
        self.inner.person(tenant, principal)
    }

    fn people(&self, tenant: TenantId, after: String, limit: usize) -> Answer<'_, Vec<Person>> {
        self.inner.people(tenant, after, limit)
    }

    fn delete_person(&self, tenant: TenantId, principal: String) -> Answer<'_, bool> {
        self.inner.delete_person(tenant, principal)
    }

    fn boot(&self) -> u64 {
        self.inner.boot()
    }

    fn counts(&self) -> Counts {
        self.inner.counts()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.inner.close()
    }
}
