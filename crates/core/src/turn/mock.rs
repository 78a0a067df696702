//! The model that OpenWOP's public fixtures ask for: it says what the run told it to say.

use serde::{Deserialize, Serialize};

use crate::{Json, Usage};

/// The mocks that there are, by the ids that runs ask for them with.
pub const MOCK_PROVIDERS: [&str; 1] = ["stream-text"];

/// The longest pause between two tokens that a run may ask for.
const DELAY_MS_MAX: u64 = 5_000;

/// What a mock says, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mock {
    /// Each becomes a chunk of its own.
    pub tokens: Vec<String>,
    /// The pause between two of them.
    pub delay_ms: u64,
    /// Why it stops.
    pub finish_reason: String,
    /// What it claims to have used.
    pub usage: Usage,
    /// What it calls itself.
    pub model: String,
}

/// Why there is no such mock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MockError {
    /// No mock has this id.
    #[error("there is no mock provider '{0}'; there is {list}", list = MOCK_PROVIDERS.join(", "))]
    Unknown(String),
    /// It is asked for in a way that makes no sense.
    #[error("'configurable.mockProvider' can't be read: {0}; give it an id and a config")]
    Unreadable(String),
}

/// A mock as a run asks for it.
#[derive(Deserialize)]
struct Asked {
    id: String,
    #[serde(default)]
    config: Config,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Config {
    tokens: Option<Vec<String>>,
    delay_ms_per_token: u64,
    finish_reason: Option<String>,
    usage: Option<Claimed>,
    model: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Claimed {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

impl Mock {
    /// The mock that a run asks for in its `configurable.mockProvider`.
    pub fn asked(asked: &Json) -> Result<Self, MockError> {
        let asked: Asked = asked.parse().map_err(|error| MockError::Unreadable(error.to_string()))?;
        if !MOCK_PROVIDERS.contains(&asked.id.as_str()) {
            return Err(MockError::Unknown(asked.id));
        }
        let Config { tokens, delay_ms_per_token, finish_reason, usage, model } = asked.config;
        if delay_ms_per_token > DELAY_MS_MAX {
            let reason = format!("'delayMsPerToken' is {DELAY_MS_MAX} at most");
            return Err(MockError::Unreadable(reason));
        }
        let tokens = tokens.unwrap_or_else(|| ["mock", " response"].map(str::to_owned).into());
        let usual = Claimed { prompt_tokens: 1, completion_tokens: tokens.len() as u64 };
        let Claimed { prompt_tokens, completion_tokens } = usage.unwrap_or(usual);
        Ok(Self {
            tokens,
            delay_ms: delay_ms_per_token,
            finish_reason: finish_reason.unwrap_or_else(|| "stop".to_owned()),
            usage: Usage {
                input_tokens: prompt_tokens,
                output_tokens: completion_tokens,
                ..Usage::default()
            },
            model: model.unwrap_or_else(|| "mock-stream-text-v1".to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_said_is_as_the_protocol_has_it() {
        let mock = Mock::asked(&Json::of(&json!({ "id": "stream-text" }))).unwrap();
        assert_eq!(mock.tokens, ["mock", " response"]);
        assert_eq!((mock.usage.input_tokens, mock.usage.output_tokens), (1, 2));
        assert_eq!((mock.finish_reason.as_str(), mock.model.as_str()), ("stop", "mock-stream-text-v1"));
    }

    #[test]
    fn a_mock_that_there_is_not_is_refused_as_such() {
        let unknown = Mock::asked(&Json::of(&json!({ "id": "oracle" })));
        assert_eq!(unknown, Err(MockError::Unknown("oracle".to_owned())));
    }

    #[test]
    fn a_mock_that_makes_no_sense_is_refused() {
        for wrong in [
            json!(null),
            json!({ "id": 7 }),
            json!({ "id": "stream-text", "config": { "tokens": [7] } }),
            json!({ "id": "stream-text", "config": { "delayMsPerToken": 5001 } }),
            json!({ "id": "stream-text", "config": { "delayMsPerToken": -1 } }),
        ] {
            let refused = Mock::asked(&Json::of(&wrong));
            assert!(matches!(refused, Err(MockError::Unreadable(_))), "{wrong}: {refused:?}");
        }
    }
}
