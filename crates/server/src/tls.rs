//! Encrypted connections: a certificate and its key from two files, which can be read again while the server runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What connections are encrypted with.
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads a certificate, with those that lead to the root behind it, and its key. What is wrong is told with the file
    /// and what to do.
    pub fn open(cert: &Path, key: &Path) -> Result<Self, String> {
        let current = RwLock::new(read(cert, key)?);
        Ok(Self { cert: cert.to_owned(), key: key.to_owned(), current })
    }

    /// Reads both files again, for connections that come from now on. If they are not good, what was read before stays.
    pub fn reload(&self) -> Result<(), String> {
        let fresh = read(&self.cert, &self.key)?;
        *self.current.write().expect("no thread panics holding this") = fresh;
        Ok(())
    }

    /// Encrypts a connection, once the other side has done its part.
    pub(crate) async fn accept(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let current = self.current.read().expect("no thread panics holding this").clone();
        TlsAcceptor::from(current).accept(stream).await
    }
}

fn read(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, String> {
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable("--tls-cert", cert, "a certificate", &error))?;
    if chain.is_empty() {
        return Err(unreadable("--tls-cert", cert, "a certificate", &PemError::NoItemsFound));
    }
    let secret = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| unreadable("--tls-key", key, "a private key", &error))?;
    let made = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret));
    let mut config = made.map_err(|error| unusable(cert, key, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// What stands in a key is never told.
fn unreadable(flag: &str, file: &Path, what: &str, error: &PemError) -> String {
    let file = file.display();
    match error {
        PemError::Io(error) => {
            format!("{flag} {file} can't be read: {error}; check the name and who may read it")
        }
        PemError::NoItemsFound => {
            format!("{flag} {file} holds no {}; give a file in PEM form", what.trim_start_matches("a "))
        }
        _ => format!("{flag} {file} is not {what} in PEM form; it begins with a line -----BEGIN …-----"),
    }
}

fn unusable(cert: &Path, key: &Path, error: &rustls::Error) -> String {
    let (cert, key) = (cert.display(), key.display());
    match error {
        rustls::Error::InconsistentKeys(_) => {
            format!(
                "the key in {key} (--tls-key) does not belong to the first certificate in {cert} (--tls-cert); give the pair"
            )
        }
        error => format!("{cert} (--tls-cert) and {key} (--tls-key) can't be used: {error}"),
    }
}
