//! The contract of `Store`. Every engine passes it; nothing in it knows which one it is.

mod access;
mod admin;
mod annotations;
mod audit;
mod audit_log;
mod children;
mod commits;
mod containers;
mod erasure;
pub(crate) mod external;
mod inbox;
mod isolation;
mod notices;
mod people;
mod providers;
mod queues;
mod reads;
mod receipts;
mod records;
mod secrets;
mod sessions;
mod webhooks;
mod work;
mod workflows;
