//! The agents that are to work on an intent.

use std::sync::Arc;

use abide_core::{Assigned, IntentCommand, Run};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asking::{Asking, Body, Path};
use super::intents::{decide, of_body, seen};
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::error::Result;

/// An agent that is to work on an intent.
#[derive(Deserialize)]
pub(crate) struct NewAgent {
    agent_id: String,
    #[serde(default)]
    role: Option<String>,
}

fn shown(run: &Run, agent: &str, assigned: &Assigned) -> Value {
    json!({
        "id": format!("{}-{}", words::id(run.key().id), assigned.sequence),
        "intent_id": words::id(run.key().id),
        "agent_id": agent,
        "role": assigned.role,
        "assigned_at": words::moment(assigned.at),
    })
}

/// Who is assigned to an intent.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&id, &principal)?;
    let all = |run: &Run| {
        let agents = run.intent().into_iter().flat_map(|intent| &intent.agents);
        agents.map(|(agent, assigned)| shown(run, agent, assigned)).collect::<Vec<_>>()
    };
    Ok(Json(Value::Array(seen(&app, key, &actor.agent, all).await?)))
}

/// Has an agent work on an intent. Whoever listens for that agent hears of it.
pub(crate) async fn assign(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    Body(body): Body<NewAgent>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&id, &principal)?;
    let role = body.role.filter(|role| !role.is_empty()).unwrap_or_else(|| "worker".to_owned());
    let (agent, asking) = (body.agent_id, actor.agent.clone());
    decide(&app, key, IntentCommand::Assign { agent: agent.clone(), role, actor }).await.map_err(of_body)?;
    let own =
        |run: &Run| run.intent().and_then(|intent| Some(shown(run, &agent, intent.agents.get(&agent)?)));
    Ok(Json(seen(&app, key, &asking, own).await?.unwrap_or_default()))
}

/// Has an agent not work on an intent any more.
pub(crate) async fn unassign(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((id, agent)): Path<(String, String)>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&id, &principal)?;
    decide(&app, key, IntentCommand::Unassign { agent, actor }).await?;
    Ok(Json(json!({ "message": "Agent unassigned" })))
}
