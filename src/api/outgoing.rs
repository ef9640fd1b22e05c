//! What waits to be written to one frontend: answers always, streams while there is room.

use crate::wire::Limits;

/// Capacity that is kept when everything is written.
const KEEP: usize = 64 << 10;

/// Lines on their way to a frontend.
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    written: usize,
    /// Lines that wait, counted from the newline that ends each.
    messages: usize,
    limit_bytes: usize,
    limit_messages: usize,
    /// Stream messages that found no room.
    dropped: u64,
}

impl Outgoing {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            bytes: Vec::new(),
            written: 0,
            messages: 0,
            limit_bytes: limits.queue_bytes,
            limit_messages: limits.queue_messages,
            dropped: 0,
        }
    }

    /// Adds an answer. Answers are never dropped; the session stops reading requests while the queue is full.
    pub(super) fn answer(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.messages += 1;
    }

    /// Adds a message of a stream (progress, log), or drops it when the frontend is too slow.
    pub(super) fn stream(&mut self, line: &[u8]) {
        if self.is_full() {
            self.dropped += 1;
        } else {
            self.bytes.extend_from_slice(line);
            self.messages += 1;
        }
    }

    /// What to write next.
    pub(super) fn pending(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Takes note of what was written.
    pub(super) fn advance(&mut self, count: usize) {
        let end = self.written + count;
        self.messages -= memchr::memchr_iter(b'\n', &self.bytes[self.written..end]).count();
        self.written = end;
        if self.written == self.bytes.len() {
            self.written = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEEP {
                self.bytes = Vec::new();
            }
        } else if self.written > KEEP && self.written > self.bytes.len() / 2 {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether a limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() - self.written >= self.limit_bytes || self.messages >= self.limit_messages
    }

    /// Stream messages that were dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(bytes: usize, messages: usize) -> Outgoing {
        Outgoing::new(&Limits {
            queue_bytes: bytes,
            queue_messages: messages,
            ..Limits::default()
        })
    }

    #[test]
    fn streams_are_dropped_when_full_and_answers_are_not() {
        let mut out = queue(1 << 20, 2);
        out.stream(b"1\n");
        out.stream(b"2\n");
        out.stream(b"3\n");
        out.answer(|bytes| bytes.extend_from_slice(b"4\n"));
        assert_eq!(out.pending(), b"1\n2\n4\n");
        assert_eq!(out.dropped(), 1);
        assert!(out.is_full());
        out.advance(4);
        assert_eq!(out.pending(), b"4\n");
        assert!(!out.is_full());
        out.advance(2);
        assert!(out.is_empty());
    }

    #[test]
    fn bytes_count_too_and_partial_writes_are_kept() {
        let mut out = queue(4, 100);
        out.answer(|bytes| bytes.extend_from_slice(b"abcdef\n"));
        assert!(out.is_full());
        out.advance(3);
        assert_eq!(out.pending(), b"def\n");
        assert!(out.is_full());
        out.advance(1);
        assert!(!out.is_full());
    }
}
