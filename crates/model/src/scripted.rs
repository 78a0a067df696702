//! A provider on loopback that plays a script: for tests and benches, never for service.
//!
//! It speaks both protocols, by the path that is asked, and does whatever a provider can do wrong: refuse, cut, hang,
//! talk nonsense. It runs on a thread of its own, so that it serves tests that block and tests whose clock stands.
//!
//! | noun | file | what it is |
//! |---|---|---|
//! | [`ScriptedProvider`] | here | the provider: its script, and what was asked of it |
//! | [`Step`], [`Part`] | `scripted/step.rs` | what it does with one request |
//! | [`Speech`] | `scripted/speech.rs` | what a model says, in either protocol |
//! | serve | `scripted/serve.rs` | one connection |

mod serve;
mod speech;
mod step;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use crate::endpoint::{Endpoint, Protocol};

pub use speech::Speech;
pub use step::{Part, Step};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// When it was there as a whole.
    pub at: Instant,
    /// The path.
    pub path: String,
    /// The headers by name, in small letters.
    pub headers: BTreeMap<String, String>,
    /// The body, byte by byte.
    pub body: Arc<[u8]>,
}

impl Asked {
    /// The body as JSON.
    ///
    /// # Panics
    /// If it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the body of a request is JSON")
    }
}

/// The provider. It stops when this is dropped.
pub struct ScriptedProvider {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the provider's thread and the test both see.
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
    /// How many held requests were let go.
    released: watch::Sender<u64>,
}

struct State {
    /// What is done with the next requests, whatever they say.
    script: VecDeque<Step>,
    /// What is done with those whose body has a text in it.
    marked: Vec<(String, VecDeque<Step>)>,
    /// What is done when there is no script for a request.
    usual: Step,
    asked: Vec<Asked>,
    connections: usize,
    in_flight: usize,
    in_flight_max: usize,
    /// How many requests were held so far.
    held: u64,
}

impl ScriptedProvider {
    /// A provider on a free port that answers `ok`.
    ///
    /// # Panics
    /// If there is no port or no thread to be had.
    pub fn start() -> Self {
        Self::start_at(0)
    }

    /// The same on a port of loopback, such as one where another was before.
    ///
    /// # Panics
    /// If the port is taken.
    pub fn start_at(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("the port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let state = State {
            script: VecDeque::new(),
            marked: Vec::new(),
            usual: Step::answer("ok"),
            asked: Vec::new(),
            connections: 0,
            in_flight: 0,
            in_flight_max: 0,
            held: 0,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            arrived: Condvar::new(),
            released: watch::Sender::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let theirs = shared.clone();
        let thread = std::thread::Builder::new()
            .name("scripted-provider".to_owned())
            .spawn(move || run(listener, &theirs, stopped).expect("a provider of tests can run"))
            .expect("there is a thread to be had");
        Self { address, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// What stands as `base-url` in a configuration.
    pub fn base_url(&self, protocol: Protocol) -> String {
        let path = match protocol {
            Protocol::Anthropic => "",
            Protocol::OpenAi => "/v1",
        };
        format!("http://{}{path}", self.address)
    }

    /// It as a client sees it, with `scripted` as its usual model.
    pub fn endpoint(&self, protocol: Protocol) -> Endpoint {
        let endpoint = Endpoint::at(protocol, &self.base_url(protocol)).expect("its address is one");
        Endpoint { model: Some("scripted".to_owned()), ..endpoint }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Adds what is done with the next requests, in the order in which they come.
    pub fn script(&self, steps: impl IntoIterator<Item = Step>) {
        self.state().script.extend(steps);
    }

    /// Adds what is done with the next requests whose body has `mark` in it. That goes before the common script.
    pub fn script_for(&self, mark: &str, steps: impl IntoIterator<Item = Step>) {
        let state = &mut self.state().marked;
        match state.iter_mut().find(|(known, _)| known == mark) {
            Some((_, script)) => script.extend(steps),
            None => state.push((mark.to_owned(), steps.into_iter().collect())),
        }
    }

    /// Says what is done when there is no script for a request.
    pub fn usually(&self, step: Step) {
        self.state().usual = step;
    }

    /// From now on it answers `ok` when there is no script.
    pub fn recover(&self) {
        self.usually(Step::answer("ok"));
    }

    /// Lets go of the request that was held first, now or as soon as there is one.
    pub fn release(&self) {
        self.shared.released.send_modify(|count| *count += 1);
    }

    /// Every request so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.state().asked.clone()
    }

    /// How many there were.
    pub fn count(&self) -> usize {
        self.state().asked.len()
    }

    /// Forgets the requests so far, and how many were in flight at once.
    pub fn forget(&self) {
        let mut state = self.state();
        state.asked.clear();
        state.in_flight_max = state.in_flight;
    }

    /// Requests that are not answered yet.
    pub fn in_flight(&self) -> usize {
        self.state().in_flight
    }

    /// The most of them that there were at once.
    pub fn in_flight_max(&self) -> usize {
        self.state().in_flight_max
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    /// How many requests came in each second since the first.
    pub fn per_second(&self) -> Vec<usize> {
        let state = self.state();
        let Some(first) = state.asked.first().map(|asked| asked.at) else { return Vec::new() };
        let mut counts = Vec::new();
        for asked in &state.asked {
            let second = asked.at.saturating_duration_since(first).as_secs() as usize;
            counts.resize(counts.len().max(second + 1), 0);
            counts[second] += 1;
        }
        counts
    }

    /// Waits until there were so many requests, and returns them. It blocks the thread.
    ///
    /// # Panics
    /// If they do not come within `patience`.
    pub fn wait_for(&self, count: usize, patience: Duration) -> Vec<Asked> {
        let state = self.state();
        let waited =
            self.shared.arrived.wait_timeout_while(state, patience, |state| state.asked.len() < count);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(state.asked.len() >= count, "{} of {count} requests came", state.asked.len());
        state.asked.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Drop for ScriptedProvider {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Once its thread has ended the port is free again.
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a request down, and says what to do with it.
    fn arrive(&self, asked: Asked) -> Step {
        let mut state = self.state();
        let step = state.step_for(&asked.body);
        state.asked.push(asked);
        state.in_flight += 1;
        state.in_flight_max = state.in_flight_max.max(state.in_flight);
        self.arrived.notify_all();
        step
    }

    fn leave(&self) {
        self.state().in_flight -= 1;
    }

    /// Waits until somebody lets go of this request.
    async fn hold(&self) {
        let place = {
            let mut state = self.state();
            state.held += 1;
            state.held
        };
        let mut released = self.released.subscribe();
        // The sender is ours, so it is there as long as this is.
        drop(released.wait_for(|count| *count >= place).await);
    }
}

impl State {
    fn step_for(&mut self, body: &[u8]) -> Step {
        let has = |mark: &str| body.windows(mark.len().max(1)).any(|part| part == mark.as_bytes());
        let marked = self.marked.iter_mut().find(|(mark, script)| !script.is_empty() && has(mark));
        let script = marked.map_or(&mut self.script, |(_, script)| script);
        script.pop_front().unwrap_or_else(|| self.usual.clone())
    }
}

fn run(listener: TcpListener, shared: &Arc<Shared>, stopped: oneshot::Receiver<()>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let accept = async {
            loop {
                // A connection that is gone before it is accepted is no reason to stop.
                if let Ok((stream, _)) = listener.accept().await {
                    shared.state().connections += 1;
                    tokio::spawn(serve::connection(stream, shared.clone()));
                }
            }
        };
        tokio::select! {
            () = accept => {}
            _ = stopped => {}
        }
        Ok(())
    })
}
