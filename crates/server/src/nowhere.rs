//! What is asked for and is not there: paths, verbs and methods that no operation has.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;

use crate::app::App;
use crate::error::ApiError;
use crate::openintent;

/// Families of OpenWOP that a client may try without asking first, and whose absence it knows from being told so. The
/// protocol's other families are simply not found where they are not offered.
const NOT_OFFERED: [(&str, &str); 4] = [
    ("/v1/prompts", "prompts"),
    ("/v1/content", "content"),
    ("/v1/host/workspace", "workspace"),
    ("/v1/trigger-subscriptions", "triggers"),
];

/// There is nothing at this path.
pub(crate) async fn no_such_path(State(app): State<Arc<App>>, request: Request) -> ApiError {
    let path = crate::verbs::as_sent(request.uri().path());
    if let Some((_, family)) = NOT_OFFERED.iter().find(|(root, _)| is_below(&path, root)) {
        let message =
            format!("this server does not offer '{family}'; /.well-known/openwop tells what it offers");
        return ApiError::new("capability_not_provided", message).with("capability", *family);
    }
    if let Some(refused) = openintent::refusal(&path) {
        return refused;
    }
    if names_root(&app, &path) {
        return unversioned(&path);
    }
    ApiError::new("not_found", format!("there is nothing at {path}"))
}

/// Whether a program asks for a page that has the place of a path of the API. It shows a key, which people don't.
pub(crate) fn lacks_version(app: &App, request: &Request) -> bool {
    request.headers().contains_key(AUTHORIZATION) && names_root(app, request.uri().path())
}

/// A path of the API without its version.
pub(crate) fn unversioned(path: &str) -> ApiError {
    ApiError::new("validation_error", format!("the path has no version; ask for /v1{path}"))
}

/// The path is there, but not with this method.
pub(crate) async fn no_such_method(State(app): State<Arc<App>>, request: Request) -> ApiError {
    let path = crate::verbs::as_sent(request.uri().path());
    if lacks_version(&app, &request) {
        return unversioned(&path);
    }
    ApiError::new("method_not_allowed", format!("{path} does not take {}", request.method()))
}

/// Whether a path begins as one of the API does, but for its version.
fn names_root(app: &App, path: &str) -> bool {
    let root = path.split(['/', ':']).nth(1).unwrap_or_default();
    !root.is_empty() && app.openapi().has_root(root)
}

fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':']))
}
