//! Where pages get what they show, and where answers go.

use abide_core::InterruptKind;
use serde_json::Value;

use super::view::{Asked, InboxPage};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};

/// Which part of the list is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) kind: Option<InterruptKind>,
    pub(super) title: Option<String>,
    pub(super) cursor: Option<String>,
}

/// What waits in a tenant.
pub(super) async fn inbox(_app: &App, _who: &Principal, _filter: &Filter) -> Result<InboxPage> {
    Ok(InboxPage::default())
}

/// An interrupt of a run, open or not.
pub(super) async fn find(_app: &App, _who: &Principal, run: &str, _id: &str) -> Result<Asked> {
    Err(ApiError::new("run_not_found", format!("there is no run {run}")))
}

/// Answers an interrupt.
pub(super) async fn resolve(_app: &App, _who: &Principal, _asked: &Asked, _value: Value) -> Result<()> {
    Ok(())
}
