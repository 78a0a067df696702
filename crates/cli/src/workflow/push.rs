//! `abide workflow push`: definitions become versions on the server.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::args::ClientArgs;
use crate::client::{Client, encoded};
use crate::definition_file::DefinitionFile;
use crate::exit::{Exit, Failure};
use crate::output::{self, cell};

/// Pushes every file. One that is refused does not keep the others from being pushed.
pub(super) async fn push(client: &Client, args: &ClientArgs, paths: &[PathBuf]) -> anyhow::Result<()> {
    let mut refused = 0;
    for path in paths {
        match push_file(client, path).await {
            Ok(answer) if args.json => output::json(&answer.to_string())?,
            Ok(answer) => output::line(&told(&answer))?,
            // The exit code of the only file is its own; of several, one number has to do.
            Err(error) if paths.len() == 1 => return Err(error),
            Err(error) => {
                output::say(&format!("error: {error:#}"));
                refused += 1;
            }
        }
    }
    if refused == 0 {
        return Ok(());
    }
    Err(Failure::new(Exit::Refused, format!("{refused} of {} files were not pushed", paths.len())).into())
}

/// Pushes one definition and gives the server's answer. What is wrong with it is told line by line.
pub(crate) async fn push_file(client: &Client, path: &Path) -> anyhow::Result<Value> {
    let file = DefinitionFile::read(path)?;
    let at = format!("/v1/workflows/{}", encoded(&file.id()?));
    let answer = client.put_text(&at, file.text.clone(), file.content_type()).await?;
    let problems = answer.problems();
    if problems.is_empty() {
        return answer.json();
    }
    let lines: Vec<String> = problems.iter().map(|(place, message)| file.told(place, message)).collect();
    Err(Failure::new(Exit::Refused, format!("the definition is not valid:\n{}", lines.join("\n"))).into())
}

/// The answer to a push in one line.
fn told(answer: &Value) -> String {
    let what = if answer["created"] == true { "pushed" } else { "unchanged" };
    format!("{} version {} {what}", cell(&answer["workflowId"]), cell(&answer["version"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_push_tells_whether_there_is_a_new_version() {
        let answer =
            |created: bool| json!({ "workflowId": "orders", "version": 3, "hash": "ab", "created": created });
        assert_eq!(told(&answer(true)), "orders version 3 pushed");
        assert_eq!(told(&answer(false)), "orders version 3 unchanged");
    }
}
