//! Everything that the crate offers, against real clusters.

mod databases;
