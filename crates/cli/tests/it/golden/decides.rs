//! What came with the tenth release: votes, refinements, questions back, conversations, doubts, holds and forks.

use serde_json::{Value, json};

use crate::support::{Server, node, workflow};

const LETTER: &str = "kept-letter";
const VOTE: &str = "kept-vote";
const TALK: &str = "kept-talk";
const DOUBT: &str = "kept-doubt";
const HELD: &str = "kept-payment";

pub(super) fn definitions() -> Vec<Value> {
    let one = |id: &str, kind: &str, config: Value| {
        workflow(id, &[node("gate", kind, config, json!({}), json!({}))], &[], json!([]))
    };
    let text = "has(inputs.refineFeedback) ? inputs.previousArtifact + inputs.refineFeedback.text : 'A'";
    let draft = json!({ "outputs": { "text": text } });
    let letter = json!({ "title": "Send it?", "actions": ["accept", "refine", "ask"] });
    let artifact = json!({ "artifact": { "type": "connection", "nodeId": "draft", "outputKey": "text" } });
    let letter = workflow(
        LETTER,
        &[
            node("draft", "core.transform", draft, json!({}), json!({})),
            node("gate", "core.approvalGate", letter, artifact, json!({})),
        ],
        &[("draft", "gate")],
        json!([]),
    );
    let votes = json!({ "title": "Release?", "requiredApprovals": 2, "rejectionPolicy": "majority" });
    let talk = json!({ "conversationId": "frozen-7", "prompts": ["Which?", "Why?"], "reason": "said" });
    let doubt =
        json!({ "agentId": "frozen", "threshold": 0.7, "observed": 0.5, "decision": { "pay": true } });
    vec![
        letter,
        one(VOTE, "core.approvalGate", votes),
        one(TALK, "core.conversationGate", talk),
        one(DOUBT, "core.interrupt", json!({ "kind": "low-confidence", "data": doubt })),
        one(HELD, "core.approvalGate", json!({ "title": "Pay?", "timeoutMs": 7_200_000 })),
    ]
}

async fn say(server: &Server, run: &str, value: Value) -> Value {
    let body = json!({ "resumeValue": value });
    let (status, answer) = server.post(&format!("/v1/runs/{run}/interrupts/gate"), &body).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn do_to(server: &Server, run: &str, verb: &str, body: Value) -> Value {
    let (status, answer) = server.post(&format!("/v1/runs/{run}:{verb}"), &body).await;
    assert!(status.is_success(), "{answer}");
    answer
}

pub(super) async fn freeze(server: &Server) {
    let letter = server.start_run(LETTER, json!({})).await;
    say(server, &letter, json!({ "action": "ask", "question": "Why?" })).await;
    let replied = format!("/v1/runs/{letter}/interrupts/gate/asks/ask-1");
    assert_eq!(server.post(&replied, &json!({ "answer": "So." })).await.0, 200);
    let feedback = json!({ "scope": "whole", "text": "B" });
    say(server, &letter, json!({ "action": "refine", "refineFeedback": feedback })).await;
    say(server, &letter, json!({ "action": "ask", "question": "And now?" })).await;
    let vote = server.start_run(VOTE, json!({})).await;
    say(server, &vote, json!({ "action": "reject", "voter": "ann" })).await;
    say(server, &vote, json!({ "action": "accept", "voter": "ann" })).await;
    let talk = server.start_run(TALK, json!({})).await;
    say(server, &talk, json!("this")).await;
    server.start_run(DOUBT, json!({})).await;
    let held = server.start_run(HELD, json!({})).await;
    do_to(server, &held, "hold", json!({ "mode": "pause", "reason": "frozen so" })).await;
    say(server, &held, json!({ "action": "accept" })).await;
    let stopped = server.start_run(HELD, json!({})).await;
    do_to(server, &stopped, "hold", json!({ "mode": "stop" })).await;
    let branch = do_to(server, &letter, "fork", json!({ "mode": "branch", "fromSeq": 6 })).await;
    let branch = branch["runId"].as_str().unwrap().to_owned();
    say(server, &branch, json!({ "action": "accept" })).await;
    do_to(server, &branch, "fork", json!({ "mode": "replay" })).await;
    let (_, snapshot) = server.get(&format!("/v1/runs/{vote}")).await;
    let all = snapshot["sequence"].as_u64().unwrap() + 1;
    do_to(server, &vote, "fork", json!({ "mode": "branch", "fromSeq": all })).await;
}

/// Demands that what was said before still counts.
pub(super) async fn demand(server: &Server) {
    let ended = async |workflow: &str| -> Vec<Value> {
        let (_, page) = server.get(&format!("/v1/runs?workflowId={workflow}")).await;
        let mut runs = Vec::new();
        for run in page["runs"].as_array().unwrap() {
            runs.push(server.get(&format!("/v1/runs/{}", run["runId"].as_str().unwrap())).await.1);
        }
        // Newest first.
        runs.reverse();
        runs
    };
    let letters = ended(LETTER).await;
    let [letter, branch, replay] = letters.as_slice() else { return assert_eq!(letters.len(), 0) };
    assert_eq!(letter["nodeStates"]["gate"]["outputs"]["artifactData"], "AB");
    assert_eq!(letter["variables"]["_askExchanges:gate"].as_array().unwrap().len(), 2, "{letter}");
    assert_eq!(branch["nodeStates"]["gate"]["outputs"]["artifactData"], "A");
    assert_eq!(replay["forkedFrom"], json!({ "runId": branch["runId"], "fromSeq": 0, "mode": "replay" }));
    for vote in ended(VOTE).await {
        let by = |vote: &Value| vote["by"].clone();
        let votes =
            vote["nodeStates"]["gate"]["outputs"]["quorum"]["votes"].as_array().unwrap().iter().map(by);
        assert_eq!(votes.collect::<Vec<_>>(), ["ann", "dev"]);
    }
    let talk = &ended(TALK).await[0];
    let turns = &talk["nodeStates"]["gate"]["outputs"]["turns"];
    assert_eq!((&turns[0]["outcome"], turns.as_array().unwrap().len()), (&json!("this"), 2), "{talk}");
    for held in ended(HELD).await {
        assert_eq!(held["nodeStates"]["gate"]["outputs"]["action"], "accept");
    }
}
