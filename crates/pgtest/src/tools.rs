//! Where PostgreSQL's programs are, and the account they run under. Starts nothing by itself.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The directory of the programs, where it is not to be searched for.
const DIRECTORY_VARIABLE: &str = "ABIDE_TEST_POSTGRES_BIN";

/// Where Debian and its kin keep one directory for each major version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// A user that owns a cluster when the process itself must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// PostgreSQL's programs on this machine.
pub(crate) struct Tools {
    directory: PathBuf,
    /// Whom the programs run as; without one, as the user of this process.
    account: Option<Account>,
}

impl Tools {
    /// Those of this machine, searched for once.
    pub(crate) fn find() -> &'static Tools {
        static FOUND: OnceLock<Tools> = OnceLock::new();
        FOUND.get_or_init(|| Tools { directory: directory(), account: account() })
    }

    /// Whom a cluster's folder has to belong to, if not to the user of this process.
    pub(crate) fn account(&self) -> Option<Account> {
        self.account
    }

    /// A program of the server, which works in `folder` and runs under the account of the cluster.
    pub(crate) fn server(&self, program: &str, folder: &Path) -> Command {
        let mut command = clean(self.directory.join(program));
        command.current_dir(folder);
        if let Some(account) = self.account {
            // The standard library also drops the other groups of root.
            command.uid(account.uid).gid(account.gid);
        }
        command
    }

    /// A program of the client. Debian has the real one beside the server; the one in its path is a slow wrapper.
    pub(crate) fn client(&self, program: &str) -> Command {
        let beside = self.directory.join(program);
        clean(if beside.is_file() { beside } else { program.into() })
    }
}

/// A command that takes nothing from the settings of whoever runs the tests.
fn clean(program: PathBuf) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
        command.env_remove(name);
    }
    // There are passwords and certificates in a home, and the cluster's account may not even look into ours.
    command.env("HOME", "/nonexistent").env("LC_ALL", "C");
    command
}

fn directory() -> PathBuf {
    if let Some(told) = std::env::var_os(DIRECTORY_VARIABLE).filter(|told| !told.is_empty()) {
        let told = PathBuf::from(told);
        let missing =
            "is set to a directory without PostgreSQL's `initdb` and `postgres`: correct or unset it";
        assert!(holds_server(&told), "{DIRECTORY_VARIABLE}={} {missing}", told.display());
        return told;
    }
    let places = [from_pg_config, newest_version, in_path];
    places.into_iter().find_map(|place| place().filter(|it| holds_server(it))).unwrap_or_else(|| {
        panic!(
            "this test needs PostgreSQL, and neither `pg_config --bindir`, {VERSIONS}/*/bin nor the path has its \
             `initdb` and `postgres`. Run `scripts/ensure`, or install PostgreSQL 13 or newer (on Debian: `apt-get \
             install postgresql postgresql-client`), or set {DIRECTORY_VARIABLE} to the directory of its programs"
        )
    })
}

fn holds_server(directory: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|program| directory.join(program).is_file())
}

/// Debian's client library brings a `pg_config` that names the server's directory whether or not there is one.
fn from_pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let printed = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(printed.trim()))
}

fn newest_version() -> Option<PathBuf> {
    let versions =
        std::fs::read_dir(VERSIONS).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut versions: Vec<u32> = versions.filter_map(|name| name.parse().ok()).collect();
    versions.sort_unstable();
    let directories = versions.iter().rev().map(|version| Path::new(VERSIONS).join(format!("{version}/bin")));
    directories.into_iter().find(|directory| holds_server(directory))
}

/// A program in the path may be a link: the others are beside what it leads to.
fn in_path() -> Option<PathBuf> {
    let path: OsString = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).find_map(|entry| entry.join("initdb").canonicalize().ok())?;
    found.parent().map(Path::to_owned)
}

/// The account for the clusters of a process that is root, and none for any other.
fn account() -> Option<Account> {
    // A process owns its own entry there.
    let uid = std::fs::metadata("/proc/self").expect("Linux lists this process under /proc").uid();
    if uid != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("/etc/passwd can be read");
    let found = listed(&users, "postgres").or_else(|| listed(&users, "nobody"));
    Some(
        found.expect(
            "PostgreSQL does not serve as root, and there is no user `postgres` or `nobody`: add one",
        ),
    )
}

/// The numbers of a user in the text of a passwd file.
fn listed(users: &str, name: &str) -> Option<Account> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then_some(())?;
        Some(Account { uid: fields.nth(1)?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let users = "root:x:0:0:root:/:/bin/sh\npostgres2:x:7:8::/:\npostgres:x:101:104:,,,:/var:/bin/sh\n";
        assert_eq!(listed(users, "postgres"), Some(Account { uid: 101, gid: 104 }));
        assert_eq!(listed(users, "nobody"), None);
    }

    #[test]
    fn the_programs_of_this_machine_are_found() {
        let output = Tools::find().client("psql").arg("--version").output().unwrap();
        assert!(String::from_utf8(output.stdout).unwrap().starts_with("psql (PostgreSQL) "));
    }
}
