//! Workflow definitions: the ones new runs follow, by id, and the ones old runs are pinned to, by hash.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use abide_core::{Graph, Hash, INTENT_WORKFLOW, Json, Key, Offers, RunId, TenantId, intent_graph};
use abide_store::{NewWorkflow, Store, WorkflowVersion};

use crate::apart::Apart;
use crate::cache::Cache;
use crate::{Error, limits};

#[derive(Default)]
pub(crate) struct Graphs {
    /// Definitions that the operator loaded, for every tenant.
    shared: RwLock<Shared>,
    pushed: RwLock<Pushed>,
    by_hash: Mutex<Cache<Hash, Arc<Graph>>>,
    /// Definitions known to lie in the store, so that only a tenant's first run carries them.
    stored: Mutex<HashSet<(TenantId, Hash)>>,
    /// Whether nodes play the mocks of the public fixtures.
    offers: Offers,
    /// What intents follow.
    intent: OnceLock<Arc<Graph>>,
    pub(crate) apart: Apart,
}

/// They are the operator's, so there are as many as the operator wants, and none is ever dropped.
#[derive(Default)]
struct Shared {
    by_id: HashMap<Arc<str>, Arc<Graph>>,
    by_hash: HashMap<Hash, Arc<Graph>>,
}

/// What the latest versions of tenants' workflows are, as far as they were asked for. They go before the shared ones.
#[derive(Default)]
struct Pushed {
    /// Goes up with each push, so that whoever read the store before it knows.
    pushes: u64,
    latest: Cache<(TenantId, String), Latest>,
}

/// The number of the latest version and its definition; 0 if there is none.
type Latest = (u32, Option<Hash>);

impl Pushed {
    /// Notes what the latest version is, as the store told after `since`. A later one that is known stands, and one
    /// that may have been known and dropped meanwhile is not replaced by a guess.
    fn note(&mut self, tenant: TenantId, id: &str, latest: Latest, since: u64) {
        let key = (tenant, id.to_owned());
        let is_newer = match self.latest.get(&key) {
            Some((known, _)) => latest.0 > *known,
            None => self.pushes == since,
        };
        if is_newer {
            self.latest.insert(key, latest, id.len());
        }
    }
}

impl Graphs {
    pub(crate) fn new(offers: Offers) -> Self {
        Self { offers, ..Self::default() }
    }

    /// What the server offers beyond what every one does.
    pub(crate) fn offers(&self) -> Offers {
        self.offers
    }

    /// Whether nodes play the mocks of the public fixtures.
    pub(crate) fn plays_mocks(&self) -> bool {
        self.offers.mocks
    }

    /// New runs of this workflow follow this definition from now on, unless their tenant has pushed its own.
    pub(crate) fn register(&self, graph: Graph) {
        let graph = Arc::new(graph.offered(self.offers));
        let mut shared = self.shared.write().expect("no thread panics holding this");
        if let Some(old) = shared.by_id.insert(graph.workflow_id.clone(), graph.clone()) {
            shared.by_hash.remove(&old.hash);
        }
        shared.by_hash.insert(graph.hash, graph);
    }

    /// Makes a version. New runs of this tenant's workflow follow it from now on. Whoever calls this sees it through:
    /// a version that is in the store and not noted here would be followed after the next start only.
    pub(crate) async fn push(
        &self,
        store: &dyn Store,
        new: NewWorkflow,
        graph: Graph,
    ) -> Result<WorkflowVersion, Error> {
        let (tenant, id) = (new.tenant, new.id.clone());
        let since = self.pushes();
        let put = store.put_workflow(new).await;
        let mut pushed = self.pushed.write().expect("no thread panics holding this");
        match &put {
            Ok(version) => {
                self.mark_stored(tenant, graph.hash);
                let graph = self.remember(graph);
                pushed.note(tenant, &id, (version.version, Some(graph.hash)), since);
            }
            // Perhaps it was written all the same: the store is asked again.
            Err(_) => pushed.latest.remove(&(tenant, id)),
        }
        pushed.pushes += 1;
        Ok(put?)
    }

    fn pushes(&self) -> u64 {
        self.pushed.read().expect("no thread panics holding this").pushes
    }

    /// The definition that a new run of this workflow follows.
    pub(crate) async fn named(
        &self,
        store: &dyn Store,
        tenant: TenantId,
        id: &str,
    ) -> Result<Arc<Graph>, Error> {
        if id == INTENT_WORKFLOW {
            return Ok(self.intent());
        }
        if store.cluster().is_some() {
            self.catch_up(store, tenant, id).await?;
        }
        let known = {
            let pushed = self.pushed.read().expect("no thread panics holding this");
            pushed.latest.get(&(tenant, id.to_owned())).copied()
        };
        let pushed = match known {
            Some((_, None)) => None,
            Some((_, Some(hash))) if let Some(graph) = self.known(hash) => Some(graph),
            _ => self.look_up(store, tenant, id).await?,
        };
        let shared = || self.shared.read().expect("no thread panics holding this").by_id.get(id).cloned();
        pushed.or_else(shared).ok_or_else(|| Error::WorkflowNotFound(id.to_owned()))
    }

    /// Takes in what was pushed through another server: whoever starts a run right after that means it.
    async fn catch_up(&self, store: &dyn Store, tenant: TenantId, id: &str) -> Result<(), Error> {
        let since = self.pushes();
        let latest = store.latest_workflow(tenant, id.to_owned()).await?;
        let latest = latest.map_or((0, None), |version| (version.version, Some(version.hash)));
        self.pushed.write().expect("no thread panics holding this").note(tenant, id, latest, since);
        Ok(())
    }

    /// Reads a tenant's latest version.
    async fn look_up(
        &self,
        store: &dyn Store,
        tenant: TenantId,
        id: &str,
    ) -> Result<Option<Arc<Graph>>, Error> {
        let since = self.pushes();
        let found = store.workflow(tenant, id.to_owned(), None).await?;
        let (latest, graph) = match found {
            Some((version, source)) => {
                let graph = match self.known(version.hash) {
                    Some(graph) => graph,
                    None => self.read(source).await?,
                };
                self.mark_stored(tenant, graph.hash);
                ((version.version, Some(graph.hash)), Some(graph))
            }
            None => ((0, None), None),
        };
        self.pushed.write().expect("no thread panics holding this").note(tenant, id, latest, since);
        Ok(graph)
    }

    /// The definitions that the operator loaded.
    pub(crate) fn shared(&self) -> Vec<Arc<Graph>> {
        let shared = self.shared.read().expect("no thread panics holding this");
        let mut graphs: Vec<_> = shared.by_id.values().cloned().collect();
        graphs.sort_by(|a, b| a.workflow_id.cmp(&b.workflow_id));
        graphs
    }

    /// The definition a run is pinned to.
    pub(crate) async fn pinned(&self, store: &dyn Store, key: Key, hash: Hash) -> Result<Arc<Graph>, Error> {
        if let Some(graph) = self.known(hash) {
            return Ok(graph);
        }
        let graph = read_pinned(store, &self.apart, key, hash).await?;
        self.mark_stored(key.tenant, hash);
        Ok(self.remember(graph))
    }

    /// What intents follow. It is the same everywhere, and nobody pushes another.
    fn intent(&self) -> Arc<Graph> {
        self.intent.get_or_init(|| Arc::new(intent_graph())).clone()
    }

    fn known(&self, hash: Hash) -> Option<Arc<Graph>> {
        let cached = self.by_hash.lock().expect("no thread panics holding this").get(&hash).cloned();
        let shared =
            || self.shared.read().expect("no thread panics holding this").by_hash.get(&hash).cloned();
        cached.or_else(shared)
    }

    /// A definition that comes with the run that follows it.
    pub(crate) async fn inline(&self, definition: &Json) -> Result<Arc<Graph>, Error> {
        let source: Arc<[u8]> = definition.text().as_bytes().into();
        match self.known(abide_core::sha256(&source)) {
            Some(graph) => Ok(graph),
            None => self.read(source).await,
        }
    }

    async fn read(&self, source: Arc<[u8]>) -> Result<Arc<Graph>, Error> {
        let read = self.apart.run(source.len(), move || Graph::read(&source)).await?;
        Ok(self.remember(read.map_err(Error::Invalid)?))
    }

    fn remember(&self, graph: Graph) -> Arc<Graph> {
        let graph = Arc::new(graph.offered(self.offers));
        let mut by_hash = self.by_hash.lock().expect("no thread panics holding this");
        by_hash.insert(graph.hash, graph.clone(), graph.source.len());
        graph
    }

    pub(crate) fn is_stored(&self, tenant: TenantId, hash: Hash) -> bool {
        self.stored.lock().expect("no thread panics holding this").contains(&(tenant, hash))
    }

    pub(crate) fn mark_stored(&self, tenant: TenantId, hash: Hash) {
        let mut stored = self.stored.lock().expect("no thread panics holding this");
        if stored.len() >= limits::GRAPHS_MAX {
            stored.clear();
        }
        stored.insert((tenant, hash));
    }
}

/// Reads a definition from the store. It was admitted when the run began, so one that can't be read is damage.
pub(crate) async fn read_pinned(
    store: &dyn Store,
    apart: &Apart,
    key: Key,
    hash: Hash,
) -> Result<Graph, Error> {
    let lost = |run: RunId, reason: String| Error::DefinitionLost { run, reason };
    let source =
        store.blob(key.tenant, hash).await?.ok_or_else(|| lost(key.id, "it is not in the store".into()))?;
    let read = apart.run(source.len(), move || Graph::read(&source)).await?;
    let graph = read.map_err(|problems| lost(key.id, Error::Invalid(problems).to_string()))?;
    if graph.hash != hash {
        return Err(lost(key.id, "its bytes do not have the hash they are filed under".into()));
    }
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: TenantId = TenantId(1);

    fn version(number: u8) -> Latest {
        (u32::from(number), Some([number; 32]))
    }

    fn latest(pushed: &Pushed) -> Option<Latest> {
        pushed.latest.get(&(TENANT, "errand".to_owned())).copied()
    }

    #[test]
    fn a_push_that_comes_late_does_not_replace_a_later_version() {
        let mut pushed = Pushed::default();
        for (number, expected) in [(2, 2), (1, 2), (3, 3), (3, 3), (2, 3)] {
            pushed.note(TENANT, "errand", version(number), 0);
            assert_eq!(latest(&pushed), Some(version(expected)));
        }
    }

    /// Version 1 was read, version 2 was pushed, noted and dropped for want of room: version 1 may not come in.
    #[test]
    fn what_was_read_before_a_push_is_not_noted_after_it() {
        let mut pushed = Pushed::default();
        let since = pushed.pushes;
        pushed.note(TENANT, "errand", version(2), since);
        pushed.pushes += 1;
        pushed.latest.remove(&(TENANT, "errand".to_owned()));
        for stale in [version(1), (0, None)] {
            pushed.note(TENANT, "errand", stale, since);
            assert_eq!(latest(&pushed), None);
        }
        let since = pushed.pushes;
        pushed.note(TENANT, "errand", version(2), since);
        assert_eq!(latest(&pushed), Some(version(2)));
    }

    #[test]
    fn a_first_version_replaces_that_there_was_none() {
        let mut pushed = Pushed::default();
        pushed.note(TENANT, "errand", (0, None), 0);
        pushed.note(TENANT, "errand", version(1), 0);
        assert_eq!(latest(&pushed), Some(version(1)));
    }
}
