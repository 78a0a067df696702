-- What was answered to requests that may be repeated, and which runs keep others from starting. The first table follows
-- from nothing else; it is forgotten after a day.

CREATE TABLE receipts (
    tenant   INTEGER NOT NULL,
    endpoint TEXT    NOT NULL,     -- the operation, and the run that its path names
    key      BLOB    NOT NULL,     -- a MAC of the key that the caller sent
    digest   BLOB    NOT NULL,     -- a MAC of the request, so that another one under the same key is told apart
    status   INTEGER NOT NULL,
    body     BLOB    NOT NULL,     -- the answer, byte for byte: ids, times and statuses, nothing that a run read or wrote
    at       INTEGER NOT NULL,
    PRIMARY KEY (tenant, endpoint, key)
) WITHOUT ROWID;

-- For forgetting them by age, whoever they belong to.
CREATE INDEX receipts_by_age ON receipts (at);

-- Runs that are the only ones of their workflow and scope. A claim goes with the end of its run.
CREATE TABLE claims (
    tenant   INTEGER NOT NULL,
    workflow TEXT    NOT NULL,
    scope    TEXT    NOT NULL,     -- empty if none was given
    run      BLOB    NOT NULL,
    PRIMARY KEY (tenant, workflow, scope)
) WITHOUT ROWID;

CREATE INDEX aggregates_by_workflow ON aggregates (tenant, workflow, id);
