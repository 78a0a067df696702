//! `abide bench roundtrip`, small: what it counts is what it did.

use super::*;

#[test]
fn roundtrips_are_counted_and_parked_runs_answered_after_a_kill() {
    let args =
        ["bench", "roundtrip", "--roundtrips", "24", "--concurrency", "4", "--parked", "120", "--json"];
    let output = run(abide().args(args));
    assert_eq!(code(&output), 0, "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let parts = report.as_object().unwrap();
    let part = |words: &str| {
        let found = parts.iter().find(|(title, _)| title.contains(words));
        found.unwrap_or_else(|| panic!("no part '{words}' in {report:#}")).1
    };
    let durable = part("both steps each individually durable");
    assert_eq!((&durable["roundtrips"], &durable["roundtrips one at a time"]), (&json!(24), &json!(24)));
    let stretch = part("the steps in their commits");
    assert_eq!(stretch["requests per roundtrip, one at a time"], 2.0, "a start and an answer");
    assert_eq!(part("parked at an interrupt")["runs"], 120);
    let inbox = part("the inbox");
    assert_eq!((&inbox["counted among 1"], &inbox["counted among 120"]), (&json!(1), &json!(120)));
    assert_eq!(part("answering one among them")["answered"], 60);
    assert!(
        part("start after kill -9")["ms from exec to the first answered run's end"].as_f64().unwrap() > 0.0
    );
    assert!(part("disk")["bytes per run"].as_f64().unwrap() > 1024.0, "the data is on disk");
}

#[test]
fn runs_that_a_killed_server_had_under_way_go_on_and_are_counted() {
    let output = run(abide().args(["bench", "resume", "--runs", "30", "--json"]));
    assert_eq!(code(&output), 0, "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let counted = &report["what was counted"];
    assert_eq!(counted["requests that the provider heard before"], 30);
    assert_eq!(counted["requests that it heard after"], 30, "{report:#}");
    assert_eq!(counted["runs resumed with exactly one attempt"], 30, "{report:#}");
    assert_eq!(counted["runs completed"], 30);
    let most = report["after kill -9"]["requests in flight at once, at the most"].as_u64().unwrap();
    assert!((1..=30).contains(&most), "{report:#}");
}

#[test]
fn turns_wait_out_an_outage_and_what_their_provider_saw_is_counted() {
    let output = run(abide().args(["bench", "turns", "--runs", "60", "--outage", "2", "--json"]));
    assert_eq!(code(&output), 0, "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let outage = &report["the outage, while all wait"];
    assert_eq!(outage["requests in flight at once, at the most"], 1, "{report:#}");
    let stopped = &report["stopped and started again in the outage"];
    assert!(stopped["bytes on disk per run"].as_f64().unwrap() > 100.0, "{report:#}");
    let back = &report["after the provider is back"];
    assert_eq!(back["requests that the provider saw"], 60, "one for each run: {report:#}");
    assert_eq!(back["turns that still wait"], 0);
    assert_eq!(report["in all"]["runs completed"], 60);
}

#[test]
fn crowds_are_made_watched_and_set_going_and_every_message_is_counted() {
    let sizes = ["--runs", "400", "--members", "120", "--dependents", "120"];
    let output = run(abide().args(["bench", "groups", "--json"]).args(sizes));
    assert_eq!(code(&output), 0, "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let part = |words: &str| {
        let found = report.as_object().unwrap().iter().find(|(title, _)| title.contains(words));
        found.unwrap_or_else(|| panic!("no part '{words}' in {report:#}")).1
    };
    let graph = part("400 runs in one graph");
    assert_eq!(graph["edges"], 436, "four chains of 100, each with nine edges beside");
    assert_eq!(graph["messages for each"], 2.0 * 436.0 / 400.0, "who waits says so, and is told");
    assert_eq!(part("120 members that come to wait for people at once")["messages for each"], 2.0);
    assert_eq!(part("120 members that are answered")["messages for each"], 1.0);
    let dependents = part("the 120 that waited for it go on");
    assert!(dependents["dependents/s"].as_f64().unwrap() > 0.0);
    assert!(part("all against half").as_object().unwrap().len() > 4, "{report:#}");
}
