//! The load program: what the daemon costs, measured against direct clients of the same server in the same run.
//!
//! `cargo bench --bench load` prints a Markdown table; `-- --quick` takes a fraction of the time and is as much less
//! certain. It fails when something doesn't work, never because something was slow.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(unix)]
mod blocking;
#[cfg(unix)]
mod direct;
#[cfg(unix)]
mod figures;
#[cfg(unix)]
mod lines;
#[cfg(unix)]
mod relay;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod sick;
#[cfg(unix)]
#[path = "../../tests/support/mod.rs"]
mod support;

fn main() {
    #[cfg(unix)]
    if relay::serve_if_asked() {
        return;
    }
    let asked_for = |flag: &str| std::env::args().any(|argument| argument == flag);
    if !asked_for("--bench") {
        return; // `cargo test --benches` only wants to know that it builds.
    }
    #[cfg(unix)]
    run::run(asked_for("--quick"));
    #[cfg(not(unix))]
    println!("the load program needs Unix sockets");
}
