//! The file of a keyring: read whole, replaced whole, and by one at a time.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Entry, Keyring, decode, random_hex};
use crate::limits::KEYRING_SECRETS_MAX;
use crate::time::rfc3339;

/// What the file says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    keys: Vec<Entry>,
}

/// Tells one state of a file from another without reading it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    bytes: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            bytes: metadata.len(),
        }
    }

    /// How the file stands now. `None` if nobody can say.
    pub(super) fn look(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }
}

/// Reads a keyring that is its owner's alone.
pub(super) fn read(path: &Path) -> Result<(Vec<Entry>, Stamp), String> {
    let told = |what: String| format!("the keyring {} {what}", path.display());
    let metadata = std::fs::metadata(path).map_err(|error| told(format!("can't be read: {error}")))?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(told("can be read by others; run `chmod 600` on it".into()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| told(format!("can't be read: {error}")))?;
    let stored: Stored =
        serde_json::from_str(&text).map_err(|error| told(format!("is not a keyring: {error}")))?;
    let keys = stored.keys;
    // Ids only grow, so the newest is the last and no id is ever used again.
    let grow = keys.is_sorted_by(|one, next| one.kid < next.kid);
    if stored.version != 1 || keys.is_empty() || !grow || keys.iter().any(|key| decode(&key.secret).is_none())
    {
        return Err(told("is damaged or from a newer abide; restore it from where you keep it safe".into()));
    }
    Ok((keys, Stamp::of(&metadata)))
}

/// Writes the first keyring. One that somebody else put there meanwhile is not replaced.
pub(super) fn create(path: &Path) -> Result<(), String> {
    let create = || {
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            std::fs::create_dir_all(dir)?;
        }
        let draft = write_draft(path, &[fresh(1)])?;
        // A link, unlike a rename, never replaces a file.
        std::fs::hard_link(&draft, path)?;
        std::fs::remove_file(&draft)?;
        sync_folder(path)
    };
    create()
        .map_err(|error: std::io::Error| format!("the keyring {} can't be written: {error}", path.display()))
}

/// A keyring that nobody else changes as long as this is held.
pub struct KeyringFile {
    path: PathBuf,
    keys: Vec<Entry>,
    /// Locked until it is dropped.
    _lock: File,
}

/// A secret of a keyring, as far as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What it is called by.
    pub kid: u32,
    /// When it was made, as RFC 3339. Secrets of the first versions don't say.
    pub made_at: Option<String>,
    /// Whether it signs. The others only verify and open what was made with them.
    pub is_newest: bool,
}

/// Why a secret is not retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// There is none with this id.
    Unknown,
    /// It is the one that signs.
    Newest,
}

impl KeyringFile {
    /// Opens a keyring that is there, in order to change it. Waits for whoever else does.
    pub fn open(path: &Path) -> Result<Self, String> {
        let told = |error: std::io::Error| format!("the keyring {} can't be read: {error}", path.display());
        // A link to a keyring stays one: the file that it leads to is replaced.
        let path = &path.canonicalize().map_err(told)?;
        loop {
            let lock = File::open(path).map_err(told)?;
            lock.lock().map_err(told)?;
            // Whoever held the lock may have put another file in its place.
            let locked = Stamp::of(&lock.metadata().map_err(told)?);
            if Stamp::look(path) == Some(locked) {
                let (keys, _) = read(path)?;
                return Ok(Self { path: path.clone(), keys, _lock: lock });
            }
        }
    }

    /// The secrets, oldest first.
    pub fn list(&self) -> Vec<Listed> {
        listed(&self.keys)
    }

    /// Its secrets, to seal and open with.
    pub fn keyring(&self) -> Keyring {
        Keyring::held(self.keys.clone())
    }

    /// Durably adds a secret, which signs from now on.
    pub fn rotate(&mut self) -> Result<Listed, String> {
        if self.keys.len() >= KEYRING_SECRETS_MAX {
            return Err(format!(
                "the keyring has {KEYRING_SECRETS_MAX} secrets already; retire old ones with `abide keyring retire`"
            ));
        }
        let newest = self.keys.last().map_or(0, |key| key.kid);
        let kid = newest.checked_add(1).ok_or("the keyring has no id left for another secret")?;
        let keys = [&self.keys[..], &[fresh(kid)]].concat();
        self.replace(keys)?;
        self.list().pop().ok_or_else(|| "the keyring is empty".to_owned())
    }

    /// Whether a secret may go.
    pub fn check_retire(&self, kid: u32) -> Result<(), Kept> {
        let found = self.list().into_iter().find(|key| key.kid == kid).ok_or(Kept::Unknown)?;
        if found.is_newest { Err(Kept::Newest) } else { Ok(()) }
    }

    /// What tells the keyring from others once a secret has gone.
    pub fn mark_without(&self, kid: u32) -> i64 {
        Keyring::held(self.keys.iter().filter(|key| key.kid != kid).cloned().collect()).mark()
    }

    /// Durably drops a secret, for good. What was made with it can't be verified or opened any more.
    pub fn retire(&mut self, kid: u32) -> Result<(), String> {
        if self.check_retire(kid).is_err() {
            return Err(format!("the keyring keeps its secret {kid}"));
        }
        let keys = self.keys.iter().filter(|key| key.kid != kid).cloned().collect();
        self.replace(keys)
    }

    fn replace(&mut self, keys: Vec<Entry>) -> Result<(), String> {
        let replace = || {
            let draft = write_draft(&self.path, &keys)?;
            std::fs::rename(&draft, &self.path)?;
            sync_folder(&self.path)
        };
        replace().map_err(|error: std::io::Error| {
            format!("the keyring {} can't be written: {error}", self.path.display())
        })?;
        self.keys = keys;
        Ok(())
    }
}

/// What may be told of secrets.
pub(super) fn listed(keys: &[Entry]) -> Vec<Listed> {
    let of = |(ix, key): (usize, &Entry)| Listed {
        kid: key.kid,
        made_at: key.made_at.clone(),
        is_newest: ix + 1 == keys.len(),
    };
    keys.iter().enumerate().map(of).collect()
}

fn fresh(kid: u32) -> Entry {
    let made_at = rfc3339(jiff::Timestamp::now().as_millisecond());
    Entry { kid, secret: random_hex(32), made_at: Some(made_at) }
}

/// Writes secrets under another name first: a keyring that was cut short would lock everybody out.
fn write_draft(path: &Path, keys: &[Entry]) -> std::io::Result<PathBuf> {
    let draft = path.with_extension("keyring-draft");
    match std::fs::remove_file(&draft) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let stored = Stored { version: 1, keys: keys.to_vec() };
    let text = serde_json::to_string_pretty(&stored).expect("a keyring is plain data, which serialises");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(draft)
}

/// Makes the names in the folder of a file durable.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    File::open(path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))?.sync_all()
}
