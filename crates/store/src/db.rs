//! What the tables' code sees of a database: statements, rows and values, whichever engine is behind them.
//!
//! The SQL is one text for both engines. Parameters are written `$1`, `$2` … in the order of their first appearance, or
//! `?1`, `?2` … where one is used again out of order; SQLite reads both, and the PostgreSQL engine makes one of the
//! other. What stands in a comment (`/* FOR UPDATE */`) is for PostgreSQL alone. Booleans are 0 and 1 in columns, and whatever kind of truth an expression gives is read as one.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use abide_core::TenantId;

use crate::postgres::session::{self, Session};
use crate::sealing::Unopened;

/// What can go wrong between a statement and its rows.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite's own.
    Sqlite(rusqlite::Error),
    /// PostgreSQL's own.
    Postgres(session::Fault),
    /// There is no row where one has to be.
    NoRow,
    /// What stands in a column is not what was put there.
    Unreadable {
        /// Which column of the row.
        column: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// What stands there is sealed under a key that is not at hand, or can't be sealed.
    Sealed(String),
    /// The same, but the key is on its way.
    Awaited(String),
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    /// Whether one row can't be read, and others may be.
    pub(crate) fn is_conversion(&self) -> bool {
        matches!(self, Self::Unreadable { .. } | Self::Sealed(_) | Self::Awaited(_))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(error) => error.fmt(to),
            Self::Postgres(error) => error.fmt(to),
            Self::NoRow => to.write_str("a row is missing"),
            Self::Unreadable { column, reason } => write!(to, "column {column} can't be read: {reason}"),
            Self::Sealed(reason) | Self::Awaited(reason) => to.write_str(reason),
        }
    }
}

impl std::error::Error for Fault {}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<session::Fault> for Fault {
    fn from(error: session::Fault) -> Self {
        Self::Postgres(error)
    }
}

impl From<Unopened> for Fault {
    fn from(error: Unopened) -> Self {
        if error.for_now { Self::Awaited(error.reason) } else { Self::Sealed(error.reason) }
    }
}

/// Stands at the end of a statement whose rows are taken: several servers that look at the same time find others each.
/// To an engine with one writer it is a comment.
pub(crate) const SKIP_LOCKED: &str = "/* FOR UPDATE SKIP LOCKED */";

/// A row that need not be there.
pub(crate) trait Optional<T> {
    /// `None` if there is no row.
    fn optional(self) -> Result<Option<T>>;
}

impl<T> Optional<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(row) => Ok(Some(row)),
            Err(Fault::NoRow) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// One parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// SQL's null.
    Null,
    /// A whole number.
    Int(i64),
    /// Text.
    Text(Cow<'a, str>),
    /// Bytes.
    Blob(Cow<'a, [u8]>),
}

impl Value<'_> {
    /// A value of whatever can be one, borrowing nothing.
    pub(crate) fn owned(value: &(impl ToValue + ?Sized)) -> Value<'static> {
        match value.to_value() {
            Value::Null => Value::Null,
            Value::Int(number) => Value::Int(number),
            Value::Text(text) => Value::Text(text.into_owned().into()),
            Value::Blob(bytes) => Value::Blob(bytes.into_owned().into()),
        }
    }
}

/// What can be a parameter.
pub(crate) trait ToValue {
    fn to_value(&self) -> Value<'_>;
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl ToValue for $type {
            fn to_value(&self) -> Value<'_> {
                // No number on disk is beyond what the engines count with, so one that is stands for the last.
                Value::Int(i64::try_from(*self).unwrap_or(i64::MAX))
            }
        }

        impl FromValue for $type {
            fn from_value(value: ValueRef<'_>) -> std::result::Result<Self, String> {
                let ValueRef::Int(number) = value else { return Err(value.instead_of("a number")) };
                number.try_into().map_err(|_| format!("{number} is out of range"))
            }
        }
    )*};
}

whole_numbers!(i64, u64, u32, u16, u8, usize);

impl ToValue for bool {
    fn to_value(&self) -> Value<'_> {
        Value::Int(i64::from(*self))
    }
}

impl ToValue for str {
    fn to_value(&self) -> Value<'_> {
        Value::Text(self.into())
    }
}

impl ToValue for String {
    fn to_value(&self) -> Value<'_> {
        Value::Text(self.as_str().into())
    }
}

impl ToValue for [u8] {
    fn to_value(&self) -> Value<'_> {
        Value::Blob(self.into())
    }
}

impl ToValue for Vec<u8> {
    fn to_value(&self) -> Value<'_> {
        Value::Blob(self.as_slice().into())
    }
}

impl<const N: usize> ToValue for [u8; N] {
    fn to_value(&self) -> Value<'_> {
        Value::Blob(self.as_slice().into())
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, ToValue::to_value)
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Value<'_> {
        (**self).to_value()
    }
}

impl ToValue for Value<'_> {
    fn to_value(&self) -> Value<'_> {
        match self {
            Value::Null => Value::Null,
            Value::Int(number) => Value::Int(*number),
            Value::Text(text) => Value::Text(Cow::Borrowed(text)),
            Value::Blob(bytes) => Value::Blob(Cow::Borrowed(bytes)),
        }
    }
}

/// The parameters of one execution.
pub(crate) trait Values {
    fn values(&self) -> Vec<Value<'_>>;
}

impl<T: ToValue> Values for [T] {
    fn values(&self) -> Vec<Value<'_>> {
        self.iter().map(ToValue::to_value).collect()
    }
}

impl<T: ToValue, const N: usize> Values for [T; N] {
    fn values(&self) -> Vec<Value<'_>> {
        self.as_slice().values()
    }
}

impl<T: ToValue> Values for Vec<T> {
    fn values(&self) -> Vec<Value<'_>> {
        self.as_slice().values()
    }
}

impl<T: Values + ?Sized> Values for &T {
    fn values(&self) -> Vec<Value<'_>> {
        (**self).values()
    }
}

impl Values for () {
    fn values(&self) -> Vec<Value<'_>> {
        Vec::new()
    }
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),+))*) => {$(
        impl<$($name: ToValue),+> Values for ($($name,)+) {
            fn values(&self) -> Vec<Value<'_>> {
                vec![$(self.$at.to_value()),+]
            }
        }
    )*};
}

tuples! {
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12)
}

/// One column of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueRef<'r> {
    Null,
    Int(i64),
    Text(&'r str),
    Blob(&'r [u8]),
    /// What no column of ours holds: a fraction, or text that is none.
    Other(&'static str),
}

impl ValueRef<'_> {
    fn instead_of(self, expected: &str) -> String {
        let found = match self {
            Self::Null => "nothing",
            Self::Int(_) => "a number",
            Self::Text(_) => "text",
            Self::Blob(_) => "bytes",
            Self::Other(what) => what,
        };
        format!("{found} stands where {expected} should")
    }
}

/// What can be read from a column.
pub(crate) trait FromValue: Sized {
    fn from_value(value: ValueRef<'_>) -> std::result::Result<Self, String>;
}

impl FromValue for bool {
    fn from_value(value: ValueRef<'_>) -> std::result::Result<Self, String> {
        i64::from_value(value).map(|number| number != 0)
    }
}

impl FromValue for String {
    fn from_value(value: ValueRef<'_>) -> std::result::Result<Self, String> {
        let ValueRef::Text(text) = value else { return Err(value.instead_of("text")) };
        Ok(text.to_owned())
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: ValueRef<'_>) -> std::result::Result<Self, String> {
        let ValueRef::Blob(bytes) = value else { return Err(value.instead_of("bytes")) };
        Ok(bytes.to_vec())
    }
}

impl FromValue for Arc<[u8]> {
    fn from_value(value: ValueRef<'_>) -> std::result::Result<Self, String> {
        let ValueRef::Blob(bytes) = value else { return Err(value.instead_of("bytes")) };
        Ok(bytes.into())
    }
}

impl<const N: usize> FromValue for [u8; N] {
    fn from_value(value: ValueRef<'_>) -> std::result::Result<Self, String> {
        let ValueRef::Blob(bytes) = value else { return Err(value.instead_of("bytes")) };
        bytes.try_into().map_err(|_| format!("{} bytes stand where {N} should", bytes.len()))
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: ValueRef<'_>) -> std::result::Result<Self, String> {
        if let ValueRef::Null = value { Ok(None) } else { T::from_value(value).map(Some) }
    }
}

/// One row of an answer.
pub(crate) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r tokio_postgres::Row),
}

impl Row<'_> {
    /// Reads a column.
    pub(crate) fn get<T: FromValue>(&self, column: usize) -> Result<T> {
        let value = match self {
            Self::Sqlite(row) => of_sqlite(row.get_ref(column)?),
            Self::Postgres(row) => session::value(row, column)?,
        };
        T::from_value(value).map_err(|reason| Fault::Unreadable { column, reason })
    }
}

fn of_sqlite(value: rusqlite::types::ValueRef<'_>) -> ValueRef<'_> {
    use rusqlite::types::ValueRef as Sqlite;
    match value {
        Sqlite::Null => ValueRef::Null,
        Sqlite::Integer(number) => ValueRef::Int(number),
        Sqlite::Real(_) => ValueRef::Other("a fraction"),
        Sqlite::Text(text) => {
            str::from_utf8(text).map_or(ValueRef::Other("text that is none"), ValueRef::Text)
        }
        Sqlite::Blob(bytes) => ValueRef::Blob(bytes),
    }
}

/// The lock that commits share, and that a change of what every commit has to know takes alone.
pub(crate) const COMMITS: i64 = 0x4142_4944;

/// A connection to either engine. Whether a transaction is open on it is up to whoever made it.
#[derive(Clone, Copy)]
pub(crate) enum Connection<'c> {
    Sqlite(&'c rusqlite::Connection),
    Postgres(&'c Session),
}

impl<'c> Connection<'c> {
    /// Prepares a statement, or finds it prepared.
    pub(crate) fn prepare_cached(self, sql: &str) -> Result<Statement<'c>> {
        Ok(match self {
            Self::Sqlite(connection) => Statement::Sqlite(connection.prepare_cached(sql)?),
            Self::Postgres(session) => Statement::Postgres(session, session.prepare(sql)?),
        })
    }

    /// Executes a statement and counts the rows that it wrote.
    pub(crate) fn execute(self, sql: &str, values: impl Values) -> Result<usize> {
        self.prepare_cached(sql)?.execute(values)
    }

    /// The one row of an answer.
    pub(crate) fn query_row<T>(
        self,
        sql: &str,
        values: impl Values,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.prepare_cached(sql)?.query_row(values, read)
    }

    /// The first so many rows that can be read, of a statement that sets no limit itself. The others are logged: in a
    /// queue or a list, one bad row must not hide the rest, nor make a page look like the last.
    pub(crate) fn readable<T>(
        self,
        sql: &str,
        values: impl Values,
        limit: usize,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        if let Self::Sqlite(_) = self {
            return readable(self.prepare_cached(sql)?.query_map(values, read)?, limit);
        }
        // PostgreSQL gives all rows at once, so it is asked for no more than are wanted.
        let values = values.values();
        let (count, limit) = (values.len(), i64::try_from(limit).unwrap_or(i64::MAX));
        let sql = format!("{sql} LIMIT ${} OFFSET ${}", count + 1, count + 2);
        let mut statement = self.prepare_cached(&sql)?;
        let (mut found, mut passed) = (Vec::new(), 0_i64);
        loop {
            let mut page = values.clone();
            page.extend([Value::Int(limit), Value::Int(passed)]);
            let rows: Vec<Result<T>> = statement.query_map(page, &mut read)?.collect();
            let given = rows.len() as i64;
            found.extend(readable(rows.into_iter(), limit as usize - found.len())?);
            passed += given;
            if given < limit || found.len() as i64 == limit {
                return Ok(found);
            }
        }
    }

    /// Has all others wait that say the same, until the transaction is over. What only one writer at a time may do needs
    /// this where there are several.
    pub(crate) fn exclude(self, what: &str, tenant: TenantId) -> Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(_) => {
                let sql = "SELECT pg_advisory_xact_lock(hashtextextended($1, $2)) IS NULL";
                self.query_row(sql, (what, tenant.0), |_| Ok(()))
            }
        }
    }

    /// Has all commits wait, on whichever server, until the transaction is over.
    pub(crate) fn exclude_commits(self) -> Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(_) => {
                self.query_row("SELECT pg_advisory_xact_lock($1) IS NULL", [COMMITS], |_| Ok(()))
            }
        }
    }

    /// Makes the reads that follow see one moment, for as long as the answer is held, unless they do already.
    pub(crate) fn one_moment(self) -> Result<Moment<'c>> {
        Ok(match self {
            Self::Sqlite(connection) if connection.is_autocommit() => {
                Moment::Sqlite { _transaction: connection.unchecked_transaction()? }
            }
            Self::Sqlite(_) => Moment::Held,
            Self::Postgres(session) => {
                session.one_moment()?.map_or(Moment::Held, |moment| Moment::Postgres { _moment: moment })
            }
        })
    }
}

/// Held for as long as reads see one moment.
pub(crate) enum Moment<'c> {
    /// Somebody else holds it.
    Held,
    Sqlite {
        _transaction: rusqlite::Transaction<'c>,
    },
    Postgres {
        _moment: session::Moment<'c>,
    },
}

/// A prepared statement.
pub(crate) enum Statement<'c> {
    Sqlite(rusqlite::CachedStatement<'c>),
    Postgres(&'c Session, tokio_postgres::Statement),
}

impl Statement<'_> {
    /// Executes it and counts the rows that it wrote.
    pub(crate) fn execute(&mut self, values: impl Values) -> Result<usize> {
        let values = values.values();
        Ok(match self {
            Self::Sqlite(statement) => statement.execute(rusqlite::params_from_iter(&values))?,
            Self::Postgres(session, statement) => session.execute(statement, &values)?,
        })
    }

    /// Reads rows as they are asked for.
    pub(crate) fn query_map<T, F>(&mut self, values: impl Values, read: F) -> Result<Mapped<'_, F>>
    where
        F: FnMut(&Row<'_>) -> Result<T>,
    {
        let values = values.values();
        let rows = match self {
            Self::Sqlite(statement) => Rows::Sqlite(statement.query(rusqlite::params_from_iter(&values))?),
            Self::Postgres(session, statement) => {
                Rows::Postgres(session.query(statement, &values)?.into_iter())
            }
        };
        Ok(Mapped { rows, read })
    }

    /// The one row of an answer.
    pub(crate) fn query_row<T>(
        &mut self,
        values: impl Values,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut read = Some(read);
        let mut rows = self.query_map(values, |row| read.take().map(|read| read(row)).transpose())?;
        rows.next().transpose()?.flatten().ok_or(Fault::NoRow)
    }

    /// Whether there is a row at all.
    pub(crate) fn exists(&mut self, values: impl Values) -> Result<bool> {
        Ok(self.query_row(values, |_| Ok(())).optional()?.is_some())
    }
}

enum Rows<'s> {
    Sqlite(rusqlite::Rows<'s>),
    Postgres(std::vec::IntoIter<tokio_postgres::Row>),
}

/// Rows on their way, each read as it comes.
pub(crate) struct Mapped<'s, F> {
    rows: Rows<'s>,
    read: F,
}

impl<T, F: FnMut(&Row<'_>) -> Result<T>> Iterator for Mapped<'_, F> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        match &mut self.rows {
            Rows::Sqlite(rows) => match rows.next() {
                Ok(row) => row.map(|row| (self.read)(&Row::Sqlite(row))),
                Err(error) => Some(Err(error.into())),
            },
            Rows::Postgres(rows) => rows.next().map(|row| (self.read)(&Row::Postgres(&row))),
        }
    }
}

/// The first so many rows that can be read.
pub(crate) fn readable<T>(rows: impl Iterator<Item = Result<T>>, limit: usize) -> Result<Vec<T>> {
    let mut read = Vec::new();
    for row in rows {
        if read.len() == limit {
            break;
        }
        match row {
            Ok(row) => read.push(row),
            Err(error) if error.is_conversion() => {
                tracing::error!(%error, "a row can't be read and is left out; run `abide verify`");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        use rusqlite::types::{ToSqlOutput, ValueRef};
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
