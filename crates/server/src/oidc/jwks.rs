//! The keys that an identity provider publishes: fetched when they are needed, and kept while the provider is away.

use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use abide_core::{HttpRequest, Millis, Piece};
use abide_engine::{HttpExecutor, NetPolicy};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use crate::error::{ApiError, Result};
use crate::limits::{JWKS_AGE_MS_MAX, JWKS_BYTES_MAX, JWKS_REST_MS, JWKS_TIMEOUT_MS, JWKS_WAITERS_MAX};

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
    known: Arc<RwLock<Known>>,
    /// Where to fetch them; `None` if they came from a file.
    remote: Option<Remote>,
}

/// Where keys are fetched, by one at a time.
struct Remote {
    url: String,
    http: Arc<HttpExecutor>,
    fetching: Arc<watch::Sender<Fetching>>,
    /// Places for those who wait for a fetch.
    waiters: Semaphore,
}

#[derive(Default)]
struct Fetching {
    is_under_way: bool,
    /// When the last fetch began.
    began: Option<Millis>,
}

/// Says that a fetch is over, however it ended.
struct Ends(Arc<watch::Sender<Fetching>>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.send_modify(|fetching| fetching.is_under_way = false);
    }
}

impl Jwks {
    pub(super) fn open(source: &JwksSource, net: NetPolicy) -> std::result::Result<Self, String> {
        let (remote, known) = match source {
            JwksSource::Url(url) => {
                let http = Arc::new(HttpExecutor::new(net).map_err(|error| error.to_string())?);
                let (fetching, waiters) = (Arc::default(), Semaphore::new(JWKS_WAITERS_MAX));
                (Some(Remote { url: url.clone(), http, fetching, waiters }), Known::default())
            }
            JwksSource::File(path) => {
                let told =
                    |what: String| format!("the identity provider's keys in {} {what}", path.display());
                let text =
                    std::fs::read_to_string(path).map_err(|error| told(format!("can't be read: {error}")))?;
                (None, Known { keys: parse(&text).map_err(told)?, at: None })
            }
        };
        Ok(Self { known: Arc::new(RwLock::new(known)), remote })
    }

    /// The key that made a signature. One that is known is used at once, and looked at again behind it if that was long
    /// ago; for any other the provider is asked.
    pub(super) async fn find(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
        now: Millis,
    ) -> Result<Option<Arc<DecodingKey>>> {
        let look = || self.read(|known| known.find(kid, algorithm));
        let found = look();
        let Some(remote) = &self.remote else { return Ok(found) };
        let is_fresh =
            |known: &Known| known.at.is_none_or(|at| (at..at.saturating_add(JWKS_AGE_MS_MAX)).contains(&now));
        if found.is_some() {
            if !self.read(is_fresh) {
                remote.fetch(&self.known, now);
            }
            return Ok(found);
        }
        remote.fetch(&self.known, now);
        remote.wait().await?;
        if self.read(|known| known.at.is_some()) { Ok(look()) } else { Err(away()) }
    }

    fn read<T>(&self, look: impl FnOnce(&Known) -> T) -> T {
        look(&self.known.read().expect("no thread panics holding this"))
    }
}

impl Remote {
    /// Begins to fetch the keys, unless somebody does or did so a moment ago. Whoever asked may leave.
    fn fetch(&self, known: &Arc<RwLock<Known>>, now: Millis) {
        let begins = self.fetching.send_if_modified(|fetching| {
            let rests = fetching.began.is_some_and(|at| (at..at.saturating_add(JWKS_REST_MS)).contains(&now));
            let begins = !fetching.is_under_way && !rests;
            if begins {
                *fetching = Fetching { is_under_way: true, began: Some(now) };
            }
            begins
        });
        if !begins {
            return;
        }
        let ends = Ends(self.fetching.clone());
        let (http, url, known) = (self.http.clone(), self.url.clone(), known.clone());
        tokio::spawn(async move {
            let _ends = ends;
            match fetch(&http, &url).await {
                Ok(keys) => {
                    *known.write().expect("no thread panics holding this") = Known { keys, at: Some(now) };
                }
                Err(why) => {
                    tracing::warn!(%why, "the identity provider's keys can't be fetched; those known are kept");
                }
            }
        });
    }

    /// Waits until the fetch that is under way, if one is, has ended. Few may: nobody knows yet who they are.
    async fn wait(&self) -> Result<()> {
        let mut fetching = self.fetching.subscribe();
        if !fetching.borrow().is_under_way {
            return Ok(());
        }
        let _place = self.waiters.try_acquire().map_err(|_| crowded())?;
        let _ = fetching.wait_for(|fetching| !fetching.is_under_way).await;
        Ok(())
    }
}

fn crowded() -> ApiError {
    let message = "the identity provider is being asked for its keys, and enough others wait for that; try again soon, or \
                   use an API key";
    ApiError::new("unavailable", message)
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
