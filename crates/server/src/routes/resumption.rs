//! Operations on runs that were interrupted.

use crate::operation::Operation;
use crate::resume_api;
use crate::scope::Scope;

pub(super) fn resumption() -> Vec<Operation> {
    use resume_api::{Asked, View, act, show};
    vec![
        Operation::get(
            "/v1/runs/{runId}/resume",
            "showResumption",
            "How an interrupted run stands: whether it may be resumed, and why not.",
            show,
        )
        .scope(Scope::RunsRead)
        .answers::<View>(200, "How it stands, also if it can't be read.")
        .refuses(&["run_not_found"]),
        Operation::post(
            "/v1/runs/{runId}/resume",
            "resumeInterruptedRun",
            "Has an interrupted run go on, or says whether it goes on by itself.",
            act,
        )
        .scope(Scope::RunsResume)
        .may_take::<Asked>()
        .answers::<View>(200, "How it stands then.")
        .refuses(&["run_not_found", "run_not_interrupted", "run_paused", "run_ending", "run_not_truncatable"])
        .refuses(&["resume_missing_checkpoint", "resume_unknown_interruption_class"])
        .refuses(&["resume_non_idempotent_step", "resume_missing_runtime_artifacts"])
        .refuses(&[
            "resume_attempt_limit_reached",
            "resume_blocked_cooldown",
            "run_erased",
            "run_is_replay",
        ]),
    ]
}
