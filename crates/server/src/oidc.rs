//! Tokens of an identity provider: JWTs signed with a key that the provider publishes.
//!
//! Only signatures that nobody but the provider can make are taken: never a shared secret, never none. Times are those
//! of this server's clock.

mod jwks;

use std::collections::BTreeMap;

use abide_core::Millis;
use abide_engine::NetPolicy;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde_json::Value;

use jwks::Jwks;
pub use jwks::JwksSource;

use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::keys::Keys;
use crate::limits::{ROLE_CHARS_MAX, ROLES_MAX, TOKEN_BYTES_MAX, TOKEN_LEEWAY_MS};
use crate::names;
use crate::scope::{Scope, Scopes};

/// What a principal's key is called who came in with a token.
pub(crate) const DOOR: &str = "oidc";

/// Which provider is trusted, and what its tokens mean here.
#[derive(Clone, Debug)]
pub struct OidcOptions {
    /// The `iss` of its tokens.
    pub issuer: String,
    /// What has to stand in their `aud`.
    pub audience: String,
    /// Where its keys are.
    pub jwks: JwksSource,
    /// The claim that says who it is.
    pub principal_claim: String,
    /// The claim that says which roles they have.
    pub roles_claim: String,
    /// The claim that says which scopes they have.
    pub scope_claim: String,
    /// Whose data they reach.
    pub tenant: TenantOf,
    /// Scopes that come with a role.
    pub grants: BTreeMap<String, Scopes>,
}

/// How the tenant of a token is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantOf {
    /// It is always this one.
    Fixed(String),
    /// A claim names it.
    Claim(String),
}

/// A provider whose tokens are taken.
pub struct Oidc {
    options: OidcOptions,
    jwks: Jwks,
}

impl Oidc {
    /// Trusts a provider. Keys in a file are read now, those at a URL at first use.
    pub fn open(options: OidcOptions, net: NetPolicy) -> std::result::Result<Self, String> {
        let jwks = Jwks::open(&options.jwks, net)?;
        Ok(Self { options, jwks })
    }

    /// Who holds this token.
    pub(crate) async fn check(&self, token: &str, now: Millis, keys: &Keys) -> Result<Principal> {
        let claims = self.claims(token, now).await?;
        self.check_claims(&claims, now)?;
        self.principal(&claims, keys).await
    }

    /// What a genuine token says.
    async fn claims(&self, token: &str, now: Millis) -> Result<Value> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(refused(format!("it is longer than {TOKEN_BYTES_MAX} bytes")));
        }
        // What a reader has to say about a token may repeat it, so it is not told.
        let header = decode_header(token)
            .map_err(|_| refused("its header can't be read, or its algorithm is none that is taken"))?;
        if is_shared(header.alg) {
            return Err(refused(
                "it is signed with a shared secret; have the provider sign with RS256, ES256 or EdDSA",
            ));
        }
        if header.crit.is_some() {
            return Err(refused("its header demands extensions ('crit'), of which none is known here"));
        }
        let Some(key) = self.jwks.find(header.kid.as_deref(), header.alg, now).await? else {
            return Err(refused("the provider has no key of that id ('kid') for that algorithm"));
        };
        let mut validation = Validation::new(header.alg);
        // These are checked below, on this server's clock.
        (validation.validate_exp, validation.validate_aud) = (false, false);
        validation.required_spec_claims.clear();
        let genuine = decode::<Value>(token, &key, &validation);
        genuine.map(|token| token.claims).map_err(|_| refused("its signature is not the provider's"))
    }

    fn check_claims(&self, claims: &Value, now: Millis) -> Result<()> {
        if claims["iss"] != self.options.issuer.as_str() {
            return Err(refused("its issuer ('iss') is not the one that this server trusts"));
        }
        let is_ours = |audience: &Value| audience == self.options.audience.as_str();
        let audience = &claims["aud"];
        if !is_ours(audience) && !audience.as_array().is_some_and(|all| all.iter().any(is_ours)) {
            return Err(refused("it is meant for somebody else ('aud')"));
        }
        let Some(end) = millis(&claims["exp"]) else {
            return Err(refused("it does not say when it expires ('exp')"));
        };
        if end.saturating_add(TOKEN_LEEWAY_MS) <= now {
            return Err(ApiError::new(
                "token_expired",
                "the token has expired; get a new one from the identity provider",
            ));
        }
        match &claims["nbf"] {
            Value::Null => Ok(()),
            begin if millis(begin).is_some_and(|begin| begin.saturating_sub(TOKEN_LEEWAY_MS) <= now) => {
                Ok(())
            }
            _ => Err(refused("it is not valid yet ('nbf')")),
        }
    }

    async fn principal(&self, claims: &Value, keys: &Keys) -> Result<Principal> {
        let options = &self.options;
        let name = claim(claims, &options.principal_claim).and_then(Value::as_str);
        let name = name.filter(|name| names::check_principal(name).is_ok()).ok_or_else(|| {
            refused(format!(
                "its claim '{}' names no principal (1 to 128 letters, digits or any of . _ @ : | + -); \
                 choose another claim with --oidc-principal",
                options.principal_claim
            ))
        })?;
        let tenant = match &options.tenant {
            TenantOf::Fixed(tenant) => Some(tenant.as_str()),
            TenantOf::Claim(path) => claim(claims, path).and_then(Value::as_str),
        };
        let known = match tenant {
            Some(tenant) => keys.tenant_named(tenant).await?,
            None => None,
        };
        let Some((tenant, tenant_name)) = known else {
            let message = "the token is genuine, but names no tenant of this server; the operator makes one with \
                           `abide keys create --tenant`";
            return Err(ApiError::new("forbidden", message));
        };
        let roles = words(claim(claims, &options.roles_claim), false);
        let granted =
            roles.iter().filter_map(|role| options.grants.get(role)).flat_map(|scopes| scopes.iter());
        let told = words(claim(claims, &options.scope_claim), true);
        let scopes = told.iter().filter_map(|name| Scope::by_name(name)).chain(granted).collect();
        Ok(Principal {
            tenant,
            tenant_name,
            name: name.to_owned(),
            key: DOOR.to_owned(),
            scopes,
            roles,
            act_as: false,
            expires_at: millis(&claims["exp"]),
        })
    }
}

fn is_shared(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512)
}

fn refused(why: impl std::fmt::Display) -> ApiError {
    ApiError::new("unauthenticated", format!("the token is not taken: {why}"))
}

/// Seconds since 1970, with a fraction or without, as milliseconds.
fn millis(seconds: &Value) -> Option<Millis> {
    let ms = seconds.as_f64()? * 1000.0;
    // Beyond this, doubles are no whole milliseconds any more, and nothing that is meant lies there.
    (ms.abs() < 9e15).then_some(ms as Millis)
}

/// A claim by its name or, if there is none, by its path: `realm_access.roles`.
fn claim<'a>(claims: &'a Value, path: &str) -> Option<&'a Value> {
    claims.get(path).or_else(|| path.split('.').try_fold(claims, |value, name| value.get(name)))
}

/// The words of a claim: a list, or a text that may hold several.
fn words(claim: Option<&Value>, is_spaced: bool) -> Vec<String> {
    let found: Vec<&str> = match claim {
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(text)) if is_spaced => text.split(' ').collect(),
        Some(Value::String(text)) => vec![text],
        _ => Vec::new(),
    };
    let fits = |word: &&str| (1..=ROLE_CHARS_MAX).contains(&word.len());
    found.into_iter().filter(fits).take(ROLES_MAX).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_found_by_its_name_or_its_path() {
        let claims = json!({ "a": { "b": 1 }, "https://x.example/roles": 2, "a.b": 3 });
        assert_eq!(claim(&claims, "https://x.example/roles"), Some(&json!(2)));
        assert_eq!(claim(&claims, "a.b"), Some(&json!(3)), "a name comes first");
        assert_eq!(claim(&json!({ "a": { "b": 1 } }), "a.b"), Some(&json!(1)));
        assert_eq!(claim(&claims, "a.c"), None);
    }

    #[test]
    fn words_come_as_a_list_or_as_text() {
        assert_eq!(words(Some(&json!(["a", 1, "b c", ""])), true), ["a", "b c"]);
        assert_eq!(words(Some(&json!("a b")), true), ["a", "b"]);
        assert_eq!(words(Some(&json!("a b")), false), ["a b"]);
        assert!(words(Some(&json!({})), true).is_empty() && words(None, true).is_empty());
        let many: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        assert_eq!(words(Some(&json!(many)), false).len(), ROLES_MAX);
    }

    #[test]
    fn times_are_numbers_within_reason() {
        assert_eq!(millis(&json!(1.5)), Some(1500));
        assert_eq!(millis(&json!(-1)), Some(-1000));
        for odd in [json!("1"), json!(null), json!(1e300), json!(-1e300)] {
            assert_eq!(millis(&odd), None, "{odd}");
        }
    }
}
