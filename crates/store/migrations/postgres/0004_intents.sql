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

-- Who wants to hear of an aggregate is found by who said so.

CREATE INDEX notes_of_subscribers ON notes (tenant, by, id, seq) WHERE kind = 'subscription';

-- A webhook may be about one aggregate: then it hears of all that happens to it, up to a moment if there is one. What of
-- that is sent is for whoever puts it into words.

ALTER TABLE webhooks ADD COLUMN about BYTEA;
ALTER TABLE webhooks ADD COLUMN about_group BIGINT;    -- 1 = that is a group
ALTER TABLE webhooks ADD COLUMN subscriber TEXT;    -- who wants to hear
ALTER TABLE webhooks ADD COLUMN until BIGINT;

CREATE TABLE webhook_runs (
    tenant  BIGINT NOT NULL,
    run     BYTEA NOT NULL,
    webhook TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, run, webhook)
);
