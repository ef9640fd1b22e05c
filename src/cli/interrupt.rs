//! Ctrl-C as an event instead of the end of the process.

use std::thread;

/// Calls `action` at the first Ctrl-C of this process. The second one ends it as usual.
pub(super) fn on_ctrl_c(action: impl FnOnce() + Send + 'static) {
    // A thread with a runtime of its own: the command line is blocking otherwise, and tokio is the one signal
    // library in the crate. If it can't be set up, Ctrl-C keeps its usual effect.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    thread::spawn(move || {
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            action();
            // tokio's handler stays in place for good, so the second Ctrl-C has to be waited for as well.
            let _ = runtime.block_on(tokio::signal::ctrl_c());
            std::process::exit(super::Exit::Interrupted.code().into());
        }
    });
}
