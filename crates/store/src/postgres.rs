//! The engine for several servers: one PostgreSQL database that all of them share.

pub(crate) mod session;
