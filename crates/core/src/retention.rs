//! For how long runs are kept that have ended.

use serde::{Deserialize, Serialize};

use crate::fields::{Fields, Findings};
use crate::{Json, Millis, Status, limits};

const DAY_MS: Millis = 86_400_000;

/// For how long a run is kept that ended so. What is not said is for others to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retention {
    /// If it completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_days: Option<Keep>,
    /// If it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_days: Option<Keep>,
    /// If somebody cancelled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled_days: Option<Keep>,
}

/// How long something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Keep {
    /// So many days.
    Days(u32),
    /// For ever, whatever others say.
    Forever(Forever),
}

/// The word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Forever {
    /// `forever`.
    Forever,
}

impl Retention {
    /// Reads what a definition says at `place`. What is wrong there is an objection: a definition that was admitted is
    /// read leniently.
    pub(crate) fn read(json: &Json, place: &str, findings: &mut Findings) -> Option<Self> {
        let mut fields = Fields::of(json, place, findings)?;
        let mut read = |key| {
            let given = fields.optional(key)?;
            let kept = Keep::of(&given);
            if kept.is_none() {
                let place = fields.place(key);
                let message = format!("{} is expected here", Keep::expected());
                fields.findings().objection(place, message);
            }
            kept
        };
        let [completed_days, failed_days, cancelled_days] =
            ["completedDays", "failedDays", "cancelledDays"].map(&mut read);
        fields.finish();
        Some(Self { completed_days, failed_days, cancelled_days })
    }

    /// What holds for runs that ended so.
    pub fn of(&self, status: Status) -> Option<Keep> {
        match status {
            Status::Completed => self.completed_days,
            Status::Failed => self.failed_days,
            Status::Cancelled => self.cancelled_days,
            _ => None,
        }
    }

    /// Whether nothing is said at all.
    pub fn is_silent(&self) -> bool {
        *self == Self::default()
    }

    /// What was kept as JSON. What can't be read says nothing.
    pub fn from_text(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// As JSON.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("numbers and words serialise")
    }
}

impl Keep {
    fn of(given: &Json) -> Option<Self> {
        serde_json::from_str(given.text()).ok().filter(|kept: &Self| kept.is_sound())
    }

    /// Whether it is within what is taken.
    pub fn is_sound(self) -> bool {
        !matches!(self, Self::Days(days) if days > limits::RETENTION_DAYS_MAX)
    }

    /// What is taken, in words.
    pub fn expected() -> String {
        format!("a whole number of days from 0 to {}, or \"forever\"", limits::RETENTION_DAYS_MAX)
    }

    /// What ended before this need not be kept at `now`; `None` if all of it is.
    pub fn cutoff(self, now: Millis) -> Option<Millis> {
        match self {
            Self::Days(days) => Some(now.saturating_sub(Millis::from(days) * DAY_MS)),
            Self::Forever(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_one_end_says_nothing_of_another() {
        let said = Retention::from_text(r#"{"completedDays":30,"failedDays":"forever"}"#);
        assert_eq!(said.of(Status::Completed), Some(Keep::Days(30)));
        assert_eq!(said.of(Status::Failed), Some(Keep::Forever(Forever::Forever)));
        assert_eq!((said.of(Status::Cancelled), said.of(Status::Running)), (None, None));
        assert_eq!(Retention::from_text(&said.text()), said);
        assert!(Retention::from_text("{}").is_silent() && !said.is_silent());
    }

    #[test]
    fn days_are_counted_back_from_now() {
        assert_eq!(Keep::Days(2).cutoff(3 * DAY_MS), Some(DAY_MS));
        assert_eq!(Keep::Days(0).cutoff(7), Some(7));
        assert_eq!(Keep::Forever(Forever::Forever).cutoff(7), None);
    }
}
