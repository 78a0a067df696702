//! What a form brought: its fields, and that it was one of ours.
//!
//! A handler gets at the fields of a form in no other way, so none can forget to ask.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::http::header;

use super::gate::Visitor;
use super::origin;
use super::refusal::{Refusal, Result};
use crate::app::App;
use crate::error::ApiError;
use crate::{body, limits};

/// The field in which every form of a session says that it belongs to it.
const TOKEN: &str = "form-token";

/// The fields of a form, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Fields as a form or a query writes them.
    pub(super) fn read(text: &[u8]) -> Result<Self> {
        let fields: Vec<_> =
            form_urlencoded::parse(text).into_owned().take(limits::FORM_FIELDS_MAX + 1).collect();
        if fields.len() > limits::FORM_FIELDS_MAX {
            let message = format!("A form has {} fields at most.", limits::FORM_FIELDS_MAX);
            return Err(ApiError::new("validation_error", message).into());
        }
        Ok(Self(fields))
    }

    /// What a field says, if the form has it.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// What a field says that is worth saying: not nothing, and not only spaces.
    pub(super) fn said(&self, name: &str) -> Option<&str> {
        self.get(name).map(str::trim).filter(|text| !text.is_empty())
    }

    /// Everything that fields of this name say.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A form that was sent from one of our pages, by nobody in particular.
pub(super) struct Form(pub(super) Fields);

impl FromRequest<Arc<App>> for Form {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        if !origin::is_ours(request.headers(), app.public_url()) {
            return Err(stray());
        }
        Fields::sent(request).await.map(Self)
    }
}

/// A form of a page that was reached by a link. The link itself is what nobody else can send; still, what a browser says
/// to come from another site is refused.
pub(super) struct LinkForm(pub(super) Fields);

impl FromRequest<Arc<App>> for LinkForm {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        if origin::is_foreign(request.headers(), app.public_url()) {
            return Err(stray());
        }
        Fields::sent(request).await.map(Self)
    }
}

impl Fields {
    /// The fields of a form that was sent.
    async fn sent(request: Request) -> Result<Self> {
        let (parts, body) = request.into_parts();
        let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            let message = "Forms are sent as application/x-www-form-urlencoded.";
            return Err(ApiError::new("validation_error", message).into());
        }
        let bytes = body::read(&parts, body, limits::BODY_BYTES_MAX).await?;
        Self::read(&bytes)
    }
}

/// A form that was made for the session it comes from.
pub(super) struct OwnForm(pub(super) Fields);

impl FromRequest<Arc<App>> for OwnForm {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        let known = request.extensions().get::<Visitor>().cloned();
        let headers = request.headers().clone();
        let visitor = match known {
            Some(visitor) => Some(visitor),
            None => Visitor::of(app, &headers).await?,
        };
        let Form(fields) = Form::from_request(request, app).await?;
        let is_own = |visitor: &Visitor| {
            visitor.session.made_form(fields.get(TOKEN).unwrap_or_default(), app.keys().keyring())
        };
        if visitor.as_ref().is_some_and(is_own) { Ok(Self(fields)) } else { Err(stray()) }
    }
}

fn stray() -> Refusal {
    let message =
        "This form was not sent from a page of this session. Open the page again, and send it from there.";
    ApiError::new("forbidden", message).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_browsers_write_them() {
        let fields = Fields::read(b"a=1&b=x+y%0A%26&a=2&c=&d=++").ok().unwrap();
        assert_eq!(fields.get("a"), Some("1"));
        assert_eq!(fields.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(fields.get("b"), Some("x y\n&"));
        assert_eq!((fields.get("c"), fields.said("c")), (Some(""), None));
        assert_eq!((fields.said("d"), fields.get("e")), (None, None));
    }

    #[test]
    fn a_form_without_end_is_refused() {
        assert!(Fields::read("a&".repeat(limits::FORM_FIELDS_MAX).as_bytes()).is_ok());
        assert!(Fields::read("a&".repeat(limits::FORM_FIELDS_MAX + 1).as_bytes()).is_err());
    }
}
