//! Where settings come from: a file, then the environment, then flags.

#[cfg(test)]
mod manual;
mod otlp;
mod resume;
mod suspension;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_core::{HumanRetryPolicy, Keep, Rate, ResumeSettings, Retention};
use abide_engine::limits::EVENT_KEPT_MS;
use abide_model::{ProviderConfig, Providers};
use abide_notify::{ChannelConfig, Channels, ChannelsConfig, NotifyConfig};
use abide_server::limits::{BODIES_BYTES_MIN, DEFINITION_BYTES_MAX};
use abide_server::{Capacity, JwksSource, OidcOptions, OtlpSettings, Rates, Scope, Scopes, TenantOf};
use anyhow::Context;
use serde::Deserialize;

use crate::args::{LimitArgs, OidcArgs, ServerArgs, parse_span};
use crate::place::{Place, Told};
use otlp::FileOtlp;
use resume::FileResume;
use suspension::FileSuspension;

/// A configuration file. The names are those of the flags.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileConfig {
    listen: Option<SocketAddr>,
    #[serde(rename = "public-url")]
    public_url: Option<String>,
    data: Option<PathBuf>,
    store: Option<Address>,
    name: Option<String>,
    advertise: Option<String>,
    workflows: Option<PathBuf>,
    keyring: Option<PathBuf>,
    #[serde(default, rename = "allow-net")]
    allow_net: Vec<String>,
    #[serde(rename = "event-retention")]
    event_retention: Option<String>,
    #[serde(rename = "otlp-endpoint")]
    otlp_endpoint: Option<String>,
    #[serde(rename = "otlp-protocol")]
    otlp_protocol: Option<String>,
    #[serde(rename = "otlp-service-name")]
    otlp_service_name: Option<String>,
    log: Option<String>,
    openintent: Option<PathBuf>,
    #[serde(rename = "tls-cert")]
    tls_cert: Option<PathBuf>,
    #[serde(rename = "tls-key")]
    tls_key: Option<PathBuf>,
    #[serde(default)]
    retention: FileRetention,
    #[serde(default)]
    limits: FileLimits,
    #[serde(default)]
    oidc: FileOidc,
    #[serde(default)]
    suspension: FileSuspension,
    #[serde(default)]
    resume: FileResume,
    #[serde(default)]
    notify: NotifyConfig,
    #[serde(default)]
    channels: BTreeMap<String, ChannelConfig>,
    #[serde(default)]
    providers: BTreeMap<String, ProviderConfig>,
}

/// The address of a store. It may hold a password, so what is wrong with it is told without it.
struct Address(String);

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let read = String::deserialize(reader);
        read.map(Self).map_err(|_| serde::de::Error::custom("a text in quotes is expected here"))
    }
}

/// `[retention]`: for how many days runs are kept when they have ended.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRetention {
    completed_days: Option<Keep>,
    failed_days: Option<Keep>,
    cancelled_days: Option<Keep>,
}

/// `[limits]`: how much a server takes on.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileLimits {
    rate_key: Option<String>,
    rate_tenant: Option<String>,
    max_requests: Option<usize>,
    max_waiting: Option<usize>,
    max_body_mib: Option<u32>,
}

/// `[oidc]`: which identity provider's tokens a server takes.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileOidc {
    issuer: Option<String>,
    audience: Option<String>,
    jwks: Option<String>,
    principal: Option<String>,
    roles: Option<String>,
    scope: Option<String>,
    tenant: Option<String>,
    tenant_claim: Option<String>,
    #[serde(default)]
    grants: BTreeMap<String, Vec<String>>,
}

/// Settings, with nothing left open.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) public_url: Option<String>,
    pub(crate) place: Place,
    /// What the server is called among those on its database.
    pub(crate) name: Option<String>,
    /// Where those reach it.
    pub(crate) advertise: Option<String>,
    pub(crate) workflows: Option<PathBuf>,
    pub(crate) keyring: PathBuf,
    pub(crate) allow_net: Vec<String>,
    /// How long what happened elsewhere is kept for whoever asks for it later.
    pub(crate) event_retention_ms: i64,
    /// For how long runs are kept of which the workflow does not say.
    pub(crate) retention: Retention,
    /// A certificate and its key, if connections are encrypted.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    pub(crate) conformance: bool,
    pub(crate) conversations: bool,
    /// Where traces are sent, if they are.
    pub(crate) otlp: Option<OtlpSettings>,
    pub(crate) log: String,
    pub(crate) log_json: bool,
    pub(crate) rates: Rates,
    pub(crate) capacity: Capacity,
    pub(crate) oidc: Option<OidcOptions>,
    /// How questions go on that nobody answers, if neither they nor their agents say.
    pub(crate) retry_policy: Option<HumanRetryPolicy>,
    /// How interrupted runs go on, if their definitions don't say.
    pub(crate) resume: ResumeSettings,
    /// The ways to reach people.
    pub(crate) channels: Arc<Channels>,
    /// Who is asked when a node calls a model.
    pub(crate) providers: Arc<Providers>,
}

/// What is usual for a command, if nobody says otherwise.
pub(crate) struct Usual {
    /// The data directory.
    pub(crate) data: &'static str,
    /// What to log.
    pub(crate) log: &'static str,
}

impl Config {
    /// Flags and environment over the file over what is usual for this command.
    pub(crate) fn resolve(args: ServerArgs, usual: &Usual) -> anyhow::Result<Self> {
        let path = args.config.as_deref();
        let file = path.map(read).transpose()?.unwrap_or_default();
        let own = path.map(|path| file.suspension.policy(path)).transpose()?.flatten();
        let openintent = args.openintent.or(file.openintent);
        let told = Told { data: args.data, store: args.store.store };
        let in_file = Told { data: file.data, store: file.store.map(|Address(url)| url) };
        let place = Place::of(told, in_file, usual.data)?;
        let keyring = place.keyring(args.keyring.or(file.keyring))?;
        Ok(Self {
            listen: args.listen.or(file.listen).unwrap_or_else(|| ([127, 0, 0, 1], 7171).into()),
            public_url: args.public_url.or(file.public_url).as_deref().map(public_url).transpose()?,
            place,
            name: args.peer.name.or(file.name),
            advertise: args.peer.advertise.or(file.advertise).as_deref().map(advertise).transpose()?,
            workflows: args.workflows.or(file.workflows),
            keyring,
            allow_net: if args.allow_net.is_empty() { file.allow_net } else { args.allow_net },
            event_retention_ms: event_retention(args.event_retention, file.event_retention.as_deref())?,
            retention: retention(path, &file.retention)?,
            tls: tls(args.tls.tls_cert.or(file.tls_cert), args.tls.tls_key.or(file.tls_key))?,
            conformance: args.conformance,
            conversations: !args.no_conversations,
            otlp: otlp::resolve(
                args.otlp,
                FileOtlp {
                    endpoint: file.otlp_endpoint,
                    protocol: file.otlp_protocol,
                    service_name: file.otlp_service_name,
                },
                |name| std::env::var(name).ok(),
            )?,
            log: args.log.or(file.log).unwrap_or_else(|| usual.log.to_owned()),
            log_json: args.log_json,
            rates: rates(&args.limits, &file.limits)?,
            capacity: capacity(&args.limits, &file.limits)?,
            oidc: oidc(args.oidc, file.oidc)?,
            resume: file.resume.settings(),
            retry_policy: suspension::platform(path.zip(own), openintent.as_deref())?,
            channels: Arc::new(channels(
                path,
                ChannelsConfig { notify: file.notify, channels: file.channels },
            )?),
            providers: Arc::new(providers(path, file.providers)?),
        })
    }
}

fn public_url(text: &str) -> anyhow::Result<String> {
    let example = "https://abide.example.com, without a path";
    plain_url(text).with_context(|| format!("--public-url '{text}' is not an address such as {example}"))
}

fn advertise(text: &str) -> anyhow::Result<String> {
    let example = "http://10.0.0.7:7171, without a path";
    plain_url(text).with_context(|| format!("--advertise '{text}' is not an address such as {example}"))
}

/// The address without a slash at its end: paths are put behind it.
fn plain_url(text: &str) -> Option<String> {
    let is_plain = |url: &reqwest::Url| {
        matches!(url.scheme(), "http" | "https")
            && (url.path(), url.query(), url.fragment()) == ("/", None, None)
            && url.username().is_empty()
            && url.password().is_none()
    };
    let url = reqwest::Url::parse(text).ok().filter(is_plain)?;
    Some(url.as_str().trim_end_matches('/').to_owned())
}

fn event_retention(flag: Option<i64>, file: Option<&str>) -> anyhow::Result<i64> {
    let read = |text| parse_span(text).map_err(|error| anyhow::anyhow!("event-retention: {error}"));
    let told = flag.map_or_else(|| file.map(read).transpose(), |ms| Ok(Some(ms)))?;
    Ok(told.unwrap_or(EVENT_KEPT_MS))
}

fn retention(path: Option<&Path>, file: &FileRetention) -> anyhow::Result<Retention> {
    let kept = [
        ("completed_days", file.completed_days),
        ("failed_days", file.failed_days),
        ("cancelled_days", file.cancelled_days),
    ];
    if let Some((key, _)) = kept.iter().find(|(_, kept)| kept.is_some_and(|kept| !kept.is_sound())) {
        let place = path.unwrap_or(Path::new("the configuration")).display();
        anyhow::bail!("{place}: [retention] {key}: {} is expected here", Keep::expected());
    }
    let [completed_days, failed_days, cancelled_days] = kept.map(|(_, kept)| kept);
    Ok(Retention { completed_days, failed_days, cancelled_days })
}

fn tls(cert: Option<PathBuf>, key: Option<PathBuf>) -> anyhow::Result<Option<(PathBuf, PathBuf)>> {
    match (cert, key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some((cert, key))),
        (Some(_), None) => anyhow::bail!("--tls-cert needs the certificate's key: give --tls-key too"),
        (None, Some(_)) => anyhow::bail!("--tls-key needs its certificate: give --tls-cert too"),
    }
}

fn rates(args: &LimitArgs, file: &FileLimits) -> anyhow::Result<Rates> {
    let rate = |flag: Option<Rate>, text: &Option<String>| match (flag, text) {
        (None, Some(text)) => {
            text.parse().map(Some).map_err(|error: String| anyhow::anyhow!("[limits]: {error}"))
        }
        (flag, _) => Ok(flag),
    };
    Ok(Rates {
        key: rate(args.rate_key, &file.rate_key)?,
        tenant: rate(args.rate_tenant, &file.rate_tenant)?,
    })
}

fn capacity(args: &LimitArgs, file: &FileLimits) -> anyhow::Result<Capacity> {
    let usual = Capacity::default();
    let body_bytes = args.max_body_mib.or(file.max_body_mib).map(body_bytes).transpose()?;
    Ok(Capacity {
        requests: args.max_requests.or(file.max_requests).unwrap_or(usual.requests),
        waiting: args.max_waiting.or(file.max_waiting).unwrap_or(usual.waiting),
        body_bytes: body_bytes.unwrap_or(usual.body_bytes),
    })
}

fn body_bytes(mib: u32) -> anyhow::Result<usize> {
    let bytes = (mib as usize).saturating_mul(1 << 20);
    anyhow::ensure!(
        bytes >= BODIES_BYTES_MIN,
        "--max-body-mib {mib} is too little: a tenant has half of it, which has to hold a workflow definition of {} MiB; \
         give {} or more",
        DEFINITION_BYTES_MAX >> 20,
        BODIES_BYTES_MIN >> 20
    );
    Ok(bytes)
}

/// The identity provider, if there is one: then its issuer, its audience and its keys have to be told.
fn oidc(args: OidcArgs, file: FileOidc) -> anyhow::Result<Option<OidcOptions>> {
    let (issuer, audience) = (args.oidc_issuer.or(file.issuer), args.oidc_audience.or(file.audience));
    let jwks = args.oidc_jwks.or(file.jwks);
    let (issuer, audience, jwks) = match (issuer, audience, jwks) {
        (None, None, None) => return Ok(None),
        (Some(issuer), Some(audience), Some(jwks)) => (issuer, audience, jwks),
        _ => anyhow::bail!(
            "tokens are taken only if it is known whose they are and for whom: give --oidc-issuer, --oidc-audience and \
             --oidc-jwks, or all three in [oidc]"
        ),
    };
    let tenant = match (args.oidc_tenant, args.oidc_tenant_claim) {
        (Some(name), _) => TenantOf::Fixed(name),
        (None, Some(claim)) => TenantOf::Claim(claim),
        (None, None) => match (file.tenant, file.tenant_claim) {
            (Some(_), Some(_)) => anyhow::bail!("[oidc] has both tenant and tenant-claim; leave one out"),
            (None, Some(claim)) => TenantOf::Claim(claim),
            (name, None) => TenantOf::Fixed(name.unwrap_or_else(|| "default".to_owned())),
        },
    };
    let or = |flag: Option<String>, file: Option<String>, usual: &str| {
        flag.or(file).unwrap_or_else(|| usual.to_owned())
    };
    let told = args.oidc_grants.into_iter().map(|(role, scopes)| (role, scopes.into_iter().collect()));
    let mut grants = grants(file.grants)?;
    grants.extend(told);
    Ok(Some(OidcOptions {
        issuer,
        audience,
        jwks: JwksSource::parse(&jwks).map_err(|error| anyhow::anyhow!("--oidc-jwks: {error}"))?,
        principal_claim: or(args.oidc_principal, file.principal, "sub"),
        roles_claim: or(args.oidc_roles, file.roles, "roles"),
        scope_claim: or(args.oidc_scope, file.scope, "scope"),
        tenant,
        grants,
    }))
}

fn grants(file: BTreeMap<String, Vec<String>>) -> anyhow::Result<BTreeMap<String, Scopes>> {
    let scopes = |(role, names): (String, Vec<String>)| {
        let scope = |name: &String| {
            Scope::by_name(name)
                .ok_or_else(|| anyhow::anyhow!("[oidc.grants] {role}: there is no scope '{name}'"))
        };
        let scopes = names.iter().map(scope).collect::<anyhow::Result<Scopes>>()?;
        Ok((role, scopes))
    };
    file.into_iter().map(scopes).collect()
}

fn channels(path: Option<&Path>, told: ChannelsConfig) -> anyhow::Result<Channels> {
    let place = path.unwrap_or(Path::new("the configuration")).display();
    Channels::from_config(told).map_err(|error| anyhow::anyhow!("{place}: {error}"))
}

fn providers(path: Option<&Path>, told: BTreeMap<String, ProviderConfig>) -> anyhow::Result<Providers> {
    let place = path.unwrap_or(Path::new("the configuration")).display();
    Providers::from_config(told).map_err(|error| anyhow::anyhow!("{place}: {error}"))
}

fn read(path: &Path) -> anyhow::Result<FileConfig> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
    toml::from_str(&text).map_err(|error| {
        let place = error.span().map_or_else(String::new, |span| place_of(&text, span.start));
        anyhow::anyhow!("{} is not a valid configuration: {place}{}", path.display(), error.message())
    })
}

/// Where something is wrong: its line, and the key that stands there. What is behind the key may be a secret.
fn place_of(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or_default();
    let number = before.matches('\n').count();
    let key = text.lines().nth(number).and_then(|line| line.split_once('=')).map(|(key, _)| key.trim());
    let key = key.map_or_else(String::new, |key| format!(", {key}"));
    format!("line {}{key}: ", number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Usual = Usual { data: "usual", log: "info" };

    fn args() -> ServerArgs {
        ServerArgs {
            config: None,
            openintent: None,
            listen: None,
            public_url: None,
            data: None,
            store: crate::args::StoreArgs::default(),
            peer: crate::args::PeerArgs::default(),
            workflows: None,
            keyring: None,
            allow_net: Vec::new(),
            limits: LimitArgs::default(),
            oidc: OidcArgs::default(),
            tls: crate::args::TlsArgs::default(),
            event_retention: None,
            conformance: false,
            no_conversations: false,
            otlp: crate::args::OtlpArgs::default(),
            log: None,
            log_json: false,
        }
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_the_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("abide.toml");
        std::fs::write(&file, "data = 'from-file'\nlog = 'warn'\n").unwrap();
        let with_file = || ServerArgs { config: Some(file.clone()), ..args() };
        let config = Config::resolve(with_file(), &USUAL).unwrap();
        assert_eq!((config.place.to_string().as_str(), config.log.as_str()), ("from-file", "warn"));
        let flags = ServerArgs { data: Some("from-flag".into()), ..with_file() };
        let config = Config::resolve(flags, &USUAL).unwrap();
        assert_eq!(config.place.to_string(), "from-flag");
        assert!(config.keyring.ends_with("from-flag.keyring"), "beside the data: {:?}", config.keyring);
        let config = Config::resolve(args(), &USUAL).unwrap();
        assert_eq!((config.place.to_string().as_str(), config.listen.port()), ("usual", 7171));
    }

    fn resolved(text: &str) -> anyhow::Result<Config> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("abide.toml");
        std::fs::write(&file, text).unwrap();
        Config::resolve(ServerArgs { config: Some(file), ..args() }, &USUAL)
    }

    #[test]
    fn rates_and_places_are_settings_like_others() {
        let config = resolved("[limits]\nrate-key = '50/s'\nmax-waiting = 7\nmax-body-mib = 64\n").unwrap();
        assert_eq!(config.rates.key.unwrap().to_string(), "50/s:50");
        assert_eq!((config.rates.tenant, config.capacity.waiting), (None, 7));
        assert_eq!(
            (config.capacity.requests, config.capacity.body_bytes),
            (Capacity::default().requests, 64 << 20)
        );
        assert!(
            resolved("[limits]\nrate-key = 'often'\n").unwrap_err().to_string().contains("50/s or 600/m")
        );
        assert_eq!(resolved("[limits]\nmax-body-mib = 32\n").unwrap().capacity.body_bytes, BODIES_BYTES_MIN);
        let told = resolved("[limits]\nmax-body-mib = 31\n").unwrap_err().to_string();
        assert!(told.contains("a workflow definition of 16 MiB; give 32 or more"), "{told}");
    }

    #[test]
    fn events_are_kept_as_long_as_somebody_says() {
        let config = resolved("event-retention = '12h'\n").unwrap();
        assert_eq!(config.event_retention_ms, 43_200_000);
        assert_eq!(event_retention(Some(0), Some("12h")).unwrap(), 0, "a flag wins over the file");
        assert_eq!(resolved("").unwrap().event_retention_ms, EVENT_KEPT_MS);
        assert!(resolved("event-retention = 'long'\n").unwrap_err().to_string().contains("90s"));
    }

    #[test]
    fn a_provider_is_told_whole_or_not_at_all() {
        let all = "[oidc]\nissuer = 'i'\naudience = 'a'\njwks = 'https://id.example/keys'\n";
        let options = resolved(all).unwrap().oidc.unwrap();
        assert_eq!((options.principal_claim.as_str(), options.roles_claim.as_str()), ("sub", "roles"));
        assert_eq!(options.tenant, TenantOf::Fixed("default".to_owned()));
        let more = format!("{all}tenant-claim = 'org'\n[oidc.grants]\nboss = ['runs:read']\n");
        let options = resolved(&more).unwrap().oidc.unwrap();
        assert_eq!(options.tenant, TenantOf::Claim("org".to_owned()));
        assert!(options.grants["boss"].allow(Scope::RunsRead));
        for (text, what) in [
            ("[oidc]\nissuer = 'i'\n".to_owned(), "--oidc-audience"),
            (format!("{all}tenant = 'a'\ntenant-claim = 'b'\n"), "leave one out"),
            (format!("{all}[oidc.grants]\nboss = ['runs:see']\n"), "no scope 'runs:see'"),
            (all.replace("https", "http"), "use https://"),
        ] {
            let told = format!("{:#}", resolved(&text).unwrap_err());
            assert!(told.contains(what), "{told}");
        }
        assert!(resolved("").unwrap().oidc.is_none());
    }

    #[test]
    fn channels_are_settings_whose_secrets_are_never_told() {
        let slack = "[channels.slack]\ntype = 'slack'\nurl = 'https://hooks.example/s3cr3t'\n";
        let config = resolved(&format!("[notify]\ndefault = 'slack'\n{slack}")).unwrap();
        assert_eq!(config.channels.names().collect::<Vec<_>>(), ["slack"]);
        assert!(resolved("").unwrap().channels.is_empty());
        for (text, what) in [
            (slack.replace("'slack'", "'smoke'"), "[channels.slack] type"),
            (slack.replace("url", "urll"), "line 3, urll: unknown field `urll`"),
            (slack.replace("url = ", "url = ["), "line "),
            (slack.replace("'https://hooks.example/s3cr3t'", "{ s3cr3t = 1 }"), "a text in quotes"),
            (slack.replace("'https://hooks.example/s3cr3t'", "s3cr3t"), "line 3, url: "),
            (format!("[notify]\ndefault = 'mail'\n{slack}"), "[notify] default"),
            ("[notify]\nper-recipient = 'often'\n".to_owned(), "[notify] per-recipient"),
        ] {
            let told = format!("{:#}", resolved(&text).unwrap_err());
            assert!(told.contains(what) && told.contains("abide.toml"), "{told}");
            assert!(!told.contains("s3cr3t"), "{told}");
        }
    }

    #[test]
    fn the_operator_says_how_interrupted_runs_go_on() {
        let told = "[resume]\nauto = false\nmax_attempts = 1\non_refusal = 'fail'\n\
                    [resume.cooldown_seconds]\ntimeout = 5\nprocess_crash = 0\n";
        let resume = resolved(told).unwrap().resume;
        assert_eq!((resume.auto, resume.max_attempts), (Some(false), Some(1)));
        assert_eq!(resume.cooldown_seconds, [None, Some(5), None, Some(0)]);
        assert_eq!(resume.on_refusal, Some(abide_core::OnRefusal::Fail));
        assert_eq!(resolved("").unwrap().resume, ResumeSettings::default());
        for (text, what) in [
            ("[resume]\nmax_atempts = 1\n", "line 2, max_atempts: unknown field"),
            ("[resume]\nmax_attempts = -1\n", "line 2, max_attempts: give a whole number from 0 to"),
            ("[resume]\nmax_attempts = 'x'\n", "line 2, max_attempts: "),
            ("[resume]\non_refusal = 'panic'\n", "line 2, on_refusal: use 'escalate' or 'fail'"),
            ("[resume.cooldown_seconds]\nreset = 1\n", "line 2, reset: unknown field"),
            ("[resume.cooldown_seconds]\n\ntimeout = 1.5\n", "line 3, timeout: "),
        ] {
            let told = format!("{:#}", resolved(text).unwrap_err());
            assert!(told.contains(what) && told.contains("abide.toml"), "{told}");
        }
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let error = format!("{:#}", resolved("lisen = '127.0.0.1:1'\n").unwrap_err());
        assert!(error.contains("lisen") && error.contains("abide.toml"), "{error}");
    }

    #[test]
    fn providers_of_models_are_settings_and_a_key_in_the_wrong_place_is_never_told() {
        let config =
            resolved("[providers.local]\nkind = 'openai'\nbase-url = 'http://127.0.0.1:1/v1'\n").unwrap();
        assert!(config.providers.get("local").is_some());
        let key = "sk-proj-aaaabbbbccccdddd";
        let told =
            resolved(&format!("[providers.a]\nkind = 'openai'\nkey = '{key}'\n")).unwrap_err().to_string();
        assert!(told.contains("abide.toml: [providers.a] key: it looks like the key itself"), "{told}");
        assert!(!told.contains(key), "{told}");
        let told = resolved("[providers.a]\nkind = 'openai'\ntimeout = '5'\n").unwrap_err().to_string();
        assert!(told.contains("line 3, timeout: it is not a time"), "{told}");
    }
}
