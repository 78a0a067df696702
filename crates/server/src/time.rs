//! Time as the wire has it.

use abide_core::Millis;

/// RFC 3339 in UTC with milliseconds.
pub fn rfc3339(at: Millis) -> String {
    match jiff::Timestamp::from_millisecond(at) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        // Beyond the year 9999 there is no RFC 3339; a delay is bounded far below that.
        Err(_) => jiff::Timestamp::MAX.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_always_shown() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_763_222_400_123), "2025-11-15T16:00:00.123Z");
    }
}
