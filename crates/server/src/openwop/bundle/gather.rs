//! What a bundle is made of: read from all places that know something about a run, before anything is taken out.

use std::collections::{HashMap, HashSet};

use abide_core::{Action, InterruptKind, Json, JsonMap, Key, Mask, Run, RunId, Scrub, Status, event_types};
use abide_engine::Error as EngineError;
use abide_store::{DeliveryQuery, Listed, NoticesQuery, WebhookRow};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::answers::{Answers, texts};
use super::events::Journal;
use super::redact::{Extent, LEFT_OUT, Reason, Rules, SECRET};
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::openwop::annotations::{self, AnnotationDoc};
use crate::openwop::mask::MASKED;
use crate::openwop::{mirror, snapshot};
use crate::turns_api::Turns;
use crate::workers_api::of_run;
use crate::{limits, resume_api, shape, time};

/// All that is known, as JSON text where it is text in the end.
pub(super) struct Gathered {
    /// When.
    pub(super) at: String,
    /// What is always known of the run.
    pub(super) line: RunLine,
    pub(super) run: String,
    pub(super) definition: Option<String>,
    pub(super) why: Option<String>,
    pub(super) resume: Option<String>,
    pub(super) turns: Option<String>,
    pub(super) timers: Vec<Timer>,
    pub(super) notices: Vec<Told>,
    pub(super) deliveries: Vec<Undelivered>,
    pub(super) annotations: Vec<AnnotationDoc>,
    pub(super) server: ServerFacts,
    pub(super) journal: Journal,
    /// What people answered, if that is kept out.
    pub(super) answers: Option<Answers>,
    /// What could not be read.
    pub(super) problems: Vec<String>,
    secrets: Vec<String>,
    private: Private,
}

/// A run of which no more can be told.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunLine {
    #[schemars(with = "shape::RunName")]
    pub(super) run_id: RunId,
    workflow_id: String,
    #[schemars(with = "shape::RunStatus")]
    status: &'static str,
    #[schemars(with = "shape::Moment")]
    started_at: String,
}

/// Something that a run waits for by the clock.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RunTimer")]
pub(crate) struct Timer {
    /// What for.
    timer: String,
    /// Until when.
    #[schemars(with = "shape::Moment")]
    due: String,
}

/// A message to somebody about a run, without their address.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BundledNotice")]
pub(crate) struct Told {
    delivery_id: String,
    channel: String,
    state: &'static str,
    tries: u32,
    #[schemars(with = "Option<shape::Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    next_try_at: Option<String>,
    #[schemars(with = "Option<shape::Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// An event that a webhook does not have, without its address.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BundledDelivery")]
pub(crate) struct Undelivered {
    webhook_id: String,
    sequence: u64,
    attempts: u32,
    /// When it is tried next; it was given up if it is not there.
    #[schemars(with = "Option<shape::Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    next_try_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

/// What may matter of a server.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerFacts {
    version: &'static str,
    /// For how long it has been running.
    uptime_ms: u64,
    /// The so-manieth start of its data directory.
    boot: u64,
    /// Whether it is shutting down.
    draining: bool,
    /// What is switched on beyond what every server has.
    features: Vec<&'static str>,
}

/// What is to be found in a run and nowhere else.
#[derive(Default)]
struct Seen {
    run: String,
    why: Option<String>,
    turns: Option<String>,
    timers: Vec<Timer>,
    private: Private,
}

/// What a run says must not be shown, and words that may.
#[derive(Default)]
struct Private {
    sensitive: HashSet<String>,
    words: HashSet<String>,
}

impl RunLine {
    fn of(head: &Listed) -> Self {
        Self {
            run_id: head.id,
            workflow_id: head.summary.workflow_id.to_string(),
            status: head.summary.status.openwop_name(),
            started_at: time::rfc3339(head.summary.started_at),
        }
    }

    #[cfg(test)]
    pub(super) fn example() -> Self {
        let run_id = "run-00000000-0000-7000-8000-000000000000".parse().unwrap();
        Self { run_id, workflow_id: "w".to_owned(), status: "running", started_at: time::rfc3339(0) }
    }
}

/// Gathers what is known about a run.
pub(super) async fn gather(app: &App, key: Key, with_answers: bool) -> Result<Gathered> {
    let head = app.engine().head(key).await?;
    let line = RunLine::of(&head);
    let mut problems = Vec::new();
    let seen = seen(app, key, &head, &line, &mut problems).await?;
    let source = app.engine().store().blob(key.tenant, head.summary.definition).await?;
    let definition = source.and_then(|source| String::from_utf8(source.to_vec()).ok());
    if definition.is_none() {
        problems.push("the definition is not in the store".to_owned());
    }
    let resume = match app.engine().resumption(key).await {
        Ok(found) => Some(text(&resume_api::View::of(key.id, found))?),
        Err(error) => {
            problems.push(format!("how it stands with resuming it can't be told: {error}"));
            None
        }
    };
    let answers = if with_answers { None } else { Some(Answers::of(&**app.engine().store(), key).await?) };
    Ok(Gathered {
        at: time::rfc3339(app.engine().clock().now()),
        secrets: secrets(app, key, definition.as_deref().unwrap_or_default(), &mut problems).await?,
        journal: Journal::read(app.engine(), key, head.next).await?,
        notices: notices(app, key).await?,
        deliveries: deliveries(app, key).await?,
        annotations: annotations::first(app, key, limits::BUNDLE_ENTRIES_MAX).await?,
        server: facts(app),
        run: seen.run,
        why: seen.why,
        turns: seen.turns,
        timers: seen.timers,
        private: seen.private,
        line,
        definition,
        resume,
        answers,
        problems,
    })
}

/// What a run says of itself, or what is left of one that can't be read.
async fn seen(
    app: &App,
    key: Key,
    head: &Listed,
    line: &RunLine,
    problems: &mut Vec<String>,
) -> Result<Seen> {
    let children = app.engine().children(key, limits::CHILD_RUNS_MAX).await?;
    let mirrored = mirror::of(app, key, !children.is_empty()).await.unwrap_or_default();
    let hands = app.engine().hands(key).await?;
    let beside = snapshot::Beside { children: &children, mirrored, reader: None, hands: Some(&hands) };
    let look = |run: &Run| {
        let mut why = of_run::explain(&hands, run, run.why());
        why.reasons.truncate(limits::BUNDLE_ENTRIES_MAX);
        let status = mirrored.unwrap_or_else(|| run.status());
        let told = snapshot::why(key.id, status, &why)?;
        let turns = Some(Turns::of(run)).filter(|turns| !turns.is_empty());
        let turns = turns.map(|turns| serde_json::to_string(&turns)).transpose()?;
        snapshot::of(run, beside).map(|text| (text, told, turns, timers(run), private(run)))
    };
    let (run, why, turns, timers, private) = match app.engine().read(key, look).await {
        Ok(found) => found.map_err(|error| ApiError::internal(&error))?,
        Err(EngineError::Erased(_)) => {
            let run = snapshot::outline(head).map_err(|error| ApiError::internal(&error))?;
            return Ok(Seen { run: utf8(run)?, ..Seen::default() });
        }
        Err(error) => {
            problems.push(format!("the run can't be read: {error}"));
            return Ok(Seen { run: text(line)?, ..Seen::default() });
        }
    };
    Ok(Seen { run: utf8(run)?, why: Some(utf8(why)?), turns, timers, private })
}

fn timers(run: &Run) -> Vec<Timer> {
    let mut timers: Vec<_> = run.timers().iter().map(|(timer, due)| (*due, timer.to_string())).collect();
    timers.sort();
    timers.truncate(limits::BUNDLE_ENTRIES_MAX);
    timers.into_iter().map(|(due, timer)| Timer { timer, due: time::rfc3339(due) }).collect()
}

/// The texts among the values that a run never shows, and the names that it shows everywhere.
fn private(run: &Run) -> Private {
    let mut private = Private::default();
    let mut hide = |value: &Json| texts(&value.parse().unwrap_or_default(), &mut private.sensitive);
    let mut hidden = |values: &JsonMap, hides: &dyn Fn(&str) -> bool| {
        values.iter().filter(|(name, _)| hides(name)).for_each(|(_, value)| hide(value));
    };
    hidden(run.inputs(), &|name| run.hides_variable(name));
    hidden(run.variables(), &|name| run.hides_variable(name));
    hidden(run.channels(), &|name| run.hides_channel(name));
    for node in run.nodes().iter().filter(|node| node.masked != Mask::Nothing) {
        let outputs = node.outputs.as_ref().and_then(|outputs| outputs.parse::<JsonMap>().ok());
        hidden(&outputs.unwrap_or_default(), &|name| node.masked.hides(name));
    }
    let graph = run.graph();
    private.words.extend([graph.workflow_id.to_string(), graph.version.to_string()]);
    for ix in 0..run.nodes().len() {
        let (id, kind, _) = graph.describe(ix as u32);
        private.words.extend([id.to_string(), kind.to_string()]);
    }
    private
}

/// The values of the tenant's secrets, those that the definition names first.
async fn secrets(app: &App, key: Key, definition: &str, problems: &mut Vec<String>) -> Result<Vec<String>> {
    let mut names: Vec<String> =
        app.secrets().list(key.tenant).await?.into_iter().map(|secret| secret.name).collect();
    names.sort_by_key(|name| !definition.contains(name.as_str()));
    let (mut values, mut bytes) = (Vec::new(), 0);
    for (at, name) in names.iter().enumerate() {
        let Some(value) = app.secrets().value(key.tenant, name).await? else { continue };
        bytes += value.len();
        if bytes > limits::BUNDLE_SECRETS_BYTES_MAX {
            let left = names.len() - at;
            problems.push(format!("{left} secrets that the definition does not name were not searched for"));
            break;
        }
        values.push(value);
    }
    Ok(values)
}

async fn notices(app: &App, key: Key) -> Result<Vec<Told>> {
    let (tenant, run, limit) = (key.tenant, Some(key.id), limits::BUNDLE_ENTRIES_MAX);
    let query = NoticesQuery { tenant, state: None, run, interrupt: None, after: None, limit };
    let rows = app.engine().notices().list(query).await?.rows;
    let told = rows.into_iter().map(|row| Told {
        delivery_id: row.id.to_string(),
        channel: row.channel,
        state: row.state.name(),
        tries: row.tries,
        next_try_at: row.due.map(time::rfc3339),
        sent_at: row.sent_at.map(time::rfc3339),
        // Whom it was for may stand in it.
        reason: row.reason.map(|reason| without_address(&reason, &row.recipient)),
    });
    Ok(told.collect())
}

fn without_address(text: &str, address: &str) -> String {
    if address.is_empty() { text.to_owned() } else { text.replace(address, LEFT_OUT) }
}

async fn deliveries(app: &App, key: Key) -> Result<Vec<Undelivered>> {
    let mut found = Vec::new();
    for shown in app.engine().store().webhooks().list(key.tenant).await? {
        let WebhookRow { key: webhook, url, .. } = shown.webhook;
        for dead in [false, true] {
            let limit = limits::BUNDLE_ENTRIES_MAX - found.len();
            let query = DeliveryQuery { webhook: webhook.clone(), dead, after: before(key.id), limit };
            let rows = app.engine().store().webhooks().deliveries(query).await?;
            let rows = rows.into_iter().filter(|row| row.run == key.id);
            found.extend(rows.map(|row| Undelivered {
                webhook_id: webhook.id.to_string(),
                sequence: row.sequence,
                attempts: row.attempts,
                next_try_at: row.due.map(time::rfc3339),
                last_status: row.last_status,
                last_error: row.last_error.map(|error| without_address(&error, &url)),
            }));
        }
    }
    Ok(found)
}

/// The place of the last delivery of the run before this one: those of a run stand together, by its id.
fn before(run: RunId) -> Option<(RunId, u64)> {
    let earlier = u128::from_be_bytes(*run.as_bytes()).checked_sub(1)?;
    Some((RunId::from_bytes(earlier.to_be_bytes()), i64::MAX as u64))
}

fn facts(app: &App) -> ServerFacts {
    let features = [
        ("tls", app.is_secure()),
        ("public-url", app.public_url().is_some()),
        ("oidc", app.oidc().is_some()),
        ("otlp", app.otlp().is_some()),
        ("channels", app.engine().channels().names().next().is_some()),
        ("test-clock", app.test_clock().is_some()),
    ];
    ServerFacts {
        version: env!("CARGO_PKG_VERSION"),
        uptime_ms: app.uptime().as_millis() as u64,
        boot: app.engine().store().boot(),
        draining: app.engine().is_draining(),
        features: features.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect(),
    }
}

impl Gathered {
    /// How many bytes there are to go through.
    pub(super) fn bytes(&self) -> usize {
        let texts = [self.definition.as_ref(), self.why.as_ref(), self.resume.as_ref(), Some(&self.run)];
        self.journal.bytes() + texts.into_iter().flatten().map(String::len).sum::<usize>()
    }

    /// What is to be taken out.
    pub(super) fn rules(&self) -> Rules {
        let definition: Value =
            self.definition.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let mut rules = Rules { words: words(&self.private.words), ..Rules::default() };
        let mut sensitive = self.private.sensitive.clone();
        hide_defaults(&definition, &mut rules.hidden, &mut sensitive);
        rules.sensitive = Some(redactor(sensitive.iter().map(String::as_str), MASKED));
        rules.secrets = batches(&self.secrets);
        if let Some(answers) = &self.answers {
            answers.hide_outputs(&mut rules);
            let mut said = HashSet::new();
            texts(&definition, &mut said);
            let (sentences, short) = answers.words(&said);
            rules.sentences = Some(redactor(sentences, LEFT_OUT));
            rules.answers = short;
        }
        rules
    }
}

/// Hides what the definition says that sensitive variables are if nobody says otherwise.
fn hide_defaults(
    definition: &Value,
    hidden: &mut HashMap<String, (Reason, Extent)>,
    sensitive: &mut HashSet<String>,
) {
    let variables = definition["variables"].as_array().map_or(&[][..], Vec::as_slice);
    let private = variables.iter().enumerate().filter(|(_, variable)| variable["sensitive"] == true);
    for (at, variable) in private {
        texts(&variable["defaultValue"], sensitive);
        hidden.insert(format!("/definition/variables/{at}/defaultValue"), (Reason::Sensitive, Extent::Whole));
    }
}

/// Words that may stand anywhere as a whole: those of the definition, and our own.
fn words(of_run: &HashSet<String>) -> HashSet<String> {
    let statuses = Status::ALL.iter().map(|(_, _, name)| (*name).to_owned());
    let types = event_types().iter().map(|kind| kind.name.to_owned());
    let actions = Action::ALL.map(|action| action.name().to_owned());
    let kinds = InterruptKind::ALL.map(|kind| kind.name().to_owned());
    of_run.iter().cloned().chain(statuses).chain(types).chain(actions).chain(kinds).collect()
}

/// As many texts as can be searched for at once.
fn redactor<'a>(texts: impl IntoIterator<Item = &'a str>, instead: &'static str) -> Scrub {
    let mut room = abide_engine::limits::HTTP_SECRETS_BYTES_MAX;
    let fitting = texts.into_iter().filter(|text| {
        let left = room.checked_sub(text.len());
        room = left.unwrap_or(room);
        left.is_some()
    });
    Scrub::of_words(fitting.collect::<Vec<_>>(), instead)
}

/// Secrets are searched for in portions, so that no search is too large.
fn batches(secrets: &[String]) -> Vec<Scrub> {
    let mut batches: Vec<Vec<&str>> = Vec::new();
    let mut bytes = usize::MAX;
    for secret in secrets {
        bytes = bytes.saturating_add(secret.len());
        if bytes > abide_engine::limits::HTTP_SECRETS_BYTES_MAX {
            batches.push(Vec::new());
            bytes = secret.len();
        }
        batches.last_mut().expect("one was just put there").push(secret);
    }
    batches.into_iter().map(|batch| Scrub::of_words(batch, SECRET)).collect()
}

fn text(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| ApiError::internal(&error))
}

fn utf8(text: Vec<u8>) -> Result<String> {
    String::from_utf8(text).map_err(|error| ApiError::internal(&error))
}
