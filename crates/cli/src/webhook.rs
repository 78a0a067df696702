//! `abide webhook`: have events sent to other systems, and see what became of them.

use serde_json::{Value, json};

use crate::args::{ClientArgs, WebhookArgs, WebhookVerb};
use crate::client::{Client, encoded};
use crate::draw::words::legible;
use crate::output::{self, cell};

pub(crate) async fn dispatch(args: WebhookArgs) -> anyhow::Result<()> {
    let (client, args, verb) = (Client::new(&args.client)?, args.client, args.verb);
    match verb {
        WebhookVerb::Add { target, events, tags } => add(&client, &args, &target, &events, &tags).await,
        WebhookVerb::List => list(&client, &args).await,
        WebhookVerb::Show { id } => show(&args, &client.get(&path(&id)).await?),
        WebhookVerb::Deliveries { id, dead } => deliveries(&client, &args, &id, dead).await,
        WebhookVerb::Resend { id, all, deliveries } => resend(&client, &args, &id, all, &deliveries).await,
        WebhookVerb::Enable { id } => {
            show(&args, &client.post(&format!("{}:enable", path(&id)), &json!({})).await?)
        }
        WebhookVerb::Rm { id } => remove(&client, &args, &id).await,
    }
}

fn path(id: &str) -> String {
    format!("/v1/webhooks/{}", encoded(id))
}

async fn add(
    client: &Client,
    args: &ClientArgs,
    url: &str,
    events: &[String],
    tags: &[String],
) -> anyhow::Result<()> {
    let body = json!({ "url": url, "events": events, "tags": tags });
    let added = client.post("/v1/webhooks", &body).await?;
    if args.json {
        return output::json(&added.to_string());
    }
    output::say("keep the secret with the receiver; it is not shown again");
    output::line(&format!("webhook  {}\nsecret   {}", cell(&added["webhookId"]), cell(&added["secret"])))
}

async fn list(client: &Client, args: &ClientArgs) -> anyhow::Result<()> {
    let answer = client.get("/v1/webhooks").await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    let webhooks = answer["webhooks"].as_array().map_or(&[][..], Vec::as_slice);
    if webhooks.is_empty() {
        output::say("no webhooks yet; add one with `abide webhook add URL --event TYPE`");
        return Ok(());
    }
    let row = |webhook: &Value| {
        let counts = ["delivered", "pending", "dead"].map(|name| cell(&webhook[name]));
        let words = [cell(&webhook["webhookId"]), standing(webhook)];
        [&words[..], &counts, &[cell(&webhook["url"])]].concat()
    };
    let header = ["WEBHOOK", "STATE", "DELIVERED", "PENDING", "DEAD", "URL"];
    output::line(&output::table(&header, webhooks.iter().map(row).collect()))
}

/// How a webhook does, in one word.
fn standing(webhook: &Value) -> String {
    match (webhook["state"].as_str(), webhook["breaker"].as_str()) {
        (Some("active"), Some("open")) => "left alone".to_owned(),
        (Some("active"), Some("half-open")) => "probing".to_owned(),
        (state, _) => legible(state.unwrap_or_default()),
    }
}

fn show(args: &ClientArgs, webhook: &Value) -> anyhow::Result<()> {
    if args.json {
        return output::json(&webhook.to_string());
    }
    let mut rows = vec![
        vec!["webhook".to_owned(), cell(&webhook["webhookId"])],
        vec!["url".to_owned(), cell(&webhook["url"])],
        vec!["events".to_owned(), words(&webhook["eventTypes"])],
        vec!["state".to_owned(), standing(webhook)],
    ];
    let more = [
        ("tags", words(&webhook["tags"])),
        ("until", cell(&webhook["openUntil"])),
        ("failures in a row", count(&webhook["consecutiveFailures"])),
        ("failing since", cell(&webhook["failingSince"])),
        ("delivered", cell(&webhook["delivered"])),
        ("pending", cell(&webhook["pending"])),
        ("dead", cell(&webhook["dead"])),
        ("dropped", count(&webhook["dropped"])),
        ("fingerprint", cell(&webhook["secretFingerprint"])),
        ("created", cell(&webhook["createdAt"])),
        ("by", cell(&webhook["createdBy"])),
    ];
    rows.extend(
        more.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| vec![name.to_owned(), text]),
    );
    let width = rows.iter().map(|row| row[0].len()).max().unwrap_or(0);
    let lines: Vec<String> = rows.iter().map(|row| format!("{:width$}  {}", row[0], row[1])).collect();
    output::line(&lines.join("\n"))
}

fn words(list: &Value) -> String {
    let words = list.as_array().map_or(&[][..], Vec::as_slice);
    words.iter().map(cell).collect::<Vec<_>>().join(" ")
}

/// A number that is told only if there is something to tell.
fn count(number: &Value) -> String {
    if number == &json!(0) { String::new() } else { cell(number) }
}

async fn deliveries(client: &Client, args: &ClientArgs, id: &str, dead: bool) -> anyhow::Result<()> {
    let state = if dead { "dead" } else { "pending" };
    let mut all: Vec<Value> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = client.get(&format!("{}/deliveries?state={state}{cursor}", path(id))).await?;
        all.extend(page["deliveries"].as_array().into_iter().flatten().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={}", encoded(next)),
            None => break,
        }
    }
    if args.json {
        return output::json(&json!({ "deliveries": all }).to_string());
    }
    if all.is_empty() {
        output::say(&format!("nothing is {state}"));
        return Ok(());
    }
    let row = |delivery: &Value| {
        let when = if dead { "lastAttemptAt" } else { "nextAttemptAt" };
        ["deliveryId", "eventType", "attempts", when, "lastStatus", "lastError"]
            .map(|name| cell(&delivery[name]))
            .to_vec()
    };
    let when = if dead { "LAST" } else { "NEXT" };
    let header = ["DELIVERY", "EVENT", "ATTEMPTS", when, "STATUS", "ERROR"];
    output::line(&output::table(&header, all.iter().map(row).collect()))
}

async fn resend(
    client: &Client,
    args: &ClientArgs,
    id: &str,
    all: bool,
    deliveries: &[String],
) -> anyhow::Result<()> {
    let body = if all { json!({}) } else { json!({ "deliveryIds": deliveries }) };
    let answer = client.post(&format!("{}:resend", path(id)), &body).await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    output::line(&format!("{} on their way again", cell(&answer["resent"])))
}

async fn remove(client: &Client, args: &ClientArgs, id: &str) -> anyhow::Result<()> {
    client.delete(&path(id)).await?;
    if args.json {
        return output::json(&json!({ "webhookId": id, "removed": true }).to_string());
    }
    output::line(&format!("{} is removed", legible(id)))
}
