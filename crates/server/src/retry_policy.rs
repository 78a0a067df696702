//! What a retry policy looks like on the wire, for the OpenAPI document. The core reads and writes it.

use abide_core::limits::{
    CHANNEL_HINT_CHARS_MAX, LADDER_ATTEMPTS_MAX, LADDER_SECONDS_MAX, PRINCIPAL_CHARS_MAX,
};
use schemars::JsonSchema;

/// How the attempts follow each other.
#[derive(JsonSchema)]
#[schemars(rename = "RetryStrategy", rename_all = "snake_case")]
#[expect(dead_code, reason = "it stands for the type of the core, which knows no schemas")]
enum StrategyShape {
    Fixed,
}

/// What happens when nobody has answered in the end.
#[derive(JsonSchema)]
#[schemars(rename = "FallbackPolicy", rename_all = "snake_case")]
#[expect(dead_code, reason = "it stands for the type of the core, which knows no schemas")]
enum FallbackShape {
    Fail,
    CompleteWithFallback,
    UseDefaultAndContinue,
}

/// What is taken may have nulls where what is given has nothing, so the same fields make two schemas.
macro_rules! policies {
    ($(#[doc = $doc:literal] $policy:ident with $rung:ident;)*) => {$(
        #[doc = $doc]
        #[derive(JsonSchema)]
        #[schemars(deny_unknown_fields)]
        #[expect(dead_code, reason = "it stands for the type of the core, which knows no schemas")]
        pub(crate) struct $policy {
            /// How often people are told, the first time included.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1, max = LADDER_ATTEMPTS_MAX))]
            max_attempts: Option<u32>,
            /// Seconds between two attempts.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1, max = LADDER_SECONDS_MAX))]
            interval_seconds: Option<u32>,
            /// How the attempts follow each other.
            #[serde(skip_serializing_if = "Option::is_none")]
            strategy: Option<StrategyShape>,
            /// Who else is told, and when.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(length(max = LADDER_ATTEMPTS_MAX))]
            escalation_ladder: Option<Vec<$rung>>,
            /// What happens in the end.
            #[serde(skip_serializing_if = "Option::is_none")]
            final_fallback_policy: Option<FallbackShape>,
        }

        /// Who is told at one attempt in place of those who usually are.
        #[derive(JsonSchema)]
        #[schemars(deny_unknown_fields)]
        #[expect(dead_code, reason = "it stands for the type of the core, which knows no schemas")]
        struct $rung {
            /// At which attempt, from 1.
            #[schemars(range(min = 1, max = LADDER_ATTEMPTS_MAX))]
            attempt: u32,
            /// By which channel.
            #[schemars(length(min = 1, max = CHANNEL_HINT_CHARS_MAX))]
            channel_hint: String,
            /// Whom; those who usually are, if it is null.
            #[schemars(length(max = PRINCIPAL_CHARS_MAX))]
            notify_to: Option<String>,
        }
    )*};
}

policies! {
    /// How a question goes on that nobody answers. What does not stand there was not given.
    HumanRetryPolicy with EscalationStep;
    /// How a question is to go on that nobody answers. What is left out or null comes from the level above.
    NewHumanRetryPolicy with NewEscalationStep;
}
