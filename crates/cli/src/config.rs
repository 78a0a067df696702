//! Where settings come from: a file, then the environment, then flags.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

use crate::args::ServerArgs;

/// A configuration file. The names are those of the flags.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileConfig {
    listen: Option<SocketAddr>,
    data: Option<PathBuf>,
    workflows: Option<PathBuf>,
    keyring: Option<PathBuf>,
    #[serde(default, rename = "allow-net")]
    allow_net: Vec<String>,
    #[serde(rename = "otlp-endpoint")]
    otlp_endpoint: Option<String>,
    log: Option<String>,
}

/// Settings, with nothing left open.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) workflows: Option<PathBuf>,
    pub(crate) keyring: PathBuf,
    pub(crate) allow_net: Vec<String>,
    pub(crate) conformance: bool,
    pub(crate) otlp_endpoint: Option<String>,
    pub(crate) log: String,
    pub(crate) log_json: bool,
}

impl Config {
    /// Flags and environment over the file over what is usual for this command.
    pub(crate) fn resolve(args: ServerArgs, file: Option<&Path>, data: &str) -> anyhow::Result<Self> {
        let file = file.map(read).transpose()?.unwrap_or_default();
        let data = args.data.or(file.data).unwrap_or_else(|| data.into());
        let keyring =
            args.keyring.or(file.keyring).unwrap_or_else(|| abide_server::Keyring::default_path(&data));
        Ok(Self {
            listen: args.listen.or(file.listen).unwrap_or_else(|| ([127, 0, 0, 1], 7171).into()),
            data,
            workflows: args.workflows.or(file.workflows),
            keyring,
            allow_net: if args.allow_net.is_empty() { file.allow_net } else { args.allow_net },
            conformance: args.conformance,
            otlp_endpoint: args.otlp_endpoint.or(file.otlp_endpoint).filter(|url| !url.is_empty()),
            log: args.log.or(file.log).unwrap_or_else(|| "info".to_owned()),
            log_json: args.log_json,
        })
    }
}

fn read(path: &Path) -> anyhow::Result<FileConfig> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is not a valid configuration", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> ServerArgs {
        ServerArgs {
            listen: None,
            data: None,
            workflows: None,
            keyring: None,
            allow_net: Vec::new(),
            conformance: false,
            otlp_endpoint: None,
            log: None,
            log_json: false,
        }
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_the_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("abide.toml");
        std::fs::write(&file, "data = 'from-file'\nlog = 'warn'\n").unwrap();
        let config = Config::resolve(args(), Some(&file), "usual").unwrap();
        assert_eq!((config.data, config.log.as_str()), ("from-file".into(), "warn"));
        let flags = ServerArgs { data: Some("from-flag".into()), ..args() };
        let config = Config::resolve(flags, Some(&file), "usual").unwrap();
        assert_eq!(config.data, PathBuf::from("from-flag"));
        assert!(config.keyring.ends_with("from-flag.keyring"), "beside the data: {:?}", config.keyring);
        let config = Config::resolve(args(), None, "usual").unwrap();
        assert_eq!((config.data, config.listen.port()), ("usual".into(), 7171));
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("abide.toml");
        std::fs::write(&file, "lisen = '127.0.0.1:1'\n").unwrap();
        let error = format!("{:#}", Config::resolve(args(), Some(&file), "usual").unwrap_err());
        assert!(error.contains("lisen") && error.contains("abide.toml"), "{error}");
    }
}
