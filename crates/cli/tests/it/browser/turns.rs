//! A turn that waits for its provider, as people see it: a warning, a countdown, and two buttons.

use abide_model::Protocol;
use abide_model::scripted::{Part, ScriptedProvider, Speech, Step};
use reqwest::StatusCode;

use super::chromium::Window;
use super::clicks::{DESK, PHONE, sign_in};
use super::*;
use crate::http::turns::{await_wait, site_with, start};
use crate::support::PATIENCE;

/// What a provider says that has too much to do, and that wants to be more than text.
const BUSY: &str = r#"{"error":{"type":"overloaded_error","message":"slow down <img src=x onerror=\"document.title='taken'\">"}}"#;

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

/// Whether a colour as browsers write it is a yellow: red and green together, and clearly less blue.
fn is_yellow(colour: &str) -> bool {
    let digits = |text: &str| text.trim().parse::<i32>().unwrap();
    let parts: Vec<i32> =
        colour.trim_start_matches("rgb(").trim_end_matches(')').split(',').map(digits).collect();
    (parts[0] - parts[1]).abs() < 40 && parts[0].min(parts[1]) - parts[2] > 30
}

/// How many seconds a text such as "4 min 59 s" tells.
fn seconds(text: &str) -> u64 {
    let words: Vec<&str> = text.split(' ').collect();
    let part = |pair: &[&str]| pair[0].parse::<u64>().unwrap() * if pair[1] == "min" { 60 } else { 1 };
    words.chunks(2).map(part).sum()
}

/// What is left of the wait, as the page says it.
fn left(browser: &mut Chromium) -> u64 {
    let html = browser.html();
    let (_, rest) = html.split_once("class=\"left\">").unwrap_or_else(|| panic!("nothing is left: {html}"));
    seconds(rest.split_once('<').unwrap().0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_waits_for_its_provider_is_a_yellow_warning_with_its_message_and_code() {
    let provider = ScriptedProvider::start();
    provider.usually(Step::Held(Box::new(Step::status(429, BUSY))));
    let site = site_with(&provider);
    let server = start(&site);
    let run = server.start_run("ask", json!({})).await;
    for window in [DESK, Window { scripts: true, ..PHONE }] {
        let mut browser = Chromium::open(&window);
        sign_in(&mut browser, &server, &format!("/runs/{run}"));
        if window.width == DESK.width {
            assert!(!browser.has(".notice"), "the provider has not answered yet: {}", browser.html());
            provider.release();
        }
        browser.await_text("turn waits for main");
        let html = browser.html();
        let said = "HTTP 429: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"slow down &lt;img";
        assert!(html.contains(said) && html.contains(">code 429<"), "{html}");
        assert!(html.contains("Retry 1 in <span"), "{html}");
        let colour = browser.style_of(".notice", "background-color");
        assert!(is_yellow(&colour), "{colour}");
        assert!(browser.has("#notices[role=status] .countdown[role=timer][aria-live=off]"), "{html}");
        assert!(!browser.has("main img") && html.contains("<title>ask: running - Abide</title>"), "{html}");
        assert!(browser.width() <= f64::from(window.width) && browser.height_of(".notice button") >= 44.0);
        assert_eq!(browser.complaints(), [""; 0], "the page keeps to its own policy");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_warning_counts_down_whatever_the_clock_of_the_browser_says() {
    let provider = ScriptedProvider::start();
    provider.usually(Step::status(429, BUSY));
    let site = site_with(&provider);
    let config = site.path("abide.toml");
    let known = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{known}[providers.main.schedule]\nsteps = [\"10m\"]\n")).unwrap();
    let server = site.start(&["--config", config.to_str().unwrap()]);
    let run = server.start_run("ask", json!({})).await;
    await_wait(&server, &run).await;
    let mut browser = Chromium::open(&DESK);
    browser.inject("Date.now = () => 0; Date = class extends Date { constructor() { super(0); } };");
    sign_in(&mut browser, &server, &format!("/runs/{run}"));
    let mut seen = vec![left(&mut browser)];
    let began = std::time::Instant::now();
    while seen.len() < 4 {
        assert!(began.elapsed() < PATIENCE, "the number does not fall: {seen:?}");
        let next = left(&mut browser);
        if *seen.last().unwrap() != next {
            seen.push(next);
        }
    }
    assert!(seen.is_sorted_by(|one, next| one > next), "it only falls: {seen:?}");
    assert!(seen[0] <= 600, "it is counted from the server's clock: {seen:?}");
    assert_eq!(browser.complaints(), [""; 0], "the page keeps to its own policy");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_has_the_turn_tried_again_and_the_warning_goes() {
    let (provider, _site, server, run) = waiting().await;
    let mut browser = Chromium::open(&DESK);
    sign_in(&mut browser, &server, &format!("/runs/{run}"));
    provider.recover();
    browser.follow("#retry-1");
    assert_eq!(browser.path(), format!("/runs/{run}"));
    browser.await_text("the run completed");
    assert!(!browser.has(".notice"), "{}", browser.html());
    assert!(browser.html().contains("dev has it tried again now"), "{}", browser.html());
    assert!(browser.html().contains("<span class=\"said\">ok</span>"), "{}", browser.html());
    assert_eq!(provider.count(), 2, "once before the wait, once after it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_given_up_after_a_second_question_without_scripts() {
    let (_provider, _site, server, run) = waiting().await;
    let mut browser = Chromium::open(&PHONE);
    sign_in(&mut browser, &server, &format!("/runs/{run}"));
    assert_eq!(left(&mut browser), 5, "as it was when the page was made");
    browser.follow("#give-up-1");
    assert_eq!(browser.path(), format!("/runs/{run}/give-up?node=turn"));
    assert!(browser.html().contains("Give up on this turn?") && browser.width() <= 360.0);
    browser.follow("main .act");
    assert_eq!(browser.path(), format!("/runs/{run}"));
    assert!(browser.has(".notice"), "nothing has happened: {}", browser.html());
    browser.follow("#give-up-1");
    browser.write("#reason", "too late anyway");
    browser.follow("button.danger");
    assert_eq!(browser.path(), format!("/runs/{run}"));
    let html = browser.html();
    assert!(html.contains("badge bad\">failed") && html.contains("[provider_given_up]"), "{html}");
    let (_, turns) = server.get(&format!("/v1/runs/{run}/turns")).await;
    assert_eq!(turns["turns"][0]["error"]["code"], "provider_given_up", "{turns}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_says_grows_on_the_page_as_it_says_it() {
    let provider = ScriptedProvider::start();
    let site = site_with(&provider);
    let server = start(&site);
    let mut speech = Speech::text("").events(Protocol::OpenAi, "small");
    let words = |text: &str| {
        let delta = json!({ "choices": [{ "index": 0, "delta": { "content": text } }] });
        Part::Text(format!("data: {delta}\n\n"))
    };
    let end = Part::Text(speech.split_off(1).concat());
    let parts = vec![words("Dear <b>Ada</b>, "), Part::Held, words("thank you."), Part::Held, end];
    provider.usually(Step::Stream(parts));
    let run = server.start_run("ask", json!({})).await;
    let mut browser = Chromium::open(&DESK);
    sign_in(&mut browser, &server, &format!("/runs/{run}"));
    browser.await_text("<span class=\"said\">Dear &lt;b&gt;Ada&lt;/b&gt;, </span>");
    provider.release();
    browser.await_text("<span class=\"said\">Dear &lt;b&gt;Ada&lt;/b&gt;, thank you.</span>");
    provider.release();
    browser.await_text("the run completed");
    assert_eq!(browser.html().matches("class=\"said\"").count(), 1, "{}", browser.html());
}

#[tokio::test]
async fn the_buttons_are_for_those_who_may_resume_runs_and_for_forms_of_their_session() {
    let provider = ScriptedProvider::start();
    provider.usually(Step::status(429, BUSY));
    let site = site_with(&provider);
    let reading = site.key("default").scopes("runs:read").make();
    let server = start(&site);
    let run = server.start_run("ask", json!({})).await;
    await_wait(&server, &run).await;
    let (retry, give_up) = (format!("/runs/{run}/retry"), format!("/runs/{run}/give-up"));
    let mut reader = Person::at(&server);
    reader.sign_in(&reading, &format!("/runs/{run}")).await;
    let page = reader.get(&format!("/runs/{run}")).await;
    assert!(page.says("turn waits for main") && !page.says("Retry now"), "{}", page.html);
    let token = page.token().to_owned();
    for path in [&retry, &give_up] {
        let page = reader.post(path, &[("form-token", &token), ("node", "turn")]).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{page:?}");
    }
    let person = Person::with_key(&server, &server.key).await;
    for path in [&retry, &give_up] {
        assert_eq!(person.post(path, &[("node", "turn")]).await.status, StatusCode::FORBIDDEN, "no token");
        let other = person.post(path, &[("form-token", &token), ("node", "turn")]).await;
        assert_eq!(other.status, StatusCode::FORBIDDEN, "another session's");
    }
    assert_eq!(provider.count(), 1, "nothing has happened");
    let token = person.get(&format!("/runs/{run}")).await.token().to_owned();
    let form = |node: &'static str| [("form-token", token.clone()), ("node", node.to_owned())];
    let send = async |path: &str, node: &'static str| {
        let fields = form(node);
        person.post(path, &fields.each_ref().map(|(name, value)| (*name, value.as_str()))).await
    };
    let page = send(&give_up, "another").await;
    assert!(page.status == StatusCode::CONFLICT && page.says("turn_not_waiting"), "{page:?}");
    assert_eq!(person.get(&format!("{give_up}?node=another")).await.leads_to(), format!("/runs/{run}"));
    let page = send(&retry.replace(&run, "run-00000000-0000-7000-8000-000000000000"), "turn").await;
    assert_eq!(page.status, StatusCode::NOT_FOUND, "{page:?}");
    provider.recover();
    assert_eq!(send(&retry, "turn").await.leads_to(), format!("/runs/{run}"));
    server.events(&run).await;
    assert_eq!(send(&retry, "turn").await.leads_to(), format!("/runs/{run}"), "it is where it is wanted");
    assert_eq!(send(&give_up, "turn").await.status, StatusCode::CONFLICT, "nothing is left to be given up");
}
