//! OpenIntent's own SDK, unmodified, against a real server: what each of its programs under `tests/python` checks.

mod deciding;
mod looking;
mod sent;
mod wire;

use super::notices::hook;
use super::python::{output, python};
use super::*;
use crate::receiver::{ALLOW, Receiver};
use crate::support::{Ask, repository};

/// Runs a program of the tests against a server; every check in it has to hold.
async fn run(server: &Server, program: &str, more: &[&str]) {
    let mut command = python("python");
    command.arg(repository().join("tests/python").join(program)).args([&server.url, &server.key]).args(more);
    let output = output(command).await;
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let last = said.lines().last().unwrap_or_default();
    let counted = last.ends_with(" passed, 0 failed") && !last.starts_with("0 ");
    assert!(output.status.success() && counted, "{program}: {said}\n{complained}");
}

#[tokio::test]
async fn every_method_of_both_clients_works_and_what_is_not_offered_is_refused_plainly() {
    let site = Site::new();
    let server = site.start(&["--test-clock", ALLOW[0], ALLOW[1]]);
    run(&server, "openintent_methods.py", &[]).await;
}

#[tokio::test]
async fn the_timeline_of_the_protocol_goes_row_by_row_through_the_client() {
    let (chat, email) = (Receiver::start().await, Receiver::start().await);
    let site = Site::new();
    let channels = hook("chat", &chat.url) + &hook("email", &email.url);
    std::fs::write(
        site.path("abide.toml"),
        format!("[notify]\ndefault = 'chat'\nallow = ['compliance-lead']\n{channels}"),
    )
    .unwrap();
    let config = site.path("abide.toml");
    let server = site.start(&["--test-clock", "--config", config.to_str().unwrap()]);
    run(&server, "openintent_timeline.py", &["channels"]).await;
    site.settle_messages(&server).await;
    // The question, and the word that it is answered.
    for (receiver, name) in [(&chat, "chat"), (&email, "email")] {
        let told: Vec<String> =
            receiver.heard().iter().map(|post| post.json()["type"].as_str().unwrap().to_owned()).collect();
        assert_eq!(told[..2], ["interrupt.asked", "interrupt.closed"], "{name}: {told:?}");
    }
}

#[tokio::test]
async fn an_agent_of_the_sdk_is_assigned_asks_reminds_is_answered_and_completes() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    run(&server, "openintent_agent.py", &[]).await;
}

#[tokio::test]
async fn many_at_once_any_order_and_nonsense_lose_and_double_nothing() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    run(&server, "openintent_traffic.py", &[]).await;
}
