//! Server-sent events: bytes in pieces of any size in, whole events out (HTTP-11).

use std::{collections::VecDeque, time::Duration};

/// One event with data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// Its kind; `message` when none was given.
    pub(super) name: String,
    /// The data, its lines joined by line feeds.
    pub(super) data: Vec<u8>,
}

/// An event beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Takes a stream apart as the standard of HTML says.
#[derive(Debug)]
pub(super) struct Parser {
    /// Bytes that one event may have.
    limit: usize,
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed now belongs to it.
    after_return: bool,
    is_first_line: bool,
    name: String,
    data: Vec<u8>,
    has_data: bool,
    id: Option<String>,
    last_id: Option<String>,
    retry: Option<Duration>,
    events: VecDeque<Event>,
    event_count: u64,
}

impl Parser {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_return: false,
            is_first_line: true,
            name: String::new(),
            data: Vec::new(),
            has_data: false,
            id: None,
            last_id: None,
            retry: None,
            events: VecDeque::new(),
            event_count: 0,
        }
    }

    /// Takes the next bytes in.
    ///
    /// # Errors
    /// [`TooLarge`]; the rest of the stream is of no use then.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Result<(), TooLarge> {
        if std::mem::take(&mut self.after_return) && bytes.first() == Some(&b'\n') {
            bytes = &bytes[1..];
        } else if bytes.is_empty() {
            return Ok(());
        }
        while let Some(end) = memchr::memchr2(b'\r', b'\n', bytes) {
            self.add(&bytes[..end])?;
            let is_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if is_return {
                match bytes.first() {
                    Some(b'\n') => bytes = &bytes[1..],
                    Some(_) => {}
                    None => self.after_return = true,
                }
            }
            self.end_of_line();
        }
        self.add(bytes)
    }

    /// The next whole event.
    pub(super) fn next(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The id of the last event that is complete: where the stream can be taken up again.
    pub(super) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref().filter(|id| !id.is_empty())
    }

    /// How long to wait before the stream is opened again, if the server said so.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// How many whole events there were.
    pub(super) fn event_count(&self) -> u64 {
        self.event_count
    }

    /// Forgets what is not complete, as the stream goes on elsewhere. The place stays.
    pub(super) fn restart(&mut self) {
        *self = Self {
            last_id: self.last_id.take(),
            id: None,
            retry: self.retry,
            event_count: self.event_count,
            ..Self::new(self.limit)
        };
        self.id.clone_from(&self.last_id);
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        if self.line.len() + self.data.len() + bytes.len() > self.limit {
            return Err(TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_of_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let mut text: &[u8] = &line;
        if std::mem::take(&mut self.is_first_line) {
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        if text.is_empty() {
            self.dispatch();
        } else {
            self.field(text);
        }
        // The room is used again for the next line.
        self.line = line;
        self.line.clear();
    }

    fn field(&mut self, line: &[u8]) {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => self.id = Some(String::from_utf8_lossy(value).into_owned()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let millis = std::str::from_utf8(value)
                    .ok()
                    .and_then(|digits| digits.parse().ok());
                self.retry = Some(Duration::from_millis(millis.unwrap_or(u64::MAX)));
            }
            // A comment, mostly a sign of life; or a field of the future.
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        if self.id.is_some() {
            self.last_id.clone_from(&self.id);
        }
        self.has_data = false;
        let data = std::mem::take(&mut self.data);
        let name = std::mem::take(&mut self.name);
        // Without data it is no event, only the place of one (HTTP-09: a priming event).
        if !data.is_empty() {
            self.event_count += 1;
            self.events.push_back(Event {
                name: match name.is_empty() {
                    true => "message".into(),
                    false => name,
                },
                data,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(pieces: &[&[u8]]) -> (Vec<(String, String)>, Option<String>, Option<Duration>) {
        let mut parser = Parser::new(1000);
        let mut events = Vec::new();
        for piece in pieces {
            parser.feed(piece).unwrap();
            while let Some(Event { name, data }) = parser.next() {
                events.push((name, String::from_utf8(data).unwrap()));
            }
        }
        (events, parser.last_id().map(str::to_owned), parser.retry())
    }

    #[test]
    fn streams_are_taken_apart_as_the_standard_says() {
        let event = |name: &str, data: &str| (name.to_owned(), data.to_owned());
        for (stream, events, id, retry) in [
            ("data: a\n\n", vec![event("message", "a")], None, None),
            ("data:a\r\n\r\n", vec![event("message", "a")], None, None),
            ("data: a\r\r", vec![event("message", "a")], None, None),
            ("data:  a\n\n", vec![event("message", " a")], None, None),
            (
                "data: a\ndata: b\n\ndata: c\n\n",
                vec![event("message", "a\nb"), event("message", "c")],
                None,
                None,
            ),
            (
                "event: endpoint\ndata: /m?s=1\n\n",
                vec![event("endpoint", "/m?s=1")],
                None,
                None,
            ),
            // An id counts once its event is complete, with or without data.
            ("id: 7\ndata:\n\n", vec![], Some("7"), None),
            ("id: 7\n\nid: 8\ndata: x\n", vec![], Some("7"), None),
            ("id: 7\n\nid\n\n", vec![], None, None),
            ("id: a\0b\n\n", vec![], None, None),
            (
                "retry: 1500\n\nretry: 1x\n\nretry:\n\n",
                vec![],
                None,
                Some(Duration::from_millis(1500)),
            ),
            (
                ": alive\n\n:\n\ndata: a\n\n",
                vec![event("message", "a")],
                None,
                None,
            ),
            ("\u{feff}data: a\n\n", vec![event("message", "a")], None, None),
            ("\n\u{feff}data: a\n\n", vec![], None, None),
            ("data\ndata: a\n\n", vec![event("message", "\na")], None, None),
            ("foo: a\nData: b\n\n", vec![], None, None),
            // An event without its empty line is not complete.
            ("data: a\n", vec![], None, None),
        ] {
            let expected = (events, id.map(str::to_owned), retry);
            assert_eq!(parse(&[stream.as_bytes()]), expected, "{stream:?}");
            let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
            assert_eq!(parse(&bytes), expected, "byte by byte: {stream:?}");
        }
    }

    #[test]
    fn an_event_without_an_end_is_refused_at_the_limit() {
        for (line, fits) in [("data: ", 900), (": ", 900), ("x", 900)] {
            let mut parser = Parser::new(1000);
            parser.feed(line.as_bytes()).unwrap();
            parser.feed(&vec![b'a'; fits]).unwrap();
            assert_eq!(parser.feed(&[b'a'; 200]), Err(TooLarge), "{line}");
        }
        let mut parser = Parser::new(1000);
        let refused = (0..).find(|_| parser.feed(b"data: 0123456789\n").is_err());
        assert!((80..=110).contains(&refused.unwrap()), "lines of data add up");
        let mut parser = Parser::new(1000);
        for _ in 0..1000 {
            parser.feed(b": still here, and at work\n\n").unwrap();
        }
    }

    proptest! {
        /// HTTP-11: where the pieces end makes no difference, not even inside a character or a CRLF.
        #[test]
        fn pieces_of_any_size_make_the_same_events(
            lines in prop::collection::vec(
                prop_oneof![
                    Just("data: {\"ü\":\"\u{1f600}\"}".to_owned()),
                    Just("data:".to_owned()),
                    Just("event: x".to_owned()),
                    Just("id: é".to_owned()),
                    Just("retry: 12".to_owned()),
                    Just(": c".to_owned()),
                    Just(String::new()),
                    "[a-z:\u{e9}\u{feff} ]{0,12}",
                ],
                0..20,
            ),
            ends in prop::collection::vec(prop_oneof![Just("\n"), Just("\r\n"), Just("\r")], 20),
            cuts in prop::collection::vec(1usize..7, 1..80),
        ) {
            let stream: String = lines.iter().zip(ends).flat_map(|(line, end)| [line.as_str(), end]).collect();
            let bytes = stream.as_bytes();
            let whole = parse(&[bytes]);
            let each: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(&parse(&each), &whole);
            let mut rest = bytes;
            let mut pieces = Vec::new();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            prop_assert_eq!(&parse(&pieces), &whole);
        }
    }
}
