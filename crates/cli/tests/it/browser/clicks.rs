//! The pages in a real browser: with and without scripts, on a desk and on a phone.

use super::chromium::Window;
use super::*;

pub(super) const DESK: Window = Window { width: 900, height: 760, scripts: true, dark: false };
pub(super) const PHONE: Window = Window { width: 360, height: 740, scripts: false, dark: true };

/// Signs in at a deep link, and comes to its page.
pub(super) fn sign_in(browser: &mut Chromium, server: &Server, path: &str) {
    browser.go(&format!("{}{path}", server.url));
    assert!(browser.path().starts_with("/sign-in"));
    browser.write("#key", &server.key);
    browser.follow("main button");
    assert_eq!(browser.path(), path);
}

/// Accepts an approval, from the link in a mail to what was recorded.
async fn accept(window: &Window) {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "approval").await;
    let url = server.url.clone();
    let mut browser = Chromium::open(window);
    sign_in(&mut browser, &server, &format!("/inbox/{run}/{id}"));
    browser.go(&format!("{url}/inbox"));
    browser.follow(".rows a");
    assert_eq!(browser.path(), format!("/inbox/{run}/{id}"));
    browser.write("#feedback", "Well done");
    browser.follow("button[value=accept]");
    let html = browser.html();
    assert!(html.contains("<strong>Accepted</strong> by <strong>dev</strong>"), "{html}");
    let resolved = answer_of(&server, &run).await;
    assert_eq!(
        (&resolved["outcome"], &resolved["resumeValue"]["feedback"]),
        (&json!("resolved"), &json!("Well done"))
    );
    browser.follow("header button");
    browser.go(&format!("{url}/inbox"));
    assert_eq!(browser.path(), "/sign-in", "the browser has forgotten who it was");
    assert_eq!(browser.complaints(), [""; 0], "the pages keep to their own policy");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_accepted_by_clicks() {
    accept(&DESK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_accepted_on_a_phone_without_scripts() {
    accept(&PHONE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_answered_by_clicks_without_scripts() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "clarification").await;
    let mut browser = Chromium::open(&PHONE);
    sign_in(&mut browser, &server, &format!("/inbox/{run}/{id}"));
    browser.click("input[name=q0][value='0']");
    browser.write("#q1", "3");
    browser.click("input[name=q2][value='1']");
    browser.write("#q3", "ada@example.com");
    browser.write("#q4", "Nothing\nelse");
    browser.write("#q5", "\"cpu\": 2}");
    browser.follow(".buttons button");
    assert!(browser.html().contains("This is not JSON"), "{}", browser.html());
    // Only what was wrong is written again: the brace in front.
    browser.write("#q5", "{");
    browser.follow(".buttons button");
    let answers = server.events(&run).await;
    let answers = answers.iter().find(|event| event["type"] == "clarification.resolved").unwrap();
    let expected = json!({
        "region": "eu", "size": 3, "trial": false, "mail": "ada@example.com", "note": "Nothing\nelse",
        "limits": { "cpu": 2 },
    });
    assert_eq!(answers["payload"]["answers"], expected);
}

/// The address of the answer page behind the token that a run shows to whoever has this key.
async fn signed_link(server: &Server, key: &str, run: &str) -> String {
    let (_, shown) = server.ask_as(key, reqwest::Method::GET, &format!("/v1/runs/{run}"), None).await;
    format!("{}/answer/{}", server.url, shown["interrupt"]["interruptToken"].as_str().unwrap())
}

/// A choice that is answered by pressing what it says, by somebody who has no account.
async fn press(window: &Window) {
    let site = site();
    let choices = json!([
        { "value": "go", "label": "Proceed", "description": "The report is sent.", "style": "primary" },
        { "value": "stop", "label": "Stop here", "style": "danger" },
    ]);
    let config = json!({ "question": "Go on?", "responseType": "choice", "choices": choices });
    site.workflow(&workflow(
        "choice",
        &[node("ask", "core.hitl.ask-user", config, json!({}), json!({}))],
        &[],
        json!([]),
    ));
    let ada = site.key("default").principal("ada").make();
    let server = site.start(&["--test-clock"]);
    let (run, _) = asked(&server, "choice").await;
    let mut browser = Chromium::open(window);
    browser.go(&signed_link(&server, &ada, &run).await);
    assert!(browser.html().contains("You answer as <strong>ada</strong>"), "{}", browser.html());
    assert!(browser.width() <= f64::from(window.width) && browser.height_of(".choices button") >= 44.0);
    browser.follow("button.danger");
    assert!(
        browser.html().contains("<strong>Answered</strong> by <strong>ada</strong>"),
        "{}",
        browser.html()
    );
    let resolved = answer_of(&server, &run).await;
    assert_eq!(resolved["resumeValue"]["answers"]["answer"], "stop");
    assert_eq!(resolved["resolvedBy"], "ada");
    assert_eq!(browser.complaints(), [""; 0], "the pages keep to their own policy");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_choice_is_pressed_behind_a_signed_link_without_an_account() {
    press(&DESK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_choice_is_pressed_behind_a_signed_link_on_a_phone_without_scripts() {
    press(&PHONE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_second_by_a_signed_link_reads_who_was_first_and_when() {
    let site = site();
    let keys = ["ada", "bob"].map(|name| site.key("default").principal(name).make());
    let server = site.start(&["--test-clock"]);
    let (run, _) = asked(&server, "approval").await;
    let mut slow = Chromium::open(&PHONE);
    slow.go(&signed_link(&server, &keys[1], &run).await);
    let mut quick = Chromium::open(&DESK);
    quick.go(&signed_link(&server, &keys[0], &run).await);
    quick.follow("button[value=accept]");
    assert!(quick.html().contains("Your answer is recorded."), "{}", quick.html());
    slow.follow("button[value=reject]");
    let at = answer_of(&server, &run).await["resolvedAt"].as_str().unwrap().to_owned();
    let said =
        format!("<strong>Accepted</strong> by <strong>ada</strong>, {} {} UTC", &at[..10], &at[11..16]);
    let html = slow.html();
    assert!(html.contains("Your answer was not recorded") && html.contains(&said), "{said}: {html}");
    assert_eq!(answer_of(&server, &run).await["resolvedBy"], "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_an_interrupted_run_says_what_happened_and_what_to_do() {
    let site = site();
    let config = json!({ "method": "POST", "url": "http://127.0.0.1:9/charge" });
    let pay = node("pay", "core.http.request", config, json!({}), json!({}));
    site.workflow(&workflow("pay", &[pay], &[], json!([])));
    let server = site.start(&["--test-clock", "--allow-net", "127.0.0.0/8"]);
    let run = server.start_run("pay", json!({})).await;
    server.settle().await;
    let (_, standing) = server.get(&format!("/v1/runs/{run}/resume")).await;
    let id = standing["interruptId"].as_str().unwrap_or_else(|| panic!("{standing:#}"));
    for (window, name) in [(DESK, "desk"), (PHONE, "phone")] {
        let mut browser = Chromium::open(&window);
        sign_in(&mut browser, &server, &format!("/inbox/{run}/{id}"));
        let html = browser.html();
        assert!(html.contains("What happened") && html.contains("pay (tool_failure)"), "{html}");
        for line in standing["checklist"].as_array().unwrap() {
            let first = line.as_str().unwrap().split(['\'', '"', '`']).next().unwrap();
            assert!(html.contains(first), "{line} is not in {html}");
        }
        assert!(browser.width() <= f64::from(window.width), "{name} is {} px wide", browser.width());
    }
    let mut browser = Chromium::open(&DESK);
    sign_in(&mut browser, &server, &format!("/inbox/{run}/{id}"));
    browser.follow("button[value=reject]");
    assert!(
        browser.html().contains("<strong>Rejected</strong> by <strong>dev</strong>"),
        "{}",
        browser.html()
    );
    assert_eq!(server.get(&format!("/v1/runs/{run}")).await.1["status"], "failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_fits_a_phone_and_its_buttons_a_finger() {
    let site = site();
    let long = "Donaudampfschifffahrtsgesellschaft".repeat(9);
    let data = json!({ "title": long, "description": long, "artifactData": { &long: [&long] }, "approversList": [&long[..256], "dev"] });
    site.workflow(&asking("long", approval(&data)));
    let server = site.start(&["--test-clock"]);
    let mut browser = Chromium::open(&PHONE);
    browser.go(&format!("{}/sign-in", server.url));
    assert!(browser.width() <= 360.0);
    sign_in(&mut browser, &server, "/inbox");
    for workflow in ["long", "clarification", "event", "custom"] {
        let (run, id) = asked(&server, workflow).await;
        for path in [format!("/inbox/{run}/{id}"), "/inbox".to_owned()] {
            browser.go(&format!("{}{path}", server.url));
            assert!(browser.width() <= 360.0, "{workflow}: {path} is {} px wide", browser.width());
            assert!(browser.height_of("main button") >= 44.0, "{workflow}: {path}");
        }
    }
}

/// `ABIDE_REGENERATE=1` takes the pictures in the docs anew.
#[tokio::test(flavor = "multi_thread")]
async fn the_docs_have_pictures_of_the_pages() {
    let images = crate::support::repository().join("docs/images");
    if std::env::var_os("ABIDE_REGENERATE").is_some_and(|value| value == "1") {
        let site = site();
        let server = site.start(&["--test-clock"]);
        let mut link = String::new();
        for (workflow, hours) in [("clarification", 26), ("event", 3), ("custom", 1), ("approval", 2)] {
            let (run, id) = asked(&server, workflow).await;
            link = format!("{}/inbox/{run}/{id}", server.url);
            server.advance(hours * 3_600_000).await;
        }
        let mut browser = Chromium::open(&Window { height: 640, ..DESK });
        sign_in(&mut browser, &server, "/inbox");
        std::fs::write(images.join("inbox.png"), browser.picture()).unwrap();
        browser.resize(DESK.width, 820);
        browser.go(&link);
        std::fs::write(images.join("answer.png"), browser.picture()).unwrap();
    }
    for name in ["inbox.png", "answer.png"] {
        let picture = std::fs::read(images.join(name)).unwrap_or_default();
        assert!(
            picture.starts_with(b"\x89PNG") && picture.len() < 100_000,
            "{name}: {} bytes",
            picture.len()
        );
    }
}
