//! A frontend's connection on each system, and its two halves.

use std::io;

use interprocess::local_socket::tokio::Stream as Portable;

#[cfg(unix)]
pub(crate) use unix::Stream;
#[cfg(unix)]
pub(super) use unix::{from_portable, has_hung_up, split};
#[cfg(windows)]
pub(crate) use windows::Stream;
#[cfg(windows)]
pub(super) use windows::{from_portable, has_hung_up, split};

#[cfg(unix)]
mod unix {
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::{
        event::{PollFd, PollFlags, poll},
        time::Timespec,
    };
    use tokio::net::unix::{ReadHalf, WriteHalf};

    /// tokio's own stream saves a system call per message over the portable one: it knows that a short read has
    /// emptied the socket.
    pub(crate) type Stream = tokio::net::UnixStream;

    /// The listener's stream as ours.
    pub(in crate::api) fn from_portable(stream: super::Portable) -> super::io::Result<Stream> {
        let super::Portable::UdSocket(socket) = stream;
        let descriptor =
            OwnedFd::try_from(socket).map_err(|error| super::io::Error::other(error.to_string()))?;
        Stream::from_std(descriptor.into())
    }

    /// Reading and writing at the same time.
    pub(in crate::api) fn split(stream: &mut Stream) -> (ReadHalf<'_>, WriteHalf<'_>) {
        stream.split()
    }

    /// Whether a frontend that closed its sending side has closed the receiving one as well. The end of its input
    /// alone doesn't tell: `printf … | nc -U` still waits for answers.
    pub(in crate::api) fn has_hung_up(writer: &WriteHalf<'_>) -> bool {
        let mut descriptors = [PollFd::from_borrowed_fd(
            writer.as_ref().as_fd(),
            PollFlags::empty(),
        )];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut descriptors, Some(&at_once)).is_ok()
            && descriptors[0]
                .revents()
                .intersects(PollFlags::HUP | PollFlags::ERR)
    }
}

#[cfg(windows)]
mod windows {
    pub(crate) type Stream = interprocess::local_socket::tokio::Stream;

    /// The listener's stream is ours.
    pub(in crate::api) fn from_portable(stream: Stream) -> super::io::Result<Stream> {
        Ok(stream)
    }

    pub(in crate::api) fn split(stream: &mut Stream) -> (&Stream, &Stream) {
        (stream, stream)
    }

    /// A named pipe has one end for both directions.
    pub(in crate::api) fn has_hung_up(_: &&Stream) -> bool {
        true
    }
}
