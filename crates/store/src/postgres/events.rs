//! The events of a whole batch, column by column, so that they go into the journal with one statement.

use std::borrow::Cow;

use tokio_postgres::types::ToSql;

use crate::db::Value;

/// Appends all events of a batch. The columns are those of the statement that appends one.
pub(super) const APPEND_ALL: &str = "INSERT INTO events \
    (tenant, id, seq, at, type, version, cause, node, salt, chain, payload) \
    SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], \
    $7::bigint[], $8::text[], $9::bytea[], $10::bytea[], $11::bytea[])";

/// How many columns an event has.
const COLUMNS: usize = 11;

/// One column of all events.
enum Column<'a> {
    Numbers(Vec<Option<i64>>),
    Texts(Vec<Option<Cow<'a, str>>>),
    Bytes(Vec<Option<&'a [u8]>>),
}

/// Events, column by column.
pub(super) struct Events<'a>(Vec<Column<'a>>);

impl<'a> Events<'a> {
    /// Of events that are given as the values of the statement that appends one.
    pub(super) fn of(rows: impl Iterator<Item = &'a [Value<'a>]>) -> Self {
        let numbers = || Column::Numbers(Vec::new());
        let (texts, bytes) = (|| Column::Texts(Vec::new()), || Column::Bytes(Vec::new()));
        let mut columns = vec![numbers(), bytes()];
        columns.extend((2..7).map(|_| numbers()));
        columns.extend([texts(), bytes(), bytes(), bytes()]);
        for row in rows {
            assert_eq!(row.len(), COLUMNS, "an event has as many values as columns");
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        Self(columns)
    }

    /// As the parameters of the statement.
    pub(super) fn columns(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.0.iter().map(Column::parameter).collect()
    }
}

impl<'a> Column<'a> {
    fn parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Numbers(values) => values,
            Self::Texts(values) => values,
            Self::Bytes(values) => values,
        }
    }

    fn push(&mut self, value: &'a Value<'a>) {
        match (self, value) {
            (Self::Numbers(values), Value::Int(number)) => values.push(Some(*number)),
            (Self::Texts(values), Value::Text(text)) => values.push(Some(kept(text))),
            (Self::Bytes(values), Value::Blob(bytes)) => values.push(Some(bytes)),
            (Self::Numbers(values), _) => values.push(None),
            (Self::Texts(values), _) => values.push(None),
            (Self::Bytes(values), _) => values.push(None),
        }
    }
}

/// A text as PostgreSQL can keep it: it has none with a NUL.
pub(super) fn kept(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::APPEND;

    #[test]
    fn the_columns_are_those_of_the_statement_that_appends_one() {
        let columns = |sql: &str| sql.split_once('(').unwrap().1.split_once(')').unwrap().0.to_owned();
        assert_eq!(columns(APPEND_ALL), columns(APPEND));
        assert_eq!(columns(APPEND).split(',').count(), COLUMNS);
    }
}
