//! Runs that wait for others, groups of runs, and nodes that are done by hand.

use crate::children_api::{self, AddChild};
use crate::coordinator_api::{self, Coordinate, LeasesView};
use crate::graph_api::{self, AddDependency, GraphView, StandingView};
use crate::groups_api::{
    self, AddMember, GovernanceBody, GroupPage, GroupView, MakeGroup, MemberPage, Nothing,
};
use crate::hand_api::{self, ByHand, NodeView};
use crate::openwop::runs::Created;
use crate::operation::Operation;
use crate::page::PageQuery;
use crate::scope::Scope;

/// Why nothing can be done about a run any more, or never could.
const ENDED: [&str; 4] = ["run_over", "run_ending", "run_erased", "run_is_replay"];

pub(super) fn graphs() -> Vec<Operation> {
    const ALL: &str = "/v1/runs/{runId}/dependencies";
    vec![
        Operation::get(
            "/v1/runs/{runId}/graph",
            "showRunGraph",
            "What a run has to do with others: those it waits for, those that wait for it, its children, its groups.",
            graph_api::show,
        )
        .scope(Scope::RunsRead)
        .answers::<GraphView>(200, "As it stands.")
        .refuses(&["run_not_found", "run_erased"]),
        Operation::post(ALL, "addDependency", "Has a run wait for another one, too.", graph_api::add)
            .scope(Scope::RunsCancel)
            .takes::<AddDependency>()
            .idempotent()
            .answers::<StandingView>(201, "It waits, unless that one has completed.")
            .refuses(&["run_not_found", "dependency_not_found", "dependency_circle"])
            .refuses(&ENDED),
        Operation::delete(
            "/v1/runs/{runId}/dependencies/{upstreamId}",
            "removeDependency",
            "Has a run not wait for another one any more.",
            graph_api::remove,
        )
        .scope(Scope::RunsCancel)
        .answers::<StandingView>(200, "It does not.")
        .refuses(&["run_not_found", "dependency_not_found", "validation_error"])
        .refuses(&ENDED),
        Operation::post("/v1/runs/{runId}:activate", "activateRun", "Activates a draft.", graph_api::activate)
            .scope(Scope::RunsCreate)
            .may_take::<Nothing>()
            .idempotent()
            .answers::<StandingView>(200, "It begins, or is blocked.")
            .refuses(&["run_not_found", "run_not_draft"])
            .refuses(&ENDED),
    ]
}

pub(super) fn hands() -> Vec<Operation> {
    vec![
        Operation::post(
            "/v1/runs/{runId}/children",
            "addChild",
            "Has a run that is done by hand start a child, and wait for it.",
            children_api::add,
        )
        .scope(Scope::RunsCreate)
        .takes::<AddChild>()
        .idempotent()
        .answers::<Created>(201, "The child.")
        .refuses(&[
            "run_not_found",
            "workflow_not_found",
            "dependency_not_found",
            "dependency_circle",
            "validation_error",
            "node_not_claimed",
        ])
        .refuses(&ENDED),
        Operation::post(
            "/v1/runs/{runId}/hand",
            "actByHand",
            "Claims a node that is done by hand, gives it back, asks, or says what came of it.",
            hand_api::act,
        )
        .scope(Scope::WorkPerform)
        .takes::<ByHand>()
        .idempotent()
        .answers::<NodeView>(200, "The node as it stands then.")
        .refuses(&ENDED)
        .refuses(&[
            "run_not_found",
            "run_blocked",
            "node_claimed",
            "node_not_claimed",
            "node_asking",
            "upstream_intent_suspended",
            "unresolvable_input",
            "outputs_unfit",
            "children_unfinished",
        ]),
    ]
}

pub(super) fn coordinators() -> Vec<Operation> {
    const PATH: &str = "/v1/runs/{runId}/coordinator";
    vec![
        Operation::get(PATH, "showCoordinator", "Who coordinates a run or a group.", coordinator_api::show)
            .scope(Scope::RunsRead)
            .answers::<LeasesView>(200, "The lease that somebody has, and the last that somebody had.")
            .refuses(&["run_not_found", "run_erased"]),
        Operation::post(
            PATH,
            "coordinateRun",
            "Coordinates a run or a group, says that one is there, or is done with it.",
            coordinator_api::act,
        )
        .scope(Scope::WorkPerform)
        .takes::<Coordinate>()
        .idempotent()
        .answers::<LeasesView>(200, "The leases as they are then.")
        .refuses(&["run_not_found", "coordinator_not_found", "run_coordinated"])
        .refuses(&ENDED),
    ]
}

pub(super) fn groups() -> Vec<Operation> {
    const ALL: &str = "/v1/groups";
    const ONE: &str = "/v1/groups/{groupId}";
    const MEMBERS: &str = "/v1/groups/{groupId}/members";
    let over = ["group_not_found", "run_over", "run_erased", "run_is_replay"];
    vec![
        Operation::post(ALL, "makeGroup", "Makes a group of runs.", groups_api::make)
            .scope(Scope::RunsCreate)
            .takes::<MakeGroup>()
            .idempotent()
            .answers::<GroupView>(201, "The group, without members."),
        Operation::get(ALL, "listGroups", "The tenant's groups, newest first.", groups_api::list)
            .scope(Scope::RunsRead)
            .query::<PageQuery>()
            .answers::<GroupPage>(200, "A page of them."),
        Operation::get(ONE, "showGroup", "A group as it stands.", groups_api::show)
            .scope(Scope::RunsRead)
            .answers::<GroupView>(200, "As it stands.")
            .refuses(&["group_not_found", "run_erased"]),
        Operation::get(MEMBERS, "listMembers", "The members of a group, by id.", groups_api::members)
            .scope(Scope::RunsRead)
            .query::<PageQuery>()
            .answers::<MemberPage>(200, "A page of them.")
            .refuses(&["group_not_found"]),
        Operation::post(MEMBERS, "addMember", "Has a run belong to a group.", groups_api::add)
            .scope(Scope::RunsCancel)
            .takes::<AddMember>()
            .idempotent()
            .answers::<GroupView>(201, "It does.")
            .refuses(&over)
            .refuses(&["run_not_found"]),
        Operation::delete(
            "/v1/groups/{groupId}/members/{runId}",
            "removeMember",
            "Has a run not belong to a group any more.",
            groups_api::remove,
        )
        .scope(Scope::RunsCancel)
        .answers::<GroupView>(200, "It does not.")
        .refuses(&over)
        .refuses(&["run_not_found", "member_not_found"]),
        Operation::put(
            "/v1/groups/{groupId}/governance",
            "governGroup",
            "Says what holds for the members of a group.",
            groups_api::govern,
        )
        .scope(Scope::RunsCancel)
        .takes::<GovernanceBody>()
        .idempotent()
        .answers::<GroupView>(200, "It holds.")
        .refuses(&over)
        .refuses(&["version_conflict"]),
        Operation::post(
            "/v1/groups/{groupId}:close",
            "closeGroup",
            "Closes a group as completed. To abandon one, cancel the run of its id.",
            groups_api::close,
        )
        .scope(Scope::RunsCancel)
        .may_take::<Nothing>()
        .idempotent()
        .answers::<GroupView>(200, "It is closed.")
        .refuses(&over)
        .refuses(&["group_unfinished"]),
    ]
}
