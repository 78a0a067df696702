//! Runs that wait for others, and groups of runs.

use std::collections::BTreeMap;

use abide_core::{Key, MemberRow, Role, RunId, Status, TenantId};

use crate::store::Answer;
use crate::{Listed, MessageRow};

/// What a run or a group knows of another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// The highest sequence that it heard from it.
    pub heard: Option<u64>,
    /// It is a member.
    pub member: Option<MemberRow>,
}

/// That an agent is to work on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignmentRow {
    /// Where it lies among all that was ever said of the tenant's agents: what is committed later lies later.
    pub place: u64,
    /// The run.
    pub run: RunId,
}

/// Runs that wait for others, and groups of runs.
pub trait Containers: Send + Sync {
    /// How often a run of the tenant that was there already was made to wait for another. A commit that does so holds only
    /// if that is still so.
    fn circle_version(&self, tenant: TenantId) -> Answer<'_, u64>;

    /// Whether a run waits for another, directly or by way of others: because it was told to, or because it started them.
    fn waits_for(&self, key: Key, other: RunId) -> Answer<'_, bool>;

    /// The runs that want to hear how a run stands because they wait for it, those behind `after`, at most `limit`.
    fn dependents(&self, key: Key, after: Option<RunId>, limit: usize) -> Answer<'_, Vec<(RunId, Status)>>;

    /// Whether a run has asked for another one as its child, and whether that goes with it then.
    fn asked_for(&self, parent: Key, child: RunId) -> Answer<'_, Option<bool>>;

    /// How many children of a run there are of each status. Those that have not started yet have none.
    fn child_counts(&self, parent: Key) -> Answer<'_, Vec<(Option<Status>, u64)>>;

    /// Lists the groups of a tenant, newest first, those older than `before`, at most `limit`.
    fn groups(&self, tenant: TenantId, before: Option<RunId>, limit: usize) -> Answer<'_, Vec<Listed>>;

    /// A member of a group.
    fn member(&self, group: Key, run: RunId) -> Answer<'_, Option<MemberRow>>;

    /// What a run or a group knows of these others. Of those that it knows nothing of, nothing is said.
    fn known_of(&self, key: Key, others: Vec<RunId>) -> Answer<'_, BTreeMap<RunId, Known>>;

    /// The members of a group, those behind `after`, at most `limit`; only those that stand so, if that is given.
    fn members(
        &self,
        group: Key,
        statuses: Vec<Status>,
        after: Option<RunId>,
        limit: usize,
    ) -> Answer<'_, Vec<MemberRow>>;

    /// What an agent is to work on: what was said behind this place, oldest first, at most `limit`. Nothing is ever said at a
    /// place before one that was read.
    fn assignments(
        &self,
        tenant: TenantId,
        agent: String,
        after: Option<u64>,
        limit: usize,
    ) -> Answer<'_, Vec<AssignmentRow>>;

    /// The last place at which something was said of an agent of the tenant.
    fn last_assignment(&self, tenant: TenantId) -> Answer<'_, u64>;

    /// What one has said to another that nobody has delivered, in its order.
    fn words(&self, sender: Key, receiver: RunId) -> Answer<'_, Vec<MessageRow>>;

    /// The groups that a run belongs to, at most `limit`.
    fn groups_of(&self, run: Key, limit: usize) -> Answer<'_, Vec<(RunId, Role)>>;
}
