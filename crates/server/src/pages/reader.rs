//! Whoever looks at an interrupt, by whichever way they came to it: signed in, or by a link that was sent to them.

use std::sync::Arc;

use abide_core::{Answerer, InterruptId, Key, RunId};
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use super::gate::Visitor;
use super::html::Frame;
use super::refusal::{Refusal, Result};
use super::source;
use crate::app::App;
use crate::error::ApiError;
use crate::openwop::interrupts::replies::Telling;
use crate::openwop::interrupts::respondents::{self, Answering};
use crate::openwop::interrupts::{Given, Way};
use crate::scope::Scope;
use crate::token::{Intent, Verifier};

/// Somebody, and the interrupt that they came to.
pub(super) struct Reader {
    /// The run.
    pub(super) key: Key,
    /// The interrupt.
    pub(super) id: InterruptId,
    /// Who answers, if they do.
    pub(super) name: String,
    /// The roles that they have shown.
    roles: Vec<String>,
    may_act_for_others: bool,
    /// How they came.
    pub(super) came: Came,
}

/// How somebody came to a page.
pub(super) enum Came {
    /// They have signed in.
    SignedIn(Box<Visitor>),
    /// By a link that is all they have shown.
    ByLink(Link),
}

/// A link that was sent to somebody.
pub(super) struct Link {
    /// What signs it. It is not shown to anybody, not even to the log.
    token: String,
    /// Whether it lets answer.
    pub(super) answers: bool,
    /// Until when it works, and whether that is over.
    pub(super) expires_at: abide_core::Millis,
    pub(super) is_over: bool,
}

impl Reader {
    /// Somebody who signed in and wants this.
    pub(super) fn signed_in(visitor: Visitor, run: &str, id: &str) -> Result<Self> {
        let (Ok(run), Ok(id)) = (run.parse::<RunId>(), id.parse()) else {
            return Err(source::nothing().into());
        };
        let principal = &visitor.principal;
        Ok(Self {
            key: run.of(principal.tenant),
            id,
            name: principal.name.clone(),
            roles: principal.roles.clone(),
            may_act_for_others: principal.act_as,
            came: Came::SignedIn(Box::new(visitor)),
        })
    }

    /// Whoever holds a link with this token, if it is one of ours.
    fn by_link(app: &App, token: String) -> Option<Self> {
        let read = Verifier::new(app.keys().keyring().clone()).read(&token)?;
        let is_over = read.is_expired(app.engine().clock().now());
        let answers = read.intent == Intent::Resolve;
        let link = Link { token, answers, expires_at: read.expires_at, is_over };
        Some(Self {
            key: read.run.of(read.tenant),
            id: read.interrupt,
            name: read.sub,
            roles: Vec::new(),
            // Whoever has a link speaks for whom it was made for, and for nobody else.
            may_act_for_others: false,
            came: Came::ByLink(link),
        })
    }

    /// The link that they came by, if they did.
    pub(super) fn link(&self) -> Option<&Link> {
        match &self.came {
            Came::ByLink(link) => Some(link),
            Came::SignedIn(_) => None,
        }
    }

    /// Where they are.
    pub(super) fn place(&self) -> String {
        match &self.came {
            Came::SignedIn(_) => self.inbox_place(),
            Came::ByLink(link) => format!("/answer/{}", link.token),
        }
    }

    /// Where those who sign in find the same.
    pub(super) fn inbox_place(&self) -> String {
        format!("/inbox/{}/{}", self.key.id, self.id)
    }

    /// The head of a page for them.
    pub(super) fn frame(&self, app: &App, title: impl Into<String>) -> Frame {
        match &self.came {
            Came::SignedIn(visitor) => visitor.frame(app, title),
            Came::ByLink(_) => Frame { title: title.into(), visitor: None },
        }
    }

    /// Whether they are among those who may answer.
    pub(super) async fn may_respond(&self, app: &App, named: &[String]) -> crate::error::Result<bool> {
        let who = Answering { tenant: self.key.tenant, principal: &self.name, roles: &self.roles };
        respondents::may_respond(app, named, who).await
    }

    /// Whether they may look at runs. A link is for one question.
    pub(super) fn reads_runs(&self) -> bool {
        matches!(&self.came, Came::SignedIn(visitor) if visitor.may(Scope::RunsRead))
    }

    /// Whether they may decide about an interrupted run. A link that lets answer was made for somebody who may.
    pub(super) fn may_force(&self) -> bool {
        match &self.came {
            Came::SignedIn(visitor) => visitor.principal.scopes.allow(Scope::RunsForce),
            Came::ByLink(_) => true,
        }
    }

    /// What they say to a question back.
    pub(super) fn tells(&self, node: &str, ask: Option<&str>, reply: Option<&str>) -> Telling {
        Telling {
            key: self.key,
            node: node.to_owned(),
            ask: ask.unwrap_or_default().to_owned(),
            answer: abide_core::Json::of(&reply.unwrap_or_default().replace("\r\n", "\n")),
            by: self.name.clone(),
            way: Way::Key,
        }
    }

    /// An answer of theirs.
    pub(super) fn gives(&self, value: abide_core::Json) -> Given {
        let may_act_for_others = self.may_act_for_others;
        let by = Answerer { may_act_for_others, ..Answerer::of(&self.name) };
        let way = if self.link().is_some() { Way::Token } else { Way::Key };
        Given {
            key: self.key,
            id: self.id,
            value,
            by,
            roles: self.roles.clone(),
            may_force: self.may_force(),
            way,
        }
    }
}

/// A path that ends with a token. What is none of ours gets one page, so that nobody learns how far a forged one came.
pub(super) struct Holder(pub(super) Reader);

impl FromRequestParts<Arc<App>> for Holder {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        let text = Path::<String>::from_request_parts(parts, app).await.map(|Path(text)| text);
        text.ok().and_then(|text| Reader::by_link(app, text)).map(Self).ok_or_else(|| unknown().into())
    }
}

/// There is nothing behind a link, whatever the reason.
pub(super) fn unknown() -> ApiError {
    let message = "There is no question behind this link. Open it exactly as it was sent to you, ask for a new one, or \
                   sign in.";
    ApiError::new("interrupt_not_found", message)
}
