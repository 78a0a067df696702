-- Where workers' sessions are, and who has a call or an event in hand: for when several servers share a store. None of it
-- follows from the journals.

CREATE TABLE sessions (
    tenant        INTEGER NOT NULL,
    id            BLOB    NOT NULL,
    home          INTEGER NOT NULL,    -- the start of the server that the worker talks to
    agent         TEXT    NOT NULL,
    about         TEXT    NOT NULL,    -- a JSON object: what it does, and how much of it at once
    registered_at INTEGER NOT NULL,
    seen_at       INTEGER NOT NULL,    -- when it was last heard of, as its home says every so often
    listening     INTEGER NOT NULL,    -- 1 = it waits for something to do
    gone          INTEGER NOT NULL,    -- 1 = its line broke off
    draining      INTEGER NOT NULL,    -- 1 = it gets no more
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

ALTER TABLE hooks ADD COLUMN held_until INTEGER NOT NULL DEFAULT 0;  -- until when one server sees to it
ALTER TABLE external_events ADD COLUMN giver INTEGER NOT NULL DEFAULT 0;  -- the start of the server that gives it
