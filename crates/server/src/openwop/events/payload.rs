//! What an event says in OpenWOP's words: one payload per type, and the only place where the journal's are translated.
//!
//! A payload is closed: nothing stands in it but what is declared here, so that the OpenAPI document can say the same.
//! Users' values are written as they came.

mod conversations;
mod interrupts;
mod log;
mod parts;
mod runs;
mod turns;

use abide_core::event::{
    ArtifactCreated, ChannelWritten, Decided, NodeCancelled, NodeCompleted, NodeFailed, NodeRetried,
    NodeSkipped,
};
use abide_core::{Action, Event, InterruptId, InterruptKind, Json, JsonMap, Millis, NodeEvent, RunId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{shape, time};

pub(crate) use parts::UsageOf;
use parts::{ChunkMeta, ErrorOf, Level, Recorded, Transport};

/// Declares the payloads, and the enum that holds any of them.
macro_rules! payloads {
    ($($(#[$about:meta])* $name:literal $variant:ident {
        $($(#[$field_about:meta])* $field:ident: $type:ty,)*
    })*) => {
        $(
            $(#[$about])*
            #[derive(Serialize, JsonSchema)]
            #[serde(rename_all = "camelCase", deny_unknown_fields)]
            pub(crate) struct $variant { $($(#[$field_about])* pub(crate) $field: $type,)* }
        )*

        /// What an event says.
        #[derive(Serialize)]
        #[serde(untagged)]
        pub(crate) enum Payload {
            $(#[doc = $name] $variant($variant),)*
            /// runOrchestrator.decided: the decision is the supervisor's own object.
            Decided(JsonMap),
        }

        /// The name of each event type that is shown from a journal, and what makes the schema of its payload.
        pub(crate) const SCHEMAS: &[(&str, Schema)] = &[
            $(($name, |generator| generator.subschema_for::<$variant>()),)*
            ("runOrchestrator.decided", |generator| generator.subschema_for::<shape::Object>()),
        ];
    };
}

/// Makes a schema.
pub(crate) type Schema = fn(&mut schemars::SchemaGenerator) -> schemars::Schema;

payloads! {
    /// The run began.
    "run.started" RunStarted {
        /// The workflow's id.
        workflow_id: String,
        /// The hash of the definition that the run follows for life.
        definition: String,
        /// How it was asked for.
        transport: Transport,
        /// What the caller passed in.
        #[serde(skip_serializing_if = "JsonMap::is_empty")]
        #[schemars(with = "shape::Object", default)]
        inputs: JsonMap,
        /// The caller's labels.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[schemars(default)]
        tags: Vec<String>,
        /// The caller's own data.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<shape::Anything>")]
        metadata: Option<Json>,
        /// The caller's options.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<shape::Object>")]
        configurable: Option<Json>,
        /// Who started it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// What the caller says the run is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        scope_id: Option<String>,
        /// The run that started it, if it is a child.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<shape::RunName>")]
        parent_run_id: Option<RunId>,
        /// The node of that run.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_node_id: Option<String>,
    }
    /// Every node is done.
    "run.completed" RunCompleted {
        /// From the first event to this one.
        duration_ms: i64,
    }
    /// The run failed for good.
    "run.failed" RunFailed {
        /// Why.
        error: ErrorOf,
        /// The node whose failure it was.
        #[serde(skip_serializing_if = "Option::is_none")]
        failed_node_id: Option<String>,
    }
    /// Somebody cancelled the run, or its parent's end took it along.
    "run.cancelled" RunCancelled {
        /// Why, in the caller's words.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        cancelled_by: Option<String>,
        /// The parent whose end took it along.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<shape::RunName>")]
        parent_run_id: Option<RunId>,
    }
    /// No node starts until the run is resumed.
    "run.paused" RunPaused {
        /// Why, in the caller's words.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    }
    /// The hold is lifted.
    "run.resumed" RunResumed {
        /// Why, in the caller's words.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    }
    /// A limit was reached.
    "cap.breached" CapWasBreached {
        /// Which.
        kind: String,
        /// How much was allowed.
        limit: u64,
        /// How much it was or would have been.
        observed: u64,
        /// The node at which it happened.
        #[serde(skip_serializing_if = "Option::is_none")]
        node_id: Option<String>,
    }
    /// A variable has a new value.
    "variable.changed" VariableHasChanged {
        /// Which.
        name: String,
        /// Its value.
        #[schemars(with = "shape::Anything")]
        next: Json,
    }
    /// A loop went back as often as it may.
    "workflow.loopback-limit" LoopbackLimitReached {
        /// The loop's entry.
        node_id: String,
        /// How often it went back.
        iterations: u32,
    }
    /// A node's execution began, or another attempt at it.
    "node.started" NodeHasStarted {
        /// Which node.
        node_id: String,
        /// Its kind.
        type_id: String,
        /// How many attempts failed before.
        attempt: u32,
        /// Which execution this is, from 1.
        execution: u32,
        /// What goes in, if the node has ports and somebody else executes it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<shape::Object>")]
        inputs: Option<JsonMap>,
        /// The node waits for this time and does nothing else.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<shape::Moment>")]
        until: Option<String>,
    }
    /// A node's execution ended well.
    "node.completed" NodeHasCompleted {
        /// Which node.
        node_id: String,
        /// What it produced.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<shape::Anything>")]
        outputs: Option<Json>,
    }
    /// A node's execution failed for good.
    "node.failed" NodeHasFailed {
        /// Which node.
        node_id: String,
        /// Why.
        error: ErrorOf,
    }
    /// A node ended with its run.
    "node.cancelled" NodeWasCancelled {
        /// Which node.
        node_id: String,
    }
    /// Nothing led to a node.
    "node.skipped" NodeWasSkipped {
        /// Which node.
        node_id: String,
        /// `disabled`, or `trigger-rule`.
        reason: String,
    }
    /// An attempt failed, and another one follows.
    "node.retried" NodeIsRetried {
        /// Which node.
        node_id: String,
        /// How many attempts have failed now.
        attempt: u32,
        /// Why the last one failed.
        error: ErrorOf,
        /// When the next one is due.
        #[schemars(with = "shape::Moment")]
        until: String,
    }
    /// A node wrote to a channel.
    "channel.written" ChannelWasWritten {
        /// Which node.
        node_id: String,
        /// Which channel.
        channel: String,
        /// What was written, not what the channel holds then.
        #[schemars(with = "shape::Anything")]
        value: Json,
        /// How it is folded in.
        reducer: String,
        /// How long an entry is kept.
        #[serde(skip_serializing_if = "Option::is_none")]
        ttl_ms: Option<i64>,
    }
    /// What a node produced has a name.
    "artifact.created" ArtifactWasCreated {
        /// The node that produced it.
        node_id: String,
        /// Its name within the run.
        artifact_id: String,
        /// What the definition says that it is.
        artifact_type: String,
    }
    /// A node asks for something from outside.
    "interrupt.requested" InterruptWasRequested {
        /// The run.
        #[schemars(with = "shape::RunName")]
        run_id: RunId,
        /// The node that asks.
        node_id: String,
        /// Which interrupt.
        #[schemars(with = "shape::InterruptName")]
        interrupt_id: InterruptId,
        /// What it is about.
        #[schemars(with = "shape::InterruptKinds")]
        kind: InterruptKind,
        /// What it is known by within the run.
        key: String,
        /// What is shown to whoever answers.
        #[schemars(with = "shape::Anything")]
        data: Json,
        /// How long an answer is waited for.
        #[serde(skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<i64>,
        /// What an answer has to look like: a JSON Schema.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<shape::Anything>")]
        resume_schema: Option<Json>,
        /// When it was asked.
        #[schemars(with = "shape::Moment")]
        requested_at: String,
    }
    /// The questions of a clarification.
    "clarification.requested" ClarificationWasRequested {
        /// The node that asks.
        node_id: String,
        /// Which interrupt.
        #[schemars(with = "shape::InterruptName")]
        interrupt_id: InterruptId,
        /// What is asked.
        #[schemars(with = "shape::Anything")]
        questions: Json,
    }
    /// A node stopped until an interrupt is resolved.
    "node.suspended" NodeWasSuspended {
        /// Which node.
        node_id: String,
        /// Which interrupt.
        #[schemars(with = "shape::InterruptName")]
        interrupt_id: InterruptId,
        /// What it is about.
        #[schemars(with = "shape::InterruptKinds")]
        kind: InterruptKind,
        /// What it is known by within the run.
        key: String,
        /// Why, for kinds that OpenWOP shows by another one's status.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'static str>,
        /// The agent that is not sure enough, if that is why.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_id: Option<String>,
        /// How sure it would have to be.
        #[serde(skip_serializing_if = "Option::is_none")]
        threshold: Option<f64>,
        /// How sure it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        observed: Option<f64>,
    }
    /// Somebody decided, or nobody did in time.
    "approval.received" ApprovalWasReceived {
        /// The node that asked.
        node_id: String,
        /// Which interrupt.
        #[schemars(with = "shape::InterruptName")]
        interrupt_id: InterruptId,
        /// What was decided.
        #[schemars(with = "String")]
        action: Action,
        /// Who decided.
        #[schemars(length(min = 1))]
        decided_by: String,
        /// When.
        #[schemars(with = "shape::Moment")]
        decided_at: String,
        /// What else they said.
        #[serde(skip_serializing_if = "Option::is_none")]
        feedback: Option<String>,
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// What is to be made better.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<shape::Anything>")]
        refine_feedback: Option<Json>,
        /// What was accepted in place of what was shown.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<shape::Anything>")]
        edited_artifact_data: Option<Json>,
    }
    /// Somebody answered the questions of a clarification.
    "clarification.resolved" ClarificationWasResolved {
        /// The node that asked.
        node_id: String,
        /// Which interrupt.
        #[schemars(with = "shape::InterruptName")]
        interrupt_id: InterruptId,
        /// The answers, by question.
        #[schemars(with = "shape::Object")]
        answers: JsonMap,
        /// Who answered.
        answered_by: String,
    }
    /// An interrupt is closed for good.
    "interrupt.resolved" InterruptWasResolved {
        /// The run.
        #[schemars(with = "shape::RunName")]
        run_id: RunId,
        /// The node that asked.
        node_id: String,
        /// Which interrupt.
        #[schemars(with = "shape::InterruptName")]
        interrupt_id: InterruptId,
        /// What it was about.
        #[schemars(with = "shape::InterruptKinds")]
        kind: InterruptKind,
        /// What the node gets; null if nobody answered.
        #[schemars(with = "shape::Anything")]
        resume_value: Option<Json>,
        /// `resolved`, `rejected`, `timeout` or `cancelled`.
        outcome: &'static str,
        /// Why it ended so.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// When.
        #[schemars(with = "shape::Moment")]
        resolved_at: String,
        /// Who closed it; `system:...` if no person did.
        resolved_by: String,
    }
    /// A node goes on: what it stopped for is resolved, or has come.
    "node.resumed" NodeHasResumed {
        /// Which node.
        node_id: String,
        /// What was resolved last, if it waited for an answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<shape::InterruptName>")]
        interrupt_id: Option<InterruptId>,
    }
    /// A conversation has begun.
    "conversation.opened" ConversationWasOpened {
        /// The node that opened it.
        node_id: String,
        /// What it is known by: no other conversation of the tenant is.
        conversation_id: String,
        /// The interrupt that opened it.
        #[schemars(with = "shape::InterruptName")]
        interrupt_id: InterruptId,
        /// What people know it by.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// What was said first.
        #[serde(skip_serializing_if = "Option::is_none")]
        initial_prompt: Option<String>,
    }
    /// Somebody took a turn in a conversation.
    "conversation.exchanged" ConversationWasExchanged {
        /// The node that asked.
        node_id: String,
        /// Which conversation.
        conversation_id: String,
        /// Which turn of it, from 0.
        turn_index: u32,
        /// The interrupt that asked.
        #[schemars(with = "shape::InterruptName")]
        interrupt_id: InterruptId,
        /// What was asked.
        prompt: String,
        /// What was answered.
        #[schemars(with = "shape::Anything")]
        outcome: Json,
        /// Who answered.
        exchanged_by: String,
    }
    /// A conversation has ended.
    "conversation.closed" ConversationWasClosed {
        /// The node that closed it.
        node_id: String,
        /// Which conversation.
        conversation_id: String,
        /// How many turns were taken in it.
        turn_index: u32,
        /// The interrupt that closed it.
        #[schemars(with = "shape::InterruptName")]
        interrupt_id: InterruptId,
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    /// An agent has decided.
    "agent.decided" AgentHasDecided {
        /// The node whose agent it is.
        node_id: String,
        /// The agent.
        #[schemars(length(min = 3, max = 256))]
        agent_id: String,
        /// What it decided.
        #[schemars(with = "shape::Anything")]
        decision: Json,
        /// How sure it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0, max = 1))]
        confidence: Option<f64>,
    }
    /// A decision is too unsure to be carried out without asking.
    "core.workflowChain.confidence-escalated" ConfidenceWasEscalated {
        /// The node that was to carry it out.
        node_id: String,
        /// The run.
        #[schemars(with = "shape::RunName")]
        parent_run_id: RunId,
        /// How sure the supervisor is.
        confidence: f64,
        /// How sure it would have to be.
        floor: f64,
        /// Always `clarify`: somebody is asked.
        escalation_kind: &'static str,
        /// The workflow that would have been started.
        #[serde(skip_serializing_if = "Option::is_none")]
        worker_id: Option<String>,
        /// What was decided.
        #[schemars(with = "shape::Object")]
        original_decision: JsonMap,
    }
    /// A stretch of what a model says, as it comes.
    "ai.message.chunk" MessageChunkCame {
        /// The node whose model it is.
        node_id: String,
        /// The run.
        #[schemars(with = "shape::RunName")]
        run_id: RunId,
        /// Its words; none if they are never shown.
        chunk: String,
        /// Nothing more comes of this call.
        is_last: bool,
        /// What it is, and where it belongs.
        meta: ChunkMeta,
    }
    /// What a call of a model used.
    "provider.usage" ProviderWasUsed {
        /// The node whose model it is.
        node_id: String,
        /// The provider, by the name that the operator gave it.
        provider: String,
        /// The model, as the provider calls it.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// Which step of the turn, from 0.
        step: u32,
        /// Tokens that went in.
        input_tokens: u64,
        /// Tokens that came out.
        output_tokens: u64,
        /// Of what went in, what came from a cache.
        cache_read_tokens: u64,
        /// Of what came out, what was reasoning.
        reasoning_tokens: u64,
        /// What it cost in millionths of a dollar, if the price is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_micros: Option<u64>,
    }
    /// A replay came out otherwise than what it replays.
    "replay.diverged" ReplayHasDiverged {
        /// The run that is replayed.
        #[schemars(with = "shape::RunName")]
        source_run_id: RunId,
        /// Where in its events.
        at_sequence: u64,
        /// The event that was recorded there, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        original_event_id: Option<String>,
        /// How they differ: `output`, `missing`, `extra` or `type-mismatch`.
        divergence_kind: &'static str,
    }
    /// Something happened that OpenWOP has no word for.
    "log.appended" LogAppended {
        /// How much it matters.
        level: Level,
        /// What happened.
        message: String,
        /// The event as the journal has it.
        data: Recorded,
    }
}

/// What an event says; `None` if OpenWOP has no name for it.
pub(crate) fn of(event: Event, place: Place) -> Option<Payload> {
    match event {
        Event::Run(event) => runs::of(event),
        Event::Node { node, event } => of_node(node.to_string(), event, place),
    }
}

/// Where an event stands, which some payloads say again.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Whose event it is.
    pub(crate) run: RunId,
    /// When it happened.
    pub(crate) at: Millis,
}

fn of_node(node_id: String, event: NodeEvent, place: Place) -> Option<Payload> {
    Some(match event {
        NodeEvent::Started(started) => Payload::NodeHasStarted(runs::node_started(node_id, started)),
        NodeEvent::Completed(NodeCompleted { outputs, .. }) => {
            Payload::NodeHasCompleted(NodeHasCompleted { node_id, outputs })
        }
        NodeEvent::Failed(NodeFailed { error, .. }) => {
            Payload::NodeHasFailed(NodeHasFailed { node_id, error: error.into() })
        }
        NodeEvent::Cancelled(NodeCancelled {}) => Payload::NodeWasCancelled(NodeWasCancelled { node_id }),
        NodeEvent::Skipped(NodeSkipped { reason }) => {
            Payload::NodeWasSkipped(NodeWasSkipped { node_id, reason })
        }
        NodeEvent::Retried(NodeRetried { attempt, error, until, .. }) => {
            let (error, until) = (error.into(), time::rfc3339(until));
            Payload::NodeIsRetried(NodeIsRetried { node_id, attempt, error, until })
        }
        NodeEvent::ChannelWritten(ChannelWritten { channel, value, reducer, ttl_ms, .. }) => {
            Payload::ChannelWasWritten(ChannelWasWritten { node_id, channel, value, reducer, ttl_ms })
        }
        NodeEvent::Decided(Decided { decision }) => Payload::Decided(decision),
        NodeEvent::ArtifactCreated(ArtifactCreated { artifact_id, artifact_type, .. }) => {
            let artifact_type = artifact_type.to_string();
            Payload::ArtifactWasCreated(ArtifactWasCreated { node_id, artifact_id, artifact_type })
        }
        NodeEvent::Due(_) | NodeEvent::Spawned(_) => return None,
        NodeEvent::MessageChunk(said) => Payload::MessageChunkCame(turns::chunk(said, node_id, place)),
        NodeEvent::ProviderUsage(used) => Payload::ProviderWasUsed(turns::usage(*used, node_id)),
        asked => return interrupts::of(asked, node_id, place),
    })
}

/// An event that OpenWOP has no name for, as an entry of its log.
pub(crate) fn log(event: &Event, payload: Json) -> Payload {
    let (level, message) = log::told(event);
    let data = Recorded { journal_type: event.event_type().name.to_owned(), payload };
    Payload::LogAppended(LogAppended { level, message, data })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use abide_core::event_types;

    use super::*;

    #[test]
    fn every_type_that_is_openwops_has_a_schema_and_no_other() {
        let shown: BTreeSet<&str> = SCHEMAS.iter().map(|(name, _)| *name).collect();
        let canonical = event_types().iter().filter(|kind| kind.canonical).map(|kind| kind.name);
        assert_eq!(shown, canonical.chain(["log.appended"]).collect::<BTreeSet<_>>());
        assert_eq!(shown.len(), SCHEMAS.len());
    }
}
