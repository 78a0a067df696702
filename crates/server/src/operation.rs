//! One operation of the HTTP surface: where it is, who may use it, what it takes and what it answers.
//!
//! The router, the gate before every handler and the OpenAPI document are all made from these, so that none of them
//! can know a route that the others don't.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::app::App;
use crate::scope::Scope;

/// Makes the schema of a type, and notes those that it refers to.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Who may use an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody, without a key.
    Public,
    /// Anybody with a key.
    AnyKey,
    /// Those whose key has this scope.
    Scope(Scope),
    /// Whoever holds the token that stands in the path.
    Token,
}

/// One way in which an operation says yes.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) what: &'static str,
    /// The content type and, if the content has a shape, that. `None` is an empty body.
    pub(crate) content: Option<(&'static str, Option<SchemaOf>)>,
}

/// What goes in.
#[derive(Clone, Copy)]
pub(crate) struct Takes {
    pub(crate) content_type: &'static str,
    pub(crate) schema: Option<SchemaOf>,
}

/// One operation.
pub(crate) struct Operation {
    pub(crate) method: Method,
    /// As OpenAPI writes it: `/v1/runs/{runId}:pause`.
    pub(crate) path: &'static str,
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) access: Access,
    pub(crate) query: Option<SchemaOf>,
    pub(crate) takes: Vec<Takes>,
    /// Whether a request without a body is refused.
    pub(crate) body_required: bool,
    pub(crate) answers: Vec<Answer>,
    /// The codes of errors that are this operation's own, beside those that every one may give.
    pub(crate) refusals: Vec<&'static str>,
    /// Codes that it may give under another status than theirs.
    pub(crate) odd_refusals: Vec<(u16, &'static str)>,
    /// Request headers beside those that every operation takes: name and meaning.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    /// Whether it takes an Idempotency-Key.
    pub(crate) idempotent: bool,
    /// Whether its answer may take as long as somebody waits for it.
    pub(crate) waits: bool,
    /// Whether it is for the server that a worker talks to, whichever gets it.
    pub(crate) at_home: bool,
    /// Whether it is in OpenIntent's words, and in no OpenAPI document.
    pub(crate) is_openintent: bool,
    pub(crate) handler: MethodRouter<Arc<App>>,
}

impl Operation {
    fn new<H, T>(
        method: Method,
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("the table has only common methods");
        Self {
            method,
            path,
            id,
            summary,
            access: Access::AnyKey,
            query: None,
            takes: Vec::new(),
            body_required: true,
            answers: Vec::new(),
            refusals: Vec::new(),
            odd_refusals: Vec::new(),
            headers: Vec::new(),
            idempotent: false,
            waits: false,
            at_home: false,
            is_openintent: false,
            handler: on(filter, handler),
        }
    }

    /// Something to look at.
    pub(crate) fn get<H, T>(path: &'static str, id: &'static str, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        Self::new(Method::GET, path, id, summary, handler)
    }

    /// Something to do.
    pub(crate) fn post<H, T>(path: &'static str, id: &'static str, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        Self::new(Method::POST, path, id, summary, handler)
    }

    /// Something to set.
    pub(crate) fn put<H, T>(path: &'static str, id: &'static str, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        Self::new(Method::PUT, path, id, summary, handler)
    }

    /// Something to change in part.
    pub(crate) fn patch<H, T>(path: &'static str, id: &'static str, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        Self::new(Method::PATCH, path, id, summary, handler)
    }

    /// Something to remove.
    pub(crate) fn delete<H, T>(
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        Self::new(Method::DELETE, path, id, summary, handler)
    }

    /// Needs no key.
    pub(crate) fn public(mut self) -> Self {
        self.access = Access::Public;
        self
    }

    /// Needs nothing but the token in its path.
    pub(crate) fn token(mut self) -> Self {
        self.access = Access::Token;
        self
    }

    /// Needs a key with this scope.
    pub(crate) fn scope(mut self, scope: Scope) -> Self {
        self.access = Access::Scope(scope);
        self
    }

    /// Takes these query parameters: the properties of an object.
    pub(crate) fn query<Q: JsonSchema>(mut self) -> Self {
        self.query = Some(Q::json_schema);
        self
    }

    /// Takes a JSON body.
    pub(crate) fn takes<B: JsonSchema>(mut self) -> Self {
        self.takes.push(Takes {
            content_type: "application/json",
            schema: Some(SchemaGenerator::subschema_for::<B>),
        });
        self
    }

    /// Takes a JSON body or none, which stands for an empty object.
    pub(crate) fn may_take<B: JsonSchema>(mut self) -> Self {
        self.body_required = false;
        self.takes::<B>()
    }

    /// Takes a body of another type.
    pub(crate) fn takes_content(mut self, content_type: &'static str) -> Self {
        self.takes.push(Takes { content_type, schema: None });
        self
    }

    /// Answers JSON.
    pub(crate) fn answers<A: JsonSchema>(mut self, status: u16, what: &'static str) -> Self {
        let schema: SchemaOf = SchemaGenerator::subschema_for::<A>;
        self.answers.push(Answer { status, what, content: Some(("application/json", Some(schema))) });
        self
    }

    /// Answers with content of another type, each piece of which has a schema.
    pub(crate) fn answers_as<A: JsonSchema>(
        mut self,
        status: u16,
        content_type: &'static str,
        what: &'static str,
    ) -> Self {
        let schema: SchemaOf = SchemaGenerator::subschema_for::<A>;
        self.answers.push(Answer { status, what, content: Some((content_type, Some(schema))) });
        self
    }

    /// Answers with content that has no schema.
    pub(crate) fn answers_content(
        mut self,
        status: u16,
        content_type: &'static str,
        what: &'static str,
    ) -> Self {
        self.answers.push(Answer { status, what, content: Some((content_type, None)) });
        self
    }

    /// Answers with nothing but a status.
    pub(crate) fn answers_empty(mut self, status: u16, what: &'static str) -> Self {
        self.answers.push(Answer { status, what, content: None });
        self
    }

    /// Is not sent again to whoever has it.
    pub(crate) fn conditional(self) -> Self {
        self.header("If-None-Match", "The `ETag` of what the caller has already.")
            .answers_empty(304, "The caller has it already.")
    }

    /// May say no with these codes.
    pub(crate) fn refuses(mut self, codes: &[&'static str]) -> Self {
        self.refusals.extend(codes);
        self
    }

    /// May say no with this code under a status that is not the code's own.
    pub(crate) fn refuses_under(mut self, status: u16, code: &'static str) -> Self {
        self.odd_refusals.push((status, code));
        self
    }

    /// Takes a header.
    pub(crate) fn header(mut self, name: &'static str, meaning: &'static str) -> Self {
        self.headers.push((name, meaning));
        self
    }

    /// Takes an Idempotency-Key.
    pub(crate) fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self.refuses(&["idempotency_in_flight", "idempotency_key_mismatch"])
    }

    /// Answers only when something happens, or goes on answering: a poll or a stream.
    pub(crate) fn waits(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Is in OpenIntent's words: it has a page of its own, and says no as that protocol does.
    pub(crate) fn openintent(mut self) -> Self {
        self.is_openintent = true;
        self
    }

    /// Is for the server that the worker in its path talks to: another one passes it on.
    pub(crate) fn at_home(mut self) -> Self {
        self.at_home = true;
        self.refuses(&["worker_unknown"])
    }

    /// The path as the router has it: a verb behind a colon is a segment of its own there.
    pub(crate) fn route(&self) -> String {
        match self.path.split_once("}:") {
            Some((before, verb)) => format!("{before}}}/~{verb}"),
            None => self.path.to_owned(),
        }
    }

    /// What a path of this operation begins with, if it ends with a verb behind a colon.
    pub(crate) fn before_verb(&self) -> Option<&'static str> {
        let (before, _) = self.path.split_once("}:")?;
        before.rsplit_once('{').map(|(prefix, _)| prefix)
    }
}
