//! What a model says, put together from its pieces, and handed out as it comes.

use std::sync::Arc;
use std::time::Duration;

use abide_core::ChunkKind;
use abide_core::{ErrorKind, Json, Reasoning, ToolCall};
use abide_model::scripted::{Part, ScriptedProvider, Speech, Step};
use abide_model::{Chunk, Client, Protocol, ProviderEvent, Stopped};

use crate::{asked, question};

fn tool(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: serde_json::from_str(arguments).unwrap() }
}

#[tokio::test]
async fn an_answer_is_what_was_said_in_order() {
    for protocol in Protocol::ALL {
        let speech = Speech { text: ["so ", "it ", "goes"].map(str::to_owned).to_vec(), ..Speech::default() };
        let outcome = asked(protocol, Step::Say(speech)).await;
        assert_eq!(outcome.text(), "so it goes");
        assert!(outcome.chunks.last().is_some_and(|last| last.is_last));
        assert_eq!(outcome.chunks.iter().filter(|chunk| chunk.is_last).count(), 1);
        let answer = outcome.answer();
        assert_eq!((answer.content.as_str(), answer.model.as_deref()), ("so it goes", Some("scripted")));
        assert!(matches!(answer.stop_reason.as_deref(), Some("end_turn" | "stop")));
        assert_eq!((answer.reasoning, answer.tool_calls), (Vec::new(), Vec::new()));
    }
}

#[tokio::test]
async fn arguments_of_tools_are_put_together_from_pieces() {
    let calls = [tool("t1", "look", r#"{"at":["the","stars"],"n":1.50}"#), tool("t2", "stop", "{}")];
    for protocol in Protocol::ALL {
        let outcome = asked(protocol, Step::tool_calls(calls.clone())).await;
        assert_eq!(outcome.chunks, [], "nothing was said");
        let answer = outcome.answer();
        assert_eq!(answer.tool_calls, calls);
        assert!(matches!(answer.stop_reason.as_deref(), Some("tool_use" | "tool_calls")));
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_are_kept_as_a_text() {
    for protocol in Protocol::ALL {
        let answer = asked(protocol, Step::tool_calls([tool("t1", "look", "[1, 2]")])).await.answer();
        assert_eq!(answer.tool_calls[0].arguments, Json::of("[1, 2]"));
    }
}

#[tokio::test]
async fn gateways_that_do_not_count_or_name_calls_are_understood() {
    let delta =
        |calls: &str| format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{calls}]}}}}]}}\n\n");
    let step = Step::stream([
        delta(r#"{"id":"a","function":{"name":"look","arguments":"{\"x\""}}"#),
        delta(r#"{"function":{"arguments":":1}"}}"#),
        delta(r#"{"id":"b","function":{"name":"stop"}}"#),
        "data: [DONE]\n\n".to_owned(),
    ]);
    let answer = asked(Protocol::OpenAi, step).await.answer();
    assert_eq!(answer.tool_calls, [tool("a", "look", r#"{"x":1}"#), tool("b", "stop", "{}")]);
    let step = Step::stream([
        delta(r#"{"index":0,"id":"","function":{"name":"look","arguments":"{}"}}"#),
        "data: [DONE]\n\n".to_owned(),
    ]);
    assert_eq!(asked(Protocol::OpenAi, step).await.answer().tool_calls, [tool("call_0", "look", "{}")]);
}

#[tokio::test]
async fn reasoning_is_kept_with_what_the_provider_knows_it_by() {
    let speech = Speech { reasoning: vec!["h".to_owned(), "m".to_owned()], ..Speech::text("yes") };
    let outcome = asked(Protocol::Anthropic, Step::Say(speech.clone())).await;
    let kinds: Vec<_> = outcome.chunks.iter().map(|chunk| chunk.kind).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&ChunkKind::Reasoning), Some(&ChunkKind::Text)));
    assert_eq!(outcome.text(), "hmyes");
    let known = |signature: Option<&str>| Reasoning {
        text: "hm".to_owned(),
        signature: signature.map(str::to_owned),
        redacted: None,
    };
    assert_eq!(outcome.answer().reasoning, [known(Some("signed"))]);
    assert_eq!(asked(Protocol::OpenAi, Step::Say(speech)).await.answer().reasoning, [known(None)]);
}

#[tokio::test]
async fn reasoning_that_the_provider_keeps_to_itself_is_kept_as_it_came() {
    let mut events = Speech::text("yes").events(Protocol::Anthropic, "m");
    let block = r#"{"type":"content_block_start","index":9,"content_block":{"type":"redacted_thinking","data":"opaque"}}"#;
    events.insert(1, format!("data: {block}\n\n"));
    let outcome = asked(Protocol::Anthropic, Step::stream(events)).await;
    assert_eq!(outcome.text(), "yes");
    let redacted = Reasoning { redacted: Some("opaque".to_owned()), ..Reasoning::default() };
    assert_eq!(outcome.answer().reasoning, [redacted]);
}

#[tokio::test]
async fn what_is_not_known_is_passed_over() {
    let mut events = Speech::text("yes").events(Protocol::Anthropic, "m");
    for data in [
        r#"{"type":"brand_new"}"#,
        r#"{"type":"content_block_start","index":7,"content_block":{"type":"server_tool_use","id":"s","name":"n"}}"#,
        r#"{"type":"content_block_delta","index":7,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
        r#"{"type":"content_block_delta","index":7,"delta":{"type":"citations_delta","citation":{}}}"#,
    ] {
        events.insert(1, format!("id: 4\nretry: 1\ndata: {data}\n\n"));
    }
    let answer = asked(Protocol::Anthropic, Step::stream(events)).await.answer();
    assert_eq!((answer.content.as_str(), answer.tool_calls), ("yes", Vec::new()));
    let mut events = Speech::text("yes").events(Protocol::OpenAi, "m");
    events.insert(0, ": OPENROUTER PROCESSING\n\n".to_owned());
    events.insert(
        1,
        "data: {\"object\":\"brand.new\",\"choices\":null,\"usage\":null,\"error\":null}\n\n".to_owned(),
    );
    events.insert(2, "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"no\"}}]}\n\n".to_owned());
    assert_eq!(asked(Protocol::OpenAi, Step::stream(events)).await.answer().content, "yes");
}

#[tokio::test]
async fn the_first_words_are_handed_out_while_the_model_still_speaks() {
    let provider = ScriptedProvider::start();
    let mut parts: Vec<Part> =
        Speech::text("first").events(Protocol::OpenAi, "m").into_iter().map(Part::Text).collect();
    let words = parts.iter().position(|part| matches!(part, Part::Text(text) if text.contains("first")));
    parts.insert(words.unwrap() + 1, Part::Held);
    provider.script([Step::Stream(parts)]);
    let client = Client::new(Arc::new(provider.endpoint(Protocol::OpenAi))).unwrap();
    let mut seen = Vec::new();
    let mut sink = |chunk: Chunk| {
        if seen.is_empty() {
            provider.release();
        }
        seen.push(chunk.text);
        std::future::ready(Ok(()))
    };
    // It would wait for ever if the words were kept back until the answer is complete.
    let answer = client.call(None, &question(), &mut sink).await.unwrap();
    assert_eq!((answer.content.as_str(), seen), ("first", vec!["first".to_owned(), String::new()]));
}

#[tokio::test]
async fn whoever_does_not_want_to_hear_the_rest_ends_the_call() {
    let provider = ScriptedProvider::start();
    let speech = Speech::text("first").events(Protocol::OpenAi, "m");
    provider.script([Step::stream_then(speech[..2].to_vec(), Part::Hang)]);
    let client = Client::new(Arc::new(provider.endpoint(Protocol::OpenAi))).unwrap();
    let mut sink = |_| std::future::ready(Err(Stopped));
    let error = client.call(None, &question(), &mut sink).await.unwrap_err();
    assert_eq!((error.kind, error.had_content), (ErrorKind::Aborted, true));
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_the_provider() {
    let provider = ScriptedProvider::start();
    provider.usually(Step::Hang);
    let client = Client::new(Arc::new(provider.endpoint(Protocol::OpenAi))).unwrap();
    let call = tokio::spawn(async move {
        let mut sink = |_| std::future::ready(Ok(()));
        client.call(None, &question(), &mut sink).await
    });
    let provider = tokio::task::spawn_blocking(|| {
        provider.wait_for(1, Duration::from_secs(300));
        provider
    });
    let provider = provider.await.unwrap();
    assert_eq!(provider.in_flight(), 1);
    call.abort();
    while provider.in_flight() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn events_come_one_by_one_and_end() {
    let provider = ScriptedProvider::start();
    let client = Client::new(Arc::new(provider.endpoint(Protocol::OpenAi))).unwrap();
    let mut events = client.open(None, &question()).await;
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event.unwrap());
    }
    assert_eq!(seen.last(), Some(&ProviderEvent::End));
    assert!(seen.contains(&ProviderEvent::Text("ok".to_owned())));
}

#[tokio::test]
async fn connections_are_used_again() {
    let provider = ScriptedProvider::start();
    let client = Client::new(Arc::new(provider.endpoint(Protocol::Anthropic))).unwrap();
    let mut sink = |_| std::future::ready(Ok(()));
    for _ in 0..20 {
        client.call(None, &question(), &mut sink).await.unwrap();
    }
    assert_eq!(provider.count(), 20);
    assert!(provider.connections() < 20, "{} connections", provider.connections());
}

#[tokio::test]
async fn a_provider_answers_many_calls_at_once() {
    let provider = ScriptedProvider::start();
    let client = Arc::new(Client::new(Arc::new(provider.endpoint(Protocol::OpenAi))).unwrap());
    provider.script((0..200).map(|_| Step::Held(Box::new(Step::answer("now")))));
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut sink = |_| std::future::ready(Ok(()));
                client.call(None, &question(), &mut sink).await
            })
        })
        .collect();
    let provider = tokio::task::spawn_blocking(|| {
        provider.wait_for(200, Duration::from_secs(300));
        provider
    });
    let provider = provider.await.unwrap();
    assert_eq!((provider.in_flight(), provider.in_flight_max()), (200, 200));
    (0..200).for_each(|_| provider.release());
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().content, "now");
    }
    assert_eq!(provider.per_second().iter().sum::<usize>(), 200);
}

#[tokio::test]
async fn a_script_can_be_for_requests_that_say_something() {
    let provider = ScriptedProvider::start();
    provider.usually(Step::overloaded(529));
    provider.script_for("why?", [Step::answer("because")]);
    let endpoint = || provider.endpoint(Protocol::OpenAi);
    assert_eq!(crate::call(endpoint(), None, &question()).await.answer().content, "because");
    assert_eq!(crate::call(endpoint(), None, &question()).await.error().code.as_deref(), Some("529"));
    provider.recover();
    assert_eq!(crate::call(endpoint(), None, &question()).await.answer().content, "ok");
}
