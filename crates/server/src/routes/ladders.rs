//! What holds for questions that nobody answers: the server's own word, and that of each agent.

use crate::agents_api::{AgentPage, AgentView, SetAgent, list, remove, set, show};
use crate::openwop::interrupts::ladder::{self, LadderView};
use crate::operation::Operation;
use crate::page::PageQuery;
use crate::scope::Scope;
use crate::server_config::{self, ServerConfig};

/// What was done about one question.
pub(super) fn of_interrupts() -> Vec<Operation> {
    vec![
        Operation::get(
            "/v1/runs/{runId}/interrupts/{interruptId}/ladder",
            "showLadder",
            "What was done about an interrupt that waits for people, and what comes.",
            ladder::show,
        )
        .scope(Scope::RunsRead)
        .answers::<LadderView>(200, "Its record, its events, and all of it as a list of moments.")
        .refuses(&["run_not_found", "run_erased", "interrupt_not_found"]),
    ]
}

pub(super) fn configuration() -> Vec<Operation> {
    let shown = |path, id| {
        Operation::get(path, id, "What holds for the whole server.", server_config::show)
            .answers::<ServerConfig>(200, "What clients may know of the configuration.")
    };
    vec![
        shown("/v1/server/config", "showServerConfig"),
        shown("/api/v1/server/config", "showServerConfigToOpenIntent").openintent(),
    ]
}

/// OpenWOP has agents of its own at `/v1/agents`. These are not those, but what ours say by default.
///
/// Whoever may write workflows says the same things in each of them, so no scope of its own is needed.
pub(super) fn agents() -> Vec<Operation> {
    const ALL: &str = "/v1/agent-records";
    const ONE: &str = "/v1/agent-records/{agentName}";
    vec![
        Operation::get(ALL, "listAgents", "The tenant's agents, by name.", list)
            .scope(Scope::ManifestRead)
            .query::<PageQuery>()
            .answers::<AgentPage>(200, "A page of agents."),
        Operation::get(ONE, "showAgent", "An agent.", show)
            .scope(Scope::ManifestRead)
            .answers::<AgentView>(200, "The agent.")
            .refuses(&["agent_not_found"]),
        Operation::put(ONE, "setAgent", "Says how an agent's questions go on that nobody answers.", set)
            .scope(Scope::WorkflowsWrite)
            .takes::<SetAgent>()
            .answers::<AgentView>(200, "The agent as it stands now.")
            .refuses(&["too_many"]),
        Operation::delete(ONE, "removeAgent", "Forgets what an agent says.", remove)
            .scope(Scope::WorkflowsWrite)
            .answers_empty(204, "It is forgotten.")
            .refuses(&["agent_not_found"]),
    ]
}
