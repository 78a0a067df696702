//! Users' named secrets, as far as executors need them: a value for a name, at the moment of use.

use std::future::Future;
use std::pin::Pin;

use abide_core::{HttpRequest, Piece, TenantId};

/// A value that may not be there.
pub type Lookup<'a> = Pin<Box<dyn Future<Output = Result<Option<String>, abide_store::Error>> + Send + 'a>>;

/// Where secrets come from. Values are never kept, logged or written to a journal.
pub trait Secrets: Send + Sync + 'static {
    /// The value of a tenant's secret.
    fn get<'a>(&'a self, tenant: TenantId, name: &'a str) -> Lookup<'a>;
}

/// No secrets at all.
pub struct NoSecrets;

impl Secrets for NoSecrets {
    fn get<'a>(&'a self, _: TenantId, _: &'a str) -> Lookup<'a> {
        Box::pin(async { Ok(None) })
    }
}

/// The names of the secrets that a request needs.
pub(crate) fn names_in(request: &HttpRequest) -> Vec<String> {
    let body = request.body.iter().flat_map(|body| &body.pieces);
    let headers = request.headers.iter().flat_map(|(_, pieces)| pieces);
    let mut names: Vec<String> = request
        .url
        .iter()
        .chain(headers)
        .chain(body)
        .filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Secret(name) | Piece::SecretInJson(name) => Some(name.clone()),
        })
        .collect();
    names.sort();
    names.dedup();
    names
}
