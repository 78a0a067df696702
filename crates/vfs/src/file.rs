//! The file table that SQLite calls: reads, writes, syncs, locks and shared memory of one open file.
//!
//! SQLite allocates `szOsFile` bytes for a file. The shim's header is the first part of them and the unix
//! VFS's file is the rest. Reads, locks and shared memory go straight through; what changes the disk is
//! counted, and in power-loss mode written down first.

use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::slice;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods};

use crate::counts::{Counter, Kind};
use crate::disk::{Change, Disk};
use crate::vfs::State;

/// The shim's part of an open file.
#[repr(C)]
pub(crate) struct ShimFile {
    /// First, because SQLite sees a `sqlite3_file` here.
    base: sqlite3_file,
    state: &'static State,
    kind: Kind,
    /// The path whose changes are written down. Temporary files have none, nor have files of a shim that
    /// only counts.
    path: Option<PathBuf>,
}

/// The unix VFS's file starts where the header ends, so the header must not end on an odd address.
const _: () = assert!(size_of::<ShimFile>().is_multiple_of(8) && align_of::<ShimFile>() <= 8);

/// The unix VFS's part of an open file.
///
/// # Safety
/// `file` points to `szOsFile` bytes of a shim's table.
pub(crate) unsafe fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: the header is followed by the unix VFS's file.
    unsafe { file.cast::<ShimFile>().add(1).cast() }
}

/// Calls a method of the unix VFS's file.
macro_rules! unix {
    ($file:expr, $method:ident $(, $arg:expr)*) => {{
        let file = real($file);
        ((*(*file).pMethods).$method.expect("our table offers no method that the real one lacks"))(file $(, $arg)*)
    }};
}

impl ShimFile {
    /// Makes `file` an open file of the shim.
    ///
    /// # Safety
    /// `file` points to `szOsFile` bytes, and the unix VFS has opened its part.
    pub(crate) unsafe fn place(
        file: *mut sqlite3_file,
        state: &'static State,
        kind: Kind,
        path: Option<&Path>,
    ) {
        // SAFETY: by this function's contract; the unix VFS's tables are constants.
        unsafe {
            let base = sqlite3_file { pMethods: table_for(&*(*real(file)).pMethods) };
            file.cast::<Self>().write(Self { base, state, kind, path: path.map(Path::to_owned) });
        }
    }

    /// # Safety
    /// `file` has been placed and not been closed.
    unsafe fn of<'a>(file: *mut sqlite3_file) -> &'a Self {
        // SAFETY: by this function's contract.
        unsafe { &*file.cast() }
    }

    fn counter(&self) -> &Counter {
        self.state.counters().of(self.kind)
    }

    /// The log to write this file's changes to, if they are written down.
    fn log<'a>(&self, disk: Option<&'a mut Disk>) -> Option<(&'a mut Disk, &Path)> {
        disk.zip(self.path.as_deref())
    }
}

/// The table for a file whose real table is `real`. The unix VFS has tables with and without shared memory,
/// and SQLite takes a method that is present for one that works.
fn table_for(real: &sqlite3_io_methods) -> &'static sqlite3_io_methods {
    if real.iVersion >= 2 && real.xShmMap.is_some() { &WITH_SHARED_MEMORY } else { &PLAIN }
}

static PLAIN: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

static WITH_SHARED_MEMORY: sqlite3_io_methods = sqlite3_io_methods {
    // Version 3 would add memory maps of the file itself, past which nothing could be counted.
    iVersion: 2,
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    ..PLAIN
};

/// Methods that are the unix VFS's own.
macro_rules! pass_through {
    ($($name:ident => $method:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $arg: $type)*) $(-> $result)? {
            // SAFETY: SQLite calls with an open file of ours and with arguments that fit the method.
            unsafe { unix!(file, $method $(, $arg)*) }
        }
    )*};
}

pass_through! {
    read => xRead(bytes: *mut c_void, amount: c_int, offset: i64) -> c_int;
    file_size => xFileSize(size: *mut i64) -> c_int;
    lock => xLock(level: c_int) -> c_int;
    unlock => xUnlock(level: c_int) -> c_int;
    check_reserved_lock => xCheckReservedLock(reserved: *mut c_int) -> c_int;
    sector_size => xSectorSize() -> c_int;
    device_characteristics => xDeviceCharacteristics() -> c_int;
    shm_lock => xShmLock(offset: c_int, count: c_int, flags: c_int) -> c_int;
    shm_barrier => xShmBarrier();
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite closes an open file of ours, once.
    unsafe {
        let code = unix!(file, xClose);
        file.cast::<ShimFile>().drop_in_place();
        (*file).pMethods = ptr::null();
        code
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite calls with an open file of ours and `amount` bytes.
    unsafe {
        let shim = ShimFile::of(file);
        let code = shim.state.powered(ffi::SQLITE_IOERR_WRITE, |disk| {
            if let Some((disk, path)) = shim.log(disk) {
                // Written down before the write, because a write that fails may have changed something.
                match write_to_come(file, slice::from_raw_parts(bytes.cast(), amount as usize), offset) {
                    Ok(change) => disk.changed(path, change),
                    Err(code) => return code,
                }
            }
            unix!(file, xWrite, bytes, amount, offset)
        });
        if code == ffi::SQLITE_OK {
            shim.counter().wrote(amount as u64);
        }
        code
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: i64) -> c_int {
    // SAFETY: SQLite calls with an open file of ours.
    unsafe {
        let shim = ShimFile::of(file);
        shim.state.powered(ffi::SQLITE_IOERR_TRUNCATE, |disk| {
            if let Some((disk, path)) = shim.log(disk) {
                match truncate_to_come(file, size) {
                    Ok(change) => disk.changed(path, change),
                    Err(code) => return code,
                }
            }
            unix!(file, xTruncate, size)
        })
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite calls with an open file of ours.
    unsafe {
        let shim = ShimFile::of(file);
        let code = shim.state.powered(ffi::SQLITE_IOERR_FSYNC, |disk| {
            let code = unix!(file, xSync, flags);
            if let (Some((disk, path)), ffi::SQLITE_OK) = (shim.log(disk), code) {
                disk.synced(path);
            }
            code
        });
        if code == ffi::SQLITE_OK {
            shim.counter().synced();
        }
        code
    }
}

/// A file control passes through, unless it would have the unix VFS change a file's size on its own. Those
/// are hints, and SQLite does without.
unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    let resizes = matches!(op, ffi::SQLITE_FCNTL_SIZE_HINT | ffi::SQLITE_FCNTL_CHUNK_SIZE);
    // SAFETY: SQLite calls with an open file of ours and an argument that fits the operation.
    unsafe {
        if resizes && ShimFile::of(file).state.loses_power() {
            return ffi::SQLITE_NOTFOUND;
        }
        unix!(file, xFileControl, op, arg)
    }
}

/// Mapping shared memory may create the `-shm` file, which a dead machine doesn't.
unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    memory: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls with an open file of ours and a place for the address.
    unsafe {
        ShimFile::of(file)
            .state
            .powered(ffi::SQLITE_IOERR_SHMMAP, |_| unix!(file, xShmMap, region, size, extend, memory))
    }
}

/// The last connection deletes the `-shm` file. A dead one must not: the file may be its successor's.
unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    // SAFETY: SQLite calls with an open file of ours.
    unsafe {
        let delete = ShimFile::of(file).state.powered(0, |_| delete);
        unix!(file, xShmUnmap, delete)
    }
}

/// The change that writing `after` at `offset` will make.
///
/// # Safety
/// `file` is an open file of ours.
unsafe fn write_to_come(file: *mut sqlite3_file, after: &[u8], offset: i64) -> Result<Change, c_int> {
    // SAFETY: by this function's contract.
    unsafe {
        let len_before = size_of_file(file)?;
        let before = read_up_to(file, offset, (offset + after.len() as i64).min(len_before))?;
        let (offset, len_before) = (offset as u64, len_before as u64);
        Ok(Change::Write { offset, after: after.to_vec(), before, len_before })
    }
}

/// The change that cutting the file to `len` will make.
///
/// # Safety
/// `file` is an open file of ours.
unsafe fn truncate_to_come(file: *mut sqlite3_file, len: i64) -> Result<Change, c_int> {
    // SAFETY: by this function's contract.
    unsafe {
        let len_before = size_of_file(file)?;
        let tail = read_up_to(file, len, len_before)?;
        Ok(Change::Truncate { len: len as u64, tail, len_before: len_before as u64 })
    }
}

/// # Safety
/// `file` is an open file of ours.
unsafe fn size_of_file(file: *mut sqlite3_file) -> Result<i64, c_int> {
    let mut size = 0;
    // SAFETY: by this function's contract.
    match unsafe { unix!(file, xFileSize, &raw mut size) } {
        ffi::SQLITE_OK => Ok(size),
        code => Err(code),
    }
}

/// The bytes from `start` to `end`, none if `end` comes first.
///
/// # Safety
/// `file` is an open file of ours.
unsafe fn read_up_to(file: *mut sqlite3_file, start: i64, end: i64) -> Result<Vec<u8>, c_int> {
    let amount = c_int::try_from((end - start).max(0)).map_err(|_| ffi::SQLITE_TOOBIG)?;
    let mut bytes = vec![0; amount as usize];
    if amount == 0 {
        return Ok(bytes);
    }
    // SAFETY: by this function's contract, and there is room for `amount` bytes.
    match unsafe { unix!(file, xRead, bytes.as_mut_ptr().cast(), amount, start) } {
        ffi::SQLITE_OK => Ok(bytes),
        code => Err(code),
    }
}
