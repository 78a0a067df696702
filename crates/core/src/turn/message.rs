//! What is said between a run and a model, in words that no provider owns.

use serde::{Deserialize, Serialize};

use crate::{Json, JsonMap};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", rename_all_fields = "camelCase", try_from = "Flat")]
pub enum Message {
    /// What holds for the whole conversation.
    System {
        /// Its text.
        content: String,
    },
    /// What somebody says to the model.
    User {
        /// A text, or a list of parts as the provider has them.
        content: Json,
    },
    /// What the model said.
    Assistant {
        /// Its text; may be empty if it only calls tools.
        #[serde(default)]
        content: String,
        /// What it thought before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reasoning: Vec<Reasoning>,
        /// The tools that it calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// What a tool answered.
    Tool {
        /// The call that it answers.
        tool_call_id: String,
        /// The tool.
        name: String,
        /// What it says.
        content: String,
        /// The tool failed, or may not be used.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// A message as it is read: values that are carried as they are can't stand behind a tag.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Flat {
    role: String,
    #[serde(default)]
    content: Option<Json>,
    #[serde(default)]
    reasoning: Vec<Reasoning>,
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    is_error: bool,
}

impl TryFrom<Flat> for Message {
    type Error = String;

    fn try_from(flat: Flat) -> Result<Self, String> {
        let Flat { role, content, reasoning, tool_calls, tool_call_id, name, is_error } = flat;
        let of_assistant = !reasoning.is_empty() || !tool_calls.is_empty();
        let of_tool = tool_call_id.is_some() || name.is_some() || is_error;
        if of_assistant && role != "assistant" || of_tool && role != "tool" {
            return Err(format!("a message of {role} has a key that belongs to another role"));
        }
        let needs = |what: &str| format!("a message of {role} needs {what}");
        let text = |content: Option<Json>| content.and_then(|content| content.parse::<String>().ok());
        match role.as_str() {
            "system" => {
                Ok(Self::System { content: text(content).ok_or_else(|| needs("a text as 'content'"))? })
            }
            "user" => {
                let content = content.filter(|content| matches!(content.type_name(), "string" | "array"));
                Ok(Self::User { content: content.ok_or_else(|| needs("a text or a list as 'content'"))? })
            }
            "assistant" => {
                let content = match content.filter(|content| content.type_name() != "null") {
                    Some(content) => text(Some(content)).ok_or_else(|| needs("a text as 'content'"))?,
                    None => String::new(),
                };
                Ok(Self::Assistant { content, reasoning, tool_calls })
            }
            "tool" => Ok(Self::Tool {
                tool_call_id: tool_call_id.ok_or_else(|| needs("'toolCallId'"))?,
                name: name.ok_or_else(|| needs("'name'"))?,
                content: text(content).ok_or_else(|| needs("a text as 'content'"))?,
                is_error,
            }),
            other => Err(format!("'{other}' is no role; use system, user, assistant or tool")),
        }
    }
}

/// A stretch of what a model thought.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reasoning {
    /// Its words; empty if the provider keeps them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What the provider knows it by; given back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// What the provider keeps to itself; given back as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted: Option<String>,
}

/// A call of a tool by a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolCall {
    /// Its id, as the provider gave it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What goes in. What is no object stands as a text, so that the model can be told.
    pub arguments: Json,
}

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What goes in, as a JSON Schema of an object.
    pub parameters: Json,
}

/// What a call of a model used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Usage {
    /// Tokens that went in, those from a cache included.
    pub input_tokens: u64,
    /// Tokens that came out, those of reasoning included.
    pub output_tokens: u64,
    /// Of what went in, what came from a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// Of what came out, what was reasoning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
}

impl Usage {
    /// Both together.
    pub fn plus(self, more: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(more.input_tokens),
            output_tokens: self.output_tokens.saturating_add(more.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(more.cached_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(more.reasoning_tokens),
        }
    }
}

/// One call of a model, with everything that fixes what is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// The provider, by the name that the operator gave it.
    pub provider: String,
    /// The model; the provider's usual one if nobody says.
    pub model: Option<String>,
    /// The whole conversation so far.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// At most so many tokens come out.
    pub max_tokens: Option<u64>,
    /// How freely it answers: a number.
    pub temperature: Option<Json>,
    /// Whatever else is sent, as the provider has it.
    pub params: JsonMap,
    /// How long the whole call may take, if the node says.
    pub timeout_ms: Option<crate::Millis>,
    /// Something that is never shown went in: what comes out is not shown either.
    pub sensitive: bool,
    /// Somebody has seen a part of what this call said, and then the server stopped.
    pub cut_off: bool,
    /// The node is played by a mock of the public fixtures: what it says.
    pub mock: Option<super::Mock>,
    /// What a provider may know the call by, so that it is not charged twice.
    pub idempotency_key: String,
}

/// What a model said, once it has said all of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelAnswer {
    /// Its text.
    pub content: String,
    /// What it thought.
    pub reasoning: Vec<Reasoning>,
    /// The tools that it calls.
    pub tool_calls: Vec<ToolCall>,
    /// What it used, if the provider said.
    pub usage: Usage,
    /// Why it stopped, in the provider's words.
    pub stop_reason: Option<String>,
    /// The model that answered, in the provider's words.
    pub model: Option<String>,
}

/// Why a call of a model did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    /// The provider's own words, without secrets, cut to a length.
    pub message: String,
    /// The HTTP status, if there was one.
    pub code: Option<String>,
    /// How it came.
    pub kind: ErrorKind,
    /// Something was said before.
    pub had_content: bool,
    /// How long the provider asked to be left alone.
    pub retry_after_ms: Option<crate::Millis>,
}

/// How an error came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The provider said it, and whether another try could help.
    Emitted {
        /// Absent is no.
        retryable: Option<bool>,
    },
    /// The stream broke off or made no sense.
    Thrown,
    /// The server that had the call died.
    Crashed,
    /// The run is ending, so the call was given up.
    Aborted,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
