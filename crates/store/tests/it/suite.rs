//! The contract of `Store`. Every engine passes it; nothing in it knows which one it is.

mod admin;
mod audit;
mod commits;
mod isolation;
mod queues;
mod reads;
