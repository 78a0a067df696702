//! `abide group`: what it says of several runs together.

use super::graphs::{does, load, shows, starts, starts_phases};
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_made_filled_looked_at_and_closed() {
    let site = load();
    let server = site.start(&["--test-clock"]);
    insta::assert_snapshot!(told(&server.cli(&["group", "list"])), @"
    exit 0
    --- stderr
    no groups yet; make one with `abide group create NAME`
    ");
    let group =
        does(&server, &["group", "create", "Q3 close", "--deadline", "12h", "--description", "By Friday"]);
    let group = group.trim();
    let (_, [first, second, third]) = starts_phases(&site, &server).await;
    insta::assert_snapshot!(told(&server.cli(&["group", "add", group, &first, &second, &third])), @"
    exit 0
    --- stdout
    Q3 close is active; its members: in_progress (1 active, 2 blocked)
    ");
    does(&server, &["hand", "claim", &first, "--as", "fetcher"]);
    let ask = [
        "hand",
        "ask",
        &first,
        "--as",
        "fetcher",
        "--question",
        "Which?",
        "--attempts",
        "2",
        "--interval",
        "1h",
    ];
    does(&server, &ask);
    let load = starts(&server, &["load"]);
    does(&server, &["group", "add", group, &load, "--role", "primary", "--priority", "-1"]);
    site.settle(&server).await;
    insta::assert_snapshot!(told(&server.cli(&["group", "show", group])), @"
    exit 0
    --- stdout
    group        run-00000000-0000-0000-0000-000000000001
    name         Q3 close
    description  By Friday
    status       active
    members      in_progress (1 active, 2 blocked, 1 suspended_awaiting_input)
    deadline     2000-01-01T00:00:00.000Z (in TIME)

    ? run-00000000-0000-0000-0000-000000000002 waiting-input, since 2000-01-01T00:00:00.000Z (TIME ago), until 2000-01-01T00:00:00.000Z (in TIME)
    ◔ run-00000000-0000-0000-0000-000000000003 blocked
    ◔ run-00000000-0000-0000-0000-000000000004 blocked
    ▶ run-00000000-0000-0000-0000-000000000005 (primary) running
    ");
    insta::assert_snapshot!(told(&server.cli(&["group", "list"])), @"
    exit 0
    --- stdout
     GROUP                                     NAME      STATUS  MEMBERS                                                        WAIT FOR PEOPLE
     run-00000000-0000-0000-0000-000000000001  Q3 close  active  in_progress (1 active, 2 blocked, 1 suspended_awaiting_input)  1
    ");
    let json = shows(&server, &["group", "show", group]);
    assert_eq!((&json["groupId"], json["members"].as_array().map(Vec::len)), (&json!(group), Some(4)));
    let refused = server.cli(&["group", "close", group]);
    assert_eq!((code(&refused), stdout(&refused)), (1, ""));
    assert!(stderr(&refused).contains("4 members of the group have not completed"), "{refused:?}");
    let removed = does(&server, &["group", "remove", group, &load]);
    assert!(removed.ends_with("(2 blocked, 1 suspended_awaiting_input)\n"), "{removed}");
    insta::assert_snapshot!(told(&server.cli(&["group", "set", group, "--allow-partial"])), @"
    exit 0
    --- stdout
    Q3 close is active; its members: in_progress (2 blocked, 1 suspended_awaiting_input)
    ");
    let governed = shows(&server, &["group", "show", group])["governance"].clone();
    assert!(governed["deadline"].is_string(), "what is not named stays as it is: {governed}");
    does(&server, &["group", "set", group, "--without", "deadline"]);
    let governed = shows(&server, &["group", "show", group])["governance"].clone();
    assert_eq!(governed, json!({ "allowPartialCompletion": true }));
    assert!(does(&server, &["group", "close", group]).starts_with("Q3 close is completed; "));
    let again = server.cli(&["group", "close", group]);
    assert_eq!(code(&again), 1, "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_counts_from_the_servers_clock_and_abandons_who_waits() {
    let site = load();
    let server = site.start(&["--test-clock"]);
    // A clock that is far ahead of ours.
    server.advance(30 * 24 * 3_600_000).await;
    let group = does(&server, &["group", "create", "Hurry", "--deadline", "30m", "--complete-at", "0.8"]);
    let group = group.trim();
    let (_, [first, ..]) = starts_phases(&site, &server).await;
    does(&server, &["group", "add", group, &first]);
    does(&server, &["hand", "claim", &first, "--as", "fetcher"]);
    does(&server, &["hand", "ask", &first, "--as", "fetcher", "--question", "Which?"]);
    let asked = shows(&server, &["run", "show", &first])["interrupt"]["interruptId"].clone();
    let asked = asked.as_str().unwrap().to_owned();
    site.settle(&server).await;
    insta::assert_snapshot!(told(&server.cli(&["graph", "show", &first])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001 is waiting-input

    is waited for by
      ◔ run-00000000-0000-0000-0000-000000000002 blocked

    groups
      run-00000000-0000-0000-0000-000000000003 as member

    If it waits for people at 2000-01-01T00:00:00.000Z (in TIME), it is abandoned.
    ");
    insta::assert_snapshot!(told(&server.cli(&["run", "why", &first])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001: it is running and waits for an answer

    - node 'self' waits for somebody's answer (int-000000000000000000000000000000000002)
      since  2000-01-01T00:00:00.000Z (TIME ago)
      next   the run goes on when somebody answers

    - a group that it belongs to has a deadline (run-00000000-0000-0000-0000-000000000003)
      next   if it waits for people then, it is abandoned (portfolio_deadline_exceeded), at 2000-01-01T00:00:00.000Z (in TIME)
    ");
    server.advance(30 * 60_000).await;
    site.settle(&server).await;
    insta::assert_snapshot!(told(&server.cli(&["run", "show", &first])), @"
    exit 0
    --- stdout
    run       run-00000000-0000-0000-0000-000000000001
    workflow  compliance-fetch_data 1
    parent    run-00000000-0000-0000-0000-000000000002 (node fetch_data)
    status    cancelled (portfolio_deadline_exceeded)
    started   2000-01-01T00:00:00.000Z
    ended     2000-01-01T00:00:00.000Z
    duration  TIME

    ⊘ self  core.byHand  cancelled  TIME
    ");
    insta::assert_snapshot!(told(&server.cli(&["group", "show", group])), @"
    exit 0
    --- stdout
    group        run-00000000-0000-0000-0000-000000000001
    name         Hurry
    status       active
    members      failed (1 abandoned)
    deadline     2000-01-01T00:00:00.000Z (TIME ago)
    completes    once 80 % of its members have

    ✗ run-00000000-0000-0000-0000-000000000002 cancelled
    ");
    let late = server.cli(&["answer", &asked, "--answer", "answer=x"]);
    assert_eq!(code(&late), 4, "{late:?}");
    assert!(stderr(&late).contains("does not wait for an answer"), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_is_looked_at_as_a_run_says_what_it_is() {
    let site = load();
    let server = site.start(&["--test-clock"]);
    let group = does(&server, &["group", "create", "Q3"]);
    let group = group.trim();
    insta::assert_snapshot!(told(&server.cli(&["run", "show", group])), @"
    exit 0
    --- stdout
    run       run-00000000-0000-0000-0000-000000000001
    workflow  abide-group 1
    status    running
    started   2000-01-01T00:00:00.000Z
    duration  TIME

    it is a group: see `abide group show run-00000000-0000-0000-0000-000000000001`
    ");
    insta::assert_snapshot!(told(&server.cli(&["run", "why", group])), @"
    exit 0
    --- stdout
    run-00000000-0000-0000-0000-000000000001: it is a group

    - a group is there until somebody closes it
      since  2000-01-01T00:00:00.000Z (TIME ago)
      next   it is closed or abandoned by somebody
    ");
    let listed = server.cli(&["run", "list"]);
    assert!(!stdout(&listed).contains(group), "{listed:?}");
    let run = starts(&server, &["load"]);
    does(&server, &["group", "add", group, &run]);
    let events = does(&server, &["run", "events", group]);
    assert!(events.contains("portfolio.member_added"), "{events}");
    let left = does(&server, &["group", "abandon", group, "--reason", "no need"]);
    assert!(left.starts_with("Q3 is abandoned; "), "{left}");
    insta::assert_snapshot!(told(&server.cli(&["run", "show", group])), @"
    exit 0
    --- stdout
    run       run-00000000-0000-0000-0000-000000000001
    workflow  abide-group 1
    status    cancelled
    started   2000-01-01T00:00:00.000Z
    ended     2000-01-01T00:00:00.000Z
    duration  TIME

    it is a group: see `abide group show run-00000000-0000-0000-0000-000000000001`
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_group_exits_as_not_found_and_odd_rules_as_usage() {
    let site = load();
    let server = site.start(&["--test-clock"]);
    let run = starts(&server, &["load"]);
    let group = does(&server, &["group", "create", "Q3"]);
    let group = group.trim();
    let nobody = "run-00000000-0000-7000-8000-000000000000";
    for (args, expected) in [
        (&["group", "show", nobody][..], 4),
        (&["group", "show", &run], 4),
        (&["group", "abandon", &run], 4),
        (&["group", "add", group, nobody], 4),
        (&["group", "remove", group, &run], 4),
        (&["group", "add", group, group], 1),
        (&["group", "add", group], 2),
        (&["group", "create"], 2),
        (&["group", "create", ""], 1),
        (&["group", "create", "x", "--deadline", "soon"], 2),
        (&["group", "create", "x", "--complete-at", "2"], 1),
        (&["group", "add", group, &run, "--role", "leader"], 2),
    ] {
        let output = server.cli(args);
        assert_eq!(code(&output), expected, "{args:?}: {output:?}");
        assert_eq!(stdout(&output), "", "{args:?}");
    }
    assert!(shows(&server, &["run", "show", &run])["status"] == "running", "it was not abandoned as a group");
}
