//! The one place with unsafe code: what has to run in the child between fork and exec.
#![allow(unsafe_code)]

use tokio::process::Command;

/// Makes the child the leader of a session of its own, and so of a process group, without a terminal (STDIO-07).
///
/// On Linux the kernel is also asked to send the child SIGTERM when our thread ends, however it ends. This is the second
/// net: the death watch ends whole groups, this reaches only the child itself, but also works when the death watch was
/// killed too. It holds because children are started from the main thread alone. Other systems have no such request;
/// there the death watch does the whole job.
#[cfg(unix)]
pub(crate) fn isolate(command: &mut Command) {
    #[cfg(target_os = "linux")]
    let parent = rustix::process::getpid();
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. All of these are plain system calls
    // without allocation or locks, and the error is built from a number.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            #[cfg(target_os = "linux")]
            {
                rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
                if rustix::process::getppid() != Some(parent) {
                    // We died between fork and this line; the signal would never come.
                    return Err(std::io::Error::from(rustix::io::Errno::SRCH));
                }
            }
            Ok(())
        });
    }
}
