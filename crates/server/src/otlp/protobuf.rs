//! Spans in the binary form of OTLP: messages of Protocol Buffers, written field by field.
//!
//! The numbers are those of the messages in `opentelemetry/proto/trace/v1` and `common/v1`, which never change. What a
//! field is, stands beside its number.

use abide_engine::trace::{Moment, Span, Trace, Value};

use super::{FAILED, SCOPE, VERSION, kind, nanos, resource};

/// An `ExportTraceServiceRequest`.
pub(super) fn batch(spans: &[Span], service: &str) -> Vec<u8> {
    let mut of_resource = Message::default();
    for (key, value) in resource(service) {
        of_resource.message(1, &attribute(key, &Value::from(value)));
    }
    let mut scope = Message::default();
    scope.text(1, SCOPE);
    scope.text(2, VERSION);
    let mut scope_spans = Message::default();
    scope_spans.message(1, &scope);
    spans.iter().for_each(|one| scope_spans.message(2, &span(one)));
    let mut resource_spans = Message::default();
    resource_spans.message(1, &of_resource);
    resource_spans.message(2, &scope_spans);
    let mut request = Message::default();
    request.message(1, &resource_spans);
    request.0
}

/// How many spans an `ExportTraceServiceResponse` says were thrown away: the first field of its first.
pub(super) fn rejected(answer: &[u8]) -> u64 {
    let count = || {
        let partial = answer.strip_prefix(&[tag(1, LENGTH) as u8])?;
        let (_, partial) = read_varint(partial)?;
        read_varint(partial.strip_prefix(&[tag(1, VARINT) as u8])?).map(|(count, _)| count)
    };
    count().unwrap_or(0)
}

fn span(span: &Span) -> Message {
    let mut written = Message::default();
    written.bytes(1, &span.trace.trace_id);
    written.bytes(2, &span.trace.span_id);
    if let Some(state) = &span.trace.state {
        written.text(3, state);
    }
    if let Some(parent) = span.parent {
        written.bytes(4, &parent);
    }
    written.text(5, &span.name);
    written.number(6, kind(span.kind));
    written.fixed(7, nanos(span.began));
    written.fixed(8, nanos(span.ended));
    span.attributes.iter().for_each(|(key, value)| written.message(9, &attribute(key, value)));
    span.moments.iter().for_each(|one| written.message(11, &moment(one)));
    span.links.iter().for_each(|one| written.message(13, &link(one)));
    if span.failed {
        let mut status = Message::default();
        status.number(3, FAILED);
        written.message(15, &status);
    }
    written
}

fn moment(moment: &Moment) -> Message {
    let mut written = Message::default();
    written.fixed(1, nanos(moment.at));
    written.text(2, moment.name);
    moment.attributes.iter().for_each(|(key, value)| written.message(3, &attribute(key, value)));
    written
}

fn link(link: &Trace) -> Message {
    let mut written = Message::default();
    written.bytes(1, &link.trace_id);
    written.bytes(2, &link.span_id);
    written
}

fn attribute(key: &str, value: &Value) -> Message {
    let mut any = Message::default();
    match value {
        Value::Text(text) => any.text(1, text),
        // Two's complement in as many bits as there are: how a negative number is written.
        Value::Number(number) => any.number(3, number.cast_unsigned()),
    }
    let mut pair = Message::default();
    pair.text(1, key);
    pair.message(2, &any);
    pair
}

/// Ways that a field is written.
const VARINT: u64 = 0;
const FIXED: u64 = 1;
const LENGTH: u64 = 2;

fn tag(field: u64, way: u64) -> u64 {
    field << 3 | way
}

/// A message, as far as it is written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number > 0x7f {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(&mut self, field: u64, number: u64) {
        self.varint(tag(field, VARINT));
        self.varint(number);
    }

    fn fixed(&mut self, field: u64, number: u64) {
        self.varint(tag(field, FIXED));
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(tag(field, LENGTH));
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u64, inner: &Self) {
        self.bytes(field, &inner.0);
    }
}

fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0).filter(|end| *end < 10)?;
    let number = bytes[..=end].iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f));
    Some((number, &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_protocol_buffers_have_them() {
        let mut message = Message::default();
        message.number(1, 150);
        assert_eq!(message.0, [0x08, 0x96, 0x01]);
        let mut message = Message::default();
        message.text(2, "testing");
        assert_eq!(message.0, [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
        let mut negative = Message::default();
        negative.number(3, (-1_i64).cast_unsigned());
        assert_eq!(negative.0, [0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    }

    #[test]
    fn what_was_thrown_away_is_read_from_the_answer() {
        assert_eq!(rejected(&[0x0a, 0x03, 0x08, 0x96, 0x01]), 150);
        for nothing in [&[][..], &[0x0a, 0x00], &[0x0a, 0x02, 0x12, 0x00], &[0x0a], &[0xff; 12]] {
            assert_eq!(rejected(nothing), 0, "{nothing:?}");
        }
    }
}
