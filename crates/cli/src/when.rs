//! Times and durations as people say them.

use jiff::Timestamp;

/// How long it took, in the two units that matter: `12 ms`, `1.2 s`, `3 min 5 s`, `2 h 5 min`, `3 d 4 h`.
pub(crate) fn duration(ms: i64) -> String {
    let (s, min, h) = (ms / 1000, ms / 60_000, ms / 3_600_000);
    match ms {
        ..1000 => format!("{} ms", ms.max(0)),
        1000..60_000 => format!("{s}.{} s", ms % 1000 / 100),
        60_000..3_600_000 => format!("{min} min {} s", s % 60),
        3_600_000..86_400_000 => format!("{h} h {} min", min % 60),
        _ => format!("{} d {} h", h / 24, h % 24),
    }
}

/// A time as the server wrote it, with how far it is from now: `2026-01-01T00:00:00.000Z (in 5.0 s)`. `None` if it
/// is no time.
pub(crate) fn told(at: &str, now: Timestamp) -> Option<String> {
    let ms = parsed(at)?.as_millisecond() - now.as_millisecond();
    let relative = if ms > 0 {
        format!("in {}", duration(ms))
    } else {
        format!("{} ago", duration(ms.saturating_neg()))
    };
    Some(format!("{at} ({relative})"))
}

/// The milliseconds from one time to another; to now if the other is not there yet.
pub(crate) fn elapsed(from: Option<&str>, to: Option<&str>, now: Timestamp) -> Option<i64> {
    let from = parsed(from?)?;
    let to = to.and_then(parsed).unwrap_or(now);
    Some(to.as_millisecond() - from.as_millisecond())
}

fn parsed(at: &str) -> Option<Timestamp> {
    at.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_two_units_at_most() {
        let told: Vec<String> =
            [-5, 0, 999, 1000, 1290, 59_999, 60_000, 185_000, 3_600_000, 7_500_000, 86_400_000, 273_600_000]
                .map(duration)
                .to_vec();
        let expected =
            "0 ms|0 ms|999 ms|1.0 s|1.2 s|59.9 s|1 min 0 s|3 min 5 s|1 h 0 min|2 h 5 min|1 d 0 h|3 d 4 h";
        assert_eq!(told.join("|"), expected);
    }

    #[test]
    fn times_are_told_from_now() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(told("2026-01-01T00:00:05.000Z", now).unwrap(), "2026-01-01T00:00:05.000Z (in 5.0 s)");
        assert_eq!(told("2025-12-31T23:00:00Z", now).unwrap(), "2025-12-31T23:00:00Z (1 h 0 min ago)");
        assert_eq!(told("soon", now), None);
    }
}
