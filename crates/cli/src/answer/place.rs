//! Which interrupt is meant, and what it asks.

use serde_json::Value;

use super::question::Question;
use crate::client::{Client, encoded};
use crate::draw::words::legible;
use crate::exit::{Exit, Failure};
use crate::follow::Follower;
use crate::inbox;
use crate::output::{self, cell};

/// What ids of interrupts begin with, and ids of runs do not.
const INTERRUPT: &str = "int-";

/// How many entries of the inbox are shown if nobody says which one is meant.
const SHOWN: usize = 20;

/// Where an answer goes, as far as it is known.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Place {
    pub(crate) run: String,
    node: Option<String>,
    pub(crate) interrupt: Option<String>,
}

impl Place {
    /// What the words on the command line mean.
    pub(crate) async fn find(
        client: &Client,
        target: Option<&str>,
        node: Option<&str>,
    ) -> anyhow::Result<Self> {
        match (target, node) {
            (None, _) => only_one(client).await,
            (Some(id), None) if id.starts_with(INTERRUPT) => by_id(client, id).await,
            (Some(run), Some(id)) if id.starts_with(INTERRUPT) => {
                Ok(Self { run: run.to_owned(), node: None, interrupt: Some(id.to_owned()) })
            }
            (Some(run), node) => {
                Ok(Self { run: run.to_owned(), node: node.map(str::to_owned), interrupt: None })
            }
        }
    }

    /// Reads what is asked there. Whoever has an answer already need not be able to read it, if the place is known.
    pub(in crate::answer) async fn look(
        self,
        client: &Client,
        given: bool,
    ) -> anyhow::Result<(Self, Option<Question>)> {
        let blind = given && self.node.is_some();
        let run = match client.get(&format!("/v1/runs/{}", encoded(&self.run))).await {
            Ok(run) => run,
            Err(_) if blind => return Ok((self, None)),
            Err(error) => return Err(error),
        };
        let open: Vec<&Value> =
            run["interrupts"].as_array().into_iter().flatten().filter(|entry| self.means(entry)).collect();
        match open[..] {
            [entry] => {
                let text = |key: &str| entry[key].as_str().map(str::to_owned);
                let place = Self { run: self.run, node: text("nodeId"), interrupt: text("interruptId") };
                let question = Question::read(&place.run, entry)?;
                Ok((place, Some(question)))
            }
            // The server knows best what became of it.
            [] if blind => Ok((self, None)),
            [] => Err(self.asks_nothing().into()),
            _ => Err(several(&open)),
        }
    }

    /// Which interrupt it is: the open one, or else the one that was asked last.
    pub(crate) async fn interrupt_id(&self, client: &Client) -> anyhow::Result<String> {
        if let Some(id) = &self.interrupt {
            return Ok(id.clone());
        }
        let run = client.get(&format!("/v1/runs/{}", encoded(&self.run))).await?;
        let open: Vec<&Value> =
            run["interrupts"].as_array().into_iter().flatten().filter(|entry| self.means(entry)).collect();
        match open[..] {
            [entry] => Ok(entry["interruptId"].as_str().unwrap_or_default().to_owned()),
            [] => self
                .asked_last(client, run["sequence"].as_u64())
                .await?
                .ok_or_else(|| self.asks_nothing().into()),
            _ => Err(several(&open)),
        }
    }

    /// The last interrupt that was asked for, up to this event.
    async fn asked_last(&self, client: &Client, end: Option<u64>) -> anyhow::Result<Option<String>> {
        let (mut found, mut last) = (None, None);
        let mut events = Follower::new(client, &self.run, None);
        while last < end {
            let Some(event) = events.next().await? else { break };
            last = event["sequence"].as_u64();
            if event["type"] == "interrupt.requested" && self.means(&event["payload"]) {
                found = event["payload"]["interruptId"].as_str().map(str::to_owned);
            }
        }
        Ok(found)
    }

    /// Whether an open interrupt of the run may be the one.
    fn means(&self, entry: &Value) -> bool {
        let fits =
            |wanted: &Option<String>, key: &str| wanted.as_deref().is_none_or(|wanted| entry[key] == wanted);
        fits(&self.node, "nodeId") && fits(&self.interrupt, "interruptId")
    }

    pub(crate) fn asks_nothing(&self) -> Failure {
        let run = legible(&self.run);
        let what = match (&self.interrupt, &self.node) {
            (Some(id), _) => format!("{run} does not wait for {}", legible(id)),
            (None, Some(node)) => format!("node '{}' of {run} asks nothing", legible(node)),
            (None, None) => format!("{run} asks nothing"),
        };
        let hint = format!("`abide run why {}` tells what it waits for", encoded(&self.run));
        Failure::new(Exit::NotFound, format!("{what}\n  {hint}"))
    }

    /// Where the answer is sent.
    pub(super) fn path(&self) -> String {
        let node = encoded(self.node.as_deref().unwrap_or_default());
        let which = self.interrupt.as_deref().map(|id| format!("?interruptId={}", encoded(id)));
        format!("/v1/runs/{}/interrupts/{node}{}", encoded(&self.run), which.unwrap_or_default())
    }

    /// Where the answer to a question back is sent.
    pub(super) fn ask_path(&self, ask: &str) -> String {
        let node = encoded(self.node.as_deref().unwrap_or_default());
        format!("/v1/runs/{}/interrupts/{node}/asks/{}", encoded(&self.run), encoded(ask))
    }

    fn of(entry: &Value) -> Self {
        let text = |key: &str| entry[key].as_str().map(str::to_owned);
        Self { run: text("runId").unwrap_or_default(), node: text("nodeId"), interrupt: text("interruptId") }
    }
}

/// The only entry of the inbox.
async fn only_one(client: &Client) -> anyhow::Result<Place> {
    let page = client.get(&format!("/v1/interrupts?limit={SHOWN}")).await?;
    match inbox::rows(&page) {
        [] => Err(Failure::new(Exit::NotFound, "nothing waits for an answer").into()),
        [entry] if page["nextCursor"].is_null() => Ok(Place::of(entry)),
        rows => {
            output::say(&inbox::table(rows, client.now()));
            let message = "several wait for an answer; say which: abide answer RUN NODE";
            Err(Failure::new(Exit::Refused, message).into())
        }
    }
}

/// The entry of the inbox with this id.
async fn by_id(client: &Client, id: &str) -> anyhow::Result<Place> {
    let mut cursor = String::new();
    loop {
        let page = client.get(&format!("/v1/interrupts?limit=500{cursor}")).await?;
        if let Some(entry) = inbox::rows(&page).iter().find(|entry| entry["interruptId"] == id) {
            return Ok(Place::of(entry));
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={}", encoded(next)),
            None => break,
        }
    }
    let message = format!("{} does not wait for an answer: it is answered, or was never asked", legible(id));
    Err(Failure::new(Exit::NotFound, format!("{message}\n  `abide inbox` shows what waits")).into())
}

fn several(open: &[&Value]) -> anyhow::Error {
    let row = |entry: &&Value| {
        let title = ["title", "eventType", "customKind"].map(|key| cell(&entry["data"][key]));
        let title = title.into_iter().find(|title| !title.is_empty());
        let title = title.unwrap_or_else(|| cell(&entry["data"]["questions"][0]["question"]));
        vec![cell(&entry["interruptId"]), cell(&entry["nodeId"]), cell(&entry["kind"]), title]
    };
    output::say(&output::table(&["INTERRUPT", "NODE", "KIND", "TITLE"], open.iter().map(row).collect()));
    let message =
        "the run asks several things; say which: abide answer RUN NODE, or abide answer RUN INTERRUPT";
    Failure::new(Exit::Refused, message).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_goes_to_one_interrupt_whatever_its_names_hold() {
        let place = Place { run: "run-1".into(), node: Some("a/b".into()), interrupt: Some("int-1".into()) };
        assert_eq!(place.path(), "/v1/runs/run-1/interrupts/a%2Fb?interruptId=int-1");
        assert!(place.means(&json!({ "nodeId": "a/b", "interruptId": "int-1" })));
        assert!(!place.means(&json!({ "nodeId": "a/b", "interruptId": "int-2" })));
        assert!(Place::default().means(&json!({ "nodeId": "c" })));
    }
}
