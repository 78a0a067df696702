//! An interrupt as a list of moments: what was sent to whom, what came of it, and what comes next and when.

use abide_core::{Ladder, Millis};
use abide_store::{NoticeDelivery, NoticeState};

use super::story::{Standing, Step, Story, What};
use crate::limits;

/// A moment in the life of an interrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) at: Millis,
    pub(crate) what: Kind,
    pub(crate) attempt: Option<u32>,
    /// The channel; the usual one if it is missing.
    pub(crate) channel: Option<String>,
    /// Whom: a person, a group, a role, or what the ladder says.
    pub(crate) to: Option<String>,
    /// Who closed it.
    pub(crate) by: Option<String>,
    pub(crate) state: &'static str,
    /// Why something failed, or was not done.
    pub(crate) reason: Option<String>,
}

/// What a moment is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Asked,
    /// People are told: an attempt begins.
    Attempt,
    /// An attempt reaches a rung.
    Escalation,
    /// A message to one recipient.
    Message,
    /// Somebody may not be told.
    Refusal,
    /// The ladder ends.
    Expiry,
    /// It is given up.
    Timeout,
    Answer,
    Cancellation,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Attempt => "attempt",
            Self::Escalation => "escalation",
            Self::Message => "message",
            Self::Refusal => "refusal",
            Self::Expiry => "expiry",
            Self::Timeout => "timeout",
            Self::Answer => "answer",
            Self::Cancellation => "cancellation",
        }
    }
}

/// What has happened, and was not to be undone.
const DONE: &str = "done";
/// What comes, unless somebody answers before.
const PLANNED: &str = "planned";
/// What followed was due as well, so nobody was told.
const SUPERSEDED: &str = "superseded";

impl Moment {
    fn new(at: Millis, what: Kind, state: &'static str) -> Self {
        Self { at, what, attempt: None, channel: None, to: None, by: None, state, reason: None }
    }

    fn attempt(at: Millis, attempt: u32, ladder: &Ladder, state: &'static str) -> Self {
        let target = ladder.target(attempt);
        let own = |text: Option<&str>| text.map(str::to_owned);
        Self {
            attempt: Some(attempt),
            channel: own(target.channel_hint),
            to: own(target.notify_to),
            ..Self::new(at, Kind::Attempt, state)
        }
    }

    fn message(delivery: &NoticeDelivery, began: Millis) -> Self {
        let at = delivery.sent_at.or(delivery.due.filter(|_| delivery.state == NoticeState::Waiting));
        let missing = delivery.hint.as_ref().map(|hint| format!("there is no channel '{hint}'"));
        Self {
            attempt: Some(delivery.id.attempt),
            channel: Some(delivery.channel.clone()).filter(|name| !name.is_empty()),
            to: told(delivery),
            reason: delivery.reason.clone().or(missing),
            ..Self::new(at.unwrap_or(began), Kind::Message, delivery.state.name())
        }
    }

    /// Whether it is still to come.
    pub(crate) fn is_planned(&self) -> bool {
        self.state == PLANNED
    }
}

/// Who a message is for. An address is nobody's business; what the question or its ladder calls people by is in both.
fn told(delivery: &NoticeDelivery) -> Option<String> {
    let named = matches!(delivery.state, NoticeState::Refused | NoticeState::Unreachable)
        || !delivery.recipient.contains('@');
    let name = Some(&delivery.recipient).filter(|name| named && !name.is_empty());
    delivery.person.as_ref().or(name).cloned()
}

/// The moments of an interrupt, in their order.
pub(crate) fn of(story: &Story, deliveries: &[NoticeDelivery]) -> Vec<Moment> {
    let mut moments = vec![Moment::new(story.at, Kind::Asked, DONE)];
    if let Some(ladder) = &story.requested.ladder {
        moments.push(Moment::attempt(story.at, 1, ladder, DONE));
        moments.extend(story.steps.iter().filter_map(|step| step.moment(ladder)));
        supersede(&mut moments);
    }
    let began = |attempt: u32, moments: &[Moment]| {
        let begins = |moment: &&Moment| moment.what == Kind::Attempt && moment.attempt == Some(attempt);
        moments.iter().find(begins).map_or(story.at, |moment| moment.at)
    };
    let messages: Vec<_> = deliveries
        .iter()
        .map(|delivery| Moment::message(delivery, began(delivery.id.attempt, &moments)))
        .collect();
    moments.extend(messages);
    moments.sort_by_key(|moment| (moment.at, moment.attempt.unwrap_or(0), moment.what as u8));
    moments.extend(end(story));
    moments.extend(planned(story));
    // What was sent after the end was under way before it.
    moments.sort_by_key(|moment| moment.at);
    moments
}

/// Nobody was told at a rung either, if nobody was told at its attempt.
fn supersede(moments: &mut [Moment]) {
    let superseded: Vec<Option<u32>> =
        moments.iter().filter(|moment| moment.state == SUPERSEDED).map(|moment| moment.attempt).collect();
    let rungs = moments.iter_mut().filter(|moment| moment.what == Kind::Escalation);
    rungs.filter(|moment| superseded.contains(&moment.attempt)).for_each(|moment| moment.state = SUPERSEDED);
}

impl Step {
    /// Something on the way; how it ends is told apart.
    fn moment(&self, ladder: &Ladder) -> Option<Moment> {
        match &self.what {
            What::Renotified(again) => {
                let state = if again.superseded { SUPERSEDED } else { DONE };
                Some(Moment::attempt(self.at, again.attempt, ladder, state))
            }
            What::Escalated(escalated) => Some(Moment {
                attempt: Some(escalated.attempt),
                channel: Some(escalated.channel_hint.clone()),
                to: escalated.escalated_to.clone(),
                ..Moment::new(self.at, Kind::Escalation, DONE)
            }),
            What::Refused(refused) => Some(Moment {
                attempt: Some(refused.attempt),
                to: Some(refused.notify_to.clone()),
                reason: Some(refused.reason.clone()),
                ..Moment::new(self.at, Kind::Refusal, DONE)
            }),
            What::Expired(_) | What::Closed(_) => None,
        }
    }
}

/// How it ended, if it has.
fn end(story: &Story) -> Option<Moment> {
    let (step, closed) = story.closing()?;
    let what = match story.standing() {
        Standing::Open => return None,
        Standing::Answered => Kind::Answer,
        Standing::Expired => Kind::Expiry,
        Standing::TimedOut => Kind::Timeout,
        Standing::Cancelled => Kind::Cancellation,
    };
    Some(Moment { by: Some(closed.resolved_by.clone()), ..Moment::new(step.at, what, DONE) })
}

/// What comes if nobody answers, by the pure schedule. Of very many attempts, the next ones.
fn planned(story: &Story) -> Vec<Moment> {
    // Nobody knows when anything comes while its times stand still.
    let Some(from) = story.counted_from().filter(|_| story.closing().is_none()) else { return Vec::new() };
    let given_up = story.given_up_at();
    let is_before_end = |at: &Millis| given_up.is_none_or(|end| *at < end);
    let mut moments = Vec::new();
    let mut ends = given_up.map(|at| Moment::new(at, Kind::Timeout, PLANNED));
    if let Some(ladder) = &story.requested.ladder {
        let next = story.attempt() + 1;
        for attempt in (next..=ladder.max_attempts).take(limits::LADDER_PLANNED_MAX) {
            let Some(at) = ladder.due(from, attempt).filter(is_before_end) else { break };
            moments.push(Moment::attempt(at, attempt, ladder, PLANNED));
        }
        let expiry = ladder.expires_at(from).filter(is_before_end);
        ends = expiry.map(|at| Moment::new(at, Kind::Expiry, PLANNED)).or(ends);
    }
    moments.extend(ends);
    moments
}
