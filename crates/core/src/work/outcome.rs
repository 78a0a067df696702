//! What a worker is told of what it did: read from the run after it was decided.

use crate::conversation::text_of;
use crate::effect::TaskId;
use crate::event::{Failure, Resolution};
use crate::interrupt::{ANSWER, Stop};
use crate::work::{Memo, WorkAsk, WorkOp, WorkState};
use crate::{InterruptId, InterruptKind, Json, JsonMap, Millis, NodeIx, NodePhase, Run, RunId};

/// What a worker is told.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkOutcome {
    /// It is done.
    Done,
    /// The event at this place has the outcome of the step.
    Recorded(u64),
    /// How a question stands.
    Ask(Box<AskState>),
    /// How a sleep stands.
    Sleep {
        /// When it ends.
        until: Millis,
        /// Whether it has.
        over: bool,
    },
    /// How a child stands.
    Child {
        /// The child.
        run: RunId,
        /// How it stands.
        state: ChildState,
    },
    /// The version to follow.
    Version(u32),
    /// Whether the task was given back.
    Parked(bool),
    /// When the task is tried again, if it is.
    Failed {
        /// When.
        retry_at: Option<Millis>,
    },
}

/// How a worker's question stands.
#[derive(Clone, Debug, PartialEq)]
pub enum AskState {
    /// Nobody has answered yet.
    Open {
        /// Which interrupt.
        id: InterruptId,
        /// Nobody can answer from then on.
        deadline: Option<Millis>,
    },
    /// Somebody has.
    Answered {
        /// Which interrupt.
        id: Option<InterruptId>,
        /// How it ended.
        outcome: Resolution,
        /// The answer.
        value: Json,
        /// Who gave it.
        by: Option<String>,
    },
    /// Nobody will.
    Failed {
        /// Which interrupt.
        id: Option<InterruptId>,
        /// Why.
        failure: Failure,
    },
}

/// How a worker's child stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// It is under way.
    Running,
    /// It has ended; the event at this place, `child.reported` or `child.refused`, tells how.
    Ended(u64),
}

impl Run {
    /// What a worker is told of what it did. `None` if nothing is known of it, which can't be after it was decided.
    pub fn work_outcome(&self, task: &TaskId, op: &WorkOp) -> Option<WorkOutcome> {
        let ix = self.graph.node(&task.node)?;
        let node = self.node(ix);
        Some(match op {
            WorkOp::Begin { .. } | WorkOp::Complete { .. } | WorkOp::Note { .. } => WorkOutcome::Done,
            WorkOp::Decide { .. } | WorkOp::Lose { .. } => WorkOutcome::Done,
            WorkOp::Record { key, .. } => match self.memo(ix, key)? {
                Memo::Done(sequence) | Memo::Failed(sequence) => WorkOutcome::Recorded(*sequence),
                _ => return None,
            },
            WorkOp::Ask(ask) => WorkOutcome::Ask(Box::new(self.ask_state(ix, ask)?)),
            WorkOp::Judge(made) => {
                let key = self.question_key(ix, made.key.clone(), made.call);
                WorkOutcome::Ask(Box::new(self.state_of(&key, false)?))
            }
            WorkOp::Sleep { key, .. } => match self.memo(ix, key)? {
                Memo::Sleep { until, over, .. } => WorkOutcome::Sleep { until: *until, over: *over },
                _ => return None,
            },
            WorkOp::Child(child) => match self.memo(ix, &child.key)? {
                Memo::Child { run, ended } => {
                    let state = ended.map_or(ChildState::Running, ChildState::Ended);
                    WorkOutcome::Child { run: *run, state }
                }
                _ => return None,
            },
            WorkOp::Version { key, .. } => match self.memo(ix, key)? {
                Memo::Version(version) => WorkOutcome::Version(*version),
                _ => return None,
            },
            WorkOp::Park { .. } => WorkOutcome::Parked(node.phase != NodePhase::Running || !node.dispatched),
            WorkOp::Fail(_) => {
                let waits = node.phase == NodePhase::Waiting;
                let unfit = node.work.as_deref().and_then(WorkState::unfit_until);
                WorkOutcome::Failed { retry_at: node.until.or(unfit).filter(|_| waits) }
            }
        })
    }

    pub(crate) fn memo(&self, ix: NodeIx, key: &str) -> Option<&Memo> {
        self.node(ix).work.as_deref()?.memos.get(key)
    }

    /// What a worker's question is known by.
    pub(crate) fn ask_key(&self, ix: NodeIx, ask: &WorkAsk) -> String {
        self.question_key(ix, ask.key.clone(), ask.call)
    }

    pub(crate) fn question_key(&self, ix: NodeIx, key: Option<String>, call: u32) -> String {
        let execution = self.node(ix).execution;
        key.unwrap_or_else(|| self.default_key(ix, execution, call))
    }

    fn ask_state(&self, ix: NodeIx, ask: &WorkAsk) -> Option<AskState> {
        let key = self.ask_key(ix, ask);
        let mut state = self.state_of(&key, ask.single)?;
        if let AskState::Answered { value, .. } = &mut state
            && self
                .state
                .answers
                .get(&key)
                .is_some_and(|known| known.kind == InterruptKind::ConversationStart)
        {
            // Nobody answers it, but whoever opened a conversation has to know its id.
            let given = ask.payload.parse::<JsonMap>().ok().and_then(|mut payload| payload.remove("data"));
            let given = given.and_then(|data| text_of(&data, "conversationId"));
            let id = given.unwrap_or_else(|| self.minted_conversation(&key));
            *value = Json::of(&JsonMap::from([("conversationId".to_owned(), Json::of(&id))]));
        }
        Some(state)
    }

    /// How the question with this key stands.
    fn state_of(&self, key: &str, single: bool) -> Option<AskState> {
        if let Some(answered) = self.state.answers.get(key) {
            return Some(match answered.told() {
                Ok(value) => AskState::Answered {
                    id: answered.id,
                    outcome: answered.outcome,
                    value: if single { answer_alone(&value) } else { value },
                    by: answered.by.clone(),
                },
                Err(Stop::Failed(failure)) => AskState::Failed { id: answered.id, failure },
                Err(Stop::Suspended) => return None,
            });
        }
        let open = self.state.open.values().find(|open| open.requested.key == key)?;
        Some(AskState::Open { id: open.requested.interrupt_id, deadline: open.deadline() })
    }
}

/// The answer to the only question.
fn answer_alone(value: &Json) -> Json {
    let answers = value.parse::<JsonMap>().ok().and_then(|mut value| value.remove("answers"));
    let alone = answers.and_then(|answers| answers.parse::<JsonMap>().ok()?.remove(ANSWER));
    alone.unwrap_or_else(|| value.clone())
}
