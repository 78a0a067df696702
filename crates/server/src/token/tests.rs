//! Tokens: what they say, and what is refused.
