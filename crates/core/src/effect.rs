//! What the shell must do once the events it came with are durable.
//!
//! Effects are values. They are produced only by `apply`, so whatever a journal says has happened implies
//! the same timers, tasks and messages when it is folded again.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::event::{DependsOn, Failure, HookKind, MemberAdded, MemberReported, Parent, Resolution, Role};
use crate::{
    Hash, InterruptId, InterruptKind, JsonMap, Lifecycle, Millis, RunId, Sought, Status, Suspension, Tidings,
    Trace, Watch,
};

/// One thing to do. The store writes it in the transaction that holds its event.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Wake the run at `due`.
    ArmTimer {
        /// Which timer of the run.
        timer: TimerId,
        /// When.
        due: Millis,
    },
    /// Forget a timer that was armed for `due`.
    DropTimer {
        /// Which timer of the run.
        timer: TimerId,
        /// When it would have fired; the store finds it by this.
        due: Millis,
    },
    /// Have a node executed and reported.
    Dispatch {
        /// Which task.
        task: TaskId,
        /// The first fencing token of its lease: higher for every later dispatch of the same run.
        fence: u64,
    },
    /// The node's outcome is recorded: its task is over.
    FinishTask(TaskId),
    /// Have a node done by a worker.
    Offer(Offer),
    /// Nobody holds the run any more: what waited for workers meanwhile may be had.
    OfferAgain(std::sync::Arc<str>),
    /// No worker has the task any more, and none gets it.
    Withdraw(TaskId),
    /// The run is ending: whoever has the task is to stop, and if nobody has it, nobody gets it.
    CallOff(TaskId),
    /// The run is ending: the call of a model that this task makes is given up.
    Abort(TaskId),
    /// Something has come that a worker may be waiting for with a task in hand.
    Wake(TaskId),
    /// Have a worker called about an interrupt.
    Hook(Hook),
    /// A turn waits for its provider: remember it among those that do.
    AwaitProvider(ProviderWait),
    /// A turn waits for its provider no more.
    LeaveProvider(TaskId),
    /// Tell another run how this one stands.
    Send {
        /// The receiver, in the same tenant.
        to: RunId,
        /// What it is told.
        notice: Notice,
    },
    /// Start a child. The store keeps it among the run's children, and files the message that starts it.
    Spawn(Spawn),
    /// Strike a child that could not be started from the run's children.
    Disown(RunId),
    /// Cancel the run's children that have not ended and go with it: one message to each.
    Cascade(Cascade),
    /// Put an interrupt among those that wait for an answer, and tell whoever wants to be told.
    OpenInterrupt(Box<OpenInterrupt>),
    /// Take an interrupt from among those that wait for an answer.
    CloseInterrupt(ClosedInterrupt),
    /// An interrupt is given up at another time than before, or nobody knows when.
    MoveDeadline {
        /// Which interrupt.
        id: InterruptId,
        /// When it is given up.
        deadline: Option<Millis>,
    },
    /// Say in the list of open interrupts how far an approval has come.
    NoteHeadway {
        /// Which interrupt.
        id: InterruptId,
        /// How far; nothing if there is nothing to tell.
        headway: Option<Headway>,
    },
    /// Have a conversation's id to itself within the tenant. The commit is refused if another run has it.
    TakeName(Hash),
    /// Remember that the run waits for another one.
    DependOn(RunId),
    /// Forget that the run waited for another one.
    Independ(RunId),
    /// Tell another run whether this one wants to hear how it stands.
    Bid {
        /// The receiver, in the same tenant.
        to: RunId,
        /// What it is told.
        watch: Watch,
    },
    /// Tell every member of this group the same.
    BidAll(Watch),
    /// Remember that an agent is to work on the run, and tell whoever listens for it.
    Assign(Appointment),
    /// Forget that an agent was to work on the run.
    Unassign(String),
    /// Remember who wants to hear how the run stands.
    Watch(RunId),
    /// Forget somebody who wanted to hear how the run stands.
    Unwatch(RunId),
    /// Tell one of those how the run stands.
    Tell {
        /// The receiver, in the same tenant.
        to: RunId,
        /// What it is told.
        tidings: Tidings,
    },
    /// Tell all of those how the run stands.
    Announce(Tidings),
    /// Have another run held back, or not any more. It may not have started yet: it is told until it has.
    Order {
        /// The receiver, in the same tenant.
        to: RunId,
        /// What it is to do.
        order: Order,
        /// The sequence of the event that brought it about: the receiver keeps to the highest.
        sequence: u64,
    },
    /// Put a run among the members of this group. The commit is refused if it is one.
    Enlist(MemberRow),
    /// Strike a run from among the members of this group. The commit is refused if it does not stand as this says.
    Dismiss {
        /// Which run.
        run: RunId,
        /// How it stood.
        was: Status,
        /// What it had cost.
        cost_micros: u64,
    },
    /// Keep how a member stands. The commit is refused if it did not stand as this says.
    NoteMember(MemberReported),
    /// Tell people of an interrupt, and remember that they are to be told.
    Notify(Notify),
    /// Remember how far a sender has been heard, so that repeats are known.
    Hear {
        /// The sender.
        from: RunId,
        /// The sender's sequence that was heard.
        sequence: u64,
    },
}

/// That an agent is to work on a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Appointment {
    /// Who.
    pub agent: String,
    /// The event that says so.
    pub sequence: u64,
    /// When.
    pub at: Millis,
}

/// What a run is told by whoever coordinates another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Start nothing.
    Hold,
    /// Go on, unless something else keeps it back.
    Release,
}

/// A member of a group, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRow {
    /// Which run.
    pub run: RunId,
    /// What it is to the group.
    pub role: Role,
    /// The higher, the more it matters.
    pub priority: i32,
    /// Since when it belongs to it.
    pub added_at: Millis,
    /// How it stands, as far as the group has heard.
    pub status: Status,
    /// Since when it waits for people, and until when.
    pub suspended: Option<Suspension>,
    /// What it has cost.
    pub cost_micros: u64,
    /// Its sequence when it was heard last.
    pub heard: u64,
}

impl MemberRow {
    pub(crate) fn of(added: &MemberAdded, at: Millis) -> Self {
        Self {
            run: added.run,
            role: added.role,
            priority: added.priority,
            added_at: at,
            status: added.status,
            suspended: None,
            cost_micros: 0,
            // What it has cost by then, and since when it waits for people, it has yet to tell.
            heard: added.sequence.saturating_sub(1),
        }
    }

    /// What has been heard of it takes the place of what was known.
    pub fn note(&mut self, told: &MemberReported) {
        (self.status, self.suspended) = (told.status, told.suspended);
        (self.cost_micros, self.heard) = (told.cost_micros, told.sequence);
    }
}

/// A task that waits for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Which task.
    pub task: TaskId,
    /// What a worker has to know to speak for it: higher for every later hand-out.
    pub fence: u64,
    /// The node's kind.
    pub kind: std::sync::Arc<str>,
    /// The only agent whose workers may do it.
    pub agent: Option<String>,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// How long the worker may take.
    pub timeout_ms: Option<Millis>,
    /// Since when it waits.
    pub at: Millis,
    /// The run is held: nobody gets it before that is over.
    pub held: bool,
}

/// A turn that waits for its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderWait {
    /// The turn's node and execution.
    pub task: TaskId,
    /// The provider.
    pub provider: String,
    /// It waits for the provider's breaker to close, and not for its own next try.
    pub postponed: bool,
    /// Since when.
    pub since: Millis,
    /// When it tries again by itself, or is given up if it is postponed.
    pub until: Millis,
}

/// A call of an agent about an interrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The agent: any of its workers is called.
    pub agent: String,
    /// Which interrupt.
    pub id: InterruptId,
    /// What for.
    pub kind: HookKind,
    /// At which attempt to reach people.
    pub attempt: u32,
    /// When it happened.
    pub at: Millis,
}

/// An interrupt that waits for an answer, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenInterrupt {
    /// Which interrupt.
    pub id: InterruptId,
    /// The node that asked.
    pub node: std::sync::Arc<str>,
    /// What it is about.
    pub kind: InterruptKind,
    /// One line of it, with nothing that is not for everybody.
    pub title: String,
    /// The event that resolves it, if one does.
    pub event_type: Option<String>,
    /// What such an event is found by.
    pub sought: Option<Sought>,
    /// What a custom one is called by those who agreed on it.
    pub custom_kind: Option<String>,
    /// Who may answer; everybody if it is empty.
    pub approvers: Vec<String>,
    /// When it was asked for.
    pub requested_at: Millis,
    /// When it is given up.
    pub deadline: Option<Millis>,
    /// How far it has come, if it takes several people or somebody has asked back.
    pub headway: Option<Headway>,
    /// Who is told of it.
    pub callback_url: Option<String>,
}

/// How far an approval has come, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headway {
    /// People who accept.
    pub approvals: u32,
    /// People who don't.
    pub rejections: u32,
    /// How many have to accept.
    pub required: u32,
    /// Questions back that nobody has answered.
    pub asks: u32,
}

/// An interrupt that does not wait any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedInterrupt {
    /// Which interrupt.
    pub id: InterruptId,
    /// What it was about.
    pub kind: InterruptKind,
    /// How it ended.
    pub outcome: Resolution,
    /// Who closed it.
    pub by: String,
    /// When.
    pub at: Millis,
    /// People were told of it, or were to be.
    pub told: bool,
}

/// An attempt to reach people about an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify {
    /// Which interrupt.
    pub id: InterruptId,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When it was due.
    pub at: Millis,
}

/// One execution of a node, as a unit of work with a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId {
    /// The node.
    pub node: std::sync::Arc<str>,
    /// Which execution of it.
    pub execution: u32,
}

/// A timer of one run. Its text form is its key on disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimerId {
    /// A `core.delay` ends.
    Delay {
        /// The waiting node.
        node: std::sync::Arc<str>,
        /// Which execution of it.
        execution: u32,
    },
    /// A failed attempt is made again.
    Retry {
        /// The waiting node.
        node: std::sync::Arc<str>,
        /// Which execution of it.
        execution: u32,
    },
    /// A turn tries its provider again, or has been postponed for too long.
    Provider {
        /// The turn's node.
        node: std::sync::Arc<str>,
        /// Which execution of it.
        execution: u32,
    },
    /// The time has come that a worker waits for.
    Sleep {
        /// The worker's node.
        node: std::sync::Arc<str>,
        /// Which execution of it.
        execution: u32,
        /// The event that began it.
        sequence: u64,
    },
    /// Nobody has answered in time.
    Interrupt(InterruptId),
    /// The time has come that an interrupt waits for.
    Occasion(InterruptId),
    /// Nobody has answered yet: the next attempt is due, or the ladder has ended.
    Attempt(InterruptId),
    /// Nobody has said yet what is asked.
    Grace(InterruptId),
    /// The run has lasted as long as it may.
    RunTimeout,
    /// The run was interrupted: it is looked at whether it may be resumed.
    Resume,
    /// A group of the run waits for people no longer.
    Deadline,
    /// Whoever coordinates the run has not been heard from.
    Coordinator(String),
    /// A long stretch of pure nodes goes on after it yielded.
    Stretch,
}

impl fmt::Display for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay { node, execution } => write!(f, "delay/{execution}/{node}"),
            Self::Retry { node, execution } => write!(f, "retry/{execution}/{node}"),
            Self::Provider { node, execution } => write!(f, "provider/{execution}/{node}"),
            Self::Sleep { node, execution, sequence } => write!(f, "sleep/{execution}/{sequence}/{node}"),
            Self::Interrupt(id) => write!(f, "interrupt/{id}"),
            Self::Occasion(id) => write!(f, "occasion/{id}"),
            Self::Attempt(id) => write!(f, "attempt/{id}"),
            Self::Grace(id) => write!(f, "grace/{id}"),
            Self::RunTimeout => f.write_str("run-timeout"),
            Self::Resume => f.write_str("resume"),
            Self::Deadline => f.write_str("deadline"),
            Self::Coordinator(id) => write!(f, "coordinator/{id}"),
            Self::Stretch => f.write_str("stretch"),
        }
    }
}

impl FromStr for TimerId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let node_timer = |rest: &str| {
            let (execution, node) = rest.split_once('/')?;
            Some((std::sync::Arc::from(node), execution.parse().ok()?))
        };
        let parsed = match (text, text.split_once('/')) {
            ("stretch", _) => Some(Self::Stretch),
            ("run-timeout", _) => Some(Self::RunTimeout),
            ("resume", _) => Some(Self::Resume),
            ("deadline", _) => Some(Self::Deadline),
            (_, Some(("delay", rest))) => {
                node_timer(rest).map(|(node, execution)| Self::Delay { node, execution })
            }
            (_, Some(("retry", rest))) => {
                node_timer(rest).map(|(node, execution)| Self::Retry { node, execution })
            }
            (_, Some(("provider", rest))) => {
                node_timer(rest).map(|(node, execution)| Self::Provider { node, execution })
            }
            (_, Some(("sleep", rest))) => rest.split_once('/').and_then(|(execution, rest)| {
                let (sequence, node) = rest.split_once('/')?;
                let (execution, sequence) = (execution.parse().ok()?, sequence.parse().ok()?);
                Some(Self::Sleep { node: std::sync::Arc::from(node), execution, sequence })
            }),
            (_, Some(("interrupt", rest))) => rest.parse().ok().map(Self::Interrupt),
            (_, Some(("occasion", rest))) => rest.parse().ok().map(Self::Occasion),
            (_, Some(("attempt", rest))) => rest.parse().ok().map(Self::Attempt),
            (_, Some(("grace", rest))) => rest.parse().ok().map(Self::Grace),
            (_, Some(("coordinator", id))) if !id.is_empty() => Some(Self::Coordinator(id.to_owned())),
            _ => None,
        };
        parsed.ok_or_else(|| format!("'{text}' is no timer of this version"))
    }
}

/// How a run stands, told to another run. It carries state and sequence, never a difference: the receiver
/// keeps the highest it saw, so order and repeats do not matter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Notice {
    /// The run that speaks.
    pub from: RunId,
    /// The sequence of the event that brought the sender to this state.
    pub sequence: u64,
    /// The node of the receiver that stands for the sender.
    pub node: String,
    /// How the sender stands.
    pub lifecycle: Lifecycle,
    /// Which execution of that node the sender was started by.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub execution: u32,
    /// Those of the sender's variables that the receiver asked for when it started the sender.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub outputs: JsonMap,
    /// Which of them are never shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<String>,
    /// Why the sender failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// The sender waits for nothing but people.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub still: bool,
    /// How the sender stands as shown, if the receiver wants to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Since when it waits for people, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspension>,
    /// Somebody has it, if it is done by hand as a whole and the receiver wants to know.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub claimed: bool,
}

impl Notice {
    /// Whether it holds something that is never shown.
    pub fn hides(&self) -> bool {
        !self.sensitive.is_empty()
    }
}

/// A child to be started, with everything that fixes what it will do but its definition: that is looked up, and
/// pinned, when it starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spawn {
    /// The child's id, drawn from the parent's journal so that a repeat starts no second child.
    pub child: RunId,
    /// The workflow it runs.
    pub workflow_id: String,
    /// That workflow, if it is nowhere but here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<crate::Json>,
    /// What goes in.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub inputs: JsonMap,
    /// Which of the inputs are never shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<String>,
    /// Variables that are passed on although they have no value, so that their defaults don't apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    /// The run and node it stands for.
    pub parent: Parent,
    /// Whether it is cancelled when its parent ends before it.
    pub cascade: bool,
    /// The trace that it belongs to: its parent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// Who started the run above it: whoever may not decide there may not decide here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The runs that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependsOn>,
    /// It begins only when somebody says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draft: bool,
}

impl Spawn {
    /// Whether it holds something that is never shown.
    pub fn hides(&self) -> bool {
        !self.sensitive.is_empty()
    }
}

/// Why the children of a run are cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cascade {
    /// The parent, which has ended.
    pub from: RunId,
    /// The sequence of its last event.
    pub sequence: u64,
    /// `parent-cancelled` or `parent-failed`.
    pub reason: String,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_ids_survive_a_round_trip_through_text() {
        let delay = TimerId::Delay { node: "a/b".into(), execution: 3 };
        let retry = TimerId::Retry { node: "a/b".into(), execution: 3 };
        let provider = TimerId::Provider { node: "a/b".into(), execution: 3 };
        let id = InterruptId::from_bytes([9; InterruptId::BYTES]);
        let waits = [TimerId::Interrupt(id), TimerId::Occasion(id), TimerId::Attempt(id), TimerId::Grace(id)];
        let sleep = TimerId::Sleep { node: "a/b".into(), execution: 3, sequence: 9 };
        let plain = [TimerId::RunTimeout, TimerId::Resume, TimerId::Deadline, TimerId::Stretch];
        let lease = TimerId::Coordinator("coord-0a".to_owned());
        for timer in [delay, retry, provider, sleep, lease].into_iter().chain(plain).chain(waits) {
            assert_eq!(timer.to_string().parse::<TimerId>(), Ok(timer));
        }
        assert!("alarm".parse::<TimerId>().is_err());
    }
}
