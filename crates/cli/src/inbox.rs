//! `abide inbox`: what waits for an answer, oldest first.

use jiff::Timestamp;
use serde_json::Value;

use crate::answer::decision;
use crate::args::InboxArgs;
use crate::client::{Client, encoded};
use crate::draw::words::{clip, legible};
use crate::output::{self, cell};
use crate::when;

/// Columns of a title. A sentence that is longer loses its end.
const TITLE_COLUMNS: usize = 48;

pub(crate) async fn list(args: InboxArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.client)?;
    let filters = filters(&args);
    let answer = gather(&client, &filters, args.limit).await?;
    if args.client.json {
        return output::json(&answer.to_string());
    }
    let rows = rows(&answer);
    if rows.is_empty() {
        let told = if filters.is_empty() {
            "nothing waits for an answer"
        } else {
            "nothing like that waits for an answer; `abide inbox` shows all"
        };
        output::say(told);
        return Ok(());
    }
    output::line(&table(rows, client.now()))?;
    if let Some(counted) = counted(&answer["counts"]) {
        output::say(&counted);
    }
    if !answer["nextCursor"].is_null() {
        output::say(&format!("there are more; ask for them with --limit (shown: {})", args.limit));
    }
    output::say(
        "answer one with `abide answer RUN NODE`; if a node asks several things, `abide answer RUN` lists them",
    );
    Ok(())
}

/// The first entries that pass the filters. A server looks at so many for a page, whether they pass or not, so there may
/// be more behind a page with few.
async fn gather(client: &Client, filters: &str, limit: usize) -> anyhow::Result<Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let wanted = limit - found.len();
        let mut page = client.get(&format!("/v1/interrupts?limit={wanted}{filters}{cursor}")).await?;
        found.extend(page["interrupts"].as_array_mut().map(std::mem::take).unwrap_or_default());
        match page["nextCursor"].as_str().filter(|_| found.len() < limit) {
            Some(next) => cursor = format!("&cursor={}", encoded(next)),
            None => {
                page["interrupts"] = found.into();
                return Ok(page);
            }
        }
    }
}

fn filters(args: &InboxArgs) -> String {
    let older_than = args.older_than.map(|ms| ms.to_string());
    [
        ("kind", &args.kind),
        ("run", &args.run),
        ("approver", &args.approver),
        ("title", &args.title),
        ("olderThan", &older_than),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some(format!("&{name}={}", encoded(value.as_deref()?))))
    .collect()
}

/// The entries of an inbox.
pub(crate) fn rows(answer: &Value) -> &[Value] {
    answer["interrupts"].as_array().map_or(&[][..], Vec::as_slice)
}

/// The entries as a table.
pub(crate) fn table(rows: &[Value], now: Timestamp) -> String {
    let row = |entry: &Value| {
        let age = entry["ageMs"].as_i64().map_or(String::new(), when::duration);
        let title = [clip(&cell(&entry["title"]), TITLE_COLUMNS)].into_iter().chain(standing(entry));
        let title = title.collect::<Vec<_>>().join(" ");
        let deadline = cell(&entry["deadline"]);
        let deadline = when::told(&deadline, now).unwrap_or(deadline);
        vec![age, cell(&entry["kind"]), title, cell(&entry["runId"]), cell(&entry["nodeId"]), deadline]
    };
    output::table(&["AGE", "KIND", "TITLE", "RUN", "NODE", "DEADLINE"], rows.iter().map(row).collect())
}

/// How far it has come, behind its title.
fn standing(entry: &Value) -> Option<String> {
    let asks = entry["openAsks"].as_u64().map(|count| match count {
        1 => "a question is open".to_owned(),
        more => format!("{more} questions are open"),
    });
    let parts: Vec<String> = [decision::standing(&entry["quorum"]), asks].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("({})", parts.join(", ")))
}

/// How many wait in all, and of which kinds.
fn counted(counts: &Value) -> Option<String> {
    let total = counts["total"].as_u64()?;
    let kinds = counts["byKind"].as_object().into_iter().flatten();
    let kinds: Vec<String> = kinds
        .filter_map(|(kind, count)| count.as_u64().filter(|count| *count > 0).map(|count| (kind, count)))
        .map(|(kind, count)| format!("{count} {}", legible(kind)))
        .collect();
    let kinds = if kinds.is_empty() { String::new() } else { format!(": {}", kinds.join(", ")) };
    Some(format!("{total} in all{kinds}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_stand_in_columns_and_titles_are_clipped() {
        let entries = [
            json!({ "ageMs": 7_500_000, "kind": "approval", "title": "Refund \u{1b}[2J of 40 EUR", "runId": "run-1",
                    "nodeId": "approve", "deadline": "2026-01-01T12:00:00.000Z" }),
            json!({ "ageMs": 12, "kind": "clarification", "title": "word ".repeat(20), "runId": "run-2", "nodeId": "ask" }),
        ];
        insta::assert_snapshot!(table(&entries, "2026-01-01T11:00:00Z".parse().unwrap()));
    }

    #[test]
    fn the_counts_name_the_kinds_that_there_are() {
        let counts = json!({ "total": 3, "byKind": { "approval": 2, "clarification": 1, "custom": 0 } });
        assert_eq!(counted(&counts).unwrap(), "3 in all: 2 approval, 1 clarification");
        assert_eq!(counted(&json!({ "total": 0, "byKind": {} })).unwrap(), "0 in all");
        assert_eq!(counted(&Value::Null), None);
    }
}
