//! Who has the tasks of a run, for whoever looks at it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use abide_core::{Offer, Run, Why};
use abide_engine::{Hands, Holder, Place};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{shape, time};

/// Who does a node, if that is a worker.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkerOfNode {
    /// The only agent whose workers may have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    /// Which attempt it is, from 1.
    attempt: u32,
    /// The worker that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// What people know that worker by.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// Since when it has it.
    #[schemars(with = "shape::Moment")]
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// What it waits for, if no worker has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<String>,
    /// How many steps are recorded.
    steps: usize,
    /// How far the worker says it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<ProgressOfNode>,
}

/// How far a worker says it is.
#[derive(Serialize, JsonSchema)]
struct ProgressOfNode {
    done: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
}

/// The nodes of a run that workers have or should get.
pub(crate) struct Handed<'a> {
    hands: Option<&'a Hands>,
    offers: HashMap<Arc<str>, Offer>,
}

impl<'a> Handed<'a> {
    /// Those of a run, if somebody knows who has them.
    pub(crate) fn of(hands: Option<&'a Hands>, run: &Run) -> Self {
        let offers = hands.into_iter().flat_map(|_| run.offers());
        Self { hands, offers: offers.map(|offer| (offer.task.node.clone(), offer)).collect() }
    }

    /// Who does a node.
    pub(crate) fn worker(&self, run: &Run, node: &str) -> Option<WorkerOfNode> {
        let (hands, offer) = (self.hands?, self.offers.get(node)?);
        let assignment = run.assignment(node)?;
        let holder = holder(hands, run, offer);
        let waits = holder.is_none().then(|| nobody(hands, offer));
        let (session, since) = holder.as_ref().map(|holder| (holder.session, holder.since)).unzip();
        let progress = assignment.progress.map(|told| ProgressOfNode { done: told.done, total: told.total });
        Some(WorkerOfNode {
            agent: offer.agent.clone(),
            attempt: offer.attempt,
            session: session.map(|session| session.to_string()),
            labels: holder.map(|holder| holder.labels).unwrap_or_default(),
            since: since.map(time::rfc3339),
            waits,
            steps: assignment.steps,
            progress,
        })
    }
}

fn holder(hands: &Hands, run: &Run, offer: &Offer) -> Option<Holder> {
    hands.holder(&Place { run: run.key().id, task: offer.task.clone() })
}

/// Why nobody has a task.
fn nobody(hands: &Hands, offer: &Offer) -> String {
    let kind = &offer.kind;
    let whose = offer.agent.as_ref().map_or_else(String::new, |agent| format!(" for agent '{agent}'"));
    if hands.is_provided(kind, offer.agent.as_deref()) {
        format!("it waits for a worker that provides {kind}{whose}; those that are connected are busy")
    } else {
        format!("it waits for a worker; none that provides {kind}{whose} is connected")
    }
}

/// Who has what, for the entity tag of a run: it changes when that does.
pub(crate) fn holders(hands: &Hands, run: &Run) -> Vec<String> {
    let told = |offer: Offer| match holder(hands, run, &offer) {
        Some(holder) => format!("{} {}", offer.task.node, holder.session),
        None => format!("{} {}", offer.task.node, nobody(hands, &offer)),
    };
    run.offers().map(told).collect()
}

/// Says of what a run waits for with workers who has it, or why nobody has.
pub(crate) fn explain(hands: &Hands, run: &Run, mut why: Why) -> Why {
    let offers = Handed::of(Some(hands), run).offers;
    for reason in why.reasons.iter_mut().filter(|reason| reason.kind == "worker") {
        let Some(offer) = reason.node.as_deref().and_then(|node| offers.get(node)) else { continue };
        match holder(hands, run, offer) {
            Some(holder) => {
                reason.what += &format!("; {} has it", words(&holder));
                reason.since = Some(holder.since);
            }
            None => reason.what += &format!("; {}", nobody(hands, offer)),
        }
    }
    why
}

/// What people know somebody by who has a task.
fn words(holder: &Holder) -> String {
    let Some(agent) = &holder.agent else {
        return format!("session {}, which is not connected,", holder.session);
    };
    let labels: Vec<String> = holder.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if labels.is_empty() {
        format!("worker '{agent}'")
    } else {
        format!("worker '{agent}' ({})", labels.join(", "))
    }
}
