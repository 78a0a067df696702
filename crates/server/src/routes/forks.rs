//! Forking runs and comparing them.

use crate::openwop::forks::{Against, Comparison, ForkRun, ForkedRun, compare, fork};
use crate::operation::Operation;
use crate::scope::Scope;

pub(super) fn forks() -> Vec<Operation> {
    vec![
        Operation::post(
            "/v1/runs/{runId}:fork",
            "forkRun",
            "Makes a run that begins with the events of another: to see whether they come out the same, or to go on otherwise.",
            fork,
        )
        .scope(Scope::RunsCreate)
        .takes::<ForkRun>()
        .idempotent()
        .answers::<ForkedRun>(201, "The fork is on disk, with all that it begins with.")
        .refuses(&["run_not_found", "run_erased", "fork_beyond_log", "fork_too_large"]),
        Operation::get(
            "/v1/runs/{runId}:diff",
            "diffRuns",
            "How the events of two runs differ, whatever things are called and whenever they happened.",
            compare,
        )
        .scope(Scope::RunsRead)
        .query::<Against>()
        .answers::<Comparison>(200, "A page of differences, in the order of the events.")
        .refuses(&["run_not_found", "run_erased", "fork_too_large"]),
    ]
}
