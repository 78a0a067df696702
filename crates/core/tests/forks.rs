//! Forks: what a replay takes from the journal and what it works out again, and how a branch goes on.
//!
//! Every story of every test is forked as well, after each of its words: see `domain/forks.rs`.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

#[expect(dead_code, reason = "commands.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use std::sync::Arc;

use abide_core::fork::{Fork, NewFork, Overlay, Source, Unforked};
use abide_core::{
    Cancellation, Command, Effect, Event, ForkMode, Graph, JsonMap, Lifecycle, Payload, Record, Rejection,
    Resolve, Run, RunEvent, Salt, Status, TimerId, diff,
};
use serde_json::json;
use story::forks::{LATER, drive, forged};
use story::{BEGIN, SALT, Story, hours, key, payload_text, run_id, type_name};
use workflow::{Workflow, child, delay, http, noop, of_kind, transform, workflow};

const OTHER: Salt = [9; 16];

fn gate(id: &str) -> workflow::Sketch {
    of_kind(id, "core.approvalGate").config("title", json!("Send it?"))
}

/// Works something out, asks for a decision, and does one thing more.
fn reviewed() -> Workflow {
    let words = json!({ "words": "['a', 'b'].map(word, word + '!')" });
    workflow([transform("draft").config("outputs", words), gate("gate"), noop("after")])
        .flow("draft > gate > after")
}

fn fork_of(graph: Arc<Graph>, mode: ForkMode, from_seq: u64) -> Fork {
    Fork {
        key: run_id(2).of(key().tenant),
        salt: OTHER,
        graph,
        mode,
        from_seq,
        overlay: Overlay::default(),
        by: Some("ada".to_owned()),
        trace: None,
        defaults: Arc::default(),
    }
}

fn source(journal: &[Record]) -> Source<'_> {
    Source { key: key(), salt: SALT, journal }
}

fn replay(story: &Story) -> NewFork {
    let fork = fork_of(story.run().graph().clone(), ForkMode::Replay, 0);
    Run::fork(source(story.journal()), fork, LATER).unwrap()
}

fn branch_at(story: &Story, name: &str) -> NewFork {
    let at = story.journal().iter().position(|record| type_name(record) == name).unwrap();
    let fork = fork_of(story.run().graph().clone(), ForkMode::Branch, at as u64);
    Run::fork(source(story.journal()), fork, LATER).unwrap()
}

fn diverged(records: &[Record]) -> Vec<(u64, &'static str)> {
    let told = records.iter().filter_map(|record| match record.event().unwrap() {
        Event::Run(RunEvent::ReplayDiverged(told)) => Some((told.at_sequence, told.divergence_kind.name())),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_fork_finds_recorded_answers_by_node_execution_and_call() {
    let story = Story::of(&reviewed()).start().answer("gate", &json!({ "action": "accept" }));
    let asked = story.payload("interrupt.requested");
    assert!(asked.contains(&key().id.to_string()), "the default key names the run: {asked}");
    let new = replay(&story);
    assert_eq!((new.run.status(), new.diverged), (Status::Completed, 0));
    let text =
        |name: &str| payload_text(new.step.records.iter().find(|record| type_name(record) == name).unwrap());
    let own = text("interrupt.requested");
    assert!(!own.contains(&key().id.to_string()) && own.contains(&run_id(2).to_string()), "{own}");
    assert_ne!(own, asked);
}

#[test]
fn who_decided_is_the_same_in_every_replay() {
    let story =
        Story::of(&reviewed()).start().answer("gate", &json!({ "action": "accept", "feedback": "ok" }));
    let decided = |records: &[Record]| {
        let found = records.iter().find(|record| type_name(record) == "approval.received").unwrap();
        let text: JsonMap = serde_json::from_str(&payload_text(found)).unwrap();
        text["decidedBy"].text().to_owned()
    };
    let recorded = decided(story.journal());
    let (one, two) = (replay(&story), replay(&story));
    assert_eq!((decided(&one.step.records), decided(&two.step.records)), (recorded.clone(), recorded));
    let bytes = |new: &NewFork| new.step.records.iter().map(payload_text).collect::<Vec<_>>();
    assert_eq!(bytes(&one), bytes(&two));
}

#[test]
fn a_replay_works_pure_nodes_out_again_and_counts_them() {
    let story = Story::of(&reviewed()).start().answer("gate", &json!({ "action": "accept" }));
    let new = replay(&story);
    // The transform, the gate's body twice, and the last node.
    assert_eq!((new.executed, new.copied), (4, 0));
    let end = story.journal().len() as u64;
    let fork = fork_of(story.run().graph().clone(), ForkMode::Replay, end);
    let copy = Run::fork(source(story.journal()), fork, LATER).unwrap();
    assert_eq!((copy.executed, copy.copied), (0, end), "what is copied is not counted");
}

#[test]
fn a_replay_is_called_what_the_run_was_called() {
    let words =
        json!({ "order": "'ORD-' + run.id.substring(4)", "at": "run.startedAtMs", "tags": "run.tags" });
    let plan = workflow([transform("draft").config("outputs", words), gate("gate"), noop("after")])
        .flow("draft > gate > after");
    let story = Story::of(&plan).start().answer("gate", &json!({ "action": "accept" }));
    let origin = |new: &NewFork, byte: u8| (new.run.key(), [byte; 16]);
    let once = replay(&story);
    assert_eq!(once.diverged, 0);
    let found = diff((key().id, story.journal()), (once.run.key().id, &once.step.records)).unwrap();
    assert_eq!(found.differences, []);
    let (own, salt) = origin(&once, 9);
    let off_it =
        story::forks::Origin { key: own, salt, graph: story.run().graph(), journal: &once.step.records };
    off_it.replay_from(0);
    // What a branch has kept was worked out under another name, and with other options.
    let at = story.journal().iter().position(|record| type_name(record) == "approval.received").unwrap();
    let overlay = Overlay { tags: Some(vec!["new".to_owned()]), ..Overlay::default() };
    let fork = fork_of(story.run().graph().clone(), ForkMode::Branch, at as u64);
    let new = Run::fork(source(story.journal()), Fork { overlay, ..fork }, LATER).unwrap();
    let (own, salt) = origin(&new, 9);
    let off_it =
        story::forks::Origin { key: own, salt, graph: story.run().graph(), journal: &new.step.records };
    assert_eq!(off_it.replay_from(0).copied, at as u64);
}

#[test]
fn a_pure_node_that_comes_out_otherwise_is_told() {
    let story = Story::of(&reviewed()).start().answer("gate", &json!({ "action": "accept" }));
    let planted = forged(story.journal(), "node.completed", r#"["a!","b!"]"#, r#"["a?","b?"]"#);
    let fork = fork_of(story.run().graph().clone(), ForkMode::Replay, 0);
    let new = Run::fork(source(&planted), fork, LATER).unwrap();
    let at = planted.iter().position(|record| type_name(record) == "node.completed").unwrap() as u64;
    assert_eq!(diverged(&new.step.records), [(at, "output")]);
    assert_eq!((new.diverged, new.run.status()), (1, Status::Completed));
    let live = new.run.node(0).outputs.as_ref().unwrap().text();
    assert_eq!(live, r#"{"words":["a!","b!"]}"#, "it goes on with what was worked out");
    assert_eq!(type_name(new.step.records.last().unwrap()), "run.completed", "the end is the last event");
}

#[test]
fn a_replay_that_needs_what_was_never_recorded_fails_there() {
    let ask = |url: &str| http("ask", "GET").config("url", json!(url));
    let plan = |way: &str| {
        let which = json!({ "which": format!("'{way}'") });
        workflow([transform("choose").config("outputs", which), ask("https://a.example"), noop("pass")])
            .flow("choose > ask")
            .when("output.which == 'ask'")
            .flow("choose > pass")
            .when("output.which == 'pass'")
    };
    let story = Story::of(&plan("pass")).start().stands(Status::Completed);
    // The same run, had its definition been another one: what was recorded goes the other way.
    let graph = plan("ask").graph();
    let planted = forged(story.journal(), "run.started", &story.run().graph().hash_hex(), &graph.hash_hex());
    let fork = fork_of(graph, ForkMode::Replay, 0);
    let new = Run::fork(source(&planted), fork, LATER).unwrap();
    assert_eq!(new.run.status(), Status::Failed);
    assert_eq!(new.run.error().unwrap().code, "replay_source_missing");
    let kinds: Vec<_> = diverged(&new.step.records).into_iter().map(|(_, kind)| kind).collect();
    assert!(kinds.contains(&"output") && kinds.contains(&"extra") && kinds.contains(&"missing"), "{kinds:?}");
    assert!(kinds.contains(&"type-mismatch"), "it ended otherwise: {kinds:?}");
}

#[test]
fn a_replay_of_a_run_under_way_stops_where_it_stands_and_can_only_be_cancelled() {
    for workflow in [reviewed(), workflow([http("ask", "GET")]), workflow([delay("wait", 5)])] {
        let story = Story::of(&workflow).start();
        let mut new = replay(&story);
        assert_eq!((new.step.effects.len(), new.run.is_parked()), (0, true));
        assert_eq!(new.run.status(), story.run().status());
        let open = new.run.interrupts().next().map(|open| open.requested.interrupt_id);
        if let Some(id) = open {
            let by = abide_core::Answerer::of("ada");
            let value = abide_core::Json::of(&json!({ "action": "accept" }));
            let resolve = Resolve { id, value, by };
            assert_eq!(new.run.decide(Command::Resolve(resolve), LATER), Err(Rejection::Replay));
        }
        let timer = TimerId::Delay { node: "wait".into(), execution: 1 };
        assert_eq!(new.run.decide(Command::Fire(timer), LATER), Err(Rejection::Replay));
        let asked =
            Cancellation { reason: None, cancelled_by: None, parent_run_id: None, abandonment_reason: None };
        let step = new.run.decide(Command::Cancel(asked), LATER).unwrap();
        assert_eq!((new.run.lifecycle(), step.effects.len()), (Lifecycle::Cancelled, 0));
    }
}

#[test]
fn a_replay_of_a_run_that_is_being_cancelled_can_be_cancelled() {
    let story = Story::of(&workflow([http("ask", "GET")])).start().cancel().stands(Status::Cancelling);
    let mut new = replay(&story);
    assert_eq!(new.run.status(), Status::Cancelling);
    let asked =
        Cancellation { reason: None, cancelled_by: None, parent_run_id: None, abandonment_reason: None };
    let step = new.run.decide(Command::Cancel(asked.clone()), LATER).unwrap();
    assert_eq!((new.run.lifecycle(), step.effects.len()), (Lifecycle::Cancelled, 0));
    let again = new.run.decide(Command::Cancel(asked), LATER);
    assert_eq!(again, Err(Rejection::Ended(Lifecycle::Cancelled)));
}

#[test]
fn a_branch_of_a_run_that_is_ending_ends_and_does_nothing_again() {
    let both = || workflow([http("ask", "POST"), http("pay", "POST"), gate("gate")]);
    let cancelled = Story::of(&both()).start().cancel();
    let failed = Story::of(&both()).start().report_failure("pay", "it is broken");
    for (story, end) in [(cancelled, Lifecycle::Cancelled), (failed, Lifecycle::Failed)] {
        let ends = |record: &Record| ["run.cancelling", "node.failed"].contains(&type_name(record));
        for at in story.journal().iter().position(ends).unwrap() + 1..=story.journal().len() {
            let new = story.origin().branch_from(at as u64);
            let lasting = |effect: &&Effect| !matches!(effect, Effect::TakeName(_));
            let effects: Vec<_> = new.step.effects.iter().filter(lasting).collect();
            assert_eq!((new.run.lifecycle(), effects), (end, vec![]), "from {at}");
        }
    }
}

#[test]
fn a_branch_before_the_answer_asks_again_under_a_new_id() {
    let story = Story::of(&reviewed()).start();
    let asked = story.open_at("gate")[0];
    let story = story.after(hours(100)).answer("gate", &json!({ "action": "accept" }));
    let mut new = branch_at(&story, "approval.received");
    let open: Vec<_> = new.run.interrupts().map(|open| open.requested.interrupt_id).collect();
    assert_eq!(open.len(), 1);
    assert_ne!(open[0], asked);
    let listed = new.step.effects.iter().filter(|effect| matches!(effect, Effect::OpenInterrupt(_))).count();
    assert_eq!(listed, 1, "it enters the inbox");
    let by = abide_core::Answerer::of("ada");
    let value = abide_core::Json::of(&json!({ "action": "reject" }));
    new.run.decide(Command::Resolve(Resolve { id: open[0], value, by }), LATER).unwrap();
    assert_eq!(new.run.status(), Status::Failed);
}

#[test]
fn a_branch_behind_the_answer_keeps_it() {
    let story = Story::of(&reviewed()).start().answer("gate", &json!({ "action": "accept" }));
    let new = branch_at(&story, "interrupt.resolved");
    assert_eq!(new.run.status(), Status::Completed, "what was half written is kept to its end");
    let opened = new.step.effects.iter().any(|effect| matches!(effect, Effect::OpenInterrupt(_)));
    assert!(!opened, "nobody is asked");
}

#[test]
fn what_was_left_of_a_wait_is_left_of_it_in_a_branch() {
    let story = Story::of(&workflow([delay("wait", hours(2)), noop("after")]).flow("wait > after")).start();
    let story = story.after(hours(2)).fire("wait");
    let new = branch_at(&story, "node.completed");
    let due: Vec<_> = new.run.timers().values().copied().collect();
    assert_eq!(due, [LATER + hours(2)]);
    assert_eq!(new.step.records.last().unwrap().at, LATER);
    assert_eq!(new.run.forked().unwrap().moved_ms, LATER - BEGIN);
}

#[test]
fn a_branch_starts_children_anew_that_somebody_waits_for_and_no_others() {
    let two = workflow([child("first", "one"), child("second", "two")]).flow("first > second");
    let story = Story::of(&two).start().child_ends("first", Lifecycle::Completed, &json!({}));
    let (ended, waiting) = (story.node("first").child.unwrap(), story.node("second").child.unwrap());
    let fork = fork_of(story.run().graph().clone(), ForkMode::Branch, story.journal().len() as u64);
    let new = Run::fork(source(story.journal()), fork, LATER).unwrap();
    let spawned = new.step.effects.iter().filter_map(|effect| match effect {
        Effect::Spawn(spawn) => Some(spawn),
        _ => None,
    });
    let spawned: Vec<_> = spawned.collect();
    assert_eq!(spawned.len(), 1);
    assert_eq!(spawned[0].workflow_id, "two");
    assert_ne!(spawned[0].child, waiting);
    assert_eq!(new.run.node(0).child, Some(ended), "the one that has ended stays where it was");
    assert_eq!(new.run.node(1).child, Some(spawned[0].child));
    let replayed = replay(&story);
    assert_eq!(replayed.run.node(1).child, Some(waiting), "a replay names those that were started");
}

#[test]
fn whoever_forks_a_run_has_started_the_branch_and_so_has_whoever_started_the_run() {
    let plan = workflow([gate("gate"), child("call", "letters")]).flow("gate > call");
    let story = Story::of(&plan).by("eve").start();
    let story = story.answer("gate", &json!({ "action": "accept" }));
    let spawned = |step: &abide_core::Step| {
        let spawned = step.effects.iter().find_map(|effect| match effect {
            Effect::Spawn(spawn) => Some(spawn.clone()),
            _ => None,
        });
        spawned.unwrap()
    };
    assert!(spawned(story.step()).parent.starters.is_empty());
    let branch = branch_at(&story, "approval.received");
    assert_eq!(branch.run.starters(), ["ada", "eve"]);
    let branch = branch_at(&story, "node.completed");
    let called = spawned(&branch.step);
    assert_eq!(called.by.as_deref(), Some("ada"));
    let inner = Story::of(&reviewed()).spawned(&called).start();
    assert_eq!(inner.run().starters(), ["ada", "eve"], "a child has those of the branch");
    let fork =
        Fork { by: Some("bob".to_owned()), ..fork_of(inner.run().graph().clone(), ForkMode::Branch, 1) };
    let own = Source { key: inner.run().key(), salt: SALT, journal: inner.journal() };
    let third = Run::fork(own, fork, LATER).unwrap();
    assert_eq!(third.run.starters(), ["bob", "ada", "eve"]);
    assert_eq!(replay(&story).run.starters(), ["eve"], "a replay is of the run as it was");
}

#[test]
fn the_options_of_a_branch_are_held_to_what_a_run_may_have() {
    let story = Story::of(&reviewed()).tags(["old".to_owned()]).metadata(&json!({ "a": 1, "b": 2 })).start();
    let overlay = |configurable: serde_json::Value| Overlay {
        configurable: Some(serde_json::from_value(configurable).unwrap()),
        tags: Some(vec!["new".to_owned()]),
        metadata: Some(serde_json::from_value(json!({ "b": 3 })).unwrap()),
    };
    let fork = |configurable| {
        let fork = fork_of(story.run().graph().clone(), ForkMode::Branch, 1);
        Run::fork(source(story.journal()), Fork { overlay: overlay(configurable), ..fork }, LATER)
    };
    let new = fork(json!({ "recursionLimit": 7 })).unwrap();
    assert_eq!((new.run.tags(), new.run.caps().node_executions), (&["new".to_owned()][..], Some(7)));
    assert_eq!(new.run.metadata().unwrap().text(), r#"{"a":1,"b":3}"#);
    let refused = fork(json!({ "recursionLimit": 0 })).unwrap_err();
    assert!(matches!(refused, Unforked::Rejected(Rejection::Invalid { .. })), "{refused}");
}

#[test]
fn a_fork_can_be_forked() {
    let story = Story::of(&reviewed()).start().answer("gate", &json!({ "action": "accept" }));
    let first = branch_at(&story, "interrupt.resolved");
    let own = Source { key: first.run.key(), salt: OTHER, journal: &first.step.records };
    let fork = Fork {
        key: run_id(3).of(key().tenant),
        salt: [3; 16],
        ..fork_of(story.run().graph().clone(), ForkMode::Replay, 0)
    };
    let second = Run::fork(own, fork, LATER).unwrap();
    assert_eq!((second.diverged, second.run.status()), (0, Status::Completed));
    let found = diff((own.key.id, own.journal), (second.run.key().id, &second.step.records)).unwrap();
    assert_eq!(found.differences, []);
}

#[test]
fn a_fork_beyond_the_journal_or_of_what_was_erased_is_refused() {
    let story = Story::of(&reviewed()).start();
    let events = story.journal().len() as u64;
    let fork = |from_seq| fork_of(story.run().graph().clone(), ForkMode::Branch, from_seq);
    let refused = Run::fork(source(story.journal()), fork(events + 1), LATER).unwrap_err();
    assert_eq!(refused, Unforked::Beyond { asked: events + 1, events });
    let mut erased = story.journal().to_vec();
    erased[2].payload = Payload::Erased(erased[2].digest(Some(&SALT)).unwrap());
    assert_eq!(Run::fork(source(&erased), fork(0), LATER).unwrap_err(), Unforked::Erased);
}

#[test]
fn two_runs_differ_where_they_went_different_ways() {
    let accepted = Story::of(&reviewed()).start().answer("gate", &json!({ "action": "accept" }));
    let rejected = branch_at(&accepted, "approval.received");
    let mut run = rejected.run;
    let id = run.interrupts().next().unwrap().requested.interrupt_id;
    let by = abide_core::Answerer::of("tester");
    let value = abide_core::Json::of(&json!({ "action": "reject" }));
    let step = run.decide(Command::Resolve(Resolve { id, value, by }), LATER).unwrap();
    let records: Vec<Record> = rejected.step.records.into_iter().chain(step.records).collect();
    let found = diff((key().id, accepted.journal()), (run.key().id, &records)).unwrap();
    let first = &found.differences[0];
    assert_eq!(first.first.as_ref().unwrap().event, "approval.received");
    assert!(first.paths.contains(&"/action".to_owned()), "{first:?}");
    let only =
        |side: fn(&abide_core::Difference) -> bool| found.differences.iter().filter(|one| side(one)).count();
    assert!(only(|one| one.second.is_none()) > 0 && only(|one| one.first.is_none()) > 0);
    let same = diff((key().id, accepted.journal()), (key().id, accepted.journal())).unwrap();
    assert_eq!((same.differences.len(), same.same), (0, accepted.journal().len() as u64));
}

#[test]
fn what_is_never_shown_is_not_compared() {
    let plan = || {
        let words = json!({ "words": "variables.pin" });
        let hidden =
            workflow([transform("draft").config("outputs", words), gate("gate")]).flow("draft > gate");
        hidden.variable("pin", "object").sensitive().variable("name", "string")
    };
    let of = |pin: serde_json::Value, name: &str| {
        Story::of(&plan()).input("pin", &pin).input("name", &json!(name)).start()
    };
    let (one, other) = (of(json!({ "ada": 1 }), "Ann"), of(json!({ "bob": 2 }), "Ann"));
    let paths = |one: &Story, other: &Story| {
        let found = diff((key().id, one.journal()), (key().id, other.journal())).unwrap();
        found.differences.into_iter().flat_map(|one| one.paths).collect::<Vec<_>>()
    };
    assert_eq!(paths(&one, &other), [""; 0]);
    assert_eq!(paths(&one, &of(json!({ "bob": 2 }), "Bob")), ["/inputs/name"]);
}

#[test]
fn a_branch_at_every_event_can_be_driven_to_an_end() {
    let all = workflow([
        noop("begin"),
        transform("draft").config("outputs", json!({ "n": "1 + 1" })),
        gate("gate"),
        delay("wait", 500),
        http("ask", "GET"),
        noop("end").durable(),
    ])
    .flow("begin > draft > gate > end")
    .flow("begin > wait > ask > end")
    .settings("timeout", json!(hours(5)));
    let story = Story::of(&all).start();
    let story = story.after(500).fire("wait").report("ask");
    let story = story.answer("gate", &json!({ "action": "accept" })).perform("end").stands(Status::Completed);
    for sequence in 0..=story.journal().len() {
        let new = story.origin().branch_from(sequence as u64);
        assert!(drive(new.run).lifecycle().is_terminal(), "from {sequence}");
    }
}

#[test]
fn a_branch_may_be_cut_between_a_vote_and_a_timeout_and_not_between_the_last_vote_and_what_it_decides() {
    let gate = of_kind("gate", "core.approvalGate").config("title", json!("Pay?"));
    let gate = gate.config("requiredApprovals", json!(2)).config("timeoutMs", json!(1_000));
    let voted = Story::of(&workflow([gate])).start().answer("gate", &json!({ "action": "accept" }));
    let id = voted.run().interrupt_of("gate").unwrap();
    let late = voted.clone().after(1_000).fire_timer(&format!("interrupt/{id}")).stands(Status::Failed);
    let new = branch_at(&late, "approval.received");
    assert_eq!((new.copied, new.run.status()), (voted.journal().len() as u64, Status::WaitingApproval));
    assert_eq!(new.run.interrupts().next().unwrap().votes().len(), 1, "the vote is kept");
    let decided = voted.answer_to(id, &json!({ "action": "accept" }), "bob").stands(Status::Completed);
    assert_eq!(branch_at(&decided, "approval.received").run.status(), Status::Completed);
}
