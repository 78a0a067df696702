-- Who is told that an interrupt waits, what became of that, and what agents ask for by default. None of it follows from
-- the journals.

-- Attempts that nobody was told of yet. A row leaves with the transaction that writes down whom it is for.
CREATE TABLE notices (
    tenant    INTEGER NOT NULL,
    run       BLOB    NOT NULL,
    interrupt BLOB    NOT NULL,
    attempt   INTEGER NOT NULL,
    at        INTEGER NOT NULL,        -- when the attempt began
    PRIMARY KEY (tenant, run, interrupt, attempt)
) WITHOUT ROWID;

-- One message to one recipient over one channel, or why there is none.
CREATE TABLE notice_deliveries (
    tenant    INTEGER NOT NULL,
    run       BLOB    NOT NULL,
    interrupt BLOB    NOT NULL,
    attempt   INTEGER NOT NULL,
    n         INTEGER NOT NULL,        -- which one of its attempt
    channel   TEXT    NOT NULL,        -- empty = there is none
    recipient TEXT    NOT NULL,        -- an address as the channel has it; empty = whomever the channel tells by itself
    person    TEXT,                    -- the principal whose address it is
    hint      TEXT,                    -- the channel that was asked for, if there is none of that name
    state     INTEGER NOT NULL,        -- 0 = waiting, 1 = sent, 2 = dead, 3 = superseded, 4 = refused, 5 = withdrawn, 6 = unreachable
    tries     INTEGER NOT NULL,
    due       INTEGER,                 -- when it is tried next
    reason    TEXT,                    -- why the last try failed, or why there is none
    sent_at   INTEGER,
    follow    TEXT,                    -- a JSON object: how the interrupt was closed, while the recipient is to be told
    PRIMARY KEY (tenant, run, interrupt, attempt, n)
) WITHOUT ROWID;

CREATE INDEX notice_deliveries_by_due ON notice_deliveries (tenant, channel, due) WHERE due IS NOT NULL;
CREATE INDEX notice_deliveries_failed ON notice_deliveries (tenant, state, run, interrupt, attempt, n)
    WHERE state IN (2, 4, 6);

-- How many messages somebody got lately. Rows that are too old to count go when the next message is sent.
CREATE TABLE notice_counts (
    tenant    INTEGER NOT NULL,
    channel   TEXT    NOT NULL,
    recipient TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    sent      INTEGER NOT NULL,
    PRIMARY KEY (tenant, channel, recipient, at)
) WITHOUT ROWID;

-- What an agent asks for when it asks people something.
CREATE TABLE agents (
    tenant     INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    policy     TEXT    NOT NULL,       -- a JSON object
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;
