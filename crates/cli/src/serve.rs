//! `abide serve` and `abide dev`: a server in the foreground.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use abide_core::{Graph, TenantId};
use abide_engine::trace::Spans;
use abide_engine::{
    Clock, Engine, EngineOptions, Failpoints, NetPolicy, StoreClock, SystemClock, TestClock, Window,
};
use abide_server::{
    ApiSecret, App, AppOptions, CallbackMinter, Grant, Keys, Oidc, Otlp, OtlpSettings, ProviderFacts,
    RunSealer, SecretStore, Signer, TenantOf, Tls,
};
use abide_store::{
    ApiKey, Postgres, PostgresOptions, Sealing, Sqlite, SqliteOptions, Stage, StageHook, Store,
};
use anyhow::Context;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::args::{ClientArgs, DevArgs, RunArgs, RunVerb, ServeArgs, StartArgs};
use crate::config::{Config, Usual};
use crate::definition_file::{self, DefinitionFile};
use crate::place::Place;
use crate::{output, run};

/// How long a shutdown waits for work under way; the rest goes on at the next start.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);

/// How long a shutdown waits for the last spans to leave.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

/// What a development server logs: not every request, because its log stands between what else it prints.
const DEV_LOG: &str = "info,abide_server::trace=warn";

/// What only a development server may have.
#[derive(Default)]
struct DevOptions {
    test_clock: bool,
    failpoints: Option<Arc<Failpoints>>,
}

/// A server that is about to listen.
struct Server {
    app: Arc<App>,
    engine: Engine,
    listener: TcpListener,
    url: String,
    signals: Signals,
    otlp: Option<Arc<Otlp>>,
    tls: Option<Arc<Tls>>,
}

/// The signals that ask for an orderly end, listened for before anybody can know that the server is there.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the first that asks for the end. SIGHUP has the certificate read again. Without one, it is the terminal
    /// that is closed above a development server, and nothing to a server.
    async fn first(&mut self, tls: Option<&Tls>, dev: bool) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = self.hang_up.recv() => match tls {
                    Some(tls) => reload(tls),
                    None if dev => return,
                    None => tracing::info!("SIGHUP: there is no certificate to read again"),
                },
            }
        }
    }
}

/// A certificate that is no good is no reason to stop: the one before is.
fn reload(tls: &Tls) {
    match tls.reload() {
        Ok(()) => tracing::info!("read the certificate again; new connections get it"),
        Err(error) => tracing::error!("{error}; the certificate that was read before stays in use"),
    }
}

pub(crate) async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    raise_file_limit();
    let config = Config::resolve(args.server, &Usual { data: "abide-data", log: "info" })?;
    start_logging(&config)?;
    check_shared(&config)?;
    let ground = Ground::open(&config, None)?;
    let store = ground.store.clone();
    let server = or_leave(&*store, prepare_to_serve(&config, ground).await).await?;
    tracing::info!(url = server.url, data = %config.place, "abide is listening");
    run_until_signal(server, false).await
}

pub(crate) async fn dev(args: DevArgs) -> anyhow::Result<()> {
    raise_file_limit();
    let config = Config::resolve(args.server, &Usual { data: ".abide/dev", log: DEV_LOG })?;
    start_logging(&config)?;
    let failpoints =
        args.failpoint.as_deref().map(str::parse::<Failpoints>).transpose().map_err(anyhow::Error::msg)?;
    let failpoints = failpoints.map(Arc::new);
    let dev = DevOptions { test_clock: args.test_clock, failpoints };
    let ground = Ground::open(&config, dev.failpoints.clone())?;
    let store = ground.store.clone();
    let (server, key) = or_leave(&*store, prepare_to_develop(&config, ground, dev).await).await?;
    print_welcome(&server, &key);
    if let Some(workflow) = args.run {
        // Whoever made the certificate trusts it.
        let ca = config.tls.as_ref().map(|(cert, _)| cert.clone());
        let client = ClientArgs { url: server.url.clone(), api_key: Some(key), ca, json: false };
        tokio::spawn(run_example(client, workflow));
    }
    run_until_signal(server, true).await
}

async fn prepare_to_serve(config: &Config, ground: Ground) -> anyhow::Result<Server> {
    if ground.store.test_clock().await?.is_some() {
        let place = &config.place;
        anyhow::bail!(
            "{place} runs on a test clock, which `serve` never does; use `abide dev --test-clock`, or another --data"
        );
    }
    prepare(config, ground, DevOptions::default()).await
}

/// The server, and the key that it prints.
async fn prepare_to_develop(
    config: &Config,
    ground: Ground,
    dev: DevOptions,
) -> anyhow::Result<(Server, String)> {
    let (store, place) = (&ground.store, &config.place);
    if !dev.test_clock && store.test_clock().await?.is_some() {
        anyhow::bail!("{place} runs on a test clock; add --test-clock, or use another --data");
    }
    if dev.test_clock && store.test_clock().await?.is_none() && !store.scan(None, 1).await?.is_empty() {
        anyhow::bail!(
            "{place} has runs in real time; a test clock needs a directory of its own: use another --data"
        );
    }
    let key = dev_key(config, &**store).await?;
    Ok((prepare(config, ground, dev).await?, key))
}

/// A server that does not come up leaves the others at once: they need not count on it until its lease is over.
async fn or_leave<T>(store: &dyn Store, prepared: anyhow::Result<T>) -> anyhow::Result<T> {
    if prepared.is_err() {
        let _ = store.close().await;
    }
    prepared
}

fn start_logging(config: &Config) -> anyhow::Result<()> {
    let filter = log_filter(&config.log)?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would complain on the very stream that can't be written, and die of that.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    if config.log_json {
        log.json().init();
    } else {
        log.init();
    }
    Ok(())
}

/// The filter that was asked for. Libraries that log where requests go, hosts and all, or what is written to a database,
/// tell warnings only, unless they are asked for by name.
fn log_filter(asked: &str) -> anyhow::Result<EnvFilter> {
    const TALKATIVE: [&str; 5] = ["reqwest", "hyper_util", "hyper", "rustls", "tokio_postgres"];
    let read =
        |text: &str| EnvFilter::try_new(text).with_context(|| format!("--log '{asked}' is not a filter"));
    let filter = read(asked)?;
    if filter.max_level_hint().is_some_and(|most| most <= LevelFilter::WARN) {
        return Ok(filter);
    }
    let targets = || asked.split(',').map(|one| one.split(['=', '[', ':']).next().unwrap_or_default().trim());
    let quiet = TALKATIVE.iter().filter(|talkative| !targets().any(|target| target == **talkative));
    read(&quiet.fold(asked.to_owned(), |filter, target| format!("{filter},{target}=warn")))
}

/// What links lead to has to be the same at every server, and none of them knows what is before all.
fn check_shared(config: &Config) -> anyhow::Result<()> {
    anyhow::ensure!(
        config.public_url.is_some() || matches!(config.place, Place::Dir(_)),
        "with PostgreSQL, say where people and other machines reach the servers: --public-url https://abide.example.com. \
         Links in messages lead there, whichever server sends them"
    );
    Ok(())
}

/// What a server stands on.
struct Ground {
    store: Arc<dyn Store>,
    /// Seals runs. It gets its keyring when it is known whether one may be made.
    sealer: Arc<RunSealer>,
    /// Where it listens, if others have to know that before it has its data.
    listener: Option<TcpListener>,
}

impl Ground {
    fn open(config: &Config, failpoints: Option<Arc<Failpoints>>) -> anyhow::Result<Self> {
        let sealer = Arc::new(RunSealer::at(&config.keyring));
        let sealing = Sealing::with(sealer.clone());
        let on_stage = failpoints.map(stage_hook);
        match &config.place {
            Place::Dir(dir) => {
                let options = SqliteOptions { sealing, on_stage, ..SqliteOptions::new(dir) };
                Ok(Self { store: Arc::new(Sqlite::open(&options)?), sealer, listener: None })
            }
            Place::Postgres(address) => {
                let listener = listen(config)?;
                let (name, advertise) = as_peer(config, listener.local_addr()?)?;
                let usual = PostgresOptions::new(address.url());
                let options = PostgresOptions { name, advertise, sealing, on_stage, ..usual };
                Ok(Self { store: Arc::new(Postgres::open(&options)?), sealer, listener: Some(listener) })
            }
        }
    }
}

fn stage_hook(failpoints: Arc<Failpoints>) -> StageHook {
    Arc::new(move |stage| {
        failpoints.pass(match stage {
            Stage::Committing => Window::DecideCommit,
            Stage::Committed => Window::CommitAcknowledge,
        });
    })
}

fn listen(config: &Config) -> anyhow::Result<TcpListener> {
    abide_server::bind(config.listen).map_err(|error| {
        anyhow::anyhow!("can't listen on {}: {error}; choose another address with --listen", config.listen)
    })
}

/// What the other servers call this one, and where they reach it.
fn as_peer(config: &Config, own: SocketAddr) -> anyhow::Result<(String, String)> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = config.name.clone().unwrap_or_else(|| format!("{host}:{}", own.port()));
    if let Some(advertise) = &config.advertise {
        return Ok((name, advertise.clone()));
    }
    anyhow::ensure!(
        !own.ip().is_unspecified(),
        "--listen {} does not say where the other servers on the database reach this one; add --advertise \
         http://HOST:{}, with a name or an address of this machine",
        config.listen,
        own.port()
    );
    Ok((name, own_url(config, own)))
}

fn own_url(config: &Config, own: SocketAddr) -> String {
    format!("http{}://{own}", if config.tls.is_some() { "s" } else { "" })
}

/// The key that `abide dev` prints: the same at each start, as long as the keyring is.
async fn dev_key(config: &Config, store: &dyn Store) -> anyhow::Result<String> {
    let keyring = config.place.open_keyring(&config.keyring, store).await?;
    let secret = ApiSecret::for_dev(&keyring);
    let grant = Grant { act_as: true, ..Grant::everything(TenantId(1), "dev") };
    let row = grant.row(&secret, &keyring, SystemClock.now())?;
    // The others need not read all keys again because one more server starts.
    let is_known = |key: &ApiKey| *key == ApiKey { created_at: key.created_at, ..row.clone() };
    if store.cluster().is_none() || !store.api_keys().await?.iter().any(is_known) {
        store.put_api_keys(vec![row]).await?;
    }
    Ok(secret.text().to_owned())
}

async fn prepare(config: &Config, ground: Ground, dev: DevOptions) -> anyhow::Result<Server> {
    let Ground { store, sealer, listener } = ground;
    let test_clock = open_test_clock(&store, &dev).await?;
    let clock: Arc<dyn Clock> = match &test_clock {
        Some(clock) => clock.clone(),
        None => StoreClock::of(&store),
    };
    let keyring = Arc::new(config.place.open_keyring(&config.keyring, &*store).await?);
    if store.cluster().is_some() {
        keyring.share();
    }
    sealer.unlock(keyring.clone());
    let net = NetPolicy::parse(&config.allow_net).map_err(|error| anyhow::anyhow!("--allow-net: {error}"))?;
    let oidc = open_oidc(config, &*store, &net).await?;
    let keys = Keys::load(store.clone(), keyring.clone()).await?;
    let secrets = Arc::new(SecretStore::new(store.clone(), keyring.clone()));
    let signer = Arc::new(Signer::new(keyring.clone()));
    if oidc.is_none() && keys.is_empty(clock.now()) {
        tracing::warn!(
            "there are no API keys, so nobody can come in; stop, and run `abide keys create --data DIR` (with PostgreSQL: `abide keys create`, while it runs)"
        );
    }
    let agent_policies = abide_server::agent_policies(&*store).await?;
    let kinds = abide_server::worker_kinds(&*store).await?;
    let workflows = config.workflows.as_deref().map(read_workflows).transpose()?.unwrap_or_default();
    let tls = open_tls(config)?;
    let signals = Signals::listen()?;
    let listener = listener.map_or_else(|| listen(config), Ok)?;
    let url = own_url(config, listener.local_addr()?);
    let otlp = config.otlp.as_ref().map(start_otlp).transpose()?;
    let engine = Engine::start(EngineOptions {
        store,
        clock,
        failpoints: dev.failpoints,
        secrets: secrets.clone(),
        net,
        webhooks: Some(signer.clone()),
        minter: Some(Arc::new(CallbackMinter::new(keyring, config.public_url.as_deref().unwrap_or(&url)))),
        event_retention_ms: config.event_retention_ms,
        retention: config.retention,
        channels: config.channels.clone(),
        retry_policy: config.retry_policy.clone(),
        resume: config.resume,
        agent_policies,
        kinds,
        providers: config.providers.clone(),
        spans: otlp.clone().map(|otlp| otlp as Arc<dyn Spans>),
        mocks: config.conformance,
        conversations: config.conversations,
        workflows,
    });
    let app = App::new(AppOptions {
        engine: engine.clone(),
        keys,
        oidc,
        rates: config.rates,
        capacity: config.capacity,
        secrets,
        signer,
        test_clock,
        otlp: otlp.clone(),
        public_url: config.public_url.clone(),
        encrypts: tls.is_some(),
        providers: provider_facts(config),
    });
    Ok(Server { app, engine, listener, url, signals, otlp, tls })
}

/// The clock that tests move, if there is to be one.
async fn open_test_clock(store: &Arc<dyn Store>, dev: &DevOptions) -> anyhow::Result<Option<Arc<TestClock>>> {
    match dev.test_clock {
        true => Ok(Some(Arc::new(TestClock::open(store.clone(), SystemClock.now()).await?))),
        false => Ok(None),
    }
}

/// What is told of the providers.
fn provider_facts(config: &Config) -> Vec<ProviderFacts> {
    let facts = |(name, provider): (&str, &abide_model::Provider)| ProviderFacts {
        name: name.to_owned(),
        kind: provider.endpoint.protocol.name(),
        model: provider.terms.model.clone(),
    };
    config.providers.iter().map(facts).collect()
}

/// What connections are encrypted with, if they are.
fn open_tls(config: &Config) -> anyhow::Result<Option<Arc<Tls>>> {
    let Some((cert, key)) = &config.tls else { return Ok(None) };
    Ok(Some(Arc::new(Tls::open(cert, key).map_err(anyhow::Error::msg)?)))
}

/// Sends traces to a collector.
fn start_otlp(settings: &OtlpSettings) -> anyhow::Result<Arc<Otlp>> {
    Otlp::start(settings).map_err(|error| anyhow::anyhow!("traces can't be sent: {error}"))
}

/// The identity provider, and the tenant of those who come with its tokens.
async fn open_oidc(config: &Config, store: &dyn Store, net: &NetPolicy) -> anyhow::Result<Option<Oidc>> {
    let Some(options) = config.oidc.clone() else { return Ok(None) };
    if let TenantOf::Fixed(name) = &options.tenant {
        crate::keys::make_tenant(store, name).await?;
    }
    Ok(Some(Oidc::open(options, net.clone()).map_err(anyhow::Error::msg)?))
}

/// Every definition in a folder. One that is wrong stops the start: half a folder would be a surprise later.
fn read_workflows(dir: &Path) -> anyhow::Result<Vec<Graph>> {
    let entries =
        std::fs::read_dir(dir).with_context(|| format!("the folder {} can't be read", dir.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| definition_file::is_one(path));
    paths.sort();
    let mut problems = Vec::new();
    let mut graphs: Vec<Graph> = Vec::new();
    for path in paths {
        match DefinitionFile::read(&path)?.admit() {
            Ok(graph) if graphs.iter().any(|other| other.workflow_id == graph.workflow_id) => {
                problems.push(format!(
                    "{}: id: '{}' is used by another file; rename one",
                    path.display(),
                    graph.workflow_id
                ));
            }
            Ok(graph) => graphs.push(graph),
            Err(found) => {
                problems.extend(found.iter().map(|problem| format!("{}: {problem}", path.display())));
            }
        }
    }
    if problems.is_empty() {
        Ok(graphs)
    } else {
        anyhow::bail!("the workflows are not valid:\n  {}", problems.join("\n  "))
    }
}

/// Serves until SIGINT or SIGTERM, then drains: what is acknowledged is on disk, the rest goes on later.
async fn run_until_signal(mut server: Server, dev: bool) -> anyhow::Result<()> {
    let serving = tokio::spawn(abide_server::serve(server.listener, server.app.clone(), server.tls.clone()));
    server.signals.first(server.tls.as_deref(), dev).await;
    tracing::info!("shutting down: taking in nothing new, finishing what is under way");
    server.app.stop();
    let (served, drained) =
        tokio::join!(tokio::time::timeout(DRAIN_PATIENCE, serving), server.engine.drain(DRAIN_PATIENCE));
    drained?;
    if let Ok(served) = served {
        served??;
    }
    if let Some(otlp) = server.otlp {
        // A collector that does not answer is no reason to stay.
        let _ = tokio::time::timeout(FLUSH_PATIENCE, otlp.flush()).await;
    }
    tracing::info!("stopped");
    Ok(())
}

fn print_welcome(server: &Server, key: &str) {
    let workflows: Vec<_> =
        server.engine.registered().iter().map(|graph| graph.workflow_id.to_string()).collect();
    let workflows = if workflows.is_empty() {
        "none (push one with `abide workflow push FILE`, or give a folder with --workflows)".to_owned()
    } else {
        workflows.join(", ")
    };
    output::say(&format!("abide dev is listening on {}", server.url));
    output::say(&format!("workflows: {workflows}"));
    output::say(&format!("inbox: {}/inbox (sign in with the key below)", server.url));
    output::say("in another terminal:");
    output::say(&format!("  export ABIDE_URL={} ABIDE_API_KEY={key}", server.url));
    output::say("  abide run list");
}

/// Starts the example and tells how it goes; its failure is no reason to stop the server.
async fn run_example(client: ClientArgs, workflow: String) {
    let tags = vec!["example".to_owned()];
    let verb =
        RunVerb::Start(StartArgs { workflow: Some(workflow), tags, wait: true, ..StartArgs::default() });
    if let Err(error) = run::dispatch(RunArgs { client, verb }).await {
        output::say(&format!("the example did not end well: {error:#}"));
    }
    output::say("\nthe server goes on; Ctrl-C stops it");
}

/// Connections are files; the usual soft limit of 1024 is none of a server's business. How much is taken on depends on
/// it, so this comes before the configuration.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "the limit on open files stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directives of the filter, sorted.
    fn filter(asked: &str) -> String {
        let text = log_filter(asked).unwrap().to_string();
        let mut directives: Vec<&str> = text.split(',').collect();
        directives.sort_unstable();
        directives.join(",")
    }

    #[test]
    fn hosts_of_requests_are_logged_only_if_somebody_asks_for_them() {
        assert_eq!(
            filter("debug"),
            "debug,hyper=warn,hyper_util=warn,reqwest=warn,rustls=warn,tokio_postgres=warn"
        );
        assert_eq!(
            filter("info,reqwest=debug,hyper_util::client=trace"),
            "hyper=warn,hyper_util::client=trace,info,reqwest=debug,rustls=warn,tokio_postgres=warn"
        );
        assert_eq!(filter("error"), "error", "a filter is never widened");
        assert_eq!(filter("off"), "off");
        assert!(log_filter("a=b=c").is_err());
    }
}
