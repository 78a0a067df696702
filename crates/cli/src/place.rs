//! Where data is: a directory that one server has to itself, or a PostgreSQL database that several servers share.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_core::Millis;
use abide_engine::{Clock, SystemClock};
use abide_server::{Keyring, KeyringFile};
use abide_store::{Postgres, Sealing, Sqlite, SqliteOptions, Store};

use crate::exit::{Exit, Failure};

/// Where the data is if nobody says.
pub(crate) const USUAL_DATA: &str = "abide-data";

/// What somebody said about where data is.
#[derive(Clone, Default)]
pub(crate) struct Told {
    /// A directory.
    pub(crate) data: Option<PathBuf>,
    /// An address of either kind. It may hold a password, so it is never shown.
    pub(crate) store: Option<String>,
}

/// Where data is.
#[derive(Clone)]
pub(crate) enum Place {
    /// A directory.
    Dir(PathBuf),
    /// A database.
    Postgres(Address),
}

/// Where a database is.
#[derive(Clone)]
pub(crate) struct Address {
    url: String,
    shown: String,
}

impl Address {
    /// With the password: for whoever connects, and for nobody else.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl fmt::Display for Address {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.shown)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dir(dir) => dir.display().fmt(to),
            Self::Postgres(address) => address.fmt(to),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, to)
    }
}

impl Place {
    /// The place that flags name, or else the environment, or else a file, or else `usual`.
    pub(crate) fn of(told: Told, file: Told, usual: &str) -> anyhow::Result<Self> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let environment =
            Told { data: variable("ABIDE_DATA").map(Into::into), store: variable("ABIDE_STORE") };
        Self::first(told, environment, file).unwrap_or_else(|| Ok(Self::Dir(usual.into())))
    }

    /// What was read from the environment counts as said there, and what differs from it, as said by a flag.
    fn first(told: Told, environment: Told, file: Told) -> Option<anyhow::Result<Self>> {
        let flags = Told {
            data: told.data.filter(|data| Some(data) != environment.data.as_ref()),
            store: told.store.filter(|store| !store.is_empty() && Some(store) != environment.store.as_ref()),
        };
        let both = [
            (flags, "both --data and --store are given"),
            (environment, "both ABIDE_DATA and ABIDE_STORE are set"),
            (file, "the configuration has both data and store"),
        ];
        both.into_iter().find_map(|(told, both)| match (told.data, told.store) {
            (Some(_), Some(_)) => {
                Some(Err(anyhow::anyhow!("{both}, and data is in one place; leave one out")))
            }
            (Some(dir), None) => Some(Ok(Self::Dir(dir))),
            (None, Some(store)) => Some(Self::parse(&store)),
            (None, None) => None,
        })
    }

    /// Reads an address: `postgres://…`, or `sqlite:DIR`.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        if let Some(dir) = text.strip_prefix("sqlite:").filter(|dir| !dir.is_empty()) {
            return Ok(Self::Dir(dir.strip_prefix("//").unwrap_or(dir).into()));
        }
        anyhow::ensure!(
            text.starts_with("postgres://") || text.starts_with("postgresql://"),
            "a store is postgres://user:password@host:5432/database or sqlite:DIR; this is neither (it is not shown, \
             because it may hold a password)"
        );
        Ok(Self::Postgres(Address { url: text.to_owned(), shown: Postgres::address(text)? }))
    }

    /// The keyring that was named, or the one beside a data directory. A database has no beside.
    pub(crate) fn keyring(&self, named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
        match (named, self) {
            (Some(named), _) => Ok(named),
            (None, Self::Dir(dir)) => Ok(Keyring::default_path(dir)),
            (None, Self::Postgres(_)) => anyhow::bail!(
                "with PostgreSQL, name the keyring: --keyring FILE or ABIDE_KEYRING. Every server on the database needs the \
                 same file; the first one makes it, and the others get a copy"
            ),
        }
    }

    /// The directory, for what is done to a directory alone. Whoever has a database is told what to use instead.
    pub(crate) fn dir(self, instead: &str) -> anyhow::Result<PathBuf> {
        match self {
            Self::Dir(dir) => Ok(dir),
            Self::Postgres(address) => {
                Err(Failure::new(Exit::Refused, format!("{address} is a PostgreSQL database: {instead}"))
                    .into())
            }
        }
    }

    /// Opens the data to look at it, beside whoever works on it.
    pub(crate) fn open_for_reading(&self, sealing: Sealing) -> anyhow::Result<Arc<dyn Store>> {
        Ok(match self {
            Self::Dir(dir) => Arc::new(Sqlite::open_for_reading(dir, sealing)?),
            Self::Postgres(address) => Arc::new(Postgres::open_for_reading(address.url(), sealing)?),
        })
    }

    /// Opens the data to change keys and the like: a directory that no server uses, or a database beside its servers.
    pub(crate) async fn open_beside(&self) -> anyhow::Result<Beside> {
        let (store, own, servers): (Arc<dyn Store>, _, _) = match self {
            Self::Dir(dir) => {
                (Arc::new(Sqlite::open(&SqliteOptions::new(dir))?), SystemClock.now(), Vec::new())
            }
            Self::Postgres(address) => {
                let store = Postgres::open_beside(address.url(), Sealing::in_clear())?;
                let (now, servers) = (store.time().await?, store.servers_alive().await?);
                (Arc::new(store), now, servers)
            }
        };
        let now = store.test_clock().await?.unwrap_or(own);
        Ok(Beside { store, now, servers })
    }

    /// The keyring of this data, which is made only where nothing depends on an old one.
    pub(crate) async fn open_keyring(&self, path: &Path, store: &dyn Store) -> anyhow::Result<Keyring> {
        match self {
            Self::Dir(_) => open_own(path, store).await,
            Self::Postgres(address) => open_shared(path, store, address).await,
        }
    }
}

/// Data that is open for a command, and its time.
pub(crate) struct Beside {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) now: Millis,
    /// The names of those who work on it. A directory that is open is nobody else's.
    servers: Vec<String>,
}

impl Beside {
    /// Refuses data that servers use.
    pub(crate) fn check_unused(&self, place: &Place) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.servers.is_empty(),
            "{place} is in use by {}; stop every server on it first (one that was killed counts for {} s more)",
            self.servers.join(", "),
            abide_store::SERVER_LEASE_MS / 1000
        );
        Ok(())
    }
}

async fn open_own(path: &Path, store: &dyn Store) -> anyhow::Result<Keyring> {
    if !path.exists() && store.api_keys().await?.iter().any(|key| key.revoked_at.is_none()) {
        anyhow::bail!(
            "the keyring {} is missing, and without it no API key of this data can be checked; \
             put it back, or name it with --keyring (if it is lost: revoke every key, then make new ones)",
            path.display()
        );
    }
    Keyring::open_or_create(path).map_err(anyhow::Error::msg)
}

/// Every server on a database has to have the same secrets, or what one signs and seals, another refuses.
async fn open_shared(path: &Path, store: &dyn Store, address: &Address) -> anyhow::Result<Keyring> {
    let mark = store.access().keyring_mark().await?;
    if mark.is_some() && !path.exists() {
        anyhow::bail!(
            "the keyring {} is missing, and {address} has one already; copy the file from another server on it, or from \
             where you keep it safe",
            path.display()
        );
    }
    let keyring = Keyring::open_or_create(path).map_err(anyhow::Error::msg)?;
    let fits = match mark {
        Some(mark) => keyring.bears(mark),
        None => {
            store.access().set_keyring_mark(None, keyring.mark()).await?
                || store.access().keyring_mark().await?.is_some_and(|mark| keyring.bears(mark))
        }
    };
    anyhow::ensure!(
        fits,
        "the keyring {} is not that of {address}, so what it signs and seals would be refused by the other servers; copy \
         the file from another server on it, or from where you keep it safe",
        path.display()
    );
    Ok(keyring)
}

/// Notes that a secret goes from a keyring that servers share, so that they still know it for theirs.
pub(crate) async fn move_mark(store: &dyn Store, file: &KeyringFile, retired: u32) -> anyhow::Result<()> {
    let Some(mark) = store.access().keyring_mark().await? else { return Ok(()) };
    let stays = file.mark_without(retired);
    anyhow::ensure!(
        mark == stays || store.access().set_keyring_mark(Some(mark), stays).await?,
        "somebody else changes the keyring right now; try again"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: &str = "postgres://me:hunter2@127.0.0.1:6432/abide";

    fn told(data: Option<&str>, store: Option<&str>) -> Told {
        Told { data: data.map(Into::into), store: store.map(Into::into) }
    }

    /// Where data is, of what flags and environment, the environment alone, and a file say.
    fn first(flags: Told, environment: Told, file: Told) -> String {
        let merged = Told {
            data: flags.data.or(environment.data.clone()),
            store: flags.store.or(environment.store.clone()),
        };
        match Place::first(merged, environment, file) {
            None => "the usual".to_owned(),
            Some(Ok(place)) => place.to_string(),
            Some(Err(error)) => error.to_string(),
        }
    }

    #[test]
    fn flags_go_before_the_environment_and_that_before_a_file_whichever_kind_they_name() {
        let none = || told(None, None);
        let shown = "postgres://me@127.0.0.1:6432/abide";
        assert_eq!(first(none(), none(), none()), "the usual");
        assert_eq!(first(told(Some("a"), None), told(None, Some(DATABASE)), none()), "a");
        assert_eq!(first(told(None, Some(DATABASE)), told(Some("a"), None), none()), shown);
        assert_eq!(first(none(), told(Some("a"), None), told(None, Some(DATABASE))), "a");
        assert_eq!(first(none(), none(), told(None, Some("sqlite:b"))), "b");
        assert!(first(told(Some("a"), Some(DATABASE)), none(), none()).contains("both --data and --store"));
        assert!(
            first(none(), told(Some("a"), Some(DATABASE)), none()).contains("ABIDE_DATA and ABIDE_STORE")
        );
        assert!(
            first(none(), none(), told(Some("a"), Some(DATABASE))).contains("the configuration has both")
        );
    }

    #[test]
    fn a_password_is_never_told() {
        let place = Place::parse(DATABASE).unwrap();
        let refused = place.clone().dir("use pg_dump").unwrap_err().to_string();
        for said in [place.to_string(), format!("{place:?}"), refused] {
            assert!(said.contains("me@127.0.0.1") && !said.contains("hunter2"), "{said}");
        }
        for wrong in ["mysql://me:hunter2@h/d", "me:hunter2@h/d", "sqlite:", "postgres://me:hunter2@h"] {
            let told = Place::parse(wrong).unwrap_err().to_string();
            assert!(!told.contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn a_directory_can_be_written_as_an_address() {
        for (text, dir) in [("sqlite:a/b", "a/b"), ("sqlite:///var/a", "/var/a"), ("sqlite:/var/a", "/var/a")]
        {
            let place = Place::parse(text).unwrap();
            assert!(matches!(&place, Place::Dir(found) if found == Path::new(dir)), "{place}");
        }
    }

    #[test]
    fn only_a_directory_has_a_keyring_beside_it() {
        let dir = Place::Dir("data".into());
        assert!(dir.keyring(None).unwrap().ends_with("data.keyring"));
        let database = Place::parse(DATABASE).unwrap();
        assert_eq!(database.keyring(Some("k".into())).unwrap(), Path::new("k"));
        assert!(database.keyring(None).unwrap_err().to_string().contains("--keyring"));
    }
}
