//! Tasks and plans that are posted to a run: who does them, what they wait for, and what becomes of them with the run.
//!
//! The story itself forks every journal at every place, so each of these also says that a replay repeats what was posted
//! and that a branch goes on with it.

#[path = "planning/acting.rs"]
mod acting;
#[path = "planning/children.rs"]
mod children;
#[path = "planning/conditions.rs"]
mod conditions;
#[path = "planning/ending.rs"]
mod ending;
#[path = "planning/failures.rs"]
mod failures;
#[path = "planning/gates.rs"]
mod gates;
#[path = "planning/mirror.rs"]
mod mirror;
#[path = "planning/plans.rs"]
mod plans;
#[path = "planning/progress.rs"]
mod progress;
#[path = "planning/random.rs"]
mod random;
#[path = "planning/reaching.rs"]
mod reaching;
#[path = "planning/refusing.rs"]
mod refusing;
#[path = "domain/seeded.rs"]
mod seeded;
#[expect(dead_code, reason = "commands.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[path = "planning/tasks.rs"]
mod tasks;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;
#[expect(dead_code, reason = "bonds.rs and others tell the rest of the vocabulary")]
#[path = "domain/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::planning::{
    NewCheckpoint, NewCondition, NewPlan, NewTask, Plan, PlanAct, PlanCommand, PlanId, PlanTask, Task,
    TaskAct, TaskId, TaskStatus,
};
use abide_core::{
    Command, Failure, HumanRetryPolicy, InterruptId, Json, JsonMap, Lifecycle, Millis, NewChild, Notice,
    Provided, RESUME_NODE, Rejection, Status, Surroundings, Suspension, Work, WorkAsk, WorkOp,
};
use serde_json::{Value, json};
use story::{Story, run_id};
use workflow::{Workflow, noop, of_kind, workflow};

/// The kind that workers provide.
const KIND: &str = "acme.work";

/// The agent that asks.
const AGENT: &str = "scribe";

/// Another one.
const OTHER: &str = "clerk";

fn around() -> Surroundings {
    let kinds = Arc::new(BTreeMap::from([(KIND.to_owned(), Provided::default())]));
    Surroundings { kinds, ..Surroundings::default() }
}

fn reminding(policy: &Value) -> Surroundings {
    let policy = HumanRetryPolicy::read(&Json::of(policy)).expect("the test's own policy is sound");
    Surroundings { platform: Some(policy), notifies: true, ..around() }
}

/// A run with one node that a worker has, as an intent that an agent drives: nobody is to be asked if its work fails.
fn driven() -> Workflow {
    let failing = json!({ "resume": { "maxAttempts": 0, "onRefusal": "fail" } });
    workflow([of_kind("self", KIND)]).settings("abide", failing)
}

/// The same beside a gate that no agent asks at.
fn gated() -> Workflow {
    workflow([of_kind("self", KIND), of_kind("gate", "core.approvalGate").config("title", json!("Pay?"))])
}

fn begun() -> Story {
    Story::of(&driven()).under(around()).start()
}

/// A run with a worker's node and one that is done by hand, which was made to start another run.
fn parenting() -> Story {
    let flow = workflow([of_kind("self", KIND), of_kind("hand", "core.byHand")]);
    Story::of(&flow).under(around()).start().adopts(9)
}

fn named(name: &str) -> NewTask {
    NewTask { name: name.to_owned(), ..NewTask::default() }
}

/// A task that stands for a child.
fn standing_for(name: &str, byte: u8) -> NewTask {
    NewTask { run: Some(run_id(byte)), ..named(name) }
}

fn behind(name: &str, others: &[&str]) -> NewTask {
    NewTask { depends_on: others.iter().map(|&other| other.to_owned()).collect(), ..named(name) }
}

fn of_new(tasks: impl IntoIterator<Item = NewTask>) -> NewPlan {
    let tasks = tasks.into_iter().map(|task| PlanTask::New(Box::new(task))).collect();
    NewPlan { tasks, ..NewPlan::default() }
}

/// Two tasks, and people between them.
fn stopping() -> NewPlan {
    let checkpoint = NewCheckpoint {
        name: "review".to_owned(),
        after: "draft".to_owned(),
        requires_approval: true,
        approvers: vec!["alice".to_owned()],
        ..NewCheckpoint::default()
    };
    NewPlan { checkpoints: vec![checkpoint], ..of_new([named("draft"), behind("send", &["draft"])]) }
}

fn accept() -> Value {
    json!({ "action": "accept" })
}

fn reject() -> Value {
    json!({ "action": "reject", "feedback": "too dear" })
}

fn failure() -> Failure {
    Failure::new("no_paper", "the printer has no paper")
}

/// What a child tells of how it stands. Whoever has it, it is had by somebody once it is under way.
fn told_by(byte: u8, status: Status, expires_at: Option<Millis>) -> Notice {
    let lifecycle = match status {
        Status::Completed => Lifecycle::Completed,
        Status::Failed => Lifecycle::Failed,
        Status::Cancelled => Lifecycle::Cancelled,
        _ => Lifecycle::Running,
    };
    let completed = status == Status::Completed;
    let outputs = completed.then(|| ("total".to_owned(), Json::of(&7))).into_iter().collect();
    let since = story::BEGIN;
    Notice {
        from: run_id(byte),
        sequence: 5,
        node: "hand".to_owned(),
        execution: 0,
        lifecycle,
        outputs,
        sensitive: Vec::new(),
        error: None,
        still: false,
        status: Some(status),
        suspended: status.is_waiting().then_some(Suspension { since, expires_at }),
        claimed: status == Status::Running,
    }
}

/// A child tells how it stands.
fn tells(status: Status, expires_at: Option<Millis>) -> Command {
    Command::Hear { notice: told_by(9, status, expires_at), heard: None }
}

fn plan_command(command: PlanCommand) -> Command {
    Command::Plan(Box::new(command))
}

/// The run is made to start another one.
fn adopting(byte: u8) -> Command {
    Command::Adopt(Box::new(NewChild {
        child: run_id(byte),
        workflow_id: "hand".to_owned(),
        inputs: JsonMap::new(),
        sensitive: Vec::new(),
        depends_on: Vec::new(),
        draft: false,
        by: None,
    }))
}

impl Story {
    fn post(self, task: NewTask) -> Self {
        self.ask(plan_command(PlanCommand::CreateTask { task: Box::new(task), by: None }))
    }

    fn adopts(self, byte: u8) -> Self {
        self.ask(adopting(byte)).expect(["child.added"])
    }

    fn plan_out(self, plan: NewPlan) -> Self {
        self.ask(plan_command(PlanCommand::CreatePlan { plan: Box::new(plan), by: None }))
    }

    /// A task by its name: the last of that name.
    #[track_caller]
    fn of_name(&self, name: &str) -> &Task {
        let found = self.run().tasks_posted().filter(|task| task.spec.name == name).last();
        found.unwrap_or_else(|| panic!("nobody posted '{name}'"))
    }

    #[track_caller]
    fn id_of(&self, name: &str) -> TaskId {
        self.of_name(name).id
    }

    #[track_caller]
    fn act(self, name: &str, act: TaskAct) -> Self {
        let id = self.id_of(name);
        self.ask(plan_command(PlanCommand::Task { id, version: None, agent: None, act, by: None }))
    }

    /// Somebody does it in the name of an agent.
    #[track_caller]
    fn act_as(self, name: &str, agent: &str, act: TaskAct) -> Self {
        let (id, agent) = (self.id_of(name), Some(agent.to_owned()));
        self.ask(plan_command(PlanCommand::Task { id, version: None, agent, act, by: None }))
    }

    #[track_caller]
    fn claim(self, name: &str, agent: &str) -> Self {
        self.act(name, TaskAct::Claim { agent: agent.to_owned() })
    }

    /// An agent claims a task and begins.
    #[track_caller]
    fn works_on(self, name: &str, agent: &str) -> Self {
        self.claim(name, agent).act(name, TaskAct::Start).stands_at(name, TaskStatus::Running)
    }

    #[track_caller]
    fn does_task(self, name: &str) -> Self {
        self.claim(name, AGENT)
            .act(name, TaskAct::Complete { output: Some(Json::of(&json!({ "of": name }))) })
    }

    #[track_caller]
    fn fails_task(self, name: &str) -> Self {
        self.claim(name, AGENT).act(name, TaskAct::Fail { error: failure() })
    }

    #[track_caller]
    fn stands_at(self, name: &str, status: TaskStatus) -> Self {
        assert_eq!(self.of_name(name).status, status, "of task '{name}'");
        self
    }

    /// The last plan that was posted.
    #[track_caller]
    fn the_plan(&self) -> &Plan {
        self.run().plans().last().expect("a plan was posted")
    }

    #[track_caller]
    fn plan_id(&self) -> PlanId {
        self.the_plan().id
    }

    #[track_caller]
    fn act_plan(self, act: PlanAct) -> Self {
        let id = self.plan_id();
        self.ask(plan_command(PlanCommand::Plan { id, version: None, act, by: None }))
    }

    #[track_caller]
    fn activate(self) -> Self {
        self.act_plan(PlanAct::Activate)
    }

    /// The worker of the run's node asks somebody, in the name of an agent.
    #[track_caller]
    fn asks(self, agent: &str, call: u32) -> Self {
        let asked = json!({
            "kind": "clarification", "data": { "questions": [{ "id": "answer", "question": "Well?" }] },
        });
        let ask = WorkAsk {
            agent: agent.to_owned(),
            principal: None,
            key: None,
            call,
            payload: Json::of(&asked),
            ladder: None,
            respondents: None,
            single: true,
            hooks: Vec::new(),
        };
        self.works(WorkOp::Ask(Box::new(ask)))
    }

    #[track_caller]
    fn works(self, op: WorkOp) -> Self {
        self.works_at("self", op)
    }

    /// The worker that has a node does something.
    #[track_caller]
    fn works_at(self, node: &str, op: WorkOp) -> Self {
        let offer = self.run().offers().find(|offer| &*offer.task.node == node).expect("it is offered");
        self.ask(Command::Work(Box::new(Work { task: offer.task, fence: offer.fence, op })))
    }

    /// The newest question that is open.
    #[track_caller]
    fn question(&self) -> InterruptId {
        self.run().interrupts().last().expect("something is asked").requested.interrupt_id
    }

    #[track_caller]
    fn answer_well(self, id: InterruptId) -> Self {
        self.answer_to(id, &json!({ "answers": { "answer": "well" } }), "alice")
    }

    /// Somebody answers at the checkpoint that the plan waits at.
    #[track_caller]
    fn at_checkpoint(self, value: &Value) -> Self {
        self.answer(RESUME_NODE, value)
    }

    #[track_caller]
    fn refused_for(self, words: &str) -> Self {
        let told = self.last_rejection().to_string();
        assert!(told.contains(words), "'{told}' does not say '{words}'");
        self
    }

    /// The payload of the last event of a type.
    #[track_caller]
    fn said(&self, name: &str) -> Value {
        serde_json::from_str(&self.payload(name)).expect("payloads are JSON")
    }
}

#[track_caller]
fn invalid(story: &Story) -> &str {
    match story.last_rejection() {
        Rejection::Invalid { field, .. } => field,
        other => panic!("{other:?} is another refusal"),
    }
}

fn condition(task: &str, when: &str) -> NewCondition {
    NewCondition { task: task.to_owned(), when: when.to_owned(), otherwise: Some("skip".to_owned()) }
}

/// A run whose only node is done once its delay is over.
fn waiting_run() -> Workflow {
    workflow([workflow::delay("wait", story::hours(1)), noop("next")]).flow("wait > next")
}
