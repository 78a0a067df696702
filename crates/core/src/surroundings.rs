//! What a run finds around it whenever it decides. It changes under way, so what follows from it is recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fork::Recorded;
use crate::{Hash, HumanRetryPolicy, Provided, ProviderTerms, ResumeSettings};

/// What a run finds around it whenever it decides: the levels above its questions, and what workers provide.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surroundings {
    /// What the server's operator says.
    pub platform: Option<HumanRetryPolicy>,
    /// What the agents say, by their names.
    pub agents: BTreeMap<String, HumanRetryPolicy>,
    /// Whether there is a channel at all: then people are told of every question.
    pub notifies: bool,
    /// The kinds of nodes that workers have ever provided, by their names.
    pub kinds: Arc<BTreeMap<String, Provided>>,
    /// The providers of models, by their names.
    pub providers: Arc<BTreeMap<String, ProviderTerms>>,
    /// What the server's operator says about resuming interrupted runs.
    pub resume: ResumeSettings,
    /// No conversation may be opened here.
    pub no_conversations: bool,
    /// Names of conversations that other runs of the tenant turned out to have.
    pub taken: Arc<BTreeSet<Hash>>,
    /// What a replay finds in their place.
    pub recorded: Option<Arc<Recorded>>,
}
