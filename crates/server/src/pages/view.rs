//! What pages show: plain data, whoever it comes from.

use abide_core::{Headway, InterruptKind, Json, JsonMap, Millis};
use serde_json::Value;

use super::{RUNS, pretty, standing, words};
use crate::limits;
use crate::openwop::interrupts::AUTH_REQUIRED;
use crate::time::rfc3339;

/// An open interrupt, as the list has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InboxRow {
    pub(super) run: String,
    pub(super) id: String,
    pub(super) workflow: String,
    pub(super) node: String,
    pub(super) kind: InterruptKind,
    pub(super) title: String,
    pub(super) requested_at: Millis,
    pub(super) deadline: Option<Millis>,
    pub(super) headway: Option<Headway>,
}

impl InboxRow {
    /// How far it has come, in words.
    pub(super) fn standing(&self) -> Option<String> {
        let Headway { approvals, rejections, required, asks } = self.headway?;
        let votes = (required > 1).then(|| format!("{approvals} of {required} accept"));
        let against = (rejections > 0).then(|| format!("{rejections} against"));
        let asked = match asks {
            0 => None,
            1 => Some("a question is open".to_owned()),
            more => Some(format!("{more} questions are open")),
        };
        Some([votes, against, asked].into_iter().flatten().collect::<Vec<_>>().join(", "))
    }

    /// Whether it asks for a decision.
    pub(super) fn is_approval(&self) -> bool {
        self.kind == InterruptKind::Approval
    }

    /// Where it is answered.
    pub(super) fn link(&self) -> String {
        format!("/inbox/{}/{}", self.run, self.id)
    }

    pub(super) fn kind(&self) -> &'static str {
        words::kind(self.kind)
    }

    pub(super) fn asked_at(&self) -> String {
        rfc3339(self.requested_at)
    }
}

/// A page of the list, and how much there is in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InboxPage {
    pub(super) rows: Vec<InboxRow>,
    pub(super) next: Option<String>,
    pub(super) total: u64,
    pub(super) by_kind: Vec<(InterruptKind, u64)>,
}

/// An interrupt, as the answer page has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) run: String,
    pub(super) id: String,
    pub(super) workflow: String,
    pub(super) node: String,
    pub(super) kind: InterruptKind,
    pub(super) data: Json,
    /// The same, to look into.
    pub(super) seen: Value,
    /// Whether the data is only for those who may answer.
    pub(super) is_sensitive: bool,
    /// What people say about it is for those who answer alone.
    pub(super) hides_said: bool,
    pub(super) resume_schema: Option<Json>,
    /// Who may decide: principals, groups and roles; everybody if it is empty.
    pub(super) approvers: Vec<String>,
    /// Who may answer: principals, groups and roles; everybody if it is empty.
    pub(super) respondents: Vec<String>,
    /// How far it has come, if it takes several people.
    pub(super) tally: Option<standing::Tally>,
    /// What those who decide wanted to know.
    pub(super) exchanges: Vec<standing::Asked>,
    pub(super) requested_at: Millis,
    pub(super) deadline: Option<Millis>,
    /// Who holds its run, since when and why.
    pub(super) hold: Option<String>,
    /// How it ended, if it has.
    pub(super) closing: Option<Closing>,
}

/// A line of what is known about an interrupt.
pub(super) struct Fact {
    pub(super) name: &'static str,
    pub(super) text: String,
    /// The moment that it is about, for machines.
    pub(super) time: Option<String>,
    /// Where more of it is.
    pub(super) link: Option<String>,
}

/// How an interrupt ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Closing {
    pub(super) outcome: String,
    pub(super) reason: Option<String>,
    /// Who and when, if that is known.
    pub(super) by: Option<String>,
    pub(super) at: Option<Millis>,
    /// The answer, if there was one and it may be shown.
    pub(super) value: Option<Json>,
}

impl Asked {
    /// Whether whoever answers has to sign in.
    pub(super) fn needs_key(&self) -> bool {
        self.kind == InterruptKind::Approval && self.text("profile") == Some(AUTH_REQUIRED)
    }

    /// A text of its data.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.seen[name].as_str().filter(|text| !text.is_empty())
    }

    /// A part of its data, as it was written.
    pub(super) fn part(&self, name: &str) -> Option<Json> {
        let mut parts: JsonMap = self.data.parse().unwrap_or_default();
        parts.remove(name).filter(|part| part.type_name() != "null")
    }

    /// What to call it.
    pub(super) fn title(&self) -> String {
        let first_question = || self.seen["questions"][0]["question"].as_str();
        let named = ["title", "eventType", "customKind", "prompt"].iter().find_map(|name| self.text(name));
        named.or_else(first_question).unwrap_or_else(|| words::kind(self.kind)).to_owned()
    }

    /// What is known about it, line by line, for somebody who may look at its run or may not.
    pub(super) fn facts(&self, now: Millis, reads_runs: bool) -> Vec<Fact> {
        let plain = |name, text: &str| Fact { name, text: text.to_owned(), time: None, link: None };
        let timed = |name, text, at| Fact { name, text, time: Some(rfc3339(at)), link: None };
        let link = reads_runs.then(|| format!("{RUNS}{}", self.run));
        let due = |at| timed("Due", format!("{} ({})", words::due(at, now), words::moment(at)), at);
        let asked = timed("Asked", words::ago(self.requested_at, now), self.requested_at);
        let mut facts = vec![plain("Kind", words::kind(self.kind)), asked];
        facts.extend(self.deadline.filter(|_| self.closing.is_none()).map(due));
        facts.extend(
            self.hold
                .as_ref()
                .map(|hold| plain("Held", &format!("{hold}. Your answer is kept until it is released."))),
        );
        let run = Fact { link, ..plain("Run", &self.run) };
        facts.extend([plain("Workflow", &self.workflow), plain("Node", &self.node), run]);
        facts
    }
}

/// A value to look at: text as it is, anything else as JSON, and not more than anybody reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    pub(super) text: String,
    /// Whether something is missing.
    pub(super) is_cut: bool,
}

impl Excerpt {
    pub(super) fn of(value: &Json) -> Self {
        let Ok(mut text) = value.parse::<String>() else {
            let (text, is_whole) = pretty::pretty(value.text());
            return Self { text, is_cut: !is_whole };
        };
        let is_cut = text.len() > limits::SHOWN_BYTES_MAX;
        text.truncate(text.floor_char_boundary(limits::SHOWN_BYTES_MAX));
        Self { text, is_cut }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_shown_up_to_a_bound() {
        let shown = Excerpt::of(&Json::of(&json!({ "a": [1] })));
        assert_eq!(shown, Excerpt { text: "{\n  \"a\": [\n    1\n  ]\n}".to_owned(), is_cut: false });
        assert_eq!(Excerpt::of(&Json::of("as it is")).text, "as it is");
        let long = Excerpt::of(&Json::of(&"ä".repeat(limits::SHOWN_BYTES_MAX)));
        assert!(long.is_cut && long.text.len() <= limits::SHOWN_BYTES_MAX && long.text.ends_with('ä'));
    }
}
