//! Nodes that are done by hand: somebody outside claims one, asks if it has to, and says what came of it.
//!
//! Nobody is handed anything. Whoever claims the node has it until they give it back, or the run ends. What goes in is
//! wired when it is claimed, and what comes out is checked when it is completed.

mod wiring;

use serde::{Deserialize, Serialize};

pub(crate) use wiring::{HandWork, INITIAL_STATE, TRIGGER, wiring_of};
pub use wiring::{TypeMismatch, Unclaimed};

use crate::climb::LadderTerms;
use crate::command::Draft;
use crate::event::{ClaimDeferred, NodeClaimed, NodeEvent, NodeReleased, NodeSuspended, Resolution};
use crate::gate::payload_form;
use crate::graph::Work;
use crate::interrupt::{Answered, Asked, NodeContext, Stop};
use crate::perform::Product;
use crate::{
    Ask, Failure, Hold, InterruptId, Json, JsonMap, LadderCall, NodeIx, NodePhase, Rejection, Run, limits,
};

/// The node of a run that is done by hand as a whole.
pub const SELF_NODE: &str = "self";

/// What somebody outside does about a node that is done by hand.
#[derive(Clone, Debug, PartialEq)]
pub struct Hand {
    /// The node; the run's only one of the kind if none is named.
    pub node: Option<String>,
    /// Who: an agent, or a person.
    pub agent: String,
    /// Under whose key, if that is somebody else. Where whoever made or asked something may not decide about it, neither of
    /// them may.
    pub principal: Option<String>,
    /// What.
    pub op: HandOp,
}

/// What somebody outside does about a node that is done by hand.
#[derive(Clone, Debug, PartialEq)]
pub enum HandOp {
    /// To have it. Whoever can't have it yet because of somebody before them gets it as soon as that is over.
    Claim,
    /// To give it back.
    Release,
    /// To ask, and wait for the answer.
    Ask(Box<HandAsk>),
    /// To be through with it.
    Complete {
        /// What came of it, an object.
        outputs: Option<Json>,
    },
    /// To give it up.
    Fail(Failure),
}

/// What is asked by whoever has a node.
#[derive(Clone, Debug, PartialEq)]
pub struct HandAsk {
    /// What is asked.
    pub payload: Json,
    /// How it goes on if nobody answers.
    pub ladder: Option<Json>,
    /// Who may answer: those whom the node names if nothing is said, and everybody if nobody is named.
    pub respondents: Option<Vec<String>>,
}

/// Who has a node that is done by hand, and who wants it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Who has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Who gets it once that is possible, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
}

/// What may be read.
impl Run {
    /// Who has a node that is done by hand.
    pub fn claim(&self, ix: NodeIx) -> Option<&Claim> {
        self.node(ix).claim.as_ref()
    }

    /// The agent that a node is meant for, if it is done by hand and meant for one.
    pub fn assigned(&self, ix: NodeIx) -> Option<&str> {
        if let Work::ByHand(work) = &self.graph.at(ix).work { work.assign.as_deref() } else { None }
    }

    /// Whether a node is done by hand.
    pub fn is_by_hand(&self, ix: NodeIx) -> bool {
        matches!(self.graph.at(ix).work, Work::ByHand(_))
    }

    /// The only node that is done by hand, or the one of this name.
    pub fn hand_node(&self, named: Option<&str>) -> Result<NodeIx, Rejection> {
        if let Some(name) = named {
            let ix = self.graph.node(name).filter(|&ix| self.is_by_hand(ix));
            let message = || format!("the run has no node '{name}' that is done by hand");
            return ix.ok_or_else(|| Rejection::invalid("nodeId", message()));
        }
        let mut found = (0..self.graph.len() as NodeIx).filter(|&ix| self.is_by_hand(ix));
        match (found.next(), found.next()) {
            (Some(ix), None) => Ok(ix),
            (None, _) => Err(Rejection::invalid("runId", "the run has no node that is done by hand")),
            _ => Err(Rejection::invalid("nodeId", "several nodes of the run are done by hand; name one")),
        }
    }

    /// Why somebody can't have a node yet, if they can't.
    pub fn unclaimed(&self, ix: NodeIx) -> Option<Unclaimed> {
        self.wire(ix).err().or_else(|| {
            let blocked = self.blocked_reason().map(Unclaimed::Blocked);
            let draft = self.is_draft().then_some(Unclaimed::Draft);
            blocked.or(draft).or((self.state.hold != Hold::None).then_some(Unclaimed::Held))
        })
    }

    /// Whether somebody has a run that is done by hand as a whole.
    pub(crate) fn is_claimed(&self) -> bool {
        let ix = self.graph.node(SELF_NODE).filter(|&ix| self.is_by_hand(ix));
        ix.is_some_and(|ix| {
            let held = self.claim(ix).is_some_and(|claim| claim.agent.is_some());
            held && matches!(self.node(ix).phase, NodePhase::Running | NodePhase::Suspended)
        })
    }

    /// What a run that is done by hand as a whole has come to, once it is through. Only what another one started is told to
    /// others: nobody else has its outputs wired to their inputs.
    pub(crate) fn handed_over(&self) -> (JsonMap, bool) {
        let ix = self.graph.node(SELF_NODE).filter(|&ix| self.is_by_hand(ix));
        let done = ix.map(|ix| self.node(ix)).filter(|node| node.phase == NodePhase::Completed);
        let wired = self.state.parent.is_some() || self.state.intent.is_some();
        let Some(node) = done.filter(|_| wired) else {
            return (JsonMap::new(), false);
        };
        let outputs = node.outputs.as_ref().and_then(|outputs| outputs.parse().ok()).unwrap_or_default();
        (outputs, node.masked != crate::Mask::Nothing)
    }
}

/// What a decision does.
impl Run {
    pub(crate) fn decide_hand(&mut self, draft: &mut Draft, hand: Hand) -> Result<(), Rejection> {
        self.check_running()?;
        let Hand { node, agent, principal, op } = hand;
        let chars = agent.chars().count();
        if !(1..=limits::AGENT_NAME_CHARS_MAX).contains(&chars) || agent.chars().any(char::is_control) {
            let most = limits::AGENT_NAME_CHARS_MAX;
            let message = format!("'agent' has 1 to {most} characters, and no control characters");
            return Err(Rejection::invalid("agent", message));
        }
        if self.state.group.is_some() {
            return Err(Rejection::invalid(
                "runId",
                "nobody does anything in a group; name one of its members",
            ));
        }
        let ix = self.hand_node(node.as_deref())?;
        match op {
            HandOp::Claim => self.claim_node(draft, ix, agent),
            HandOp::Release => {
                self.check_claimed(ix, &agent)?;
                let released = NodeReleased { agent, reason: None };
                self.emit_node(draft, ix, NodeEvent::Released(released), None);
                self.grant(draft, ix);
                Ok(())
            }
            HandOp::Ask(asked) => self.ask_by_hand(draft, ix, &both(agent, principal), *asked),
            HandOp::Complete { outputs } => self.complete_by_hand(draft, ix, both(agent, principal), outputs),
            HandOp::Fail(error) => {
                self.check_claimed(ix, &agent)?;
                self.give_up(draft, ix, error);
                self.advance(draft);
                Ok(())
            }
        }
    }

    fn check_unsettled(&self, ix: NodeIx) -> Result<(), Rejection> {
        let phase = self.node(ix).phase;
        if !phase.is_settled() {
            return Ok(());
        }
        let message =
            format!("node '{}' is {}, so nobody has it any more", self.graph.at(ix).id, phase.name());
        Err(Rejection::invalid("nodeId", message))
    }

    fn check_claimed(&self, ix: NodeIx, agent: &str) -> Result<(), Rejection> {
        self.check_unsettled(ix)?;
        let node = self.node(ix);
        match (node.phase, node.claim.as_ref().and_then(|claim| claim.agent.as_deref())) {
            (NodePhase::Running, Some(holder)) if holder == agent => Ok(()),
            (NodePhase::Suspended, Some(holder)) if holder == agent => Err(Rejection::Asking),
            (_, Some(holder)) => Err(Rejection::Claimed { agent: holder.to_owned() }),
            _ => Err(Rejection::NotClaimed),
        }
    }

    pub(crate) fn claim_node(
        &mut self,
        draft: &mut Draft,
        ix: NodeIx,
        agent: String,
    ) -> Result<(), Rejection> {
        self.check_unsettled(ix)?;
        let node = self.node(ix);
        let holder = node.claim.as_ref().and_then(|claim| claim.agent.clone());
        match holder {
            Some(holder) if holder == agent => return Ok(()),
            Some(holder) => return Err(Rejection::Claimed { agent: holder }),
            None => {}
        }
        match self.unclaimed(ix) {
            None if self.node(ix).phase == NodePhase::Waiting => self.take_node(draft, ix, agent, None),
            None => return Err(Rejection::Unclaimed(Unclaimed::NotReached)),
            Some(refused @ Unclaimed::UpstreamSuspended { .. }) => {
                // The refusal is told from the run; whoever was refused is remembered, once.
                let waiting = self.node(ix).claim.as_ref().map_or(&[][..], |claim| &claim.waiting);
                if waiting.len() >= limits::CLAIMS_WAITING_MAX && !waiting.contains(&agent) {
                    return Err(Rejection::Unclaimed(refused));
                }
                if !waiting.contains(&agent) {
                    let deferred = ClaimDeferred { agent };
                    self.emit_node(draft, ix, NodeEvent::ClaimDeferred(deferred), None);
                }
            }
            Some(refused) => return Err(Rejection::Unclaimed(refused)),
        }
        Ok(())
    }

    fn take_node(&mut self, draft: &mut Draft, ix: NodeIx, agent: String, cause: Option<u64>) {
        let (inputs, sensitive) = self.wire(ix).unwrap_or_default();
        let claimed = NodeClaimed { agent, inputs, sensitive };
        self.emit_node(draft, ix, NodeEvent::Claimed(Box::new(claimed)), cause);
    }

    /// Whoever was refused before gets a node that may be had now.
    pub(crate) fn grant(&mut self, draft: &mut Draft, ix: NodeIx) {
        let node = self.node(ix);
        let next = node.claim.as_ref().filter(|claim| claim.agent.is_none());
        let next = next.and_then(|claim| claim.waiting.first().cloned());
        if let Some(agent) = next.filter(|_| node.phase == NodePhase::Waiting && self.unclaimed(ix).is_none())
        {
            let cause = draft.last_sequence();
            self.take_node(draft, ix, agent.clone(), cause);
            self.call_back(draft, ix, &agent);
        }
    }

    /// Whatever kept nodes from whoever wants them is over, maybe.
    pub(crate) fn grant_waiting(&mut self, draft: &mut Draft) {
        let wanted = |node: &crate::Node| {
            let claim = node.claim.as_ref().filter(|claim| claim.agent.is_none());
            node.phase == NodePhase::Waiting && claim.is_some_and(|claim| !claim.waiting.is_empty())
        };
        let nodes = self.state.nodes.iter().enumerate();
        let wanted: Vec<NodeIx> =
            nodes.filter(|(_, node)| wanted(node)).map(|(ix, _)| ix as NodeIx).collect();
        wanted.into_iter().for_each(|ix| self.grant(draft, ix));
    }

    fn ask_by_hand(
        &mut self,
        draft: &mut Draft,
        ix: NodeIx,
        by: &[String],
        asked: HandAsk,
    ) -> Result<(), Rejection> {
        let agent = by[0].as_str();
        self.check_claimed(ix, agent)?;
        if self.state.ending.is_some() {
            return Err(Rejection::Cancelling);
        }
        let told = |field: &'static str| {
            move |problems: Vec<crate::Problem>| {
                let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
                Rejection::invalid(field, told.join("; "))
            }
        };
        let ask = Ask::read(&asked.payload).map_err(told("payload"))?;
        if ask.kind.is_momentary() {
            let message = format!("nobody waits for '{}', so it can't be asked by hand", ask.kind.name());
            return Err(Rejection::invalid("payload.kind", message));
        }
        asked.respondents.as_deref().map_or(Ok(()), check_respondents)?;
        let ladder = asked.ladder.as_ref().map(LadderCall::parse).transpose().map_err(told("ladder"))?;
        let node = self.graph.at(ix);
        let call = ladder.as_ref().or(node.ladder.as_ref());
        let terms = LadderTerms { call, agent: Some(agent), form: payload_form(true) };
        let mut context = NodeContext::new(self, ix, self.node(ix).execution, draft.defaults.clone());
        context.calls = self.node(ix).asked;
        match context.ask(ask, &terms) {
            Err(Stop::Suspended) => {}
            Ok(_) => return Err(Rejection::AlreadyResolved),
            Err(Stop::Failed(failure)) => return Err(Rejection::Work(failure)),
        }
        let wanted = context.into_wanted().0;
        let respondents = asked.respondents.unwrap_or_else(|| self.graph.at(ix).respondents.clone());
        let terms = Asked { respondents, by: by.to_vec(), hooks: None, sensitive: self.node(ix).sensitive };
        for call in wanted {
            let id = self.open_call(draft, ix, call, terms.clone());
            let suspended = NodeSuspended::of(&self.state.open[&id].requested, self.node(ix).sensitive);
            self.emit_node(draft, ix, NodeEvent::Suspended(suspended), draft.last_sequence());
        }
        Ok(())
    }

    pub(crate) fn complete_by_hand(
        &mut self,
        draft: &mut Draft,
        ix: NodeIx,
        by: Vec<String>,
        outputs: Option<Json>,
    ) -> Result<(), Rejection> {
        self.check_claimed(ix, &by[0])?;
        let bytes = outputs.as_ref().map_or(0, |outputs| outputs.text().len());
        if bytes > limits::STEP_BYTES_MAX {
            let message = format!("'outputs' has {bytes} bytes, and {} are allowed", limits::STEP_BYTES_MAX);
            return Err(Rejection::invalid("outputs", message));
        }
        let work = self.hand_work(ix).ok_or(Rejection::NotClaimed)?;
        work.check_outputs(outputs.as_ref())?;
        // Whoever has a run as a whole would be through with it before those that it waits for are.
        let waits = self.state.bonds.blocked.is_some() && *self.graph.at(ix).id == *SELF_NODE;
        if let Some(reason) = self.blocked_reason().filter(|_| waits) {
            return Err(Rejection::Unclaimed(Unclaimed::Blocked(reason)));
        }
        if let Some(unfinished) = Some(self.node(ix).unfinished).filter(|unfinished| *unfinished > 0) {
            return Err(Rejection::ChildrenUnfinished { unfinished });
        }
        let sensitive = self.node(ix).sensitive;
        let made_by = if self.graph.at(ix).names_maker { by } else { Vec::new() };
        self.finish(draft, ix, Product { sensitive, made_by, ..Product::of(outputs) });
        self.advance(draft);
        Ok(())
    }

    /// Whoever has a node goes on with the answer. If there is none, and nothing stands for it, the node fails: its question
    /// has expired, and whoever asked was promised an end.
    pub(crate) fn go_on_by_hand(&mut self, draft: &mut Draft, ix: NodeIx) {
        let asked = self.node(ix).last_interrupt;
        let mut answers = self.state.answers.values();
        let answered = answers.find(|answered| asked.is_some() && answered.id == asked);
        // Whoever takes a question back goes on without an answer.
        let taken_back = answered.is_some_and(|answered| answered.outcome == Resolution::Cancelled);
        let told = answered.map(Answered::told);
        if let Some(Err(Stop::Failed(failure))) = told.filter(|_| !taken_back) {
            self.give_up(draft, ix, failure);
        }
    }

    /// Nobody has a node of a run that ends.
    pub(crate) fn release_all(&mut self, draft: &mut Draft, reason: &str) {
        let nodes = self.state.nodes.iter().enumerate();
        let held = nodes.filter(|(ix, node)| {
            node.phase == NodePhase::Running && self.is_by_hand(*ix as NodeIx) && node.claim.is_some()
        });
        let held: Vec<NodeIx> = held.map(|(ix, _)| ix as NodeIx).collect();
        for ix in held {
            let agent = self.claim(ix).and_then(|claim| claim.agent.clone()).unwrap_or_default();
            let released = NodeReleased { agent, reason: Some(reason.to_owned()) };
            self.emit_node(draft, ix, NodeEvent::Released(released), None);
        }
    }
}

/// Refuses a list of those who may answer that no definition could have. An empty one would mean everybody.
fn check_respondents(respondents: &[String]) -> Result<(), Rejection> {
    let (most, chars) = (limits::RESPONDENTS_MAX, limits::PRINCIPAL_CHARS_MAX);
    if !(1..=most).contains(&respondents.len()) {
        let message = format!(
            "'respondents' names 1 to {most} people, groups or roles; leave it out for those whom the node names"
        );
        return Err(Rejection::invalid("respondents", message));
    }
    let fits =
        |name: &String| (1..=chars).contains(&name.chars().count()) && !name.contains(char::is_control);
    if respondents.iter().all(fits) {
        return Ok(());
    }
    let message = format!("each of 'respondents' has 1 to {chars} characters, and no control characters");
    Err(Rejection::invalid("respondents", message))
}

/// An agent, and whoever it acts for.
fn both(agent: String, principal: Option<String>) -> Vec<String> {
    let principal = principal.filter(|principal| *principal != agent);
    [Some(agent), principal].into_iter().flatten().collect()
}

/// What an event changes.
impl Run {
    pub(crate) fn fold_hand(&mut self, ix: NodeIx, event: &NodeEvent) {
        let node = &mut self.state.nodes[ix as usize];
        let claim = node.claim.get_or_insert_default();
        match event {
            NodeEvent::Claimed(claimed) => {
                claim.waiting.retain(|waiting| *waiting != claimed.agent);
                claim.agent = Some(claimed.agent.clone());
                node.inputs = Some(claimed.inputs.clone());
                node.sensitive |= claimed.sensitive;
            }
            NodeEvent::Released(_) => claim.agent = None,
            NodeEvent::ClaimDeferred(deferred) => claim.waiting.push(deferred.agent.clone()),
            _ => {}
        }
    }
}

/// The last question that was asked by hand.
impl Run {
    /// What whoever has a node waits for.
    pub fn asked_by_hand(&self, ix: NodeIx) -> Option<InterruptId> {
        self.node(ix).stopped_for.iter().next().copied()
    }
}
