//! Where a database is, and how to get there: its address, and TLS that is verified or not there at all.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, Connection};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::session::{Fault, words};
use crate::Error;

/// How long one host may take to answer. There may be others.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// After how much silence the other side is taken for gone.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// A connection whose messages somebody has to read.
pub(super) type Wire = Connection<
    tokio_postgres::Socket,
    <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>>::Stream,
>;

/// A database's address.
pub(super) struct Target {
    config: Config,
    tls: MakeRustlsConnect,
    shown: String,
}

impl Target {
    /// Reads a URL.
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let (url, given) = Given::take(url);
        let mut config: Config = url.parse().map_err(|error| {
            let reason = words(&error as &tokio_postgres::Error);
            Error::Refused(format!(
                "the store's address can't be read: {reason}. Write it like postgres://user:password@host:5432/database"
            ))
        })?;
        if config.get_dbname().is_none() {
            let reason =
                "the store's address names no database; add it behind the host: postgres://user@host/abide";
            return Err(Error::Refused(reason.to_owned()));
        }
        let is_local = config.get_hosts().iter().all(is_local);
        match given.mode.as_deref() {
            None if is_local => config.ssl_mode(SslMode::Disable),
            Some("disable") => config.ssl_mode(SslMode::Disable),
            None | Some("require" | "verify-full") => config.ssl_mode(SslMode::Require),
            Some(other) => {
                return Err(Error::Refused(format!(
                    "sslmode={other} is not supported: use verify-full (certificates are always verified) or disable"
                )));
            }
        };
        config.connect_timeout(CONNECT_PATIENCE).keepalives_idle(SILENCE_MAX).tcp_user_timeout(SILENCE_MAX);
        if config.get_application_name().is_none() {
            config.application_name("abide");
        }
        let tls = tls(given.roots.as_deref(), config.get_ssl_mode())?;
        Ok(Self { shown: shown(&config), config, tls: MakeRustlsConnect::new(tls) })
    }

    /// The address without its password.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) async fn connect(&self) -> Result<(Client, Wire), Fault> {
        let connected = self.config.connect(self.tls.clone()).await;
        connected.map_err(|error| Fault::Lost(format!("{}: {}", self.shown, words(&error))))
    }
}

/// What an address says that PostgreSQL's client does not read itself.
#[derive(Default)]
struct Given {
    mode: Option<String>,
    roots: Option<String>,
}

impl Given {
    fn take(url: &str) -> (String, Self) {
        let mut given = Self::default();
        let Some((address, query)) = url.split_once('?') else { return (url.to_owned(), given) };
        let mut rest = Vec::new();
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some(("sslmode", mode)) => given.mode = Some(mode.to_owned()),
                Some(("sslrootcert", path)) => given.roots = Some(path.to_owned()),
                _ => rest.push(pair),
            }
        }
        let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
        (format!("{address}{query}"), given)
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        Host::Unix(_) => true,
    }
}

fn shown(config: &Config) -> String {
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(ix, host)| match host {
            Host::Tcp(name) => {
                let port = config.get_ports().get(ix).or(config.get_ports().first()).copied().unwrap_or(5432);
                format!("{name}:{port}")
            }
            Host::Unix(path) => path.display().to_string(),
        })
        .collect();
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    format!("postgres://{user}{}/{}", hosts.join(","), config.get_dbname().unwrap_or_default())
}

/// Certificates are verified against the roots that were named, or those of the system.
fn tls(roots: Option<&str>, mode: SslMode) -> Result<ClientConfig, Error> {
    let refused = |reason: String| Error::Refused(format!("TLS to the store can't be set up: {reason}"));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(error.to_string()))?;
    let mut store = RootCertStore::empty();
    if let Some(path) = roots {
        let certificates =
            CertificateDer::pem_file_iter(path).map_err(|error| refused(format!("{path}: {error}")))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| refused(format!("{path}: {error}")))?;
            store.add(certificate).map_err(|error| refused(format!("{path}: {error}")))?;
        }
    } else if mode != SslMode::Disable {
        let verified = builder.with_platform_verifier().map_err(|error| refused(error.to_string()))?;
        return Ok(verified.with_no_client_auth());
    }
    Ok(builder.with_root_certificates(store).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target, String> {
        Target::parse(url).map_err(|error| error.to_string())
    }

    #[test]
    fn a_password_is_never_shown() {
        let shown = target("postgres://me:hunter2@127.0.0.1:6432/abide").unwrap().shown().to_owned();
        assert_eq!(shown, "postgres://me@127.0.0.1:6432/abide");
    }

    #[test]
    fn tls_is_asked_for_unless_the_database_is_on_this_machine() {
        let mode = |url: &str| target(url).unwrap().config.get_ssl_mode();
        assert_eq!(mode("postgres://me@localhost/abide"), SslMode::Disable);
        assert_eq!(mode("postgres://me@10.0.0.1/abide"), SslMode::Require);
        assert_eq!(mode("postgres://me@10.0.0.1/abide?sslmode=disable&connect_timeout=3"), SslMode::Disable);
        assert_eq!(mode("postgres://me@localhost,10.0.0.1/abide"), SslMode::Require);
    }

    #[test]
    fn an_address_that_says_too_little_or_too_much_is_refused_with_what_to_write() {
        for (url, said) in [
            ("postgres://me@localhost", "names no database"),
            ("postgres://me@localhost/a?sslmode=prefer", "sslmode=prefer is not supported"),
            ("postgres://me@localhost/a?colour=red", "can't be read"),
            ("postgres://me@10.0.0.1/a?sslrootcert=/nowhere", "/nowhere"),
        ] {
            let refused = target(url).err().unwrap();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
