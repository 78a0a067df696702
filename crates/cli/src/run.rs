//! `abide run`: start, list, show, follow, cancel.

use serde_json::{Map, Value, json};

use crate::args::{ClientArgs, RunArgs, RunVerb};
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output;

pub(crate) async fn dispatch(args: RunArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.client)?;
    match args.verb {
        RunVerb::Start {
            workflow,
            inputs,
            tags,
            wait,
        } => start(&client, &args.client, &workflow, &inputs, &tags, wait).await,
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
    inputs: &[String],
    tags: &[String],
    wait: bool,
) -> anyhow::Result<()> {
    let body = json!({ "workflowId": workflow, "inputs": parse_inputs(inputs)?, "tags": tags });
    let answer = client.post("/v1/runs", &body).await?;
    let run = answer["runId"].as_str().unwrap_or_default().to_owned();
    if !wait {
        return if args.json {
            output::line(&answer.to_string())
        } else {
            output::line(&run)
        };
    }
    output::say(&format!(
        "{run} started; waiting for its end (Ctrl-C leaves it running)"
    ));
    wait_for_end(client, &run, |_| Ok(())).await?;
    let snapshot = client.get(&format!("/v1/runs/{run}")).await?;
    print_run(args, &snapshot)?;
    match snapshot["status"].as_str() {
        Some("completed") => Ok(()),
        status => Err(Failure::new(
            Exit::Refused,
            format!("the run ended as {}", status.unwrap_or("unknown")),
        )
        .into()),
    }
}

/// `name=value`, where the value is JSON if it can be read as such, and text otherwise.
fn parse_inputs(inputs: &[String]) -> anyhow::Result<Map<String, Value>> {
    let mut parsed = Map::new();
    for input in inputs {
        let (name, value) = input
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| {
                Failure::new(
                    Exit::Refused,
                    format!("--input '{input}' is not of the form NAME=VALUE"),
                )
            })?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        parsed.insert(name.to_owned(), value);
    }
    Ok(parsed)
}

async fn list(client: &Client, args: &ClientArgs, status: Option<&str>, limit: usize) -> anyhow::Result<()> {
    let status = status.map_or(String::new(), |status| format!("&status={status}"));
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
        ["runId", "workflowId", "status", "startedAt", "updatedAt"]
            .map(|name| text(&run[name]))
            .to_vec()
    };
    output::line(&output::table(
        &["RUN", "WORKFLOW", "STATUS", "STARTED", "UPDATED"],
        runs.iter().map(row).collect(),
    ))?;
    if !answer["nextCursor"].is_null() {
        output::say(&format!(
            "there are more; ask for them with --limit (shown: {limit})"
        ));
    }
    Ok(())
}

async fn show(client: &Client, args: &ClientArgs, run: &str) -> anyhow::Result<()> {
    let snapshot = client.get(&format!("/v1/runs/{run}")).await?;
    print_run(args, &snapshot)
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
        output::line(&format!(
            "error     {} [{}]",
            text(&error["message"]),
            text(&error["code"])
        ))?;
    }
    let mut nodes: Vec<_> = snapshot["nodeStates"]
        .as_object()
        .cloned()
        .unwrap_or_default()
        .into_iter()
        .collect();
    // In the order they started; those that did not yet come last.
    nodes.sort_by_key(|(_, node)| node["startedAt"].as_str().map_or("~".to_owned(), str::to_owned));
    let row = |(id, node): &(String, Value)| {
        vec![
            id.clone(),
            text(&node["typeId"]),
            text(&node["status"]),
            detail(node),
        ]
    };
    output::line(&format!(
        "\n{}",
        output::table(
            &["NODE", "KIND", "STATUS", "DETAIL"],
            nodes.iter().map(row).collect()
        )
    ))
}

fn detail(node: &Value) -> String {
    if let Some(until) = node["until"].as_str() {
        return format!("until {until}");
    }
    if let Some(error) = node["error"]["message"].as_str() {
        return error.to_owned();
    }
    if node["outputs"].is_null() {
        String::new()
    } else {
        node["outputs"].to_string()
    }
}

async fn events(
    client: &Client,
    args: &ClientArgs,
    run: &str,
    follow: bool,
    after: Option<u64>,
) -> anyhow::Result<()> {
    let print = |event: &Value| {
        output::line(&if args.json {
            event.to_string()
        } else {
            event_line(event)
        })
    };
    if follow {
        return follow_events(client, run, after, 60, &print).await.map(|_| ());
    }
    let mut after = after;
    loop {
        // The shortest wait there is: an idle run's history is complete without one.
        let (last, complete) = poll(client, run, after, 1, &print).await?;
        if complete || last == after {
            return Ok(());
        }
        after = last;
    }
}

fn event_line(event: &Value) -> String {
    let node = event["nodeId"].as_str().unwrap_or("");
    let (sequence, at, kind) = (
        &event["sequence"],
        text(&event["timestamp"]),
        text(&event["type"]),
    );
    format!(
        "{sequence:>5}  {at}  {kind:<16}  {node:<16}  {}",
        event["payload"]
    )
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
    let page = client
        .get(&format!("/v1/runs/{run}/events/poll?timeout={seconds}{from}"))
        .await?;
    let events = page["events"].as_array().cloned().unwrap_or_default();
    for event in &events {
        print(event)?;
    }
    let last = events
        .last()
        .and_then(|event| event["sequence"].as_u64())
        .or(after);
    Ok((last, page["isComplete"] == true))
}

async fn cancel(client: &Client, args: &ClientArgs, run: &str, reason: Option<&str>) -> anyhow::Result<()> {
    let answer = client
        .post(&format!("/v1/runs/{run}/cancel"), &json!({ "reason": reason }))
        .await?;
    if args.json {
        return output::line(&answer.to_string());
    }
    output::line(&format!(
        "{} is {}",
        text(&answer["runId"]),
        text(&answer["status"])
    ))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(
        || {
            if value.is_null() {
                String::new()
            } else {
                value.to_string()
            }
        },
        str::to_owned,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_json_where_they_can_be() {
        let inputs = ["a=1", "b=true", "c=text", "d={\"x\":[1]}", "e=", "f=a=b"].map(str::to_owned);
        let parsed = Value::from(parse_inputs(&inputs).unwrap());
        assert_eq!(
            parsed,
            json!({ "a": 1, "b": true, "c": "text", "d": { "x": [1] }, "e": "", "f": "a=b" })
        );
        assert!(parse_inputs(&["novalue".to_owned()]).is_err());
        assert!(parse_inputs(&["=x".to_owned()]).is_err());
    }
}
