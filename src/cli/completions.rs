//! `hermesd-mcp completions`

use clap::CommandFactory;

use super::{Cli, Exit, Outcome, context::Context};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(super) fn run(context: &Context, args: &Args) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "hermesd-mcp", &mut script);
    context.print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
