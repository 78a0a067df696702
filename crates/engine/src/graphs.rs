//! Workflow definitions: the ones new runs follow, by id, and the ones old runs are pinned to, by hash.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, RwLock};

use abide_core::{Graph, Hash, Key, RunId, TenantId};
use abide_store::Store;

use crate::{Error, limits};

/// The latest version of each tenant's workflows, or that there is none.
type Latest = HashMap<(TenantId, String), Option<Arc<Graph>>>;

#[derive(Default)]
pub(crate) struct Graphs {
    /// Definitions that the operator loaded, for every tenant.
    shared: RwLock<HashMap<Arc<str>, Arc<Graph>>>,
    /// What a tenant's latest version of a workflow is, as far as it was asked for. They go before the shared ones.
    pushed: RwLock<Latest>,
    by_hash: Mutex<HashMap<Hash, Arc<Graph>>>,
    /// Definitions known to lie in the store, so that only a tenant's first run carries them.
    stored: Mutex<HashSet<(TenantId, Hash)>>,
    /// Whether nodes play the mocks of the public fixtures.
    mocks: bool,
}

impl Graphs {
    pub(crate) fn new(mocks: bool) -> Self {
        Self { mocks, ..Self::default() }
    }

    /// New runs of this workflow follow this definition from now on, unless their tenant has pushed its own.
    pub(crate) fn register(&self, graph: Graph) {
        let graph = self.remember(graph);
        self.shared.write().expect("no thread panics holding this").insert(graph.workflow_id.clone(), graph);
    }

    /// New runs of this tenant's workflow follow this definition from now on.
    pub(crate) fn push(&self, tenant: TenantId, graph: Graph) {
        let graph = self.remember(graph);
        self.mark_stored(tenant, graph.hash);
        let mut pushed = self.pushed.write().expect("no thread panics holding this");
        if pushed.len() >= limits::GRAPHS_MAX {
            pushed.clear();
        }
        pushed.insert((tenant, graph.workflow_id.to_string()), Some(graph));
    }

    /// The definition that a new run of this workflow follows.
    pub(crate) async fn named(
        &self,
        store: &dyn Store,
        tenant: TenantId,
        id: &str,
    ) -> Result<Arc<Graph>, Error> {
        let known =
            self.pushed.read().expect("no thread panics holding this").get(&(tenant, id.to_owned())).cloned();
        let pushed = match known {
            Some(known) => known,
            None => self.look_up(store, tenant, id).await?,
        };
        let shared = || self.shared.read().expect("no thread panics holding this").get(id).cloned();
        pushed.or_else(shared).ok_or_else(|| Error::WorkflowNotFound(id.to_owned()))
    }

    /// Reads a tenant's latest version. One that is pushed meanwhile stands.
    async fn look_up(
        &self,
        store: &dyn Store,
        tenant: TenantId,
        id: &str,
    ) -> Result<Option<Arc<Graph>>, Error> {
        let found = store.workflow(tenant, id.to_owned(), None).await?;
        let graph = match found {
            Some((_, source)) => {
                let graph = Graph::read(&source).map_err(Error::Invalid)?;
                self.mark_stored(tenant, graph.hash);
                Some(self.remember(graph))
            }
            None => None,
        };
        let mut pushed = self.pushed.write().expect("no thread panics holding this");
        if pushed.len() >= limits::GRAPHS_MAX {
            pushed.clear();
        }
        Ok(pushed.entry((tenant, id.to_owned())).or_insert(graph).clone())
    }

    /// The definitions that the operator loaded.
    pub(crate) fn shared(&self) -> Vec<Arc<Graph>> {
        let shared = self.shared.read().expect("no thread panics holding this");
        let mut graphs: Vec<_> = shared.values().cloned().collect();
        graphs.sort_by(|a, b| a.workflow_id.cmp(&b.workflow_id));
        graphs
    }

    /// The definition a run is pinned to.
    pub(crate) async fn pinned(&self, store: &dyn Store, key: Key, hash: Hash) -> Result<Arc<Graph>, Error> {
        if let Some(graph) = self.by_hash.lock().expect("no thread panics holding this").get(&hash) {
            return Ok(graph.clone());
        }
        let graph = read_pinned(store, key, hash).await?;
        self.mark_stored(key.tenant, hash);
        Ok(self.remember(graph))
    }

    fn remember(&self, graph: Graph) -> Arc<Graph> {
        let graph = Arc::new(graph.with_mocks(self.mocks));
        let mut by_hash = self.by_hash.lock().expect("no thread panics holding this");
        if by_hash.len() >= limits::GRAPHS_MAX {
            by_hash.clear();
        }
        by_hash.insert(graph.hash, graph.clone());
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
pub(crate) async fn read_pinned(store: &dyn Store, key: Key, hash: Hash) -> Result<Graph, Error> {
    let lost = |run: RunId, reason: String| Error::DefinitionLost { run, reason };
    let source =
        store.blob(key.tenant, hash).await?.ok_or_else(|| lost(key.id, "it is not in the store".into()))?;
    let graph =
        Graph::read(&source).map_err(|problems| lost(key.id, Error::Invalid(problems).to_string()))?;
    if graph.hash != hash {
        return Err(lost(key.id, "its bytes do not have the hash they are filed under".into()));
    }
    Ok(graph)
}
