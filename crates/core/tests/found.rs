//! What random families of runs brought to light, each told as a short story of its own.

#[expect(dead_code, reason = "these stories use a part of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "these stories use a part of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{Event, NodeEvent, NodePhase, Reached, Status};
use serde_json::json;
use story::Story;
use workflow::{fail, http, noop, workflow};

#[test]
fn a_disabled_node_takes_nothing_over() {
    let flow = workflow([fail("risky"), noop("handler").disabled()]).under("any_failed", "risky > handler");
    Story::of(&flow).start().stands(Status::Failed).node_is("risky", NodePhase::Failed);
}

#[test]
fn another_node_takes_over_although_one_is_disabled() {
    let flow = workflow([fail("risky"), noop("off").disabled(), noop("on")])
        .under("any_failed", "risky > off")
        .under("any_failed", "risky > on");
    Story::of(&flow).start().stands(Status::Completed).node_is("off", NodePhase::Skipped);
}

fn retried() -> workflow::Sketch {
    let policy = json!({"strategy": "fixed", "maxRetries": 1, "baseDelayMs": 10, "jitter": false});
    http("call", "GET").setting("retry", policy)
}

#[test]
fn a_loop_counts_the_attempts_of_each_execution_anew() {
    let flow = workflow([retried().looping(3)]).flow("call > call").when("nodes.call.execution < 2");
    let story = Story::of(&flow)
        .start()
        .report_trouble("call", "no answer", Reached::No)
        .after(10)
        .fire_timer("retry/1/call")
        .report("call");
    let starts = story.journal().iter().filter_map(|record| match record.event().unwrap() {
        Event::Node { event: NodeEvent::Started(started), .. } => Some((started.execution, started.attempt)),
        _ => None,
    });
    assert_eq!(starts.collect::<Vec<_>>(), [(1, 0), (1, 1), (2, 0)]);
    story.report_of("call", 2, Ok(None)).stands(Status::Completed);
}

#[test]
fn a_node_whose_next_attempt_is_due_ends_with_its_run() {
    Story::of(&workflow([retried()]))
        .start()
        .report_trouble("call", "no answer", Reached::No)
        .pause()
        .after(10)
        .fire_timer("retry/1/call")
        .cancel()
        .expect(["node.cancelled call", "run.cancelled"])
        .node_is("call", NodePhase::Cancelled);
}
