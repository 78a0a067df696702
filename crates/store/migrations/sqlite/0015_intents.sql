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
