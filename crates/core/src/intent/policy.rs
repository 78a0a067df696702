//! What has to be kept to by those who work on an intent.

use serde::{Deserialize, Serialize};

use super::{Intent, RequestKind, RequestStatus};
use crate::{Json, JsonMap, Millis, Rejection, Run, limits};

/// When an intent may be completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionMode {
    /// Whenever somebody says so.
    #[default]
    Auto,
    /// When somebody has approved it.
    RequireApproval,
    /// When so large a share of its agents has.
    Quorum,
}

/// Who may work on an intent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteScope {
    /// Everybody.
    #[default]
    Any,
    /// Those who are assigned.
    AssignedOnly,
}

/// What has to be kept to, as it was written, and as it is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    /// As it was written.
    pub written: JsonMap,
    /// When it may be completed.
    #[serde(default)]
    pub completion: CompletionMode,
    /// Who may work on it.
    #[serde(default)]
    pub write_scope: WriteScope,
    /// The only agents that may work on it, if some are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_agents: Vec<String>,
    /// How large a share of its agents has to approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum_threshold: Option<f64>,
    /// What it may cost, in whatever costs are told in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    /// Whoever sends it elsewhere has to say why.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub require_reason: bool,
}

/// The share of agents that has to approve where none is given.
const QUORUM_DEFAULT: f64 = 0.6;

/// What an approval has to be about to let an intent be completed.
const COMPLETE: &str = "complete";

impl Policy {
    /// Reads a policy, or says what to change.
    pub fn read(json: &Json) -> Result<Self, Rejection> {
        let wrong =
            |field: &str, message: String| Rejection::invalid(format!("governance_policy.{field}"), message);
        let written: JsonMap =
            json.parse().map_err(|_| Rejection::invalid("governance_policy", "a policy is an object"))?;
        if json.text().len() > limits::CONFIGURABLE_BYTES_MAX {
            let message = format!("a policy takes at most {} bytes", limits::CONFIGURABLE_BYTES_MAX);
            return Err(Rejection::invalid("governance_policy", message));
        }
        let given = |key: &str| written.get(key).filter(|value| value.type_name() != "null");
        let word = |key: &str, known: &str| wrong(key, format!("'{key}' is one of {known}"));
        let completion = given("completion_mode").map(Json::parse).transpose();
        let completion =
            completion.map_err(|_| word("completion_mode", "auto, require_approval and quorum"))?;
        let write_scope = given("write_scope").map(Json::parse).transpose();
        let write_scope = write_scope.map_err(|_| word("write_scope", "any and assigned_only"))?;
        let allowed = given("allowed_agents").map(Json::parse).transpose();
        let allowed = allowed
            .map_err(|_| wrong("allowed_agents", "'allowed_agents' is a list of agents".to_owned()))?;
        let number = |key: &str, fits: fn(f64) -> bool, told: &str| {
            let number = given(key).map(Json::parse::<f64>).transpose().ok();
            let number = number.filter(|number| number.is_none_or(fits));
            number.ok_or_else(|| wrong(key, format!("'{key}' is {told}")))
        };
        let quorum = number(
            "quorum_threshold",
            |share| share > 0.0 && share <= 1.0,
            "a share: more than 0, at most 1",
        )?;
        let max_cost = number("max_cost", |cost| cost >= 0.0, "a number that is not negative")?;
        let reason = given("require_status_reason").map(Json::parse::<bool>).transpose();
        let reason = reason.map_err(|_| {
            wrong("require_status_reason", "'require_status_reason' is true or false".to_owned())
        })?;
        Ok(Self {
            completion: completion.unwrap_or_default(),
            write_scope: write_scope.unwrap_or_default(),
            allowed_agents: allowed.unwrap_or_default(),
            quorum_threshold: quorum,
            max_cost,
            require_reason: reason.unwrap_or(false),
            written,
        })
    }
}

impl Policy {
    /// How large a share of the agents has to approve, where that is wanted.
    pub fn quorum(&self) -> f64 {
        self.quorum_threshold.unwrap_or(QUORUM_DEFAULT)
    }
}

fn violation(rule: &'static str, message: String) -> Rejection {
    Rejection::Governed { rule, message }
}

impl Run {
    /// What has to be kept to, if anything has.
    pub fn policy(&self) -> Option<&Policy> {
        self.intent().and_then(|intent| intent.policy.as_deref())
    }

    /// Refuses whoever may not work on it.
    pub(super) fn check_may_write(&self, agent: &str) -> Result<(), Rejection> {
        let Some(policy) = self.policy() else { return Ok(()) };
        let assigned = || self.intent().is_some_and(|intent| intent.agents.contains_key(agent));
        if policy.write_scope == WriteScope::AssignedOnly && !assigned() {
            let message = format!(
                "the policy has only those work on the intent who are assigned to it, and '{agent}' is not; assign them first"
            );
            return Err(violation("write_scope", message));
        }
        self.check_allowed(agent)
    }

    /// Refuses to have something else kept to by somebody whose affair that is not: a policy that stands is replaced and
    /// removed by whoever set it, by whoever made the intent, and by those who are named as its administrators. One that
    /// wants approvals may be there because of whoever made it, so that alone does not do.
    pub(super) fn check_may_govern(&self, agent: &str, now: Millis) -> Result<(), Rejection> {
        let Some(policy) = self.policy() else { return Ok(()) };
        let by = self.intent().and_then(|intent| intent.policy_by.as_deref());
        let set = by.map_or_else(|| self.is_maker(agent), |by| by == agent);
        let made = policy.completion == CompletionMode::Auto && self.is_maker(agent);
        if set || made || self.names_admin(agent, now) {
            return Ok(());
        }
        let whose = by.map_or_else(|| "whoever made the intent".to_owned(), |by| format!("'{by}'"));
        let message = format!(
            "the policy was set by {whose}, and '{agent}' may not replace or remove it; ask them, or somebody whom they \
             have named in the access list with the permission admin"
        );
        Err(violation("governance_policy", message))
    }

    /// Refuses agents that may have no part in it.
    pub(super) fn check_allowed(&self, agent: &str) -> Result<(), Rejection> {
        let Some(policy) = self.policy() else { return Ok(()) };
        if policy.allowed_agents.is_empty() || policy.allowed_agents.iter().any(|allowed| allowed == agent) {
            return Ok(());
        }
        let message =
            format!("the policy names the agents that may work on the intent, and '{agent}' is none of them");
        Err(violation("allowed_agents", message))
    }

    /// Refuses a change of where it stands for which no reason is given, if one has to be.
    pub(super) fn check_reasoned(&self, reason: Option<&String>) -> Result<(), Rejection> {
        let wanted = self.policy().is_some_and(|policy| policy.require_reason);
        if wanted && reason.is_none_or(|reason| reason.trim().is_empty()) {
            let message = "the policy wants a 'reason' for every change of the status; add one".to_owned();
            return Err(violation("require_status_reason", message));
        }
        Ok(())
    }

    /// Refuses to have it completed before those have approved who have to.
    pub(super) fn check_approved(&self) -> Result<(), Rejection> {
        let Some(policy) = self.policy() else { return Ok(()) };
        let approved = self.intent().map_or(0, approvals);
        match policy.completion {
            CompletionMode::Auto => Ok(()),
            CompletionMode::RequireApproval if approved > 0 => Ok(()),
            CompletionMode::RequireApproval => {
                let message = "the policy wants somebody to approve that the intent is completed: request an approval with \
                               action 'complete', and have it approved";
                Err(violation("completion_mode", message.to_owned()))
            }
            CompletionMode::Quorum => {
                let agents = self.intent().map_or(0, |intent| intent.agents.len());
                let share = policy.quorum();
                // A share is reached and not rounded down to; what is not quite whole for its digits is whole.
                let needed = ((agents as f64 * share - 1e-9).ceil() as usize).max(1);
                if agents > 0 && approved >= needed {
                    return Ok(());
                }
                let message = format!(
                    "the policy wants {needed} approvals with action 'complete' ({share} of {agents} agents), and there are {approved}"
                );
                Err(violation("completion_mode", message))
            }
        }
    }

    /// Refuses a cost that would be more than it may have, with what it has cost so far.
    pub fn check_cost(&self, so_far: f64, amount: f64) -> Result<(), Rejection> {
        let most = self.policy().and_then(|policy| policy.max_cost);
        match most.filter(|most| so_far + amount > *most) {
            None => Ok(()),
            Some(most) => {
                let message = format!(
                    "the policy lets the intent cost {most}, and with {amount} it would have cost {}",
                    so_far + amount
                );
                Err(violation("max_cost", message))
            }
        }
    }
}

/// How many have approved that an intent is completed: each who did counts once.
fn approvals(intent: &Intent) -> usize {
    let approved = intent.requests.values().filter(|request| {
        request.kind == RequestKind::Approval
            && request.status == RequestStatus::Approved
            && request.action == COMPLETE
    });
    let by: std::collections::BTreeSet<&Option<String>> =
        approved.map(|request| &request.decided_by).collect();
    by.len()
}
