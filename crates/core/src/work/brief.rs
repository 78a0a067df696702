//! What a worker is told of a task: what goes into it, and what it has recorded so far.

use std::sync::Arc;

use crate::effect::TaskId;
use crate::event::{Event, Failure, NodeEvent};
use crate::journal::Record;
use crate::work::Memo;
use crate::{Json, JsonMap, Millis, NodeIx, NodePhase, Run, RunId, ports};

/// What a worker is told of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Brief {
    /// The node's kind.
    pub kind: Arc<str>,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// What goes in.
    pub inputs: JsonMap,
    /// What the definition says of the node.
    pub config: JsonMap,
    /// How long the worker may take.
    pub timeout_ms: Option<Millis>,
    /// The event that began the execution: what is recorded of it lies behind.
    pub began: u64,
    /// Whether anything may be recorded of it.
    pub has_history: bool,
}

/// Something that a worker did before.
#[derive(Clone, Debug, PartialEq)]
pub enum Recalled {
    /// A step, and how it ended.
    Step {
        /// Its key.
        key: String,
        /// How it ended.
        outcome: Result<Json, Failure>,
    },
    /// A step that must not be done twice was under way.
    Begun {
        /// Its key.
        key: String,
    },
    /// A sleep.
    Sleep {
        /// Its key.
        key: String,
        /// When it ends.
        until: Millis,
    },
    /// A child.
    Child {
        /// Its key.
        key: String,
        /// The child.
        run: RunId,
    },
    /// A version of a change.
    Version {
        /// Its key.
        key: String,
        /// The version.
        version: u32,
    },
    /// A question.
    Ask {
        /// Its key, if it was given one.
        key: Option<String>,
        /// Which question of the execution it is.
        call: u32,
    },
}

impl Run {
    /// What a worker is told of a task that it has under this fence; `None` if it has not.
    pub fn brief(&self, task: &TaskId, fence: u64) -> Option<Brief> {
        let ix = self.at_work(task)?;
        let (node, state) = (self.graph.at(ix), self.node(ix));
        let work = state.work.as_deref().filter(|work| work.fence == fence)?;
        let inputs = match &state.inputs {
            Some(values) => values.clone(),
            None => ports::resolve(self, node).map(|inputs| inputs.values).unwrap_or_default(),
        };
        Some(Brief {
            kind: node.type_id.clone(),
            attempt: state.attempt_told(),
            inputs,
            config: node.config.clone(),
            timeout_ms: work.offered.timeout_ms,
            began: work.began,
            has_history: !work.memos.is_empty() || state.asked > 0,
        })
    }

    /// The node of a task that a worker has or should get.
    fn at_work(&self, task: &TaskId) -> Option<NodeIx> {
        let ix = self.graph.node(&task.node)?;
        let state = self.node(ix);
        (state.phase == NodePhase::Running && state.execution == task.execution).then_some(ix)
    }

    /// What a record tells that still holds for a task. What failed in an earlier attempt does not.
    pub fn recall(&self, task: &TaskId, record: &Record) -> Option<Recalled> {
        let ix = self.at_work(task)?;
        if record.node.as_ref() != Some(&task.node) {
            return None;
        }
        let Ok(Event::Node { event, .. }) = record.event() else { return None };
        match event {
            NodeEvent::StepRecorded(recorded) => match self.memo(ix, &recorded.key)? {
                Memo::Done(at) | Memo::Failed(at) if *at == record.sequence => {
                    let outcome = match (recorded.error, recorded.value) {
                        (Some(failure), _) => Err(failure),
                        (None, value) => Ok(value.unwrap_or_else(|| Json::of(&()))),
                    };
                    Some(Recalled::Step { key: recorded.key, outcome })
                }
                _ => None,
            },
            NodeEvent::StepBegun(begun) => {
                (*self.memo(ix, &begun.key)? == Memo::Begun).then_some(Recalled::Begun { key: begun.key })
            }
            NodeEvent::SleepStarted(sleep) => {
                self.memo(ix, &sleep.key).map(|_| Recalled::Sleep { until: sleep.until, key: sleep.key })
            }
            NodeEvent::VersionRecorded(chosen) => self
                .memo(ix, &chosen.key)
                .map(|_| Recalled::Version { version: chosen.version, key: chosen.key }),
            NodeEvent::Spawned(spawned) => {
                let key = spawned.key?;
                self.memo(ix, &key).map(|_| Recalled::Child { key, run: spawned.child })
            }
            NodeEvent::AgentDecided(decided) if !decided.escalated => {
                let key = (!decided.keyless).then_some(decided.key);
                Some(Recalled::Ask { key, call: decided.call })
            }
            NodeEvent::InterruptRequested(asked) => {
                let key = (!asked.keyless).then_some(asked.key);
                Some(Recalled::Ask { key, call: asked.call })
            }
            _ => None,
        }
    }
}
