//! Outages: hundreds of turns whose provider is away. What it sees meanwhile, and how they come back.
//!
//! The clock stands unless a test moves it, and the provider answers when it is told to: so everything that happens is
//! counted, and nothing depends on how fast the machine is.

use std::time::Instant;

use abide_model::Protocol;
use abide_model::scripted::{ScriptedProvider, Step};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Server, Site, node, verify, workflow};

/// Calls that a breaker wants to see before it opens.
const OPENS_AFTER: usize = 10;

/// What the provider says when it is back.
const SAID: &str = "Something.";

/// How many turns are woken at once when a provider is back.
const WOKEN_AT_FIRST: usize = 4;

/// A provider that is away, a server whose runs depend on it, and those runs.
struct Outage {
    provider: ScriptedProvider,
    site: Site,
    server: Server,
    runs: Vec<String>,
}

impl Outage {
    /// So many runs whose turns all wait for the breaker, which has just opened.
    async fn begin(runs: usize) -> Self {
        let provider = ScriptedProvider::start();
        provider.usually(Step::overloaded(529));
        let site = Site::new();
        let url = provider.base_url(Protocol::OpenAi);
        let config =
            format!("[providers.main]\nkind = \"openai\"\nbase-url = \"{url}\"\nmodel = \"small\"\n");
        std::fs::write(site.path("abide.toml"), config).unwrap();
        let turn = node("turn", "core.llm.chat", json!({ "prompt": "Say something." }), json!({}), json!({}));
        site.workflow(&workflow("ask", &[turn], &[], json!([])));
        let server = start(&site);
        let mut outage = Self { provider, site, server, runs: Vec::new() };
        outage.start_runs(OPENS_AFTER).await;
        outage.until_waiting(OPENS_AFTER).await;
        assert_eq!(outage.breaker().await["state"], "open");
        outage.start_runs(runs - OPENS_AFTER).await;
        outage.until_waiting(runs).await;
        assert_eq!(outage.provider.count(), OPENS_AFTER, "the others did not even ask");
        // Those that asked wait for their own next try first; when that has come, they are refused.
        outage.server.advance(5_000).await;
        outage.until("all wait for the breaker", async |outage| outage.postponed().await == runs).await;
        assert_eq!(outage.provider.count(), OPENS_AFTER);
        outage.provider.forget();
        outage
    }

    async fn start_runs(&mut self, count: usize) {
        for _ in 0..count {
            self.runs.push(self.server.start_run("ask", json!({})).await);
        }
    }

    async fn told(&self) -> Value {
        let (status, told) = self.server.get("/v1/providers").await;
        assert_eq!(status, StatusCode::OK, "{told}");
        told["providers"][0].clone()
    }

    async fn breaker(&self) -> Value {
        self.told().await["breaker"].clone()
    }

    async fn postponed(&self) -> usize {
        count(&self.told().await["waiting"]["postponed"])
    }

    /// How many turns wait for their provider, for their own next try or for the breaker.
    async fn waiting(&self) -> usize {
        let told = self.told().await;
        count(&told["waiting"]["postponed"]) + count(&told["waiting"]["retry"])
    }

    /// Waits until so many turns wait. If these are all, nothing happens before the clock is moved.
    async fn until_waiting(&self, turns: usize) {
        self.until("they wait", async |outage| outage.waiting().await == turns).await;
    }

    async fn until(&self, what: &str, holds: impl AsyncFn(&Self) -> bool) {
        let began = Instant::now();
        while !holds(self).await {
            let told = self.told().await;
            let (asked, open) = (self.provider.count(), self.provider.in_flight());
            assert!(
                began.elapsed() < PATIENCE,
                "waited for: {what}; {asked} asked, {open} of them open, {told:#}"
            );
            tokio::task::yield_now().await;
        }
    }

    /// Waits until the provider has so many requests that it did not answer, and was asked so often in all.
    async fn until_asked(&self, in_flight: usize, in_all: usize) {
        let asked = async |outage: &Self| {
            outage.provider.in_flight() == in_flight && outage.provider.count() == in_all
        };
        self.until(&format!("{in_flight} requests of {in_all}"), asked).await;
    }

    /// Moves the clock to the end of the cool-down, when the next may probe.
    async fn cool_down(&self) {
        let (breaker, (_, clock)) = (self.breaker().await, self.server.get("/v1/dev/clock").await);
        let until: jiff::Timestamp = breaker["openUntil"].as_str().unwrap().parse().unwrap();
        self.server.advance(until.as_millisecond() - clock["nowMs"].as_i64().unwrap()).await;
    }

    /// Waits for the probe, which is this request, and lets go of it when nobody else does anything.
    async fn answer_probe(&self, request: usize) {
        self.until_asked(1, request).await;
        // Whose own try has come meanwhile is refused: the probe is somebody else.
        let others = self.runs.len() - 1;
        self.until("all others wait", async |outage| outage.postponed().await == others).await;
        self.answer(1);
    }

    /// Lets go of so many requests that are held.
    fn answer(&self, requests: usize) {
        (0..requests).for_each(|_| self.provider.release());
    }

    /// Kills the server as `kill -9` does while so many requests are held, and starts another one.
    async fn kill(&mut self, held: usize) {
        assert_eq!(self.provider.in_flight(), held);
        self.server.die();
        let began = Instant::now();
        while self.provider.in_flight() > 0 {
            assert!(began.elapsed() < PATIENCE, "the provider does not notice");
            tokio::task::yield_now().await;
        }
        // Nobody waits for these any more.
        self.answer(held);
        self.server = start(&self.site);
    }

    /// Everybody has completed, once; nobody waits, and the data is sound.
    async fn demand_completed(self) {
        for run in &self.runs {
            let events = self.server.events(run).await;
            let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
            let ends = ["run.completed", "run.failed", "run.cancelled"].map(|kind| of(kind).len());
            assert_eq!((ends, of("node.completed").len()), ([1, 0, 0], 1), "{events:#?}");
            assert_eq!(of("provider.usage").len(), 1, "{events:#?}");
            let said =
                of("ai.message.chunk").into_iter().map(|event| event["payload"]["chunk"].as_str().unwrap());
            assert_eq!(said.collect::<String>(), SAID, "{events:#?}");
        }
        assert_eq!(self.waiting().await, 0);
        assert_eq!(self.breaker().await["state"], "closed");
        assert_eq!(self.site.rows()["provider_waits"], 0);
        assert_eq!(self.site.rows()["timers"], 0);
        let runs = self.runs.len() as u64;
        assert!(self.server.stop().success());
        assert_eq!(verify(&self.site.data()), runs);
    }
}

fn start(site: &Site) -> Server {
    let config = site.path("abide.toml");
    site.start(&["--test-clock", "--config", config.to_str().unwrap()])
}

fn count(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

fn held(step: Step) -> Step {
    Step::Held(Box::new(step))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_away_sees_one_probe_at_a_time_and_then_everybody_at_a_pace() {
    let runs = 300;
    let outage = Outage::begin(runs).await;
    let provider = &outage.provider;
    provider.usually(held(Step::overloaded(529)));
    let cooldown = async |outage: &Outage| outage.breaker().await["cooldownMs"].as_i64().unwrap();
    let mut cooldowns = Vec::new();
    // One turn may be the probe each time. After four of them its own next try is as far off as the breaker's; after a
    // fifth it would be farther, and that turn would not come with the others.
    for probe in 1..=4 {
        cooldowns.push(cooldown(&outage).await);
        outage.cool_down().await;
        outage.answer_probe(probe).await;
        outage.until_waiting(runs).await;
        assert_eq!(outage.breaker().await["state"], "open");
    }
    cooldowns.push(cooldown(&outage).await);
    assert_eq!(cooldowns, [30_000, 60_000, 120_000, 240_000, 300_000]);
    assert_eq!((provider.count(), provider.in_flight_max()), (4, 1), "one after the other");

    // It is back: the one that finds out, four more, and then two for each that is answered.
    provider.forget();
    provider.usually(held(Step::answer(SAID)));
    outage.cool_down().await;
    outage.answer_probe(1).await;
    for answered in 0..20 {
        outage.until_asked(WOKEN_AT_FIRST + answered, 1 + WOKEN_AT_FIRST + 2 * answered).await;
        outage.answer(1);
    }
    outage.answer(runs);
    outage.until("everybody was answered", async |outage| outage.provider.count() == runs).await;
    assert!(provider.in_flight_max() <= 256, "{}", provider.in_flight_max());
    outage.demand_completed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_in_an_outage_goes_on_with_it_and_with_its_probe() {
    let runs = 60;
    let mut outage = Outage::begin(runs).await;
    outage.kill(0).await;
    assert_eq!((outage.breaker().await["state"].clone(), outage.postponed().await), (json!("open"), runs));
    outage.provider.usually(held(Step::overloaded(529)));
    outage.cool_down().await;
    outage.until_asked(1, 1).await;
    // The probe of the one that was killed is the next one's, and there is no other.
    outage.kill(1).await;
    outage.answer_probe(2).await;
    outage.until_waiting(runs).await;
    assert_eq!(outage.breaker().await["cooldownMs"], 60_000, "one probe has failed, not two");
    assert_eq!((outage.provider.count(), outage.provider.in_flight_max()), (2, 1));
    outage.provider.usually(Step::answer(SAID));
    outage.cool_down().await;
    outage.until("everybody was answered", async |outage| outage.provider.count() == 2 + runs).await;
    outage.demand_completed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_while_everybody_comes_back_brings_back_the_rest_at_a_pace() {
    let runs = 60;
    let mut outage = Outage::begin(runs).await;
    outage.provider.usually(held(Step::answer(SAID)));
    outage.cool_down().await;
    outage.answer_probe(1).await;
    outage.until_asked(WOKEN_AT_FIRST, 1 + WOKEN_AT_FIRST).await;
    outage.answer(2);
    let (under_way, asked) = (WOKEN_AT_FIRST + 2, 1 + WOKEN_AT_FIRST + 4);
    outage.until_asked(under_way, asked).await;
    outage.until("the answers are kept", async |outage| outage.waiting().await == runs - asked).await;
    outage.kill(under_way).await;
    // Those that were calling call again, for nobody has heard their answers; of the others come a few at first.
    outage.until_asked(under_way + WOKEN_AT_FIRST, asked + under_way + WOKEN_AT_FIRST).await;
    outage.answer(runs);
    outage.until("everybody was answered", async |outage| outage.provider.count() == runs + under_way).await;
    outage.demand_completed().await;
}
