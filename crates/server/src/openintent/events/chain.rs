//! Whether what happened is still what was recorded: each event of a journal carries a hash of itself and of all before it.

use std::sync::Arc;

use abide_core::{Head, Key};
use abide_store::Error as StoreError;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::openintent::asking::{Asking, Path};
use crate::openintent::intents::seen;
use crate::openintent::words;

/// Events checked at once.
const PAGE_EVENTS: usize = 1024;

/// Goes through the journal of an intent, hash by hash.
pub(crate) async fn verify(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&id, &principal)?;
    seen(&app, key, &actor.agent, |_| ()).await?;
    let (head, broken) = walk(&app, key).await?;
    let breaks: Vec<Value> =
        broken.iter().map(|reason| json!({ "sequence": head.next, "reason": reason })).collect();
    Ok(Json(json!({
        "intent_id": words::id(key.id),
        "valid": broken.is_none(),
        "chain_valid": broken.is_none(),
        "event_count": head.next,
        "first_sequence": 0,
        "last_sequence": head.next.saturating_sub(1),
        "breaks": breaks,
    })))
}

/// How far the chain holds, and why it does not hold any further.
async fn walk(app: &App, key: Key) -> Result<(Head, Option<String>)> {
    let store = app.engine().store();
    let loaded = store.load(key).await?.ok_or_else(words::no_such_intent)?;
    let mut head = Head::new(key);
    while head.next < loaded.head.next {
        let page = match store.journal(key, head.next, PAGE_EVENTS).await {
            Ok(page) => page,
            Err(StoreError::Damaged { reason, .. }) => return Ok((head, Some(reason))),
            Err(error) => return Err(error.into()),
        };
        if page.is_empty() {
            return Ok((head, Some(format!("event {} is missing", head.next))));
        }
        for record in page.iter().take_while(|record| record.sequence < loaded.head.next) {
            if let Err(reason) = head.accept(record, loaded.salt.as_ref()) {
                return Ok((head, Some(reason)));
            }
        }
    }
    let fits = head.chain == loaded.head.chain;
    let broken = (!fits).then(|| "the journal ends otherwise than was recorded beside it".to_owned());
    Ok((head, broken))
}

/// What of OpenIntent's proofs is not here: whoever wants to check a journal has its chain.
pub(crate) async fn no_proofs() -> Result<Json<Value>> {
    let message = "there are no checkpoints or proofs of logs here; GET /api/v1/intents/{id}/events/verify checks the \
                   whole chain of an intent's events";
    Err(ApiError::new("capability_not_provided", message))
}
