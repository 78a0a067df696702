//! A subscriber that comes back across kill -9 misses nothing and sees nothing twice.

use super::*;

/// Runs that are followed, and how often their server is killed under them.
const RUNS: usize = 6;
const KILLS: usize = 5;

/// What a subscriber has of a run.
struct Heard {
    run: String,
    mode: &'static str,
    frames: Vec<Frame>,
}

/// Listens until the stream breaks off; `true` if it came to its end.
async fn listen(server: &Server, heard: &mut Heard) -> bool {
    let last = heard.frames.last().map(|frame| match heard.frames.len() % 2 {
        0 => frame.id.unwrap().to_string(),
        _ => frame.data["eventId"].as_str().unwrap().to_owned(),
    });
    let path = format!("/v1/runs/{}/events?streamMode={}", heard.run, heard.mode);
    let Ok(mut stream) = Stream::try_open(server, &path, last.as_deref()).await else { return false };
    loop {
        match stream.try_next().await {
            Ok(Some(frame)) => heard.frames.push(frame),
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_that_comes_back_after_each_kill_has_every_event_once() {
    let site = site();
    let mut server = site.start(&[]);
    let mut all = Vec::new();
    for ix in 0..RUNS {
        let run = server.start_run("durable", json!({})).await;
        all.push(Heard { run, mode: ["debug", "updates", "updates,messages"][ix % 3], frames: Vec::new() });
    }
    let (mut kills, mut broken) = (0, 0);
    loop {
        let heard_before: usize = all.iter().map(|heard| heard.frames.len()).sum();
        let listening = futures_util::future::join_all(all.iter_mut().map(|heard| listen(&server, heard)));
        if kills == KILLS {
            assert!(listening.await.into_iter().all(|ended| ended), "nobody kills it any more");
            break;
        }
        // Killed in the middle of it, when some new events were durable.
        let site_of = &site;
        let dying = async {
            let events = || site_of.count("SELECT count(*) FROM events");
            let from = events();
            while events() < from + 25 && !server_is_done(site_of) {
                tokio::task::yield_now().await;
            }
            server.signal(rustix::process::Signal::KILL);
        };
        let (ends, ()) = tokio::join!(listening, dying);
        broken += ends.iter().filter(|ended| !**ended).count();
        assert!(all.iter().map(|heard| heard.frames.len()).sum::<usize>() >= heard_before);
        kills += 1;
        drop(server);
        server = site.start(&[]);
    }
    assert!(broken > 0, "somebody was cut off");
    for heard in &all {
        let polled = server.events(&heard.run).await;
        let is_shown =
            |event: &&Value| heard.mode == "debug" || shown_in_updates(event["type"].as_str().unwrap());
        let expected: Vec<&Value> = polled.iter().filter(is_shown).collect();
        let got: Vec<&Value> = heard
            .frames
            .iter()
            .map(|frame| &frame.data)
            .filter(|event| event["type"] != "log.appended")
            .collect();
        assert_eq!(got, expected, "{}", heard.mode);
    }
}

fn shown_in_updates(kind: &str) -> bool {
    ["run.started", "run.completed", "node.completed"].contains(&kind)
}

/// Whether every run has ended, so that nothing more will happen.
fn server_is_done(site: &Site) -> bool {
    let ended = "SELECT count(*) FROM events WHERE type = 2";
    site.count(ended) == RUNS as u64
}
