//! The payloads of what happens in a conversation. Each is about the node that opened it, takes a turn in it or ends it.

use serde::{Deserialize, Serialize};

use crate::{InterruptId, Json};

/// A conversation has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationOpened {
    /// What it is known by: no other conversation of the tenant is.
    pub conversation_id: String,
    /// The interrupt that opened it.
    pub interrupt_id: InterruptId,
    /// What people know it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What was said first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_prompt: Option<String>,
    /// What it says is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// It was opened by the run that this one was forked off, which keeps its name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
}

/// Somebody took a turn in a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationExchanged {
    /// Which conversation.
    pub conversation_id: String,
    /// Which turn of it, from 0.
    pub turn_index: u32,
    /// The interrupt that asked.
    pub interrupt_id: InterruptId,
    /// What was asked.
    pub prompt: String,
    /// What was answered.
    pub outcome: Json,
    /// Who answered.
    pub exchanged_by: String,
    /// What was said is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// A conversation has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationClosed {
    /// Which conversation.
    pub conversation_id: String,
    /// The interrupt that ended it.
    pub interrupt_id: InterruptId,
    /// How many turns were taken in it.
    pub turns: u32,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}
