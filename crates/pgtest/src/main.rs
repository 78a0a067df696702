//! Starts a throw-away cluster for a drill by hand, and holds it until standard input ends or somebody kills this.
//!
//! Arguments are settings as in `postgresql.conf` (`name=value`), and `fsync=on` for one whose commits wait for the
//! disk. Prints the URL of an empty database and the folder of the cluster, a line each.

use std::io::{self, Write};

use abide_pgtest::{Cluster, Options};

fn main() -> io::Result<()> {
    let mut options = Options::default();
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("fsync", value)) => options.fsync = value == "on",
            Some((name, value)) => options = options.with(name, value),
            None => return Err(io::Error::other(format!("`{argument}` is no setting: write name=value"))),
        }
    }
    let cluster = Cluster::start(options);
    let database = cluster.database();
    writeln!(io::stdout(), "{}\n{}", database.url(), cluster.folder().display())?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
