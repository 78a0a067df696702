//! Times and kinds in words.

use abide_core::{InterruptKind, Millis, Status};

const MINUTE: Millis = 60_000;
const HOUR: Millis = 60 * MINUTE;
const DAY: Millis = 24 * HOUR;

/// How a run stands, in words that follow "the run".
pub(super) fn status(name: &str) -> &'static str {
    match Status::by_name(name) {
        Some(Status::Completed) => "is completed",
        Some(Status::Failed) => "has failed",
        Some(Status::Cancelled) => "is cancelled",
        Some(Status::Cancelling) => "is being cancelled",
        Some(Status::Paused) => "is held",
        Some(Status::WaitingApproval | Status::WaitingInput | Status::WaitingExternal) => "waits again",
        Some(Status::Blocked | Status::Draft) => "waits for others",
        Some(Status::Pending | Status::Running) | None => "goes on",
    }
}

/// How long something takes or took, as roughly as people say it: "3 h".
pub(super) fn span(ms: Millis) -> String {
    match ms.max(0) {
        ms if ms < MINUTE => format!("{} s", ms / 1000),
        ms if ms < 2 * HOUR => format!("{} min", ms / MINUTE),
        ms if ms < 2 * DAY => format!("{} h", ms / HOUR),
        ms => format!("{} d", ms / DAY),
    }
}

/// How long ago something was.
pub(super) fn ago(at: Millis, now: Millis) -> String {
    format!("{} ago", span(now.saturating_sub(at)))
}

/// When something is due.
pub(super) fn due(at: Millis, now: Millis) -> String {
    if at <= now { "now".to_owned() } else { format!("in {}", span(at.saturating_sub(now))) }
}

/// A moment, to the minute, in UTC: "2026-01-05 09:30 UTC".
pub(super) fn moment(at: Millis) -> String {
    formatted(at, "%Y-%m-%d %H:%M UTC")
}

/// A moment, to the second, in UTC: "2026-01-05 09:30:07 UTC".
pub(super) fn moment_exact(at: Millis) -> String {
    formatted(at, "%Y-%m-%d %H:%M:%S UTC")
}

/// The time of day, to the second, in UTC: "09:30:07".
pub(super) fn clock(at: Millis) -> String {
    formatted(at, "%H:%M:%S")
}

fn formatted(at: Millis, format: &str) -> String {
    let known = jiff::Timestamp::from_millisecond(at);
    known.map_or_else(|_| crate::time::rfc3339(at), |at| at.strftime(format).to_string())
}

/// How much is left of a wait, to the second: "4 min 59 s". A second that has begun counts.
pub(super) fn left(ms: Millis) -> String {
    let seconds = ms.max(0).saturating_add(999) / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {seconds} s"),
        _ => format!("{hours} h {minutes} min {seconds} s"),
    }
}

/// What a kind is called by people.
pub(super) fn kind(kind: InterruptKind) -> &'static str {
    match kind {
        InterruptKind::Approval => "Approval",
        InterruptKind::Clarification => "Clarification",
        InterruptKind::ExternalEvent => "External event",
        InterruptKind::Custom => "Custom",
        InterruptKind::ConversationStart => "Start of a conversation",
        InterruptKind::ConversationExchange => "Turn in a conversation",
        InterruptKind::ConversationClose => "End of a conversation",
        InterruptKind::LowConfidence => "Low confidence",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_people_tell_them() {
        let cases = [
            (-5, "0 s"),
            (59_999, "59 s"),
            (MINUTE, "1 min"),
            (119 * MINUTE, "119 min"),
            (3 * HOUR, "3 h"),
            (47 * HOUR, "47 h"),
            (60 * HOUR, "2 d"),
            (Millis::MAX, "106751991167 d"),
        ];
        for (ms, expected) in cases {
            assert_eq!(span(ms), expected);
        }
        assert_eq!((due(5, 5), due(HOUR, 0)), ("now".to_owned(), "in 60 min".to_owned()));
        assert_eq!(ago(Millis::MIN, Millis::MAX), "106751991167 d ago");
        assert_eq!(moment(1_763_222_400_123), "2025-11-15 16:00 UTC");
        assert!(!moment(Millis::MAX).is_empty());
        assert_eq!(moment_exact(1_763_222_400_123), "2025-11-15 16:00:00 UTC");
        assert_eq!(clock(1_763_222_407_123), "16:00:07");
        let left = [-1, 1, 59_001, 61_000, 3_600_000, Millis::MAX].map(left);
        assert_eq!(left[..5], ["0 s", "1 s", "1 min 0 s", "1 min 1 s", "1 h 0 min 0 s"]);
    }
}
