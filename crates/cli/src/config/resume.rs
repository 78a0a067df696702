//! What the operator says about runs that were interrupted: `[resume]`.

use abide_core::limits::{RESUME_ATTEMPTS_MAX, RESUME_COOLDOWN_SECONDS_MAX};
use abide_core::{OnRefusal, ResumeSettings};
use serde::Deserialize;

/// `[resume]`: how interrupted runs go on. A definition may say otherwise, key by key.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileResume {
    auto: Option<bool>,
    max_attempts: Option<Small<{ RESUME_ATTEMPTS_MAX }>>,
    on_refusal: Option<Refusal>,
    #[serde(default)]
    cooldown_seconds: FileCooldowns,
}

/// `[resume.cooldown_seconds]`: for each class of interruption.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCooldowns {
    tool_failure: Option<Seconds>,
    timeout: Option<Seconds>,
    context_reset: Option<Seconds>,
    process_crash: Option<Seconds>,
}

type Seconds = Small<{ RESUME_COOLDOWN_SECONDS_MAX }>;

/// A whole number up to a limit, checked where it stands, so that an error has its line.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "i64")]
struct Small<const MOST: u32>(u32);

impl<const MOST: u32> TryFrom<i64> for Small<MOST> {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        let fits = u32::try_from(number).ok().filter(|number| *number <= MOST);
        fits.map(Self).ok_or_else(|| format!("give a whole number from 0 to {MOST}, not {number}"))
    }
}

/// What becomes of a run that may not be resumed.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct Refusal(OnRefusal);

impl TryFrom<String> for Refusal {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        OnRefusal::by_name(&name).map(Self).ok_or_else(|| "use 'escalate' or 'fail'".to_owned())
    }
}

impl FileResume {
    /// The same as the engine has it.
    pub(super) fn settings(self) -> ResumeSettings {
        let FileCooldowns { tool_failure, timeout, context_reset, process_crash } = self.cooldown_seconds;
        let cooldowns = [tool_failure, timeout, context_reset, process_crash];
        ResumeSettings {
            auto: self.auto,
            max_attempts: self.max_attempts.map(|most| most.0),
            cooldown_seconds: cooldowns.map(|seconds| seconds.map(|seconds| seconds.0)),
            on_refusal: self.on_refusal.map(|refusal| refusal.0),
        }
    }
}
