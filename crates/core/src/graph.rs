//! A workflow definition, checked and indexed: what a run follows for life.
//!
//! All problems are reported at once, each with its place. Parts of OpenWOP that this build can't run yet
//! are refused, never ignored. Building lies in `graph/build.rs`.

mod build;
mod gate;
mod loops;
mod names;
mod reads;
mod refine;
mod turn;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::channel::Channel;
use crate::condition::Condition;
use crate::definition::{Definition, Problem};
use crate::expression::Expression;
use crate::fields::Findings;
use crate::retry::RetryPolicy;
use crate::rule::Rule;
use crate::schema::Schema;
use crate::{Hash, Json, Rejection, hex, limits, openintent};

pub(crate) use gate::{Form, Gate};
pub(crate) use loops::Loop;
pub(crate) use turn::{TOOL_RESULT, TurnWork};
pub(crate) use work::{
    Branch, ChannelWrite, HttpBody, Mapping, MockAgent, SubWorkflow, Supervisor, Transform, Work,
};

/// A node's place in its graph.
pub type NodeIx = u32;

/// An edge's place in its graph.
pub(crate) type EdgeIx = u32;

/// A loop's place in its graph.
pub(crate) type LoopIx = u32;

/// A checked definition. Cheap to share: runs hold it behind an `Arc`.
#[derive(Debug)]
pub struct Graph {
    /// The definition's id.
    pub workflow_id: Arc<str>,
    /// The definition's own version label.
    pub version: String,
    /// The definition's display name.
    pub name: String,
    /// The hash of the definition's bytes, which pins it.
    pub hash: Hash,
    /// The bytes themselves.
    pub source: Arc<[u8]>,
    pub(crate) nodes: Vec<GraphNode>,
    pub(crate) edges: Vec<GraphEdge>,
    pub(crate) loops: Vec<Loop>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) channels: BTreeMap<String, Channel>,
    pub(crate) configurable_schema: Option<Schema>,
    pub(crate) settings: crate::definition::Settings,
    active: bool,
    offers: Offers,
    index: HashMap<Arc<str>, NodeIx>,
    /// The kinds of its nodes that only workers can do.
    foreign_kinds: BTreeSet<Arc<str>>,
    /// What stands for a node where the run itself asks.
    pub(crate) own_node: Arc<str>,
    /// Its phases, each after those that it waits for.
    pub(crate) phases: Vec<NodeIx>,
    /// The same without implied edges, for runs that began before there were any.
    unrefined: Option<Arc<Graph>>,
}

/// A node with what is needed to run it.
#[derive(Debug)]
pub(crate) struct GraphNode {
    pub(crate) id: Arc<str>,
    pub(crate) type_id: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) work: Work,
    pub(crate) config: crate::JsonMap,
    pub(crate) durable: bool,
    /// Whether doing it twice is as good as once.
    pub(crate) idempotent: bool,
    /// The same, if the definition says so itself.
    pub(crate) told_idempotent: Option<bool>,
    /// Whether what it does can be undone, if the definition says so.
    pub(crate) reversible: Option<bool>,
    /// How long a worker may take from one hand-out to its end.
    pub(crate) timeout_ms: Option<crate::Millis>,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) loop_max: Option<u32>,
    pub(crate) disabled: bool,
    pub(crate) credentials: Option<String>,
    pub(crate) inputs: Vec<(String, Port)>,
    /// Outputs that are masked, or shown, whatever went in.
    pub(crate) output_sensitivity: BTreeMap<String, bool>,
    /// What its outputs are called when they are an artifact.
    pub(crate) artifact_type: Option<Arc<str>>,
    /// What people answer is never shown.
    pub(crate) sensitive: bool,
    /// How long the tokens of its interrupts are good for.
    pub(crate) token_ms: Option<crate::Millis>,
    /// How a question of it goes on that nobody answers.
    pub(crate) ladder: Option<crate::LadderCall>,
    /// The agent that asks.
    pub(crate) agent: Option<Arc<str>>,
    /// The agent that it is pinned to, as the definition describes it.
    pub(crate) pinned: Option<Json>,
    /// Who may answer.
    pub(crate) respondents: Vec<String>,
    /// Who may not decide, whose accepts it takes, and what an edited artifact looks like.
    pub(crate) approval: crate::ApprovalRules,
    /// The node that makes what it decides about.
    pub(crate) producer: Option<NodeIx>,
    /// Whether a gate bars whoever makes what it gives from deciding about it.
    pub(crate) names_maker: bool,
    /// Whether something follows when people ask for something better.
    pub(crate) refinable: bool,
    /// The edges that lead away.
    pub(crate) out: Vec<EdgeIx>,
    /// The rules of the edges that lead here, each with their number. Edges that close a loop don't count.
    pub(crate) groups: Vec<(Rule, u32)>,
    /// The loops around it, innermost first.
    pub(crate) loops: Vec<LoopIx>,
}

/// An edge with what is needed to follow it.
#[derive(Debug)]
pub(crate) struct GraphEdge {
    pub(crate) id: Arc<str>,
    pub(crate) source: NodeIx,
    pub(crate) target: NodeIx,
    /// Which of the target's groups it counts in.
    pub(crate) group: u8,
    pub(crate) rule: Rule,
    pub(crate) condition: Option<Condition>,
    /// The case of a branch that it belongs to.
    pub(crate) case: Option<String>,
    /// The loop that it starts over.
    pub(crate) back: Option<LoopIx>,
    /// The outermost loop that it leaves: it is decided when that is over.
    pub(crate) leaves: Option<LoopIx>,
    /// Nobody wrote it: it is followed when people ask for something better, and never else.
    pub(crate) implied: bool,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Noop,
    /// Gives its inputs back as outputs.
    Identity,
    /// Waits for a durable timer.
    Delay,
    /// Fails.
    Fail,
    /// Writes to a channel.
    ChannelWrite,
    /// Runs another workflow.
    SubWorkflow,
    /// Sends an HTTP request.
    Http,
    /// Computes outputs and variables.
    Transform,
    /// Chooses one way.
    Branch,
    /// Decides what a dispatch does next.
    Supervisor,
    /// Runs the workflows that a supervisor chose.
    Dispatch,
    /// Asks for a decision.
    ApprovalGate,
    /// Asks questions.
    ClarificationGate,
    /// Asks for anything.
    Interrupt,
    /// Asks for a decision, by the second name of the primitive.
    ApprovalRequest,
    /// Asks for the fields of a form.
    FormRequest,
    /// Asks one question.
    AskUser,
    /// Takes part in a conversation.
    ConversationGate,
    /// Decides what its config says, for the public fixtures.
    MockAgent,
    /// Has a model do something, with tools.
    Turn,
    /// Has a model say something.
    Chat,
    /// Has a model say something, by OpenWOP's name.
    Prompt,
    /// Is done by somebody outside who claims it.
    ByHand,
    /// Is done by somebody outside in a run of its own.
    Phase,
    /// Something no executor here provides.
    Unknown,
}

/// Where an input comes from, resolved against the graph.
#[derive(Debug)]
pub(crate) enum Port {
    Static(Json),
    Connection {
        node: NodeIx,
        key: String,
        optional: bool,
    },
    Variable {
        name: String,
        optional: bool,
    },
    Expression(Expression),
    /// An edge brings the output of its source.
    Carried {
        node: NodeIx,
        key: String,
    },
}

/// A declared variable.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) required: bool,
    pub(crate) default: Option<Json>,
    pub(crate) sensitive: bool,
}

/// Every kind that is provided here.
const KINDS: &[(&str, Kind)] = &[
    ("core.noop", Kind::Noop),
    ("core.identity", Kind::Identity),
    ("core.delay", Kind::Delay),
    ("core.fail", Kind::Fail),
    ("core.channelWrite", Kind::ChannelWrite),
    ("core.subWorkflow", Kind::SubWorkflow),
    ("core.http.request", Kind::Http),
    ("core.transform", Kind::Transform),
    ("core.branch", Kind::Branch),
    ("core.orchestrator.supervisor", Kind::Supervisor),
    ("core.dispatch", Kind::Dispatch),
    ("core.approvalGate", Kind::ApprovalGate),
    ("core.clarificationGate", Kind::ClarificationGate),
    ("core.interrupt", Kind::Interrupt),
    ("core.hitl.approval-request", Kind::ApprovalRequest),
    ("core.hitl.form-request", Kind::FormRequest),
    ("core.hitl.ask-user", Kind::AskUser),
    ("core.conversationGate", Kind::ConversationGate),
    ("core.conformance.mock-agent", Kind::MockAgent),
    ("core.llm.turn", Kind::Turn),
    ("core.llm.chat", Kind::Chat),
    ("core.ai.callPrompt", Kind::Prompt),
    ("core.byHand", Kind::ByHand),
    ("core.phase", Kind::Phase),
];

/// Kinds that OpenWOP puts behind a capability, and what it takes to offer them.
const GATED_KINDS: &[(&str, &str, Needs)] = &[
    ("core.conversationGate", CONVERSATIONS, Needs::Conversations),
    ("core.orchestrator.supervisor", "orchestrator.supported", Needs::Mocks),
    ("core.dispatch", "dispatch.supported", Needs::Mocks),
    ("core.conformance.mock-agent", "conformance.mockAgent", Needs::Mocks),
];

/// OpenWOP's name for holding conversations.
pub(crate) const CONVERSATIONS: &str = "conversationPrimitive";

/// What it takes to offer a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// The mocks of the public fixtures.
    Mocks,
    /// Conversations, which an operator may switch off.
    Conversations,
}

/// What a server offers beyond what every one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offers {
    /// The mocks of OpenWOP's public fixtures.
    pub mocks: bool,
    /// Conversations.
    pub conversations: bool,
}

impl Default for Offers {
    fn default() -> Self {
        Self { mocks: false, conversations: true }
    }
}

impl Offers {
    fn has(self, needs: Needs) -> bool {
        match needs {
            Needs::Mocks => self.mocks,
            Needs::Conversations => self.conversations,
        }
    }

    /// Whether a run may use the node kinds that OpenWOP puts behind this capability.
    pub fn capability(self, capability: &str) -> bool {
        let mut gated = GATED_KINDS.iter().filter(|(_, needed, _)| *needed == capability).peekable();
        gated.peek().is_some() && gated.all(|(_, _, needs)| self.has(*needs))
    }
}

/// Kinds that may close a loop although they declare none: what comes back waits for somebody's decision.
const GATES: &[&str] = &[
    "core.approvalGate",
    "core.clarificationGate",
    "core.interrupt",
    "core.hitl.approval-request",
    "core.hitl.form-request",
    "core.hitl.ask-user",
    "core.conversationGate",
    "core.chat.approvalGate",
    "core.openwop.governance.approvalGate",
    "core.dispatch",
];

impl Kind {
    fn of(type_id: &str) -> Self {
        KINDS.iter().find(|(name, _)| *name == type_id).map_or(Self::Unknown, |(_, kind)| *kind)
    }

    /// Whether the first release could execute it. Its runs keep to what they were started with.
    pub(crate) fn is_of_first_release(self) -> bool {
        matches!(self, Self::Noop | Self::Identity | Self::Delay | Self::Fail)
    }

    /// Whether it has a model do something.
    pub(crate) fn is_turn(self) -> bool {
        matches!(self, Self::Turn | Self::Chat | Self::Prompt)
    }

    /// How it asks, if it is a gate.
    pub(crate) fn form(self) -> Option<Form> {
        match self {
            Self::ApprovalGate => Some(Form::Approval),
            Self::ClarificationGate => Some(Form::Clarification),
            Self::Interrupt => Some(Form::Interrupt),
            Self::ApprovalRequest => Some(Form::ApprovalRequest),
            Self::FormRequest => Some(Form::Fields),
            Self::AskUser => Some(Form::AskUser),
            Self::ConversationGate => Some(Form::Conversation),
            _ => None,
        }
    }

    /// Whether unknown keys in its config are refused.
    fn has_closed_config(self) -> bool {
        !matches!(
            self,
            Self::Noop
                | Self::Identity
                | Self::Delay
                | Self::Fail
                | Self::Supervisor
                | Self::Prompt
                | Self::Unknown
        )
    }
}

impl GraphNode {
    /// The agent that decides in it: who asks, or whom it is pinned to.
    pub(crate) fn decider(&self) -> Option<String> {
        let pinned = || self.pinned.as_ref()?.parse::<crate::JsonMap>().ok()?.remove("agentId")?.parse().ok();
        self.agent.as_deref().map(ToOwned::to_owned).or_else(pinned)
    }

    /// Whether what people answer to it is never shown.
    pub(crate) fn hides_answers(&self) -> bool {
        self.sensitive || self.output_sensitivity.values().any(|hidden| *hidden)
    }
}

impl Graph {
    /// How long the tokens of a node's interrupts are good for, if it says.
    pub fn token_ms(&self, node: &str) -> Option<crate::Millis> {
        self.at(self.node(node)?).token_ms
    }

    /// Reads and checks a definition that is new here.
    pub fn admit(source: &[u8]) -> Result<Self, Vec<Problem>> {
        let mut findings = Findings::default();
        let graph = Self::build(source, &mut findings);
        let wrong = findings.all();
        graph.filter(|_| wrong.is_empty()).ok_or(wrong)
    }

    /// Reads a definition that was admitted before, perhaps by an older version with fewer rules.
    pub fn read(source: &[u8]) -> Result<Self, Vec<Problem>> {
        let mut findings = Findings::default();
        let graph = Self::build(source, &mut findings);
        graph.filter(|_| findings.problems.is_empty()).ok_or_else(|| findings.all())
    }

    /// Reads a definition, which may be written in other words.
    fn build(source: &[u8], findings: &mut Findings) -> Option<Self> {
        let json = Self::parse(source, findings)?;
        if !openintent::is_written_so(&json) {
            return Self::build_from(&json, source, findings);
        }
        let json = openintent::translate(&json, findings)?;
        let graph = Self::build_from(&json, source, findings);
        openintent::place_back(findings);
        graph
    }

    fn parse(source: &[u8], findings: &mut Findings) -> Option<Json> {
        if source.len() > limits::DEFINITION_BYTES_MAX {
            let message =
                format!("it has {} bytes; {} are allowed", source.len(), limits::DEFINITION_BYTES_MAX);
            findings.problem("definition", message);
            return None;
        }
        match serde_json::from_slice::<Json>(source) {
            Ok(json) => Some(json),
            Err(error) => {
                findings.problem("definition", format!("it is not JSON: {error}"));
                None
            }
        }
    }

    fn build_from(json: &Json, source: &[u8], findings: &mut Findings) -> Option<Self> {
        let mut graph = build::build(Definition::read(json, findings)?, source, true, findings)?;
        if graph.edges.iter().any(|edge| edge.implied) {
            let mut again = Findings::default();
            let plain = Definition::read(json, &mut again);
            let plain = plain.and_then(|plain| build::build(plain, source, false, &mut again));
            graph.unrefined = plain.map(Arc::new);
        }
        Some(graph)
    }

    /// Lets its nodes play the mocks that the public fixtures ask for.
    #[must_use]
    pub fn with_mocks(self, mocks: bool) -> Self {
        let offers = Offers { mocks, ..self.offers };
        self.offered(offers)
    }

    /// Lets its nodes do what the server offers.
    #[must_use]
    pub fn offered(mut self, offers: Offers) -> Self {
        self.offers = offers;
        if let Some(plain) = self.unrefined.as_mut().and_then(Arc::get_mut) {
            plain.offers = offers;
        }
        self
    }

    /// The graph that a run of some reading of definitions follows.
    pub(crate) fn for_reading(self: Arc<Self>, reading: u32) -> Arc<Self> {
        match &self.unrefined {
            Some(plain) if reading < crate::event::READING_OF_REFINING => plain.clone(),
            _ => self,
        }
    }

    /// The kinds of its nodes that only workers can do, whether or not any does.
    pub fn foreign_kinds(&self) -> impl Iterator<Item = &str> {
        self.foreign_kinds.iter().map(|kind| &**kind)
    }

    /// The agent that its first supervisor is pinned to, or the first of its other nodes that is.
    pub fn pinned_agent(&self, supervises: bool) -> Option<&Json> {
        let mut nodes = self.nodes.iter().filter(|node| (node.kind == Kind::Supervisor) == supervises);
        nodes.find_map(|node| node.pinned.as_ref())
    }

    /// Whether any of its nodes has a model do something.
    pub(crate) fn has_turns(&self) -> bool {
        self.nodes.iter().any(|node| node.kind.is_turn())
    }

    /// Whether its nodes play the mocks of the public fixtures.
    pub(crate) fn plays_mocks(&self) -> bool {
        self.offers.mocks
    }

    /// The hash as text, the form it has in events.
    pub fn hash_hex(&self) -> String {
        hex(&self.hash)
    }

    /// The node with this id.
    pub fn node(&self, id: &str) -> Option<NodeIx> {
        self.index.get(id).copied()
    }

    /// For how long its runs are kept when they have ended.
    pub fn retention(&self) -> crate::Retention {
        self.settings.retention
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A graph has at least one node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many edges there are.
    pub fn edge_count(&self) -> usize {
        self.edges.iter().filter(|edge| !edge.implied).count()
    }

    /// A node's id and kind.
    pub fn describe(&self, ix: NodeIx) -> (&Arc<str>, &Arc<str>, Kind) {
        let node = self.at(ix);
        (&node.id, &node.type_id, node.kind)
    }

    pub(crate) fn at(&self, ix: NodeIx) -> &GraphNode {
        &self.nodes[ix as usize]
    }

    pub(crate) fn edge(&self, ix: EdgeIx) -> &GraphEdge {
        &self.edges[ix as usize]
    }

    pub(crate) fn loop_at(&self, ix: LoopIx) -> &Loop {
        &self.loops[ix as usize]
    }

    /// The declared variable of this name.
    pub(crate) fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().find(|variable| variable.name == name)
    }

    /// Refuses kinds behind a capability that is not offered, and definitions that are switched off.
    pub(crate) fn check_startable(&self) -> Result<(), Rejection> {
        if !self.active {
            let message =
                format!("workflow '{}' is not active; set isActive and status in it", self.workflow_id);
            return Err(Rejection::invalid("workflowId", message));
        }
        self.nodes.iter().try_for_each(|node| self.check_offered(node))
    }

    /// Refuses conversations where there are none: such a workflow can't even be pushed.
    pub fn check_conversations(&self, offers: Offers) -> Result<(), Rejection> {
        let converses = |node: &&GraphNode| matches!(&node.work, Work::Gate(gate) if gate.converses());
        match self.nodes.iter().find(converses).filter(|_| !offers.conversations) {
            Some(node) => Err(needs(node, CONVERSATIONS)),
            None => Ok(()),
        }
    }

    fn check_offered(&self, node: &GraphNode) -> Result<(), Rejection> {
        let gated =
            GATED_KINDS.iter().find(|(kind, _, needed)| *kind == &*node.type_id && !self.offers.has(*needed));
        if let Some((_, capability, _)) = gated {
            return Err(needs(node, capability));
        }
        let Work::Gate(gate) = &node.work else { return Ok(()) };
        if !self.offers.conversations && gate.converses() {
            return Err(needs(node, CONVERSATIONS));
        }
        if !self.offers.mocks && gate.wants_mock() {
            let message = format!(
                "node '{}' asks for mockAutoResume, which only a server with --conformance plays; remove it",
                node.id
            );
            return Err(Rejection::invalid("workflowId", message));
        }
        Ok(())
    }
}

fn needs(node: &GraphNode, capability: &'static str) -> Rejection {
    let (node, type_id) = (node.id.to_string(), node.type_id.to_string());
    Rejection::CapabilityRequired { node, type_id, capability }
}
