//! Tokens for those who are told that an interrupt waits, made when they are told.

use std::sync::Arc;

use abide_core::{InterruptId, Key, is_run_question};
use abide_engine::{Asked, CHANNEL_SUBJECT, Minted};

use crate::keyring::Keyring;
use crate::token::{Intent, Lifetime, Minter, Token};

/// Who answers with the token of a callback.
const SUBJECT: &str = "system:callback";

/// Whether a token was sent to nobody in particular.
pub(crate) fn is_nobodys(subject: &str) -> bool {
    subject == SUBJECT || subject.starts_with(CHANNEL_SUBJECT)
}

/// Makes tokens for callbacks, and links for people.
pub struct CallbackMinter {
    minter: Minter,
    public_url: String,
}

impl CallbackMinter {
    /// One that signs with a keyring. Whoever is told reaches this server under `public_url`.
    pub fn new(keyring: Arc<Keyring>, public_url: &str) -> Self {
        let public_url = public_url.trim_end_matches('/').to_owned();
        Self { minter: Minter::new(keyring), public_url }
    }
}

impl abide_engine::Minter for CallbackMinter {
    fn mint(&self, asked: &Asked<'_>) -> Minted {
        let lifetime =
            Lifetime { deadline: asked.deadline, configured: asked.token_ms, ..Lifetime::default() };
        let expires_at = lifetime.of_notice(asked.at);
        // A program that is called back is nobody: it decides neither about an interrupted run nor where it matters who does.
        let may_answer = asked.subject.is_some() || !(is_run_question(asked.node) || asked.tells_apart);
        let place = if asked.subject.is_some() { "answer" } else { "v1/interrupts" };
        let token = self.minter.mint(&Token {
            tenant: asked.key.tenant,
            run: asked.key.id,
            node: asked.node.to_owned(),
            interrupt: asked.id,
            expires_at,
            intent: if may_answer { Intent::Resolve } else { Intent::Inspect },
            sub: asked.subject.unwrap_or(SUBJECT).to_owned(),
        });
        let url = format!("{}/{place}/{token}", self.public_url);
        Minted { token, url, expires_at }
    }

    fn sign_in(&self, run: Key, id: InterruptId) -> Option<String> {
        Some(format!("{}/inbox/{}/{id}", self.public_url, run.id))
    }
}
