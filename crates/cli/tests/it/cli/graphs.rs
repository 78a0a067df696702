//! `abide graph`, `abide run start --after` and `--draft`, and `abide run why` of runs that wait for each other.

use super::*;

/// The phases of docs/graphs.md, and a workflow that waits for a minute.
pub(super) const COMPLIANCE: &str = r#"openintent: "1.0"
info: { name: "Compliance" }
workflow:
  fetch_data:
    title: "Fetch Data"
    assign: fetcher
    outputs: { rows: array }
  compliance_review:
    title: "Compliance Review"
    assign: reviewer
    depends_on: [fetch_data]
    inputs: { rows: fetch_data.rows }
    outputs: { approved: boolean }
  generate_report:
    title: "Generate Report"
    assign: reporter
    depends_on: [compliance_review]
    inputs: { ok: compliance_review.approved }
"#;

/// A site with a workflow that waits for a minute.
pub(super) fn load() -> Site {
    let site = site();
    let wait = node("wait", "core.delay", json!({ "ms": 60_000 }), json!({}), json!({}));
    let after = node("after", "core.noop", json!({}), json!({}), json!({}));
    site.workflow(&workflow("load", &[wait, after], &[("wait", "after")], json!([])));
    site
}

/// A command that has to do what it is asked, and what it prints.
pub(super) fn does(server: &Server, args: &[&str]) -> String {
    let output = server.cli(args);
    assert_eq!(code(&output), 0, "{args:?}: {output:?}");
    stdout(&output).to_owned()
}

/// The same, as JSON.
pub(super) fn shows(server: &Server, args: &[&str]) -> serde_json::Value {
    let args = [args, &["--json"]].concat();
    serde_json::from_str(&does(server, &args)).unwrap()
}

/// Starts a run, and gives its id.
pub(super) fn starts(server: &Server, args: &[&str]) -> String {
    let args = [&["run", "start"], args].concat();
    does(server, &args).trim().to_owned()
}

/// Pushes the phases and starts them: the workflow, and the runs of the phases in their order.
pub(super) async fn starts_phases(site: &Site, server: &Server) -> (String, [String; 3]) {
    starts_phases_of(site, server, COMPLIANCE).await
}

async fn starts_phases_of(site: &Site, server: &Server, text: &str) -> (String, [String; 3]) {
    std::fs::write(site.path("compliance.yaml"), text).unwrap();
    let file = site.path("compliance.yaml");
    let pushed = does(server, &["workflow", "push", file.to_str().unwrap()]);
    assert!(pushed.starts_with("compliance version 1 "), "{pushed}");
    let flow = starts(server, &["compliance"]);
    site.settle(server).await;
    let phases = shows(server, &["graph", "show", &flow])["phases"].clone();
    let run = |at: usize| phases[at]["runId"].as_str().unwrap().to_owned();
    (flow, [run(0), run(1), run(2)])
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_wait_are_started_shown_explained_and_freed() {
    let site = load();
    let server = site.start(&["--test-clock"]);
    let first = starts(&server, &["load"]);
    let second = starts(&server, &["load", "--after", &first]);
    let third = starts(&server, &["load"]);
    site.settle(&server).await;
    insta::assert_snapshot!(told(&server.cli(&["graph", "add", &third, "--on", &second])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001 is blocked by run-00000000-0000-0000-0000-000000000002 (dependency_incomplete)
    ");
    site.settle(&server).await;
    insta::assert_snapshot!(told(&server.cli(&["graph", "show", &second])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001 is blocked by run-00000000-0000-0000-0000-000000000002 (dependency_incomplete)

    waits for
      ▶ run-00000000-0000-0000-0000-000000000002 running

    is waited for by
      ◔ run-00000000-0000-0000-0000-000000000003 blocked
    ");
    insta::assert_snapshot!(told(&server.cli(&["run", "show", &second])), @"
    exit 0
    --- stdout
    run       run-00000000-0000-0000-0000-000000000001
    workflow  load 1.0
    status    blocked by run-00000000-0000-0000-0000-000000000002 (dependency_incomplete)
    started   2000-01-01T00:00:00.000Z
    duration  TIME

    · wait   core.delay  pending
    · after  core.noop   pending
    ");
    insta::assert_snapshot!(told(&server.cli(&["graph", "blocked"])), @"
    exit 0
    --- stdout
     RUN                                       WORKFLOW  REASON                 SINCE                     WAITS FOR
     run-00000000-0000-0000-0000-000000000001  load      dependency_incomplete  2000-01-01T00:00:00.000Z  run-00000000-0000-0000-0000-000000000002
     run-00000000-0000-0000-0000-000000000002  load      dependency_incomplete  2000-01-01T00:00:00.000Z  run-00000000-0000-0000-0000-000000000003
    ");
    insta::assert_snapshot!(told(&server.cli(&["graph", "add", &first, "--on", &third])), @"
    exit 1
    --- stderr
    error: run-00000000-0000-0000-0000-000000000001 waits for run-00000000-0000-0000-0000-000000000002 already, directly or by way of others, so neither run-00000000-0000-0000-0000-000000000002 nor a child of it can wait for run-00000000-0000-0000-0000-000000000001 [dependency_circle]
      Look at both with `abide graph show`, and take another dependency away first if this one is right.
    ");
    let blocked = shows(&server, &["graph", "blocked"]);
    assert_eq!(blocked["runs"].as_array().map(Vec::len), Some(2), "{blocked}");
    let listed = does(&server, &["run", "list", "--status", "blocked"]);
    assert!(listed.contains(&second) && listed.contains(&third) && !listed.contains(&first), "{listed}");
    let pending = does(&server, &["run", "list", "--status", "pending"]);
    assert!(pending.contains(&second) && pending.contains(&third), "{pending}");
    let removed = does(&server, &["graph", "remove", &third, "--on", &second]);
    assert_eq!(removed, format!("{third} is running\n"));
    let again = server.cli(&["graph", "remove", &third, "--on", &second]);
    assert_eq!((code(&again), stdout(&again)), (4, ""), "{again:?}");
    server.advance(120_000).await;
    site.settle(&server).await;
    server.advance(120_000).await;
    site.settle(&server).await;
    insta::assert_snapshot!(told(&server.cli(&["graph", "show", &second])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001 is completed

    has waited for
      ✓ run-00000000-0000-0000-0000-000000000002 completed
    ");
    assert_eq!(stderr(&server.cli(&["graph", "blocked"])), "no run waits for another\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_says_so_until_it_is_activated() {
    let site = load();
    let server = site.start(&["--test-clock"]);
    let draft = starts(&server, &["load", "--draft"]);
    insta::assert_snapshot!(told(&server.cli(&["run", "show", &draft])), @"
    exit 0
    --- stdout
    run       run-00000000-0000-0000-0000-000000000001
    workflow  load 1.0
    status    draft
    started   2000-01-01T00:00:00.000Z
    duration  TIME

    · wait   core.delay  pending
    · after  core.noop   pending
    ");
    insta::assert_snapshot!(told(&server.cli(&["run", "why", &draft])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001: it is a draft; 2 nodes have not started

    - it is a draft
      next   nothing starts until somebody activates it
    ");
    assert_eq!(does(&server, &["graph", "show", &draft]), format!("{draft} is a draft\n"));
    assert_eq!(does(&server, &["graph", "activate", &draft]), format!("{draft} is running\n"));
    let again = server.cli(&["graph", "activate", &draft]);
    assert_eq!((code(&again), stdout(&again)), (1, ""));
    assert!(stderr(&again).contains("the run is no draft [run_not_draft]"), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn why_follows_the_chain_to_the_person_at_its_end() {
    let site = load();
    let server = site.start(&["--test-clock"]);
    let (flow, [first, second, third]) = starts_phases(&site, &server).await;
    does(&server, &["hand", "claim", &first, "--as", "fetcher"]);
    does(&server, &["hand", "ask", &first, "--as", "fetcher", "--question", "Which source?"]);
    site.settle(&server).await;
    let last = starts(&server, &["load", "--after", &third]);
    site.settle(&server).await;
    insta::assert_snapshot!(told(&server.cli(&["run", "why", &last])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001: it is blocked and waits for another run; 2 nodes have not started

    - it waits for run-00000000-0000-0000-0000-000000000002, which has not completed (dependency_incomplete)
      since  2000-01-01T00:00:00.000Z (TIME ago)
      next   it goes on once that one has completed

    run-00000000-0000-0000-0000-000000000002: it is blocked and waits for another run; 1 node has not started

    - it waits for run-00000000-0000-0000-0000-000000000003, which has not completed (dependency_incomplete)
      since  2000-01-01T00:00:00.000Z (TIME ago)
      next   it goes on once that one has completed

    run-00000000-0000-0000-0000-000000000003: it is blocked and waits for another run; 1 node has not started

    - it waits for run-00000000-0000-0000-0000-000000000004, which waits for people (dependency_suspended)
      since  2000-01-01T00:00:00.000Z (TIME ago)
      next   it goes on once that one has been answered and has completed

    run-00000000-0000-0000-0000-000000000004: it is running and waits for an answer

    - node 'self' waits for somebody's answer (int-000000000000000000000000000000000005)
      since  2000-01-01T00:00:00.000Z (TIME ago)
      next   the run goes on when somebody answers
    ");
    let why = shows(&server, &["run", "why", &last]);
    let chain: Vec<&str> =
        why["chain"].as_array().unwrap().iter().map(|why| why["runId"].as_str().unwrap()).collect();
    assert_eq!(chain, [&third, &second, &first]);
    let end = &why["chain"][2]["reasons"][0];
    assert_eq!((&end["kind"], &end["nodeId"]), (&json!("input"), &json!("self")));
    insta::assert_snapshot!(told(&server.cli(&["run", "show", &flow])), @"
    exit 0
    --- stdout
    run       run-00000000-0000-0000-0000-000000000001
    workflow  compliance 1
    status    waiting-input
    started   2000-01-01T00:00:00.000Z
    duration  TIME

    ◔ fetch_data         core.phase  waiting  TIME
      ↳ run-00000000-0000-0000-0000-000000000002  compliance-fetch_data  waiting-input
        ◔ self  core.byHand  suspended  TIME
    ◔ compliance_review  core.phase  waiting  TIME
      ↳ run-00000000-0000-0000-0000-000000000003  compliance-compliance_review  pending
        · self  core.byHand  pending
    ◔ generate_report    core.phase  waiting  TIME
      ↳ run-00000000-0000-0000-0000-000000000004  compliance-generate_report  pending
        · self  core.byHand  pending
    ");
    insta::assert_snapshot!(told(&server.cli(&["graph", "show", &flow])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001 is running

    phases
      ◔ fetch_data         run-00000000-0000-0000-0000-000000000002  blocked (intent_suspended), for fetcher
      · compliance_review  run-00000000-0000-0000-0000-000000000003  pending, for reviewer
      · generate_report    run-00000000-0000-0000-0000-000000000004  pending, for reporter

    children
      2 blocked, 1 suspended_awaiting_input (0 % completed)
    ");
    let inbox = does(&server, &["inbox"]);
    assert!(inbox.contains("Which source?"), "{inbox}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_upstream_is_told_with_what_can_be_done() {
    let site = load();
    let server = site.start(&["--test-clock"]);
    let first = starts(&server, &["load"]);
    let second = starts(&server, &["load", "--after", &first]);
    does(&server, &["run", "cancel", &first]);
    site.settle(&server).await;
    insta::assert_snapshot!(told(&server.cli(&["run", "why", &second])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001: it is blocked and waits for another run; 2 nodes have not started

    - it waits for run-00000000-0000-0000-0000-000000000002, which has ended and will never complete (on_dependency_failed)
      since  2000-01-01T00:00:00.000Z (TIME ago)
      next   nothing starts until somebody takes that dependency away, or cancels the run

    run-00000000-0000-0000-0000-000000000002: it was cancelled
    ");
    insta::assert_snapshot!(told(&server.cli(&["graph", "show", &second])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001 is blocked by run-00000000-0000-0000-0000-000000000002 (on_dependency_failed)

    waits for
      ✗ run-00000000-0000-0000-0000-000000000002 cancelled
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_is_told_heard_replaced_and_let_go() {
    let site = load();
    let server = site.start(&["--test-clock"]);
    // What comes from a phase before can't be done without, so here nothing does.
    let loose = COMPLIANCE.replace("    inputs: { rows: fetch_data.rows }\n", "");
    let (flow, [first, second, _]) = starts_phases_of(&site, &server, &loose).await;
    let asked = ["graph", "coordinate", &flow, "--as", "lead", "--policy", "block_dependents"];
    insta::assert_snapshot!(redacted(&does(&server, &asked)).replace(lease(&server, &flow).as_str(), "LEASE"), @"coord-00000000000000000000000000000001: lead (active, block_dependents)");
    let other = server.cli(&["graph", "coordinate", &flow, "--as", "other"]);
    assert_eq!((code(&other), stdout(&other)), (1, ""));
    assert!(stderr(&other).contains("'lead' coordinates the run already"), "{other:?}");
    let odd = server.cli(&["graph", "coordinate", &flow, "--as", "other", "--policy", "ignore"]);
    assert_eq!(code(&odd), 1, "{odd:?}");
    assert!(stderr(&odd).contains("isolate, block_dependents, escalate"), "{odd:?}");

    does(&server, &["hand", "claim", &first, "--as", "fetcher"]);
    does(&server, &["hand", "ask", &first, "--as", "fetcher", "--question", "Which source?"]);
    site.settle(&server).await;
    does(&server, &["graph", "remove", &second, "--on", &first]);
    insta::assert_snapshot!(told(&server.cli(&["graph", "show", &second])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001 is blocked by run-00000000-0000-0000-0000-000000000002 (coordinator_blocked)

    is waited for by
      ◔ run-00000000-0000-0000-0000-000000000003 blocked
    ");
    insta::assert_snapshot!(told(&server.cli(&["run", "why", &second])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001: it is blocked; 1 node has not started

    - whoever coordinates run-00000000-0000-0000-0000-000000000002 holds it back (coordinator_blocked)
      since  2000-01-01T00:00:00.000Z (TIME ago)
      next   it goes on once what it comes after has been answered and has completed
    ");

    let id = lease(&server, &flow);
    let beat = does(&server, &["graph", "heartbeat", &flow, &id]);
    assert_eq!(beat, format!("{id}: lead (active, block_dependents)\n"));
    let left = does(&server, &["graph", "leave", &flow, &id]);
    assert_eq!(left, format!("{id}: lead (completed, block_dependents)\n"));
    let gone = server.cli(&["graph", "heartbeat", &flow, "coord-none"]);
    assert_eq!(code(&gone), 4, "{gone:?}");
}

/// The lease that somebody has.
fn lease(server: &Server, run: &str) -> String {
    let graph = shows(server, &["graph", "show", run]);
    graph["coordinators"][0]["coordinatorId"].as_str().unwrap_or_else(|| panic!("{graph}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_exits_as_not_found_and_what_is_missing_as_usage() {
    let site = load();
    let server = site.start(&["--test-clock"]);
    let run = starts(&server, &["load"]);
    let nobody = "run-00000000-0000-7000-8000-000000000000";
    for (args, expected) in [
        (&["graph", "show", nobody][..], 4),
        (&["graph", "add", nobody, "--on", &run], 4),
        (&["graph", "add", &run, "--on", nobody], 4),
        (&["graph", "activate", nobody], 4),
        (&["run", "start", "load", "--after", nobody], 4),
        (&["graph", "add", &run], 2),
        (&["graph", "show"], 2),
        (&["graph", "coordinate", &run], 2),
        (&["graph", "coordinate", &run, "--as", "x", "--heartbeat", "soon"], 2),
        (&["graph", "add", &run, "--on", &run], 1),
    ] {
        let output = server.cli(args);
        assert_eq!(code(&output), expected, "{args:?}: {output:?}");
        assert_eq!(stdout(&output), "", "{args:?}");
    }
}
