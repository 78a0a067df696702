//! Journals, and the spans that are read from them.

use abide_core::{Payload, RunId, TenantId, hex};
use serde_json::{Value as Json, json};

use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn run() -> RunId {
    RunId::from_bytes([7; 16])
}

/// One line of a journal: when, what, to which node, and what it says.
type Line<'a> = (i64, &'a str, &'a str, Json);

fn records(lines: &[Line<'_>]) -> Vec<Record> {
    let record = |(sequence, (at, name, node, says)): (usize, &Line<'_>)| {
        let kind = EventType::by_name(name).unwrap_or_else(|| panic!("no event is called {name}"));
        Record {
            sequence: sequence as u64,
            at: *at,
            type_code: kind.code,
            version: kind.version,
            node: (!node.is_empty()).then(|| Arc::from(*node)),
            cause: None,
            payload: Payload::Present(says.to_string().into_bytes().into()),
            chain: [0; 32],
        }
    };
    lines.iter().enumerate().map(record).collect()
}

fn fold(lines: &[Line<'_>]) -> Vec<Span> {
    let mut timeline = Timeline::new(run().of(TenantId(3)));
    records(lines).iter().for_each(|record| timeline.fold(record, None).unwrap());
    assert!(timeline.open() == 0, "everything has ended");
    timeline.take()
}

fn begins(trace: &Json) -> Json {
    json!({ "workflowId": "w", "definition": "d", "inputs": { "pw": "s3cret" }, "trace": trace })
}

fn sampled() -> Json {
    begins(&json!({ "parent": format!("00-{TRACE}-{CALLER}-01"), "state": "vendor=a" }))
}

fn started(attempt: u32, dispatched: bool) -> Json {
    json!({ "typeId": "core.http.request", "execution": 1, "attempt": attempt, "dispatched": dispatched })
}

fn error() -> Json {
    json!({ "code": "http_503", "message": "s3cret", "details": { "body": "s3cret" } })
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name} in {:?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>());
    found[0]
}

fn said(span: &Span, name: &str) -> String {
    let found = span.attributes.iter().find(|(key, _)| *key == name);
    match found.unwrap_or_else(|| panic!("{} has no {name}", span.name)) {
        (_, Value::Text(text)) => text.clone(),
        (_, Value::Number(number)) => number.to_string(),
    }
}

/// From when to when, in milliseconds.
fn lasted(span: &Span) -> (u128, u128) {
    let ms = |time: std::time::SystemTime| time.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    (ms(span.began), ms(span.ended))
}

fn is_below(child: &Span, parent: &Span) -> bool {
    child.parent == Some(parent.trace.span_id) && child.trace.trace_id == parent.trace.trace_id
}

#[test]
fn a_run_its_nodes_and_their_attempts_are_spans_with_the_times_of_the_journal() {
    let spans = fold(&[
        (1000, "run.started", "", sampled()),
        (1000, "node.started", "ask", started(0, true)),
        (1500, "node.retried", "ask", json!({ "attempt": 1, "error": error(), "until": 9000 })),
        (9000, "node.due", "ask", json!({})),
        (9001, "node.started", "ask", started(1, true)),
        (9700, "node.completed", "ask", json!({ "outputs": { "body": "s3cret" } })),
        (9700, "run.completed", "", json!({ "durationMs": 8700 })),
    ]);
    let run = named(&spans, "openwop.run");
    assert_eq!((lasted(run), run.failed), ((1000, 9700), false));
    assert_eq!((run.trace.id().as_str(), run.parent.map(|id| hex(&id)).as_deref()), (TRACE, Some(CALLER)));
    assert_eq!(run.trace.state.as_deref(), Some("vendor=a"));
    for (name, value) in [
        ("abide.run.id", RunId::from_bytes([7; 16]).to_string().as_str()),
        ("abide.workflow.id", "w"),
        ("abide.tenant.id", "3"),
        ("abide.status", "completed"),
        ("openwop.workflow_id", "w"),
    ] {
        assert_eq!(said(run, name), value);
    }
    let node = named(&spans, "openwop.node.core.http.request");
    assert_eq!(lasted(node), (1000, 9700));
    assert!(is_below(node, run));
    assert_eq!((said(node, "abide.node.id"), said(node, "openwop.node_attempt")), ("ask".into(), "1".into()));
    let attempts: Vec<_> = spans.iter().filter(|span| span.name.ends_with(".attempt")).collect();
    assert_eq!(attempts.iter().map(|span| lasted(span)).collect::<Vec<_>>(), [(1000, 1500), (9001, 9700)]);
    assert_eq!(attempts.iter().map(|span| said(span, "abide.attempt")).collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!((attempts[0].failed, attempts[1].failed), (true, false));
    assert_eq!(said(attempts[0], "error.type"), "http_503");
    assert!(attempts.iter().all(|span| is_below(span, node) && span.kind == SpanKind::Client));
    assert_eq!(attempts[1].trace.span_id, id::of_try(RunId::from_bytes([7; 16]), "ask", 1, 1));
    assert_eq!(spans.len(), 4);
    assert!(!format!("{spans:?}").contains("s3cret"), "{spans:?}");
}

#[test]
fn a_wait_for_people_is_a_span_that_leads_to_whoever_answered() {
    let id = "int-0123456789abcdef0123456789abcdef0123";
    let asked = json!({ "interruptId": id, "kind": "approval", "key": "s3cret", "call": 1, "data": { "x": "s3cret" } });
    let again = json!({ "interruptId": id, "attempt": 2, "maxAttempts": 3, "channelHint": null, "notifyTo": "s3cret",
                        "nextAttemptAt": null });
    let resolved = json!({ "interruptId": id, "kind": "approval", "outcome": "resolved", "resolvedBy": "s3cret",
                           "resumeValue": "s3cret" });
    let lines = [
        (0, "run.started", "", sampled()),
        (1, "node.started", "gate", json!({ "typeId": "core.approval", "execution": 1 })),
        (2, "interrupt.requested", "gate", asked),
        (2, "node.suspended", "gate", json!({ "interruptId": id, "kind": "approval", "key": "s3cret" })),
        (500, "interrupt.renotified", "gate", again),
        (259_200_000, "interrupt.resolved", "gate", resolved),
        (259_200_000, "node.resumed", "gate", json!({ "interruptId": id })),
        (259_200_000, "node.completed", "gate", json!({})),
        (259_200_001, "run.completed", "", json!({ "durationMs": 1 })),
    ];
    let answering = Trace::parse("00-11111111111111111111111111111111-2222222222222222-01", None).unwrap();
    let records = records(&lines);
    // The second process has nothing in memory: it reads the journal, and tells what it sees end.
    let mut before = Timeline::new(run().of(TenantId(3)));
    records[..5].iter().for_each(|record| before.fold(record, None).unwrap());
    assert!(before.take().is_empty());
    let mut after = Timeline::new(run().of(TenantId(3)));
    records[..5].iter().for_each(|record| after.fold(record, None).unwrap());
    records[5..].iter().for_each(|record| after.fold(record, Some(&answering)).unwrap());
    let spans = after.take();
    let (wait, node) = (named(&spans, "openwop.interrupt"), named(&spans, "openwop.node.core.approval"));
    assert_eq!((lasted(wait), lasted(node)), ((2, 259_200_000), (1, 259_200_000)));
    assert!(is_below(wait, node) && is_below(node, named(&spans, "openwop.run")));
    assert_eq!(wait.links, [answering]);
    assert_eq!(
        (said(wait, "abide.status"), said(wait, "openwop.interrupt_id")),
        ("resolved".into(), id.into())
    );
    assert_eq!(wait.moments.iter().map(|moment| moment.name).collect::<Vec<_>>(), ["interrupt.renotified"]);
    assert!(node.links.is_empty() && spans.len() == 3);
    assert!(!format!("{spans:?}").contains("s3cret"), "{spans:?}");
}

#[test]
fn a_child_is_below_the_node_that_it_stands_for() {
    let parent = RunId::from_bytes([9; 16]);
    let mut begins = sampled();
    begins["parent"] = json!({ "run": parent.to_string(), "node": "call", "execution": 2 });
    let lines = [(0, "run.started", "", begins), (5, "run.completed", "", json!({ "durationMs": 5 }))];
    let spans = fold(&lines);
    assert_eq!(spans[0].parent, Some(id::of_node(parent, "call", 2)));
    assert_eq!(said(&spans[0], "abide.parent.run.id"), parent.to_string());
    assert_eq!(spans[0].trace.id(), TRACE);
}

#[test]
fn a_turn_has_its_calls_below_it_and_says_what_they_used() {
    let began = json!({ "conversationId": "c", "turnId": "t", "provider": "claude", "model": "m",
                        "messages": [{ "role": "user", "content": "s3cret" }] });
    let retry = json!({ "type": "provider-retry", "conversationId": "c", "turnId": "t", "attempt": 0, "delayMs": 5,
                        "message": "s3cret", "code": "529" });
    let answered = json!({ "step": 0, "message": { "role": "assistant", "content": "s3cret" } });
    let used =
        json!({ "provider": "claude", "model": "m-1", "step": 0, "inputTokens": 11, "outputTokens": 7 });
    let sealed = json!({ "conversationId": "c", "turnId": "t", "status": "completed", "steps": 1,
                         "usage": { "inputTokens": 11, "outputTokens": 7 } });
    let spans = fold(&[
        (0, "run.started", "", sampled()),
        (1, "node.started", "think", json!({ "typeId": "abide.turn", "execution": 1 })),
        (1, "turn.began", "think", began),
        (2, "model.called", "think", json!({ "step": 0, "attempt": 0 })),
        (3, "provider.postponed", "think", json!({ "provider": "claude", "since": 3 })),
        (10, "model.called", "think", json!({ "step": 0, "attempt": 0 })),
        (20, "provider-retry", "think", retry),
        (30, "model.called", "think", json!({ "step": 0, "attempt": 1 })),
        (40, "model.answered", "think", answered),
        (40, "provider.usage", "think", used),
        (41, "turn.sealed", "think", sealed),
        (41, "node.completed", "think", json!({ "outputs": { "text": "s3cret" } })),
        (41, "run.completed", "", json!({ "durationMs": 1 })),
    ]);
    let turn = named(&spans, "abide.turn");
    assert!(is_below(turn, named(&spans, "openwop.node.abide.turn")) && lasted(turn) == (1, 41));
    assert_eq!(
        (said(turn, "abide.turn.id"), said(turn, "gen_ai.usage.output_tokens")),
        ("t".into(), "7".into())
    );
    let happened: Vec<_> = turn.moments.iter().map(|moment| moment.name).collect();
    assert_eq!(happened, ["provider.postponed", "provider-retry"]);
    let calls: Vec<_> = spans.iter().filter(|span| span.name == "openwop.activity.claude").collect();
    // The one that was postponed was never made.
    assert_eq!(calls.iter().map(|span| lasted(span)).collect::<Vec<_>>(), [(10, 20), (30, 40)]);
    assert!(calls.iter().all(|span| is_below(span, turn) && span.kind == SpanKind::Client));
    assert_eq!((calls[0].failed, said(calls[0], "error.type").as_str()), (true, "529"));
    assert_eq!(said(calls[1], "gen_ai.usage.input_tokens"), "11");
    assert_eq!(said(calls[1], "gen_ai.response.model"), "m-1");
    assert!(!format!("{spans:?}").contains("s3cret"), "{spans:?}");
}

#[test]
fn what_a_worker_does_is_below_its_attempt() {
    let offered = json!({ "typeId": "acme.pay", "execution": 1, "dispatched": true, "offer": {} });
    let spans = fold(&[
        (0, "run.started", "", sampled()),
        (1, "node.started", "pay", offered),
        (2, "step.begun", "pay", json!({ "key": "charge" })),
        (3, "task.lost", "pay", json!({ "reason": "silent", "worker": "s3cret" })),
        (4, "step.recorded", "pay", json!({ "key": "charge", "value": "s3cret" })),
        (4, "step.recorded", "pay", json!({ "key": "quick", "value": "s3cret" })),
        (5, "sleep.started", "pay", json!({ "key": "nap", "until": 9 })),
        (9, "sleep.ended", "pay", json!({ "key": "nap" })),
        (9, "node.failed", "pay", json!({ "error": error() })),
        (9, "run.failed", "", json!({ "error": error(), "failedNodeId": "pay" })),
    ]);
    let attempt = named(&spans, "openwop.node.acme.pay.attempt");
    assert_eq!(attempt.moments.iter().map(|moment| moment.name).collect::<Vec<_>>(), ["task.lost"]);
    let (step, sleep) = (named(&spans, "abide.step"), named(&spans, "abide.sleep"));
    assert!(is_below(step, attempt) && lasted(step) == (2, 4));
    assert!(is_below(sleep, named(&spans, "openwop.node.acme.pay")) && lasted(sleep) == (5, 9));
    let run = named(&spans, "openwop.run");
    assert_eq!((run.failed, said(run, "error.type").as_str()), (true, "http_503"));
    assert!(!format!("{spans:?}").contains("s3cret"), "{spans:?}");
}

#[test]
fn what_is_open_ends_with_its_run_and_inside_out() {
    let mut timeline = Timeline::new(run().of(TenantId(3)));
    let lines = [
        (0, "run.started", "", sampled()),
        (1, "node.started", "ask", started(0, true)),
        (2, "run.paused", "", json!({})),
        (8, "run.cancelled", "", json!({ "reason": "s3cret" })),
    ];
    let cause = Trace::parse("00-11111111111111111111111111111111-2222222222222222-01", None).unwrap();
    records(&lines).iter().for_each(|record| timeline.fold(record, Some(&cause)).unwrap());
    let spans = timeline.take();
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    let ask = "openwop.node.core.http.request";
    assert_eq!(names, [format!("{ask}.attempt").as_str(), ask, "abide.pause", "openwop.run"]);
    assert!(spans.iter().all(|span| lasted(span).1 == 8 && !span.failed));
    assert_eq!(spans[3].links, [cause], "whoever cancelled it");
}

#[test]
fn a_run_that_nobody_samples_has_no_spans() {
    let unsampled = json!({ "parent": format!("00-{TRACE}-{CALLER}-00") });
    for trace in [json!(null), unsampled] {
        let lines =
            [(0, "run.started", "", begins(&trace)), (5, "run.completed", "", json!({ "durationMs": 5 }))];
        assert!(fold(&lines).is_empty());
    }
}

#[test]
fn every_event_that_is_listened_for_exists() {
    for name in ENDS.iter().chain(&OTHERS) {
        assert!(EventType::by_name(name).is_some(), "{name}");
    }
}
