//! What a run finds around it whenever it decides: what the operator and the agents say about questions that nobody
//! answers, and what workers have said of the kinds of nodes that they provide.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use abide_core::{Graph, HumanRetryPolicy, Provided, ProviderTerms, ResumeSettings, Surroundings, TenantId};
use abide_store::{AgentRow, Hint, KindRow};

use crate::shell::Shell;
use crate::{Engine, Error, limits};

/// The surroundings of every tenant's runs.
pub(crate) struct AllSurroundings {
    /// For those who have neither agents nor kinds.
    base: Arc<Surroundings>,
    tenants: RwLock<HashMap<TenantId, Arc<Surroundings>>>,
    /// On a store that others share: when each tenant's were last read.
    read_at: Mutex<HashMap<TenantId, Instant>>,
}

impl AllSurroundings {
    pub(crate) fn new(
        platform: Option<HumanRetryPolicy>,
        resume: ResumeSettings,
        no_conversations: bool,
        notifies: bool,
        providers: Arc<BTreeMap<String, ProviderTerms>>,
        agents: HashMap<TenantId, BTreeMap<String, HumanRetryPolicy>>,
        kinds: Vec<KindRow>,
    ) -> Self {
        let base = Arc::new(Surroundings {
            platform,
            resume,
            no_conversations,
            notifies,
            providers,
            ..Surroundings::default()
        });
        let all = Self { base, tenants: RwLock::default(), read_at: Mutex::default() };
        agents.into_iter().for_each(|(tenant, agents)| all.change(tenant, |around| around.agents = agents));
        let mut by_tenant: HashMap<TenantId, Vec<KindRow>> = HashMap::new();
        kinds.into_iter().for_each(|kind| by_tenant.entry(kind.tenant).or_default().push(kind));
        by_tenant.into_iter().for_each(|(tenant, kinds)| all.add_kinds(tenant, &kinds));
        all
    }

    /// What the runs of a tenant find.
    pub(crate) fn of(&self, tenant: TenantId) -> Arc<Surroundings> {
        let tenants = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        tenants.get(&tenant).unwrap_or(&self.base).clone()
    }

    /// Another server has changed a tenant's.
    pub(crate) fn doubt(&self, tenant: TenantId) {
        self.read_at.lock().expect("no thread panics holding this").remove(&tenant);
    }

    /// Another server may have changed anybody's.
    pub(crate) fn doubt_all(&self) {
        self.read_at.lock().expect("no thread panics holding this").clear();
    }

    /// Whether it is time to read a tenant's again. Whoever is told so does it; the others go on with what is known.
    fn is_due(&self, tenant: TenantId) -> bool {
        let mut read_at = self.read_at.lock().expect("no thread panics holding this");
        let sure = Duration::from_millis(limits::SURROUNDINGS_SURE_MS);
        if read_at.get(&tenant).is_some_and(|at| at.elapsed() < sure) {
            return false;
        }
        read_at.insert(tenant, Instant::now());
        true
    }

    /// This is what the store has of a tenant.
    fn replace(&self, tenant: TenantId, kinds: &[KindRow], agents: BTreeMap<String, HumanRetryPolicy>) {
        self.change(tenant, |around| {
            around.kinds = Arc::new(kinds.iter().map(|kind| (kind.kind.clone(), provided(kind))).collect());
            around.agents = agents;
        });
    }

    /// Workers have said this of kinds.
    pub(crate) fn add_kinds(&self, tenant: TenantId, kinds: &[KindRow]) {
        self.change(tenant, |around| {
            let mut known = (*around.kinds).clone();
            known.extend(kinds.iter().map(|kind| (kind.kind.clone(), provided(kind))));
            around.kinds = Arc::new(known);
        });
    }

    /// A kind is not known any more.
    pub(crate) fn forget_kind(&self, tenant: TenantId, kind: &str) {
        self.change(tenant, |around| {
            let mut known = (*around.kinds).clone();
            known.remove(kind);
            around.kinds = Arc::new(known);
        });
    }

    fn set_agent(&self, tenant: TenantId, agent: String, policy: Option<HumanRetryPolicy>) {
        self.change(tenant, |around| match policy {
            Some(policy) => drop(around.agents.insert(agent, policy)),
            None => drop(around.agents.remove(&agent)),
        });
    }

    fn change(&self, tenant: TenantId, change: impl FnOnce(&mut Surroundings)) {
        let mut tenants = self.tenants.write().unwrap_or_else(PoisonError::into_inner);
        let mut around = (**tenants.get(&tenant).unwrap_or(&self.base)).clone();
        change(&mut around);
        if around == *self.base {
            tenants.remove(&tenant);
        } else {
            tenants.insert(tenant, Arc::new(around));
        }
    }
}

fn provided(kind: &KindRow) -> Provided {
    Provided { idempotent: kind.idempotent, reversible: kind.reversible, timeout_ms: kind.timeout_ms }
}

impl Shell {
    /// Sees to it that what a run of this workflow finds around it is what is on the store, if other servers share that: a
    /// kind that a worker has provided through another server is known, and what else they changed is within seconds.
    pub(crate) async fn see_surroundings(&self, tenant: TenantId, graph: &Graph) -> Result<(), Error> {
        if self.store.cluster().is_none() {
            return Ok(());
        }
        let known = self.surroundings.of(tenant);
        let misses = graph.foreign_kinds().any(|kind| !known.kinds.contains_key(kind));
        if !self.surroundings.is_due(tenant) && !misses {
            return Ok(());
        }
        let read = self.read_surroundings(tenant).await;
        read.inspect_err(|_| self.surroundings.doubt(tenant))
    }

    async fn read_surroundings(&self, tenant: TenantId) -> Result<(), Error> {
        let most = limits::KINDS_OF_TENANT_MAX;
        let kinds = self.store.work().kinds(tenant, String::new(), most).await?;
        let agents = self.store.agents().list(tenant, String::new(), limits::AGENTS_READ_MAX).await?;
        let policy = |agent: AgentRow| {
            let read: Result<Option<HumanRetryPolicy>, _> = serde_json::from_str(&agent.policy);
            Some((agent.name, read.ok()??))
        };
        self.surroundings.replace(tenant, &kinds, agents.into_iter().filter_map(policy).collect());
        Ok(())
    }
}

impl Engine {
    /// What the operator says about questions that nobody answers.
    pub fn platform_policy(&self) -> Option<HumanRetryPolicy> {
        self.shell.surroundings.base.platform.clone()
    }

    /// Questions that an agent asks from here on have this policy, or the operator's if it has none.
    pub fn set_agent_policy(&self, tenant: TenantId, agent: String, policy: Option<HumanRetryPolicy>) {
        self.shell.surroundings.set_agent(tenant, agent, policy);
        self.shell.tell_peers(Hint::Surroundings(tenant));
    }
}
