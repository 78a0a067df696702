//! What can be seen of messages and channels, by whom, and what can be done about it.

use super::*;

/// A receiver that refuses everything until it is told to relent.
async fn stubborn() -> (Receiver, std::sync::Arc<std::sync::atomic::AtomicBool>) {
    let relents = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let asked = relents.clone();
    let status =
        move |_: usize, _: &Post| if asked.load(std::sync::atomic::Ordering::SeqCst) { 204 } else { 400 };
    (Receiver::answering(status).await, relents)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_given_up_is_seen_and_sent_again() {
    let (receiver, relents) = stubborn().await;
    let site = site_with(&hook("hook", &receiver.url));
    let server = start(&site, &[]);
    let run = server.start_run("plain", json!({})).await;
    let dead = until_states(&server, &["dead"]).await.remove(0);
    assert!(dead["reason"].as_str().unwrap().contains("400"), "{dead}");
    let (_, listed) = server.get(&format!("/v1/notices?state=dead&run={run}")).await;
    assert_eq!(listed["notices"], json!([dead]));
    let metrics = server.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("abide_notices_dead_total 1.0"), "{metrics}");

    relents.store(true, std::sync::atomic::Ordering::SeqCst);
    let id = dead["deliveryId"].as_str().unwrap();
    let (status, resent) = server.post(&format!("/v1/notices/{id}:resend"), &json!({})).await;
    assert_eq!(status, StatusCode::OK, "{resent}");
    until_states(&server, &["sent"]).await;
    let posts = receiver.heard();
    assert_eq!(keys(&posts)[0], keys(&posts)[1]);
    for (path, code) in [
        (format!("/v1/notices/{id}:resend"), "notice_not_dead"),
        ("/v1/notices/00:resend".to_owned(), "notice_not_found"),
    ] {
        let (_, refused) = server.post(&path, &json!({})).await;
        assert_eq!(refused["error"], code, "{refused}");
    }
    for query in ["state=asleep", "run=nonsense", "cursor=x", "limit=0", "colour=red"] {
        let (status, refused) = server.get(&format!("/v1/notices?{query}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_no_channel_it_is_seen_that_nobody_was_told() {
    let site = site_with("");
    let server = start(&site, &[]);
    server.start_run("plain", json!({})).await;
    let notices = until_states(&server, &["unreachable"]).await;
    assert!(notices[0]["reason"].as_str().unwrap().contains("[channels]"), "{notices:?}");
    site.await_said("somebody is not told");
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_go_to_those_who_may_look_at_the_directory_and_messages_to_nobody_elses_tenant() {
    let receiver = Receiver::start().await;
    let site = site_with(&format!("[notify]\nallow = ['*@example.com']\n{}", hook("hook", &receiver.url)));
    site.workflow(&asking("told", json!({ "notify_to": "bob@example.com" })));
    let clerk = site.key("default").scopes("webhooks:manage").make();
    let reader = site.key("default").scopes("webhooks:manage,people:read").make();
    let stranger = site.new_key("elsewhere");
    let server = start(&site, &[]);
    server.start_run("told", json!({})).await;
    let id = until_states(&server, &["sent"]).await[0]["deliveryId"].as_str().unwrap().to_owned();
    for (key, recipient) in [(&clerk, Value::Null), (&reader, json!("bob@example.com"))] {
        let (status, page) = server.ask_as(key, Method::GET, "/v1/notices", None).await;
        assert_eq!((status, &page["notices"][0]["recipient"]), (StatusCode::OK, &recipient), "{page}");
    }
    let (_, page) = server.ask_as(&stranger, Method::GET, "/v1/notices", None).await;
    assert_eq!(page["notices"], json!([]));
    let path = format!("/v1/notices/{id}:resend");
    let (_, refused) = server.ask_as(&stranger, Method::POST, &path, Some(&json!({}))).await;
    assert_eq!(refused["error"], "notice_not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_are_shown_without_secrets_and_tried() {
    let receiver = Receiver::start().await;
    let broken = "http://127.0.0.1:9/";
    let settings = format!(
        "[notify]\ndefault = 'hook'\n{}internal = true\n{}",
        hook("hook", &receiver.url),
        hook("broken", broken)
    );
    let site = site_with(&settings);
    let server = start(&site, &[]);
    let (_, shown) = server.get("/v1/channels").await;
    let expected = json!([
        { "name": "broken", "type": "webhook", "internal": false, "tellsAll": false, "signsLinks": false, "default": false },
        { "name": "hook", "type": "webhook", "internal": true, "tellsAll": true, "signsLinks": true, "default": true },
    ]);
    assert_eq!(shown["channels"], expected);
    let test = async |channel: &str, body: Value| {
        server.post(&format!("/v1/channels/{channel}:test"), &body).await.1
    };
    assert_eq!(test("hook", json!({})).await["sent"], true);
    assert_eq!(receiver.heard()[0].json()["type"], "channel.tested");
    let failed = test("broken", json!({})).await;
    assert_eq!(failed["sent"], false);
    assert!(!failed["reason"].as_str().unwrap().contains(SECRET), "{failed}");
    assert_eq!(test("hook", json!({ "to": "eve@evil.example" })).await["sent"], false);
    assert_eq!(test("none", json!({})).await["error"], "channel_not_found");
    assert_eq!(receiver.heard().len(), 1);
    assert_eq!(until(&server, "nothing", |_| true).await, [] as [Value; 0]);
}
