-- Runs that start runs, and what users keep beside them. The first table follows from the journals, the others do not.

CREATE TABLE children (
    tenant    INTEGER NOT NULL,
    parent    BLOB    NOT NULL,
    child     BLOB    NOT NULL,    -- its run comes about when the message that starts it is delivered
    node      TEXT    NOT NULL,    -- the parent's node that it stands for
    execution INTEGER NOT NULL,    -- which execution of that node
    cascade   INTEGER NOT NULL,    -- 1 = it is cancelled when its parent ends before it
    PRIMARY KEY (tenant, parent, child)
) WITHOUT ROWID;

-- Workflows as users pushed them. The bytes lie in a blob under their hash, where runs have their definitions too.
CREATE TABLE workflows (
    tenant     INTEGER NOT NULL,
    id         TEXT    NOT NULL,
    version    INTEGER NOT NULL,   -- counted from 1
    hash       BLOB    NOT NULL,
    name       TEXT    NOT NULL,   -- as its bytes say, so that a list need not read them
    created_at INTEGER NOT NULL,
    created_by TEXT,
    PRIMARY KEY (tenant, id, version)
) WITHOUT ROWID;

CREATE TABLE secrets (
    tenant     INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    sealed     BLOB    NOT NULL,   -- under a key of the keyring
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

-- What is said and done about an aggregate, and is no part of its life: it may go on after its journal has ended.
CREATE TABLE notes (
    tenant INTEGER NOT NULL,
    id     BLOB    NOT NULL,
    seq    INTEGER NOT NULL,       -- counted from 0 for each aggregate
    at     INTEGER NOT NULL,
    kind   TEXT    NOT NULL,       -- 'erased', and 'erasing' until that is done
    by     TEXT,
    body   BLOB    NOT NULL,       -- JSON
    salt   BLOB,                   -- while its erasure is under way: the journal's, which that needs to its end
    PRIMARY KEY (tenant, id, seq)
) WITHOUT ROWID;
