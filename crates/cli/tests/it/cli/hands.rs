//! `abide hand`: claiming, asking and being through, as whoever does it sees it.

use super::graphs::{does, load, shows, starts_phases};
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_phase_is_claimed_asked_about_and_done_and_what_is_refused_says_why() {
    let site = load();
    let server = site.start(&["--test-clock"]);
    let (_, [first, second, third]) = starts_phases(&site, &server).await;
    insta::assert_snapshot!(told(&server.cli(&["hand", "claim", &first, "--as", "fetcher"])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001: node 'self' is running, in the hands of fetcher
    ");
    insta::assert_snapshot!(told(&server.cli(&["hand", "claim", &first, "--as", "other"])), @"
    exit 1
    --- stderr
    error: 'fetcher' has the node; nobody else can do anything about it until they give it back [node_claimed]
      Wait until they give it back or are through; an operator can give it back in their name.
    ");
    insta::assert_snapshot!(told(&server.cli(&["hand", "claim", &second, "--as", "reviewer"])), @"
    exit 1
    --- stderr
    error: nothing has produced fetch_data.rows so far; claim the node again once that is there [unresolvable_input]
      `details.unresolvable` lists them. Check what the phases before this one have produced.
    ");
    insta::assert_snapshot!(told(&server.cli(&["hand", "complete", &first, "--as", "fetcher", "--output", "rows=two"])), @"
    exit 1
    --- stderr
    error: output 'rows' has to be array, and is string [outputs_unfit]
      `details.missing` and `details.type_errors` list what to change.
    ");
    let done = does(&server, &["hand", "complete", &first, "--as", "fetcher", "--output", "rows=[1,2]"]);
    assert_eq!(done, format!("{first}: node 'self' is completed, and its run is completed\n"));
    site.settle(&server).await;
    insta::assert_snapshot!(told(&server.cli(&["hand", "claim", &second, "--as", "reviewer"])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001: node 'self' is running, in the hands of reviewer
      rows = [1,2]
    ");
    let ask = [
        "hand",
        "ask",
        &second,
        "--as",
        "reviewer",
        "--question",
        "Sign off?",
        "--choice",
        "yes",
        "--choice",
        "no",
        "--attempts",
        "3",
        "--interval",
        "1h",
        "--rung",
        "2=email",
        "--respondent",
        "ada",
    ];
    let asked = does(&server, &ask);
    let shown = shows(&server, &["run", "show", &second]);
    let interrupt = shown["interrupt"]["interruptId"].as_str().unwrap();
    assert!(asked.ends_with(&format!("; it waits for the answer to {interrupt}\n")), "{asked}");
    assert_eq!(
        shown["interrupt"]["data"]["questions"][0]["schema"],
        json!({ "enum": ["yes", "no"] }),
        "{shown}"
    );
    site.settle(&server).await;
    insta::assert_snapshot!(told(&server.cli(&["hand", "claim", &third, "--as", "reporter"])), @"
    exit 1
    --- stderr
    error: an input comes from 'compliance_review' (run-00000000-0000-0000-0000-000000000001), which waits for people; whoever was refused gets it as soon as that has completed [upstream_intent_suspended]
      Nothing needs to be done. `details` names the run, and until when it waits at the latest: answer it in the inbox.
    ");
    insta::assert_snapshot!(told(&server.cli(&["hand", "complete", &second, "--as", "reviewer"])), @"
    exit 1
    --- stderr
    error: the node waits for the answer to what was asked last [node_asking]
      Answer that first: it is in the inbox.
    ");
    let released = server.cli(&["hand", "release", &second, "--as", "nobody"]);
    assert_eq!(code(&released), 1, "{released:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phase_is_given_back_and_given_up() {
    let site = load();
    let server = site.start(&["--test-clock"]);
    let (flow, [first, ..]) = starts_phases(&site, &server).await;
    does(&server, &["hand", "claim", &first, "--as", "fetcher"]);
    insta::assert_snapshot!(told(&server.cli(&["hand", "release", &first, "--as", "fetcher"])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001: node 'self' is waiting
    ");
    does(&server, &["hand", "claim", &first, "--as", "other", "--node", "self"]);
    let json = shows(&server, &["hand", "claim", &first, "--as", "other"]);
    assert_eq!((&json["agent"], &json["status"]), (&json!("other"), &json!("running")));
    insta::assert_snapshot!(told(&server.cli(&["hand", "fail", &first, "--as", "other", "--message", "no source"])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001: node 'self' is failed, and its run is failed
    ");
    site.settle(&server).await;
    insta::assert_snapshot!(told(&server.cli(&["run", "why", &flow])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001: it failed: run-00000000-0000-0000-0000-000000000002, which node 'fetch_data' waited for, failed: no source [child_failed]
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_meant_is_usage_and_what_is_not_there_is_not_found() {
    let site = load();
    let server = site.start(&["--test-clock"]);
    let (_, [first, ..]) = starts_phases(&site, &server).await;
    let nobody = "run-00000000-0000-7000-8000-000000000000";
    does(&server, &["hand", "claim", &first, "--as", "fetcher"]);
    let ask = ["hand", "ask", &first, "--as", "fetcher", "--question", "Well?"];
    for (args, expected) in [
        (&["hand", "claim", nobody, "--as", "x"][..], 4),
        (&["hand", "claim", &first], 2),
        (&["hand", "ask", &first, "--as", "fetcher"], 2),
        (&["hand", "fail", &first, "--as", "fetcher"], 2),
        (&["hand", "complete", &first, "--as", "fetcher", "--output", "rows"], 2),
        (&[&ask[..], &["--rung", "two=email"]].concat(), 2),
        (&[&ask[..], &["--interval", "soon"]].concat(), 2),
        (&[&ask[..], &["--attempts", "0", "--interval", "1h"]].concat(), 1),
        (&["hand", "claim", &first, "--as", "fetcher", "--node", "other"], 1),
    ] {
        let output = server.cli(args);
        assert_eq!(code(&output), expected, "{args:?}: {output:?}");
        assert_eq!(stdout(&output), "", "{args:?}");
    }
}
