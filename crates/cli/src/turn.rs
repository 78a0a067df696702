//! `abide turn` and `abide provider`: what is said to models, and whether their providers answer.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::args::{ClientArgs, ProviderArgs, ProviderVerb, TurnArgs, TurnVerb};
use crate::client::{Client, encoded};
use crate::draw::words::legible;
use crate::exit::{Exit, Failure};
use crate::output::{self, cell};
use crate::when;

pub(crate) async fn dispatch(args: TurnArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.client)?;
    match args.verb {
        TurnVerb::List { run } => list(&client, &args.client, &run).await,
        TurnVerb::Retry { run, node } => {
            let asked = Asked { verb: "retry", body: json!({}) };
            change(&client, &args.client, &run, node, asked).await
        }
        TurnVerb::GiveUp { run, node, reason } => {
            let reason = reason.map(|reason| ("reason".to_owned(), reason.into()));
            let asked = Asked { verb: "give-up", body: reason.into_iter().collect::<Map<_, _>>().into() };
            change(&client, &args.client, &run, node, asked).await
        }
    }
}

pub(crate) async fn dispatch_provider(args: ProviderArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.client)?;
    match args.verb {
        ProviderVerb::List => providers(&client, &args.client).await,
    }
}

async fn list(client: &Client, args: &ClientArgs, run: &str) -> anyhow::Result<()> {
    let answer = client.get(&path(run)).await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    let turns = answer["turns"].as_array().map_or(&[][..], Vec::as_slice);
    if turns.is_empty() {
        output::say("it has had no turns; nodes of the kinds core.llm.turn and core.llm.chat have");
        return Ok(());
    }
    output::line(&output::table(
        &["NODE", "STATUS", "PROVIDER", "MODEL", "STEPS", "RETRIES", "TOKENS IN", "OUT", "COST"],
        turns.iter().map(row).collect(),
    ))?;
    let now = client.now();
    let waits: Vec<String> = turns.iter().filter_map(|turn| waits(turn, now)).collect();
    for told in &waits {
        output::line(&format!("\n{told}"))?;
    }
    if !waits.is_empty() {
        let run = legible(run);
        output::say(&format!("try it now: abide turn retry {run}; let it fail: abide turn give-up {run}"));
    }
    Ok(())
}

fn row(turn: &Value) -> Vec<String> {
    let usage = &turn["usage"];
    vec![
        cell(&turn["nodeId"]),
        cell(&turn["status"]),
        cell(&turn["provider"]),
        cell(&turn["model"]),
        cell(&turn["steps"]),
        cell(&turn["retries"]),
        cell(&usage["inputTokens"]),
        cell(&usage["outputTokens"]),
        turn["costMicros"].as_u64().map(dollars).unwrap_or_default(),
    ]
}

/// Millionths of a dollar as people write them.
fn dollars(micros: u64) -> String {
    format!("${}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// What a turn waits for, or why it failed; nothing if it does neither.
fn waits(turn: &Value, now: Timestamp) -> Option<String> {
    let (node, wait, error) = (cell(&turn["nodeId"]), &turn["wait"], &turn["error"]);
    if wait.is_object() {
        return Some(format!("{node} {}", waits_for(&turn["provider"], wait, now)));
    }
    let failed = error.is_object();
    failed.then(|| format!("{node} failed: {} [{}]", cell(&error["message"]), cell(&error["code"])))
}

/// What is waited for, until when, which retry comes, and what the provider said.
pub(crate) fn waits_for(provider: &Value, wait: &Value, now: Timestamp) -> String {
    let (provider, until) = (cell(provider), cell(&wait["until"]));
    let until = when::told(&until, now).unwrap_or(until);
    let said = Some(cell(&wait["message"])).filter(|said| !said.is_empty());
    let said = said.map_or_else(String::new, |said| format!(": {said}"));
    if wait["kind"] == "breaker" {
        return format!("waits until provider '{provider}' is back, until {until} at most{said}");
    }
    // The event counts from 0, and people from 1.
    let retry = wait["attempt"].as_u64().map_or(1, |attempt| attempt + 1);
    format!("waits for provider '{provider}', retry {retry} at {until}{said}")
}

/// What is to be done to a turn.
struct Asked {
    verb: &'static str,
    body: Value,
}

async fn change(
    client: &Client,
    args: &ClientArgs,
    run: &str,
    node: Option<String>,
    asked: Asked,
) -> anyhow::Result<()> {
    let node = match node {
        Some(node) => node,
        None => the_one_that_waits(&client.get(&path(run)).await?)?,
    };
    let at = format!("{}/{}:{}", path(run), encoded(&node), asked.verb);
    let turn = client.post(&at, &asked.body).await?;
    if args.json {
        return output::json(&turn.to_string());
    }
    let (node, provider) = (legible(&node), cell(&turn["provider"]));
    output::line(&match asked.verb {
        "retry" => format!("{node} tries provider '{provider}' now"),
        _ => format!("{node} is given up: {}", cell(&turn["error"]["message"])),
    })
}

/// The only turn that waits for its provider.
fn the_one_that_waits(answer: &Value) -> Result<String, Failure> {
    let turns = answer["turns"].as_array().map_or(&[][..], Vec::as_slice);
    let waiting: Vec<&str> = turns
        .iter()
        .filter(|turn| turn["wait"].is_object())
        .filter_map(|turn| turn["nodeId"].as_str())
        .collect();
    match waiting.as_slice() {
        [only] => Ok((*only).to_owned()),
        [] => {
            let message =
                "no turn of the run waits for its provider; look at `abide turn list` [turn_not_waiting]";
            Err(Failure::new(Exit::Refused, message))
        }
        several => {
            let names: Vec<String> = several.iter().map(|name| legible(name)).collect();
            let message = format!("several turns wait; name one of {}", names.join(", "));
            Err(Failure::new(Exit::Usage, message))
        }
    }
}

async fn providers(client: &Client, args: &ClientArgs) -> anyhow::Result<()> {
    let answer = client.get("/v1/providers").await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    let providers = answer["providers"].as_array().map_or(&[][..], Vec::as_slice);
    if providers.is_empty() {
        output::say(
            "the server has no providers of models; name them in its configuration, under [providers]",
        );
        return Ok(());
    }
    let now = client.now();
    let row = |provider: &Value| {
        let (breaker, waiting) = (&provider["breaker"], &provider["waiting"]);
        vec![
            cell(&provider["name"]),
            cell(&provider["kind"]),
            cell(&provider["model"]),
            standing(breaker, now),
            format!("{} of {}", cell(&breaker["failures"]), cell(&breaker["calls"])),
            cell(&waiting["retry"]),
            cell(&waiting["postponed"]),
        ]
    };
    output::line(&output::table(
        &["PROVIDER", "KIND", "MODEL", "BREAKER", "FAILED", "RETRYING", "POSTPONED"],
        providers.iter().map(row).collect(),
    ))
}

/// How a breaker stands, in a few words.
fn standing(breaker: &Value, now: Timestamp) -> String {
    let until = cell(&breaker["openUntil"]);
    match breaker["state"].as_str() {
        Some("open") => format!("open until {}", when::told(&until, now).unwrap_or(until)),
        Some("half_open") => "half-open, one call is on its way".to_owned(),
        _ => cell(&breaker["state"]),
    }
}

fn path(run: &str) -> String {
    format!("/v1/runs/{}/turns", encoded(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_wait_says_until_when_which_retry_and_what_the_provider_said() {
        let mut wait = json!({
            "kind": "retry", "attempt": 2, "delayMs": 30_000, "until": "2026-01-01T00:00:30.000Z",
            "message": "HTTP 429: {\"error\":\"slow \u{1b}[31mdown\"}",
        });
        let provider = json!("main");
        assert_eq!(
            waits_for(&provider, &wait, now()),
            "waits for provider 'main', retry 3 at 2026-01-01T00:00:30.000Z (in 30.0 s): HTTP 429: \
             {\"error\":\"slow \u{fffd}[31mdown\"}"
        );
        wait["kind"] = "breaker".into();
        wait["message"] = Value::Null;
        assert_eq!(
            waits_for(&provider, &wait, now()),
            "waits until provider 'main' is back, until 2026-01-01T00:00:30.000Z (in 30.0 s) at most"
        );
    }

    #[test]
    fn the_turn_that_is_meant_is_the_only_one_that_waits() {
        let turn = |node: &str, waits: bool| json!({ "nodeId": node, "wait": if waits { json!({}) } else { Value::Null } });
        let of = |turns: &[Value]| {
            the_one_that_waits(&json!({ "turns": turns })).map_err(|error| error.to_string())
        };
        assert_eq!(of(&[turn("a", false), turn("b", true)]), Ok("b".to_owned()));
        assert!(of(&[turn("a", false)]).unwrap_err().contains("turn_not_waiting"));
        assert_eq!(
            of(&[turn("a", true), turn("b", true)]).unwrap_err(),
            "several turns wait; name one of a, b"
        );
    }

    #[test]
    fn breakers_and_costs_are_told_as_people_say_them() {
        assert_eq!(dollars(1_234_567), "$1.234567");
        assert_eq!(dollars(42), "$0.000042");
        let open = json!({ "state": "open", "openUntil": "2026-01-01T00:00:30.000Z" });
        assert_eq!(standing(&open, now()), "open until 2026-01-01T00:00:30.000Z (in 30.0 s)");
        assert_eq!(standing(&json!({ "state": "closed" }), now()), "closed");
    }
}
