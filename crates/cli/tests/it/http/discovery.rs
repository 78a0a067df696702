//! GET /.well-known/openwop: what the server says of itself, and whether it is so.

use reqwest::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};

use super::*;

const PATH: &str = "/.well-known/openwop";

async fn told(server: &Server) -> Value {
    let (status, document) = answer(server.anonymous(Method::GET, PATH)).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{document}");
    document
}

#[tokio::test]
async fn what_a_client_needs_is_told_to_anybody() {
    let site = site();
    let server = site.start(&[]);
    let document = told(&server).await;
    assert_eq!(document["protocolVersion"], "1.0");
    assert_eq!(document["supportedTransports"], json!(["rest"]));
    assert_eq!(document["implementation"]["name"], "abide");
    assert_eq!(document["implementation"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(document["engineVersion"].as_u64().unwrap() > 0, "{document}");
    let limits = document["limits"].as_object().unwrap();
    for required in ["clarificationRounds", "schemaRounds", "envelopesPerTurn"] {
        assert!(limits[required].is_u64(), "{document}");
    }
    // The protocol names an action of approvals so that a later one must not be confused with.
    assert!(!document.to_string().contains("\"edit\""), "{document}");
}

#[tokio::test]
async fn what_interrupts_can_do_is_told_and_what_they_can_not_is_not() {
    let site = site();
    let server = site.start(&[]);
    let document = told(&server).await;
    assert_eq!(document["supportedEnvelopes"], json!(["clarification.request"]));
    assert_eq!(document["schemaVersions"], json!({ "clarification.request": 1 }));
    let expected = json!({
        "profiles": [
            "openwop-interrupt-quorum", "openwop-interrupt-auth-required", "openwop-interrupt-external-event",
            "openwop-interrupt-cascade-cancel",
        ],
        "signedCallbackTokens": true,
        "externalEventRetentionSeconds": abide_engine::limits::EVENT_KEPT_MS / 1000,
    });
    assert_eq!(document["extensions"]["interrupts"], expected);
    let routing = json!({ "supported": true, "refKinds": ["group", "role"], "audience": true });
    assert_eq!(document["interrupt"], json!({ "approverRouting": routing }));
}

#[tokio::test]
async fn the_workflows_of_the_folder_are_named_and_pushed_ones_are_not() {
    let site = site();
    let server = site.start(&[]);
    let before = told(&server).await;
    let named: Vec<&str> =
        before["fixtures"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    let (_, listed) = server.get("/v1/workflows").await;
    let listed: Vec<&str> = listed["workflows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|workflow| workflow["workflowId"].as_str().unwrap())
        .collect();
    assert_eq!(named, listed);
    assert!(named.is_sorted() && named.contains(&"parked"), "{named:?}");
    push(&server, &chain("of-one-tenant", "core.noop", 1, &json!({}))).await;
    assert_eq!(told(&server).await, before, "what one tenant pushed is nobody else's business");
}

#[tokio::test]
async fn a_client_that_has_the_document_does_not_get_it_again() {
    let site = site();
    let server = site.start(&[]);
    let first = server.anonymous(Method::GET, PATH).send().await.unwrap();
    assert_eq!(first.headers()[CACHE_CONTROL], "public, max-age=300");
    let tag = first.headers()["capabilities-etag"].to_str().unwrap().to_owned();
    assert_eq!(first.headers()[ETAG], tag);
    let again = server.anonymous(Method::GET, PATH).header(IF_NONE_MATCH, &tag).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(again.headers()["capabilities-etag"], tag);
    assert_eq!(again.text().await.unwrap(), "");
    let other = server.anonymous(Method::GET, PATH).header(IF_NONE_MATCH, "\"other\"").send().await.unwrap();
    assert_eq!(other.status(), StatusCode::OK);
    server.stop();
    let server = site.start(&[]);
    let later = server.anonymous(Method::GET, PATH).send().await.unwrap();
    assert_eq!(later.headers()["capabilities-etag"], tag, "the tag is that of the content");
}

#[tokio::test]
async fn the_families_that_are_told_are_those_whose_operations_are_served() {
    let site = site();
    let server = site.start(&[]);
    let document = told(&server).await;
    let paths = &server.contract.as_ref().unwrap().document()["paths"];
    let families = [
        ("/runs/pauseResume/supported", "/v1/runs/{runId}:pause"),
        ("/runs/pauseResume/supported", "/v1/runs/{runId}:resume"),
        ("/runs/bulkCancel/supported", "/v1/runs:bulk-cancel"),
        ("/webhooks/supported", "/v1/webhooks"),
        ("/feedback/supported", "/v1/runs/{runId}/annotations"),
        ("/replay/supported", "/v1/runs/{runId}:fork"),
        ("/debugBundle/supported", "/v1/runs/{runId}/debug-bundle"),
        ("/prompts/supported", "/v1/prompts"),
        ("/agents/supported", "/v1/agents"),
        ("/toolCatalog/supported", "/v1/tools"),
    ];
    for (family, path) in families {
        let is_told = document.pointer(family) == Some(&json!(true));
        assert_eq!(is_told, paths.get(path).is_some(), "{family} and {path}");
        if !is_told {
            assert_eq!(document.pointer(family), None);
        }
    }
    let bulk = document["runs"]["bulkCancel"]["maxRunIds"].as_u64().unwrap() as usize;
    let named = |count: usize| json!({ "runIds": vec!["run-00000000-0000-7000-8000-000000000000"; count] });
    assert_eq!(server.post("/v1/runs:bulk-cancel", &named(bulk)).await.0, StatusCode::OK);
    refusal(server.post("/v1/runs:bulk-cancel", &named(bulk + 1)).await, "validation_error");
    let largest = document["limits"]["maxRequestBodyBytes"].as_u64().unwrap() as usize;
    for (size, code) in [(largest, "workflow_not_found"), (largest + 1, "payload_too_large")] {
        let mut body = String::from(r#"{"workflowId":"nothing"}"#);
        body.push_str(&" ".repeat(size - body.len()));
        refusal(post_raw(&server, "/v1/runs", body).await, code);
    }
}

/// A workflow with a node kind behind each capability that the protocol gates.
fn gated_kinds() -> [(&'static str, &'static str); 3] {
    [
        ("/conversationPrimitive", "core.conversationGate"),
        ("/orchestrator/supported", "core.orchestrator.supervisor"),
        ("/dispatch/supported", "core.dispatch"),
    ]
}

#[tokio::test]
async fn a_kind_behind_a_capability_starts_exactly_where_the_capability_is_told() {
    for extra in [&[][..], &["--conformance"]] {
        let site = Site::new();
        for (at, (_, kind)) in gated_kinds().iter().enumerate() {
            let only = node("only", kind, json!({}), json!({}), json!({}));
            site.workflow(&workflow(&format!("gated-{at}"), &[only], &[], json!([])));
        }
        let server = site.start(extra);
        let document = told(&server).await;
        for (at, (pointer, kind)) in gated_kinds().iter().enumerate() {
            let advertised = document.pointer(pointer) == Some(&json!(true));
            let (status, body) =
                server.post("/v1/runs", &json!({ "workflowId": format!("gated-{at}") })).await;
            let refused = body["error"] == "capability_required";
            assert_eq!(advertised, !refused, "{kind} with {extra:?}: {status} {body}");
        }
    }
}

#[tokio::test]
async fn the_options_that_are_told_are_honoured_up_to_their_bounds() {
    let site = site();
    let server = site.start(&[]);
    let document = told(&server).await;
    let options = document["configurable"].as_object().unwrap();
    assert_eq!(options.len(), 4);
    for (name, bounds) in options {
        let (least, most) = (bounds["min"].as_i64().unwrap(), bounds["max"].as_i64().unwrap());
        for (value, is_taken) in [(least, true), (most, true), (least - 1, false), (most + 1, false)] {
            let body = json!({ "workflowId": "noop", "configurable": { name: value } });
            let (status, body) = server.post("/v1/runs", &body).await;
            assert_eq!(status == StatusCode::CREATED, is_taken, "{name} = {value}: {body}");
        }
    }
}
