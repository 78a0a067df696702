//! `abide notify`: whether channels work, who was told what, and what was given up.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::args::{ClientArgs, NotifyArgs, NotifyVerb};
use crate::client::{Client, encoded};
use crate::draw::words::{clip, legible};
use crate::exit::{Exit, Failure};
use crate::output::{self, cell};
use crate::when;

/// Columns of a reason. One that is longer loses its end; `--json` has all of it.
const REASON_COLUMNS: usize = 60;

pub(crate) async fn dispatch(args: NotifyArgs) -> anyhow::Result<()> {
    let (client, args, verb) = (Client::new(&args.client)?, args.client, args.verb);
    match verb {
        NotifyVerb::Test { channel: None, .. } => channels(&client, &args).await,
        NotifyVerb::Test { channel: Some(channel), to } => {
            test(&client, &args, &channel, to.as_deref()).await
        }
        NotifyVerb::List { state, run, limit } => list(&client, &args, (state, run), limit).await,
        NotifyVerb::Resend { ids } => resend(&client, &args, &ids).await,
    }
}

async fn channels(client: &Client, args: &ClientArgs) -> anyhow::Result<()> {
    let answer = client.get("/v1/channels").await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    let channels = rows(&answer, "channels");
    if channels.is_empty() {
        output::say("no channels yet; configure one under [channels] of the server's configuration");
        return Ok(());
    }
    let row = |channel: &Value| {
        let word = |is: &Value, yes: &str, no: &str| if is == &json!(true) { yes } else { no }.to_owned();
        vec![
            cell(&channel["name"]),
            cell(&channel["type"]),
            word(&channel["internal"], "internal", "external"),
            word(&channel["tellsAll"], "everything", "title and link"),
            word(&channel["signsLinks"], "signed", "sign-in"),
            word(&channel["default"], "yes", ""),
        ]
    };
    let header = ["CHANNEL", "TYPE", "REACH", "TELLS", "LINKS", "DEFAULT"];
    output::line(&output::table(&header, channels.iter().map(row).collect()))
}

async fn test(client: &Client, args: &ClientArgs, channel: &str, to: Option<&str>) -> anyhow::Result<()> {
    let body = to.map_or_else(|| json!({}), |to| json!({ "to": to }));
    let tested = client.post(&format!("/v1/channels/{}:test", encoded(channel)), &body).await?;
    if args.json {
        output::json(&tested.to_string())?;
    }
    if tested["sent"] != json!(true) {
        let reason = legible(tested["reason"].as_str().unwrap_or_default());
        return Err(Failure::new(Exit::Refused, format!("nothing was sent: {reason}")).into());
    }
    if args.json {
        return Ok(());
    }
    output::line(&format!("sent; the receiver said: {}", cell(&tested["answer"])))
}

/// The first messages that pass the filters. A server looks at so many for a page, whether they pass or not.
async fn list(
    client: &Client,
    args: &ClientArgs,
    (state, run): (Option<String>, Option<String>),
    limit: usize,
) -> anyhow::Result<()> {
    let filters: String = [("state", &state), ("run", &run)]
        .into_iter()
        .filter_map(|(name, value)| Some(format!("&{name}={}", encoded(value.as_deref()?))))
        .collect();
    let (mut found, mut cursor) = (Vec::new(), String::new());
    let more = loop {
        let wanted = limit - found.len();
        let page = client.get(&format!("/v1/notices?limit={wanted}{filters}{cursor}")).await?;
        found.extend(rows(&page, "notices").iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) if found.len() < limit => cursor = format!("&cursor={}", encoded(next)),
            next => break next.is_some(),
        }
    };
    if args.json {
        return output::json(&json!({ "notices": found }).to_string());
    }
    if found.is_empty() {
        output::say(if filters.is_empty() {
            "nobody was told anything yet"
        } else {
            "there is nothing like that"
        });
        return Ok(());
    }
    output::line(&table(&found, client.now()))?;
    if more {
        output::say(&format!("there are more; ask for them with --limit (shown: {limit})"));
    }
    Ok(())
}

fn table(notices: &[Value], now: Timestamp) -> String {
    let row = |notice: &Value| {
        let whom =
            ["person", "recipient"].iter().map(|name| cell(&notice[*name])).find(|text| !text.is_empty());
        let at =
            ["sentAt", "nextTryAt"].iter().map(|name| cell(&notice[*name])).find(|text| !text.is_empty());
        let at = at.unwrap_or_default();
        vec![
            cell(&notice["state"]),
            cell(&notice["channel"]),
            whom.unwrap_or_default(),
            cell(&notice["attempt"]),
            cell(&notice["tries"]),
            when::told(&at, now).unwrap_or(at),
            clip(&cell(&notice["reason"]), REASON_COLUMNS),
            cell(&notice["deliveryId"]),
        ]
    };
    let header = ["STATE", "CHANNEL", "TO", "ATTEMPT", "TRIES", "WHEN", "REASON", "ID"];
    output::table(&header, notices.iter().map(row).collect())
}

async fn resend(client: &Client, args: &ClientArgs, ids: &[String]) -> anyhow::Result<()> {
    for id in ids {
        let resent = client.post(&format!("/v1/notices/{}:resend", encoded(id)), &json!({})).await?;
        if args.json {
            output::json(&resent.to_string())?;
        } else {
            output::line(&format!("on its way again over {}", cell(&resent["channel"])))?;
        }
    }
    Ok(())
}

fn rows<'a>(answer: &'a Value, list: &str) -> &'a [Value] {
    answer[list].as_array().map_or(&[][..], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stand_in_columns_with_who_got_them_and_what_went_wrong() {
        let notices = [
            json!({ "state": "sent", "channel": "mail", "recipient": "ada@example.com", "person": "ada", "attempt": 1,
                    "tries": 1, "sentAt": "2026-01-01T10:00:00.000Z", "deliveryId": "aa" }),
            json!({ "state": "dead", "channel": "slack", "recipient": "group:finance", "attempt": 2, "tries": 9,
                    "reason": "the receiver answered 500 \u{1b}[2J and so on, at such a length that nobody reads it all",
                    "deliveryId": "bb" }),
            json!({ "state": "unreachable", "attempt": 1, "tries": 0, "reason": "no channel is configured",
                    "deliveryId": "cc" }),
        ];
        insta::assert_snapshot!(table(&notices, "2026-01-01T11:00:00Z".parse().unwrap()));
    }
}
