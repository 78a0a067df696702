-- Who is told of events, and what is on its way to them. None of this follows from the journals: what is still to be
-- sent depends on who asked for it, and on what the receivers answered.

CREATE TABLE webhooks (
    tenant        INTEGER NOT NULL,
    id            TEXT    NOT NULL,
    url           TEXT    NOT NULL,
    types         TEXT    NOT NULL,    -- JSON: names of event types as they were asked for; "*" stands for all
    tags          TEXT    NOT NULL,    -- JSON: only runs that carry all of these
    sealed        BLOB    NOT NULL,    -- the secret that signs, under a key of the keyring
    fingerprint   TEXT    NOT NULL,    -- of the secret, for people who compare
    created_at    INTEGER NOT NULL,
    created_by    TEXT,
    failed        INTEGER NOT NULL,    -- 1 = nothing is tried until somebody enables it
    failures      INTEGER NOT NULL,    -- in a row
    failing_since INTEGER,
    openings      INTEGER NOT NULL,    -- how often in a row the breaker opened
    open_until    INTEGER,             -- nothing is tried before
    delivered     INTEGER NOT NULL,    -- deliveries that arrived
    dropped       INTEGER NOT NULL,    -- dead letters that were forgotten for want of room
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

-- Which webhooks want to hear of an event, found by its type. A webhook that failed has no rows here.
CREATE TABLE webhook_types (
    tenant  INTEGER NOT NULL,
    type    INTEGER NOT NULL,
    webhook TEXT    NOT NULL,
    PRIMARY KEY (tenant, type, webhook)
) WITHOUT ROWID;

-- The next event of a run that a webhook is to be told of. The later ones stand in the journal, and follow when this
-- one has arrived or was given up: so they arrive in order, and a run takes one row however many events wait.
CREATE TABLE deliveries (
    tenant      INTEGER NOT NULL,
    webhook     TEXT    NOT NULL,
    run         BLOB    NOT NULL,
    seq         INTEGER NOT NULL,
    due         INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    last_at     INTEGER,
    last_status INTEGER,               -- of the HTTP answer, if there was one
    last_error  TEXT,
    PRIMARY KEY (tenant, webhook, run)
) WITHOUT ROWID;

CREATE INDEX deliveries_by_due ON deliveries (tenant, webhook, due);

-- Deliveries that were given up. They hold no payload: that is the journal's.
CREATE TABLE dead_letters (
    tenant      INTEGER NOT NULL,
    webhook     TEXT    NOT NULL,
    run         BLOB    NOT NULL,
    seq         INTEGER NOT NULL,
    due         INTEGER,               -- when it is sent once more, if somebody asked for that
    attempts    INTEGER NOT NULL,
    last_at     INTEGER,
    last_status INTEGER,
    last_error  TEXT,
    PRIMARY KEY (tenant, webhook, run, seq)
) WITHOUT ROWID;

CREATE INDEX dead_letters_by_due ON dead_letters (tenant, webhook, due) WHERE due IS NOT NULL;
