//! How downstreams do that runs depend on, and which turns wait for theirs.
//!
//! A wait's row comes and goes with its run's commits. A breaker's is written here, one version after the other.

use abide_core::{KeptBreaker, Key, ProviderWait, TenantId};

use crate::store::Answer;

/// Where breakers are kept, and waits are found.
pub trait Providers: Send + Sync {
    /// A breaker, if it has ever changed. One that can't be read is logged, and counts as one that has not.
    fn breaker(&self, tenant: TenantId, downstream: String) -> Answer<'_, Option<BreakerRow>>;

    /// Durably writes a breaker down, if the one that is there has the version before. `false` if it has another: then
    /// somebody else was faster, and nothing is written. One that can't be read is replaced by the first version.
    fn put_breaker(&self, row: BreakerRow) -> Answer<'_, bool>;

    /// Turns that wait for the breaker of a provider, oldest first, at most `limit`. One that can't be read is left out
    /// and logged.
    fn postponed(&self, tenant: TenantId, provider: String, limit: usize) -> Answer<'_, Vec<WaitRow>>;

    /// The tenants and providers for whose breaker any turn waits. It takes time in proportion to these, however many
    /// turns there are.
    fn postponed_for(&self) -> Answer<'_, Vec<(TenantId, String)>>;

    /// How many turns of a tenant wait, by provider. It counts them.
    fn waiting_turns(&self, tenant: TenantId) -> Answer<'_, Vec<WaitCounts>>;
}

/// A breaker of a tenant for one downstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerRow {
    /// Whose.
    pub tenant: TenantId,
    /// For what.
    pub downstream: String,
    /// How it stands.
    pub kept: KeptBreaker,
}

/// A turn that waits for its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRow {
    /// Whose.
    pub key: Key,
    /// Which turn of it, for what and for how long.
    pub wait: ProviderWait,
}

/// How many turns wait for a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitCounts {
    /// Which provider.
    pub provider: String,
    /// For their own next try.
    pub retry: u64,
    /// For its breaker.
    pub postponed: u64,
}
