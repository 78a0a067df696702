//! Tools of models: what they do is done once, whoever dies on the way, and people are asked where that is wanted.

use super::*;
use crate::receiver::Receiver;

/// A workflow whose model may ship an order, which somebody outside counts, and look one up if somebody approves.
fn shipping(receiver: &Receiver) -> Value {
    let request = json!({ "method": "POST", "url": receiver.url, "body": { "order": "{{ inputs.order }}" } });
    let parameters =
        json!({ "type": "object", "properties": { "order": { "type": "string" } }, "required": ["order"] });
    let ship =
        json!({ "name": "ship", "parameters": parameters, "kind": "core.http.request", "config": request });
    let look = json!({ "name": "look", "parameters": parameters, "kind": "core.identity", "approval": true });
    let config = json!({ "prompt": "Ship order 7.", "tools": [ship, look] });
    workflow("ask", &[node("ask", "core.llm.turn", config, json!({}), json!({}))], &[], json!([]))
}

fn calls(tool: &str, id: &str) -> Step {
    Step::tool_calls([call(id, tool, &json!({ "order": id }))])
}

async fn await_status(drill: &Drill, run: &str, status: &str) -> Value {
    let began = Instant::now();
    loop {
        let shown = drill.shown(run).await;
        if shown["status"] == status {
            return shown;
        }
        assert!(began.elapsed() < PATIENCE, "{shown:#}");
        tokio::task::yield_now().await;
    }
}

/// What the model was told by its tools in its last request, and whether that was an error.
fn told_by_tools(drill: &Drill) -> Vec<String> {
    let asked = drill.provider.asked();
    let body = asked.last().unwrap().json();
    let messages = body["messages"].as_array().unwrap().iter();
    messages
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].to_string())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_does_its_work_once_and_the_model_is_told() {
    let receiver = Receiver::start().await;
    let drill = Drill::with(Protocol::OpenAi, "", &[shipping(&receiver)]);
    drill.provider.script([calls("ship", "o1"), Step::answer("Shipped.")]);
    let run = drill.run("ask").await;
    drill.demand_completed(&run, "Shipped.").await;
    let posts = receiver.heard();
    assert_eq!((posts.len(), posts[0].json()), (1, json!({ "order": "o1" })));
    let told = told_by_tools(&drill);
    assert!(told.len() == 1 && told[0].contains("204"), "{told:?}");
    let answered = drill.recorded(&run, "tool.answered").await;
    let said = &answered[0].payload;
    assert!(said["toolCallId"] == "o1" && said["isError"] != true, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_needs_approval_waits_for_a_person_through_kills_and_then_the_turn_goes_on() {
    let receiver = Receiver::start().await;
    let mut drill = Drill::with(Protocol::OpenAi, "", &[shipping(&receiver)]);
    drill.provider.script([calls("look", "o2"), Step::answer("It is there.")]);
    let run = drill.run("ask").await;
    await_status(&drill, &run, "waiting-approval").await;
    drill.kill();
    drill.later(3 * DAY_MS).await;
    let shown = await_status(&drill, &run, "waiting-approval").await;
    assert_eq!(drill.turn(&run).await["status"], "tools", "{shown:#}");
    drill.kill();
    drill.await_asked(1);
    let told = drill.server.cli(&["answer", "--accept"]);
    assert!(told.status.success(), "{told:?}");
    drill.demand_completed(&run, "It is there.").await;
    drill.await_asked(2);
    let told = told_by_tools(&drill);
    assert!(told.len() == 1 && told[0].contains("o2"), "{told:?}");
    verify(&drill.site.data());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_a_person_refuses_is_an_error_that_the_model_is_told() {
    let receiver = Receiver::start().await;
    let drill = Drill::with(Protocol::OpenAi, "", &[shipping(&receiver)]);
    drill.provider.script([calls("look", "o3"), Step::answer("Then not.")]);
    let run = drill.run("ask").await;
    await_status(&drill, &run, "waiting-approval").await;
    let (_, inbox) = drill.server.get("/v1/interrupts").await;
    let told = drill.server.cli(&["answer", "--reject", "--feedback", "too dear"]);
    assert!(told.status.success(), "{told:?} {inbox:#}");
    drill.demand_completed(&run, "Then not.").await;
    let answered = drill.recorded(&run, "tool.answered").await;
    assert_eq!(answered[0].payload["isError"], true, "{answered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_between_two_tools_repeat_neither() {
    let receiver = Receiver::start().await;
    let mut drill = Drill::with(Protocol::OpenAi, "", &[shipping(&receiver)]);
    let (busy, last) = (Step::overloaded(529), Step::answer("Both."));
    drill.provider.script([
        busy.clone(),
        calls("ship", "o1"),
        busy.clone(),
        busy.clone(),
        calls("ship", "o2"),
        busy,
        last,
    ]);
    let run = drill.run("ask").await;
    for (steps, attempt, wait) in [(0, 0, 5), (1, 0, 5), (1, 1, 10), (2, 0, 5)] {
        let waits = |turn: &Value| {
            turn["steps"] == steps
                && turn["wait"]["attempt"] == attempt
                && turn["wait"]["delayMs"] == wait * SECOND_MS
        };
        drill.await_turn(&run, waits).await;
        drill.kill();
        drill.server.advance(wait * SECOND_MS).await;
    }
    drill.demand_completed(&run, "Both.").await;
    assert_eq!((receiver.heard().len(), drill.provider.count()), (2, 7));
    verify(&drill.site.data());
}

/// Starts a server that dies at the n-th passing of a window, unless it lives through everything.
fn doomed(drill: &Drill, window: &str, nth: usize) -> Option<Server> {
    let (config, failpoint) = (drill.site.path("abide.toml"), format!("--failpoint={window}={nth}"));
    let flags =
        ["--test-clock", "--allow-net", "127.0.0.1/32", "--config", config.to_str().unwrap(), &failpoint];
    drill.site.try_start(&flags).ok()
}

/// Starts a run, which whoever dies on the way has perhaps started all the same.
async fn started(server: &Server, id: &str) -> Option<()> {
    let body = json!({ "workflowId": "ask", "inputs": {} });
    let request = server.request(reqwest::Method::POST, "/v1/runs").header("Idempotency-Key", id).json(&body);
    answer(request).await.ok().map(|(status, told)| assert_eq!(status, StatusCode::CREATED, "{told}"))
}

/// Whether a server is still there when all is done that it does by itself.
async fn survives(drill: &mut Drill) -> bool {
    let began = Instant::now();
    loop {
        if drill.server.has_died() {
            return false;
        }
        let request = drill.server.request(reqwest::Method::GET, "/v1/runs?limit=500");
        let Ok((_, page)) = answer(request).await else { continue };
        let runs = page["runs"].as_array().unwrap();
        let ended =
            |run: &Value| ["completed", "failed", "cancelled"].contains(&run["status"].as_str().unwrap());
        if !runs.is_empty() && runs.iter().all(ended) {
            return true;
        }
        assert!(began.elapsed() < PATIENCE, "{page:#}");
        tokio::task::yield_now().await;
    }
}

/// Has the server die at the n-th passing of a window while a tool is used. Gives whether it has.
async fn dies_at(window: &str, nth: usize) -> bool {
    let receiver = Receiver::start().await;
    let mut drill = Drill::with(Protocol::OpenAi, NO_BREAKER, &[shipping(&receiver)]);
    // Whoever is asked the same again says the same again.
    drill.provider.script_for("\"role\":\"tool\"", vec![Step::answer("Shipped."); 3]);
    drill.provider.usually(calls("ship", "o1"));
    drill.server.die();
    let mut has_died = true;
    if let Some(server) = doomed(&drill, window, nth) {
        drill.server = server;
        let _ = started(&drill.server, "only").await;
        has_died = !survives(&mut drill).await;
    }
    drill.server.die();
    drill.server = start(&drill.site);
    started(&drill.server, "only").await.unwrap();
    drill.server.settle().await;
    let (_, page) = drill.server.get("/v1/runs?limit=500").await;
    let runs = page["runs"].as_array().unwrap();
    let run =
        runs.iter().find(|run| run["workflowId"] == "ask").unwrap()["runId"].as_str().unwrap().to_owned();
    if drill.shown(&run).await["status"] == "paused" {
        // Its last words were heard, and then it died.
        drill.demand_escalated(&run, "process_crash").await;
        drill.approve(&run).await;
    }
    drill.demand_completed(&run, "Shipped.").await;
    assert_eq!(receiver.heard().len(), 1, "{window} {nth}: it is shipped once");
    let answered = drill.recorded(&run, "tool.answered").await;
    assert_eq!(answered.len(), 1, "{window} {nth}: the model is told once");
    verify(&drill.site.data());
    has_died
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_between_any_two_events_repeats_no_tool_call() {
    let mut deaths = 0;
    while dies_at("decide-commit", deaths + 1).await {
        deaths += 1;
    }
    assert!(deaths > 5, "it died {deaths} times");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_between_an_effect_and_its_report_repeats_no_tool_call() {
    let mut deaths = 0;
    while dies_at("effect-report", deaths + 1).await {
        deaths += 1;
    }
    assert!(deaths >= 3, "a call, a tool, and a call: it died {deaths} times");
}
