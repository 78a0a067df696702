//! What the operator and the agents say about questions that nobody answers, at hand whenever a run decides.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use abide_core::{HumanRetryPolicy, Surroundings, TenantId};

use crate::Engine;

/// The levels above a question, by tenant.
pub(crate) struct Ladders {
    /// For those who have no agents with a policy.
    base: Arc<Surroundings>,
    tenants: RwLock<HashMap<TenantId, Arc<Surroundings>>>,
}

impl Ladders {
    pub(crate) fn new(
        platform: Option<HumanRetryPolicy>,
        notifies: bool,
        agents: HashMap<TenantId, BTreeMap<String, HumanRetryPolicy>>,
    ) -> Self {
        let base = Arc::new(Surroundings { platform, agents: BTreeMap::new(), notifies });
        let ladders = Self { base, tenants: RwLock::default() };
        agents.into_iter().for_each(|(tenant, agents)| ladders.change(tenant, |all| *all = agents));
        ladders
    }

    /// What holds for the questions of a tenant.
    pub(crate) fn of(&self, tenant: TenantId) -> Arc<Surroundings> {
        let tenants = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        tenants.get(&tenant).unwrap_or(&self.base).clone()
    }

    fn set_agent(&self, tenant: TenantId, agent: String, policy: Option<HumanRetryPolicy>) {
        self.change(tenant, |agents| match policy {
            Some(policy) => drop(agents.insert(agent, policy)),
            None => drop(agents.remove(&agent)),
        });
    }

    fn change(&self, tenant: TenantId, change: impl FnOnce(&mut BTreeMap<String, HumanRetryPolicy>)) {
        let mut tenants = self.tenants.write().unwrap_or_else(PoisonError::into_inner);
        let mut agents = tenants.get(&tenant).map(|known| known.agents.clone()).unwrap_or_default();
        change(&mut agents);
        if agents.is_empty() {
            tenants.remove(&tenant);
        } else {
            tenants.insert(tenant, Arc::new(Surroundings { agents, ..(*self.base).clone() }));
        }
    }
}

impl Engine {
    /// What the operator says about questions that nobody answers.
    pub fn platform_policy(&self) -> Option<HumanRetryPolicy> {
        self.shell.ladders.base.platform.clone()
    }

    /// Questions that an agent asks from here on have this policy, or the operator's if it has none.
    pub fn set_agent_policy(&self, tenant: TenantId, agent: String, policy: Option<HumanRetryPolicy>) {
        self.shell.ladders.set_agent(tenant, agent, policy);
    }
}
