//! The VFS table that SQLite calls: opening, deleting, and everything that is not about one file.
//!
//! Each shim has its own table and its own [`State`], found through `pAppData`. Calls that the shim has no
//! interest in go straight to the "unix" VFS, with *its* table as the receiver: it keeps its own things in
//! `pAppData`.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_vfs};

use crate::Error;
use crate::counts::{Counters, Counts, Kind};
use crate::disk::{Disk, Keep};
use crate::file::{self, ShimFile};

/// What one shim knows. It is leaked, because SQLite may call at any time.
pub(crate) struct State {
    name: CString,
    unix: UnixVfs,
    counters: Counters,
    /// Absent in a shim that only counts: it takes no lock.
    disk: Option<Mutex<Disk>>,
}

/// SQLite's own VFS, which does the work.
struct UnixVfs(*mut sqlite3_vfs);

// SAFETY: the unix VFS is a constant table that SQLite itself calls from every thread.
unsafe impl Send for UnixVfs {}
// SAFETY: as above.
unsafe impl Sync for UnixVfs {}

impl State {
    pub(crate) fn name(&self) -> &str {
        self.name.to_str().expect("it was made from a str")
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counters.read()
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn loses_power(&self) -> bool {
        self.disk.is_some()
    }

    pub(crate) fn lose_power(&self, keep: Keep) -> Result<(), Error> {
        let disk = self.disk.as_ref().ok_or(Error::OnlyCounts)?;
        lock(disk).lose_power(keep)
    }

    /// Does `act` while there is power, and answers `code_if_dead` after.
    ///
    /// The disk stays locked during `act`, so that a power cut falls between two calls and never inside
    /// one, and so that a sync covers exactly the writes before it.
    pub(crate) fn powered(&self, code_if_dead: c_int, act: impl FnOnce(Option<&mut Disk>) -> c_int) -> c_int {
        let Some(disk) = &self.disk else { return act(None) };
        let mut disk = lock(disk);
        if disk.is_dead() { code_if_dead } else { act(Some(&mut disk)) }
    }
}

/// A thread that panicked holding the disk left the log no worse than it was: entries are only appended.
fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a new VFS under `name`, with its own state.
pub(crate) fn register(name: &str, disk: Option<Disk>) -> Result<&'static State, Error> {
    // SQLite has no "register unless taken", so two threads must not ask and register at once.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);

    let name = CString::new(name).map_err(|_| Error::BadName(name.to_owned()))?;
    let unix = UnixVfs(find(c"unix").ok_or(Error::NoUnixVfs)?);
    if find(&name).is_some() {
        return Err(Error::NameTaken(name.to_string_lossy().into_owned()));
    }
    let counters = Counters::default();
    let state: &'static State =
        Box::leak(Box::new(State { name, unix, counters, disk: disk.map(Mutex::new) }));
    // SAFETY: the table and all it points to are leaked, and its functions keep SQLite's contracts.
    match unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(table(state))), 0) } {
        ffi::SQLITE_OK => Ok(state),
        code => Err(Error::Refused(code)),
    }
}

fn find(name: &CStr) -> Option<*mut sqlite3_vfs> {
    // SAFETY: the name is a C string, and SQLite initialises itself here if it has to.
    let found = unsafe { ffi::sqlite3_vfs_find(name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

fn table(state: &'static State) -> sqlite3_vfs {
    // SAFETY: `find` returned the unix VFS, which lives as long as the process.
    let unix = unsafe { &*state.unix.0 };
    sqlite3_vfs {
        // Version 3 would add the replacing of system calls, which is not offered.
        iVersion: 2,
        szOsFile: size_of::<ShimFile>() as c_int + unix.szOsFile,
        mxPathname: unix.mxPathname,
        pNext: ptr::null_mut(),
        zName: state.name.as_ptr(),
        pAppData: ptr::from_ref(state).cast_mut().cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: Some(dl_open),
        xDlError: Some(dl_error),
        xDlSym: Some(dl_sym),
        xDlClose: Some(dl_close),
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(get_last_error),
        xCurrentTimeInt64: Some(current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

/// The shim that a table belongs to.
///
/// # Safety
/// `vfs` is a table made by [`table`].
unsafe fn state_of(vfs: *mut sqlite3_vfs) -> &'static State {
    // SAFETY: `table` put a `&'static State` there.
    unsafe { &*(*vfs).pAppData.cast::<State>() }
}

/// Calls a method of the unix VFS.
macro_rules! unix {
    ($state:expr, $method:ident $(, $arg:expr)*) => {{
        let vfs = $state.unix.0;
        ((*vfs).$method.expect("the unix VFS is of version 3 and has every method"))(vfs $(, $arg)*)
    }};
}

/// Methods that are the unix VFS's own.
macro_rules! pass_through {
    ($($name:ident => $method:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        unsafe extern "C" fn $name(vfs: *mut sqlite3_vfs $(, $arg: $type)*) $(-> $result)? {
            // SAFETY: SQLite calls with our table and with arguments that fit the method.
            unsafe { unix!(state_of(vfs), $method $(, $arg)*) }
        }
    )*};
}

/// What looking up a symbol in a loaded extension gives.
type Symbol = Option<unsafe extern "C" fn(*mut sqlite3_vfs, *mut c_void, *const c_char)>;

pass_through! {
    access => xAccess(name: *const c_char, flags: c_int, found: *mut c_int) -> c_int;
    full_pathname => xFullPathname(name: *const c_char, room: c_int, full: *mut c_char) -> c_int;
    dl_open => xDlOpen(name: *const c_char) -> *mut c_void;
    dl_error => xDlError(room: c_int, message: *mut c_char);
    dl_sym => xDlSym(library: *mut c_void, symbol: *const c_char) -> Symbol;
    dl_close => xDlClose(library: *mut c_void);
    randomness => xRandomness(room: c_int, bytes: *mut c_char) -> c_int;
    sleep => xSleep(microseconds: c_int) -> c_int;
    current_time => xCurrentTime(day: *mut f64) -> c_int;
    get_last_error => xGetLastError(room: c_int, message: *mut c_char) -> c_int;
    current_time_int64 => xCurrentTimeInt64(millis: *mut i64) -> c_int;
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls with our table, room for `szOsFile` bytes, and a name that outlives the file.
    unsafe {
        // SQLite closes a file whose opening failed unless it has no methods.
        (*file).pMethods = ptr::null();
        let state = state_of(vfs);
        let path = if state.loses_power() { durable_path(name, flags) } else { None };
        state.powered(ffi::SQLITE_IOERR, |disk| {
            let created = path.is_some_and(|path| !path.exists());
            let real = file::real(file);
            (*real).pMethods = ptr::null();
            let code = unix!(state, xOpen, name, real, flags, flags_out);
            if code != ffi::SQLITE_OK {
                return code;
            }
            if let (Some(disk), Some(path)) = (disk, path) {
                disk.opened(path, created);
            }
            ShimFile::place(file, state, Kind::of(flags), path);
            ffi::SQLITE_OK
        })
    }
}

/// The path of a file that is there after a restart; temporary files are not.
///
/// # Safety
/// `name` is null or a C string that lives as long as the result is used.
unsafe fn durable_path<'a>(name: *const c_char, flags: c_int) -> Option<&'a Path> {
    if name.is_null() || flags & ffi::SQLITE_OPEN_DELETEONCLOSE != 0 {
        return None;
    }
    // SAFETY: it is a C string, by this function's contract.
    Some(unsafe { path_of(name) })
}

/// # Safety
/// `name` is a C string that lives as long as the result is used.
unsafe fn path_of<'a>(name: *const c_char) -> &'a Path {
    // SAFETY: by this function's contract.
    let name = unsafe { CStr::from_ptr(name) };
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    // SAFETY: SQLite calls with our table and a C string.
    unsafe {
        let state = state_of(vfs);
        state.powered(ffi::SQLITE_IOERR_DELETE, |disk| {
            let code = unix!(state, xDelete, name, sync_directory);
            if let (Some(disk), ffi::SQLITE_OK) = (disk, code) {
                disk.deleted(path_of(name));
            }
            code
        })
    }
}
