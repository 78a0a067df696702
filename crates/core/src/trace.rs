//! Where something stands in a trace, as the W3C's Trace Context writes it.
//!
//! A run keeps the context of whoever started it in its first event, so that what it does days later, or after a
//! crash, belongs to the same trace.

use serde::{Deserialize, Serialize};

use crate::hex;

/// Characters of a `tracestate` that are passed on: what the W3C asks for at least.
const STATE_CHARS_MAX: usize = 512;

/// A place in a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub struct Trace {
    /// The whole trace. Never all zeroes.
    pub trace_id: [u8; 16],
    /// The span in it. Never all zeroes.
    pub span_id: [u8; 8],
    /// Whether whoever came before may have recorded its part.
    pub sampled: bool,
    /// What other systems pass along with it.
    pub state: Option<String>,
}

/// A trace as text: the two headers.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    parent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
}

impl Trace {
    /// Reads the headers `traceparent` and `tracestate`. A parent that is malformed is none; a state that is, is left
    /// out.
    pub fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        let mut parts = parent.split('-');
        let version = byte(parts.next()?)?;
        let (trace_id, span_id) = (bytes::<16>(parts.next()?)?, bytes::<8>(parts.next()?)?);
        let flags = byte(parts.next()?)?;
        // Later versions may say more behind what is known; the first says nothing.
        let known = version < 0xff && (version > 0 || parts.next().is_none());
        let named = trace_id != [0; 16] && span_id != [0; 8];
        let state = state.filter(|state| is_state(state)).map(str::to_owned);
        (known && named).then_some(Self { trace_id, span_id, sampled: flags & 1 == 1, state })
    }

    /// The header `traceparent`.
    pub fn parent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.id(), hex(&self.span_id), u8::from(self.sampled))
    }

    /// The trace's id, as it is written.
    pub fn id(&self) -> String {
        hex(&self.trace_id)
    }

    /// Another span of the same trace.
    pub fn span(&self, span_id: [u8; 8]) -> Self {
        Self { span_id, ..self.clone() }
    }
}

fn is_state(state: &str) -> bool {
    (1..=STATE_CHARS_MAX).contains(&state.len()) && state.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

fn byte(text: &str) -> Option<u8> {
    bytes::<1>(text).map(|[byte]| byte)
}

/// So many bytes in lower-case hex, and nothing else.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut bytes = [0; N];
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

impl From<Trace> for Written {
    fn from(trace: Trace) -> Self {
        Self { parent: trace.parent(), state: trace.state }
    }
}

impl TryFrom<Written> for Trace {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let read = Self::parse(&written.parent, written.state.as_deref());
        read.ok_or_else(|| "the trace is not as it was written".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_parent_survives_a_round_trip() {
        let trace = Trace::parse(PARENT, Some("a=1,b=2")).unwrap();
        assert_eq!((trace.parent().as_str(), trace.state.as_deref()), (PARENT, Some("a=1,b=2")));
        let written = serde_json::to_string(&trace).unwrap();
        assert_eq!(written, format!(r#"{{"parent":"{PARENT}","state":"a=1,b=2"}}"#));
        assert_eq!(serde_json::from_str::<Trace>(&written).unwrap(), trace);
        assert_eq!(trace.span([1; 8]).parent(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0101010101010101-01");
        assert!(!Trace::parse(&PARENT.replace("-01", "-00"), None).unwrap().sampled);
    }

    #[test]
    fn a_later_version_may_say_more() {
        let later = PARENT.replacen("00-", "01-", 1);
        assert!(Trace::parse(&later, None).is_some());
        assert!(Trace::parse(&format!("{later}-what-ever"), None).is_some());
        assert!(Trace::parse(&format!("{PARENT}-more"), None).is_none());
    }

    #[test]
    fn what_is_malformed_is_no_trace() {
        for wrong in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Trace::parse(wrong, None), None, "{wrong}");
        }
        for state in ["", "a=\u{7f}", "é=1", &"x".repeat(513)] {
            assert_eq!(Trace::parse(PARENT, Some(state)).unwrap().state, None, "{state}");
        }
    }
}
