//! The page of an approval that offers more than yes and no: forms for each action, votes, and questions back.

use reqwest::StatusCode;

use super::*;

/// A letter and its gate.
fn letter(config: &Value, settings: &Value) -> Value {
    let mut whole =
        json!({ "title": "Send it?", "actions": ["accept", "reject", "refine", "edit-accept", "ask"] });
    whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    let made = json!({ "outputs": { "letter": "{\"text\": has(inputs.refineFeedback) ? inputs.refineFeedback.text : 'first'}" } });
    let draft = node("draft", "core.transform", made, json!({}), json!({}));
    let artifact = json!({ "artifact": { "type": "connection", "nodeId": "draft", "outputKey": "letter" } });
    let gate = node("gate", "core.approvalGate", whole, artifact, json!({ "abide": settings }));
    workflow("letter", &[draft, gate], &[("draft", "gate")], json!([]))
}

#[tokio::test]
async fn a_letter_is_made_better_and_edited_in_forms() {
    let site = site();
    let schema = json!({ "artifactSchema": { "required": ["text"] } });
    site.workflow(&letter(&json!({}), &schema));
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "letter").await;
    let person = Person::with_key(&server, &server.key).await;
    let path = format!("/inbox/{run}/{id}");
    let page = person.get(&path).await;
    for text in
        [">Accept<", ">Reject<", "Have it made better", "Accept with changes", ">Ask<", "&#34;first&#34;"]
    {
        assert!(page.says(text), "{text}: {}", page.html);
    }
    let empty = person.fill_in(&path, &[("action", "refine"), ("scope", "whole"), ("text", " ")]).await;
    assert_eq!(empty.status, StatusCode::BAD_REQUEST, "{}", empty.html);
    assert!(empty.says("Say what to make better, in words or by tags."), "{}", empty.html);
    let nowhere =
        [("action", "refine"), ("scope", "section"), ("sectionPath", "/nothing"), ("text", "kinder")];
    let page = person.fill_in(&path, &nowhere).await;
    assert!(page.says("the artifact has nothing at") && page.says("value=\"/nothing\""), "{}", page.html);
    let wish = [
        ("action", "refine"),
        ("scope", "section"),
        ("sectionPath", "/text"),
        ("tags", "tone, short"),
        ("text", "kinder"),
    ];
    person.fill_in(&path, &wish).await.leads_to();
    assert!(person.get(&path).await.says("To be made better"));
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    let told = &shown["nodeStates"]["gate"]["outputs"]["refineFeedback"];
    assert_eq!(
        (&told["tags"], &told["sectionPath"]),
        (&json!(["tone", "short"]), &json!("/text")),
        "{shown}"
    );
    let path = format!("/inbox/{run}/{}", shown["interrupt"]["interruptId"].as_str().unwrap());
    let page = person.fill_in(&path, &[("action", "edit-accept"), ("edited", "{\"txt\": 1}")]).await;
    assert!(
        page.status.is_client_error() && page.says("{&#34;txt&#34;: 1}") && page.says("text"),
        "{}",
        page.html
    );
    let page = person.fill_in(&path, &[("action", "edit-accept"), ("edited", "{")]).await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST, "{}", page.html);
    person.fill_in(&path, &[("action", "edit-accept"), ("edited", "{\"text\": \"mine\"}")]).await.leads_to();
    assert!(person.get(&path).await.says("Accepted with changes"));
}

#[tokio::test]
async fn a_page_shows_the_votes_and_the_questions() {
    let site = site();
    site.workflow(&letter(&json!({ "requiredApprovals": 2, "rejectionPolicy": "majority" }), &json!({})));
    let keys = ["ann", "bob"].map(|name| site.key("default").principal(name).make());
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "letter").await;
    let path = format!("/inbox/{run}/{id}");
    let (ann, bob) = (Person::with_key(&server, &keys[0]).await, Person::with_key(&server, &keys[1]).await);
    assert!(!ann.get(&path).await.says("Accept with changes"), "an edit can't be voted on");
    assert_eq!(ann.fill_in(&path, &[("action", "ask"), ("question", "Why now?")]).await.leads_to(), path);
    assert_eq!(
        bob.fill_in(&path, &[("action", "reply"), ("ask", "ask-1"), ("reply", "It is due.")])
            .await
            .leads_to(),
        path
    );
    let again = bob.fill_in(&path, &[("action", "reply"), ("ask", "ask-1"), ("reply", "Still.")]).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.html);
    assert_eq!(ann.fill_in(&path, &[("action", "reject"), ("feedback", "too soon")]).await.leads_to(), path);
    let page = bob.get(&path).await;
    for text in [
        "<strong>0 of 2</strong> have accepted, 1 have not",
        "<strong>ann</strong>: reject",
        "too soon",
        "Why now?",
        "It is due.",
    ] {
        assert!(page.says(text), "{text}: {}", page.html);
    }
    assert_eq!(ann.fill_in(&path, &[("action", "accept")]).await.leads_to(), path);
    assert_eq!(bob.fill_in(&path, &[("action", "accept")]).await.leads_to(), path);
    assert!(bob.get(&path).await.says("Accepted"));
    assert_eq!(answer_of(&server, &run).await["resolvedBy"], "bob");
}

#[tokio::test]
async fn what_is_said_about_something_sensitive_is_for_those_who_decide_and_a_blank_reply_is_none() {
    let site = site();
    site.workflow(&letter(&json!({ "approversList": ["ann"] }), &json!({ "sensitive": true })));
    let keys = ["ann", "out"].map(|name| site.key("default").principal(name).make());
    let server = site.start(&["--test-clock"]);
    let (run, id) = asked(&server, "letter").await;
    let path = format!("/inbox/{run}/{id}");
    let (ann, out) = (Person::with_key(&server, &keys[0]).await, Person::with_key(&server, &keys[1]).await);
    ann.fill_in(&path, &[("action", "ask"), ("question", "Why now?")]).await.leads_to();
    let blank = ann.fill_in(&path, &[("action", "reply"), ("ask", "ask-1"), ("reply", " ")]).await;
    assert!(blank.status.is_client_error() && blank.says("Say something"), "{}", blank.html);
    let replied = [("action", "reply"), ("ask", "ask-1"), ("reply", "It is due.")];
    ann.fill_in(&path, &replied).await.leads_to();
    assert!(ann.get(&path).await.says("Why now?") && ann.get(&path).await.says("It is due."));
    let page = out.get(&path).await;
    assert!(page.says("Send it?") && !page.says("Why now?") && !page.says("It is due."), "{}", page.html);
}
