//! API keys: made, checked, rotated and revoked. The store has a MAC of each, never its secret.
//!
//! A key that Abide makes is `abk_<id>_<secret>`, found by its id and compared in constant time. A key whose text was
//! chosen by somebody else is found by the MAC of the whole text, which tells nothing about how much of it was right.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use abide_core::{Millis, TenantId};
use abide_store::{ApiKey, Store};
use tokio::sync::{Mutex, MutexGuard};

use crate::auth::Principal;
use crate::keyring::{Keyring, random_hex};
use crate::limits::{
    KEYS_ENDED_MAX, KEYS_KEPT_MS, SECRET_KEY_CHARS_MAX, SECRET_KEY_CHARS_MIN, TOKEN_LEEWAY_MS,
};
use crate::names::{self, NameProblem, problem};
use crate::oidc;
use crate::scope::{Scope, Scopes};

const PURPOSE: &str = "api-key";
const PURPOSE_WHOLE: &str = "api-key-whole";
const PREFIX: &str = "abk_";

/// A key as its owner holds it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiSecret {
    /// What the key is called by.
    pub id: String,
    text: String,
    whole: bool,
}

impl ApiSecret {
    /// A fresh key.
    pub fn generate() -> Self {
        Self::made(random_hex(6), &random_hex(32))
    }

    /// The key of `abide dev`: the same as long as the keyring is.
    pub fn for_dev(keyring: &Keyring) -> Self {
        Self::made("dev".to_owned(), &keyring.derive("dev-api-key"))
    }

    /// A key with a text that somebody chose.
    pub fn chosen(text: &str) -> Result<Self, NameProblem> {
        let chars = SECRET_KEY_CHARS_MIN..=SECRET_KEY_CHARS_MAX;
        if !chars.contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = format!(
                "the secret of a key has {SECRET_KEY_CHARS_MIN} to {SECRET_KEY_CHARS_MAX} visible ASCII characters and \
                 no spaces; choose a random one"
            );
            return Err(problem("secret", message));
        }
        if text.starts_with(PREFIX) || is_token(text) {
            let message = format!(
                "a chosen secret does not begin with {PREFIX} and does not look like a JWT; choose another"
            );
            return Err(problem("secret", message));
        }
        Ok(Self { id: random_hex(6), text: text.to_owned(), whole: true })
    }

    fn made(id: String, secret: &str) -> Self {
        let text = format!("{PREFIX}{id}_{secret}");
        Self { id, text, whole: false }
    }

    /// The text its owner sends.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is the secret of this key.
    pub fn is_of(&self, key: &ApiKey, keyring: &Keyring) -> bool {
        key.whole && keyring.verify(PURPOSE_WHOLE, self.text.as_bytes(), &key.mac)
    }

    fn mac(&self, keyring: &Keyring) -> Arc<[u8]> {
        match split(&self.text) {
            Some((_, secret)) if !self.whole => keyring.mac(PURPOSE, secret.as_bytes()).into(),
            _ => keyring.mac(PURPOSE_WHOLE, self.text.as_bytes()).into(),
        }
    }
}

/// The id and the secret of a key that Abide made.
fn split(text: &str) -> Option<(&str, &str)> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    let plain =
        |part: &str| !part.is_empty() && part.len() <= 128 && part.bytes().all(|b| b.is_ascii_alphanumeric());
    (plain(id) && plain(secret)).then_some((id, secret))
}

/// Whether a text has the shape of a JWT: three parts in base64url, of which the first begins an object.
pub(crate) fn is_token(text: &str) -> bool {
    let plain = |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    (text.starts_with("ey") || text.starts_with("ew"))
        && text.split('.').count() == 3
        && text.split('.').all(plain)
}

/// What a new key may do, and who acts through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Whose data it reaches.
    pub tenant: TenantId,
    /// Who acts through it.
    pub principal: String,
    /// What it is for.
    pub label: Option<String>,
    /// What it may do; everything there is, now and later, if nothing is said.
    pub scopes: Option<Scopes>,
    /// The roles of whoever acts through it.
    pub roles: Vec<String>,
    /// Whether it may speak for others.
    pub act_as: bool,
    /// When it ends by itself.
    pub expires_at: Option<Millis>,
}

impl Grant {
    /// Everything, for a principal of a tenant.
    pub fn everything(tenant: TenantId, principal: &str) -> Self {
        let (label, scopes, roles, act_as, expires_at) = Default::default();
        Self { tenant, principal: principal.to_owned(), label, scopes, roles, act_as, expires_at }
    }

    /// The row that the store keeps of a key with this secret.
    pub fn row(self, secret: &ApiSecret, keyring: &Keyring, now: Millis) -> Result<ApiKey, NameProblem> {
        names::check_principal(&self.principal)?;
        names::check_roles("roles", &self.roles)?;
        self.label.as_deref().map_or(Ok(()), |label| names::check_label("label", label))?;
        let names = |scopes: Scopes| scopes.iter().map(|scope| scope.name().to_owned()).collect();
        Ok(ApiKey {
            id: secret.id.clone(),
            tenant: self.tenant,
            principal: self.principal,
            label: self.label,
            scopes: self.scopes.map(names),
            roles: self.roles,
            act_as: self.act_as,
            mac: secret.mac(keyring),
            whole: secret.whole,
            created_at: now,
            expires_at: self.expires_at,
            revoked_at: None,
        })
    }
}

/// What a key with this row may do. A scope that this version does not know allows nothing.
pub fn scopes_of(key: &ApiKey) -> Scopes {
    let known = |names: &Vec<String>| names.iter().filter_map(|name| Scope::by_name(name)).collect();
    key.scopes.as_ref().map_or(Scopes::ALL, known)
}

/// The key that takes the place of an old one: the same grant under a new secret.
pub fn successor(old: &ApiKey, secret: &ApiSecret, keyring: &Keyring, now: Millis) -> ApiKey {
    ApiKey {
        id: secret.id.clone(),
        mac: secret.mac(keyring),
        whole: secret.whole,
        created_at: now,
        revoked_at: None,
        ..old.clone()
    }
}

/// How a key stands at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// It opens.
    Active,
    /// Its time is over.
    Expired,
    /// Somebody took it back.
    Revoked,
}

impl KeyState {
    /// How a key stands.
    pub fn of(key: &ApiKey, now: Millis) -> Self {
        if key.revoked_at.is_some() {
            Self::Revoked
        } else if key.expires_at.is_some_and(|end| end <= now) {
            Self::Expired
        } else {
            Self::Active
        }
    }

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

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
    by_id: HashMap<String, Arc<ApiKey>>,
    /// Ids of the keys whose whole text was chosen, by their MACs.
    by_mac: HashMap<Arc<[u8]>, String>,
}

impl Table {
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
}

/// When a key ended, if it has by now.
fn ended_at(key: &ApiKey, now: Millis) -> Option<Millis> {
    key.expires_at
        .into_iter()
        .chain(key.revoked_at)
        .min()
        .filter(|_| KeyState::of(key, now) != KeyState::Active)
}

/// The keys of a running server. All of them are in memory, and a change is on disk before it is here.
pub struct Keys {
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
    /// Tenants are made while no server runs.
    tenants: HashMap<TenantId, Arc<str>>,
    table: RwLock<Table>,
    /// Changes are made one after the other, so that none is decided on what another has changed.
    changing: Mutex<()>,
}

impl Keys {
    /// Reads the keys of a store.
    pub async fn load(store: Arc<dyn Store>, keyring: Arc<Keyring>) -> Result<Self, abide_store::Error> {
        let mut table = Table::default();
        store.api_keys().await?.into_iter().for_each(|key| table.put(key));
        let tenants = store.tenants().await?.into_iter().map(|(id, name)| (id, name.into())).collect();
        Ok(Self { store, keyring, tenants, table: RwLock::new(table), changing: Mutex::default() })
    }

    /// Whether no key could ever open anything.
    pub fn is_empty(&self, now: Millis) -> bool {
        self.read(|table| table.by_id.values().all(|key| KeyState::of(key, now) != KeyState::Active))
    }

    /// What a tenant is called.
    pub(crate) fn tenant_name(&self, tenant: TenantId) -> Arc<str> {
        self.tenants.get(&tenant).cloned().unwrap_or_else(|| "".into())
    }

    /// The tenant with this name.
    pub(crate) fn tenant_named(&self, name: &str) -> Option<(TenantId, Arc<str>)> {
        let found = self.tenants.iter().find(|(_, known)| &***known == name);
        found.map(|(id, name)| (*id, name.clone()))
    }

    pub(crate) fn keyring(&self) -> &Arc<Keyring> {
        &self.keyring
    }

    /// Who holds this key.
    pub(crate) fn check(&self, text: &str, now: Millis) -> Result<Principal, Refused> {
        let key = self.find(text).ok_or(Refused::Unknown)?;
        match KeyState::of(&key, now) {
            KeyState::Active => Ok(self.principal(&key)),
            KeyState::Expired => Err(Refused::Expired),
            KeyState::Revoked => Err(Refused::Revoked),
        }
    }

    /// Who holds the key with this id, if it is in force: for those who showed it before.
    pub(crate) fn holder(&self, tenant: TenantId, id: &str, now: Millis) -> Option<Principal> {
        let key = self.get(tenant, id).filter(|key| KeyState::of(key, now) == KeyState::Active)?;
        Some(self.principal(&key))
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

    /// A tenant's keys, oldest first.
    pub(crate) fn of(&self, tenant: TenantId) -> Vec<Arc<ApiKey>> {
        let mut keys: Vec<_> =
            self.read(|table| table.by_id.values().filter(|key| key.tenant == tenant).cloned().collect());
        keys.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
        keys
    }

    /// A tenant's key.
    pub(crate) fn get(&self, tenant: TenantId, id: &str) -> Option<Arc<ApiKey>> {
        self.read(|table| table.by_id.get(id).cloned()).filter(|key| key.tenant == tenant)
    }

    /// Held by whoever looks at keys in order to change them.
    pub(crate) async fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// Puts keys in force, on disk first.
    pub(crate) async fn put(
        &self,
        _: &MutexGuard<'_, ()>,
        keys: Vec<ApiKey>,
    ) -> Result<(), abide_store::Error> {
        self.store.put_api_keys(keys.clone()).await?;
        let mut table = self.table.write().expect("no thread panics holding this");
        keys.into_iter().for_each(|key| table.put(key));
        Ok(())
    }

    /// Forgets keys of a tenant that ended long ago, and the oldest of them if there are too many.
    pub(crate) async fn forget(
        &self,
        _: &MutexGuard<'_, ()>,
        tenant: TenantId,
        now: Millis,
    ) -> Result<(), abide_store::Error> {
        let mut ended: Vec<(Millis, String)> = self.read(|table| {
            let of_tenant = table.by_id.values().filter(|key| key.tenant == tenant);
            of_tenant.filter_map(|key| Some((ended_at(key, now)?, key.id.clone()))).collect()
        });
        ended.sort_unstable();
        let spare = ended.len().saturating_sub(KEYS_ENDED_MAX);
        let is_old = |at: Millis| at.saturating_add(KEYS_KEPT_MS) <= now;
        let keys = ended.into_iter().enumerate().filter(|(ix, (at, _))| *ix < spare || is_old(*at));
        let ids: Vec<String> = keys.map(|(_, (_, id))| id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        self.store.forget_api_keys(ids.clone()).await?;
        let mut table = self.table.write().expect("no thread panics holding this");
        ids.iter().for_each(|id| table.remove(id));
        Ok(())
    }

    fn read<T>(&self, look: impl FnOnce(&Table) -> T) -> T {
        look(&self.table.read().expect("no thread panics holding this"))
    }
}
