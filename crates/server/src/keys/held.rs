//! The keys and tenants that a running server knows. All of them are in memory, and a change is on disk before it is here.
//!
//! Servers that share a store share its keys. Each hears at once when another has changed one, and looks at the version
//! of the roll every second in case it did not hear. A key or a tenant that it does not know makes it look as well, so that
//! whoever made one can use it at any server. What was revoked elsewhere may open for a second more.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use abide_core::{Millis, TenantId};
use abide_store::{ApiKey, Hint, KeyChange, Roll, Store};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::{ApiSecret, KeyState, PURPOSE, PURPOSE_WHOLE, scopes_of, split};
use crate::auth::Principal;
use crate::keyring::Keyring;
use crate::limits::{
    KEYS_ENDED_MAX, KEYS_KEPT_MS, KEYS_LOOK_EVERY, KEYS_LOOK_SPACING, SECRET_KEY_CHARS_MAX, TOKEN_LEEWAY_MS,
};
use crate::oidc;

type Result<T> = std::result::Result<T, abide_store::Error>;

/// Why a key does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no such key.
    Unknown,
    /// It is genuine and its time is over.
    Expired,
    /// It is genuine and somebody took it back.
    Revoked,
}

#[derive(Default)]
struct Table {
    /// The version of the roll that this was read with.
    version: u64,
    tenants: HashMap<TenantId, Arc<str>>,
    by_id: HashMap<String, Arc<ApiKey>>,
    /// Ids of the keys whose whole text was chosen, by their MACs.
    by_mac: HashMap<Arc<[u8]>, String>,
}

impl Table {
    fn of(roll: Roll) -> Self {
        let tenants = roll.tenants.into_iter().map(|(id, name)| (id, name.into())).collect();
        let mut table = Self { version: roll.version, tenants, ..Self::default() };
        roll.keys.into_iter().for_each(|key| table.put(key));
        table
    }

    fn put(&mut self, key: ApiKey) {
        if key.whole {
            self.by_mac.insert(key.mac.clone(), key.id.clone());
        }
        self.by_id.insert(key.id.clone(), Arc::new(key));
    }

    fn remove(&mut self, id: &str) {
        let Some(key) = self.by_id.remove(id) else { return };
        if key.whole {
            self.by_mac.remove(&key.mac);
        }
    }

    /// Keys of a tenant that ended long ago, and the oldest of those that ended if there are too many.
    fn spare(&self, tenant: TenantId, now: Millis) -> Vec<String> {
        let of_tenant = self.by_id.values().filter(|key| key.tenant == tenant);
        let mut ended: Vec<(Millis, String)> =
            of_tenant.filter_map(|key| Some((ended_at(key, now)?, key.id.clone()))).collect();
        ended.sort_unstable();
        let spare = ended.len().saturating_sub(KEYS_ENDED_MAX);
        let is_old = |at: Millis| at.saturating_add(KEYS_KEPT_MS) <= now;
        let keys = ended.into_iter().enumerate().filter(|(ix, (at, _))| *ix < spare || is_old(*at));
        keys.map(|(_, (_, id))| id).collect()
    }
}

/// When a key ended, if it has by now.
fn ended_at(key: &ApiKey, now: Millis) -> Option<Millis> {
    key.expires_at
        .into_iter()
        .chain(key.revoked_at)
        .min()
        .filter(|_| KeyState::of(key, now) != KeyState::Active)
}

/// The keys of a running server.
pub struct Keys {
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
    table: RwLock<Table>,
    /// Changes are made one after the other, so that none is decided on what another has changed.
    changing: Mutex<()>,
    /// When somebody last began to look at what others changed. Held while they do.
    looked: Mutex<Instant>,
}

/// A change that is being decided on the keys as they are.
pub(crate) struct Change<'a> {
    keys: &'a Keys,
    since: u64,
    _turn: MutexGuard<'a, ()>,
}

impl Keys {
    /// Reads the keys of a store.
    pub async fn load(store: Arc<dyn Store>, keyring: Arc<Keyring>) -> Result<Self> {
        let table = RwLock::new(Table::of(store.access().roll().await?));
        let looked = Mutex::new(Instant::now());
        Ok(Self { store, keyring, table, changing: Mutex::default(), looked })
    }

    /// Whether no key could ever open anything.
    pub fn is_empty(&self, now: Millis) -> bool {
        self.read(|table| table.by_id.values().all(|key| KeyState::of(key, now) != KeyState::Active))
    }

    /// Hears of what other servers change, for as long as this is polled. A server that is alone has nothing to hear.
    pub(crate) async fn follow(&self) {
        let Some(cluster) = self.store.cluster() else { return };
        let (mut hints, mut every) = (cluster.hear(), interval(KEYS_LOOK_EVERY));
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = every.tick() => {}
                hint = hints.recv() => match hint {
                    Ok(Hint::Keys | Hint::Everything) | Err(RecvError::Lagged(_)) => {}
                    Ok(_) => continue,
                    Err(RecvError::Closed) => return,
                },
            }
            if let Err(error) = self.refresh().await {
                // Those who are known can still come in, and nobody else could do anything.
                tracing::debug!(%error, "API keys can't be read; those that are known go on");
            }
        }
    }

    /// Takes over what was changed elsewhere, if anything was.
    async fn refresh(&self) -> Result<()> {
        let version = self.store.access().version().await?;
        if version == self.read(|table| table.version) {
            return Ok(());
        }
        let table = Table::of(self.store.access().roll().await?);
        let mut held = self.table.write().expect("no thread panics holding this");
        // Somebody else may have read a later one meanwhile.
        if table.version > held.version {
            *held = table;
        }
        Ok(())
    }

    /// Looks whether others have made what is not known here. However many ask, and whatever they ask for, there is one
    /// short read at a time, and a pause after it.
    async fn look_again(&self) -> Result<()> {
        if self.store.cluster().is_none() {
            return Ok(());
        }
        let asked = Instant::now();
        let mut looked = self.looked.lock().await;
        if *looked >= asked {
            return Ok(());
        }
        sleep_until(*looked + KEYS_LOOK_SPACING).await;
        *looked = Instant::now();
        self.refresh().await
    }

    /// What a tenant is called.
    pub(crate) fn tenant_name(&self, tenant: TenantId) -> Arc<str> {
        self.read(|table| table.tenants.get(&tenant).cloned()).unwrap_or_else(|| "".into())
    }

    /// The tenant with this name.
    pub(crate) async fn tenant_named(&self, name: &str) -> Result<Option<(TenantId, Arc<str>)>> {
        let find = |table: &Table| {
            let found = table.tenants.iter().find(|(_, known)| &***known == name);
            found.map(|(id, name)| (*id, name.clone()))
        };
        if let Some(found) = self.read(find) {
            return Ok(Some(found));
        }
        self.look_again().await?;
        Ok(self.read(find))
    }

    pub(crate) fn keyring(&self) -> &Arc<Keyring> {
        &self.keyring
    }

    /// Who holds this key.
    pub(crate) async fn check(
        &self,
        text: &str,
        now: Millis,
    ) -> Result<std::result::Result<Principal, Refused>> {
        let mut found = self.find(text);
        if found.is_none() {
            self.look_again().await?;
            found = self.find(text);
        }
        let Some(key) = found else { return Ok(Err(Refused::Unknown)) };
        Ok(match KeyState::of(&key, now) {
            KeyState::Active => Ok(self.principal(&key)),
            KeyState::Expired => Err(Refused::Expired),
            KeyState::Revoked => Err(Refused::Revoked),
        })
    }

    /// Who holds the key with this id, if it is in force: for those who showed it before.
    pub(crate) async fn holder(&self, tenant: TenantId, id: &str, now: Millis) -> Result<Option<Principal>> {
        if self.get(tenant, id).is_none() {
            self.look_again().await?;
        }
        let key = self.get(tenant, id).filter(|key| KeyState::of(key, now) == KeyState::Active);
        Ok(key.map(|key| self.principal(&key)))
    }

    fn principal(&self, key: &ApiKey) -> Principal {
        Principal {
            tenant: key.tenant,
            tenant_name: self.tenant_name(key.tenant),
            name: key.principal.clone(),
            key: key.id.clone(),
            scopes: scopes_of(key),
            roles: key.roles.clone(),
            act_as: key.act_as,
            expires_at: key.expires_at,
        }
    }

    /// The genuine key that was sent, in force or not.
    fn find(&self, text: &str) -> Option<Arc<ApiKey>> {
        if let Some((id, secret)) = split(text) {
            let key = self.read(|table| table.by_id.get(id).cloned()).filter(|key| !key.whole)?;
            return self.keyring.verify(PURPOSE, secret.as_bytes(), &key.mac).then_some(key);
        }
        if text.len() > SECRET_KEY_CHARS_MAX || self.read(|table| table.by_mac.is_empty()) {
            return None;
        }
        let macs = self.keyring.macs(PURPOSE_WHOLE, text.as_bytes());
        self.read(|table| {
            let id = macs.iter().find_map(|mac| table.by_mac.get(&mac[..]))?;
            table.by_id.get(id).cloned()
        })
    }

    /// Whether this secret is already that of a key, whoever's and however it stands.
    pub(crate) fn is_taken(&self, secret: &ApiSecret) -> bool {
        self.find(&secret.text).is_some()
    }

    /// Whether whoever came in with a key or a token could still do so.
    pub(crate) fn still_holds(&self, principal: &Principal, now: Millis) -> bool {
        if principal.key == oidc::DOOR {
            return principal.expires_at.is_none_or(|end| now < end.saturating_add(TOKEN_LEEWAY_MS));
        }
        let key = self.read(|table| table.by_id.get(&principal.key).cloned());
        key.is_some_and(|key| KeyState::of(&key, now) == KeyState::Active)
    }

    /// How many keys of a tenant are in force.
    pub(crate) fn active(&self, tenant: TenantId, now: Millis) -> usize {
        let counts = |key: &&Arc<ApiKey>| key.tenant == tenant && KeyState::of(key, now) == KeyState::Active;
        self.read(|table| table.by_id.values().filter(counts).count())
    }

    /// A tenant's keys, oldest first, as they are on disk.
    pub(crate) async fn of(&self, tenant: TenantId) -> Result<Vec<Arc<ApiKey>>> {
        self.refresh_shared().await?;
        let mut keys: Vec<_> =
            self.read(|table| table.by_id.values().filter(|key| key.tenant == tenant).cloned().collect());
        keys.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
        Ok(keys)
    }

    /// A tenant's key, as it stands on disk.
    pub(crate) async fn look(&self, tenant: TenantId, id: &str) -> Result<Option<Arc<ApiKey>>> {
        self.refresh_shared().await?;
        Ok(self.get(tenant, id))
    }

    /// A tenant's key, as far as it is known here.
    pub(crate) fn get(&self, tenant: TenantId, id: &str) -> Option<Arc<ApiKey>> {
        self.read(|table| table.by_id.get(id).cloned()).filter(|key| key.tenant == tenant)
    }

    /// Held by whoever looks at keys in order to change them. They are as they stand on disk.
    pub(crate) async fn change(&self) -> Result<Change<'_>> {
        let turn = self.changing.lock().await;
        self.refresh_shared().await?;
        Ok(Change { keys: self, since: self.read(|table| table.version), _turn: turn })
    }

    /// Whoever is alone knows already what stands on disk.
    async fn refresh_shared(&self) -> Result<()> {
        if self.store.cluster().is_some() { self.refresh().await } else { Ok(()) }
    }

    fn take_over(&self, version: u64, put: Vec<ApiKey>, forget: &[String]) {
        let mut table = self.table.write().expect("no thread panics holding this");
        // Whoever has read a later roll meanwhile has read this with it.
        if version > table.version {
            table.version = version;
            forget.iter().for_each(|id| table.remove(id));
            put.into_iter().for_each(|key| table.put(key));
        }
    }

    fn read<T>(&self, look: impl FnOnce(&Table) -> T) -> T {
        look(&self.table.read().expect("no thread panics holding this"))
    }
}

impl Change<'_> {
    /// Keys of a tenant that need not be remembered any more.
    pub(crate) fn spare(&self, tenant: TenantId, now: Millis) -> Vec<String> {
        self.keys.read(|table| table.spare(tenant, now))
    }

    /// Puts keys in force and forgets others, on disk first. `false` if another server was quicker: nothing has changed,
    /// and it has to be decided again.
    pub(crate) async fn make(self, put: Vec<ApiKey>, forget: Vec<String>) -> Result<bool> {
        let (keys, since) = (self.keys, self.since);
        let change = KeyChange { since, put: put.clone(), forget: forget.clone() };
        let Some(version) = keys.store.access().change_keys(change).await? else { return Ok(false) };
        keys.take_over(version, put, &forget);
        if let Some(cluster) = keys.store.cluster() {
            cluster.tell(Hint::Keys);
        }
        Ok(true)
    }
}
