//! Others' programs against a real server: OpenWOP's Python client, and schemathesis.

use std::process::{Command, Output, Stdio};

use super::surface::operations;
use super::*;
use crate::receiver::ALLOW;

/// A program of the tests' own Python environment.
pub(super) fn python(program: &str) -> Command {
    let mut command = Command::new(crate::support::python_home().join("bin").join(program));
    command.stdin(Stdio::null()).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Runs a program to its end without holding up the runtime.
pub(super) async fn output(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Methods of the client whose operations this version offers.
const OFFERED: &[&str] = &[
    "create_annotation",
    "discovery_capabilities",
    "discovery_openapi",
    "interrupts_inspect_by_token",
    "interrupts_resolve_by_run",
    "interrupts_resolve_by_token",
    "list_annotations",
    "runs_bulk_cancel",
    "runs_cancel",
    "runs_create",
    "runs_debug_bundle",
    "runs_events",
    "runs_fork",
    "runs_get",
    "runs_get_artifact",
    "runs_pause",
    "runs_poll_events",
    "runs_resume",
    "webhooks_register",
    "webhooks_unregister",
    "workflows_get",
];

#[tokio::test]
async fn every_method_of_the_client_works_or_gets_the_documented_refusal() {
    let site = site();
    let server = site.start(&["--test-clock", ALLOW[0], ALLOW[1]]);
    let config = json!({ "outputs": { "pages": "3.0" } });
    let mut report = node("report", "core.transform", config, json!({}), json!({}));
    report["artifactType"] = json!("report");
    push(&server, &workflow("reporter", &[report], &[], json!([]))).await;
    let gate = node("gate", "core.approvalGate", json!({ "title": "Release?" }), json!({}), json!({}));
    push(&server, &workflow("review", &[gate], &[], json!([]))).await;
    let mut command = python("python");
    command.arg(crate::support::repository().join("tests/python/openwop_methods.py"));
    command.env("ABIDE_URL", &server.url).env("ABIDE_API_KEY", &server.key);
    let output = output(command).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["offered"], json!(OFFERED));
}

#[tokio::test]
async fn nothing_that_schemathesis_thinks_of_breaks_the_document() {
    let site = site();
    let server = site.start(&[]);
    // Something to look at and to act on.
    let run = server.start_run("parked", json!({})).await;
    push(&server, &chain("pushed", "core.noop", 1, &json!({}))).await;
    let mut command = python("schemathesis");
    command
        .arg("--config-file")
        .arg(crate::support::repository().join("tests/python/schemathesis.toml"))
        .arg("run");
    command.arg(format!("{}/v1/openapi.json", server.url));
    command.env("ABIDE_API_KEY", &server.key).current_dir(site.path(""));
    let output = output(command).await;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}\n{}", String::from_utf8_lossy(&output.stderr), site.said());
    let tested = operations(&server).len() - NOT_TESTED.len();
    assert!(said.contains(&format!("Tested: {tested}\n")), "{tested} operations should be tested: {said}");
    // It is still there, and has not lost what it had.
    let (status, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!((status, &snapshot["workflowId"]), (StatusCode::OK, &json!("parked")));
}

/// Operations that answer only when something happens, the one that would take away the key that is asked with, and the
/// document itself, which schemathesis leaves out. Their answers are checked where they are tested.
const NOT_TESTED: &[&str] =
    &["pollEvents", "streamEvents", "followJournal", "pollWorker", "streamWorker", "rotateKey", "openapi"];
