//! The settings of providers as they stand in a configuration file: `[providers.NAME]`.
//!
//! They are only read here; `providers.rs` says what is wrong with them.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::span::Span;

/// `[providers.NAME]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ProviderConfig {
    /// `anthropic` or `openai`.
    pub kind: Option<String>,
    /// Where it is: `https://api.example.com/v1`.
    pub base_url: Option<String>,
    /// The secret of the tenant that it wants to see.
    pub key: Option<String>,
    /// The model, if the node does not say.
    pub model: Option<String>,
    /// How long a connection is waited for.
    pub connect_timeout: Option<Span>,
    /// How long the first byte of an answer is waited for.
    pub first_byte_timeout: Option<Span>,
    /// How long the next byte of an answer is waited for.
    pub idle_timeout: Option<Span>,
    /// How long a call may take.
    pub timeout: Option<Span>,
    /// Whether a call that failed in a way that may pass is made again.
    pub retry: Option<bool>,
    /// Headers that are sent with each request.
    pub headers: BTreeMap<String, String>,
    /// When a call is made again.
    pub schedule: ScheduleConfig,
    /// When a provider that fails is left alone.
    pub breaker: BreakerConfig,
    /// What tokens cost, by model.
    pub prices: BTreeMap<String, PriceConfig>,
}

/// `[providers.NAME.schedule]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ScheduleConfig {
    /// The first waits.
    pub steps: Option<Vec<Span>>,
    /// Every wait after those.
    pub tail: Option<Span>,
    /// How long all waits may be together.
    pub budget: Option<Span>,
    /// The longest wait that a provider may ask for.
    pub retry_after_cap: Option<Span>,
}

/// `[providers.NAME.breaker]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct BreakerConfig {
    /// How far back calls are counted.
    pub window: Option<Span>,
    /// It opens if more than so many of a hundred calls failed.
    pub threshold: Option<u32>,
    /// How many calls it wants to see before it judges.
    pub min_calls: Option<u32>,
    /// How long it stays open at first.
    pub cooldown: Option<Span>,
    /// How long it stays open at most.
    pub max_cooldown: Option<Span>,
}

/// `[providers.NAME.prices.MODEL]`: US dollars for a million tokens.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct PriceConfig {
    /// Of what goes in.
    pub input: Option<Usd>,
    /// Of what comes out.
    pub output: Option<Usd>,
    /// Of what goes in and comes from a cache.
    pub cached: Option<Usd>,
}

/// An amount of US dollars, in millionths: exact, because its decimals are read and not what a computer makes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usd(pub u64);

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(UsdVisitor)
    }
}

struct UsdVisitor;

impl Visitor<'_> for UsdVisitor {
    type Value = Usd;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("US dollars for a million tokens, such as 3.0")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Usd, E> {
        in_micros(&number.to_string()).ok_or_else(|| E::custom(NO_PRICE))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Usd, E> {
        in_micros(&number.to_string()).ok_or_else(|| E::custom(NO_PRICE))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Usd, E> {
        // The shortest text that is this number is what was written.
        in_micros(&number.to_string()).ok_or_else(|| E::custom(NO_PRICE))
    }
}

const NO_PRICE: &str =
    "it is not a price; give US dollars for a million tokens from 0 to 1000000, with six decimals at most";

fn in_micros(text: &str) -> Option<Usd> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > 6 {
        return None;
    }
    let micros: u64 = format!("{whole}{decimals:0<6}").parse().ok()?;
    (micros <= crate::limits::PRICE_MICROS_MAX).then_some(Usd(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_to_the_last_decimal() {
        let read =
            |text: &str| toml::from_str::<PriceConfig>(&format!("input = {text}")).map(|told| told.input);
        for (text, micros) in [
            ("3", 3_000_000),
            ("3.0", 3_000_000),
            ("0.3", 300_000),
            ("0.1", 100_000),
            ("18.75", 18_750_000),
            ("0.000001", 1),
            ("0.0", 0),
            ("1000000", 1_000_000_000_000),
        ] {
            assert_eq!(read(text).unwrap(), Some(Usd(micros)), "{text}");
        }
        for text in ["-1", "-0.5", "0.0000001", "nan", "inf", "1000000.1", "1e300"] {
            assert!(read(text).unwrap_err().message().contains("six decimals"), "{text}");
        }
        assert!(read("'3'").unwrap_err().message().contains("US dollars"));
    }
}
