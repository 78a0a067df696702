-- Journals and blobs are the truth. Every other table but the last four follows from them.

CREATE TABLE aggregates (
    tenant      INTEGER NOT NULL,
    id          BLOB    NOT NULL,
    kind        INTEGER NOT NULL,  -- 1 = a run
    next        INTEGER NOT NULL,  -- the sequence that the next event gets; commits compare and set it
    chain       BLOB    NOT NULL,  -- the hash of the last event, compared with it: a commit fits one journal
    at          INTEGER NOT NULL,  -- the time of the last event
    status      INTEGER NOT NULL,
    workflow    TEXT,
    definition  BLOB,
    started_at  INTEGER NOT NULL,
    snapshot_at INTEGER,           -- how many events the snapshot has folded
    snapshot    BLOB,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE INDEX aggregates_by_status ON aggregates (tenant, kind, status, id);

CREATE TABLE events (
    tenant  INTEGER NOT NULL,
    id      BLOB    NOT NULL,
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    type    INTEGER NOT NULL,
    version INTEGER NOT NULL,
    cause   INTEGER,
    node    TEXT,
    salt    BLOB,                  -- the run's secret, beside event 0 only; erased with the payloads
    chain   BLOB    NOT NULL,
    payload BLOB,                  -- the event; NULL if it was erased, or is large and lies in a blob under its chain
    erased  BLOB,                  -- what is left of an erased payload
    PRIMARY KEY (tenant, id, seq)
) WITHOUT ROWID;

CREATE TABLE blobs (
    tenant INTEGER NOT NULL,
    hash   BLOB    NOT NULL,
    bytes  BLOB    NOT NULL,
    PRIMARY KEY (tenant, hash)
);

-- A work queue, claimed by due time: the one index that does not start with the tenant.
CREATE TABLE timers (
    due    INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    id     BLOB    NOT NULL,
    timer  TEXT    NOT NULL,
    PRIMARY KEY (due, tenant, id, timer)
) WITHOUT ROWID;

CREATE TABLE tasks (
    tenant    INTEGER NOT NULL,
    id        BLOB    NOT NULL,
    node      TEXT    NOT NULL,
    execution INTEGER NOT NULL,
    boot      INTEGER NOT NULL,    -- which start of a server holds the lease; 0 = nobody
    fence     INTEGER NOT NULL,    -- raised at each claim; a report with an older one is refused
    PRIMARY KEY (tenant, id, node, execution)
) WITHOUT ROWID;

CREATE TABLE outbox (
    tenant   INTEGER NOT NULL,
    sender   BLOB    NOT NULL,
    seq      INTEGER NOT NULL,
    receiver BLOB    NOT NULL,
    type     INTEGER NOT NULL,     -- 1 = how a run stands
    version  INTEGER NOT NULL,
    message  BLOB    NOT NULL,
    PRIMARY KEY (tenant, sender, seq, receiver)
) WITHOUT ROWID;

CREATE TABLE heard (
    tenant   INTEGER NOT NULL,
    receiver BLOB    NOT NULL,
    sender   BLOB    NOT NULL,
    seq      INTEGER NOT NULL,
    PRIMARY KEY (tenant, receiver, sender)
) WITHOUT ROWID;

CREATE TABLE tenants (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE api_keys (
    id         TEXT    PRIMARY KEY,
    tenant     INTEGER NOT NULL,
    principal  TEXT    NOT NULL,
    mac        BLOB    NOT NULL,   -- of the secret, under a key of the keyring
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) WITHOUT ROWID;

CREATE TABLE settings (
    name  TEXT    PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE event_types (
    code INTEGER PRIMARY KEY,
    name TEXT NOT NULL
);

-- For people with a SQL prompt: SELECT * FROM journal WHERE run = 'run-…'.
CREATE VIEW journal AS
SELECT e.tenant,
       'run-' || lower(substr(hex(e.id), 1, 8) || '-' || substr(hex(e.id), 9, 4) || '-' || substr(hex(e.id), 13, 4)
           || '-' || substr(hex(e.id), 17, 4) || '-' || substr(hex(e.id), 21)) AS run,
       e.seq,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.at / 1000.0, 'unixepoch') AS at,
       t.name AS type,
       e.node,
       CASE WHEN e.erased IS NOT NULL THEN '(erased)' ELSE CAST(coalesce(e.payload, b.bytes) AS TEXT) END AS payload
FROM events e
LEFT JOIN event_types t ON t.code = e.type
LEFT JOIN blobs b ON b.tenant = e.tenant AND b.hash = e.chain AND e.payload IS NULL;

INSERT INTO tenants (id, name) VALUES (1, 'default');
