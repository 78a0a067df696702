-- Which agents are to work on which intents. It follows from the journals; whoever listens for an agent reads it.

CREATE TABLE assignments (
    tenant INTEGER NOT NULL,
    run    BLOB    NOT NULL,
    agent  TEXT    NOT NULL,
    seq    INTEGER NOT NULL,       -- the event that says so
    at     INTEGER NOT NULL,
    PRIMARY KEY (tenant, run, agent)
) WITHOUT ROWID;

CREATE INDEX assignments_by_agent ON assignments (tenant, agent, at, run, seq);

-- Notes of many kinds lie beside an aggregate, and each kind is read by itself.

CREATE INDEX notes_by_kind ON notes (tenant, id, kind, seq);
