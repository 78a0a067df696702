//! The keyring: secrets that sign and encrypt, in a file outside the data directory and its backups.

mod file;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use abide_core::hex;
use aws_lc_rs::{aead, constant_time, hmac, rand};
use serde::{Deserialize, Serialize};

pub use file::{Kept, KeyringFile, Listed};

/// How old a secret is before it signs where several servers have a copy of the keyring: so long there is to copy it.
const KEYRING_SPREADS: Duration = Duration::from_secs(60);

/// Secrets, newest last. Old ones still verify what was made with them.
///
/// A keyring that was read from a file looks at it before it signs and when it meets an id that it does not know, so that
/// a secret that was added is taken up without a restart.
pub struct Keyring {
    path: Option<PathBuf>,
    state: RwLock<State>,
    /// Whether other servers have a copy of the file, which may be a little behind.
    shared: AtomicBool,
}

struct State {
    keys: Arc<[Entry]>,
    stamp: Option<file::Stamp>,
    /// Since when they are known.
    since: Instant,
}

impl State {
    fn of(keys: Vec<Entry>, stamp: Option<file::Stamp>) -> Self {
        Self { keys: keys.into(), stamp, since: Instant::now() }
    }
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    kid: u32,
    secret: String,
    #[serde(rename = "madeAt", default, skip_serializing_if = "Option::is_none")]
    made_at: Option<String>,
}

impl Keyring {
    /// Where the keyring of a data directory lies unless told otherwise: beside it, never inside.
    pub fn default_path(data: &Path) -> PathBuf {
        // `.` and `..` have no name to put the keyring beside, so the directory's real one is looked up.
        let data =
            &data.canonicalize().or_else(|_| std::path::absolute(data)).unwrap_or_else(|_| data.to_owned());
        let name =
            data.file_name().map_or_else(|| "abide".into(), |name| name.to_string_lossy().into_owned());
        data.with_file_name(format!("{name}.keyring"))
    }

    /// Opens the keyring, or makes one with a fresh secret if there is none.
    pub fn open_or_create(path: &Path) -> Result<Self, String> {
        if !path.exists() {
            file::create(path)?;
        }
        Self::open(path)
    }

    /// Opens a keyring that is there.
    pub fn open(path: &Path) -> Result<Self, String> {
        let (keys, stamp) = file::read(path)?;
        let state = RwLock::new(State::of(keys, Some(stamp)));
        Ok(Self { path: Some(path.to_owned()), state, shared: AtomicBool::new(false) })
    }

    /// A keyring of these secrets, newest last, that is in no file.
    pub fn of(secrets: &[(u32, [u8; 32])]) -> Self {
        let entry = |(kid, secret): &(u32, [u8; 32])| Entry { kid: *kid, secret: hex(secret), made_at: None };
        Self::held(secrets.iter().map(entry).collect())
    }

    fn held(keys: Vec<Entry>) -> Self {
        Self { path: None, state: RwLock::new(State::of(keys, None)), shared: AtomicBool::new(false) }
    }

    /// Says that other servers have a copy of the file. From then on a secret that was added opens at once, but signs and
    /// seals only when it is a minute old: until then, it is copied to them.
    pub fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// Whether a secret with this id may be on its way to this keyring.
    pub fn may_get(&self, kid: u32) -> bool {
        self.shared.load(Ordering::Relaxed) && kid > newest(&self.latest()).kid
    }

    /// The secret that signs and seals: the newest one that the others have had time to get.
    fn signer(&self) -> Entry {
        let keys = self.latest();
        let since = self.state.read().expect("no thread panics holding this").since;
        if !self.shared.load(Ordering::Relaxed) || since.elapsed() >= KEYRING_SPREADS {
            return newest(&keys).clone();
        }
        let now = jiff::Timestamp::now();
        let ripe = |key: &&Entry| key.made_at.as_deref().is_none_or(|made| has_spread(made, now));
        keys.iter().rev().find(ripe).unwrap_or_else(|| oldest(&keys)).clone()
    }

    /// The secrets as far as they are told, oldest first.
    pub fn list(&self) -> Vec<Listed> {
        file::listed(&self.keys())
    }

    /// The id of the secret that a MAC or something sealed was made with.
    pub fn kid_of(made: &[u8]) -> Option<u32> {
        made.first_chunk::<4>().map(|kid| u32::from_be_bytes(*kid))
    }

    fn keys(&self) -> Arc<[Entry]> {
        self.state.read().expect("no thread panics holding this").keys.clone()
    }

    /// The secrets as they stand in the file now. If that can't be read, those that were known go on.
    fn latest(&self) -> Arc<[Entry]> {
        let Some(path) = &self.path else { return self.keys() };
        let stamp = file::Stamp::look(path);
        if stamp.is_none() || self.state.read().expect("no thread panics holding this").stamp == stamp {
            return self.keys();
        }
        let mut state = self.state.write().expect("no thread panics holding this");
        // It is told once of a file that it can't be read, not at each look.
        state.stamp = stamp;
        match file::read(path) {
            Ok((keys, stamp)) => {
                *state = State::of(keys, Some(stamp));
                tracing::info!(
                    newest = newest(&state.keys).kid,
                    "the keyring has changed and was read again"
                );
            }
            Err(error) => tracing::error!(error, "the keyring has changed; the old one is used on"),
        }
        state.keys.clone()
    }

    fn find(&self, kid: u32) -> Option<Entry> {
        let with_kid = |keys: Arc<[Entry]>| keys.iter().find(|key| key.kid == kid).cloned();
        with_kid(self.keys()).or_else(|| with_kid(self.latest()))
    }

    /// The MAC of `message` for `purpose`, under the newest secret, with that secret's id in front.
    pub fn mac(&self, purpose: &str, message: &[u8]) -> Vec<u8> {
        let signer = self.signer();
        let mut mac = signer.kid.to_be_bytes().to_vec();
        mac.extend(sign(&signer, purpose, message));
        mac
    }

    /// The MACs of `message` for `purpose` under every secret of this ring, to look it up by.
    pub fn macs(&self, purpose: &str, message: &[u8]) -> Vec<Vec<u8>> {
        let mac = |key: &Entry| [&key.kid.to_be_bytes()[..], &sign(key, purpose, message)].concat();
        // Another server may have signed with a secret that was added just now.
        self.latest().iter().map(mac).collect()
    }

    /// The MAC of `message` for `purpose`, the same for as long as the oldest secret is in the ring: for what is looked up
    /// by its MAC.
    pub fn lasting_mac(&self, purpose: &str, message: &[u8]) -> [u8; 32] {
        sign(oldest(&self.keys()), purpose, message).try_into().expect("a MAC of SHA-256 has 32 bytes")
    }

    /// Whether `mac` was made from `message` for `purpose` with any secret of this ring. In constant time.
    pub fn verify(&self, purpose: &str, message: &[u8], mac: &[u8]) -> bool {
        let Some((kid, tag)) = mac.split_first_chunk::<4>() else {
            return false;
        };
        self.find(u32::from_be_bytes(*kid)).is_some_and(|key| {
            constant_time::verify_slices_are_equal(&sign(&key, purpose, message), tag).is_ok()
        })
    }

    /// Encrypts `plain` for `purpose` under the newest secret. `context` has to be given again to open it.
    pub fn seal(&self, purpose: &str, context: &[u8], plain: &[u8]) -> Vec<u8> {
        let signer = self.signer();
        let mut nonce = [0; aead::NONCE_LEN];
        rand::fill(&mut nonce).expect("the system has randomness");
        let mut body = plain.to_vec();
        let nonce_given = aead::Nonce::assume_unique_for_key(nonce);
        sealing_key(&signer, purpose)
            .seal_in_place_append_tag(nonce_given, aead::Aad::from(context), &mut body)
            .expect("what is sealed here is far below the cipher's limit");
        [&signer.kid.to_be_bytes()[..], &nonce, &body].concat()
    }

    /// Decrypts what `seal` made with any secret of this ring. `None` if it was changed, or made for another purpose
    /// or context, or with a secret that is not here.
    pub fn open_sealed(&self, purpose: &str, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (kid, rest) = sealed.split_first_chunk::<4>()?;
        let (nonce, body) = rest.split_first_chunk::<{ aead::NONCE_LEN }>()?;
        let key = self.find(u32::from_be_bytes(*kid))?;
        let mut body = body.to_vec();
        let nonce = aead::Nonce::assume_unique_for_key(*nonce);
        let plain =
            sealing_key(&key, purpose).open_in_place(nonce, aead::Aad::from(context), &mut body).ok()?;
        Some(plain.to_vec())
    }

    /// Whether it has the secret with this id.
    pub fn holds(&self, kid: u32) -> bool {
        self.find(kid).is_some()
    }

    /// The newest secret's id, and the secret derived from it for `purpose` within `scope`, to sign with.
    pub(crate) fn newest_secret(&self, purpose: &str, scope: &[u8]) -> (u32, Vec<u8>) {
        let signer = self.signer();
        (signer.kid, sign(&signer, purpose, scope))
    }

    /// The secret derived for `purpose` within `scope` from the one with this id. `None` if that is not in the ring.
    pub(crate) fn secret(&self, kid: u32, purpose: &str, scope: &[u8]) -> Option<Vec<u8>> {
        self.find(kid).map(|key| sign(&key, purpose, scope))
    }

    /// What tells this keyring from others, and nothing about its secrets: the same for as long as the oldest is in the ring.
    pub fn mark(&self) -> i64 {
        mark(oldest(&self.latest()))
    }

    /// Whether a keyring with this mark has a secret of this one.
    pub fn bears(&self, told: i64) -> bool {
        self.latest().iter().any(|key| mark(key) == told)
    }

    /// A secret that is the same whenever it is asked for, known to whoever has the keyring.
    pub fn derive(&self, purpose: &str) -> String {
        hex(&sign(oldest(&self.keys()), purpose, b"derived"))
    }
}

/// Whether a secret was made so long ago that every server has had time to get it.
fn has_spread(made_at: &str, now: jiff::Timestamp) -> bool {
    let spread = made_at
        .parse::<jiff::Timestamp>()
        .map(|made| now.duration_since(made).unsigned_abs() >= KEYRING_SPREADS && made <= now);
    spread.unwrap_or(true)
}

fn mark(key: &Entry) -> i64 {
    let mac = sign(key, "mark", b"this keyring");
    i64::from_be_bytes(*mac.first_chunk().expect("a MAC of SHA-256 has 32 bytes"))
}

fn newest(keys: &[Entry]) -> &Entry {
    keys.last().expect("a keyring has at least one secret")
}

fn oldest(keys: &[Entry]) -> &Entry {
    keys.first().expect("a keyring has at least one secret")
}

/// A key of its own for each purpose.
fn sealing_key(key: &Entry, purpose: &str) -> aead::LessSafeKey {
    let derived = sign(key, purpose, b"sealing");
    let key = aead::UnboundKey::new(&aead::AES_256_GCM, &derived).expect("a MAC of SHA-256 has 32 bytes");
    aead::LessSafeKey::new(key)
}

/// The purpose is part of the MAC, so that one made for one thing says nothing about another.
fn sign(key: &Entry, purpose: &str, message: &[u8]) -> Vec<u8> {
    let secret = decode(&key.secret).expect("secrets were checked when the keyring was opened");
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
    let mut context = hmac::Context::with_key(&key);
    context.update(&(purpose.len() as u64).to_be_bytes());
    context.update(purpose.as_bytes());
    context.update(message);
    context.sign().as_ref().to_vec()
}

/// So many random bytes, in hex.
pub fn random_hex(bytes: usize) -> String {
    let mut secret = vec![0; bytes];
    rand::fill(&mut secret).expect("the system has randomness");
    hex(&secret)
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> =
        pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect();
    bytes.filter(|bytes| bytes.len() >= 32)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn ring(keys: &[(u32, u8)]) -> Keyring {
        Keyring::of(&keys.iter().map(|(kid, byte)| (*kid, [*byte; 32])).collect::<Vec<_>>())
    }

    #[test]
    fn a_mac_holds_for_its_message_its_purpose_and_its_key_alone() {
        let old = ring(&[(1, 7)]);
        let mac = old.mac("api-key", b"secret");
        assert!(old.verify("api-key", b"secret", &mac));
        assert!(!old.verify("api-key", b"secret2", &mac));
        assert!(!old.verify("callback", b"secret", &mac));
        assert!(!old.verify("api-key", b"secret", &mac[..20]));
        assert!(!old.verify("api-key", b"secret", &[]));
        assert!(ring(&[(1, 7), (2, 8)]).verify("api-key", b"secret", &mac), "an older key still verifies");
        assert!(!ring(&[(1, 8)]).verify("api-key", b"secret", &mac));
        assert!(!ring(&[(2, 7)]).verify("api-key", b"secret", &mac), "the key is found by its id");
        let macs = ring(&[(1, 7), (2, 8)]).macs("api-key", b"secret");
        assert_eq!(
            macs,
            [mac, ring(&[(2, 8)]).mac("api-key", b"secret")],
            "one can be looked up by any of them"
        );
    }

    #[test]
    fn what_is_sealed_opens_for_its_purpose_its_context_and_its_key_alone() {
        let old = ring(&[(1, 7)]);
        let sealed = old.seal("secrets", b"1/stripe", b"value");
        assert!(!sealed.windows(5).any(|window| window == b"value"));
        assert_eq!(old.open_sealed("secrets", b"1/stripe", &sealed).as_deref(), Some(&b"value"[..]));
        assert_eq!(old.open_sealed("secrets", b"2/stripe", &sealed), None, "another tenant's");
        assert_eq!(old.open_sealed("blobs", b"1/stripe", &sealed), None);
        assert_eq!(ring(&[(1, 8)]).open_sealed("secrets", b"1/stripe", &sealed), None);
        assert!(ring(&[(1, 7), (2, 8)]).open_sealed("secrets", b"1/stripe", &sealed).is_some());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(old.open_sealed("secrets", b"1/stripe", &changed), None, "byte {at}");
        }
        assert_ne!(sealed, old.seal("secrets", b"1/stripe", b"value"), "a nonce is used once");
    }

    #[test]
    fn a_keyring_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = Keyring::default_path(&dir.path().join("data"));
        assert_eq!(path, dir.path().join("data.keyring"), "beside the data, not in it");
        let made = Keyring::open_or_create(&path).unwrap();
        let again = Keyring::open_or_create(&path).unwrap();
        assert_eq!(made.derive("x"), again.derive("x"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Keyring::open_or_create(&path).err().unwrap().contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "{}").unwrap();
        assert!(Keyring::open_or_create(&path).err().unwrap().contains("is not a keyring"));
    }

    fn kids(keyring: &Keyring) -> Vec<u32> {
        keyring.list().iter().map(|key| key.kid).collect()
    }

    #[test]
    fn a_keyring_takes_up_a_secret_that_was_added_to_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data.keyring");
        let (running, other) = (Keyring::open_or_create(&path).unwrap(), Keyring::open(&path).unwrap());
        let (mac, derived) = (running.mac("api-key", b"secret"), running.derive("x"));
        let sealed = running.seal("secrets", b"1/a", b"value");
        KeyringFile::open(&path).unwrap().rotate().unwrap();
        let newer = running.mac("api-key", b"secret");
        assert_eq!(Keyring::kid_of(&newer), Some(2), "the newest signs");
        assert!(other.verify("api-key", b"secret", &newer), "an id that it does not know makes it look");
        assert!(running.verify("api-key", b"secret", &mac), "the old one still verifies");
        assert!(running.open_sealed("secrets", b"1/a", &sealed).is_some());
        assert_eq!(running.derive("x"), derived, "what is to last hangs on the oldest");
        std::fs::write(&path, "{}").unwrap();
        assert_eq!(
            Keyring::kid_of(&running.mac("api-key", b"secret")),
            Some(2),
            "a damaged file changes nothing"
        );
        std::fs::remove_file(&path).unwrap();
        assert!(running.verify("api-key", b"secret", &running.mac("api-key", b"secret")));
    }

    #[test]
    fn a_secret_that_was_added_opens_at_once_and_signs_when_other_servers_have_had_time_to_get_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data.keyring");
        let (one, other) = (Keyring::open_or_create(&path).unwrap(), Keyring::open(&path).unwrap());
        one.share();
        assert!(one.may_get(2) && !one.may_get(1) && !other.may_get(2));
        KeyringFile::open(&path).unwrap().rotate().unwrap();
        assert_eq!(Keyring::kid_of(&one.mac("api-key", b"secret")), Some(1), "it is new");
        assert_eq!(one.seal("secrets", b"", b"value")[..4], [0, 0, 0, 1]);
        assert_eq!(Keyring::kid_of(&other.mac("api-key", b"secret")), Some(2), "nobody else has a copy");
        assert!(one.verify("api-key", b"secret", &other.mac("api-key", b"secret")), "it opens at once");
        let (text, now) = (std::fs::read_to_string(&path).unwrap(), jiff::Timestamp::now());
        let made = KeyringFile::open(&path).unwrap().list()[1].made_at.clone().unwrap();
        let earlier = crate::time::rfc3339(now.as_millisecond() - 60_000);
        std::fs::write(&path, text.replace(&made, &earlier)).unwrap();
        assert_eq!(Keyring::kid_of(&one.mac("api-key", b"secret")), Some(2), "it is a minute old");
    }

    #[test]
    fn a_keyring_is_known_by_its_secrets() {
        let mark = ring(&[(1, 7)]).mark();
        assert_eq!(ring(&[(1, 7), (2, 8)]).mark(), mark, "it lasts as long as the oldest");
        assert!(ring(&[(1, 7), (2, 8)]).bears(mark) && ring(&[(1, 8), (2, 7)]).bears(mark));
        assert!(!ring(&[(1, 8)]).bears(mark));
    }

    #[test]
    fn a_keyring_is_replaced_whole_and_stays_its_owners() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data.keyring");
        Keyring::open_or_create(&path).unwrap();
        let link = dir.path().join("link.keyring");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        // What a rotation that died has left is no obstacle.
        std::fs::write(dir.path().join("data.keyring-draft"), "{").unwrap();
        let made = KeyringFile::open(&link).unwrap().rotate().unwrap();
        assert!(made.kid == 2 && made.is_newest && made.made_at.is_some(), "{made:?}");
        assert!(link.is_symlink());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "no draft is left");
        assert_eq!(kids(&Keyring::open(&path).unwrap()), [1, 2]);
    }

    #[test]
    fn rotations_at_the_same_time_all_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data.keyring");
        Keyring::open_or_create(&path).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| KeyringFile::open(&path).unwrap().rotate().unwrap());
            }
        });
        assert_eq!(kids(&Keyring::open(&path).unwrap()), (1..=9).collect::<Vec<_>>());
    }

    #[test]
    fn an_old_secret_is_retired_and_the_newest_never() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data.keyring");
        let ring = Keyring::open_or_create(&path).unwrap();
        let mac = ring.mac("api-key", b"secret");
        let mut file = KeyringFile::open(&path).unwrap();
        assert_eq!(file.check_retire(1), Err(Kept::Newest));
        assert!(file.retire(1).is_err());
        file.rotate().unwrap();
        assert_eq!((file.check_retire(3), file.check_retire(1)), (Err(Kept::Unknown), Ok(())));
        file.retire(1).unwrap();
        let ring = Keyring::open(&path).unwrap();
        assert_eq!(kids(&ring), [2]);
        assert!(!ring.verify("api-key", b"secret", &mac));
        assert_eq!(file.rotate().unwrap().kid, 3, "no id is used twice");
        let full = (3..=crate::limits::KEYRING_SECRETS_MAX).map(|_| file.rotate().unwrap().kid).count();
        assert_eq!(full, crate::limits::KEYRING_SECRETS_MAX - 2);
        assert!(file.rotate().unwrap_err().contains("retire old ones"));
    }

    #[test]
    fn a_keyring_of_the_first_versions_is_read_and_rotated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data.keyring");
        let secret = hex(&[7; 32]);
        std::fs::write(&path, format!(r#"{{"version":1,"keys":[{{"kid":1,"secret":"{secret}"}}]}}"#))
            .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let mac = ring(&[(1, 7)]).mac("api-key", b"secret");
        KeyringFile::open(&path).unwrap().rotate().unwrap();
        let ring = Keyring::open(&path).unwrap();
        assert!(ring.verify("api-key", b"secret", &mac));
        assert_eq!(ring.list()[0].made_at, None);
        let twice = format!(
            r#"{{"version":1,"keys":[{{"kid":1,"secret":"{secret}"}},{{"kid":1,"secret":"{secret}"}}]}}"#
        );
        std::fs::write(&path, twice).unwrap();
        assert!(Keyring::open(&path).err().unwrap().contains("is damaged"));
    }
}
