//! How the record of a suspension becomes a question, and what an answer does.
//!
//! The record and the word that the intent is suspended may come in either order. Whichever comes second has people asked.
//! The word alone opens a question of which nobody knows yet what it is about: people see it, and if no record comes within
//! the time of grace, it stays as it is and its ladder begins.

use super::patch::bytes_of;
use super::record::{OURS, Record, UNSAID, not_theirs, unsaid};
use super::{Actor, Intent, SUSPENSION};
use crate::climb::LadderTerms;
use crate::command::Draft;
use crate::effect::TimerId;
use crate::event::{
    IntentPatched, InterruptRequested, NodeEvent, NodeSuspended, Patch, PatchOp, Resolution, RunEvent,
};
use crate::gate::payload_form;
use crate::interrupt::{ANSWER, Asked, NodeContext, Stop};
use crate::{InterruptId, InterruptKind, Json, JsonMap, NodeIx, Rejection, Run, Surroundings, limits};

/// What people are asked while nobody has said what it is about.
const UNSAID_QUESTION: &str = "The agent waits for people and has not said yet what it asks.";

/// What they are asked if nobody ever does.
const UNTOLD_QUESTION: &str =
    "The agent waits for people and has not said what it asks. What is it to be told?";

/// Levels of the state above what is written into a record.
const RECORD_DEPTH: usize = 2;

/// Why a question is closed that its agent takes back.
pub const TAKEN_BACK: &str = "suspension-cancelled";

/// What a decision does.
impl Run {
    /// Has people asked: what the record in the state says, or what it will say.
    pub(super) fn suspend(&mut self, draft: &mut Draft, actor: &Actor) -> Result<(), Rejection> {
        let ix = self.check_driven()?;
        let pending = self.intent().and_then(Intent::pending_record).is_some();
        let record = match self.state_value(SUSPENSION).filter(|_| pending) {
            Some(record) => Some(Record::read(&record)?),
            None => None,
        };
        let agent = self.drive(draft, ix, actor)?;
        let ask = record.as_ref().map_or_else(|| unsaid(UNSAID_QUESTION), |record| record.ask.clone());
        let terms = match &record {
            Some(record) => record.terms(Some(&agent)),
            None => LadderTerms { call: None, agent: None, form: payload_form(true) },
        };
        // Nobody is told of a question of which nobody knows what it is about.
        let said = record.is_some();
        let defaults =
            if said { draft.defaults.clone() } else { std::sync::Arc::new(Surroundings::default()) };
        let mut context = NodeContext::new(self, ix, self.node(ix).execution, defaults);
        context.calls = self.node(ix).asked;
        match context.ask(ask, &terms) {
            Err(Stop::Suspended) => {}
            Ok(_) => return Err(Rejection::AlreadyResolved),
            Err(Stop::Failed(failure)) => return Err(Rejection::Work(failure)),
        }
        let wanted = context.into_wanted().0;
        let respondents = self.graph.at(ix).respondents.clone();
        let asked = Asked { respondents, by: actor.names(), hooks: None, sensitive: self.node(ix).sensitive };
        for call in wanted {
            let id = self.open_call(draft, ix, call, asked.clone());
            let suspended = NodeSuspended::of(&self.state.open[&id].requested, self.node(ix).sensitive);
            self.emit_node(draft, ix, NodeEvent::Suspended(suspended), draft.last_sequence());
        }
        Ok(())
    }

    /// Whoever drives the intent has its node from now on, if nobody has it. The answer is who has it.
    pub(super) fn drive(
        &mut self,
        draft: &mut Draft,
        ix: NodeIx,
        actor: &Actor,
    ) -> Result<String, Rejection> {
        if let Some(holder) = self.claim(ix).and_then(|claim| claim.agent.clone()) {
            return Ok(holder);
        }
        match self.unclaimed(ix) {
            Some(refused) => Err(Rejection::Unclaimed(refused)),
            None => {
                self.claim_node(draft, ix, actor.agent.clone())?;
                Ok(actor.agent.clone())
            }
        }
    }

    /// A record came while the question was open: people are asked that.
    pub(super) fn amend_suspension(
        &mut self,
        draft: &mut Draft,
        id: InterruptId,
        record: &Record,
    ) -> Result<(), Rejection> {
        let Some(open) = self.state.open.get(&id) else { return Ok(()) };
        let agent = open.requested.asked_by.first().cloned();
        let ladder = self.ladder_of(&record.terms(agent.as_deref()), &record.ask, &draft.defaults);
        let ladder =
            ladder.map_err(|failure| Rejection::invalid("_suspension.retry_policy", failure.message))?;
        let taken = self.state.answers.contains_key(&record.id)
            || self.state.open.iter().any(|(other, open)| *other != id && open.requested.key == record.id);
        if taken {
            return Err(Rejection::AlreadyResolved);
        }
        let amended = InterruptRequested {
            key: record.id.clone(),
            keyless: false,
            data: record.ask.data.clone(),
            resume_schema: record.ask.resume_schema.clone(),
            ladder,
            ..open.requested.clone()
        };
        self.amend(draft, id, amended);
        Ok(())
    }

    /// Nobody has said in time what is asked: the question stays as it is, and its ladder begins.
    pub(crate) fn end_grace(&mut self, draft: &mut Draft, id: InterruptId) -> Result<(), Rejection> {
        let open = self.state.open.get(&id).ok_or(Rejection::NoSuchTimer)?;
        let ask = unsaid(UNTOLD_QUESTION);
        let agent = open.requested.asked_by.first().cloned();
        let terms = LadderTerms { call: None, agent: agent.as_deref(), form: payload_form(true) };
        // A ladder that does not fit must not keep people from hearing of it.
        let ladder = self.ladder_of(&terms, &ask, &draft.defaults).ok().flatten();
        let amended = InterruptRequested { data: ask.data, ladder, ..open.requested.clone() };
        self.amend(draft, id, amended);
        Ok(())
    }

    fn amend(&mut self, draft: &mut Draft, id: InterruptId, amended: InterruptRequested) {
        let ix = self.state.open[&id].node;
        let cause = draft.last_sequence();
        self.emit_of(draft, ix, NodeEvent::InterruptAmended(Box::new(amended)), cause);
        self.escalate(draft, ix, id, 1);
    }

    /// Whether whoever answers now is to hear that a deadline has passed, and not merely that nothing is open.
    fn was_abandoned_late(&self) -> bool {
        self.abandonment_reason() == Some(crate::bonds::DEADLINE_EXCEEDED)
    }

    /// The open question that somebody answers by its name, and the answer as that takes it.
    pub fn answered_by_name(&self, name: &str, value: Json) -> Result<(InterruptId, Json), Rejection> {
        let id = self.suspension_named(name)?;
        Ok((id, self.answer_of(id, value)?))
    }

    /// What somebody says beside their answer is kept beside the record.
    pub(crate) fn note_remarks(&mut self, draft: &mut Draft, id: InterruptId, remarks: Option<&Json>) {
        let goes_on = self.lifecycle() == crate::Lifecycle::Running && self.driven_node().is_some();
        let asked = self.intent().and_then(|intent| intent.asked.as_ref());
        let asked = asked.filter(|asked| asked.interrupt == Some(id)).and_then(|asked| asked.id.as_ref());
        // The record that stands there may be that of another question, or none at all.
        let recorded = || asked.is_some() && self.record_id().as_ref() == asked;
        let Some(remarks) =
            remarks.filter(|remarks| remarks.text() != "{}").filter(|_| goes_on && recorded())
        else {
            return;
        };
        let patch =
            Patch { op: PatchOp::Set, path: format!("{SUSPENSION}/metadata"), value: Some(remarks.clone()) };
        let cause = draft.last_sequence();
        let patched = IntentPatched { patches: vec![patch], by: None };
        draft.emit_run(self, RunEvent::IntentPatched(Box::new(patched)), cause);
    }

    /// Refuses an answer that the state of an intent has no room for. A short one always has: whoever is asked must not be
    /// kept from answering by what the agent wrote, and an end without an answer is never refused.
    pub(crate) fn check_answer_fits(
        &self,
        id: InterruptId,
        value: &Json,
        remarks: Option<&Json>,
    ) -> Result<(), Rejection> {
        let levels = limits::STATE_DEPTH_MAX - RECORD_DEPTH;
        let remarked = remarks.map_or(0, |remarks| remarks.text().len());
        if remarked > limits::REMARKS_BYTES_MAX || remarks.is_some_and(|remarks| remarks.depth() > levels) {
            let most = limits::REMARKS_BYTES_MAX;
            let message =
                format!("'metadata' takes at most {most} bytes and {levels} levels; leave some out");
            return Err(Rejection::invalid("metadata", message));
        }
        let asked = self.intent().and_then(|intent| intent.asked.as_ref());
        if self.driven_node().is_none() || asked.is_none_or(|asked| asked.interrupt != Some(id)) {
            return Ok(());
        }
        let answer = answer_in(value).unwrap_or_else(|| value.clone());
        if answer.depth() > levels {
            let message = format!("the answer is nested deeper than {levels} levels; make it flatter");
            return Err(Rejection::invalid("value", message));
        }
        let (bytes, stands) = (answer.text().len(), bytes_of(&self.intent_state()));
        let room = limits::STATE_BYTES_MAX.saturating_sub(stands + remarked).max(limits::ANSWER_BYTES_SURE);
        if bytes > room {
            let message = format!(
                "the answer has {bytes} bytes, and the intent's state has room for {room}; give a shorter one, or have its \
                 agent make the state smaller"
            );
            return Err(Rejection::invalid("value", message));
        }
        Ok(())
    }

    /// The open question of this name.
    fn suspension_named(&self, name: &str) -> Result<InterruptId, Rejection> {
        if self.was_abandoned_late() {
            return Err(Rejection::DeadlineExceeded);
        }
        let provisional = self.intent().and_then(Intent::provisional);
        if let Some(id) = provisional.filter(|id| self.state.open.contains_key(id)) {
            // Any name will do but that of something else, which was answered once.
            let other = name.parse::<InterruptId>().is_ok_and(|named| named != id);
            if other || self.state.answers.contains_key(name) {
                return Err(self.mistaken(id.to_string(), name));
            }
            return Ok(id);
        }
        let mut open = self.awaited_answers().filter(|open| open.node.is_some());
        let found = open.find(|open| self.suspension_id(open) == name);
        if let Some(found) = found {
            return Ok(found.requested.interrupt_id);
        }
        match self.suspended_for() {
            Some(open) => Err(self.mistaken(self.suspension_id(open), name)),
            None => Err(Rejection::NotSuspended(self.status())),
        }
    }

    fn mistaken(&self, expected: String, name: &str) -> Rejection {
        let found = name.chars().take(limits::INTERRUPT_KEY_CHARS_MAX).collect();
        Rejection::OtherSuspension { expected, found }
    }

    /// An answer in the words of what is asked.
    fn answer_of(&self, id: InterruptId, value: Json) -> Result<Json, Rejection> {
        let Some(open) = self.state.open.get(&id) else { return Ok(value) };
        if open.requested.kind == InterruptKind::Approval {
            return Ok(Json::of(&JsonMap::from([("action".to_owned(), value)])));
        }
        let Some(question) = single_question(&open.requested.data) else { return Ok(value) };
        self.check_choice(open, &value)?;
        let answers = JsonMap::from([(question, value)]);
        Ok(Json::of(&JsonMap::from([("answers".to_owned(), Json::of(&answers))])))
    }

    fn check_choice(&self, open: &crate::Open, value: &Json) -> Result<(), Rejection> {
        let seen = self.seen_as(open);
        if !matches!(seen.response_type, "choice" | "confirm") || seen.choices.is_empty() {
            return Ok(());
        }
        let mut choices = seen.choices.iter();
        if choices.any(|choice| choice.get("value") == Some(value)) {
            return Ok(());
        }
        Err(Rejection::InvalidChoice { value: value.clone(), choices: seen.choices })
    }

    /// Whoever asks takes the question back, and goes on.
    pub(super) fn cancel_suspension(
        &mut self,
        draft: &mut Draft,
        name: &str,
        actor: &Actor,
    ) -> Result<(), Rejection> {
        self.check_driven()?;
        self.check_may_write(&actor.agent)?;
        let id = self.suspension_named(name)?;
        self.check_in_time(&self.state.open[&id], draft.now)?;
        self.close(draft, id, Resolution::Cancelled, TAKEN_BACK, &actor.agent);
        self.advance(draft);
        Ok(())
    }

    /// Refuses what would write what only the run itself writes, and reads the record as a patch leaves it.
    pub(super) fn check_record(
        &self,
        before: Option<&Json>,
        after: Option<&Json>,
    ) -> Result<Option<Record>, Rejection> {
        let open = self.suspended_for().filter(|open| open.node.is_some());
        let Some(after) = after else {
            if open.is_some() {
                let message =
                    "people are asked what stands in '_suspension'; answer it, or cancel the suspension";
                return Err(Rejection::invalid("_suspension", message));
            }
            return Ok(None);
        };
        if before.is_some_and(|before| before.says_same(after)) {
            return Ok(None);
        }
        let fields = |json: &Json| json.parse::<JsonMap>().unwrap_or_default();
        let (was, is) = (before.map(fields).unwrap_or_default(), fields(after));
        // What became of another suspension says nothing of this one.
        let was = if was.get("id") == is.get("id") { was } else { JsonMap::new() };
        for key in OURS {
            let said =
                |fields: &JsonMap| fields.get(*key).filter(|value| value.type_name() != "null").cloned();
            let stays = match (said(&was), said(&is)) {
                (Some(was), Some(is)) => was.says_same(&is),
                (was, is) => was == is,
            };
            if !stays {
                return Err(not_theirs(key));
            }
        }
        let record = Record::read(after)?;
        if self.state.answers.contains_key(&record.id) {
            let message = "the suspension of this id is over; give the next one an id of its own".to_owned();
            return Err(Rejection::invalid("_suspension.id", message));
        }
        if let Some(open) = open.filter(|open| !is_unsaid(&open.requested)) {
            let expected = self.suspension_id(open);
            if expected != record.id {
                return Err(Rejection::OtherSuspension { expected, found: record.id });
            }
            return check_same(before, &record, open).map(|()| None);
        }
        Ok(Some(record))
    }

    /// Refuses an intent that is made with a record which could not be asked, or which says that somebody has answered.
    pub(crate) fn check_made(&self) -> Result<(), Rejection> {
        let record = self.driven_node().and_then(|_| self.state_value(SUSPENSION));
        record.map_or(Ok(()), |record| Record::read_fresh(&record).map(drop))
    }
}

/// Refuses a record that asks something else than what people are asked, or asks it in another way.
fn check_same(before: Option<&Json>, record: &Record, open: &crate::Open) -> Result<(), Rejection> {
    let was = before.and_then(|before| Record::read(before).ok()).filter(|was| was.id == record.id);
    let same = match was {
        Some(was) => was.asks_same(record),
        None => record.ask.data.says_same(&open.requested.data),
    };
    if same {
        return Ok(());
    }
    let message = "people are asked this already, and may be answering it; to ask something else, or to ask it in another \
                   way, cancel it and suspend again under another id";
    Err(Rejection::invalid("_suspension", message))
}

/// Whether nobody has said yet what is asked.
pub(super) fn is_unsaid(requested: &InterruptRequested) -> bool {
    let data: JsonMap = requested.data.parse().unwrap_or_default();
    let kind = data.get("contextType").and_then(|kind| kind.parse::<String>().ok());
    kind.as_deref() == Some(UNSAID)
}

/// The id of the question of a clarification that has one alone.
pub(super) fn single_question(data: &Json) -> Option<String> {
    let data: JsonMap = data.parse().ok()?;
    let questions: Vec<JsonMap> = data.get("questions")?.parse().ok()?;
    let [question] = questions.as_slice() else { return None };
    question.get("id")?.parse().ok()
}

/// The answer of a question that has one alone, in what came back.
pub(super) fn answer_in(value: &Json) -> Option<Json> {
    let value: JsonMap = value.parse().ok()?;
    let answers: JsonMap = value.get("answers")?.parse().ok()?;
    let alone = answers.len() == 1;
    answers.get(ANSWER).or_else(|| answers.values().next().filter(|_| alone)).cloned()
}

impl Run {
    /// When it is decided that nobody says what is asked.
    pub(crate) fn await_record(&mut self, id: InterruptId, folding: &mut crate::fold::Folding<'_>) {
        let due = folding.at.saturating_add(limits::RECORD_GRACE_MS);
        self.arm(TimerId::Grace(id), due, folding);
    }
}
