//! The real binary under load, killed with -9 over and over: every run ends, nothing is lost or doubled,
//! and nothing that was acknowledged is forgotten.
//!
//! `ABIDE_CRASH_SEED` repeats the choices of a run, though not its timing. `ABIDE_CRASH_ROUNDS` sets the
//! number of kills, for a big run by hand.

mod answers;
mod containers;
mod dice;
mod families;
mod forks;
mod journals;
mod ladder;
mod load;
mod openintent;
mod replay;
mod webhooks;
mod workflows;

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Instant;

use futures_util::{StreamExt, stream};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{PATIENCE, Server, Site, answer, verify};
pub(crate) use answers::race;
pub(crate) use dice::Dice;
use journals::{Disk, SWEEP};
use load::{Load, has_ended};
use workflows::{Kind, lanes, parked};

/// Kills in one go of the test.
const ROUNDS: usize = 54;

/// Acknowledged requests after which a failpoint that has not fired never will.
const FAILPOINT_REQUESTS_MAX: u64 = 2000;

/// Requests that the test itself has under way at once.
const AT_ONCE: usize = 16;

/// How often a server under load is asked to stop.
const DRAINS: usize = 8;

/// How a server meets its end.
#[derive(Clone, Copy)]
enum Death {
    /// By its own hand, the n-th time that it passes a window.
    Failpoint(&'static str, u64),
    /// By the test, after so many acknowledged requests.
    Random(u64),
}

impl Death {
    fn moment(self) -> &'static str {
        match self {
            Self::Failpoint(window, _) => window,
            Self::Random(_) => RANDOM,
        }
    }

    fn flags(self) -> Option<String> {
        match self {
            Self::Failpoint(window, nth) => Some(format!("--failpoint={window}={nth}")),
            Self::Random(_) => None,
        }
    }
}

const WINDOWS: [&str; 3] = ["decide-commit", "commit-acknowledge", "effect-report"];

const RANDOM: &str = "random moment";

/// Who will die how, in an order that the seed decides. Each window gets two of nine, chance the rest.
fn plan(rounds: usize, dice: &mut Dice) -> Vec<Death> {
    let mut deaths: Vec<Death> = (0..rounds)
        .map(|round| match WINDOWS.get(round % 9 / 2) {
            // Some at the first chance, which for a timer or a task is while the server recovers.
            Some(window) => Death::Failpoint(window, 1 + dice.below([1, 8, 32, 128][round / 9 % 4])),
            None => Death::Random(dice.below(256)),
        })
        .collect();
    for at in (1..deaths.len()).rev() {
        deaths.swap(at, dice.below(at as u64 + 1) as usize);
    }
    deaths
}

/// Deaths at one kind of moment.
#[derive(Default)]
struct Deaths {
    by_failpoint: usize,
    by_test: usize,
}

/// What the test did, for people.
#[derive(Default)]
struct Tally {
    deaths: BTreeMap<&'static str, Deaths>,
    acknowledged: usize,
    cancels: u64,
    cleared_up: u64,
    repeated: u64,
    runs: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:20} {:>5} {:>12} {:>8}", "window", "kills", "by failpoint", "by test")?;
        for (moment, deaths) in &self.deaths {
            let Deaths { by_failpoint, by_test } = deaths;
            // Whoever had to be killed because its failpoint never fired did not die in the window.
            let kills = if *moment == RANDOM { by_test } else { by_failpoint };
            writeln!(f, "{moment:20} {kills:>5} {by_failpoint:>12} {by_test:>8}")?;
        }
        write!(
            f,
            "{} runs acknowledged, {} runs in all, {} cancels acknowledged, {} starts cleared up after a kill, \
             {} repeated",
            self.acknowledged, self.runs, self.cancels, self.cleared_up, self.repeated
        )
    }
}

pub(crate) fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a whole number, not '{text}'")))
}

pub(crate) fn seed() -> u64 {
    let clock = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    from_environment("ABIDE_CRASH_SEED").unwrap_or(clock)
}

fn site() -> Site {
    let site = Site::new();
    for kind in Kind::ALL {
        site.workflow(&kind.definition());
    }
    site
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_was_acknowledged_survives_kill_9() {
    let (began, seed) = (Instant::now(), seed());
    let rounds = from_environment("ABIDE_CRASH_ROUNDS").map_or(ROUNDS, |rounds| rounds as usize);
    println!("ABIDE_CRASH_SEED={seed} ABIDE_CRASH_ROUNDS={rounds}");
    let mut dice = Dice::new(seed);
    let (site, mut tally) = (site(), Tally::default());
    let plan = plan(rounds, &mut dice);
    let (load, mut clients) = Load::begin(&mut dice);
    for death in plan {
        let deaths = tally.deaths.entry(death.moment()).or_default();
        match round(&site, &load, &mut clients, death).await {
            Cause::Failpoint => deaths.by_failpoint += 1,
            Cause::Test => deaths.by_test += 1,
        }
    }
    load.finish(clients).await;
    println!("killed {rounds} times in {:.1?}", began.elapsed());
    let ended = end_well(&site, &load).await;
    tally.runs = ended.runs;
    tally.acknowledged = load.memory().runs.len();
    {
        let memory = load.memory();
        (tally.cancels, tally.cleared_up, tally.repeated) =
            (memory.cancels, memory.cleared_up, memory.repeated);
    }
    println!("{tally}\n{} were under way at the last; all in {:.1?}", ended.under_way, began.elapsed());
    assert!(tally.cleared_up > 0 && tally.repeated > 0, "no request was sent again");
    for window in WINDOWS {
        let fired = tally.deaths.get(window).map_or(0, |deaths| deaths.by_failpoint);
        assert!(fired > 0, "nobody was killed in the window {window}");
    }
}

/// Who killed the server.
enum Cause {
    Failpoint,
    Test,
}

/// One life of a server under load, to its end.
async fn round(site: &Site, load: &Load, clients: &mut JoinSet<()>, death: Death) -> Cause {
    let flags = death.flags();
    let flags: Vec<&str> = flags.as_deref().into_iter().collect();
    let started = tokio::task::block_in_place(|| site.try_start(&flags));
    let cause = match started {
        // It was killed by its own recovery, before it listened.
        Err(status) => expect_failpoint(status, site, death),
        Ok(mut server) => {
            load.connect(&server);
            let died = tokio::select! {
                status = live(&mut server, load, death) => status,
                client = clients.join_next() => panic!("a client gave up: {client:?}\n{}", site.said()),
            };
            load.disconnect();
            match died {
                Some(status) => expect_failpoint(status, site, death),
                None => kill(server, death),
            }
        }
    };
    expect_quiet(site);
    cause
}

/// Lets the server live until it dies or is to be killed.
async fn live(server: &mut Server, load: &Load, death: Death) -> Option<ExitStatus> {
    let requests = match death {
        Death::Failpoint(..) => FAILPOINT_REQUESTS_MAX,
        Death::Random(requests) => requests,
    };
    tokio::select! {
        status = server.exit() => Some(status),
        () = load.acknowledge(requests) => None,
    }
}

fn kill(mut server: Server, death: Death) -> Cause {
    let armed = matches!(death, Death::Failpoint(..));
    assert!(armed || !server.has_died(), "the server died by itself");
    server.kill();
    Cause::Test
}

fn expect_failpoint(status: ExitStatus, site: &Site, death: Death) -> Cause {
    let armed = matches!(death, Death::Failpoint(..));
    assert!(armed && status.signal() == Some(9), "the server ended with {status}: {}", site.said());
    Cause::Failpoint
}

/// A server that lives with kills has nothing to complain about, and no panic to hide.
fn expect_quiet(site: &Site) {
    let said = site.said();
    let complains = said.contains(" ERROR ") || said.contains(" WARN ") || said.contains("panicked");
    assert!(!complains, "the server complained: {said}");
}

/// What there was to end.
struct Ended {
    runs: usize,
    under_way: usize,
}

/// Starts a server that nobody kills, and sees to it that every run ends and all is as it should be.
async fn end_well(site: &Site, load: &Load) -> Ended {
    let server = tokio::task::block_in_place(|| site.start(&[]));
    let listed = list(&server).await;
    let unended: Vec<&Listed> = listed.values().filter(|run| !has_ended(&run.status)).collect();
    let under_way = unended.len();
    let deadline = Instant::now() + PATIENCE;
    stream::iter(unended).for_each_concurrent(AT_ONCE, |run| end(site, &server, run, deadline)).await;
    let listed = list(&server).await;
    stop(site, server).await;
    let verified = verify_within(site);
    let disk = Disk::read(&site.data());
    let mut findings = disk.findings(&load.memory());
    for (run, journal) in &disk.runs {
        let shown = listed.get(run).map(|it| (it.status.as_str(), it.events));
        if shown != Some((journal.status.as_str(), journal.len() as i64)) || !has_ended(&journal.status) {
            findings.push(format!("{run}: listed as {shown:?}, but it is {}", journal.text()));
        }
    }
    assert!(
        findings.is_empty(),
        "{} findings:\n{}",
        findings.len(),
        findings[..findings.len().min(10)].join("\n")
    );
    assert_eq!((listed.len(), verified), (disk.runs.len(), disk.runs.len() as u64));
    assert_eq!((disk.timers, disk.tasks, disk.outbox), (0, 0, 0), "something is left over");
    Ended { runs: disk.runs.len(), under_way }
}

/// Waits for the end of a run, which for some has to be asked for.
async fn end(site: &Site, server: &Server, run: &Listed, deadline: Instant) {
    if run.workflow == Kind::Long.id() {
        let path = format!("/v1/runs/{}/cancel", run.id);
        let (status, said) = promptly(server.post(&path, &json!({ "reason": SWEEP }))).await;
        assert_eq!(status, StatusCode::OK, "{said}");
    }
    await_end(site, server, &run.id, deadline).await;
}

async fn await_end(site: &Site, server: &Server, run: &str, deadline: Instant) {
    let path = format!("/v1/runs/{run}/events/poll?timeout=1&lastSequence=1000000");
    loop {
        let (status, page) = promptly(server.get(&path)).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        if page["isComplete"] == true {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{run} is stuck: {}{}",
            Disk::read(&site.data()).runs[run].text(),
            site.said()
        );
    }
}

/// A run as a list shows it.
#[derive(Debug, PartialEq)]
struct Listed {
    id: String,
    workflow: String,
    status: String,
    events: i64,
}

/// Every run that the server lists, page by page.
async fn list(server: &Server) -> BTreeMap<String, Listed> {
    list_only(server, "").await
}

/// Those runs that fit.
async fn list_only(server: &Server, filter: &str) -> BTreeMap<String, Listed> {
    let mut listed = BTreeMap::new();
    let mut cursor = String::new();
    loop {
        let (status, page) = promptly(server.get(&format!("/v1/runs?limit=500{filter}{cursor}"))).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        for run in page["runs"].as_array().unwrap() {
            let text = |name: &str| run[name].as_str().unwrap().to_owned();
            let (id, workflow, status) = (text("runId"), text("workflowId"), text("status"));
            let events = run["events"].as_i64().unwrap();
            let entry = Listed { id: id.clone(), workflow, status, events };
            assert!(listed.insert(id, entry).is_none(), "listed twice: {run}");
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return listed,
        }
    }
}

/// An answer from a server that lives.
async fn promptly(answer: impl Future<Output = (StatusCode, Value)>) -> (StatusCode, Value) {
    tokio::time::timeout(PATIENCE, answer).await.expect("the server answers")
}

/// Stops the server as an operator would.
async fn stop(site: &Site, mut server: Server) {
    server.terminate();
    let status = server.exit().await;
    assert!(status.success(), "the server ended with {status}: {}", site.said());
    expect_quiet(site);
}

/// `abide verify`, with an end to its time.
fn verify_within(site: &Site) -> u64 {
    let (data, (send, receive)) = (site.data(), std::sync::mpsc::channel());
    std::thread::spawn(move || send.send(verify(&data)));
    receive.recv_timeout(PATIENCE).expect("the data verifies in time")
}

/// Runs parked on a timer that is far away.
const PARKED: usize = 3000;

/// Tasks that are under way when the server dies, and how many follow each of them.
const LANES: usize = 300;
const LANE_LENGTH: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_after_a_kill_serves_at_once() {
    let site = Site::new();
    site.workflow(&parked()).workflow(&lanes(LANES, LANE_LENGTH));
    // Nobody passes this window before the first task is performed: all are under way then.
    let mut server = tokio::task::block_in_place(|| site.start(&["--failpoint=effect-report=1"]));
    stream::iter(0..PARKED)
        .for_each_concurrent(AT_ONCE, |_| async {
            promptly(started(&server, "parked")).await;
        })
        .await;
    let before = list(&server).await;
    let start = server.request(Method::POST, "/v1/runs").timeout(PATIENCE);
    // It is killed on the way, so there may be an answer or not.
    let _ = answer(start.json(&json!({ "workflowId": "lanes" }))).await;
    let status = server.exit().await;
    assert_eq!(status.signal(), Some(9), "{}", site.said());
    let disk = Disk::read(&site.data());
    assert_eq!((disk.timers, disk.leased), (PARKED as i64, LANES as i64));

    let began = Instant::now();
    let server = tokio::task::block_in_place(|| site.start(&[]));
    let up = began.elapsed();
    let some = before.keys().next().unwrap();
    let (status, shown) = promptly(server.get(&format!("/v1/runs/{some}"))).await;
    assert_eq!((status, &shown["status"]), (StatusCode::OK, &json!("running")));
    let (_, fresh) = promptly(started(&server, "parked")).await;
    let served = began.elapsed();
    let lanes = find_lanes(&server).await;
    assert_eq!(lanes.status, "running", "the recovery was over before anybody asked");
    await_end(&site, &server, &lanes.id, Instant::now() + PATIENCE).await;
    println!("listening after {up:.1?}, served after {served:.1?}, recovered after {:.1?}", began.elapsed());

    let mut after = list(&server).await;
    stop(&site, server).await;
    assert_eq!(after.remove(&lanes.id).unwrap().status, "completed");
    assert!(after.remove(fresh["runId"].as_str().unwrap()).is_some());
    assert_eq!(after, before, "the parked runs are as they were");
    assert_eq!(verify_within(&site), PARKED as u64 + 2);
    let disk = Disk::read(&site.data());
    assert_eq!((disk.timers, disk.tasks), (PARKED as i64 + 1, 0));
}

async fn started(server: &Server, workflow: &str) -> (StatusCode, Value) {
    let (status, body) = server.post("/v1/runs", &json!({ "workflowId": workflow })).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    (status, body)
}

/// The one run of the workflow with the tasks. Nobody may have been told its id.
async fn find_lanes(server: &Server) -> Listed {
    list_only(server, "&workflowId=lanes").await.into_values().next().expect("it was on disk")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_drains() {
    let seed = seed();
    println!("ABIDE_CRASH_SEED={seed}");
    let mut dice = Dice::new(seed);
    let site = site();
    let (load, clients) = Load::begin(&mut dice);
    load.expect_draining();
    for _ in 0..DRAINS {
        let server = tokio::task::block_in_place(|| site.start(&[]));
        load.connect(&server);
        let requests = 1 + dice.below(256);
        tokio::time::timeout(PATIENCE, load.acknowledge(requests))
            .await
            .expect("the requests are acknowledged");
        stop(&site, server).await;
        load.disconnect();
        let log = std::fs::metadata(site.data().join("abide.db-wal")).map_or(0, |log| log.len());
        assert_eq!(log, 0, "the log was not folded into the file");
        let disk = Disk::read(&site.data());
        assert_eq!(disk.leased, 0, "a task is left that was under way");
    }
    load.finish(clients).await;
    let disk = Disk::read(&site.data());
    let findings = disk.findings(&load.memory());
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    assert_eq!(verify_within(&site), disk.runs.len() as u64);
    let ended = end_well(&site, &load).await;
    println!("stopped {DRAINS} times: {} of {} runs were under way at the last", ended.under_way, ended.runs);
}
