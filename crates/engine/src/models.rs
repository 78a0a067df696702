//! Calls of models: one attempt at one step of a turn.
//!
//! Whether the provider may be called is asked of its breaker, and what the model says is durable before anybody hears
//! it. What becomes of an attempt that failed is decided by the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_core::{
    CallRef, ChunkKind, Command, ErrorKind, Key, Mock, ModelAnswer, ModelCall, ModelError, Run, TaskId,
    TenantId, TurnCommand,
};
use abide_model::{Chunk, Client, Clients, Providers, Sink, Stopped};
use abide_store::{Lane, TaskRow};
use tokio::sync::{Notify, watch};

use crate::breakers::{Admitted, said_of_provider};
use crate::confirm::give_way;
use crate::shell::{Basis, Shell};
use crate::stats::CallEnd;
use crate::timers::rest;
use crate::{Error, limits};

/// The providers of models, and the calls that are under way.
pub(crate) struct Models {
    providers: Arc<Providers>,
    clients: Result<Clients, String>,
    /// How each call is told that its run is ending, or may be.
    under_way: Mutex<BTreeMap<(Key, TaskId), Arc<Told>>>,
    /// Whether the server is stopping.
    stopping: watch::Sender<bool>,
}

/// What a call under way is told.
#[derive(Default)]
struct Told {
    /// Its run is ending.
    abort: Notify,
    /// Another server has moved its run on.
    doubt: Notify,
}

/// A call that is under way, as long as it is.
struct UnderWay<'a> {
    models: &'a Models,
    id: (Key, TaskId),
    told: Arc<Told>,
}

impl Models {
    pub(crate) fn new(providers: Arc<Providers>) -> Self {
        let clients = Clients::new(&providers).map_err(|error| error.to_string());
        Self { providers, clients, under_way: Mutex::default(), stopping: watch::Sender::new(false) }
    }

    /// The run of a call is ending: the call is given up.
    pub(crate) fn abort(&self, key: Key, task: TaskId) {
        let under_way = self.under_way.lock().expect("no thread panics holding this");
        if let Some(told) = under_way.get(&(key, task)) {
            told.abort.notify_one();
        }
    }

    /// Another server has moved a run on: its calls look whether they are still wanted.
    pub(crate) fn doubt(&self, key: Key) {
        let under_way = self.under_way.lock().expect("no thread panics holding this");
        let first = (key, TaskId { node: "".into(), execution: 0 });
        under_way
            .range(first..)
            .take_while(|((run, _), _)| *run == key)
            .for_each(|(_, told)| told.doubt.notify_one());
    }

    /// The runs that have calls under way.
    pub(crate) fn runs(&self) -> BTreeSet<Key> {
        self.under_way.lock().expect("no thread panics holding this").keys().map(|(run, _)| *run).collect()
    }

    /// The server is stopping: calls of which nobody has heard anything are left to the next one.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    fn begin(&self, key: Key, task: &TaskId) -> UnderWay<'_> {
        let (id, told) = ((key, task.clone()), Arc::new(Told::default()));
        self.under_way.lock().expect("no thread panics holding this").insert(id.clone(), told.clone());
        UnderWay { models: self, id, told }
    }

    /// The client of a provider.
    fn client(&self, provider: &str) -> Result<Arc<Client>, ModelError> {
        let clients = self.clients.as_ref().map_err(|reason| away(reason.clone()))?;
        clients.get(provider).cloned().ok_or_else(|| {
            // The run began with it, so an operator has taken it away, perhaps by mistake: that may pass.
            away(format!(
                "this server has no provider '{provider}'; add [providers.{provider}] to its configuration"
            ))
        })
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.models.under_way.lock().expect("no thread panics holding this").remove(&self.id);
    }
}

/// How a provider is reached.
struct Way {
    client: Arc<Client>,
    key: Option<String>,
}

/// Makes what a model says durable, and keeps what can go with the end of the call.
struct Keeping<'a> {
    shell: &'a Arc<Shell>,
    key: Key,
    call: CallRef,
    /// Something was told.
    said: Arc<AtomicBool>,
    rest: Vec<(ChunkKind, String)>,
}

impl Sink for Keeping<'_> {
    async fn take(&mut self, chunk: Chunk) -> Result<(), Stopped> {
        if chunk.is_last {
            self.rest.push((chunk.kind, chunk.text));
            return Ok(());
        }
        let command = TurnCommand::Said { call: self.call.clone(), kind: chunk.kind, text: chunk.text };
        let command = Command::Turn(Box::new(command));
        // Another server may have taken the call over. Alone, nobody can.
        let holds = self.shell.store.cluster().map(|_| (self.call.task.clone(), self.call.fence));
        let basis = Basis { holds, ..Basis::default() };
        loop {
            let decided =
                self.shell.decide(self.key, &command, Lane::Interactive, basis.clone(), |_| ()).await;
            match decided {
                Ok(()) => {
                    self.said.store(true, Ordering::Release);
                    return Ok(());
                }
                Err(
                    Error::Rejected(_)
                    | Error::Draining
                    | Error::Store(abide_store::Error::Closed | abide_store::Error::Fenced),
                ) => return Err(Stopped),
                Err(Error::Contended) => give_way(&*self.shell.store, limits::DECIDE_ATTEMPTS_MAX).await,
                Err(error) if error.is_lasting() => return Err(Stopped),
                Err(error) => {
                    tracing::error!(run = %self.key.id, %error, "what a model says can't be kept; trying again");
                    rest().await;
                }
            }
        }
    }
}

impl Shell {
    /// Makes one call of a model, and says what the run has to be told of it.
    pub(crate) async fn call_model(
        self: &Arc<Self>,
        row: &TaskRow,
        call: &ModelCall,
    ) -> Result<Command, Error> {
        let reference = CallRef { task: row.task.clone(), fence: row.fence };
        let mut told = Keeping {
            shell: self,
            key: row.key,
            call: reference.clone(),
            said: Arc::default(),
            rest: Vec::new(),
        };
        let outcome = if call.cut_off {
            Err(cut_off())
        } else if let Some(mock) = &call.mock {
            self.play_mock(row, mock, &mut told).await?
        } else {
            match self.way_to_model(row.key.tenant, &call.provider).await? {
                // What was never sent says nothing of the provider.
                Err(unsent) => Err(unsent),
                Ok(way) => match self.breakers.admit(row.key, &row.task, &call.provider).await? {
                    Admitted::Refused => {
                        return Ok(Command::Turn(Box::new(TurnCommand::Refused { call: reference })));
                    }
                    Admitted::Call(permit) => {
                        let outcome = self.ask_model(row, call, &way, &mut told).await?;
                        self.counters.called(CallEnd::of(outcome.as_ref().err()));
                        permit.report(said_of_provider(outcome.as_ref().err())).await;
                        outcome
                    }
                },
            }
        };
        let rest = std::mem::take(&mut told.rest);
        let outcome = outcome.map(Box::new);
        Ok(Command::Turn(Box::new(TurnCommand::Ended { call: reference, outcome, rest })))
    }

    /// The client of a provider, and the key that it wants to see.
    async fn way_to_model(&self, tenant: TenantId, provider: &str) -> Result<Result<Way, ModelError>, Error> {
        let client = match self.models.client(provider) {
            Ok(client) => client,
            Err(error) => return Ok(Err(error)),
        };
        let name = self.models.providers.get(provider).and_then(|provider| provider.key.as_deref());
        let Some(name) = name else { return Ok(Ok(Way { client, key: None })) };
        let key = self.secrets.get(tenant, name).await?;
        Ok(key.map(|key| Way { client, key: Some(key) }).ok_or_else(|| keyless(provider, name)))
    }

    /// Asks the provider. An error here is no answer of the provider: the next server asks again.
    async fn ask_model(
        self: &Arc<Self>,
        row: &TaskRow,
        call: &ModelCall,
        way: &Way,
        told: &mut Keeping<'_>,
    ) -> Result<Result<ModelAnswer, ModelError>, Error> {
        let said = told.said.clone();
        self.while_wanted(row, said, way.client.call(way.key.as_deref(), call, told)).await
    }

    /// Lets a mock answer as a provider would.
    async fn play_mock(
        self: &Arc<Self>,
        row: &TaskRow,
        mock: &Mock,
        told: &mut Keeping<'_>,
    ) -> Result<Result<ModelAnswer, ModelError>, Error> {
        let said = told.said.clone();
        self.while_wanted(row, said, play(mock, told)).await
    }

    /// Waits for a call to end, as long as its run and this server want it.
    async fn while_wanted(
        &self,
        row: &TaskRow,
        said: Arc<AtomicBool>,
        call: impl Future<Output = Result<ModelAnswer, ModelError>>,
    ) -> Result<Result<ModelAnswer, ModelError>, Error> {
        let under_way = self.models.begin(row.key, &row.task);
        // Whoever ends the run from now on says so here. Whoever did before could not, perhaps to another server.
        if self.read(row.key, Run::is_ending).await? {
            return Ok(Err(aborted()));
        }
        // Another server can't say so here; it is looked at whenever it has done something with the run.
        let doubted = async {
            loop {
                under_way.told.doubt.notified().await;
                if self.read(row.key, Run::is_ending).await? {
                    return Ok::<_, Error>(());
                }
            }
        };
        let mut stopping = self.models.stopping.subscribe();
        // What nobody has heard of can be asked for again; what somebody has heard is finished if there is time.
        let left = async {
            let stops = stopping.wait_for(|stopping| *stopping).await.is_ok();
            if !stops || said.load(Ordering::Acquire) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = under_way.told.abort.notified() => Ok(Err(aborted())),
            ending = doubted => ending.map(|()| Err(aborted())),
            outcome = call => Ok(outcome),
            () = left => Err(Error::Draining),
        }
    }
}

/// What a mock of the public fixtures says.
async fn play(mock: &Mock, told: &mut Keeping<'_>) -> Result<ModelAnswer, ModelError> {
    for (at, text) in mock.tokens.iter().enumerate() {
        if at > 0 && mock.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(mock.delay_ms)).await;
        }
        let is_last = at + 1 == mock.tokens.len();
        let chunk = Chunk { kind: ChunkKind::Text, text: text.clone(), is_last };
        told.take(chunk).await.map_err(|Stopped| aborted())?;
    }
    Ok(ModelAnswer {
        content: mock.tokens.concat(),
        stop_reason: Some(mock.finish_reason.clone()),
        model: Some(mock.model.clone()),
        usage: mock.usage,
        ..ModelAnswer::default()
    })
}

fn error(message: String, kind: ErrorKind, had_content: bool) -> ModelError {
    ModelError { message, code: None, kind, had_content, retry_after_ms: None }
}

/// The provider can't be reached from here now.
fn away(message: String) -> ModelError {
    error(message, ErrorKind::Emitted { retryable: Some(true) }, false)
}

fn keyless(provider: &str, secret: &str) -> ModelError {
    let message = format!(
        "provider '{provider}' needs the secret '{secret}', which is not set; set it with: abide secrets set {secret}"
    );
    error(message, ErrorKind::Emitted { retryable: Some(false) }, false)
}

fn aborted() -> ModelError {
    error("the run is ending".to_owned(), ErrorKind::Aborted, false)
}

fn cut_off() -> ModelError {
    let message = "the server stopped in the middle of the model's answer";
    error(message.to_owned(), ErrorKind::Crashed, true)
}
