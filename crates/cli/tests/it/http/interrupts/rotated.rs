//! Tokens while the keyring is rotated under the server, and after a secret was retired.

use super::*;
use crate::support::abide;

fn keyring(site: &Site, args: &[&str]) {
    let output = abide().arg("keyring").args(args).arg("--data").arg(site.data()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn tokens_outlive_a_rotation() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let old = token(&server, &run).await;
    keyring(&site, &["rotate"]);
    let new = token(&server, &run).await;
    assert_ne!(old, new);
    let (first, second) = (look(&server, &old).await, look(&server, &new).await);
    assert_eq!((first.0, second.0), (StatusCode::OK, StatusCode::OK), "{first:?} {second:?}");
    assert_eq!(first.1["interruptId"], second.1["interruptId"]);
    assert_eq!(answer_by(&server, &old, &accept()).await.1["status"], "completed");
}

#[tokio::test]
async fn a_token_dies_with_the_secret_that_signed_it() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let old = token(&server, &run).await;
    keyring(&site, &["rotate"]);
    let new = token(&server, &run).await;
    assert!(server.stop().success());
    keyring(&site, &["retire", "1", "--force"]);
    let server = site.start(&["--test-clock"]);
    refusal(look(&server, &old).await, "interrupt_not_found");
    refusal(answer_by(&server, &old, &accept()).await, "interrupt_not_found");
    assert_eq!(shown(&server, &run).await["status"], "waiting-approval");
    assert_eq!(answer_by(&server, &new, &accept()).await.1["status"], "completed");
}
