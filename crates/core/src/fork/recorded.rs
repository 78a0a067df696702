//! What the surroundings of a run said when it was recorded: a replay finds it in their place, whatever they say now.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Told;
use super::place::Places;
use crate::climb::UNFIT_LADDER;
use crate::event::{Event, NodeEvent, Offered};
use crate::{Failure, Ladder, RunId};

/// What the surroundings of a run said when it was recorded, by node and execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    offers: BTreeMap<(Arc<str>, u32), Offered>,
    /// What was asked at which call, with its ladder if it had one.
    asked: BTreeMap<(Arc<str>, u32, u32), Option<Ladder>>,
    children: BTreeMap<(Arc<str>, u32, u32), RunId>,
    turns: BTreeMap<(Arc<str>, u32), Asked>,
    unasked: BTreeMap<(Arc<str>, u32), Failure>,
}

/// Why a question can't be asked, which may be due to the ladder that the levels above gave it, to a name that another run
/// had, or to how the server was set up.
const UNASKED: [&str; 4] = [UNFIT_LADDER, "interrupt_limit", "conversation_id_taken", "capability_required"];

/// Which model was asked, and where.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) provider: String,
    pub(crate) model: Option<String>,
}

impl Recorded {
    pub(crate) fn of(told: &[Told]) -> Self {
        let (mut recorded, mut places) = (Self::default(), Places::default());
        for told in told {
            let place = places.next(&told.event);
            let Event::Node { node, event } = &told.event else { continue };
            let at = (node.clone(), place.execution);
            match event {
                NodeEvent::Started(started) => {
                    recorded.offers.extend(started.offer.clone().map(|offer| (at, offer)));
                }
                NodeEvent::InterruptRequested(asked) => {
                    recorded.asked.insert((at.0, at.1, asked.call), asked.ladder.clone());
                }
                NodeEvent::Spawned(spawned) => {
                    recorded.children.insert((at.0, at.1, place.nth - 1), spawned.child);
                }
                NodeEvent::Failed(failed) if UNASKED.contains(&failed.error.code.as_str()) => {
                    recorded.unasked.insert(at, failed.error.clone());
                }
                NodeEvent::TurnBegan(began) => {
                    let asked = Asked { provider: began.provider.clone(), model: began.model.clone() };
                    recorded.turns.insert(at, asked);
                }
                _ => {}
            }
        }
        recorded
    }

    /// The terms under which an execution was handed to workers.
    pub(crate) fn offer(&self, node: &Arc<str>, execution: u32) -> Option<Offered> {
        self.offers.get(&(node.clone(), execution)).cloned()
    }

    /// The ladder of a question, or why it could not be asked with what was around it.
    pub(crate) fn ladder(
        &self,
        node: &Arc<str>,
        execution: u32,
        call: u32,
    ) -> Result<Option<Ladder>, Failure> {
        let refused = || self.unasked.get(&(node.clone(), execution)).cloned();
        match self.asked.get(&(node.clone(), execution, call)) {
            Some(ladder) => Ok(ladder.clone()),
            None => refused().map_or(Ok(None), Err),
        }
    }

    /// A child that an execution started.
    pub(crate) fn child(&self, node: &Arc<str>, execution: u32, nth: u32) -> Option<RunId> {
        self.children.get(&(node.clone(), execution, nth)).copied()
    }

    /// Whom a turn asked.
    pub(crate) fn turn(&self, node: &Arc<str>, execution: u32) -> Option<&Asked> {
        self.turns.get(&(node.clone(), execution))
    }
}
