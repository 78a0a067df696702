//! Turns over HTTP: how they stand, trying again at once, giving up, and how providers do.

use abide_model::Protocol;
use abide_model::scripted::{ScriptedProvider, Step};

use super::*;

/// What a provider says that has too much to do.
const BUSY: &str = r#"{"error":{"type":"overloaded_error","message":"slow down, please"}}"#;

/// A site whose server knows the provider `main`, and a workflow `ask` whose node `turn` asks it.
pub(crate) fn site_with(provider: &ScriptedProvider) -> Site {
    let site = Site::new();
    let url = provider.base_url(Protocol::OpenAi);
    let config = format!(
        "[providers.main]\nkind = \"openai\"\nbase-url = \"{url}\"\nmodel = \"small\"\n\
         [providers.main.prices.\"small\"]\ninput = 2.0\noutput = 4.0\n"
    );
    std::fs::write(site.path("abide.toml"), config).unwrap();
    let turn = node("turn", "core.llm.chat", json!({ "prompt": "Say something." }), json!({}), json!({}));
    let mut ask = workflow("ask", &[turn], &[], json!([]));
    // Nobody watches these runs: what is interrupted fails.
    ask["settings"]["abide"] = json!({ "resume": { "maxAttempts": 0, "onRefusal": "fail" } });
    site.workflow(&ask).workflow(&chain("noop", "core.noop", 1, &json!({})));
    site
}

/// Starts a server on such a site, with a clock that stands.
pub(crate) fn start(site: &Site) -> Server {
    let config = site.path("abide.toml");
    site.start(&["--test-clock", "--config", config.to_str().unwrap()])
}

/// A provider that can't answer, and a server with a run whose turn waits for it.
async fn waiting() -> (ScriptedProvider, Site, Server, String) {
    let provider = ScriptedProvider::start();
    provider.usually(Step::status(429, BUSY));
    let site = site_with(&provider);
    let server = start(&site);
    let run = server.start_run("ask", json!({})).await;
    await_wait(&server, &run).await;
    (provider, site, server, run)
}

/// Waits until the turn of a run waits for its provider, and gives it.
pub(crate) async fn await_wait(server: &Server, run: &str) -> Value {
    let began = std::time::Instant::now();
    loop {
        let (status, turns) = server.get(&format!("/v1/runs/{run}/turns")).await;
        assert_eq!(status, StatusCode::OK, "{turns}");
        if turns["turns"][0]["wait"].is_object() {
            return turns["turns"][0].clone();
        }
        assert!(began.elapsed() < PATIENCE, "{turns}");
        tokio::task::yield_now().await;
    }
}

async fn act(server: &Server, run: &str, verb: &str, body: &Value) -> (StatusCode, Value) {
    server.post(&format!("/v1/runs/{run}/turns/turn:{verb}"), body).await
}

#[tokio::test]
async fn a_run_without_turns_has_none_to_list_or_to_retry() {
    let provider = ScriptedProvider::start();
    let site = site_with(&provider);
    let server = start(&site);
    let run = server.start_run("noop", json!({})).await;
    server.events(&run).await;
    let (status, turns) = server.get(&format!("/v1/runs/{run}/turns")).await;
    assert_eq!(status, StatusCode::OK);
    let none = json!({ "inputTokens": 0, "outputTokens": 0, "cachedTokens": 0, "reasoningTokens": 0 });
    assert_eq!(turns, json!({ "runId": run, "conversationId": run, "usage": none, "turns": [] }));
    for verb in ["retry", "give-up"] {
        let details = refusal(act(&server, &run, verb, &json!({})).await, "turn_not_waiting");
        assert_eq!(details["waiting"], json!([]));
    }
    assert_eq!(provider.count(), 0, "nobody was asked");
}

#[tokio::test]
async fn a_turn_that_waits_for_its_provider_says_until_when_which_retry_and_why() {
    let (_provider, _site, server, run) = waiting().await;
    let turn = await_wait(&server, &run).await;
    assert_eq!((&turn["nodeId"], &turn["status"]), (&json!("turn"), &json!("waiting")));
    assert_eq!((&turn["provider"], &turn["retries"]), (&json!("main"), &json!(1)));
    assert_eq!(turn["conversationId"], run.as_str());
    assert_eq!(turn["turnId"], format!("{run}:turn:1"));
    let wait = &turn["wait"];
    assert_eq!(
        (&wait["kind"], &wait["attempt"], &wait["delayMs"]),
        (&json!("retry"), &json!(0), &json!(5000))
    );
    assert_eq!((&wait["message"], &wait["code"]), (&json!(format!("HTTP 429: {BUSY}")), &json!("429")));
    assert_eq!(millis(&wait["until"]) - millis(&wait["since"]), 5000);
    let state = &shown(&server, &run).await["nodeStates"]["turn"];
    assert_eq!(state["providerWait"]["provider"], "main");
    assert_eq!(state["providerWait"]["until"], wait["until"]);
    let (_, why) = server.get(&format!("/v1/runs/{run}/why")).await;
    let reason = &why["reasons"][0];
    assert_eq!((&reason["kind"], &reason["until"]), (&json!("provider"), &wait["until"]), "{why}");
    assert!(reason["what"].as_str().unwrap().ends_with(BUSY), "{why}");
    assert!(why["summary"].as_str().unwrap().contains("a model's provider"), "{why}");
}

#[tokio::test]
async fn a_waiting_turn_is_retried_at_once_when_an_operator_says_so() {
    let (provider, _site, server, run) = waiting().await;
    provider.recover();
    let (status, turn) = act(&server, &run, "retry", &json!({})).await;
    assert_eq!((status, &turn["status"]), (StatusCode::ACCEPTED, &json!("calling")), "{turn}");
    server.events(&run).await;
    assert_eq!(shown(&server, &run).await["status"], "completed");
    let (_, turns) = server.get(&format!("/v1/runs/{run}/turns")).await;
    assert_eq!(
        (&turns["turns"][0]["status"], &turns["turns"][0]["retries"]),
        (&json!("completed"), &json!(1))
    );
    assert_eq!(provider.count(), 2, "once before the wait, once after it");
    refusal(act(&server, &run, "retry", &json!({})).await, "turn_not_waiting");
}

#[tokio::test]
async fn a_waiting_turn_that_is_given_up_fails_with_what_the_provider_said_last() {
    let (provider, _site, server, run) = waiting().await;
    let (status, turn) = act(&server, &run, "give-up", &json!({ "reason": "it is too late anyway" })).await;
    assert_eq!((status, &turn["status"]), (StatusCode::ACCEPTED, &json!("failed")), "{turn}");
    assert_eq!(turn["error"]["code"], "provider_given_up");
    assert_eq!(turn["error"]["message"], format!("HTTP 429: {BUSY}"));
    server.events(&run).await;
    let snapshot = shown(&server, &run).await;
    assert_eq!(
        (&snapshot["status"], &snapshot["error"]["code"]),
        (&json!("failed"), &json!("provider_given_up"))
    );
    assert_eq!(provider.count(), 1);
    refusal(act(&server, &run, "give-up", &json!({})).await, "turn_not_waiting");
    let long = json!({ "reason": "x".repeat(abide_core::limits::REASON_CHARS_MAX + 1) });
    let other = server.start_run("ask", json!({})).await;
    await_wait(&server, &other).await;
    refusal(act(&server, &other, "give-up", &long).await, "validation_error");
    assert_eq!(await_wait(&server, &other).await["status"], "waiting", "a refused request changes nothing");
}

#[tokio::test]
async fn a_retry_that_is_sent_twice_is_carried_out_once() {
    let (provider, _site, server, run) = waiting().await;
    let path = format!("/v1/runs/{run}/turns/turn:retry");
    let send = || server.request(Method::POST, &path).header("Idempotency-Key", "again").json(&json!({}));
    let (status, first) = answer(send()).await.unwrap();
    assert_eq!(status, StatusCode::ACCEPTED, "{first}");
    provider.wait_for(2, PATIENCE);
    assert_eq!(answer(send()).await.unwrap(), (status, first));
    await_wait(&server, &run).await;
    assert_eq!(provider.count(), 2);
}

#[tokio::test]
async fn turns_are_for_those_who_may_read_or_resume_runs_of_their_own_tenant() {
    let provider = ScriptedProvider::start();
    provider.usually(Step::status(429, BUSY));
    let site = site_with(&provider);
    let stranger = site.new_key("other");
    let reader = site.key("default").scopes("runs:read").make();
    let resumer = site.key("default").scopes("runs:resume").make();
    let server = start(&site);
    let run = server.start_run("ask", json!({})).await;
    await_wait(&server, &run).await;
    let (list, retry) = (format!("/v1/runs/{run}/turns"), format!("/v1/runs/{run}/turns/turn:retry"));
    let ask = async |key: &str, method: Method, path: &str| {
        answer(server.request_as(key, method, path)).await.unwrap()
    };
    refusal(ask(&stranger, Method::GET, &list).await, "run_not_found");
    refusal(ask(&stranger, Method::POST, &retry).await, "run_not_found");
    let lacking = refusal(ask(&reader, Method::POST, &retry).await, "forbidden");
    assert_eq!(lacking["scopeRequired"], "runs:resume");
    let lacking = refusal(ask(&resumer, Method::GET, &list).await, "forbidden");
    assert_eq!(lacking["scopeRequired"], "runs:read");
    assert_eq!(ask(&reader, Method::GET, &list).await.0, StatusCode::OK);
    let elsewhere = format!("/v1/runs/{run}/turns/elsewhere:retry");
    let details = refusal(ask(&resumer, Method::POST, &elsewhere).await, "turn_not_waiting");
    assert_eq!(details["waiting"], json!(["turn"]));
    assert_eq!(ask(&resumer, Method::POST, &retry).await.0, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn what_a_turn_used_and_cost_is_told_for_it_and_for_its_run() {
    let provider = ScriptedProvider::start();
    let site = site_with(&provider);
    let server = start(&site);
    let run = server.start_run("ask", json!({})).await;
    let events = server.events(&run).await;
    let (_, turns) = server.get(&format!("/v1/runs/{run}/turns")).await;
    let turn = &turns["turns"][0];
    let (input, output) =
        (turn["usage"]["inputTokens"].as_u64().unwrap(), turn["usage"]["outputTokens"].as_u64().unwrap());
    assert!(input > 0 && output > 0, "{turns}");
    assert_eq!(turn["costMicros"], 2 * input + 4 * output);
    assert_eq!(turn["model"], "small");
    assert_eq!((&turns["usage"], &turns["costMicros"]), (&turn["usage"], &turn["costMicros"]));
    let used = events.iter().find(|event| event["type"] == "provider.usage").unwrap();
    assert_eq!(
        (&used["payload"]["inputTokens"], &used["payload"]["costMicros"]),
        (&json!(input), &turn["costMicros"])
    );
}

#[tokio::test]
async fn providers_are_listed_with_how_they_do_and_without_what_they_are_told() {
    let (_provider, site, server, _run) = waiting().await;
    let text = text_of(&server, "/v1/providers").await;
    let list: Value = serde_json::from_str(&text).unwrap();
    let main = &list["providers"][0];
    assert_eq!(
        (&main["name"], &main["kind"], &main["model"]),
        (&json!("main"), &json!("openai"), &json!("small"))
    );
    assert_eq!((&main["breaker"]["state"], &main["breaker"]["calls"]), (&json!("closed"), &json!(1)));
    assert_eq!(main["breaker"]["failures"], 1);
    assert_eq!(main["waiting"], json!({ "retry": 1, "postponed": 0 }));
    assert!(!text.contains("127.0.0.1") && !text.contains("http"), "{text}");
    let stranger = {
        server.stop();
        site.new_key("other")
    };
    let server = start(&site);
    let (_, theirs) = answer(server.request_as(&stranger, Method::GET, "/v1/providers")).await.unwrap();
    assert_eq!(
        theirs["providers"][0]["waiting"],
        json!({ "retry": 0, "postponed": 0 }),
        "others' are not told"
    );
}

#[tokio::test]
async fn metrics_count_calls_of_models_retries_and_turns_that_wait() {
    let (provider, _site, server, run) = waiting().await;
    let metrics = text_of(&server, "/metrics").await;
    for line in [
        r#"abide_turns_waiting{provider="main",kind="retry"} 1"#,
        r#"abide_turns_waiting{provider="main",kind="breaker"} 0"#,
        r#"abide_provider_breakers{provider="main",state="closed"} 1"#,
        r#"abide_provider_breakers{provider="main",state="open"} 0"#,
        r#"abide_provider_calls_total{outcome="failed"} 1"#,
        r#"abide_provider_calls_total{outcome="answered"} 0"#,
        "abide_provider_retries_total 1",
    ] {
        assert!(metrics.contains(&format!("\n{line}")), "{line} in {metrics}");
    }
    provider.recover();
    act(&server, &run, "retry", &json!({})).await;
    server.events(&run).await;
    let metrics = text_of(&server, "/metrics").await;
    for line in [
        r#"abide_turns_waiting{provider="main",kind="retry"} 0"#,
        r#"abide_provider_calls_total{outcome="answered"} 1"#,
    ] {
        assert!(metrics.contains(&format!("\n{line}")), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn a_provider_that_is_known_to_be_away_is_listed_and_counted_so() {
    let (provider, _site, server, _run) = waiting().await;
    for _ in 1..10 {
        let run = server.start_run("ask", json!({})).await;
        await_wait(&server, &run).await;
    }
    let late = server.start_run("ask", json!({})).await;
    let turn = await_wait(&server, &late).await;
    assert_eq!((&turn["wait"]["kind"], &turn["wait"]["attempt"]), (&json!("breaker"), &json!(0)), "{turn}");
    assert_eq!(provider.count(), 10, "it was not asked for the last one");
    let (_, list) = server.get("/v1/providers").await;
    let (breaker, waiting) = (&list["providers"][0]["breaker"], &list["providers"][0]["waiting"]);
    assert_eq!((&breaker["state"], &breaker["cooldownMs"]), (&json!("open"), &json!(30_000)), "{list}");
    assert_eq!(millis(&breaker["openUntil"]) - millis(&breaker["openedAt"]), 30_000);
    assert_eq!(waiting, &json!({ "retry": 10, "postponed": 1 }));
    let metrics = text_of(&server, "/metrics").await;
    for line in [
        r#"abide_provider_breakers{provider="main",state="open"} 1"#,
        r#"abide_turns_waiting{provider="main",kind="breaker"} 1"#,
        "abide_provider_postponements_total 1",
    ] {
        assert!(metrics.contains(&format!("\n{line}")), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn the_bundle_of_a_run_says_how_its_turns_stand() {
    let (_provider, _site, server, run) = waiting().await;
    let (status, bundle) = server.get(&format!("/v1/runs/{run}/debug-bundle")).await;
    assert_eq!(status, StatusCode::OK, "{bundle}");
    assert_eq!(bundle["turns"]["turns"][0]["wait"]["code"], "429");
    assert!(bundle["timers"][0]["timer"].as_str().unwrap().starts_with("provider/"), "{bundle}");
}
