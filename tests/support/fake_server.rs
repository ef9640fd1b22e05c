//! `fake-server`: a scriptable MCP server over stdio for tests and benches.
//!
//! One binary plays every role: a fast plain server (it is the peer of the benches: one parse and one write per
//! call, nothing else), a slow one, and every broken one that the field reports know. What it does is said by
//! flags (`fake-server --help`) and by its tools' arguments; it never needs the network or a file that it wasn't given.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "fake_server/calls.rs"]
mod calls;
#[path = "fake_server/definitions.rs"]
mod definitions;
#[path = "fake_server/options.rs"]
mod options;
#[path = "fake_server/output.rs"]
mod output;
#[path = "fake_server/process.rs"]
mod process;
#[path = "fake_server/server.rs"]
mod server;
#[path = "fake_server/slow.rs"]
mod slow;
#[path = "fake_server/stateless.rs"]
mod stateless;

use options::Options;

fn main() {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}");
            std::process::exit(2);
        }
    };
    process::prepare(&options);
    server::Server::new(options).run();
}
