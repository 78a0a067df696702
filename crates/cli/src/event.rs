//! `abide event`: tell runs that something happened elsewhere.

use serde_json::{Value, json};

use crate::args::{ClientArgs, EventArgs, EventVerb};
use crate::client::Client;
use crate::output::{self, cell};

pub(crate) async fn dispatch(args: EventArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.client)?;
    match args.verb {
        EventVerb::Send { event_type, id, payload } => {
            send(&client, &args.client, &event_type, &id, &payload).await
        }
    }
}

/// The id makes it safe to send it again if nobody knows whether it arrived.
async fn send(
    client: &Client,
    args: &ClientArgs,
    event: &str,
    id: &str,
    payload: &Value,
) -> anyhow::Result<()> {
    let body = json!({ "eventId": id, "eventType": event, "eventPayload": payload });
    let answer = client.post_surely("/v1/external-events", &body, &[]).await?.json()?;
    if args.json {
        return output::json(&answer.to_string());
    }
    let delivered = answer["delivered"].as_array().map_or(&[][..], Vec::as_slice);
    if !delivered.is_empty() {
        let row =
            |waiter: &Value| ["runId", "nodeId", "interruptId"].map(|name| cell(&waiter[name])).to_vec();
        output::line(&output::table(&["RUN", "NODE", "INTERRUPT"], delivered.iter().map(row).collect()))?;
    }
    output::say(told(&answer, delivered.len()));
    Ok(())
}

fn told(answer: &Value, delivered: usize) -> &'static str {
    match (answer["duplicate"] == true, delivered, answer["kept"] == true) {
        (true, ..) => "it was sent before under this id; nothing was done again",
        (_, 0, true) => "nobody waits for it yet; it is kept for whoever asks for it in time",
        (_, 0, false) => "nobody waits for it, and it is not kept",
        _ => "the runs that waited for it go on",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_an_event_is_told() {
        for (answer, delivered, expected) in [
            (json!({ "duplicate": true, "kept": true }), 0, "it was sent before"),
            (json!({ "duplicate": false, "kept": true }), 0, "nobody waits for it yet"),
            (json!({ "duplicate": false, "kept": false }), 0, "not kept"),
            (json!({ "duplicate": false, "kept": true }), 2, "go on"),
        ] {
            assert!(told(&answer, delivered).contains(expected), "{answer}");
        }
    }
}
