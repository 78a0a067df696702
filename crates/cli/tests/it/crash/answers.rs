//! Many answer one interrupt at once while the server is killed: one answer wins, it is the one that the node gets, and
//! whoever was told so was told the truth, after the next start too.
//!
//! `ABIDE_RACE_ROUNDS` sets the number of races, for a big run by hand; `ABIDE_CRASH_SEED` repeats the choices.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::dice::Dice;
use super::{expect_quiet, from_environment, seed};
use crate::support::{PATIENCE, Server, Site, node, verify, workflow};

/// Races in one go of the test.
const ROUNDS: u64 = 20;

/// How many answer at once.
const CLIENTS: usize = 64;

/// Asks for anything, and keeps what it got where it can be seen.
pub(crate) fn race() -> Value {
    let asks = json!({ "kind": "custom", "data": { "customKind": "race" } });
    let got = json!({ "got": { "type": "connection", "nodeId": "gate", "outputKey": "resumeValue" } });
    let nodes = [
        node("gate", "core.interrupt", asks, json!({}), json!({})),
        node("keep", "core.transform", json!({ "assign": { "won": "inputs.got" } }), got, json!({})),
    ];
    let variables = json!([{ "name": "won", "type": "number", "defaultValue": -1 }]);
    workflow("race", &nodes, &[("gate", "keep")], variables)
}

/// When the server dies in a race.
#[derive(Clone, Copy, Debug)]
enum Death {
    Never,
    /// As soon as somebody was told that their answer was taken.
    AfterTheWin,
    /// After so many answers of any kind.
    After(usize),
    /// By its own hand, the n-th time that it passes a window.
    Failpoint(&'static str, u64),
}

impl Death {
    fn choose(round: u64, dice: &mut Dice) -> Self {
        match round % 5 {
            0 => Self::Never,
            1 => Self::AfterTheWin,
            2 => Self::After(dice.below(CLIENTS as u64) as usize),
            // The first commit of the process is the start of the run, the second takes the answer.
            3 => Self::Failpoint("decide-commit", 2),
            _ => Self::Failpoint("commit-acknowledge", 2),
        }
    }
}

/// Where the server is, if it is anywhere.
#[derive(Clone)]
struct Address {
    url: String,
    key: String,
}

/// What the clients of one race have been told so far.
#[derive(Default)]
struct Told {
    answers: AtomicUsize,
    wins: AtomicUsize,
}

/// Somebody who answers until they know what became of it.
struct Client {
    http: reqwest::Client,
    address: watch::Receiver<Option<Address>>,
    path: String,
    number: usize,
    told: Arc<Told>,
}

impl Client {
    async fn answer(mut self) -> (usize, StatusCode, Value) {
        let key = format!("client-{}-{}", self.number, self.path.replace('/', "-"));
        loop {
            let Address { url, key: secret } =
                self.address.wait_for(Option::is_some).await.unwrap().clone().unwrap();
            let request = self.http.post(format!("{url}{}", self.path)).bearer_auth(secret);
            let request = request.header("Idempotency-Key", &key).timeout(PATIENCE);
            let Some((status, body)) = sent(request.json(&json!({ "resumeValue": self.number }))).await
            else {
                // Nobody knows whether it was taken: it is sent again under the same key.
                tokio::task::yield_now().await;
                continue;
            };
            if status == StatusCode::OK {
                self.told.wins.fetch_add(1, Ordering::SeqCst);
            }
            self.told.answers.fetch_add(1, Ordering::SeqCst);
            return (self.number, status, body);
        }
    }
}

/// An answer, unless the server died before it was whole.
async fn sent(request: reqwest::RequestBuilder) -> Option<(StatusCode, Value)> {
    let response = request.send().await.ok()?;
    let status = response.status();
    let text = response.text().await.ok()?;
    Some((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
}

/// The site of all races, and the server that lives at the moment.
struct Track {
    site: Site,
    server: Option<Server>,
    address: watch::Sender<Option<Address>>,
    http: reqwest::Client,
}

impl Track {
    fn start(&mut self, flags: &[&str]) -> &Server {
        let server = tokio::task::block_in_place(|| self.site.start(flags));
        self.address.send_replace(Some(Address { url: server.url.clone(), key: server.key.clone() }));
        self.server.insert(server)
    }

    /// Waits for the end of the server, or makes it.
    async fn bury(&mut self, death: Death) {
        let mut server = self.server.take().unwrap();
        match death {
            Death::Failpoint(..) => {
                server.exit().await;
            }
            _ => server.kill(),
        }
        self.address.send_replace(None);
        expect_quiet(&self.site);
    }

    /// One race. Gives the run and the number of the client that won.
    async fn race(&mut self, death: Death) -> (String, usize) {
        if let Death::Failpoint(window, nth) = death {
            self.server.take().into_iter().for_each(Server::kill);
            self.start(&[&format!("--failpoint={window}={nth}")]);
        }
        if self.server.is_none() {
            self.start(&[]);
        }
        let run = self.server.as_ref().unwrap().start_run("race", json!({})).await;
        let (told, mut clients) = (Arc::new(Told::default()), JoinSet::new());
        for number in 0..CLIENTS {
            let client = Client {
                http: self.http.clone(),
                address: self.address.subscribe(),
                path: format!("/v1/runs/{run}/interrupts/gate"),
                number,
                told: told.clone(),
            };
            clients.spawn(client.answer());
        }
        self.kill_at(death, &told).await;
        let mut answers = Vec::new();
        while let Some(answer) = clients.join_next().await {
            answers.push(answer.unwrap());
        }
        (run.clone(), winner(&run, &answers))
    }

    async fn kill_at(&mut self, death: Death, told: &Told) {
        let is_time = || match death {
            Death::Never => false,
            Death::AfterTheWin => told.wins.load(Ordering::SeqCst) > 0,
            Death::After(answers) => told.answers.load(Ordering::SeqCst) >= answers,
            Death::Failpoint(..) => true,
        };
        if matches!(death, Death::Never) {
            return;
        }
        while !is_time() {
            tokio::task::yield_now().await;
        }
        self.bury(death).await;
        self.start(&[]);
    }
}

/// Who won, if exactly one did and all others were told that they came too late.
fn winner(run: &str, answers: &[(usize, StatusCode, Value)]) -> usize {
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|(_, status, _)| *status == StatusCode::OK);
    let [(winner, _, body)] = won[..] else { panic!("{} were told that they won {run}", won.len()) };
    assert_eq!((&body["runId"], &body["nodeId"]), (&json!(run), &json!("gate")), "{body}");
    for (_, status, body) in lost {
        assert_eq!((status.as_u16(), &body["error"]), (409, &json!("interrupt_already_resolved")), "{body}");
    }
    *winner
}

/// The value that won is the value that the node got, and it was taken once.
async fn check(server: &Server, run: &str, winner: usize) {
    let events = server.events(run).await;
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    let (requested, resolved) = (of("interrupt.requested"), of("interrupt.resolved"));
    assert_eq!((requested.len(), resolved.len()), (1, 1), "{run}: {events:#?}");
    assert_eq!(resolved[0]["payload"]["resumeValue"], winner, "{run}");
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(
        (&shown["status"], &shown["variables"]["won"]),
        (&json!("completed"), &json!(winner)),
        "{shown:#}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_answers_at_once_one_wins_and_it_is_the_one_that_counts() {
    let (seed, rounds) = (seed(), from_environment("ABIDE_RACE_ROUNDS").unwrap_or(ROUNDS));
    println!("ABIDE_CRASH_SEED={seed} ABIDE_RACE_ROUNDS={rounds}");
    let mut dice = Dice::new(seed);
    let site = Site::new();
    site.workflow(&race());
    let address = watch::Sender::new(None);
    let mut track = Track { site, server: None, address, http: reqwest::Client::new() };
    let mut winners = Vec::new();
    for round in 0..rounds {
        let death = Death::choose(round, &mut dice);
        let (run, winner) = track.race(death).await;
        check(track.server.as_ref().unwrap(), &run, winner).await;
        winners.push((run, winner));
    }
    track.bury(Death::Never).await;
    let server = tokio::task::block_in_place(|| track.site.start(&[]));
    for (run, winner) in &winners {
        check(&server, run, *winner).await;
    }
    let (_, inbox) = server.get("/v1/interrupts").await;
    assert_eq!(inbox["counts"]["total"], 0, "{inbox}");
    assert!(server.stop().success());
    assert_eq!(verify(&track.site.data()), rounds);
    println!("{rounds} races of {CLIENTS}");
}
