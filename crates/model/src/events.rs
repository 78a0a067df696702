//! One answer as it comes in: bytes from the network, read as the provider's protocol has them.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::FutureExt;
use reqwest::Response;
use tokio::time::{Instant, timeout_at};

use crate::endpoint::{Protocol, Timeouts};
use crate::event::{ProviderError, ProviderEvent, Thrown};
use crate::limits::STREAM_BYTES_MAX;
use crate::network::broken;
use crate::redact::Redact;
use crate::sse::{Sse, SseEvent};
use crate::{anthropic, openai};

/// What a provider says in answer to one call, one thing after the other. To stop it, drop it.
///
/// It ends with [`ProviderEvent::End`], with [`ProviderEvent::Error`], or with [`Thrown`]. Nothing that may be told of an
/// error holds a secret.
pub struct ProviderEvents {
    /// Where more comes from, until it ended.
    answer: Option<Answer>,
    /// What was read and not taken yet.
    read: VecDeque<Result<ProviderEvent, Thrown>>,
    redact: Redact,
}

impl ProviderEvents {
    /// Those of an answer whose head came.
    pub(crate) fn of(response: Response, protocol: Protocol, patience: Patience, redact: Redact) -> Self {
        let reader = match protocol {
            Protocol::Anthropic => Reader::Anthropic(anthropic::Reader::default()),
            Protocol::OpenAi => Reader::OpenAi(openai::Reader::default()),
        };
        let answer = Answer { response, patience, reader, sse: Sse::default(), bytes: 0 };
        Self { answer: Some(answer), read: VecDeque::new(), redact }
    }

    /// A call that was not answered, or with an error alone.
    pub(crate) fn failed(error: ProviderError, redact: Redact) -> Self {
        Self { answer: None, read: [Ok(ProviderEvent::Error(error))].into(), redact }
    }

    /// An answer that makes no sense from its beginning.
    pub(crate) fn thrown(thrown: Thrown, redact: Redact) -> Self {
        Self { answer: None, read: [Err(thrown)].into(), redact }
    }

    /// What comes next; `None` if it has ended. Nothing is lost if this is dropped while it waits.
    pub async fn next(&mut self) -> Option<Result<ProviderEvent, Thrown>> {
        loop {
            if let Some(next) = self.read.pop_front() {
                return Some(self.told(next));
            }
            self.answer.as_mut()?.read_on(&mut self.read).await;
        }
    }

    /// The provider was not listened to for a while, which is not held against it.
    pub fn listen_again(&mut self) {
        self.answer.iter_mut().for_each(|answer| answer.patience.begin(Instant::now()));
    }

    fn told(&mut self, next: Result<ProviderEvent, Thrown>) -> Result<ProviderEvent, Thrown> {
        let told = match next {
            Ok(ProviderEvent::Error(error)) => Ok(ProviderEvent::Error(self.redact.error(error))),
            Err(thrown) => Err(self.redact.thrown(thrown)),
            Ok(ProviderEvent::End) => Ok(ProviderEvent::End),
            Ok(event) => return Ok(event),
        };
        self.read.clear();
        self.answer.take().into_iter().for_each(|answer| answer.leave(told.is_ok()));
        told
    }
}

/// How long bytes are waited for.
pub(crate) struct Patience {
    timeouts: Timeouts,
    /// The call must have ended by then.
    deadline: Instant,
    /// The next byte must have come by then.
    until: Instant,
    /// A byte of the answer came.
    begun: bool,
}

impl Patience {
    /// For a call that is made now and may take so long.
    pub(crate) fn new(timeouts: Timeouts, whole: Duration) -> Self {
        let now = Instant::now();
        Self { timeouts, deadline: now + whole, until: now + timeouts.first_byte, begun: false }
    }

    /// Until when the next byte is waited for.
    pub(crate) fn until(&self) -> Instant {
        self.until.min(self.deadline)
    }

    /// Waits anew from now on.
    fn begin(&mut self, now: Instant) {
        let patience = if self.begun { self.timeouts.idle } else { self.timeouts.first_byte };
        self.until = now + patience;
    }

    fn exhausted(&self) -> Thrown {
        Thrown(if self.deadline <= self.until {
            "the answer was not complete when the call's time was up: raise the timeout, or let the model say less"
                .to_owned()
        } else {
            "the provider stopped in the middle of its answer: check it, or raise its idle-timeout".to_owned()
        })
    }
}

enum Reader {
    Anthropic(anthropic::Reader),
    OpenAi(openai::Reader),
}

impl Reader {
    fn read(&mut self, event: &SseEvent) -> Result<Vec<ProviderEvent>, Thrown> {
        match self {
            Self::Anthropic(reader) => reader.read(event),
            Self::OpenAi(reader) => reader.read(event),
        }
    }

    fn may_end(&self) -> bool {
        match self {
            Self::Anthropic(_) => false,
            Self::OpenAi(reader) => reader.may_end(),
        }
    }
}

/// An answer whose body is being read.
struct Answer {
    response: Response,
    patience: Patience,
    sse: Sse,
    reader: Reader,
    bytes: u64,
}

impl Answer {
    /// Reads what came, or waits until something does. There is something to take once it returns, or more to read.
    async fn read_on(&mut self, read: &mut VecDeque<Result<ProviderEvent, Thrown>>) {
        match timeout_at(self.patience.until(), self.response.chunk()).await {
            Err(_) => read.push_back(Err(self.patience.exhausted())),
            Ok(Err(error)) => read.push_back(Err(broken(error))),
            Ok(Ok(None)) => read.push_back(self.end()),
            Ok(Ok(Some(bytes))) => {
                self.patience.begun = true;
                self.patience.begin(Instant::now());
                let read_all = self.understand(&bytes, read);
                read.extend(read_all.err().map(Err));
            }
        }
    }

    fn end(&self) -> Result<ProviderEvent, Thrown> {
        if self.reader.may_end() {
            return Ok(ProviderEvent::End);
        }
        Err(Thrown("the provider's answer ended before it was complete".to_owned()))
    }

    /// Whatever came before something that makes no sense counts, however the bytes were split on their way.
    fn understand(
        &mut self,
        bytes: &[u8],
        read: &mut VecDeque<Result<ProviderEvent, Thrown>>,
    ) -> Result<(), Thrown> {
        let mut events = Vec::new();
        let pushed = self.sse.push(bytes, &mut events);
        for event in &events {
            read.extend(self.reader.read(event)?.into_iter().map(Ok));
        }
        pushed.map_err(|_| Thrown("the provider sent an event that is longer than 4 MiB".to_owned()))?;
        self.bytes += bytes.len() as u64;
        if self.bytes > STREAM_BYTES_MAX {
            let most = STREAM_BYTES_MAX >> 20;
            return Err(Thrown(format!("the provider sent more than {most} MiB in one answer")));
        }
        Ok(())
    }

    /// The connection can be used again if the body's end is here as well. Nobody waits for it.
    fn leave(mut self, in_order: bool) {
        if in_order {
            self.response.chunk().now_or_never();
        }
    }
}
