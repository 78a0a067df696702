//! What servers and tools call.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_core::{
    BreakerState, Cancellation, Command, Drain, GROUP_WORKFLOW, Graph, HumanRetryPolicy, INTENT_WORKFLOW,
    Json, JsonMap, Key, Millis, Offers, Parent, Record, Rejection, ResumeSettings, Retention, Run, RunId,
    Salt, Start, Status, TenantId,
};
use abide_model::Providers;
use abide_notify::Channels;
use abide_store::{
    ChildRow, Erased, Erasure, KindRow, Lane, ListQuery, Listed, NewWorkflow, Role, Store, WebhookKey,
    WorkflowVersion,
};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::breakers::{Breakers, ProviderHealth};
use crate::callbacks::Callbacks;
use crate::clock::new_id;
use crate::confirm::give_way;
use crate::containers::Circles;
use crate::executor::Executor;
use crate::external::External;
use crate::graphs::Graphs;
use crate::hot::Hot;
use crate::models::Models;
use crate::notices::Notices;
use crate::outbox::Outbox;
use crate::peers::Peers;
use crate::retention::Keeper;
use crate::shell::{Basis, Shell};
use crate::stats::{Counters, Stats};
use crate::surroundings::AllSurroundings;
use crate::timers::Timers;
use crate::trace::{self, Spans, Teller, Trace};
use crate::webhooks::Webhooks;
use crate::workers::Workers;
use crate::{
    Clock, Envelopes, Error, Failpoints, HttpExecutor, Minter, NetPolicy, NoSecrets, Reply, Secrets,
    Subscription, breakers, callbacks, executor, external, limits, notices, outbox, peers, reply, retention,
    timers, webhooks, workers,
};

/// Runs of many tenants on one store.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shell: Arc<Shell>,
    loops: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

/// What an engine is made of.
pub struct EngineOptions {
    /// Where journals live.
    pub store: Arc<dyn Store>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where a test kills the process.
    pub failpoints: Option<Arc<Failpoints>>,
    /// Users' named secrets.
    pub secrets: Arc<dyn Secrets>,
    /// Which private addresses may be reached.
    pub net: NetPolicy,
    /// How webhooks are told of events; without it, what is on its way to them stays on disk.
    pub webhooks: Option<Arc<dyn Envelopes>>,
    /// Who makes the tokens of those who are told of an interrupt; without it, they are not told.
    pub minter: Option<Arc<dyn Minter>>,
    /// The ways to reach people; without any, nobody is told but callbacks.
    pub channels: Arc<Channels>,
    /// What the operator says about questions that nobody answers.
    pub retry_policy: Option<HumanRetryPolicy>,
    /// What the operator says about runs that were interrupted.
    pub resume: ResumeSettings,
    /// What the agents of each tenant say about theirs.
    pub agent_policies: HashMap<TenantId, BTreeMap<String, HumanRetryPolicy>>,
    /// The kinds of nodes that workers have ever provided, of every tenant.
    pub kinds: Vec<KindRow>,
    /// How long an event from elsewhere is kept.
    pub event_retention_ms: Millis,
    /// For how long runs are kept of which the workflow does not say.
    pub retention: Retention,
    /// The providers of models.
    pub providers: Arc<Providers>,
    /// Who takes the spans of what is done, if anybody does.
    pub spans: Option<Arc<dyn Spans>>,
    /// Whether nodes play the mocks that OpenWOP's public fixtures need.
    pub mocks: bool,
    /// Whether conversations may be part of workflows.
    pub conversations: bool,
    /// Definitions for every tenant. They are given here because children that were asked for are started as soon as
    /// the engine is.
    pub workflows: Vec<Graph>,
}

impl EngineOptions {
    /// An engine on a store and a clock, and nothing else.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let (secrets, net) = (Arc::new(NoSecrets), NetPolicy::default());
        Self {
            store,
            clock,
            failpoints: None,
            secrets,
            net,
            webhooks: None,
            minter: None,
            channels: Arc::default(),
            retry_policy: None,
            resume: ResumeSettings::default(),
            agent_policies: HashMap::new(),
            kinds: Vec::new(),
            event_retention_ms: limits::EVENT_KEPT_MS,
            retention: Retention::default(),
            providers: Arc::default(),
            spans: None,
            mocks: false,
            conversations: true,
            workflows: Vec::new(),
        }
    }
}

/// A run to be started.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Whose.
    pub tenant: TenantId,
    /// The workflow's id.
    pub workflow_id: String,
    /// What goes in.
    pub inputs: JsonMap,
    /// The caller's labels.
    pub tags: Vec<String>,
    /// The caller's own data.
    pub metadata: Option<Json>,
    /// The caller's options.
    pub configurable: Option<Json>,
    /// The run and node it stands for.
    pub parent: Option<Parent>,
    /// Who starts it.
    pub by: Option<String>,
    /// The trace that it belongs to.
    pub trace: Option<Trace>,
    /// What the caller says it is about.
    pub scope: Option<String>,
    /// It does not start while another that says so is under way for the same workflow and scope.
    pub exclusive: bool,
    /// Who is told when it waits for an answer.
    pub callback_url: Option<String>,
    /// The runs that it waits for.
    pub depends_on: Vec<RunId>,
    /// It begins only when somebody activates it.
    pub draft: bool,
}

impl NewRun {
    /// A run with nothing but a workflow.
    pub fn of(tenant: TenantId, workflow_id: &str) -> Self {
        Self {
            tenant,
            workflow_id: workflow_id.to_owned(),
            inputs: JsonMap::new(),
            tags: Vec::new(),
            metadata: None,
            configurable: None,
            parent: None,
            by: None,
            trace: None,
            scope: None,
            exclusive: false,
            callback_url: None,
            depends_on: Vec::new(),
            draft: false,
        }
    }
}

impl Engine {
    /// Starts an engine on the current runtime. What a dead process left behind goes on at once.
    pub fn start(options: EngineOptions) -> Self {
        let workers = Workers::new(&*options.store, &options.kinds);
        let (store, clock) = (options.store.clone(), options.clock.clone());
        let settings = options.providers.iter().map(|(name, provider)| (name.to_owned(), provider.breaker));
        let breakers = Breakers::new(store, clock, settings.collect());
        let terms = Arc::new(options.providers.terms());
        let shell = Arc::new(Shell {
            store: options.store,
            clock: options.clock,
            graphs: Graphs::new(Offers { mocks: options.mocks, conversations: options.conversations }),
            hot: Hot::default(),
            watchers: Arc::default(),
            assigned: tokio::sync::watch::Sender::new(0),
            peers: Peers::default(),
            timers: Timers::default(),
            executor: Executor::new(),
            outbox: Outbox::default(),
            circles: Circles::default(),
            members: Circles::default(),
            webhooks: Webhooks::new(options.webhooks),
            external: External::new(options.event_retention_ms),
            callbacks: Callbacks::new(options.minter),
            surroundings: AllSurroundings::new(
                options.retry_policy,
                options.resume,
                !options.conversations,
                !options.channels.is_empty(),
                terms,
                options.agent_policies,
                options.kinds,
            ),
            workers,
            notices: Notices::new(options.channels),
            breakers,
            models: Models::new(options.providers),
            http: HttpExecutor::new(options.net).map_err(|error| error.to_string()),
            secrets: options.secrets,
            keeper: Keeper::new(options.retention),
            permits: Arc::new(Semaphore::new(limits::COMMITS_IN_FLIGHT_MAX)),
            draining: AtomicBool::new(false),
            failpoints: options.failpoints,
            teller: options.spans.clone().map(|spans| Arc::new(Teller::new(spans))),
            spans: options.spans,
            counters: Counters::default(),
            runtime: tokio::runtime::Handle::current(),
        });
        options.workflows.into_iter().for_each(|graph| shell.graphs.register(graph));
        if let Some(teller) = &shell.teller {
            // It goes on until everything that is durable was told.
            tokio::spawn(trace::run(teller.clone(), shell.store.clone()));
        }
        let loops = vec![
            tokio::spawn(timers::run(shell.clone())),
            tokio::spawn(executor::run(shell.clone())),
            tokio::spawn(outbox::run(shell.clone())),
            tokio::spawn(shell.clone().in_role(Role::Webhooks, webhooks::run)),
            tokio::spawn(shell.clone().in_role(Role::Retention, reply::run)),
            tokio::spawn(external::run(shell.clone())),
            tokio::spawn(shell.clone().in_role(Role::Retention, external::purge)),
            tokio::spawn(shell.clone().in_role(Role::Callbacks, callbacks::run)),
            tokio::spawn(shell.clone().in_role(Role::Retention, retention::run)),
            tokio::spawn(shell.clone().in_role(Role::Notices, notices::run)),
            tokio::spawn(workers::run_claims(shell.clone())),
            tokio::spawn(workers::run_leases(shell.clone())),
            tokio::spawn(workers::run_calls(shell.clone())),
            tokio::spawn(shell.clone().in_role(Role::Breakers, breakers::run)),
            tokio::spawn(peers::run(shell.clone())),
        ];
        Self { shell, loops: Arc::new(Mutex::new(loops)) }
    }

    /// The workflows that were registered for every tenant.
    pub fn registered(&self) -> Vec<Arc<Graph>> {
        self.shell.graphs.shared()
    }

    /// Whether workflows may use the node kinds behind this capability of OpenWOP.
    pub fn offers(&self, capability: &str) -> bool {
        self.shell.graphs.offers().capability(capability)
    }

    /// Whether runs may ask for the mocks of OpenWOP's public fixtures.
    pub fn plays_mocks(&self) -> bool {
        self.shell.graphs.plays_mocks()
    }

    /// The definition that a new run of this workflow would follow.
    pub async fn workflow(&self, tenant: TenantId, id: &str) -> Result<Arc<Graph>, Error> {
        self.shell.graphs.named(&*self.shell.store, tenant, id).await
    }

    /// Makes a version of a tenant's workflow, durably. The same bytes as the latest version make none.
    pub async fn push_workflow(
        &self,
        tenant: TenantId,
        source: &[u8],
        by: Option<String>,
    ) -> Result<WorkflowVersion, Error> {
        self.check_open()?;
        let source: Arc<[u8]> = source.into();
        let checked = self.apart(source.len(), move || Graph::admit(&source)).await?;
        let graph = checked.map_err(Error::Invalid)?;
        check_free_id(&graph)?;
        graph.check_conversations(self.shell.graphs.offers())?;
        let new = NewWorkflow {
            tenant,
            id: graph.workflow_id.to_string(),
            name: graph.name.clone(),
            hash: graph.hash,
            source: graph.source.clone(),
            at: self.shell.clock.now(),
            by,
            retention: Some(graph.retention()).filter(|said| !said.is_silent()).map(|said| said.text()),
        };
        // A caller that goes away does not keep a version that is on disk from being followed.
        let shell = self.shell.clone();
        let pushing =
            self.shell.runtime.spawn(async move { shell.graphs.push(&*shell.store, new, graph).await });
        pushing.await.map_err(|_| Error::Draining)?
    }

    /// Does work that grows with so many bytes of a definition, apart from the threads that serve everybody.
    pub async fn apart<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.shell.graphs.apart.run(bytes, work).await
    }

    /// How the providers of a tenant do, by name.
    pub async fn provider_health(&self, tenant: TenantId) -> Result<Vec<ProviderHealth>, Error> {
        self.shell.breakers.health(tenant).await
    }

    /// How the breakers stand that were asked since the start, with their providers: one for each tenant.
    pub async fn breaker_states(&self) -> Vec<(String, BreakerState)> {
        self.shell.breakers.states().await
    }

    /// A run's children.
    pub async fn children(&self, key: Key, limit: usize) -> Result<Vec<ChildRow>, Error> {
        Ok(self.shell.store.children(key, limit).await?)
    }

    /// Erases the payloads of a run that has ended, for good. The answer is how many events lost theirs.
    pub async fn erase(&self, key: Key, by: Option<String>, reason: Option<String>) -> Result<u64, Error> {
        self.check_open()?;
        let erasure = Erasure { at: self.shell.clock.now(), by, reason };
        // A caller that goes away does not keep a long one from being done.
        let store = self.shell.store.clone();
        let erasing = self.shell.runtime.spawn(async move { store.erase(key, erasure).await });
        let erased = erasing.await.map_err(|_| Error::Draining)??;
        if erased != Erased::NotEnded {
            self.shell.forget_run(key);
        }
        match erased {
            Erased::NotFound => Err(Error::RunNotFound(key.id)),
            Erased::NotEnded => Err(Error::NotEnded(key.id)),
            Erased::Already => Ok(0),
            Erased::Done { events } => Ok(events),
        }
    }

    /// Forgets a webhook and everything on its way to it. `false` if there is none.
    pub async fn delete_webhook(&self, key: WebhookKey) -> Result<bool, Error> {
        self.check_open()?;
        // A caller that goes away does not leave half of it behind.
        let store = self.shell.store.clone();
        let deleting = self.shell.runtime.spawn(async move { store.webhooks().delete(key).await });
        Ok(deleting.await.map_err(|_| Error::Draining)??)
    }

    /// Starts a run. When this returns, the run is on disk and went as far as it can by itself.
    pub async fn start_run(&self, new: NewRun) -> Result<(RunId, Status), Error> {
        self.check_open()?;
        let graph = self.workflow(new.tenant, &new.workflow_id).await?;
        self.start_as(new, graph, Basis::default(), |run| (run.key().id, run.status())).await
    }

    /// Starts a run and answers as `reply` says. The answer is kept with the start, if the request may be repeated.
    pub async fn start_for(&self, new: NewRun, reply: Reply) -> Result<Vec<u8>, Error> {
        self.check_open()?;
        let graph = self.workflow(new.tenant, &new.workflow_id).await?;
        let basis = Basis { reply: Some(reply.clone()), ..Basis::default() };
        self.start_as(new, graph, basis, |run| reply.body(run)).await
    }

    async fn start_as<T>(
        &self,
        new: NewRun,
        graph: Arc<Graph>,
        basis: Basis,
        see: impl Fn(&Run) -> T,
    ) -> Result<T, Error> {
        let claimed = new
            .exclusive
            .then(|| (new.tenant, new.workflow_id.clone(), new.scope.clone().unwrap_or_default()));
        if let Some(holder) = self.claimant(claimed.as_ref()).await? {
            return Err(Error::Claimed(holder));
        }
        let depends_on = self.upstreams(new.tenant, &new.depends_on).await?;
        let depends_on = self.named(new.tenant, depends_on, &new.inputs).await?;
        let key = RunId(new_id(&*self.shell.store, &*self.shell.clock)).of(new.tenant);
        let salt: Salt = *uuid::Uuid::new_v4().as_bytes();
        let NewRun {
            inputs,
            tags,
            metadata,
            configurable,
            parent,
            by,
            trace,
            scope,
            exclusive,
            callback_url,
            draft,
            ..
        } = new;
        let given = Start {
            inputs,
            tags,
            metadata,
            parent,
            by,
            configurable,
            trace,
            scope,
            exclusive,
            callback_url,
            depends_on,
            draft,
            ..Start::of(key, salt, graph)
        };
        for tries in 0..limits::DECIDE_ATTEMPTS_MAX {
            match self.shell.start(given.clone(), basis.clone(), &see).await {
                Err(Error::Store(abide_store::Error::Claimed)) => {}
                other => return other,
            }
            // Whoever came first may have ended since, and then it is our turn.
            give_way(&*self.shell.store, tries).await;
            if let Some(holder) = self.claimant(claimed.as_ref()).await? {
                return Err(Error::Claimed(holder));
            }
        }
        Err(Error::Contended)
    }

    /// Who has a scope to itself.
    async fn claimant(&self, claim: Option<&(TenantId, String, String)>) -> Result<Option<RunId>, Error> {
        let Some((tenant, workflow, scope)) = claim.cloned() else { return Ok(None) };
        Ok(self.shell.store.claimant(tenant, workflow, scope).await?)
    }

    /// Cancels a run. The answer is how it stands then.
    pub async fn cancel(
        &self,
        key: Key,
        reason: Option<String>,
        by: Option<String>,
    ) -> Result<Status, Error> {
        let asked = Cancellation { reason, cancelled_by: by, ..Cancellation::default() };
        self.ask(key, Command::Cancel(asked)).await
    }

    /// Keeps a run's nodes from starting, at once.
    pub async fn pause(&self, key: Key, reason: Option<String>, by: Option<String>) -> Result<Status, Error> {
        self.ask(key, Command::Pause { reason, by, drain: Drain::Immediate }).await
    }

    /// Lifts a pause.
    pub async fn resume(&self, key: Key, by: Option<String>) -> Result<Status, Error> {
        self.ask(key, Command::Resume { reason: None, by }).await
    }

    /// Has a run decide a command and answers as `reply` says. The answer is kept with the decision, if the request may
    /// be repeated.
    pub async fn ask_for(&self, key: Key, command: &Command, reply: Reply) -> Result<Vec<u8>, Error> {
        self.check_open()?;
        let basis = Basis { reply: Some(reply.clone()), ..Basis::default() };
        self.shell.decide(key, command, Lane::Interactive, basis, |run| reply.body(run)).await
    }

    async fn ask(&self, key: Key, command: Command) -> Result<Status, Error> {
        self.check_open()?;
        self.shell.decide(key, &command, Lane::Interactive, Basis::default(), Run::status).await
    }

    /// Turns whenever this server has told an agent to work on something.
    pub fn assignments(&self) -> tokio::sync::watch::Receiver<u64> {
        self.shell.assigned.subscribe()
    }

    /// Looks at a run as it stands on disk.
    pub async fn read<T>(&self, key: Key, see: impl Fn(&Run) -> T) -> Result<T, Error> {
        self.shell.read(key, see).await
    }

    /// A run's columns, as they stand on disk.
    pub async fn head(&self, key: Key) -> Result<Listed, Error> {
        self.shell.store.head(key).await?.ok_or(Error::RunNotFound(key.id))
    }

    /// A run's events from `from` on, at most `limit`.
    pub async fn events(&self, key: Key, from: u64, limit: usize) -> Result<Vec<Record>, Error> {
        Ok(self.shell.store.journal(key, from, limit).await?)
    }

    /// A run as it stood before event `next`, on disk; as it stands now, if its journal ends before that.
    pub async fn past(&self, key: Key, next: u64) -> Result<Run, Error> {
        self.shell.past(key, next).await
    }

    /// Tells of a run's new events from now on.
    pub fn subscribe(&self, key: Key) -> Subscription {
        self.shell.watchers.subscribe(key)
    }

    /// Lists runs, newest first.
    pub async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, Error> {
        Ok(self.shell.store.list(query).await?)
    }

    /// Whether events may be sent to this URL, and if not, why.
    pub async fn check_webhook_url(&self, url: &str) -> Result<(), String> {
        match &self.shell.http {
            Ok(http) => http.check_url(url).await,
            Err(reason) => Err(format!("this server can't send requests: {reason}")),
        }
    }

    /// The store below.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shell.store
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shell.clock
    }

    /// What has happened since the engine was started, and how much is under way.
    pub fn stats(&self) -> Stats {
        self.shell.stats()
    }

    /// Whether the engine is shutting down.
    pub fn is_draining(&self) -> bool {
        self.shell.is_draining()
    }

    /// Shuts down: takes in nothing new, lets what is under way end, and closes the store.
    ///
    /// Tasks that do not end within `patience` stay on disk and go on at the next start.
    pub async fn drain(&self, patience: Duration) -> Result<(), Error> {
        self.shell.draining.store(true, Ordering::Relaxed);
        self.shell.models.stop();
        for running in std::mem::take(&mut *self.loops.lock().expect("no thread panics holding this")) {
            running.abort();
        }
        let commits = u32::try_from(limits::COMMITS_IN_FLIGHT_MAX).unwrap_or(u32::MAX);
        let settled = async {
            self.shell.executor.retire().await;
            self.shell.webhooks.retire().await;
            self.shell.callbacks.retire().await;
            self.shell.notices.retire().await;
            let _ = self.shell.permits.acquire_many(commits).await;
        };
        if tokio::time::timeout(patience, settled).await.is_err() {
            tracing::warn!("some work did not end in time; it goes on at the next start");
        }
        self.shell.permits.close();
        if let Some(teller) = &self.shell.teller {
            teller.drain().await;
        }
        self.shell.store.close().await?;
        Ok(())
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.is_draining() { Err(Error::Draining) } else { Ok(()) }
    }
}

/// Refuses a workflow of an id that means something else here.
fn check_free_id(graph: &Graph) -> Result<(), Error> {
    if [INTENT_WORKFLOW, GROUP_WORKFLOW].contains(&&*graph.workflow_id) {
        let message =
            format!("'{}' is what Abide itself calls something; choose another id", graph.workflow_id);
        return Err(Error::Rejected(Rejection::Invalid { field: "id".to_owned(), message }));
    }
    Ok(())
}
