//! How often somebody may ask: a bucket for each key and for each tenant, in memory.
//!
//! Servers that share a store each have a share of every rate, as large as that of the others: behind something that
//! spreads requests over them, that is the rate as a whole.
//!
//! Only those who were let in have buckets, and those who have been quiet long enough lose theirs, so a flood of unknown
//! keys takes no memory.

use std::collections::HashMap;
use std::sync::Mutex;

use abide_core::{Bucket, Millis, Rate, TenantId};

use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::limits::BUCKETS_MAX;

/// Looked through for buckets to drop once there are so many.
const SWEEP_MIN: usize = 1024;

/// The rates that a server keeps to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Of one key, or of one principal of the identity provider.
    pub key: Option<Rate>,
    /// Of a tenant: all its keys together.
    pub tenant: Option<Rate>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Whose {
    Key(TenantId, String),
    Tenant(TenantId),
}

/// Keeps everybody to the rates.
pub(crate) struct Limiter {
    rates: Rates,
    buckets: Mutex<Buckets>,
}

#[derive(Default)]
struct Buckets {
    by_owner: HashMap<Whose, Bucket>,
    sweep_at: usize,
    swept: Millis,
}

impl Limiter {
    pub(crate) fn new(rates: Rates) -> Self {
        Self { rates, buckets: Mutex::default() }
    }

    /// Counts a request at one of so many servers, or refuses it. A refused one counts for nothing.
    pub(crate) fn take(&self, principal: &Principal, servers: u32, now: Millis) -> Result<()> {
        let tenant = Whose::Tenant(principal.tenant);
        let key = match principal.key.as_str() {
            // Everybody comes in by the same door then.
            "oidc" => Whose::Key(principal.tenant, format!("oidc {}", principal.name)),
            id => Whose::Key(principal.tenant, id.to_owned()),
        };
        let mut buckets = self.buckets.lock().expect("no thread panics holding this");
        let rates = Rates {
            key: self.rates.key.map(|rate| rate.among(servers)),
            tenant: self.rates.tenant.map(|rate| rate.among(servers)),
        };
        if let Some(rate) = rates.key {
            buckets.take(key.clone(), rate, now).map_err(|wait| refusal("key", rate, wait))?;
        }
        if let Some(rate) = rates.tenant {
            buckets.take(tenant, rate, now).map_err(|wait| {
                if let (Some(rate), Some(bucket)) = (rates.key, buckets.by_owner.get_mut(&key)) {
                    bucket.give_back(rate);
                }
                refusal("tenant", rate, wait)
            })?;
        }
        Ok(())
    }
}

impl Buckets {
    fn take(&mut self, whose: Whose, rate: Rate, now: Millis) -> std::result::Result<(), Millis> {
        if self.by_owner.len() >= self.sweep_at.max(SWEEP_MIN) && !self.by_owner.contains_key(&whose) {
            self.sweep(now);
            if self.by_owner.len() >= BUCKETS_MAX {
                // The tenant's own bucket still holds.
                return Ok(());
            }
        }
        self.by_owner.entry(whose).or_default().take(rate, now)
    }

    /// Drops the buckets that are full again. A look at all of them takes a while, so there is one in a second at most.
    fn sweep(&mut self, now: Millis) {
        if self.by_owner.len() >= BUCKETS_MAX && self.swept.abs_diff(now) < 1000 {
            return;
        }
        self.swept = now;
        self.by_owner.retain(|_, bucket| !bucket.is_full(now));
        self.sweep_at = (self.by_owner.len() * 2).min(BUCKETS_MAX);
    }
}

fn refusal(scope: &str, rate: Rate, wait: Millis) -> ApiError {
    let message = format!(
        "this {scope} has asked more often than {rate} (so many in a second or a minute : so many at once); \
         try again in {wait} ms"
    );
    ApiError::new("rate_limited", message)
        .with("retryAfterMs", wait)
        .with("scope", scope)
        .with("limit", rate.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Scopes;

    fn principal(tenant: u32, key: &str, name: &str) -> Principal {
        Principal {
            tenant: TenantId(tenant),
            tenant_name: "t".into(),
            name: name.to_owned(),
            key: key.to_owned(),
            scopes: Scopes::ALL,
            roles: Vec::new(),
            act_as: false,
            expires_at: None,
        }
    }

    fn limiter(key: Option<&str>, tenant: Option<&str>) -> Limiter {
        let rate = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        Limiter::new(Rates { key: rate(key), tenant: rate(tenant) })
    }

    #[test]
    fn one_who_asks_too_often_is_refused_and_nobody_else() {
        let limiter = limiter(Some("1/s:1"), None);
        assert!(limiter.take(&principal(1, "a", "x"), 1, 0).is_ok());
        assert!(limiter.take(&principal(1, "a", "x"), 1, 0).is_err());
        for other in [principal(1, "b", "x"), principal(1, "oidc", "x"), principal(1, "oidc", "y")] {
            assert!(limiter.take(&other, 1, 0).is_ok(), "{other:?}");
        }
        assert!(limiter.take(&principal(1, "oidc", "y"), 1, 0).is_err());
        assert!(limiter.take(&principal(1, "a", "x"), 1, 1000).is_ok());
    }

    #[test]
    fn what_the_tenant_refuses_is_not_counted_against_the_key() {
        let limiter = limiter(Some("1/m:2"), Some("1/s:1"));
        assert!(limiter.take(&principal(1, "a", "x"), 1, 0).is_ok());
        for _ in 0..5 {
            assert!(limiter.take(&principal(1, "a", "x"), 1, 0).is_err());
        }
        assert!(limiter.take(&principal(1, "a", "x"), 1, 1000).is_ok(), "the key has its second token still");
        assert!(limiter.take(&principal(2, "b", "x"), 1, 1000).is_ok(), "another tenant has its own bucket");
    }

    #[test]
    fn servers_divide_what_they_allow_among_them() {
        let limiter = limiter(Some("4/s:4"), None);
        let take = |servers, now| limiter.take(&principal(1, "a", "x"), servers, now).is_ok();
        assert!(take(2, 0) && take(2, 0) && !take(2, 0), "half of what may come at once");
        assert!(!take(2, 499) && take(2, 500) && !take(2, 500), "and half as often");
        assert!(take(1, 750), "whoever is left allows all of it");
    }

    #[test]
    fn the_quiet_lose_their_buckets_and_nothing_else() {
        let limiter = limiter(Some("1/s:1"), None);
        let buckets = || limiter.buckets.lock().unwrap().by_owner.len();
        for n in 0..SWEEP_MIN {
            limiter.take(&principal(1, &n.to_string(), "x"), 1, 0).unwrap();
        }
        assert_eq!(buckets(), SWEEP_MIN);
        limiter.take(&principal(1, "loud", "x"), 1, 1000).unwrap();
        assert_eq!(buckets(), 1, "those from a second ago are full again");
        assert!(limiter.take(&principal(1, "loud", "x"), 1, 1000).is_err());
    }
}
