-- Which agents are to work on which intents. It follows from the journals; whoever listens for an agent reads it.

CREATE TABLE assignments (
    tenant BIGINT NOT NULL,
    run    BYTEA   NOT NULL,
    agent  TEXT    NOT NULL,
    seq    BIGINT NOT NULL,        -- the event that says so
    at     BIGINT NOT NULL,
    place  BIGINT NOT NULL,        -- where it lies among all that were ever said in the tenant
    PRIMARY KEY (tenant, run, agent)
);

CREATE INDEX assignments_by_agent ON assignments (tenant, agent, place);

-- Places grow in the order in which commits are seen: whoever takes one holds the row until they have committed. None is given
-- twice, also where a row is gone: whoever listens goes on behind the last place that they heard of.

CREATE TABLE assignment_heads (
    tenant BIGINT PRIMARY KEY,
    last   BIGINT NOT NULL
);

-- Notes of many kinds lie beside an aggregate, and each kind is read by itself.

CREATE INDEX notes_by_kind ON notes (tenant, id, kind, seq);
