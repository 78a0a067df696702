//! HTTP over the engine.
//!
//! A facade translates: words, ids, status names, error envelopes. It decides nothing. Everything under
//! `/v1` needs an API key, and everything a caller can reach is bound to that key's tenant.
//!
//! | what | where |
//! |---|---|
//! | OpenWOP's workflows, runs and events | `openwop/` |
//! | what is never shown of them | `openwop/mask.rs` |
//! | streams of events, shared by all who listen | `stream.rs` and `stream/` |
//! | a run's own journal | `journal.rs` |
//! | connections | `listen.rs` |
//! | the error envelope | `error.rs`, from the table in `abide-core` |
//! | API keys and the keyring | `auth.rs`, `keyring.rs` |
//! | users' named secrets | `secrets.rs`, `secrets_api.rs` |
//! | health, and the test clock of `abide dev` | `health.rs`, `dev.rs` |

mod app;
mod auth;
mod body;
mod dev;
mod error;
mod health;
mod journal;
pub mod keyring;
pub mod limits;
mod listen;
mod openwop;
mod secrets;
mod secrets_api;
mod stream;
mod time;

pub use app::{App, AppOptions};
pub use auth::{ApiSecret, Keys};
pub use keyring::Keyring;
pub use listen::serve;
pub use secrets::SecretStore;
pub use time::rfc3339;
