//! `abide graph`: runs that wait for other runs.

use serde_json::{Value, json};

use crate::args::{GraphArgs, GraphVerb};
use crate::client::{Client, encoded};
use crate::draw::words::legible;
use crate::exit::{Exit, Failure};
use crate::output::{self, cell};
use crate::when;

pub(crate) async fn dispatch(args: GraphArgs) -> anyhow::Result<()> {
    let (client, json) = (Client::new(&args.client)?, args.client.json);
    match args.verb {
        GraphVerb::Show { run } => show(&client, json, &run).await,
        GraphVerb::Phase { run, phase } => find_phase(&client, json, &run, &phase).await,
        GraphVerb::Add { run, on } => {
            let body = json!({ "runId": on });
            let graph = client.post(&path(&run, "/dependencies"), &body).await?;
            tell(&graph, json)
        }
        GraphVerb::Remove { run, on } => {
            let graph = client.delete(&path(&run, &format!("/dependencies/{}", encoded(&on)))).await?;
            tell(&graph, json)
        }
        GraphVerb::Activate { run } => tell(&client.post(&path(&run, ":activate"), &json!({})).await?, json),
        GraphVerb::Coordinate { run, agent, policy, supervisor, heartbeat } => {
            let mut body = json!({
                "kind": "register", "agent": agent, "suspensionPolicy": policy, "heartbeatIntervalMs": heartbeat,
            });
            if let Some(supervisor) = supervisor {
                body["supervisor"] = supervisor.into();
            }
            coordinate(&client, json, &run, &body).await
        }
        GraphVerb::Heartbeat { run, coordinator } => {
            coordinate(&client, json, &run, &json!({ "kind": "heartbeat", "coordinatorId": coordinator }))
                .await
        }
        GraphVerb::Leave { run, coordinator } => {
            coordinate(&client, json, &run, &json!({ "kind": "complete", "coordinatorId": coordinator }))
                .await
        }
        GraphVerb::Blocked { limit } => blocked(&client, json, limit).await,
    }
}

async fn coordinate(client: &Client, json: bool, run: &str, body: &Value) -> anyhow::Result<()> {
    let answer = client.post(&path(run, "/coordinator"), body).await?;
    if json {
        return output::json(&answer.to_string());
    }
    for lease in array(&answer["coordinators"]) {
        output::line(&lease_told(lease))?;
    }
    Ok(())
}

fn lease_told(lease: &Value) -> String {
    let [id, agent, status, policy] =
        ["coordinatorId", "agent", "status", "suspensionPolicy"].map(|name| cell(&lease[name]));
    format!("{id}: {agent} ({status}, {policy})")
}

fn path(run: &str, rest: &str) -> String {
    format!("/v1/runs/{}{rest}", encoded(run))
}

/// How the run stands after what was asked for.
fn tell(graph: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&graph.to_string());
    }
    output::line(&standing(graph))
}

fn standing(graph: &Value) -> String {
    let run = cell(&graph["runId"]);
    match graph["blocked"]["reason"].as_str() {
        Some(reason) => format!("{run} is {}", blocked_told(reason, &graph["blocked"]["by"])),
        None if graph["status"] == "draft" => format!("{run} is a draft"),
        None => format!("{run} is {}", cell(&graph["status"])),
    }
}

/// Who keeps a run from going on, and why.
pub(crate) fn blocked_told(reason: &str, by: &Value) -> String {
    format!("blocked by {} ({})", listed(by), legible(reason))
}

fn listed(ids: &Value) -> String {
    let ids: Vec<String> = array(ids).iter().map(cell).collect();
    ids.join(", ")
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[][..], Vec::as_slice)
}

async fn show(client: &Client, json: bool, run: &str) -> anyhow::Result<()> {
    let graph = client.get(&path(run, "/graph")).await?;
    if json {
        return output::json(&graph.to_string());
    }
    output::page(&page(&graph, client.now()))
}

async fn find_phase(client: &Client, json: bool, run: &str, name: &str) -> anyhow::Result<()> {
    let graph = client.get(&path(run, "/graph")).await?;
    let phases = array(&graph["phases"]);
    let Some(phase) = phases.iter().find(|phase| phase["phaseName"] == name) else {
        let known: Vec<String> = phases.iter().map(|phase| cell(&phase["phaseName"])).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let message = format!("{run} has no phase '{name}'; it has {known}");
        return Err(Failure::new(Exit::NotFound, message).into());
    };
    if json { output::json(&phase.to_string()) } else { output::line(&cell(&phase["runId"])) }
}

/// What a run has to do with others, those before it first.
fn page(graph: &Value, now: jiff::Timestamp) -> String {
    let mut page = format!("{}\n", standing(graph));
    let time = |value: &Value| {
        let text = cell(value);
        when::told(&text, now).unwrap_or(text)
    };
    let mut list = |title: &str, entries: Vec<String>| {
        if !entries.is_empty() {
            page += &format!("\n{title}\n");
            entries.iter().for_each(|entry| page += &format!("  {entry}\n"));
        }
    };
    let upstream = |upstream: &Value| {
        let (mark, status) = (mark(&upstream["status"]), cell(&upstream["status"]));
        let asked = match upstream["suspendedSince"].as_str() {
            Some(_) if upstream["expiresAt"].is_string() => {
                format!(", waits for people until {}", time(&upstream["expiresAt"]))
            }
            Some(_) => ", waits for people".to_owned(),
            None => String::new(),
        };
        format!("{mark} {} {status}{asked}", cell(&upstream["runId"]))
    };
    let related =
        |run: &Value| format!("{} {} {}", mark(&run["status"]), cell(&run["runId"]), cell(&run["status"]));
    let ended = matches!(graph["status"].as_str(), Some("completed" | "failed" | "cancelled"));
    list(
        if ended { "has waited for" } else { "waits for" },
        array(&graph["dependsOn"]).iter().map(upstream).collect(),
    );
    list("is waited for by", array(&graph["dependents"]).iter().map(related).collect());
    let named = |phase: &Value| cell(&phase["phaseName"]);
    let width = array(&graph["phases"]).iter().map(|phase| named(phase).chars().count()).max().unwrap_or(0);
    let phase = |phase: &Value| {
        let (mark, status) = (mark(&phase["status"]), cell(&phase["status"]));
        let why = phase["blockedReason"].as_str().map_or(String::new(), |why| format!(" ({})", legible(why)));
        let assign = phase["assign"].as_str().map_or(String::new(), |who| format!(", for {}", legible(who)));
        format!("{mark} {:width$}  {}  {status}{why}{assign}", named(phase), cell(&phase["runId"]))
    };
    list("phases", array(&graph["phases"]).iter().map(phase).collect());
    list("coordinators", array(&graph["coordinators"]).iter().map(lease_told).collect());
    let children = &graph["aggregateStatus"];
    if children["total"].as_u64().is_some_and(|total| total > 0) {
        let counts = children["by_status"].as_object().into_iter().flatten();
        let counts: Vec<String> =
            counts.map(|(status, count)| format!("{count} {}", legible(status))).collect();
        let told =
            format!("{} ({} % completed)", counts.join(", "), cell(&children["completion_percentage"]));
        list("children", vec![told]);
    }
    let group = |group: &Value| format!("{} as {}", cell(&group["groupId"]), cell(&group["role"]));
    list("groups", array(&graph["groups"]).iter().map(group).collect());
    if graph["deadline"].is_string() {
        page += &format!("\nIf it waits for people at {}, it is abandoned.\n", time(&graph["deadline"]));
    }
    page
}

/// How a run stands, in one sign.
pub(crate) fn mark(status: &Value) -> char {
    match status.as_str() {
        Some("completed") => '✓',
        Some("failed" | "cancelled") => '✗',
        Some("waiting-approval" | "waiting-input" | "waiting-external") => '?',
        Some("running") => '▶',
        Some("blocked") => '◔',
        _ => '·',
    }
}

async fn blocked(client: &Client, json: bool, limit: usize) -> anyhow::Result<()> {
    let answer = client.get(&format!("/v1/runs?status=blocked&limit={limit}")).await?;
    if json {
        return output::json(&answer.to_string());
    }
    let runs = array(&answer["runs"]);
    if runs.is_empty() {
        output::say("no run waits for another");
        return Ok(());
    }
    let mut rows = Vec::with_capacity(runs.len());
    for run in runs {
        // One that goes on or is erased meanwhile does not hide the others.
        let Ok(graph) = client.get(&path(run["runId"].as_str().unwrap_or_default(), "/graph")).await else {
            continue;
        };
        let blocked = &graph["blocked"];
        rows.push(vec![
            cell(&run["runId"]),
            cell(&run["workflowId"]),
            cell(&blocked["reason"]),
            cell(&blocked["since"]),
            listed(&blocked["by"]),
        ]);
    }
    output::line(&output::table(&["RUN", "WORKFLOW", "REASON", "SINCE", "WAITS FOR"], rows))?;
    if answer["nextCursor"].is_string() {
        output::say(&format!("more than {limit} are blocked; --limit shows more of them"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_tells_who_is_before_and_behind() {
        let graph = json!({
            "runId": "run-3", "status": "blocked",
            "blocked": { "reason": "dependency_suspended", "since": "2026-01-01T11:00:00.000Z", "by": ["run-2"] },
            "dependsOn": [
                { "runId": "run-1", "status": "completed" },
                { "runId": "run-2", "status": "waiting-input", "suspendedSince": "2026-01-01T11:00:00.000Z",
                  "expiresAt": "2026-01-01T14:00:00.000Z" },
            ],
            "dependents": [{ "runId": "run-4", "status": "blocked" }],
            "aggregateStatus": { "total": 3, "by_status": { "completed": 1, "active": 2 }, "completion_percentage": 33 },
            "groups": [{ "groupId": "run-9", "role": "member" }], "deadline": "2026-01-02T12:00:00.000Z",
        });
        let page = page(&graph, "2026-01-01T12:00:00Z".parse().unwrap());
        insta::assert_snapshot!(page, @"
        run-3 is blocked by run-2 (dependency_suspended)

        waits for
          ✓ run-1 completed
          ? run-2 waiting-input, waits for people until 2026-01-01T14:00:00.000Z (in 2 h 0 min)

        is waited for by
          ◔ run-4 blocked

        children
          2 active, 1 completed (33 % completed)

        groups
          run-9 as member

        If it waits for people at 2026-01-02T12:00:00.000Z (in 1 d 0 h), it is abandoned.
        ");
    }
}
