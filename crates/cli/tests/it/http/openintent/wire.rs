//! What goes over the wire of OpenIntent, body by body, where its SDK does not look.

use super::*;

/// An intent on a server.
pub(super) struct Intent<'a> {
    pub(super) server: &'a Server,
    pub(super) path: String,
}

impl<'a> Intent<'a> {
    /// An active one.
    pub(super) async fn new(server: &'a Server) -> Self {
        let body = json!({ "title": "Review", "status": "active" });
        let (status, made) =
            answer(asked(server, Method::POST, "/api/v1/intents").json(&body)).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{made}");
        Self { server, path: format!("/api/v1/intents/{}", made["id"].as_str().unwrap()) }
    }

    /// One that is suspended with this record.
    pub(super) async fn suspended(server: &'a Server, record: &Value) -> Self {
        let intent = Self::new(server).await;
        intent.done("/status", &json!({ "status": "suspended_awaiting_input" })).await;
        intent.write(record).await;
        intent
    }

    pub(super) async fn write(&self, record: &Value) {
        let patch = json!({ "op": "set", "path": "_suspension", "value": record });
        self.done("/state", &json!({ "patches": [patch] })).await;
    }

    pub(super) async fn done(&self, rest: &str, body: &Value) {
        let version = self.shown().await["version"].as_u64().unwrap();
        let request = asked(self.server, Method::POST, &format!("{}{rest}", self.path));
        let (status, told) =
            answer(request.header("If-Match", version.to_string()).json(body)).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{told}");
    }

    pub(super) async fn get(&self, rest: &str) -> Value {
        let request = asked(self.server, Method::GET, &format!("{}{rest}", self.path));
        let (status, told) = answer(request).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{told}");
        told
    }

    pub(super) async fn shown(&self) -> Value {
        self.get("").await
    }

    pub(super) async fn respond(&self, body: &Value) -> (StatusCode, Value) {
        answer(asked(self.server, Method::POST, &self.response()).json(body)).await.unwrap()
    }

    fn response(&self) -> String {
        format!("{}/suspend/respond", self.path)
    }

    /// The events of a type.
    pub(super) async fn events(&self, kind: &str) -> Vec<Value> {
        let events = self.get("/events?limit=500").await;
        events.as_array().unwrap().iter().filter(|event| event["event_type"] == kind).cloned().collect()
    }

    pub(super) fn id(&self) -> &str {
        self.path.rsplit('/').next().unwrap()
    }

    pub(super) fn run(&self) -> String {
        format!("run-{}", self.id())
    }
}

pub(super) fn asked(server: &Server, method: Method, path: &str) -> Ask {
    asked_by(server, "ann", method, path)
}

pub(super) fn asked_by(server: &Server, agent: &str, method: Method, path: &str) -> Ask {
    server.anonymous(method, path).header("X-API-Key", server.key.as_str()).header("X-Agent-ID", agent)
}

/// A record with more in it, or other things.
pub(super) fn record(more: &Value) -> Value {
    let mut record = json!({
        "id": "s-1", "question": "Go on?", "response_type": "choice", "fallback_policy": "fail",
        "choices": [
            { "value": "yes", "label": "Go on", "description": "It is in order." },
            { "value": "no", "label": "Stop" },
        ],
    });
    for (key, value) in more.as_object().unwrap() {
        record[key] = value.clone();
    }
    record
}

/// OI-012: the hint chooses the channel, and the context goes over it.
#[tokio::test]
async fn the_context_reaches_people_over_the_channel_that_is_hinted_at() {
    let (chat, email) = (Receiver::start().await, Receiver::start().await);
    let site = Site::new();
    let config = site.path("abide.toml");
    let channels =
        hook("chat", &chat.url) + &hook("email", &email.url) + "content = 'full'\ninternal = true\n";
    std::fs::write(&config, format!("[notify]\ndefault = 'chat'\n{channels}")).unwrap();
    let server = site.start(&["--test-clock", "--config", config.to_str().unwrap()]);
    let more = json!({ "channel_hint": "email", "context": { "invoice": "A-17" } });
    Intent::suspended(&server, &record(&more)).await;
    site.settle_messages(&server).await;
    let said: Vec<String> = email.heard().iter().map(|post| post.json().to_string()).collect();
    assert!(said.iter().any(|text| text.contains("A-17")), "{said:?}");
    assert_eq!(chat.heard().len(), 0, "nobody hinted at the other channel");
}

/// OI-015: nobody touches what goes with a question.
#[tokio::test]
async fn what_goes_with_a_question_stays_as_it_was_written() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let more = json!({
        "response_type": "form", "choices": null, "fallback_policy": "complete_with_fallback",
        "fallback_value": { "pay": [1, 2.5, null], "no": { "": "ü" } },
        "decision_record": { "mode": "ask", "signals": { "risk": 0.30, "n": 12_345_678_901_234_567_u64 } },
    });
    let intent = Intent::suspended(&server, &record(&more)).await;
    let (status, told) = intent.respond(&json!({ "suspension_id": "s-1", "value": "yes" })).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    let kept = &intent.shown().await["state"]["_suspension"];
    for key in ["fallback_value", "decision_record"] {
        assert_eq!(kept[key], more[key], "{kept}");
    }
}

/// OI-020: the event that an intent waits for people has all nine fields.
#[tokio::test]
async fn the_event_of_a_suspension_has_nine_fields() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let policy = json!({ "max_attempts": 3, "interval_seconds": 600 });
    let more = json!({
        "retry_policy": policy, "channel_hint": "chat", "timeout_seconds": 1200, "confidence_at_suspension": 0.4,
    });
    let record = record(&more);
    let intent = Intent::suspended(&server, &record).await;
    let events = intent.events("intent.suspended").await;
    assert_eq!(events.len(), 1, "{events:?}");
    let told = &events[0]["payload"];
    assert_eq!(told["suspension_id"], "s-1");
    for key in [
        "question",
        "response_type",
        "channel_hint",
        "fallback_policy",
        "confidence_at_suspension",
        "timeout_seconds",
    ] {
        assert_eq!(told[key], record[key], "{key}: {told}");
    }
    let values: Vec<&Value> = told["choices"].as_array().unwrap().iter().map(|one| &one["value"]).collect();
    assert_eq!(values, ["yes", "no"]);
    for (key, value) in policy.as_object().unwrap() {
        assert_eq!(&told["retry_policy"][key], value, "{told}");
    }
}

/// OI-026, OI-027, OI-028: an answer needs no version, and whoever gave it hears what became of it.
#[tokio::test]
async fn an_answer_needs_no_version_and_is_told_with_its_label() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let intent = Intent::suspended(&server, &record(&json!({}))).await;
    let body =
        json!({ "suspension_id": "s-1", "value": "yes", "responded_by": "zoe", "metadata": { "n": 1 } });
    let (status, told) = intent.respond(&body).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    let shown = intent.shown().await;
    assert_eq!(told["intent_id"], shown["id"]);
    let said = (&told["suspension_id"], &told["resolution"], &told["value"]);
    assert_eq!(said, (&json!("s-1"), &json!("responded"), &json!("yes")));
    let kept = &shown["state"]["_suspension"];
    assert!(kept["responded_by"].is_string() && kept["responded_at"].is_string(), "{kept}");
    assert_eq!(
        (&told["responded_by"], &told["responded_at"]),
        (&kept["responded_by"], &kept["responded_at"])
    );
    let label = (&told["choice_label"], &told["choice_description"]);
    assert_eq!(label, (&json!("Go on"), &json!("It is in order.")));
    // What is written freely has no label.
    let free = json!({ "id": "s-2", "question": "Why?", "response_type": "text", "fallback_policy": "fail" });
    let intent = Intent::suspended(&server, &free).await;
    let (status, told) = intent.respond(&json!({ "suspension_id": "s-2", "value": "because" })).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert!(told.get("choice_label").is_none_or(Value::is_null), "{told}");
}

/// OI-029: who may not, and what is not there.
#[tokio::test]
async fn an_answer_without_a_key_or_to_nothing_is_refused() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let intent = Intent::suspended(&server, &record(&json!({}))).await;
    let body = json!({ "suspension_id": "s-1", "value": "yes" });
    for key in [None, Some("wrong")] {
        let mut request = server.anonymous(Method::POST, &intent.response()).json(&body);
        if let Some(key) = key {
            request = request.header("X-API-Key", key);
        }
        let (status, told) = answer(request).await.unwrap();
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{told}");
    }
    let nowhere = "/api/v1/intents/00000000-0000-4000-8000-000000000000/suspend/respond";
    let (status, told) = answer(asked(&server, Method::POST, nowhere).json(&body)).await.unwrap();
    assert_eq!(status, StatusCode::NOT_FOUND, "{told}");
    assert_eq!(intent.shown().await["status"], "suspended_awaiting_input");
}

/// OI-030, OI-031, OI-032: only the open suspension is answered, and a hold does not hinder that.
#[tokio::test]
async fn an_answer_is_for_the_open_suspension_by_its_id() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let intent = Intent::new(&server).await;
    let body = json!({ "suspension_id": "s-1", "value": "yes" });
    let (status, told) = intent.respond(&body).await;
    assert_eq!(status, StatusCode::CONFLICT, "{told}");
    intent.done("/status", &json!({ "status": "suspended_awaiting_input" })).await;
    intent.write(&record(&json!({}))).await;
    let before = intent.shown().await;
    let (status, told) = intent.respond(&json!({ "suspension_id": "s-0", "value": "yes" })).await;
    assert_eq!(status, StatusCode::CONFLICT, "{told}");
    assert!(told["detail"].to_string().contains("mismatch"), "{told}");
    let (status, told) = intent.respond(&json!({ "value": "yes" })).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{told}");
    assert_eq!(intent.shown().await, before, "a refused answer changes nothing");
    let hold = format!("/v1/runs/{}:hold", intent.run());
    let (status, told) = server.post(&hold, &json!({ "mode": "stop" })).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{told}");
    let (status, told) = intent.respond(&body).await;
    assert_eq!(status, StatusCode::OK, "{told}");
}

/// OI-033, OI-034: an answer that does not fit is told what would.
#[tokio::test]
async fn an_answer_that_does_not_fit_is_told_which_would() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let intent = Intent::suspended(&server, &record(&json!({}))).await;
    let (status, told) = intent.respond(&json!({ "suspension_id": "s-1", "value": "perhaps" })).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{told}");
    assert_eq!(told["detail"]["error"], "invalid_choice", "{told}");
    assert_eq!(told["detail"]["valid_choices"], record(&json!({}))["choices"], "{told}");
    for body in ["[]", "\"yes\"", "7", "null", "{", "{\"suspension_id\": \"s-1\", \"value\": }"] {
        let request = asked(&server, Method::POST, &intent.response());
        let request = request.header("content-type", "application/json").body(body);
        let (status, told) = answer(request).await.unwrap();
        assert!(status.is_client_error(), "{body}: {status} {told}");
        assert!(told["detail"].is_object() && told["detail"]["message"].is_string(), "{body}: {told}");
    }
    assert_eq!(intent.shown().await["status"], "suspended_awaiting_input");
}

/// OI-035: while nobody has said what is asked, whatever comes is the answer.
#[tokio::test]
async fn before_the_record_any_answer_of_somebody_with_a_key_is_taken() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let intent = Intent::new(&server).await;
    intent.done("/status", &json!({ "status": "suspended_awaiting_input" })).await;
    let body = json!({ "suspension_id": "whatever", "value": { "n": 1 } });
    let without = server.anonymous(Method::POST, &intent.response()).json(&body);
    assert_eq!(answer(without).await.unwrap().0, StatusCode::UNAUTHORIZED);
    let (status, told) = intent.respond(&body).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert_eq!((&told["value"], &intent.shown().await["status"]), (&json!({ "n": 1 }), &json!("active")));
    assert_eq!(intent.respond(&body).await.0, StatusCode::CONFLICT);
}

/// OI-036, OI-038: the answer stands in the state whatever happens to the server, and its event says all of it.
#[tokio::test]
async fn an_answer_is_there_after_a_restart_and_its_event_says_all() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let intent = Intent::suspended(&server, &record(&json!({}))).await;
    let (status, told) = intent.respond(&json!({ "suspension_id": "s-1", "value": "no" })).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    let path = intent.path.clone();
    server.kill();
    let server = site.start(&["--test-clock"]);
    let intent = Intent { server: &server, path };
    let kept = intent.shown().await["state"]["_suspension"].clone();
    assert_eq!((&kept["response"], &kept["resolution"]), (&json!("no"), &json!("responded")));
    for key in ["responded_by", "responded_at"] {
        assert!(kept[key].is_string() && kept[key] == told[key], "{key}: {kept}");
    }
    let events = intent.events("intent.resumed").await;
    assert_eq!(events.len(), 1, "{events:?}");
    for key in ["intent_id", "suspension_id", "value", "responded_by", "responded_at"] {
        assert_eq!(events[0]["payload"][key], told[key], "{key}: {events:?}");
    }
}

/// Nobody makes an intent, or a child, with an answer that nobody gave, or with a record that can't be asked.
#[tokio::test]
async fn an_intent_is_not_made_with_an_answer() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let parent = Intent::new(&server).await;
    let forged = record(&json!({ "resolution": "responded", "response": "yes", "responded_by": "cfo" }));
    for suspension in [forged, json!(5)] {
        let body = json!({ "title": "Pay", "status": "active", "state": { "_suspension": suspension } });
        for path in ["/api/v1/intents".to_owned(), format!("{}/children", parent.path)] {
            let (status, told) = answer(asked(&server, Method::POST, &path).json(&body)).await.unwrap();
            assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {told}");
            assert!(told["message"].as_str().unwrap().contains('\''), "{told}");
        }
    }
    parent.done("/status", &json!({ "status": "completed" })).await;
}

/// What is closed to an agent is closed on every way that leads to it.
#[tokio::test]
async fn whoever_may_not_work_on_an_intent_adds_nothing_to_it() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let intent = Intent::new(&server).await;
    let id = intent.path.rsplit('/').next().unwrap();
    let acl = asked(&server, Method::PUT, &format!("{}/acl", intent.path));
    let (status, told) = answer(acl.json(&json!({ "default_policy": "closed" }))).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{told}");
    let made = asked_by(&server, "eve", Method::POST, "/api/v1/portfolios").json(&json!({ "name": "Mine" }));
    let (status, portfolio) = answer(made).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{portfolio}");
    let members = format!("/api/v1/portfolios/{}/intents", portfolio["id"].as_str().unwrap());
    let below = json!({ "title": "x" });
    let coordinator = json!({ "agent_id": "eve", "intent_id": id });
    let asked_for = [
        (format!("{}/children", intent.path), below),
        ("/api/v1/intents".to_owned(), json!({ "title": "x", "parent_intent_id": id })),
        ("/api/v1/tasks".to_owned(), json!({ "intent_id": id, "name": "x" })),
        ("/api/v1/plans".to_owned(), json!({ "intent_id": id, "tasks": [{ "name": "x" }] })),
        ("/api/v1/coordinators".to_owned(), coordinator),
        (members.clone(), json!({ "intent_id": id })),
    ];
    for (path, body) in &asked_for {
        let (status, told) = answer(asked_by(&server, "eve", Method::POST, path).json(body)).await.unwrap();
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {told}");
        assert_eq!(told["error"], "access_denied", "{path}: {told}");
    }
    for (path, body) in &asked_for[2..] {
        let (status, told) = answer(asked(&server, Method::POST, path).json(body)).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{path}: {told}");
    }
    intent.done("/status", &json!({ "status": "completed" })).await;
}

/// A policy that wants a reason has a place for it, also where everything is asked at once.
#[tokio::test]
async fn a_suspension_at_once_says_why() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let intent = Intent::new(&server).await;
    let policy = asked(&server, Method::PUT, &format!("{}/governance", intent.path)).header("If-Match", "1");
    let (status, told) = answer(policy.json(&json!({ "require_status_reason": true }))).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{told}");
    let suspend = |more: Value| {
        let path = format!("{}/suspend", intent.path);
        answer(asked(&server, Method::POST, &path).json(&record(&more)))
    };
    let (status, told) = suspend(json!({})).await.unwrap();
    assert_eq!((status, &told["error"]), (StatusCode::FORBIDDEN, &json!("governance_violation")), "{told}");
    let (status, told) = suspend(json!({ "reason": 7 })).await.unwrap();
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{told}");
    let (status, told) = suspend(json!({ "reason": "a person decides" })).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{told}");
    assert!(told["state"]["_suspension"].get("reason").is_none(), "{told}");
}

/// OI-051: in the inbox a suspension is a clarification with one question, which says what the answers are.
#[tokio::test]
async fn a_suspension_is_one_question_of_the_inbox() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let intent = Intent::suspended(&server, &record(&json!({}))).await;
    let (_, inbox) = server.get("/v1/interrupts").await;
    let rows = inbox["interrupts"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{inbox}");
    assert_eq!((&rows[0]["runId"], &rows[0]["kind"]), (&json!(intent.run()), &json!("clarification")));
    let (_, run) = server.get(&format!("/v1/runs/{}", intent.run())).await;
    let questions = run["interrupts"][0]["data"]["questions"].as_array().unwrap();
    assert_eq!(questions.len(), 1, "{run}");
    assert_eq!(questions[0]["question"], "Go on?", "{run}");
    let choices: Vec<&Value> =
        questions[0]["choices"].as_array().unwrap().iter().map(|choice| &choice["value"]).collect();
    assert_eq!(
        (&questions[0]["responseType"], choices),
        (&json!("choice"), vec![&json!("yes"), &json!("no")])
    );
}

/// OI-179: the document about compatibility, and the page, name RFC-0026 with what it builds on.
#[tokio::test]
async fn the_documents_name_what_suspensions_build_on() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let request = server.anonymous(Method::GET, "/.well-known/openintent-compat.json");
    let (status, told) = answer(request).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{told}");
    let page = std::fs::read_to_string(repository().join("docs/openintent.md")).unwrap();
    for rfc in ["RFC-0002", "RFC-0007", "RFC-0010", "RFC-0012", "RFC-0024", "RFC-0025", "RFC-0026"] {
        assert!(
            ["full", "partial"].iter().any(|holds| told["rfcCompliance"][rfc] == *holds),
            "{rfc}: {told}"
        );
        assert!(page.contains(rfc), "{rfc}");
    }
}
