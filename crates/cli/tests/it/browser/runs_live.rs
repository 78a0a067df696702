//! The page of a run in a real browser: it follows by itself, and stands without scripts.

use super::chromium::Window;
use super::clicks::{DESK, PHONE, sign_in};
use super::*;
use crate::stream::Door;

async fn accept(server: &Server, run: &str) {
    let answer = json!({ "resumeValue": { "action": "accept" } });
    let (status, body) = server.post(&format!("/v1/runs/{run}/interrupts/ask"), &answer).await;
    assert!(status.is_success(), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_run_follows_it_without_being_loaded_again() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, _) = asked(&server, "approval").await;
    let mut browser = Chromium::open(&DESK);
    sign_in(&mut browser, &server, &format!("/runs/{run}"));
    assert!(browser.has("#notices .act"), "{}", browser.html());
    accept(&server, &run).await;
    browser.await_text("the run completed");
    browser.await_text("<title>approval: completed - Abide</title>");
    assert!(!browser.has("#notices section"), "nothing waits any more: {}", browser.html());
    assert_eq!(browser.complaints(), [""; 0], "the page keeps to its own policy");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_run_comes_back_after_the_server_was_killed() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let door = Door::open(&server).await;
    let (run, _) = asked(&server, "approval").await;
    let mut browser = Chromium::open(&DESK);
    browser.go(&format!("{}/runs/{run}", door.url));
    browser.write("#key", &server.key);
    browser.follow("main button");
    server.await_waiting(1).await;
    server.kill();
    browser.await_text("The connection to the server is lost.");
    let server = site.start(&["--test-clock"]);
    accept(&server, &run).await;
    server.events(&run).await;
    door.lead_to(&server);
    browser.await_text("the run completed");
    assert!(!browser.html().contains("The connection to the server is lost."), "{}", browser.html());
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_stays_text_in_a_page_that_follows() {
    let site = site();
    let evil = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>\r\n\r\nevent: end";
    site.workflow(&asking("evil", approval(&json!({ "title": evil }))));
    let server = site.start(&["--test-clock"]);
    let (run, _) = asked(&server, "evil").await;
    let mut browser = Chromium::open(&DESK);
    sign_in(&mut browser, &server, &format!("/runs/{run}"));
    server.post(&format!("/v1/runs/{run}/cancel"), &json!({ "reason": evil })).await;
    browser.await_text("the run was cancelled");
    browser.await_text("<title>evil: cancelled - Abide</title>");
    let html = browser.html();
    assert!(html.contains("&lt;script&gt;document.title='taken'&lt;/script&gt;"), "{html}");
    assert!(!browser.has("main img") && !browser.has("main script"), "{html}");
    assert_eq!(browser.complaints(), [""; 0], "nothing of it was even tried");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_run_stands_without_scripts_and_fits_a_phone() {
    let site = site();
    let long = "Donaudampfschifffahrtsgesellschaft".repeat(9);
    site.workflow(&asking("long", approval(&json!({ "title": long }))));
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "long").await;
    for window in [PHONE, Window { scripts: true, ..PHONE }] {
        let mut browser = Chromium::open(&window);
        sign_in(&mut browser, &server, &format!("/runs/{run}"));
        assert!(browser.html().contains("waits for a decision"), "{}", browser.html());
        assert!(browser.width() <= 360.0, "the page is {} px wide", browser.width());
        assert!(browser.height_of("#notices .act") >= 44.0);
        browser.follow("#notices .act");
        assert_eq!(browser.path(), format!("/inbox/{run}/{id}"));
    }
}
