//! The keyring: secrets that sign and encrypt, in a file outside the data directory and its backups.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use abide_core::hex;
use aws_lc_rs::{aead, constant_time, hmac, rand};
use serde::{Deserialize, Serialize};

/// Secrets, newest last. Old ones still verify what was made with them.
pub struct Keyring {
    keys: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    keys: Vec<Entry>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    kid: u32,
    secret: String,
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
        if path.exists() { Self::open(path) } else { Self::create(path) }
    }

    fn open(path: &Path) -> Result<Self, String> {
        let told = |what: String| format!("the keyring {} {what}", path.display());
        let mode = std::fs::metadata(path)
            .map_err(|error| told(format!("can't be read: {error}")))?
            .permissions()
            .mode();
        if mode & 0o077 != 0 {
            return Err(told("can be read by others; run `chmod 600` on it".into()));
        }
        let text = std::fs::read_to_string(path).map_err(|error| told(format!("can't be read: {error}")))?;
        let stored: Stored =
            serde_json::from_str(&text).map_err(|error| told(format!("is not a keyring: {error}")))?;
        if stored.version != 1
            || stored.keys.is_empty()
            || stored.keys.iter().any(|key| decode(&key.secret).is_none())
        {
            return Err(told(
                "is damaged or from a newer abide; restore it from where you keep it safe".into(),
            ));
        }
        Ok(Self { keys: stored.keys })
    }

    fn create(path: &Path) -> Result<Self, String> {
        let entry = Entry { kid: 1, secret: random_hex(32) };
        let stored = Stored { version: 1, keys: vec![entry] };
        let text = serde_json::to_string_pretty(&stored).expect("a keyring is plain data, which serialises");
        write_private(path, &text)
            .map_err(|error| format!("the keyring {} can't be written: {error}", path.display()))?;
        Ok(Self { keys: stored.keys })
    }

    /// The MAC of `message` for `purpose`, under the newest secret, with that secret's id in front.
    pub fn mac(&self, purpose: &str, message: &[u8]) -> Vec<u8> {
        let newest = self.keys.last().expect("a keyring has at least one key");
        let mut mac = newest.kid.to_be_bytes().to_vec();
        mac.extend(sign(newest, purpose, message));
        mac
    }

    /// The MACs of `message` for `purpose` under every secret of this ring, to look it up by.
    pub fn macs(&self, purpose: &str, message: &[u8]) -> Vec<Vec<u8>> {
        let mac = |key: &Entry| [&key.kid.to_be_bytes()[..], &sign(key, purpose, message)].concat();
        self.keys.iter().map(mac).collect()
    }

    /// The MAC of `message` for `purpose`, the same for as long as the oldest secret is in the ring: for what is looked up
    /// by its MAC.
    pub fn lasting_mac(&self, purpose: &str, message: &[u8]) -> [u8; 32] {
        let oldest = self.keys.first().expect("a keyring has at least one key");
        sign(oldest, purpose, message).try_into().expect("a MAC of SHA-256 has 32 bytes")
    }

    /// Whether `mac` was made from `message` for `purpose` with any secret of this ring. In constant time.
    pub fn verify(&self, purpose: &str, message: &[u8], mac: &[u8]) -> bool {
        let Some((kid, tag)) = mac.split_first_chunk::<4>() else {
            return false;
        };
        let key = self.keys.iter().find(|key| key.kid == u32::from_be_bytes(*kid));
        key.is_some_and(|key| {
            constant_time::verify_slices_are_equal(&sign(key, purpose, message), tag).is_ok()
        })
    }

    /// Encrypts `plain` for `purpose` under the newest secret. `context` has to be given again to open it.
    pub fn seal(&self, purpose: &str, context: &[u8], plain: &[u8]) -> Vec<u8> {
        let newest = self.keys.last().expect("a keyring has at least one key");
        let mut nonce = [0; aead::NONCE_LEN];
        rand::fill(&mut nonce).expect("the system has randomness");
        let mut body = plain.to_vec();
        let nonce_given = aead::Nonce::assume_unique_for_key(nonce);
        sealing_key(newest, purpose)
            .seal_in_place_append_tag(nonce_given, aead::Aad::from(context), &mut body)
            .expect("what is sealed here is far below the cipher's limit");
        [&newest.kid.to_be_bytes()[..], &nonce, &body].concat()
    }

    /// Decrypts what `seal` made with any secret of this ring. `None` if it was changed, or made for another purpose
    /// or context, or with a secret that is not here.
    pub fn open_sealed(&self, purpose: &str, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (kid, rest) = sealed.split_first_chunk::<4>()?;
        let (nonce, body) = rest.split_first_chunk::<{ aead::NONCE_LEN }>()?;
        let key = self.keys.iter().find(|key| key.kid == u32::from_be_bytes(*kid))?;
        let mut body = body.to_vec();
        let nonce = aead::Nonce::assume_unique_for_key(*nonce);
        let plain =
            sealing_key(key, purpose).open_in_place(nonce, aead::Aad::from(context), &mut body).ok()?;
        Some(plain.to_vec())
    }

    /// Whether it has the secret with this id.
    pub fn holds(&self, kid: u32) -> bool {
        self.keys.iter().any(|key| key.kid == kid)
    }

    /// A secret that is the same whenever it is asked for, known to whoever has the keyring.
    pub fn derive(&self, purpose: &str) -> String {
        let first = self.keys.first().expect("a keyring has at least one key");
        hex(&sign(first, purpose, b"derived"))
    }
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

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir)?;
    }
    // Written whole under another name first: a keyring that was cut short would lock everybody out.
    let draft = path.with_extension("keyring-draft");
    match std::fs::remove_file(&draft) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    // A link, unlike a rename, never replaces a keyring that somebody else put there meanwhile.
    std::fs::hard_link(&draft, path)?;
    std::fs::remove_file(&draft)?;
    File::open(path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))?.sync_all()
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
    use super::*;

    fn ring(keys: &[(u32, u8)]) -> Keyring {
        let entry = |&(kid, byte): &(u32, u8)| Entry { kid, secret: hex(&[byte; 32]) };
        Keyring { keys: keys.iter().map(entry).collect() }
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
}
