//! Journals and snapshots as they stand on disk, in full: a change of the format has to show here.
//!
//! A journal is for ever. If a snapshot of this file changes, an older journal may no longer be readable:
//! raise the version of the event type and bring the old form up to date when it is read.

#[path = "journals/intents.rs"]
mod intents;
#[expect(dead_code, reason = "random tests tell the rest of the vocabulary")]
#[path = "domain/seeded.rs"]
mod seeded;
#[path = "journals/societies.rs"]
mod societies;
#[expect(dead_code, reason = "commands.rs tells the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "the definitions of this file are written out, since their hash is on disk")]
#[path = "domain/workflow.rs"]
mod workflow;
#[expect(dead_code, reason = "bonds.rs tells the rest of the vocabulary")]
#[path = "domain/world.rs"]
mod world;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use abide_core::event::{Held, HoldMode, Progress, Released, Wait};
use abide_core::fork::{Fork, Overlay, Source};
use abide_core::planning::{
    NewCheckpoint, NewCondition, NewPlan, NewTask, PlanAct, PlanCommand, PlanTask, TaskAct,
    TaskId as PostedId,
};
use abide_core::{
    CallRef, ChunkKind, Command, ErrorKind, EventType, Failure, FailureClass, ForkMode, Graph, Hash,
    HookKind, Json, Key, Lifecycle, Loss, ModelAnswer, ModelError, NodePhase, Payload, Price, Provided,
    ProviderTerms, Reached, Reasoning, Record, Reply, Run, RunId, Status, Surroundings, TaskId, TenantId,
    TimerId, ToolCall, TurnCommand, Usage, Work, WorkAsk, WorkFailure, WorkOp, event_types, limits, sha256,
};
use serde_json::json;
use story::forks::{LATER, forged};
use story::{BEGIN, SALT, Story, hours, key, notice, payload_text, run_id, type_name};
use workflow::{fixed, identity, noop, of_kind, workflow};

fn graph(definition: &str) -> Arc<Graph> {
    Arc::new(Graph::admit(definition.as_bytes()).expect("the definition is sound"))
}

/// A run that completes: values from all three places, a fan and a delay.
fn greeting() -> Story {
    let definition = r#"{
      "id": "greeting", "name": "Greeting", "version": "1.0",
      "nodes": [
        {"id": "who", "typeId": "core.identity", "name": "Who", "position": {}, "config": {},
         "inputs": {"name": {"type": "variable", "variableName": "name"},
                    "title": {"type": "variable", "variableName": "title", "optional": true}}},
        {"id": "wait", "typeId": "core.delay", "name": "Wait", "position": {}, "config": {"ms": 1500},
         "inputs": {}},
        {"id": "greet", "typeId": "core.identity", "name": "Greet", "position": {}, "config": {},
         "inputs": {"name": {"type": "connection", "nodeId": "who", "outputKey": "name"},
                    "word": {"type": "static", "value": "hello"}}}
      ],
      "edges": [
        {"id": "1", "sourceNodeId": "who", "targetNodeId": "greet"},
        {"id": "2", "sourceNodeId": "wait", "targetNodeId": "greet"}
      ],
      "triggers": [], "variables": [{"name": "name", "type": "string", "required": true}],
      "metadata": {}, "settings": {}
    }"#;
    Story::following(graph(definition))
        .input("name", &json!("Zoë \"Z\""))
        .tags(["red".to_owned(), "blue".to_owned()])
        .metadata(&json!({"team": [1, 2.5, null]}))
        .by("ann")
        .start()
        .after(1500)
        .fire("wait")
        .stands(Status::Completed)
}

const SHIPMENT: &str = r#"{
  "id": "shipment", "name": "Shipment", "version": "1.0",
  "nodes": [
    {"id": "pack", "typeId": "core.noop", "name": "Pack", "position": {}, "config": {}, "inputs": {},
     "settings": {"abide": {"durable": true}}},
    {"id": "label", "typeId": "core.noop", "name": "Label", "position": {}, "config": {}, "inputs": {},
     "settings": {"abide": {"durable": true}}},
    {"id": "pick up", "typeId": "core.delay", "name": "Pick up", "position": {}, "config": {"durationMs": 60000},
     "inputs": {}},
    {"id": "send", "typeId": "core.noop", "name": "Send", "position": {}, "config": {}, "inputs": {}}
  ],
  "edges": [
    {"id": "1", "sourceNodeId": "pack", "targetNodeId": "send"},
    {"id": "2", "sourceNodeId": "label", "targetNodeId": "send"},
    {"id": "3", "sourceNodeId": "pick up", "targetNodeId": "send"}
  ],
  "triggers": [], "variables": [], "metadata": {}, "settings": {}
}"#;

/// A child that fails while a task is in flight and a delay waits.
fn failing_shipment() -> Story {
    let failure = Failure {
        details: Some(Json::of(&json!({"printer": 3}))),
        ..Failure::new("node_execution_failed", "no paper")
    };
    Story::following(graph(SHIPMENT))
        .child_of(run_id(9), "ship")
        .start()
        .after(10)
        .report_of("label", 1, Err(failure))
        .after(10)
        .report_of("pack", 1, Ok(Some(Json::of(&json!({"boxes": 2})))))
        .stands(Status::Failed)
}

/// A run that has its scope to itself, and a pause that waits for what is under way.
fn drained_shipment() -> Story {
    Story::following(graph(SHIPMENT))
        .alone_in("order-7")
        .start()
        .drain()
        .report("label")
        .report("pack")
        .resume()
}

/// A run that is paused, resumed and cancelled, and hears from a child.
fn cancelled_shipment() -> Story {
    Story::following(graph(SHIPMENT))
        .start()
        .after(10)
        .pause_because("lunch", "ann")
        .after(10)
        .report("label")
        .resume()
        .hear(notice(run_id(2), 41, Lifecycle::Failed), None)
        .after(hours(1))
        .cancel_because("not needed", "bob")
        .report("pack")
        .stands(Status::Cancelled)
}

/// A run of one node too many for one decision, just after it yielded.
fn yielding() -> Story {
    let nodes = (0..=limits::STRETCH_NODES_MAX).map(|n| noop(&format!("n{n}")));
    Story::of(&workflow(nodes)).start().stands(Status::Running)
}

const ORDER: &str = r#"{
  "id": "order", "name": "Order", "version": "2.0",
  "nodes": [
    {"id": "ask", "typeId": "core.http.request", "name": "Ask", "position": {},
     "config": {"url": "https://stock.example/{{ inputs.item }}"},
     "inputs": {"item": {"type": "variable", "variableName": "item"}},
     "settings": {"abide": {"retry": {"strategy": "fixed", "baseDelayMs": 500, "jitter": false}}}},
    {"id": "count", "typeId": "core.transform", "name": "Count", "position": {},
     "config": {"assign": {"tries": "variables.tries + 1"}, "outputs": {"tries": "variables.tries + 1"}},
     "inputs": {}, "settings": {"abide": {"loop": {"maxIterations": 3}}}},
    {"id": "note", "typeId": "core.channelWrite", "name": "Note", "position": {},
     "config": {"channelName": "log", "reducer": "append"},
     "inputs": {"value": {"type": "variable", "variableName": "pin"}}},
    {"id": "ship", "typeId": "core.subWorkflow", "name": "Ship", "position": {},
     "config": {"workflowId": "shipment", "inputMapping": {"code": "pin"}, "outputMapping": {"boxes": "count"}},
     "inputs": {}},
    {"id": "apologise", "typeId": "core.noop", "name": "Apologise", "position": {}, "config": {}, "inputs": {}}
  ],
  "edges": [
    {"id": "1", "sourceNodeId": "ask", "targetNodeId": "count"},
    {"id": "again", "sourceNodeId": "count", "targetNodeId": "count",
     "condition": {"type": "expression", "expression": "output.tries < 2"}},
    {"id": "3", "sourceNodeId": "count", "targetNodeId": "note"},
    {"id": "4", "sourceNodeId": "note", "targetNodeId": "ship"},
    {"id": "5", "sourceNodeId": "ship", "targetNodeId": "apologise", "triggerRule": "any_failed"}
  ],
  "triggers": [],
  "variables": [
    {"name": "item", "type": "string", "required": true}, {"name": "tries", "type": "number", "defaultValue": 0},
    {"name": "pin", "type": "string", "sensitive": true}
  ],
  "metadata": {}, "settings": {"timeout": 60000}
}"#;

fn order() -> Story {
    Story::following(graph(ORDER))
        .input("item", &json!("lamp"))
        .input("pin", &json!("1234"))
        .configurable(&json!({"recursionLimit": 50, "maxLoopIterations": 2}))
        .start()
        .after(10)
        .report_trouble("ask", "no answer", Reached::No)
        .after(500)
        .fire_timer("retry/1/ask")
        .report_of("ask", 1, Ok(Some(Json::of(&json!({"status": 200})))))
}

/// A run that is retried, loops, writes to a channel and has a child that completes.
fn shipped_order() -> Story {
    order().after(20).child_ends("ship", Lifecycle::Completed, &json!({"count": 2})).stands(Status::Completed)
}

/// A run whose child can't be started.
fn refused_order() -> Story {
    let error = Failure::new("workflow_not_found", "no workflow 'shipment' is loaded");
    order().child_refused("ship", error).stands(Status::Completed)
}

/// A run that goes back more often than it may.
fn endless_order() -> Story {
    let endless = workflow([noop("spin").looping(1)]).flow("spin > spin");
    Story::of(&endless).start().stands(Status::Failed)
}

/// A run whose supervisor and dispatch play the mocks of the public fixtures.
fn supervised() -> Story {
    let plan = json!([{"kind": "terminate", "reason": "done"}]);
    let lead = of_kind("lead", "core.orchestrator.supervisor").config("mockDispatchPlan", plan);
    let nodes = [lead, of_kind("work", "core.dispatch")];
    Story::of(&workflow(nodes).flow("lead > work > lead").with_mocks()).start().stands(Status::Completed)
}

/// A run whose one node makes an artifact.
fn reporting() -> Story {
    let report = identity("report").input("pages", fixed(&json!(3))).with("artifactType", json!("report"));
    Story::of(&workflow([report])).start().stands(Status::Completed)
}

/// One line per record, and the chain that binds them all.
fn written(journal: &[Record]) -> String {
    let mut text = String::new();
    for record in journal {
        let cause = record.cause.map_or_else(|| "-".to_owned(), |cause| cause.to_string());
        let line = format!(
            "{:>2} +{} {} v{} node={} cause={cause} {}",
            record.sequence,
            record.at - BEGIN,
            type_name(record),
            record.version,
            record.node.as_deref().unwrap_or("-"),
            payload_text(record)
        );
        writeln!(text, "{line}").expect("a string takes any text");
    }
    let end = journal.last().map(|record| hex(&record.chain)).unwrap_or_default();
    text + "chain " + &end
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_run_that_completes() {
    insta::assert_snapshot!(written(greeting().journal()));
}

#[test]
fn a_run_that_fails() {
    insta::assert_snapshot!(written(failing_shipment().journal()));
}

#[test]
fn a_run_that_is_cancelled() {
    insta::assert_snapshot!(written(cancelled_shipment().journal()));
}

#[test]
fn a_run_that_is_drained() {
    insta::assert_snapshot!(written(drained_shipment().journal()));
}

#[test]
fn a_run_that_retries_loops_writes_and_has_a_child() {
    insta::assert_snapshot!(written(shipped_order().journal()));
}

#[test]
fn a_run_whose_child_is_refused() {
    let story = refused_order();
    let tail = story.journal().iter().position(|record| type_name(record) == "child.refused");
    insta::assert_snapshot!(written(&story.journal()[tail.expect("it was refused")..]));
}

#[test]
fn a_run_that_loops_for_ever() {
    insta::assert_snapshot!(written(endless_order().journal()));
}

#[test]
fn a_run_with_a_supervisor() {
    insta::assert_snapshot!(written(supervised().journal()));
}

#[test]
fn a_run_that_makes_an_artifact() {
    insta::assert_snapshot!(written(reporting().journal()));
}

/// A run that asks a model, waits for its provider, and has it use a tool.
fn consulting() -> Story {
    let definition = r#"{
      "id": "consult", "name": "Consult", "version": "1",
      "nodes": [{"id": "ask", "typeId": "core.llm.turn", "name": "Ask", "position": {}, "inputs": {}, "config": {
        "system": "Be brief.", "prompt": "Where is order 7?", "maxTokens": 100, "temperature": 0.5,
        "tools": [{"name": "look_up", "kind": "shop.orders",
                   "parameters": {"type": "object", "properties": {"id": {"type": "string"}}}}]}}],
      "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {}
    }"#;
    let price = Price { input: 3_000_000, output: 15_000_000, cached: None };
    let terms = ProviderTerms { prices: [("opus".to_owned(), price)].into(), ..ProviderTerms::default() };
    let providers = Arc::new([("claude".to_owned(), terms)].into());
    let story = Story::following(graph(definition))
        .under(Surroundings { providers, ..Surroundings::default() })
        .start();
    let task = || TaskId { node: "ask".into(), execution: 1 };
    let call = |story: &Story| {
        let called = story.journal().iter().rfind(|record| type_name(record) == "model.called");
        CallRef { task: task(), fence: called.expect("a model was called").sequence << 16 }
    };
    let turn = |story: Story, command: TurnCommand| story.ask(Command::Turn(Box::new(command)));
    let overloaded = ModelError {
        message: "HTTP 429: overloaded".to_owned(),
        code: Some("429".to_owned()),
        kind: ErrorKind::Emitted { retryable: Some(true) },
        had_content: false,
        retry_after_ms: None,
    };
    let answer = |text: &str, tools: Vec<ToolCall>| {
        let usage = Usage { input_tokens: 100, output_tokens: 10, cached_tokens: 5, reasoning_tokens: 2 };
        let reasoning = Reasoning { text: "Hm.".to_owned(), signature: Some("s".to_owned()), redacted: None };
        let (content, model) = (text.to_owned(), Some("opus".to_owned()));
        let stop_reason = Some("end_turn".to_owned());
        Box::new(ModelAnswer {
            content,
            reasoning: vec![reasoning],
            tool_calls: tools,
            usage,
            stop_reason,
            model,
        })
    };
    let first = call(&story);
    let story = turn(story, TurnCommand::Ended { call: first, outcome: Err(overloaded), rest: vec![] });
    let story = story.after(5_000).fire_timer("provider/1/ask");
    let refused = call(&story);
    let story = turn(story, TurnCommand::Refused { call: refused });
    let story = turn(story.after(30_000), TurnCommand::RetryNow { node: None, by: "ops".to_owned() });
    let tool = ToolCall {
        id: "c1".to_owned(),
        name: "look_up".to_owned(),
        arguments: Json::of(&json!({"id": "7"})),
    };
    let second = call(&story);
    let story =
        turn(story, TurnCommand::Ended { call: second, outcome: Ok(answer("", vec![tool])), rest: vec![] });
    let story =
        story.after(10).child_ends("ask", Lifecycle::Completed, &json!({"result": {"outputs": "sent"}}));
    let third = call(&story);
    let said = TurnCommand::Said { call: third.clone(), kind: ChunkKind::Text, text: "It was ".to_owned() };
    let rest = vec![(ChunkKind::Text, "sent.".to_owned())];
    let story = turn(
        turn(story, said),
        TurnCommand::Ended { call: third, outcome: Ok(answer("It was sent.", vec![])), rest },
    );
    story.stands(Status::Completed)
}

#[test]
fn a_run_that_asks_a_model() {
    insta::assert_snapshot!(written(consulting().journal()));
}

/// A run that asks questions and for a decision, and goes on with the answers.
fn asking() -> Story {
    let definition = r#"{
      "id": "asking", "name": "Asking", "version": "1.0",
      "nodes": [
        {"id": "ask", "typeId": "core.clarificationGate", "name": "Ask", "position": {}, "inputs": {},
         "config": {"questions": [{"id": "colour", "question": "Which colour?"}]}},
        {"id": "gate", "typeId": "core.approvalGate", "name": "Gate", "position": {}, "inputs": {},
         "config": {"title": "Good?", "timeoutMs": 60000, "key": "good"}}
      ],
      "edges": [{"id": "e", "sourceNodeId": "ask", "targetNodeId": "gate"}],
      "triggers": [], "variables": [], "metadata": {}, "settings": {}
    }"#;
    Story::following(graph(definition))
        .start()
        .after(1000)
        .answer("ask", &json!({"answers": {"colour": "red"}}))
        .after(1000)
        .answer("gate", &json!({"action": "accept", "feedback": "yes"}))
        .stands(Status::Completed)
}

#[test]
fn a_run_that_asks() {
    insta::assert_snapshot!(written(asking().journal()));
}

/// A run whose draft is made better, asked about, and voted on.
fn deciding() -> Story {
    let definition = r#"{
      "id": "deciding", "name": "Deciding", "version": "1.0",
      "nodes": [
        {"id": "draft", "typeId": "core.transform", "name": "Draft", "position": {}, "inputs": {},
         "config": {"outputs": {"letter": "'Dear Ada'"}}},
        {"id": "gate", "typeId": "core.approvalGate", "name": "Gate", "position": {},
         "config": {"title": "Send it?", "actions": ["accept", "refine", "ask"]},
         "inputs": {"artifact": {"type": "connection", "nodeId": "draft", "outputKey": "letter"}}},
        {"id": "vote", "typeId": "core.approvalGate", "name": "Vote", "position": {}, "inputs": {},
         "config": {"title": "Really?", "requiredApprovals": 2, "approversList": ["alice", "bob"]},
         "settings": {"abide": {"approval": {"notStarter": true}}}}
      ],
      "edges": [{"id": "e1", "sourceNodeId": "draft", "targetNodeId": "gate"},
                {"id": "e2", "sourceNodeId": "gate", "targetNodeId": "vote"}],
      "triggers": [], "variables": [], "metadata": {}, "settings": {}
    }"#;
    let wish = json!({"scope": "whole", "text": "kinder", "tags": ["tone"]});
    let story = Story::following(graph(definition)).start().after(1000);
    let story = story.answer("gate", &json!({"action": "ask", "question": "Why?"}));
    let id = story.run().interrupt_of("gate").expect("it asks");
    let reply = Reply { id, ask: 1, answer: Json::of("So."), by: "clerk".to_owned() };
    let story = story.after(1000).ask(Command::Reply(Box::new(reply)));
    let story = story.after(1000).answer("gate", &json!({"action": "refine", "refineFeedback": wish}));
    let story = story.after(1000).answer("gate", &json!({"action": "accept"}));
    let id = story.run().interrupt_of("vote").expect("it asks");
    let story = story.after(1000).answer_to(id, &json!({"action": "accept", "reason": "fine"}), "alice");
    story.after(1000).answer_to(id, &json!({"action": "accept"}), "bob").stands(Status::Completed)
}

#[test]
fn a_run_that_is_made_better_and_voted_on() {
    insta::assert_snapshot!(written(deciding().journal()));
}

/// A run that talks, whose agent is not sure, and whose supervisor is even less.
fn conversing() -> Story {
    let definition = r#"{
      "id": "conversing", "name": "Conversing", "version": "1.0",
      "nodes": [
        {"id": "talk", "typeId": "core.conversationGate", "name": "Talk", "position": {}, "inputs": {},
         "config": {"conversationId": "ticket-7", "title": "Refund", "prompt": "Why?", "reason": "said"}},
        {"id": "judge", "typeId": "core.conformance.mock-agent", "name": "Judge", "position": {}, "inputs": {},
         "config": {"mockDecision": {"decision": {"pay": true}, "confidence": 0.5}}},
        {"id": "lead", "typeId": "core.orchestrator.supervisor", "name": "Lead", "position": {}, "inputs": {},
         "config": {"mockDispatchPlan": [{"kind": "terminate", "confidence": 0.3}]}},
        {"id": "work", "typeId": "core.dispatch", "name": "Work", "position": {}, "inputs": {}, "config": {}}
      ],
      "edges": [
        {"id": "a", "sourceNodeId": "talk", "targetNodeId": "judge"},
        {"id": "b", "sourceNodeId": "judge", "targetNodeId": "lead"},
        {"id": "c", "sourceNodeId": "lead", "targetNodeId": "work"}
      ],
      "triggers": [], "variables": [], "metadata": {}, "settings": {}
    }"#;
    let graph = Graph::admit(definition.as_bytes()).expect("the definition is sound").with_mocks(true);
    let story = Story::following(Arc::new(graph)).start();
    let story = story.answer("talk", &json!("broken")).answer("judge", &json!({ "pay": false }));
    story.answer("work", &json!({ "answers": { "proceed": true } })).stands(Status::Completed)
}

#[test]
fn a_run_that_talks_and_doubts() {
    insta::assert_snapshot!(written(conversing().journal()));
}

/// A run that reminds somebody, tells somebody else, and goes on without them.
fn reminding() -> Story {
    let definition = r#"{
      "id": "reminding", "name": "Reminding", "version": "1.0",
      "nodes": [
        {"id": "ask", "typeId": "core.hitl.ask-user", "name": "Ask", "position": {}, "inputs": {},
         "config": {"question": "Sure?", "responseType": "confirm"},
         "settings": {"abide": {"respondents": ["alice", "role:boss"], "ladder": {
           "channel_hint": "slack", "notify_to": "alice", "fallback_value": "no",
           "retry_policy": {"max_attempts": 2, "interval_seconds": 60,
             "escalation_ladder": [{"attempt": 2, "channel_hint": "email", "notify_to": "boss"}],
             "final_fallback_policy": "use_default_and_continue"}}}}}
      ],
      "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {}
    }"#;
    let story = Story::following(graph(definition)).start();
    let id = story.open_at("ask")[0];
    let climb = TimerId::Attempt(id).to_string();
    let reason = "not on the list".to_owned();
    let refuse = Command::RefuseNotice { id, attempt: 2, notify_to: "boss".to_owned(), reason };
    let story = story.after(60_000).fire_timer(&climb).ask(refuse);
    story.after(60_000).fire_timer(&climb).stands(Status::Completed)
}

#[test]
fn a_run_that_reminds_and_goes_on_without_an_answer() {
    insta::assert_snapshot!(written(reminding().journal()));
}

/// A run whose work is done outside: a worker does everything that one may do, and another takes over from it.
fn working() -> Story {
    let definition = r#"{
      "id": "working", "name": "Working", "version": "1.0",
      "nodes": [
        {"id": "job", "typeId": "acme.work", "name": "Job", "position": {}, "inputs": {}, "config": {},
         "settings": {"abide": {"agent": "scribe", "retry": {"maxRetries": 0, "fallbackAgent": "clerk"}}}}
      ],
      "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {}
    }"#;
    let provided = Provided { idempotent: false, reversible: Some(true), timeout_ms: Some(60_000) };
    let kinds = Arc::new([("acme.work".to_owned(), provided)].into());
    let op = |story: Story, op: WorkOp| {
        let offer = story.run().offers().next().expect("the node is offered");
        story.ask(Command::Work(Box::new(Work { task: offer.task, fence: offer.fence, op })))
    };
    let key = |key: &str| key.to_owned();
    let ask = || {
        WorkOp::Ask(Box::new(WorkAsk {
            agent: key("scribe"),
            principal: None,
            key: None,
            call: 1,
            payload: Json::of(
                &json!({"kind": "clarification", "data": {"questions": [{"id": "answer", "question": "Sure?"}]}}),
            ),
            ladder: None,
            respondents: None,
            single: true,
            hooks: vec![HookKind::InputReceived],
        }))
    };
    let surroundings = Surroundings { kinds, ..Surroundings::default() };
    let mut story = Story::following(graph(definition)).under(surroundings).start();
    let decision = json!({"mode": "request_input", "should_ask": true, "rationale": "unsure", "signals": {}});
    let note = Progress { done: 1.0, total: Some(2.0), message: Some(key("half")) };
    for said in [
        WorkOp::Version { key: key("v"), version: 2, old: false },
        WorkOp::Begin { key: key("charge") },
        WorkOp::Record { key: key("charge"), outcome: Ok(Json::of(&json!({"id": 7}))) },
        WorkOp::Lose { reason: Loss::Silent, worker: key("worker 7") },
        WorkOp::Sleep { key: key("nap"), ms: 1000 },
        WorkOp::Decide { decision: Json::of(&decision).parse().expect("an object") },
        WorkOp::Note { progress: Some(note), lines: Vec::new() },
        ask(),
    ] {
        story = op(story, said);
    }
    let asked = story.run().interrupts().next().expect("it asked").requested.interrupt_id;
    let waits = vec![Wait::Interrupt(asked), Wait::Sleep(key("nap"))];
    story = op(story, WorkOp::Park { waits }).after(1000);
    let sleep = story.run().timers().keys().next().expect("it sleeps").to_string();
    story = story.fire_timer(&sleep).answer("job", &json!({"answers": {"answer": "yes"}}));
    let failure = Failure::new("no_paper", "the printer has no paper");
    let failed = WorkFailure {
        failure,
        class: FailureClass::Tool,
        retryable: true,
        possible_effect: false,
        retry_after_ms: None,
    };
    story = op(story, WorkOp::Fail(failed)).fire_timer("retry/1/job");
    op(story, WorkOp::Complete { outputs: Some(Json::of(&json!({"paid": true}))), by: Vec::new() })
        .stands(Status::Completed)
}

#[test]
fn a_run_whose_work_is_done_outside() {
    insta::assert_snapshot!(written(working().journal()));
}

/// A run that is interrupted, resumed, interrupted again, and goes on because somebody says so.
fn interrupted() -> Story {
    let definition = r#"{
      "id": "calling", "name": "Calling", "version": "1.0",
      "nodes": [
        {"id": "call", "typeId": "core.http.request", "name": "Call", "position": {}, "inputs": {},
         "config": {"url": "https://example.org", "method": "PUT"}}
      ],
      "edges": [], "triggers": [], "variables": [], "metadata": {},
      "settings": {"abide": {"resume": {"maxAttempts": 1}}}
    }"#;
    let story = Story::following(graph(definition)).start();
    let story = story.report_trouble("call", "no answer", Reached::Maybe).fire_timer("resume");
    let switch =
        Command::SwitchResume { auto: true, by: "ops".to_owned(), reason: Some("as usual".to_owned()) };
    let story = story.after(1_000).ask(switch).report_trouble("call", "no answer", Reached::Maybe);
    let story = story.fire_timer("resume").stands(Status::Paused);
    let story = story.answer("abide:resume", &json!({"action": "accept"})).fire_timer("resume");
    story.report("call").stands(Status::Completed)
}

#[test]
fn a_run_that_is_interrupted_and_resumed() {
    insta::assert_snapshot!(written(interrupted().journal()));
}

/// A run that somebody stops and another one lets go on.
fn held() -> Story {
    let definition = r#"{
      "id": "held", "name": "Held", "version": "1.0",
      "nodes": [
        {"id": "gate", "typeId": "core.approvalGate", "name": "Gate", "position": {}, "inputs": {},
         "config": {"title": "Pay?", "timeoutMs": 60000}}
      ],
      "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {}
    }"#;
    let hold = Held { mode: HoldMode::Stop, reason: Some("audit".to_owned()), by: Some("ops".to_owned()) };
    let release = Released { reason: Some("done".to_owned()), by: Some("ann".to_owned()) };
    let story = Story::following(graph(definition)).start();
    let story = story.after(1_000).ask(Command::Hold(hold)).after(5_000).ask(Command::Release(release));
    story.answer("gate", &json!({"action": "accept"})).stands(Status::Completed)
}

#[test]
fn a_run_that_is_held_and_released() {
    insta::assert_snapshot!(written(held().journal()));
}

/// A run that waits for a time, then for people, and for a time again.
const PLANNED: &str = r#"{
  "id": "planned", "name": "Planned", "version": "1.0",
  "nodes": [
    {"id": "wait", "typeId": "core.delay", "name": "Wait", "position": {}, "inputs": {}, "config": {"ms": 1000}},
    {"id": "gate", "typeId": "core.approvalGate", "name": "Gate", "position": {}, "inputs": {},
     "config": {"title": "Pay?"}},
    {"id": "last", "typeId": "core.delay", "name": "Last", "position": {}, "inputs": {}, "config": {"ms": 1000}}
  ],
  "edges": [
    {"id": "e", "sourceNodeId": "wait", "targetNodeId": "gate"},
    {"id": "f", "sourceNodeId": "gate", "targetNodeId": "last"}
  ],
  "triggers": [], "variables": [], "metadata": {}, "settings": {}
}"#;

fn new_task(name: &str, behind: &[&str]) -> PlanTask {
    PlanTask::New(Box::new(NewTask {
        name: name.to_owned(),
        depends_on: behind.iter().map(|&other| other.to_owned()).collect(),
        max_attempts: Some(2),
        ..NewTask::default()
    }))
}

fn plans(story: Story, command: PlanCommand) -> Story {
    let story = story.ask(Command::Plan(Box::new(command)));
    story.step();
    story
}

fn task_act(story: Story, name: &str, act: TaskAct) -> Story {
    let id: PostedId =
        story.run().tasks_posted().find(|task| task.spec.name == name).expect("it is posted").id;
    plans(story, PlanCommand::Task { id, version: None, agent: None, act, by: Some("bot".to_owned()) })
}

fn plan_act(story: Story, act: PlanAct) -> Story {
    let id = story.run().plans().last().expect("it is posted").id;
    plans(story, PlanCommand::Plan { id, version: None, act, by: Some("ann".to_owned()) })
}

/// A plan has come to its checkpoint.
fn stopped_at_checkpoint() -> Story {
    let plan = NewPlan {
        name: Some("letter".to_owned()),
        tasks: vec![new_task("draft", &[]), new_task("stamp", &["draft"]), new_task("send", &["draft"])],
        checkpoints: vec![NewCheckpoint {
            name: "review".to_owned(),
            after: "draft".to_owned(),
            requires_approval: true,
            approvers: vec!["alice".to_owned()],
            ..NewCheckpoint::default()
        }],
        conditions: vec![NewCondition {
            task: "stamp".to_owned(),
            when: "tasks.draft.output.paper".to_owned(),
            otherwise: None,
        }],
        ..NewPlan::default()
    };
    let story = Story::following(graph(PLANNED)).start();
    let story = plans(story, PlanCommand::CreatePlan { plan: Box::new(plan), by: Some("ann".to_owned()) });
    let story = plan_act(story, PlanAct::Activate);
    let claim = || TaskAct::Claim { agent: "scribe".to_owned() };
    let story = task_act(story, "draft", claim());
    let story = task_act(story, "draft", TaskAct::Release { reason: Some("lunch".to_owned()) });
    let story = task_act(task_act(story, "draft", claim()), "draft", TaskAct::Start);
    let story = task_act(story, "draft", TaskAct::Progress { progress: Json::of(&json!(0.5)) });
    let story = task_act(story, "draft", TaskAct::Fail { error: Failure::new("no_ink", "no ink") });
    // What fails pauses the plan until somebody has looked at it.
    let story = plan_act(story, PlanAct::Resume);
    let story = task_act(task_act(story, "draft", TaskAct::Retry), "draft", claim());
    task_act(story, "draft", TaskAct::Complete { output: Some(Json::of(&json!({"paper": false}))) })
}

/// Its checkpoint lets it pass at the second time, and what is left waits while the run does.
fn planned() -> Story {
    let story = stopped_at_checkpoint().after(500).answer("abide:resume", &json!({"action": "reject"}));
    let story = plan_act(story, PlanAct::Resume).answer("abide:resume", &json!({"action": "accept"}));
    let story = task_act(story, "send", TaskAct::Claim { agent: "scribe".to_owned() });
    let story = task_act(story, "send", TaskAct::Start).after(500).fire("wait");
    let story = story.answer("gate", &json!({"action": "accept"}));
    let story = task_act(story, "send", TaskAct::Complete { output: None });
    story.after(1_000).fire("last").stands(Status::Completed)
}

/// Somebody gives up one plan, and another fails with its run.
fn given_up() -> Story {
    let story = Story::following(graph(PLANNED)).start();
    let plan = |name: &str| NewPlan { tasks: vec![new_task(name, &[])], ..NewPlan::default() };
    let story = plans(story, PlanCommand::CreatePlan { plan: Box::new(plan("none")), by: None });
    let story = plan_act(story, PlanAct::Cancel { reason: Some("not needed".to_owned()) });
    let story = plans(story, PlanCommand::CreatePlan { plan: Box::new(plan("one")), by: None });
    let story = plan_act(story, PlanAct::Activate);
    let story = task_act(story, "one", TaskAct::Claim { agent: "scribe".to_owned() });
    let story = task_act(story, "one", TaskAct::Start).after(1_000).fire("wait");
    let gate = story.run().interrupt_of("gate").expect("it asks");
    let story = story.answer_to(gate, &json!({"action": "reject"}), "alice");
    story.stands(Status::Failed)
}

#[test]
fn a_run_with_tasks_and_plans() {
    insta::assert_snapshot!(written(planned().journal()));
}

#[test]
fn a_run_that_fails_with_a_plan() {
    insta::assert_snapshot!(written(given_up().journal()));
}

/// A replay of a run whose journal says that something else came of a node than comes of it.
fn replayed() -> Vec<Record> {
    let story = greeting();
    let planted = forged(story.journal(), "node.completed", "hello", "hallo");
    let fork = Fork {
        key: run_id(2).of(key().tenant),
        salt: [9; 16],
        graph: story.run().graph().clone(),
        mode: ForkMode::Replay,
        from_seq: 0,
        overlay: Overlay::default(),
        by: Some("ada".to_owned()),
        trace: None,
        defaults: Arc::default(),
    };
    Run::fork(Source { key: key(), salt: SALT, journal: &planted }, fork, LATER)
        .expect("it can be forked")
        .step
        .records
}

#[test]
fn a_replay_that_differs() {
    insta::assert_snapshot!(written(&replayed()));
}

#[test]
fn a_run_that_yields() {
    let story = yielding();
    let last = &story.journal()[story.journal().len() - 1..];
    insta::assert_snapshot!(
        written(last).lines().next().expect("one record"),
        @"1025 +0 run.yielded v1 node=- cause=- {}"
    );
}

#[test]
fn every_event_type_stands_in_one_of_these_journals() {
    let stories = [
        greeting(),
        failing_shipment(),
        cancelled_shipment(),
        drained_shipment(),
        yielding(),
        shipped_order(),
        refused_order(),
        endless_order(),
        supervised(),
        reporting(),
        asking(),
        deciding(),
        reminding(),
        working(),
        interrupted(),
        consulting(),
        conversing(),
        held(),
        planned(),
        given_up(),
    ];
    let replayed = replayed();
    let worlds = [societies::coordinated(), societies::grouped(), societies::waiting(), intents::driven()];
    let records = stories.iter().flat_map(Story::journal).chain(&replayed);
    let mut shown: BTreeSet<&str> = records.map(type_name).collect();
    shown.extend(
        worlds.iter().flat_map(|world| world.names().into_iter().flat_map(|name| world.history(&name))),
    );
    let declared: BTreeSet<&str> = event_types().iter().map(|kind| kind.name).collect();
    assert_eq!(shown, declared);
}

#[test]
fn the_state_of_a_run_with_tasks_and_plans() {
    insta::assert_json_snapshot!(state(&stopped_at_checkpoint()));
}

#[test]
fn the_state_of_a_failing_run() {
    let story = Story::following(graph(SHIPMENT))
        .child_of(run_id(9), "ship")
        .input("weight", &json!(2))
        .tags(["red".to_owned()])
        .metadata(&json!({"team": "blue"}))
        .start()
        .report_failure("label", "no paper");
    insta::assert_json_snapshot!(state(&story));
}

#[test]
fn the_state_of_a_run_that_is_about_to_be_paused() {
    let story = Story::following(graph(SHIPMENT)).alone_in("order-7").start().drain();
    insta::assert_json_snapshot!(state(&story));
}

#[test]
fn the_state_of_a_paused_run() {
    let story = Story::following(graph(SHIPMENT)).start().report("label").pause();
    insta::assert_json_snapshot!(state(&story));
}

/// Everything that the state may hold, as far as one run can hold it.
#[test]
fn the_state_of_a_run_that_waits_for_a_child() {
    insta::assert_json_snapshot!(state(&order()));
}

#[test]
fn the_state_of_an_ended_run() {
    let story = Story::following(graph(SHIPMENT))
        .start()
        .pause()
        .report("label")
        .report("pack")
        .after(hours(1))
        .fire("pick up")
        .cancel_because("not needed", "bob")
        .node_is("send", NodePhase::Pending);
    insta::assert_json_snapshot!(state(&story));
}

fn state(story: &Story) -> serde_json::Value {
    serde_json::from_slice(&story.run().snapshot()).expect("a snapshot is JSON")
}

#[test]
fn a_snapshot_of_another_version_or_definition_is_ignored() {
    let story = Story::following(graph(SHIPMENT)).start();
    let bytes = story.run().snapshot();
    let wake = |graph: Arc<Graph>, bytes: &[u8]| Run::from_snapshot(key(), SALT, graph, bytes);
    assert!(wake(graph(SHIPMENT), &bytes).is_some());
    let other_version =
        String::from_utf8(bytes.clone()).unwrap().replacen(r#""version":10"#, r#""version":11"#, 1);
    assert!(wake(graph(SHIPMENT), other_version.as_bytes()).is_none());
    assert!(wake(workflow([noop("other")]).graph(), &bytes).is_none());
    assert!(wake(graph(SHIPMENT), &bytes[..bytes.len() - 1]).is_none());
    assert!(wake(graph(SHIPMENT), b"").is_none());
}

#[test]
fn the_numbers_and_names_on_disk() {
    let events = event_types()
        .iter()
        .map(|kind| {
            let known = if kind.canonical { "OpenWOP" } else { "ours" };
            format!("event {} {} v{} {known}", kind.code, kind.name, kind.version)
        })
        .collect::<Vec<_>>();
    let statuses = Status::ALL.map(|(status, code, name)| {
        assert_eq!((status.code(), status.name()), (code, name));
        assert_eq!(Status::by_code(code), Some(status));
        assert_eq!(Status::by_name(name), Some(status));
        format!("status {code} {name}")
    });
    let timer = TimerId::Delay { node: "pick up".into(), execution: 1 };
    let retry = TimerId::Retry { node: "pick up".into(), execution: 1 };
    let provider = TimerId::Provider { node: "pick up".into(), execution: 1 };
    let id = abide_core::InterruptId::from_bytes([0; abide_core::InterruptId::BYTES]);
    let waits = [TimerId::Interrupt(id), TimerId::Occasion(id), TimerId::Attempt(id)];
    let lease = TimerId::Coordinator("coord-0".to_owned());
    let timers = [
        timer,
        retry,
        provider,
        lease,
        TimerId::RunTimeout,
        TimerId::Resume,
        TimerId::Stretch,
        TimerId::Deadline,
    ]
    .into_iter()
    .chain(waits);
    let timers = timers.map(|timer| format!("timer {timer}")).collect::<Vec<_>>();
    let all = [events, statuses.to_vec(), timers].concat();
    insta::assert_snapshot!(all.join("\n"));
    assert_eq!(Status::by_code(12), None);
    assert_eq!(Status::by_name("unknown"), None);
}

#[test]
fn an_event_is_read_only_where_it_belongs() {
    let node: Arc<str> = "n".into();
    let read = |code, node: Option<&Arc<str>>, payload: &str| {
        abide_core::Event::decode(code, 1, node, payload.as_bytes()).unwrap_err()
    };
    insta::assert_snapshot!(read(6, Some(&node), "{}"), @"run.paused names a node, but it is about the run");
    insta::assert_snapshot!(read(103, None, "{}"), @"node.cancelled names no node");
    insta::assert_snapshot!(
        read(6, None, r#"{"colour":"red"}"#),
        @"the payload of run.paused can't be read: unknown field `colour`, expected `reason` or `by` at line 1 column 9"
    );
    insta::assert_snapshot!(read(99, None, "{}"), @"event type 99 is unknown to this version of abide; upgrade it");
}

#[test]
fn tenants_and_runs_have_journals_of_their_own() {
    let heads: BTreeSet<String> = [
        key(),
        run_id(2).of(TenantId(1)),
        run_id(1).of(TenantId(2)),
        RunId::from_bytes([0; 16]).of(TenantId(0)),
    ]
    .map(|key| hex(&abide_core::Head::new(key).chain))
    .into();
    assert_eq!(heads.len(), 4);
}

/// The chain, written a second time: whoever has a journal and its salt can check it without Abide.
mod chain {
    use super::*;

    fn first_link(key: Key) -> Hash {
        sha256(&[b"abide journal 1", &key.tenant.0.to_be_bytes()[..], key.id.as_bytes()].concat())
    }

    fn next_link(before: &Hash, record: &Record) -> Hash {
        let node = record.node.as_deref().unwrap_or_default();
        let Payload::Present(payload) = &record.payload else {
            panic!("nothing is erased here");
        };
        let own_salt = sha256(&[&SALT[..], &record.sequence.to_be_bytes()].concat());
        let digest = sha256(&[&own_salt[..], payload].concat());
        let cause = record.cause.map_or(0, |cause| cause + 1);
        let envelope: [&[u8]; 9] = [
            before,
            &record.sequence.to_be_bytes(),
            &record.at.to_be_bytes(),
            &record.type_code.to_be_bytes(),
            &record.version.to_be_bytes(),
            &cause.to_be_bytes(),
            &(node.len() as u64).to_be_bytes(),
            node.as_bytes(),
            &digest,
        ];
        sha256(&envelope.concat())
    }

    /// A journal of any events whatever, each `type`, node and payload, under a sound chain.
    fn forged(graph: &Graph, events: &[(&str, Option<&str>, &str)]) -> Vec<Record> {
        forged_with(graph, events, |_| {})
    }

    /// The same, with each record changed before it is sealed.
    fn forged_with(
        graph: &Graph,
        events: &[(&str, Option<&str>, &str)],
        change: impl Fn(&mut Record),
    ) -> Vec<Record> {
        let mut before = first_link(key());
        let mut journal = Vec::new();
        for (sequence, (name, node, payload)) in (0..).zip(events) {
            let payload = payload.replace("PINNED", &graph.hash_hex());
            let kind = event_types().iter().find(|kind| kind.name == *name);
            let EventType { code, version, .. } = *kind.expect("the type is declared");
            let mut record = Record {
                sequence,
                at: BEGIN,
                type_code: code,
                version,
                node: node.map(Into::into),
                cause: None,
                payload: Payload::Present(payload.as_bytes().into()),
                chain: [0; 32],
            };
            change(&mut record);
            record.chain = next_link(&before, &record);
            before = record.chain;
            journal.push(record);
        }
        journal
    }

    #[test]
    fn it_can_be_computed_from_the_record_alone() {
        for story in [greeting(), failing_shipment(), cancelled_shipment(), shipped_order()] {
            let mut before = first_link(key());
            for record in story.journal() {
                before = next_link(&before, record);
                assert_eq!(hex(&record.chain), hex(&before), "event {}", record.sequence);
            }
        }
    }

    const STARTED: (&str, Option<&str>, &str) =
        ("run.started", None, r#"{"workflowId":"w","definition":"PINNED"}"#);
    const PAUSED: (&str, Option<&str>, &str) = ("run.paused", None, "{}");

    fn node_started(node: &str) -> (&str, Option<&str>, &str) {
        ("node.started", Some(node), r#"{"typeId":"core.noop","execution":1}"#)
    }

    #[test]
    fn a_journal_of_the_first_release_still_folds() {
        let graph = graph(SHIPMENT);
        let dispatched = r#"{"typeId":"core.noop","execution":1,"dispatched":true}"#;
        let events = [
            ("run.started", None, r#"{"workflowId":"shipment","definition":"PINNED","inputs":{"weight":2}}"#),
            ("node.started", Some("pack"), dispatched),
            ("node.started", Some("label"), dispatched),
            ("node.started", Some("pick up"), r#"{"typeId":"core.delay","execution":1,"until":5}"#),
            ("node.completed", Some("pick up"), "{}"),
            ("node.completed", Some("pack"), r#"{"outputs":{"boxes":2}}"#),
            ("node.completed", Some("label"), "{}"),
            ("node.started", Some("send"), r#"{"typeId":"core.noop","execution":1}"#),
            ("node.completed", Some("send"), "{}"),
            ("run.completed", None, r#"{"durationMs":0}"#),
        ];
        let mut run = Run::empty(key(), SALT, graph.clone());
        for record in forged_with(&graph, &events, |record| record.version = 1) {
            run.apply(&record).expect("what the first release wrote is legal");
        }
        assert_eq!(run.status(), Status::Completed);
    }

    /// Folds a forged journal of a workflow with the nodes `first` and `second`: only its last event is bad.
    #[track_caller]
    fn refuses(events: &[(&str, Option<&str>, &str)], reason: &str) {
        let graph = workflow([noop("first"), noop("second")]).graph();
        let mut run = Run::empty(key(), SALT, graph.clone());
        let journal = forged(&graph, events);
        let (last, good) = journal.split_last().expect("there are events");
        for record in good {
            run.apply(record).expect("the events before are legal");
        }
        let corrupt = run.apply(last).expect_err("the last event is illegal");
        assert_eq!(corrupt.sequence, last.sequence);
        assert!(corrupt.reason.contains(reason), "{corrupt}");
    }

    #[test]
    fn under_a_sound_chain_an_illegal_event_still_does_not_fold() {
        let cancelled = ("run.cancelled", None, "{}");
        let completed = ("node.completed", Some("first"), "{}");
        refuses(&[PAUSED], "for a run that is Pending, None");
        refuses(&[node_started("first")], "a node event in a run that is Pending");
        let unpinned = ("run.started", None, r#"{"workflowId":"w","definition":"00"}"#);
        refuses(&[unpinned], "the run is pinned to definition 00");
        refuses(&[STARTED, STARTED], "for a run that is Running, None");
        refuses(&[STARTED, PAUSED, PAUSED], "for a run that is Running, Paused");
        refuses(&[STARTED, PAUSED, ("run.yielded", None, "{}")], "for a run that is Running, Paused");
        refuses(&[STARTED, ("run.resumed", None, "{}")], "for a run that is Running, None");
        refuses(&[STARTED, completed], "for a node that is Pending");
        refuses(&[STARTED, node_started("second")], "the node was not next in line");
        refuses(&[STARTED, node_started("third")], "the definition has no node 'third'");
        refuses(&[STARTED, node_started("first"), completed, completed], "for a node that is Completed");
        refuses(&[STARTED, cancelled, node_started("first")], "a node event in a run that is Cancelled");
        refuses(&[STARTED, cancelled, cancelled], "for a run that is Cancelled, None");
    }

    #[test]
    fn under_a_sound_chain_time_and_sequence_still_have_to_follow() {
        let fold = |change: fn(&mut Record)| {
            let graph = workflow([noop("first")]).graph();
            let mut run = Run::empty(key(), SALT, graph.clone());
            let journal = forged_with(&graph, &[STARTED, PAUSED], change);
            run.apply(&journal[0]).expect("the first event is in place");
            run.apply(&journal[1]).map_err(|corrupt| corrupt.to_string())
        };
        assert_eq!(fold(|_| {}), Ok(vec![]));
        assert_eq!(
            fold(|record| record.at -= i64::try_from(record.sequence).expect("it is small")),
            Err("event 1: event 1 is older than the one before it".to_owned())
        );
        assert_eq!(
            fold(|record| record.sequence *= 2),
            Err("event 2: event 1 is missing, 2 stands in its place".to_owned())
        );
    }
}
