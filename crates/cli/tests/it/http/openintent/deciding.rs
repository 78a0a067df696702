//! Several who decide something at once, and what is left of a decision that was cut off.

use tokio::task::JoinSet;

use super::wire::{Intent, asked};
use super::*;

/// Requests that are made at once.
const AT_ONCE: usize = 24;

fn named(server: &Server, method: Method, path: &str, agent: &str) -> Ask {
    server.anonymous(method, path).header("X-API-Key", server.key.as_str()).header("X-Agent-ID", agent)
}

/// The answers to requests that are made at once.
async fn at_once(requests: impl IntoIterator<Item = Ask>) -> Vec<(StatusCode, Value)> {
    let mut made = JoinSet::new();
    requests.into_iter().for_each(|request| drop(made.spawn(async { answer(request).await.unwrap() })));
    made.join_all().await
}

/// Posts many at once that differ in one field, and sees that each is answered with its own.
async fn each_hears_of_its_own(intent: &Intent<'_>, rest: &str, field: &str, more: &Value) {
    let path = format!("{}{rest}", intent.path);
    let requests = (0..AT_ONCE).map(|n| {
        let mut body = more.clone();
        body[field] = json!(format!("own {n}"));
        asked(intent.server, Method::POST, &path).json(&body)
    });
    let mut requests: Vec<Ask> = requests.collect();
    let (mut ids, mut own) = (Vec::new(), Vec::new());
    let mut made = JoinSet::new();
    for (n, request) in requests.drain(..).enumerate() {
        made.spawn(async move { (n, answer(request).await.unwrap()) });
    }
    for (n, (status, told)) in made.join_all().await {
        assert_eq!(status, StatusCode::OK, "{told}");
        assert_eq!(told[field], format!("own {n}"), "{rest}");
        ids.push(told["id"].as_str().unwrap().to_owned());
        own.push(n);
    }
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), own.len()), (AT_ONCE, AT_ONCE), "{rest}");
}

#[tokio::test]
async fn whoever_asks_for_something_hears_of_that_and_of_nobody_elses() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let intent = Intent::new(&server).await;
    each_hears_of_its_own(&intent, "/approvals", "action", &json!({})).await;
    each_hears_of_its_own(&intent, "/escalations", "reason", &json!({})).await;
    each_hears_of_its_own(&intent, "/acl/entries", "principal_id", &json!({ "permission": "read" })).await;
}

/// An intent of which `ann`, `bob` and `eve` say who may, and the path of a request for access to it.
async fn requested<'a>(server: &'a Server, agent: &str) -> (Intent<'a>, String) {
    let intent = Intent::new(server).await;
    for admin in ["bob", "eve"] {
        let body = json!({ "principal_id": admin, "permission": "admin" });
        let path = format!("{}/acl/entries", intent.path);
        let (status, told) = answer(asked(server, Method::POST, &path).json(&body)).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{told}");
    }
    let path = format!("{}/access-requests", intent.path);
    let body = json!({ "principal_id": agent, "requested_permission": "read" });
    let (status, told) = answer(named(server, Method::POST, &path, agent).json(&body)).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{told}");
    let request = format!("{path}/{}", told["id"].as_str().unwrap());
    (intent, request)
}

impl Intent<'_> {
    /// What somebody may do, entry by entry.
    async fn entries(&self, agent: &str) -> Vec<Value> {
        let access = self.get("/acl").await;
        let entries = access["entries"].as_array().unwrap().iter();
        entries.filter(|entry| entry["principal_id"] == agent).cloned().collect()
    }

    /// How the only request for access stands.
    async fn request(&self) -> Value {
        self.get("/access-requests").await["access_requests"][0].clone()
    }
}

#[tokio::test]
async fn a_request_for_access_is_decided_once_and_only_who_was_approved_is_let_in() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let mut approved = 0;
    for round in 0..8 {
        let (intent, request) = requested(&server, "zoe").await;
        // Some rounds have nobody who says no.
        let verbs =
            if round % 2 == 0 { ["approve", "approve", "approve"] } else { ["approve", "deny", "approve"] };
        let decide = |(agent, verb): (&str, &str)| {
            let body = json!({ "reason": format!("{agent} says so") });
            named(&server, Method::POST, &format!("{request}/{verb}"), agent).json(&body)
        };
        let told = at_once(["ann", "bob", "eve"].into_iter().zip(verbs).map(decide)).await;
        let (won, lost): (Vec<_>, Vec<_>) =
            told.into_iter().partition(|(status, _)| *status == StatusCode::OK);
        assert_eq!(won.len(), 1, "{won:?} {lost:?}");
        assert!(lost.iter().all(|(status, _)| *status == StatusCode::CONFLICT), "{lost:?}");
        let (kept, entries) = (intent.request().await, intent.entries("zoe").await);
        assert_eq!(kept, won[0].1);
        let is_approved = kept["status"] == "approved";
        assert_eq!(entries.len(), usize::from(is_approved), "{kept} {entries:?}");
        approved += entries.len();
        assert!(entries.iter().all(|entry| entry["reason"] == kept["decision_reason"]), "{kept} {entries:?}");
    }
    assert!(approved >= 4, "nobody was let in");
}

#[tokio::test]
async fn an_approval_that_was_cut_off_is_finished_by_whoever_approves_again() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let begun = r#""_approval":{"agent":"ann","by":"ann","permission":"read","expires_at":null,"reason":"so"},"status":"approving""#;
    let rewrite = |from: &str, to: &str| {
        let sql = "UPDATE notes SET body = CAST(replace(CAST(body AS TEXT), ?1, ?2) AS BLOB) WHERE kind = 'access.request'";
        site.database().execute(sql, [from, to]).unwrap();
    };
    for was_granted in [false, true] {
        for (agent, expected) in [("ann", StatusCode::OK), ("bob", StatusCode::CONFLICT)] {
            let (intent, request) = requested(&server, "zoe").await;
            let decide = async |agent: &str, verb: &str| {
                let path = format!("{request}/{verb}");
                answer(named(&server, Method::POST, &path, agent).json(&json!({ "reason": "so" })))
                    .await
                    .unwrap()
            };
            if was_granted {
                assert_eq!(decide("ann", "approve").await.0, StatusCode::OK);
                rewrite(r#""status":"approved""#, begun);
            } else {
                rewrite(r#""status":"pending""#, &format!(r#""_tries":1,{begun}"#));
            }
            // Nobody has been told anything, so nobody can say otherwise either.
            assert_eq!(intent.request().await["status"], "pending");
            let (status, told) = decide("eve", "deny").await;
            assert_eq!(status, StatusCode::CONFLICT, "{told}");
            let (status, told) = decide(agent, "approve").await;
            assert_eq!(status, expected, "{told}");
            let kept = intent.request().await;
            assert_eq!((&kept["status"], &kept["decided_by"]), (&json!("approved"), &json!("ann")), "{kept}");
            assert_eq!(intent.entries("zoe").await.len(), 1);
        }
    }
}

#[tokio::test]
async fn an_approval_that_is_refused_leaves_the_request_as_it_was() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let (intent, request) = requested(&server, "zoe").await;
    let before = intent.request().await;
    let decide = async |agent: &str, verb: &str, body: &Value| {
        answer(named(&server, Method::POST, &format!("{request}/{verb}"), agent).json(body)).await.unwrap()
    };
    let (status, told) = decide("ann", "approve", &json!({ "reason": "x".repeat(40_000) })).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{told}");
    let (status, told) = decide("ann", "approve", &json!({ "permission": "everything" })).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{told}");
    let (status, told) = decide("zoe", "approve", &json!({})).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{told}");
    assert_eq!((intent.request().await, intent.entries("zoe").await.len()), (before, 0));
    let (status, told) = decide("bob", "deny", &json!({ "reason": "x".repeat(70_000) })).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{told}");
    let (status, told) = decide("bob", "deny", &json!({})).await;
    assert_eq!((status, &told["status"]), (StatusCode::OK, &json!("denied")), "{told}");
}

#[tokio::test]
async fn a_channel_gets_no_larger_by_a_change_than_it_may_be() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let intent = Intent::new(&server).await;
    let path = format!("{}/channels", intent.path);
    let (status, made) =
        answer(asked(&server, Method::POST, &path).json(&json!({ "name": "talk" }))).await.unwrap();
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let path = format!("/api/v1/channels/{}", made["id"].as_str().unwrap());
    let change = async |body: &Value| answer(asked(&server, Method::PATCH, &path).json(body)).await.unwrap();
    let (status, told) = change(&json!({ "options": { "long": "x".repeat(65 * 1024) } })).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{told}");
    assert_eq!(answer(asked(&server, Method::GET, &path)).await.unwrap().1, made);
    assert_eq!(change(&json!({ "options": { "max_messages": 3 } })).await.0, StatusCode::OK);
}

#[tokio::test]
async fn whoever_takes_a_lease_hears_of_that_one_and_not_of_one_that_they_gave_back() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let intent = Intent::new(&server).await;
    let path = format!("{}/leases", intent.path);
    for _ in 0..8 {
        let body = json!({ "scope": "review", "duration_seconds": 60 });
        let (status, lease) = answer(asked(&server, Method::POST, &path).json(&body)).await.unwrap();
        assert_eq!((status, &lease["status"]), (StatusCode::OK, &json!("active")), "{lease}");
        let own = format!("{path}/{}", lease["id"].as_str().unwrap());
        let (status, told) = answer(asked(&server, Method::DELETE, &own)).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{told}");
    }
}

#[tokio::test]
async fn those_who_are_let_in_at_one_moment_are_told_of_once_each() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let (intent, _) = requested(&server, "zoe").await;
    let granted = intent.events("access_granted").await;
    let whom: Vec<&Value> = granted.iter().map(|event| &event["payload"]["principal_id"]).collect();
    assert_eq!(whom, ["eve", "bob"], "{granted:?}");
}
