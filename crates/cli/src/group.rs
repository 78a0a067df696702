//! `abide group`: several runs that somebody looks at together.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::args::{CreateGroupArgs, GroupArgs, GroupVerb, RoleArg, RuleArg, RulesArgs, parse_span};
use crate::client::{Client, encoded};
use crate::draw::words::legible;
use crate::exit::{Exit, Failure};
use crate::graph::mark;
use crate::output::{self, cell};
use crate::when;

pub(crate) async fn dispatch(args: GroupArgs) -> anyhow::Result<()> {
    let (client, json) = (Client::new(&args.client)?, args.client.json);
    match args.verb {
        GroupVerb::Create(asked) => create(&client, json, &asked).await,
        GroupVerb::List => list(&client, json).await,
        GroupVerb::Show { group } => show(&client, json, &group).await,
        GroupVerb::Add { group, runs, role, priority } => {
            add(&client, json, &group, &runs, role, priority).await
        }
        GroupVerb::Remove { group, run } => {
            tell(&client.delete(&path(&group, &format!("/members/{}", encoded(&run)))).await?, json)
        }
        GroupVerb::Set { group, rules, without } => {
            // What others say meanwhile is refused, and not taken back unseen.
            let mut kept = client.get(&path(&group, "")).await?;
            let version = kept["governanceVersion"].take();
            let mut kept = kept["governance"].take();
            without
                .into_iter()
                .for_each(|rule| drop(kept.as_object_mut().and_then(|kept| kept.remove(named(rule)))));
            let mut rules = governance(&client, kept, &rules).await?;
            rules["version"] = version;
            tell(&client.put(&path(&group, "/governance"), &rules).await?, json)
        }
        GroupVerb::Close { group } => tell(&client.post(&path(&group, ":close"), &json!({})).await?, json),
        GroupVerb::Abandon { group, reason } => {
            // Only what is a group is abandoned as one.
            client.get(&path(&group, "")).await?;
            let cancel = format!("/v1/runs/{}/cancel", encoded(&group));
            client.post(&cancel, &json!({ "reason": reason })).await?;
            tell(&client.get(&path(&group, "")).await?, json)
        }
    }
}

fn path(group: &str, rest: &str) -> String {
    format!("/v1/groups/{}{rest}", encoded(group))
}

async fn create(client: &Client, json: bool, asked: &CreateGroupArgs) -> anyhow::Result<()> {
    let mut body =
        json!({ "name": asked.name, "governance": governance(client, json!({}), &asked.rules).await? });
    if let Some(description) = &asked.description {
        body["description"] = description.as_str().into();
    }
    let group = client.post("/v1/groups", &body).await?;
    if json { output::json(&group.to_string()) } else { output::line(&cell(&group["groupId"])) }
}

/// What a rule is called in a request.
fn named(rule: RuleArg) -> &'static str {
    match rule {
        RuleArg::Deadline => "deadline",
        RuleArg::AllowPartial => "allowPartialCompletion",
        RuleArg::CompleteAt => "autoCompleteThreshold",
        RuleArg::BudgetCents => "budgetLimitCents",
    }
}

/// What is to hold: what does already, and what is asked for.
async fn governance(client: &Client, mut body: Value, rules: &RulesArgs) -> anyhow::Result<Value> {
    if rules.allow_partial {
        body["allowPartialCompletion"] = true.into();
    }
    if let Some(deadline) = &rules.deadline {
        moment(deadline, client.now())?;
        // Whatever is told from now is told by the server's clock, which every answer of it bears.
        client.get("/v1/groups?limit=1").await?;
        body["deadline"] = moment(deadline, client.now())?.into();
    }
    if let Some(share) = rules.complete_at {
        body["autoCompleteThreshold"] = share.into();
    }
    if let Some(cents) = rules.budget_cents {
        body["budgetLimitCents"] = cents.into();
    }
    Ok(body)
}

/// A moment as it was given, or so long from now.
fn moment(text: &str, now: Timestamp) -> anyhow::Result<String> {
    if text.parse::<Timestamp>().is_ok() {
        return Ok(text.to_owned());
    }
    let told = || {
        let message = format!("--deadline {text}: use a moment such as 2026-10-01T00:00:00Z, or 12h");
        Failure::new(Exit::Usage, message)
    };
    let ms = parse_span(text).map_err(|_| told())?;
    let at = Timestamp::from_millisecond(now.as_millisecond().saturating_add(ms)).map_err(|_| told())?;
    Ok(at.to_string())
}

async fn add(
    client: &Client,
    json: bool,
    group: &str,
    runs: &[String],
    role: RoleArg,
    priority: i32,
) -> anyhow::Result<()> {
    let role = match role {
        RoleArg::Primary => "primary",
        RoleArg::Member => "member",
        RoleArg::Dependency => "dependency",
    };
    let mut last = Value::Null;
    for (added, run) in runs.iter().enumerate() {
        let body = json!({ "runId": run, "role": role, "priority": priority });
        let done = client.post(&path(group, "/members"), &body).await;
        if done.is_err() && added > 0 {
            output::say(&format!("added before the one that was refused: {}", runs[..added].join(", ")));
        }
        last = done?;
    }
    tell(&last, json)
}

fn tell(group: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&group.to_string());
    }
    output::line(&standing(group))
}

/// How a group stands, in one line.
fn standing(group: &Value) -> String {
    let aggregate = &group["aggregateStatus"];
    let (name, status) = (cell(&group["name"]), cell(&group["status"]));
    format!("{name} is {status}; its members: {}", members_told(aggregate))
}

fn members_told(aggregate: &Value) -> String {
    let counts = aggregate["by_status"].as_object().into_iter().flatten();
    let counts: Vec<String> = counts.map(|(status, count)| format!("{count} {}", legible(status))).collect();
    let counts = if counts.is_empty() { "no members".to_owned() } else { counts.join(", ") };
    format!("{} ({counts})", cell(&aggregate["status"]))
}

async fn list(client: &Client, json: bool) -> anyhow::Result<()> {
    let answer = client.pages("/v1/groups", "groups").await?;
    if json {
        return output::json(&answer.to_string());
    }
    let groups = answer["groups"].as_array().map_or(&[][..], Vec::as_slice);
    if groups.is_empty() {
        output::say("no groups yet; make one with `abide group create NAME`");
        return Ok(());
    }
    let row = |group: &Value| {
        vec![
            cell(&group["groupId"]),
            cell(&group["name"]),
            cell(&group["status"]),
            members_told(&group["aggregateStatus"]),
            cell(&group["suspendedMemberCount"]),
        ]
    };
    output::line(&output::table(
        &["GROUP", "NAME", "STATUS", "MEMBERS", "WAIT FOR PEOPLE"],
        groups.iter().map(row).collect(),
    ))
}

async fn show(client: &Client, json: bool, id: &str) -> anyhow::Result<()> {
    let mut group = client.get(&path(id, "")).await?;
    let members = client.pages(&path(id, "/members"), "members").await?;
    if json {
        group["members"] = members["members"].clone();
        return output::json(&group.to_string());
    }
    output::page(&page(&group, members["members"].as_array().map_or(&[][..], Vec::as_slice), client.now()))
}

/// A share as it was asked for: what a double makes of it is nobody's wish.
fn percent(share: f64) -> String {
    let hundredths = (share * 10_000.0).round() / 100.0;
    format!("{hundredths} %")
}

/// Millionths of a dollar as cents, rounded up: nothing that is over a limit looks as if it were not.
fn cents(micros: u64) -> String {
    let hundredths = micros.div_ceil(100);
    match hundredths % 100 {
        0 => (hundredths / 100).to_string(),
        rest => format!("{}.{rest:02}", hundredths / 100),
    }
}

/// A group, what holds for it, and its members: those that wait for people first.
fn page(group: &Value, members: &[Value], now: Timestamp) -> String {
    let time = |value: &Value| {
        let text = cell(value);
        when::told(&text, now).unwrap_or(text)
    };
    let governance = &group["governance"];
    let mut page = String::new();
    let mut field = |name: &str, value: String| page += &format!("{name:<13}{value}\n");
    field("group", cell(&group["groupId"]));
    field("name", cell(&group["name"]));
    if group["description"].is_string() {
        field("description", cell(&group["description"]));
    }
    field("status", cell(&group["status"]));
    field("members", members_told(&group["aggregateStatus"]));
    if governance["deadline"].is_string() {
        field("deadline", time(&governance["deadline"]));
    }
    if governance["allowPartialCompletion"] == true {
        field("closing", "allowed before every member has completed".to_owned());
    }
    if let Some(share) = governance["autoCompleteThreshold"].as_f64() {
        field("completes", format!("once {} of its members have", percent(share)));
    }
    if !governance["budgetLimitCents"].is_null() {
        let spent = cents(group["costMicros"].as_u64().unwrap_or(0));
        let over = if group["overBudget"] == true { ", which is too much" } else { "" };
        field("budget", format!("{spent} of {} cents spent{over}", cell(&governance["budgetLimitCents"])));
    }
    if !members.is_empty() {
        page += "\n";
    }
    let mut members: Vec<&Value> = members.iter().collect();
    members.sort_by_key(|member| member["suspendedSince"].is_null());
    for member in members {
        let asked = match member["suspendedSince"].as_str() {
            Some(_) if member["expiresAt"].is_string() => {
                format!(", since {}, until {}", time(&member["suspendedSince"]), time(&member["expiresAt"]))
            }
            Some(_) => format!(", since {}", time(&member["suspendedSince"])),
            None => String::new(),
        };
        let role =
            if member["role"] == "member" { String::new() } else { format!(" ({})", cell(&member["role"])) };
        page += &format!(
            "{} {}{role} {}{asked}\n",
            mark(&member["status"]),
            cell(&member["runId"]),
            cell(&member["status"])
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_as_they_were_meant() {
        assert_eq!([0.29, 0.8, 1.0, 0.125].map(percent), ["29 %", "80 %", "100 %", "12.5 %"]);
        assert_eq!([0, 50_000, 50_001, 54_000].map(cents), ["0", "5", "5.01", "5.40"]);
    }

    #[test]
    fn a_page_names_those_first_who_wait_for_people() {
        let group = json!({
            "groupId": "run-9", "name": "Q3 close", "status": "active",
            "governance": { "deadline": "2026-01-02T12:00:00.000Z", "budgetLimitCents": 500 },
            "aggregateStatus": { "status": "in_progress", "total": 2, "by_status": { "active": 1, "suspended_awaiting_input": 1 } },
            "costMicros": 1_230_000, "overBudget": false,
        });
        let members = [
            json!({ "runId": "run-1", "role": "member", "status": "running", "suspendedSince": null }),
            json!({ "runId": "run-2", "role": "primary", "status": "waiting-input",
                    "suspendedSince": "2026-01-01T11:00:00.000Z", "expiresAt": "2026-01-01T14:00:00.000Z" }),
        ];
        let page = page(&group, &members, "2026-01-01T12:00:00Z".parse().unwrap());
        insta::assert_snapshot!(page, @"
        group        run-9
        name         Q3 close
        status       active
        members      in_progress (1 active, 1 suspended_awaiting_input)
        deadline     2026-01-02T12:00:00.000Z (in 1 d 0 h)
        budget       123 of 500 cents spent

        ? run-2 (primary) waiting-input, since 2026-01-01T11:00:00.000Z (1 h 0 min ago), until 2026-01-01T14:00:00.000Z (in 2 h 0 min)
        ▶ run-1 running
        ");
    }

    #[test]
    fn a_deadline_is_a_moment_or_so_long_from_now() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        assert_eq!(moment("2026-10-01T00:00:00Z", now).unwrap(), "2026-10-01T00:00:00Z");
        assert_eq!(moment("12h", now).unwrap(), "2026-01-02T00:00:00Z");
        assert!(moment("soon", now).unwrap_err().to_string().contains("--deadline soon"));
    }
}
