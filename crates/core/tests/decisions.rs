//! Decisions of agents that are not sure: they wait for somebody to ratify them.

#[expect(dead_code, reason = "commands.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use std::sync::Arc;

use abide_core::{
    AskState, Command, Confidence, Json, Judgement, NodePhase, Provided, Rejection, Status, Surroundings,
    TaskId, Work, WorkJudgement, WorkOp, WorkOutcome,
};
use serde_json::{Value, json};
use story::Story;
use workflow::{Sketch, Workflow, of_kind, workflow};

fn agent(decided: Value) -> Sketch {
    of_kind("agent", "core.conformance.mock-agent")
        .config("mockDecision", decided)
        .with("agent", json!({ "agentId": "core.conformance.decider", "modelClass": "reasoning" }))
}

fn deciding(confidence: &Value) -> Workflow {
    workflow([agent(json!({ "decision": { "kind": "pay" }, "confidence": confidence }))]).with_mocks()
}

fn said(story: &Story, event: &str) -> Value {
    serde_json::from_str(&story.payload(event)).expect("payloads are JSON")
}

fn count(story: &Story, event: &str) -> usize {
    story.history().iter().filter(|line| line.split(' ').next() == Some(event)).count()
}

#[test]
fn below_the_threshold_somebody_is_asked_and_the_pair_of_events_is_in_order() {
    let story = Story::of(&deciding(&json!(0.5))).start().stands(Status::WaitingApproval);
    let mine: Vec<String> = story.history().into_iter().filter(|line| line.ends_with(" agent")).collect();
    assert_eq!(
        mine,
        ["node.started agent", "agent.decided agent", "interrupt.requested agent", "node.suspended agent"]
    );
    let decided = said(&story, "agent.decided");
    assert_eq!(
        (&decided["agentId"], &decided["confidence"]),
        (&json!("core.conformance.decider"), &json!(0.5))
    );
    let expected = json!({ "agentId": "core.conformance.decider", "threshold": 0.7, "observed": 0.5 });
    assert_eq!(said(&story, "node.suspended")["doubt"], expected);
    let mut data = expected;
    data["decision"] = json!({ "kind": "pay" });
    assert_eq!(said(&story, "interrupt.requested")["data"], data);
}

#[test]
fn the_threshold_is_0_7_and_what_reaches_it_goes_on() {
    for (confidence, asks) in
        [(json!(0.69), true), (json!(0.7), false), (json!(1), false), (json!(null), false)]
    {
        let story = Story::of(&deciding(&confidence)).start();
        let status = if asks { Status::WaitingApproval } else { Status::Completed };
        let story = story.stands(status);
        assert_eq!(count(&story, "agent.decided"), 1, "{confidence}");
        assert_eq!(count(&story, "node.suspended"), usize::from(asks), "{confidence}");
    }
    let silent = workflow([agent(json!({ "decision": 1 }))]).with_mocks();
    Story::of(&silent).start().stands(Status::Completed);
}

#[test]
fn a_run_may_say_how_sure_its_agents_have_to_be() {
    let under = |threshold: Value| {
        let option = json!({ "escalationThreshold": threshold });
        Story::of(&deciding(&json!(0.8))).configurable(&option)
    };
    under(json!(0.9)).start().stands(Status::WaitingApproval);
    for met in [json!(0.8), json!(0), json!(null)] {
        under(met).start().stands(Status::Completed);
    }
    for wrong in [json!(1.5), json!(-0.1), json!("high"), json!([0.5])] {
        let refused = under(wrong).refused();
        assert!(
            matches!(&refused, Rejection::Invalid { field, .. } if field == "configurable.escalationThreshold"),
            "{refused:?}"
        );
    }
}

#[test]
fn what_is_ratified_is_what_the_node_goes_on_with_whatever_it_is() {
    for ratified in [json!({ "kind": "refuse" }), json!("no"), json!(7), json!(null), json!([1, { "a": 2 }])]
    {
        let story = Story::of(&deciding(&json!(0.5))).start().answer("agent", &ratified);
        let story = story.stands(Status::Completed);
        let outputs: Value = story.node("agent").outputs.as_ref().expect("outputs").parse().unwrap();
        assert_eq!(outputs["decision"], ratified);
        assert_eq!(count(&story, "agent.decided"), 1);
    }
}

#[test]
fn a_confidence_that_is_no_number_stops_nothing_and_is_remembered() {
    for odd in ["NaN", "Infinity", "-Infinity"] {
        let story = Story::of(&deciding(&json!(odd))).start().stands(Status::Completed);
        let decided = said(&story, "agent.decided");
        assert!(decided["faulty"].as_str().is_some_and(|told| told.contains(odd)), "{decided}");
        assert_eq!(decided.get("confidence"), None);
    }
}

mod supervising {
    use super::*;

    fn supervised(config: &[(&str, Value)]) -> Workflow {
        let lead = of_kind("lead", "core.orchestrator.supervisor");
        let lead = config.iter().fold(lead, |lead, (key, value)| lead.config(key, value.clone()));
        let flow = workflow([lead, of_kind("work", "core.dispatch")]).flow("lead > work").flow("work > lead");
        flow.with_mocks()
    }

    fn next(worker: &str) -> Value {
        json!({ "kind": "next-worker", "nextWorkerIds": [worker] })
    }

    #[test]
    fn what_a_supervisor_is_not_sure_of_is_held_back_until_it_is_ratified() {
        let config = [("mockConfidence", json!(0.5)), ("mockPendingDecision", next("pick"))];
        let story = Story::of(&supervised(&config)).start().stands(Status::WaitingApproval);
        assert_eq!((count(&story, "runOrchestrator.decided"), count(&story, "node.spawned")), (0, 0));
        let story = story.answer("lead", &json!("whatever"));
        assert!(
            matches!(story.last_rejection(), Rejection::BadAnswer(_)),
            "a dispatch could not carry it out"
        );
        let story = story.answer("lead", &next("pack")).node_is("work", NodePhase::Waiting);
        assert_eq!(said(&story, "runOrchestrator.decided")["nextWorkerIds"], json!(["pack"]));
        assert_eq!(story.spawn().workflow_id, "pack");
        let done = abide_core::Lifecycle::Completed;
        let story = story.child_ends("work", done, &json!({})).stands(Status::Completed);
        assert_eq!(count(&story, "runOrchestrator.decided"), 2, "then the plan is over");
    }

    #[test]
    fn a_dispatch_asks_before_it_carries_out_what_is_too_unsure() {
        let mut unsure = next("pick");
        unsure["confidence"] = json!(0.3);
        let config = [("mockDispatchPlan", json!([unsure]))];
        let start = || Story::of(&supervised(&config)).start().stands(Status::WaitingInput);
        let story = start();
        assert_eq!(
            (count(&story, "core.workflowChain.confidence-escalated"), count(&story, "node.spawned")),
            (1, 0)
        );
        let told = said(&story, "core.workflowChain.confidence-escalated");
        assert_eq!(
            (&told["confidence"], &told["floor"], &told["workerId"]),
            (&json!(0.3), &json!(0.5), &json!("pick"))
        );
        let story = story.answer("work", &json!({ "answers": { "proceed": true } }));
        let story = story.node_is("work", NodePhase::Waiting);
        assert_eq!(story.spawn().workflow_id, "pick");
        let done = abide_core::Lifecycle::Completed;
        let story = story.child_ends("work", done, &json!({})).stands(Status::Completed);
        assert_eq!(count(&story, "core.workflowChain.confidence-escalated"), 1);
        let story =
            start().answer("work", &json!({ "answers": { "proceed": false } })).stands(Status::Failed);
        assert_eq!(story.run().error().unwrap().code, "decision_declined");
    }
}

mod working {
    use super::*;

    const KIND: &str = "acme.decide";

    fn begun() -> Story {
        let kinds = Arc::new([(KIND.to_owned(), Provided::default())].into());
        let around = Surroundings { kinds, ..Surroundings::default() };
        Story::of(&workflow([of_kind("job", KIND)])).under(around).start()
    }

    fn decide(call: u32, decision: &Value, confidence: Confidence) -> WorkOp {
        WorkOp::Judge(Box::new(WorkJudgement {
            judged: Judgement { agent: "planner".to_owned(), decision: Json::of(decision), confidence },
            key: None,
            call,
            ladder: None,
            respondents: None,
            hooks: Vec::new(),
        }))
    }

    fn does(story: Story, op: WorkOp) -> Story {
        let fence = story.run().offers().next().expect("it is offered").fence;
        let task = TaskId { node: "job".into(), execution: 1 };
        story.ask(Command::Work(Box::new(Work { task, fence, op })))
    }

    fn told(story: &Story, op: &WorkOp) -> AskState {
        let task = TaskId { node: "job".into(), execution: 1 };
        match story.run().work_outcome(&task, op) {
            Some(WorkOutcome::Ask(state)) => *state,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_workers_decision_is_kept_or_waits_and_is_made_once() {
        let (sure, unsure) = (
            decide(1, &json!("pay"), Confidence::Told(0.9)),
            decide(2, &json!("pay"), Confidence::Told(0.5)),
        );
        let story = does(does(begun(), sure.clone()), unsure.clone());
        assert!(matches!(told(&story, &sure), AskState::Answered { value, .. } if value.text() == "\"pay\""));
        assert!(matches!(told(&story, &unsure), AskState::Open { .. }));
        let story = story.answer("job", &json!("refuse"));
        // The second time it may think otherwise: what was decided stands.
        let again = [decide(1, &json!("other"), Confidence::Told(0.1)), unsure.clone()];
        let records = story.journal().len();
        let story = again.into_iter().fold(story, does);
        assert_eq!(story.journal().len(), records);
        assert!(matches!(told(&story, &sure), AskState::Answered { value, .. } if value.text() == "\"pay\""));
        assert!(
            matches!(told(&story, &unsure), AskState::Answered { value, .. } if value.text() == "\"refuse\"")
        );
        assert_eq!(count(&story, "agent.decided"), 2);
    }
}
