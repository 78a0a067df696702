//! What of a journal is shown, and as what.

use abide_core::{Key, Record, Run};
use abide_engine::{Engine, Error as EngineError};

use super::frame::{Frame, is_terminal, is_urgent};
use crate::error::{ApiError, Result};
use crate::openwop::events::{Modes, doc};
use crate::openwop::snapshot;

/// A way to look at a run's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum View {
    /// Every record, in the journal's own words.
    Journal,
    /// Every event that OpenWOP has a name for.
    Canonical,
    /// What a subscriber of OpenWOP asked for.
    Modes(Modes),
}

impl View {
    fn shows(self, record: &Record) -> Result<bool> {
        let kind = doc::type_of(record).map_err(|error| ApiError::internal(&error))?;
        Ok(match self {
            Self::Journal => true,
            Self::Canonical => kind.openwop_name().is_some(),
            Self::Modes(modes) => modes.shows(kind.name),
        })
    }

    pub(crate) fn wants_values(self) -> bool {
        matches!(self, Self::Modes(modes) if modes.wants_values())
    }

    pub(crate) fn hears_announcements(self) -> bool {
        matches!(self, Self::Modes(modes) if modes.hears_announcements())
    }
}

/// Makes frames of one run's records, in order.
pub(crate) struct Renderer {
    key: Key,
    view: View,
    fold: Fold,
}

/// The state that is shown after each event, if states are what is shown.
enum Fold {
    Unneeded,
    Run(Box<Run>),
    /// The payloads are gone, so there is nothing to fold: only an outline is left.
    Erased,
}

impl Renderer {
    /// A renderer whose next record is `next`.
    pub(crate) async fn at(engine: &Engine, key: Key, view: View, next: u64) -> Result<Self> {
        let fold = match view.wants_values() {
            false => Fold::Unneeded,
            true => match engine.past(key, next).await {
                Ok(run) => Fold::Run(Box::new(run)),
                Err(error) => erased_or(engine, key, error).await?,
            },
        };
        Ok(Self { key, view, fold })
    }

    /// The state as it is before the next record, for a reader that begins here; `last` is the record before.
    pub(crate) fn baseline(&self, last: &Record) -> Result<Option<Frame>> {
        match &self.fold {
            Fold::Run(run) => self.state(run, last).map(Some),
            Fold::Unneeded | Fold::Erased => Ok(None),
        }
    }

    /// The frames of the first of some records, which are the ones that come next, and of how many. It stops at so many
    /// bytes, but not before the first frame: a state is as large as its run.
    pub(crate) async fn render(
        &mut self,
        engine: &Engine,
        records: &[Record],
        bytes_max: usize,
    ) -> Result<(Vec<Frame>, usize)> {
        let (mut frames, mut bytes) = (Vec::new(), 0);
        for (ix, record) in records.iter().enumerate() {
            if bytes >= bytes_max {
                return Ok((frames, ix));
            }
            self.fold(engine, record).await?;
            if self.view.shows(record)?
                && let Some(frame) = self.frame(engine, record).await?
            {
                bytes += frame.len();
                frames.push(frame);
            }
        }
        Ok((frames, records.len()))
    }

    async fn fold(&mut self, engine: &Engine, record: &Record) -> Result<()> {
        if let Fold::Run(run) = &mut self.fold
            && let Err(corrupt) = run.apply(record)
        {
            let damaged = EngineError::Damaged { run: self.key.id, corrupt };
            self.fold = erased_or(engine, self.key, damaged).await?;
        }
        Ok(())
    }

    async fn frame(&self, engine: &Engine, record: &Record) -> Result<Option<Frame>> {
        let run = self.key.id;
        let rendered = match (&self.fold, self.view) {
            (Fold::Run(run), _) => return self.state(run, record).map(Some),
            (Fold::Erased, _) => return self.outline(engine, record).await,
            (Fold::Unneeded, View::Journal) => doc::journal(run, record),
            (Fold::Unneeded, View::Canonical | View::Modes(_)) => doc::openwop(run, record),
        };
        let (kind, text) = rendered.map_err(|error| ApiError::internal(&error))?;
        Ok(Some(Frame::new(record.sequence, kind, &text)))
    }

    /// The state after a record. What the children of the run are up to is not in its journal, so it is not in here; and
    /// no tokens are, because the frame is everybody's.
    fn state(&self, run: &Run, record: &Record) -> Result<Frame> {
        let state =
            snapshot::of(run, snapshot::Beside::default()).map_err(|error| ApiError::internal(&error))?;
        self.state_frame(record, state)
    }

    /// What is left of an erased run, with its last event.
    async fn outline(&self, engine: &Engine, record: &Record) -> Result<Option<Frame>> {
        if !ends(record)? {
            return Ok(None);
        }
        let head = engine.head(self.key).await?;
        let state = snapshot::outline(&head).map_err(|error| ApiError::internal(&error))?;
        self.state_frame(record, state).map(Some)
    }

    fn state_frame(&self, record: &Record, state: Vec<u8>) -> Result<Frame> {
        let kind = doc::type_of(record).map_err(|error| ApiError::internal(&error))?;
        let text = doc::state(self.key.id, record, state).map_err(|error| ApiError::internal(&error))?;
        Ok(Frame::new(record.sequence, doc::STATE, &text).urgent_if(is_urgent(kind.name)))
    }
}

/// Whether nothing comes after a record.
pub(crate) fn ends(record: &Record) -> Result<bool> {
    let kind = doc::type_of(record).map_err(|error| ApiError::internal(&error))?;
    Ok(is_terminal(kind.name))
}

/// A run that can't be folded because it was erased, meanwhile or long ago.
async fn erased_or(engine: &Engine, key: Key, error: EngineError) -> Result<Fold> {
    if matches!(error, EngineError::Erased(_)) || engine.head(key).await?.erased {
        return Ok(Fold::Erased);
    }
    Err(error.into())
}
