//! What a test's data lies in: a directory, or a PostgreSQL database of its own where `ABIDE_TEST_STORE=postgres` is set.
//!
//! The tests are the same for both. They name the directory, and `on_postgres.sh` puts the database in its place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use abide_pgtest::{Cluster, Database};
use abide_store::{Postgres, Sealing};

use super::PATIENCE;

/// Tables that say which servers there are, and nothing about what they keep.
const OF_SERVERS: [&str; 4] = ["settings", "servers", "roles", "migrations"];

/// What the data lies in.
pub(super) enum Ground {
    /// A file in the directory.
    File(PathBuf),
    /// A database, whose address stands in a file beside the directory.
    Postgres(Database),
}

/// Whether the tests run on PostgreSQL.
fn on_postgres() -> bool {
    match std::env::var("ABIDE_TEST_STORE").unwrap_or_default().as_str() {
        "" | "sqlite" => false,
        "postgres" => true,
        other => panic!("ABIDE_TEST_STORE={other} is not known; use sqlite or postgres"),
    }
}

/// The command that runs the binary under test.
pub(super) fn command(binary: &str) -> Command {
    if !on_postgres() {
        return Command::new(binary);
    }
    let mut command = Command::new("/bin/sh");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support/on_postgres.sh");
    command.arg(script).arg(binary);
    command
}

/// A database with the tables in it: copying one is quicker than making them for every test.
fn template() -> &'static str {
    static TEMPLATE: OnceLock<Database> = OnceLock::new();
    let made = || {
        let database = Database::new();
        drop(Postgres::open_beside(&database.url(), Sealing::in_clear()).unwrap());
        database.mark_as_template();
        database
    };
    TEMPLATE.get_or_init(made).name()
}

impl Ground {
    /// For a data directory at this place.
    pub(super) fn beside(data: &Path) -> Self {
        if !on_postgres() {
            return Self::File(data.join("abide.db"));
        }
        let database = Cluster::shared().database_from(template());
        std::fs::write(data.with_extension("postgres"), database.url() + "\n").unwrap();
        Self::Postgres(database)
    }

    /// The file of the data directory, beside a server that may be running.
    pub(super) fn file(&self) -> rusqlite::Connection {
        let Self::File(file) = self else {
            panic!("this test looks into a file; it belongs into tests/it/left_out_on_postgres.txt");
        };
        let database = rusqlite::Connection::open(file).unwrap();
        database.busy_timeout(PATIENCE).unwrap();
        database
    }

    /// The only text that a query gives.
    pub(super) fn text(&self, sql: &str) -> String {
        match self {
            Self::File(_) => self.file().query_one(sql, [], |row| row.get(0)).unwrap(),
            Self::Postgres(database) => database.sql(sql),
        }
    }

    /// The only number that a query gives.
    pub(super) fn count(&self, sql: &str) -> u64 {
        match self {
            Self::File(_) => self.file().query_one(sql, [], |row| row.get(0)).unwrap(),
            Self::Postgres(database) => database.sql(sql).parse().unwrap(),
        }
    }

    /// Changes rows past the server, and tells how many.
    pub(super) fn change(&self, sql: &str) -> u64 {
        match self {
            Self::File(_) => self.file().execute(sql, []).unwrap() as u64,
            Self::Postgres(database) => {
                let counted = format!("WITH changed AS ({sql} RETURNING 1) SELECT count(*) FROM changed");
                database.sql(&counted).parse().unwrap()
            }
        }
    }

    /// How many rows that are such each table has, or each that says whose its rows are.
    pub(super) fn rows(&self, such: &str, owned: bool) -> BTreeMap<String, u64> {
        let tables: Vec<String> = match self {
            Self::File(_) => self.lines(
                "SELECT m.name FROM sqlite_schema m WHERE m.type = 'table' AND (?1 = 0 OR EXISTS \
                 (SELECT 1 FROM pragma_table_info(m.name) WHERE name = 'tenant'))",
                owned,
            ),
            Self::Postgres(_) => self.lines(
                "SELECT t.table_name FROM information_schema.tables t WHERE t.table_schema = 'public' AND (?1 = 0 OR EXISTS \
                 (SELECT 1 FROM information_schema.columns c WHERE c.table_name = t.table_name AND c.column_name = 'tenant'))",
                owned,
            ),
        };
        let counted = tables.into_iter().filter(|table| owned || !OF_SERVERS.contains(&table.as_str()));
        let count = |table: String| format!("SELECT '{table}=' || count(*) FROM {table} WHERE {such}");
        let all = counted.map(count).collect::<Vec<_>>().join(" UNION ALL ");
        let split = |line: String| {
            let (table, count) = line.split_once('=').unwrap();
            (table.to_owned(), count.parse().unwrap())
        };
        self.lines(&all, false).into_iter().map(split).collect()
    }

    /// The first column of a query whose only parameter is `owned`.
    fn lines(&self, sql: &str, owned: bool) -> Vec<String> {
        let sql = sql.replace("?1", if owned { "1" } else { "0" });
        match self {
            Self::File(_) => {
                let file = self.file();
                let mut statement = file.prepare(&sql).unwrap();
                statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            }
            Self::Postgres(database) => database.sql(&sql).lines().map(str::to_owned).collect(),
        }
    }
}
