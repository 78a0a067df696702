//! The commands and flags for those who are asked: `abide inbox`, `abide answer` and `abide event`.

use clap::{Args as ClapArgs, Subcommand};
use serde_json::Value;

use super::access::parse_span;
use super::{ClientArgs, parse_input};

/// Which open questions to list.
#[derive(ClapArgs)]
pub(crate) struct InboxArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Only of this kind: approval, clarification, external-event, custom
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// Only of this run
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Only what this principal is named to decide, or anybody may
    #[arg(long, value_name = "PRINCIPAL")]
    pub(crate) approver: Option<String>,
    /// Only with this text in the title
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Only what has waited so long: 30m, 2h, 3d
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) older_than: Option<i64>,
    /// At most so many
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: usize,
}

/// What to answer, and with what.
#[derive(ClapArgs)]
#[command(
    after_help = "Decide:    abide answer RUN NODE --reject --feedback \"too much\"\nImprove:   abide answer RUN NODE --refine \"shorter\" --refine-tag tone\nAsk back:  abide answer RUN NODE --ask \"Why so much?\"\nAnswer:    abide answer RUN NODE --answer \
                  colour=red --answer count=3\nAnything:  abide answer RUN NODE --value @value.json\nMany:      abide answer --all --workflow refund --accept\n\nAn answer counts \
                  once: if the connection is lost, it is sent again under the same Idempotency-Key."
)]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// The interrupt's id, or the run's; without it, the only one in the inbox
    #[arg(value_name = "INTERRUPT|RUN")]
    pub(crate) target: Option<String>,
    /// The node of the run; without it, the only one that asks
    pub(crate) node: Option<String>,
    #[command(flatten)]
    pub(crate) many: ManyArgs,
    #[command(flatten)]
    pub(crate) given: GivenArgs,
    #[command(flatten)]
    pub(crate) wish: WishArgs,
    /// What else there is to say about the decision
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["answers", "value", "refine", "edit", "ask", "reply"])]
    pub(crate) feedback: Option<String>,
    /// Decide in somebody's name; the key has to allow it
    #[arg(long = "as", value_name = "NAME", conflicts_with_all = ["answers", "value", "reply"])]
    pub(crate) decided_by: Option<String>,
}

/// Many questions at once.
#[derive(ClapArgs, Default)]
pub(crate) struct ManyArgs {
    /// Answer every open question that the filters let pass, after a list of what will happen
    #[arg(long, conflicts_with_all = ["target", "node", "answers", "edit", "ask", "reply"])]
    pub(crate) all: bool,
    /// With --all: only of this kind: approval, clarification, custom
    #[arg(long, requires = "all")]
    pub(crate) kind: Option<String>,
    /// With --all: only of this run
    #[arg(long = "run", value_name = "RUN", requires = "all")]
    pub(crate) of_run: Option<String>,
    /// With --all: only of runs of this workflow
    #[arg(long = "workflow", value_name = "WORKFLOW", requires = "all")]
    pub(crate) of_workflow: Option<String>,
    /// With --all: only of this node
    #[arg(long = "node", value_name = "NODE", requires = "all")]
    pub(crate) of_node: Option<String>,
    /// With --all: only of runs with this label
    #[arg(long, requires = "all")]
    pub(crate) tag: Option<String>,
    /// With --all: only what this principal is named to decide, or anybody may
    #[arg(long, value_name = "PRINCIPAL", requires = "all")]
    pub(crate) approver: Option<String>,
    /// With --all: only with this text in the title
    #[arg(long, value_name = "TEXT", requires = "all")]
    pub(crate) title: Option<String>,
    /// With --all: only what has waited so long: 30m, 2h, 3d
    #[arg(long, value_name = "TIME", value_parser = parse_span, requires = "all")]
    pub(crate) older_than: Option<i64>,
    /// With --all: only list what would happen
    #[arg(long, requires = "all")]
    pub(crate) dry_run: bool,
    /// With --all: do not ask; needed where there is no terminal to ask on
    #[arg(long, short, requires = "all")]
    pub(crate) yes: bool,
}

/// An answer in one of its forms. Without any, a terminal is asked.
#[derive(ClapArgs, Default)]
#[group(multiple = false)]
pub(crate) struct GivenArgs {
    /// Accept what is to be approved
    #[arg(long)]
    pub(crate) accept: bool,
    /// Reject what is to be approved
    #[arg(long)]
    pub(crate) reject: bool,
    /// Have it made better; the text says how
    #[arg(long, value_name = "TEXT", num_args = 0..=1)]
    pub(crate) refine: Option<Option<String>>,
    /// Accept it with changes: a file with the artifact as JSON
    #[arg(long, value_name = "FILE", value_parser = parse_file)]
    pub(crate) edit: Option<Value>,
    /// Ask something first; nothing is decided by it
    #[arg(long, value_name = "TEXT")]
    pub(crate) ask: Option<String>,
    /// Tell somebody who asked what they wanted to know
    #[arg(long, value_names = ["ASK", "TEXT"], num_args = 2)]
    pub(crate) reply: Option<Vec<String>>,
    /// The answer to one question; the value is JSON, or text if it is not JSON. May be repeated
    #[arg(long = "answer", value_name = "ID=VALUE", value_parser = parse_answer)]
    pub(crate) answers: Vec<(String, String)>,
    /// The whole answer as it is: JSON, or @FILE to read it from
    #[arg(long, value_name = "JSON|@FILE", value_parser = parse_json)]
    pub(crate) value: Option<Value>,
}

/// What is to be made better.
#[derive(ClapArgs, Default)]
pub(crate) struct WishArgs {
    /// Of what is to be made better, only this section: `/items/0`, or `$.items[0]`
    #[arg(long, value_name = "PATH", requires = "refine", conflicts_with = "items")]
    pub(crate) section: Option<String>,
    /// Of what is to be made better, only this item. May be repeated
    #[arg(long = "item", value_name = "ID", requires = "refine")]
    pub(crate) items: Vec<String>,
    /// How it is to be made better, in a word. May be repeated
    #[arg(long = "refine-tag", value_name = "TAG", requires = "refine")]
    pub(crate) tags: Vec<String>,
}

#[derive(ClapArgs)]
pub(crate) struct EventArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: EventVerb,
}

#[derive(Subcommand)]
pub(crate) enum EventVerb {
    /// Tell that something happened: abide event send order.paid --id evt-17 --payload '{"orderId":"A1"}'
    #[command(
        after_help = "Every run that waits for it goes on. If none does yet, it is kept for a while. Under the same id, it \
                      is delivered once, however often it is sent."
    )]
    Send {
        /// What happened, as the runs that wait for it name it
        #[arg(value_name = "TYPE")]
        event_type: String,
        /// What it is known by where it happened
        #[arg(long, value_name = "ID")]
        id: String,
        /// What is to be told of it: JSON, or @FILE to read it from
        #[arg(long, value_name = "JSON|@FILE", default_value = "{}", value_parser = parse_json)]
        payload: Value,
    },
}

/// `id=value`, where what the value is depends on the question.
fn parse_answer(text: &str) -> Result<(String, String), String> {
    let (id, _) = parse_input(text).map_err(|_| "it is not of the form ID=VALUE")?;
    let value = text[id.len() + 1..].to_owned();
    Ok((id, value))
}

/// JSON from a file.
fn parse_file(path: &str) -> Result<Value, String> {
    parse_json(&format!("@{path}"))
}

/// JSON, from the command line or from a file.
fn parse_json(text: &str) -> Result<Value, String> {
    let read =
        |path: &str| std::fs::read_to_string(path).map_err(|error| format!("{path} can't be read: {error}"));
    let text = match text.strip_prefix('@') {
        Some(path) => read(path)?,
        None => text.to_owned(),
    };
    serde_json::from_str(&text)
        .map_err(|error| format!("it is not JSON: {error}; text needs quotes: '\"text\"'"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_names_its_question() {
        assert_eq!(parse_answer("a=b=1"), Ok(("a".to_owned(), "b=1".to_owned())));
        assert_eq!(parse_answer("a="), Ok(("a".to_owned(), String::new())));
        assert!(parse_answer("a").is_err() && parse_answer("=a").is_err());
    }

    #[test]
    fn a_value_stands_in_the_command_or_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("value.json");
        std::fs::write(&file, "{\"x\": [1]}").unwrap();
        assert_eq!(parse_json(&format!("@{}", file.display())), Ok(json!({ "x": [1] })));
        assert_eq!(parse_json("null"), Ok(Value::Null));
        assert!(parse_json("words").unwrap_err().contains("text needs quotes"));
        assert!(parse_json("@/nowhere/value.json").unwrap_err().contains("can't be read"));
    }
}
