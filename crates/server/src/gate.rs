//! What stands before every handler: is there a place, who is it, do they ask too often, and may they?
//!
//! In that order, and all of it before anything of the body is read.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::admission::{Held, Place};
use crate::app::App;
use crate::auth::{self, Principal};
use crate::error::{ApiError, Result};
use crate::operation::{Access, Operation};
use crate::outgoing;
use crate::scope::Scope;
use crate::trace::{self, Visit};
use crate::workers_api::forward;

/// The gate of one operation.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) app: Arc<App>,
    pub(crate) access: Access,
    /// Whether its answer may take as long as somebody waits for it.
    pub(crate) waits: bool,
    /// Its path, as the table has it.
    pub(crate) route: &'static str,
}

impl Gate {
    /// The gate of an operation.
    pub(crate) fn of(app: &Arc<App>, operation: &Operation) -> Self {
        let (access, waits, route) = (operation.access, operation.waits, operation.path);
        Self { app: app.clone(), access, waits, route }
    }
}

/// Lets a request through to its handler, or answers it.
pub(crate) async fn pass(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let visit = trace::visit(&request);
    visit.came_to(gate.route);
    if gate.access == Access::Public && request.method() == Method::GET {
        // Whoever asks whether the server lives should hear it most of all when it is busy.
        return next.run(request).await;
    }
    match gate.admit(request.headers(), &visit).await {
        Ok((principal, place)) => {
            if let Some(principal) = &principal {
                request.extensions_mut().insert(principal.clone());
            }
            // Only handlers that want a body read one, so whatever else is sent takes no room.
            let room = gate.app.admission().room(principal.as_ref().map(|principal| principal.tenant));
            let held = Held::new(place, room);
            request.extensions_mut().insert(held.clone());
            let response = next.run(request).await;
            let place = held.without_room();
            let may_hear = move || principal.as_ref().is_none_or(|principal| gate.is_still_let_in(principal));
            outgoing::hold(place, response, may_hear)
        }
        Err(refused) => refused.into_response(),
    }
}

impl Gate {
    /// Who is let in, and the place they have.
    async fn admit(&self, headers: &HeaderMap, visit: &Visit) -> Result<(Option<Principal>, Place)> {
        let mut place = self.app.admission().enter(self.waits)?;
        let principal = match self.access {
            // What is in the path is for the handler to check; no other credential is even looked at.
            Access::Public | Access::Token => None,
            Access::AnyKey => Some(self.authenticate(headers, visit).await?),
            Access::Scope(scope) => {
                let principal = self.authenticate(headers, visit).await?;
                check_scope(&principal, scope)?;
                Some(principal)
            }
        };
        if let Some(principal) = &principal {
            place.belong_to(principal.tenant)?;
        }
        Ok((principal, place))
    }

    fn is_still_let_in(&self, principal: &Principal) -> bool {
        self.app.keys().still_holds(principal, self.app.engine().clock().now())
    }

    /// Who it is, unless they ask too often.
    async fn authenticate(&self, headers: &HeaderMap, visit: &Visit) -> Result<Principal> {
        let principal = auth::authenticate(&self.app, headers).await?;
        visit.is_of(&principal);
        // What another server passes on has been counted there.
        if !forward::is_passed_on(&self.app, headers) {
            self.app.count(&principal)?;
        }
        Ok(principal)
    }
}

/// Refuses whoever lacks a scope.
pub(crate) fn check_scope(principal: &Principal, scope: Scope) -> Result<()> {
    if principal.scopes.allow(scope) {
        return Ok(());
    }
    let message = format!("the key does not have the scope '{scope}'; use one that has");
    Err(ApiError::new("forbidden", message).with("scopeRequired", scope.name()))
}
