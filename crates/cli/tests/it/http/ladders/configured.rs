//! What the operator says: where it is read, what stops a start, and what clients see of it.

use super::*;

fn policy() -> Value {
    json!({
        "max_attempts": 3,
        "interval_seconds": 3600,
        "escalation_ladder": [
            { "attempt": 2, "channel_hint": "email", "notify_to": null },
            { "attempt": 3, "channel_hint": "pagerduty", "notify_to": "supervisor@example.com" },
        ],
    })
}

/// The same in the words of our own configuration.
const TOML: &str = r#"
[suspension.default_retry_policy]
max_attempts = 3
interval_seconds = 3600
escalation_ladder = [
  { attempt = 2, channel_hint = "email" },
  { attempt = 3, channel_hint = "pagerduty", notify_to = "supervisor@example.com" },
]
"#;

/// A site with these two files, and the flags that name them.
fn files(toml: &str, yaml: &str) -> (Site, [String; 4]) {
    let site = Site::new();
    let write = |name: &str, text: &str| {
        std::fs::write(site.path(name), text).unwrap();
        site.path(name).to_str().unwrap().to_owned()
    };
    let flags =
        ["--config".into(), write("abide.toml", toml), "--openintent".into(), write("openintent.yaml", yaml)];
    (site, flags)
}

fn start_with(site: &Site, flags: &[String]) -> Result<Server, std::process::ExitStatus> {
    let mut all = vec!["--test-clock"];
    all.extend(flags.iter().map(String::as_str));
    site.try_start(&all)
}

/// What a server says that does not start for these files, with the site's directory as SITE.
fn refused(toml: &str, yaml: &str) -> String {
    let (site, flags) = files(toml, yaml);
    let status = start_with(&site, &flags).err().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(!site.data().exists(), "nothing was made");
    site.said().replace(site.path("").to_str().unwrap(), "SITE/")
}

#[tokio::test]
async fn the_policy_of_an_openintent_file_holds_for_a_question_that_says_nothing() {
    let site = Site::new();
    let server = start_under(&site, &policy());
    let run = ask(&server, json!({})).await;
    let asked = millis(&said(&server, &run, "interrupt.requested", 1).await[0]["timestamp"]);
    server.advance(3_599_999).await;
    server.advance(1).await;
    let first = said(&server, &run, "interrupt.renotified", 1).await;
    assert_eq!(millis(&first[0]["timestamp"]) - asked, 3_600_000, "and not a millisecond early");
    server.advance(3_600_000).await;
    let both = said(&server, &run, "interrupt.renotified", 2).await;
    assert_eq!(millis(&both[1]["timestamp"]) - asked, 7_200_000);
    assert_eq!(both[1]["payload"]["channelHint"], "pagerduty");
    assert_eq!(both[1]["payload"]["nextAttemptAt"], Value::Null);
    server.advance(3_600_000).await;
    assert_eq!(server.events(&run).await.last().unwrap()["type"], "run.failed");
    let expired = said(&server, &run, "interrupt.expired", 1).await;
    assert_eq!(millis(&expired[0]["timestamp"]) - asked, 10_800_000);
}

#[tokio::test]
async fn the_policy_of_the_configuration_file_holds_as_well_and_a_restart_may_change_it() {
    let (site, flags) = files(TOML, "protocol: { version: '0.1' }\n");
    let server = start_with(&site, &flags).unwrap();
    let run = ask(&server, json!({})).await;
    let before = ladder(&server, &run).await;
    assert_eq!(from(&before, &["max_attempts"]), [given(json!(3), "platform")]);
    assert!(server.stop().success());
    std::fs::write(site.path("abide.toml"), "[suspension.default_retry_policy]\nmax_attempts = 7\n").unwrap();
    let server = start_with(&site, &flags).unwrap();
    assert_eq!(ladder(&server, &run).await, before, "what was asked stays as it was asked");
    server.advance(10_800_000).await;
    assert_eq!(server.events(&run).await.last().unwrap()["type"], "run.failed");
    said(&server, &run, "interrupt.renotified", 2).await;
}

#[test]
fn a_server_with_a_policy_that_makes_no_sense_does_not_start_and_names_the_key() {
    let yaml = |policy: &str| format!("suspension:\n  default_retry_policy: {policy}\n");
    for (policy, told) in [
        ("{ max_attempts: 0 }", "max_attempts: a whole number from 1 to 100 is expected"),
        ("{ interval_seconds: -5 }", "interval_seconds: a whole number from 1 to 31536000 is expected"),
        ("{ strategy: exponential }", "strategy: use fixed"),
        (
            "{ final_fallback_policy: shrug }",
            "final_fallback_policy: use fail, complete_with_fallback, use_default_and_continue",
        ),
        ("{ intervall: 5 }", "intervall: there is no 'intervall' here"),
        (
            "{ max_attempts: 3, escalation_ladder: [{ attempt: 4, channel_hint: x }] }",
            "escalation_ladder.0.attempt: there is no attempt 4",
        ),
    ] {
        let said = refused("", &yaml(policy));
        let told = format!("SITE/openintent.yaml: suspension.default_retry_policy.{told}");
        assert!(said.contains(&told), "{said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    }
    let said = refused("[suspension.default_retry_policy]\nmax_attempts = 0\n", "a: 1\n");
    assert!(
        said.contains("SITE/abide.toml: suspension.default_retry_policy.max_attempts: a whole number"),
        "{said}"
    );
}

#[test]
fn two_files_that_say_different_things_stop_the_start_and_both_are_named() {
    let said = refused(TOML, "suspension: { default_retry_policy: { max_attempts: 2 } }\n");
    assert!(said.contains("SITE/abide.toml and SITE/openintent.yaml give different values"), "{said}");
    let (site, flags) =
        files(TOML, &json!({ "suspension": { "default_retry_policy": policy() } }).to_string());
    assert!(start_with(&site, &flags).unwrap().stop().success(), "they say the same");
}

#[tokio::test]
async fn the_configuration_may_name_the_openintent_file_and_the_flag_goes_before_it() {
    let (site, flags) = files("", "suspension: { default_retry_policy: { max_attempts: 4 } }\n");
    let named = format!("openintent = '{}'\n", flags[3]);
    std::fs::write(site.path("abide.toml"), named).unwrap();
    let attempts = async |flags: &[String]| {
        let server = start_with(&site, flags).unwrap();
        let (_, shown) = server.get("/v1/server/config").await;
        assert!(server.stop().success());
        shown["suspension"]["default_retry_policy"]["max_attempts"].clone()
    };
    assert_eq!(attempts(&flags[..2]).await, 4);
    let other = site.path("other.yaml");
    std::fs::write(&other, "suspension: { default_retry_policy: { max_attempts: 6 } }\n").unwrap();
    let mut by_flag = flags.clone();
    by_flag[3] = other.to_str().unwrap().to_owned();
    assert_eq!(attempts(&by_flag).await, 6);
}

#[tokio::test]
async fn clients_see_the_policy_as_it_was_given_or_null() {
    let site = Site::new();
    let reader = site.key("default").scopes("artifacts:read").make();
    let server = start_under(&site, &policy());
    for path in ["/v1/server/config", "/api/v1/server/config"] {
        let (status, shown) = server.ask_as(&reader, Method::GET, path, None).await;
        let expected =
            json!({ "protocol_version": "0.1", "suspension": { "default_retry_policy": policy() } });
        assert_eq!((status, shown), (StatusCode::OK, expected), "nothing is added that was not given");
        let (status, refused) = answer(server.anonymous(Method::GET, path)).await.unwrap();
        assert_eq!((status, &refused["error"]), (StatusCode::UNAUTHORIZED, &json!("unauthenticated")));
    }
    let site = Site::new();
    let server = site.start(&[]);
    for path in ["/v1/server/config", "/api/v1/server/config"] {
        let (_, shown) = server.get(path).await;
        assert_eq!(shown["suspension"], json!({ "default_retry_policy": null }));
    }
}

#[tokio::test]
async fn nobody_changes_the_policy_over_http() {
    let site = Site::new();
    let server = start_under(&site, &policy());
    let before = site.rows();
    for path in ["/v1/server/config", "/api/v1/server/config"] {
        let body = json!({ "suspension": { "default_retry_policy": { "max_attempts": 9 } } });
        for method in [Method::PUT, Method::POST, Method::PATCH, Method::DELETE] {
            let response = server.request(method, path).json(&body).send().await.unwrap();
            assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
            assert_eq!(response.headers()["allow"], "GET,HEAD");
            let refused: Value = response.json().await.unwrap();
            assert_eq!(refused["error"], "method_not_allowed");
        }
        assert_eq!(server.get(path).await.1["suspension"]["default_retry_policy"], policy());
    }
    assert_eq!(site.rows(), before);
}

#[tokio::test]
async fn a_channel_of_the_configuration_tells_people_and_then_every_question_has_a_ladder() {
    let receiver = crate::receiver::Receiver::start().await;
    let channel = format!(
        "[channels.desk]\ntype = 'webhook'\nurl = '{}'\nsecret = 'of-the-desk-alone'\n",
        receiver.url
    );
    let (site, flags) = files(&channel, "");
    let server = start_with(&site, &flags).unwrap();
    let run = ask(&server, json!({})).await;
    let told = receiver.await_posts(1).await.remove(0);
    assert!(told.json().to_string().contains(&run), "{told:?}");
    let shown = ladder(&server, &run).await;
    assert_eq!(
        from(&shown, &["max_attempts", "final_fallback_policy"]),
        [given(json!(1), "default"), given(json!("fail"), "default"),]
    );
    let said = refused(&channel.replace("webhook", "telegraph"), "");
    assert!(said.contains("SITE/abide.toml: [channels.desk] type"), "{said}");
    assert!(!said.contains("of-the-desk-alone"), "{said}");
}
