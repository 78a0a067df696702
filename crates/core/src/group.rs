//! Groups: several runs that somebody looks at together.
//!
//! A group is a run of its own, with one node that nobody ever does: it is through when somebody closes it. Its members
//! are rows beside its journal, and it is told how they stand; what it keeps of that are counts. It never takes over what
//! becomes of a member: a group whose member waits for people is as active as before.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::command::{Draft, Start};
use crate::effect::{Effect, MemberRow};
use crate::event::{
    BudgetExceeded, Governance, GovernanceSet, GroupSpec, MemberAdded, MemberRemoved, MemberReported,
    RunEvent,
};
use crate::fold::Folding;
use crate::planning::check_text;
use crate::{Graph, Json, Key, Millis, Rejection, Run, RunId, Salt, Status, Tidings, Watch, limits};

/// The definition that groups follow.
const DEFINITION: &str = concat!(
    r#"{"id":"abide-group","name":"Group","version":"1","triggers":[],"variables":[],"metadata":{},"settings":{},"#,
    r#""nodes":[{"id":"self","typeId":"core.byHand","name":"Members","position":{"x":0,"y":0},"config":{},"inputs":{}}],"#,
    r#""edges":[]}"#
);

/// The id of the definition that groups follow.
pub const GROUP_WORKFLOW: &str = "abide-group";

/// Millionths of a dollar in a cent.
const MICROS_PER_CENT: u64 = 10_000;

/// What a group has heard of its members, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// What it is, and what holds for its members.
    pub spec: GroupSpec,
    /// How often what holds for its members has changed.
    #[serde(default)]
    pub governance_version: u64,
    /// How many members there are of each status, by its name in OpenIntent's words.
    #[serde(default)]
    pub by_status: BTreeMap<String, u64>,
    /// How many members there are.
    #[serde(default)]
    pub total: u64,
    /// What they have cost together.
    #[serde(default)]
    pub cost_micros: u64,
    /// That was more than they may, and was told.
    #[serde(default)]
    pub over_budget: bool,
}

/// How a group stands, going by its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Every member has completed, and there is one.
    Completed,
    /// A member has failed or was abandoned.
    Failed,
    /// Neither.
    InProgress,
}

impl Aggregate {
    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::InProgress => "in_progress",
        }
    }
}

/// What may be asked of a group. What the group knew of the member is read from its rows; the commit holds only if that
/// is still so.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupCommand {
    /// A run belongs to it from now on.
    Add {
        /// The member.
        member: MemberAdded,
        /// It belongs to it already.
        known: Option<MemberRow>,
    },
    /// A run does not belong to it any more.
    Remove {
        /// Which.
        run: RunId,
        /// What is known of it.
        known: Option<MemberRow>,
        /// Who says so.
        by: Option<String>,
    },
    /// Other things hold for its members.
    Govern {
        /// What holds from now on.
        set: GovernanceSet,
        /// Which version whoever says so has seen, if that is to be the one that is replaced.
        version: Option<u64>,
    },
    /// It is done with.
    Close,
}

impl Group {
    /// How many members wait for people.
    pub fn suspended(&self) -> u64 {
        self.count(Status::WaitingInput)
    }

    /// How it stands, going by its members.
    pub fn aggregate(&self) -> Aggregate {
        if self.count(Status::Failed) > 0 {
            return Aggregate::Failed;
        }
        if self.total > 0 && self.count(Status::Completed) == self.total {
            return Aggregate::Completed;
        }
        Aggregate::InProgress
    }

    /// How many of a hundred members have completed.
    pub fn completion_percentage(&self) -> u64 {
        (self.count(Status::Completed) * 100).checked_div(self.total).unwrap_or(0)
    }

    fn count(&self, status: Status) -> u64 {
        self.by_status.get(status.intent_name()).copied().unwrap_or(0)
    }

    fn is_reached(&self) -> bool {
        let share = self.count(Status::Completed) as f64 / self.total.max(1) as f64;
        let threshold = self.spec.governance.auto_complete_threshold;
        self.total > 0 && threshold.is_some_and(|threshold| share >= threshold)
    }

    fn is_over_budget(&self) -> Option<u64> {
        let limit = self.spec.governance.budget_limit_cents?;
        (self.cost_micros > limit.saturating_mul(MICROS_PER_CENT)).then_some(limit)
    }

    /// Refuses what rests on a row that is behind the group: no member stands as it says any more. Whoever read it reads it
    /// again. If another member still does, the commit finds out.
    fn check_stands(&self, known: Status) -> Result<(), Rejection> {
        if self.count(known) == 0 { Err(Rejection::HeardBefore) } else { Ok(()) }
    }

    fn enter(&mut self, status: Status) {
        *self.by_status.entry(status.intent_name().to_owned()).or_default() += 1;
    }

    fn leave(&mut self, status: Status) -> Result<(), String> {
        let count = self.by_status.get_mut(status.intent_name()).filter(|count| **count > 0);
        *count.ok_or("a member stood as none does")? -= 1;
        self.by_status.retain(|_, count| *count > 0);
        Ok(())
    }
}

impl Governance {
    /// Refuses what makes no sense beside what holds already.
    fn check(&self, before: Option<Millis>, now: Millis) -> Result<(), Rejection> {
        // One that has passed would abandon everybody who waits at once, and a slip of the pen is the likelier reason.
        if self.deadline.is_some_and(|deadline| deadline <= now && before != Some(deadline)) {
            let message = "'deadline' is a time to come; leave it out for none";
            return Err(Rejection::invalid("governance.deadline", message));
        }
        let share = self.auto_complete_threshold;
        if share.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
            let message = "'autoCompleteThreshold' is a share of the members: more than 0, and at most 1";
            return Err(Rejection::invalid("governance.autoCompleteThreshold", message));
        }
        check_kept("governance.sharedConstraints", self.shared_constraints.as_ref())?;
        check_kept("governance", self.written.as_ref())
    }
}

impl GroupSpec {
    /// Refuses what makes no sense.
    pub(crate) fn check(&self, now: Millis) -> Result<(), Rejection> {
        let chars = self.name.chars().count();
        if !(1..=limits::GROUP_NAME_CHARS_MAX).contains(&chars) || self.name.chars().any(char::is_control) {
            let most = limits::GROUP_NAME_CHARS_MAX;
            let message = format!("'name' has 1 to {most} characters, and no control characters");
            return Err(Rejection::invalid("name", message));
        }
        let description = self.description.as_ref().map_or(0, |text| text.chars().count());
        if description > limits::REASON_CHARS_MAX {
            let message = format!("'description' has at most {} characters", limits::REASON_CHARS_MAX);
            return Err(Rejection::invalid("description", message));
        }
        if let Some(by) = &self.created_by {
            check_text("created_by", by, limits::PRINCIPAL_CHARS_MAX)?;
        }
        check_kept("metadata", self.metadata.as_ref())?;
        self.governance.check(None, now)
    }
}

/// Refuses what is too large to be kept in every snapshot, or too deep to be shown again.
fn check_kept(field: &str, given: Option<&Json>) -> Result<(), Rejection> {
    let Some(given) = given else { return Ok(()) };
    let (bytes, levels) = (limits::CONFIGURABLE_BYTES_MAX, limits::ASK_DEPTH_MAX);
    if given.text().len() > bytes || given.depth() > levels {
        let message = format!("'{field}' takes at most {bytes} bytes and {levels} levels");
        return Err(Rejection::invalid(field, message));
    }
    Ok(())
}

impl Start {
    /// A new group.
    pub fn group(key: Key, salt: Salt, spec: GroupSpec) -> Self {
        let graph = Graph::read(DEFINITION.as_bytes()).expect("the definition is written above");
        Self { group: Some(spec), ..Self::of(key, salt, Arc::new(graph)) }
    }
}

/// What may be read.
impl Run {
    /// What it has heard of its members, if it is a group.
    pub fn group(&self) -> Option<&Group> {
        self.state.group.as_deref()
    }
}

/// What a decision does.
impl Run {
    pub(crate) fn decide_group(&mut self, draft: &mut Draft, command: GroupCommand) -> Result<(), Rejection> {
        self.check_running()?;
        let Some(group) = self.group() else { return Err(Rejection::NoGroup) };
        match command {
            GroupCommand::Add { known: Some(_), .. } => {
                return Err(Rejection::invalid("runId", "the run belongs to the group already"));
            }
            GroupCommand::Add { member, known: None } => {
                if group.total >= limits::MEMBERS_MAX {
                    let message = format!("a group has at most {} members", limits::MEMBERS_MAX);
                    return Err(Rejection::invalid("runId", message));
                }
                draft.emit_run(self, RunEvent::MemberAdded(Box::new(member)), None);
            }
            GroupCommand::Remove { known: None, .. } => return Err(Rejection::NoMember),
            GroupCommand::Remove { run, known: Some(known), by } => {
                group.check_stands(known.status)?;
                let removed = MemberRemoved { run, was: known.status, cost_micros: known.cost_micros, by };
                draft.emit_run(self, RunEvent::MemberRemoved(removed), None);
            }
            GroupCommand::Govern { set, version } => {
                let found = group.governance_version;
                if let Some(expected) = version.filter(|version| *version != found) {
                    return Err(Rejection::VersionConflict { expected, found });
                }
                set.governance.check(group.spec.governance.deadline, draft.now)?;
                draft.emit_run(self, RunEvent::GovernanceSet(Box::new(set)), None);
            }
            GroupCommand::Close => {
                let unfinished = group.total - group.count(Status::Completed);
                if unfinished > 0 && !group.spec.governance.allow_partial_completion {
                    return Err(Rejection::GroupUnfinished { unfinished });
                }
                self.close_group(draft);
                return Ok(());
            }
        }
        self.settle_group(draft);
        Ok(())
    }

    /// A member tells how it stands.
    pub(crate) fn hear_member(
        &mut self,
        draft: &mut Draft,
        tidings: &Tidings,
        known: Option<&MemberRow>,
    ) -> Result<(), Rejection> {
        // Whoever was removed meanwhile, or was heard before, has nothing new to say.
        let known = known.filter(|known| known.heard < tidings.sequence).ok_or(Rejection::HeardBefore)?;
        // A member that has ended stays so, also when it was removed since and nobody knows anything of it.
        if known.status.is_terminal() && known.status != tidings.status {
            return Err(Rejection::HeardBefore);
        }
        self.group().map_or(Ok(()), |group| group.check_stands(known.status))?;
        let reported = MemberReported {
            run: tidings.from,
            sequence: tidings.sequence,
            was: known.status,
            status: tidings.status,
            suspended: tidings.suspended,
            was_suspended: known.suspended.is_some(),
            cost_micros: tidings.cost_micros,
            cost_was: known.cost_micros,
        };
        draft.emit_run(self, RunEvent::MemberReported(Box::new(reported)), None);
        self.settle_group(draft);
        Ok(())
    }

    fn settle_group(&mut self, draft: &mut Draft) {
        let Some(group) = self.group() else { return };
        let cause = draft.last_sequence();
        if let Some(limit_cents) = group.is_over_budget().filter(|_| !group.over_budget) {
            let exceeded = BudgetExceeded { limit_cents, cost_micros: group.cost_micros };
            draft.emit_run(self, RunEvent::BudgetExceeded(exceeded), cause);
        }
        if self.group().is_some_and(Group::is_reached) {
            self.close_group(draft);
        }
    }

    fn close_group(&mut self, draft: &mut Draft) {
        self.complete(draft, 0, None, false);
        self.advance(draft);
    }
}

/// What an event changes.
impl Run {
    pub(crate) fn fold_group(&mut self, event: &RunEvent, folding: &mut Folding<'_>) -> Result<(), String> {
        let (from, sequence) = (self.key.id, folding.sequence);
        let group = self.state.group.as_deref_mut().ok_or("a run that is no group has members")?;
        let deadline = group.spec.governance.deadline;
        let at = Some(folding.at);
        let watch = |watching, deadline| Watch { from, sequence, watching, at, deadline };
        match event {
            RunEvent::MemberAdded(added) => {
                group.enter(added.status);
                group.total += 1;
                let row = MemberRow::of(added, folding.at);
                folding.effects.push(Effect::Enlist(row));
                folding.effects.push(Effect::Bid { to: added.run, watch: watch(true, deadline) });
            }
            RunEvent::MemberRemoved(removed) => {
                group.leave(removed.was)?;
                group.total = group.total.checked_sub(1).ok_or("a member leaves a group that has none")?;
                group.cost_micros = group.cost_micros.saturating_sub(removed.cost_micros);
                group.over_budget &= group.is_over_budget().is_some();
                let (was, cost_micros) = (removed.was, removed.cost_micros);
                folding.effects.push(Effect::Dismiss { run: removed.run, was, cost_micros });
                folding.effects.push(Effect::Bid { to: removed.run, watch: watch(false, None) });
                self.forget_coordinated(removed.run);
            }
            RunEvent::MemberReported(told) => {
                group.leave(told.was)?;
                group.enter(told.status);
                group.cost_micros =
                    group.cost_micros.saturating_sub(told.cost_was).saturating_add(told.cost_micros);
                folding.effects.push(Effect::NoteMember((**told).clone()));
                self.fold_coordinated(told, folding);
            }
            RunEvent::GovernanceSet(set) => {
                let next = set.governance.deadline;
                group.spec.governance = set.governance.clone();
                group.governance_version += 1;
                group.over_budget &= group.is_over_budget().is_some();
                if next != deadline {
                    folding.effects.push(Effect::BidAll(watch(true, next)));
                }
            }
            RunEvent::BudgetExceeded(_) => group.over_budget = true,
            _ => {}
        }
        Ok(())
    }

    /// Nobody has to do with a group that is over.
    pub(crate) fn disband(&mut self, folding: &mut Folding<'_>) {
        if self.state.group.is_some() {
            let (from, sequence) = (self.key.id, folding.sequence);
            let watch = Watch { from, sequence, watching: false, at: Some(folding.at), deadline: None };
            folding.effects.push(Effect::BidAll(watch));
        }
    }
}
