//! The page of one interrupt: open, with a form that answers it; or closed, with how it ended.

use abide_core::{InterruptKind, Json, is_run_question};
use askama::Template;
use serde_json::Value;

use super::answering::{Answering, JSON};
use super::chat::{self, Said};
use super::deciding::EDITED;
use super::form::Fields;
use super::html::Frame;
use super::questions::{Asks, Field};
use super::reader::Reader;
use super::standing::{self, Tally};
use super::timeline::{self, Line};
use super::view::{Asked, Closing, Excerpt, Fact};
use super::words;
use crate::app::App;
use crate::error::Result;

/// The page of an interrupt that is open.
#[derive(Template)]
#[template(path = "answer.html")]
pub(super) struct Open<'a> {
    frame: Frame,
    reader: &'a Reader,
    asked: &'a Asked,
    facts: Vec<Fact>,
    timeline: Vec<Line>,
    /// What was said before in the conversation that it is a turn of.
    chat: Vec<Said>,
    pub(super) answering: Answering,
    /// Why the reader does not get to answer, if so.
    only_looks: Option<&'static str>,
    /// What whoever is not named is told: the server decides, whatever this page makes of the names.
    stranger: Option<&'static str>,
    /// What was written, if it comes back.
    pub(super) fields: Option<&'a Fields>,
    /// What is wrong with it as a whole.
    pub(super) refused: Vec<String>,
    /// What is wrong with which field.
    pub(super) problems: Vec<(String, String)>,
}

/// The page of one that is not.
#[derive(Template)]
#[template(path = "closed.html")]
pub(super) struct Closed<'a> {
    frame: Frame,
    closing: &'a Closing,
    facts: Vec<Fact>,
    timeline: Vec<Line>,
    /// What to say first, if somebody tried to answer it.
    late: bool,
    /// Who reads it, if all that they may know is who closed it, when and how.
    holder: Option<&'a str>,
}

impl<'a> Open<'a> {
    pub(super) async fn of(app: &App, reader: &'a Reader, asked: &'a Asked) -> Result<Self> {
        let may_respond = reader.may_respond(app, &asked.respondents).await?;
        let only_looks = only_looks(reader, asked, may_respond);
        let stranger = stranger(app, reader, asked).await?;
        let title = match only_looks.or(stranger) {
            // Those who signed in have read the title in their inbox.
            Some(_) if asked.is_sensitive && reader.link().is_some() => words::kind(asked.kind).to_owned(),
            _ => asked.title(),
        };
        let is_shown = only_looks.or(stranger).is_none() || reader.link().is_none();
        let timeline = if is_shown { timeline::of(app, reader.key, reader.id).await? } else { Vec::new() };
        Ok(Self {
            frame: reader.frame(app, title),
            timeline,
            chat: if only_looks.is_none() { chat::of(app, reader.key, asked).await? } else { Vec::new() },
            reader,
            asked,
            facts: asked.facts(app.engine().clock().now(), reader.reads_runs()),
            answering: Answering::of(asked),
            only_looks,
            stranger,
            fields: None,
            refused: Vec::new(),
            problems: Vec::new(),
        })
    }

    fn feedback(&self) -> String {
        self.field("feedback")
    }

    fn field(&self, name: &str) -> String {
        self.fields.and_then(|fields| fields.get(name)).unwrap_or_default().to_owned()
    }

    fn json_problem(&self) -> Option<&str> {
        self.problem(JSON)
    }

    fn problem(&self, name: &str) -> Option<&str> {
        self.problems.iter().find(|(field, _)| field == name).map(|(_, problem)| problem.as_str())
    }

    /// The questions, each with its field.
    fn form(&self) -> Vec<Field<'_>> {
        let (Answering::Questions(questions) | Answering::Turn(questions)) = &self.answering else {
            return Vec::new();
        };
        questions.iter().map(|question| question.field(self.fields, self.problem(&question.name))).collect()
    }

    /// What the field for JSON shows: what was written, or what an event has to have.
    fn json(&self) -> String {
        match (self.fields, &self.answering) {
            (Some(_), _) => self.field(JSON),
            (None, Answering::Event) => {
                self.asked.part("correlation").map_or_else(String::new, |part| Excerpt::of(&part).text)
            }
            (None, _) => self.asked.part("decision").map_or_else(String::new, |part| Excerpt::of(&part).text),
        }
    }

    /// What the interrupt is about, as JSON or text.
    fn subject(&self) -> Option<Excerpt> {
        if self.is_hidden() {
            return None;
        }
        let subject = match self.asked.kind {
            // The run's own question is told in words.
            InterruptKind::Approval if is_run_question(&self.asked.node) => None,
            InterruptKind::Approval => self.asked.part("artifactData"),
            InterruptKind::Clarification => self.asked.part("context"),
            InterruptKind::ExternalEvent => self.asked.part("correlation"),
            InterruptKind::Custom => self.asked.part("payload"),
            InterruptKind::ConversationExchange => None,
            _ => Some(self.asked.data.clone()),
        };
        subject.as_ref().map(Excerpt::of)
    }

    /// What happened to an interrupted run, if it is about one: step by step.
    fn interrupted(&self) -> Vec<String> {
        let told = |step: &Value| {
            let text = |name: &str| step[name].as_str().unwrap_or_default();
            let effect = match text("effect") {
                "unknown" => " Its effect may or may not have happened.",
                _ => "",
            };
            format!("{} ({}): {} [{}].{effect}", text("node"), text("class"), text("message"), text("code"))
        };
        self.of_interruption("interrupted").iter().map(told).collect()
    }

    /// What to do about an interrupted run, if it is about one.
    fn checklist(&self) -> Vec<&str> {
        self.of_interruption("checklist").iter().filter_map(Value::as_str).collect()
    }

    fn of_interruption(&self, part: &str) -> &[Value] {
        let is_own = is_run_question(&self.asked.node) && !self.is_hidden();
        let list = self.asked.seen["artifactData"][part].as_array().filter(|_| is_own);
        list.map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether what is asked is for others alone.
    fn is_hidden(&self) -> bool {
        self.asked.is_sensitive && self.only_looks.or(self.stranger).is_some()
    }

    /// Whether it is about a decision.
    fn decides(&self) -> bool {
        matches!(self.answering, Answering::Decide(_))
    }

    /// Whether this may be decided. An edited artifact can't be voted on.
    fn offers(&self, action: &str) -> bool {
        let Answering::Decide(actions) = &self.answering else { return false };
        actions.iter().any(|offered| offered == action) && (action != "edit-accept" || self.tally().is_none())
    }

    /// Whether the form of this action was sent, and comes back.
    fn is_sent(&self, action: &str) -> bool {
        self.fields.is_some_and(|fields| fields.get("action") == Some(action))
    }

    /// What the field for an edited artifact shows: what was written, or the artifact.
    fn edited(&self) -> String {
        match self.fields.and_then(|fields| fields.get(EDITED)) {
            Some(written) => written.to_owned(),
            None if self.is_hidden() => String::new(),
            None => self.asked.part("artifactData").map_or_else(String::new, |data| whole_json(&data)),
        }
    }

    /// Everything that is wrong with a field.
    fn all_problems(&self, name: &str) -> Vec<&str> {
        let of_field = self.problems.iter().filter(|(field, _)| field == name);
        of_field.map(|(_, problem)| problem.as_str()).collect()
    }

    fn tally(&self) -> Option<&Tally> {
        self.asked.tally.as_ref()
    }

    fn exchanges(&self) -> &[standing::Asked] {
        let hidden = self.asked.hides_said && self.only_looks.or(self.stranger).is_some();
        if hidden { &[] } else { &self.asked.exchanges }
    }

    /// Where a reply goes, and what shows that its form is of a session. Only those who signed in reply.
    fn replies(&self) -> Option<(String, &str)> {
        let (_, token) = self.frame.visitor.as_ref()?;
        Some((self.action()?, token))
    }

    fn is_event(&self) -> bool {
        matches!(self.answering, Answering::Event)
    }

    /// What its artifact is called, if it is about one.
    fn artifact(&self) -> Option<(&str, &str)> {
        let is_own = is_run_question(&self.asked.node);
        let id = self.asked.text("artifactId").filter(|_| !self.is_hidden() && !is_own)?;
        Some((self.asked.text("artifactType").unwrap_or("Artifact"), id))
    }

    fn description(&self) -> Option<&str> {
        self.asked.text("description").filter(|_| !self.is_hidden())
    }

    fn context(&self) -> Option<&str> {
        self.asked.text("contextType").filter(|_| !self.is_hidden())
    }

    fn schema(&self) -> Option<Excerpt> {
        self.asked.resume_schema.as_ref().map(Excerpt::of)
    }

    /// Questions that are only to be read.
    fn questions(&self) -> Vec<String> {
        let Answering::Questions(questions) = &self.answering else { return Vec::new() };
        let is_shown = self.only_looks.is_some() && !self.is_hidden();
        questions.iter().filter(|_| is_shown).map(|question| question.text.clone()).collect()
    }

    /// Whether the answer is one press of a button that says it.
    fn is_pressed(&self) -> bool {
        self.form().iter().any(Field::is_pressed)
    }

    /// Where the form goes: a page that was reached by a link goes to itself, so that the link stands nowhere in it.
    fn action(&self) -> Option<String> {
        self.reader.link().is_none().then(|| self.reader.place())
    }

    /// Who answers by a link.
    fn holder(&self) -> Option<&str> {
        self.reader.link().map(|_| self.reader.name.as_str())
    }

    /// Who may decide.
    fn deciders(&self) -> &[String] {
        if self.is_hidden_from_holder() { &[] } else { &self.asked.approvers }
    }

    /// Who may answer.
    fn respondents(&self) -> &[String] {
        if self.is_hidden_from_holder() { &[] } else { &self.asked.respondents }
    }

    fn is_hidden_from_holder(&self) -> bool {
        self.is_hidden() && self.reader.link().is_some()
    }
}

/// Why a reader does not get to answer, if so.
fn only_looks(reader: &Reader, asked: &Asked, may_respond: bool) -> Option<&'static str> {
    match reader.link() {
        Some(link) if !link.answers => Some("This link is good to look, not to answer."),
        Some(_) if asked.needs_key() => Some("This is not answered by a link."),
        _ if is_run_question(&asked.node) && !reader.may_force() => {
            Some("Deciding about an interrupted run takes a key with the scope 'runs:force'.")
        }
        _ if !may_respond => Some("You are not among those who may answer this."),
        _ => None,
    }
}

/// What somebody is told whom the gate does not name. They may try: the server decides, not the page.
async fn stranger(app: &App, reader: &Reader, asked: &Asked) -> Result<Option<&'static str>> {
    let may = reader.may_respond(app, &asked.approvers).await?;
    Ok((!may).then_some("You are not among those who may decide this."))
}

/// JSON to be edited: all of it, however long.
fn whole_json(value: &Json) -> String {
    let pretty = value.parse::<Value>().ok().and_then(|value| serde_json::to_string_pretty(&value).ok());
    pretty.unwrap_or_else(|| value.text().to_owned())
}

impl<'a> Closed<'a> {
    pub(super) async fn of(
        app: &App,
        reader: &'a Reader,
        late: bool,
        (asked, closing): (&Asked, &'a Closing),
    ) -> Result<Self> {
        let holder = reader.link().map(|_| reader.name.as_str());
        let (title, facts, timeline) = match holder {
            // A link dies with the answer, and tells no more than that.
            Some(_) => ("This is closed".to_owned(), Vec::new(), Vec::new()),
            None => {
                let facts = asked.facts(app.engine().clock().now(), reader.reads_runs());
                (asked.title(), facts, timeline::of(app, reader.key, reader.id).await?)
            }
        };
        Ok(Self { frame: reader.frame(app, title), closing, facts, timeline, late, holder })
    }

    /// How it ended, in a few words.
    fn outcome(&self) -> &'static str {
        let seen =
            self.closing.value.as_ref().and_then(|value| value.parse::<Value>().ok()).unwrap_or_default();
        match (self.closing.outcome.as_str(), seen["action"].as_str()) {
            (_, Some("accept")) => "Accepted",
            (_, Some("edit-accept")) => "Accepted with changes",
            (_, Some("refine")) => "To be made better",
            ("rejected", Some("timeout") | None) if self.closing.reason.as_deref() == Some("timeout") => {
                "Timed out"
            }
            ("rejected", _) => "Rejected",
            ("timeout", _) => "Timed out",
            ("expired", _) => "Expired",
            ("cancelled", _) => "Cancelled",
            _ => "Answered",
        }
    }

    /// Who closed it, if somebody did.
    fn by(&self) -> Option<&str> {
        self.closing.by.as_deref()
    }

    /// Whether the reader's own answer is the one that counts.
    fn is_own(&self) -> bool {
        self.holder.is_some() && self.holder == self.by()
    }

    fn at(&self) -> Option<String> {
        self.closing.at.map(words::moment)
    }

    fn reason(&self) -> Option<&str> {
        self.closing.reason.as_deref().filter(|_| self.holder.is_none())
    }

    fn value(&self) -> Option<Excerpt> {
        self.closing.value.as_ref().filter(|_| self.holder.is_none()).map(Excerpt::of)
    }
}
