//! What a run finds around it whenever it decides: what the operator and the agents say about questions that nobody
//! answers, and what workers have said of the kinds of nodes that they provide.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use abide_core::{HumanRetryPolicy, Provided, ProviderTerms, ResumeSettings, Surroundings, TenantId};
use abide_store::KindRow;

use crate::Engine;

/// The surroundings of every tenant's runs.
pub(crate) struct AllSurroundings {
    /// For those who have neither agents nor kinds.
    base: Arc<Surroundings>,
    tenants: RwLock<HashMap<TenantId, Arc<Surroundings>>>,
}

impl AllSurroundings {
    pub(crate) fn new(
        platform: Option<HumanRetryPolicy>,
        resume: ResumeSettings,
        notifies: bool,
        providers: Arc<BTreeMap<String, ProviderTerms>>,
        agents: HashMap<TenantId, BTreeMap<String, HumanRetryPolicy>>,
        kinds: Vec<KindRow>,
    ) -> Self {
        let base =
            Arc::new(Surroundings { platform, resume, notifies, providers, ..Surroundings::default() });
        let all = Self { base, tenants: RwLock::default() };
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

impl Engine {
    /// What the operator says about questions that nobody answers.
    pub fn platform_policy(&self) -> Option<HumanRetryPolicy> {
        self.shell.surroundings.base.platform.clone()
    }

    /// Questions that an agent asks from here on have this policy, or the operator's if it has none.
    pub fn set_agent_policy(&self, tenant: TenantId, agent: String, policy: Option<HumanRetryPolicy>) {
        self.shell.surroundings.set_agent(tenant, agent, policy);
    }
}
