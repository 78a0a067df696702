//! `abide agent`: list, show, set, rm.

use super::*;

#[test]
fn an_agents_record_is_set_listed_shown_and_removed() {
    let site = site();
    let server = site.start(&[]);
    insta::assert_snapshot!("no_agent", told(&server.cli(&["agent", "list"])));
    let file = site.path("policy.yaml");
    let policy = "max_attempts: 3\ninterval_seconds: 3600\nescalation_ladder:\n  - { attempt: 2, channel_hint: email }\n  \
                  - { attempt: 3, channel_hint: pagerduty, notify_to: supervisor@example.com }\n";
    std::fs::write(&file, policy).unwrap();
    let set = server.cli(&["agent", "set", "planner", "--policy", file.to_str().unwrap()]);
    assert_eq!((code(&set), stdout(&set)), (0, "planner is set\n"), "{set:?}");
    let inline = r#"{"max_attempts": 1, "final_fallback_policy": "fail"}"#;
    assert_eq!(code(&server.cli(&["agent", "set", "refunds", "--policy", inline])), 0);
    assert_eq!(code(&server.cli(&["agent", "set", "silent"])), 0);
    insta::assert_snapshot!("agent_list", told(&server.cli(&["agent", "list"])));
    insta::assert_snapshot!("agent_shown", told(&server.cli(&["agent", "show", "planner"])));
    let silent = server.cli(&["agent", "show", "silent"]);
    assert!(stdout(&silent).contains("as the server says"), "{silent:?}");
    let shown = server.cli(&["agent", "show", "planner", "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["default_human_retry_policy"]["escalation_ladder"][1]["attempt"], 3);
    let removed = server.cli(&["agent", "rm", "planner"]);
    assert_eq!(stdout(&removed), "planner is removed\n");
    let gone = server.cli(&["agent", "show", "planner"]);
    assert!(code(&gone) == 4 && stderr(&gone).contains("agent_not_found"), "{gone:?}");
}

#[test]
fn what_is_wrong_with_a_policy_is_told_and_nothing_is_set() {
    let site = site();
    let server = site.start(&[]);
    let file = site.path("policy.yaml");
    std::fs::write(&file, "max_attempts: [").unwrap();
    for (policy, word) in [
        (r#"{"max_attempts": 0}"#, "default_human_retry_policy.max_attempts"),
        (r#"{"max_attempts": "#, "--policy is not JSON"),
        (file.to_str().unwrap(), "policy.yaml"),
        ("nowhere.yaml", "nowhere.yaml"),
    ] {
        let refused = server.cli(&["agent", "set", "planner", "--policy", policy]);
        assert!(code(&refused) == 1 && stderr(&refused).contains(word), "{refused:?}");
    }
    assert_eq!(code(&server.cli(&["agent", "show", "planner"])), 4);
}
