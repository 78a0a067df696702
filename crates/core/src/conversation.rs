//! Conversations: several turns with people under one id that nobody else in the tenant has.
//!
//! A conversation is opened, each turn in it is a question, and it is closed. All three are interrupts; the first and the
//! last wait for nobody, and are resolved as they are asked. A conversation belongs to its run, and any node of that may
//! take a turn in it.

use serde::{Deserialize, Serialize};

use crate::command::Draft;
use crate::effect::Effect;
use crate::event::{
    ConversationClosed, ConversationExchanged, ConversationOpened, Failure, InterruptRequested, NodeEvent,
};
use crate::fold::Folding;
use crate::interrupt::{Ask, Checked};
use crate::{
    Hash, InterruptId, InterruptKind, Json, JsonMap, NodeIx, Run, Salt, Surroundings, hex, limits, sha256,
};

/// Who opens and closes conversations: nobody is asked.
const BY_RUN: &str = "system:run";

/// What the ids begin with that a run makes itself.
const MINTED: &str = "conv-";

/// Where a conversation of a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// The index that its next turn gets if none is given.
    pub next_turn: u32,
    /// The turns that were taken.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turns: u32,
    /// It is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What a conversation's id is known by where ids have to be told apart: it says nothing of the id itself.
pub fn conversation_name(id: &str) -> Hash {
    let mut seed = b"conversation:".to_vec();
    seed.extend(id.as_bytes());
    sha256(&seed)
}

/// Whether an id is one that a run made itself, so that it repeats nothing that anybody said.
pub fn is_minted_conversation(id: &str) -> bool {
    id.strip_prefix(MINTED)
        .is_some_and(|rest| rest.len() == 32 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
}

impl InterruptRequested {
    /// The id that its run made for the conversation which it opens.
    pub(crate) fn minted_conversation(&self) -> Option<String> {
        let opens = self.kind == InterruptKind::ConversationStart;
        text_of(&self.data, "conversationId").filter(|id| opens && is_minted_conversation(id))
    }
}

/// The id that a run with this secret makes for the conversation which the question with this key opens.
pub(crate) fn minted(salt: &Salt, key: &str) -> String {
    let mut seed = b"conversation".to_vec();
    seed.extend(salt);
    seed.extend(key.as_bytes());
    format!("{MINTED}{}", hex(&sha256(&seed)[..16]))
}

/// A member of the data that is text.
pub(crate) fn text_of(data: &Json, key: &str) -> Option<String> {
    data.parse::<JsonMap>().ok()?.remove(key)?.parse().ok()
}

/// What may be read of a run's conversations.
impl Run {
    /// Its conversations, by their ids.
    pub fn conversations(&self) -> impl Iterator<Item = (&str, &Conversation)> {
        self.state.conversations.iter().map(|(id, conversation)| (id.as_str(), conversation))
    }

    /// The id that the conversation gets which this question opens, if it is given none. Nobody can foresee it, so nobody
    /// has it already.
    pub(crate) fn minted_conversation(&self, key: &str) -> String {
        minted(&self.salt, key)
    }

    /// Whether this may be asked, as far as conversations go.
    pub(crate) fn check_conversation(&self, ask: &Ask, around: &Surroundings) -> Result<(), Failure> {
        match ask.kind {
            InterruptKind::ConversationStart => self.check_start(ask, around),
            InterruptKind::ConversationExchange => {
                let conversation = self.check_ongoing(ask)?;
                check_turn(ask, conversation)
            }
            InterruptKind::ConversationClose => {
                self.check_ongoing(ask)?;
                self.check_no_turn(ask)
            }
            _ => Ok(()),
        }
    }

    fn check_start(&self, ask: &Ask, around: &Surroundings) -> Result<(), Failure> {
        if around.no_conversations {
            let message =
                "this server holds no conversations; ask with a clarification for each turn instead";
            return Err(Failure::new("capability_required", message));
        }
        if self.state.conversations.len() >= limits::CONVERSATIONS_MAX {
            let most = limits::CONVERSATIONS_MAX;
            let message = format!("the run has opened {most} conversations, and may open no more");
            return Err(Failure::new("interrupt_limit", message));
        }
        let Some(id) = text_of(&ask.data, "conversationId") else { return Ok(()) };
        let own = self.state.conversations.contains_key(&id);
        if own || around.taken.contains(&conversation_name(&id)) {
            return Err(taken(&id));
        }
        Ok(())
    }

    /// The conversation that is meant, if it goes on.
    fn check_ongoing(&self, ask: &Ask) -> Result<&Conversation, Failure> {
        let id = text_of(&ask.data, "conversationId").unwrap_or_default();
        let told = crate::excerpt::excerpt(&id);
        match self.state.conversations.get(&id) {
            Some(conversation) if !conversation.closed => Ok(conversation),
            Some(_) => {
                let message = format!("the conversation '{told}' is closed; open another one");
                Err(Failure::new("conversation_closed", message))
            }
            None => {
                let message = format!(
                    "this run has opened no conversation '{told}'; open it first, and take over its conversationId"
                );
                Err(Failure::new("conversation_not_found", message))
            }
        }
    }

    /// Whoever was asked for a turn would answer into nothing.
    fn check_no_turn(&self, ask: &Ask) -> Result<(), Failure> {
        let id = text_of(&ask.data, "conversationId");
        let asked = self.state.open.values().find(|open| {
            open.requested.kind == InterruptKind::ConversationExchange
                && text_of(&open.requested.data, "conversationId") == id
        });
        let Some(open) = asked else { return Ok(()) };
        let message = format!(
            "node '{}' waits for a turn in the conversation '{}'; close it when that is taken",
            self.interrupted_node(open),
            crate::excerpt::excerpt(id.unwrap_or_default())
        );
        Err(Failure::new("conversation_busy", message))
    }

    /// What is shown of a question in a conversation: with the id and the turn that it gets here.
    pub(crate) fn placed_data(&self, kind: InterruptKind, key: &str, data: Json) -> Json {
        let placed = match kind {
            InterruptKind::ConversationStart => ("conversationId", Json::of(&self.minted_conversation(key))),
            InterruptKind::ConversationExchange => {
                let id = text_of(&data, "conversationId").unwrap_or_default();
                let next = self.state.conversations.get(&id).map_or(0, |conversation| conversation.next_turn);
                ("turnIndex", Json::of(&next))
            }
            _ => return data,
        };
        let mut members: JsonMap = data.parse().unwrap_or_default();
        if members.get(placed.0).is_some_and(|given| given.type_name() != "null") {
            return data;
        }
        members.insert(placed.0.to_owned(), placed.1);
        Json::of(&members)
    }
}

fn taken(id: &str) -> Failure {
    let told = crate::excerpt::excerpt(id);
    let message = format!(
        "the conversation id '{told}' is taken: another conversation has or had it; choose another, or none"
    );
    Failure::new("conversation_id_taken", message)
}

/// A turn that is counted by whoever asks is counted forwards.
fn check_turn(ask: &Ask, conversation: &Conversation) -> Result<(), Failure> {
    let given =
        ask.data.parse::<JsonMap>().ok().and_then(|mut data| data.remove("turnIndex")?.parse::<u32>().ok());
    let next = conversation.next_turn;
    match given {
        Some(given) if given < next => {
            let message =
                format!("'turnIndex' is {given}, and that turn was taken; use {next}, or leave it out");
            Err(Failure::new("invalid_interrupt", message))
        }
        _ => Ok(()),
    }
}

/// What a decision does.
impl Run {
    /// Resolves what waits for nobody, or what a mock answers.
    pub(crate) fn settle_at_once(&mut self, draft: &mut Draft, id: InterruptId, value: Json) {
        let by = BY_RUN.to_owned();
        let checked = Checked { value, decision: None, answers: None, by, qualified_by: Vec::new() };
        self.resolve(draft, id, checked);
    }

    /// Tells what an answer meant to the conversation that it was in.
    pub(crate) fn tell_conversation(
        &mut self,
        draft: &mut Draft,
        ix: Option<NodeIx>,
        asked: &InterruptRequested,
        resolved: (&Json, &str, bool),
    ) {
        let (outcome, by, sensitive) = resolved;
        let (data, interrupt_id) = (&asked.data, asked.interrupt_id);
        let conversation_id = text_of(data, "conversationId").unwrap_or_default();
        let event = match asked.kind {
            InterruptKind::ConversationStart => NodeEvent::ConversationOpened(ConversationOpened {
                conversation_id,
                interrupt_id,
                title: text_of(data, "title"),
                initial_prompt: text_of(data, "initialPrompt"),
                sensitive: asked.sensitive,
                elsewhere: false,
            }),
            InterruptKind::ConversationExchange => {
                NodeEvent::ConversationExchanged(Box::new(ConversationExchanged {
                    conversation_id,
                    turn_index: turn_of(data),
                    interrupt_id,
                    prompt: text_of(data, "prompt").unwrap_or_default(),
                    outcome: outcome.clone(),
                    exchanged_by: by.to_owned(),
                    sensitive: asked.sensitive || sensitive,
                }))
            }
            InterruptKind::ConversationClose => {
                let turns = self.state.conversations.get(&conversation_id).map_or(0, |found| found.turns);
                NodeEvent::ConversationClosed(ConversationClosed {
                    conversation_id,
                    interrupt_id,
                    turns,
                    reason: text_of(data, "reason"),
                    sensitive: asked.sensitive,
                })
            }
            _ => return,
        };
        let cause = draft.last_sequence();
        self.emit_of(draft, ix, event, cause);
    }
}

/// The turn that a question is.
fn turn_of(data: &Json) -> u32 {
    let index = data.parse::<JsonMap>().ok().and_then(|mut data| data.remove("turnIndex"));
    index.and_then(|index| index.parse().ok()).unwrap_or(0)
}

/// What an event changes.
impl Run {
    /// A turn is asked for: the next one has another index, however this one ends.
    pub(crate) fn fold_turn_asked(&mut self, asked: &InterruptRequested) {
        if asked.kind != InterruptKind::ConversationExchange {
            return;
        }
        let id = text_of(&asked.data, "conversationId").unwrap_or_default();
        if let Some(conversation) = self.state.conversations.get_mut(&id) {
            conversation.next_turn = turn_of(&asked.data).saturating_add(1).max(conversation.next_turn);
        }
    }

    pub(crate) fn fold_opened(
        &mut self,
        opened: &ConversationOpened,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        let id = opened.conversation_id.clone();
        if self.state.conversations.insert(id, Conversation::default()).is_some() {
            return Err("the conversation was opened before".to_owned());
        }
        if !opened.elsewhere {
            folding.effects.push(Effect::TakeName(conversation_name(&opened.conversation_id)));
        }
        Ok(())
    }

    pub(crate) fn fold_exchanged(&mut self, exchanged: &ConversationExchanged) -> Result<(), String> {
        let found = self.state.conversations.get_mut(&exchanged.conversation_id);
        match found.filter(|conversation| !conversation.closed) {
            Some(conversation) => conversation.turns = conversation.turns.saturating_add(1),
            None => return Err("a turn in a conversation that is not open".to_owned()),
        }
        Ok(())
    }

    pub(crate) fn fold_closed(&mut self, closed: &ConversationClosed) -> Result<(), String> {
        let found = self.state.conversations.get_mut(&closed.conversation_id);
        let found = found.filter(|conversation| !conversation.closed);
        found.ok_or("what is closed is no open conversation")?.closed = true;
        Ok(())
    }
}
