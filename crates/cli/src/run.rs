//! `abide run`: start, list, show, follow, cancel.

use serde_json::{Map, Value, json};

use crate::args::{ClientArgs, RunArgs, RunVerb};
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output;

pub(crate) async fn dispatch(args: RunArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.client)?;
    match args.verb {
        RunVerb::Start { workflow, inputs, tags, wait } => {
            start(&client, &args.client, &workflow, &inputs, &tags, wait).await
        }
        RunVerb::List { status, limit } => list(&client, &args.client, status.as_deref(), limit).await,
        RunVerb::Show { run } => show(&client, &args.client, &run).await,
        RunVerb::Events { run, follow, after } => events(&client, &args.client, &run, follow, after).await,
        RunVerb::Cancel { run, reason } => cancel(&client, &args.client, &run, reason.as_deref()).await,
    }
}

async fn start(
    client: &Client,
    args: &ClientArgs,
    workflow: &str,
    inputs: &[(String, Value)],
    tags: &[String],
    wait: bool,
) -> anyhow::Result<()> {
    let inputs: Map<String, Value> = inputs.iter().cloned().collect();
    let body = json!({ "workflowId": workflow, "inputs": inputs, "tags": tags });
    let answer = client.post("/v1/runs", &body).await?;
    let run = answer["runId"].as_str().unwrap_or_default().to_owned();
    if !wait {
        return if args.json { output::line(&answer.to_string()) } else { output::line(&run) };
    }
    output::say(&format!("{run} started; waiting for its end (Ctrl-C leaves it running)"));
    wait_for_end(client, &run, |_| Ok(())).await?;
    let snapshot = snapshot(client, &run).await?;
    print_run(args, &snapshot)?;
    match snapshot["status"].as_str() {
        Some("completed") => Ok(()),
        status => {
            Err(Failure::new(Exit::Refused, format!("the run ended as {}", status.unwrap_or("unknown")))
                .into())
        }
    }
}

async fn list(client: &Client, args: &ClientArgs, status: Option<&str>, limit: usize) -> anyhow::Result<()> {
    let status = status.map_or(String::new(), |status| format!("&status={}", encoded(status)));
    let answer = client.get(&format!("/v1/runs?limit={limit}{status}")).await?;
    if args.json {
        return output::line(&answer.to_string());
    }
    let runs = answer["runs"].as_array().cloned().unwrap_or_default();
    if runs.is_empty() {
        output::say("no runs yet; start one with `abide run start WORKFLOW`");
        return Ok(());
    }
    let row = |run: &Value| {
        ["runId", "workflowId", "status", "startedAt", "updatedAt"].map(|name| text(&run[name])).to_vec()
    };
    output::line(&output::table(
        &["RUN", "WORKFLOW", "STATUS", "STARTED", "UPDATED"],
        runs.iter().map(row).collect(),
    ))?;
    if !answer["nextCursor"].is_null() {
        output::say(&format!("there are more; ask for them with --limit (shown: {limit})"));
    }
    Ok(())
}

async fn show(client: &Client, args: &ClientArgs, run: &str) -> anyhow::Result<()> {
    print_run(args, &snapshot(client, run).await?)
}

/// A run as it stands.
async fn snapshot(client: &Client, run: &str) -> anyhow::Result<Value> {
    client.get(&format!("/v1/runs/{}", encoded(run))).await
}

fn print_run(args: &ClientArgs, snapshot: &Value) -> anyhow::Result<()> {
    if args.json {
        return output::line(&snapshot.to_string());
    }
    output::line(&format!("run       {}", text(&snapshot["runId"])))?;
    output::line(&format!("workflow  {}", text(&snapshot["workflowId"])))?;
    output::line(&format!("status    {}", text(&snapshot["status"])))?;
    output::line(&format!("started   {}", text(&snapshot["startedAt"])))?;
    if let Some(at) = snapshot["completedAt"].as_str() {
        output::line(&format!("ended     {at}"))?;
    }
    if let Some(error) = snapshot["error"].as_object() {
        output::line(&format!("error     {} [{}]", text(&error["message"]), text(&error["code"])))?;
    }
    let mut nodes: Vec<_> =
        snapshot["nodeStates"].as_object().cloned().unwrap_or_default().into_iter().collect();
    // In the order they started; those that did not yet come last.
    nodes.sort_by_key(|(_, node)| node["startedAt"].as_str().map_or("~".to_owned(), str::to_owned));
    let row = |(id, node): &(String, Value)| {
        vec![id.clone(), text(&node["typeId"]), text(&node["status"]), detail(node)]
    };
    output::line(&format!(
        "\n{}",
        output::table(&["NODE", "KIND", "STATUS", "DETAIL"], nodes.iter().map(row).collect())
    ))
}

fn detail(node: &Value) -> String {
    if let Some(until) = node["until"].as_str() {
        return format!("until {until}");
    }
    if let Some(error) = node["error"]["message"].as_str() {
        return error.to_owned();
    }
    if node["outputs"].is_null() { String::new() } else { node["outputs"].to_string() }
}

async fn events(
    client: &Client,
    args: &ClientArgs,
    run: &str,
    follow: bool,
    after: Option<u64>,
) -> anyhow::Result<()> {
    let print = |event: &Value| output::line(&if args.json { event.to_string() } else { event_line(event) });
    if follow {
        return follow_events(client, run, after, 60, &print).await.map(|_| ());
    }
    // What is there now, and no more: a wait is only met if the last events are of kinds that OpenWOP has no name for.
    let end = snapshot(client, run).await?["sequence"].as_u64();
    let mut after = after;
    while after < end {
        let (last, complete) = poll(client, run, after, 1, &print).await?;
        if complete || last == after {
            break;
        }
        after = last;
    }
    Ok(())
}

fn event_line(event: &Value) -> String {
    let node = event["nodeId"].as_str().unwrap_or("");
    let (sequence, at, kind) = (text(&event["sequence"]), text(&event["timestamp"]), text(&event["type"]));
    format!("{sequence:>5}  {at}  {kind:<16}  {node:<16}  {}", event["payload"])
}

async fn wait_for_end(
    client: &Client,
    run: &str,
    print: impl Fn(&Value) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    follow_events(client, run, None, 60, &print).await.map(|_| ())
}

async fn follow_events(
    client: &Client,
    run: &str,
    mut after: Option<u64>,
    seconds: u32,
    print: &impl Fn(&Value) -> anyhow::Result<()>,
) -> anyhow::Result<Option<u64>> {
    loop {
        let (last, complete) = poll(client, run, after, seconds, print).await?;
        after = last;
        if complete {
            return Ok(after);
        }
    }
}

async fn poll(
    client: &Client,
    run: &str,
    after: Option<u64>,
    seconds: u32,
    print: &impl Fn(&Value) -> anyhow::Result<()>,
) -> anyhow::Result<(Option<u64>, bool)> {
    let from = after.map_or(String::new(), |after| format!("&lastSequence={after}"));
    let page = client.get(&format!("/v1/runs/{}/events/poll?timeout={seconds}{from}", encoded(run))).await?;
    let events = page["events"].as_array().cloned().unwrap_or_default();
    for event in &events {
        print(event)?;
    }
    let last = events.last().and_then(|event| event["sequence"].as_u64()).or(after);
    Ok((last, page["isComplete"] == true))
}

async fn cancel(client: &Client, args: &ClientArgs, run: &str, reason: Option<&str>) -> anyhow::Result<()> {
    let answer =
        client.post(&format!("/v1/runs/{}/cancel", encoded(run)), &json!({ "reason": reason })).await?;
    if args.json {
        return output::line(&answer.to_string());
    }
    output::line(&format!("{} is {}", text(&answer["runId"]), text(&answer["status"])))
}

/// Text as one piece of a path or a query: whatever it holds, it can't become another request.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(
        || {
            if value.is_null() { String::new() } else { value.to_string() }
        },
        str::to_owned,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_types_stays_one_piece_of_the_path() {
        assert_eq!(encoded("run-01a1_x"), "run-01a1_x");
        assert_eq!(encoded("../runs?limit=1#x"), "%2E%2E%2Fruns%3Flimit%3D1%23x");
        assert_eq!(encoded("é"), "%C3%A9");
    }
}
