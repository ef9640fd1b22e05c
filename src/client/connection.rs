//! The connection itself: ownership checks, one reading thread, one channel of events.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    path::Path,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use interprocess::local_socket::{
    GenericFilePath, Stream, ToFsName,
    traits::{Stream as _, StreamCommon as _},
};

use super::error::ClientError;

/// The longest line taken from the daemon, bytes. Its own limit on a server's line is far below by default and can
/// be raised; this one only keeps a broken peer from filling our memory.
const LINE_BYTES: u64 = 1 << 30;

/// How long one write may block when the daemon does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// What happens on a connection.
pub(super) enum Event {
    /// A line, without its end.
    Line(Vec<u8>),
    /// The daemon closed the connection.
    Closed,
    /// Reading failed.
    Failed(io::Error),
    /// Someone called [`Interrupter::interrupt`].
    Interrupted,
}

/// Ends the request in flight from another thread.
#[derive(Clone)]
pub struct Interrupter(mpsc::Sender<Event>);

impl Interrupter {
    /// Interrupts; does nothing when the client is gone.
    pub fn interrupt(&self) {
        // The receiver is gone only when the client is: then there is nothing to interrupt.
        let _ = self.0.send(Event::Interrupted);
    }
}

pub(super) struct Connection {
    stream: Arc<Stream>,
    events: mpsc::Receiver<Event>,
    sender: mpsc::Sender<Event>,
}

impl Connection {
    pub(super) fn open(path: &Path, timeout: Duration) -> Result<Self, ClientError> {
        check_file(path)?;
        let (connected, on_connected) = mpsc::channel();
        let (sender, events) = mpsc::channel();
        let (target, reader_events) = (path.to_owned(), sender.clone());
        // Connecting blocks while the backlog of a hung daemon is full, so it happens in the thread too.
        thread::spawn(move || {
            let stream = match connect(&target) {
                Ok(stream) => Arc::new(stream),
                Err(error) => {
                    // Nobody waits any more: the caller ran into its timeout.
                    let _ = connected.send(Err(error));
                    return;
                }
            };
            if connected.send(Ok(Arc::clone(&stream))).is_ok() {
                read_lines(&stream, &reader_events);
            }
        });
        let stream = match on_connected.recv_timeout(timeout) {
            Ok(result) => result?,
            Err(_) => {
                return Err(ClientError::Unresponsive {
                    path: path.to_owned(),
                    after: timeout,
                });
            }
        };
        Ok(Self {
            stream,
            events,
            sender,
        })
    }

    pub(super) fn interrupter(&self) -> Interrupter {
        Interrupter(self.sender.clone())
    }

    /// The next event, or `None` at the deadline.
    pub(super) fn next(&self, deadline: Option<Instant>) -> Option<Event> {
        match deadline {
            // We hold a sender ourselves, so the channel can't be disconnected.
            None => self.events.recv().ok(),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                self.events.recv_timeout(left).ok()
            }
        }
    }

    pub(super) fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut stream = &*self.stream;
        stream.write_all(line)?;
        stream.flush()
    }
}

fn read_lines(stream: &Stream, events: &mpsc::Sender<Event>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let event = match (&mut reader).take(LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) => Event::Closed,
            Ok(_) if line.ends_with(b"\n") => {
                line.pop();
                Event::Line(line)
            }
            Ok(n) if n as u64 == LINE_BYTES => Event::Failed(io::Error::other(format!(
                "a line is longer than {LINE_BYTES} bytes"
            ))),
            // Half a line: the daemon died while it wrote.
            Ok(_) => Event::Closed,
            Err(error) => Event::Failed(error),
        };
        let last = !matches!(event, Event::Line(_));
        if events.send(event).is_err() || last {
            return;
        }
    }
}

fn connect(path: &Path) -> Result<Stream, ClientError> {
    let stream = path
        .to_fs_name::<GenericFilePath>()
        .and_then(Stream::connect)
        .map_err(|error| connect_error(path, error))?;
    check_peer(path, &stream)?;
    stream
        .set_send_timeout(Some(WRITE_TIMEOUT))
        .or_else(|error| match error.kind() {
            // Named pipes have no send timeout; a write there is small enough for the pipe's buffer or fails.
            io::ErrorKind::Unsupported => Ok(()),
            _ => Err(connect_error(path, error)),
        })?;
    Ok(stream)
}

fn connect_error(path: &Path, error: io::Error) -> ClientError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::NotFound => ClientError::NoSocket { path },
        io::ErrorKind::ConnectionRefused => ClientError::Stale { path },
        io::ErrorKind::PermissionDenied => ClientError::Permission { path },
        _ => ClientError::Connect { path, source: error },
    }
}

/// Refuses a path that isn't a socket of our own user.
#[cfg(unix)]
fn check_file(path: &Path) -> Result<(), ClientError> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};

    let metadata = std::fs::metadata(path).map_err(|error| connect_error(path, error))?;
    if !metadata.file_type().is_socket() {
        return Err(ClientError::NotASocket {
            path: path.to_owned(),
        });
    }
    check_uid(path, metadata.uid())
}

/// Refuses a listener of another user, also when the file was exchanged after [`check_file`].
#[cfg(unix)]
fn check_peer(path: &Path, stream: &Stream) -> Result<(), ClientError> {
    let creds = stream.peer_creds().map_err(|error| connect_error(path, error))?;
    creds.euid().map_or(Ok(()), |uid| check_uid(path, uid))
}

#[cfg(unix)]
fn check_uid(path: &Path, owner: u32) -> Result<(), ClientError> {
    let own = rustix::process::geteuid().as_raw();
    if owner == own {
        return Ok(());
    }
    Err(ClientError::ForeignOwner {
        path: path.to_owned(),
        owner,
        own,
    })
}

/// The access list of a named pipe keeps others out; there is no file to look at.
#[cfg(not(unix))]
fn check_file(_: &Path) -> Result<(), ClientError> {
    Ok(())
}

#[cfg(not(unix))]
fn check_peer(_: &Path, _: &Stream) -> Result<(), ClientError> {
    Ok(())
}
