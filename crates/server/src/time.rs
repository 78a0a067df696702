//! Time as the wire has it.

pub use abide_core::rfc3339;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_always_shown() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_763_222_400_123), "2025-11-15T16:00:00.123Z");
    }
}
