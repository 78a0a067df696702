//! Those who ask to be let in to an intent, and what they are told.

use std::sync::Arc;

use abide_core::{AccessEntry, Actor, IntentCommand, Key, Millis, Permission};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Kept, New, all, change, check, keep, of_intent, said};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::openintent::access::permission;
use crate::openintent::asking::{Asking, Body, Path};
use crate::openintent::intents::{ask, of_body};
use crate::openintent::words;

/// The kind of these records.
pub(in crate::openintent) const ACCESS_REQUEST: &str = "access.request";

/// Where a request stands.
const PENDING: &str = "pending";
const APPROVING: &str = "approving";
const APPROVED: &str = "approved";
const DENIED: &str = "denied";

/// How often somebody began to approve a request.
const TRIES: &str = "_tries";

/// What is granted by whoever began to approve it, and who that is.
const APPROVAL: &str = "_approval";

/// Somebody who asks to be let in.
#[derive(Deserialize)]
pub(crate) struct NewRequest {
    principal_id: Option<String>,
    #[serde(default)]
    principal_type: Option<String>,
    #[serde(default)]
    requested_permission: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    capabilities: Option<Vec<String>>,
}

fn shown(kept: &Kept) -> Value {
    // Until it is granted, nobody has decided.
    let status = kept.text("status").map(|status| if status == APPROVING { PENDING } else { status });
    let decided_at = kept.body["decided_at"].as_i64().map(words::moment);
    json!({
        "id": kept.id(),
        "intent_id": kept.intent(),
        "principal_id": kept.body["principal_id"],
        "principal_type": kept.body["principal_type"],
        "requested_permission": kept.body["requested_permission"],
        "reason": kept.body["reason"],
        "capabilities": kept.body["capabilities"],
        "status": status,
        "decided_by": kept.body["decided_by"],
        "decided_at": decided_at,
        "decision_reason": kept.body["decision_reason"],
        "created_at": words::moment(kept.at),
    })
}

/// Keeps that somebody asks to be let in. They need not be able to see the intent.
pub(crate) async fn request(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Body(new): Body<NewRequest>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let wanted = permission("requested_permission", new.requested_permission.as_deref())?;
    let body = json!({
        "principal_id": said("principal_id", new.principal_id)?,
        "principal_type": new.principal_type.unwrap_or_else(|| "agent".to_owned()),
        "requested_permission": wanted.name(),
        "reason": new.reason.unwrap_or_default(),
        "capabilities": new.capabilities.unwrap_or_default(),
        "status": PENDING,
    });
    let is_group = app.engine().read(key, |run| run.group().is_some()).await?;
    if is_group {
        return Err(words::no_such_intent());
    }
    Ok(Json(shown(&keep(&app, key, New::of(ACCESS_REQUEST, &actor.agent, body)).await?)))
}

/// Those who asked, oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    check(&app, key, &actor.agent, Permission::Read).await?;
    let found = all(&app, key, ACCESS_REQUEST).await?;
    Ok(Json(json!({ "access_requests": found.iter().map(shown).collect::<Vec<_>>() })))
}

/// What they are told.
#[derive(Deserialize)]
pub(crate) struct Told {
    #[serde(default)]
    decided_by: Option<String>,
    #[serde(default)]
    permission: Option<String>,
    #[serde(default)]
    expires_at: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

fn decided(asked: &Kept) -> ApiError {
    let message = match asked.text("status") {
        Some(APPROVING) => {
            "somebody began to approve the request; whoever approves it once more finishes that".to_owned()
        }
        Some(PENDING) => "the approval was given up meanwhile; approve it once more".to_owned(),
        status => format!("the request is {} already", status.unwrap_or("decided")),
    };
    ApiError::new("record_decided", message)
}

/// What somebody grants who approves a request.
#[derive(Serialize, Deserialize)]
struct Approval {
    agent: String,
    by: String,
    permission: Permission,
    expires_at: Option<i64>,
    reason: Option<String>,
}

/// One try to approve a request. What it grants is known by it, so that it is granted once and taken back by nobody else.
struct Try {
    key: Key,
    sequence: u64,
    number: u64,
    approval: Approval,
    entry: AccessEntry,
}

impl Try {
    fn of(asked: &Kept) -> Result<Self> {
        let number = asked.body[TRIES].as_u64().unwrap_or_default();
        let approval: Approval = serde_json::from_value(asked.body[APPROVAL].clone())
            .map_err(|error| ApiError::internal(&format!("an approval can't be read: {error}")))?;
        let entry = AccessEntry {
            id: format!("acl-request-{}-{number}", asked.sequence),
            principal: asked.text("principal_id").unwrap_or_default().to_owned(),
            principal_type: asked.text("principal_type").unwrap_or("agent").to_owned(),
            permission: approval.permission,
            granted_by: String::new(),
            granted_at: 0,
            expires_at: approval.expires_at,
            reason: approval.reason.clone().or_else(|| asked.text("reason").map(str::to_owned)),
        };
        Ok(Self { key: asked.key, sequence: asked.sequence, number, approval, entry })
    }

    fn is_of(&self, asked: &Kept) -> bool {
        asked.body[TRIES].as_u64() == Some(self.number)
    }

    /// Grants what is to be granted, unless that was done.
    async fn grant(&self, app: &App, actor: &Actor) -> Result<()> {
        let command = IntentCommand::Grant { entry: Box::new(self.entry.clone()), actor: actor.clone() };
        ask(app, self.key, command, |_| ()).await.map_err(of_body)
    }

    /// Says that it is approved, unless that was said. If the try was given up meanwhile, nothing stays granted.
    async fn finish(&self, app: &App, actor: &Actor) -> Result<Kept> {
        let now = app.engine().clock().now();
        let kept = change(app, self.key, (ACCESS_REQUEST, self.sequence), |asked| {
            if !self.is_of(asked) || asked.text("status") != Some(APPROVING) {
                return Ok(asked.body.clone());
            }
            Ok(told(asked, APPROVED, &self.approval.by, self.approval.reason.as_deref(), now))
        });
        let kept = kept.await?;
        if self.is_of(&kept) && kept.text("status") == Some(APPROVED) {
            return Ok(kept);
        }
        let command = IntentCommand::Revoke { id: self.entry.id.clone(), actor: actor.clone() };
        // Whoever gave it up, or somebody beside them, may have been quicker.
        ask(app, self.key, command, |_| ()).await.ok();
        Err(decided(&kept))
    }

    /// Leaves the request as it was before.
    async fn give_up(&self, app: &App) -> Result<()> {
        let given_up = change(app, self.key, (ACCESS_REQUEST, self.sequence), |asked| {
            let mut body = asked.body.clone();
            if asked.text("status") == Some(APPROVING) && self.is_of(asked) {
                forget_approval(&mut body);
                body["status"] = json!(PENDING);
            }
            Ok(body)
        });
        given_up.await.map(drop)
    }
}

/// Makes a request somebody's to approve, unless it is somebody's already.
async fn begin(app: &App, key: Key, sequence: u64, actor: &Actor, said: Told) -> Result<Try> {
    let wanted = said.permission.as_deref().map(|name| permission("permission", Some(name))).transpose()?;
    let expires_at = said.expires_at.as_deref().map(|text| words::read_moment("expires_at", text));
    let expires_at = expires_at.transpose().map_err(of_body)?;
    let begun = change(app, key, (ACCESS_REQUEST, sequence), |asked| match asked.text("status") {
        Some(PENDING) => {
            let asked_for = permission("permission", asked.text("requested_permission"))?;
            let approval = Approval {
                agent: actor.agent.clone(),
                by: said.decided_by.clone().unwrap_or_else(|| actor.agent.clone()),
                permission: wanted.unwrap_or(asked_for),
                expires_at,
                reason: said.reason.clone(),
            };
            let mut body = asked.body.clone();
            body[TRIES] = json!(body[TRIES].as_u64().unwrap_or_default() + 1);
            body[APPROVAL] = json!(approval);
            body["status"] = json!(APPROVING);
            Ok(body)
        }
        Some(APPROVING) => Ok(asked.body.clone()),
        _ => Err(decided(asked)),
    });
    Try::of(&begun.await?)
}

/// Lets somebody in. Of those who decide one is first: the request is theirs, then it is granted, then told, so that whoever
/// is told can come in. Whoever finds it half done finishes it.
pub(crate) async fn approve(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((intent, id)): Path<(String, String)>,
    Body(said): Body<Told>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let sequence = of_intent(key, &id, &principal)?;
    check(&app, key, &actor.agent, Permission::Admin).await?;
    let own = begin(&app, key, sequence, &actor, said).await?;
    if let Err(refused) = own.grant(&app, &actor).await {
        // Otherwise it may have been granted all the same, or will be by somebody who may.
        if refused.status().is_client_error() && refused.status() != StatusCode::FORBIDDEN {
            own.give_up(&app).await?;
        }
        return Err(refused);
    }
    let told = own.finish(&app, &actor).await?;
    // Somebody else's approval was finished, and what was asked for here is not what was granted.
    if own.approval.agent == actor.agent { Ok(Json(shown(&told))) } else { Err(decided(&told)) }
}

/// Lets somebody not in.
pub(crate) async fn deny(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((intent, id)): Path<(String, String)>,
    Body(said): Body<Told>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let sequence = of_intent(key, &id, &principal)?;
    check(&app, key, &actor.agent, Permission::Admin).await?;
    let by = said.decided_by.unwrap_or(actor.agent);
    let now = app.engine().clock().now();
    let denied = change(&app, key, (ACCESS_REQUEST, sequence), |asked| match asked.text("status") {
        Some(PENDING) => Ok(told(asked, DENIED, &by, said.reason.as_deref(), now)),
        _ => Err(decided(asked)),
    });
    Ok(Json(shown(&denied.await?)))
}

fn forget_approval(body: &mut Value) {
    body.as_object_mut().and_then(|fields| fields.remove(APPROVAL));
}

/// The request with what became of it.
fn told(asked: &Kept, status: &str, by: &str, reason: Option<&str>, now: Millis) -> Value {
    let mut body = asked.body.clone();
    // So it takes no more room than before: what was granted can be told of.
    forget_approval(&mut body);
    body["status"] = json!(status);
    body["decided_by"] = json!(by);
    body["decided_at"] = json!(now);
    body["decision_reason"] = json!(reason);
    body
}
