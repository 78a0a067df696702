//! A keyring that is rotated under a running server, and an old secret that is retired.

use std::process::Output;

use super::webhooks::check_signature;
use super::*;
use crate::receiver::{ALLOW, Post, Receiver};
use crate::support::abide;

const HOOK_SECRET: &str = "a secret of the receiver's own";

fn keyring(site: &Site, args: &[&str]) -> Output {
    abide().arg("keyring").args(args).arg("--data").arg(site.data()).output().unwrap()
}

fn done(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

/// The ids of the keyring's secrets that the rows of a table were made with, from first to last.
fn kids(site: &Site, table: &str, column: &str) -> Vec<u8> {
    let sql = format!("SELECT DISTINCT substr({column}, 4, 1) FROM {table} ORDER BY 1");
    let database = site.database();
    let mut rows = database.prepare(&sql).unwrap();
    let found = rows.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    found.map(|kid| kid.unwrap()[0]).collect()
}

async fn status_with(server: &Server, key: &str) -> StatusCode {
    answer(server.request_as(key, Method::GET, "/v1/runs")).await.unwrap().0
}

/// Starts `noop` once under an idempotency key.
async fn once(server: &Server) -> Value {
    let ask = server.request(Method::POST, "/v1/runs").header("Idempotency-Key", "the-same");
    let (status, run) = answer(ask.json(&json!({ "workflowId": "noop" }))).await.unwrap();
    assert!(status.is_success(), "{run}");
    run["runId"].clone()
}

/// A workflow that sends the secret `token` to a receiver.
fn caller(url: &str) -> Value {
    let config = json!({ "url": url, "method": "POST", "headers": { "X-Token": "{{ secrets.token }}" } });
    workflow("call", &[node("send", "core.http.request", config, json!({}), json!({}))], &[], json!([]))
}

/// Runs the caller: what the other server got.
async fn called(server: &Server, peer: &Receiver) -> Post {
    let before = peer.heard().len();
    server.start_run("call", json!({})).await;
    peer.await_posts(before + 1).await.pop().unwrap()
}

#[tokio::test]
async fn a_running_server_goes_on_with_what_was_made_before_a_rotation() {
    let (site, hook, peer) = (site(), Receiver::start().await, Receiver::start().await);
    site.workflow(&caller(&peer.url));
    let (key, chosen) = (site.new_key("default"), "chosen-by-somebody-else");
    site.key("default").secret(chosen).make();
    let server = site.serve(&key, &ALLOW);
    set_secret(&server, "token", "before the rotation").await;
    let webhook = json!({ "url": hook.url, "events": ["run.completed"], "secret": HOOK_SECRET });
    assert_eq!(server.post("/v1/webhooks", &webhook).await.0, StatusCode::CREATED);
    let run = once(&server).await;
    hook.await_posts(1).await;

    done(&keyring(&site, &["rotate"]));

    assert_eq!(status_with(&server, &key).await, StatusCode::OK);
    assert_eq!(status_with(&server, chosen).await, StatusCode::OK);
    assert_eq!(once(&server).await, run, "a request that is repeated is still known");
    assert_eq!(called(&server, &peer).await.header("x-token"), "before the rotation");
    check_signature(&hook.await_posts(2).await[1], HOOK_SECRET);
    let (status, made) = server.post("/v1/keys", &json!({})).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let new = made["key"].as_str().unwrap();
    assert_eq!(status_with(&server, new).await, StatusCode::OK);
    assert_eq!(kids(&site, "api_keys", "mac"), [1, 2], "the new secret signs, without a restart");
    set_secret(&server, "token", "after the rotation").await;
    assert_eq!(kids(&site, "secrets", "sealed"), [2]);
    assert!(server.stop().success());

    let server = site.serve(&key, &ALLOW);
    assert_eq!(status_with(&server, &key).await, StatusCode::OK);
    assert_eq!(status_with(&server, new).await, StatusCode::OK);
    assert_eq!(once(&server).await, run);
    assert_eq!(called(&server, &peer).await.header("x-token"), "after the rotation");
}

#[tokio::test]
async fn a_retired_secret_takes_along_the_keys_it_checks_and_nothing_that_is_sealed() {
    let (site, hook, peer) = (site(), Receiver::start().await, Receiver::start().await);
    site.workflow(&caller(&peer.url));
    let old = site.new_key("default");
    let server = site.serve(&old, &ALLOW);
    set_secret(&server, "token", "kept by everybody").await;
    let webhook = json!({ "url": hook.url, "events": ["run.completed"], "secret": HOOK_SECRET });
    assert_eq!(server.post("/v1/webhooks", &webhook).await.0, StatusCode::CREATED);
    let listed = server.get("/v1/secrets").await;
    done(&keyring(&site, &["rotate"]));
    let beside = keyring(&site, &["retire", "1", "--force"]);
    assert_eq!(beside.status.code(), Some(1), "not while a server runs: {beside:?}");
    assert!(server.stop().success());

    let refused = keyring(&site, &["retire", "1"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains(&site.key_id(&old)) && told.contains("abide keys rotate"), "{told}");
    assert_eq!((kids(&site, "secrets", "sealed"), kids(&site, "webhooks", "sealed")), (vec![1], vec![1]));

    let new = site.new_key("default");
    done(&keyring(&site, &["retire", "1", "--force"]));
    assert_eq!((kids(&site, "secrets", "sealed"), kids(&site, "webhooks", "sealed")), (vec![2], vec![2]));
    let server = site.serve(&new, &ALLOW);
    assert_eq!(status_with(&server, &old).await, StatusCode::UNAUTHORIZED);
    assert_eq!(server.get("/v1/secrets").await, listed, "who set it, and when, stays");
    assert_eq!(called(&server, &peer).await.header("x-token"), "kept by everybody");
    check_signature(&hook.await_posts(1).await[0], HOOK_SECRET);
}

#[tokio::test]
async fn a_secret_that_runs_are_sealed_with_is_kept_until_they_are_erased() {
    let site = site();
    let waits = node("wait", "core.delay", json!({ "ms": HOUR_MS }), json!({}), json!({}));
    let variables = json!([{ "name": "pw", "type": "string", "sensitive": true }]);
    site.workflow(&workflow("closed", &[waits], &[], variables));
    let server = site.start(&[]);
    let run = server.start_run("closed", json!({ "pw": "never shown" })).await;
    done(&keyring(&site, &["rotate"]));
    assert!(server.stop().success());

    let refused = keyring(&site, &["retire", "1", "--force"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("abide run erase"), "{refused:?}");

    let server = site.start(&[]);
    assert_eq!(shown(&server, &run).await["status"], "running", "nothing was changed");
    for args in [&["run", "cancel", &run][..], &["run", "erase", &run, "--yes"]] {
        server.settle().await;
        done(&server.cli(args));
    }
    assert!(server.stop().success());
    done(&keyring(&site, &["retire", "1", "--force"]));
}
