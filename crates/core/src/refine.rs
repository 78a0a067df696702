//! Decisions against what was asked for: they are routed by the edges that ask for them, have what was decided about made
//! again, or fail the node.

use crate::command::Draft;
use crate::event::{Failure, NodeEvent, NodeRefined};
use crate::gate::{Declined, Refinement};
use crate::graph::{Kind, Work};
use crate::ports::{self, Inputs};
use crate::{ApprovalRules, Ask, InterruptKind, JsonMap, NodeIx, Run};

/// What a node that is executed again finds among its inputs, unless it has ports of these names.
const FEEDBACK: &str = "refineFeedback";
const PREVIOUS: &str = "previousArtifact";

/// What a decision does.
impl Run {
    /// A decision against what was asked for: it is routed by the edges whose conditions ask for it, and fails the
    /// node otherwise. An edge without a condition is the way of those that were accepted.
    pub(crate) fn decline(&mut self, draft: &mut Draft, ix: NodeIx, declined: Declined, sensitive: bool) {
        let Declined { outputs, failure, refinement } = declined;
        let ways = self.declined_ways(ix, &outputs);
        let ways = ways.or_else(|| refinement.as_ref().and_then(|_| self.implied_way(ix)));
        match ways {
            Some(untaken) => {
                if let Some(refinement) = refinement {
                    self.have_refined(draft, ix, refinement, &untaken, sensitive);
                }
                self.complete_along(draft, ix, outputs, untaken, sensitive);
            }
            None if sensitive => {
                // What was said with the decision is never shown, and a failure is.
                let failure = Failure::new(&failure.code, "somebody decided against it; why is not shown");
                self.give_up(draft, ix, failure);
            }
            None => self.give_up(draft, ix, failure),
        }
    }

    /// The edges that are not followed if the implied one is; `None` if there is none.
    fn implied_way(&self, ix: NodeIx) -> Option<Vec<String>> {
        let edges = self.graph.at(ix).out.iter().map(|&edge| self.graph.edge(edge));
        let (implied, untaken): (Vec<_>, Vec<_>) = edges.partition(|edge| edge.implied);
        (!implied.is_empty()).then(|| untaken.iter().map(|edge| edge.id.to_string()).collect())
    }

    /// Tells the node that makes it what is to be made better.
    fn have_refined(
        &mut self,
        draft: &mut Draft,
        gate: NodeIx,
        refinement: Refinement,
        untaken: &[String],
        sensitive: bool,
    ) {
        let Some(target) = self.refined_node(gate, untaken) else { return };
        let refined = NodeRefined {
            gate: self.graph.at(gate).id.to_string(),
            refine_feedback: refinement.feedback,
            previous_artifact: refinement.artifact,
            decided_by: refinement.by,
            sensitive,
        };
        self.emit_node(draft, target, NodeEvent::Refined(Box::new(refined)), None);
    }

    /// Who is told: the node that made it, if it is executed again, or else where the way leads.
    fn refined_node(&self, gate: NodeIx, untaken: &[String]) -> Option<NodeIx> {
        let node = self.graph.at(gate);
        let ways = node.out.iter().map(|&edge| self.graph.edge(edge));
        let way = ways.into_iter().find(|way| !untaken.iter().any(|id| **id == *way.id))?;
        let again = way.back.map(|back| &self.graph.loop_at(back).members);
        let producer = node.producer.filter(|made| again.is_some_and(|members| members.contains(made)));
        producer.or(Some(way.target))
    }

    /// What goes into a node, with what is to be made better of what it made before.
    pub(crate) fn resolve_inputs(&self, ix: NodeIx) -> Result<Inputs, Failure> {
        let mut inputs = ports::resolve(self, self.graph.at(ix))?;
        let Some(refined) = self.node(ix).refinement.as_deref().filter(|_| self.can_refine(ix)) else {
            return Ok(inputs);
        };
        let mut told = JsonMap::from([(FEEDBACK.to_owned(), refined.refine_feedback.clone())]);
        told.extend(refined.previous_artifact.clone().map(|made| (PREVIOUS.to_owned(), made)));
        for (name, value) in told {
            inputs.values.entry(name).or_insert(value);
        }
        inputs.sensitive |= refined.sensitive;
        Ok(inputs)
    }

    /// Whether a node can make anything of what it is told. What gives its inputs back would give that back.
    fn can_refine(&self, ix: NodeIx) -> bool {
        !matches!(self.graph.at(ix).kind, Kind::Identity | Kind::Noop | Kind::Delay | Kind::Fail)
    }

    /// Refuses to offer that something is made better if nothing would follow.
    pub(crate) fn check_refinable(&self, ix: NodeIx, ask: &Ask) -> Result<(), Failure> {
        let node = self.graph.at(ix);
        let gate = matches!(node.work, Work::Gate(_));
        if !gate || node.refinable || !ask.offers("refine") {
            return Ok(());
        }
        let message = "it offers 'refine', but nothing tells what is made again: connect its input 'artifact' to the \
                       node that makes it, or add an edge back with a condition on output.action";
        Err(Failure::new("invalid_interrupt", message))
    }

    /// What the settings of a node say about its approvals.
    pub(crate) fn rules_of(&self, ix: NodeIx, kind: InterruptKind) -> Option<ApprovalRules> {
        let rules = &self.graph.at(ix).approval;
        (kind == InterruptKind::Approval && !rules.is_empty()).then(|| rules.clone())
    }

    /// Who asks where a gate does: its agent, and whoever made what is decided about.
    pub(crate) fn askers(&self, ix: NodeIx) -> Vec<String> {
        let node = self.graph.at(ix);
        let made = node.producer.map(|producer| (self.graph.at(producer), self.node(producer)));
        let agent = made.and_then(|(made, _)| made.agent.as_deref());
        let by = made.into_iter().flat_map(|(_, made)| made.made_by.iter().map(String::as_str));
        let mut askers: Vec<String> = Vec::new();
        for asker in node.agent.as_deref().into_iter().chain(agent).chain(by) {
            if !askers.iter().any(|known| known == asker) {
                askers.push(asker.to_owned());
            }
        }
        askers
    }
}
