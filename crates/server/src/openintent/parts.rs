//! What lies below an intent or a portfolio and is asked for without it: tasks, plans, coordinators.
//!
//! Each is named after what it lies below and by its own id there, so that it is found without looking anywhere else. What
//! OpenIntent says of one and Abide has no use for is kept in its metadata, under a key that nobody else may use.

use abide_core::{Actor, Command, Json as RawJson, JsonMap, Key, Run, RunId};
use abide_engine::Reply;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::asking::if_match;
use super::intents::{answer, of_body};
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};

/// Under which key of the metadata that is kept which only OpenIntent knows.
const RESERVED: &str = "_openintent";

/// Something that lies below a run, as it is named.
pub(super) fn name(run: RunId, local: impl std::fmt::Display) -> String {
    format!("{}_{local}", words::id(run))
}

/// What it lies below, and its id there.
pub(super) fn named<'a>(text: &'a str, principal: &Principal) -> Option<(Key, &'a str)> {
    let (run, local) = text.split_once('_')?;
    Some((words::run_id(run)?.of(principal.tenant), local))
}

/// The id there of something that is named in a body. What lies below another run is not known here.
pub(super) fn local(run: RunId, text: &str) -> String {
    let own = text.split_once('_').filter(|(named, _)| words::run_id(named) == Some(run));
    own.map_or_else(|| text.to_owned(), |(_, local)| local.to_owned())
}

/// A value in a body that is not what it has to be.
pub(super) fn unfit(field: &str, message: impl Into<String>) -> ApiError {
    ApiError::invalid(field, message).under(StatusCode::UNPROCESSABLE_ENTITY)
}

/// What somebody sent, taken out key by key. What nobody takes is ignored.
pub(super) struct Sent(pub(super) JsonMap);

impl Sent {
    /// A value, if it is there and not null.
    pub(super) fn take<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>> {
        let Some(given) = self.raw(key) else { return Ok(None) };
        given
            .parse()
            .map(Some)
            .map_err(|error| unfit(key, format!("'{key}' is not what it has to be: {error}")))
    }

    /// A value that has to be there.
    pub(super) fn need<T: DeserializeOwned>(&mut self, key: &str) -> Result<T> {
        self.take(key)?.ok_or_else(|| unfit(key, format!("'{key}' is missing")))
    }

    /// A text that is not empty.
    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>> {
        Ok(self.take::<String>(key)?.filter(|text| !text.is_empty()))
    }

    /// A value as it was written, if it is there and not null.
    pub(super) fn raw(&mut self, key: &str) -> Option<RawJson> {
        self.0.remove(key).filter(|given| given.type_name() != "null")
    }

    /// An object as it was written.
    pub(super) fn object(&mut self, key: &str) -> Result<Option<RawJson>> {
        let given = self.raw(key);
        match given.as_ref().map(RawJson::type_name) {
            None | Some("object") => Ok(given),
            Some(_) => Err(unfit(key, format!("'{key}' is an object"))),
        }
    }

    /// What is only kept, if it is of the type that it has to be.
    pub(super) fn keep(&mut self, kept: &[(&str, &str)]) -> Result<JsonMap> {
        let mut found = JsonMap::new();
        for (key, kind) in kept {
            let Some(given) = self.raw(key) else { continue };
            if !kind.is_empty() && given.type_name() != *kind {
                return Err(unfit(key, format!("'{key}' is of the type {kind}")));
            }
            found.insert((*key).to_owned(), given);
        }
        Ok(found)
    }

    /// The metadata, with what is only kept beside it.
    pub(super) fn metadata(&mut self, kept: &JsonMap) -> Result<Option<RawJson>> {
        let given = self.object("metadata")?.and_then(|given| given.parse::<JsonMap>().ok());
        let mut whole = given.unwrap_or_default();
        if whole.contains_key(RESERVED) {
            return Err(unfit(
                "metadata",
                format!("'{RESERVED}' is what Abide itself keeps there; use another key"),
            ));
        }
        if !kept.is_empty() {
            whole.insert(RESERVED.to_owned(), RawJson::of(kept));
        }
        Ok((!whole.is_empty()).then(|| RawJson::of(&whole)))
    }
}

/// The metadata as it was sent, and what was kept beside it.
pub(super) fn kept(metadata: Option<&RawJson>) -> (RawJson, JsonMap) {
    let mut whole = metadata.and_then(|metadata| metadata.parse::<JsonMap>().ok()).unwrap_or_default();
    let kept = whole.remove(RESERVED).and_then(|kept| kept.parse().ok()).unwrap_or_default();
    (RawJson::of(&whole), kept)
}

/// What is shown: some of it made here, some of it as it was written.
pub(super) fn shown(made: &Value, written: impl IntoIterator<Item = (&'static str, RawJson)>) -> JsonMap {
    let mut shown: JsonMap = RawJson::of(made).parse().unwrap_or_default();
    shown.extend(written.into_iter().map(|(key, value)| (key.to_owned(), value)));
    shown
}

/// The version that whoever asks has seen, if they say so.
pub(crate) struct MaySeen(pub(crate) Option<u64>);

impl<S: Send + Sync> FromRequestParts<S> for MaySeen {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        Ok(Self(if_match(parts)))
    }
}

/// Refuses agents that may not work on an intent.
pub(super) async fn check_works(app: &App, key: Key, agent: &str) -> Result<()> {
    let now = app.engine().clock().now();
    app.engine().read(key, |run| run.check_works(agent, now)).await??;
    Ok(())
}

/// Has a run decide something that an agent asks for which may work on it, and answers with how that stands then which it was about.
pub(super) async fn decide(
    app: &App,
    (key, actor): (Key, Actor),
    command: Command,
    see: impl Fn(&Run) -> Option<JsonMap> + Send + Sync + 'static,
) -> Result<Response> {
    let reply = Reply::new(None, move |run: &Run| RawJson::of(&see(run)).text().as_bytes().to_vec());
    let command = Command::By { actor, command: Box::new(command) };
    let decided = app.engine().ask_for(key, &command, reply).await;
    decided.map(answer).map_err(|error| spelt(error.into()))
}

/// What is wrong, with its field as OpenIntent spells it. Of one that is over nothing is wrong with what was sent.
fn spelt(error: ApiError) -> ApiError {
    let field = error.detail("field").and_then(Value::as_str).unwrap_or_default().to_owned();
    match field.as_str() {
        "coordinatorId" => error.under(StatusCode::CONFLICT),
        "run" => of_body(error.respelt("run", "child_intent_id")),
        _ => of_body(error.respelt(&field, &snake_case(&field))),
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_told_as_it_was_sent() {
        let told = spelt(ApiError::invalid("dependsOn", "'dependsOn' takes at most 3 tasks"));
        assert_eq!(told.detail("field"), Some(&Value::from("depends_on")));
        assert_eq!(told.into_words().1, "'depends_on' takes at most 3 tasks");
        assert_eq!(spelt(ApiError::invalid("coordinatorId", "it is over")).status(), StatusCode::CONFLICT);
    }

    #[test]
    fn what_lies_below_an_intent_is_named_after_it() {
        let run = words::run_id("019b8d36-7c80-7000-8000-000000000001").unwrap();
        let name = name(run, "task-1");
        assert_eq!(name, "019b8d36-7c80-7000-8000-000000000001_task-1");
        assert_eq!(local(run, &name), "task-1");
        assert_eq!(local(run, "task-1"), "task-1");
        let other = "019b8d36-7c80-7000-8000-000000000002_task-1";
        assert_eq!(local(run, other), other);
    }

    #[test]
    fn what_is_only_kept_stands_beside_the_metadata_and_not_in_it() {
        let sent = r#"{"metadata":{"a":1},"permissions":"inherit"}"#;
        let mut sent = Sent(serde_json::from_str(sent).unwrap());
        let to_keep = sent.keep(&[("permissions", "string")]).unwrap();
        let whole = sent.metadata(&to_keep).unwrap();
        let (metadata, found) = kept(whole.as_ref());
        assert_eq!((metadata.text(), found), (r#"{"a":1}"#, to_keep));
        let mut theirs = Sent(serde_json::from_str(r#"{"metadata":{"_openintent":1}}"#).unwrap());
        assert!(theirs.metadata(&JsonMap::new()).is_err());
    }
}
