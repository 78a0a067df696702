//! A conversation as it is read: what was said before the turn that is asked for, oldest first.

use abide_core::{InterruptKind, Json, Key};

use super::view::{Asked, Excerpt};
use crate::app::App;
use crate::error::Result;
use crate::openwop::conversations;

/// Something that was said.
pub(super) struct Said {
    /// Who said it: the run, or somebody by name.
    pub(super) by: String,
    /// Whether it was the run.
    pub(super) is_run: bool,
    pub(super) excerpt: Excerpt,
    pub(super) at: String,
}

/// What was said before in the conversation that an interrupt is a turn of; nothing if it is none.
pub(super) async fn of(app: &App, key: Key, asked: &Asked) -> Result<Vec<Said>> {
    if asked.kind != InterruptKind::ConversationExchange {
        return Ok(Vec::new());
    }
    let all = conversations::read(app, key).await?.conversations;
    let id = asked.text("conversationId").unwrap_or_default();
    let Some(found) = all.into_iter().find(|found| found.conversation_id == id) else {
        return Ok(Vec::new());
    };
    let run = |text: &str, at: &str| Said {
        by: asked.node.clone(),
        is_run: true,
        excerpt: Excerpt::of(&Json::of(text)),
        at: at.to_owned(),
    };
    let mut said: Vec<Said> = found.initial_prompt.iter().map(|text| run(text, &found.opened_at)).collect();
    for turn in &found.turns {
        said.push(run(&turn.prompt, &turn.exchanged_at));
        let excerpt = Excerpt::of(&turn.outcome);
        said.push(Said {
            by: turn.exchanged_by.clone(),
            is_run: false,
            excerpt,
            at: turn.exchanged_at.clone(),
        });
    }
    Ok(said)
}
