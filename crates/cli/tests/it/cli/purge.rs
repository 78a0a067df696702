//! `abide run purge`: what would go, what went, and nothing without a yes.

use super::*;

#[tokio::test]
async fn what_would_go_is_told_and_nothing_goes_without_a_yes() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (quick, sad) = (server.start_run("quick", json!({})).await, server.start_run("sad", json!({})).await);
    let waits = server.start_run("hello", json!({})).await;
    server.events(&sad).await;
    server.advance(500).await;
    let purge = |more: &[&str]| server.cli(&[&["run", "purge", "--older-than", "0s"], more].concat());
    let dry = purge(&["--dry-run"]);
    assert_eq!((code(&dry), stdout(&dry)), (0, "2 runs with 8 events would be removed\n"), "{dry:?}");
    let unsure = purge(&[]);
    assert_eq!((code(&unsure), stdout(&unsure)), (1, ""), "{unsure:?}");
    assert!(stderr(&unsure).contains("look with --dry-run, then add --yes"), "{unsure:?}");
    let wrong = purge(&["--yes", "--status", "running"]);
    assert_eq!(code(&wrong), 1, "{wrong:?}");
    assert!(stderr(&wrong).contains("only runs that have ended can be removed"), "{wrong:?}");
    assert_eq!(server.get(&format!("/v1/runs/{quick}")).await.0, 200, "nothing went so far");
    let failed = purge(&["--yes", "--status", "failed,cancelled"]);
    assert_eq!((code(&failed), stdout(&failed)), (0, "removed 1 run with 4 events\n"), "{failed:?}");
    let rest = purge(&["--yes", "--workflow", "quick", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&rest.stdout).unwrap();
    assert_eq!((&told["runs"], &told["kept"], &told["dryRun"]), (&json!(1), &json!(0), &json!(false)));
    assert_eq!(server.get(&format!("/v1/runs/{sad}")).await.0, 404);
    assert_eq!(server.get(&format!("/v1/runs/{waits}")).await.0, 200);
    let none = run(abide().args(["run", "purge", "--yes"]));
    assert_eq!(code(&none), 2, "there is no default for what is old: {none:?}");
}
