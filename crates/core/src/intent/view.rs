//! How what is asked looks in OpenIntent's words, whoever asks it: a node of a workflow, or somebody who drives an intent.

use super::SUSPENSION;
use super::record::OURS;
use super::suspension::{is_unsaid, single_question};
use crate::event::InterruptRequested;
use crate::moment::naive;
use crate::{InterruptKind, Json, JsonMap, Open, Run};

/// What kind of response a question wants, and what there is to choose from.
#[derive(Clone, Debug, PartialEq)]
pub struct SuspendedAs {
    /// What is asked.
    pub question: String,
    /// `choice`, `confirm`, `text` or `form`.
    pub response_type: &'static str,
    /// What there is to choose from.
    pub choices: Vec<JsonMap>,
    /// Whether whoever asked said so.
    pub declared: bool,
}

/// What a run waits for, as the record of a suspension.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspended {
    /// What it is called.
    pub id: String,
    /// The record, with what the run itself knows of it.
    pub record: JsonMap,
}

impl Run {
    /// The question that it waits for, if it waits: the last that whoever drives it asked, or else the oldest.
    pub fn suspended_for(&self) -> Option<&Open> {
        let own = self.intent().and_then(|intent| intent.asked.as_ref()?.interrupt);
        let own = own.and_then(|id| self.state.open.get(&id));
        own.or_else(|| self.awaited_answers().min_by_key(|open| (open.at, open.requested.interrupt_id)))
    }

    /// What a question is called as a suspension: by its record, or else by its own id.
    pub fn suspension_id(&self, open: &Open) -> String {
        let asked = self.intent().and_then(|intent| intent.asked.as_ref());
        let own = asked.filter(|asked| asked.interrupt == Some(open.requested.interrupt_id));
        own.and_then(|asked| asked.id.clone()).unwrap_or_else(|| open.requested.suspension_id())
    }

    /// What kind of response a question wants.
    pub fn seen_as(&self, open: &Open) -> SuspendedAs {
        open.requested.seen_as()
    }

    /// What it waits for, as the record of a suspension.
    pub fn suspended(&self) -> Option<Suspended> {
        let open = self.suspended_for()?;
        let id = self.suspension_id(open);
        let written = self.driven_node().and_then(|_| self.state_value(SUSPENSION));
        let written = written.and_then(|record| record.parse::<JsonMap>().ok());
        let is_own = |record: &JsonMap| {
            record.get("id").and_then(|own| own.parse::<String>().ok()).as_ref() == Some(&id)
        };
        let mut record = written.filter(is_own).unwrap_or_else(|| self.made_record(open, &id));
        // Nobody has answered, whatever is written there.
        record.retain(|key, _| !OURS.contains(&key.as_str()));
        record.insert("suspended_at".to_owned(), Json::of(&naive(open.at)));
        match open.deadline() {
            Some(end) => drop(record.insert("expires_at".to_owned(), Json::of(&naive(end)))),
            None => drop(record.remove("expires_at")),
        }
        Some(Suspended { id, record })
    }

    /// The record of a question that was not asked by one.
    pub(super) fn made_record(&self, open: &Open, id: &str) -> JsonMap {
        let seen = self.seen_as(open);
        let hidden = open.requested.sensitive;
        let data: JsonMap = open.requested.data.parse().unwrap_or_default();
        let question = if hidden { open.requested.kind.name().to_owned() } else { seen.question };
        let ladder = open.requested.ladder.as_ref();
        let fallback = ladder.map_or("fail", |ladder| ladder.final_fallback_policy.name());
        let mut record = JsonMap::from([
            ("id".to_owned(), Json::of(id)),
            ("question".to_owned(), Json::of(&question)),
            ("response_type".to_owned(), Json::of(seen.response_type)),
            ("fallback_policy".to_owned(), Json::of(fallback)),
        ]);
        if !seen.choices.is_empty() && !hidden {
            record.insert("choices".to_owned(), Json::of(&seen.choices));
        }
        record.extend(
            data.get("context").filter(|_| !hidden).map(|context| ("context".to_owned(), context.clone())),
        );
        if is_unsaid(&open.requested) {
            record.insert("provisional".to_owned(), Json::of(&true));
        }
        record
    }

    /// Its state as OpenIntent shows it: with what it waits for, and what became of that.
    pub fn shown_state(&self) -> JsonMap {
        let mut state = self.intent_state();
        let hidden = self.state.sensitive.iter();
        hidden.for_each(|name| drop(state.remove(name)));
        if let Some(suspended) = self.suspended() {
            state.insert(SUSPENSION.to_owned(), Json::of(&suspended.record));
        }
        state
    }
}

impl InterruptRequested {
    /// What it is called as a suspension, from when it is asked to its end: by the name that whoever asks gave it, or else by
    /// its own id.
    pub fn suspension_id(&self) -> String {
        let beside = self.topic.is_some() || self.checkpoint.is_some();
        if self.keyless || self.sensitive || beside {
            self.interrupt_id.to_string()
        } else {
            self.key.clone()
        }
    }

    /// Whether nobody has said yet what is asked.
    pub fn is_provisional(&self) -> bool {
        is_unsaid(self)
    }

    /// What kind of response it wants.
    pub fn seen_as(&self) -> SuspendedAs {
        let data: JsonMap = self.data.parse().unwrap_or_default();
        let text = |key: &str| data.get(key).and_then(|text| text.parse::<String>().ok());
        if self.kind == InterruptKind::Approval {
            return SuspendedAs {
                question: text("title").unwrap_or_default(),
                response_type: "choice",
                choices: actions(&data),
                declared: true,
            };
        }
        let questions =
            data.get("questions").and_then(|list| list.parse::<Vec<JsonMap>>().ok()).unwrap_or_default();
        let first = questions.first().cloned().unwrap_or_default();
        let of_first = |key: &str| first.get(key).and_then(|text| text.parse::<String>().ok());
        let question = of_first("question").or_else(|| text("prompt")).or_else(|| text("customKind"));
        let question = question.or_else(|| text("eventType")).unwrap_or_else(|| self.kind.name().to_owned());
        let single = single_question(&self.data).is_some();
        let (response_type, choices) = match of_first("responseType").as_deref() {
            Some("choice") => ("choice", choices(&first)),
            Some("confirm") => ("confirm", choices(&first)),
            Some("text") => ("text", Vec::new()),
            None if single && !first.contains_key("schema") => ("text", Vec::new()),
            _ => ("form", Vec::new()),
        };
        SuspendedAs { question, response_type, choices, declared: first.contains_key("choices") }
    }
}

/// The choices of a question; those of yes and no, if it names none.
fn choices(question: &JsonMap) -> Vec<JsonMap> {
    question.get("choices").and_then(|list| list.parse().ok()).unwrap_or_else(|| {
        let choice = |value: &str, label: &str| {
            JsonMap::from([("value".to_owned(), Json::of(value)), ("label".to_owned(), Json::of(label))])
        };
        vec![choice("yes", "Yes"), choice("no", "No")]
    })
}

/// What may be decided about an approval, as choices.
fn actions(data: &JsonMap) -> Vec<JsonMap> {
    let actions: Vec<String> = data.get("actions").and_then(|list| list.parse().ok()).unwrap_or_default();
    // What takes more than a word can't be chosen here.
    let plain = actions.into_iter().filter(|action| matches!(action.as_str(), "accept" | "reject"));
    let choice = |action: String| {
        let (label, style) = if action == "accept" { ("Accept", "primary") } else { ("Reject", "danger") };
        JsonMap::from([
            ("value".to_owned(), Json::of(&action)),
            ("label".to_owned(), Json::of(label)),
            ("style".to_owned(), Json::of(style)),
        ])
    };
    plain.map(choice).collect()
}
