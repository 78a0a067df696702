//! What stands before every page: is there a place, who is signed in, do they ask too often, and may they do this?

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};

use super::html::{self, Frame, Referrer};
use super::refusal::Refusal;
use super::session::Session;
use super::sign_in;
use crate::admission::{Held, Place};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::scope::Scope;
use crate::trace::{self, Visit};
use crate::{nowhere, outgoing};

/// Whom a page lets in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lets {
    Anybody,
    /// Whoever holds a link, which is for the page to check; nothing else that they bring is even looked at.
    Holders,
    /// Those who signed in with a key that has this scope.
    SignedIn(Scope),
}

/// What a page does in the browser.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    /// It stands as it is.
    Stands,
    /// It has a script that follows something.
    Follows,
    /// It is no page, but what such a script listens to.
    Tells,
}

/// The door of one page.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) app: Arc<App>,
    pub(super) lets: Lets,
    pub(super) does: Does,
    /// Its path, as the table has it.
    pub(super) route: &'static str,
}

/// Somebody who is signed in.
#[derive(Clone)]
pub(super) struct Visitor {
    pub(super) principal: Principal,
    pub(super) session: Session,
}

impl Visitor {
    /// Who sent a request with these headers, if they are signed in.
    pub(super) async fn of(app: &App, headers: &HeaderMap) -> Result<Option<Self>> {
        let now = app.engine().clock().now();
        let found = Session::of(headers, app.keys(), app.is_secure(), now).await?;
        Ok(found.map(|(session, principal)| Self { principal, session }))
    }

    /// Whether the session still holds, and the key that it began with.
    fn is_still_in(&self, app: &App) -> bool {
        let now = app.engine().clock().now();
        self.session.holds(app.keys().keyring(), now) && app.keys().still_holds(&self.principal, now)
    }

    /// Whether they may do what takes this scope.
    pub(super) fn may(&self, scope: Scope) -> bool {
        self.principal.scopes.allow(scope)
    }

    /// The head of a page for them.
    pub(super) fn frame(&self, app: &App, title: impl Into<String>) -> Frame {
        let token = self.session.form_token(app.keys().keyring());
        Frame { title: title.into(), visitor: Some((self.principal.name.clone(), token)) }
    }
}

/// The door has let them in before any handler runs.
impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> super::refusal::Result<Self> {
        let known = parts.extensions.get::<Self>().cloned();
        known.ok_or_else(|| ApiError::internal(&"a page without a door asked who is there").into())
    }
}

/// Lets a request through to its page, or answers it.
pub(super) async fn pass(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let visit = trace::visit(&request);
    visit.came_to(door.route);
    let mut response = match door.admit(request.headers(), &visit).await {
        Ok((None, _)) if is_shut(&door) && nowhere::lacks_version(&door.app, &request) => {
            nowhere::unversioned(request.uri().path()).into_response()
        }
        Ok((None, _)) if is_shut(&door) => to_sign_in(request.uri()),
        Ok((visitor, place)) => {
            let tenant = visitor.as_ref().map(|visitor| visitor.principal.tenant);
            if let Some(visitor) = &visitor {
                request.extensions_mut().insert(visitor.clone());
            }
            let held = Held::new(place, door.app.admission().room(tenant));
            request.extensions_mut().insert(held.clone());
            let response = next.run(request).await;
            let app = door.app.clone();
            let may_hear = move || visitor.as_ref().is_none_or(|visitor| visitor.is_still_in(&app));
            outgoing::hold(held.without_room(), response, may_hear)
        }
        Err(refused) => Refusal::from(refused).into_response(),
    };
    let referrer = if door.lets == Lets::Holders { Referrer::Nobody } else { Referrer::SameOrigin };
    html::guard(response.headers_mut(), referrer, door.does == Does::Follows);
    response
}

impl Door {
    /// Who comes, and the place they have.
    async fn admit(&self, headers: &HeaderMap, visit: &Visit) -> Result<(Option<Visitor>, Place)> {
        let mut place = self.app.admission().enter(self.does == Does::Tells)?;
        let Lets::SignedIn(scope) = self.lets else { return Ok((None, place)) };
        let visitor = Visitor::of(&self.app, headers).await?;
        if let Some(Visitor { principal, .. }) = &visitor {
            visit.is_of(principal);
            self.app.count(principal)?;
            check_scope(principal, scope)?;
            place.belong_to(principal.tenant)?;
        }
        Ok((visitor, place))
    }
}

/// Whether somebody may do what takes this scope.
pub(super) fn check_scope(principal: &Principal, scope: Scope) -> Result<()> {
    if principal.scopes.allow(scope) {
        return Ok(());
    }
    let message = format!("This key does not have the scope '{scope}'. Sign in with one that has.");
    Err(ApiError::new("forbidden", message).with("scopeRequired", scope.name()))
}

fn is_shut(door: &Door) -> bool {
    matches!(door.lets, Lets::SignedIn(_))
}

/// Signing in leads back to the page that was asked for.
fn to_sign_in(uri: &Uri) -> Response {
    let wanted = uri.path_and_query().map_or("", |wanted| wanted.as_str());
    Redirect::to(&sign_in::path_to(wanted)).into_response()
}
