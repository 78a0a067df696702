//! API keys: made, checked, rotated and revoked. The store has a MAC of each, never its secret.
//!
//! A key that Abide makes is `abk_<id>_<secret>`, found by its id and compared in constant time. A key whose text was
//! chosen by somebody else is found by the MAC of the whole text, which tells nothing about how much of it was right.

mod held;

use std::sync::Arc;

use abide_core::{Millis, TenantId};
use abide_store::ApiKey;

pub use held::Keys;
pub(crate) use held::Refused;

use crate::keyring::{Keyring, random_hex};
use crate::limits::{SECRET_KEY_CHARS_MAX, SECRET_KEY_CHARS_MIN};
use crate::names::{self, NameProblem, problem};
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
