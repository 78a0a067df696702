//! One event, ready to be sent: serialised once, however many get it and in whatever form.

use std::ops::Range;

use axum::body::Bytes;

/// The comment that tells both sides, and whoever stands between, that the connection lives.
pub(crate) const KEEPALIVE: &[u8] = b":keepalive\n\n";

/// An event as text. The forms share one piece of memory.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    sequence: u64,
    /// A reader that collects frames is not kept waiting for this one.
    urgent: bool,
    /// `id`, `event` and `data`, as server-sent events have them.
    sse: Bytes,
    json: Range<usize>,
}

impl Frame {
    /// An event of this type with its document. `sequence` is its id.
    pub(crate) fn new(sequence: u64, kind: &str, document: &[u8]) -> Self {
        let (sse, json) = sse(Some(&sequence.to_string()), kind, document);
        Self { sequence, urgent: is_urgent(kind), sse, json }
    }

    /// An event of this type with its document, and an id that is no number.
    pub(crate) fn named(id: &str, kind: &str, document: &[u8]) -> Self {
        let (sse, json) = sse(Some(id), kind, document);
        Self { sequence: 0, urgent: true, sse, json }
    }

    /// The same frame, which nobody waits for if `urgent`.
    pub(crate) fn urgent_if(self, urgent: bool) -> Self {
        Self { urgent: self.urgent || urgent, ..self }
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// How many bytes it takes.
    pub(crate) fn len(&self) -> usize {
        self.sse.len()
    }

    /// As a server-sent event.
    pub(crate) fn sse(&self) -> Bytes {
        self.sse.clone()
    }

    /// The document alone.
    pub(crate) fn json(&self) -> &[u8] {
        &self.sse[self.json.clone()]
    }
}

/// Whether nothing comes after an event of this type.
pub(crate) fn is_terminal(kind: &str) -> bool {
    matches!(kind, "run.completed" | "run.failed" | "run.cancelled")
}

/// Whether somebody is waiting for an event of this type: nothing comes after it, or a person has to do something.
pub(crate) fn is_urgent(kind: &str) -> bool {
    is_terminal(kind) || kind == "node.suspended"
}

/// Something that is told but never recorded, so it has no id and nobody can ask for it again.
pub(crate) fn announcement(kind: &str, document: &[u8]) -> Bytes {
    sse(None, kind, document).0
}

/// Several frames as one: an array, with the id of the last.
pub(crate) fn batch(frames: &[Frame]) -> Bytes {
    let last = frames.last().map_or(0, Frame::sequence);
    let mut array = Vec::with_capacity(frames.iter().map(|frame| frame.json().len() + 1).sum::<usize>() + 2);
    array.push(b'[');
    for (at, frame) in frames.iter().enumerate() {
        array.extend(if at > 0 { &b","[..] } else { b"" });
        array.extend(frame.json());
    }
    array.push(b']');
    sse(Some(&last.to_string()), "batch", &array).0
}

/// A server-sent event, and where its data stands.
fn sse(id: Option<&str>, kind: &str, document: &[u8]) -> (Bytes, Range<usize>) {
    let head = match id {
        Some(id) => format!("id: {id}\nevent: {kind}\ndata: "),
        None => format!("event: {kind}\ndata: "),
    };
    let mut text = Vec::with_capacity(head.len() + document.len() + 2);
    text.extend(head.as_bytes());
    // A line break would end the data. Within JSON it can only stand between values, where a space is as good.
    text.extend(document.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    text.extend(b"\n\n");
    let json = head.len()..text.len() - 2;
    (text.into(), json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_three_lines_whatever_stands_in_the_document() {
        let frame = Frame::new(7, "node.completed", b"{\"a\":\n\r\n [1,\r2]}");
        let text = frame.sse();
        assert_eq!(&text[..], b"id: 7\nevent: node.completed\ndata: {\"a\":    [1, 2]}\n\n");
        assert_eq!(frame.json(), b"{\"a\":    [1, 2]}");
        assert_eq!(serde_json::from_slice::<serde_json::Value>(frame.json()).unwrap()["a"][1], 2);
    }

    #[test]
    fn a_batch_has_the_id_of_its_last_frame() {
        let frames = [Frame::new(3, "run.started", b"{}"), Frame::new(9, "node.failed", b"[]")];
        assert_eq!(&batch(&frames)[..], b"id: 9\nevent: batch\ndata: [{},[]]\n\n");
    }

    #[test]
    fn what_is_only_announced_has_no_id() {
        assert_eq!(&announcement("run.annotated", b"{}")[..], b"event: run.annotated\ndata: {}\n\n");
    }

    #[test]
    fn ends_and_suspensions_are_urgent() {
        let urgent = |kind| Frame::new(0, kind, b"{}").is_urgent();
        for kind in ["run.completed", "run.failed", "run.cancelled", "node.suspended"] {
            assert!(urgent(kind), "{kind}");
        }
        assert!(!urgent("node.completed") && !urgent("run.started"));
    }
}
