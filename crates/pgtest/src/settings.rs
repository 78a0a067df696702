//! The configuration of a cluster: what stands in its `postgresql.conf` and `pg_hba.conf`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use crate::folder::give;
use crate::options::{Options, Tls};
use crate::tools::Account;

/// What every cluster begins with. The port is given to the server when it starts.
const COMMON: &[(&str, &str)] = &[
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
    ("max_connections", "400"),
    ("shared_buffers", "16MB"),
    // Shared memory of parallel queries is a file in the data directory, and not in the system's /dev/shm.
    ("dynamic_shared_memory_type", "mmap"),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
    ("log_line_prefix", "%m [%p] %q%u@%d %a: "),
];

/// Name and value of the settings that `options` ask for, in the order in which they are to be written.
pub(crate) fn of(options: &Options<'_>) -> Vec<(String, String)> {
    let on = if options.fsync { "on" } else { "off" };
    let mut settings: Vec<(String, String)> = Vec::new();
    if options.standby_of.is_none() {
        settings.extend(COMMON.iter().map(|(name, value)| pair(name, value)));
    }
    settings.extend([pair("fsync", on), pair("full_page_writes", on)]);
    if options.tls.is_some() {
        settings.push(pair("ssl", "on"));
    }
    settings
}

/// What a standby has on top: whom it follows, and that nobody follows it.
pub(crate) fn of_standby(name: &str, primary: &str) -> Vec<(String, String)> {
    vec![
        pair("primary_conninfo", primary),
        pair("primary_slot_name", name),
        pair("synchronous_standby_names", ""),
    ]
}

/// Appends `settings` to the configuration in `data`. Where one is there twice, PostgreSQL takes the last.
pub(crate) fn append(data: &Path, settings: &[(String, String)]) {
    let lines: String =
        settings.iter().map(|(name, value)| format!("{name} = '{}'\n", value.replace('\'', "''"))).collect();
    let path = data.join("postgresql.conf");
    let mut file = OpenOptions::new().append(true).open(&path).expect("a new cluster has a postgresql.conf");
    file.write_all(lines.as_bytes()).expect("the settings of a new cluster can be written");
}

/// Lets everybody in who comes from this machine with a password, over TLS alone if there is a certificate.
pub(crate) fn admit(data: &Path, tls: bool) {
    let kind = if tls { "hostssl" } else { "host" };
    let line = |database: &str| format!("{kind} {database} all 127.0.0.1/32 scram-sha-256\n");
    let text = line("all") + &line("replication");
    fs::write(data.join("pg_hba.conf"), text).expect("the rules of a new cluster can be written");
}

/// Puts the certificate and its key where PostgreSQL looks for them.
pub(crate) fn install(data: &Path, tls: &Tls, owner: Option<Account>) {
    for (from, name) in [(&tls.certificate, "server.crt"), (&tls.key, "server.key")] {
        let text = fs::read(from).unwrap_or_else(|error| panic!("cannot read {}: {error}", from.display()));
        let path = data.join(name);
        write_private(&path, &text);
        give(&path, owner);
    }
}

/// PostgreSQL refuses a key that others may read.
fn write_private(path: &Path, text: &[u8]) {
    use std::os::unix::fs::OpenOptionsExt;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text));
    written.unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}
