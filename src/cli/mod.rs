//! The command line.

use std::process::ExitCode;

/// Runs the program named on the command line.
pub fn run() -> ExitCode {
    ExitCode::SUCCESS
}
