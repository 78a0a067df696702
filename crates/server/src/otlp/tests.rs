//! What becomes of spans that a collector can't take, and how they are written.

use abide_engine::trace::{self, Moment, Value};
use tokio::net::TcpListener;

use super::*;

fn settings(url: &str) -> OtlpSettings {
    OtlpSettings {
        endpoint: OtlpEndpoint::Base(url.to_owned()),
        headers: None,
        service_name: "abide".to_owned(),
        protocol: OtlpProtocol::Json,
    }
}

fn span() -> Span {
    let at = UNIX_EPOCH + Duration::from_nanos(1_700_000_000_000_000_001);
    let mut own = trace::begin(true);
    (own.trace_id, own.span_id, own.state) = ([1; 16], [2; 8], Some("vendor=a".to_owned()));
    Span {
        name: "openwop.run".to_owned(),
        kind: SpanKind::Client,
        parent: Some([3; 8]),
        began: at,
        ended: at,
        failed: true,
        attributes: vec![("text", Value::from("x")), ("number", Value::Number(-1))],
        moments: vec![Moment { name: "then", at, attributes: Vec::new() }],
        links: vec![own.span([4; 8])],
        trace: own,
    }
}

#[tokio::test]
async fn a_collector_that_never_answers_costs_the_spans_that_find_no_room() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let otlp = Otlp::start(&settings(&format!("http://{}", listener.local_addr().unwrap()))).unwrap();
    // Those that are on their way, those that wait, and a few more.
    let room = limits::SPANS_SENT_MAX + limits::SPANS_WAITING_MAX;
    let mut connection = None;
    for number in 0..room + 100 {
        otlp.take(span());
        if number == limits::SPANS_SENT_MAX {
            // The first batch is on its way.
            connection = Some(listener.accept().await.unwrap());
        }
    }
    let (exported, dropped) = otlp.counts();
    assert!(connection.is_some() && exported == 0 && (1..=100).contains(&dropped), "{dropped}");
    otlp.lose(7);
    assert_eq!(otlp.counts(), (0, dropped + 7));
}

#[tokio::test]
async fn the_end_does_not_wait_for_another_try() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let otlp = Otlp::start(&settings(&url)).unwrap();
    otlp.take(span());
    otlp.flush().await;
    assert_eq!(otlp.counts(), (0, 1), "it was tried, and given up");
}

#[test]
fn a_span_is_written_as_otlp_has_it() {
    let written: serde_json::Value = serde_json::from_slice(&json::batch(&[span()], "shop")).unwrap();
    let resource = &written["resourceSpans"][0];
    let service = serde_json::json!({ "key": "service.name", "value": { "stringValue": "shop" } });
    assert_eq!(resource["resource"]["attributes"][0], service);
    let expected = serde_json::json!({
        "traceId": "01010101010101010101010101010101", "spanId": "0202020202020202",
        "parentSpanId": "0303030303030303", "traceState": "vendor=a", "name": "openwop.run", "kind": 3,
        "startTimeUnixNano": "1700000000000000001", "endTimeUnixNano": "1700000000000000001",
        "attributes": [
            { "key": "text", "value": { "stringValue": "x" } }, { "key": "number", "value": { "intValue": "-1" } },
        ],
        "events": [{ "timeUnixNano": "1700000000000000001", "name": "then", "attributes": [] }],
        "links": [{ "traceId": "01010101010101010101010101010101", "spanId": "0404040404040404" }],
        "status": { "code": 2 },
    });
    assert_eq!(resource["scopeSpans"][0]["spans"][0], expected);
}

#[test]
fn what_a_collector_threw_away_is_read_from_its_answer() {
    for (answer, count) in [
        ("", 0),
        ("{}", 0),
        (r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}"#, 3),
        (r#"{"partialSuccess":{"rejectedSpans":4}}"#, 4),
    ] {
        assert_eq!(json::rejected(answer.as_bytes()), count, "{answer}");
    }
}
