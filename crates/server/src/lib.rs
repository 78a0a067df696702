//! HTTP over the engine.
//!
//! A facade translates: words, ids, status names, error envelopes. It decides nothing. Everything under
//! `/v1` needs an API key, and everything a caller can reach is bound to that key's tenant.
//!
//! | what | where |
//! |---|---|
//! | the table of operations, from which router, gate and OpenAPI document are made | `routes.rs`, `operation.rs` |
//! | who may use them | `gate.rs`, `scope.rs` |
//! | OpenWOP's workflows, runs and events | `openwop/` |
//! | what is never shown of them | `openwop/mask.rs` |
//! | streams of events, shared by all who listen | `stream.rs` and `stream/` |
//! | a run's own journal, and its bundle for whoever looks into it | `journal.rs`, `openwop/bundle.rs` |
//! | connections, encrypted or not, and those that read nothing | `listen.rs`, `tls.rs`, `verbs.rs`, `stall.rs`, `outgoing.rs`, `unread.rs` |
//! | schemas of what goes in and out | `schemas.rs`, `shape.rs`, `openapi.rs` |
//! | what is not there, or has not changed | `nowhere.rs`, `conditional.rs` |
//! | the error envelope | `error.rs`, from the table in `abide-core` |
//! | requests that may be repeated | `idempotency.rs` |
//! | who asks: API keys, and tokens of an identity provider | `auth.rs`, `keys.rs`, `oidc.rs` |
//! | what signs and encrypts, and what hangs on it | `keyring.rs`, `keyring/`, `reseal.rs` |
//! | signed links that answer an interrupt | `token.rs` |
//! | how often, and how much at once | `rates.rs`, `admission.rs` |
//! | keys and the directory of people over HTTP | `keys_api.rs`, `people_api.rs`, `names.rs`, `page.rs` |
//! | the inbox and the answer page in a browser | `pages.rs` and `pages/` |
//! | what runs keep secret, on the disk | `sealing.rs` |
//! | runs that have ended are removed | `purge_api.rs` |
//! | users' named secrets | `secrets.rs`, `secrets_api.rs` |
//! | events to webhooks, signed | `webhooks.rs`, `openwop/webhooks.rs` |
//! | what is told of requests: the log, traces, metrics | `trace.rs`, `otlp.rs` and `otlp/`, `metrics.rs` |
//! | turns of models, and their providers | `turns_api.rs`, `providers_api.rs` |
//! | workers: what they are told, and what they do | `workers_api.rs` and `workers_api/` |
//! | servers that share a store | `cluster_api.rs` |
//! | runs that wait for others, groups, nodes done by hand | `graph_api.rs`, `groups_api.rs`, `hand_api.rs`, `coordinator_api.rs` |
//! | the same in OpenIntent's words | `openintent.rs` and `openintent/` |
//! | health, and the test clock of `abide dev` | `health.rs`, `dev.rs` |

mod admission;
mod agents_api;
mod app;
mod auth;
mod body;
mod callback;
mod children_api;
mod cluster_api;
mod conditional;
mod coordinator_api;
mod dev;
mod error;
mod gate;
mod graph_api;
mod groups_api;
mod hand_api;
mod health;
mod idempotency;
mod journal;
pub mod keyring;
mod keys;
mod keys_api;
pub mod limits;
mod listen;
mod metrics;
mod names;
mod newcomer;
mod notices_api;
mod nowhere;
mod oidc;
mod openapi;
mod openintent;
mod openwop;
mod operation;
mod otlp;
mod outgoing;
mod page;
mod pages;
mod path_name;
mod people_api;
mod providers_api;
mod purge_api;
mod rates;
mod reseal;
mod resume_api;
mod retry_policy;
mod routes;
mod schemas;
mod scope;
mod sealing;
mod secrets;
mod secrets_api;
mod server_config;
mod shape;
mod stall;
mod stream;
mod time;
mod tls;
pub mod token;
mod trace;
mod turns_api;
mod unread;
mod verbs;
mod webhooks;
mod workers_api;

pub use admission::Capacity;
pub use agents_api::agent_policies;
pub use app::{App, AppOptions};
pub use callback::CallbackMinter;
pub use keyring::{Kept, Keyring, KeyringFile};
pub use keys::{ApiSecret, Grant, KeyState, Keys, scopes_of, successor};
pub use keys_api::{KeyPage, KeyView, MadeKey};
pub use listen::{bind, serve};
pub use names::NameProblem;
pub use oidc::{JwksSource, Oidc, OidcOptions, TenantOf};
pub use otlp::{Otlp, OtlpEndpoint, OtlpProtocol, OtlpSettings};
pub use providers_api::ProviderFacts;
pub use rates::Rates;
pub use reseal::{Resealed, keys_under, reseal};
pub use scope::{Scope, Scopes};
pub use sealing::RunSealer;
pub use secrets::SecretStore;
pub use time::rfc3339;
pub use tls::Tls;
pub use webhooks::Signer;
pub use workers_api::views::worker_kinds;
