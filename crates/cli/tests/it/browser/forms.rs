//! The inbox and the answer page, by plain requests.

use reqwest::{Method, StatusCode};

use super::*;

#[tokio::test]
async fn the_inbox_lists_what_waits_and_leads_to_it() {
    let site = site();
    let stranger = site.key("strangers").make();
    let server = site.start(&["--test-clock"]);
    let person = Person::with_key(&server, &server.key).await;
    assert!(person.get("/inbox").await.says("Nothing waits for an answer."));
    let (run, id) = asked(&server, "approval").await;
    let (event, _) = asked(&server, "event").await;
    server.advance(3 * 3_600_000).await;
    let page = person.get("/inbox").await;
    for text in [
        &format!("<a href=\"/inbox/{run}/{id}\">Publish the release notes of version 7?</a>"),
        "2 open",
        "Approval: 1, External event: 1",
        "3 h ago",
        "due <time",
        "in 21 h",
        &format!("approval · ask · <a class=\"run\" href=\"/runs/{run}\">{run}</a>"),
        "stripe.checkout.completed",
        &event,
    ] {
        assert!(page.says(text), "{text}: {}", page.html);
    }
    let page = person.get("/inbox?kind=external-event&title=").await;
    assert!(page.says(&event) && !page.says(&run), "{}", page.html);
    let page = person.get("/inbox?title=release+notes").await;
    assert!(!page.says(&event) && page.says(&run) && page.says("value=\"release notes\""), "{}", page.html);
    assert!(person.get("/inbox?title=nothing").await.says("Nothing that waits fits this filter."));
    let stranger = Person::with_key(&server, &stranger).await;
    assert!(stranger.get("/inbox").await.says("Nothing waits for an answer."));
    let path = format!("/inbox/{run}/{id}");
    let (theirs, nobodys) = (stranger.get(&path).await, stranger.get("/inbox/run-1/int-2").await);
    assert_eq!((theirs.status, theirs.html), (StatusCode::NOT_FOUND, nobodys.html));
}

#[tokio::test]
async fn a_long_inbox_comes_in_pages() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    for _ in 0..26 {
        server.start_run("approval", json!({})).await;
    }
    server.settle().await;
    let person = Person::with_key(&server, &server.key).await;
    let rows = |html: &str| html.matches("<a href=\"/inbox/run-").count();
    let first = person.get("/inbox?kind=approval&title=notes").await;
    assert_eq!((rows(&first.html), first.says("26 open")), (25, true), "{}", first.html);
    let (_, rest) = first.html.split_once("rel=\"next\" href=\"").unwrap();
    let next = rest.split_once('"').unwrap().0.replace("&#38;", "&").replace("&amp;", "&");
    assert!(next.starts_with("/inbox?kind=approval&title=notes&cursor="), "{next}");
    let second = person.get(&next).await;
    assert_eq!((rows(&second.html), second.says("rel=\"next\"")), (1, false), "{}", second.html);
    assert_eq!(person.get("/inbox?cursor=nonsense").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn an_approval_is_shown_decided_and_shown_again() {
    let site = site();
    let ada = site.key("default").principal("ada@example.com").make();
    let server = site.start(&["--test-clock"]);
    for (action, outcome, word) in [("accept", "resolved", "Accepted"), ("reject", "rejected", "Rejected")] {
        let (run, id) = asked(&server, "approval").await;
        let (path, person) = (format!("/inbox/{run}/{id}"), Person::with_key(&server, &ada).await);
        let page = person.get(&path).await;
        for text in [
            "<h1>Publish the release notes of version 7?</h1>",
            "Nobody can take them back.",
            "Release notes",
            "&#34;Faster start&#34;",
            "Accept</button>",
            "Reject</button>",
            &run,
        ] {
            assert!(page.says(text), "{text}: {}", page.html);
        }
        let page =
            person.fill_in(&path, &[("action", action), ("feedback", "As <agreed>\r\nyesterday")]).await;
        assert_eq!(page.leads_to(), path);
        let resolved = answer_of(&server, &run).await;
        assert_eq!(
            (&resolved["outcome"], &resolved["resolvedBy"]),
            (&json!(outcome), &json!("ada@example.com"))
        );
        assert_eq!(resolved["resumeValue"]["feedback"], "As <agreed>\nyesterday");
        let page = person.get(&path).await;
        assert!(
            page.says(&format!("<strong>{word}</strong> by <strong>ada@example.com</strong>")),
            "{}",
            page.html
        );
        assert!(page.says("As &#60;agreed&#62;") && !page.says("<form class=\"answer\""), "{}", page.html);
    }
}

#[tokio::test]
async fn whoever_decided_is_shown_whole_whatever_they_are_called() {
    let site = site();
    let deputy = site.key("default").act_as().make();
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "approval").await;
    let odd = "corp|team:x/ada, ä;ö@z=1 #7";
    let body = json!({ "resumeValue": { "action": "accept", "decidedBy": odd } });
    let path = format!("/v1/runs/{run}/interrupts/ask");
    assert_eq!(server.ask_as(&deputy, Method::POST, &path, Some(&body)).await.0, StatusCode::OK);
    assert_eq!(answer_of(&server, &run).await["resolvedBy"], odd);
    let page = Person::with_key(&server, &server.key).await.get(&format!("/inbox/{run}/{id}")).await;
    assert!(page.says(&format!("by <strong>{odd}</strong>")), "{}", page.html);
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_told_who_was_faster() {
    let site = site();
    let keys = ["ada", "bob"].map(|name| site.key("default").principal(name).make());
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "approval").await;
    let path = format!("/inbox/{run}/{id}");
    let [ada, bob] = [Person::with_key(&server, &keys[0]).await, Person::with_key(&server, &keys[1]).await];
    let token = bob.get(&path).await.token().to_owned();
    assert_eq!(ada.fill_in(&path, &[("action", "accept")]).await.leads_to(), path);
    let page = bob.post(&path, &[("form-token", &token), ("action", "reject")]).await;
    assert_eq!(page.status, StatusCode::CONFLICT);
    for text in ["Your answer was not recorded", "<strong>Accepted</strong> by <strong>ada</strong>"] {
        assert!(page.says(text), "{text}: {}", page.html);
    }
    assert_eq!(answer_of(&server, &run).await["resolvedBy"], "ada");
    let (run, id) = asked(&server, "approval").await;
    let path = format!("/inbox/{run}/{id}");
    let token = bob.get(&path).await.token().to_owned();
    server.advance(86_400_000).await;
    server.events(&run).await;
    let bob = Person::with_key(&server, &keys[1]).await;
    assert_eq!(bob.post(&path, &[("form-token", &token)]).await.status, StatusCode::FORBIDDEN);
    assert!(bob.get(&path).await.says("<strong>Timed out</strong> by <strong>system:timeout</strong>"));
}

#[tokio::test]
async fn only_those_who_are_named_may_decide() {
    let site = site();
    site.workflow(&asking("named", approval(&json!({ "approversList": ["ada"] }))));
    let keys = ["ada", "bob"].map(|name| site.key("default").principal(name).make());
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "named").await;
    let path = format!("/inbox/{run}/{id}");
    let bob = Person::with_key(&server, &keys[1]).await;
    let page = bob.get(&path).await;
    assert!(
        page.says("You are not among those who may decide this.") && page.says("Accept"),
        "the server decides, not the page: {}",
        page.html
    );
    let page = bob.post(&path, &[("form-token", page.token()), ("action", "accept")]).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN, "{}", page.html);
    assert!(page.says("only those whom the gate names may decide"), "{}", page.html);
    let ada = Person::with_key(&server, &keys[0]).await;
    assert_eq!(ada.fill_in(&path, &[("action", "accept")]).await.leads_to(), path);
    assert_eq!(answer_of(&server, &run).await["resolvedBy"], "ada");
}

#[tokio::test]
async fn questions_are_a_form_whose_values_stay_until_they_fit() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "clarification").await;
    let (path, person) = (format!("/inbox/{run}/{id}"), Person::with_key(&server, &server.key).await);
    let page = person.get(&path).await;
    for text in [
        "<legend>Which region?</legend>",
        "type=\"radio\" name=\"q0\" value=\"1\" required> us",
        "name=\"q1\" type=\"number\" step=\"1\" min=\"1\" max=\"500\"",
        "<label for=\"q3\">Who gets the invoice?</label>",
        "type=\"email\"",
        "<textarea id=\"q4\"",
        "<textarea class=\"code\" id=\"q5\"",
    ] {
        assert!(page.says(text), "{text}: {}", page.html);
    }
    let fields = |size, limits| {
        [("q0", "1"), ("q1", size), ("q2", "0"), ("q3", "ada@example.com"), ("q4", "\"<b>"), ("q5", limits)]
    };
    let page = person.fill_in(&path, &fields("many", "{")).await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    for text in [
        "Write a number",
        "This is not JSON",
        "value=\"1\" required checked> us",
        "value=\"many\"",
        "\n&#34;&#60;b&#62;</textarea>",
        "\n{</textarea>",
    ] {
        assert!(page.says(text), "{text}: {}", page.html);
    }
    let page = person.fill_in(&path, &fields("501", "{}")).await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    assert!(page.says("500") && page.says("value=\"501\""), "{}", page.html);
    assert_eq!(person.fill_in(&path, &fields("12", "{\"cpu\": 2}")).await.leads_to(), path);
    let answers = server.events(&run).await;
    let answers = answers.iter().find(|event| event["type"] == "clarification.resolved").unwrap();
    let expected = json!({
        "region": "us", "size": 12, "trial": true, "mail": "ada@example.com", "note": "\"<b>", "limits": { "cpu": 2 },
    });
    assert_eq!(answers["payload"]["answers"], expected);
}

#[tokio::test]
async fn what_an_event_said_can_be_given_by_hand() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "event").await;
    let (path, person) = (format!("/inbox/{run}/{id}"), Person::with_key(&server, &server.key).await);
    let page = person.get(&path).await;
    assert!(
        page.says("<h1>stripe.checkout.completed</h1>") && page.says("&#34;order&#34;: 17"),
        "{}",
        page.html
    );
    let page = person.fill_in(&path, &[("json", "{\"order\": 18}")]).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY, "another order's event");
    assert!(page.says("\n{&#34;order&#34;: 18}</textarea>"), "{}", page.html);
    assert_eq!(person.fill_in(&path, &[("json", "{\"order\": 17, \"paid\": true}")]).await.leads_to(), path);
    let resolved = answer_of(&server, &run).await;
    assert_eq!(resolved["resumeValue"], json!({ "eventPayload": { "order": 17, "paid": true } }));
}

#[tokio::test]
async fn a_custom_kind_that_nobody_knows_has_a_page_all_the_same() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "custom").await;
    let (path, person) = (format!("/inbox/{run}/{id}"), Person::with_key(&server, &server.key).await);
    assert!(person.get("/inbox").await.says("acme.moon-phase"));
    let page = person.get(&path).await;
    for text in ["<h1>acme.moon-phase</h1>", "&#34;phase&#34;: [", "Your answer, as JSON"] {
        assert!(page.says(text), "{text}: {}", page.html);
    }
    let page = person.fill_in(&path, &[("json", "full moon")]).await;
    assert!(page.status == StatusCode::BAD_REQUEST && page.says("This is not JSON"), "{}", page.html);
    assert_eq!(person.fill_in(&path, &[("json", "[\"full\", null]")]).await.leads_to(), path);
    assert_eq!(answer_of(&server, &run).await["resumeValue"], json!(["full", null]));
}

#[tokio::test]
async fn nothing_that_a_workflow_says_becomes_part_of_the_page() {
    let marker = "\"'><script>alert(1)</script>&<b onclick=x>";
    let site = Site::new();
    let data = json!({
        "title": marker, "description": marker, "artifactId": marker, "artifactType": marker,
        "artifactData": { marker: marker },
    });
    site.workflow(&asking("approval", approval(&data)));
    let question = json!({
        "id": marker, "question": marker,
        "schema": { "description": marker, "oneOf": [{ "const": marker, "title": marker }], "default": marker },
    });
    let payload =
        json!({ "kind": "clarification", "data": { "questions": [question], "contextType": marker } });
    site.workflow(&asking("clarification", payload));
    let custom = json!({ "customKind": marker, "payload": marker });
    site.workflow(&asking("custom", json!({ "kind": "custom", "data": custom })));
    let server = site.start(&["--test-clock"]);
    let person = Person::with_key(&server, &server.key).await;
    for workflow in ["approval", "clarification", "custom"] {
        let (run, id) = asked(&server, workflow).await;
        let path = format!("/inbox/{run}/{id}");
        let written =
            person.fill_in(&path, &[("json", marker), ("feedback", marker), ("action", marker)]).await;
        assert!(written.status.is_client_error(), "{written:?}");
        for page in [person.get("/inbox").await, person.get(&path).await, written] {
            assert!(
                page.says("alert(1)") && !page.says("<script") && !page.says("<b onclick"),
                "{}",
                page.html
            );
        }
    }
    let filtered = person.get("/inbox?title=%22%3E%3Cscript%3E").await;
    assert!(filtered.says("&#34;&#62;&#60;script&#62;"), "{}", filtered.html);
}

#[tokio::test]
async fn an_answer_needs_the_session_that_its_form_was_made_for() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "approval").await;
    let path = format!("/inbox/{run}/{id}");
    let (one, other) =
        (Person::with_key(&server, &server.key).await, Person::with_key(&server, &server.key).await);
    let token = other.get(&path).await.token().to_owned();
    for token in ["", "x", &token] {
        let page = one.post(&path, &[("form-token", token), ("action", "accept")]).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{page:?}");
    }
    let own = one.get(&path).await.token().to_owned();
    let foreign = one.form(&path, &[("form-token", &own), ("action", "accept")]);
    let page = one.send(foreign.header("origin", "https://evil.example")).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    let nobody = Person::at(&server);
    let page = nobody.post(&path, &[("form-token", &own), ("action", "accept")]).await;
    assert!(page.leads_to().starts_with("/sign-in?next="));
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(snapshot["status"], "waiting-approval");
    let bearer = nobody.request(Method::GET, &path).bearer_auth(&server.key);
    assert!(
        nobody.send(bearer).await.leads_to().starts_with("/sign-in"),
        "pages know people by their cookie alone"
    );
}
