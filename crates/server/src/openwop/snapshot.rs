//! A run as OpenWOP shows it.
//!
//! Users' values are written as they came: they are never read into numbers or maps on the way. Those that are never
//! shown are masked.

use std::borrow::Cow;
use std::collections::BTreeMap;

use abide_core::{
    EventId, Failure, Forked, Json, JsonMap, Node, NodePhase, Reason, Run, RunId, Status, Why, hex, sha256,
};
use abide_engine::Hands;
use abide_store::{ChildRow, Listed};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::discovery::EVENT_LOG_VERSION;
use super::interrupts::{self, Reader, Shown};
use super::{holds, mask};
use crate::graph_api::{self, BlockedView};
use crate::turns_api::ProviderWait;
use crate::workers_api::of_run::{Handed, WorkerOfNode, holders};
use crate::{shape, time};

/// OpenWOP's RunSnapshot.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunSnapshot")]
pub(crate) struct Snapshot<'a> {
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    workflow_id: &'a str,
    workflow_version: &'a str,
    #[schemars(with = "shape::Sha256")]
    definition_hash: String,
    #[schemars(with = "shape::RunStatus")]
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_node_id: Option<&'a str>,
    /// The open interrupt that the status is about.
    #[schemars(with = "Shown<'a>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<&'a Shown<'a>>,
    /// All that are open, that one first.
    #[schemars(with = "Vec<Shown<'a>>")]
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    interrupts: &'a [Shown<'a>],
    #[schemars(with = "shape::Moment")]
    started_at: String,
    #[schemars(with = "shape::Moment")]
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<String>,
    #[schemars(with = "shape::Moment")]
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_at: Option<String>,
    /// Why nothing of it starts, if other runs are why.
    #[schemars(with = "BlockedView")]
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<BlockedView>,
    /// Nothing of it starts until somebody activates it.
    #[schemars(with = "shape::True")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    draft: bool,
    /// Why it was abandoned, if nobody wished it.
    #[serde(skip_serializing_if = "Option::is_none")]
    abandonment_reason: Option<&'a str>,
    /// What holds it, if anything does.
    #[schemars(with = "holds::Shown<'a>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<holds::Shown<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope_id: Option<&'a str>,
    #[schemars(with = "shape::FailureShape")]
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Failure>,
    #[schemars(with = "shape::Object")]
    inputs: Cow<'a, JsonMap>,
    #[schemars(with = "shape::Object")]
    variables: Cow<'a, JsonMap>,
    #[schemars(with = "shape::Object")]
    #[serde(skip_serializing_if = "is_empty")]
    channels: Cow<'a, JsonMap>,
    #[schemars(with = "shape::Object")]
    #[serde(skip_serializing_if = "Option::is_none")]
    configurable: Option<&'a Json>,
    #[schemars(with = "BTreeMap<String, NodeState<'a>>")]
    node_states: NodeStates<'a>,
    tags: &'a [String],
    #[schemars(with = "shape::Object")]
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Json>,
    #[schemars(with = "shape::RunName")]
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_node_id: Option<&'a str>,
    /// The agent that a node of it is pinned to.
    #[schemars(with = "Option<shape::Object>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a Json>,
    /// The agent that its supervisor is pinned to.
    #[schemars(with = "Option<shape::Object>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    run_orchestrator: Option<&'a Json>,
    /// The run that it was forked off.
    #[schemars(with = "ForkedFrom")]
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<ForkedFrom>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    child_runs: Vec<ChildRun<'a>>,
    engine_version: &'static str,
    event_log_schema_version: u32,
    sequence: u64,
}

/// A run that a node of this one started.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ChildRun<'a> {
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    #[schemars(with = "shape::RunStatus")]
    status: &'static str,
    node_id: &'a str,
}

/// A run's nodes under their ids, in the order of the definition.
struct NodeStates<'a>(&'a Run, Handed<'a>);

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NodeState<'a> {
    #[schemars(with = "shape::NodeStatus")]
    status: NodePhase,
    type_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<u32>,
    /// How many attempts of this execution have failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[schemars(with = "shape::RunName")]
    #[serde(skip_serializing_if = "Option::is_none")]
    child_run_id: Option<RunId>,
    #[schemars(with = "shape::Moment")]
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[schemars(with = "shape::Moment")]
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    #[schemars(with = "shape::Moment")]
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[schemars(with = "shape::Anything")]
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<Json>,
    #[schemars(with = "shape::FailureShape")]
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Failure>,
    /// Who does it, if that is a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<WorkerOfNode>,
    /// What interrupted it, while it waits to be gone on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    interruption: Option<Interruption>,
    /// What its turn waits for, while it waits for its provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_wait: Option<ProviderWait>,
}

/// What interrupted a node.
#[derive(Serialize, JsonSchema)]
struct Interruption {
    /// `tool_failure`, `timeout`, `context_reset` or `process_crash`.
    class: String,
    /// Whether its effect may have happened: `none` or `unknown`.
    effect: &'static str,
    /// The worker's steps that were under way.
    steps: Vec<String>,
    /// When.
    #[schemars(with = "shape::Moment")]
    at: String,
}

/// What is left of a run whose payloads were erased.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ErasedRun")]
pub(crate) struct Outline<'a> {
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    workflow_id: &'a str,
    #[schemars(with = "shape::RunStatus")]
    status: &'static str,
    #[schemars(with = "shape::Moment")]
    started_at: String,
    #[schemars(with = "shape::Moment")]
    completed_at: String,
    /// Always true.
    #[schemars(with = "shape::True")]
    erased: bool,
    sequence: u64,
}

/// Why a run is not finished.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Why")]
pub(crate) struct Waits<'a> {
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    #[schemars(with = "shape::RunStatus")]
    status: &'static str,
    finished: bool,
    summary: &'a str,
    reasons: Vec<WaitsFor<'a>>,
}

/// One thing that a run waits for.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Reason")]
struct WaitsFor<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<&'a str>,
    kind: &'static str,
    #[schemars(with = "shape::Moment")]
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[schemars(with = "shape::Moment")]
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    what: &'a str,
    next: &'a str,
    #[schemars(with = "shape::RunName")]
    #[serde(skip_serializing_if = "Option::is_none")]
    child_run_id: Option<RunId>,
}

/// What a run's journal does not tell of it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Beside<'a> {
    /// Its children.
    pub(crate) children: &'a [ChildRow],
    /// How it is shown because of a child that it waits for.
    pub(crate) mirrored: Option<Status>,
    /// Who reads it. What is made for many has no reader, and no tokens then.
    pub(crate) reader: Option<&'a Reader<'a>>,
    /// Which workers have its tasks.
    pub(crate) hands: Option<&'a Hands>,
}

impl Beside<'_> {
    /// How the run is shown.
    fn status(&self, run: &Run) -> Status {
        let status = run.status();
        self.mirrored.filter(|_| status == Status::Running || status.is_waiting()).unwrap_or(status)
    }
}

/// Where a run was forked off.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForkedFrom {
    /// The other run.
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// Its event before which the two are the same.
    from_seq: u64,
    /// `replay` or `branch`.
    mode: &'static str,
}

impl ForkedFrom {
    pub(crate) fn of(forked: &Forked) -> Self {
        Self { run_id: forked.run, from_seq: forked.from_seq, mode: forked.mode.name() }
    }
}

/// The JSON text of a run's snapshot.
pub(crate) fn of(run: &Run, beside: Beside<'_>) -> serde_json::Result<Vec<u8>> {
    let interrupts = interrupts::shown(run, beside.reader.filter(|_| !run.is_replay()));
    serde_json::to_vec(&Snapshot {
        run_id: run.key().id,
        workflow_id: &run.graph().workflow_id,
        workflow_version: &run.graph().version,
        definition_hash: run.graph().hash_hex(),
        status: beside.status(run).openwop_name(),
        current_node_id: interrupts.first().map(Shown::node).or_else(|| current_node(run)),
        interrupt: interrupts.first(),
        interrupts: &interrupts,
        started_at: time::rfc3339(run.started_at()),
        completed_at: run.ended_at().map(time::rfc3339),
        paused_at: run.paused_at().filter(|_| run.status() == Status::Paused).map(time::rfc3339),
        blocked: graph_api::blocked(run),
        draft: run.is_draft(),
        abandonment_reason: run.abandonment_reason(),
        hold: holds::shown(run).filter(|_| run.status() == Status::Paused),
        scope_id: run.scope(),
        error: run.error(),
        inputs: mask::map(run.inputs(), |name| run.hides_variable(name)),
        variables: mask::map(run.variables(), |name| run.hides_variable(name)),
        channels: mask::map(run.channels(), |name| run.hides_channel(name)),
        configurable: run.configurable(),
        node_states: NodeStates(run, Handed::of(beside.hands, run)),
        tags: run.tags(),
        metadata: run.metadata(),
        parent_run_id: run.parent().map(|parent| parent.run),
        parent_node_id: run.parent().map(|parent| parent.node.as_str()),
        agent: run.graph().pinned_agent(false),
        run_orchestrator: run.graph().pinned_agent(true),
        forked_from: run.forked().map(ForkedFrom::of),
        child_runs: beside.children.iter().map(child_run).collect(),
        engine_version: env!("CARGO_PKG_VERSION"),
        event_log_schema_version: EVENT_LOG_VERSION,
        sequence: run.head().next - 1,
    })
}

/// The entity tag of a run's snapshot. The journal makes all of it but the server's version and how children stand.
/// Tokens are not part of it: they are made anew with every read, and a run with others is the same run.
pub(super) fn tag(run: &Run, beside: Beside<'_>) -> String {
    let stand = |child: &ChildRow| format!("{} {},", child.child, child_run(child).status);
    let stand: String = beside
        .children
        .iter()
        .map(stand)
        .chain(beside.mirrored.map(|shown| shown.name().to_owned()))
        .chain(beside.hands.into_iter().flat_map(|hands| holders(hands, run)))
        .collect();
    let family =
        if stand.is_empty() { String::new() } else { format!("-{}", &hex(&sha256(stand.as_bytes()))[..16]) };
    format!("\"{}-{}{family}\"", env!("CARGO_PKG_VERSION"), run.head().next - 1)
}

/// The entity tag of what is left of an erased run.
pub(super) fn outline_tag(run: &Listed) -> String {
    format!("\"{}-{}-erased\"", env!("CARGO_PKG_VERSION"), run.next - 1)
}

impl Serialize for NodeStates<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let interrupted = self.0.interrupted_steps();
        let states = self.0.nodes().iter().enumerate().map(|(ix, node)| {
            let (id, type_id, _) = self.0.graph().describe(ix as u32);
            let worker = self.1.worker(self.0, id);
            let interruption = interrupted.iter().find(|step| step.node == *id).map(|step| Interruption {
                class: step.class.clone(),
                effect: step.effect(),
                steps: step.steps.clone(),
                at: time::rfc3339(step.at),
            });
            let provider_wait =
                self.0.awaited_provider(ix as u32).map(|(provider, wait)| ProviderWait::of(provider, wait));
            (&**id, NodeState { worker, interruption, provider_wait, ..node_state(node, type_id) })
        });
        to.collect_map(states)
    }
}

fn node_state<'a>(node: &'a Node, type_id: &'a str) -> NodeState<'a> {
    NodeState {
        status: node.phase,
        type_id,
        execution: (node.execution > 0).then_some(node.execution),
        attempt: (node.attempt > 0).then_some(node.attempt),
        child_run_id: node.child,
        started_at: node.started_at.map(time::rfc3339),
        ended_at: node.ended_at.map(time::rfc3339),
        until: node.until.map(time::rfc3339),
        outputs: node.outputs.as_ref().map(|outputs| mask::object(outputs, &node.masked)),
        error: node.error.as_ref(),
        worker: None,
        interruption: None,
        provider_wait: None,
    }
}

fn child_run(child: &ChildRow) -> ChildRun<'_> {
    let status = child.status.unwrap_or(Status::Pending);
    ChildRun { run_id: child.child, status: status.openwop_name(), node_id: &child.node }
}

fn is_empty(map: &JsonMap) -> bool {
    map.is_empty()
}

/// The JSON text of what is left of an erased run.
pub(crate) fn outline(run: &Listed) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Outline {
        run_id: run.id,
        workflow_id: &run.summary.workflow_id,
        status: run.summary.status.openwop_name(),
        started_at: time::rfc3339(run.summary.started_at),
        completed_at: time::rfc3339(run.at),
        erased: true,
        sequence: run.next - 1,
    })
}

/// The JSON text of why a run is not finished.
pub(super) fn why(run: RunId, status: Status, why: &Why) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Waits {
        run_id: run,
        status: status.openwop_name(),
        finished: why.finished,
        summary: &why.summary,
        reasons: why.reasons.iter().map(waits_for).collect(),
    })
}

fn waits_for(reason: &Reason) -> WaitsFor<'_> {
    WaitsFor {
        node_id: reason.node.as_deref(),
        kind: reason.kind,
        since: reason.since.map(time::rfc3339),
        until: reason.until.map(time::rfc3339),
        what: &reason.what,
        next: &reason.next,
        child_run_id: reason.child,
    }
}

/// The first node that is under way.
fn current_node(run: &Run) -> Option<&str> {
    let under_way = |node: &Node| matches!(node.phase, NodePhase::Running | NodePhase::Waiting);
    let ix = run.nodes().iter().position(under_way)?;
    Some(run.graph().describe(ix as u32).0)
}

/// An event's id as the wire has it.
pub(super) fn event_id(run: RunId, sequence: u64) -> String {
    EventId { run, sequence }.to_string()
}
