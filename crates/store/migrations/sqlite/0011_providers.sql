-- How downstreams do that runs depend on, and which turns wait for theirs. The waits follow from the journals; the
-- breakers don't.

-- A breaker that has ever opened. Only changes of its state and the permit of its probe are kept, never what it counts.
CREATE TABLE breakers (
    tenant     INTEGER NOT NULL,
    downstream TEXT    NOT NULL,
    version    INTEGER NOT NULL,       -- rises by one with every change
    state      TEXT    NOT NULL,       -- a JSON object
    PRIMARY KEY (tenant, downstream)
) WITHOUT ROWID;

-- Turns that wait for their provider.
CREATE TABLE provider_waits (
    tenant    INTEGER NOT NULL,
    id        BLOB    NOT NULL,        -- the run
    node      TEXT    NOT NULL,
    execution INTEGER NOT NULL,
    provider  TEXT    NOT NULL,
    postponed INTEGER NOT NULL,        -- 1 = for its breaker, 0 = for the turn's own next try
    since     INTEGER NOT NULL,
    until     INTEGER NOT NULL,
    PRIMARY KEY (tenant, id, node, execution)
) WITHOUT ROWID;

-- What waits for a breaker, oldest first. Those that wait for their own try have a timer and cost nothing here.
CREATE INDEX provider_waits_postponed ON provider_waits (tenant, provider, since, id, node, execution)
    WHERE postponed = 1;
