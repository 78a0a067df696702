//! How an interrupted run stands: what a decision rests on, and what people are shown.

use std::sync::Arc;

use super::{
    Artifacts, Interruption, InterruptionClass, PointStatus, ResumeFacts, ResumePolicy, ResumeSettings,
    ResumeVerdict, evaluate_resume,
};
use crate::event::{Failure, ResumeDecided, ResumeRequested};
use crate::resume::BY_SYSTEM;
use crate::{Hold, InterruptId, Millis, NodeIx, Run, Surroundings, TimerId, rfc3339};

/// How an interrupted run stands.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumeStatus {
    /// Its steps that were interrupted.
    pub steps: Vec<InterruptedStep>,
    /// It is held until a person decides.
    pub escalated: bool,
    /// Whether it is resumed by itself.
    pub auto_resume: bool,
    /// What would be decided now, if it was interrupted or has ended.
    pub decision: Option<ResumeDecided>,
    /// How the work stands at the last place of its journal.
    pub point: PointStatus,
    /// When it is looked at next.
    pub next_at: Option<Millis>,
    /// The question to people that is open.
    pub question: Option<InterruptId>,
    /// What to do about it, in sentences.
    pub checklist: Vec<String>,
}

/// A step that was interrupted.
#[derive(Clone, Debug, PartialEq)]
pub struct InterruptedStep {
    /// Its node.
    pub node: Arc<str>,
    /// What interrupted it.
    pub class: String,
    /// What is known of it.
    pub error: Failure,
    /// Its effect may or may not have happened.
    pub unknown: bool,
    /// The steps of a worker that were under way.
    pub steps: Vec<String>,
    /// Doing it twice is as good as once.
    pub idempotent: bool,
    /// What it does can't be undone.
    pub irreversible: bool,
    /// When.
    pub at: Millis,
}

impl Run {
    /// How it stands with resuming it, given what can be read of it.
    pub fn resume_status(&self, artifacts: Artifacts, now: Millis, around: &Surroundings) -> ResumeStatus {
        let policy = self.resume_policy(around);
        let now = now.max(self.head.at);
        let steps = self.interrupted_steps();
        let ended = self.lifecycle().is_terminal();
        let asked = ResumeRequested::plain(BY_SYSTEM);
        let decision =
            (ended || !steps.is_empty()).then(|| self.decide_resume(&asked, artifacts, &policy, now).0);
        let checklist = match &decision {
            Some(decision) if !ended => self.checklist(&steps, decision),
            _ => Vec::new(),
        };
        ResumeStatus {
            escalated: self.state.hold == Hold::Escalated,
            auto_resume: self.resumes_by_itself(&policy),
            decision,
            point: self.resume_point(),
            next_at: self.state.timers.get(&TimerId::Resume).copied(),
            question: self.open_question(),
            checklist,
            steps,
        }
    }

    /// The last decision about resuming it.
    pub fn resume_decision(&self) -> Option<&ResumeDecided> {
        self.state.resume.decision.as_ref()
    }

    /// How often it was resumed.
    pub fn resume_attempts(&self) -> u32 {
        self.state.resume.attempts
    }

    /// Its steps that were interrupted.
    pub fn interrupted_steps(&self) -> Vec<InterruptedStep> {
        let interrupted = self.state.resume.interrupted.iter();
        interrupted.map(|(&ix, found)| self.interrupted_step(ix, found)).collect()
    }

    pub(crate) fn interrupted_step(&self, ix: NodeIx, found: &Interruption) -> InterruptedStep {
        InterruptedStep {
            node: self.graph.at(ix).id.clone(),
            class: found.class.clone(),
            error: found.error.clone(),
            unknown: found.unknown,
            steps: found.steps.clone(),
            idempotent: self.is_idempotent(ix),
            irreversible: self.is_irreversible(ix),
            at: found.at,
        }
    }

    pub(crate) fn interrupted(&self) -> Vec<NodeIx> {
        self.state.resume.interrupted.keys().copied().collect()
    }

    pub(crate) fn is_interrupted(&self, node: &str) -> bool {
        self.graph.node(node).is_some_and(|ix| self.state.resume.interrupted.contains_key(&ix))
    }

    pub(crate) fn resume_policy(&self, around: &Surroundings) -> ResumePolicy {
        let own: &ResumeSettings = &self.graph.settings.resume;
        ResumePolicy::of([own, &around.resume])
    }

    /// Whether it is resumed without anybody asking for it.
    pub(crate) fn resumes_by_itself(&self, policy: &ResumePolicy) -> bool {
        self.state.resume.auto.unwrap_or(policy.auto)
    }

    fn resume_point(&self) -> PointStatus {
        let interrupted = &self.state.resume.interrupted;
        if interrupted.is_empty() || self.lifecycle().is_terminal() {
            return PointStatus::Other;
        }
        if interrupted.values().any(|found| is_cut_off(&found.class)) {
            PointStatus::InProgress
        } else {
            PointStatus::Failed
        }
    }

    /// What interrupted the run: that of its interrupted nodes which is waited for longest, or the one that nobody
    /// knows.
    fn interruption_class(&self, policy: &ResumePolicy) -> Result<InterruptionClass, String> {
        let mut longest: Option<InterruptionClass> = None;
        for found in self.state.resume.interrupted.values() {
            let class = InterruptionClass::by_name(&found.class).ok_or_else(|| found.class.clone())?;
            if longest.is_none_or(|known| policy.cooldowns.of(class) > policy.cooldowns.of(known)) {
                longest = Some(class);
            }
        }
        longest.ok_or_else(|| "unknown".to_owned())
    }

    /// What is decided about resuming the run, if this is asked.
    pub(crate) fn decide_resume(
        &self,
        asked: &ResumeRequested,
        artifacts: Artifacts,
        policy: &ResumePolicy,
        now: Millis,
    ) -> (ResumeDecided, ResumeVerdict) {
        let class = match &asked.interruption_class {
            Some(name) => InterruptionClass::by_name(name).ok_or_else(|| name.clone()),
            None => self.interruption_class(policy),
        };
        let resume = &self.state.resume;
        let named = |node: &str| asked.approve.iter().chain(&asked.done).any(|named| named == node);
        let safe = |step: &InterruptedStep| named(&step.node) || step.may_repeat();
        let facts = ResumeFacts {
            point: Some(self.resume_point()),
            class: class.as_ref().ok().copied(),
            safe: self.interrupted_steps().iter().all(safe),
            artifacts,
            attempts: resume.attempts,
            last_attempt: resume.last_at,
            force: asked.force,
        };
        let verdict = evaluate_resume(&facts, policy, now);
        let decided = ResumeDecided {
            event: ResumeDecided::EVENT.to_owned(),
            run_id: self.key.id.to_string(),
            interruption_class: class.map_or_else(|name| name, |class| class.name().to_owned()),
            eligible: verdict.code == super::ReasonCode::Allowed,
            reason_code: verdict.code,
            cooldown_seconds_remaining: verdict.remaining_seconds(),
            attempt: resume.attempts + 1,
            max_attempts: policy.max_attempts,
            at: rfc3339(now),
            actor: asked.by.clone(),
        };
        (decided, verdict)
    }
}

/// Whether work that was interrupted so is not known to have failed: whoever had it could not go on.
pub(crate) fn is_cut_off(class: &str) -> bool {
    !matches!(
        InterruptionClass::by_name(class),
        Some(InterruptionClass::ToolFailure | InterruptionClass::Timeout)
    )
}
