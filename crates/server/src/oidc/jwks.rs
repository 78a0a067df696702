//! The keys that an identity provider publishes: fetched when they are needed, and kept while the provider is away.

use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use abide_core::{HttpRequest, Millis, Piece};
use abide_engine::{HttpExecutor, NetPolicy};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::error::{ApiError, Result};
use crate::limits::{JWKS_AGE_MS_MAX, JWKS_BYTES_MAX, JWKS_REST_MS, JWKS_TIMEOUT_MS};

/// Where the keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwksSource {
    /// At the provider.
    Url(String),
    /// In a file, which is read once.
    File(PathBuf),
}

impl JwksSource {
    /// A URL, or else the path of a file. What is fetched unprotected comes from this very machine.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        if text.starts_with("https://") {
            return Ok(Self::Url(text.to_owned()));
        }
        let Some(rest) = text.strip_prefix("http://") else { return Ok(Self::File(text.into())) };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let is_near = ["127.0.0.1", "localhost", "[::1]"]
            .iter()
            .any(|near| host.strip_prefix(near).is_some_and(|port| port.is_empty() || port.starts_with(':')));
        if is_near {
            return Ok(Self::Url(text.to_owned()));
        }
        Err(format!("'{text}' is not protected on its way; use https://"))
    }
}

/// One key that signs.
struct PublicKey {
    kid: Option<String>,
    algorithm: Option<String>,
    key: Arc<DecodingKey>,
}

/// The keys that are known.
#[derive(Default)]
struct Known {
    keys: Vec<PublicKey>,
    /// When they were fetched.
    at: Option<Millis>,
}

impl Known {
    fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<Arc<DecodingKey>> {
        let name = format!("{algorithm:?}");
        let mut fitting = self.keys.iter().filter(|key| {
            key.key.family() == algorithm.family() && key.algorithm.as_ref().is_none_or(|only| *only == name)
        });
        match kid {
            Some(kid) => fitting.find(|key| key.kid.as_deref() == Some(kid)),
            // A token that does not say is taken if there is no doubt.
            None => fitting.next().filter(|_| fitting.next().is_none()),
        }
        .map(|key| key.key.clone())
    }
}

/// The keys of a provider.
pub(super) struct Jwks {
    /// Where to fetch them; `None` if they came from a file.
    remote: Option<(String, HttpExecutor)>,
    known: RwLock<Known>,
    /// When somebody last tried to fetch them. One at a time does.
    tried: Mutex<Option<Millis>>,
}

impl Jwks {
    pub(super) fn open(source: &JwksSource, net: NetPolicy) -> std::result::Result<Self, String> {
        let (remote, known) = match source {
            JwksSource::Url(url) => {
                let http = HttpExecutor::new(net).map_err(|error| error.to_string())?;
                (Some((url.clone(), http)), Known::default())
            }
            JwksSource::File(path) => {
                let told =
                    |what: String| format!("the identity provider's keys in {} {what}", path.display());
                let text =
                    std::fs::read_to_string(path).map_err(|error| told(format!("can't be read: {error}")))?;
                (None, Known { keys: parse(&text).map_err(told)?, at: None })
            }
        };
        Ok(Self { remote, known: RwLock::new(known), tried: Mutex::default() })
    }

    /// The key that made a signature, fetched if it is not known yet.
    pub(super) async fn find(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
        now: Millis,
    ) -> Result<Option<Arc<DecodingKey>>> {
        let look = || {
            let known = self.known.read().expect("no thread panics holding this");
            let is_fresh = known.at.is_none_or(|at| (at..at.saturating_add(JWKS_AGE_MS_MAX)).contains(&now));
            (known.find(kid, algorithm), is_fresh)
        };
        let Some((url, http)) = &self.remote else { return Ok(look().0) };
        if let (Some(key), true) = look() {
            return Ok(Some(key));
        }
        let mut tried = self.tried.lock().await;
        // Somebody else may have fetched it meanwhile.
        if let (Some(key), true) = look() {
            return Ok(Some(key));
        }
        let rests = tried.is_some_and(|at| (at..at.saturating_add(JWKS_REST_MS)).contains(&now));
        if !rests {
            *tried = Some(now);
            match fetch(http, url).await {
                Ok(keys) => {
                    *self.known.write().expect("no thread panics holding this") =
                        Known { keys, at: Some(now) }
                }
                Err(why) => {
                    tracing::warn!(%why, "the identity provider's keys can't be fetched; those known are kept");
                }
            }
        }
        let is_known = self.known.read().expect("no thread panics holding this").at.is_some();
        if is_known { Ok(look().0) } else { Err(away()) }
    }
}

fn away() -> ApiError {
    let message = "the identity provider's keys can't be fetched, so no token can be checked; try again soon, or use \
                   an API key";
    ApiError::new("unavailable", message)
}

async fn fetch(http: &HttpExecutor, url: &str) -> std::result::Result<Vec<PublicKey>, String> {
    #[derive(Deserialize)]
    struct Answer {
        body: Value,
    }
    let request = HttpRequest {
        method: "GET".to_owned(),
        url: vec![Piece::Text(url.to_owned())],
        headers: vec![("accept".to_owned(), vec![Piece::Text("application/json".to_owned())])],
        body: None,
        timeout_ms: JWKS_TIMEOUT_MS,
        response_bytes_max: JWKS_BYTES_MAX,
        accept_statuses: Vec::new(),
        redirects_max: 3,
        idempotency_key: String::new(),
        sensitive: false,
    };
    let answer = http.perform(&request, &|_| None, None).await.map_err(|failed| failed.failure.message)?;
    let answer: Answer = answer.parse().map_err(|error| error.to_string())?;
    match answer.body {
        Value::String(text) => parse(&text),
        body => keys_of(&body),
    }
}

fn parse(text: &str) -> std::result::Result<Vec<PublicKey>, String> {
    let set: Value = serde_json::from_str(text).map_err(|error| format!("are not JSON: {error}"))?;
    keys_of(&set)
}

/// The keys that sign and that anybody may know. Others in the set are no concern of ours.
fn keys_of(set: &Value) -> std::result::Result<Vec<PublicKey>, String> {
    let all = set["keys"].as_array().ok_or("are no JSON Web Key Set: there is no list 'keys'")?;
    let text = |jwk: &Value, name: &str| jwk[name].as_str().map(str::to_owned);
    let keys: Vec<PublicKey> = all
        .iter()
        .filter(|jwk| jwk["use"].as_str().is_none_or(|usage| usage == "sig"))
        .filter_map(|jwk| {
            let key = DecodingKey::from_jwk(&serde_json::from_value::<Jwk>(jwk.clone()).ok()?).ok()?;
            let is_public = key.family() != AlgorithmFamily::Hmac;
            is_public.then(|| PublicKey {
                kid: text(jwk, "kid"),
                algorithm: text(jwk, "alg"),
                key: Arc::new(key),
            })
        })
        .collect();
    if keys.is_empty() {
        return Err("hold no key that signs with RSA, an elliptic curve or Ed25519".to_owned());
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_protected_or_from_this_machine() {
        let url = |text: &str| JwksSource::parse(text) == Ok(JwksSource::Url(text.to_owned()));
        assert!(
            url("https://id.example/jwks") && url("http://127.0.0.1:9/jwks") && url("http://localhost/x")
        );
        assert!(url("http://[::1]:80/x"));
        for text in
            ["http://id.example/jwks", "http://127.0.0.1.evil.example/", "http://localhost@evil.example/"]
        {
            assert!(JwksSource::parse(text).unwrap_err().contains("https://"), "{text}");
        }
        assert_eq!(JwksSource::parse("keys/jwks.json"), Ok(JwksSource::File("keys/jwks.json".into())));
    }

    #[test]
    fn a_shared_secret_is_no_key_of_a_provider() {
        let set = r#"{"keys":[{"kty":"oct","k":"c2VjcmV0"},{"kty":"new"},{"use":"enc","kty":"OKP","crv":"Ed25519",
            "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        assert!(parse(set).err().unwrap().contains("hold no key"));
        assert!(parse("{}").err().unwrap().contains("no list 'keys'"));
        assert!(parse("<html>").err().unwrap().contains("not JSON"));
    }
}
