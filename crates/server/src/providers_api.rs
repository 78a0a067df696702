//! Providers of models over HTTP: which there are, and how they do.

use std::sync::Arc;

use abide_core::BreakerState;
use abide_engine::ProviderHealth;
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::auth::Principal;
use crate::error::Result;
use crate::{shape, time};

/// A provider that the operator named, without where it is and what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderFacts {
    /// Its name.
    pub name: String,
    /// What it speaks: `anthropic` or `openai`.
    pub kind: &'static str,
    /// The model, if a node does not say.
    pub model: Option<String>,
}

/// The providers of the server.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ProviderList {
    /// By name.
    providers: Vec<ProviderView>,
}

/// A provider, and how it does for the caller's tenant.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Provider")]
pub(crate) struct ProviderView {
    name: String,
    /// What it speaks: `anthropic` or `openai`. Left out if turns wait for it, but the operator does not name it any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// The model, if a node does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    breaker: BreakerView,
    /// How many turns wait for it.
    waiting: WaitingTurns,
}

/// What keeps a provider that is away from being asked by everybody.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ProviderBreaker")]
pub(crate) struct BreakerView {
    /// `closed`: calls go out; `open`: none does; `half_open`: one is on its way to see whether the provider is back.
    state: &'static str,
    /// Calls of the last while that failed.
    failures: u32,
    /// All calls of the last while.
    calls: u32,
    /// When it lets the next call out.
    #[schemars(with = "Option<shape::Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    open_until: Option<String>,
    /// How long it keeps calls back this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    cooldown_ms: Option<i64>,
    /// Since when it keeps calls back.
    #[schemars(with = "Option<shape::Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    opened_at: Option<String>,
}

/// Turns that wait for a provider.
#[derive(Serialize, JsonSchema)]
struct WaitingTurns {
    /// For their own next try.
    retry: u64,
    /// Until the provider is known to answer again.
    postponed: u64,
}

/// The providers of the server, and how they do for the caller's tenant.
pub(crate) async fn list(State(app): State<Arc<App>>, principal: Principal) -> Result<Json<ProviderList>> {
    let health = app.engine().provider_health(principal.tenant).await?;
    Ok(Json(ProviderList { providers: views(app.providers(), &health) }))
}

/// Those that are named, and those that something is known of.
fn views(named: &[ProviderFacts], health: &[ProviderHealth]) -> Vec<ProviderView> {
    let facts = |name: &str| named.iter().find(|facts| facts.name == name);
    let unheard = named.iter().filter(|facts| health.iter().all(|one| one.provider != facts.name));
    let mut views: Vec<ProviderView> = unheard.map(|facts| view(Some(facts), unknown(&facts.name))).collect();
    views.extend(health.iter().map(|one| view(facts(&one.provider), one.clone())));
    views.sort_by(|one, other| one.name.cmp(&other.name));
    views
}

/// A provider that nobody has asked yet.
fn unknown(name: &str) -> ProviderHealth {
    let (provider, state) = (name.to_owned(), BreakerState::Closed);
    ProviderHealth { provider, state, failures: 0, calls: 0, retry: 0, postponed: 0 }
}

fn view(facts: Option<&ProviderFacts>, health: ProviderHealth) -> ProviderView {
    let (opened_at, until, cooldown_ms) = match health.state {
        BreakerState::Closed => (None, None, None),
        BreakerState::Open { opened_at, until, cooldown_ms }
        | BreakerState::HalfOpen { opened_at, until, cooldown_ms, .. } => {
            (Some(opened_at), Some(until), Some(cooldown_ms))
        }
    };
    ProviderView {
        name: health.provider,
        kind: facts.map(|facts| facts.kind),
        model: facts.and_then(|facts| facts.model.clone()),
        breaker: BreakerView {
            state: state_name(health.state),
            failures: health.failures,
            calls: health.calls,
            open_until: until.map(time::rfc3339),
            cooldown_ms,
            opened_at: opened_at.map(time::rfc3339),
        },
        waiting: WaitingTurns { retry: health.retry, postponed: health.postponed },
    }
}

/// The name of a breaker's state.
pub(crate) fn state_name(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::Open { .. } => "open",
        BreakerState::HalfOpen { .. } => "half_open",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(name: &str) -> ProviderFacts {
        ProviderFacts { name: name.to_owned(), kind: "openai", model: Some("m".to_owned()) }
    }

    #[test]
    fn every_provider_is_listed_once_whether_it_was_asked_or_is_still_named() {
        let open = BreakerState::Open { opened_at: 0, until: 30_000, cooldown_ms: 30_000 };
        let busy =
            ProviderHealth { state: open, failures: 6, calls: 10, retry: 1, postponed: 9, ..unknown("busy") };
        let views = views(&[named("busy"), named("quiet")], &[busy, unknown("forgotten")]);
        let closed = json!({ "state": "closed", "failures": 0, "calls": 0 });
        let none = json!({ "retry": 0, "postponed": 0 });
        assert_eq!(
            serde_json::to_value(views).unwrap(),
            json!([
                {
                    "name": "busy", "kind": "openai", "model": "m",
                    "breaker": {
                        "state": "open", "failures": 6, "calls": 10, "openUntil": "1970-01-01T00:00:30.000Z",
                        "cooldownMs": 30_000, "openedAt": "1970-01-01T00:00:00.000Z",
                    },
                    "waiting": { "retry": 1, "postponed": 9 },
                },
                { "name": "forgotten", "breaker": closed, "waiting": none },
                { "name": "quiet", "kind": "openai", "model": "m", "breaker": closed, "waiting": none },
            ])
        );
    }
}
