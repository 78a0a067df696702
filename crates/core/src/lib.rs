//! The pure core of Abide: what a run is, and what may happen to it.
//!
//! Nothing in this crate reads a clock, draws a random number, opens a file or awaits anything. The shell
//! hands in the time and the randomness, [`Run::decide`] answers with events and effects or with a typed
//! rejection, and [`Run::apply`] folds one event. The same `apply` runs live, in recovery and in `abide
//! verify`, so a journal has one meaning.
//!
//! | noun | file | what it is |
//! |---|---|---|
//! | [`Run`] | `run.rs` | the folded state of one run, and `apply` |
//! | [`Lifecycle`], [`Hold`] | `lifecycle.rs` | where a run stands, as one table |
//! | [`NodePhase`] | `node.rs` | where a node stands, as one table |
//! | [`Command`] | `command.rs` and `command/` | what may be asked of a run, one file each |
//! | [`Event`] | `event.rs` | what has happened, and how it is encoded |
//! | [`Record`], [`Head`] | `journal.rs` | an event with its envelope, chained to the one before |
//! | [`Effect`] | `effect.rs` | what the shell must do once the events are durable |
//! | [`Health`] | `delivery.rs` | how a webhook's receiver does, and when a delivery is tried again |
//! | [`Breaker`] | `breaker.rs` and `breaker/` | whether a downstream that fails is called, and when it is tried again |
//! | [`Trace`] | `trace.rs` | where something stands in a trace |
//! | [`Annotation`] | `annotation.rs`, `secret_shape.rs` | what people say about a run, without what looks like a secret |
//! | [`HttpRequest`], [`TaskFailure`] | `http.rs` | a request to another system, and how an attempt may fail |
//! | [`Graph`] | `graph.rs`, `definition.rs` | a workflow definition, checked and indexed |
//! | [`Expression`] | `expression.rs` and `expression/` | CEL over the values of a run, at a bounded cost |
//! | [`Template`], [`JsonTemplate`] | `template.rs` | text and JSON with expressions and secrets in it |
//! | [`Ladder`] | `ladder.rs` and `ladder/` | how a question goes on that nobody answers |
//! | [`Work`] | `work.rs` and `work/` | what workers do with the tasks they have |
//! | [`Task`](planning::Task), [`Plan`](planning::Plan) | `planning.rs` and `planning/` | what is posted to a run by hand, beside its nodes |
//! | [`Rate`], [`Bucket`] | `rate.rs` | how often something may happen |

mod advance;
mod annotation;
mod asked;
mod asking_back;
mod bonds;
pub mod breaker;
mod channel;
mod children;
mod climb;
mod command;
mod condition;
mod conversation;
mod coordinator;
mod definition;
mod delivery;
mod diff;
mod doubt;
mod effect;
mod error_code;
pub mod event;
mod excerpt;
mod expression;
mod fields;
mod fold;
pub mod fork;
mod gate;
mod graph;
mod group;
mod hand;
mod http;
mod id;
mod intent;
mod interrupt;
mod invocation;
mod journal;
mod json;
mod ladder;
mod lifecycle;
pub mod limits;
pub mod mask;
mod moment;
mod node;
mod object;
mod openintent;
mod perform;
mod phase;
pub mod planning;
mod ports;
mod rate;
mod refine;
mod rejection;
mod rest;
mod resume;
mod retention;
mod retry;
mod route;
mod rule;
mod run;
mod schema;
mod scope;
mod scrub;
mod secret_shape;
mod signature;
mod snapshot;
mod standstill;
mod summary;
mod surroundings;
mod suspend;
mod template;
mod tidings;
mod trace;
mod turn;
mod vote;
mod why;
mod work;
mod yaml;

pub use annotation::{Annotation, Signal, SignalKind, Target};
pub use bonds::{DEADLINE_EXCEEDED, Upstream};
pub use breaker::{Breaker, BreakerSettings, BreakerState, KeptBreaker};
pub use channel::{Channel, Reducer, WriteRefused};
pub use children::ChildStands;
pub use command::{
    BondCommand, CallRef, Command, Drain, NewChild, Reply, Report, Resolve, Start, Step, TurnCommand,
};
pub use conversation::{Conversation, conversation_name, is_minted_conversation};
pub use coordinator::{Coordinator, CoordinatorCommand, CoordinatorStatus, Registration, SuspensionPolicy};
pub use definition::Problem;
pub use delivery::{Gate, Health, retry_after};
pub use diff::{Diff, Difference, Spot, diff};
pub use doubt::{Confidence, Judgement};
pub use effect::{
    Appointment, Cascade, ClosedInterrupt, Effect, Headway, Hook, MemberRow, Notice, Notify, Offer,
    OpenInterrupt, Order, ProviderWait, Spawn, TaskId, TimerId,
};
pub use error_code::{ErrorCode, error_codes};
pub use event::{
    BlockedReason, DependsOn, Governance, GovernanceSet, GroupSpec, MemberAdded, MemberReported, Role,
};
pub use event::{
    Cancellation, CapBreached, Caps, ChildReported, ChunkKind, CoordinatorChange, Event, EventType, Failure,
    HoldMode, HookKind, IntentChanged, IntentEvent, IntentPatched, InterruptRequested, InterruptResolved,
    LeaseTaken, Loss, Mask, MessageChunk, ModelCalled, NodeEvent, NodeStarted, Parent, Patch, PatchOp,
    PlanChanged, ProviderRetry, ProviderUsage, Resolution, ResumeDecided, RunEvent, Started, TaskChanged,
    TurnBegan, TurnEnd, TurnSealed, event_types,
};
pub use event::{DivergenceKind, ForkMode, Forked, ReplayDiverged};
pub use expression::{Expression, Fault, Fuel, Scope};
pub use graph::{Graph, Kind, NodeIx, Offers};
pub use group::{Aggregate, GROUP_WORKFLOW, Group, GroupCommand};
pub use hand::{Claim, Hand, HandAsk, HandOp, SELF_NODE, TypeMismatch, Unclaimed};
pub use http::{
    HttpBody, HttpRequest, Reached, SECRET_IN_HOST, TaskFailure, ends_before_path, header_problem,
};
pub use id::{EventId, Key, RunId, TenantId};
pub use intent::{
    Access, AccessEntry, Actor, Assigned, CompletionMode, Driver, INTENT_WORKFLOW, Intent, IntentCommand,
    IntentSent, Lease, LeaseAct, Permission, Policy, Request, RequestKind, RequestStatus, STATE, SUSPENSION,
    Suspended, SuspendedAs, TAKEN_BACK, WriteScope, intent_graph,
};
pub use interrupt::{
    Action, Answerer, ApprovalRules, Ask, Checked, Decision, Exchange, InterruptId, InterruptKind, Named,
    NodeContext, Occurrence, Open, Progress, Quorum, Refused, Respondent, ResponseType, Sought, Standing,
    Stop, Vote, Waiting, ask_id, ask_number, check_answer, correlates, exchanges_variable, says_something,
    scheduled_time,
};
pub use invocation::invocation_id;
pub use journal::{Hash, Head, Payload, Record, Salt, hex, sha256};
pub use json::{Json, JsonMap};
pub use ladder::{
    FallbackPolicy, HumanRetryPolicy, Ladder, LadderCall, LadderTarget, Level, Levels, Next, Rung, Strategy,
    Unfit, cascade,
};
pub use lifecycle::{Hold, Lifecycle};
pub use moment::{naive, rfc3339};
pub use node::{Node, NodePhase};
pub use perform::{Performance, Product};
pub use phase::{INTENT_SUSPENDED, PhaseStatus, PhaseView, SuspendedPhase};
pub use rate::{Bucket, Rate};
pub use rejection::Rejection;
pub use resume::{
    Artifacts, Cooldowns, InterruptedStep, InterruptionClass, OnRefusal, PointStatus, RESUME_NODE,
    ReasonCode, ResumeFacts, ResumeNow, ResumePolicy, ResumeSettings, ResumeStatus, ResumeVerdict,
    evaluate_resume, is_run_question,
};
pub use retention::{Forever, Keep, Retention};
pub use retry::{RetryPolicy, RetryStrategy};
pub use rule::{Outcome, Rule, Tally, Verdict};
pub use run::{Corrupt, Run};
pub use schema::{Schema, SchemaError};
pub use scrub::{Scrub, SecretForms};
pub use secret_shape::mask_secrets;
pub use signature::signature_headers;
pub use summary::{Status, Summary};
pub use surroundings::Surroundings;
pub use template::{JsonTemplate, Piece, Template};
pub use tidings::{Suspension, Tidings, Watch};
pub use trace::Trace;
pub use turn::{
    ErrorKind, MOCK_PROVIDERS, Message, Mock, MockError, ModelAnswer, ModelCall, ModelError, Price,
    ProviderTerms, Reasoning, Schedule, ToolCall, ToolSpec, TurnStatus, TurnView, Usage, WaitView,
};
pub use why::{Reason, Why};
pub use work::{
    AskState, Assignment, Brief, ChildState, FailureClass, Provided, Recalled, Work, WorkAsk, WorkChild,
    WorkFailure, WorkJudgement, WorkOp, WorkOutcome,
};
pub use yaml::json_from_yaml;

/// Milliseconds since the Unix epoch, UTC. All time inside Abide is of this type.
pub type Millis = i64;
