//! `abide compact`: the file is written anew, and what was erased is nowhere in it.

use super::*;

fn compact(site: &Site, args: &[&str]) -> Output {
    run(abide().arg("compact").args(args).arg("--data").arg(site.data()))
}

#[tokio::test]
async fn what_was_erased_takes_no_room_any_more() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(server.start_run("quick", json!({ "text": "hush ".repeat(10_000) })).await);
    }
    for run in runs {
        server.post(&format!("/v1/runs/{run}/erase"), &json!({})).await;
    }
    let refused = compact(&site, &[]);
    assert_eq!((code(&refused), stdout(&refused)), (1, ""), "a server is running on it: {refused:?}");
    assert!(server.stop().success());
    let before = std::fs::metadata(site.data().join("abide.db")).unwrap().len();
    let told: serde_json::Value = serde_json::from_slice(&compact(&site, &["--json"]).stdout).unwrap();
    let after = std::fs::metadata(site.data().join("abide.db")).unwrap().len();
    assert_eq!(told["bytesAfter"], after);
    assert!(after < before / 2, "{after} of {before}");
    let again = compact(&site, &[]);
    let data = site.data().display().to_string();
    assert_eq!(stdout(&again), format!("{data} had {after} bytes and has {after} now\n"));
    assert_eq!(stderr(&again), format!("writing {after} bytes anew …\n"));
    assert_eq!(crate::support::verify(&site.data()), 20);
}

#[test]
fn where_there_is_no_data_none_is_made() {
    let site = Site::new();
    let refused = compact(&site, &[]);
    assert_eq!((code(&refused), stdout(&refused)), (1, ""), "{refused:?}");
    assert!(!site.data().exists());
}
