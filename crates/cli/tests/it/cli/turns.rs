//! `abide turn` and `abide provider`, and what `abide run show` and `abide run why` say of a turn that waits.

use abide_model::scripted::{ScriptedProvider, Step};

use super::*;
use crate::http::turns::{await_wait, site_with, start};

/// A provider that says something which would command a terminal, and a server whose run waits for it.
async fn waiting() -> (ScriptedProvider, Site, Server, String) {
    let provider = ScriptedProvider::start();
    provider.usually(Step::status(529, "over\u{1b}[2Jloaded"));
    let site = site_with(&provider);
    let server = start(&site);
    let run = server.start_run("ask", json!({})).await;
    await_wait(&server, &run).await;
    (provider, site, server, run)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_turn_is_told_wherever_its_run_is_shown() {
    let (_provider, _site, server, run) = waiting().await;
    for args in [&["turn", "list", &run][..], &["run", "show", &run]] {
        let output = server.cli(args);
        assert_eq!(code(&output), 0, "{output:?}");
        let told = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains("waits for provider 'main', retry 1 at "), "{told}");
        assert!(told.contains("(in 5.0 s): HTTP 529: over\u{fffd}[2Jloaded"), "{told}");
    }
    let why = server.cli(&["run", "why", &run]);
    assert!(
        stdout(&why).contains("waits for provider 'main', retry 1: HTTP 529: over\u{fffd}[2Jloaded"),
        "{why:?}"
    );
    assert!(stdout(&why).contains("next   the provider is asked again, at "), "{why:?}");
    let json = server.cli(&["turn", "list", &run, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        json["turns"][0]["wait"]["message"], "HTTP 529: over\u{1b}[2Jloaded",
        "a pipe gets it verbatim"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_turn_is_retried_or_given_up_by_hand() {
    let (provider, _site, server, run) = waiting().await;
    let given_up = server.cli(&["turn", "give-up", &run, "turn", "--reason", "enough"]);
    assert_eq!(
        (code(&given_up), stdout(&given_up)),
        (0, "turn is given up: HTTP 529: over\u{fffd}[2Jloaded\n")
    );
    let again = server.cli(&["turn", "retry", &run]);
    assert_eq!((code(&again), stdout(&again)), (1, ""), "{again:?}");
    assert!(stderr(&again).contains("[turn_not_waiting]"), "{again:?}");
    let refused = server.cli(&["turn", "retry", &run, "turn"]);
    assert_eq!(code(&refused), 1, "{refused:?}");
    assert!(stderr(&refused).contains("[turn_not_waiting]"), "{refused:?}");
    let other = server.start_run("ask", json!({})).await;
    await_wait(&server, &other).await;
    provider.recover();
    let retried = server.cli(&["turn", "retry", &other]);
    assert_eq!((code(&retried), stdout(&retried)), (0, "turn tries provider 'main' now\n"), "{retried:?}");
    server.events(&other).await;
    let listed = server.cli(&["turn", "list", &other]);
    assert!(stdout(&listed).contains("completed") && !stdout(&listed).contains("waits"), "{listed:?}");
    assert_eq!(code(&server.cli(&["turn", "list", "run-019b8d36-7c80-7000-8000-000000000001"])), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn providers_are_listed_for_people_and_programs() {
    let (_provider, _site, server, _run) = waiting().await;
    let listed = server.cli(&["provider", "list"]);
    assert_eq!(code(&listed), 0, "{listed:?}");
    let told = stdout(&listed).lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(told, "main openai small closed 1 of 1 1 0");
    let json = server.cli(&["provider", "list", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["providers"][0]["name"], "main");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_providers_and_turns_it_is_said_where_they_come_from() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let none = server.cli(&["provider", "list"]);
    assert_eq!((code(&none), stdout(&none)), (0, ""), "{none:?}");
    assert!(stderr(&none).contains("[providers]"), "{none:?}");
    let run = server.start_run("quick", json!({})).await;
    let none = server.cli(&["turn", "list", &run]);
    assert_eq!((code(&none), stdout(&none)), (0, ""), "{none:?}");
    assert!(stderr(&none).contains("core.llm.turn"), "{none:?}");
}
