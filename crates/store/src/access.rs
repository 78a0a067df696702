//! Who may come in, and what is known about people.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use abide_core::{Millis, TenantId};

use crate::store::Answer;

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

/// Everybody who may come in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roll {
    /// Rises with every change of a key or a tenant. What was read with it is no older.
    pub version: u64,
    /// Every API key, in force or not.
    pub keys: Vec<ApiKey>,
    /// Every tenant and its name.
    pub tenants: Vec<(TenantId, String)>,
}

/// A change of API keys that was decided on a roll.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyChange {
    /// The version of that roll.
    pub since: u64,
    /// Keys to add, or to put in the place of those with the same ids.
    pub put: Vec<ApiKey>,
    /// Ids of keys to forget. Those that are not there are left out.
    pub forget: Vec<String>,
}

/// API keys and tenants, for servers that share them, and which keyring they are checked with.
pub trait Access: Send + Sync {
    /// The version of the roll: one short read, for whoever has read it before.
    fn version(&self) -> Answer<'_, u64>;

    /// Reads everybody who may come in.
    fn roll(&self) -> Answer<'_, Roll>;

    /// Durably changes API keys, all of them or none, and gives the version of the roll then. `None` if somebody has
    /// changed it since it was read: nothing is written, and it has to be decided again, or what somebody else took back
    /// would be in force again.
    fn change_keys(&self, change: KeyChange) -> Answer<'_, Option<u64>>;

    /// What tells the keyring of this data from others, if it was ever set.
    fn keyring_mark(&self) -> Answer<'_, Option<i64>>;

    /// Durably sets that, if it still is what it was. `false` if it is not.
    fn set_keyring_mark(&self, was: Option<i64>, mark: i64) -> Answer<'_, bool>;
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
