//! What workers may do with a task, and what becomes of it when they come, go and die.

#[path = "tasks/asking.rs"]
mod asking;
#[path = "tasks/chance.rs"]
mod chance;
#[path = "tasks/failing.rs"]
mod failing;
#[path = "tasks/losing.rs"]
mod losing;
#[path = "tasks/offering.rs"]
mod offering;
#[expect(dead_code, reason = "random_resume.rs throws the rest")]
#[path = "domain/seeded.rs"]
mod seeded;
#[path = "tasks/steps.rs"]
mod steps;
#[expect(dead_code, reason = "commands.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[path = "tasks/waiting.rs"]
mod waiting;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::event::{Loss, Wait};
use abide_core::{
    AskState, Command, Effect, Failure, FailureClass, HookKind, HumanRetryPolicy, Json, Offer, Provided,
    Rejection, Surroundings, TaskId, Work, WorkAsk, WorkChild, WorkFailure, WorkOp, WorkOutcome,
};
use serde_json::{Value, json};
use story::Story;
use workflow::{Sketch, Workflow, noop, of_kind, workflow};

/// The kind that the workers of these stories provide.
const KIND: &str = "acme.work";

/// The agent that they work for.
const AGENT: &str = "scribe";

fn provided(provided: Provided) -> Surroundings {
    Surroundings { kinds: Arc::new(BTreeMap::from([(KIND.to_owned(), provided)])), ..Surroundings::default() }
}

fn known() -> Surroundings {
    provided(Provided::default())
}

fn work(id: &str) -> Sketch {
    of_kind(id, KIND)
}

/// One node for workers, and what comes after it. Nobody watches the runs: what is interrupted fails.
fn working(node: Sketch) -> Workflow {
    let failing = json!({ "resume": { "maxAttempts": 0, "onRefusal": "fail" } });
    workflow([node, noop("next")]).flow("job > next").settings("abide", failing)
}

fn begun() -> Story {
    Story::of(&working(work("job"))).under(known()).start()
}

fn task(node: &str) -> TaskId {
    TaskId { node: node.into(), execution: 1 }
}

fn step(key: &str, value: &Value) -> WorkOp {
    WorkOp::Record { key: key.to_owned(), outcome: Ok(Json::of(value)) }
}

fn begin(key: &str) -> WorkOp {
    WorkOp::Begin { key: key.to_owned() }
}

fn sleep(key: &str, ms: i64) -> WorkOp {
    WorkOp::Sleep { key: key.to_owned(), ms }
}

fn park(waits: impl IntoIterator<Item = Wait>) -> WorkOp {
    WorkOp::Park { waits: waits.into_iter().collect() }
}

fn lose(reason: Loss) -> WorkOp {
    WorkOp::Lose { reason, worker: "worker 7".to_owned() }
}

fn complete(outputs: &Value) -> WorkOp {
    WorkOp::Complete { outputs: Some(Json::of(outputs)), by: vec!["scribe".to_owned(), "bot".to_owned()] }
}

fn trouble(class: FailureClass, retryable: bool, possible_effect: bool) -> WorkOp {
    let failure = Failure::new("no_paper", "the printer has no paper");
    WorkOp::Fail(WorkFailure { failure, class, retryable, possible_effect, retry_after_ms: None })
}

fn child(key: &str) -> WorkOp {
    WorkOp::Child(WorkChild {
        key: key.to_owned(),
        workflow_id: "sub".to_owned(),
        inputs: [("size".to_owned(), Json::of(&3))].into(),
        outputs: vec!["total".to_owned()],
        cascade: true,
    })
}

/// One question, with the answer to it alone.
fn question(call: u32) -> WorkAsk {
    WorkAsk {
        agent: AGENT.to_owned(),
        principal: None,
        key: None,
        call,
        payload: Json::of(&json!({
            "kind": "clarification",
            "data": { "questions": [{ "id": "answer", "question": "Well?" }] },
        })),
        ladder: None,
        respondents: None,
        single: true,
        hooks: Vec::new(),
    }
}

fn ask(call: u32) -> WorkOp {
    WorkOp::Ask(Box::new(question(call)))
}

fn well() -> Value {
    json!({ "answers": { "answer": "well" } })
}

impl Story {
    /// The fence that the node was handed out under last.
    #[track_caller]
    fn fence(&self, node: &str) -> u64 {
        let offer = self.run().offers().find(|offer| &*offer.task.node == node);
        offer.expect("the node is offered").fence
    }

    /// A worker that has the node does something.
    #[track_caller]
    fn does(self, node: &str, op: WorkOp) -> Self {
        let fence = self.fence(node);
        self.does_under(node, fence, op)
    }

    /// Somebody who believes to have the node does something.
    #[track_caller]
    fn does_under(self, node: &str, fence: u64, op: WorkOp) -> Self {
        self.ask(Command::Work(Box::new(Work { task: task(node), fence, op })))
    }

    /// What the worker is told of what it did.
    #[track_caller]
    fn outcome(&self, node: &str, op: &WorkOp) -> WorkOutcome {
        self.run().work_outcome(&task(node), op).expect("something is known of it")
    }

    /// What the worker is told of a question.
    #[track_caller]
    fn answer_told(&self, node: &str, op: &WorkOp) -> AskState {
        match self.outcome(node, op) {
            WorkOutcome::Ask(state) => *state,
            other => panic!("{other:?} is no state of a question"),
        }
    }

    /// Everything that is open, oldest first, as waits.
    fn waits(&self) -> Vec<Wait> {
        self.run().interrupts().map(|open| Wait::Interrupt(open.requested.interrupt_id)).collect()
    }

    #[track_caller]
    fn offered(&self) -> Offer {
        let offered = self.step().effects.iter().rev().find_map(|effect| match effect {
            Effect::Offer(offer) => Some(offer.clone()),
            _ => None,
        });
        offered.expect("a task is offered")
    }

    #[track_caller]
    fn refused_as(self, code: &str) -> Self {
        match self.last_rejection() {
            Rejection::Work(failure) => assert_eq!(failure.code, code),
            other => panic!("{other:?} is another refusal"),
        }
        self
    }
}
