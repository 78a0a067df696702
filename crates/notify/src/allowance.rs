//! How many messages one recipient gets in a span of time.

use std::fmt;
use std::str::FromStr;

use abide_core::Millis;

use crate::limits::{PER_RECIPIENT_COUNT, PER_RECIPIENT_COUNT_MAX, PER_RECIPIENT_MS};

const UNITS: [(&str, Millis); 4] = [("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// So many messages within a span of time that moves with the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// How many.
    pub count: u32,
    /// Within how long.
    pub span_ms: Millis,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { count: PER_RECIPIENT_COUNT, span_ms: PER_RECIPIENT_MS }
    }
}

impl FromStr for Allowance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let told = || {
            format!(
                "'{}' is not such as 20/h; write a number from 1 to {PER_RECIPIENT_COUNT_MAX}, a slash, and s, m, h or d",
                crate::text::one_line(text, 40)
            )
        };
        let (count, unit) = text.split_once('/').ok_or_else(told)?;
        let (_, span_ms) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(told)?;
        let count = count.bytes().all(|byte| byte.is_ascii_digit()).then(|| count.parse().ok()).flatten();
        let count = count.filter(|count| (1..=PER_RECIPIENT_COUNT_MAX).contains(count)).ok_or_else(told)?;
        Ok(Self { count, span_ms })
    }
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.into_iter().find(|(_, ms)| *ms == self.span_ms).map_or("?", |(unit, _)| unit);
        write!(f, "{}/{unit}", self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_is_a_number_and_a_unit() {
        for text in ["1/s", "20/h", "5/m", "1000000/d"] {
            assert_eq!(text.parse::<Allowance>().unwrap().to_string(), text);
        }
        for text in ["", "20", "0/h", "-1/h", "+1/h", "1000001/d", "1/w", "/h", "1.5/h", "99999999999/h"] {
            assert!(text.parse::<Allowance>().is_err(), "{text}");
        }
        assert_eq!(Allowance::default().to_string(), "20/h");
    }
}
