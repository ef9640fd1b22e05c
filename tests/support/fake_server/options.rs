//! The flags.

use std::{collections::BTreeSet, path::PathBuf};

const HELP: &str = "\
fake-server [FLAGS]

  --name NAME             serverInfo.name (default fake)
  --tools N               N further tools tool_000, tool_001, … with realistic schemas
  --no-default-tools      leaves out echo, add, slow, …
  --tool NAME             one further tool of that name that echoes (repeatable)
  --capabilities A,B      declares resources, prompts, logging, completions beside tools
  --page-size N           answers lists in pages of N
  --protocol VERSION      answers initialize with this version instead of the one asked for
  --initialize-delay MS   waits before it answers initialize
  --list-delay MS         waits before it answers tools/list
  --call-delay MS         waits before it answers tools/call
  --exit-code N           for the modes that exit (default 1)
  --exit-delay MS         for exit-after-init (default 100)
  --crash-after N         exits at the Nth tools/call without an answer
  --stderr TEXT           writes TEXT to stderr at the start
  --grandchild            starts a process that outlives a careless stop
  --sleeper               is such a process: sleeps, speaks no MCP
  --marker TEXT           does nothing: to be found in the process list
  --log FILE              appends `# start PID` and then every line that it receives
  --mode A,B              one or more of:
    banner            prints a banner, an empty line, log lines before each answer (B12)
    mute              reads, never answers (B03)
    never-reads       doesn't even read
    exit-at-once      exits before it reads (B07)
    exit-after-init   exits a moment after initialize (B07)
    garbage           answers every request with lines that aren't messages
    wrong-shape       answers tools/call with an `error` that is a string
    flood             answers initialize with an endless line (B16)
    stderr-flood      writes 10 MB to stderr before it answers initialize
    string-ids        echoes ids as strings (B19)
    stray-ids         sends an answer with id 999999 before each answer (B19)
    result-and-error  answers tools/call with both members (B19)
    stubborn          ignores the end of stdin and SIGTERM (B04)
    leaky             closes stdout after tools/list and lives on (B01)
    bad-schemas       lists the seven schemas of B44 instead of its tools
    broken-tools      lists entries that aren't tools among good ones (TOOL-07)
    no-tools-array    answers tools/list with {}
    same-cursor       every page of a list names the same next cursor
    endless-pages     there is always one more page
    undeclared-dies   exits when it gets a method whose capability it didn't declare
    shuffle           lists its tools in another order at each start (B47)
";

/// What the command line asked for.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: String,
    pub(crate) generated_tools: usize,
    pub(crate) default_tools: bool,
    pub(crate) extra_tools: Vec<String>,
    pub(crate) capabilities: BTreeSet<String>,
    pub(crate) page_size: Option<usize>,
    pub(crate) protocol: Option<String>,
    pub(crate) initialize_delay_ms: u64,
    pub(crate) list_delay_ms: u64,
    pub(crate) call_delay_ms: u64,
    pub(crate) exit_code: i32,
    pub(crate) exit_delay_ms: u64,
    pub(crate) crash_after: Option<u64>,
    pub(crate) stderr: Option<String>,
    pub(crate) grandchild: bool,
    pub(crate) sleeper: bool,
    pub(crate) marker: String,
    pub(crate) log: Option<PathBuf>,
    modes: BTreeSet<String>,
}

impl Options {
    /// Reads the arguments after the program's name; the error is the text to print.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            name: "fake".into(),
            default_tools: true,
            exit_code: 1,
            exit_delay_ms: 100,
            ..Self::default()
        };
        while let Some(flag) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{flag} needs a value"));
            match flag.as_str() {
                "--name" => options.name = value()?,
                "--tools" => options.generated_tools = number(&flag, &value()?)?,
                "--no-default-tools" => options.default_tools = false,
                "--tool" => options.extra_tools.push(value()?),
                "--capabilities" => options.capabilities.extend(words(&value()?)),
                "--page-size" => options.page_size = Some(number(&flag, &value()?)?),
                "--protocol" => options.protocol = Some(value()?),
                "--initialize-delay" => options.initialize_delay_ms = number(&flag, &value()?)?,
                "--list-delay" => options.list_delay_ms = number(&flag, &value()?)?,
                "--call-delay" => options.call_delay_ms = number(&flag, &value()?)?,
                "--exit-code" => options.exit_code = number(&flag, &value()?)?,
                "--exit-delay" => options.exit_delay_ms = number(&flag, &value()?)?,
                "--crash-after" => options.crash_after = Some(number(&flag, &value()?)?),
                "--stderr" => options.stderr = Some(value()?),
                "--grandchild" => options.grandchild = true,
                "--sleeper" => options.sleeper = true,
                "--marker" => options.marker = value()?,
                "--log" => options.log = Some(value()?.into()),
                "--mode" => options.modes.extend(words(&value()?)),
                "--help" => return Err(HELP.into()),
                _ => return Err(format!("unknown flag {flag}\n\n{HELP}")),
            }
        }
        for mode in &options.modes {
            if !HELP.lines().any(|line| line.starts_with(&format!("    {mode} "))) {
                return Err(format!("unknown mode {mode}\n\n{HELP}"));
            }
        }
        Ok(options)
    }

    /// Whether a mode was asked for.
    pub(crate) fn mode(&self, mode: &str) -> bool {
        self.modes.contains(mode)
    }
}

fn words(list: &str) -> impl Iterator<Item = String> {
    list.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
}

fn number<T: std::str::FromStr>(flag: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{flag} needs a number, not {text:?}"))
}
