//! `abide resume`: what it says, where, and how it exits.

use super::*;

/// A site with a request that nothing answers: one that may be made twice, and one that must not be.
fn unlucky() -> Site {
    let site = site();
    // Nothing listens on this port, which is what we want.
    let config = |method: &str| json!({ "method": method, "url": "http://127.0.0.1:9/" });
    for (id, method) in [("look", "GET"), ("charge", "POST")] {
        let only = node(id, "core.http.request", config(method), json!({}), json!({}));
        site.workflow(&workflow(id, &[only], &[], json!([])));
    }
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn resuming_is_told_in_sentences_and_in_json_and_refused_with_an_exit_code() {
    let site = unlucky();
    let server = site.start(&["--test-clock", "--allow-net", "127.0.0.1/32"]);
    let run = server.start_run("look", json!({})).await;
    server.settle().await;
    let status = server.cli(&["resume", "status", &run]);
    assert_eq!(code(&status), 0, "{status:?}");
    let sentence = format!(
        "{run} is interrupted; it goes on by itself in 30 s: attempt 2 of 3 [resume_blocked_cooldown]\n"
    );
    assert!(stdout(&status).starts_with(&sentence), "{}", stdout(&status));
    let json: serde_json::Value =
        serde_json::from_slice(&server.cli(&["resume", "status", &run, "--json"]).stdout).unwrap();
    assert_eq!(json["decision"]["reason_code"], "resume_blocked_cooldown");

    let refused = server.cli(&["resume", "now", &run]);
    assert_eq!((code(&refused), stdout(&refused)), (1, ""), "{refused:?}");
    let text = stderr(&refused);
    assert!(text.contains("it cools down for another 30 s [resume_blocked_cooldown]"), "{text}");
    assert!(text.contains(&format!("next: abide resume now {run} --force --reason TEXT")), "{text}");
    let refused = server.cli(&["resume", "now", &run, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!((code(&refused), &json["error"]), (1, &json!("resume_blocked_cooldown")));

    for wrong in [
        &["resume", "now", &run, "--force"][..],
        &["resume", "now", &run, "--truncate"],
        &["resume", "now", &run, "--interruption-class", "timeout", "--reason", "r"],
    ] {
        assert_eq!(code(&server.cli(wrong)), 2, "{wrong:?}");
    }
    let odd = ["resume", "now", &run, "--force", "--reason", "r", "--interruption-class", "gremlin"];
    let refused = server.cli(&odd);
    assert_eq!(code(&refused), 1);
    assert!(stderr(&refused).contains("class 'gremlin' [resume_unknown_interruption_class]"), "{refused:?}");
    let forced = server.cli(&["resume", "now", &run, "--force", "--reason", "I looked"]);
    assert_eq!((code(&forced), stdout(&forced)), (0, &*format!("{run} goes on: attempt 2 of 3\n")));
    let none = server.cli(&["resume", "status", "run-019b8d36-7c80-7000-8000-000000000001"]);
    assert_eq!(code(&none), 4, "{none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_escalated_run_is_told_with_its_checklist_and_switches_are_acknowledged() {
    let site = unlucky();
    let server = site.start(&["--test-clock", "--allow-net", "127.0.0.1/32"]);
    let run = server.start_run("charge", json!({})).await;
    server.settle().await;
    let said = stdout(&server.cli(&["resume", "status", &run])).to_owned();
    for text in [
        &*format!("{run} is held and goes on only if somebody says so [resume_non_idempotent_step]\n"),
        "- charge: tool_failure, ",
        "so somebody has to approve that it is done again",
        "what to do:\n  1. ",
        &format!("abide resume now {run} --approve-step charge"),
    ] {
        assert!(said.contains(text), "{text}: {said}");
    }
    let refused = server.cli(&["resume", "now", &run]);
    let text = stderr(&refused);
    assert!(text.contains(&format!("next: abide resume now {run} --approve-step charge   (")), "{text}");
    assert!(text.contains("--done 'charge=JSON'   (it was done"), "{text}");
    let off = server.cli(&["resume", "disable", &run, "--reason", "later"]);
    let told = format!("{run} waits for somebody after an interruption: `abide resume now {run}`\n");
    assert_eq!((code(&off), stdout(&off)), (0, &*told));
    let on = server.cli(&["resume", "enable", &run, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&on.stdout).unwrap();
    assert_eq!(json["autoResume"], true);

    let quick = server.start_run("quick", json!({})).await;
    let said = stdout(&server.cli(&["resume", "status", &quick])).to_owned();
    assert!(said.starts_with(&format!("{quick} is not interrupted: it is completed")), "{said}");
    let refused = server.cli(&["resume", "now", &quick]);
    assert_eq!(code(&refused), 1, "{refused:?}");
}
