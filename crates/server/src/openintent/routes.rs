//! The operations of OpenIntent's API, as part of the one table.

mod containers;
mod records;

use crate::openintent::{access, agents, discovery, intents, leases, requests, stream, suspensions};
use crate::operation::Operation;
use crate::scope::Scope;
use crate::shape;

/// Every operation in OpenIntent's words.
pub(crate) fn operations() -> Vec<Operation> {
    let families = [
        about(),
        of_intents(),
        of_work(),
        of_people(),
        of_requests(),
        of_escalations(),
        streams(),
        containers::operations(),
        records::operations(),
    ];
    families.into_iter().flatten().map(Operation::openintent).collect()
}

fn about() -> Vec<Operation> {
    vec![
        Operation::get("/.well-known/openintent.json", "oiDiscover", "What works here.", discovery::show)
            .public()
            .answers::<shape::Object>(200, "What works, and where."),
        Operation::get(
            "/.well-known/openintent-compat.json",
            "oiCompatibility",
            "Which of OpenIntent's documents hold here.",
            discovery::compatibility,
        )
        .public()
        .answers::<shape::Object>(200, "Each document, and what holds of it."),
    ]
}

fn of_intents() -> Vec<Operation> {
    const ALL: &str = "/api/v1/intents";
    const ONE: &str = "/api/v1/intents/{intentId}";
    const POLICY: &str = "/api/v1/intents/{intentId}/governance";
    vec![
        Operation::post(ALL, "oiCreateIntent", "Makes an intent.", intents::create)
            .scope(Scope::RunsCreate)
            .takes::<shape::Object>()
            .answers::<shape::Object>(200, "It is on disk."),
        Operation::get(ALL, "oiListIntents", "Intents, newest first.", intents::list)
            .scope(Scope::RunsRead)
            .answers::<shape::Object>(200, "A page of them."),
        Operation::get(ONE, "oiShowIntent", "An intent as it stands.", intents::show)
            .scope(Scope::RunsRead)
            .answers::<shape::Object>(200, "As it stands."),
        Operation::post(
            "/api/v1/intents/{intentId}/state",
            "oiPatchState",
            "Changes its state.",
            intents::patch,
        )
        .scope(Scope::WorkPerform)
        .takes::<shape::Object>()
        .answers::<shape::Object>(200, "As it stands then."),
        Operation::post(
            "/api/v1/intents/{intentId}/status",
            "oiSetStatus",
            "Sends it somewhere else.",
            intents::set_status,
        )
        .scope(Scope::WorkPerform)
        .takes::<shape::Object>()
        .answers::<shape::Object>(200, "As it stands then."),
        Operation::get(POLICY, "oiShowPolicy", "What has to be kept to.", intents::show_policy)
            .scope(Scope::RunsRead)
            .answers::<shape::Object>(200, "The policy, as it was written."),
        Operation::put(POLICY, "oiSetPolicy", "Says what has to be kept to.", intents::set_policy)
            .scope(Scope::WorkPerform)
            .takes::<shape::Object>()
            .answers::<shape::Object>(200, "As it stands then."),
        Operation::delete(
            POLICY,
            "oiRemovePolicy",
            "Says that nothing has to be kept to.",
            intents::remove_policy,
        )
        .scope(Scope::WorkPerform)
        .answers::<shape::Object>(200, "As it stands then."),
    ]
}

fn of_work() -> Vec<Operation> {
    const AGENTS: &str = "/api/v1/intents/{intentId}/agents";
    const LEASES: &str = "/api/v1/intents/{intentId}/leases";
    const LEASE: &str = "/api/v1/intents/{intentId}/leases/{leaseId}";
    const ACCESS: &str = "/api/v1/intents/{intentId}/acl";
    vec![
        Operation::get(AGENTS, "oiListAgents", "Who is assigned to it.", agents::list)
            .scope(Scope::RunsRead)
            .answers::<Vec<shape::Object>>(200, "The agents."),
        Operation::post(AGENTS, "oiAssignAgent", "Has an agent work on it.", agents::assign)
            .scope(Scope::WorkPerform)
            .takes::<shape::Object>()
            .answers::<shape::Object>(200, "The agent."),
        Operation::delete(
            "/api/v1/intents/{intentId}/agents/{agentId}",
            "oiUnassignAgent",
            "Has an agent not work on it any more.",
            agents::unassign,
        )
        .scope(Scope::WorkPerform)
        .answers::<shape::Object>(200, "It does not."),
        Operation::get(LEASES, "oiListLeases", "Who has which part of it.", leases::list)
            .scope(Scope::RunsRead)
            .answers::<shape::Object>(200, "The leases."),
        Operation::post(LEASES, "oiAcquireLease", "Gives somebody a part of it.", leases::acquire)
            .scope(Scope::WorkPerform)
            .takes::<shape::Object>()
            .answers::<shape::Object>(200, "The lease."),
        Operation::patch(LEASE, "oiRenewLease", "Has somebody keep their part for longer.", leases::renew)
            .scope(Scope::WorkPerform)
            .takes::<shape::Object>()
            .answers::<shape::Object>(200, "The lease."),
        Operation::delete(LEASE, "oiReleaseLease", "Has somebody give their part back.", leases::release)
            .scope(Scope::WorkPerform)
            .answers::<shape::Object>(200, "It is given back."),
        Operation::get(ACCESS, "oiShowAccess", "Who may see it and work on it.", access::show)
            .scope(Scope::RunsRead)
            .answers::<shape::Object>(200, "Those who may."),
        Operation::put(ACCESS, "oiSetAccess", "Says who may see it and work on it.", access::set)
            .scope(Scope::WorkPerform)
            .takes::<shape::Object>()
            .answers::<shape::Object>(200, "Those who may."),
        Operation::post(
            "/api/v1/intents/{intentId}/acl/entries",
            "oiGrantAccess",
            "Says of one more who may.",
            access::grant,
        )
        .scope(Scope::WorkPerform)
        .takes::<shape::Object>()
        .answers::<shape::Object>(200, "The entry."),
        Operation::delete(
            "/api/v1/intents/{intentId}/acl/entries/{entryId}",
            "oiRevokeAccess",
            "Says of somebody that they may not.",
            access::revoke,
        )
        .scope(Scope::WorkPerform)
        .answers_empty(204, "They may not."),
    ]
}

fn of_people() -> Vec<Operation> {
    const SUSPEND: &str = "/api/v1/intents/{intentId}/suspend";
    vec![
        Operation::post(SUSPEND, "oiSuspend", "Has people asked, in one go.", suspensions::suspend)
            .scope(Scope::WorkPerform)
            .takes::<shape::Object>()
            .answers::<shape::Object>(200, "As it stands then."),
        Operation::get(
            "/api/v1/intents/{intentId}/suspensions",
            "oiListSuspensions",
            "What it waits for.",
            suspensions::list,
        )
        .scope(Scope::RunsRead)
        .answers::<shape::Object>(200, "The records of what is asked."),
        Operation::post(
            "/api/v1/intents/{intentId}/suspend/respond",
            "oiRespond",
            "Answers what it waits for.",
            suspensions::respond,
        )
        .scope(Scope::ApprovalsRespond)
        .takes::<shape::Object>()
        .answers::<shape::Object>(200, "The answer is on disk."),
        Operation::post(
            "/api/v1/intents/{intentId}/suspend/cancel",
            "oiCancelSuspension",
            "Takes back what it waits for.",
            suspensions::cancel,
        )
        .scope(Scope::WorkPerform)
        .takes::<shape::Object>()
        .answers::<shape::Object>(200, "As it stands then."),
    ]
}

fn of_requests() -> Vec<Operation> {
    const APPROVALS: &str = "/api/v1/intents/{intentId}/approvals";
    vec![
        Operation::post(
            APPROVALS,
            "oiRequestApproval",
            "Asks whether something may be done.",
            requests::request_approval,
        )
        .scope(Scope::WorkPerform)
        .takes::<shape::Object>()
        .answers::<shape::Object>(200, "The request."),
        Operation::get(
            APPROVALS,
            "oiListApprovals",
            "All that approval was asked for.",
            requests::list_approvals,
        )
        .scope(Scope::RunsRead)
        .answers::<shape::Object>(200, "The requests."),
        Operation::get(
            "/api/v1/intents/{intentId}/approvals/{approvalId}",
            "oiShowApproval",
            "What became of a request.",
            requests::show_approval,
        )
        .scope(Scope::RunsRead)
        .answers::<shape::Object>(200, "The request."),
        Operation::post(
            "/api/v1/intents/{intentId}/approvals/{approvalId}/approve",
            "oiApprove",
            "Says that something may be done.",
            requests::approve,
        )
        .scope(Scope::ApprovalsRespond)
        .answers::<shape::Object>(200, "The request."),
        Operation::post(
            "/api/v1/intents/{intentId}/approvals/{approvalId}/deny",
            "oiDeny",
            "Says that something may not be done.",
            requests::deny,
        )
        .scope(Scope::ApprovalsRespond)
        .answers::<shape::Object>(200, "The request."),
    ]
}

fn of_escalations() -> Vec<Operation> {
    vec![
        Operation::post(
            "/api/v1/intents/{intentId}/escalations",
            "oiEscalate",
            "Has people look at it.",
            requests::escalate,
        )
        .scope(Scope::WorkPerform)
        .takes::<shape::Object>()
        .answers::<shape::Object>(200, "The escalation."),
        Operation::get(
            "/api/v1/escalations",
            "oiListEscalations",
            "What people are to look at.",
            requests::escalations,
        )
        .scope(Scope::RunsRead)
        .answers::<shape::Object>(200, "The escalations."),
        Operation::post(
            "/api/v1/escalations/{escalationId}/resolve",
            "oiResolveEscalation",
            "Says that somebody has looked.",
            requests::resolve_escalation,
        )
        .scope(Scope::ApprovalsRespond)
        .takes::<shape::Object>()
        .answers::<shape::Object>(200, "The escalation."),
    ]
}

fn streams() -> Vec<Operation> {
    const SSE: &str = "text/event-stream";
    let of_intents = [
        ("/api/v1/intents/{intentId}/subscribe", "oiFollowIntent"),
        ("/api/v1/subscribe/intents/{intentId}", "oiFollowIntentToo"),
    ];
    let of_portfolios = [
        ("/api/v1/portfolios/{portfolioId}/subscribe", "oiFollowPortfolio"),
        ("/api/v1/subscribe/portfolios/{portfolioId}", "oiFollowPortfolioToo"),
    ];
    let of_agents = [
        ("/api/v1/agents/{agentId}/subscribe", "oiFollowAgent"),
        ("/api/v1/subscribe/agents/{agentId}", "oiFollowAgentToo"),
    ];
    let intents = of_intents.map(|(path, id)| {
        Operation::get(path, id, "Follows an intent.", stream::follow_intent).scope(Scope::RunsRead)
    });
    let portfolios = of_portfolios.map(|(path, id)| {
        Operation::get(path, id, "Follows a portfolio.", stream::follow_portfolio).scope(Scope::RunsRead)
    });
    let agents = of_agents.map(|(path, id)| {
        Operation::get(path, id, "Tells an agent what it is to work on.", stream::follow_agent)
            .scope(Scope::WorkPerform)
    });
    let all = intents.into_iter().chain(portfolios).chain(agents);
    all.map(|operation| {
        operation.waits().answers_content(200, SSE, "Events, for as long as somebody listens.")
    })
    .collect()
}
