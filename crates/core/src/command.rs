//! What may be asked of a run.
//!
//! A command is first checked against the state, which it can't change, and then carried out, which can't
//! fail. So a refused command leaves no trace. One file per command lies in `command/`.

mod adopt;
pub(crate) mod bond;
mod cancel;
mod child;
mod hold;
mod plan;
mod report;
mod resolve;
mod resume;
pub(crate) mod start;
mod timer;
mod turn;
mod work;

use std::sync::Arc;

pub use adopt::NewChild;
pub use bond::BondCommand;
pub use resolve::{Reply, Resolve};
pub use start::Start;
pub use turn::{CallRef, TurnCommand};

use crate::coordinator::CoordinatorCommand;
use crate::effect::{Effect, Notice, TaskId, TimerId};
use crate::event::{Cancellation, Event, Failure, Held, Paused, Released, Resumed, RunEvent};
use crate::group::GroupCommand;
use crate::hand::Hand;
use crate::http::TaskFailure;
use crate::intent::{Actor, IntentCommand};
use crate::journal::{Head, Record};
use crate::perform::Product;
use crate::planning::PlanCommand;
use crate::resume::{Artifacts, ResumeNow};
use crate::work::Work;
use crate::{InterruptId, Lifecycle, Millis, Rejection, Run, RunId, Surroundings, limits};

/// What may be asked of a run that exists.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// End the run; work in flight is waited for.
    Cancel(Cancellation),
    /// Start no more nodes until resumed.
    Pause {
        /// Why, in the caller's words.
        reason: Option<String>,
        /// Who asks.
        by: Option<String>,
        /// What becomes of work in flight.
        drain: Drain,
    },
    /// Lift a pause, or withdraw one that waits for work in flight.
    Resume {
        /// Why, in the caller's words.
        reason: Option<String>,
        /// Who asks.
        by: Option<String>,
    },
    /// Start no more nodes until released, whether or not the run waits for people.
    Hold(Held),
    /// Lift a hold.
    Release(Released),
    /// A timer's time has come.
    Fire(TimerId),
    /// The time has come to look whether an interrupted run may be resumed.
    ResumeDue {
        /// What can be read of it.
        artifacts: Artifacts,
    },
    /// An operator wants an interrupted run to go on.
    ResumeNow(Box<ResumeNow>),
    /// An operator says whether the run is resumed by itself.
    SwitchResume {
        /// Whether it is.
        auto: bool,
        /// Who says so.
        by: String,
        /// Why, in their words.
        reason: Option<String>,
    },
    /// An executor tells how a task ended.
    Report(Report),
    /// Something happens to a turn.
    Turn(Box<TurnCommand>),
    /// A worker does something with a task it has.
    Work(Box<Work>),
    /// Somebody answers an interrupt.
    Resolve(Resolve),
    /// Somebody tells those who decide what they wanted to know.
    Reply(Box<Reply>),
    /// Somebody who was to be told of an interrupt may not be.
    RefuseNotice {
        /// Which interrupt.
        id: InterruptId,
        /// At which attempt.
        attempt: u32,
        /// Who.
        notify_to: String,
        /// Why not.
        reason: String,
    },
    /// Something is asked of the tasks and plans that were posted to it.
    Plan(Box<PlanCommand>),
    /// Another run tells how it stands.
    Hear {
        /// What it says.
        notice: Notice,
        /// The highest sequence heard from that sender before.
        heard: Option<u64>,
    },
    /// It starts another run below a node that is done by hand.
    Adopt(Box<NewChild>),
    /// It is about other runs.
    Bond(Box<BondCommand>),
    /// It is about the members of a group.
    Group(Box<GroupCommand>),
    /// Somebody outside does something about a node that is done by hand.
    Hand(Box<Hand>),
    /// It is about the run as an intent that somebody drives.
    Intent(Box<IntentCommand>),
    /// An agent asks for something; whether it may work on the run is decided with that.
    By {
        /// Who asks.
        actor: Actor,
        /// For what.
        command: Box<Command>,
    },
    /// It is about the lease of whoever coordinates the run.
    Coordinator(Box<CoordinatorCommand>),
    /// A child that a node asked for can't be started.
    RefuseChild {
        /// The child that never was.
        child: RunId,
        /// The node.
        node: String,
        /// Why.
        error: Failure,
    },
}

/// What a pause does about work in flight. Nothing new starts either way, and what is in flight is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drain {
    /// The run is paused at once, and outcomes come in while it is.
    Immediate,
    /// The run is paused when the last outcome is known.
    #[default]
    CurrentNode,
}

/// Ends a run.
pub(crate) fn cancel(run: &mut Run, draft: &mut Draft, asked: Cancellation) -> Result<(), Rejection> {
    cancel::decide(run, draft, asked)
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Which task.
    pub task: TaskId,
    /// What it produced, or how the attempt failed.
    pub outcome: Result<Product, TaskFailure>,
}

/// What a decision brought about: durable together, or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The end of the journal that the decision was made on; it holds only if that is still the end.
    pub base: Head,
    /// The new events, in order.
    pub records: Vec<Record>,
    /// What must happen once they are durable.
    pub effects: Vec<Effect>,
}

impl Run {
    /// Decides `command` at `now`, or at the time of the last event if that is later.
    ///
    /// On `Err` the run is exactly as it was.
    pub fn decide(&mut self, command: Command, now: Millis) -> Result<Step, Rejection> {
        self.decide_under(command, now, &Arc::default())
    }

    /// [`Self::decide`] under what the operator and the agents say about questions that nobody answers.
    pub fn decide_under(
        &mut self,
        command: Command,
        now: Millis,
        defaults: &Arc<Surroundings>,
    ) -> Result<Step, Rejection> {
        if self.is_replay() && !matches!(command, Command::Cancel(_)) {
            return Err(Rejection::Replay);
        }
        let mut draft = Draft::new(self.head, now, defaults.clone());
        match command {
            Command::By { actor, command } => {
                self.check_asking(&actor, draft.now)?;
                return self.decide_under(*command, now, defaults);
            }
            Command::Cancel(asked) => cancel::decide(self, &mut draft, asked)?,
            Command::Pause { reason, by, drain } => {
                hold::pause(self, &mut draft, Paused { reason, by }, drain)?;
            }
            Command::Resume { reason, by } => hold::resume(self, &mut draft, Resumed { reason, by })?,
            Command::Hold(asked) => hold::hold(self, &mut draft, asked)?,
            Command::Release(asked) => hold::release(self, &mut draft, asked)?,
            Command::Fire(timer) => timer::decide(self, &mut draft, &timer)?,
            Command::ResumeDue { artifacts } => resume::due(self, &mut draft, artifacts)?,
            Command::ResumeNow(asked) => resume::now(self, &mut draft, *asked)?,
            Command::SwitchResume { auto, by, reason } => resume::switch(self, &mut draft, auto, by, reason)?,
            Command::Report(report) => report::decide(self, &mut draft, report)?,
            Command::Turn(command) => turn::decide(self, &mut draft, *command)?,
            Command::Work(work) => work::decide(self, &mut draft, *work)?,
            Command::Resolve(resolve) => resolve::decide(self, &mut draft, &resolve)?,
            Command::Reply(reply) => resolve::reply(self, &mut draft, *reply)?,
            Command::RefuseNotice { id, attempt, notify_to, reason } => {
                self.refuse_notice(&mut draft, id, attempt, notify_to, reason)?;
            }
            Command::Plan(command) => plan::decide(self, &mut draft, *command)?,
            Command::Hear { notice, heard } => child::hear(self, &mut draft, &notice, heard)?,
            Command::Adopt(new) => adopt::decide(self, &mut draft, *new)?,
            Command::Bond(command) => bond::decide(self, &mut draft, *command)?,
            Command::Group(command) => self.decide_group(&mut draft, *command)?,
            Command::Hand(hand) => self.decide_hand(&mut draft, *hand)?,
            Command::Intent(command) => self.decide_intent(&mut draft, *command)?,
            Command::Coordinator(command) => self.decide_coordinator(&mut draft, *command)?,
            Command::RefuseChild { child, node, error } => {
                child::refuse(self, &mut draft, child, &node, &error)?;
            }
        }
        self.settle_planning(&mut draft);
        self.settle_coordination(&mut draft);
        Ok(draft.step)
    }

    /// Decides several commands one after the other: what they brought about, to be made durable together, and for each
    /// whether it was refused. Those for which nothing is said were not looked at, because the others brought about enough.
    pub fn decide_all(
        &mut self,
        commands: Vec<Command>,
        now: Millis,
        defaults: &Arc<Surroundings>,
    ) -> (Step, Vec<Result<(), Rejection>>) {
        let mut all = Step { base: self.head, records: Vec::new(), effects: Vec::new() };
        let (mut decided, mut bytes) = (Vec::with_capacity(commands.len()), 0);
        for command in commands {
            if bytes >= limits::STRETCH_BYTES_MAX {
                break;
            }
            decided.push(self.decide_under(command, now, defaults).map(|step| {
                bytes += step.records.iter().map(|record| record.payload.len()).sum::<usize>();
                all.records.extend(step.records);
                all.effects.extend(step.effects);
            }));
        }
        (all, decided)
    }

    /// The run as a command would leave it, or why it would be refused. Nothing happens.
    pub fn foresee(
        &self,
        command: Command,
        now: Millis,
        defaults: &Arc<Surroundings>,
    ) -> Result<Self, Rejection> {
        let mut run = self.clone();
        run.decide_under(command, now, defaults)?;
        Ok(run)
    }

    /// Refuses anything asked of a run whose journal has ended.
    fn check_open(&self) -> Result<(), Rejection> {
        match self.state.lifecycle {
            Lifecycle::Pending => Err(Rejection::NotStarted),
            ended if ended.is_terminal() => Err(Rejection::Ended(ended)),
            _ => Ok(()),
        }
    }

    /// Refuses what only a run that is not being cancelled may do.
    pub(crate) fn check_running(&self) -> Result<(), Rejection> {
        self.check_open()?;
        match self.state.lifecycle {
            Lifecycle::Cancelling => Err(Rejection::Cancelling),
            _ => Ok(()),
        }
    }
}

pub(crate) fn check_reason(reason: Option<&String>) -> Result<(), Rejection> {
    if reason.is_some_and(|reason| reason.chars().count() > limits::REASON_CHARS_MAX) {
        let message = format!("'reason' is longer than {} characters; shorten it", limits::REASON_CHARS_MAX);
        return Err(Rejection::invalid("reason", message));
    }
    Ok(())
}

/// A decision in the making: the events and effects so far, and the one time they all happen at.
pub(crate) struct Draft {
    pub(crate) step: Step,
    pub(crate) now: Millis,
    /// What the operator and the agents say about questions that nobody answers.
    pub(crate) defaults: Arc<Surroundings>,
    /// The payloads so far, so that a stretch can yield before a commit gets too large.
    pub(crate) bytes: usize,
}

impl Draft {
    /// A decision at `now`, or at the time of the last event if that is later.
    pub(crate) fn new(base: Head, now: Millis, defaults: Arc<Surroundings>) -> Self {
        Self {
            step: Step { base, records: Vec::new(), effects: Vec::new() },
            now: now.max(base.at),
            defaults,
            bytes: 0,
        }
    }

    /// Records an event: gives it its place in the journal and folds it into the run.
    pub(crate) fn emit(&mut self, run: &mut Run, event: &Event, cause: Option<u64>) {
        self.try_emit(run, event, cause)
            .unwrap_or_else(|illegal| panic!("a decision made an illegal event, which is a bug: {illegal}"));
    }

    /// [`Self::emit`] of what may not be legal. The run is of no use if it is not.
    pub(crate) fn try_emit(
        &mut self,
        run: &mut Run,
        event: &Event,
        cause: Option<u64>,
    ) -> Result<(), String> {
        let record = run.head.seal(&run.salt, event, cause, self.now);
        run.fold(event, record.sequence, record.at, &mut self.step.effects)?;
        self.bytes += record.payload.len();
        self.step.records.push(record);
        Ok(())
    }

    /// Records something that happened to the run as a whole.
    pub(crate) fn emit_run(&mut self, run: &mut Run, event: RunEvent, cause: Option<u64>) {
        self.emit(run, &Event::Run(event), cause);
    }

    /// The sequence of the last event this decision made.
    pub(crate) fn last_sequence(&self) -> Option<u64> {
        self.step.records.last().map(|record| record.sequence)
    }
}
