//! The way to a child's stdin: bounded, in order, and several messages in one write when they pile up.

use std::{
    collections::VecDeque,
    io,
    sync::{Mutex, PoisonError},
};

use tokio::{io::AsyncWriteExt, process::ChildStdin};
use tokio_util::sync::CancellationToken;

/// Bytes in one write at most; a pipe takes 64 KiB.
const ONE_WRITE: usize = 48 << 10;

#[derive(Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines that were ever taken out to be written.
    taken: u64,
}

/// The pipe and what is left of a write that was interrupted: its rest comes first, or the next line would begin in
/// the middle of another.
struct Pipe {
    stdin: Option<ChildStdin>,
    rest: Vec<u8>,
    written: usize,
}

/// A queue of lines and the pipe they go to.
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    /// Held while one writes: the order of the queue is the order on the pipe.
    pipe: tokio::sync::Mutex<Pipe>,
    closed: CancellationToken,
    limit: usize,
}

impl Outbox {
    /// Writes to `stdin`; holds at most `limit` bytes that the child did not read yet.
    pub(crate) fn new(stdin: ChildStdin, limit: usize) -> Self {
        Self {
            queue: Mutex::default(),
            pipe: tokio::sync::Mutex::new(Pipe {
                stdin: Some(stdin),
                rest: Vec::new(),
                written: 0,
            }),
            closed: CancellationToken::new(),
            limit,
        }
    }

    /// Puts a line at the end of the queue; gives its number.
    ///
    /// # Errors
    /// When the child reads so slowly that the limit is reached (STDIO-11); nothing was queued then.
    pub(crate) fn push(&self, line: Vec<u8>) -> io::Result<u64> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.bytes > 0 && queue.bytes + line.len() > self.limit {
            return Err(io::Error::other(format!(
                "the server does not read its input: {} bytes are waiting",
                queue.bytes
            )));
        }
        queue.bytes += line.len();
        queue.lines.push_back(line);
        Ok(queue.taken + queue.lines.len() as u64)
    }

    /// Takes a line back of which nothing was written yet; gives whether that was so.
    pub(crate) fn withdraw(&self, number: u64) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let place = number
            .checked_sub(queue.taken + 1)
            .and_then(|place| usize::try_from(place).ok());
        let Some(line) = place.and_then(|place| queue.lines.get_mut(place)) else {
            return false;
        };
        // Its place stays, as the others' numbers depend on it.
        let withdrawn = std::mem::take(line).len();
        queue.bytes -= withdrawn;
        withdrawn > 0
    }

    /// The number of the last line of which a byte may have been written.
    pub(crate) fn taken(&self) -> u64 {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).taken
    }

    /// Writes everything that is queued. Whoever comes first writes for all who wait. Dropping the future loses
    /// nothing: the next one goes on where it stopped.
    ///
    /// # Errors
    /// The pipe's error; [`io::ErrorKind::NotConnected`] once it is closed.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        let mut pipe = self.pipe.lock().await;
        loop {
            let Pipe { stdin, rest, written } = &mut *pipe;
            if *written == rest.len() {
                *written = 0;
                match self.next_batch() {
                    Some(batch) => *rest = batch,
                    None => {
                        rest.clear();
                        return Ok(());
                    }
                }
            }
            let Some(stdin) = stdin else {
                return Err(io::ErrorKind::NotConnected.into());
            };
            tokio::select! {
                biased;
                result = stdin.write(&rest[*written..]) => match result? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    count => *written += count,
                },
                () = self.closed.cancelled() => return Err(io::ErrorKind::NotConnected.into()),
            }
        }
    }

    fn next_batch(&self) -> Option<Vec<u8>> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = Vec::new();
        // A line that was withdrawn is empty.
        while batch.is_empty() {
            batch = queue.lines.pop_front()?;
            queue.taken += 1;
        }
        while let Some(next) = queue.lines.front()
            && batch.len() + next.len() <= ONE_WRITE
            && let Some(next) = queue.lines.pop_front()
        {
            batch.extend_from_slice(&next);
            queue.taken += 1;
        }
        queue.bytes -= batch.len();
        Some(batch)
    }

    /// Closes the pipe: the child reads the end of its input. A write to a child that doesn't read is given up.
    pub(crate) async fn close(&self) {
        self.closed.cancel();
        self.pipe.lock().await.stdin.take();
    }
}
