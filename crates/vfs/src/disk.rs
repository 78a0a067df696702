//! What has been written but not synced, and what a power cut makes of it.
//!
//! The files hold every change as it is made; a log per file remembers how to take it back. At the cut the
//! log is undone from its end, which gives the last synced state whatever overlapped, and then the changes
//! that happened to survive are made again in their order. This file knows nothing of SQLite.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// The unit in which a write tears. Disks promise no more than one sector.
const SECTOR_BYTES: u64 = 512;

/// Which of the unsynced changes a power cut leaves on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// None: the disk had written nothing that it was not made to write.
    Nothing,
    /// Each one with probability 1/2, independently, as this seed has it: the disk wrote in whatever order
    /// it liked. A quarter of the writes are torn, and then it is each 512-byte sector that survives or
    /// not. The same changes and the same seed leave the same files.
    Random(u64),
}

/// All files of one shim.
#[derive(Default)]
pub(crate) struct Disk {
    dead: bool,
    /// Every path that was opened and not deleted since, sorted so that a seed means the same on each run.
    files: BTreeMap<PathBuf, Unsynced>,
}

/// One file's changes since its last sync.
#[derive(Default)]
struct Unsynced {
    created: bool,
    changes: Vec<Change>,
}

/// One change, with what is needed to undo it and to make it again.
pub(crate) enum Change {
    /// `after` was put at `offset`.
    Write {
        offset: u64,
        after: Vec<u8>,
        /// What was there, as far as the file reached.
        before: Vec<u8>,
        len_before: u64,
    },
    /// The file was cut to `len`.
    Truncate {
        len: u64,
        /// What was cut off.
        tail: Vec<u8>,
        len_before: u64,
    },
}

impl Disk {
    pub(crate) fn is_dead(&self) -> bool {
        self.dead
    }

    pub(crate) fn opened(&mut self, path: &Path, created: bool) {
        self.file(path).created |= created;
    }

    pub(crate) fn changed(&mut self, path: &Path, change: Change) {
        self.file(path).changes.push(change);
    }

    pub(crate) fn synced(&mut self, path: &Path) {
        *self.file(path) = Unsynced::default();
    }

    pub(crate) fn deleted(&mut self, path: &Path) {
        self.files.remove(path);
    }

    /// Dies, and leaves the files as `keep` says. Dead comes first: whatever fails after it, no connection
    /// may go on as if nothing had happened.
    pub(crate) fn lose_power(&mut self, keep: Keep) -> Result<(), Error> {
        self.dead = true;
        let mut luck = Luck::new(keep);
        for (path, unsynced) in std::mem::take(&mut self.files) {
            unsynced
                .roll_back(&path, &mut luck)
                .and_then(|()| remove_if_present(&shm_of(&path)))
                .map_err(|source| Error::RollBack { path, source })?;
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> &mut Unsynced {
        // Looked up twice on a first touch, so that the common case copies no path.
        if !self.files.contains_key(path) {
            self.files.insert(path.to_owned(), Unsynced::default());
        }
        self.files.get_mut(path).expect("it was there or has just been inserted")
    }
}

impl Unsynced {
    fn roll_back(&self, path: &Path, luck: &mut Luck) -> io::Result<()> {
        if self.created {
            return remove_if_present(path);
        }
        if self.changes.is_empty() {
            return Ok(());
        }
        let file = OpenOptions::new().write(true).open(path)?;
        for change in self.changes.iter().rev() {
            change.undo(&file)?;
        }
        for change in &self.changes {
            change.survive(&file, luck)?;
        }
        Ok(())
    }
}

impl Change {
    fn undo(&self, file: &File) -> io::Result<()> {
        match self {
            Self::Write { offset, before, len_before, .. } => {
                file.write_all_at(before, *offset)?;
                file.set_len(*len_before)
            }
            Self::Truncate { len, tail, len_before } => {
                file.set_len(*len_before)?;
                file.write_all_at(tail, *len)
            }
        }
    }

    /// Makes the change again, or a part of it, or not, as luck has it.
    fn survive(&self, file: &File, luck: &mut Luck) -> io::Result<()> {
        match self {
            Self::Write { offset, after, .. } => match luck.of_a_write() {
                Fate::Dropped => Ok(()),
                Fate::Kept => file.write_all_at(after, *offset),
                Fate::Torn => sectors(*offset, after)
                    .filter(|_| luck.coin())
                    .try_for_each(|(at, bytes)| file.write_all_at(bytes, at)),
            },
            Self::Truncate { len, .. } if luck.coin() => file.set_len(*len),
            Self::Truncate { .. } => Ok(()),
        }
    }
}

/// The parts of a write, cut where the disk's sectors are.
fn sectors(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let (mut at, mut rest) = (offset, bytes);
    std::iter::from_fn(move || {
        let room = (SECTOR_BYTES - at % SECTOR_BYTES) as usize;
        let (part, after) = rest.split_at(room.min(rest.len()));
        let found = (at, part);
        (at, rest) = (at + part.len() as u64, after);
        (!part.is_empty()).then_some(found)
    })
}

fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn shm_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push("-shm");
    name.into()
}

/// What becomes of one write.
enum Fate {
    Kept,
    Dropped,
    Torn,
}

/// Decides what survives: a `SplitMix64` generator, or none where nothing does.
struct Luck(Option<u64>);

impl Luck {
    fn new(keep: Keep) -> Self {
        match keep {
            Keep::Nothing => Self(None),
            Keep::Random(seed) => Self(Some(seed)),
        }
    }

    fn of_a_write(&mut self) -> Fate {
        match self.draw().map(|bits| bits >> 61) {
            None | Some(0..=2) => Fate::Dropped,
            Some(3..=5) => Fate::Kept,
            Some(_) => Fate::Torn,
        }
    }

    fn coin(&mut self) -> bool {
        self.draw().is_some_and(|bits| bits >> 63 == 1)
    }

    fn draw(&mut self) -> Option<u64> {
        let state = self.0.as_mut()?;
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = *state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(bits ^ (bits >> 31))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A disk with one synced file, and changes made to it the way the shim makes them.
    struct OneFile {
        disk: Disk,
        path: PathBuf,
        _dir: tempfile::TempDir,
    }

    impl OneFile {
        fn holding(content: &[u8]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            fs::write(&path, content).unwrap();
            let mut disk = Disk::default();
            disk.opened(&path, false);
            Self { disk, path, _dir: dir }
        }

        fn write(mut self, offset: usize, after: &[u8]) -> Self {
            let mut content = fs::read(&self.path).unwrap();
            let len_before = content.len();
            let before = content[offset.min(len_before)..(offset + after.len()).min(len_before)].to_vec();
            content.resize(len_before.max(offset + after.len()), 0);
            content[offset..offset + after.len()].copy_from_slice(after);
            fs::write(&self.path, content).unwrap();
            let (offset, after, len_before) = (offset as u64, after.to_vec(), len_before as u64);
            self.disk.changed(&self.path, Change::Write { offset, after, before, len_before });
            self
        }

        fn truncate(mut self, len: usize) -> Self {
            let content = fs::read(&self.path).unwrap();
            fs::write(&self.path, &content[..len]).unwrap();
            let (tail, len_before) = (content[len..].to_vec(), content.len() as u64);
            self.disk.changed(&self.path, Change::Truncate { len: len as u64, tail, len_before });
            self
        }

        fn sync(mut self) -> Self {
            self.disk.synced(&self.path);
            self
        }

        fn after_losing_power(mut self, keep: Keep) -> Vec<u8> {
            self.disk.lose_power(keep).unwrap();
            fs::read(&self.path).unwrap()
        }
    }

    fn tangled() -> OneFile {
        OneFile::holding(b"0123456789").write(2, b"aaaa").write(4, b"bbbbbbbbbb").truncate(3).write(6, b"cc")
    }

    #[test]
    fn overlapping_changes_are_all_undone() {
        assert_eq!(tangled().after_losing_power(Keep::Nothing), b"0123456789");
    }

    #[test]
    fn what_was_synced_stays_and_what_came_after_goes() {
        let file = tangled().sync().write(0, b"zzzzzzzzzzzz").truncate(1);
        assert_eq!(file.after_losing_power(Keep::Nothing), b"01a\0\0\0cc");
    }

    #[test]
    fn every_subset_of_overlapping_writes_can_survive_in_order() {
        let outcomes: BTreeSet<_> = (0..200)
            .map(|seed| {
                let file = OneFile::holding(b"....").write(0, b"AAA").write(2, b"BBB");
                file.after_losing_power(Keep::Random(seed))
            })
            .collect();
        let expected: [&[u8]; 4] = [b"....", b"AAA.", b"..BBB", b"AABBB"];
        assert_eq!(outcomes, expected.map(<[u8]>::to_vec).into());
    }

    #[test]
    fn the_same_seed_leaves_the_same_file() {
        for seed in 0..50 {
            let twice = [(); 2].map(|()| tangled().after_losing_power(Keep::Random(seed)));
            assert_eq!(twice[0], twice[1]);
        }
    }

    #[test]
    fn writes_tear_at_sectors_and_half_of_the_bytes_survive() {
        let left: Vec<Vec<u8>> = (0..200)
            .map(|seed| {
                OneFile::holding(&[0; 4096]).write(0, &[1; 4096]).after_losing_power(Keep::Random(seed))
            })
            .collect();
        let sectors = || left.iter().flat_map(|file| file.chunks(SECTOR_BYTES as usize));
        assert!(sectors().all(|sector| sector.iter().all(|byte| *byte == sector[0])), "torn inside a sector");
        let survived = sectors().filter(|sector| sector[0] == 1).count();
        assert!((600..1000).contains(&survived), "{survived} of 1600 sectors survived");
        let torn = left.iter().filter(|file| file.contains(&0) && file.contains(&1)).count();
        assert!((25..80).contains(&torn), "{torn} of 200 writes were torn");
    }

    #[test]
    fn sectors_are_those_of_the_file_not_of_the_write() {
        let bytes = [7; 1000];
        let parts: Vec<_> = sectors(500, &bytes).map(|(at, part)| (at, part.len())).collect();
        assert_eq!(parts, [(500, 12), (512, 512), (1024, 476)]);
    }

    #[test]
    fn a_created_file_needs_a_sync_to_survive() {
        for synced in [false, true] {
            let mut file = OneFile::holding(b"");
            file.disk.opened(&file.path, true);
            let mut file = if synced { file.sync() } else { file };
            file.disk.lose_power(Keep::Nothing).unwrap();
            assert_eq!(file.path.exists(), synced);
        }
    }
}
