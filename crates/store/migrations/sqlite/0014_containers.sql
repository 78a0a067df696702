-- Runs that wait for other runs, and groups of runs. All but the last table follow from the journals; that one only
-- counts how often somebody had a run wait for another that was there already, so that two can't close a circle.

CREATE TABLE dependencies (
    tenant   INTEGER NOT NULL,
    run      BLOB    NOT NULL,
    upstream BLOB    NOT NULL,     -- the run that it waits for
    PRIMARY KEY (tenant, run, upstream)
) WITHOUT ROWID;

-- Whether one run waits for another is looked for from both ends at once.
CREATE INDEX dependencies_by_upstream ON dependencies (tenant, upstream, run);
CREATE INDEX children_by_child ON children (tenant, child, parent);

CREATE TABLE watchers (
    tenant  INTEGER NOT NULL,
    run     BLOB    NOT NULL,
    watcher BLOB    NOT NULL,      -- a run or a group that is told how it stands
    PRIMARY KEY (tenant, run, watcher)
) WITHOUT ROWID;

CREATE TABLE members (
    tenant     INTEGER NOT NULL,
    grp        BLOB    NOT NULL,
    run        BLOB    NOT NULL,
    role       INTEGER NOT NULL,
    priority   INTEGER NOT NULL,
    added_at   INTEGER NOT NULL,
    status     INTEGER NOT NULL,   -- as far as the group has heard
    since      INTEGER,            -- since when it waits for people
    expires_at INTEGER,
    cost       INTEGER NOT NULL,   -- in millionths of a dollar
    heard      INTEGER NOT NULL,   -- its sequence then
    PRIMARY KEY (tenant, grp, run)
) WITHOUT ROWID;

CREATE INDEX members_by_run ON members (tenant, run, grp);

CREATE TABLE circles (
    tenant  INTEGER PRIMARY KEY,
    version INTEGER NOT NULL
) WITHOUT ROWID;
