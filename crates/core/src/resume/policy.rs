//! The policy: what a definition says, over what the server's operator says, field by field.

use super::InterruptionClass;
use crate::fields::{Fields, Findings};
use crate::{Json, Millis, limits};

/// How interrupted runs are resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumePolicy {
    /// Whether they are resumed by themselves.
    pub auto: bool,
    /// How often one run is.
    pub max_attempts: u32,
    /// How long after one attempt the next may be made.
    pub cooldowns: Cooldowns,
    /// What becomes of those that may not be resumed.
    pub on_refusal: OnRefusal,
}

/// How long after one attempt the next may be made, for each class, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooldowns([Millis; 4]);

/// What becomes of a run that may not be resumed by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRefusal {
    /// It is held until a person decides.
    #[default]
    Escalate,
    /// The node fails, as it would without a policy.
    Fail,
}

impl OnRefusal {
    /// All of them, with their names everywhere.
    pub const ALL: [(Self, &'static str); 2] = [(Self::Escalate, "escalate"), (Self::Fail, "fail")];

    /// The one with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == name).map(|(found, _)| found)
    }
}

impl Cooldowns {
    /// The cool-down after an interruption of this class.
    pub fn of(&self, class: InterruptionClass) -> Millis {
        self.0[class as usize]
    }
}

impl Default for ResumePolicy {
    fn default() -> Self {
        Self {
            auto: true,
            max_attempts: 3,
            cooldowns: Cooldowns([30_000, 120_000, 10_000, 60_000]),
            on_refusal: OnRefusal::default(),
        }
    }
}

/// What one level says. What it leaves out is up to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResumeSettings {
    /// Whether runs are resumed by themselves.
    pub auto: Option<bool>,
    /// How often one run is.
    pub max_attempts: Option<u32>,
    /// The cool-downs, in seconds, in the order of [`InterruptionClass::ALL`].
    pub cooldown_seconds: [Option<u32>; 4],
    /// What becomes of those that may not be resumed.
    pub on_refusal: Option<OnRefusal>,
}

impl ResumePolicy {
    /// What holds if these levels speak, the first before the second.
    pub fn of(levels: [&ResumeSettings; 2]) -> Self {
        let usual = Self::default();
        let [first, second] = levels;
        let cooldown = |class: InterruptionClass| {
            let ix = class as usize;
            let said = first.cooldown_seconds[ix].or(second.cooldown_seconds[ix]);
            said.map_or(usual.cooldowns.of(class), |seconds| Millis::from(seconds) * 1000)
        };
        Self {
            auto: first.auto.or(second.auto).unwrap_or(usual.auto),
            max_attempts: first.max_attempts.or(second.max_attempts).unwrap_or(usual.max_attempts),
            cooldowns: Cooldowns(InterruptionClass::ALL.map(cooldown)),
            on_refusal: first.on_refusal.or(second.on_refusal).unwrap_or(usual.on_refusal),
        }
    }
}

impl ResumeSettings {
    /// Reads what a definition says; what is wrong with it is an objection.
    pub(crate) fn read(json: &Json, place: &str, findings: &mut Findings) -> Self {
        let mut own = Findings::default();
        let read = Fields::of(json, place, &mut own).map(|mut fields| {
            let settings = Self {
                auto: fields.optional_flag("auto"),
                max_attempts: small(
                    fields.optional_whole("maxAttempts", 0..=i64::from(limits::RESUME_ATTEMPTS_MAX)),
                ),
                cooldown_seconds: cooldowns(&mut fields),
                on_refusal: on_refusal(&mut fields),
            };
            fields.finish();
            settings
        });
        own.all().into_iter().for_each(|problem| findings.objection(problem.place, problem.message));
        read.unwrap_or_default()
    }
}

fn small(number: Option<i64>) -> Option<u32> {
    number.and_then(|number| u32::try_from(number).ok())
}

fn cooldowns(fields: &mut Fields<'_>) -> [Option<u32>; 4] {
    let Some(json) = fields.optional("cooldownSeconds") else { return [None; 4] };
    let place = fields.place("cooldownSeconds");
    let Some(mut inner) = Fields::of(&json, place, fields.findings()) else { return [None; 4] };
    let most = i64::from(limits::RESUME_COOLDOWN_SECONDS_MAX);
    let read = InterruptionClass::ALL.map(|class| small(inner.optional_whole(class.name(), 0..=most)));
    inner.finish();
    read
}

fn on_refusal(fields: &mut Fields<'_>) -> Option<OnRefusal> {
    let name = fields.optional_text("onRefusal")?;
    let found = OnRefusal::by_name(&name);
    if found.is_none() {
        let place = fields.place("onRefusal");
        fields.findings().objection(place, "use escalate or fail");
    }
    found
}
