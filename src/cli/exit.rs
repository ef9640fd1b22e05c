//! The exit codes of the program, in one place: `--help` and the README are checked against it.

use std::process::ExitCode;

/// How the program ended. The numbers are those of `sysexits.h` where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Success = 0,
    /// The tool or the call failed, or the daemon answered with an error.
    Failure = 1,
    /// The command line is wrong: an unknown option, an argument that the tool does not take.
    Usage = 2,
    /// No daemon could be reached (`EX_UNAVAILABLE`).
    Unavailable = 69,
    /// Another daemon already serves this socket (`EX_TEMPFAIL`).
    AlreadyRunning = 75,
    /// The configuration has an error (`EX_CONFIG`).
    Config = 78,
    /// Ctrl-C, as a shell reports it.
    Interrupted = 130,
}

impl Exit {
    /// Every code, in order.
    pub const ALL: [Self; 7] = [
        Self::Success,
        Self::Failure,
        Self::Usage,
        Self::Unavailable,
        Self::AlreadyRunning,
        Self::Config,
        Self::Interrupted,
    ];

    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// What the code means, as `--help` and the README say it.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Success => "done",
            Self::Failure => "the tool or the call failed, or the daemon answered with an error",
            Self::Usage => "wrong command line, or arguments that do not fit the tool",
            Self::Unavailable => "no daemon could be reached",
            Self::AlreadyRunning => "another daemon already serves this socket",
            Self::Config => "the configuration has an error",
            Self::Interrupted => "interrupted with Ctrl-C",
        }
    }

    /// The table of all codes, one a line.
    pub(crate) fn table() -> String {
        let lines: Vec<String> = Self::ALL
            .iter()
            .map(|exit| format!("  {:>3}  {}", exit.code(), exit.meaning()))
            .collect();
        lines.join("\n")
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
