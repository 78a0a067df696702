//! What the forms of an approval say: a decision, what to make better, an edited artifact, or a question back.

use abide_core::{Json, JsonMap, says_something};

use super::answering::Wrong;
use super::form::Fields;
use super::questions;

/// The fields of an edited artifact and of a refinement's words.
pub(super) const EDITED: &str = "edited";
pub(super) const TEXT: &str = "text";

/// What a form of an approval says, as an answer; or what is wrong with it, by field.
pub(super) fn read(fields: &Fields) -> Result<Json, Wrong> {
    let action = fields.get("action").unwrap_or_default();
    let mut answer = JsonMap::from([("action".to_owned(), Json::of(action))]);
    match action {
        "refine" => drop(answer.insert("refineFeedback".to_owned(), refinement(fields)?)),
        "edit-accept" => {
            let edited = questions::json(fields.get(EDITED).unwrap_or_default());
            let edited = edited.map_err(|problem| vec![(EDITED.to_owned(), problem)])?;
            answer.insert("editedArtifactData".to_owned(), edited);
        }
        "ask" => drop(answer.insert("question".to_owned(), Json::of(&lines(fields, "question")))),
        _ => {}
    }
    let feedback = fields.said("feedback").map(|text| text.replace("\r\n", "\n"));
    if let Some(feedback) = feedback.filter(|_| !matches!(action, "refine" | "ask" | "edit-accept")) {
        answer.insert("feedback".to_owned(), Json::of(&feedback));
    }
    Ok(Json::of(&answer))
}

fn refinement(fields: &Fields) -> Result<Json, Wrong> {
    let mut feedback = JsonMap::new();
    let mut put = |key: &str, json: Json| feedback.insert(key.to_owned(), json);
    put("scope", Json::of(fields.get("scope").unwrap_or("whole")));
    let text = lines(fields, TEXT);
    for (key, said) in [("sectionPath", fields.said("sectionPath").map(str::to_owned)), ("text", text)] {
        said.map(|said| put(key, Json::of(&said)));
    }
    for key in ["itemIds", "tags"] {
        let entries = listed(fields.get(key).unwrap_or_default());
        (!entries.is_empty()).then(|| put(key, Json::of(&entries)));
    }
    let feedback = Json::of(&feedback);
    if says_something(&feedback) {
        return Ok(feedback);
    }
    Err(vec![(TEXT.to_owned(), "Say what to make better, in words or by tags.".to_owned())])
}

/// A text of several lines.
fn lines(fields: &Fields, name: &str) -> Option<String> {
    fields.said(name).map(|text| text.replace("\r\n", "\n"))
}

/// The entries of a list that is written with commas, or line by line.
fn listed(text: &str) -> Vec<&str> {
    text.split([',', '\n']).map(str::trim).filter(|entry| !entry.is_empty()).collect()
}

/// The field whose part of the answer stands at this place.
pub(super) fn field_at(path: &str) -> Option<String> {
    if path.starts_with("/editedArtifactData") {
        return Some(EDITED.to_owned());
    }
    let below = path.strip_prefix("/refineFeedback/")?.split('/').next()?;
    let known = ["scope", "sectionPath", "itemIds", "tags", TEXT];
    known.contains(&below).then(|| below.to_owned())
}
