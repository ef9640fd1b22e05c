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
  --crash-after N         exits at the Nth tools/call without an answer; started again it counts anew, so that with a
                          client that reconnects every Nth call is lost
  --stderr TEXT           writes TEXT to stderr at the start
  --grandchild            starts a process that outlives a careless stop
  --sleeper               is such a process: sleeps, speaks no MCP
  --marker TEXT           does nothing: to be found in the process list
  --log FILE              appends `# start PID` and then every line that it receives
  --mode A,B              one or more of:
    before and during the handshake:
    exit-at-once          exits before it reads (B07)
    exit-after-init       exits a moment after initialize (B07); --exit-delay 0 is at once
    mute                  reads, never answers: hangs on initialize (B03)
    never-reads           doesn't even read (STDIO-11)
    flood                 answers initialize with an endless line (B16)
    stderr-flood          writes 10 MB to stderr before it answers initialize (STDIO-04)
    stderr-for-ever       writes 1 MB a second to stderr, all the time
    stateless             speaks 2026-07-28 only: refuses initialize, wants to be told in each request (LIFE-08); its tool
                          `rounds` (--tool rounds) wants to be called again so many times
    refuses-once          with stateless: refuses the first server/discover, naming the very version (LIFE-09)
    discover-dies         exits when its first request is not initialize (LIFE-09)
    what it writes:
    banner                prints a banner, an empty line, log lines before each answer (B12)
    invalid-json          writes lines of broken JSON before each answer (STDIO-02)
    garbage               answers every request with lines that aren't messages
    crlf                  ends its lines with CR LF (STDIO-02)
    string-ids            echoes ids as strings (B19)
    stray-ids             sends an answer with id 999999 before each answer (B19)
    result-and-error      answers tools/call with both members (B19)
    wrong-shape           answers tools/call with an `error` that is a string
    lone-surrogate        the text of every echo ends in half an emoji (B17)
    byte-ff               the text of every echo ends in the byte 0xFF (B17)
    its lists:
    bad-schemas           lists the seven schemas of B44 instead of its tools
    broken-tools          lists entries that aren't tools among good ones (TOOL-07)
    no-tools-array        answers tools/list with {}
    same-cursor           every page of a list names the same next cursor (PAGE-02)
    endless-pages         there is always one more page (PAGE-02)
    bad-cursor-once       the first cursor that comes back is answered with -32602; needs --page-size (PAGE-04)
    shuffle               lists its tools in another order at each start (B47)
    list-changed-storm    says 100 times that its tools changed after it has listed them the first time (CACHE-04)
    list-changed-loop     says so after every tools/list; with list-changed-storm 100 times (CACHE-04)
    in a session:
    mute-calls            never answers tools/call
    pings-client          asks its client for a ping after it has listed its tools (PING-01)
    samples-at-idle       asks its client for a sampling then, outside of any call (SAMP-05); the tool `ask` does it inside
    no-ping               answers ping with -32601
    mute-ping             never answers ping (PING-02)
    undeclared-dies       exits when it gets a method whose capability it didn't declare
    its end:
    ignores-eof           lives on after the end of stdin (STDIO-05)
    ignores-term          ignores SIGTERM, and so does its --grandchild (STDIO-05)
    stubborn              both (B04)
    leaky                 closes stdout after tools/list and lives on (B01)

Faults of a single call are tools: die, append, read_only_once, idempotent_once, progress, big, flood, raw_line, ask …
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
