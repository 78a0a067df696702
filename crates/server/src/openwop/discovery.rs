//! `GET /.well-known/openwop`: what works here, told so that a client can rely on it.
//!
//! Nothing is claimed by hand where the code knows: a family is told of when its operations are served, a bound is the
//! constant that is enforced, and a capability behind node kinds comes from the table that refuses them.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::limits as core_limits;
use abide_core::{MOCK_PROVIDERS, hex, sha256};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::error::{ApiError, Result};
use crate::{conditional, limits};

/// The protocol's own name for the entity tag of this document.
const CAPABILITIES_ETAG: HeaderName = HeaderName::from_static("capabilities-etag");

/// The envelope of a clarification's questions.
const CLARIFICATION: &str = "clarification.request";

/// The document changes only when the server is started anew.
const CACHE: HeaderValue = HeaderValue::from_static("public, max-age=300");

/// The version of the event log's format, which the snapshot of a run names as well.
pub(super) const EVENT_LOG_VERSION: u32 = 1;

/// What this server can do, in OpenWOP's words. Families stand at the root; one that is not here does not work here.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Capabilities {
    /// The version of OpenWOP.
    protocol_version: &'static str,
    /// Envelopes of questions to people that a client may have to answer.
    supported_envelopes: Vec<&'static str>,
    /// The versions of those envelopes.
    schema_versions: BTreeMap<&'static str, u32>,
    limits: Limits,
    implementation: Implementation,
    /// The version of this server as one number: three digits each for minor and patch.
    engine_version: u32,
    /// The version of the event log's format.
    event_log_schema_version: u32,
    /// How it can be talked to.
    supported_transports: [&'static str; 1],
    configurable: Configurable,
    rest_transport: RestTransport,
    /// The workflows that the operator loaded from a folder for everybody, by id.
    fixtures: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<RunFamilies>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<Replay>,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhooks: Option<Webhooks>,
    #[serde(skip_serializing_if = "Option::is_none")]
    feedback: Option<Feedback>,
    #[serde(skip_serializing_if = "Option::is_none")]
    debug_bundle: Option<Supported>,
    #[serde(skip_serializing_if = "Option::is_none")]
    orchestrator: Option<Supported>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dispatch: Option<Supported>,
    /// Whether conversations can be part of a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation_primitive: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<InterruptFamily>,
    /// What only a server that is itself being tested does.
    #[serde(skip_serializing_if = "Option::is_none")]
    testing: Option<Testing>,
    extensions: Extensions,
}

/// What this server does beyond what OpenWOP has a place for.
#[derive(Serialize, JsonSchema)]
struct Extensions {
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupts: Option<Interrupts>,
}

/// Who may answer.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct InterruptFamily {
    approver_routing: ApproverRouting,
}

/// Whom a gate may name beside single principals.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ApproverRouting {
    supported: bool,
    ref_kinds: [&'static str; 2],
    /// Whether a gate may say who is told.
    audience: bool,
}

/// How nodes wait for answers.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Interrupts {
    /// OpenWOP's profiles of interrupts that are followed.
    profiles: [&'static str; 4],
    /// A waiting run shows signed tokens, each good for one interrupt and for a while.
    signed_callback_tokens: bool,
    /// For how long an event is kept that nobody waits for yet.
    external_event_retention_seconds: i64,
}

/// Bounds that hold for every run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Limits {
    /// How often one gate may ask: as often as its loop goes back.
    clarification_rounds: u32,
    /// Rounds of repair with a model; no node of this server holds one.
    schema_rounds: u32,
    /// Envelopes that a model may give in one turn; no node of this server takes any.
    envelopes_per_turn: u32,
    max_node_executions: u64,
    max_run_duration_ms: i64,
    max_loop_iterations: u32,
    max_request_body_bytes: usize,
}

/// Which server this is.
#[derive(Serialize, JsonSchema)]
struct Implementation {
    name: &'static str,
    version: &'static str,
    vendor: &'static str,
}

/// The keys of a run's `configurable` that every workflow honours.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Configurable {
    recursion_limit: Bounds,
    run_timeout_ms: Bounds,
    max_loop_iterations: Bounds,
    escalation_threshold: Bounds,
}

/// The values that a key takes.
#[derive(Serialize, JsonSchema)]
struct Bounds {
    #[serde(rename = "type")]
    kind: &'static str,
    min: i64,
    max: i64,
}

/// What reading a run over HTTP may save.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RestTransport {
    /// A run is sent with an entity tag, and not again to whoever has it.
    conditional_run_get: bool,
    /// Encodings of bodies beyond none.
    content_encodings: [&'static str; 0],
}

/// What can be done to runs under way.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RunFamilies {
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_resume: Option<PauseResume>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bulk_cancel: Option<BulkCancel>,
}

/// Pausing and resuming a run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PauseResume {
    supported: bool,
    drain_policies: [&'static str; 2],
}

/// Runs that begin with the events of others.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Replay {
    supported: bool,
    /// What a fork may be for.
    modes: [&'static str; 2],
    /// Nothing outside hears of a replay: what it did is taken from what was recorded.
    side_effect_suppression: bool,
}

/// Cancelling many runs at once.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct BulkCancel {
    supported: bool,
    max_run_ids: usize,
}

/// Signed calls to whoever subscribes to events.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Webhooks {
    supported: bool,
    signature_algorithms: [&'static str; 1],
    /// Deliveries survive a restart, and are tried again.
    durable: bool,
}

/// What people say about a run.
#[derive(Serialize, JsonSchema)]
struct Feedback {
    supported: bool,
    targets: [&'static str; 3],
    signals: [&'static str; 4],
}

/// A family with nothing more to tell.
#[derive(Serialize, JsonSchema)]
struct Supported {
    supported: bool,
}

/// What tests of a server may ask for.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Testing {
    /// Mocks that answer in the place of a model, by id.
    mock_providers: [&'static str; 1],
}

/// The document as it is sent, and its entity tag. It is the same as long as the server runs.
pub(crate) struct Document {
    text: Vec<u8>,
    tag: HeaderValue,
}

impl Document {
    /// What this server can do.
    pub(crate) fn of(app: &App) -> Self {
        let text = serde_json::to_vec(&capabilities(app)).expect("plain fields are always JSON");
        let tag = format!("\"{}\"", &hex(&sha256(&text))[..32]);
        Self { text, tag: tag.parse().expect("hexadecimal digits can stand in a header") }
    }
}

/// What works here. Public: whoever asks has no key yet.
pub(crate) async fn show(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response> {
    let document = app.discovery();
    let tag = document.tag.to_str().map_err(|error| ApiError::internal(&error))?;
    let mut response = if conditional::has_already(&headers, tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let kind = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, kind)], document.text.clone()).into_response()
    };
    let told = response.headers_mut();
    told.insert(header::CACHE_CONTROL, CACHE);
    told.insert(header::ETAG, document.tag.clone());
    told.insert(CAPABILITIES_ETAG, document.tag.clone());
    Ok(response)
}

fn capabilities(app: &App) -> Capabilities {
    let mut fixtures: Vec<String> =
        app.engine().registered().iter().map(|graph| graph.workflow_id.to_string()).collect();
    fixtures.sort();
    let offers = |capability: &str| app.engine().offers(capability);
    let supported = |capability: &str| offers(capability).then_some(Supported { supported: true });
    Capabilities {
        protocol_version: "1.0",
        supported_envelopes: vec![CLARIFICATION],
        schema_versions: BTreeMap::from([(CLARIFICATION, 1)]),
        limits: bounds(),
        implementation: Implementation { name: "abide", version: env!("CARGO_PKG_VERSION"), vendor: "abide" },
        engine_version: engine_version(),
        event_log_schema_version: EVENT_LOG_VERSION,
        supported_transports: ["rest"],
        configurable: configurable(),
        rest_transport: RestTransport { conditional_run_get: true, content_encodings: [] },
        fixtures,
        runs: run_families(app),
        replay: replay(app),
        webhooks: webhooks(app),
        feedback: feedback(app),
        debug_bundle: debug_bundle(app),
        orchestrator: supported("orchestrator.supported"),
        dispatch: supported("dispatch.supported"),
        conversation_primitive: offers("conversationPrimitive").then_some(true),
        interrupt: approver_routing(app),
        testing: app.engine().plays_mocks().then_some(Testing { mock_providers: MOCK_PROVIDERS }),
        extensions: Extensions { interrupts: interrupts(app) },
    }
}

fn bounds() -> Limits {
    Limits {
        clarification_rounds: core_limits::LOOPBACKS_MAX,
        schema_rounds: 0,
        envelopes_per_turn: 0,
        max_node_executions: core_limits::NODE_EXECUTIONS_MAX,
        max_run_duration_ms: core_limits::RUN_TIMEOUT_MS_MAX,
        max_loop_iterations: core_limits::LOOPBACKS_MAX,
        max_request_body_bytes: limits::BODY_BYTES_MAX,
    }
}

fn configurable() -> Configurable {
    let up_to = |max| Bounds { kind: "integer", min: 1, max };
    Configurable {
        recursion_limit: up_to(core_limits::NODE_EXECUTIONS_MAX as i64),
        run_timeout_ms: up_to(core_limits::RUN_TIMEOUT_MS_MAX),
        max_loop_iterations: up_to(i64::from(core_limits::LOOPBACKS_MAX)),
        escalation_threshold: Bounds { kind: "number", min: 0, max: 1 },
    }
}

fn replay(app: &App) -> Option<Replay> {
    let served = app.serves(&Method::POST, "/v1/runs/{runId}:fork");
    served.then_some(Replay { supported: true, modes: ["replay", "branch"], side_effect_suppression: true })
}

fn run_families(app: &App) -> Option<RunFamilies> {
    let posts = |path: &str| app.serves(&Method::POST, path);
    let pauses = posts("/v1/runs/{runId}:pause") && posts("/v1/runs/{runId}:resume");
    let pause_resume = pauses
        .then_some(PauseResume { supported: true, drain_policies: ["drain-current-node", "immediate"] });
    let bulk_cancel = posts("/v1/runs:bulk-cancel")
        .then_some(BulkCancel { supported: true, max_run_ids: limits::BULK_CANCEL_MAX });
    (pause_resume.is_some() || bulk_cancel.is_some()).then_some(RunFamilies { pause_resume, bulk_cancel })
}

fn webhooks(app: &App) -> Option<Webhooks> {
    let served = app.serves(&Method::POST, "/v1/webhooks");
    served.then_some(Webhooks { supported: true, signature_algorithms: ["v1"], durable: true })
}

fn approver_routing(app: &App) -> Option<InterruptFamily> {
    let routing = ApproverRouting { supported: true, ref_kinds: ["group", "role"], audience: true };
    answers_interrupts(app).then_some(InterruptFamily { approver_routing: routing })
}

fn answers_interrupts(app: &App) -> bool {
    app.serves(&Method::POST, "/v1/runs/{runId}/interrupts/{nodeId}")
}

fn interrupts(app: &App) -> Option<Interrupts> {
    let served = answers_interrupts(app);
    served.then(|| Interrupts {
        profiles: [
            "openwop-interrupt-quorum",
            "openwop-interrupt-auth-required",
            "openwop-interrupt-external-event",
            "openwop-interrupt-cascade-cancel",
        ],
        signed_callback_tokens: app.serves(&Method::POST, "/v1/interrupts/{token}"),
        external_event_retention_seconds: app.engine().event_retention_ms() / 1000,
    })
}

fn feedback(app: &App) -> Option<Feedback> {
    let served = app.serves(&Method::POST, "/v1/runs/{runId}/annotations");
    let (targets, signals) = (["run", "event", "node"], ["rating", "correction", "label", "flag"]);
    served.then_some(Feedback { supported: true, targets, signals })
}

fn debug_bundle(app: &App) -> Option<Supported> {
    let served = app.serves(&Method::GET, "/v1/runs/{runId}/debug-bundle");
    served.then_some(Supported { supported: true })
}

/// The version of this crate as one number that grows with it.
fn engine_version() -> u32 {
    let parts = env!("CARGO_PKG_VERSION").split(['.', '-', '+']).take(3);
    parts.fold(0, |number, part| number * 1000 + part.parse::<u32>().unwrap_or(0))
}
