//! The last lines of a server's stderr. A server may write as much as it likes: it is always read (an undrained pipe
//! blocks the server), it is never taken for a failure, and it can never cost more than its bound (STDIO-04).

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes of one line that are kept; the rest of the line is read and dropped.
pub const STDERR_LINE_BYTES: usize = 4 << 10;

/// Bytes read beyond [`STDERR_LINE_BYTES`] before a line is cleaned, and then taken off again, so that a secret that
/// is cut in two, and therefore not recognised, is never in the part that is kept.
const LOOKAHEAD_BYTES: usize = 4 << 10;

/// What one kept line costs beside its text: its place in the ring and the allocator's minimum. Without it a server
/// that writes empty lines would fill many times the bound.
const LINE_OVERHEAD: usize = 32;

/// Ends a line that was cut.
const CUT_MARK: &str = " …[cut]";

/// A bounded, shared view of the last stderr lines of one server: written by [`drain`], read by whoever shows them.
/// It outlives the process, so that the reason of an exit can still be read.
#[derive(Debug, Clone)]
pub struct StderrTail {
    // A lock, because readers want the lines of this moment and a channel would copy them for each line. It is never
    // held across an await.
    ring: Arc<Mutex<Ring>>,
}

/// What was read so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StderrCounters {
    /// Lines, also those no longer kept.
    pub lines: u64,
    /// Bytes as the server wrote them.
    pub bytes: u64,
    /// Lines that are no longer kept, because newer ones needed their place.
    pub dropped: u64,
    /// Lines that were longer than [`STDERR_LINE_BYTES`].
    pub cut: u64,
}

#[derive(Debug)]
struct Ring {
    lines: VecDeque<Box<str>>,
    cost: usize,
    max_cost: usize,
    counters: StderrCounters,
}

impl StderrTail {
    /// An empty tail that holds at most `max_bytes` of memory (`limits.stderr_bytes`). The newest line is always kept.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            ring: Arc::new(Mutex::new(Ring {
                lines: VecDeque::new(),
                cost: 0,
                max_cost: max_bytes,
                counters: StderrCounters::default(),
            })),
        }
    }

    /// Every kept line, the oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.last_lines(usize::MAX)
    }

    /// The last `n` kept lines, the oldest first.
    pub fn last_lines(&self, n: usize) -> Vec<String> {
        let ring = self.lock();
        let skip = ring.lines.len().saturating_sub(n);
        ring.lines
            .iter()
            .skip(skip)
            .map(|line| line.to_string())
            .collect()
    }

    /// What was read so far.
    pub fn counters(&self) -> StderrCounters {
        self.lock().counters
    }

    fn add_bytes(&self, n: usize) {
        self.lock().counters.bytes += n as u64;
    }

    fn push(&self, line: String, cut: bool) {
        self.lock().push(line.into_boxed_str(), cut);
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        // A panic elsewhere leaves whole lines behind, which are still good.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn push(&mut self, line: Box<str>, cut: bool) {
        self.counters.lines += 1;
        self.counters.cut += u64::from(cut);
        self.cost += line.len() + LINE_OVERHEAD;
        self.lines.push_back(line);
        while self.cost > self.max_cost && self.lines.len() > 1 {
            if let Some(oldest) = self.lines.pop_front() {
                self.cost -= oldest.len() + LINE_OVERHEAD;
                self.counters.dropped += 1;
            }
        }
    }
}

/// Reads a server's stderr to its end and keeps the last lines in `tail`. Bytes that are not UTF-8 are replaced; a
/// line without an end costs no more than its bound. `clean` redacts and sanitises one line: nothing is kept that did
/// not go through it.
///
/// Ends at the end of the stream, which may be later than the server's own (a grandchild may hold the pipe), and when
/// reading fails.
pub async fn drain(mut stderr: impl AsyncRead + Unpin, tail: StderrTail, clean: impl Fn(&str) -> String) {
    let mut chunk = vec![0; 8 << 10];
    let mut line = Line::default();
    while let Ok(n @ 1..) = stderr.read(&mut chunk).await {
        tail.add_bytes(n);
        let mut rest = &chunk[..n];
        while let Some(end) = memchr::memchr(b'\n', rest) {
            line.extend(&rest[..end]);
            line.finish(&tail, &clean);
            rest = &rest[end + 1..];
        }
        line.extend(rest);
    }
    if !line.bytes.is_empty() {
        line.finish(&tail, &clean);
    }
}

/// The line being read.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    overflowed: bool,
}

impl Line {
    fn extend(&mut self, bytes: &[u8]) {
        let room = STDERR_LINE_BYTES + LOOKAHEAD_BYTES - self.bytes.len();
        self.overflowed |= bytes.len() > room;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn finish(&mut self, tail: &StderrTail, clean: &impl Fn(&str) -> String) {
        let bytes = self.bytes.strip_suffix(b"\r").unwrap_or(&self.bytes);
        let mut text = clean(&String::from_utf8_lossy(bytes));
        let cut = self.overflowed || text.len() > STDERR_LINE_BYTES;
        if cut {
            let seen_whole = match self.overflowed {
                true => text.len().saturating_sub(LOOKAHEAD_BYTES),
                false => text.len(),
            };
            let mut end = seen_whole.min(STDERR_LINE_BYTES - CUT_MARK.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str(CUT_MARK);
        }
        tail.push(text, cut);
        self.bytes.clear();
        self.overflowed = false;
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::io::AsyncWriteExt;

    use super::*;

    const BOUND: usize = 64 << 10;

    async fn drained(input: &[u8], clean: impl Fn(&str) -> String) -> StderrTail {
        let tail = StderrTail::new(BOUND);
        drain(input, tail.clone(), clean).await;
        tail
    }

    fn memory(tail: &StderrTail) -> usize {
        tail.lines().iter().map(|line| line.len() + LINE_OVERHEAD).sum()
    }

    #[tokio::test]
    async fn lines_are_split_and_decoded() {
        for (input, lines) in [
            (&b""[..], &[][..]),
            (b"a\nb\n", &["a", "b"]),
            (b"a\r\nb", &["a", "b"]),
            (b"a\n\nb\n", &["a", "", "b"]),
            (b"bad \xff\xfe byte\nok", &["bad \u{fffd}\u{fffd} byte", "ok"]),
            ("ä€😀\n".as_bytes(), &["ä€😀"]),
        ] {
            let tail = drained(input, str::to_owned).await;
            assert_eq!(tail.lines(), lines, "{input:?}");
            assert_eq!(tail.counters().lines, lines.len() as u64);
            assert_eq!(tail.counters().bytes, input.len() as u64);
        }
    }

    #[tokio::test]
    async fn the_last_lines_come_in_order() {
        let tail = drained(b"a\nb\nc\n", str::to_owned).await;
        assert_eq!(tail.last_lines(2), ["b", "c"]);
        assert_eq!(tail.last_lines(0), [""; 0]);
        assert_eq!(tail.last_lines(9), ["a", "b", "c"]);
    }

    #[tokio::test]
    async fn stdio_04_ten_megabytes_cost_the_bound_and_never_block_the_writer() {
        let (mut server, stderr) = tokio::io::duplex(4 << 10);
        let tail = StderrTail::new(BOUND);
        let reader = tokio::spawn(drain(stderr, tail.clone(), str::to_owned));
        let line = format!("{}\n", "x".repeat(99));
        for _ in 0..100_000 {
            server.write_all(line.as_bytes()).await.unwrap();
        }
        server.write_all(b"the end").await.unwrap();
        drop(server);
        reader.await.unwrap();

        let StderrCounters {
            lines,
            bytes,
            dropped,
            cut,
        } = tail.counters();
        assert_eq!((lines, bytes, cut), (100_001, 10_000_007, 0));
        assert_eq!(dropped + tail.lines().len() as u64, lines);
        assert_eq!(tail.last_lines(1), ["the end"]);
        assert!(memory(&tail) <= BOUND, "{}", memory(&tail));
        assert!(
            memory(&tail) > BOUND - 200,
            "the bound is used: {}",
            memory(&tail)
        );
    }

    #[tokio::test]
    async fn empty_lines_cannot_fill_the_memory() {
        let tail = drained(&b"\n".repeat(1 << 20), str::to_owned).await;
        assert!(memory(&tail) <= BOUND, "{}", memory(&tail));
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_cut_and_the_next_one_is_whole() {
        let mut input = vec![b'y'; 1 << 20];
        input.extend_from_slice(b"\nnext\n");
        let tail = drained(&input, str::to_owned).await;
        let lines = tail.lines();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("yyy") && lines[0].ends_with(CUT_MARK));
        assert!(lines[0].len() <= STDERR_LINE_BYTES && lines[0].len() > STDERR_LINE_BYTES - 100);
        assert_eq!(lines[1], "next");
        assert_eq!(tail.counters().cut, 1);
    }

    #[tokio::test]
    async fn a_cut_never_splits_a_character_or_keeps_half_a_secret() {
        let clean = |line: &str| line.replace("s3cr3t-value", "[REDACTED]");
        for before in [
            STDERR_LINE_BYTES - 6,
            STDERR_LINE_BYTES + LOOKAHEAD_BYTES - 6,
            STDERR_LINE_BYTES + LOOKAHEAD_BYTES - 11,
        ] {
            let input = format!("{}s3cr3t-value{}", "ä".repeat(before / 2), "z".repeat(1 << 16));
            let text = drained(input.as_bytes(), clean).await.lines().concat();
            assert!(!text.contains("s3cr"), "{before}");
            assert!(text.len() <= STDERR_LINE_BYTES);
        }
        // Redaction shortens the line, which moves the unseen end forward.
        let input = format!("{}{}", "s3cr3t-value".repeat(682), "s3cr3t-value".repeat(50));
        let text = drained(input.as_bytes(), clean).await.lines().concat();
        assert!(!text.contains("s3cr"), "{text}");
    }

    #[tokio::test]
    async fn a_read_error_ends_the_drain_and_keeps_what_came() {
        let failing = tokio_test_reader(vec![Ok(b"last words".to_vec()), Err(io::ErrorKind::BrokenPipe)]);
        let tail = StderrTail::new(BOUND);
        drain(failing, tail.clone(), str::to_owned).await;
        assert_eq!(tail.lines(), ["last words"]);
    }

    /// A reader that gives these pieces and then ends.
    fn tokio_test_reader(pieces: Vec<Result<Vec<u8>, io::ErrorKind>>) -> impl AsyncRead + Unpin {
        struct Script(VecDeque<Result<Vec<u8>, io::ErrorKind>>);
        impl AsyncRead for Script {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                buf: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<io::Result<()>> {
                std::task::Poll::Ready(match self.0.pop_front() {
                    Some(Ok(piece)) => {
                        buf.put_slice(&piece);
                        Ok(())
                    }
                    Some(Err(kind)) => Err(kind.into()),
                    None => Ok(()),
                })
            }
        }
        Script(pieces.into())
    }
}
