//! Records of agents over HTTP: what each says by default about questions that nobody answers.
//!
//! A change is on disk and in force before it is answered.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use abide_core::limits::AGENT_NAME_CHARS_MAX;
use abide_core::{HumanRetryPolicy, Json as RawJson, Problem, TenantId};
use abide_store::{AgentRow, Hint, Store};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::App;
use crate::auth::Principal;
use crate::body::JsonBody;
use crate::error::{ApiError, Result, shown};
use crate::limits::{AGENTS_MAX, LIST_PAGE_MAX};
use crate::page::PageQuery;
use crate::path_name::PathName;
use crate::{retry_policy, shape, time};

/// What is to be known about an agent. It replaces what was known.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetAgent {
    /// How its questions go on that nobody answers; as the server says, if it is left out or null.
    #[schemars(with = "Option<retry_policy::NewHumanRetryPolicy>")]
    default_human_retry_policy: Option<RawJson>,
}

/// An agent.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AgentView {
    /// What it is called: the `agent` of a node's settings.
    name: String,
    /// How its questions go on that nobody answers; as the server says, if it is null.
    #[schemars(with = "Option<retry_policy::HumanRetryPolicy>")]
    default_human_retry_policy: Option<HumanRetryPolicy>,
    /// When the record was set last.
    #[serde(rename = "updatedAt")]
    #[schemars(with = "shape::Moment")]
    updated_at: String,
}

/// A page of agents.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentPage {
    /// Agents, by name.
    agents: Vec<AgentView>,
    /// Where the next page begins; `null` on the last.
    next_cursor: Option<String>,
}

/// The tenant's agents by name.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    query: PageQuery,
) -> Result<Json<AgentPage>> {
    let after = query.cursor.clone().unwrap_or_default();
    let found = app.engine().store().agents().list(principal.tenant, after, query.limit() + 1).await?;
    let (agents, next_cursor) = query.cut(found.into_iter(), |agent| agent.name.clone());
    Ok(Json(AgentPage { agents: agents.into_iter().map(view).collect(), next_cursor }))
}

/// An agent.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(name): PathName,
) -> Result<Json<AgentView>> {
    let found = app.engine().store().agents().get(principal.tenant, name).await?;
    found.map(|agent| Json(view(agent))).ok_or_else(no_such_agent)
}

/// Sets an agent's record, whether it was there or not.
pub(crate) async fn set(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(name): PathName,
    JsonBody(set): JsonBody<SetAgent>,
) -> Result<Json<AgentView>> {
    check_name(&name)?;
    let policy = set.default_human_retry_policy.as_ref().map(read).transpose()?;
    put(app, principal.tenant, name, policy).await.map(|agent| Json(view(agent)))
}

/// Sets an agent's record, unless it says the same already.
pub(crate) async fn put(
    app: Arc<App>,
    tenant: TenantId,
    name: String,
    policy: Option<HumanRetryPolicy>,
) -> Result<AgentRow> {
    let updated_at = app.engine().clock().now();
    let agent = AgentRow { tenant, name, policy: json!(policy).to_string(), updated_at };
    change(app, move |app| async move {
        let agents = app.engine().store().agents();
        let known = agents.get(tenant, agent.name.clone()).await?;
        if let Some(known) = known.filter(|known| known.policy == agent.policy) {
            return Ok(known);
        }
        check_room(&app, &agent).await?;
        agents.put(agent.clone()).await?;
        app.engine().set_agent_policy(tenant, agent.name.clone(), policy);
        app.tell(Hint::Surroundings(tenant));
        Ok(agent)
    })
    .await
}

/// The policy that a worker brings for its agent.
pub(crate) fn read_policy(given: &RawJson) -> Result<HumanRetryPolicy> {
    HumanRetryPolicy::read(given).map_err(|problems| {
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        ApiError::invalid("humanRetryPolicy", told.join("; ")).with("problems", json!(shown(&problems)))
    })
}

/// Forgets an agent's record.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(name): PathName,
) -> Result<StatusCode> {
    let tenant = principal.tenant;
    change(app, move |app| async move {
        if !app.engine().store().agents().delete(tenant, name.clone()).await? {
            return Err(no_such_agent());
        }
        app.engine().set_agent_policy(tenant, name, None);
        app.tell(Hint::Surroundings(tenant));
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Makes a change, one at a time, and to its end even if whoever asked has gone: what is on disk has to hold.
async fn change<T, F>(app: Arc<App>, make: impl FnOnce(Arc<App>) -> F + Send + 'static) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send,
{
    let changed = tokio::spawn(async move {
        let _turn = app.changing_agents().lock().await;
        make(app.clone()).await
    });
    changed.await.unwrap_or_else(|error| Err(ApiError::internal(&error)))
}

async fn check_room(app: &App, agent: &AgentRow) -> Result<()> {
    let agents = app.engine().store().agents();
    let is_new = agents.get(agent.tenant, agent.name.clone()).await?.is_none();
    if is_new && agents.list(agent.tenant, String::new(), AGENTS_MAX).await?.len() >= AGENTS_MAX {
        let message =
            format!("your tenant has {AGENTS_MAX} records of agents and takes no more; remove some");
        return Err(ApiError::new("too_many", message));
    }
    Ok(())
}

/// A name as a node's settings may have it, as long as a path can.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let fits = (1..=AGENT_NAME_CHARS_MAX).contains(&name.chars().count());
    if fits && !name.chars().any(char::is_control) && !matches!(name, "." | "..") {
        return Ok(());
    }
    let message = format!(
        "the name of an agent has 1 to {AGENT_NAME_CHARS_MAX} characters on one line, and is neither . nor .."
    );
    Err(ApiError::invalid("name", message))
}

fn read(given: &RawJson) -> Result<HumanRetryPolicy> {
    HumanRetryPolicy::read(given).map_err(|problems| {
        let in_body = |problem: Problem| match problem.place.as_str() {
            "retry_policy" => Problem { place: "default_human_retry_policy".to_owned(), ..problem },
            place => Problem { place: format!("default_human_retry_policy.{place}"), ..problem },
        };
        let problems: Vec<Problem> = problems.into_iter().map(in_body).collect();
        let field = problems.first().map_or("default_human_retry_policy", |first| &first.place);
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        ApiError::invalid(field, told.join("; ")).with("problems", json!(shown(&problems)))
    })
}

fn view(agent: AgentRow) -> AgentView {
    let default_human_retry_policy = kept(&agent);
    let updated_at = time::rfc3339(agent.updated_at);
    AgentView { name: agent.name, default_human_retry_policy, updated_at }
}

/// The policy of a record. One that can't be read holds nothing, and the log says so.
fn kept(agent: &AgentRow) -> Option<HumanRetryPolicy> {
    let read = serde_json::from_str(&agent.policy).map_err(|error| error.to_string());
    read.unwrap_or_else(|error| {
        tracing::error!(
            tenant = agent.tenant.0,
            agent = agent.name,
            error,
            "an agent's policy can't be read"
        );
        None
    })
}

fn no_such_agent() -> ApiError {
    ApiError::new(
        "agent_not_found",
        "there is no record of an agent of this name; list them to see which there are",
    )
}

/// The policies of every tenant's agents, for an engine that starts.
pub async fn agent_policies(
    store: &dyn Store,
) -> std::result::Result<HashMap<TenantId, BTreeMap<String, HumanRetryPolicy>>, abide_store::Error> {
    let mut policies: HashMap<TenantId, BTreeMap<String, HumanRetryPolicy>> = HashMap::new();
    for (tenant, _) in store.tenants().await? {
        let mut after = Some(String::new());
        while let Some(cursor) = after.take() {
            let page = store.agents().list(tenant, cursor, LIST_PAGE_MAX).await?;
            after = page.last().filter(|_| page.len() == LIST_PAGE_MAX).map(|agent| agent.name.clone());
            let given = page.iter().filter_map(|agent| Some((agent.name.clone(), kept(agent)?)));
            policies.entry(tenant).or_default().extend(given);
        }
    }
    Ok(policies)
}
