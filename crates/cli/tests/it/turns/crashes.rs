//! The server is killed while a model is called: before anybody has heard a word, and after.

use super::*;
use crate::stream::Stream;

/// A step that stops before anything was said, and holds the connection.
fn silent(protocol: Protocol) -> [Step; 3] {
    let head = hello().events(protocol, "small")[0].clone();
    [Step::Hang, Step::stream_then([""], Part::Hang), Step::stream_then([head], Part::Hang)]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_before_the_first_word_makes_the_same_call_again_and_uses_no_attempt() {
    for protocol in [Protocol::Anthropic, Protocol::OpenAi] {
        let mut drill = Drill::with(protocol, "", &[asking("ask", json!({}))]);
        for quiet in silent(protocol) {
            drill.provider.forget();
            drill.provider.script([quiet.clone(), quiet, Step::overloaded(429)]);
            let run = drill.run("ask").await;
            for times in 1..=2 {
                drill.await_asked(times);
                drill.kill();
            }
            let wait = drill.await_retry(&run, 0).await;
            assert_eq!(wait["delayMs"], 5_000, "the crashes used no attempt: {wait}");
            drill.server.advance(5 * SECOND_MS).await;
            drill.demand_completed(&run, "ok").await;
            drill.await_asked(4);
            let asked = drill.provider.asked();
            assert!(asked.iter().all(|request| request.body == asked[0].body), "the same call");
            assert_eq!(drill.recorded(&run, "provider-retry").await.len(), 1);
            let view = drill.resume_view(&run).await;
            assert_eq!(view["interrupted"], false, "{view:#}");
        }
        verify(&drill.site.data());
    }
}

/// Starts a run whose model says `Hel` and no more, and gives it with somebody who has heard that.
async fn overheard(drill: &Drill, protocol: Protocol) -> (String, Stream) {
    drill.provider.script([stopping(protocol, &hello(), "Hel", Part::Hang)]);
    let run = drill.run("ask").await;
    let path = format!("/v1/runs/{run}/events?streamMode=messages");
    let mut stream = Stream::open(&drill.server, &path, None).await;
    let frame = stream.next().await.unwrap();
    let told = (frame.event.as_str(), &frame.data["payload"]["chunk"]);
    assert_eq!(told, ("ai.message.chunk", &json!("Hel")), "{frame:?}");
    (run, stream)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_after_a_word_was_heard_does_not_call_again_by_itself() {
    for protocol in [Protocol::Anthropic, Protocol::OpenAi] {
        let mut drill = Drill::with(protocol, "", &[asking("ask", json!({}))]);
        let (run, stream) = overheard(&drill, protocol).await;
        drop(stream);
        for _ in 0..2 {
            drill.kill();
            drill.demand_escalated(&run, "process_crash").await;
            drill.later(DAY_MS).await;
        }
        drill.await_asked(1);
        assert!(drill.recorded(&run, "provider-retry").await.is_empty());
        drill.provider.script([Step::Say(hello())]);
        drill.approve(&run).await;
        drill.demand_completed(&run, "Hello").await;
        drill.await_asked(2);
        let chunks = drill.recorded(&run, "ai.message.chunk").await;
        let told = [(1, "Hel".to_owned(), true), (2, "Hello".to_owned(), false)];
        assert_eq!(answers(&chunks), told, "two calls, two answers, and the first is marked as broken off");
        verify(&drill.site.data());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_listens_across_a_crash_can_tell_the_words_of_two_calls_apart() {
    // The author says that the step may be repeated, so the run goes on by itself.
    let settings = json!({ "abide": { "idempotent": true } });
    let mut drill = Drill::with(Protocol::OpenAi, "", &[asking("ask", settings)]);
    let (run, mut stream) = overheard(&drill, Protocol::OpenAi).await;
    drill.provider.script([Step::Say(hello())]);
    drill.server.die();
    let heard = stream.try_next().await;
    assert!(!matches!(heard, Ok(Some(_))), "nothing more was said: {heard:?}");
    drill.server = start(&drill.site);
    drill.later(MINUTE_MS).await;
    drill.demand_completed(&run, "Hello").await;
    drill.await_asked(2);
    let path = format!("/v1/runs/{run}/events?streamMode=messages");
    let whole = Stream::open(&drill.server, &path, None).await.rest().await;
    let first = whole[0].id.unwrap().to_string();
    let rest = Stream::open(&drill.server, &path, Some(&first)).await.rest().await;
    assert_eq!(rest, whole[1..], "nothing is missed and nothing comes twice");
    let chunks: Vec<Entry> = whole.iter().map(|frame| Entry::of(&frame.data)).collect();
    assert_eq!(answers(&chunks), [(1, "Hel".to_owned(), true), (2, "Hello".to_owned(), false)]);
    assert!(chunks.iter().all(|chunk| chunk.payload["meta"]["step"] == 0));
}
