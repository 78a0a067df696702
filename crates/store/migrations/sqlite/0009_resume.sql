-- What was decided and done about runs and can stand in no journal: a journal ends with its run, and one that does not
-- verify must not be touched. It follows from nothing else. Each record is chained to the one before it in its tenant,
-- so that purging a run takes no record along, and an edited, moved or removed one is found.

CREATE TABLE audit_log (
    tenant INTEGER NOT NULL,
    seq    INTEGER NOT NULL,       -- counted from 0 for each tenant
    at     INTEGER NOT NULL,
    run    BLOB    NOT NULL,       -- what it is about; the run may be gone
    kind   TEXT    NOT NULL,       -- 'resume_decision', 'truncation', …
    body   BLOB    NOT NULL,       -- JSON: who, why and what
    chain  BLOB    NOT NULL,       -- a hash over this and the chain of the one before
    PRIMARY KEY (tenant, seq)
) WITHOUT ROWID;

CREATE INDEX audit_log_by_run ON audit_log (tenant, run, seq);

-- The end of each tenant's log, so that records missing there are missed.
CREATE TABLE audit_heads (
    tenant INTEGER NOT NULL,
    next   INTEGER NOT NULL,
    chain  BLOB    NOT NULL,
    PRIMARY KEY (tenant)
) WITHOUT ROWID;
