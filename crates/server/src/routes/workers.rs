//! Workers: processes outside that do nodes' work.

use crate::operation::Operation;
use crate::page::PageQuery;
use crate::scope::Scope;
use crate::workers_api::answers::OpAnswer;
use crate::workers_api::messages::{HistoryPage, WorkerMessage};
use crate::workers_api::ops::OneOp;
use crate::workers_api::views::{KindPage, WorkerList, forget_kind, kinds, workers};
use crate::workers_api::{
    HistoryQuery, PollWorker, RegisterWorker, RegisteredWorker, WorkerMessages, WorkerOpResults, WorkerOps,
    do_op, do_ops, drain, history, leave, poll, register, stream,
};

const ALL: &str = "/v1/workers";
const ONE: &str = "/v1/workers/{session}";

/// What one operation of a worker may be refused with, beside what any may.
const OP_CODES: &[&str] = &[
    "stale_fence",
    "code_changed",
    "step_limit",
    "value_too_large",
    "run_ending",
    "run_not_found",
    "run_erased",
    "hook_unknown",
    "capability_required",
];

/// What a question or a child of a worker may be refused with. In a run these are no answers to a request.
const OP_FAILURES: &[&str] = &[
    "interrupt_key_conflict",
    "interrupt_limit",
    "invalid_interrupt",
    "invalid_ladder",
    "child_depth_exceeded",
    "child_refused",
    "input_too_large",
];

pub(super) fn workers_and_kinds() -> Vec<Operation> {
    let mut all = sessions();
    all.extend(tasks());
    all.extend(of_kinds());
    all
}

fn sessions() -> Vec<Operation> {
    vec![
        Operation::post(ALL, "registerWorker", "Takes in a worker, or one that comes back.", register)
            .scope(Scope::WorkPerform)
            .takes::<RegisterWorker>()
            .answers::<RegisteredWorker>(200, "What holds between the two.")
            .refuses(&["worker_protocol", "too_many"]),
        Operation::get(ALL, "listWorkers", "The workers that are there.", workers)
            .scope(Scope::RunsRead)
            .answers::<WorkerList>(200, "The workers, by agent and session."),
        Operation::delete(ONE, "leaveWorker", "A worker goes; what it has is lost at once.", leave)
            .scope(Scope::WorkPerform)
            .answers_empty(204, "It is gone.")
            .at_home(),
        Operation::post(
            "/v1/workers/{session}:poll",
            "pollWorker",
            "What there is for a worker, when there is something.",
            poll,
        )
        .scope(Scope::WorkPerform)
        .waits()
        .may_take::<PollWorker>()
        .answers::<WorkerMessages>(200, "Messages, by number.")
        .at_home(),
        Operation::get(
            "/v1/workers/{session}/stream",
            "streamWorker",
            "What there is for a worker, for as long as it listens.",
            stream,
        )
        .scope(Scope::WorkPerform)
        .waits()
        .header("Last-Event-ID", "The number of the last message that the worker has.")
        .answers_as::<WorkerMessage>(200, "text/event-stream", "Messages, by number.")
        .at_home()
        .refuses(&["validation_error"]),
        Operation::post(
            "/v1/workers/{session}:drain",
            "drainWorker",
            "A worker gets no more tasks, and is told to end when it has done those it has.",
            drain,
        )
        .scope(Scope::RunsCancel)
        .answers_empty(204, "It is told.")
        .at_home(),
    ]
}

fn tasks() -> Vec<Operation> {
    let one = Operation::post(
        "/v1/workers/{session}/op",
        "workOnce",
        "Does one thing that a worker asks for, and answers with its own status.",
        do_op,
    )
    .scope(Scope::WorkPerform)
    .takes::<OneOp>()
    .answers::<OpAnswer>(200, "What became of it.")
    .at_home()
    .refuses(OP_CODES);
    let one = OP_FAILURES.iter().fold(one, |one, code| one.refuses_under(422, code));
    vec![
        Operation::post(
            "/v1/workers/{session}/ops",
            "work",
            "Does what a worker asks for; with no operations it is only heard of.",
            do_ops,
        )
        .scope(Scope::WorkPerform)
        .takes::<WorkerOps>()
        .answers::<WorkerOpResults>(200, "What became of each, in order.")
        .at_home(),
        one,
        Operation::get(
            "/v1/workers/{session}/tasks/{task}/history",
            "showTaskHistory",
            "What a task that the worker has recorded so far.",
            history,
        )
        .scope(Scope::WorkPerform)
        .query::<HistoryQuery>()
        .answers::<HistoryPage>(200, "A page of it.")
        .at_home()
        .refuses(&["stale_fence", "run_not_found", "run_erased"]),
    ]
}

fn of_kinds() -> Vec<Operation> {
    vec![
        Operation::get("/v1/kinds", "listKinds", "The kinds that workers have ever provided.", kinds)
            .scope(Scope::ManifestRead)
            .query::<PageQuery>()
            .answers::<KindPage>(200, "A page of kinds, by name."),
        Operation::delete(
            "/v1/kinds/{kind}",
            "forgetKind",
            "Forgets a kind: nodes of it fail until a worker provides it again.",
            forget_kind,
        )
        .scope(Scope::WorkflowsWrite)
        .answers_empty(204, "It is forgotten.")
        .refuses(&["kind_not_found"]),
    ]
}
