//! Removing runs that have ended.

use crate::operation::Operation;
use crate::page::PageQuery;
use crate::purge_api::{PurgePage, PurgeRuns, Purged, list, purge};
use crate::scope::Scope;

pub(super) fn purges() -> Vec<Operation> {
    vec![
        Operation::post(
            "/v1/runs:purge",
            "purgeRuns",
            "Removes runs that have ended, with all that belongs to them, for good.",
            purge,
        )
        .scope(Scope::RunsPurge)
        .takes::<PurgeRuns>()
        .answers::<Purged>(200, "What is gone, and where to go on."),
        Operation::get("/v1/purges", "listPurges", "The record of runs that were removed.", list)
            .scope(Scope::AuditRead)
            .query::<PageQuery>()
            .answers::<PurgePage>(200, "Who removed what, latest first."),
    ]
}
