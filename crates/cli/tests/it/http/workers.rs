//! The worker protocol: register, be told, do, fall silent, come back.

use super::*;

const KIND: &str = "acme.work";

/// A worker, as a test plays it.
struct Hand<'a> {
    server: &'a Server,
    session: String,
    after: u64,
}

/// A worker's session, by a digit.
fn session(digit: u8) -> String {
    let four = |digit: u8| digit.to_string().repeat(4);
    let part = four(digit);
    format!("{part}{part}-{part}-4{}-8{}-{part}{part}{part}", &part[1..], &part[1..])
}

fn registration(digit: u8, capacity: u32) -> Value {
    json!({
        "protocol": 1, "session": session(digit), "agent": "ada", "capacity": capacity,
        "kinds": [{ "kind": KIND, "idempotent": false, "reversible": true }],
        "labels": { "host": format!("h{digit}") }, "codeVersion": "1.0", "sdk": "test/1",
        "hooks": ["input_requested", "input_received", "suspension_expired"],
    })
}

async fn register(server: &Server, body: &Value) -> Value {
    let (status, registered) = server.post("/v1/workers", body).await;
    assert_eq!(status, StatusCode::OK, "{registered}");
    registered
}

impl<'a> Hand<'a> {
    async fn new(server: &'a Server, digit: u8, capacity: u32) -> Self {
        register(server, &registration(digit, capacity)).await;
        Self { server, session: session(digit), after: 0 }
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/workers/{}{rest}", self.session)
    }

    async fn poll(&mut self, wait_ms: u64) -> Vec<Value> {
        let body = json!({ "after": self.after, "waitMs": wait_ms });
        let (status, told) = self.server.post(&self.path(":poll"), &body).await;
        assert_eq!(status, StatusCode::OK, "{told}");
        self.after = told["at"].as_u64().unwrap();
        told["messages"].as_array().unwrap().clone()
    }

    /// The next message of a type. Polls that end with nothing are made again.
    async fn next(&mut self, kind: &str) -> Value {
        let waited = tokio::time::timeout(PATIENCE, async {
            loop {
                let messages = self.poll(20_000).await;
                if let Some(found) = messages.into_iter().find(|message| message["type"] == kind) {
                    return found;
                }
            }
        });
        waited.await.expect("it is told")
    }

    async fn ops(&self, ops: &[Value]) -> Vec<Value> {
        let (status, told) = self.server.post(&self.path("/ops"), &json!({ "ops": ops })).await;
        assert_eq!(status, StatusCode::OK, "{told}");
        told["results"].as_array().unwrap().clone()
    }

    async fn op(&self, task: &Value, op: &str, more: Value) -> (StatusCode, Value) {
        self.server.post(&self.path("/op"), &doing(task, op, more)).await
    }

    /// Does something that has to work.
    async fn does(&self, task: &Value, op: &str, more: Value) -> Value {
        let (status, told) = self.op(task, op, more).await;
        assert_eq!(status, StatusCode::OK, "{told}");
        assert_eq!(told["ok"], true);
        told
    }
}

/// An operation on a task.
fn doing(task: &Value, op: &str, more: Value) -> Value {
    let mut whole = json!({ "op": op, "task": task["task"], "fence": task["fence"] });
    let Value::Object(more) = more else { panic!("{more} is no object") };
    whole.as_object_mut().unwrap().extend(more);
    whole
}

/// A site with a workflow of one node for workers, and one of two.
fn desk() -> Site {
    let site = site();
    let order = json!({ "order": { "type": "variable", "variableName": "order" } });
    let variables = json!([{ "name": "order", "type": "string", "defaultValue": "o-1" }]);
    let one = node("one", KIND, json!({ "a": 1 }), order, json!({}));
    site.workflow(&workflow("work", &[one], &[], variables));
    site
}

async fn shown(server: &Server, run: &str) -> Value {
    server.get(&format!("/v1/runs/{run}")).await.1
}

#[tokio::test]
async fn a_worker_registers_does_a_task_and_goes() {
    let site = desk();
    let server = site.start(&["--test-clock"]);
    let registered = register(&server, &registration(1, 2)).await;
    assert_eq!((&registered["leaseMs"], &registered["heartbeatMs"]), (&json!(30_000), &json!(10_000)));
    assert_eq!((&registered["protocol"], &registered["lost"]), (&json!(1), &json!([])));
    let mut hand = Hand { server: &server, session: session(1), after: 0 };
    let run = server.start_run("work", json!({ "order": "o-7" })).await;
    let task = hand.next("task").await;
    assert_eq!((&task["runId"], &task["nodeId"], &task["kind"]), (&json!(run), &json!("one"), &json!(KIND)));
    assert_eq!((&task["inputs"], &task["config"]), (&json!({ "order": "o-7" }), &json!({ "a": 1 })));
    assert_eq!((&task["attempt"], &task["execution"]), (&json!(1), &json!(1)));
    assert_eq!(task["history"], json!({ "items": [], "next": null }));
    assert_eq!(task["run"]["workflowId"], "work");
    assert_eq!(hand.does(&task, "begin", json!({ "key": "charge" })).await["before"], false);
    assert_eq!(hand.does(&task, "begin", json!({ "key": "charge" })).await["before"], true);
    let told = hand.does(&task, "step", json!({ "key": "charge", "value": null })).await;
    assert_eq!((&told["value"], &told["repeated"]), (&Value::Null, &json!(false)));
    let told = hand.does(&task, "step", json!({ "key": "charge", "value": 9 })).await;
    assert_eq!((&told["value"], &told["repeated"]), (&Value::Null, &json!(true)));
    let error = json!({ "code": "no_funds", "message": "none left" });
    let told = hand.does(&task, "step", json!({ "key": "pay", "error": error })).await;
    assert_eq!(told["error"]["code"], "no_funds");
    let told = hand.does(&task, "version", json!({ "key": "change", "version": 2 })).await;
    assert_eq!(told["version"], 2);
    hand.does(&task, "note", json!({ "progress": { "done": 1, "total": 3 }, "lines": [] })).await;
    let decision = json!({ "mode": "autonomous", "should_ask": false, "rationale": "safe", "signals": {} });
    hand.does(&task, "decision", json!({ "payload": decision })).await;
    let worker = &shown(&server, &run).await["nodeStates"]["one"]["worker"];
    assert_eq!((&worker["session"], &worker["labels"]), (&json!(session(1)), &json!({ "host": "h1" })));
    assert_eq!((&worker["steps"], &worker["progress"]), (&json!(2), &json!({ "done": 1.0, "total": 3.0 })));
    hand.does(&task, "complete", json!({ "outputs": { "receipt": "r" } })).await;
    let end = shown(&server, &run).await;
    assert_eq!(
        (&end["status"], &end["nodeStates"]["one"]["outputs"]),
        (&json!("completed"), &json!({ "receipt": "r" }))
    );
    let (status, _) = answer(server.request(Method::DELETE, &hand.path(""))).await.unwrap();
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (status, told) = server.post(&hand.path(":poll"), &json!({})).await;
    assert_eq!((status, &told["error"]), (StatusCode::NOT_FOUND, &json!("worker_unknown")));
    server.stop();
    crate::support::verify(&site.data());
}

#[tokio::test]
async fn an_engagement_decision_is_listed_as_it_was_told() {
    let site = desk();
    let server = site.start(&["--test-clock"]);
    let mut hand = Hand::new(&server, 1, 1).await;
    let run = server.start_run("work", json!({})).await;
    let task = hand.next("task").await;
    let signals = json!({ "confidence": 0.4, "risk": 0.9 });
    let decision =
        json!({ "mode": "require_input", "should_ask": true, "rationale": "risky", "signals": signals });
    hand.does(&task, "decision", json!({ "payload": decision })).await;
    let journal = server.request(Method::GET, &format!("/v1/runs/{run}/journal"));
    let (_, journal) = answer(journal.header("accept", "application/json")).await.unwrap();
    let events = journal["events"].as_array().unwrap();
    let told = events.iter().find(|event| event["type"] == "engagement.decision").expect("it is there");
    assert_eq!(told["payload"], decision);
    let (status, told) =
        hand.op(&task, "decision", json!({ "payload": { "mode": "whim", "should_ask": true } })).await;
    assert_eq!((status, &told["error"]), (StatusCode::BAD_REQUEST, &json!("validation_error")));
}

#[tokio::test]
async fn a_worker_of_another_version_is_told_which_one_is_spoken() {
    let site = desk();
    let server = site.start(&[]);
    for body in [json!({}), json!({ "protocol": 2, "news": true }), json!({ "protocol": "1" })] {
        let (status, told) = server.post("/v1/workers", &body).await;
        assert_eq!((status, &told["error"]), (StatusCode::BAD_REQUEST, &json!("worker_protocol")));
        assert_eq!(told["details"]["supported"], json!(["1"]));
    }
}

#[tokio::test]
async fn a_registration_that_makes_no_sense_is_refused_by_its_field() {
    let site = desk();
    let server = site.start(&[]);
    let kinds = |kinds: Value| ("kinds", kinds);
    let cases = [
        (("session", json!("me")), "session"),
        (("agent", json!("")), "agent"),
        (("capacity", json!(0)), "capacity"),
        (("capacity", json!(1_000_000)), "capacity"),
        ((kinds(json!([{ "kind": "core.noop" }]))), "kinds[0].kind"),
        ((kinds(json!([{ "kind": "a b" }]))), "kinds[0].kind"),
        ((kinds(json!([{ "kind": KIND }, { "kind": KIND }]))), "kinds[1].kind"),
        ((kinds(json!([{ "kind": KIND, "timeoutMs": 0 }]))), "kinds[0].timeoutMs"),
        ((kinds(json!([{ "kind": KIND, "color": 1 }]))), "kinds[0].color"),
        (("labels", json!({ "a": "x".repeat(300) })), "labels"),
        (("hooks", json!(["birthday"])), "hooks[0]"),
        (("holding", json!([{ "task": "zz", "fence": 1 }])), "holding[0].task"),
        (("humanRetryPolicy", json!({ "max_attempts": 0 })), "humanRetryPolicy"),
    ];
    for ((field, value), named) in cases {
        let mut body = registration(1, 1);
        body[field] = value;
        let (status, told) = server.post("/v1/workers", &body).await;
        assert_eq!((status, &told["error"]), (StatusCode::BAD_REQUEST, &json!("validation_error")), "{told}");
        assert_eq!(told["details"]["field"], named, "{told}");
    }
    assert_eq!(server.get("/v1/workers").await.1, json!({ "workers": [] }));
    assert_eq!(server.get("/v1/kinds").await.1["kinds"], json!([]), "a refused request changes nothing");
}

#[tokio::test]
async fn registering_with_a_policy_writes_the_agents_record() {
    let site = desk();
    let server = site.start(&[]);
    let mut body = registration(1, 1);
    body["humanRetryPolicy"] = json!({ "max_attempts": 3, "interval_seconds": 60 });
    register(&server, &body).await;
    let (_, agent) = server.get("/v1/agent-records/ada").await;
    assert_eq!(agent["default_human_retry_policy"]["max_attempts"], 3);
    register(&server, &registration(2, 1)).await;
    let (_, agent) = server.get("/v1/agent-records/ada").await;
    assert_eq!(agent["default_human_retry_policy"]["max_attempts"], 3, "one without a policy says nothing");
}

#[tokio::test]
async fn a_stale_fence_is_refused_and_changes_nothing() {
    let site = desk();
    let server = site.start(&["--test-clock"]);
    let mut one = Hand::new(&server, 1, 1).await;
    let run = server.start_run("work", json!({})).await;
    let task = one.next("task").await;
    one.does(&task, "step", json!({ "key": "a", "value": 1 })).await;
    one.does(&task, "release", json!({})).await;
    let mut other = Hand::new(&server, 2, 1).await;
    // Whoever released it may get it again if it is alone, so it does something else from now on.
    answer(server.request(Method::DELETE, &one.path(""))).await.unwrap();
    let mut elsewhere = registration(1, 1);
    elsewhere["kinds"] = json!([{ "kind": "acme.other" }]);
    register(&server, &elsewhere).await;
    let again = other.next("task").await;
    assert!(again["fence"].as_u64() > task["fence"].as_u64());
    assert_eq!(again["history"]["items"], json!([{ "kind": "step", "key": "a", "value": 1 }]));
    let before = shown(&server, &run).await["sequence"].clone();
    let late = [
        doing(&task, "step", json!({ "key": "b", "value": 1 })),
        doing(&task, "complete", json!({})),
        doing(&again, "complete", json!({})),
    ];
    for op in &late {
        let (status, told) = server.post(&one.path("/op"), op).await;
        assert_eq!((status, &told["error"]), (StatusCode::CONFLICT, &json!("stale_fence")), "{told}");
    }
    let told = one.ops(&late).await;
    assert_eq!((&told[0]["ok"], &told[0]["error"]["code"]), (&json!(false), &json!("stale_fence")));
    assert_eq!(told[0]["error"]["status"], 409);
    assert_eq!(told[1]["error"]["code"], "op_skipped", "{told:?}");
    assert_eq!(shown(&server, &run).await["sequence"], before);
    other.does(&again, "complete", json!({})).await;
}

#[tokio::test]
async fn what_was_not_acknowledged_is_told_again() {
    let site = desk();
    let server = site.start(&["--test-clock"]);
    let mut hand = Hand::new(&server, 1, 2).await;
    server.start_run("work", json!({})).await;
    let first = hand.next("task").await;
    hand.after = 0;
    assert_eq!(hand.next("task").await, first);
    let (status, told) = server.post(&hand.path("/ops"), &json!({ "ops": [], "after": hand.after })).await;
    assert_eq!((status, told), (StatusCode::OK, json!({ "results": [] })));
    hand.after = 0;
    assert_eq!(hand.poll(0).await, Vec::<Value>::new(), "an operation acknowledges too");
    server.start_run("work", json!({})).await;
    server.start_run("work", json!({})).await;
    assert_eq!(hand.poll(0).await.len(), 1, "it has room for one more");
}

#[tokio::test]
async fn a_worker_that_comes_back_says_what_it_has() {
    let site = desk();
    let server = site.start(&["--test-clock"]);
    let mut hand = Hand::new(&server, 1, 2).await;
    let run = server.start_run("work", json!({})).await;
    let task = hand.next("task").await;
    let after = hand.after;
    server.kill();
    let server = site.start(&["--test-clock"]);
    let (status, told) = server.post(&format!("/v1/workers/{}:poll", session(1)), &json!({})).await;
    assert_eq!((status, &told["error"]), (StatusCode::NOT_FOUND, &json!("worker_unknown")));
    let mut body = registration(1, 2);
    let other = task["task"].as_str().unwrap().replace("6f6e65", "74776f");
    body["holding"] = json!([
        { "task": task["task"], "fence": task["fence"] },
        { "task": other, "fence": 1 },
    ]);
    assert_eq!(register(&server, &body).await["lost"], json!([other]));
    let hand = Hand { server: &server, session: session(1), after };
    hand.does(&task, "complete", json!({})).await;
    assert_eq!(shown(&server, &run).await["status"], "completed");
    server.stop();
    crate::support::verify(&site.data());
}

#[tokio::test]
async fn a_known_kind_waits_for_a_worker_and_says_so() {
    let site = desk();
    let server = site.start(&["--test-clock"]);
    let failed = server.start_run("work", json!({})).await;
    assert_eq!(shown(&server, &failed).await["error"]["code"], "capability_not_provided");
    let hand = Hand::new(&server, 1, 1).await;
    answer(server.request(Method::DELETE, &hand.path(""))).await.unwrap();
    let run = server.start_run("work", json!({})).await;
    let waits = shown(&server, &run).await["nodeStates"]["one"]["worker"]["waits"].clone();
    assert_eq!(waits, format!("it waits for a worker; none that provides {KIND} is connected"));
    let (_, why) = server.get(&format!("/v1/runs/{run}/why")).await;
    let reason = &why["reasons"][0];
    assert!(reason["what"].as_str().unwrap().contains("none that provides acme.work is connected"), "{why}");
    server.await_metric("abide_worker_tasks_waiting", 1).await;
    let mut hand = Hand::new(&server, 1, 1).await;
    hand.next("task").await;
    let (_, why) = server.get(&format!("/v1/runs/{run}/why")).await;
    assert!(why["reasons"][0]["what"].as_str().unwrap().contains("worker 'ada' (host=h1) has it"), "{why}");
    server.await_metric("abide_workers", 1).await;
    server.await_metric("abide_worker_tasks_held", 1).await;
    server.await_metric("abide_worker_tasks_waiting", 0).await;
}

#[tokio::test]
async fn a_stream_tells_what_a_poll_tells() {
    let site = desk();
    let server = site.start(&["--test-clock"]);
    let hand = Hand::new(&server, 1, 2).await;
    server.start_run("work", json!({})).await;
    let mut response = server.request(Method::GET, &hand.path("/stream")).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut text = String::new();
    let read = tokio::time::timeout(PATIENCE, async {
        while text.matches("\n\n").count() < 2 {
            let chunk = response.chunk().await.unwrap().expect("it goes on");
            text += std::str::from_utf8(&chunk).unwrap();
            if text.matches("\n\n").count() == 1 && !text.contains("event: drain") {
                let (status, _) = server.post(&hand.path(":drain"), &json!({})).await;
                assert_eq!(status, StatusCode::NO_CONTENT);
            }
        }
    });
    read.await.expect("both come");
    let line = |frame: &str, name: &str| {
        let found = frame.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        found.unwrap_or_default().to_owned()
    };
    let frames: Vec<&str> = text.split("\n\n").collect();
    assert_eq!((line(frames[0], "event"), line(frames[1], "event")), ("task".to_owned(), "drain".to_owned()));
    let task: Value = serde_json::from_str(&line(frames[0], "data")).unwrap();
    assert_eq!((task["type"].as_str(), task["n"].to_string()), (Some("task"), line(frames[0], "id")));
    server.contract.as_ref().unwrap().check_frame(&hand.path("/stream"), "task", &task);
    drop(response);
    let again =
        server.request(Method::GET, &hand.path("/stream")).header("last-event-id", line(frames[0], "id"));
    let mut again = again.send().await.unwrap();
    let chunk = again.chunk().await.unwrap().unwrap();
    assert!(std::str::from_utf8(&chunk).unwrap().contains("event: drain"), "the task is acknowledged");
    let (status, told) =
        answer(server.request(Method::GET, &hand.path("/stream")).header("last-event-id", "x"))
            .await
            .unwrap();
    assert_eq!((status, &told["error"]), (StatusCode::BAD_REQUEST, &json!("validation_error")));
}

#[tokio::test]
async fn a_worker_asks_parks_and_goes_on_with_the_answer() {
    let site = desk();
    let server = site.start(&["--test-clock"]);
    let mut hand = Hand::new(&server, 1, 1).await;
    let run = server.start_run("work", json!({})).await;
    let task = hand.next("task").await;
    let question = json!({ "id": "answer", "question": "Refund?", "responseType": "choice",
        "choices": [{ "value": "yes", "label": "Yes" }, { "value": "no", "label": "No" }] });
    let data = json!({ "questions": [question], "context": { "amount": 5 } });
    let ask = json!({
        "call": 1, "single": true, "payload": { "kind": "clarification", "data": data },
        "ladder": { "channel_hint": "slack", "retry_policy": {
            "max_attempts": 3, "interval_seconds": 3600, "final_fallback_policy": "fail",
            "escalation_ladder": [{ "attempt": 2, "channel_hint": "email", "notify_to": "boss" }],
        } },
    });
    let asked = hand.does(&task, "ask", ask.clone()).await;
    assert_eq!(asked["state"], "open");
    let parked = hand.does(&task, "park", json!({ "waits": [{ "interrupt": asked["interruptId"] }] })).await;
    assert_eq!(parked["parked"], true);
    for (attempt, channel) in [(1, "slack"), (2, "email"), (3, "slack")] {
        let hook = hand.next("hook").await;
        let suspension = &hook["suspension"];
        assert_eq!((&hook["hook"], &hook["agent"]), (&json!("input_requested"), &json!("ada")));
        assert_eq!(suspension["context"]["_attempt"], attempt);
        assert_eq!(suspension["context"]["_max_attempts"], 3);
        assert_eq!(suspension["context"]["amount"], 5);
        assert_eq!(suspension["channel_hint"], channel);
        assert_eq!(
            (&suspension["question"], &suspension["response_type"]),
            (&json!("Refund?"), &json!("choice"))
        );
        let done = hand.ops(&[json!({ "op": "hookDone", "id": hook["id"] })]).await;
        assert_eq!(done, [json!({ "ok": true })]);
        if attempt < 3 {
            server.advance(HOUR_MS).await;
        }
    }
    let body = json!({ "resumeValue": { "answers": { "answer": "yes" } } });
    let (status, resolved) = server.post(&format!("/v1/runs/{run}/interrupts/one"), &body).await;
    assert_eq!(status, StatusCode::OK, "{resolved}");
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(hand.poll(20_000).await);
    }
    let of = |kind: &str| seen.iter().find(|message| message["type"] == kind).unwrap();
    assert_eq!(
        (&of("hook")["hook"], &of("hook")["suspension"]["response"]),
        (&json!("input_received"), &json!("yes"))
    );
    let again = of("task");
    assert_eq!(
        (&again["attempt"], &again["history"]["items"]),
        (&json!(1), &json!([{ "kind": "ask", "call": 1 }]))
    );
    let answered = hand.does(again, "ask", ask).await;
    assert_eq!((&answered["state"], &answered["value"]), (&json!("answered"), &json!("yes")));
    hand.does(again, "complete", json!({})).await;
    assert_eq!(shown(&server, &run).await["status"], "completed");
}

#[tokio::test]
async fn a_sleep_and_a_child_wake_a_worker() {
    let site = desk();
    let server = site.start(&["--test-clock"]);
    let mut hand = Hand::new(&server, 1, 1).await;
    server.start_run("work", json!({})).await;
    let task = hand.next("task").await;
    let asleep = hand.does(&task, "sleep", json!({ "key": "nap", "ms": HOUR_MS })).await;
    assert_eq!(asleep["state"], "sleeping");
    let child = json!({ "key": "kid", "workflowId": "noop", "inputs": {}, "outputs": [] });
    let started = hand.does(&task, "child", child.clone()).await;
    assert_eq!(started["state"], "running");
    hand.next("wake").await;
    let ended = hand.does(&task, "child", child).await;
    assert_eq!(
        (&ended["state"], &ended["runId"], &ended["outputs"]),
        (&json!("completed"), &started["runId"], &json!({}))
    );
    let held = hand.does(&task, "park", json!({ "waits": [{ "child": "kid" }, { "sleep": "nap" }] })).await;
    assert_eq!(held["parked"], false, "one of them has come");
    let held = hand.does(&task, "park", json!({ "waits": [{ "sleep": "nap" }] })).await;
    assert_eq!(held["parked"], true);
    server.advance(HOUR_MS).await;
    let again = hand.next("task").await;
    assert_eq!(
        hand.does(&again, "sleep", json!({ "key": "nap", "ms": 1 })).await,
        json!({ "ok": true, "state": "over" })
    );
    let kinds: Vec<&Value> =
        again["history"]["items"].as_array().unwrap().iter().map(|item| &item["kind"]).collect();
    assert_eq!(kinds, ["sleep", "child"]);
}

#[tokio::test]
async fn a_failure_is_tried_again_as_the_node_says() {
    let site = desk();
    let retried = node(
        "one",
        KIND,
        json!({}),
        json!({}),
        json!({ "abide": { "retry": { "maxRetries": 1, "baseDelayMs": 1000 } } }),
    );
    site.workflow(&workflow("retried", &[retried], &[], json!([])));
    let server = site.start(&["--test-clock"]);
    let mut hand = Hand::new(&server, 1, 1).await;
    let run = server.start_run("retried", json!({})).await;
    let task = hand.next("task").await;
    let error = json!({ "code": "flaky", "message": "it broke" });
    let fail = json!({ "error": error, "class": "tool", "retryable": true, "effect": "none" });
    let told = hand.does(&task, "fail", fail.clone()).await;
    assert!(told["retryAt"].is_string(), "{told}");
    server.advance(60_000).await;
    let again = hand.next("task").await;
    assert_eq!(again["attempt"], 2);
    assert_eq!(hand.does(&again, "fail", fail).await["retryAt"], Value::Null);
    // Retries are spent: the run is interrupted, and has not failed.
    let seen = shown(&server, &run).await;
    let node = &seen["nodeStates"]["one"];
    assert_eq!((&seen["error"], &node["error"]["code"]), (&Value::Null, &json!("flaky")));
    assert_eq!(node["interruption"]["class"], "tool_failure");
}

#[tokio::test]
async fn a_cancelled_run_tells_its_worker_to_stop() {
    let site = desk();
    let server = site.start(&["--test-clock"]);
    let mut hand = Hand::new(&server, 1, 1).await;
    let run = server.start_run("work", json!({})).await;
    let task = hand.next("task").await;
    server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    let told = hand.next("cancel").await;
    assert_eq!(
        (&told["task"], &told["fence"], &told["reason"]),
        (&task["task"], &task["fence"], &json!("run_cancelled"))
    );
    let (status, refused) = hand.op(&task, "sleep", json!({ "key": "nap", "ms": 1 })).await;
    assert_eq!((status, &refused["error"]), (StatusCode::CONFLICT, &json!("run_ending")));
    let error = json!({ "code": "stopped", "message": "as told" });
    hand.does(
        &task,
        "fail",
        json!({ "error": error, "class": "cancelled", "retryable": false, "effect": "none" }),
    )
    .await;
    assert_eq!(shown(&server, &run).await["status"], "cancelled");
}

#[tokio::test]
async fn operations_that_make_no_sense_are_refused_as_a_whole() {
    let site = desk();
    let server = site.start(&["--test-clock"]);
    let mut hand = Hand::new(&server, 1, 1).await;
    let run = server.start_run("work", json!({})).await;
    let task = hand.next("task").await;
    let before = shown(&server, &run).await["sequence"].clone();
    let good = doing(&task, "step", json!({ "key": "a", "value": 1 }));
    let cases = [
        (json!({ "op": "dance" }), "ops[1].op"),
        (json!({ "key": "a" }), "ops[1]"),
        (doing(&task, "step", json!({ "key": "a" })), "ops[1].value"),
        (doing(&task, "step", json!({ "key": "a", "value": 1, "colour": 2 })), "ops[1].colour"),
        (doing(&task, "begin", json!({})), "ops[1]"),
        (json!({ "op": "begin", "task": "zz", "fence": 1, "key": "a" }), "ops[1].task"),
        (
            doing(
                &task,
                "fail",
                json!({ "error": { "code": "Bad Code", "message": "m" }, "class": "tool",
            "retryable": false, "effect": "none" }),
            ),
            "ops[1].error.code",
        ),
        (json!({ "op": "hookDone", "id": "1" }), "ops[1].id"),
    ];
    for (bad, field) in cases {
        let (status, told) = server.post(&hand.path("/ops"), &json!({ "ops": [good, bad] })).await;
        assert_eq!((status, &told["error"]), (StatusCode::BAD_REQUEST, &json!("validation_error")), "{told}");
        assert_eq!(told["details"]["field"], field, "{told}");
    }
    let many = vec![good.clone(); 257];
    let (status, told) = server.post(&hand.path("/ops"), &json!({ "ops": many })).await;
    assert_eq!((status, &told["details"]["field"]), (StatusCode::BAD_REQUEST, &json!("ops")));
    assert_eq!(shown(&server, &run).await["sequence"], before, "nothing was changed");
    let large = "x".repeat(1024 * 1024 + 1);
    let (status, told) = hand.op(&task, "step", json!({ "key": "a", "value": large })).await;
    assert_eq!((status, &told["error"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("value_too_large")));
    let (status, told) = hand.op(&task, "sleep", json!({ "key": "", "ms": 1 })).await;
    assert_eq!((status, &told["error"]), (StatusCode::BAD_REQUEST, &json!("validation_error")));
    let payload = json!({ "kind": "clarification", "data": {} });
    let (status, told) = hand.op(&task, "ask", json!({ "call": 1, "payload": payload })).await;
    assert!(status.is_client_error(), "{told}");
    let told = hand.ops(&[json!({ "op": "hookDone", "id": "00".repeat(39) })]).await;
    assert_eq!(told[0]["error"]["code"], "hook_unknown");
    assert_eq!(shown(&server, &run).await["sequence"], before, "nothing was changed");
}

#[tokio::test]
async fn a_long_history_comes_in_pages() {
    let site = desk();
    let server = site.start(&["--test-clock"]);
    let mut hand = Hand::new(&server, 1, 1).await;
    server.start_run("work", json!({})).await;
    let task = hand.next("task").await;
    let step = |n: usize| doing(&task, "step", json!({ "key": format!("s{n}"), "value": n }));
    for from in [0, 150] {
        let ops: Vec<Value> = (from..from + 150).map(step).collect();
        assert!(hand.ops(&ops).await.iter().all(|told| told["ok"] == true));
    }
    let path = hand.path(&format!("/tasks/{}/history", task["task"].as_str().unwrap()));
    let (mut keys, mut after) = (Vec::new(), Some(0));
    while let Some(from) = after {
        let (status, page) = server.get(&format!("{path}?after={from}")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        keys.extend(page["items"].as_array().unwrap().iter().map(|item| item["key"].clone()));
        after = page["next"].as_u64();
    }
    assert_eq!(keys, (0..300).map(|n| json!(format!("s{n}"))).collect::<Vec<_>>());
    let (status, told) = server.get(&format!("{path}?after=x")).await;
    assert_eq!((status, &told["error"]), (StatusCode::BAD_REQUEST, &json!("validation_error")));
    hand.does(&task, "complete", json!({})).await;
    let (status, told) = server.get(&path).await;
    assert_eq!((status, &told["error"]), (StatusCode::CONFLICT, &json!("stale_fence")));
}

#[tokio::test]
async fn a_worker_is_its_tenants_and_its_keys_scope_counts() {
    let site = desk();
    let (mine, theirs) = (site.new_key("mine"), site.new_key("theirs"));
    let reads = site.key("mine").scopes("runs:read").make();
    let server = site.serve(&mine, &[]);
    let hand = Hand::new(&server, 1, 1).await;
    for (key, status, code) in
        [(&theirs, StatusCode::NOT_FOUND, "worker_unknown"), (&reads, StatusCode::FORBIDDEN, "forbidden")]
    {
        let asked = server.request_as(key, Method::POST, &hand.path(":poll")).json(&json!({}));
        let (got, told) = answer(asked).await.unwrap();
        assert_eq!((got, &told["error"]), (status, &json!(code)));
    }
    let list = answer(server.request_as(&theirs, Method::GET, "/v1/workers")).await.unwrap().1;
    assert_eq!(list, json!({ "workers": [] }));
    let list = answer(server.request_as(&reads, Method::GET, "/v1/workers")).await.unwrap().1;
    assert_eq!(list["workers"][0]["session"], session(1));
    // The same session of another tenant is another worker.
    let asked = server.request_as(&theirs, Method::POST, "/v1/workers").json(&registration(1, 1));
    assert_eq!(answer(asked).await.unwrap().0, StatusCode::OK);
    let kinds =
        answer(server.request_as(&theirs, Method::DELETE, &format!("/v1/kinds/{KIND}"))).await.unwrap();
    assert_eq!(kinds.0, StatusCode::NO_CONTENT);
    assert_eq!(server.get("/v1/kinds").await.1["kinds"][0]["kind"], KIND, "ours is still there");
    let (status, told) = answer(server.request(Method::DELETE, "/v1/kinds/unheard-of")).await.unwrap();
    assert_eq!((status, &told["error"]), (StatusCode::NOT_FOUND, &json!("kind_not_found")));
}

#[tokio::test]
async fn people_see_workers_and_kinds_on_the_command_line() {
    let site = desk();
    let server = site.start(&["--test-clock"]);
    let said = |args: &[&str]| {
        let output = server.cli(args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(&["worker", "list"]).contains("no worker is there"));
    assert!(said(&["kind", "list"]).contains("no worker has ever"));
    let hand = Hand::new(&server, 1, 3).await;
    let list = said(&["worker", "list"]);
    for part in [session(1).as_str(), "ada", KIND, "0/3", "host=h1", "1.0"] {
        assert!(list.contains(part), "{list}");
    }
    let list = said(&["kind", "list"]);
    assert!(list.contains(KIND) && list.contains("ada"), "{list}");
    assert!(said(&["worker", "drain", &session(1)]).contains("gets no more tasks"));
    assert!(said(&["worker", "list"]).contains("draining"));
    assert!(said(&["kind", "forget", KIND]).contains("is forgotten"));
    assert!(said(&["kind", "list"]).contains("no worker has ever"));
    drop(hand);
}
