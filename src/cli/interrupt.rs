//! Ctrl-C as an event instead of the end of the process.

use std::thread;

/// Calls `action` at the first Ctrl-C of this process. The second one ends it as usual. From the return on no Ctrl-C
/// is missed.
pub(super) fn on_ctrl_c(action: impl FnOnce() + Send + 'static) {
    // A thread with a runtime of its own: the command line is blocking otherwise, and tokio is the one signal
    // library in the crate. If it can't be set up, Ctrl-C keeps its usual effect.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    let signals = {
        let _inside = runtime.enter();
        listen()
    };
    let Ok(mut signals) = signals else { return };
    thread::spawn(move || {
        runtime.block_on(signals.recv());
        action();
        // tokio's handler stays in place for good, so the second Ctrl-C has to be waited for as well.
        runtime.block_on(signals.recv());
        std::process::exit(super::Exit::Interrupted.code().into());
    });
}

#[cfg(unix)]
fn listen() -> std::io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
}

#[cfg(windows)]
fn listen() -> std::io::Result<tokio::signal::windows::CtrlC> {
    tokio::signal::windows::ctrl_c()
}
