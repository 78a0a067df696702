//! Spans of time as they stand in a configuration: a number and a unit.

use abide_core::Millis;
use serde::Deserialize;

/// `250ms`, `90s`, `15m`, `12h`, `30d`. It is read where it stands, so that an error has its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Span(Millis);

impl Span {
    /// In milliseconds.
    pub fn ms(self) -> Millis {
        self.0
    }
}

const UNITS: [(&str, Millis); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl TryFrom<String> for Span {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let of_unit = |(unit, ms): &(&str, Millis)| {
            let digits = text.strip_suffix(unit)?;
            let count: Millis =
                digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()?;
            count.checked_mul(*ms).map(Self)
        };
        UNITS.iter().find_map(of_unit).ok_or("it is not a time; write such as 250ms, 90s, 15m or 12h")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_a_number_and_a_unit() {
        let read = |text: &str| Span::try_from(text.to_owned()).ok().map(Span::ms);
        for (text, ms) in [
            ("250ms", 250),
            ("0s", 0),
            ("90s", 90_000),
            ("15m", 900_000),
            ("8h", 28_800_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(read(text), Some(ms), "{text}");
        }
        for text in ["", "s", "ms", "1", "-1s", "+1s", "1.5h", "1y", "1 s", "99999999999999999d", "1é"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
