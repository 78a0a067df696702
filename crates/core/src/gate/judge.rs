//! Nodes that decide: mocks of the public fixtures, and the dispatch that carries out what a supervisor decided.

use super::Bodied;
use crate::doubt::Judgement;
use crate::event::Failure;
use crate::graph::{MockAgent, Supervisor};
use crate::interrupt::{NodeContext, Stop};
use crate::perform::{Change, Product};
use crate::{Json, JsonMap, NodeIx, Run};

/// The question of a dispatch, and the answer that lets it go on.
const PROCEED: &str = "proceed";

/// What a supervisor can go on with.
fn decision_schema() -> Json {
    Json::of(&serde_json::json!({
        "type": "object", "required": ["kind"], "properties": { "kind": { "type": "string" } },
    }))
}

impl Run {
    /// Plays the next decision of the plan; after the last one it terminates. What the mock is not sure of is held back
    /// until somebody has ratified it.
    pub(super) fn supervise(
        &self,
        ix: NodeIx,
        work: &Supervisor,
        context: &mut NodeContext<'_>,
    ) -> Result<Bodied, Stop> {
        let node = self.graph.at(ix);
        let at = self.node(ix).execution.saturating_sub(1) as usize;
        let mut decision = work.plan.get(at).cloned().unwrap_or_else(|| {
            JsonMap::from([
                ("kind".to_owned(), Json::of("terminate")),
                ("reason".to_owned(), Json::of("plan-exhausted")),
            ])
        });
        if let Some(confidence) = work.confidence.as_ref().filter(|_| at < work.plan.len()) {
            let agent = node.decider().unwrap_or_else(|| node.id.to_string());
            let judged = Judgement { agent, decision: Json::of(&decision), confidence: confidence.clone() };
            let ratified = context.decide_by_node(judged, Some(decision_schema()))?;
            decision = ratified.parse().unwrap_or_default();
        }
        let outputs = JsonMap::from([("decision".to_owned(), Json::of(&decision))]);
        let product =
            Product { changes: vec![Change::Decision(decision)], ..Product::of(Some(Json::of(&outputs))) };
        Ok(Bodied::Done(product))
    }

    /// Asks whether a decision may be carried out that its supervisor is not sure of.
    pub(super) fn confirm_dispatch(&self, ix: NodeIx, context: &mut NodeContext<'_>) -> Result<Bodied, Stop> {
        let Some(unsure) = self.unsure_decision(ix) else { return Ok(Bodied::Ratified) };
        let what = match unsure.workers.as_slice() {
            [] => unsure.kind.clone(),
            workers => format!("{} ({})", unsure.kind, workers.join(", ")),
        };
        let question = format!("The supervisor is only {} sure of this: {what}. Go on?", unsure.confidence);
        let payload = serde_json::json!({
            "kind": "clarification",
            "data": {
                "contextType": "confidence-floor-breached",
                "questions": [{ "id": PROCEED, "question": question, "schema": { "type": "boolean" } }],
            },
        });
        let answer = context.interrupt(&Json::of(&payload))?;
        let proceeds =
            super::part(&answer, "answers").remove(PROCEED).is_some_and(|told| told.text() == "true");
        if proceeds {
            return Ok(Bodied::Ratified);
        }
        let message = format!("somebody decided against what the supervisor was not sure of: {what}");
        Err(Stop::Failed(Failure::new("decision_declined", message)))
    }
}

/// Decides what the config says. What somebody ratified in its place is what the node goes on with.
pub(super) fn mock_agent(
    node: &str,
    pinned: Option<String>,
    work: &MockAgent,
    context: &mut NodeContext<'_>,
) -> Result<Bodied, Stop> {
    let Some(decision) = work.decision.clone() else { return Ok(Bodied::Done(Product::default())) };
    let agent = work.agent.clone().or(pinned).unwrap_or_else(|| format!("host:mock-agent:{node}"));
    let judged = Judgement { agent, decision, confidence: work.confidence.clone() };
    let ratified = context.decide_by_node(judged, None)?;
    let outputs = JsonMap::from([("decision".to_owned(), ratified)]);
    Ok(Bodied::Done(Product::of(Some(Json::of(&outputs)))))
}
