//! Many who answer at once.

use std::sync::Arc;

use super::*;

#[tokio::test]
async fn of_a_hundred_answers_at_once_one_is_taken() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let data = json!({ "customKind": "race", "payload": null });
    let run = ask(&server, "custom", &data, &json!({})).await;
    let server = Arc::new(server);
    let racers = (0..100).map(|racer| {
        let (server, run) = (server.clone(), run.clone());
        tokio::spawn(async move { (racer, answer_gate(&server, &run, &json!({ "racer": racer })).await) })
    });
    let mut winners = Vec::new();
    for racer in futures_util::future::join_all(racers).await {
        match racer.unwrap() {
            (racer, (StatusCode::OK, _)) => winners.push(racer),
            (_, refused) => drop(refusal(refused, "interrupt_already_resolved")),
        }
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    let outputs = shown(&server, &run).await["nodeStates"]["gate"]["outputs"].clone();
    assert_eq!(outputs["resumeValue"], json!({ "racer": winners[0] }));
}

#[tokio::test]
async fn an_answer_and_a_cancellation_at_once_have_one_winner() {
    let site = Site::new();
    let server = Arc::new(site.start(&["--test-clock"]));
    push(&server, &review(&json!({}))).await;
    for _ in 0..20 {
        let run = server.start_run("review", json!({})).await;
        let (answering, cancelling) = (
            {
                let (server, run) = (server.clone(), run.clone());
                tokio::spawn(async move {
                    server.post(&format!("/v1/runs/{run}/approvals/gate"), &accept()).await
                })
            },
            {
                let (server, run) = (server.clone(), run.clone());
                tokio::spawn(async move { server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await })
            },
        );
        let ((taken, body), (cancelled, _)) = (answering.await.unwrap(), cancelling.await.unwrap());
        assert_eq!(cancelled, StatusCode::OK);
        let status = shown(&server, &run).await["status"].clone();
        match taken {
            StatusCode::OK => assert_eq!(status, "completed"),
            _ => {
                refusal((taken, body), "interrupt_already_resolved");
                assert_eq!(status, "cancelled");
            }
        }
    }
}
