-- Runs that wait for other runs, and groups of runs. All but the last table follow from the journals; that one only
-- counts how often somebody had a run wait for another that was there already, so that two can't close a circle.

CREATE TABLE dependencies (
    tenant   BIGINT NOT NULL,
    run      BYTEA   NOT NULL,
    upstream BYTEA   NOT NULL,     -- the run that it waits for
    PRIMARY KEY (tenant, run, upstream)
);

-- Whether one run waits for another is looked for from both ends at once.
CREATE INDEX dependencies_by_upstream ON dependencies (tenant, upstream, run);
CREATE INDEX children_by_child ON children (tenant, child, parent);

CREATE TABLE watchers (
    tenant  BIGINT NOT NULL,
    run     BYTEA   NOT NULL,
    watcher BYTEA   NOT NULL,      -- a run or a group that is told how it stands
    PRIMARY KEY (tenant, run, watcher)
);

CREATE TABLE members (
    tenant     BIGINT NOT NULL,
    grp        BYTEA   NOT NULL,
    run        BYTEA   NOT NULL,
    role       BIGINT NOT NULL,
    priority   BIGINT NOT NULL,
    added_at   BIGINT NOT NULL,
    status     BIGINT NOT NULL,   -- as far as the group has heard
    since      BIGINT,            -- since when it waits for people
    expires_at BIGINT,
    cost       BIGINT NOT NULL,   -- in millionths of a dollar
    heard      BIGINT NOT NULL,   -- its sequence then
    PRIMARY KEY (tenant, grp, run)
);

CREATE INDEX members_by_run ON members (tenant, run, grp);

CREATE TABLE circles (
    tenant  BIGINT PRIMARY KEY,
    version BIGINT NOT NULL
);
