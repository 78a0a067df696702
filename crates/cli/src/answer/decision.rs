//! Decisions about an approval, as flags and lines on a terminal say them.

use abide_core::{Json, says_something};
use serde_json::{Value, json};

use super::question::Question;
use crate::args::AnswerArgs;
use crate::exit::{Exit, Failure};
use crate::output::cell;

/// The decision, or the question back, that the flags hold.
pub(super) fn given(args: &AnswerArgs) -> anyhow::Result<Option<Value>> {
    let given = &args.given;
    let value = if given.accept {
        json!({ "action": "accept" })
    } else if given.reject {
        json!({ "action": "reject" })
    } else if let Some(artifact) = &given.edit {
        json!({ "action": "edit-accept", "editedArtifactData": artifact })
    } else if let Some(question) = &given.ask {
        json!({ "action": "ask", "question": question })
    } else if let Some(text) = &given.refine {
        json!({ "action": "refine", "refineFeedback": refinement(args, text.as_deref())? })
    } else {
        return Ok(None);
    };
    Ok(Some(value))
}

fn refinement(args: &AnswerArgs, text: Option<&str>) -> anyhow::Result<Value> {
    let wish = &args.wish;
    let scope = match (&wish.section, wish.items.is_empty()) {
        (Some(_), _) => "section",
        (None, false) => "items",
        (None, true) => "whole",
    };
    let parts = [
        ("text", text.map(|text| json!(text))),
        ("sectionPath", wish.section.as_ref().map(|path| json!(path))),
        ("itemIds", (!wish.items.is_empty()).then(|| json!(wish.items))),
        ("tags", (!wish.tags.is_empty()).then(|| json!(wish.tags))),
    ];
    let mut feedback = json!({ "scope": scope });
    for (key, part) in parts {
        if let Some(part) = part {
            feedback[key] = part;
        }
    }
    said(feedback)
}

/// A refinement that says something. One that does not helps nobody, and is not sent.
pub(super) fn said(feedback: Value) -> anyhow::Result<Value> {
    if says_something(&Json::of(&feedback)) {
        return Ok(feedback);
    }
    let message = "say what to make better: --refine \"shorter\", or --refine --refine-tag tone";
    Err(Failure::new(Exit::Refused, message).into())
}

/// Whether an answer asks back, which closes nothing.
pub(super) fn asks_back(value: &Value) -> bool {
    value["action"] == "ask"
}

/// What became of a decision, in a line.
pub(super) fn recorded(answer: &Value, value: &Value) -> String {
    let (node, run, status) = (cell(&answer["nodeId"]), cell(&answer["runId"]), cell(&answer["status"]));
    if asks_back(value) {
        return format!("asked as {} at {node} of {run}; the run is {status}", cell(&answer["askId"]));
    }
    if let Some(standing) = standing(&answer["quorum"]) {
        return format!("your vote at {node} of {run} counts: {standing}; the run is {status}");
    }
    let done = match value["action"].as_str() {
        Some("accept") => "accepted",
        Some("reject") => "rejected",
        Some("edit-accept") => "accepted with changes",
        Some("refine") => "to be made better",
        _ => "answered",
    };
    format!("{node} of {run} is {done}; the run is {status}")
}

/// How far an approval has come that takes several people.
pub(crate) fn standing(quorum: &Value) -> Option<String> {
    let (approvals, required) = (quorum["approvals"].as_u64()?, quorum["required"].as_u64()?);
    let against = quorum["rejections"].as_u64().filter(|count| *count > 0);
    let against = against.map_or(String::new(), |count| format!(", {count} against"));
    let missing: Vec<String> = quorum["missingGroups"].as_array().into_iter().flatten().map(cell).collect();
    let missing =
        if missing.is_empty() { String::new() } else { format!(", nobody of {} yet", missing.join(" and ")) };
    Some(format!("{approvals} of {required} accept{against}{missing}"))
}

/// Who has voted and what was asked, for whoever decides.
pub(super) fn shown(entry: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(standing) = standing(&entry["quorum"]) {
        lines.push(format!("\n{standing}"));
        let votes = entry["quorum"]["votes"].as_array().into_iter().flatten();
        lines.extend(votes.map(|vote| {
            let said = ["feedback", "reason"].into_iter().find(|key| vote[*key].is_string());
            let said = said.map_or(String::new(), |key| format!(": {}", cell(&vote[key])));
            format!("  {} {}{said}", cell(&vote["decidedBy"]), cell(&vote["action"]))
        }));
    }
    for exchange in entry["exchanges"].as_array().into_iter().flatten() {
        let (id, by) = (cell(&exchange["id"]), cell(&exchange["askedBy"]));
        lines.push(format!("\n{id} {by}: {}", cell(&exchange["question"])));
        lines.push(match exchange.get("answer") {
            Some(answer) => format!("  {}: {}", cell(&exchange["answeredBy"]), cell(answer)),
            None => "  nobody has replied yet".to_owned(),
        });
    }
    lines
}

/// The flags that decide what a gate offers.
pub(super) fn flags(question: &Question) -> String {
    let offered = question.data["actions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let flags: Vec<&str> = offered
        .map(|action| match action {
            "refine" => "--refine TEXT",
            "edit-accept" => "--edit FILE",
            "ask" => "--ask TEXT",
            "reject" => "--reject",
            _ => "--accept",
        })
        .collect();
    format!("add {}", flags.join(" or "))
}
