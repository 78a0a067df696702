//! One connection to PostgreSQL, used by one thread at a time, which waits for each answer.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use bytes::BytesMut;
use tokio::runtime::Handle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Row, Statement};

use super::events::kept;
use crate::db::{Value, ValueRef};

/// How long one answer may take. What a server is asked for takes moments, so it is gone, or as good as gone.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// Opens a transaction. A server that stops in the middle of one must not hold up the others for longer than this; the
/// limits are set here and not for the connection, because a pooler between may give it to others.
pub(super) const BEGIN: &str = "BEGIN; SET LOCAL statement_timeout = 20000; SET LOCAL lock_timeout = 10000; \
    SET LOCAL idle_in_transaction_session_timeout = 10000";

/// Why PostgreSQL did not do what it was asked.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The connection is gone, or the server is, or it is one that takes no writes.
    Lost(String),
    /// It may well go through when it is tried again: somebody else was in the way.
    Again(String),
    /// It is the fault of what it was asked with: a broken constraint, a value that does not fit.
    Own(String),
    /// Anything else.
    Failed(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Lost(reason) | Self::Again(reason) | Self::Own(reason) | Self::Failed(reason)) = self;
        to.write_str(reason)
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(said) = error.as_db_error() else {
            let by_wire =
                std::error::Error::source(&error).is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
            // What is left is a value that can't be sent, or an answer that can't be read.
            return match error.is_closed() || by_wire {
                true => Self::Lost(words(&error)),
                false => Self::Own(words(&error)),
            };
        };
        let (code, reason) = (said.code(), format!("{} ({})", said.message(), said.code().code()));
        let again = [
            &SqlState::T_R_SERIALIZATION_FAILURE,
            &SqlState::T_R_DEADLOCK_DETECTED,
            &SqlState::LOCK_NOT_AVAILABLE,
            &SqlState::QUERY_CANCELED,
        ];
        match code.code().get(..2) {
            _ if again.contains(&code) => Self::Again(reason),
            // The connection, the server on its way down or up, one that only reads, one without room.
            Some("08" | "57" | "53") => Self::Lost(reason),
            Some("25") if matches!(code.code(), "25006" | "25P03" | "25P04") => Self::Lost(reason),
            Some("22" | "23") => Self::Own(reason),
            _ => Self::Failed(reason),
        }
    }
}

/// An error with its causes: PostgreSQL's client says little by itself.
pub(super) fn words(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    said
}

/// A connection and what was prepared on it.
pub(crate) struct Session {
    client: Client,
    runtime: Handle,
    prepared: RefCell<HashMap<String, Statement>>,
    /// Whether a transaction is open.
    open: Cell<bool>,
    /// Whether it sees one moment for good.
    pinned: Cell<bool>,
    /// Whether it can't be used any more.
    broken: Cell<bool>,
}

impl Session {
    pub(super) fn new(client: Client, runtime: Handle) -> Self {
        Self {
            client,
            runtime,
            prepared: RefCell::default(),
            open: Cell::new(false),
            pinned: Cell::new(false),
            broken: Cell::new(false),
        }
    }

    /// Whether it is fit to be used again: nothing is open on it, and the server is there.
    pub(super) fn is_sound(&self) -> bool {
        !self.broken.get() && (self.pinned.get() || !self.open.get()) && !self.client.is_closed()
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Waits for an answer, for as long as it makes sense.
    pub(super) fn wait<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Fault> {
        let waited = self.runtime.block_on(async { tokio::time::timeout(ANSWER_PATIENCE, answer).await });
        let answered = match waited {
            Ok(answered) => answered.map_err(Fault::from),
            Err(_) => Err(Fault::Lost(format!("no answer within {} s", ANSWER_PATIENCE.as_secs()))),
        };
        self.broken.set(self.broken.get() || matches!(answered, Err(Fault::Lost(_))));
        answered
    }

    /// Prepares a statement, or finds it prepared.
    pub(crate) fn prepare(&self, sql: &str) -> Result<Statement, Fault> {
        if let Some(known) = self.prepared.borrow().get(sql) {
            return Ok(known.clone());
        }
        let text = dialect(sql);
        let statement = self.wait(self.client.prepare(&text))?;
        self.prepared.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    pub(crate) fn execute(&self, statement: &Statement, values: &[Value<'_>]) -> Result<usize, Fault> {
        let written = self.wait(self.client.execute_raw(statement, values))?;
        Ok(usize::try_from(written).unwrap_or(usize::MAX))
    }

    pub(crate) fn query(&self, statement: &Statement, values: &[Value<'_>]) -> Result<Vec<Row>, Fault> {
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        self.wait(self.client.query(statement, &values))
    }

    /// Executes statements without parameters.
    pub(super) fn batch(&self, sql: &str) -> Result<(), Fault> {
        self.wait(self.client.batch_execute(sql))
    }

    /// Notes that a transaction is being opened.
    pub(super) fn open(&self) {
        self.open.set(true);
    }

    pub(super) fn begin(&self) -> Result<(), Fault> {
        self.open.set(true);
        self.batch(BEGIN)
    }

    pub(super) fn commit(&self) -> Result<(), Fault> {
        self.batch("SET LOCAL statement_timeout = 0; COMMIT")?;
        self.open.set(false);
        Ok(())
    }

    pub(super) fn roll_back(&self) {
        // Nothing was kept either way; a connection on which this fails is not used again.
        if self.batch("ROLLBACK").is_ok() {
            self.open.set(false);
        }
    }

    /// Makes all reads from now on see this moment.
    pub(super) fn pin(&self) -> Result<(), Fault> {
        self.open.set(true);
        self.pinned.set(true);
        self.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM settings")
    }

    /// Makes the reads that follow see one moment, unless they do already.
    pub(crate) fn one_moment(&self) -> Result<Option<Moment<'_>>, Fault> {
        if self.open.get() {
            return Ok(None);
        }
        self.open.set(true);
        self.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        Ok(Some(Moment(self)))
    }
}

/// Held for as long as reads see one moment.
pub(crate) struct Moment<'s>(&'s Session);

impl Drop for Moment<'_> {
    fn drop(&mut self) {
        self.0.roll_back();
    }
}

/// The few words of the one SQL text that PostgreSQL has others for.
fn dialect(sql: &str) -> String {
    let mut text = sql.replace('?', "$").replace(" NOT INDEXED", "").replace("x''", "''::bytea");
    text = text.replace("/*", "").replace("*/", "").replace("AS BLOB", "AS BYTEA");
    while let Some(at) = text.find(" INDEXED BY ") {
        let name = at + " INDEXED BY ".len();
        let end =
            text[name..].find(|letter: char| letter.is_whitespace()).map_or(text.len(), |end| name + end);
        text.replace_range(at..end, "");
    }
    text
}

/// What stands in a column.
pub(crate) fn value(row: &Row, column: usize) -> Result<ValueRef<'_>, Fault> {
    let kind = row.columns()[column].type_();
    let value = match *kind {
        Type::INT8 => row.try_get::<_, Option<i64>>(column)?.map(ValueRef::Int),
        Type::INT4 => row.try_get::<_, Option<i32>>(column)?.map(|number| ValueRef::Int(number.into())),
        Type::BOOL => row.try_get::<_, Option<bool>>(column)?.map(|truth| ValueRef::Int(truth.into())),
        Type::TEXT | Type::VARCHAR => row.try_get::<_, Option<&str>>(column)?.map(ValueRef::Text),
        Type::BYTEA => row.try_get::<_, Option<&[u8]>>(column)?.map(ValueRef::Blob),
        _ => Some(ValueRef::Other("a value of another kind")),
    };
    Ok(value.unwrap_or(ValueRef::Null))
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(number) if *kind == Type::INT4 => i32::try_from(*number)?.to_sql(kind, out),
            Value::Int(number) if *kind == Type::BOOL => (*number != 0).to_sql(kind, out),
            Value::Int(number) => number.to_sql(kind, out),
            // PostgreSQL keeps no NUL in a text. Nothing that is looked up by such a text can be there, and in words for
            // people it stands for a sign that can't be shown.
            Value::Text(text) => kept(text).to_sql(kind, out),
            Value::Blob(bytes) => (&**bytes).to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::dialect;

    #[test]
    fn what_postgresql_has_other_words_for_is_replaced() {
        let sql = "SELECT x'' FROM a i INDEXED BY a_by_b WHERE i.c = ?1 AND d = $2";
        assert_eq!(dialect(sql), "SELECT ''::bytea FROM a i WHERE i.c = $1 AND d = $2");
        assert_eq!(dialect("SELECT 1 FROM a NOT INDEXED WHERE b = ?1"), "SELECT 1 FROM a WHERE b = $1");
    }
}
