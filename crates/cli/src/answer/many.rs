//! `abide answer --all`: one answer for many questions, after a list of what will happen to each.

use std::io::IsTerminal;

use serde_json::{Map, Value, json};

use super::given;
use crate::args::{AnswerArgs, ManyArgs};
use crate::client::Client;
use crate::draw::words::clip;
use crate::exit::{Exit, Failure};
use crate::output::{self, cell};
use crate::terminal;

const PATH: &str = "/v1/interrupts:bulk-resolve";

/// Columns of a title. A sentence that is longer loses its end.
const TITLE_COLUMNS: usize = 40;

/// Questions that one request answers.
const AT_ONCE: usize = 100;

pub(super) async fn answer(client: &Client, args: &AnswerArgs) -> anyhow::Result<()> {
    let Some(value) = given(args, None)? else {
        let message = "say what to answer: --accept, --reject or --value JSON";
        return Err(Failure::new(Exit::Refused, message).into());
    };
    let listed = list(client, &args.many, &value).await?;
    if args.client.json && args.many.dry_run {
        return output::json(&json!({ "dryRun": true, "results": listed }).to_string());
    }
    if listed.is_empty() {
        output::say("nothing like that waits for an answer; `abide inbox` shows all");
        return Ok(());
    }
    let taken: Vec<&Value> = listed.iter().filter(|entry| entry["ok"] == true).collect();
    if args.many.dry_run {
        return output::line(&table(&listed, "WOULD BE"));
    }
    if taken.is_empty() {
        output::say(&table(&listed, "WOULD BE"));
        return Err(
            Failure::new(Exit::Refused, "none of them would take this answer; nothing was sent").into()
        );
    }
    if !args.many.yes {
        output::say(&table(&listed, "WOULD BE"));
        confirm(taken.len(), listed.len())?;
    }
    carry_out(client, args, &value, &taken).await
}

/// What would happen to each that the filters let pass, page by page.
async fn list(client: &Client, many: &ManyArgs, value: &Value) -> anyhow::Result<Vec<Value>> {
    let (mut listed, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let mut filter = filter(many);
        if !cursor.is_null() {
            filter.insert("cursor".to_owned(), cursor);
        }
        let body = json!({ "resumeValue": value, "filter": filter, "dryRun": true });
        let mut page = client.post(PATH, &body).await?;
        listed.extend(page["results"].as_array_mut().map(std::mem::take).unwrap_or_default());
        cursor = page["nextCursor"].take();
        if cursor.is_null() {
            return Ok(listed);
        }
    }
}

fn filter(many: &ManyArgs) -> Map<String, Value> {
    let texts = [
        ("kind", &many.kind),
        ("run", &many.of_run),
        ("workflowId", &many.of_workflow),
        ("nodeId", &many.of_node),
        ("tag", &many.tag),
        ("approver", &many.approver),
        ("title", &many.title),
    ];
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text.as_ref()?))));
    let age = many.older_than.map(|ms| ("olderThanMs".to_owned(), json!(ms)));
    texts.chain(age).collect()
}

fn confirm(taken: usize, listed: usize) -> anyhow::Result<()> {
    if !std::io::stdin().is_terminal() {
        let message = "an answer can't be taken back, and there is no terminal to ask on: add --yes";
        return Err(Failure::new(Exit::Refused, message).into());
    }
    if terminal::confirm(&format!("Give this answer to {taken} of {listed}?"))? {
        return Ok(());
    }
    Err(Failure::new(Exit::Refused, "nothing was sent").into())
}

/// Answers what was listed, and nothing else: whatever was asked since is left alone.
async fn carry_out(
    client: &Client,
    args: &AnswerArgs,
    value: &Value,
    taken: &[&Value],
) -> anyhow::Result<()> {
    let mut results = Vec::new();
    for some in taken.chunks(AT_ONCE) {
        let named: Vec<Value> = some
            .iter()
            .map(|entry| json!({ "runId": entry["runId"], "interruptId": entry["interruptId"] }))
            .collect();
        let key = format!("answers-{}", uuid::Uuid::new_v4().simple());
        let body = json!({ "resumeValue": value, "interrupts": named });
        let mut answer = client.post_surely(PATH, &body, &[("Idempotency-Key", &key)]).await?.json()?;
        results.extend(answer["results"].as_array_mut().map(std::mem::take).unwrap_or_default());
    }
    for (told, entry) in results.iter_mut().zip(taken) {
        for name in ["nodeId", "kind", "title"] {
            told[name] = entry[name].clone();
        }
    }
    if args.client.json {
        output::json(&json!({ "dryRun": false, "results": results }).to_string())?;
    } else {
        output::line(&table(&results, "IS"))?;
    }
    match results.iter().filter(|entry| entry["ok"] != true).count() {
        0 => Ok(()),
        failed => {
            let message = format!("{failed} of {} answers were not taken", results.len());
            Err(Failure::new(Exit::Refused, message).into())
        }
    }
}

/// One line for each; `becomes` heads how its run stands, or would.
fn table(entries: &[Value], becomes: &str) -> String {
    let row = |entry: &Value| {
        let outcome = match entry["ok"] == true {
            true => cell(&entry["status"]),
            false => format!("refused: {}", cell(&entry["error"]["code"])),
        };
        let title = clip(&cell(&entry["title"]), TITLE_COLUMNS);
        vec![outcome, cell(&entry["kind"]), title, cell(&entry["runId"]), cell(&entry["nodeId"])]
    };
    output::table(&[becomes, "KIND", "TITLE", "RUN", "NODE"], entries.iter().map(row).collect())
}
