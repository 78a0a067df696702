//! What turns use and cost, for each and for their run.

use abide_core::Usage;

use super::*;

const PRICES: &str = "[providers.main.prices.\"small\"]\ninput = 3.0\noutput = 15.0\ncached = 0.3\n";

fn uses(speech: Speech, input: u64, output: u64, cached: u64) -> Step {
    let usage =
        Usage { input_tokens: input, output_tokens: output, cached_tokens: cached, ..Usage::default() };
    Step::Say(Speech { usage: Some(usage), ..speech })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_every_step_used_and_cost_is_added_up_and_retries_cost_nothing() {
    for protocol in [Protocol::Anthropic, Protocol::OpenAi] {
        let tool = json!({ "name": "look_up", "kind": "core.identity" });
        let config = json!({ "prompt": "Where is it?", "tools": [tool] });
        let ask = node("ask", "core.llm.turn", config, json!({}), json!({}));
        let more = node("more", "core.llm.chat", json!({ "prompt": "Thanks." }), json!({}), json!({}));
        let flow = workflow("ask", &[ask, more], &[("ask", "more")], json!([]));
        let mut drill = Drill::with(protocol, PRICES, &[flow]);
        drill.provider.script([
            Step::overloaded(429),
            uses(Speech::calls([call("c1", "look_up", &json!({}))]), 1_000, 20, 400),
            uses(Speech::text("There."), 1_200, 10, 0),
            uses(Speech::text("Welcome."), 50, 5, 0),
        ]);
        let run = drill.run("ask").await;
        drill.await_retry(&run, 0).await;
        drill.server.advance(5 * SECOND_MS).await;
        drill.end(&run).await;
        drill.kill();
        let (_, told) = drill.server.get(&format!("/v1/runs/{run}/turns")).await;
        let of = |value: &Value| {
            let usage = &value["usage"];
            let numbers =
                [&usage["inputTokens"], &usage["outputTokens"], &usage["cachedTokens"], &value["costMicros"]];
            numbers.map(|number| number.as_u64().unwrap())
        };
        // 600 at 3, 400 at 0.3, 20 at 15; then 1200 at 3 and 10 at 15.
        let first = [2_200, 30, 400, 1_800 + 120 + 300 + 3_600 + 150];
        let second = [50, 5, 0, 150 + 75];
        assert_eq!((of(&told["turns"][0]), of(&told["turns"][1])), (first, second), "{told:#}");
        let whole: Vec<u64> = first.iter().zip(second).map(|(first, second)| first + second).collect();
        assert_eq!(of(&told).to_vec(), whole, "{told:#}");
        let turn = &told["turns"][0];
        assert_eq!(
            (&turn["steps"], &turn["retries"], &turn["status"]),
            (&json!(2), &json!(1), &json!("completed"))
        );
        assert_eq!(drill.recorded(&run, "provider.usage").await.len(), 3, "once for each answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_price_there_is_no_cost() {
    let drill = Drill::begin();
    let run = drill.run("ask").await;
    drill.demand_completed(&run, "ok").await;
    let (_, told) = drill.server.get(&format!("/v1/runs/{run}/turns")).await;
    assert_eq!((&told["usage"]["inputTokens"], &told["costMicros"]), (&json!(10), &Value::Null), "{told}");
}
