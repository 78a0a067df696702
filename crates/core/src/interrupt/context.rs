//! What a node sees of the outside while it is executed: it may ask, and stops until there is an answer.
//!
//! A node that asks is executed again from the top once it may go on. What it asked before is known by its key and
//! answered from the journal, so the second time it gets a step further. Nothing of this needs a thread, or memory,
//! while the node waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::climb::LadderTerms;
use crate::conversation::text_of;
use crate::doubt::Judgement;
use crate::event::{AgentDecided, Failure, Hooks, InterruptRequested, Resolution};
use crate::interrupt::{Ask, Exchange, Vote, scheduled_time};
use crate::{
    InterruptId, InterruptKind, Json, Ladder, Millis, Next, NodeIx, Problem, Run, Surroundings, limits,
};

/// An interrupt that waits for an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// What was asked.
    pub requested: InterruptRequested,
    /// When.
    pub at: Millis,
    /// The node that asked; none if the run itself asks how it goes on.
    pub(crate) node: Option<NodeIx>,
    /// The nodes that are stopped until it is resolved, the one that asked among them.
    pub(crate) waiters: Vec<NodeIx>,
    /// How often people were told, or were to be.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub attempt: u32,
    /// The last attempt at which somebody was not to be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<u32>,
    /// For how long its times have stood still altogether, up to the last release.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shifted_ms: Millis,
    /// Since when its times stand still: the run is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_since: Option<Millis>,
    /// The votes so far, one of each who voted, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) votes: Vec<Vote>,
    /// How many votes were cast, those included that others took the place of.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) cast: u32,
    /// What those who decide wanted to know, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exchanges: Vec<Exchange>,
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

impl Open {
    /// From when its times are counted: when it was asked, later by as long as they stood still. While they do, nothing
    /// of it is ever due.
    fn counted_from(&self) -> Option<Millis> {
        self.stands_since.is_none().then(|| self.at.saturating_add(self.shifted_ms))
    }

    /// When it is given up, or its ladder ends: nobody can answer from then on. While its times stand still, nobody knows
    /// when that is.
    pub fn deadline(&self) -> Option<Millis> {
        let ladder = self.requested.ladder.as_ref().filter(|_| self.node.is_some());
        let ends = ladder.and_then(|ladder| ladder.expires_at(self.counted_from()?));
        self.given_up_at().into_iter().chain(ends).min()
    }

    /// When it is given up, whatever its ladder says.
    pub(crate) fn given_up_at(&self) -> Option<Millis> {
        Some(self.counted_from()?.saturating_add(self.requested.timeout_ms?))
    }

    /// When what it waits for happens by itself, if that is a time.
    pub(crate) fn occasion(&self) -> Option<Millis> {
        match self.requested.kind {
            InterruptKind::ExternalEvent => scheduled_time(&self.requested.data).ok().flatten(),
            _ => None,
        }
    }

    /// When it ends whatever its ladder says: it is given up, or has happened.
    pub(crate) fn ends_at(&self) -> Option<Millis> {
        self.given_up_at().into_iter().chain(self.occasion()).min()
    }

    /// What comes next on its ladder, and when. What would come after its end never does.
    pub fn next(&self) -> Option<(Next, Millis)> {
        self.after(self.attempt)
    }

    /// When people are told again, if they ever are.
    pub fn next_attempt_at(&self) -> Option<Millis> {
        self.next().filter(|(next, _)| matches!(next, Next::Attempt(_))).map(|(_, due)| due)
    }

    /// What follows an attempt, and when.
    pub(crate) fn after(&self, attempt: u32) -> Option<(Next, Millis)> {
        let (next, due) = self.requested.ladder.as_ref()?.next(self.counted_from()?, attempt)?;
        // Nobody's silence answers a question of the run itself.
        let lasts = self.node.is_none() && next == Next::Expiry;
        (!lasts && self.ends_at().is_none_or(|end| due < end)).then_some((next, due))
    }
}

/// What became of an interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub(crate) kind: InterruptKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resume_schema: Option<Json>,
    /// The node whose execution it is of alone, unless it was given a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) only: Option<NodeIx>,
    #[serde(default, deserialize_with = "crate::json::given", skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Json>,
    pub(crate) outcome: Resolution,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) sensitive: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<InterruptId>,
    /// Who closed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
}

/// What goes with a question beside what is asked.
#[derive(Clone)]
pub(crate) struct Asked {
    /// Who may answer.
    pub(crate) respondents: Vec<String>,
    /// Who asks.
    pub(crate) by: Vec<String>,
    /// What the agent that asks wants to be called for.
    pub(crate) hooks: Option<Hooks>,
    /// What is shown is only for those who answer.
    pub(crate) sensitive: bool,
}

/// Why a node's execution does not go on.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// It waits for an answer.
    Suspended,
    /// There will be none, or what was asked makes no sense.
    Failed(Failure),
}

/// What a node wants to be stopped for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    /// Something new.
    Ask(Box<NewAsk>),
    /// What is asked already.
    Join(InterruptId),
}

/// Something new that a node asks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewAsk {
    pub(crate) ask: Ask,
    pub(crate) key: String,
    pub(crate) keyless: bool,
    pub(crate) call: u32,
    pub(crate) ladder: Option<Ladder>,
    /// What it is resolved with as it is asked, if nobody is waited for.
    pub(crate) at_once: Option<Json>,
    /// The decision that it is about, which is told before.
    pub(crate) decided: Option<Box<AgentDecided>>,
}

impl Call {
    /// What it is resolved with as it is asked, if nobody is waited for.
    pub(crate) fn at_once(&self) -> Option<&Json> {
        if let Self::Ask(new) = self { new.at_once.as_ref() } else { None }
    }
}

/// What a node may do while it is executed.
pub struct NodeContext<'a> {
    run: &'a Run,
    node: NodeIx,
    execution: u32,
    pub(crate) calls: u32,
    wanted: BTreeMap<String, Call>,
    /// Decisions that nobody has to ratify, and that are to be told.
    made: Vec<AgentDecided>,
    /// What a mock answers to the next turn of a conversation.
    pub(crate) mocked: Option<Json>,
    sensitive: bool,
    defaults: Arc<Surroundings>,
}

impl<'a> NodeContext<'a> {
    pub(crate) fn new(run: &'a Run, node: NodeIx, execution: u32, defaults: Arc<Surroundings>) -> Self {
        Self {
            run,
            node,
            execution,
            calls: 0,
            wanted: BTreeMap::new(),
            made: Vec::new(),
            mocked: None,
            sensitive: false,
            defaults,
        }
    }

    /// Asks, and stops until there is an answer.
    pub fn interrupt(&mut self, payload: &Json) -> Result<Json, Stop> {
        self.ask_by_node(Ask::read(payload).map_err(|problems| refused(&problems))?)
    }

    /// [`Self::interrupt`] under its second name, which also knows the second names of the fields.
    pub fn suspend(&mut self, payload: &Json) -> Result<Json, Stop> {
        self.ask_by_node(Ask::read_alias(payload).map_err(|problems| refused(&problems))?)
    }

    /// Asks for several things at once, and stops until there is an answer to each.
    pub fn all(&mut self, payloads: &[Json]) -> Result<Vec<Json>, Stop> {
        let asks: Vec<Ask> = payloads
            .iter()
            .map(Ask::read)
            .collect::<Result<_, _>>()
            .map_err(|problems| refused(&problems))?;
        let answers: Vec<Result<Json, Stop>> = asks.into_iter().map(|ask| self.ask_by_node(ask)).collect();
        // What makes no sense is told before anything is waited for.
        if let Some(failed) = answers.iter().find_map(|answer| match answer {
            Err(Stop::Failed(failure)) => Some(failure.clone()),
            _ => None,
        }) {
            return Err(Stop::Failed(failed));
        }
        answers.into_iter().collect()
    }

    /// What the node wants to be stopped for, what it has decided, and whether it has seen an answer that is never shown.
    pub(crate) fn into_wanted(self) -> (Vec<Call>, Vec<AgentDecided>, bool) {
        let mut wanted: Vec<Call> = self.wanted.into_values().collect();
        wanted.sort_by_key(|call| match call {
            Call::Ask(new) => new.call,
            Call::Join(_) => 0,
        });
        (wanted, self.made, self.sensitive)
    }

    /// The id that a conversation gets which the next call opens without one.
    pub(crate) fn next_conversation(&self) -> String {
        let key = self.run.default_key(self.node, self.execution, self.calls + 1);
        self.run.minted_conversation(&key)
    }

    /// Decides on the terms that the definition gives.
    pub(crate) fn decide_by_node(&mut self, judged: Judgement, schema: Option<Json>) -> Result<Json, Stop> {
        let terms = self.run.ladder_terms(self.node);
        self.decide(judged, None, schema, &terms)
    }

    /// Decides, and stops until somebody has ratified it if the agent is not sure enough.
    pub(crate) fn decide(
        &mut self,
        judged: Judgement,
        key: Option<String>,
        schema: Option<Json>,
        terms: &LadderTerms<'_>,
    ) -> Result<Json, Stop> {
        let fail = |message: String| Stop::Failed(Failure::new("invalid_interrupt", message));
        judged.check_size().map_err(fail)?;
        let threshold = self.run.escalation_threshold();
        let ask = Ask { resume_schema: schema, ..judged.ask(key, threshold) };
        let keyless = ask.key.is_none();
        let key = ask.key.clone();
        let key = key.unwrap_or_else(|| self.run.default_key(self.node, self.execution, self.calls + 1));
        let sensitive = self.run.node(self.node).sensitive;
        let known = (key.clone(), self.calls + 1, keyless);
        if judged.is_below(threshold) {
            let told = judged.event(known, true, sensitive);
            return self.put(ask, terms, Some(Box::new(told)));
        }
        self.calls += 1;
        if let Some(answered) = self.known(&ask, &key, keyless)? {
            return answered;
        }
        self.check_room(&ask, None)?;
        let decision = judged.decision.clone();
        self.made.push(judged.event(known, false, sensitive));
        Ok(decision)
    }

    /// Asks on the terms that the definition gives.
    fn ask_by_node(&mut self, ask: Ask) -> Result<Json, Stop> {
        self.run.check_refinable(self.node, &ask).map_err(Stop::Failed)?;
        let terms = self.run.ladder_terms(self.node);
        self.ask(ask, &terms)
    }

    pub(crate) fn ask(&mut self, ask: Ask, terms: &LadderTerms<'_>) -> Result<Json, Stop> {
        self.put(ask, terms, None)
    }

    fn put(
        &mut self,
        ask: Ask,
        terms: &LadderTerms<'_>,
        decided: Option<Box<AgentDecided>>,
    ) -> Result<Json, Stop> {
        self.calls += 1;
        let keyless = ask.key.is_none();
        let key =
            ask.key.clone().unwrap_or_else(|| self.run.default_key(self.node, self.execution, self.calls));
        if let Some(answered) = self.known(&ask, &key, keyless)? {
            return answered;
        }
        let at_once = self.at_once(&ask);
        let ladder = match &self.defaults.recorded {
            Some(recorded) => recorded.ladder(&self.run.graph.at(self.node).id, self.execution, self.calls),
            None if at_once.is_some() => Ok(None),
            None => self.run.ladder_of(terms, &ask, &self.defaults),
        };
        let ladder = ladder.map_err(Stop::Failed)?;
        self.check_room(&ask, ladder.as_ref())?;
        self.run.check_conversation(&ask, &self.defaults).map_err(Stop::Failed)?;
        self.check_alone(&ask)?;
        let call = self.calls;
        let new = NewAsk { ask, key: key.clone(), keyless, call, ladder, at_once, decided };
        self.wanted.insert(key, Call::Ask(Box::new(new)));
        Err(Stop::Suspended)
    }

    /// What opens and what ends a conversation is not asked beside anything else about it: no order would hold.
    fn check_alone(&self, ask: &Ask) -> Result<(), Stop> {
        let id = |ask: &Ask| text_of(&ask.data, "conversationId").filter(|_| ask.kind.is_of_conversation());
        let Some(own) = id(ask) else { return Ok(()) };
        let turns = |other: &Ask| {
            other.kind == InterruptKind::ConversationExchange
                && ask.kind == InterruptKind::ConversationExchange
        };
        let clashes = |call: &Call| match call {
            Call::Ask(new) => id(&new.ask).as_ref() == Some(&own) && !turns(&new.ask),
            Call::Join(_) => false,
        };
        if !self.wanted.values().any(clashes) {
            return Ok(());
        }
        let message = format!(
            "the conversation '{}' is opened or closed beside something else; ask for one after the other",
            crate::excerpt::excerpt(&own)
        );
        Err(Stop::Failed(Failure::new("conversation_busy", message)))
    }

    /// What is resolved as it is asked: nobody is waited for to open or to close a conversation.
    fn at_once(&self, ask: &Ask) -> Option<Json> {
        match ask.kind {
            InterruptKind::ConversationStart | InterruptKind::ConversationClose => Some(Json::of(&())),
            InterruptKind::ConversationExchange => self.mocked.clone(),
            _ => None,
        }
    }

    /// What is known of a question: its answer, or that somebody is asked already.
    fn known(&mut self, ask: &Ask, key: &str, keyless: bool) -> Result<Option<Result<Json, Stop>>, Stop> {
        if let Some(answered) = self.run.state.answers.get(key) {
            check_sharing(key, keyless, answered.only.is_some())?;
            check_same(ask, key, answered.kind, answered.resume_schema.as_ref())?;
            self.sensitive |= answered.sensitive;
            return Ok(Some(answered.told()));
        }
        let mut open = self.run.state.open.iter();
        let same = |open: &Open| open.node.is_some() && open.requested.key == key;
        if let Some((id, open)) = open.find(|(_, open)| same(open)) {
            let asked = &open.requested;
            check_sharing(key, keyless, asked.keyless)?;
            check_same(ask, key, asked.kind, asked.resume_schema.as_ref())?;
            self.wanted.insert(key.to_owned(), Call::Join(*id));
            return Ok(Some(Err(Stop::Suspended)));
        }
        if let Some(Call::Ask(first)) = self.wanted.get(key) {
            check_sharing(key, keyless, first.keyless)?;
            check_same(ask, key, first.ask.kind, first.ask.resume_schema.as_ref())?;
            return Ok(Some(Err(Stop::Suspended)));
        }
        Ok(None)
    }

    /// Whether this may be asked now, and may be kept.
    fn check_room(&self, ask: &Ask, ladder: Option<&Ladder>) -> Result<(), Stop> {
        let fail = |failure: Failure| Err(Stop::Failed(failure));
        let state = &self.run.state;
        let wanted = || {
            self.wanted.values().filter_map(|call| match call {
                Call::Ask(new) => Some((&new.ask, &new.key, new.ladder.as_ref())),
                Call::Join(_) => None,
            })
        };
        let open = state.open.len() + wanted().count();
        if open >= limits::INTERRUPTS_OPEN_MAX {
            let most = limits::INTERRUPTS_OPEN_MAX;
            return fail(Failure::new(
                "interrupt_limit",
                format!("the run has {most} open interrupts, and may have no more"),
            ));
        }
        let size = |json: Option<&Json>| json.map_or(0, |json| json.text().len());
        let answered = state.answers.iter().map(|(key, answered)| {
            key.len() + size(answered.value.as_ref()) + size(answered.resume_schema.as_ref())
        });
        let asked = |key: &str, data: &Json, schema: Option<&Json>, ladder: Option<&Ladder>| {
            key.len() + data.text().len() + size(schema) + ladder.map_or(0, Ladder::bytes)
        };
        let open = state.open.values().map(|open| {
            let InterruptRequested { key, data, resume_schema, ladder, .. } = &open.requested;
            asked(key, data, resume_schema.as_ref(), ladder.as_ref())
        });
        let now =
            wanted().map(|(ask, key, ladder)| asked(key, &ask.data, ask.resume_schema.as_ref(), ladder));
        let bytes: usize = answered.chain(open).chain(now).sum::<usize>()
            + asked("", &ask.data, ask.resume_schema.as_ref(), ladder);
        if bytes > limits::INTERRUPTS_BYTES_MAX {
            let most = limits::INTERRUPTS_BYTES_MAX;
            let message =
                format!("the run's questions and answers would have {bytes} bytes; {most} are allowed");
            return fail(Failure::new("interrupt_limit", message));
        }
        Ok(())
    }
}

impl Answered {
    /// What stands for an answer to a decision that nobody had to ratify.
    pub(crate) fn decided(ix: NodeIx, decided: &AgentDecided) -> Self {
        Self {
            kind: InterruptKind::LowConfidence,
            resume_schema: None,
            only: decided.keyless.then_some(ix),
            value: Some(decided.decision.clone()),
            outcome: Resolution::Resolved,
            sensitive: decided.sensitive,
            id: None,
            by: None,
        }
    }

    /// What the node that asks for it gets.
    pub(crate) fn told(&self) -> Result<Json, Stop> {
        let fail = |failure: Failure| Err(Stop::Failed(failure));
        match (self.outcome, &self.value) {
            (Resolution::Resolved | Resolution::Rejected | Resolution::Expired, Some(value)) => {
                Ok(value.clone())
            }
            (Resolution::Expired, None) => fail(Failure::new(
                "input_timeout",
                "nobody answered, however often they were told (InputTimeoutError)",
            )),
            (Resolution::Cancelled, _) => fail(Failure::new(
                "interrupt_cancelled",
                "the run ended before anybody answered (InterruptCancelledError)",
            )),
            _ if self.kind == InterruptKind::Approval => fail(Failure::new(
                "approval_timeout",
                "nobody decided in time, which counts as a rejection (InterruptTimeoutError)",
            )),
            _ => fail(Failure::new("interrupt_timeout", "nobody answered in time (InterruptTimeoutError)")),
        }
    }
}

fn check_same(ask: &Ask, key: &str, kind: InterruptKind, schema: Option<&Json>) -> Result<(), Stop> {
    if ask.same_question(kind, schema) {
        return Ok(());
    }
    let what = if ask.kind == kind { "another resumeSchema" } else { "another kind" };
    let key = crate::excerpt::excerpt(key);
    let message = format!("the key '{key}' was used in this run for {what}; use another key");
    Err(Stop::Failed(Failure::new("interrupt_key_conflict", message)))
}

/// The keys that stand for those that were not given are of one execution each, and forgotten with it: whoever gave the
/// same key would be asked twice.
fn check_sharing(key: &str, keyless: bool, other_keyless: bool) -> Result<(), Stop> {
    if keyless == other_keyless {
        return Ok(());
    }
    let key = crate::excerpt::excerpt(key);
    let message = format!("the key '{key}' is that of a call without one; use another key");
    Err(Stop::Failed(Failure::new("interrupt_key_conflict", message)))
}

fn refused(problems: &[Problem]) -> Stop {
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Stop::Failed(Failure::new("invalid_interrupt", told.join("; ")))
}

impl Run {
    /// Whether a question is the one that was answered under this key.
    pub(crate) fn same_as_answered(&self, key: &str, asked: &crate::work::WorkAsk) -> bool {
        let Ok(ask) = Ask::read(&asked.payload) else { return false };
        let keyless = asked.key.is_none() && ask.key.is_none();
        self.state.answers.get(key).is_some_and(|answered| {
            answered.only.is_some() == keyless
                && ask.same_question(answered.kind, answered.resume_schema.as_ref())
        })
    }

    /// What a call without a key is known by: it is the same however often the execution is begun again.
    pub(crate) fn default_key(&self, node: NodeIx, execution: u32, call: u32) -> String {
        let id = &self.graph.at(node).id;
        let name = if id.chars().count() > KEYED_NODE_CHARS_MAX {
            crate::hex(&crate::sha256(id.as_bytes()))
        } else {
            id.to_string()
        };
        format!("{}:{name}:{execution}:{call}", self.key.id)
    }
}

/// Characters of a node's id in a key. A longer one would make the key longer than keys may be.
const KEYED_NODE_CHARS_MAX: usize = 160;
