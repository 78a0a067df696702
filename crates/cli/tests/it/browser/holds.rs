//! Holds, and many decisions at once, in front of a browser.

use reqwest::StatusCode;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_stopped_and_released_with_buttons_by_those_who_may() {
    let site = site();
    let reader = site.key("default").scopes("runs:read,approvals:respond").make();
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "approval").await;
    let page = format!("/runs/{run}");
    let ann = Person::with_key(&server, &server.key).await;
    let token = ann.get(&page).await.token().to_owned();
    let hold = format!("{page}/hold");
    let stray = ann.post(&hold, &[("mode", "stop")]).await;
    assert_eq!(stray.status, StatusCode::FORBIDDEN, "{stray:?}");
    let fields = [("form-token", token.as_str()), ("mode", "stop"), ("reason", "<b>audit</b>")];
    assert_eq!(ann.post(&hold, &fields).await.leads_to(), page);
    assert_eq!(ann.post(&hold, &fields).await.leads_to(), page, "somebody was faster");
    let held = ann.get(&page).await;
    assert!(held.says("<h2>Stopped</h2>") && held.says("&#60;b&#62;audit"), "{held:?}");
    assert!(held.says("id=\"release\"") && !held.says("id=\"hold-stop\""), "{held:?}");
    let question = ann.get(&format!("/inbox/{run}/{id}")).await;
    assert!(question.says("Your answer is kept until it is released."), "{question:?}");
    let eve = Person::with_key(&server, &reader).await;
    let seen = eve.get(&page).await;
    assert!(seen.says("<h2>Stopped</h2>") && !seen.says("id=\"release\""), "{seen:?}");
    let refused = eve.post(&format!("{page}/release"), &[("form-token", seen.token())]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{refused:?}");
    let released = ann.post(&format!("{page}/release"), &[("form-token", &token)]).await;
    assert_eq!(released.leads_to(), page);
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(snapshot["status"], "waiting-approval");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_approvals_are_chosen_listed_confirmed_and_told() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let first = asked(&server, "approval").await;
    let second = asked(&server, "approval").await;
    asked(&server, "custom").await;
    let ann = Person::with_key(&server, &server.key).await;
    let inbox = ann.get("/inbox").await;
    assert_eq!(inbox.html.matches("name=\"pick\"").count(), 2, "{inbox:?}");
    let picks = [&first, &second].map(|(run, id)| format!("{run} {id}"));
    let token = inbox.token();
    let fields = [("form-token", token), ("action", "accept"), ("pick", &picks[0]), ("pick", &picks[1])];
    let listed = ann.post("/inbox/answers", &fields).await;
    assert!(listed.status == StatusCode::OK && listed.says("What will happen"), "{listed:?}");
    assert_eq!(listed.html.matches("Would be taken; then the run is completed.").count(), 2, "{listed:?}");
    let (_, open) = server.get("/v1/interrupts").await;
    assert_eq!(open["counts"]["total"], 3, "a list changes nothing");
    let done = ann.post("/inbox/answers", &[&fields[..], &[("confirmed", "yes")]].concat()).await;
    assert_eq!(done.html.matches("Taken; the run is completed.").count(), 2, "{done:?}");
    let late = ann.post("/inbox/answers", &fields).await;
    assert!(late.says("None of them would take this answer."), "{late:?}");
    assert_eq!(answer_of(&server, &first.0).await["resolvedBy"], "dev");
    assert_eq!(ann.post("/inbox/answers", &[("form-token", token)]).await.leads_to(), "/inbox");
}
