-- Which run of a tenant has a conversation's id. The id itself stands in the journal alone; here it is a hash.
CREATE TABLE conversations (
    tenant BIGINT NOT NULL,
    name   BYTEA  NOT NULL,
    run    BYTEA  NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE INDEX conversations_by_run ON conversations (tenant, run);

-- How far an approval has come, as numbers in JSON, for lists: votes, and questions back that nobody has answered.
ALTER TABLE interrupts ADD COLUMN headway TEXT;
