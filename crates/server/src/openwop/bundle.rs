//! `GET /v1/runs/{runId}/debug-bundle`: everything that helps to find out what happened to a run, as one JSON object that
//! may be handed to somebody else.
//!
//! | what | where |
//! |---|---|
//! | what is gathered, before anything is taken out | `bundle/gather.rs` |
//! | the events of it | `bundle/events.rs` |
//! | what people answered | `bundle/answers.rs` |
//! | taking out what must not leave | `bundle/redact.rs` |
//! | leaving out what is too large | `bundle/slim.rs` |
//!
//! A run that can't be read is what a bundle is needed for most, so whatever can't be read is named and left out.

mod answers;
mod events;
mod gather;
mod redact;
mod slim;

use std::sync::Arc;

use abide_core::Json as RawJson;
use axum::extract::{Query, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::answers::Answers;
use self::events::{Events, Extract, Faulty, Journal};
use self::gather::{Gathered, Timer};
use self::redact::{Found, Reason, Redacted, Rules};
use super::annotations::AnnotationDoc;
use super::events::RunEvent;
use super::runs::RunPath;
use super::snapshot::{Outline, Snapshot, Waits};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::gate::check_scope;
use crate::scope::Scope;
use crate::stream::request::whole;
use crate::turns_api::Turns;
use crate::{limits, resume_api, shape};

/// What somebody wants in a bundle.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BundleQuery {
    /// `true`: what people answered is in it as well. What is sensitive never is.
    #[schemars(with = "bool")]
    #[serde(default)]
    answers: Option<String>,
    /// How many events there may be in it; the first so many are.
    #[schemars(with = "u64", range(min = 1))]
    #[serde(default)]
    max_events: Option<String>,
}

/// What happened to a run, for whoever has to find out why. Nothing that is secret is in it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DebugBundle {
    /// The version of this form.
    bundle_version: &'static str,
    /// When it was made.
    #[schemars(with = "shape::Moment")]
    generated_at: String,
    /// Which server made it.
    host: Host,
    /// The run as it stands, without tokens.
    #[schemars(with = "BundledRun")]
    run: RawJson,
    /// Its events, as a poll gives them.
    #[schemars(with = "Vec<RunEvent>")]
    events: Vec<RawJson>,
    /// Spans are sent to a collector and not kept here, so there are none.
    #[schemars(with = "Vec<shape::Object>")]
    spans: [(); 0],
    metrics: BundleMetrics,
    /// Always true: what must not leave was looked for and taken out.
    #[schemars(with = "shape::True")]
    redaction_applied: bool,
    /// Always `mask`: something stands in the place of what was taken out.
    redaction_mode: &'static str,
    /// Whether something is left out because there is too much of it.
    truncated: bool,
    /// Of what there is too much.
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated_reason: Option<&'static str>,
    /// Events that OpenWOP has no name for, as the stream mode `debug` shows them.
    #[schemars(with = "Vec<RunEvent>")]
    log: Vec<RawJson>,
    /// What of the journal is here.
    journal: Extract,
    /// The definition that the run follows; `null` if it can't be read or is too large.
    #[schemars(with = "Option<shape::Object>")]
    definition: Option<RawJson>,
    /// Why the run is not finished, or how it ended.
    #[schemars(with = "Option<Waits<'static>>")]
    why: Option<RawJson>,
    /// How it stands with resuming it.
    #[schemars(with = "Option<resume_api::View>")]
    resume: Option<RawJson>,
    /// How its turns stand, if it has any.
    #[schemars(with = "Option<Turns>")]
    turns: Option<RawJson>,
    /// What it waits for by the clock, the next first.
    #[schemars(with = "Vec<Timer>")]
    timers: RawJson,
    /// Messages to people about it, without addresses.
    #[schemars(with = "Vec<gather::Told>")]
    notices: RawJson,
    /// Events of it that webhooks do not have, without addresses.
    #[schemars(with = "Vec<gather::Undelivered>")]
    deliveries: RawJson,
    /// What people said about it.
    #[schemars(with = "Vec<AnnotationDoc>")]
    annotations: RawJson,
    /// What may matter of the server.
    server: gather::ServerFacts,
    /// What could not be read.
    problems: Vec<String>,
    /// Payloads that say something which means nothing, such as a confidence that is no number.
    faulty_payloads: Vec<Faulty>,
    /// Where something was taken out, and why.
    redactions: Vec<Redacted>,
    /// How many such places there are, if not all are named.
    redactions_total: u64,
}

/// Which server made a bundle.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BundleHost")]
struct Host {
    name: &'static str,
    version: &'static str,
    vendor: &'static str,
}

/// What there is of a run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct BundleMetrics {
    /// Nodes that its events are about.
    node_count: usize,
    /// Its events that OpenWOP has a name for, as far as they were read.
    event_count: usize,
}

/// A run in a bundle.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is written as text; this carries the schema alone")]
enum BundledRun {
    /// As it stands.
    Whole(Box<Snapshot<'static>>),
    /// Its payloads were erased.
    Erased(Outline<'static>),
    /// It can't be read, or is too large.
    Unreadable(gather::RunLine),
}

/// What happened to a run, as one object to be handed on.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    query: std::result::Result<Query<BundleQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response> {
    let Query(query) = query.map_err(|error| ApiError::new("validation_error", error.body_text()))?;
    check_scope(&principal, Scope::RunsRead)?;
    let with_answers = match query.answers.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(ApiError::invalid("answers", "'answers' is 'true' or 'false'")),
    };
    let most = query.max_events.as_deref().map(|text| whole("maxEvents", text, 1..=i64::MAX)).transpose()?;
    let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    let key = run.of(&principal)?;
    let _place = app.bundles().acquire().await.map_err(|error| ApiError::internal(&error))?;
    let gathered = gather::gather(&app, key, with_answers).await?;
    let size = gathered.bytes();
    let bundle = app.engine().apart(size, move || assemble(gathered, most)).await??;
    let text = serde_json::to_vec(&bundle).map_err(|error| ApiError::internal(&error))?;
    let (kind, cache) = (HeaderValue::from_static("application/json"), HeaderValue::from_static("no-store"));
    Ok(([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, cache)], text).into_response())
}

/// Takes out what must not leave, and puts together what is left.
fn assemble(gathered: Gathered, most: usize) -> Result<DebugBundle> {
    let mut maker = Maker { rules: gathered.rules(), found: Found::default() };
    let definition_max = limits::BUNDLE_DEFINITION_BYTES_MAX;
    let definition = maker.part("/definition", gathered.definition, definition_max)?;
    let run = maker.rules.clean("/run", &gathered.run, &mut maker.found);
    let run = slim::run(run, &gathered.line, &mut maker.found)?;
    let (why, resume) = (maker.small("/why", gathered.why)?, maker.small("/resume", gathered.resume)?);
    let turns = maker.small("/turns", gathered.turns)?;
    let (timers, notices) =
        (maker.list("/timers", &gathered.timers)?, maker.list("/notices", &gathered.notices)?);
    let deliveries = maker.list("/deliveries", &gathered.deliveries)?;
    let annotations = maker.list("/annotations", &gathered.annotations)?;
    let mut events = maker.events(gathered.journal, gathered.answers.as_ref(), most);
    let problems: Vec<String> = gathered.problems.into_iter().chain(events.problems.drain(..)).collect();
    let problems = maker.list("/problems", &problems)?;
    let truncated_reason = why_truncated(&events, &maker.found);
    Ok(DebugBundle {
        bundle_version: "1",
        generated_at: gathered.at,
        host: Host { name: "abide", version: env!("CARGO_PKG_VERSION"), vendor: "abide" },
        run: raw(&run)?,
        metrics: BundleMetrics { node_count: events.nodes.len(), event_count: events.total },
        events: raws(&events.canonical)?,
        spans: [],
        redaction_applied: true,
        redaction_mode: "mask",
        truncated: truncated_reason.is_some(),
        truncated_reason,
        log: raws(&events.log)?,
        journal: events.extract,
        definition,
        why,
        resume,
        turns,
        timers,
        notices,
        deliveries,
        annotations,
        server: gathered.server,
        faulty_payloads: std::mem::take(&mut events.faulty),
        problems: problems.parse().map_err(|error| ApiError::internal(&error))?,
        redactions: maker.found.named,
        redactions_total: maker.found.total,
    })
}

/// Makes parts of a bundle, and keeps what was found in them.
struct Maker {
    rules: Rules,
    found: Found,
}

impl Maker {
    /// A part without what must not leave, unless there is too much of it.
    fn part(&mut self, path: &str, text: Option<String>, bytes_max: usize) -> Result<Option<RawJson>> {
        let Some(text) = text else { return Ok(None) };
        let text = self.rules.clean(path, &text, &mut self.found);
        if text.len() > bytes_max {
            self.found.note(path, Reason::Size);
            return Ok(None);
        }
        raw(&text).map(Some)
    }

    fn small(&mut self, path: &str, text: Option<String>) -> Result<Option<RawJson>> {
        self.part(path, text, limits::BUNDLE_PART_BYTES_MAX)
    }

    /// A list, which is empty if there is too much of it.
    fn list<T: Serialize>(&mut self, path: &str, entries: &[T]) -> Result<RawJson> {
        let text = serde_json::to_string(entries).map_err(|error| ApiError::internal(&error))?;
        Ok(self.small(path, Some(text))?.unwrap_or_else(|| RawJson::of(&[(); 0])))
    }

    /// The events that there is room for: as long as there is too much, half of what is left of the end goes, then of the
    /// beginning.
    fn events(&mut self, mut journal: Journal, answers: Option<&Answers>, most: usize) -> Events {
        loop {
            let mut found = Found::default();
            self.rules.hidden.clear();
            let events = events::render(&journal, answers, most, (&mut self.rules, &mut found));
            if events.bytes() <= limits::BUNDLE_EVENTS_BYTES_MAX || !journal.halve() {
                self.found.add(found);
                return events;
            }
        }
    }
}

/// Of what there is too much, if there is.
fn why_truncated(events: &Events, found: &Found) -> Option<&'static str> {
    if !events.extract.is_whole() {
        Some("events_truncated_to_size_cap")
    } else if events.canonical.len() < events.total {
        Some("events_truncated_to_max_events")
    } else if found.sizes > 0 {
        Some("values_truncated_to_size_cap")
    } else {
        None
    }
}

fn raw(text: &str) -> Result<RawJson> {
    serde_json::from_str(text).map_err(|error| ApiError::internal(&error))
}

fn raws(texts: &[String]) -> Result<Vec<RawJson>> {
    texts.iter().map(|text| raw(text)).collect()
}
