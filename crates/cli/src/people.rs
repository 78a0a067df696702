//! `abide people`: the directory of people on a server.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::args::{PeopleArgs, PeopleVerb, SetPersonArgs};
use crate::client::{Client, encoded};
use crate::draw::words::legible;
use crate::exit::{Exit, Failure};
use crate::output::{self, cell};

/// Bytes of a file of people: some hundred thousand of them.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

pub(crate) async fn dispatch(args: PeopleArgs) -> anyhow::Result<()> {
    let (client, json) = (Client::new(&args.client)?, args.client.json);
    match args.verb {
        PeopleVerb::List => list(&client, json).await,
        PeopleVerb::Show { principal } => show(&client.get(&path(&principal)).await?, json),
        PeopleVerb::Set(set) => {
            let person = client.put(&path(&set.principal), &body(&set)).await?;
            if json { output::json(&person.to_string()) } else { tell(&set.principal, "set") }
        }
        PeopleVerb::Rm { principal } => {
            client.delete(&path(&principal)).await?;
            if json {
                return output::json(&json!({ "principal": principal, "removed": true }).to_string());
            }
            tell(&principal, "removed")
        }
        PeopleVerb::Import { file } => import(&client, &file, json).await,
    }
}

fn tell(principal: &str, what: &str) -> anyhow::Result<()> {
    output::line(&format!("{} is {what}", legible(principal)))
}

fn body(set: &SetPersonArgs) -> Value {
    let addresses: Map<String, Value> =
        set.addresses.iter().map(|(channel, address)| (channel.clone(), json!(address))).collect();
    json!({ "displayName": set.name, "roles": set.roles, "groups": set.groups, "addresses": addresses })
}

async fn list(client: &Client, json: bool) -> anyhow::Result<()> {
    let answer = client.pages("/v1/people", "people").await?;
    if json {
        return output::json(&answer.to_string());
    }
    let people = answer["people"].as_array().map_or(&[][..], Vec::as_slice);
    if people.is_empty() {
        output::say("nobody yet; enter somebody with `abide people set PRINCIPAL`");
        return Ok(());
    }
    let row = |person: &Value| {
        vec![
            cell(&person["principal"]),
            cell(&person["displayName"]),
            joined(&person["roles"]),
            joined(&person["groups"]),
            channels(&person["addresses"]).join(", "),
        ]
    };
    output::line(&output::table(
        &["PRINCIPAL", "NAME", "ROLES", "GROUPS", "CHANNELS"],
        people.iter().map(row).collect(),
    ))
}

fn joined(words: &Value) -> String {
    let words: Vec<String> = words.as_array().map_or(&[][..], Vec::as_slice).iter().map(cell).collect();
    words.join(", ")
}

fn channels(addresses: &Value) -> Vec<String> {
    addresses.as_object().map(|all| all.keys().map(|channel| legible(channel)).collect()).unwrap_or_default()
}

fn show(person: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&person.to_string());
    }
    let mut rows = vec![
        vec!["principal".to_owned(), cell(&person["principal"])],
        vec!["name".to_owned(), cell(&person["displayName"])],
        vec!["roles".to_owned(), joined(&person["roles"])],
        vec!["groups".to_owned(), joined(&person["groups"])],
    ];
    for channel in channels(&person["addresses"]) {
        let address = cell(&person["addresses"][&channel]);
        rows.push(vec![channel, address]);
    }
    rows.push(vec!["changed".to_owned(), cell(&person["updatedAt"])]);
    output::line(&output::table(&["PERSON", ""], rows))
}

/// Enters everybody in a file, one after the other. What is wrong with the file is found before the first.
async fn import(client: &Client, file: &Path, json: bool) -> anyhow::Result<()> {
    let people = read(file)?;
    for (principal, person) in &people {
        client.put(&path(principal), person).await?;
    }
    if json {
        return output::json(&json!({ "imported": people.len() }).to_string());
    }
    output::line(&match people.len() {
        1 => "1 person is set".to_owned(),
        count => format!("{count} people are set"),
    })
}

/// The people of a file: who, and what is known about them.
fn read(file: &Path) -> anyhow::Result<Vec<(String, Value)>> {
    let told = |what: String| Failure::new(Exit::Refused, format!("{}: {what}", file.display()));
    let size = std::fs::metadata(file).map_err(|error| told(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(told(format!("it has more than {FILE_BYTES_MAX} bytes; split it")).into());
    }
    let text = std::fs::read_to_string(file).map_err(|error| told(error.to_string()))?;
    let json = if text.trim_start().starts_with(['[', '{']) {
        text.into_bytes()
    } else {
        abide_core::json_from_yaml(&text).map_err(|problem| told(problem.to_string()))?
    };
    let value: Value = serde_json::from_slice(&json).map_err(|error| told(error.to_string()))?;
    let list = value.as_array().or_else(|| value["people"].as_array());
    let list = list.ok_or_else(|| told("it is no list of people, and has none under 'people'".to_owned()))?;
    let split = |(at, person): (usize, &Value)| {
        let mut person = person.as_object().cloned().unwrap_or_default();
        // What a list printed can be read again.
        ["createdAt", "updatedAt"].iter().for_each(|key| drop(person.remove(*key)));
        match person.remove("principal") {
            Some(Value::String(principal)) => Ok((principal, Value::Object(person))),
            _ => Err(told(format!("entry {} has no 'principal'; say who it is", at + 1)).into()),
        }
    };
    list.iter().enumerate().map(split).collect()
}

fn path(principal: &str) -> String {
    format!("/v1/people/{}", encoded(principal))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> anyhow::Result<Vec<(String, Value)>> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("people");
        std::fs::write(&file, text).unwrap();
        read(&file)
    }

    #[test]
    fn people_come_as_json_or_yaml_and_as_a_list_prints_them() {
        let ada = [("ada".to_owned(), json!({ "roles": ["finance"] }))];
        for text in [
            r#"[{"principal":"ada","roles":["finance"]}]"#,
            r#"{"people":[{"principal":"ada","roles":["finance"],"createdAt":"x","updatedAt":"y"}],"nextCursor":null}"#,
            "people:\n  - principal: ada\n    roles: [finance]\n",
        ] {
            assert_eq!(read_text(text).unwrap(), ada, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_with_its_place() {
        for (text, what) in [
            (r#"[{"principal":"a"},{"roles":[]}]"#, "entry 2 has no 'principal'"),
            ("[1]", "entry 1 has no 'principal'"),
            ("{}", "no list of people"),
            ("[", "EOF"),
        ] {
            let told = read_text(text).unwrap_err().to_string();
            assert!(told.contains(what), "{told}");
        }
    }
}
