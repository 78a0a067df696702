//! What a provider is sent: the same bytes whether or not there were retries before, and nothing about them.

use super::*;

/// A workflow whose model may look something up.
fn curious() -> Value {
    let parameters =
        json!({ "type": "object", "properties": { "id": { "type": "string" } }, "required": ["id"] });
    let tool = json!({ "name": "look_up", "description": "Looks an order up.", "parameters": parameters, "kind": "core.identity" });
    let config = json!({ "system": "Be brief.", "prompt": "Where is order 7?", "tools": [tool], "maxTokens": 500, "temperature": 0.5 });
    workflow("ask", &[node("ask", "core.llm.turn", config, json!({}), json!({}))], &[], json!([]))
}

fn looks_up() -> Step {
    Step::Say(Speech {
        text: vec!["I look it up.".to_owned()],
        ..Speech::calls([call("call_1", "look_up", &json!({ "id": "7" }))])
    })
}

/// The bodies of the requests of one run.
async fn bodies(drill: &Drill, steps: Vec<Step>) -> Vec<Vec<u8>> {
    drill.provider.forget();
    let count = steps.len();
    drill.provider.script(steps);
    let run = drill.run("ask").await;
    let mut retry = 0;
    loop {
        let turn =
            drill.await_turn(&run, |turn| turn["wait"].is_object() || turn["status"] == "completed").await;
        if turn["status"] == "completed" {
            break;
        }
        let before = drill.provider.count();
        drill.server.advance(turn["wait"]["delayMs"].as_i64().unwrap()).await;
        drill.await_asked(before + 1);
        // Until that call has ended, the turn still calls.
        drill.await_turn(&run, |turn| turn["status"] != "calling").await;
        retry += 1;
    }
    drill.demand_completed(&run, "On its way.").await;
    assert_eq!(drill.recorded(&run, "provider-retry").await.len(), retry);
    let bodies: Vec<Vec<u8>> = drill.provider.asked().iter().map(|asked| asked.body.to_vec()).collect();
    assert_eq!(bodies.len(), count);
    bodies
}

async fn check_bodies(protocol: Protocol) {
    let drill = Drill::with(protocol, NO_BREAKER, &[curious()]);
    let plain = bodies(&drill, vec![looks_up(), Step::answer("On its way.")]).await;
    let marked = |status| Step::status(status, "MARK: come back later");
    let nonsense = Step::stream(["data: MARK is no JSON\n\n"]);
    let troubled = vec![
        marked(429),
        Step::Reset,
        looks_up(),
        nonsense,
        marked(529),
        Step::Close,
        Step::answer("On its way."),
    ];
    let retried = bodies(&drill, troubled).await;
    for (at, body) in retried.iter().enumerate() {
        let step = usize::from(at > 2);
        let (told, wanted) = (String::from_utf8_lossy(body), String::from_utf8_lossy(&plain[step]));
        assert_eq!(told, wanted, "request {at} is that of step {step}");
        for trace in ["MARK", "retry", "attempt", "provider", "HTTP", "run-"] {
            assert!(!told.contains(trace), "{trace} in {told}");
        }
    }
    assert!(String::from_utf8_lossy(&plain[1]).contains("I look it up."), "the history is sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_anthropic_is_sent_is_the_same_with_and_without_retries() {
    check_bodies(Protocol::Anthropic).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_openai_is_sent_is_the_same_with_and_without_retries() {
    check_bodies(Protocol::OpenAi).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_after_a_kill_is_the_same_too() {
    let mut drill = Drill::with(Protocol::Anthropic, "", &[curious()]);
    drill.provider.script([
        Step::overloaded(529),
        looks_up(),
        Step::overloaded(502),
        Step::answer("On its way."),
    ]);
    let run = drill.run("ask").await;
    drill.await_retry(&run, 0).await;
    drill.kill();
    drill.server.advance(5 * SECOND_MS).await;
    drill.await_turn(&run, |turn| turn["steps"] == 1 && turn["wait"].is_object()).await;
    drill.kill();
    let wait = drill.await_retry(&run, 0).await;
    assert_eq!(wait["delayMs"], 5_000, "the second step counts from the beginning");
    drill.server.advance(5 * SECOND_MS).await;
    drill.demand_completed(&run, "On its way.").await;
    let asked = drill.provider.asked();
    assert_eq!(asked.len(), 4);
    assert_eq!((&asked[0].body, &asked[2].body), (&asked[1].body, &asked[3].body));
    let messages = asked[3].json()["messages"].clone();
    assert_eq!(
        messages.as_array().unwrap().len(),
        3,
        "the prompt, the call, and what the tool said: {messages}"
    );
}
