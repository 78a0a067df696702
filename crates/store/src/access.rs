//! Who may come in, and what is known about people.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use abide_core::{Millis, TenantId};

/// An API key: everything but its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// What it is called by; of a key that Abide made, the public part.
    pub id: String,
    /// Whose data it reaches.
    pub tenant: TenantId,
    /// Who acts through it.
    pub principal: String,
    /// What it is for, in its owner's words.
    pub label: Option<String>,
    /// What it may do; everything, if that was never said.
    pub scopes: Option<Vec<String>>,
    /// The roles of whoever acts through it.
    pub roles: Vec<String>,
    /// Whether it may speak for others.
    pub act_as: bool,
    /// The secret's MAC under a key of the keyring.
    pub mac: Arc<[u8]>,
    /// Whether the MAC is of the whole text that is sent.
    pub whole: bool,
    /// When it was made.
    pub created_at: Millis,
    /// When it ends by itself.
    pub expires_at: Option<Millis>,
    /// When it was revoked.
    pub revoked_at: Option<Millis>,
}

/// A person in a tenant's directory.
#[derive(Clone, PartialEq, Eq)]
pub struct Person {
    /// Whose.
    pub tenant: TenantId,
    /// Who, as keys and tokens name them.
    pub principal: String,
    /// What they are called.
    pub display_name: Option<String>,
    /// The roles they have.
    pub roles: Vec<String>,
    /// The groups they belong to.
    pub groups: Vec<String>,
    /// Where each channel reaches them.
    pub addresses: BTreeMap<String, String>,
    /// When they were first entered.
    pub created_at: Millis,
    /// When the entry was set last.
    pub updated_at: Millis,
}

/// Logs show who it is, and never a name or an address.
impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Person")
            .field("tenant", &self.tenant)
            .field("principal", &self.principal)
            .field("addresses", &format_args!("{} of them", self.addresses.len()))
            .finish_non_exhaustive()
    }
}
