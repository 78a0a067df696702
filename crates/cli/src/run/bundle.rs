//! `abide run bundle`: what happened to a run, in one file that may be handed on.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::path;
use crate::args::{BundleArgs, ClientArgs};
use crate::client::Client;
use crate::draw::words::legible;
use crate::exit::{Exit, Failure};
use crate::output::{self, cell};

/// Writes a run's bundle into a file, or to standard output.
pub(super) async fn bundle(client: &Client, args: &ClientArgs, asked: &BundleArgs) -> anyhow::Result<()> {
    let file = asked.output.clone().unwrap_or_else(|| usual(&asked.run));
    let stdout = file.as_os_str() == "-";
    if !stdout && file.exists() {
        return Err(exists(&file).into());
    }
    let query = if asked.answers { "?answers=true" } else { "" };
    let answer = client.fetch(&path(&asked.run, &format!("/debug-bundle{query}"))).await?.accepted()?;
    let text = answer.text().to_owned();
    let bundle = answer.json()?;
    if stdout {
        return output::json(&text);
    }
    keep(&file, &text)?;
    if args.json {
        let (file, bytes) = (file.display().to_string(), text.len());
        let left_out = json!({ "count": bundle["redactionsTotal"], "reasons": reasons(&bundle) });
        return output::json(&json!({ "file": file, "bytes": bytes, "leftOut": left_out }).to_string());
    }
    output::line(&format!("{} ({} bytes)", legible(&file.display().to_string()), text.len()))?;
    output::say(&left_out(&bundle, asked.answers));
    Ok(())
}

/// The file that is written unless told otherwise. What a user types can't name another folder.
fn usual(run: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    format!("{}.bundle.json", run.chars().map(plain).collect::<String>()).into()
}

/// Writes a file that was not there, and all of it or nothing.
fn keep(file: &Path, text: &str) -> anyhow::Result<()> {
    let failed = |error: &std::io::Error| {
        let message = format!("{} can't be written: {error}; choose another --output", file.display());
        anyhow::Error::from(Failure::new(Exit::Refused, message))
    };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut part = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
    part.write_all(text.as_bytes())
        .and_then(|()| part.as_file().sync_all())
        .map_err(|error| failed(&error))?;
    part.persist_noclobber(file).map_err(|kept| match kept.error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(file).into(),
        _ => failed(&kept.error),
    })?;
    Ok(())
}

fn exists(file: &Path) -> Failure {
    let message = format!("{} is there already; choose another --output", file.display());
    Failure::new(Exit::Refused, message)
}

/// How often something was left out, by reason.
fn reasons(bundle: &Value) -> Value {
    let mut counts = serde_json::Map::new();
    for redaction in bundle["redactions"].as_array().into_iter().flatten() {
        let reason = cell(&redaction["reason"]);
        let count = counts.get(&reason).and_then(Value::as_u64).unwrap_or(0);
        counts.insert(reason, (count + 1).into());
    }
    counts.into()
}

/// What is not in a bundle, in sentences.
fn left_out(bundle: &Value, with_answers: bool) -> String {
    let places = |count: u64| if count == 1 { "1 place".to_owned() } else { format!("{count} places") };
    let why = |reason: &str| match reason {
        "sensitive" => "sensitive values",
        "secret" => "values of secrets",
        "credential" => "what looks like a key or a password",
        "answer" => "what people answered (--answers has it in)",
        "size" => "what is too large",
        _ => "what must not leave",
    };
    let reasons = reasons(bundle);
    let counts = reasons.as_object().into_iter().flatten();
    let mut lines: Vec<String> = counts
        .map(|(reason, count)| format!("- {} in {}", why(reason), places(count.as_u64().unwrap_or(0))))
        .collect();
    let gap = &bundle["journal"]["gap"];
    if gap.is_object() {
        lines.push(format!("- events {} to {}", cell(&gap["from"]), cell(&gap["to"])));
    }
    let problems = bundle["problems"].as_array().into_iter().flatten();
    lines.extend(problems.map(|problem| format!("- {}", cell(problem))));
    let look = if with_answers { "It holds what people answered. " } else { "" };
    let head = if lines.is_empty() { "nothing was left out" } else { "left out, and named in it:" };
    let lines: String = lines.iter().map(|line| format!("\n{line}")).collect();
    format!("{head}{lines}\n{look}Look through it before you hand it on.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_file_is_in_this_folder_whatever_the_run_is_called() {
        assert_eq!(usual("run-019a"), PathBuf::from("run-019a.bundle.json"));
        assert_eq!(usual("../x\u{1b}"), PathBuf::from("___x_.bundle.json"));
    }

    #[test]
    fn what_is_left_out_is_told_by_reason() {
        let one = |reason: &str| json!({ "path": "/run/x", "reason": reason });
        let bundle = json!({
            "redactions": [one("secret"), one("secret"), one("answer")],
            "journal": { "gap": { "from": 200, "to": 300 } },
            "problems": ["the run can't be read"],
        });
        assert_eq!(
            left_out(&bundle, false),
            "left out, and named in it:\n- what people answered (--answers has it in) in 1 place\n- values of secrets in 2 \
             places\n- events 200 to 300\n- the run can't be read\nLook through it before you hand it on."
        );
        assert!(left_out(&json!({}), true).contains("It holds what people answered."));
    }
}
