-- Runs that are removed wholly, by somebody or because they were kept long enough; and what a backup says of itself.
-- Whether a run is a child follows from its journal. The rest does not.

ALTER TABLE aggregates ADD COLUMN child INTEGER NOT NULL DEFAULT 0;  -- 1 = another run started it
UPDATE aggregates SET child = 1 WHERE (tenant, id) IN (SELECT tenant, child FROM children);

-- Runs that have ended and that no other started, by the time of their end. Runs under way and children cost nothing here.
CREATE INDEX aggregates_by_end ON aggregates (tenant, workflow, status, at, id) WHERE child = 0 AND status IN (4, 5, 6);

ALTER TABLE workflows ADD COLUMN retention TEXT;  -- a JSON object: for how many days its runs are kept; NULL = it does not say

-- What was removed: when, by whom, which, and how much.
CREATE TABLE purges (
    tenant INTEGER NOT NULL,
    n      INTEGER NOT NULL,       -- counted from 1 for each tenant
    at     INTEGER NOT NULL,
    by     TEXT,                   -- who asked for it; NULL = they were kept for as long as they should
    filter TEXT    NOT NULL,       -- a JSON object
    runs   INTEGER NOT NULL,
    events INTEGER NOT NULL,
    PRIMARY KEY (tenant, n)
) WITHOUT ROWID;

-- Runs that are gone already, but whose rows are still being removed, a page at a time.
CREATE TABLE purging (
    tenant INTEGER NOT NULL,
    id     BLOB    NOT NULL,
    n      INTEGER NOT NULL,       -- which purge it belongs to
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

-- The backup that this file is or was restored from: one row, or none.
CREATE TABLE backups (
    made_at INTEGER NOT NULL,
    version TEXT    NOT NULL,      -- of the abide that made it
    runs    INTEGER NOT NULL,
    events  INTEGER NOT NULL
);
