//! What every subcommand needs: the global options, the socket, and the two outputs.

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    time::Duration,
};

use anstream::{AutoStream, ColorChoice};
use serde_json::Value;

use super::{Cli, Exit, Failure, render::Style};
use crate::{client::Client, environment::Environment};

/// How long the daemon may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the daemon may take for a control method. It answers them from memory.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The global options and the environment.
pub(super) struct Context {
    pub(super) environment: Environment,
    pub(super) config: Option<PathBuf>,
    pub(super) socket: Option<PathBuf>,
    pub(super) log: Option<String>,
}

impl Context {
    pub(super) fn new(cli: &Cli, environment: Environment) -> Self {
        match cli.color {
            clap::ColorChoice::Auto => ColorChoice::Auto,
            clap::ColorChoice::Always => ColorChoice::Always,
            clap::ColorChoice::Never => ColorChoice::Never,
        }
        .write_global();
        let log = cli
            .log
            .clone()
            .or_else(|| environment.get_non_empty("HERMESD_MCP_LOG").map(str::to_owned));
        Self {
            environment,
            config: cli.config.clone(),
            socket: cli.socket.clone(),
            log,
        }
    }

    /// Where the daemon listens, by the same rule as the daemon itself.
    pub(super) fn socket_path(&self) -> Result<PathBuf, Failure> {
        super::socket::locate(self)
    }

    /// Connects to the daemon.
    pub(super) fn connect(&self) -> Result<Client, Failure> {
        Ok(Client::connect(&self.socket_path()?, CONNECT_TIMEOUT)?)
    }

    /// The style for stdout.
    pub(super) fn style(&self) -> Style {
        style_of(AutoStream::choice(&io::stdout()))
    }

    /// Writes text to stdout. A reader that closed the pipe (`| head`) has seen enough.
    pub(super) fn print(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(
                Exit::Failure,
                format!("cannot write to stdout: {error}"),
            )),
            _ => Ok(()),
        }
    }

    /// Writes a value to stdout as JSON: indented for a person, one line for a program.
    pub(super) fn print_json(&self, value: &Value) -> Result<(), Failure> {
        let text = if io::stdout().is_terminal() {
            format!("{value:#}\n")
        } else {
            format!("{value}\n")
        };
        self.print(&text)
    }

    /// Shows a failure on stderr.
    pub(super) fn report(&self, failure: &Failure) {
        let text = failure.render(style_of(AutoStream::choice(&io::stderr())));
        // With stderr closed there is nowhere left to complain; the exit code still tells.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

fn style_of(choice: ColorChoice) -> Style {
    match choice {
        ColorChoice::Never => Style::PLAIN,
        _ => Style::COLORED,
    }
}
