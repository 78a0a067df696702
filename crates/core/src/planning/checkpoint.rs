//! A checkpoint of a plan: the plan stops, and people are asked whether it may go on.
//!
//! The question is an interrupt like any other, on the node that the run itself asks on. It says which checkpoint it is
//! about, which tells it from the run's question whether it may be resumed. Nobody's silence lets a plan go on.

use serde_json::json;

use super::{CheckpointSpec, OnTimeout, Plan, PlanId, Task};
use crate::climb::LadderTerms;
use crate::command::Draft;
use crate::event::{
    CheckpointRef, Event, InterruptRequested, NodeEvent, PlanChange, PlanChanged, Resolution,
};
use crate::graph::Form;
use crate::{
    Ask, FallbackPolicy, HumanRetryPolicy, InterruptId, InterruptKind, Json, LadderCall, Millis, Rejection,
    Run, Surroundings, limits,
};

/// Why a question was closed without an answer.
const PLAN_ENDED: &str = "plan-ended";

/// Why it was if its run is done without it.
const RUN_COMPLETED: &str = "run-completed";

/// Who closes it.
const BY_RUN: &str = "system:run";

/// What may be read of the questions of the run itself.
impl Run {
    /// The question of the run itself that an answer is meant for: whether it is resumed, or whether a plan of it goes on. If
    /// several are open nobody guesses which one is meant: to let a plan go on is not to resume the run.
    pub(crate) fn own_interrupt(&self) -> Result<InterruptId, Rejection> {
        let own = self.state.open.iter().filter(|(_, open)| open.node.is_none());
        let own: Vec<InterruptId> = own.map(|(id, _)| *id).collect();
        match own.as_slice() {
            [id] => Ok(*id),
            [] => {
                let plans = self.state.planning.plans.values();
                let asked = plans.flat_map(|plan| plan.checkpoints.values()).filter_map(|one| one.interrupt);
                asked.chain(self.state.resume.question).max().ok_or(Rejection::NoSuchInterrupt)
            }
            _ => Err(Rejection::SeveralOpen(own)),
        }
    }
}

/// What a decision does.
impl Run {
    /// The task before a checkpoint is done.
    pub(crate) fn reach_checkpoint(&mut self, draft: &mut Draft, id: PlanId, checkpoint: &str) {
        let plan = &self.state.planning.plans[&id];
        let Some(spec) = plan.checkpoint(checkpoint).cloned() else { return };
        let changed = |change| PlanChanged {
            checkpoint: Some(spec.id.clone()),
            task_id: Some(spec.after),
            ..PlanChanged::of(id, change)
        };
        self.emit_plan(draft, changed(PlanChange::CheckpointReached));
        if !spec.requires_approval {
            return;
        }
        if self.state.planning.plans[&id].lets_begin() {
            let reason = Some(format!("it waits at checkpoint '{}'", spec.name));
            let paused = PlanChanged { reason, task_id: None, ..changed(PlanChange::Paused) };
            self.emit_plan(draft, paused);
        }
        self.ask_at(draft, id, &spec);
    }

    fn ask_at(&mut self, draft: &mut Draft, id: PlanId, spec: &CheckpointSpec) {
        let planning = &self.state.planning;
        let asked_by = planning.tasks.get(&spec.after).and_then(|task| task.assigned_agent.clone());
        let data = question(&planning.plans[&id], spec, planning.tasks.get(&spec.after));
        let timeout_ms = spec.timeout_ms.filter(|_| spec.on_timeout == OnTimeout::Fail);
        let ask = Ask {
            kind: InterruptKind::Approval,
            key: None,
            resume_schema: None,
            timeout_ms,
            data: data.clone(),
        };
        let call = spec.timeout_ms.filter(|_| spec.on_timeout == OnTimeout::Escalate);
        let call = call.map(|ms| reminding(ms, &draft.defaults));
        let terms = LadderTerms { call: call.as_ref(), agent: None, form: Form::Interrupt };
        // A platform's ladder that does not fit must not keep the question from being asked.
        let ladder = self.ladder_of(&terms, &ask, &draft.defaults).ok().flatten();
        let interrupt_id = InterruptId::of(&self.salt, self.head.next);
        let requested = InterruptRequested {
            topic: None,
            interrupt_id,
            kind: InterruptKind::Approval,
            key: format!("{}:{}", self.graph.own_node, self.head.next),
            call: 1,
            keyless: true,
            data,
            resume_schema: None,
            timeout_ms,
            ladder,
            respondents: spec.approvers.clone(),
            hooks: None,
            asked_by: asked_by.into_iter().collect(),
            rules: None,
            sensitive: false,
            sensitive_answer: false,
            checkpoint: Some(CheckpointRef { plan_id: id, checkpoint: spec.id.clone() }),
        };
        let event = NodeEvent::InterruptRequested(Box::new(requested));
        let cause = draft.last_sequence();
        draft.emit(self, &Event::Node { node: self.graph.own_node.clone(), event }, cause);
        self.escalate(draft, None, interrupt_id, 1);
    }

    /// The question that a plan waits for, if it is open.
    pub(crate) fn checkpoint_question(&self, plan: &Plan) -> Option<InterruptId> {
        let (_, standing) = plan.waits_at()?;
        standing.interrupt.filter(|id| self.state.open.contains_key(id))
    }

    /// Nobody has to answer any more.
    pub(crate) fn close_checkpoint(&mut self, draft: &mut Draft, id: InterruptId) {
        self.close(draft, id, Resolution::Cancelled, PLAN_ENDED, BY_RUN);
    }

    /// A run that completes leaves no checkpoint open.
    pub(crate) fn close_checkpoints(&mut self, draft: &mut Draft) {
        let plans = self.state.planning.plans.values();
        let open: Vec<InterruptId> = plans.filter_map(|plan| self.checkpoint_question(plan)).collect();
        for id in open {
            self.close(draft, id, Resolution::Cancelled, RUN_COMPLETED, BY_RUN);
        }
    }
}

/// What is asked.
fn question(plan: &Plan, spec: &CheckpointSpec, after: Option<&Task>) -> Json {
    let of = plan.spec.name.as_ref().map_or_else(String::new, |name| format!(" of plan '{name}'"));
    let title = format!("Let it go on past checkpoint '{}'{of}?", spec.name);
    Json::of(&json!({
        "artifactId": format!("{}:{}", plan.id, spec.id),
        "artifactType": "plan-checkpoint",
        "title": title.chars().take(limits::ASK_TITLE_CHARS_MAX).collect::<String>(),
        "description": "Accept: the plan goes on. Reject: it stays where it is, or fails if it says so.",
        "actions": ["accept", "reject"],
        "artifactData": {
            "planId": plan.id,
            "checkpoint": spec.id,
            "task": after.map(|task| json!({
                "id": task.id, "name": task.spec.name, "status": task.status.name(),
                "agent": task.assigned_agent, "output": task.output,
            })),
        },
    }))
}

/// The ladder of a question that stays open when its time is over: people are told again at least once, and by whom the
/// operator says.
fn reminding(timeout_ms: Millis, defaults: &Surroundings) -> LadderCall {
    let seconds = timeout_ms.div_euclid(1_000).clamp(1, Millis::from(limits::LADDER_SECONDS_MAX));
    let above = defaults.platform.as_ref().and_then(|policy| policy.max_attempts).unwrap_or(1);
    LadderCall {
        retry_policy: Some(HumanRetryPolicy {
            max_attempts: Some(above.max(2)),
            interval_seconds: u32::try_from(seconds).ok(),
            final_fallback_policy: Some(FallbackPolicy::Fail),
            ..HumanRetryPolicy::default()
        }),
        ..LadderCall::default()
    }
}
