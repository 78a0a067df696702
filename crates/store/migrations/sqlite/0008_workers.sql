-- What workers do: tasks that wait for one or are in one's hands, the kinds of nodes that they provide, and what their
-- agents are to be called for. Which tasks there are follows from the journals; who has them, and the rest, does not.

CREATE TABLE work (
    tenant     INTEGER NOT NULL,
    id         BLOB    NOT NULL,       -- the run
    node       TEXT    NOT NULL,
    execution  INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    agent      TEXT,                   -- the only one whose workers may have it
    fence      INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    timeout_ms INTEGER,                -- how long a worker may take
    queued_at  INTEGER NOT NULL,
    session    BLOB,                   -- who has it
    claimed_at INTEGER,
    called_off INTEGER NOT NULL,       -- 1 = whoever has it is to stop
    PRIMARY KEY (tenant, id, node, execution)
) WITHOUT ROWID;

-- What nobody has, oldest first. There is none for what somebody has: that is kept in memory, and read once, at a start.
CREATE INDEX work_waiting ON work (tenant, kind, queued_at, id, node, execution) WHERE session IS NULL;

CREATE TABLE kinds (
    tenant        INTEGER NOT NULL,
    kind          TEXT    NOT NULL,
    agent         TEXT    NOT NULL,    -- who provided it last
    idempotent    INTEGER NOT NULL,
    reversible    INTEGER NOT NULL,
    timeout_ms    INTEGER,
    code_version  TEXT,
    registered_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, kind)
) WITHOUT ROWID;

-- One call of an agent about an interrupt, until one of its workers has taken it.
CREATE TABLE hooks (
    tenant    INTEGER NOT NULL,
    run       BLOB    NOT NULL,
    interrupt BLOB    NOT NULL,
    hook      INTEGER NOT NULL,        -- 0 = input requested, 1 = input received, 2 = suspension expired
    attempt   INTEGER NOT NULL,
    agent     TEXT    NOT NULL,
    queued_at INTEGER NOT NULL,
    due       INTEGER NOT NULL,        -- when it is tried next
    tries     INTEGER NOT NULL,
    PRIMARY KEY (tenant, run, interrupt, hook, attempt)
) WITHOUT ROWID;

CREATE INDEX hooks_by_agent ON hooks (tenant, agent, due);
