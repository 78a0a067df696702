-- What waits for an answer, what happened elsewhere, and who is told that something waits. The first two tables follow
-- from the journals, the others do not.

-- One row for each open interrupt: the inbox. What is asked stands in the journal.
CREATE TABLE interrupts (
    tenant       INTEGER NOT NULL,
    run          BLOB    NOT NULL,
    id           BLOB    NOT NULL,     -- begins with the sequence of the event that asked, so the older one is smaller
    node         TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    title        TEXT    NOT NULL,     -- one line, with nothing that is not for everybody
    event_type   TEXT,                 -- of what resolves it, if it waits for an event
    keys         TEXT,                 -- a JSON array: the names of the values that such an event is found by
    sought       BLOB,                 -- the start of a hash of those values
    custom_kind  TEXT,
    approvers    TEXT    NOT NULL,     -- a JSON array of principals; empty = everybody
    requested_at INTEGER NOT NULL,
    deadline     INTEGER,              -- when it is given up
    PRIMARY KEY (tenant, run, id)
) WITHOUT ROWID;

CREATE INDEX interrupts_by_age ON interrupts (tenant, requested_at, run, id);
CREATE INDEX interrupts_by_kind ON interrupts (tenant, kind, requested_at, run, id);

-- An event finds those that wait for it in time that does not grow with the number of the others.
CREATE INDEX interrupts_by_event ON interrupts (tenant, event_type, keys, sought) WHERE event_type IS NOT NULL;

-- How many are open, so that nobody has to count them.
CREATE TABLE interrupt_counts (
    tenant INTEGER NOT NULL,
    kind   TEXT    NOT NULL,
    open   INTEGER NOT NULL,
    PRIMARY KEY (tenant, kind)
) WITHOUT ROWID;

-- What others say has happened. It is kept so that a repeat is known, and for whoever asks for it later.
CREATE TABLE external_events (
    tenant      INTEGER NOT NULL,
    id          TEXT    NOT NULL,      -- as the sender calls it
    type        TEXT    NOT NULL,
    digest      BLOB    NOT NULL,      -- of type and payload, so that another event under the same id is told apart
    payload     BLOB,                  -- JSON; NULL once it is in the journals of those that waited for it
    sender      TEXT    NOT NULL,      -- who said so
    received_at INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,      -- it is forgotten then, given to somebody or not
    state       INTEGER NOT NULL,      -- 0 = kept for whoever asks, 1 = being given, 2 = given
    targets     TEXT    NOT NULL,      -- a JSON array: whom it is given to
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE INDEX external_events_kept ON external_events (tenant, type, received_at, id) WHERE state = 0;
CREATE INDEX external_events_being_given ON external_events (tenant, id) WHERE state = 1;
CREATE INDEX external_events_by_expiry ON external_events (expires_at);

-- Who is to be told that an interrupt is open.
CREATE TABLE callbacks (
    tenant   INTEGER NOT NULL,
    run      BLOB    NOT NULL,
    id       BLOB    NOT NULL,
    url      TEXT    NOT NULL,
    due      INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    PRIMARY KEY (tenant, run, id)
) WITHOUT ROWID;

CREATE INDEX callbacks_by_due ON callbacks (due, tenant, run, id);
