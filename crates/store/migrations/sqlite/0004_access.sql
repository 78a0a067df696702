-- Who may come in, and what is known about people. None of it follows from the journals.

ALTER TABLE api_keys ADD COLUMN label TEXT;
ALTER TABLE api_keys ADD COLUMN scopes TEXT;                        -- a JSON array; NULL = all there are
ALTER TABLE api_keys ADD COLUMN roles TEXT NOT NULL DEFAULT '[]';   -- a JSON array
ALTER TABLE api_keys ADD COLUMN act_as INTEGER NOT NULL DEFAULT 0;  -- 1 = it may speak for others
ALTER TABLE api_keys ADD COLUMN expires_at INTEGER;
ALTER TABLE api_keys ADD COLUMN whole INTEGER NOT NULL DEFAULT 0;   -- 1 = the MAC is of the whole text that is sent

CREATE TABLE people (
    tenant       INTEGER NOT NULL,
    principal    TEXT    NOT NULL,
    display_name TEXT,
    roles        TEXT    NOT NULL,   -- a JSON array
    groups       TEXT    NOT NULL,   -- a JSON array
    addresses    TEXT    NOT NULL,   -- a JSON object: an address for each channel
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    PRIMARY KEY (tenant, principal)
) WITHOUT ROWID;
