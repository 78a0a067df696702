//! Coming back: from every place, and with batches.

use super::*;

#[tokio::test]
async fn whoever_comes_back_at_any_event_gets_exactly_the_rest() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = varied(&server).await;
    for mode in ["updates", "debug", "updates,messages", "messages"] {
        let query = format!("streamMode={mode}");
        let all = frames(&server, &run, &query, None).await;
        let after = |last: u64| all.iter().filter(|frame| frame.id > Some(last)).cloned().collect::<Vec<_>>();
        for last in 0..VARIED_EVENTS + 3 {
            let rest = frames(&server, &run, &query, Some(&last.to_string())).await;
            assert_eq!(rest, after(last), "{mode} {last}");
            let asked = format!("{query}&lastEventId={last}");
            assert_eq!(frames(&server, &run, &asked, None).await, after(last), "{mode} {last}");
        }
        for frame in &all {
            let (id, last) = (frame.data["eventId"].as_str().unwrap(), frame.id.unwrap());
            assert_eq!(frames(&server, &run, &query, Some(id)).await, after(last), "{mode} {id}");
            let asked = format!("{query}&lastEventId=0");
            assert_eq!(frames(&server, &run, &asked, Some(id)).await, after(last), "the header goes first");
        }
    }
}

#[tokio::test]
async fn a_live_stream_tells_what_happens_and_closes_behind_the_end() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let path = format!("/v1/runs/{run}/events?streamMode=debug");
    let mut whole = Stream::open(&server, &path, None).await;
    let beginning = [whole.next().await.unwrap(), whole.next().await.unwrap()];
    assert_eq!(told(&beginning), [("run.started", 0), ("node.started", 1)]);
    let resumed = Stream::open(&server, &path, Some("1")).await;
    let beyond = Stream::open(&server, &path, Some("1000")).await;
    server.advance(HOUR_MS).await;
    let expected = [("node.completed", 2), ("run.completed", 3)];
    assert_eq!(told(&whole.rest().await), expected);
    assert_eq!(told(&resumed.rest().await), expected);
    assert_eq!(told(&beyond.rest().await), [], "nothing came behind event 1000, and nothing will");
    for last in ["3", "1000"] {
        assert_eq!(frames(&server, &run, "", Some(last)).await, [], "an ended run has nothing more to tell");
    }
}

#[tokio::test]
async fn batches_hold_the_same_events() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = varied(&server).await;
    for mode in ["updates", "debug", "values"] {
        let query = format!("streamMode={mode}");
        let single = frames(&server, &run, &query, None).await;
        let batches = frames(&server, &run, &format!("{query}&bufferMs=5000"), None).await;
        assert!(batches.len() < single.len() && batches.iter().all(|frame| frame.event == "batch"));
        let mut flattened = Vec::new();
        for batch in &batches {
            let events = batch.data.as_array().unwrap();
            assert_eq!(events.last().unwrap()["sequence"].as_u64(), batch.id, "the id is the highest");
            flattened.extend(events.iter().cloned());
        }
        assert_eq!(flattened, single.iter().map(|frame| frame.data.clone()).collect::<Vec<_>>());
        let last = (VARIED_EVENTS - 1).to_string();
        assert_eq!(frames(&server, &run, &format!("{query}&bufferMs=1"), Some(&last)).await, [], "{mode}");
        assert_eq!(frames(&server, &run, &format!("{query}&bufferMs=0"), None).await, single);
    }
}

#[tokio::test]
async fn the_end_of_a_run_is_not_held_back_by_a_batch() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let stream = Stream::open(&server, &format!("/v1/runs/{run}/events?bufferMs=5000"), None).await;
    server.advance(HOUR_MS).await;
    let batches = stream.rest().await;
    let last = batches.last().unwrap().data.as_array().unwrap().last().unwrap();
    assert_eq!(last["type"], "run.completed");
}

#[tokio::test]
async fn a_server_that_stops_ends_its_streams_in_an_orderly_way() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let mut streams = Vec::new();
    for mode in ["updates", "values", "messages", "debug", "updates&bufferMs=5000"] {
        streams.push(Stream::open(&server, &format!("/v1/runs/{run}/events?streamMode={mode}"), None).await);
    }
    let status = tokio::task::spawn_blocking(move || server.stop()).await.unwrap();
    assert!(status.success());
    for stream in streams {
        let shown = stream.rest().await;
        assert!(shown.iter().all(|frame| frame.event != "run.completed"), "{shown:?}");
    }
}

#[tokio::test]
async fn erased_events_are_shown_without_what_they_said() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = varied(&server).await;
    let before = frames(&server, &run, "streamMode=debug", None).await;
    let (status, _) = server.post(&format!("/v1/runs/{run}/erase"), &json!({})).await;
    assert_eq!(status, StatusCode::OK);
    let after = frames(&server, &run, "streamMode=debug", None).await;
    assert_eq!(told(&after), told(&before));
    assert!(after.iter().all(|frame| frame.data["payload"].is_null()));
    let schema = schema(&server, "RunEvent").await;
    after.iter().for_each(|frame| demand_valid(&schema, &frame.data));
    let states = frames(&server, &run, "streamMode=values", None).await;
    assert_eq!(told(&states), [("state.snapshot", VARIED_EVENTS - 1)]);
    assert_eq!(states[0].data["payload"]["erased"], true);
}
