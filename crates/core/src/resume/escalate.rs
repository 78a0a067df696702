//! A run that may not be resumed by itself is held, and people are asked.
//!
//! The question is an interrupt like any other, on a node that no definition has. It has no fallback: nobody's silence
//! resumes a run.

use serde_json::json;

use super::{InterruptedStep, InterruptionClass, RESUME_NODE, ReasonCode};
use crate::climb::LadderTerms;
use crate::command::Draft;
use crate::event::{
    Event, InterruptRequested, NodeEvent, ResumeDecided, ResumeEscalated, ResumeRequested, RunEvent,
};
use crate::graph::Form;
use crate::{Artifacts, Ask, InterruptId, InterruptKind, Json, Run, limits};

impl Run {
    /// Holds the run and asks people. Without a reason it could be resumed, but is not by itself.
    pub(crate) fn escalate_resume(&mut self, draft: &mut Draft, code: Option<ReasonCode>) {
        let decided = self.last_word(draft);
        let escalated =
            ResumeEscalated { reason_code: code, interruption_class: decided.interruption_class.clone() };
        let cause = draft.last_sequence();
        draft.emit_run(self, RunEvent::ResumeEscalated(escalated), cause);
        let steps = self.interrupted_steps();
        let data = self.question_data(&steps, &decided, code);
        let ask = Ask {
            kind: InterruptKind::Approval,
            key: None,
            resume_schema: None,
            timeout_ms: None,
            data: data.clone(),
        };
        let terms = LadderTerms { call: None, agent: None, form: Form::Interrupt };
        // A platform's ladder that does not fit must not keep the question from being asked.
        let ladder = self.ladder_of(&terms, &ask, &draft.defaults).ok().flatten();
        let interrupt_id = InterruptId::of(&self.salt, self.head.next);
        let requested = InterruptRequested {
            interrupt_id,
            kind: InterruptKind::Approval,
            key: format!("{RESUME_NODE}:{}", self.head.next),
            call: 1,
            keyless: true,
            data,
            resume_schema: None,
            timeout_ms: None,
            ladder,
            respondents: Vec::new(),
            hooks: None,
            asked_by: Vec::new(),
            rules: None,
            topic: None,
            sensitive: false,
            sensitive_answer: false,
            checkpoint: None,
        };
        let event = NodeEvent::InterruptRequested(Box::new(requested));
        let cause = draft.last_sequence();
        draft.emit(self, &Event::Node { node: self.graph.own_node.clone(), event }, cause);
        self.escalate(draft, None, interrupt_id, 1);
    }

    /// What was decided last, or what would be: nothing is decided about a run that is not resumed by itself.
    fn last_word(&self, draft: &Draft) -> ResumeDecided {
        let asked = ResumeRequested::plain(super::BY_SYSTEM);
        let policy = self.resume_policy(&draft.defaults);
        self.decide_resume(&asked, Artifacts::READABLE, &policy, draft.now).0
    }

    fn question_data(
        &self,
        steps: &[InterruptedStep],
        decided: &ResumeDecided,
        code: Option<ReasonCode>,
    ) -> Json {
        let first = steps.first().map_or("", |step| &*step.node);
        let title = match steps.len() {
            1 => format!("Resume? Node '{first}' was interrupted: {}", decided.interruption_class),
            more => format!(
                "Resume? {more} nodes were interrupted, '{first}' first: {}",
                decided.interruption_class
            ),
        };
        let told: Vec<serde_json::Value> = steps
            .iter()
            .map(|step| {
                json!({
                    "node": &*step.node, "class": step.class, "code": step.error.code,
                    "message": step.error.message, "effect": step.effect(), "steps": step.steps,
                })
            })
            .collect();
        let known = InterruptionClass::by_name(&decided.interruption_class).is_some();
        let decided = ResumeDecided { reason_code: code.unwrap_or(decided.reason_code), ..decided.clone() };
        Json::of(&json!({
            "artifactId": format!("{RESUME_NODE}:{}", self.key.id),
            "artifactType": RESUME_NODE,
            "title": title.chars().take(limits::ASK_TITLE_CHARS_MAX).collect::<String>(),
            "description": if known { ANSWERS } else { UNKNOWN_CLASS },
            "actions": ["accept", "reject"],
            "artifactData": {
                "reasonCode": code.map(ReasonCode::name),
                "autoResume": code.is_some(),
                "interruptionClass": decided.interruption_class,
                "attempt": decided.attempt, "maxAttempts": decided.max_attempts,
                "interrupted": told,
                "checklist": self.checklist(steps, &decided),
            },
        }))
    }

    /// What to do about an interrupted run, step by step.
    pub(crate) fn checklist(&self, steps: &[InterruptedStep], decided: &ResumeDecided) -> Vec<String> {
        let mut list = Vec::new();
        for step in steps {
            list.push(format!(
                "Read what happened to node '{}' ({}): {} [{}].",
                step.node,
                step.class,
                crate::excerpt::excerpt_of(&step.error.message, MESSAGE_BYTES),
                step.error.code
            ));
            list.extend(step.effect_to_check().filter(|_| !step.may_repeat()));
            list.push(cause_to_mend(InterruptionClass::by_name(&step.class)).to_owned());
        }
        list.dedup();
        if decided.reason_code == ReasonCode::MissingArtifacts {
            list.push(
                "Run `abide verify`: something of the run can't be read. Restore a backup, or cut the journal off \
                 behind its last good event with `--force --truncate`."
                    .to_owned(),
            );
        }
        let unsafe_ones = steps
            .iter()
            .filter(|step| !step.may_repeat())
            .map(|step| format!(" --approve-step {}", step.node));
        let approve: String = unsafe_ones.collect();
        let run = self.key.id;
        let known = InterruptionClass::by_name(&decided.interruption_class).is_some();
        let blocked =
            decided.attempt > decided.max_attempts || decided.reason_code == ReasonCode::Cooldown || !known;
        let class = if known { "" } else { " --interruption-class CLASS" };
        let force = if blocked { format!(" --force --reason \"…\"{class}") } else { String::new() };
        list.push(format!("To go on: `abide resume now {run}{approve}{force}`."));
        if let Some(step) = steps.iter().find(|step| step.unknown && !step.may_repeat()) {
            let node = &step.node;
            list.push(format!(
                "If it was carried out after all: `abide resume now {run} --done '{node}=<what came of it, as JSON>'{force}`."
            ));
        }
        list.push(format!("To give up: reject the question in the inbox, or `abide run cancel {run}`."));
        list
    }
}

/// What the two answers mean.
const ANSWERS: &str =
    "Accept: the run goes on, and the named steps are done again. Reject: they fail for good.";

/// The same, if accepting alone would not help.
const UNKNOWN_CLASS: &str = "Nobody knows what interrupted the run, so it goes on only if you say what it was: `abide resume now \
                             --force --interruption-class CLASS`. Reject: the named steps fail for good.";

/// Bytes of a failure's words that a checklist repeats.
const MESSAGE_BYTES: usize = 400;

impl InterruptedStep {
    /// Whether its effect happened, as far as that is known.
    pub fn effect(&self) -> &'static str {
        if self.unknown { "unknown" } else { "none" }
    }

    /// Whether it may be done again without anybody's approval.
    pub fn may_repeat(&self) -> bool {
        self.idempotent && self.steps.is_empty() && !(self.unknown && self.irreversible)
    }

    fn effect_to_check(&self) -> Option<String> {
        let what = match self.steps.as_slice() {
            [] => format!("what node '{}' does", self.node),
            steps => {
                let names: Vec<String> =
                    steps.iter().map(|step| format!("'{}'", crate::excerpt::excerpt(step))).collect();
                format!("step {} of node '{}'", names.join(", "), self.node)
            }
        };
        let lasting = if self.irreversible { " It can't be undone." } else { "" };
        self.unknown.then(|| {
            format!("Find out at the other side whether {what} was carried out: it may or may not have been.{lasting}")
        })
    }
}

fn cause_to_mend(class: Option<InterruptionClass>) -> &'static str {
    match class {
        Some(InterruptionClass::ToolFailure) => {
            "See that what the step uses works again: the service it calls, the network, its credentials."
        }
        Some(InterruptionClass::Timeout) => {
            "See why it takes so long: whether the other side is slow, or the step's timeout too short."
        }
        Some(InterruptionClass::ContextReset) => {
            "See that a worker is there whose code fits the run, and that nothing it needs was thrown away."
        }
        Some(InterruptionClass::ProcessCrash) => {
            "Look into the log of the server or worker that died for why it did: its memory, a signal, a deployment."
        }
        None => {
            "This version does not know what interrupted it: upgrade, or name a class with `--interruption-class`."
        }
    }
}
