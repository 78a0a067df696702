//! What stands before every handler: who is it, and may they?

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::auth::{self, Principal};
use crate::error::{ApiError, Result};
use crate::operation::Access;
use crate::scope::Scope;
use crate::trace;

/// The gate of one operation.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) app: Arc<App>,
    pub(crate) access: Access,
    /// The path of the operation, as the table has it.
    pub(crate) route: &'static str,
}

/// Lets a request through to its handler, or answers it.
pub(crate) async fn pass(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let admitted = gate.admit(&request);
    trace::arrived(&request, gate.route, admitted.as_ref().ok().and_then(Option::as_ref));
    match admitted {
        Ok(principal) => {
            if let Some(principal) = principal {
                request.extensions_mut().insert(principal);
            }
            next.run(request).await
        }
        Err(refused) => refused.into_response(),
    }
}

impl Gate {
    /// Who may pass, if anybody has to be known.
    fn admit(&self, request: &Request) -> Result<Option<Principal>> {
        if self.access == Access::Public {
            return Ok(None);
        }
        let principal = auth::authenticate(&self.app, request.headers())?;
        if let Access::Scope(scope) = self.access {
            check_scope(&principal, scope)?;
        }
        Ok(Some(principal))
    }
}

fn check_scope(principal: &Principal, scope: Scope) -> Result<()> {
    if principal.scopes.allow(scope) {
        return Ok(());
    }
    let message = format!("the key does not have the scope '{scope}'; use one that has");
    Err(ApiError::new("forbidden", message).with("scopeRequired", scope.name()))
}
