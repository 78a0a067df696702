//! Why a command was refused. A refused command changes nothing.

use crate::hand::{TypeMismatch, Unclaimed};
use crate::intent::Permission;
use crate::{Failure, InterruptId, Json, JsonMap, Lifecycle, Millis, SchemaError, Status, Waiting};

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Nothing has been recorded of the run yet.
    #[error("the run has not started")]
    NotStarted,
    /// The journal has ended.
    #[error("the run has already {}", ended_as(*.0))]
    Ended(Lifecycle),
    /// A cancellation is under way.
    #[error("the run is being cancelled")]
    Cancelling,
    /// The run is paused already.
    #[error("the run is already paused")]
    AlreadyPaused,
    /// The run is stopped already.
    #[error("the run is already stopped")]
    AlreadyStopped,
    /// Nothing to release.
    #[error("nobody holds the run")]
    NotHeld,
    /// Nothing to resume.
    #[error("the run is not paused")]
    NotPaused,
    /// The run is held until a person decides how it goes on.
    #[error(
        "the run was interrupted and is held until a person decides; see `abide resume status`, and use `abide resume now`"
    )]
    Escalated,
    /// Nothing interrupted the run.
    #[error("nothing of the run was interrupted, so there is nothing to resume")]
    NotInterrupted,
    /// No turn waits for its provider, or several do.
    #[error("{}", not_waiting(.node.as_deref(), .waiting))]
    TurnNotWaiting {
        /// The node that was meant.
        node: Option<String>,
        /// The nodes whose turns do.
        waiting: Vec<String>,
    },
    /// The run replays another one.
    #[error(
        "the run replays another one, and goes no further than that did; answer that one, or fork it with mode 'branch'"
    )]
    Replay,
    /// A timer was reported before its time.
    #[error("the timer is not due before {due}")]
    NotDue {
        /// When it is due.
        due: Millis,
    },
    /// A timer was reported that the run does not wait for (any more).
    #[error("the run waits for no such timer")]
    NoSuchTimer,
    /// An outcome was reported for work that is not under way (any more).
    #[error("the node has no such execution under way")]
    NoSuchTask,
    /// The task was handed to somebody else since, or is over.
    #[error(
        "this worker does not have the task any more: it was handed out again, or it is over; drop what you have of it"
    )]
    StaleFence,
    /// What a worker wants to do can't be done.
    #[error("{}", .0.message)]
    Work(Failure),
    /// The sender has been heard at this sequence or a later one.
    #[error("this notice was heard before")]
    HeardBefore,
    /// The run never asked for this.
    #[error("there is no such interrupt")]
    NoSuchInterrupt,
    /// Somebody was faster, or it was given up.
    #[error("the interrupt has already been resolved")]
    AlreadyResolved,
    /// The run was cancelled before anybody answered.
    #[error("the run was cancelled before the interrupt was resolved")]
    InterruptCancelled,
    /// What asked is gone: its run was cancelled with its parent, or its node ended without an answer.
    #[error("what asked has ended before the interrupt was resolved, by itself or with a run above it")]
    InterruptGone,
    /// The node waits for several things.
    #[error("the node has several open interrupts; say which one with interruptId")]
    SeveralOpen(Vec<InterruptId>),
    /// The answer is not what was asked for.
    #[error("the answer does not fit: {}", listed(.0))]
    BadAnswer(Vec<SchemaError>),
    /// The event is about something else.
    #[error("the event is not the one that is waited for: {}", listed(.0))]
    Mismatch(Vec<SchemaError>),
    /// Nobody asked this back.
    #[error("nobody asked this here; the interrupt lists what was asked, each with its id")]
    NoSuchAsk,
    /// What somebody wanted to know was told already.
    #[error("this has been answered already")]
    AskAnswered,
    /// What waits for an answer can't be paused.
    #[error("the run waits for an answer")]
    Waiting(Waiting),
    /// A group of the run waits for people no longer.
    #[error("the deadline of a group that the run belongs to has passed, so nobody is waited for any more")]
    DeadlineExceeded,
    /// Nothing to activate.
    #[error("the run is no draft")]
    NotDraft,
    /// Nothing to remove.
    #[error("the run does not wait for that one")]
    NoDependency,
    /// The run has no members.
    #[error("there is no such group")]
    NoGroup,
    /// The run is no member.
    #[error("the run does not belong to the group")]
    NoMember,
    /// The group has members that have not completed.
    #[error(
        "{unfinished} members of the group have not completed; wait for them, remove them, allow partial completion, or \
         abandon the group"
    )]
    GroupUnfinished {
        /// How many.
        unfinished: u64,
    },
    /// Somebody else has the node.
    #[error("'{agent}' has the node; nobody else can do anything about it until they give it back")]
    Claimed {
        /// Who.
        agent: String,
    },
    /// Nobody has the node, so nobody can be through with it.
    #[error("nobody has the node; claim it first")]
    NotClaimed,
    /// Whoever has the node waits for an answer.
    #[error("the node waits for the answer to what was asked last")]
    Asking,
    /// The node can't be had yet.
    #[error("{}", unclaimed(.0))]
    Unclaimed(Unclaimed),
    /// What came of a node is not what it has to be.
    #[error("{}", unfit(.missing, .type_errors))]
    Outputs {
        /// What is missing.
        missing: Vec<String>,
        /// What is of another type.
        type_errors: Vec<TypeMismatch>,
    },
    /// Children of the run have not completed.
    #[error("{unfinished} children of the run have not completed, so it can't either")]
    ChildrenUnfinished {
        /// How many.
        unfinished: u32,
    },
    /// The run is about to fail.
    #[error("the run is about to fail, and nothing can be planned in it any more; start another run")]
    Ending,
    /// No such task was posted.
    #[error("the run has no task '{0}'; use the id of one that was posted to it")]
    UnknownTask(String),
    /// No such plan was posted.
    #[error("the run has no plan '{0}'; use the id of one that was posted to it")]
    UnknownPlan(String),
    /// A task or a plan can't do this as it stands.
    #[error("{0}")]
    IllegalTransition(String),
    /// Somebody was faster.
    #[error(
        "it has version {found} by now, and not {expected}; read it again, and ask for what still makes sense"
    )]
    VersionConflict {
        /// What the caller has seen.
        expected: u64,
        /// What it is.
        found: u64,
    },
    /// Nobody has such a lease, or ever had.
    #[error("the run has no such coordinator")]
    NoCoordinator,
    /// Somebody coordinates the run already.
    #[error("'{agent}' coordinates the run already ({coordinator}); they can hand it over, or be done")]
    Coordinated {
        /// Which lease.
        coordinator: String,
        /// Who has it.
        agent: String,
    },
    /// Nobody outside drives the run.
    #[error(
        "the run's nodes do their own work, so its state is not anybody's to change; start an intent for that"
    )]
    NotDriven,
    /// Nothing is asked.
    #[error("the intent is not suspended (status={})", .0.intent_name())]
    NotSuspended(Status),
    /// Something else is asked.
    #[error("suspension_id mismatch: expected {expected}, got {found}")]
    OtherSuspension {
        /// What the open one is called.
        expected: String,
        /// What was named.
        found: String,
    },
    /// The answer is none of those that there are to choose from.
    #[error("Value {} is not a valid choice; choose one of {}", .value.text(), chosen(.choices))]
    InvalidChoice {
        /// The answer.
        value: Json,
        /// What there is to choose from.
        choices: Vec<JsonMap>,
    },
    /// Somebody has this part of the intent already.
    #[error("'{agent}' has the lease of this scope ({id})")]
    Leased {
        /// Which lease.
        id: String,
        /// Who has it.
        agent: String,
        /// Until when.
        expires_at: Millis,
    },
    /// Nobody has such a lease, or somebody else does.
    #[error("there is no lease '{0}' of this agent that lasts")]
    NoLease(String),
    /// The agent does not work on it.
    #[error("'{0}' is not assigned to the intent")]
    NotAssigned(String),
    /// Nobody is named so among those who may see the intent.
    #[error("there is no such entry: '{0}'")]
    NoAccessEntry(String),
    /// Whoever asks may not.
    #[error("'{who}' may not {} the intent; somebody who may administer it has to grant that", .permission.name())]
    NotPermitted {
        /// Who.
        who: String,
        /// What they would have to be allowed.
        permission: Permission,
    },
    /// The policy of the intent is against it.
    #[error("{message}")]
    Governed {
        /// Which rule.
        rule: &'static str,
        /// What it says, and what to do.
        message: String,
    },
    /// Something the caller gave is wrong.
    #[error("{message}")]
    Invalid {
        /// Where in the request.
        field: String,
        /// What to change.
        message: String,
    },
    /// The definition uses a node kind behind a capability that is not offered.
    #[error("node '{node}' is of kind {type_id}, which needs the capability '{capability}'{}", instead(.capability))]
    CapabilityRequired {
        /// The node.
        node: String,
        /// Its kind.
        type_id: String,
        /// What is missing.
        capability: &'static str,
    },
}

impl Rejection {
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), message: message.into() }
    }
}

fn chosen(choices: &[JsonMap]) -> String {
    let values = choices.iter().filter_map(|choice| choice.get("value").map(Json::text));
    values.collect::<Vec<_>>().join(", ")
}

fn not_waiting(node: Option<&str>, waiting: &[String]) -> String {
    let others = match waiting {
        [] => "no turn of the run does".to_owned(),
        names => format!("those of {} do; name one of them", names.join(", ")),
    };
    match node {
        Some(node) => format!("the turn of node '{node}' does not wait for its provider; {others}"),
        None if waiting.is_empty() => "no turn of the run waits for its provider".to_owned(),
        None => format!("several turns wait for their providers: {others}"),
    }
}

/// What to use in place of a capability that is not offered.
fn instead(capability: &str) -> &'static str {
    if capability == crate::graph::CONVERSATIONS {
        "; ask with a clarification interrupt for each turn instead"
    } else {
        ""
    }
}

fn unclaimed(why: &Unclaimed) -> String {
    match why {
        Unclaimed::UpstreamSuspended { phase_name, suspended_intent_id, .. } => format!(
            "an input comes from '{phase_name}' ({suspended_intent_id}), which waits for people; whoever was refused gets it as soon as that has completed"
        ),
        Unclaimed::Unresolvable(inputs) => {
            format!(
                "nothing has produced {} so far; claim the node again once that is there",
                inputs.join(", ")
            )
        }
        Unclaimed::TooLarge => format!(
            "what goes into the node has more than {} bytes; have those before it give less, or wire less of it",
            crate::limits::NODE_INPUT_BYTES_MAX
        ),
        Unclaimed::Blocked(reason) => {
            format!("the run is blocked ({}): a run that it waits for has not completed", reason.name())
        }
        Unclaimed::Draft => "the run is a draft; activate it first".to_owned(),
        Unclaimed::Held => "somebody holds the run; nothing begins until they let it go on".to_owned(),
        Unclaimed::NotReached => "what comes before the node is not done".to_owned(),
    }
}

fn unfit(missing: &[String], type_errors: &[TypeMismatch]) -> String {
    let mut told = Vec::new();
    if !missing.is_empty() {
        told.push(format!("the outputs lack {}", missing.join(", ")));
    }
    for TypeMismatch { output, expected, found } in type_errors {
        told.push(format!("output '{output}' has to be {expected}, and is {found}"));
    }
    told.join("; ")
}

fn ended_as(lifecycle: Lifecycle) -> &'static str {
    match lifecycle {
        Lifecycle::Failed => "failed",
        Lifecycle::Cancelled => "been cancelled",
        _ => "completed",
    }
}

fn listed(errors: &[SchemaError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
