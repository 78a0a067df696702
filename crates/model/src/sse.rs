//! Server-sent events, from bytes that are split anywhere.
//!
//! It follows the standard as far as an answer needs it: lines end with CR, LF or both, comments are skipped, a blank
//! line ends an event, and an event that is not ended is none. Ids and times to reconnect are of no use here.

use crate::limits::EVENT_BYTES_MAX;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its data, the lines joined.
    pub data: String,
}

/// A line or an event is longer than anybody sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// What was read of a stream of events.
#[derive(Default)]
pub struct Sse {
    /// The line that is not ended yet.
    line: Vec<u8>,
    /// The last byte was a CR, so that a LF belongs to it.
    after_cr: bool,
    /// A line was read, so that no byte order mark may come any more.
    begun: bool,
    name: String,
    /// The data of the event that is not ended yet, if it has any.
    data: Option<String>,
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

impl Sse {
    /// Reads on, and adds the events that ended. After an error nothing more can be read.
    pub fn push(&mut self, mut bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), TooLong> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            self.extend_line(&bytes[..end.unwrap_or(bytes.len())])?;
            let Some(end) = end else { break };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line(events)?;
        }
        Ok(())
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > EVENT_BYTES_MAX {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<SseEvent>) -> Result<(), TooLong> {
        let bytes = std::mem::take(&mut self.line);
        let is_first = !std::mem::replace(&mut self.begun, true);
        let marked = bytes.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first);
        let line = String::from_utf8_lossy(marked.unwrap_or(&bytes));
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            events.extend(self.data.take().map(|data| SseEvent { name, data }));
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = value.to_owned(),
            "data" => self.extend_data(value)?,
            // A comment has no field; whatever else there is was not asked for.
            _ => {}
        }
        Ok(())
    }

    fn extend_data(&mut self, value: &str) -> Result<(), TooLong> {
        match &mut self.data {
            None => self.data = Some(value.to_owned()),
            Some(data) if data.len() + value.len() >= EVENT_BYTES_MAX => return Err(TooLong),
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<SseEvent> {
        let (mut sse, mut events) = (Sse::default(), Vec::new());
        for piece in pieces {
            sse.push(piece, &mut events).unwrap();
        }
        events
    }

    fn event(name: &str, data: &str) -> SseEvent {
        SseEvent { name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn events_end_with_a_blank_line_whatever_ends_a_line() {
        for end in ["\n", "\r\n", "\r"] {
            let text =
                ["event: a", "data: 1", "", "data:2", "data:  3", "", "data: unfinished", ""].join(end);
            assert_eq!(read([text.as_bytes()]), [event("a", "1"), event("", "2\n 3")], "{end:?}");
        }
    }

    #[test]
    fn what_is_no_data_makes_no_event() {
        let text = "\u{feff}: a comment\n\nevent: lonely\n\nid: 7\nretry: 10\ndata\n\n:\ndata: \u{feff}x\n\n";
        assert_eq!(read([text.as_bytes()]), [event("", ""), event("", "\u{feff}x")]);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(read([b"data: \xff\n\n".as_slice()]), [event("", "\u{fffd}")]);
    }

    #[test]
    fn lines_and_events_without_end_are_refused() {
        let mut events = Vec::new();
        let long = vec![b'x'; EVENT_BYTES_MAX / 2 + 1];
        let mut sse = Sse::default();
        sse.push(&long, &mut events).unwrap();
        assert_eq!(sse.push(&long, &mut events), Err(TooLong));
        let mut sse = Sse::default();
        let line = [b"data:", long.as_slice(), b"\n"].concat();
        sse.push(&line, &mut events).unwrap();
        assert_eq!(sse.push(&line, &mut events), Err(TooLong));
        assert_eq!(events, []);
    }

    /// Streams of all kinds of lines, and places to split them at.
    fn streams() -> impl Strategy<Value = (Vec<u8>, Vec<usize>)> {
        let line = prop_oneof![
            Just("data: {\"größe\":\"😀\"}"),
            Just("data:x"),
            Just("data"),
            Just("event: message_start"),
            Just(": ping"),
            Just("id: 1"),
            Just(""),
            Just("\u{feff}data: y"),
        ];
        let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\r"), Just("\n\n"), Just("\r\n\r\n"), Just("")];
        let noise = proptest::collection::vec(any::<u8>(), 0..3);
        let lines = proptest::collection::vec((line, end, noise), 0..20);
        let bytes = lines.prop_map(|lines| {
            let each = lines.into_iter().flat_map(|(line, end, noise)| [line.into(), noise, end.into()]);
            each.collect::<Vec<Vec<u8>>>().concat()
        });
        (bytes, proptest::collection::vec(0_usize..400, 0..12))
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events((bytes, mut places) in streams()) {
            places.iter_mut().for_each(|place| *place = (*place).min(bytes.len()));
            places.sort_unstable();
            let mut at = 0;
            let mut pieces: Vec<&[u8]> = Vec::new();
            for place in places {
                pieces.push(&bytes[at..place]);
                at = place;
            }
            pieces.push(&bytes[at..]);
            let whole = read([bytes.as_slice()]);
            prop_assert_eq!(read(pieces), whole.clone());
            prop_assert_eq!(read(bytes.chunks(1)), whole);
        }
    }
}
