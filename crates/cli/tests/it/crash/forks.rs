//! The server is killed while runs are forked: with one key there is one fork, whole or not at all.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::dice::Dice;
use crate::support::{Server, Site, answer, node, verify, workflow};

/// How often the server is killed.
const KILLS: u64 = 8;

fn reviewed() -> Value {
    let gate = node("gate", "core.approvalGate", json!({ "title": "Well?" }), json!({}), json!({}));
    let after = node("after", "core.noop", json!({}), json!({}), json!({}));
    workflow("reviewed", &[gate, after], &[("gate", "after")], json!([]))
}

async fn fork(server: &Server, run: &str, key: &str, mode: &str) -> Option<(StatusCode, Value)> {
    let request = server.request(Method::POST, &format!("/v1/runs/{run}:fork"));
    answer(request.header("Idempotency-Key", key).json(&json!({ "mode": mode, "fromSeq": 3 }))).await.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_makes_one_fork_whenever_the_server_dies() {
    let site = Site::new();
    site.workflow(&reviewed());
    let mut server = site.start(&[]);
    let run = server.start_run("reviewed", json!({})).await;
    let (mut dice, mut forks) = (Dice::new(0xf0_4b), BTreeSet::new());
    for kill in 0..KILLS {
        let (key, mode) = (format!("key-{kill}"), if kill % 2 == 0 { "branch" } else { "replay" });
        let pause = Duration::from_micros(dice.below(4_000));
        let dying = async {
            tokio::time::sleep(pause).await;
            server.signal(rustix::process::Signal::KILL);
        };
        let (first, ()) = tokio::join!(fork(&server, &run, &key, mode), dying);
        server.kill();
        server = site.start(&[]);
        let (status, again) = fork(&server, &run, &key, mode).await.unwrap();
        assert_eq!(status, StatusCode::CREATED, "{again}");
        if let Some((StatusCode::CREATED, told)) = first {
            assert_eq!(told["runId"], again["runId"], "what was told stands");
        }
        forks.insert(again["runId"].as_str().unwrap().to_owned());
    }
    assert_eq!(forks.len() as u64, KILLS);
    let (_, page) = server.get("/v1/runs?limit=100").await;
    assert_eq!(page["runs"].as_array().unwrap().len() as u64, KILLS + 1, "no key made two: {page}");
    server.kill();
    assert_eq!(verify(&site.data()), KILLS + 1);
}
