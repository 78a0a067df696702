//! `abide webhook`: added, watched, sent once more, removed.

use super::*;
use crate::receiver::{ALLOW, Receiver};

/// What a command printed, without what tells one secret from another.
fn told_of(output: &Output) -> String {
    let lines = told(output);
    let kept = lines.lines().filter(|line| !line.starts_with("fingerprint"));
    kept.map(|line| format!("{line}\n")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_added_looked_after_and_removed() {
    let receiver = Receiver::answering(|_, _| 503).await;
    let site = site();
    let server = site.start(&["--test-clock", ALLOW[0], ALLOW[1]]);
    insta::assert_snapshot!("no_webhooks", told(&server.cli(&["webhook", "list"])));
    let refused = server.cli(&["webhook", "add", "https://10.0.0.1/", "--event", "*"]);
    insta::assert_snapshot!("webhook_refused", told(&refused));
    let added = server.cli(&["webhook", "add", &receiver.url, "--event", "run.completed", "--tag", "blue"]);
    insta::assert_snapshot!("webhook_added", told(&added));
    let id = stdout(&added).split_whitespace().nth(1).unwrap();
    let run = server.cli(&["run", "start", "quick", "--tag", "blue"]);
    assert_eq!(code(&run), 0, "{run:?}");
    receiver.await_posts(1).await;
    let settled = || {
        let shown = server.cli(&["webhook", "show", id, "--json"]);
        stdout(&shown).contains("\"consecutiveFailures\":1")
    };
    while !settled() {
        tokio::task::yield_now().await;
    }
    insta::assert_snapshot!("webhooks", told_of(&server.cli(&["webhook", "list"])));
    insta::assert_snapshot!("webhook_show", told_of(&server.cli(&["webhook", "show", id])));
    insta::assert_snapshot!("webhook_pending", told_of(&server.cli(&["webhook", "deliveries", id])));
    insta::assert_snapshot!("webhook_dead", told_of(&server.cli(&["webhook", "deliveries", id, "--dead"])));
    insta::assert_snapshot!("webhook_resend", told_of(&server.cli(&["webhook", "resend", id, "--all"])));
    assert_eq!(code(&server.cli(&["webhook", "enable", id])), 0);
    insta::assert_snapshot!("webhook_removed", told_of(&server.cli(&["webhook", "rm", id])));
    insta::assert_snapshot!("webhook_gone", told_of(&server.cli(&["webhook", "rm", id])));
}
