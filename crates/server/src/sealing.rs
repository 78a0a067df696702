//! Runs' sensitive values, sealed with keys of the keyring before they reach the disk.
//!
//! Each run has a key of its own, derived from the keyring's: a nonce is drawn at random for every payload, and no key
//! sees more of them than one run has events.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use abide_core::Key;
use abide_store::Sealer;

use crate::keyring::Keyring;

/// Seals runs with the keyring that lies at a place.
pub struct RunSealer {
    path: PathBuf,
    keyring: OnceLock<Arc<Keyring>>,
}

impl RunSealer {
    /// For the keyring at `path`, which may be handed in later: whether a missing one may be made depends on what is in
    /// the store.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), keyring: OnceLock::new() }
    }

    /// For the keyring at `path`, if there is one. Nothing is made: this is for looking, not for writing.
    pub fn look(path: &Path) -> Result<Self, String> {
        let sealer = Self::at(path);
        if path.exists() {
            sealer.unlock(Arc::new(Keyring::open_or_create(path)?));
        }
        Ok(sealer)
    }

    /// Hands in the keyring. Only the first one counts.
    pub fn unlock(&self, keyring: Arc<Keyring>) {
        // A second one would be the same file, read again.
        let _ = self.keyring.set(keyring);
    }
}

impl Sealer for RunSealer {
    fn seal(&self, owner: Key, place: &[u8], plain: &[u8]) -> Result<Vec<u8>, String> {
        let missing =
            || format!("the keyring {} was not opened; name it with --keyring", self.path.display());
        let keyring = self.keyring.get().ok_or_else(missing)?;
        Ok(keyring.seal(&purpose(owner), place, plain))
    }

    fn open(&self, owner: Key, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, String> {
        let kid = kid_of(sealed).ok_or("it was cut short; restore the last backup")?;
        let path = self.path.display();
        let Some(keyring) = self.keyring.get() else {
            return Err(format!(
                "it is sealed under key {kid}, and there is no keyring {path}; restore the one that belongs to this \
                 data, or name it with --keyring"
            ));
        };
        keyring.open_sealed(&purpose(owner), place, sealed).ok_or_else(|| {
            if keyring.holds(kid) {
                format!(
                    "it is sealed under key {kid}, and that of the keyring {path} does not open it: either it was \
                     changed, or the keyring belongs to other data; restore the one that belongs to this"
                )
            } else {
                format!(
                    "it is sealed under key {kid}, which the keyring {path} does not have; restore the keyring that \
                     belongs to this data"
                )
            }
        })
    }

    fn may_come(&self, sealed: &[u8]) -> bool {
        let keyring = self.keyring.get();
        keyring.zip(kid_of(sealed)).is_some_and(|(keyring, kid)| keyring.may_get(kid))
    }
}

/// The number of the key that something was sealed under.
fn kid_of(sealed: &[u8]) -> Option<u32> {
    sealed.first_chunk().map(|kid| u32::from_be_bytes(*kid))
}

/// A run's own purpose, and so its own key.
fn purpose(owner: Key) -> String {
    format!("runs/{}/{}", owner.tenant.0, owner.id)
}

#[cfg(test)]
mod tests {
    use abide_core::{RunId, TenantId};

    use super::*;

    fn ring(keys: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keyring");
        Keyring::open_or_create(&path).unwrap();
        // Written over, so that its mode stays.
        std::fs::write(&path, format!(r#"{{"version":1,"keys":[{keys}]}}"#)).unwrap();
        (dir, path)
    }

    fn key(kid: u32, digit: char) -> String {
        format!(r#"{{"kid":{kid},"secret":"{}"}}"#, digit.to_string().repeat(64))
    }

    fn run(tenant: u32, byte: u8) -> Key {
        RunId::from_bytes([byte; 16]).of(TenantId(tenant))
    }

    #[test]
    fn what_a_run_seals_opens_at_its_place_alone_and_after_a_rotation_too() {
        let (_old_dir, old) = ring(&key(1, 'a'));
        let sealed = RunSealer::look(&old).unwrap().seal(run(1, 7), b"event 0", b"value").unwrap();
        let (_new_dir, new) = ring(&format!("{},{}", key(1, 'a'), key(2, 'b')));
        for path in [&old, &new] {
            let sealer = RunSealer::look(path).unwrap();
            assert_eq!(sealer.open(run(1, 7), b"event 0", &sealed).unwrap(), b"value");
            for (owner, place) in [(run(1, 7), "event 1"), (run(1, 8), "event 0"), (run(2, 7), "event 0")] {
                let error = sealer.open(owner, place.as_bytes(), &sealed).unwrap_err();
                assert!(error.contains("key 1") && error.contains("does not open it"), "{error}");
            }
        }
        let newer = RunSealer::look(&new).unwrap().seal(run(1, 7), b"event 0", b"value").unwrap();
        assert_eq!(newer[..4], [0, 0, 0, 2], "the newest key seals");
    }

    #[test]
    fn a_key_that_is_not_at_hand_is_named_and_so_is_the_keyring() {
        let (_dir, path) = ring(&key(7, 'a'));
        let sealed = RunSealer::look(&path).unwrap().seal(run(1, 7), b"event 0", b"value").unwrap();
        let (_other_dir, other) = ring(&key(1, 'b'));
        let nowhere = other.with_extension("gone");
        for (path, reason) in [(other, "does not have"), (nowhere, "there is no keyring")] {
            let error = RunSealer::look(&path).unwrap().open(run(1, 7), b"event 0", &sealed).unwrap_err();
            assert!(error.contains("key 7") && error.contains(reason), "{error}");
            assert!(error.contains(&path.display().to_string()) && error.contains("restore"), "{error}");
        }
        let unopened = RunSealer::at(&path).seal(run(1, 7), b"event 0", b"value").unwrap_err();
        assert!(unopened.contains("was not opened"), "nothing is ever kept in clear: {unopened}");
    }
}
