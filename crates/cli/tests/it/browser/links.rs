//! The answer page of whoever holds a signed link, and nothing else.

use reqwest::header::{CONTENT_TYPE, ORIGIN};
use reqwest::{Method, StatusCode};

use super::*;
use crate::support::abide;

const MINUTE_MS: i64 = 60_000;

/// The fields of a form, and what was written into them.
type Filled<'a> = &'a [(&'a str, &'a str)];

/// The path of the page behind the token that a run shows to whoever has this key.
async fn link(server: &Server, key: &str, run: &str) -> String {
    server.settle().await;
    let (_, shown) = server.ask_as(key, Method::GET, &format!("/v1/runs/{run}"), None).await;
    let token = shown["interrupt"]["interruptToken"].as_str().unwrap_or_else(|| panic!("{shown:#}"));
    format!("/answer/{token}")
}

#[tokio::test]
async fn a_link_is_all_that_is_needed_to_see_what_is_asked_and_to_answer() {
    let site = site();
    let ada = site.key("default").principal("ada").make();
    let server = site.start(&["--test-clock"]);
    let person = Person::at(&server);
    let json = ("json", r#"{"order": 17}"#);
    let all = [("q0", "1"), ("q1", "12"), ("q2", "1"), ("q3", "a@b.c"), ("q4", "No"), ("q5", "{}")];
    let cases: [(&str, &str, Filled<'_>); 4] = [
        ("approval", "<h1>Publish the release notes of version 7?</h1>", &[("action", "accept")]),
        ("clarification", "Who gets the invoice?", &all),
        ("event", "The event has to say", &[json]),
        ("custom", "acme.moon-phase", &[json]),
    ];
    for (workflow, asks, form) in cases {
        let (run, _) = asked(&server, workflow).await;
        let path = link(&server, &ada, &run).await;
        let page = person.get(&path).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.html);
        for text in [asks, "You answer as <strong>ada</strong>", "<form class=\"answer\" method=\"post\">"] {
            assert!(page.says(text), "{workflow}: {text}: {}", page.html);
        }
        assert_eq!(page.says("<dt>Due</dt>"), workflow == "approval", "{}", page.html);
        let token = path.strip_prefix("/answer/").unwrap();
        assert!(!page.says(token), "the link stands nowhere on its own page: {}", page.html);
        assert_eq!(person.post(&path, form).await.leads_to(), path);
        assert_eq!(answer_of(&server, &run).await["resolvedBy"], "ada");
        let page = person.get(&path).await;
        assert!(
            page.says("Your answer is recorded.") && page.says("by <strong>ada</strong>"),
            "{}",
            page.html
        );
        assert!(!page.says("<form class=\"answer\""), "{}", page.html);
    }
}

#[tokio::test]
async fn looking_through_a_link_answers_nothing_whoever_looks() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, _) = asked(&server, "approval").await;
    let path = link(&server, &server.key, &run).await;
    let (person, rows) = (Person::at(&server), site.rows());
    for query in ["", "?action=accept", "?q0=0&json=1"] {
        let page = person.get(&format!("{path}{query}")).await;
        assert_eq!(page.status, StatusCode::OK, "{page:?}");
        let request = person.request(Method::HEAD, &format!("{path}{query}"));
        let page = person.send(request.header("sec-purpose", "prefetch")).await;
        assert_eq!((page.status, page.html.as_str()), (StatusCode::OK, ""));
    }
    assert_eq!(site.rows(), rows);
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(shown["status"], "waiting-approval");
}

#[tokio::test]
async fn a_link_to_look_has_no_form_and_hides_what_is_for_those_who_answer() {
    let site = site();
    let reader = site.key("default").scopes("runs:read").principal("reader").make();
    let config = approval(&json!({}))["data"].clone();
    let inputs = json!({ "artifact": { "type": "variable", "variableName": "pw" } });
    let gate = node("ask", "core.approvalGate", config, inputs, json!({}));
    let variables = json!([{ "name": "pw", "type": "string", "sensitive": true, "defaultValue": "hunter2" }]);
    site.workflow(&workflow("secret", &[gate], &[], variables));
    let server = site.start(&["--test-clock"]);
    let person = Person::at(&server);
    for (workflow, is_hidden) in [("approval", false), ("secret", true)] {
        let (run, id) = asked(&server, workflow).await;
        let path = link(&server, &reader, &run).await;
        let page = person.get(&path).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.html);
        assert!(page.says("This link is good to look, not to answer."), "{}", page.html);
        assert!(page.says(&format!("<a href=\"/inbox/{run}/{id}\">Sign in to answer</a>")), "{}", page.html);
        assert_eq!(page.says("Publish the release notes"), !is_hidden, "{}", page.html);
        assert_eq!(page.says("Faster start"), !is_hidden, "{}", page.html);
        assert!(!page.says("<form class=\"answer\"") && !page.says("hunter2"), "{}", page.html);
        let page = person.post(&path, &[("action", "accept")]).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{}", page.html);
        let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
        assert_eq!(shown["status"], "waiting-approval");
    }
}

#[tokio::test]
async fn a_link_whose_time_is_over_says_so_and_what_to_do() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, _) = asked(&server, "custom").await;
    let path = link(&server, &server.key, &run).await;
    server.advance(31 * MINUTE_MS).await;
    let person = Person::at(&server);
    for page in [person.get(&path).await, person.post(&path, &[("json", "1")]).await] {
        assert_eq!(page.status, StatusCode::GONE, "{}", page.html);
        assert!(page.says("This link worked until"), "{}", page.html);
        assert!(
            page.says("Ask for a new one, or sign in") && page.says("href=\"/sign-in\""),
            "{}",
            page.html
        );
        assert!(!page.says("acme.moon-phase") && !page.says(&run), "{}", page.html);
    }
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(shown["status"], "waiting-input");
}

#[tokio::test]
async fn what_is_no_link_of_this_server_gets_one_page_whatever_it_is() {
    let (site, other_site) = (site(), site());
    let (server, other) = (site.start(&["--test-clock"]), other_site.start(&["--test-clock"]));
    let (run, _) = asked(&server, "approval").await;
    let (theirs, _) = asked(&other, "approval").await;
    let genuine = link(&server, &server.key, &run).await;
    let foreign = link(&other, &other.key, &theirs).await;
    let token = genuine.strip_prefix("/answer/").unwrap();
    let (payload, mac) = token.split_once('.').unwrap();
    // The same words for another tenant, under the MAC of this one.
    let moved = retold(payload, r#""kid":"1."#, r#""kid":"2."#);
    let later = retold(payload, r#""intent":"resolve""#, r#""intent":"inspect""#);
    let wrong = [
        foreign.strip_prefix("/answer/").unwrap().to_owned(),
        "x".to_owned(),
        payload.to_owned(),
        format!("{payload}."),
        format!("{payload}.{mac}A"),
        format!("{moved}.{mac}"),
        format!("{later}.{mac}"),
        format!("{}A", &token[..token.len() - 2]),
        "%00".to_owned(),
        "a".repeat(5_000),
    ];
    let person = Person::at(&server);
    let mut told = std::collections::BTreeSet::new();
    for token in &wrong {
        let path = format!("/answer/{token}");
        for page in [person.get(&path).await, person.post(&path, &[("action", "accept")]).await] {
            assert_eq!(page.status, StatusCode::NOT_FOUND, "{token}: {}", page.html);
            told.insert(page.html);
        }
    }
    assert_eq!(told.len(), 1, "nobody learns how far a forged one came: {told:?}");
    let words = told.pop_first().unwrap();
    assert!(words.contains("ask for a new one") && words.contains("sign in"), "{words}");
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(shown["status"], "waiting-approval");
}

/// A token's words with one of them changed.
fn retold(payload: &str, from: &str, to: &str) -> String {
    use base64::Engine as _;
    let engine = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let text = String::from_utf8(engine.decode(payload).unwrap()).unwrap();
    assert!(text.contains(from), "{text}");
    engine.encode(text.replace(from, to))
}

#[tokio::test]
async fn a_link_dies_with_the_secret_that_signed_it() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, _) = asked(&server, "approval").await;
    let path = link(&server, &server.key, &run).await;
    assert!(server.stop().success());
    for args in [&["rotate"][..], &["retire", "1", "--force"]] {
        let output = abide().arg("keyring").args(args).arg("--data").arg(site.data()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let server = site.start(&["--test-clock"]);
    let (old, made_up) = (Person::at(&server).get(&path).await, Person::at(&server).get("/answer/x").await);
    assert_eq!((old.status, old.html), (StatusCode::NOT_FOUND, made_up.html));
}

#[tokio::test]
async fn whoever_is_late_is_told_who_answered_and_when_and_nothing_else() {
    let site = site();
    let keys = ["ada", "bob"].map(|name| site.key("default").principal(name).make());
    let server = site.start(&["--test-clock"]);
    let (run, _) = asked(&server, "approval").await;
    let [ada, bob] = [link(&server, &keys[0], &run).await, link(&server, &keys[1], &run).await];
    let person = Person::at(&server);
    assert!(person.get(&bob).await.says("Accept</button>"));
    let form = [("action", "reject"), ("feedback", "Not on a Friday")];
    assert_eq!(person.post(&ada, &form).await.leads_to(), ada);
    let resolved = answer_of(&server, &run).await;
    let at = resolved["resolvedAt"].as_str().unwrap();
    let at = format!("{} {} UTC", &at[..10], &at[11..16]);
    let said = format!("<strong>Rejected</strong> by <strong>ada</strong>, {at}");
    let late = person.post(&bob, &[("action", "accept")]).await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    assert!(late.says("Your answer was not recorded"), "{}", late.html);
    let later = person.get(&bob).await;
    assert_eq!(later.status, StatusCode::OK);
    server.advance(31 * MINUTE_MS).await;
    let over = person.get(&bob).await;
    assert_eq!(over.status, StatusCode::GONE);
    for page in [late, later, over] {
        assert!(page.says(&said), "{said}: {}", page.html);
        for hidden in ["Friday", "release notes", "Publish", &run, "Accept<", "Workflow"] {
            assert!(!page.says(hidden), "{hidden}: {}", page.html);
        }
    }
    assert_eq!(answer_of(&server, &run).await["resolvedBy"], "ada", "the first answer stands");
    let again = person.post(&ada, &[("action", "accept")]).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    assert!(again.says("answered before in your name"), "{}", again.html);
}

#[tokio::test]
async fn a_link_tells_how_it_ended_without_an_answer() {
    let site = site();
    let fallback = json!({ "abide": { "ladder": { "timeout_seconds": 600, "fallback_policy": "fail" } } });
    let gate = node("ask", "core.approvalGate", json!({ "title": "Which?" }), json!({}), fallback);
    site.workflow(&workflow("ladder", &[gate], &[], json!([])));
    let server = site.start(&["--test-clock"]);
    let person = Person::at(&server);
    let (cancelled, _) = asked(&server, "approval").await;
    let path = link(&server, &server.key, &cancelled).await;
    let (status, body) = server.post(&format!("/v1/runs/{cancelled}/cancel"), &json!({})).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert!(person.get(&path).await.says("<strong>Cancelled</strong>"));
    let (expired, _) = asked(&server, "ladder").await;
    let path = link(&server, &server.key, &expired).await;
    server.advance(601_000).await;
    server.events(&expired).await;
    let page = person.get(&path).await;
    assert!(page.says("<strong>Expired</strong>") && !page.says("Which?"), "{}", page.html);
    assert_eq!(person.post(&path, &[("action", "accept")]).await.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn a_link_is_told_to_nobody() {
    let site = site();
    let server = site.start(&["--test-clock", "--log", "trace", "--log-json"]);
    let (run, _) = asked(&server, "approval").await;
    let path = link(&server, &server.key, &run).await;
    let person = Person::at(&server);
    let pages = [
        person.get(&path).await,
        person.get("/answer/nonsense").await,
        person.post(&path, &[("action", "maybe")]).await,
        person.post(&path, &[("action", "accept")]).await,
        person.get(&path).await,
    ];
    let script = regex::Regex::new("<script|<style|style=|\\son[a-z]+=|javascript:").unwrap();
    for page in &pages {
        let header = |name: &str| page.headers[name].to_str().unwrap().to_owned();
        assert_eq!(page.headers.get_all("referrer-policy").iter().count(), 1);
        assert_eq!(header("referrer-policy"), "no-referrer");
        assert_eq!(header("cache-control"), "no-store");
        assert_eq!(header("x-robots-tag"), "noindex, nofollow");
        assert!(header("content-security-policy").starts_with("default-src 'none'"));
        assert!(!script.is_match(&page.html), "{}", page.html);
    }
    let (_, metrics) = server.get("/metrics").await;
    assert!(metrics.as_str().unwrap().contains("/answer/{token}"), "{metrics}");
    assert!(server.stop().success());
    let mac = path.split_once('.').unwrap().1;
    let said = site.said();
    assert!(said.contains("/answer/{token}"), "{said}");
    assert!(!said.contains(mac) && !metrics.to_string().contains(mac), "it is in the log");
    for entry in std::fs::read_dir(site.data()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        assert!(!bytes.windows(mac.len()).any(|window| window == mac.as_bytes()), "it is on disk");
    }
}

#[tokio::test]
async fn a_form_of_a_link_is_refused_from_elsewhere_and_bounded() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, _) = asked(&server, "approval").await;
    let path = link(&server, &server.key, &run).await;
    let person = Person::at(&server);
    let form = || person.form(&path, &[("action", "accept")]);
    for request in [
        form().header(ORIGIN, "https://evil.example"),
        form().header("sec-fetch-site", "cross-site"),
        form().header("sec-fetch-site", "same-site").header(ORIGIN, "null"),
    ] {
        assert_eq!(person.send(request).await.status, StatusCode::FORBIDDEN);
    }
    let json = person.request(Method::POST, &path).header(CONTENT_TYPE, "application/json").body("{}");
    assert_eq!(person.send(json).await.status, StatusCode::BAD_REQUEST);
    let large = "x".repeat(1024 * 1024);
    let page = person.post(&path, &[("action", "accept"), ("feedback", &large)]).await;
    assert_eq!(page.status, StatusCode::PAYLOAD_TOO_LARGE);
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(shown["status"], "waiting-approval");
    let page = person.send(form().header(ORIGIN, "null")).await;
    assert_eq!(page.leads_to(), path, "browsers tell nobody where this form stands");
}

#[tokio::test]
async fn a_gate_that_wants_a_key_is_only_shown_by_a_link() {
    let site = site();
    site.workflow(&asking("keyed", approval(&json!({ "profile": "openwop-interrupt-auth-required" }))));
    let server = site.start(&["--test-clock"]);
    let (run, _) = asked(&server, "keyed").await;
    let path = link(&server, &server.key, &run).await;
    let person = Person::at(&server);
    let page = person.get(&path).await;
    assert!(page.says("Sign in to answer") && !page.says("<form class=\"answer\""), "{}", page.html);
    assert_eq!(person.post(&path, &[("action", "accept")]).await.status, StatusCode::FORBIDDEN);
}

/// Asks for one of these, with this ladder.
fn choosing(ladder: &Value) -> Value {
    let choices = json!([
        { "value": "go", "label": "Proceed", "description": "The report is sent.", "style": "primary" },
        { "value": "stop", "label": "Stop here", "style": "danger" },
        { "value": "later", "label": "Not now" },
    ]);
    let config =
        json!({ "question": "Go on?", "responseType": "choice", "choices": choices, "context": "Order 17" });
    let settings = json!({ "abide": { "ladder": ladder } });
    workflow("choosing", &[node("ask", "core.hitl.ask-user", config, json!({}), settings)], &[], json!([]))
}

#[tokio::test]
async fn every_kind_of_response_has_its_form() {
    let site = site();
    let ask = |id: &str, config: Value| {
        let gate = node("ask", "core.hitl.ask-user", config, json!({}), json!({}));
        workflow(id, &[gate], &[], json!([]))
    };
    site.workflow(&choosing(&json!({})))
        .workflow(&ask("confirm", json!({ "question": "Sure?", "responseType": "confirm" })))
        .workflow(&ask("text", json!({ "question": "Why?", "responseType": "text" })))
        .workflow(&ask("form", json!({ "question": "What?", "responseType": "form" })));
    let server = site.start(&["--test-clock"]);
    let person = Person::at(&server);
    let area = |more: &str| format!("<textarea id=\"q0\" name=\"q0\" rows=\"{more} required>");
    let cases = [
        (
            "choosing",
            "<button class=\"danger\" name=\"q0\" value=\"1\">Stop here</button>",
            "1",
            json!("stop"),
        ),
        ("choosing", "<button class=\"primary\" name=\"q0\" value=\"0\">Proceed</button>", "0", json!("go")),
        ("choosing", "The report is sent.", "2", json!("later")),
        ("confirm", "value=\"1\">No</button>", "1", json!("no")),
        ("text", &area("3\""), "12", json!("12")),
        ("form", &area("6\""), "{\"a\": [1]}", json!({ "a": [1] })),
        ("form", &area("6\""), "just words", json!("just words")),
    ];
    for (workflow, shows, written, expected) in cases {
        let (run, _) = asked(&server, workflow).await;
        let path = link(&server, &server.key, &run).await;
        let page = person.get(&path).await;
        assert!(page.says(shows), "{workflow}: {}", page.html);
        assert_eq!(page.says("Send the answers"), !["choosing", "confirm"].contains(&workflow));
        assert_eq!(person.post(&path, &[("q0", written)]).await.leads_to(), path);
        let resolved = answer_of(&server, &run).await;
        assert_eq!(resolved["resumeValue"]["answers"], json!({ "answer": expected }), "{resolved}");
    }
    let (run, _) = asked(&server, "text").await;
    let path = link(&server, &server.key, &run).await;
    let page = person.post(&path, &[("q0", "")]).await;
    assert!(page.status.is_client_error() && page.says("class=\"question wrong\""), "{}", page.html);
}

#[tokio::test]
async fn the_page_tells_who_is_told_and_when_and_no_address() {
    let site = site();
    let ladder = json!({ "notify_to": "ada@example.com", "fallback_value": "stop", "retry_policy": {
        "max_attempts": 3, "interval_seconds": 3600, "final_fallback_policy": "complete_with_fallback",
        "escalation_ladder": [{ "attempt": 3, "channel_hint": "pager", "notify_to": "chief@example.com" }],
    } });
    site.workflow(&choosing(&ladder));
    let server = site.start(&["--test-clock"]);
    let person = json!({ "displayName": "Ada Lovelace" });
    server.ask_as(&server.key, Method::PUT, "/v1/people/ada@example.com", Some(&person)).await;
    let (run, id) = asked(&server, "choosing").await;
    server.advance(3_600_000).await;
    let path = link(&server, &server.key, &run).await;
    let signed_in = Person::with_key(&server, &server.key).await;
    let pages = [Person::at(&server).get(&path).await, signed_in.get(&format!("/inbox/{run}/{id}")).await];
    for page in pages {
        for text in [
            "People are told, 1 of 3 to Ada Lovelace",
            "People are told again, 2 of 3 to Ada Lovelace",
            "Reminder 3 of 3 by pager to an address",
            "(in 60 min)",
            "Gives up if nobody has answered",
        ] {
            assert!(page.says(text), "{text}: {}", page.html);
        }
        assert!(!page.says("@example.com"), "{}", page.html);
    }
}

#[tokio::test]
async fn a_page_has_no_form_for_those_whom_the_node_does_not_name() {
    let site = site();
    let settings = json!({ "abide": { "respondents": ["ada"] } });
    let gate = node("ask", "core.hitl.ask-user", json!({ "question": "Why?" }), json!({}), settings);
    site.workflow(&workflow("limited", &[gate], &[], json!([])));
    let keys = ["ada", "bob"].map(|name| site.key("default").principal(name).make());
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "limited").await;
    let bob = Person::with_key(&server, &keys[1]).await;
    let (inbox, by_link) = (format!("/inbox/{run}/{id}"), link(&server, &keys[1], &run).await);
    for path in [&inbox, &by_link] {
        let page = bob.get(path).await;
        assert!(page.says("You are not among those who may answer this."), "{}", page.html);
        assert!(!page.says("<form class=\"answer\""), "{}", page.html);
    }
    assert_eq!(bob.post(&by_link, &[("q0", "x")]).await.status, StatusCode::FORBIDDEN);
    let path = link(&server, &keys[0], &run).await;
    assert_eq!(Person::at(&server).post(&path, &[("q0", "x")]).await.leads_to(), path);
    assert_eq!(answer_of(&server, &run).await["resolvedBy"], "ada");
}

/// Waits until so many messages are known to be sent.
async fn await_sent(server: &Server, count: usize) {
    let began = std::time::Instant::now();
    loop {
        let (_, page) = server.get("/v1/notices").await;
        let notices = page["notices"].as_array().unwrap();
        if notices.iter().filter(|notice| notice["state"] == "sent").count() == count {
            return;
        }
        assert!(began.elapsed() < crate::support::PATIENCE, "{page}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_link_of_the_first_message_still_answers_after_the_last() {
    let receiver = crate::receiver::Receiver::start().await;
    let site = site();
    let ladder = json!({ "notify_to": "ada", "fallback_value": "stop", "retry_policy": {
        "max_attempts": 3, "interval_seconds": 3600, "final_fallback_policy": "complete_with_fallback" } });
    site.workflow(&choosing(&ladder));
    let channel = format!("[channels.hook]\ntype = 'webhook'\nurl = '{}'\ninternal = true\n", receiver.url);
    let secret = format!("secret = '{}'\n", "s".repeat(32));
    std::fs::write(site.path("abide.toml"), channel + &secret).unwrap();
    let server = site.start(&["--test-clock", "--config", site.path("abide.toml").to_str().unwrap()]);
    server.ask_as(&server.key, Method::PUT, "/v1/people/ada", Some(&json!({}))).await;
    let (run, id) = asked(&server, "choosing").await;
    for told in 1..=3 {
        await_sent(&server, told).await;
        if told < 3 {
            server.advance(3_600_000).await;
        }
    }
    let posts = receiver.await_posts(3).await;
    let url = posts[0].json()["link"].as_str().unwrap().to_owned();
    let path = url.strip_prefix(&server.url).unwrap().to_owned();
    let person = Person::at(&server);
    let page = person.get(&path).await;
    assert!(page.says("You answer as <strong>channel:hook</strong>"), "{}", page.html);
    assert_eq!(page.html.matches("Message by hook to ada: sent").count(), 3, "{}", page.html);
    assert_eq!(person.post(&path, &[("q0", "0")]).await.leads_to(), path);
    assert_eq!(answer_of(&server, &run).await["resolvedBy"], "channel:hook");
    let (_, ladder) = server.get(&format!("/v1/runs/{run}/interrupts/{id}/ladder")).await;
    let sent: Vec<&Value> = ladder["timeline"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|moment| moment["what"] == "message" && moment["state"] == "sent")
        .collect();
    assert_eq!(sent.len(), 3, "{ladder:#}");
    assert!(sent.iter().all(|moment| moment["channel"] == "hook"), "{sent:?}");
}
