//! Ids and moments as OpenIntent's client reads them.
//!
//! Its ids are bare UUIDs. Its moments have no zone and mean UTC: one with a zone makes the client fail where it compares.

use abide_core::{Key, Millis, RunId, naive};

use crate::auth::Principal;
use crate::error::{ApiError, Result};

/// A run as OpenIntent names it.
pub(crate) fn id(run: RunId) -> String {
    run.0.to_string()
}

/// The run that is meant, among those of whoever asks. What can't be one is not found.
pub(crate) fn run_id(text: &str) -> Option<RunId> {
    let bare = text.strip_prefix("run-").unwrap_or(text);
    format!("run-{bare}").parse().ok()
}

/// The intent that is meant, among those of whoever asks.
pub(crate) fn intent_key(text: &str, principal: &Principal) -> Result<Key> {
    run_id(text).map(|run| run.of(principal.tenant)).ok_or_else(no_such_intent)
}

/// The portfolio that is meant, among those of whoever asks.
pub(crate) fn portfolio_key(text: &str, principal: &Principal) -> Result<Key> {
    let found = run_id(text).map(|run| run.of(principal.tenant));
    found.ok_or_else(no_such_portfolio)
}

/// Nobody learns whether there is one of another tenant.
pub(crate) fn no_such_portfolio() -> ApiError {
    ApiError::new("group_not_found", "there is no such portfolio")
}

/// Nobody learns whether there is one of another tenant.
pub(crate) fn no_such_intent() -> ApiError {
    ApiError::new("run_not_found", "there is no such intent")
}

/// A moment without a zone.
pub(crate) fn moment(at: Millis) -> String {
    naive(at)
}

/// A moment that somebody sent: with a zone, or without one in UTC.
pub(crate) fn read_moment(field: &str, text: &str) -> Result<Millis> {
    let zoned = text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond);
    let bare = || text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
    let read = zoned.ok().or_else(|| bare().map(|zoned| zoned.timestamp().as_millisecond()));
    read.ok_or_else(|| {
        ApiError::invalid(
            field,
            format!("'{field}' is a moment such as 2026-01-31T00:00:00, in UTC if it has no zone"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_come_with_a_zone_or_mean_utc() {
        let at = read_moment("deadline", "2026-01-05T09:00:00").unwrap();
        for same in ["2026-01-05T09:00:00Z", "2026-01-05T10:00:00+01:00", "2026-01-05T09:00:00.000000"] {
            assert_eq!(read_moment("deadline", same).unwrap(), at, "{same}");
        }
        assert_eq!(moment(at), "2026-01-05T09:00:00.000");
        assert!(read_moment("deadline", "tomorrow").is_err());
    }

    #[test]
    fn an_id_is_bare_and_ours_is_understood_as_well() {
        let bare = "019b8d36-7c80-7000-8000-000000000001";
        let run = run_id(bare).unwrap();
        assert_eq!((id(run).as_str(), run_id(&format!("run-{bare}"))), (bare, Some(run)));
        assert_eq!(run_id("1"), None);
    }
}
