//! What the gates are told by their configs.

use std::collections::BTreeSet;

use super::Work;
use super::build::Builder;
use crate::definition::NodeDefinition;
use crate::fields::{Fields, Findings};
use crate::interrupt::Named;
use crate::{Json, JsonMap, JsonTemplate, LadderCall};

/// A node that asks.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) form: Form,
    /// Its config, whose texts may have expressions in them.
    pub(crate) template: JsonTemplate,
    /// The config itself, if it has none.
    pub(crate) plain: Option<JsonMap>,
}

/// How a gate asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `core.approvalGate`.
    Approval,
    /// `core.clarificationGate`.
    Clarification,
    /// `core.interrupt`.
    Interrupt,
    /// `core.hitl.approval-request`.
    ApprovalRequest,
    /// `core.hitl.form-request`.
    Fields,
    /// `core.hitl.ask-user`.
    AskUser,
    /// `core.conversationGate`.
    Conversation,
}

impl Form {
    /// The keys of its config. A port of the same name takes the place of one.
    pub(crate) fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Approval => &[
                "title",
                "description",
                "actions",
                "artifactId",
                "artifactType",
                "artifactData",
                "requiredApprovals",
                "approversList",
                "rejectionPolicy",
                "approverGroupRefs",
                "approverRoleRefs",
                "audience",
                "overrideBypassesQuorum",
                "profile",
                "key",
                "resumeSchema",
                "timeoutMs",
                "timeoutSec",
            ],
            Self::Clarification => {
                &["questions", "contextType", "context", "key", "resumeSchema", "timeoutMs"]
            }
            Self::Interrupt => &["kind", "key", "data", "resumeSchema", "timeoutMs", "interrupts"],
            Self::ApprovalRequest => &[
                "title",
                "description",
                "artifactId",
                "artifactType",
                "artifactData",
                "actions",
                "approvers",
                "approverGroupRefs",
                "approverRoleRefs",
                "audience",
                "quorum",
                "rejectionPolicy",
                "deadlineSeconds",
                "key",
                "resumeSchema",
            ],
            Self::Conversation => &[
                "lifecycle",
                "conversationId",
                "title",
                "initialPrompt",
                "prompt",
                "prompts",
                "outcomeSchema",
                "turnCount",
                "reason",
                "timeoutMs",
                "mockAutoResume",
            ],
            Self::Fields => &["formSchema", "contextType", "key", "resumeSchema", "deadlineSeconds"],
            Self::AskUser => &[
                "question",
                "schema",
                "responseType",
                "choices",
                "contextType",
                "context",
                "key",
                "resumeSchema",
                "deadlineSeconds",
            ],
        }
    }

    /// Whether it asks by the second name of the primitive.
    pub(crate) fn uses_alias(self) -> bool {
        matches!(self, Self::ApprovalRequest | Self::Fields | Self::AskUser)
    }
}

impl Gate {
    pub(crate) fn read(form: Form, config: &JsonMap, fields: &mut Fields<'_>) -> Option<Self> {
        for key in form.keys() {
            fields.any(key);
        }
        let place = fields.place("");
        let place = place.trim_end_matches('.').to_owned();
        let template = JsonTemplate::parse(&Json::of(config));
        let template =
            template.map_err(|message| fields.findings().objection(place.clone(), message)).ok()?;
        if template.secrets().next().is_some() {
            let message = "what people are shown can't hold a secret; remove it";
            fields.findings().objection(place.clone(), message);
        }
        let plain = template.is_plain().then(|| config.clone());
        Some(Self { form, template, plain })
    }

    /// Objects to a ladder that no question of the gate could have.
    pub(crate) fn check_ladder(&self, ladder: Option<&LadderCall>, place: &str, findings: &mut Findings) {
        let Some(ladder) = ladder else { return };
        for ask in self.foreseen().iter().filter_map(|payload| self.read_payload(payload).ok()) {
            if let Err(unfit) = ladder.check_for(&ask, self.form) {
                findings.objection(format!("{place}.{}", unfit.key), unfit.message);
                return;
            }
        }
    }

    /// Objects to what could never be asked. What ports take the place of is only known later.
    pub(crate) fn check(&self, place: &str, findings: &mut Findings) {
        let talk = self.plain.as_ref().filter(|_| self.form == Form::Conversation);
        if let Some(message) = talk.and_then(crate::gate::talk_objection) {
            findings.objection(place, message);
        }
        for payload in self.foreseen() {
            let Err(problems) = self.read_payload(&payload) else { continue };
            for problem in problems {
                // The settings of most gates are the data itself.
                let below = problem.place.strip_prefix("data.").unwrap_or(&problem.place);
                let below = if self.form == Form::Interrupt { &problem.place } else { below };
                findings.objection(format!("{place}.{below}"), problem.message);
            }
        }
    }
}

impl Builder<'_> {
    /// Rules that nothing would follow, or that nobody could.
    pub(super) fn check_rules(&mut self, node: &NodeDefinition, work: &Work) {
        let (place, rules) = (&node.place, &node.abide.approval);
        if rules.is_empty() {
            return;
        }
        let other = |form| !matches!(form, Form::Approval | Form::ApprovalRequest | Form::Interrupt);
        if matches!(work, Work::Gate(gate) if other(gate.form)) {
            let message = "'approval' and 'artifactSchema' are about decisions, and nobody is asked for one here; remove \
                           them, or ask with core.approvalGate";
            self.findings.objection(format!("{place}.settings.abide"), message);
        }
        let listed = node.config.get("approversList").and_then(|list| list.parse::<BTreeSet<String>>().ok());
        let plain = |name: &String| matches!(Named::of(name), Named::Principal(_)) && !name.contains("{{");
        let alone =
            ["approverGroupRefs", "approverRoleRefs"].iter().all(|key| !node.config.contains_key(*key));
        if let Some(people) = listed.filter(|list| alone && !list.is_empty() && list.iter().all(plain))
            && rules.across_groups.len() > people.len()
        {
            let message = format!(
                "somebody of {} groups has to accept, each somebody else, but 'approversList' names {} who may; name more, \
                 or ask fewer groups",
                rules.across_groups.len(),
                people.len()
            );
            self.findings.objection(format!("{place}.settings.abide.approval.acrossGroups"), message);
        }
    }
}
