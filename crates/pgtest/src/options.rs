//! What a cluster of one's own is like.

use std::path::PathBuf;

use crate::Cluster;

/// How [`Cluster::start`] makes a cluster.
#[derive(Clone, Default)]
pub struct Options<'a> {
    /// Whether commits wait for the disk. Off by default, which is much faster and survives all but a power cut.
    pub fsync: bool,
    /// Settings as in `postgresql.conf`, name and value. They win over everything else here.
    pub settings: Vec<(String, String)>,
    /// The primary that the new cluster follows as a hot standby, by streaming replication.
    ///
    /// The standby has the primary's settings and certificate, except for `synchronous_standby_names`; what is
    /// given in [`settings`](Self::settings) comes on top. [`Cluster::synchronize_with`] lets the primary wait for it.
    pub standby_of: Option<&'a Cluster>,
    /// The certificate to serve TLS with. A cluster that has one takes no connection without TLS.
    pub tls: Option<Tls>,
}

/// A server's certificate and its key.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The file with the chain of certificates in PEM, the server's own first.
    pub certificate: PathBuf,
    /// The file with the private key in PEM, without a passphrase.
    pub key: PathBuf,
}

impl Options<'_> {
    /// The same with one more setting.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }
}
