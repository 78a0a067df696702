//! How long a provider asks to be left alone.

use std::time::SystemTime;

use abide_core::Millis;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// What the headers of an answer ask for: milliseconds, seconds, or a date.
///
/// A date is compared with the answer's own date if it has one: then it does not matter whether clocks agree.
pub(crate) fn retry_after_ms(headers: &HeaderMap, now: SystemTime) -> Option<Millis> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(number) {
        return Some(whole(ms));
    }
    let told = text(RETRY_AFTER.as_str())?;
    if let Some(seconds) = number(told) {
        return Some(whole(seconds * 1000.0));
    }
    let date = httpdate::parse_http_date(told).ok()?;
    let theirs = text(DATE.as_str()).and_then(|text| httpdate::parse_http_date(text).ok());
    let wait = date.duration_since(theirs.unwrap_or(now)).unwrap_or_default();
    Some(Millis::try_from(wait.as_millis()).unwrap_or(Millis::MAX))
}

/// A number that is no less than zero. Some providers write fractions.
fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

/// Rounded up, so that nobody comes too early. What is too large becomes the largest.
fn whole(ms: f64) -> Millis {
    ms.ceil() as Millis
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn asked(headers: &[(&'static str, &str)]) -> Option<Millis> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        retry_after_ms(&headers.collect(), now)
    }

    #[test]
    fn milliseconds_seconds_and_dates_are_read() {
        let date = ("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT");
        for (headers, ms) in [
            (vec![("retry-after", "7")], Some(7_000)),
            (vec![("retry-after", " 0.25 ")], Some(250)),
            (vec![("retry-after-ms", "1500.2"), ("retry-after", "7")], Some(1_501)),
            (vec![date], Some(10_000)),
            (vec![date, ("date", "Sun, 06 Nov 1994 08:49:45 GMT")], Some(2_000)),
            (vec![date, ("date", "Sun, 06 Nov 1994 09:00:00 GMT")], Some(0)),
            (vec![("retry-after", "99999999999999999999999")], Some(Millis::MAX)),
        ] {
            assert_eq!(asked(&headers), ms, "{headers:?}");
        }
    }

    #[test]
    fn what_is_no_time_is_not_asked() {
        for text in ["", "-5", "soon", "1e9", "nan", "1.2.3", "7 s"] {
            assert_eq!(asked(&[("retry-after", text)]), None, "{text}");
        }
        assert_eq!(asked(&[]), None);
    }
}
