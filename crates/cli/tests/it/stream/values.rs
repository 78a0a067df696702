//! The mode `values`: the state after each transition.

use super::*;

fn states(frames: &[Frame]) -> Vec<(u64, &str)> {
    frames
        .iter()
        .map(|frame| {
            assert_eq!(frame.event, "state.snapshot");
            assert_eq!(frame.data["payload"]["sequence"].as_u64(), frame.id, "the state as of its event");
            (frame.id.unwrap(), frame.data["payload"]["status"].as_str().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn a_state_follows_each_transition_and_the_last_is_how_the_run_stands() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = varied(&server).await;
    let shown = frames(&server, &run, "streamMode=values", None).await;
    let running = [0, 1, 3, 4, 6, 7, 10, 11, 12, 13, 14].map(|at| (at, "running"));
    assert_eq!(states(&shown)[..11], running);
    assert_eq!(states(&shown)[11..], [(15, "failed")]);
    let (_, mut now) = server.get(&format!("/v1/runs/{run}")).await;
    now.as_object_mut().unwrap().remove("childRuns");
    assert_eq!(shown.last().unwrap().data["payload"], now);
    let schema = schema(&server, "RunEvent").await;
    shown.iter().for_each(|frame| demand_valid(&schema, &frame.data));
}

#[tokio::test]
async fn whoever_comes_back_gets_the_state_there_and_then_the_rest() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = varied(&server).await;
    let all = frames(&server, &run, "streamMode=values", None).await;
    for last in 0..VARIED_EVENTS - 1 {
        let shown = frames(&server, &run, "streamMode=values", Some(&last.to_string())).await;
        assert_eq!((shown[0].id, &shown[0].data["payload"]["sequence"]), (Some(last), &json!(last)));
        let rest: Vec<Frame> = all.iter().filter(|frame| frame.id > Some(last)).cloned().collect();
        assert_eq!(shown[1..], rest, "{last}");
        if let Some(known) = all.iter().find(|frame| frame.id == Some(last)) {
            assert_eq!(shown[0], *known, "the state is the one that was told then");
        }
    }
    for last in ["15", "99"] {
        assert_eq!(frames(&server, &run, "streamMode=values", Some(last)).await, []);
    }
}

#[tokio::test]
async fn states_of_a_run_under_way_come_as_it_goes_on() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let path = format!("/v1/runs/{run}/events?streamMode=values");
    let mut fresh = Stream::open(&server, &path, None).await;
    let begin = [fresh.next().await.unwrap(), fresh.next().await.unwrap()];
    assert_eq!(states(&begin), [(0, "running"), (1, "running")]);
    let mut back = Stream::open(&server, &path, Some("50")).await;
    let baseline = [back.next().await.unwrap()];
    assert_eq!(states(&baseline), [(1, "running")], "the state as it is, beyond the end too");
    server.advance(HOUR_MS).await;
    assert_eq!(states(&fresh.rest().await), [(2, "running"), (3, "completed")]);
    assert_eq!(states(&back.rest().await), []);
}
