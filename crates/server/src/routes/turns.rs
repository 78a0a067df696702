//! Operations on turns of models, and on their providers.

use crate::openwop::conversations;
use crate::operation::Operation;
use crate::scope::Scope;
use crate::{providers_api, turns_api};

pub(super) fn turns() -> Vec<Operation> {
    use turns_api::{GiveUp, Retry, Turn, Turns, give_up, list, retry};
    vec![
        Operation::get(
            "/v1/runs/{runId}/turns",
            "listTurns",
            "How the turns of a run stand, and what they wait for.",
            list,
        )
        .scope(Scope::RunsRead)
        .answers::<Turns>(200, "The turns, in the order of the definition.")
        .refuses(&["run_not_found", "run_erased"]),
        Operation::post(
            "/v1/runs/{runId}/turns/{nodeId}:retry",
            "retryTurn",
            "Has a turn that waits for its provider try it now.",
            retry,
        )
        .scope(Scope::RunsResume)
        .may_take::<Retry>()
        .idempotent()
        .answers::<Turn>(202, "The turn, which is tried.")
        .refuses(&["run_not_found", "run_erased", "turn_not_waiting", "run_is_replay"]),
        Operation::post(
            "/v1/runs/{runId}/turns/{nodeId}:give-up",
            "giveUpTurn",
            "Has a turn that waits for its provider fail with what that said last.",
            give_up,
        )
        .scope(Scope::RunsResume)
        .may_take::<GiveUp>()
        .idempotent()
        .answers::<Turn>(202, "The turn, which is over.")
        .refuses(&["run_not_found", "run_erased", "turn_not_waiting", "run_is_replay"]),
        Operation::get(
            "/v1/runs/{runId}/conversations",
            "listConversations",
            "What was said in the conversations of a run, and what is asked in them now.",
            conversations::list,
        )
        .scope(Scope::RunsRead)
        .answers::<conversations::Conversations>(
            200,
            "The conversations, in the order in which they were opened.",
        )
        .refuses(&["run_not_found", "run_erased"]),
        Operation::get(
            "/v1/providers",
            "listProviders",
            "The providers of models, how they do, and how many turns wait for them.",
            providers_api::list,
        )
        .scope(Scope::RunsRead)
        .answers::<providers_api::ProviderList>(200, "The providers, by name."),
    ]
}
