-- Which agents are to work on which intents. It follows from the journals; whoever listens for an agent reads it.

CREATE TABLE assignments (
    tenant BIGINT NOT NULL,
    run    BYTEA   NOT NULL,
    agent  TEXT    NOT NULL,
    seq    BIGINT NOT NULL,        -- the event that says so
    at     BIGINT NOT NULL,
    PRIMARY KEY (tenant, run, agent)
);

CREATE INDEX assignments_by_agent ON assignments (tenant, agent, at, run, seq);

-- Notes of many kinds lie beside an aggregate, and each kind is read by itself.

CREATE INDEX notes_by_kind ON notes (tenant, id, kind, seq);
