//! Runs of requests, workers' nodes and gates to which anything happens in any order: no run hangs silently, nothing that
//! may have had its effect is done again without somebody's approval, and every attempt is counted once.
//!
//! The story itself checks after each word that a refused command left no trace, that the journal folds to the same run
//! with the same effects, and that a snapshot holds all of it.

#[path = "domain/seeded.rs"]
mod seeded;
#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::event::{Loss, Wait};
use abide_core::{
    Artifacts, Command, Failure, FailureClass, Hold, InterruptId, InterruptionClass, Json, Lifecycle,
    NodePhase, OnRefusal, Open, Product, Provided, RESUME_NODE, Reached, Rejection, ResumeNow,
    ResumeSettings, Status, Surroundings, TaskFailure, TimerId, Work, WorkAsk, WorkChild, WorkFailure,
    WorkOp,
};
use seeded::Dice;
use serde_json::{Value, json};
use story::{Story, fire};
use workflow::{Workflow, http, noop, of_kind, workflow};

const KIND: &str = "acme.work";
const SAFE_KIND: &str = "acme.look";

fn around(dice: &mut Dice) -> Surroundings {
    let kinds = BTreeMap::from([
        (KIND.to_owned(), Provided::default()),
        (SAFE_KIND.to_owned(), Provided { idempotent: true, ..Provided::default() }),
    ]);
    let resume = ResumeSettings {
        auto: Some(dice.roll(5) > 0),
        max_attempts: Some(dice.roll(4) as u32),
        cooldown_seconds: [Some(1), Some(2), Some(3), Some(4)],
        on_refusal: Some(if dice.roll(4) == 0 { OnRefusal::Fail } else { OnRefusal::Escalate }),
    };
    Surroundings { kinds: Arc::new(kinds), resume, ..Surroundings::default() }
}

fn flow() -> Workflow {
    let retry = || json!({ "maxRetries": 1, "baseDelayMs": 5, "jitter": false });
    let taken_over = json!({ "maxRetries": 1, "baseDelayMs": 5, "fallbackAgent": "clerk" });
    let gate = of_kind("gate", "core.approvalGate").config("title", json!("Well?"));
    workflow([
        http("get", "GET").setting("retry", retry()),
        http("post", "POST"),
        http("once", "PUT").setting("reversible", json!(false)).setting("retry", retry()),
        of_kind("job", KIND).setting("retry", taken_over),
        of_kind("look", SAFE_KIND),
        gate,
        noop("handler"),
        http("again", "GET").looping(2),
        noop("end"),
    ])
    .flow("get > gate > again")
    .flow("again > again")
    .when("nodes.post.status == 'failed'")
    .flow("again > end")
    .under("any_failed", "post > handler")
    .when("nodes.get.status == 'completed'")
}

fn any_failure(dice: &mut Dice) -> TaskFailure {
    TaskFailure {
        failure: Failure::new("http_status", "the provider said 503"),
        retryable: dice.roll(8) > 0,
        reached: if dice.flip() { Reached::Maybe } else { Reached::No },
        class: InterruptionClass::ALL[dice.roll(4) as usize],
    }
}

fn any_op(dice: &mut Dice, story: &Story) -> WorkOp {
    let n = dice.roll(3);
    match dice.roll(12) {
        0 | 1 => WorkOp::Begin { key: format!("s{n}") },
        2 => WorkOp::Record { key: format!("s{n}"), outcome: Ok(Json::of(&n)) },
        3 => WorkOp::Record { key: format!("s{n}"), outcome: Err(Failure::new("bad", "it is bad")) },
        4 => WorkOp::Ask(Box::new(WorkAsk {
            agent: "scribe".to_owned(),
            principal: None,
            key: (n == 1).then(|| format!("{RESUME_NODE}:{}", story.journal().len())),
            call: n as u32 + 1,
            payload: Json::of(&json!({
                "kind": "clarification", "data": { "questions": [{ "id": "answer", "question": "Well?" }] },
            })),
            ladder: None,
            respondents: None,
            single: true,
            hooks: Vec::new(),
        })),
        5 => WorkOp::Sleep { key: format!("nap{n}"), ms: 10 + n as i64 },
        6 => WorkOp::Child(WorkChild {
            key: format!("sub{n}"),
            workflow_id: "sub".to_owned(),
            inputs: abide_core::JsonMap::new(),
            outputs: Vec::new(),
            cascade: true,
        }),
        7 => {
            let asked = |open: &Open| Wait::Interrupt(open.requested.interrupt_id);
            let mut waits: Vec<Wait> = story.run().interrupts().map(asked).collect();
            waits.push(Wait::Sleep(format!("nap{n}")));
            let turn = dice.roll(waits.len() as u64) as usize;
            waits.rotate_left(turn);
            waits.truncate(1 + dice.roll(2) as usize);
            WorkOp::Park { waits }
        }
        8 | 9 => WorkOp::Fail(WorkFailure {
            failure: Failure::new("no_paper", "the printer has no paper"),
            class: FailureClass::ALL[dice.roll(11) as usize].0,
            retryable: dice.roll(6) > 0,
            possible_effect: dice.flip(),
            retry_after_ms: None,
        }),
        10 => {
            let reasons = [Loss::Silent, Loss::Forgotten, Loss::Timeout, Loss::Released];
            WorkOp::Lose { reason: reasons[dice.roll(4) as usize], worker: "worker 7".to_owned() }
        }
        _ => WorkOp::Complete { outputs: Some(Json::of(&json!({ "n": n }))), by: Vec::new() },
    }
}

fn any_artifacts(dice: &mut Dice) -> Artifacts {
    Artifacts { history: dice.roll(6) > 0, ..Artifacts::READABLE }
}

fn any_wish(dice: &mut Dice, story: &Story) -> ResumeNow {
    let steps = story.run().interrupted_steps();
    let force = dice.flip();
    let mut done = BTreeMap::new();
    if let Some(step) = dice.pick(&steps).filter(|_| dice.roll(4) == 0) {
        done.insert(step.node.to_string(), Json::of(&json!({ "told": "by hand" })));
    }
    let approve = steps.iter().filter(|_| dice.flip()).map(|step| step.node.to_string()).collect();
    ResumeNow {
        by: ["ops", "alice", "system"][dice.roll(3) as usize].to_owned(),
        reason: force.then(|| "it is mended".to_owned()),
        force,
        approve,
        done,
        class: (force && dice.roll(5) == 0).then(|| ["timeout", "gremlin"][dice.roll(2) as usize].to_owned()),
        artifacts: any_artifacts(dice),
    }
}

fn answer_to(open: &Open, dice: &mut Dice) -> (InterruptId, Value) {
    let id = open.requested.interrupt_id;
    let approval = json!({ "action": if dice.roll(4) > 0 { "accept" } else { "reject" } });
    let well = json!({ "answers": { "answer": "well" } });
    (id, if open.requested.kind == abide_core::InterruptKind::Approval { approval } else { well })
}

fn fired(dice: &mut Dice, timer: TimerId) -> Command {
    match timer {
        TimerId::Resume => Command::ResumeDue { artifacts: any_artifacts(dice) },
        timer => fire(timer),
    }
}

fn any_word(dice: &mut Dice, story: Story) -> Story {
    match dice.roll(24) {
        0 => story.pause(),
        1 | 2 => story.resume(),
        3 => story.drain(),
        4 if dice.roll(12) == 0 => story.cancel(),
        5..=8 => {
            let timers: Vec<TimerId> = story.run().timers().keys().cloned().collect();
            let Some(timer) = dice.pick(&timers) else { return story };
            let command = fired(dice, timer);
            story.after(dice.roll(3000) as i64).ask(command)
        }
        9 | 10 => {
            let open: Vec<Open> = story.run().interrupts().cloned().collect();
            let Some(open) = dice.pick(&open) else { return story };
            let (id, value) = answer_to(&open, dice);
            story.answer_to(id, &value, "alice")
        }
        11..=13 => {
            let wish = any_wish(dice, &story);
            story.ask(Command::ResumeNow(Box::new(wish)))
        }
        14 => {
            let auto = dice.flip();
            story.ask(Command::SwitchResume { auto, by: "ops".to_owned(), reason: None })
        }
        15 if dice.roll(4) == 0 => {
            let around = around(dice);
            story.amid(around)
        }
        16 => match story.node("job").child {
            Some(_) => story.child_ends("job", Lifecycle::Completed, &json!({})),
            None => story,
        },
        17..=20 => {
            let offers: Vec<_> = story.run().offers().collect();
            let Some(offer) = dice.pick(&offers) else { return story };
            let op = any_op(dice, &story);
            story.ask(Command::Work(Box::new(Work { task: offer.task, fence: offer.fence, op })))
        }
        _ => {
            let tasks: Vec<_> = story.run().tasks().collect();
            let Some(task) = dice.pick(&tasks) else { return story };
            let outcome = if dice.roll(3) > 0 { Err(any_failure(dice)) } else { Ok(Product::of(None)) };
            story.report_product(&task.node, task.execution, outcome)
        }
    }
}

/// What holds of every run at every moment.
fn check(story: &Story, seed: u64) {
    let run = story.run();
    if run.lifecycle().is_terminal() {
        assert_eq!((run.interrupts().count(), run.timers().len()), (0, 0), "seed {seed}");
        assert!(run.interrupted_steps().is_empty(), "seed {seed}");
        return;
    }
    let looks = run.timers().contains_key(&TimerId::Resume);
    let asks = run.interrupts().filter(|open| &**run.interrupted_node(open) == RESUME_NODE).count();
    let steps = run.interrupted_steps();
    assert!(asks <= 1, "seed {seed}: people are asked twice");
    assert!(asks == 0 || !looks, "seed {seed}: people are asked, and it goes on without them");
    let told = || (story.history(), run.why());
    match run.hold() {
        Hold::Escalated => {
            assert!(asks == 1 || looks || run.is_ending(), "seed {seed}: nobody is asked: {:?}", told());
            assert!(!steps.is_empty() || run.is_ending(), "seed {seed}: held for nothing: {:?}", told());
        }
        Hold::None => {
            assert_eq!(looks, !steps.is_empty() && !run.is_ending(), "seed {seed}: {:?}", told());
            assert_eq!(asks, 0, "seed {seed}");
        }
        Hold::Pausing | Hold::Paused | Hold::Stopped => assert!(!looks && asks == 0, "seed {seed}"),
    }
    for step in steps {
        let node = story.node(&step.node);
        assert_eq!((node.phase, node.dispatched), (NodePhase::Waiting, false), "seed {seed}");
    }
    let why = run.why();
    assert!(!why.reasons.is_empty(), "seed {seed}: it waits for nothing: {:?}", story.history());
}

/// What may have had its effect is done again only if that does no harm, or somebody said that it may be.
fn check_repeats(story: &Story, before: &Story, command_from: usize, seed: u64) {
    let decided = |record: &&abide_core::Record| {
        let text = story::payload_text(record);
        story::type_name(record) == "resume_decision" && text.contains(r#""eligible":true"#)
    };
    let allowed = story.journal()[command_from..].iter().filter(decided).count() as u32;
    let (was, is) = (before.run().resume_attempts(), story.run().resume_attempts());
    assert_eq!(is - was, allowed, "seed {seed}: an attempt is counted once");
    let approved = |node: &str| {
        let requested =
            story.journal().iter().rev().filter(|record| story::type_name(record) == "resume.requested");
        let requested = requested.map(story::payload_text).next();
        requested.is_some_and(|wish| {
            let wish: Value = serde_json::from_str(&wish).expect("JSON");
            let named = |list: &Value| list.as_array().is_some_and(|list| list.contains(&json!(node)));
            named(&wish["approve"]) || named(&wish["done"])
        })
    };
    for step in before.run().interrupted_steps() {
        let again = story.journal()[command_from..].iter().any(|record| {
            story::type_name(record) == "node.due" && record.node.as_deref() == Some(&*step.node)
        });
        assert!(!again || allowed == 1, "seed {seed}: '{}' goes on without a decision", step.node);
        assert!(
            !again || step.may_repeat() || approved(&step.node),
            "seed {seed}: '{}' is done again without approval",
            step.node
        );
    }
}

fn play(seed: u64) -> Status {
    let dice = &mut Dice::of(seed);
    let around = around(dice);
    let mut opening = Story::of(&flow()).under(around);
    if dice.flip() {
        opening = opening.configurable(&json!({ "runTimeoutMs": 20_000 }));
    }
    let mut story = opening.start();
    for _ in 0..90 {
        let before = story.clone();
        story = any_word(dice, story);
        check(&story, seed);
        check_repeats(&story, &before, before.journal().len(), seed);
    }
    finish(story, dice, seed)
}

/// Everybody does what is left, and the run ends.
fn finish(mut story: Story, dice: &mut Dice, seed: u64) -> Status {
    for _ in 0..120 {
        if story.run().lifecycle().is_terminal() {
            return story.run().status();
        }
        if matches!(story.run().hold(), Hold::Paused | Hold::Pausing) {
            story = story.resume();
        }
        for timer in story.run().timers().keys().cloned().collect::<Vec<_>>() {
            story = story.after(5_000).ask(fire(timer));
        }
        for task in story.run().tasks().collect::<Vec<_>>() {
            story = story.report_product(&task.node, task.execution, Ok(Product::of(None)));
        }
        for offer in story.run().offers().collect::<Vec<_>>() {
            let op = WorkOp::Complete { outputs: None, by: Vec::new() };
            story = story.ask(Command::Work(Box::new(Work { task: offer.task, fence: offer.fence, op })));
        }
        for open in story.run().interrupts().cloned().collect::<Vec<_>>() {
            let (id, value) = answer_to(&open, dice);
            story = story.answer_to(id, &value, "alice");
        }
        for node in ["job", "look"] {
            if story.node(node).child.is_some() {
                story = story.child_ends(node, Lifecycle::Completed, &json!({}));
            }
        }
        check(&story, seed);
    }
    panic!("seed {seed}: {:?}", story.run().why());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long a test runs is up to whoever runs it")]
fn whatever_happens_to_an_interrupted_run_it_ends_or_somebody_is_asked() {
    let most = std::env::var("ABIDE_PLAYS").ok().and_then(|plays| plays.parse().ok()).unwrap_or(150);
    let ends: Vec<Status> = (1..=most).map(play).collect();
    for end in [Status::Completed, Status::Failed, Status::Cancelled] {
        assert!(ends.contains(&end), "no story ended as {end:?}, so they tell little");
    }
}

#[test]
fn a_refusal_names_no_run_that_was_never_interrupted() {
    let story = Story::of(&flow()).under(around(&mut Dice::of(7))).start();
    let wish = any_wish(&mut Dice::of(3), &story);
    story.ask(Command::ResumeNow(Box::new(wish))).refused(&Rejection::NotInterrupted);
}
