//! What happened to an interrupt, from its request to its end: read from the journal, where it stands for good.

use abide_core::event::{
    InterruptEscalated, InterruptExpired, InterruptRenotified, InterruptRequested, InterruptResolved,
    NoticeRefused, Resolution,
};
use abide_core::{Event, HoldMode, InterruptId, Key, Millis, NodeEvent, Record, Run, RunEvent};
use abide_store::{NoticeDelivery, NoticesQuery};

use crate::app::App;
use crate::error::Result;
use crate::limits;

/// An interrupt and what happened to it.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    /// The node that asked.
    pub(crate) node: String,
    /// What was asked.
    pub(crate) requested: InterruptRequested,
    /// When.
    pub(crate) at: Millis,
    /// The place of the request in the journal.
    pub(crate) sequence: u64,
    /// What followed, in order.
    pub(crate) steps: Vec<Step>,
    /// For how long its times have stood still, up to the last release.
    pub(crate) shifted_ms: Millis,
    /// Since when they stand still.
    pub(crate) stands_since: Option<Millis>,
}

/// Something that happened to an interrupt.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) sequence: u64,
    pub(crate) at: Millis,
    pub(crate) what: What,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Renotified(InterruptRenotified),
    Escalated(InterruptEscalated),
    Refused(NoticeRefused),
    Expired(InterruptExpired),
    Closed(Box<InterruptResolved>),
}

/// How an interrupt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Open,
    Answered,
    Expired,
    TimedOut,
    Cancelled,
}

impl Standing {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Answered => "answered",
            Self::Expired => "expired",
            Self::TimedOut => "timed-out",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Story {
    /// Reads an interrupt of a run; `None` if it was never asked. The journal is read from where it was asked for, and
    /// not without end: nearly all are closed soon after, as events go.
    pub(crate) async fn read(app: &App, key: Key, id: InterruptId) -> Result<Option<Self>> {
        let mut story: Option<Self> = None;
        let (mut from, mut read) = (id.sequence(), 0);
        while read < limits::CLOSING_EVENTS_MAX {
            let records = app.engine().events(key, from, limits::POLL_EVENTS_MAX).await?;
            let Some(last) = records.last() else { break };
            (from, read) = (last.sequence + 1, read + records.len());
            if story.is_none() {
                story = records.first().and_then(|record| Self::begin(record, id));
            }
            let Some(story) = &mut story else { break };
            records.iter().for_each(|record| story.take_in(record, id));
            if story.closing().is_some() {
                break;
            }
        }
        if let Some(story) = story.as_mut().filter(|story| story.closing().is_none()) {
            story.stand_as(app, key, id).await?;
        }
        Ok(story)
    }

    /// What is open stands as its run says: it may have been asked while that was stopped.
    async fn stand_as(&mut self, app: &App, key: Key, id: InterruptId) -> Result<()> {
        let see = |run: &Run| run.interrupt(id).map(|open| (open.shifted_ms, open.stands_since));
        if let Some((shifted_ms, stands_since)) = app.engine().read(key, see).await? {
            (self.shifted_ms, self.stands_since) = (shifted_ms, stands_since);
        }
        Ok(())
    }

    fn begin(record: &Record, id: InterruptId) -> Option<Self> {
        match record.event() {
            Ok(Event::Node { node, event: NodeEvent::InterruptRequested(requested) })
                if requested.interrupt_id == id =>
            {
                let (node, requested) = (node.to_string(), *requested);
                Some(Self {
                    node,
                    requested,
                    at: record.at,
                    sequence: record.sequence,
                    steps: Vec::new(),
                    shifted_ms: 0,
                    stands_since: None,
                })
            }
            _ => None,
        }
    }

    fn take_in(&mut self, record: &Record, id: InterruptId) {
        if let Ok(Event::Run(event)) = record.event()
            && self.closing().is_none()
        {
            self.hold(&event, record.at);
        }
        self.steps.extend(Step::of(record, id));
    }

    /// A stop makes its times stand still, and whatever lifts that moves them by as long as they did.
    fn hold(&mut self, event: &RunEvent, at: Millis) {
        match event {
            RunEvent::Held(held) if held.mode == HoldMode::Stop => {
                self.stands_since.get_or_insert(at);
            }
            RunEvent::Held(_) | RunEvent::Released(_) | RunEvent::Resumed(_) => {
                let since = self.stands_since.take().unwrap_or(at);
                self.shifted_ms = self.shifted_ms.saturating_add(at.saturating_sub(since));
            }
            _ => {}
        }
    }

    /// From when its times are counted. Nobody knows when anything is due while they stand still.
    pub(crate) fn counted_from(&self) -> Option<Millis> {
        self.stands_since.is_none().then(|| self.at.saturating_add(self.shifted_ms))
    }

    /// How it was closed, if it was.
    pub(crate) fn closing(&self) -> Option<(&Step, &InterruptResolved)> {
        self.steps.iter().find_map(|step| match &step.what {
            What::Closed(closed) => Some((step, closed.as_ref())),
            _ => None,
        })
    }

    /// How it stands, as far as the journal was read.
    pub(crate) fn standing(&self) -> Standing {
        let Some((_, closed)) = self.closing() else { return Standing::Open };
        match (closed.outcome, closed.reason.as_deref()) {
            (Resolution::Timeout, _) | (Resolution::Rejected, Some("timeout")) => Standing::TimedOut,
            (Resolution::Resolved | Resolution::Rejected, _) => Standing::Answered,
            (Resolution::Expired, _) => Standing::Expired,
            (Resolution::Cancelled, _) => Standing::Cancelled,
        }
    }

    /// The last attempt that was made.
    pub(crate) fn attempt(&self) -> u32 {
        let again = |step: &Step| match &step.what {
            What::Renotified(again) => Some(again.attempt),
            _ => None,
        };
        self.steps.iter().filter_map(again).max().unwrap_or(1)
    }

    /// When it is given up, whatever its ladder says.
    pub(crate) fn given_up_at(&self) -> Option<Millis> {
        Some(self.counted_from()?.saturating_add(self.requested.timeout_ms?))
    }

    /// From when on nobody can answer it.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        let ladder = self.requested.ladder.as_ref();
        let ends = ladder.and_then(|ladder| ladder.expires_at(self.counted_from()?));
        self.given_up_at().into_iter().chain(ends).min()
    }
}

impl Step {
    /// What an event says about an interrupt, if it does.
    fn of(record: &Record, id: InterruptId) -> Option<Self> {
        let Ok(Event::Node { event, .. }) = record.event() else { return None };
        let (about, what) = match event {
            NodeEvent::InterruptRenotified(again) => (again.interrupt_id, What::Renotified(again)),
            NodeEvent::InterruptEscalated(escalated) => (escalated.interrupt_id, What::Escalated(escalated)),
            NodeEvent::NoticeRefused(refused) => (refused.interrupt_id, What::Refused(refused)),
            NodeEvent::InterruptExpired(expired) => (expired.interrupt_id, What::Expired(expired)),
            NodeEvent::InterruptResolved(closed) => (closed.interrupt_id, What::Closed(closed)),
            _ => return None,
        };
        (about == id).then_some(Self { sequence: record.sequence, at: record.at, what })
    }
}

/// What was sent about an interrupt, and what is to be.
pub(crate) async fn deliveries(app: &App, key: Key, id: InterruptId) -> Result<Vec<NoticeDelivery>> {
    let query = NoticesQuery {
        tenant: key.tenant,
        state: None,
        run: Some(key.id),
        interrupt: Some(id),
        after: None,
        limit: limits::LADDER_DELIVERIES_MAX,
    };
    let mut rows = app.engine().notices().list(query).await?.rows;
    rows.sort_by_key(|delivery| delivery.id);
    Ok(rows)
}
