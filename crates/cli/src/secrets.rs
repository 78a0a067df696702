//! `abide secrets`: set, list, remove. A value goes to the server and nowhere else.

use std::io::{IsTerminal, Read};

use abide_server::limits::{SECRET_BYTES_MAX, SECRET_CHARS_MIN};
use anyhow::Context;
use serde_json::{Value, json};

use crate::args::{ClientArgs, SecretsArgs, SecretsVerb};
use crate::client::{Client, encoded};
use crate::draw::words::legible;
use crate::output::{self, cell};
use crate::terminal;

pub(crate) async fn dispatch(args: SecretsArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.client)?;
    match args.verb {
        SecretsVerb::Set { name } => set(&client, &args.client, &name).await,
        SecretsVerb::List => list(&client, &args.client).await,
        SecretsVerb::Rm { name } => remove(&client, &args.client, &name).await,
    }
}

async fn set(client: &Client, args: &ClientArgs, name: &str) -> anyhow::Result<()> {
    let value = checked(read_value(name).await?)?;
    client.put(&path(name), &json!({ "value": value })).await?;
    tell(args, name, "set")
}

async fn read_value(name: &str) -> anyhow::Result<Vec<u8>> {
    // Two bytes for a line break and one to see that it is too long.
    let bytes_max = SECRET_BYTES_MAX as u64 + 3;
    if std::io::stdin().is_terminal() {
        let question = format!("value of {} (it is not shown): ", legible(name));
        return terminal::ask_hidden(&question, bytes_max).await;
    }
    let mut value = Vec::new();
    std::io::stdin()
        .lock()
        .take(bytes_max)
        .read_to_end(&mut value)
        .context("standard input can't be read")?;
    Ok(without_line_break(value))
}

/// The value without the one line break that editors and `echo` add.
fn without_line_break(mut value: Vec<u8>) -> Vec<u8> {
    if value.pop_if(|last| *last == b'\n').is_some() {
        value.pop_if(|last| *last == b'\r');
    }
    value
}

fn checked(value: Vec<u8>) -> anyhow::Result<String> {
    if value.is_empty() {
        anyhow::bail!("there is no value: pass it on standard input, or type it when asked");
    }
    if value.len() > SECRET_BYTES_MAX {
        anyhow::bail!("the value is longer than {SECRET_BYTES_MAX} bytes: keep a reference to it instead");
    }
    // The error of the conversion would show the bytes.
    let text = String::from_utf8(value)
        .map_err(|_| anyhow::anyhow!("the value is not text in UTF-8: encode it, say in base64"))?;
    if text.trim().chars().count() < SECRET_CHARS_MIN {
        anyhow::bail!(
            "the value has fewer than {SECRET_CHARS_MIN} characters, too few to be found in answers: choose a longer one"
        );
    }
    Ok(text)
}

async fn list(client: &Client, args: &ClientArgs) -> anyhow::Result<()> {
    let answer = client.get("/v1/secrets").await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    let secrets = answer["secrets"].as_array().map_or(&[][..], Vec::as_slice);
    if secrets.is_empty() {
        output::say("no secrets yet; store one with `abide secrets set NAME`");
        return Ok(());
    }
    let row = |secret: &Value| ["name", "updatedAt", "updatedBy"].map(|key| cell(&secret[key])).to_vec();
    output::line(&output::table(&["SECRET", "SET", "BY"], secrets.iter().map(row).collect()))
}

async fn remove(client: &Client, args: &ClientArgs, name: &str) -> anyhow::Result<()> {
    client.delete(&path(name)).await?;
    tell(args, name, "removed")
}

fn tell(args: &ClientArgs, name: &str, what: &str) -> anyhow::Result<()> {
    if args.json {
        return output::json(&json!({ "name": name, what: true }).to_string());
    }
    output::line(&format!("{} is {what}", legible(name)))
}

fn path(name: &str) -> String {
    format!("/v1/secrets/{}", encoded(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_text_of_some_length() {
        assert_eq!(checked(b"s3cret\n".to_vec()).unwrap(), "s3cret\n");
        assert_eq!(checked(vec![b'x'; 8192]).unwrap().len(), 8192);
        let refused = |value: Vec<u8>| checked(value).unwrap_err().to_string();
        assert!(refused(Vec::new()).contains("there is no value"));
        assert!(refused(vec![b'x'; 8193]).contains("longer than 8192 bytes"));
        assert!(refused(b"abc \n".to_vec()).contains("fewer than 4 characters"));
        let told = refused(b"s3cret\xff".to_vec());
        assert!(told.contains("not text in UTF-8") && !told.contains("s3cret"), "{told}");
    }

    #[test]
    fn one_line_break_at_the_end_is_no_part_of_a_value() {
        for (given, value) in [
            ("s3cret", "s3cret"),
            ("s3cret\n", "s3cret"),
            ("s3cret\r\n", "s3cret"),
            ("s3cret\n\n", "s3cret\n"),
            ("s3cret\r", "s3cret\r"),
            ("\r\n", ""),
        ] {
            assert_eq!(without_line_break(given.into()), value.as_bytes(), "{given:?}");
        }
    }
}
