//! Checks the log of what was decided and done about runs apart from their journals.

use abide_store::AuditHead;

use super::{PAGE_EVENTS, Verifier};
use crate::Error;

impl Verifier<'_> {
    /// Checks the chain of every tenant's log. The first bad record of each is named.
    pub(super) async fn audit_log(&mut self) -> Result<(), Error> {
        let heads = match self.store.audit_log().heads().await {
            Err(abide_store::Error::Damaged { reason, .. }) => {
                self.find(None, None, format!("the audit log can't be read: {reason}"));
                return Ok(());
            }
            other => other?,
        };
        for kept in heads {
            if let Err(what) = self.audit_log_of(kept).await? {
                self.find(None, None, format!("the audit log of tenant {}: {what}", kept.tenant.0));
            }
        }
        Ok(())
    }

    async fn audit_log_of(&self, kept: AuditHead) -> Result<Result<(), String>, Error> {
        let mut head = AuditHead::new(kept.tenant);
        loop {
            let page = match self.store.audit_log().page(kept.tenant, head.next, PAGE_EVENTS).await {
                Err(abide_store::Error::Damaged { reason, .. }) => return Ok(Err(reason)),
                other => other?,
            };
            if page.is_empty() {
                break;
            }
            for row in page {
                let checked = match row {
                    Ok(record) => head.accept(&record),
                    Err((place, reason)) => Err(format!("audit record {place} can't be read: {reason}")),
                };
                if let Err(what) = checked {
                    return Ok(Err(what));
                }
            }
        }
        if head.next < kept.next {
            return Ok(Err(format!("audit record {} is missing", head.next)));
        }
        if head != kept {
            let (found, told) = (head.next, kept.next);
            return Ok(Err(format!("it has {found} records, and its end tells of {told}, or of others")));
        }
        Ok(Ok(()))
    }
}
