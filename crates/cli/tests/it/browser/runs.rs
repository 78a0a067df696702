//! The page of a run, by plain requests: who sees it, what it says, and what its script hears.

use reqwest::{Method, StatusCode};

use super::*;
use crate::support::PATIENCE;

/// What the script of a page hears: the events of a stream, one after the other.
struct Heard {
    response: reqwest::Response,
    rest: String,
}

impl Heard {
    async fn by(person: &Person<'_>, run: &str) -> Self {
        let request = person.request(Method::GET, &format!("/runs/{run}/events"));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, rest: String::new() }
    }

    /// The next event's name and data; nothing at the end.
    async fn next(&mut self) -> Option<(String, String)> {
        loop {
            if let Some((event, rest)) = self.rest.clone().split_once("\n\n") {
                self.rest = rest.to_owned();
                let (name, data) = event.split_once('\n').unwrap();
                let data: Vec<&str> = data.lines().map(|line| line.strip_prefix("data: ").unwrap()).collect();
                return Some((name.strip_prefix("event: ").unwrap().to_owned(), data.join("\n")));
            }
            let chunk =
                tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("the stream lives");
            self.rest += std::str::from_utf8(&chunk.unwrap()?).unwrap();
        }
    }

    /// Waits for a part that says this.
    async fn until(&mut self, name: &str, text: &str) -> String {
        loop {
            let (heard, data) = self.next().await.unwrap_or_else(|| panic!("no {name} says {text}"));
            if heard == name && data.contains(text) {
                return data;
            }
        }
    }
}

#[tokio::test]
async fn a_run_is_shown_as_it_stands() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "approval").await;
    let person = Person::with_key(&server, &server.key).await;
    let page = person.get(&format!("/runs/{run}")).await;
    assert_eq!(page.status, StatusCode::OK, "{page:?}");
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    let started = shown["startedAt"].as_str().unwrap();
    for said in [
        "<h1>approval <span class=\"badge warn\">waits for a decision</span></h1>",
        &format!("datetime=\"{started}\">{} {} UTC</time>", &started[..10], &started[11..16]),
        "<span class=\"badge warn\">suspended</span> <strong>ask</strong>",
        "Publish the release notes of version 7?",
        &format!("href=\"/inbox/{run}/{id}\""),
        "<strong>ask</strong> asks people, and waits",
        "the run was started by dev",
    ] {
        assert!(page.says(said), "{said} is not in {}", page.html);
    }
    person.fill_in(&format!("/inbox/{run}/{id}"), &[("action", "accept")]).await;
    server.events(&run).await;
    let page = person.get(&format!("/runs/{run}")).await;
    assert!(page.says("badge good\">completed") && page.says("It completed."), "{}", page.html);
    assert!(page.says("the run completed") && !page.says("Publish the release notes"), "{}", page.html);
    assert!(page.says("after 0 s"), "how long it took: {}", page.html);
}

#[tokio::test]
async fn a_run_that_failed_says_why_and_a_child_and_its_parent_lead_to_each_other() {
    let site = Site::new();
    let delay = node("wait", "core.delay", json!({ "ms": 60_000 }), json!({}), json!({}));
    let call = node("call", "core.subWorkflow", json!({ "workflowId": "below" }), json!({}), json!({}));
    site.workflow(&workflow("below", &[delay], &[], json!([])));
    site.workflow(&workflow("above", &[call], &[], json!([])));
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("above", json!({})).await;
    server.settle().await;
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    let child = shown["nodeStates"]["call"]["childRunId"].as_str().unwrap();
    let person = Person::with_key(&server, &server.key).await;
    let page = person.get(&format!("/runs/{run}")).await;
    assert!(page.says(&format!("href=\"/runs/{child}\"")), "{}", page.html);
    let page = person.get(&format!("/runs/{child}")).await;
    assert!(page.says(&format!("href=\"/runs/{run}\"")), "{}", page.html);
    let (_, shown) = server.get(&format!("/v1/runs/{child}")).await;
    let until = shown["nodeStates"]["wait"]["until"].as_str().unwrap();
    assert!(
        page.says("waits for a time") && page.says(&format!("<time datetime=\"{until}\">")),
        "{}",
        page.html
    );
    let reason = json!({ "reason": "wrong <b>customer</b>" });
    server.post(&format!("/v1/runs/{run}/cancel"), &reason).await;
    server.events(&run).await;
    let page = person.get(&format!("/runs/{run}")).await;
    assert!(page.says("badge bad\">cancelled") && page.says("It was cancelled."), "{}", page.html);
    assert!(page.says("by dev: wrong &#60;b&#62;customer&#60;/b&#62;"), "{}", page.html);
}

#[tokio::test]
async fn whoever_may_not_read_runs_is_told_so_and_what_is_not_theirs_is_not_there() {
    let site = site();
    let answering = site.key("default").scopes("approvals:respond").make();
    let reading = site.key("default").scopes("runs:read").make();
    let stranger = site.key("elsewhere").make();
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "approval").await;
    let path = format!("/runs/{run}");
    let nobody = Person::at(&server);
    assert_eq!(nobody.get(&path).await.leads_to(), format!("/sign-in?next=%2Fruns%2F{run}"));
    let person = Person::with_key(&server, &answering).await;
    for path in [path.clone(), format!("{path}/events"), format!("{path}/give-up?node=ask")] {
        let page = person.get(&path).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{page:?}");
        assert!(page.says("You may not do this") && !page.says("approval"), "{}", page.html);
    }
    assert!(
        !person.get("/inbox").await.says(&format!("href=\"{path}\"")),
        "no link to where they may not go"
    );
    assert!(!person.get(&format!("/inbox/{run}/{id}")).await.says(&format!("href=\"{path}\"")));
    let mut reader = Person::at(&server);
    assert_eq!(reader.sign_in(&reading, "/inbox").await.status, StatusCode::FORBIDDEN);
    assert_eq!(reader.sign_in(&reading, &path).await.leads_to(), path);
    let page = reader.get(&path).await;
    assert!(page.status == StatusCode::OK && page.says("ask waits for people"), "{page:?}");
    assert!(!page.says(&format!("/inbox/{run}/{id}")), "they may not answer: {}", page.html);
    assert_eq!(reader.get("/inbox").await.status, StatusCode::FORBIDDEN);
    let other = Person::with_key(&server, &stranger).await;
    let missing = format!("/runs/{}", run.replace(|letter: char| letter.is_ascii_digit(), "0"));
    for path in [&path, &missing, "/runs/nonsense", "/runs/%FF", &format!("{path}/events")] {
        let page = other.get(path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}: {page:?}");
        assert!(page.says("There is no such run"), "{}", page.html);
    }
}

#[tokio::test]
async fn the_inbox_and_the_answer_page_lead_to_the_run() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "approval").await;
    let person = Person::with_key(&server, &server.key).await;
    let link = format!("href=\"/runs/{run}\"");
    for path in ["/inbox", &format!("/inbox/{run}/{id}")] {
        let page = person.get(path).await;
        assert!(page.says(&link), "{}", page.html);
    }
}

#[tokio::test]
async fn only_the_page_of_a_run_has_a_script_and_that_is_ours_alone() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, _) = asked(&server, "approval").await;
    let person = Person::with_key(&server, &server.key).await;
    let page = person.get(&format!("/runs/{run}")).await;
    let policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
    assert_eq!(page.headers["content-security-policy"], policy);
    assert_eq!(page.headers["cache-control"], "no-store");
    let scripts = regex::Regex::new("<script[^>]*>").unwrap();
    let found: Vec<_> = scripts.find_iter(&page.html).map(|found| found.as_str()).collect();
    assert_eq!(found, ["<script type=\"module\" src=\"/run.js\">"]);
    let inline = regex::Regex::new("<style|style=|\\son[a-z]+=|javascript:").unwrap();
    assert!(!inline.is_match(&page.html), "{}", page.html);
    let script = Person::at(&server).get("/run.js").await;
    assert_eq!(script.headers["content-type"], "text/javascript; charset=utf-8");
    assert!(!script.says("http:") && !script.says("https:") && !script.says("eval("), "{}", script.html);
}

#[tokio::test]
async fn a_sensitive_value_is_on_no_page_and_in_no_stream() {
    const SECRET: &str = "hunter2-4711";
    let site = Site::new();
    let pw = json!({ "value": { "type": "variable", "variableName": "pw" } });
    let write = node("write", "core.channelWrite", json!({ "channelName": "open" }), pw, json!({}));
    let assign = json!({ "outputs": { "long": "variables.pw + '!'" }, "assign": { "copy": "variables.pw" } });
    let make = node("make", "core.transform", assign, json!({}), json!({}));
    let data = approval(&json!({ "title": SECRET }))["data"].clone();
    let shown = json!({ "artifact": { "type": "variable", "variableName": "pw" } });
    let ask = node("ask", "core.approvalGate", data, shown, json!({}));
    let variables = json!([{ "name": "pw", "type": "string", "sensitive": true, "defaultValue": SECRET }]);
    site.workflow(&workflow("hides", &[write, make, ask], &[("write", "make"), ("make", "ask")], variables));
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "hides").await;
    let person = Person::with_key(&server, &server.key).await;
    let page = person.get(&format!("/runs/{run}")).await;
    assert!(page.says("wrote to the channel open") && page.says("the variable copy has a new value"));
    let mut heard = Heard::by(&person, &run).await;
    person.fill_in(&format!("/inbox/{run}/{id}"), &[("action", "accept")]).await;
    let mut all = page.html;
    while let Some((_, data)) = heard.next().await {
        all += &data;
    }
    all += &person.get(&format!("/runs/{run}")).await.html;
    assert!(all.contains("the run completed") && !all.contains(SECRET), "{all}");
}

#[tokio::test]
async fn the_script_hears_everything_first_then_what_changes_and_then_the_end() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "approval").await;
    let person = Person::with_key(&server, &server.key).await;
    let mut heard = Heard::by(&person, &run).await;
    let mut first = Vec::new();
    for _ in 0..5 {
        first.push(heard.next().await.unwrap());
    }
    let names: Vec<&str> = first.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["now", "head", "notices", "nodes", "lines"]);
    let (_, clock) = server.get("/v1/dev/clock").await;
    assert_eq!(first[0].1, clock["nowMs"].to_string(), "the server's clock");
    assert!(first[2].1.contains(&format!("/inbox/{run}/{id}")), "{first:#?}");
    person.fill_in(&format!("/inbox/{run}/{id}"), &[("action", "accept")]).await;
    let mut last = Vec::new();
    while let Some((name, data)) = heard.next().await {
        last.push((name, data));
    }
    let of = |name: &'static str| {
        last.iter().filter(move |(known, _)| known == name).map(|(_, data)| data.as_str())
    };
    assert!(of("head").any(|html| html.contains("completed")), "{last:#?}");
    assert!(of("notices").next_back().is_some_and(|html| html.trim().is_empty()), "{last:#?}");
    assert!(!of("lines").any(|html| html.contains("the run was started")), "what is known is not repeated");
    assert_eq!(last.last().unwrap().0, "end");
    let (name, _) = Heard::by(&person, &run).await.next().await.unwrap();
    assert_eq!(name, "now", "one that has ended is shown, too");
}

#[tokio::test]
async fn a_page_that_listens_has_a_place_among_those_who_wait_and_hears_nothing_once_its_key_is_gone() {
    let site = site();
    let key = site.key("default").scopes("runs:read").make();
    let server = site.start(&["--test-clock"]);
    let (run, _) = asked(&server, "approval").await;
    let mut person = Person::at(&server);
    person.sign_in(&key, &format!("/runs/{run}")).await;
    let mut heard = Heard::by(&person, &run).await;
    heard.until("lines", "asks people").await;
    server.await_waiting(1).await;
    let path = format!("/v1/keys/{}", site.key_id(&key));
    let (status, _) = server.ask_as(&server.key, Method::DELETE, &path, None).await;
    assert!(status.is_success());
    server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    assert_eq!(heard.next().await, None);
    server.await_waiting(0).await;
}

#[tokio::test]
async fn a_long_run_is_shown_with_its_latest_lines_and_with_what_is_under_way_first() {
    let site = Site::new();
    let mut definition = crate::support::chain("long", "core.noop", 400, &json!({}));
    let wait = node("wait", "core.delay", json!({ "ms": 60_000 }), json!({}), json!({}));
    definition["nodes"].as_array_mut().unwrap().push(wait);
    let edge = json!({ "id": "last", "sourceNodeId": "n399", "targetNodeId": "wait" });
    definition["edges"].as_array_mut().unwrap().push(edge);
    site.workflow(&definition);
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("long", json!({})).await;
    server.settle().await;
    let page = Person::with_key(&server, &server.key).await.get(&format!("/runs/{run}")).await;
    assert_eq!(page.html.matches("<li id=\"e").count(), 200);
    let at = |text: &str| page.html.find(text).unwrap_or_else(|| panic!("{text} is not in {}", page.html));
    assert!(at("<strong>wait</strong> <span") < at("<strong>n0</strong> <span"));
    assert!(at("299 that have ended or have not started") < at("101 more are not shown."), "{}", page.html);
    assert!(at("<strong>wait</strong> started") < at("<strong>n399</strong> completed"), "the latest first");
}

#[tokio::test]
async fn an_erased_run_still_says_how_it_ended() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, _) = asked(&server, "approval").await;
    server.post(&format!("/v1/runs/{run}/cancel"), &json!({ "reason": "enough of it" })).await;
    server.events(&run).await;
    let (status, body) = server.post(&format!("/v1/runs/{run}/erase"), &json!({})).await;
    assert!(status.is_success(), "{body}");
    let page = Person::with_key(&server, &server.key).await.get(&format!("/runs/{run}")).await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.says("cancelled") && page.says("What was recorded of it was erased."), "{}", page.html);
    assert!(!page.says("enough of it"), "{}", page.html);
}
