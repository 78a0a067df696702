//! What an intent cost, as its agents tell. What its policy lets it cost is kept to, however many tell at once: each cost
//! carries the sum up to it, and is kept only right behind the one that the sum was taken from.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::Permission;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Kept, New, all, check, newest, object, raced, said, try_keep, unfit};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::limits;
use crate::openintent::asking::{Asking, Body, Path};
use crate::openintent::intents::allowed;
use crate::openintent::words;

const COST: &str = "cost";

/// A cost.
#[derive(Deserialize)]
pub(crate) struct NewCost {
    #[serde(default)]
    agent_id: Option<String>,
    cost_type: Option<String>,
    amount: Option<Value>,
    unit: Option<String>,
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    metadata: Option<Value>,
}

fn shown(kept: &Kept) -> Value {
    json!({
        "id": kept.id(),
        "intent_id": kept.intent(),
        "agent_id": kept.body["agent_id"],
        "cost_type": kept.body["cost_type"],
        "amount": kept.body["amount"],
        "unit": kept.body["unit"],
        "provider": kept.body["provider"],
        "metadata": kept.body["metadata"],
        "cost_metadata": kept.body["metadata"],
        "recorded_at": words::moment(kept.at),
        "recordedAt": words::moment(kept.at),
    })
}

/// An amount: a number that is not negative. Whole ones stay whole.
fn amount(given: Option<&Value>) -> Result<f64> {
    let number = given.and_then(Value::as_f64).filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| unfit("amount", "'amount' is a number that is not negative"))
}

/// Keeps a cost, unless the intent may not cost that much.
pub(crate) async fn record(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Body(new): Body<NewCost>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let amount = amount(new.amount.as_ref())?;
    let mut body = json!({
        "agent_id": new.agent_id.unwrap_or_else(|| actor.agent.clone()),
        "cost_type": said("cost_type", new.cost_type)?,
        "amount": new.amount,
        "unit": said("unit", new.unit)?,
        "provider": new.provider,
        "metadata": object("metadata", new.metadata)?,
    });
    for _ in 0..limits::RECORD_TRIES_MAX {
        let last = newest(&app, key, COST, 1).await?.pop();
        let so_far = last.as_ref().and_then(|last| last.body["sum"].as_f64()).unwrap_or(0.0);
        let check = |run: &abide_core::Run| run.check_cost(so_far, amount);
        allowed(&app, key, &actor.agent, Permission::Write, check).await?.map_err(ApiError::from)?;
        body["sum"] = json!(so_far + amount);
        let behind = Some(last.map(|last| last.sequence));
        let new = New { behind, ..New::of(COST, &actor.agent, body.clone()) };
        if let Some(kept) = try_keep(&app, key, &new).await? {
            return Ok(Json(shown(&kept)));
        }
    }
    Err(raced())
}

/// A sum, whole if it is.
fn whole(sum: f64) -> Value {
    if sum.fract() == 0.0 && sum.abs() < 9e15 { json!(sum as i64) } else { json!(sum) }
}

fn sums(costs: &[Kept], field: &str) -> BTreeMap<String, Value> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for cost in costs {
        let of = cost.text(field).unwrap_or_default().to_owned();
        *sums.entry(of).or_default() += cost.body["amount"].as_f64().unwrap_or(0.0);
    }
    sums.into_iter().map(|(of, sum)| (of, whole(sum))).collect()
}

/// What it cost, oldest first, and together.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    check(&app, key, &actor.agent, Permission::Read).await?;
    let costs = all(&app, key, COST).await?;
    let total = costs.iter().filter_map(|cost| cost.body["amount"].as_f64()).sum();
    Ok(Json(json!({
        "costs": costs.iter().map(shown).collect::<Vec<_>>(),
        "summary": {
            "total": whole(total),
            "by_type": sums(&costs, "cost_type"),
            "by_agent": sums(&costs, "agent_id"),
        },
    })))
}
