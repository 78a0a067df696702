//! Workers over HTTP: they come, are told what to do, say what they did, and go.
//!
//! | noun | file | what it is |
//! |---|---|---|
//! | messages | `messages.rs` | what a worker is told |
//! | operations | `ops.rs` | what a worker does with a task |
//! | answers | `answers.rs` | what it is told of that |
//! | – | `forward.rs` | what is passed on to the server that a worker talks to |
//! | a run's view | `of_run.rs` | who has its tasks |
//! | people's view | `views.rs` | who is there, and which kinds are known |

pub(crate) mod answers;
pub(crate) mod forward;
pub(crate) mod messages;
pub(crate) mod of_run;
pub(crate) mod ops;
pub(crate) mod views;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use abide_core::Json as RawJson;
use abide_core::event::HookKind;
use abide_core::limits::{AGENT_NAME_CHARS_MAX, DELAY_MS_MAX};
use abide_engine::{Error as EngineError, Holding, Letter, NewSession, Place, Post, limits as engine_limits};
use abide_store::{KindRow, SessionId};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agents_api;
use crate::app::App;
use crate::auth::Principal;
use crate::body::{self, JsonBody};
use crate::error::{ApiError, Result};
use crate::limits::{
    WORKER_LABEL_CHARS_MAX, WORKER_LABELS_MAX, WORKER_MESSAGES_BYTES_MAX, WORKER_OPS_BYTES_MAX,
    WORKER_WAIT_MS_MAX,
};
use crate::newcomer::Newcomer;
use crate::path_name::PathName;
use crate::retry_policy;
use crate::stream::{Frame, Outlet, Pulled, Source};
use answers::{OpAnswer, OpRefusal};
use messages::{HistoryPage, WorkerMessage};
use ops::OneOp;

/// The version of what workers and this server say to each other.
pub(crate) const PROTOCOL: u32 = 1;

/// A worker that comes, or comes back.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RegisterWorker {
    /// The version of the protocol that it speaks: 1.
    #[schemars(extend("const" = 1))]
    #[expect(dead_code, reason = "it is read before the rest, which it tells how to read")]
    protocol: u32,
    /// What it calls itself: a UUID of its own, for as long as its process lives.
    #[schemars(extend("format" = "uuid"))]
    session: String,
    /// The agent that it works as.
    #[schemars(length(min = 1, max = AGENT_NAME_CHARS_MAX))]
    agent: String,
    /// The kinds of nodes that it does.
    #[schemars(length(max = engine_limits::KINDS_OF_SESSION_MAX))]
    kinds: Vec<NewKind>,
    /// How many tasks it takes at once.
    #[schemars(range(min = 1, max = engine_limits::CAPACITY_MAX))]
    capacity: usize,
    /// What people know it by.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// How its agent's questions go on that nobody answers; it replaces what is known of the agent. Left out, that stays.
    #[serde(default)]
    #[schemars(with = "Option<retry_policy::NewHumanRetryPolicy>")]
    human_retry_policy: Option<RawJson>,
    /// What its agent wants to be called for.
    #[serde(default)]
    #[schemars(with = "Vec<HookName>")]
    hooks: Vec<HookKind>,
    /// Which code it runs, in its own words.
    #[serde(default)]
    code_version: Option<String>,
    /// What speaks for it.
    #[serde(default)]
    sdk: Option<String>,
    /// The tasks that it has, as far as it knows.
    #[serde(default)]
    #[schemars(length(max = engine_limits::CAPACITY_MAX))]
    holding: Vec<HeldTask>,
}

/// A kind of node that a worker does.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewKind {
    /// The `typeId` of nodes. Those that begin with `core.` are not for workers.
    #[schemars(length(min = 1, max = 256))]
    kind: String,
    /// Doing it twice is as good as once.
    #[serde(default)]
    idempotent: bool,
    /// Whether what it does can be undone. If it can't, and may have been done, it is never done again without a person's
    /// approval; leave it out if nobody knows.
    #[serde(default)]
    reversible: Option<bool>,
    /// How long a task may be in one worker's hands.
    #[serde(default)]
    #[schemars(range(min = 1, max = DELAY_MS_MAX))]
    timeout_ms: Option<i64>,
}

/// A task that a worker has.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HeldTask {
    /// The task.
    task: String,
    /// The fence that it was handed out under.
    fence: u64,
}

/// What an agent may be called for.
#[derive(JsonSchema)]
#[schemars(rename = "HookName", rename_all = "snake_case")]
#[expect(dead_code, reason = "it stands for the type of the core, which knows no schemas")]
pub(crate) enum HookName {
    InputRequested,
    InputReceived,
    SuspensionExpired,
    QuestionAsked,
}

/// What holds between a worker and the server.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RegisteredWorker {
    /// The version of the protocol that is spoken.
    protocol: u32,
    /// The worker.
    session: String,
    /// How long it keeps its tasks when nothing is heard of it.
    lease_ms: i64,
    /// How often it should be heard of.
    heartbeat_ms: i64,
    /// The tasks that it said it has and has not any more.
    lost: Vec<String>,
}

/// What tells how to read the rest.
#[derive(Deserialize)]
struct Spoken {
    protocol: Option<RawJson>,
}

/// Takes in a worker.
pub(crate) async fn register(
    State(app): State<Arc<App>>,
    principal: Principal,
    request: Request,
) -> Result<Json<RegisteredWorker>> {
    let (parts, body) = request.into_parts();
    let bytes = body::read_json(&parts, body).await?;
    let spoken: Spoken = body::parse(&bytes)?;
    if spoken.protocol.is_none_or(|protocol| protocol.text() != PROTOCOL.to_string()) {
        let message = format!(
            "this server speaks version {PROTOCOL} of the worker protocol; send \"protocol\": {PROTOCOL}, or use an SDK that does"
        );
        return Err(ApiError::new("worker_protocol", message).with("supported", vec![PROTOCOL.to_string()]));
    }
    let given: RegisterWorker = body::parse(&bytes)?;
    let policy = given.human_retry_policy.as_ref().map(agents_api::read_policy).transpose()?;
    let new = given.checked(&app, &principal)?;
    if let Some(policy) = policy {
        agents_api::put(app.clone(), principal.tenant, new.agent.clone(), Some(policy)).await?;
    }
    let session = new.id.to_string();
    let lost = app.engine().register_worker(new).await?;
    Ok(Json(RegisteredWorker {
        protocol: PROTOCOL,
        session,
        lease_ms: engine_limits::LEASE_MS,
        heartbeat_ms: engine_limits::HEARTBEAT_MS,
        lost: lost.iter().map(ToString::to_string).collect(),
    }))
}

impl RegisterWorker {
    /// The worker, if everything about it makes sense.
    fn checked(self, app: &App, principal: &Principal) -> Result<NewSession> {
        let id = self.session.parse::<SessionId>();
        let id = id.map_err(|reason| ApiError::invalid("session", format!("'session': {reason}")))?;
        agents_api::check_name(&self.agent).map_err(|error| error.with("field", "agent"))?;
        if !(1..=engine_limits::CAPACITY_MAX).contains(&self.capacity) {
            let most = engine_limits::CAPACITY_MAX;
            return Err(ApiError::invalid("capacity", format!("'capacity' is a number from 1 to {most}")));
        }
        check_labels(&self.labels)?;
        for (field, text) in [("codeVersion", &self.code_version), ("sdk", &self.sdk)] {
            if text.as_ref().is_some_and(|text| !is_label(text)) {
                let message =
                    format!("'{field}' has at most {WORKER_LABEL_CHARS_MAX} characters on one line");
                return Err(ApiError::invalid(field, message));
            }
        }
        let (tenant, now) = (principal.tenant, app.engine().clock().now());
        check_kinds(&self.kinds)?;
        let (agent, code_version) = (self.agent, self.code_version);
        let kind = |kind: NewKind| KindRow {
            tenant,
            kind: kind.kind,
            agent: agent.clone(),
            idempotent: kind.idempotent,
            reversible: kind.reversible,
            timeout_ms: kind.timeout_ms,
            code_version: code_version.clone(),
            registered_at: now,
        };
        let kinds = self.kinds.into_iter().map(kind).collect();
        let holding = self.holding.iter().enumerate().map(|(at, held)| {
            let place = place_of(&held.task, &format!("holding[{at}].task"))?;
            Ok(Holding { place, fence: held.fence })
        });
        let holding = holding.collect::<Result<Vec<Holding>>>()?;
        let (capacity, labels, hooks, sdk) = (self.capacity, self.labels, self.hooks, self.sdk);
        Ok(NewSession { tenant, id, agent, kinds, capacity, labels, hooks, code_version, sdk, holding })
    }
}

fn check_kinds(kinds: &[NewKind]) -> Result<()> {
    if kinds.len() > engine_limits::KINDS_OF_SESSION_MAX {
        let most = engine_limits::KINDS_OF_SESSION_MAX;
        return Err(ApiError::invalid(
            "kinds",
            format!("a worker provides at most {most} kinds; start another"),
        ));
    }
    for (at, kind) in kinds.iter().enumerate() {
        let refuse =
            |field: &str, message: String| Err(ApiError::invalid(&format!("kinds[{at}].{field}"), message));
        let name = &kind.kind;
        if !is_label(name) || name.is_empty() || name.contains(char::is_whitespace) {
            return refuse(
                "kind",
                "a kind has 1 to 256 characters without spaces, such as 'acme.charge'".into(),
            );
        }
        if name.starts_with("core.") {
            return refuse(
                "kind",
                format!("'{name}' is a kind of this server's own; give yours another name"),
            );
        }
        if kinds[..at].iter().any(|other| other.kind == *name) {
            return refuse("kind", format!("'{name}' stands twice; leave one out"));
        }
        if kind.timeout_ms.is_some_and(|ms| !(1..=DELAY_MS_MAX).contains(&ms)) {
            return refuse("timeoutMs", format!("'timeoutMs' is a number from 1 to {DELAY_MS_MAX}"));
        }
    }
    Ok(())
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<()> {
    let fits = labels.len() <= WORKER_LABELS_MAX
        && labels.iter().all(|(name, value)| !name.is_empty() && is_label(name) && is_label(value));
    if fits {
        return Ok(());
    }
    let message = format!(
        "'labels' are at most {WORKER_LABELS_MAX} names and values of {WORKER_LABEL_CHARS_MAX} characters on one line each"
    );
    Err(ApiError::invalid("labels", message))
}

fn is_label(text: &str) -> bool {
    text.chars().count() <= WORKER_LABEL_CHARS_MAX && !text.chars().any(char::is_control)
}

/// A task as workers name it.
fn place_of(text: &str, field: &str) -> Result<Place> {
    text.parse().map_err(|reason: String| ApiError::invalid(field, format!("'{field}': {reason}")))
}

/// A session as a path names it. What can't be one is not there.
fn session_of(name: &str) -> Result<SessionId> {
    name.parse().map_err(|_| unknown())
}

fn unknown() -> ApiError {
    ApiError::new("worker_unknown", "no worker with this session is known here; register it again")
}

/// Which letters a worker has, and how long it waits for others.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PollWorker {
    /// The last message that it has: it gets those behind. It has acknowledged all up to there.
    #[serde(default)]
    after: u64,
    /// How many messages it takes at most.
    #[serde(default)]
    #[schemars(range(min = 1, max = engine_limits::LETTERS_MAX))]
    max: Option<usize>,
    /// How long it waits for one.
    #[serde(default)]
    #[schemars(range(min = 0, max = WORKER_WAIT_MS_MAX))]
    wait_ms: Option<u64>,
}

/// What a worker is told.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkerMessages {
    /// Messages, by number.
    messages: Vec<WorkerMessage>,
    /// The last of them: what the next poll is `after`.
    at: u64,
}

/// Answers when there is something for a worker, or after a while.
pub(crate) async fn poll(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(session): PathName,
    newcomer: Option<Extension<Newcomer>>,
    JsonBody(asked): JsonBody<PollWorker>,
) -> Result<Json<WorkerMessages>> {
    let most = asked.max.unwrap_or(engine_limits::LETTERS_MAX);
    if !(1..=engine_limits::LETTERS_MAX).contains(&most) {
        let message = format!("'max' is a number from 1 to {}", engine_limits::LETTERS_MAX);
        return Err(ApiError::invalid("max", message));
    }
    let wait_ms = asked.wait_ms.unwrap_or(0);
    if wait_ms > WORKER_WAIT_MS_MAX {
        let message = format!("'waitMs' is a number from 0 to {WORKER_WAIT_MS_MAX}");
        return Err(ApiError::invalid("waitMs", message));
    }
    let session = session_of(&session)?;
    let mut post = app.engine().listen_to(principal.tenant, session, asked.after)?;
    let until =
        tokio::time::Instant::now() + Duration::from_millis(wait_ms.min(engine_limits::WORKER_POLL_MS));
    let mut after = asked.after;
    loop {
        let letters = match post.letters(after, most) {
            // It has gone to another server while it waited here: it asks again, and is passed on.
            Err(EngineError::WorkerUnknown(_)) if app.engine().number_among_servers().is_some() => {
                return Ok(Json(WorkerMessages { messages: Vec::new(), at: after }));
            }
            letters => letters?,
        };
        let (messages, at) = told(&app, &principal, session, letters, after).await?;
        // What tells nothing any more is not looked at again.
        after = at;
        if !messages.is_empty() || tokio::time::Instant::now() >= until {
            post.answer();
            return Ok(Json(WorkerMessages { messages, at }));
        }
        if let Some(Extension(newcomer)) = &newcomer {
            newcomer.greet();
        }
        tokio::select! {
            () = post.news() => {}
            () = tokio::time::sleep_until(until) => {}
            () = app.stopped() => {
                post.answer();
                return Ok(Json(WorkerMessages { messages: Vec::new(), at: after }));
            }
        }
    }
}

/// Letters with all that they tell, as many as fit; and the number of the last that was looked at.
async fn told(
    app: &App,
    principal: &Principal,
    session: SessionId,
    letters: Vec<(u64, Letter)>,
    mut at: u64,
) -> Result<(Vec<WorkerMessage>, u64)> {
    let (mut messages, mut bytes) = (Vec::new(), 0);
    for (n, letter) in letters {
        let message = app.engine().message(principal.tenant, session, &letter).await?;
        if let Some(message) = message.map(|message| WorkerMessage::of(n, message)) {
            bytes += message.size();
            if bytes > WORKER_MESSAGES_BYTES_MAX && !messages.is_empty() {
                break;
            }
            messages.push(message);
        }
        at = n;
    }
    Ok((messages, at))
}

/// Tells a worker what there is for it, for as long as it listens.
pub(crate) async fn stream(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(session): PathName,
    headers: HeaderMap,
) -> Result<Response> {
    let last = headers.get("last-event-id").map(|value| value.to_str().unwrap_or_default());
    let after = last.map(str::parse::<u64>).transpose().map_err(|_| {
        ApiError::invalid("Last-Event-ID", "'Last-Event-ID' is the number of the last message that you have")
    })?;
    let session = session_of(&session)?;
    let at = after.unwrap_or(0);
    let post = app.engine().listen_to(principal.tenant, session, at)?;
    let stopping = app.stopping();
    let listener = Listener { app, principal, session, post, at, stopping };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, Outlet::new(listener, None, Duration::ZERO).body()).into_response())
}

/// A worker that holds a stream open.
struct Listener {
    app: Arc<App>,
    principal: Principal,
    session: SessionId,
    post: Post,
    at: u64,
    stopping: tokio::sync::watch::Receiver<bool>,
}

impl Source for Listener {
    async fn pull(&mut self) -> Result<Pulled> {
        let letters = match self.post.letters(self.at, 1) {
            Ok(letters) => letters,
            Err(EngineError::WorkerUnknown(_)) => return Ok(Pulled::Ended),
            Err(error) => return Err(error.into()),
        };
        if letters.is_empty() {
            return Ok(Pulled::Nothing);
        }
        let (messages, at) = told(&self.app, &self.principal, self.session, letters, self.at).await?;
        self.at = at;
        let frame = |message: &WorkerMessage| {
            let document = serde_json::to_vec(message).map_err(|error| ApiError::internal(&error))?;
            Ok(Frame::new(message.n(), message.name(), &document))
        };
        Ok(Pulled::Frames(messages.iter().map(frame).collect::<Result<_>>()?))
    }

    fn announcements(&mut self) -> Vec<axum::body::Bytes> {
        Vec::new()
    }

    async fn news(&mut self) -> bool {
        tokio::select! {
            () = self.post.news() => true,
            _ = self.stopping.wait_for(|stopping| *stopping) => false,
        }
    }
}

/// What a worker does, in one request.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WorkerOps {
    /// What it does: of one task in order, of different tasks at once. None, and it is only heard of.
    #[schemars(with = "Vec<OneOp>", length(max = engine_limits::OPS_MAX))]
    ops: Vec<RawJson>,
    /// The last message that it has.
    #[serde(default)]
    after: Option<u64>,
}

/// What became of it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WorkerOpResults {
    /// One for each, in order.
    results: Vec<OpAnswer>,
}

/// Does what a worker asks for.
pub(crate) async fn do_ops(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(session): PathName,
    request: Request,
) -> Result<Json<WorkerOpResults>> {
    let (parts, body) = request.into_parts();
    let bytes = body::read(&parts, body, WORKER_OPS_BYTES_MAX).await?;
    let given: WorkerOps = body::parse(&bytes)?;
    if given.ops.len() > engine_limits::OPS_MAX {
        let message =
            format!("'ops' has more than {} operations; send several requests", engine_limits::OPS_MAX);
        return Err(ApiError::invalid("ops", message));
    }
    let session = session_of(&session)?;
    app.engine().hear_worker(principal.tenant, session, given.after)?;
    let agent = app.engine().agent_of(principal.tenant, session)?;
    let asker = ops::Asker { agent, principal: principal.name.clone() };
    let read = |(at, op): (usize, &RawJson)| ops::read(op, &format!("ops[{at}]"), &asker);
    let ops = given.ops.iter().enumerate().map(read).collect::<Result<Vec<_>>>()?;
    let done = app.engine().work(principal.tenant, session, ops).await?;
    let answer = |done| match answers::of(done) {
        Ok(answer) => answer,
        Err(refused) => OpAnswer::Failed(OpRefusal::of(refused)),
    };
    Ok(Json(WorkerOpResults { results: done.into_iter().map(answer).collect() }))
}

/// Does one thing that a worker asks for, and answers with its own status.
pub(crate) async fn do_op(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(session): PathName,
    request: Request,
) -> Result<Json<OpAnswer>> {
    let (parts, body) = request.into_parts();
    let bytes = body::read(&parts, body, WORKER_OPS_BYTES_MAX).await?;
    let given: RawJson = body::parse(&bytes)?;
    let session = session_of(&session)?;
    app.engine().hear_worker(principal.tenant, session, None)?;
    let agent = app.engine().agent_of(principal.tenant, session)?;
    let op = ops::read(&given, "", &ops::Asker { agent, principal: principal.name.clone() })?;
    let done = app.engine().work(principal.tenant, session, vec![op]).await?;
    let done = done.into_iter().next().ok_or_else(|| ApiError::internal(&"an operation has no answer"))?;
    answers::of(done).map(Json)
}

/// Where to go on in a task's history.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    /// The `next` of the page before.
    #[schemars(with = "u64")]
    #[serde(default)]
    after: Option<String>,
}

/// What a task has recorded so far.
pub(crate) async fn history(
    State(app): State<Arc<App>>,
    principal: Principal,
    path: std::result::Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
    query: std::result::Result<Query<HistoryQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<HistoryPage>> {
    let Query(query) = query.map_err(|error| ApiError::new("validation_error", error.body_text()))?;
    let Path((session, task)) = path.map_err(|_| unknown())?;
    let after = query
        .after
        .as_deref()
        .map(str::parse::<u64>)
        .transpose()
        .map_err(|_| ApiError::invalid("after", "'after' is the 'next' of the page before"))?;
    let (session, place) = (session_of(&session)?, place_of(&task, "task")?);
    app.engine().hear_worker(principal.tenant, session, None)?;
    let history = app.engine().history(principal.tenant, session, &place, after.unwrap_or(0)).await?;
    Ok(Json(HistoryPage::of(history)))
}

/// A worker goes.
pub(crate) async fn leave(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(session): PathName,
) -> Result<StatusCode> {
    app.engine().leave(principal.tenant, session_of(&session)?)?;
    Ok(StatusCode::NO_CONTENT)
}

/// A worker gets no more.
pub(crate) async fn drain(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(session): PathName,
) -> Result<StatusCode> {
    app.engine().drain_worker(principal.tenant, session_of(&session)?)?;
    Ok(StatusCode::NO_CONTENT)
}
