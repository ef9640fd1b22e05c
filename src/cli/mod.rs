//! The command line: one file per subcommand, and the views in `render`.
//!
//! It may import everything, but talks to a running daemon only through [`crate::client`], as any other frontend
//! does. Always true: what a person sees says what to do next when something is wrong; every way to end has a code
//! of [`Exit`]; text of servers is cleaned before it reaches a terminal.

mod arguments;
mod call;
mod check;
mod completions;
mod context;
mod demo;
mod demo_server;
mod exit;
mod failure;
mod interrupt;
mod logs;
mod render;
mod restart;
mod serve;
mod socket;
mod status;
mod stop;
mod tools;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

pub use self::exit::Exit;
use self::{context::Context, failure::Failure};
use crate::environment::Environment;

/// The hidden subcommand with which the daemon starts its helper.
const DEATH_WATCH: &str = "__death-watch";

/// How a subcommand ends.
type Outcome = Result<Exit, Failure>;

/// One daemon that owns every MCP server connection of a user and serves one merged tool list over a local socket.
#[derive(Debug, Parser)]
#[command(
    name = "hermesd-mcp",
    version,
    max_term_width = 100,
    after_help = after_help(),
    arg_required_else_help = false
)]
struct Cli {
    /// The configuration file [default: $HERMES_HOME/config.yaml, else ~/.hermes/config.yaml]
    #[arg(long, global = true, value_name = "PATH")]
    config: Option<PathBuf>,

    /// The daemon's socket [env: HERMESD_MCP_SOCKET] [default: see `hermesd-mcp socket`]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// What the daemon logs to stderr, such as `debug` or `hermesd_mcp::server=trace` [env: HERMESD_MCP_LOG]
    #[arg(long, global = true, value_name = "FILTER")]
    log: Option<String>,

    /// When to use colours; NO_COLOR is honoured
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: clap::ColorChoice,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon (also without a command)
    Serve,
    /// Show the servers: state, tools, and what is wrong with those that are down
    Status(status::Args),
    /// List the tools as signatures, with what their arguments are for
    Tools(tools::Args),
    /// Call one tool and print its result
    Call(call::Args),
    /// Show the last lines that a server wrote to its stderr
    Logs(logs::Args),
    /// Start one server again, now
    Restart(restart::Args),
    /// Stop the daemon and all its servers
    Stop,
    /// Check a configuration: every finding with its place, and whether the commands exist
    Check(check::Args),
    /// Print the path of the socket
    Socket,
    /// Show everything once, with nothing installed: a daemon in a temporary home, its tools, calls and status
    Demo,
    /// The built-in MCP server of the demo, on stdin and stdout
    DemoServer,
    /// Print a completion script for a shell
    Completions(completions::Args),
}

fn after_help() -> String {
    format!(
        "Exit codes:\n{}\n\nWithout a command the daemon is started, as with `serve`. Try it with nothing installed: \
         `hermesd-mcp demo`",
        Exit::table()
    )
}

/// Runs the program named on the command line.
pub fn run() -> ExitCode {
    // The helper must be small and can't fail on options, so it doesn't come past clap.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == DEATH_WATCH)
    {
        return crate::server::death_watch::run();
    }
    run_with(std::env::args_os(), Environment::of_process()).into()
}

fn run_with(arguments: impl IntoIterator<Item = OsString>, environment: Environment) -> Exit {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` come this way too. A closed pipe is no reason to fail.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Success
            };
        }
    };
    let context = Context::new(&cli, environment);
    let outcome = match cli.command {
        Some(Command::Status(args)) => status::run(&context, &args),
        Some(Command::Tools(args)) => tools::run(&context, &args),
        Some(Command::Call(args)) => call::run(&context, &args),
        Some(Command::Logs(args)) => logs::run(&context, &args),
        Some(Command::Restart(args)) => restart::run(&context, &args),
        Some(Command::Stop) => stop::run(&context),
        Some(Command::Socket) => socket::run(&context),
        Some(Command::DemoServer) => demo_server::run(),
        Some(Command::Completions(args)) => completions::run(&context, &args),
        Some(Command::Check(args)) => check::run(&context, &args),
        Some(Command::Demo) => demo::run(&context),
        Some(Command::Serve) | None => serve::run(&context),
    };
    outcome.unwrap_or_else(|failure| {
        context.report(&failure);
        failure.exit
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_names_every_exit_code() {
        let help = Cli::command().render_long_help().to_string();
        for exit in Exit::ALL {
            assert!(
                help.contains(&format!("{:>3}  {}", exit.code(), exit.meaning())),
                "{exit:?} in {help}"
            );
        }
    }
}
