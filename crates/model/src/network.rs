//! What became of a request that was not answered, or of an answer that broke off, in sentences.

use std::error::Error;
use std::io::ErrorKind;

use crate::endpoint::Endpoint;
use crate::event::{ProviderError, Thrown};

/// The request got no answer: nobody was there, or the connection broke before one came.
pub(crate) fn unanswered(error: reqwest::Error, endpoint: &Endpoint) -> ProviderError {
    let error = error.without_url();
    let service = endpoint.service();
    if error.is_builder() {
        let why = root(&error);
        return refused(format!(
            "the request can't be sent to {service}: {why}; correct the provider's settings"
        ));
    }
    failed(match io_kind(&error) {
        _ if error.is_timeout() => {
            format!("{service} did not take the connection in time: check the address and the network")
        }
        Some(ErrorKind::ConnectionRefused) => {
            format!("{service} refused the connection: check the address, and that the provider runs")
        }
        Some(ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable) => {
            format!("there is no way to {service}: check the address and the network")
        }
        _ if error.is_connect() => {
            format!("{service} can't be reached: {}; check the address and the network", root(&error))
        }
        _ => format!("the connection to {service} broke before an answer came: {}", root(&error)),
    })
}

/// The provider took the request and did not answer in time.
pub(crate) fn silent(endpoint: &Endpoint) -> ProviderError {
    let service = endpoint.service();
    failed(format!("{service} did not answer in time: check the provider, or raise its first-byte-timeout"))
}

/// A failure of the network, which may pass.
fn failed(message: String) -> ProviderError {
    ProviderError { message, retryable: Some(true), ..ProviderError::default() }
}

/// What another try would meet again.
pub(crate) fn refused(message: impl Into<String>) -> ProviderError {
    ProviderError { message: message.into(), retryable: Some(false), ..ProviderError::default() }
}

/// The answer broke off.
pub(crate) fn broken(error: reqwest::Error) -> Thrown {
    Thrown(format!("the connection broke before the answer was complete: {}", root(&error.without_url())))
}

/// An error and everything that led to it.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source())
}

/// What the operating system said.
fn io_kind(error: &reqwest::Error) -> Option<ErrorKind> {
    chain(error).filter_map(|error| error.downcast_ref::<std::io::Error>()).last().map(std::io::Error::kind)
}

/// What an error comes down to.
pub(crate) fn root(error: &reqwest::Error) -> String {
    chain(error).last().map(ToString::to_string).unwrap_or_default()
}
