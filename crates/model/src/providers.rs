//! Makes providers of settings, and says what to change where that can't be done.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use abide_core::{BreakerSettings, Millis, Price, ProviderTerms, Schedule, mask_secrets};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::config::{BreakerConfig, PriceConfig, ProviderConfig, ScheduleConfig, Usd};
use crate::endpoint::{Endpoint, Protocol, Timeouts};
use crate::limits;
use crate::span::Span;

/// What is wrong with the settings: the key, and what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// The providers that the operator named.
#[derive(Clone, Debug, Default)]
pub struct Providers(BTreeMap<String, Provider>);

/// One of them.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Where it is.
    pub endpoint: Arc<Endpoint>,
    /// The name of the tenant's secret that it wants to see, if it wants to see one.
    pub key: Option<String>,
    /// What runs have to know: when a call is made again, and what it costs.
    pub terms: ProviderTerms,
    /// When it is left alone.
    pub breaker: BreakerSettings,
}

/// Headers that are set here, or that no operator should have to think of.
const HEADERS_TAKEN: [&str; 12] = [
    "accept",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "idempotency-key",
    "transfer-encoding",
    "x-api-key",
];

impl Providers {
    /// Those of a configuration file.
    pub fn from_config(config: BTreeMap<String, ProviderConfig>) -> Result<Self, ConfigError> {
        at_most("[providers]", config.len(), limits::PROVIDERS_MAX)?;
        let each = config.into_iter().map(|(name, config)| {
            let plan = Plan { name: &name, config };
            let provider = plan.build()?;
            Ok((name, provider))
        });
        each.collect::<Result<_, ConfigError>>().map(Self)
    }

    /// One by its name.
    pub fn get(&self, name: &str) -> Option<&Provider> {
        self.0.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Provider)> {
        self.0.iter().map(|(name, provider)| (name.as_str(), provider))
    }

    /// What runs have to know of them, by name.
    pub fn terms(&self) -> BTreeMap<String, ProviderTerms> {
        self.iter().map(|(name, provider)| (name.to_owned(), provider.terms.clone())).collect()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A provider to be made.
struct Plan<'a> {
    name: &'a str,
    config: ProviderConfig,
}

impl Plan<'_> {
    fn build(&self) -> Result<Provider, ConfigError> {
        self.check_name()?;
        Ok(Provider {
            endpoint: Arc::new(self.endpoint()?),
            key: self.key()?,
            terms: self.terms()?,
            breaker: self.breaker()?,
        })
    }

    fn terms(&self) -> Result<ProviderTerms, ConfigError> {
        let cap = self.config.schedule.retry_after_cap;
        let (usual, most) = (ProviderTerms::default().retry_after_cap_ms, limits::SCHEDULE_WAIT_MS_MAX);
        Ok(ProviderTerms {
            retry: self.schedule()?,
            retry_after_cap_ms: self.span("schedule.retry-after-cap", cap, usual, 0..=most)?,
            prices: self.prices()?,
            model: self.model()?,
        })
    }

    fn wrong(&self, key: &str, why: impl AsRef<str>) -> ConfigError {
        let name = self.name;
        match key.rsplit_once('.') {
            Some((table, key)) => wrong(&format!("[providers.{name}.{table}] {key}"), why),
            None => wrong(&format!("[providers.{name}] {key}"), why),
        }
    }

    fn check_name(&self) -> Result<(), ConfigError> {
        let part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=limits::NAME_CHARS_MAX).contains(&self.name.len()) && self.name.bytes().all(part) {
            return Ok(());
        }
        let why = format!(
            "the name of a provider has 1 to {} small letters, digits and '-'; choose another",
            limits::NAME_CHARS_MAX
        );
        Err(wrong(&format!("[providers.{}]", told_of(self.name)), why))
    }

    fn protocol(&self) -> Result<Protocol, ConfigError> {
        let Some(told) = &self.config.kind else {
            return Err(self.wrong("kind", "it is missing; write anthropic or openai"));
        };
        let found = Protocol::ALL.into_iter().find(|protocol| protocol.name() == told);
        let why = || {
            format!(
                "'{}' is no kind of provider; write anthropic, or openai for whatever speaks as OpenAI does",
                told_of(told)
            )
        };
        found.ok_or_else(|| self.wrong("kind", why()))
    }

    fn endpoint(&self) -> Result<Endpoint, ConfigError> {
        let protocol = self.protocol()?;
        let base = self.config.base_url.as_deref().unwrap_or(protocol.usual_base());
        if protocol == Protocol::Anthropic && base.trim_end_matches('/').ends_with("/v1") {
            return Err(self.wrong("base-url", "/v1 is put behind it here; leave it out"));
        }
        let endpoint = Endpoint::at(protocol, base).ok_or_else(|| {
            let why = "it is not an address such as https://api.example.com/v1, without a user, a query and a fragment";
            self.wrong("base-url", why)
        })?;
        Ok(Endpoint {
            headers: self.headers()?,
            timeouts: self.timeouts()?,
            model: self.model()?,
            ..endpoint
        })
    }

    fn model(&self) -> Result<Option<String>, ConfigError> {
        match self.config.model.as_deref() {
            Some("") => Err(self.wrong("model", "it is empty; name a model, or leave it out")),
            told => Ok(told.map(str::to_owned)),
        }
    }

    fn key(&self) -> Result<Option<String>, ConfigError> {
        let Some(told) = &self.config.key else { return Ok(None) };
        if matches!(mask_secrets(told), Cow::Owned(_)) {
            let why = "it looks like the key itself; keep that with `abide secrets set`, and write the secret's name here";
            return Err(self.wrong("key", why));
        }
        let part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_name = (1..=limits::NAME_CHARS_MAX).contains(&told.len()) && told.bytes().all(part);
        let why = "it is not the name of a secret; write the one that `abide secrets set` was given";
        is_name.then(|| Some(told.clone())).ok_or_else(|| self.wrong("key", why))
    }

    fn timeouts(&self) -> Result<Timeouts, ConfigError> {
        let usual = Timeouts::default();
        let read = |key: &str, told: Option<Span>, usual: Duration| {
            let usual = Millis::try_from(usual.as_millis()).unwrap_or(Millis::MAX);
            let ms = self.span(key, told, usual, 1..=limits::TIMEOUT_MS_MAX)?;
            Ok(Duration::from_millis(ms.unsigned_abs()))
        };
        Ok(Timeouts {
            connect: read("connect-timeout", self.config.connect_timeout, usual.connect)?,
            first_byte: read("first-byte-timeout", self.config.first_byte_timeout, usual.first_byte)?,
            idle: read("idle-timeout", self.config.idle_timeout, usual.idle)?,
            whole: read("timeout", self.config.timeout, usual.whole)?,
        })
    }

    fn headers(&self) -> Result<HeaderMap, ConfigError> {
        let told = &self.config.headers;
        at_most(&format!("[providers.{}.headers]", self.name), told.len(), limits::HEADERS_MAX)?;
        let each = told.iter().map(|(name, value)| {
            let key = format!("headers.{}", told_of(name).replace('.', "-"));
            let read: Option<HeaderName> = name.parse().ok();
            let name = read.ok_or_else(|| self.wrong(&key, "it is not the name of a header; correct it"))?;
            if HEADERS_TAKEN.contains(&name.as_str()) {
                let why =
                    "this header is set by the server; leave it out, and name a secret in `key` if it is one";
                return Err(self.wrong(&key, why));
            }
            let value = Some(value).filter(|value| value.len() <= limits::HEADER_BYTES_MAX);
            let mut value: HeaderValue = value
                .and_then(|value| value.parse().ok())
                .ok_or_else(|| self.wrong(&key, "its value can't be sent in a header; write plain text"))?;
            value.set_sensitive(true);
            Ok((name, value))
        });
        each.collect()
    }

    fn schedule(&self) -> Result<Option<Schedule>, ConfigError> {
        let ScheduleConfig { steps, tail, budget, .. } = &self.config.schedule;
        let told = steps.is_some() || tail.is_some() || budget.is_some();
        if self.config.retry == Some(false) {
            let why = "it is false, and there is a schedule; take one of them out";
            return if told { Err(self.wrong("retry", why)) } else { Ok(None) };
        }
        let usual = Schedule::default();
        let wait = limits::SCHEDULE_WAIT_MS_MIN..=limits::SCHEDULE_WAIT_MS_MAX;
        let steps_ms = match steps {
            None => usual.steps_ms,
            Some(steps) => {
                let key = format!("[providers.{}.schedule] steps", self.name);
                at_most(&key, steps.len(), limits::SCHEDULE_STEPS_MAX)?;
                let each = steps.iter().map(|step| self.span("schedule.steps", Some(*step), 0, wait.clone()));
                each.collect::<Result<Vec<Millis>, ConfigError>>()?.into()
            }
        };
        Ok(Some(Schedule {
            steps_ms,
            tail_ms: self.span("schedule.tail", *tail, usual.tail_ms, wait)?,
            budget_ms: self.span(
                "schedule.budget",
                *budget,
                usual.budget_ms,
                0..=limits::SCHEDULE_BUDGET_MS_MAX,
            )?,
        }))
    }

    fn breaker(&self) -> Result<BreakerSettings, ConfigError> {
        let BreakerConfig { window, threshold, min_calls, cooldown, max_cooldown } = self.config.breaker;
        let usual = BreakerSettings::default();
        let span = 1..=limits::BREAKER_MS_MAX;
        let cooldown_ms = self.span("breaker.cooldown", cooldown, usual.cooldown_ms, span.clone())?;
        let usual_max = usual.cooldown_max_ms.max(cooldown_ms);
        let whole_ms = Millis::try_from(self.timeouts()?.whole.as_millis()).unwrap_or(Millis::MAX);
        Ok(BreakerSettings {
            window_ms: self.span("breaker.window", window, usual.window_ms, span)?,
            threshold_percent: self.number(
                "breaker.threshold",
                threshold,
                usual.threshold_percent,
                1..=100,
            )?,
            min_calls: self.number(
                "breaker.min-calls",
                min_calls,
                usual.min_calls,
                1..=limits::BREAKER_CALLS_MAX,
            )?,
            cooldown_ms,
            cooldown_max_ms: self.span(
                "breaker.max-cooldown",
                max_cooldown,
                usual_max,
                cooldown_ms..=limits::BREAKER_MS_MAX,
            )?,
            // A probe that has not ended by then never will.
            lease_ms: whole_ms.saturating_add(limits::PROBE_GRACE_MS),
        })
    }

    fn prices(&self) -> Result<BTreeMap<String, Price>, ConfigError> {
        let told = &self.config.prices;
        at_most(&format!("[providers.{}.prices]", self.name), told.len(), limits::PRICES_MAX)?;
        let each = told.iter().map(|(model, price)| {
            let PriceConfig { input, output, cached } = *price;
            let table = format!("[providers.{}.prices.\"{}\"]", self.name, told_of(model));
            let needed = |key: &str, told: Option<Usd>| {
                let why = "it is missing; give US dollars for a million tokens";
                told.map(|Usd(micros)| micros).ok_or_else(|| wrong(&format!("{table} {key}"), why))
            };
            let input = needed("input", input)?;
            let output = needed("output", output)?;
            Ok((model.clone(), Price { input, output, cached: cached.map(|Usd(micros)| micros) }))
        });
        each.collect()
    }

    fn span(
        &self,
        key: &str,
        told: Option<Span>,
        usual: Millis,
        within: RangeInclusive<Millis>,
    ) -> Result<Millis, ConfigError> {
        let ms = told.map_or(usual, Span::ms);
        if within.contains(&ms) {
            return Ok(ms);
        }
        let why = format!("give a time from {}ms to {}s", within.start(), within.end() / 1000);
        Err(self.wrong(key, why))
    }

    fn number(
        &self,
        key: &str,
        told: Option<u32>,
        usual: u32,
        within: RangeInclusive<u32>,
    ) -> Result<u32, ConfigError> {
        let number = told.unwrap_or(usual);
        let why = || format!("give a whole number from {} to {}", within.start(), within.end());
        within.contains(&number).then_some(number).ok_or_else(|| self.wrong(key, why()))
    }
}

fn at_most(key: &str, count: usize, most: usize) -> Result<(), ConfigError> {
    let why = || format!("there are {count}, and {most} at the most; take some out");
    (count <= most).then_some(()).ok_or_else(|| wrong(key, why()))
}

fn wrong(key: &str, why: impl AsRef<str>) -> ConfigError {
    ConfigError(format!("{key}: {}", why.as_ref()))
}

/// The beginning of a wrong value, on one line.
fn told_of(text: &str) -> String {
    text.chars().take(60).map(|char| if char.is_control() { ' ' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(toml: &str) -> Result<Providers, String> {
        let config = toml::from_str(toml).map_err(|error| error.message().to_owned())?;
        Providers::from_config(config).map_err(|error| error.to_string())
    }

    #[test]
    fn a_provider_needs_no_more_than_its_kind() {
        let providers = built("[claude]\nkind = 'anthropic'\n[local]\nkind = 'openai'").unwrap();
        assert_eq!(providers.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["claude", "local"]);
        let claude = providers.get("claude").unwrap();
        assert_eq!(claude.endpoint.url.as_str(), "https://api.anthropic.com/v1/messages");
        assert_eq!(claude.endpoint.timeouts, Timeouts::default());
        assert_eq!(
            claude.terms,
            ProviderTerms::default(),
            "what fails is tried again unless somebody forbids it"
        );
        assert_eq!(claude.terms.retry_after_cap_ms, 3_600_000);
        assert_eq!((&claude.key, claude.breaker), (&None, BreakerSettings::default()));
        assert!(built("").unwrap().is_empty());
    }

    #[test]
    fn every_setting_is_read() {
        let providers = built(
            r#"
            [local]
            kind = "openai"
            base-url = "http://127.0.0.1:8000/v1"
            key = "local-key"
            model = "small"
            connect-timeout = "1s"
            first-byte-timeout = "2s"
            idle-timeout = "250ms"
            timeout = "1m"
            headers = { x-team = "a" }
            schedule = { steps = ["1s", "2s"], tail = "3s", budget = "10s", retry-after-cap = "4s" }
            breaker = { window = "10s", threshold = 20, min-calls = 3, cooldown = "1s", max-cooldown = "2s" }
            prices."small" = { input = 3.0, output = 15, cached = 0.3 }
            prices."m.1" = { input = 1.0, output = 2.0 }
            "#,
        )
        .unwrap();
        let local = providers.get("local").unwrap();
        let ms = Duration::from_millis;
        assert_eq!(local.endpoint.url.as_str(), "http://127.0.0.1:8000/v1/chat/completions");
        assert_eq!(local.endpoint.model.as_deref(), Some("small"));
        assert_eq!(local.endpoint.headers["x-team"], "a");
        assert_eq!(
            local.endpoint.timeouts,
            Timeouts { connect: ms(1000), first_byte: ms(2000), idle: ms(250), whole: ms(60_000) }
        );
        assert_eq!(local.key.as_deref(), Some("local-key"));
        let schedule = Schedule { steps_ms: vec![1000, 2000].into(), tail_ms: 3000, budget_ms: 10_000 };
        let small = Price { input: 3_000_000, output: 15_000_000, cached: Some(300_000) };
        let dotted = Price { input: 1_000_000, output: 2_000_000, cached: None };
        let terms = ProviderTerms {
            retry: Some(schedule),
            retry_after_cap_ms: 4000,
            prices: [("small".to_owned(), small), ("m.1".to_owned(), dotted)].into(),
            model: Some("small".to_owned()),
        };
        assert_eq!(providers.terms(), [("local".to_owned(), terms)].into());
        assert_eq!(
            local.breaker,
            BreakerSettings {
                window_ms: 10_000,
                threshold_percent: 20,
                min_calls: 3,
                cooldown_ms: 1000,
                cooldown_max_ms: 2000,
                lease_ms: 120_000
            }
        );
    }

    #[test]
    fn a_provider_that_is_never_tried_again_has_no_schedule() {
        let providers = built("[a]\nkind = 'openai'\nretry = false").unwrap();
        assert_eq!(providers.get("a").unwrap().terms.retry, None);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_key_and_what_to_change() {
        for (toml, told) in [
            ("", "[providers.a] kind: it is missing; write anthropic or openai"),
            (
                "kind = 'gpt'",
                "[providers.a] kind: 'gpt' is no kind of provider; write anthropic, or openai for",
            ),
            ("kind = 'openai'\nbase-url = 'x'", "[providers.a] base-url: it is not an address such as"),
            (
                "kind = 'anthropic'\nbase-url = 'https://x.example/v1'",
                "[providers.a] base-url: /v1 is put behind",
            ),
            ("kind = 'openai'\nmodel = ''", "[providers.a] model: it is empty"),
            ("kind = 'openai'\ntimeout = '0s'", "[providers.a] timeout: give a time from 1ms to 86400s"),
            ("kind = 'openai'\ntimeout = '5'", "it is not a time; write such as 250ms, 90s, 15m or 12h"),
            (
                "kind = 'openai'\nheaders.x-api-key = 'a'",
                "[providers.a.headers] x-api-key: this header is set by",
            ),
            (
                "kind = 'openai'\nheaders.'a b' = 'a'",
                "[providers.a.headers] a b: it is not the name of a header",
            ),
            ("kind = 'openai'\nheaders.ab = \"a\\nb\"", "[providers.a.headers] ab: its value can't be sent"),
            (
                "kind = 'openai'\nretry = false\nschedule.tail = '1s'",
                "[providers.a] retry: it is false, and there is",
            ),
            (
                "kind = 'openai'\nschedule.steps = ['0s']",
                "[providers.a.schedule] steps: give a time from 100ms to",
            ),
            (
                "kind = 'openai'\nschedule.tail = '0s'",
                "[providers.a.schedule] tail: give a time from 100ms to",
            ),
            (
                "kind = 'openai'\nbreaker.threshold = 0",
                "[providers.a.breaker] threshold: give a whole number from 1",
            ),
            (
                "kind = 'openai'\nbreaker.max-cooldown = '1s'",
                "[providers.a.breaker] max-cooldown: give a time from 30000ms",
            ),
            ("kind = 'openai'\nprices.m.input = 1", "[providers.a.prices.\"m\"] output: it is missing"),
            ("kind = 'openai'\ntimeouts = 1", "unknown field `timeouts`"),
        ] {
            let error = built(&format!("[a]\n{toml}")).unwrap_err();
            assert!(error.starts_with(told), "{toml}: {error}");
        }
        let error = built("[A_b]\nkind = 'openai'").unwrap_err();
        assert!(error.starts_with("[providers.A_b]: the name of a provider has"), "{error}");
    }

    #[test]
    fn a_key_in_the_place_of_a_secrets_name_is_refused_and_not_repeated() {
        let error = built("[a]\nkind = 'openai'\nkey = 'sk-proj-aaaabbbbccccdddd'").unwrap_err();
        assert!(error.contains("it looks like the key itself") && !error.contains("aaaa"), "{error}");
        let error = built("[a]\nkind = 'openai'\nkey = 'my key'").unwrap_err();
        assert!(error.contains("it is not the name of a secret") && !error.contains("my key"), "{error}");
    }
}
