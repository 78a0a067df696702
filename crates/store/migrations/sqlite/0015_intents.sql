-- Which agents are to work on which intents. It follows from the journals; whoever listens for an agent reads it.

CREATE TABLE assignments (
    tenant INTEGER NOT NULL,
    run    BLOB    NOT NULL,
    agent  TEXT    NOT NULL,
    seq    INTEGER NOT NULL,       -- the event that says so
    at     INTEGER NOT NULL,
    place  INTEGER NOT NULL,       -- where it lies among all that were ever said in the tenant
    PRIMARY KEY (tenant, run, agent)
) WITHOUT ROWID;

CREATE INDEX assignments_by_agent ON assignments (tenant, agent, place);

-- Places grow in the order in which commits are seen. None is given twice, also where a row is gone: whoever listens goes on
-- behind the last place that they heard of.

CREATE TABLE assignment_heads (
    tenant INTEGER PRIMARY KEY,
    last   INTEGER NOT NULL
) WITHOUT ROWID;

-- Notes of many kinds lie beside an aggregate, and each kind is read by itself.

CREATE INDEX notes_by_kind ON notes (tenant, id, kind, seq);

-- Who wants to hear of an aggregate is found by who said so.

CREATE INDEX notes_of_subscribers ON notes (tenant, by, id, seq) WHERE kind = 'subscription';

-- A webhook may be about one aggregate: then it hears of all that happens to it, up to a moment if there is one. What of
-- that is sent is for whoever puts it into words.

ALTER TABLE webhooks ADD COLUMN about BLOB;
ALTER TABLE webhooks ADD COLUMN about_group INTEGER;    -- 1 = that is a group
ALTER TABLE webhooks ADD COLUMN subscriber TEXT;    -- who wants to hear
ALTER TABLE webhooks ADD COLUMN until INTEGER;

CREATE TABLE webhook_runs (
    tenant  INTEGER NOT NULL,
    run     BLOB    NOT NULL,
    webhook TEXT NOT NULL,
    PRIMARY KEY (tenant, run, webhook)
) WITHOUT ROWID;
