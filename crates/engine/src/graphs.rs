//! Workflow definitions: the ones new runs follow, by id, and the ones old runs are pinned to, by hash.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, RwLock};

use abide_core::{Graph, Hash, Key, RunId, TenantId};
use abide_store::Store;

use crate::{Error, limits};

#[derive(Default)]
pub(crate) struct Graphs {
    by_id: RwLock<HashMap<Arc<str>, Arc<Graph>>>,
    by_hash: Mutex<HashMap<Hash, Arc<Graph>>>,
    /// Definitions known to lie in the store, so that only a tenant's first run carries them.
    stored: Mutex<HashSet<(TenantId, Hash)>>,
}

impl Graphs {
    /// New runs of this workflow follow this definition from now on.
    pub(crate) fn register(&self, graph: Arc<Graph>) {
        self.remember(graph.clone());
        self.by_id.write().expect("no thread panics holding this").insert(graph.workflow_id.clone(), graph);
    }

    pub(crate) fn named(&self, id: &str) -> Option<Arc<Graph>> {
        self.by_id.read().expect("no thread panics holding this").get(id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Graph>> {
        let by_id = self.by_id.read().expect("no thread panics holding this");
        let mut graphs: Vec<_> = by_id.values().cloned().collect();
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
        self.remember(graph.clone());
        Ok(graph)
    }

    fn remember(&self, graph: Arc<Graph>) {
        let mut by_hash = self.by_hash.lock().expect("no thread panics holding this");
        if by_hash.len() >= limits::GRAPHS_MAX {
            by_hash.clear();
        }
        by_hash.insert(graph.hash, graph);
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

/// Reads a definition from the store. It was valid when the run began, so anything else is damage.
pub(crate) async fn read_pinned(store: &dyn Store, key: Key, hash: Hash) -> Result<Arc<Graph>, Error> {
    let lost = |run: RunId, reason: String| Error::DefinitionLost { run, reason };
    let source =
        store.blob(key.tenant, hash).await?.ok_or_else(|| lost(key.id, "it is not in the store".into()))?;
    let graph =
        Graph::parse(&source).map_err(|problems| lost(key.id, Error::Invalid(problems).to_string()))?;
    if graph.hash != hash {
        return Err(lost(key.id, "its bytes do not have the hash they are filed under".into()));
    }
    Ok(Arc::new(graph))
}
