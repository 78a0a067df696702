//! The policy: what the definition says, over what the server says.

use super::other::Mood;
use super::*;

/// A workflow whose request fails, with a policy of its own.
fn with_policy(id: &str, other: &Other, policy: &Value) -> Value {
    let mut definition = single(id, &other.request("GET", id, json!({})));
    definition["settings"] = json!({ "abide": { "resume": policy } });
    definition
}

#[tokio::test(flavor = "multi_thread")]
async fn the_definition_goes_before_the_server_and_the_server_before_the_default() {
    let (site, other) = (Site::new(), Other::open().await);
    std::fs::write(
        site.path("abide.toml"),
        "[resume]\nmax_attempts = 1\n[resume.cooldown_seconds]\ntool_failure = 7\n",
    )
    .unwrap();
    site.workflow(&single("plain", &other.request("GET", "plain", json!({}))));
    site.workflow(&with_policy("own", &other, &json!({ "maxAttempts": 2 })));
    site.workflow(&with_policy("alone", &other, &json!({ "onRefusal": "fail" })));
    site.workflow(&with_policy("off", &other, &json!({ "auto": false })));
    let config = site.path("abide.toml");
    let flags = [&FLAGS[..], &["--config", config.to_str().unwrap()]].concat();
    let server = site.start(&flags);
    let drill = Drill { site, server, other };
    drill.other.is(Mood::Answers(503));

    let run = drill.run("plain").await;
    assert_eq!(drill.other.effects("plain"), 2, "one attempt");
    demand_escalated(&drill.view(&run).await, "resume_attempt_limit_reached", "tool_failure");

    let run = drill.run("own").await;
    let decision = drill.view(&run).await["decision"].clone();
    let told = (&decision["cooldown_seconds_remaining"], &decision["attempt"], &decision["max_attempts"]);
    assert_eq!(told, (&json!(7), &json!(2), &json!(2)), "{decision:#}");
    drill.later(7 * SECOND_MS).await;
    demand_escalated(&drill.view(&run).await, "resume_attempt_limit_reached", "tool_failure");
    assert_eq!(drill.other.effects("own"), 3);

    let run = drill.run("alone").await;
    let shown = drill.shown(&run).await;
    assert_eq!((&shown["status"], drill.other.effects("alone")), (&json!("failed"), 2), "{shown:#}");
    assert_eq!(drill.server.get("/v1/interrupts").await.1["counts"]["total"], 2, "nobody is asked");

    let run = drill.run("off").await;
    let view = drill.view(&run).await;
    demand_escalated(&view, "resume_allowed", "tool_failure");
    assert_eq!((&view["autoResume"], drill.other.effects("off")), (&json!(false), 1), "{view:#}");
}
