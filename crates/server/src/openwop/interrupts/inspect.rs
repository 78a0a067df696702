//! An interrupt as it is shown: with its run, and to whoever holds a token.

use std::borrow::Cow;

use abide_core::{InterruptId, InterruptKind, Json, Key, Mask, Millis, Open, Run, RunId, is_run_question};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::mask;
use super::{ExchangeView, QuorumView, needs_key};
use crate::app::App;
use crate::auth::Principal;
use crate::scope::Scope;
use crate::token::{Intent, Lifetime, Minter, Token};
use crate::{shape, time};

/// An open interrupt of a run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OpenInterrupt")]
pub(crate) struct Shown<'a> {
    #[schemars(with = "shape::InterruptName")]
    interrupt_id: InterruptId,
    #[schemars(with = "shape::InterruptKinds")]
    kind: InterruptKind,
    key: &'a str,
    node_id: &'a str,
    #[schemars(with = "shape::Anything")]
    data: Cow<'a, Json>,
    #[schemars(with = "shape::Anything")]
    #[serde(skip_serializing_if = "Option::is_none")]
    resume_schema: Option<Cow<'a, Json>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<Millis>,
    #[schemars(with = "shape::Moment")]
    requested_at: String,
    /// When it is given up.
    #[schemars(with = "shape::Moment")]
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    /// How far it has come, if it takes several people.
    #[serde(skip_serializing_if = "Option::is_none")]
    quorum: Option<QuorumView>,
    /// What those who decide wanted to know, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    exchanges: Vec<ExchangeView>,
    /// Good for whoever read this: to answer if their key may, else to look. It is made anew with every read.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt_token: Option<String>,
    /// Where the token is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_url: Option<String>,
}

impl<'a> Shown<'a> {
    /// The node that asks.
    pub(crate) fn node(&self) -> &'a str {
        self.node_id
    }
}

/// An interrupt as it is shown to whoever holds a token.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "InspectedInterrupt")]
pub(crate) struct Inspected {
    #[schemars(with = "shape::InterruptKinds")]
    kind: InterruptKind,
    key: String,
    #[schemars(with = "shape::Anything")]
    data: Json,
    #[schemars(with = "Option<shape::Anything>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    resume_schema: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<Millis>,
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    node_id: String,
    #[schemars(with = "shape::InterruptName")]
    interrupt_id: InterruptId,
    #[schemars(with = "shape::Moment")]
    requested_at: String,
    /// When it is given up.
    #[schemars(with = "Option<shape::Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    /// How far it has come, if it takes several people.
    #[serde(skip_serializing_if = "Option::is_none")]
    quorum: Option<QuorumView>,
    /// What those who decide wanted to know, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    exchanges: Vec<ExchangeView>,
    /// When the token ends.
    #[schemars(with = "shape::Moment")]
    expires_at: String,
    /// What the token is good for: `resolve` or `inspect`.
    #[schemars(with = "String")]
    intent: Intent,
}

/// What gives a reader tokens of their own.
pub(crate) struct Reader<'a> {
    app: &'a App,
    key: Key,
    principal: &'a Principal,
    minter: Minter,
    now: Millis,
}

impl<'a> Reader<'a> {
    /// Who reads a run now.
    pub(crate) fn of(app: &'a App, key: Key, principal: &'a Principal) -> Self {
        let now = app.engine().clock().now();
        Self { app, key, principal, minter: Minter::new(app.keys().keyring().clone()), now }
    }

    /// A token, and where it is used.
    fn token(&self, run: &Run, open: &Open, node: &str) -> (String, String) {
        let scopes = self.principal.scopes;
        let may_force = !is_run_question(node) || scopes.allow(Scope::RunsForce);
        let may_answer = scopes.allow(Scope::ApprovalsRespond) && may_force && !needs_key(open);
        let lifetime = Lifetime {
            deadline: open.deadline(),
            last_deadline: None,
            configured: run.graph().token_ms(node),
        };
        let token = self.minter.mint(&Token {
            tenant: self.key.tenant,
            run: self.key.id,
            node: node.to_owned(),
            interrupt: open.requested.interrupt_id,
            expires_at: lifetime.of_read(self.now),
            intent: if may_answer { Intent::Resolve } else { Intent::Inspect },
            sub: self.principal.name.clone(),
        });
        let url = self.app.link(&format!("/v1/interrupts/{token}"));
        (token, url)
    }
}

/// A run's open interrupts, the one that its status is about first, then the oldest.
///
/// Without a reader there are no tokens: what is made for many must have none.
pub(crate) fn shown<'a>(run: &'a Run, reader: Option<&Reader<'_>>) -> Vec<Shown<'a>> {
    let mut open: Vec<&Open> = run.interrupts().collect();
    open.sort_by_key(|open| open.requested.kind.waiting());
    open.into_iter().map(|open| one(run, open, reader)).collect()
}

fn one<'a>(run: &'a Run, open: &'a Open, reader: Option<&Reader<'_>>) -> Shown<'a> {
    let (asked, node) = (&open.requested, run.interrupted_node(open));
    let (interrupt_token, callback_url) = reader.map(|reader| reader.token(run, open, node)).unzip();
    Shown {
        interrupt_id: asked.interrupt_id,
        kind: asked.kind,
        key: key(open, false),
        node_id: node,
        data: data(open, false),
        resume_schema: resume_schema(open, false),
        timeout_ms: asked.timeout_ms,
        requested_at: time::rfc3339(open.at),
        deadline: open.deadline().map(time::rfc3339),
        quorum: QuorumView::of(open, false),
        exchanges: ExchangeView::all(open, false),
        interrupt_token,
        callback_url,
    }
}

/// An open interrupt as whoever holds this token sees it. What is only for those who answer is masked for others.
pub(super) fn inspected(run: &Run, open: &Open, token: &Token, answers: bool) -> Inspected {
    let asked = &open.requested;
    Inspected {
        kind: asked.kind,
        key: key(open, answers).to_owned(),
        data: data(open, answers).into_owned(),
        resume_schema: resume_schema(open, answers).map(Cow::into_owned),
        timeout_ms: asked.timeout_ms,
        run_id: run.key().id,
        node_id: run.interrupted_node(open).to_string(),
        interrupt_id: asked.interrupt_id,
        requested_at: time::rfc3339(open.at),
        deadline: open.deadline().map(time::rfc3339),
        quorum: QuorumView::of(open, answers),
        exchanges: ExchangeView::all(open, answers),
        expires_at: time::rfc3339(token.expires_at),
        intent: token.intent,
    }
}

/// What is shown to whoever answers, or to somebody else.
fn data(open: &Open, answers: bool) -> Cow<'_, Json> {
    let data = &open.requested.data;
    if answers || !open.requested.sensitive {
        Cow::Borrowed(data)
    } else {
        Cow::Owned(mask::object(data, &Mask::All))
    }
}

/// A key may be made of what is only for those who answer.
fn key(open: &Open, answers: bool) -> &str {
    if answers || !open.requested.sensitive { &open.requested.key } else { mask::MASKED }
}

fn resume_schema(open: &Open, answers: bool) -> Option<Cow<'_, Json>> {
    let schema = open.requested.resume_schema.as_ref()?;
    let hidden = open.requested.sensitive && !answers;
    Some(if hidden { Cow::Owned(Json::of(mask::MASKED)) } else { Cow::Borrowed(schema) })
}
