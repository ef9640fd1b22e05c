//! Newline framing: one message a line, bounded, cancel-safe.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

const FIRST_READ: usize = 8 << 10;
/// A buffer that grew beyond this is given back once it is empty, so that one big message doesn't cost memory for ever.
const KEEP: usize = 64 << 10;

/// Why a line could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// More than the limit arrived without a newline (STDIO-03, B16). Nothing after it can be trusted.
    #[error("a line of more than {limit} bytes arrived without an end")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// Reading failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Splits a byte stream into lines.
pub struct LineReader<R> {
    source: R,
    buffer: Vec<u8>,
    /// Start of the bytes that were not handed out yet.
    start: usize,
    /// Up to here `start..` is known to hold no newline.
    scanned: usize,
    limit: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Reads lines of at most `limit` bytes, the end of line not counted.
    pub fn new(source: R, limit: usize) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            limit,
        }
    }

    /// The next line without its `\n` or `\r\n`, or `None` at the end of the stream. Bytes after the last newline
    /// are a line of their own, so that `printf '{…}' | nc -U` works without one.
    ///
    /// Cancel-safe: dropping the future loses no byte.
    ///
    /// # Errors
    /// [`LineError::TooLong`] as soon as more than the limit is pending, [`LineError::Io`] from the source.
    pub async fn next(&mut self) -> Result<Option<&mut [u8]>, LineError> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer[self.scanned..]).map(|at| self.scanned + at)
            {
                let line = self.start..end;
                self.start = end + 1;
                self.scanned = self.start;
                if line.len() > self.limit + 1 {
                    return Err(LineError::TooLong { limit: self.limit });
                }
                return Ok(Some(without_carriage_return(&mut self.buffer[line])));
            }
            self.scanned = self.buffer.len();
            if self.pending_bytes() > self.limit + 1 {
                return Err(LineError::TooLong { limit: self.limit });
            }
            self.make_room();
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                let line = self.start..self.buffer.len();
                self.start = line.end;
                self.scanned = line.end;
                return Ok((!line.is_empty()).then(|| without_carriage_return(&mut self.buffer[line])));
            }
        }
    }

    /// The stream itself. What was read and not handed out is lost.
    pub fn into_source(self) -> R {
        self.source
    }

    /// Bytes of an unfinished line.
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    fn make_room(&mut self) {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            if self.buffer.capacity() > KEEP {
                self.buffer = Vec::new();
            }
            self.start = 0;
        } else if self.start > 0 && self.buffer.capacity() - self.buffer.len() < FIRST_READ {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.scanned = self.buffer.len();
        if self.buffer.capacity() - self.buffer.len() < FIRST_READ / 2 {
            self.buffer.reserve(FIRST_READ.max(self.buffer.len()));
        }
    }
}

fn without_carriage_return(line: &mut [u8]) -> &mut [u8] {
    match line {
        [rest @ .., b'\r'] => rest,
        line => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that gives `data` in pieces of `step` bytes.
    struct Pieces {
        data: Vec<u8>,
        at: usize,
        step: usize,
    }

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            out: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            let n = self.step.min(out.remaining()).min(self.data.len() - self.at);
            out.put_slice(&self.data[self.at..self.at + n]);
            self.at += n;
            std::task::Poll::Ready(Ok(()))
        }
    }

    async fn all(data: &[u8], step: usize, limit: usize) -> Result<Vec<String>, LineError> {
        let mut reader = LineReader::new(
            Pieces {
                data: data.to_vec(),
                at: 0,
                step,
            },
            limit,
        );
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await? {
            lines.push(String::from_utf8_lossy(line).into_owned());
        }
        Ok(lines)
    }

    #[tokio::test]
    async fn lines_are_split_however_the_bytes_arrive() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("a\n", &["a"]),
            ("a\r\nb\n", &["a", "b"]),
            ("\n\r\nx", &["", "", "x"]),
            ("no end", &["no end"]),
            ("a\rb\n", &["a\rb"]),
            ("\u{2028}\n", &["\u{2028}"]),
        ];
        for (data, expected) in cases {
            for step in [1, 2, 3, 7, 4096] {
                assert_eq!(
                    all(data.as_bytes(), step, 100).await.unwrap(),
                    *expected,
                    "{data:?} by {step}"
                );
            }
        }
    }

    #[tokio::test]
    async fn a_line_may_have_the_limit_and_no_more() {
        for step in [1, 5, 8192] {
            assert_eq!(
                all(b"12345\r\n67890\n", step, 5).await.unwrap(),
                ["12345", "67890"]
            );
            assert!(matches!(
                all(b"1234567\n", step, 5).await,
                Err(LineError::TooLong { limit: 5 })
            ));
        }
    }

    #[tokio::test]
    async fn an_endless_line_is_refused_early() {
        let mut reader = LineReader::new(tokio::io::repeat(b'x'), 100_000);
        assert!(matches!(
            reader.next().await,
            Err(LineError::TooLong { limit: 100_000 })
        ));
        assert!(reader.buffer.capacity() < 400_000, "{}", reader.buffer.capacity());
    }

    #[tokio::test]
    async fn a_big_line_gives_its_memory_back() {
        let mut data = vec![b'x'; 1 << 20];
        data.extend_from_slice(b"\nsmall\n");
        let mut reader = LineReader::new(
            Pieces {
                data,
                at: 0,
                step: 4096,
            },
            16 << 20,
        );
        assert_eq!(reader.next().await.unwrap().unwrap().len(), 1 << 20);
        assert_eq!(reader.next().await.unwrap().unwrap(), b"small");
        assert!(reader.next().await.unwrap().is_none());
        assert!(reader.buffer.capacity() <= KEEP, "{}", reader.buffer.capacity());
    }

    proptest::proptest! {
        #[test]
        fn lines_are_what_a_split_gives(data in "[ab\n\r]{0,60}", step in 1usize..9) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let got = runtime.block_on(all(data.as_bytes(), step, 100)).unwrap();
            let mut expected: Vec<&str> = data.split('\n').map(|l| l.strip_suffix('\r').unwrap_or(l)).collect();
            if data.is_empty() || data.ends_with('\n') {
                expected.pop();
            }
            proptest::prop_assert_eq!(got, expected);
        }
    }
}
