//! A cluster with a certificate.

use std::path::{Path, PathBuf};
use std::process::Command;

use abide_pgtest::{Cluster, Options, Tls, psql};

/// A folder of the test's own.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_cluster_with_a_certificate_speaks_tls_and_nothing_else() {
    let folder = Folder(std::env::temp_dir().join(format!("abide-pgtest-tls-{}", std::process::id())));
    std::fs::create_dir(&folder.0).unwrap();
    let tls = certificate(&folder.0);
    let root = tls.certificate.display().to_string();
    let cluster = Cluster::start(Options { tls: Some(tls), ..Options::default() });
    let database = cluster.database();
    let asks = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert_eq!(database.sql(asks), "t");
    let url = database.url();
    assert_eq!(psql(&format!("{url}?sslmode=verify-full&sslrootcert={root}"), asks).unwrap(), "t");
    let plain = psql(&format!("{url}?sslmode=disable"), asks).unwrap_err();
    assert!(plain.contains("no encryption"), "{plain}");

    let standby = Cluster::start(Options { standby_of: Some(&cluster), ..Options::default() });
    let url = standby.url("postgres");
    assert_eq!(psql(&format!("{url}?sslmode=verify-full&sslrootcert={root}"), asks).unwrap(), "t");
}

/// A certificate for 127.0.0.1 that is its own root.
fn certificate(folder: &Path) -> Tls {
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    command.args(["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]);
    command.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    let output = command.output().expect("openssl, which Debian's PostgreSQL brings along, can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Tls { certificate, key }
}
