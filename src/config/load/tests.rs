use std::time::Duration;

use super::*;
use crate::config::{Stdio, Transport};

fn read(text: &str) -> Config {
    let environment: Environment = [("HOME", "/home/a"), ("USERPROFILE", "/home/a")]
        .into_iter()
        .collect();
    let variables: Variables = [("TOK", "s3cr3t-value"), ("N", "5")].into_iter().collect();
    parse(text, Path::new("c.yaml"), &variables, &environment).unwrap()
}

fn findings(text: &str) -> Vec<String> {
    read(text)
        .diagnostics
        .iter()
        .map(|finding| finding.render(Path::new("c.yaml")))
        .collect()
}

fn server(text: &str, name: &str) -> ServerConfig {
    match &read(text).servers[name] {
        ServerEntry::Valid(server) => ServerConfig::clone(server),
        ServerEntry::Invalid { error } => panic!("{error}"),
    }
}

fn stdio(text: &str, name: &str) -> Stdio {
    match server(text, name).transport {
        Transport::Stdio(stdio) => stdio,
        Transport::Remote(_) => panic!("not a stdio server"),
    }
}

/// One server of name `x` with these lines.
fn entry(lines: &str) -> String {
    let lines: String = lines.lines().map(|line| format!("    {line}\n")).collect();
    format!("mcp_servers:\n  x:\n{lines}")
}

#[test]
fn a_plain_entry_has_the_documented_defaults() {
    let x = server(&entry("command: npx\nargs: [-y, pkg]"), "x");
    assert_eq!(
        (x.enabled, x.timeout, x.connect_timeout),
        (true, Duration::from_secs(120), Duration::from_secs(60))
    );
    assert_eq!(
        (x.tools, x.parallel_safe, x.max_result_bytes),
        (ToolsPolicy::default(), false, None)
    );
    assert_eq!(
        (x.keepalive_interval, x.idle_timeout, x.max_concurrency),
        (None, None, None)
    );
    assert_eq!(x.max_total_timeout, Duration::from_secs(1800));
    assert_eq!(x.sampling, Sampling::default());
    assert!(findings(&entry("command: npx")).is_empty());
}

#[test]
fn calls_are_limited_where_the_entry_says_so() {
    for (lines, limit) in [
        ("max_concurrency: 3", Some(3)),
        ("supports_parallel_tool_calls: false", Some(1)),
        ("supports_parallel_tool_calls: true", None),
        ("supports_parallel_tool_calls: no\nmax_concurrency: 2", Some(2)),
    ] {
        let x = server(&entry(&format!("command: a\n{lines}")), "x");
        assert_eq!(x.max_concurrency, limit, "{lines}");
    }
    let findings = findings(&entry("command: a\nmax_concurrency: 0"));
    assert_eq!(findings.len(), 1, "{findings:?}");
}

#[test]
fn a_call_may_always_take_as_long_as_its_timeout() {
    let total = |lines: &str| server(&entry(&format!("command: a\n{lines}")), "x").max_total_timeout;
    assert_eq!(total("max_total_timeout: 60"), Duration::from_secs(120));
    assert_eq!(total("timeout: 4000"), Duration::from_secs(4000));
    assert_eq!(
        total("timeout: 10\nmax_total_timeout: 60"),
        Duration::from_secs(60)
    );
}

#[test]
fn a_keepalive_is_at_least_five_seconds() {
    let x = server(&entry("command: a\nkeepalive_interval: 1"), "x");
    assert_eq!(x.keepalive_interval, Some(Duration::from_secs(5)));
}

use crate::config::{Sampling, ToolsPolicy};

#[test]
fn values_are_read_as_leniently_as_hermes_reads_them() {
    let x = stdio(
        &entry(
            "command: '  ~/bin/tool '\nargs: [1, true, '2', 0755, ~/x]\nenv: {PORT: 8080, DEBUG: yes, T: '${TOK}', E:}\ncwd: ~/work\nenv_passthrough: AWS_PROFILE",
        ),
        "x",
    );
    assert_eq!(x.command, "/home/a/bin/tool");
    assert_eq!(x.args, ["1", "true", "2", "0755", "~/x"]);
    let env: Vec<(&str, &str)> = x
        .env
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()))
        .collect();
    assert_eq!(
        env,
        [
            ("PORT", "8080"),
            ("DEBUG", "yes"),
            ("T", "s3cr3t-value"),
            ("E", "")
        ]
    );
    assert_eq!(x.cwd.as_deref(), Some(Path::new("/home/a/work")));
    assert_eq!(x.env_passthrough, ["AWS_PROFILE"]);

    assert_eq!(
        stdio(&entry("command: a\nargs: -y 'two words'"), "x").args,
        ["-y", "two words"]
    );
    assert_eq!(
        stdio(&entry("command: a\nargs: '[\"-y\", 3]'"), "x").args,
        ["-y", "3"]
    );
    assert_eq!(
        stdio(&entry("command: a\nargs:\nenv:"), "x").args,
        Vec::<String>::new()
    );

    let x = server(
        &entry("command: a\ntimeout: '5'\nconnect_timeout: 1.5\nmax_result_bytes: 1000\ntimeout: ${N}"),
        "x",
    );
    assert_eq!(
        (x.timeout, x.connect_timeout),
        (Duration::from_secs(5), Duration::from_millis(1500))
    );
    assert_eq!(x.max_result_bytes, Some(1000));
}

#[test]
fn booleans_follow_hermes_rule() {
    for (written, expected, findings_wanted) in [
        ("true", true, 0),
        ("'Yes'", true, 0),
        ("on", true, 0),
        ("1", true, 0),
        ("false", false, 0),
        ("'false'", false, 0),
        ("0", false, 0),
        ("off", false, 0),
        ("\"no\"", false, 0),
        ("", true, 0),
        ("maybe", true, 1),
        ("[]", true, 1),
    ] {
        let text = entry(&format!("command: a\nenabled: {written}"));
        assert_eq!(server(&text, "x").enabled, expected, "B37: {written}");
        assert_eq!(findings(&text).len(), findings_wanted, "{written}");
    }
}

#[test]
fn filters_are_names_or_lists() {
    let tools = |lines: &str| server(&entry(&format!("command: a\n{lines}")), "x").tools;
    assert_eq!(tools("tools: {include: echo}").include.unwrap(), ["echo"]);
    assert_eq!(tools("tools: [a, b]").include.unwrap(), ["a", "b"]);
    assert_eq!(tools("tools: echo").include.unwrap(), ["echo"]);
    assert_eq!(
        tools("tools: {include: []}").include.unwrap(),
        Vec::<String>::new()
    );
    assert_eq!(tools("tools: {include: 5}").include, None);
    let policy = tools("tools: {exclude: ['a.b'], resources: no, prompts: 'off'}");
    assert_eq!(
        (policy.exclude, policy.resources, policy.prompts),
        (vec!["a.b".to_owned()], false, false)
    );
}

#[test]
fn remote_entries_are_checked_too() {
    let x = server(
        &entry(
            "url: https://u:pw123456@h:1/mcp?key=q123456\nheaders: {Authorization: 'Bearer ${TOK}'}\ntransport: sse\nauth: oauth",
        ),
        "x",
    );
    let Transport::Remote(remote) = &x.transport else {
        panic!()
    };
    assert!(remote.sse);
    for secret in ["pw123456", "q123456", "Bearer s3cr3t-value", "s3cr3t-value"] {
        assert!(x.secrets().contains(&secret), "{secret}: {:?}", x.secrets());
    }
}

#[test]
fn merges_and_anchors_work_in_entries() {
    let text = "base: &b {timeout: 7, command: a}\nmcp_servers:\n  x: {<<: *b, args: [q]}\n  y: {<<: *b, timeout: 9}\n";
    assert_eq!(server(text, "x").timeout, Duration::from_secs(7));
    assert_eq!(server(text, "y").timeout, Duration::from_secs(9));
}

#[test]
fn the_rest_of_the_file_is_not_ours() {
    let text =
        "model: !custom x\ntheme: {a: 1, a: 2}\n? [complex, key]\n: 1\nmcp_servers: {x: {command: a}}\n";
    assert_eq!(findings(text), Vec::<String>::new());
    assert!(read(text).servers["x"].is_valid());
}

impl ServerEntry {
    fn is_valid(&self) -> bool {
        matches!(self, Self::Valid(_))
    }
}

#[test]
fn one_bad_entry_does_not_touch_another() {
    let config = read("mcp_servers:\n  bad: {command: a, url: https://h/}\n  good: {command: a}\n");
    assert!(config.servers["good"].is_valid());
    match &config.servers["bad"] {
        ServerEntry::Invalid { error } => assert_eq!(
            error,
            "c.yaml:2:26: error: mcp_servers.bad.url: the entry has both 'command' and 'url'; remove one of them"
        ),
        ServerEntry::Valid(_) => panic!(),
    }
}

#[test]
fn mistakes_have_a_place_a_key_a_reason_and_what_to_do() {
    let mut wrong = Vec::new();
    for (text, expected) in [
        (
            "",
            "c.yaml: warning: No MCP servers configured: add them under the key 'mcp_servers', each with a name and a 'command' or a 'url'",
        ),
        (
            "mcpServers:\n  x: {command: a}\n",
            "c.yaml:1:1: warning: mcpServers: servers are read from 'mcp_servers'; rename this key",
        ),
        (
            "mcp_servers: [a]\n",
            "c.yaml:1:14: error: mcp_servers: expected a mapping, found a list",
        ),
        (
            "just text\n",
            "c.yaml:1:1: error: the file holds text and not keys with values",
        ),
        (
            "mcp_servers:\n  x:\n",
            "c.yaml:2:3: error: mcp_servers.x: the entry is empty; it needs a 'command' or a 'url'",
        ),
        (
            "mcp_servers:\n  x: npx\n",
            "c.yaml:2:6: error: mcp_servers.x: expected a mapping, found text",
        ),
        (
            "mcp_servers:\n  off: {command: a}\n",
            "c.yaml:2:3: warning: mcp_servers.off: the name is a boolean in YAML and is taken as it is written; put it in quotes",
        ),
        (
            "mcp_servers:\n  x: {command: a}\n  x: {command: b}\n",
            "c.yaml:3:3: warning: mcp_servers: the key 'x' is there twice (first on line 2); the last one counts",
        ),
        (
            &entry("timeout: 5"),
            "c.yaml:3:5: error: mcp_servers.x: the entry has neither 'command' (a program to start) nor 'url' (a remote server)",
        ),
        (
            &entry("command: [npx, -y]"),
            "c.yaml:3:14: error: mcp_servers.x.command: expected text, found a list; write the program here and the rest under 'args'",
        ),
        (
            &entry("command: npx -y pkg"),
            "c.yaml:3:14: warning: mcp_servers.x.command: the command has spaces in it and is not split; write the program here and the rest under 'args'",
        ),
        (
            &entry("command: ''"),
            "c.yaml:3:14: error: mcp_servers.x.command: the command is empty",
        ),
        (
            &entry("command: a\ntimeout: 30s"),
            "c.yaml:4:14: error: mcp_servers.x.timeout: expected a number of seconds, found text; write 30 without a unit",
        ),
        (
            &entry("command: a\ntimeout: 0"),
            "c.yaml:4:14: error: mcp_servers.x.timeout: expected more than 0 in seconds",
        ),
        (
            &entry("command: a\ntimeout: .inf"),
            "c.yaml:4:14: error: mcp_servers.x.timeout: expected at most a year in seconds",
        ),
        (
            &entry("command: a\ntimeout: [1]"),
            "c.yaml:4:14: error: mcp_servers.x.timeout: expected a number of seconds, found a list",
        ),
        (
            &entry("command: a\ntimeot: 5"),
            "c.yaml:4:5: warning: mcp_servers.x.timeot: unknown key, it has no effect; did you mean 'timeout'?",
        ),
        (
            &entry("command: a\ndisabled: true"),
            "c.yaml:4:5: warning: mcp_servers.x.disabled: unknown key, it has no effect; write 'enabled: false'",
        ),
        (
            &entry("command: a\nargs: [b, {c: d}]"),
            "c.yaml:4:15: error: mcp_servers.x.args[1]: expected text, found a mapping",
        ),
        (
            &entry("command: a\nargs: {b: c}"),
            "c.yaml:4:11: error: mcp_servers.x.args: expected a list, found a mapping",
        ),
        (
            &entry("command: a\nargs: \"it's\""),
            "c.yaml:4:11: error: mcp_servers.x.args: the text has a quote without its end; write a YAML list",
        ),
        (
            &entry("command: a\nenv: [A=b]"),
            "c.yaml:4:10: error: mcp_servers.x.env: expected a mapping, found a list",
        ),
        (
            &entry("command: a\nenv: {A: [s3cret]}"),
            "c.yaml:4:14: error: mcp_servers.x.env.A: expected text, found a list",
        ),
        (
            &entry("command: a\nenv: {A: '${NOPE}'}"),
            "c.yaml:4:14: warning: mcp_servers.x.env.A: the variable 'NOPE' is not set, neither in .env nor in the environment; the placeholder stays as it is",
        ),
        (
            &entry("command: a\ntools: {include: []}"),
            "c.yaml:4:22: warning: mcp_servers.x.tools.include: an empty list offers none of the server's tools; remove the key to offer all",
        ),
        (
            &entry("command: a\ntools: {include: 5}"),
            "c.yaml:4:22: warning: mcp_servers.x.tools.include: expected text or a list of texts, found a number; it is ignored",
        ),
        (
            &entry("command: a\nprotocol: newest"),
            "c.yaml:4:15: warning: mcp_servers.x.protocol: expected one of: auto, stateless, legacy; the default counts",
        ),
        (
            &entry("command: a\nheaders: {A: b}"),
            "c.yaml:4:5: warning: mcp_servers.x.headers: it has no effect on a server with a 'command'",
        ),
        (
            &entry("url: example.com/mcp?key=s3cret"),
            "c.yaml:3:10: error: mcp_servers.x.url: the address has no scheme; it must be http or https; write it like https://host/mcp",
        ),
        (
            &entry("url: ftp://h/"),
            "c.yaml:3:10: error: mcp_servers.x.url: the scheme of the address must be http or https; write it like https://host/mcp",
        ),
        (
            &entry("url: https:///mcp"),
            "c.yaml:3:10: error: mcp_servers.x.url: the address has no host; write it like https://host/mcp",
        ),
        (
            &entry("command: !vault x"),
            "c.yaml:3:14: error: mcp_servers.x.command: expected text, found a value with the unknown tag '!vault'",
        ),
        (
            "mcp_servers: {x: {command: a}}\nhermesd: {tool_name_format: 'x'}\n",
            "c.yaml:2:29: error: hermesd.tool_name_format: expected a text with {server} and {tool} once each; the default is mcp_{server}_{tool}",
        ),
        (
            "mcp_servers: {x: {command: a}}\nhermesd: {tool_name_format: '{server}.{tool}'}\n",
            "c.yaml:2:29: error: hermesd.tool_name_format: only letters, digits and '_' may stand beside {server} and {tool}; the default is mcp_{server}_{tool}",
        ),
        (
            "mcp_servers: {x: {command: a}}\nhermesd: {limits: {connections: 0}}\n",
            "c.yaml:2:33: error: hermesd.limits.connections: expected a whole number of connections, at least 1",
        ),
        (
            "mcp_servers: {x: {command: a}}\nhermesd: {limit: 0}\n",
            "c.yaml:2:11: warning: hermesd.limit: unknown key, it has no effect; did you mean 'limits'?",
        ),
    ] {
        let got = findings(text);
        if got.first().map(String::as_str) != Some(expected) {
            wrong.push(format!("want {expected}\n got {got:#?}"));
        }
        assert!(!got.iter().any(|line| line.contains("s3cret")), "{got:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_no_yaml_has_a_place_and_help() {
    let environment = Environment::default();
    for (text, expected) in [
        ("mcp_servers:\n\tx: 1\n", "c.yaml:2:2: not valid YAML: "),
        ("a: [1\n", "c.yaml:"),
    ] {
        let error = parse(text, Path::new("c.yaml"), &Variables::default(), &environment)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(
            error.contains("indented with a tab"),
            text.contains('\t'),
            "{error}"
        );
    }
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let environment: Environment = [("HOME", dir.path().to_str().unwrap())].into_iter().collect();
    let missing = load(&dir.path().join("config.yaml"), &environment).unwrap();
    assert!(
        missing.diagnostics[0]
            .message
            .starts_with("No MCP servers configured: the file does not exist")
    );
    let error = load(dir.path(), &environment).unwrap_err().to_string();
    assert!(
        error.ends_with("the configuration cannot be read: it is a folder; name the file in it"),
        "{error}"
    );
    let path = dir.path().join("bad.yaml");
    std::fs::write(&path, b"a: \xff\n").unwrap();
    assert!(
        load(&path, &environment)
            .unwrap_err()
            .to_string()
            .ends_with("it is not UTF-8, at byte 3")
    );
    std::fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
    assert!(
        load(&path, &environment)
            .unwrap_err()
            .to_string()
            .contains("more than 1048576 bytes")
    );
}

#[test]
fn safe_mode_starts_nothing() {
    let environment: Environment = [("HERMES_SAFE_MODE", "1")].into_iter().collect();
    let config = parse(
        "mcp_servers: {x: {command: a}}",
        Path::new("c"),
        &Variables::default(),
        &environment,
    )
    .unwrap();
    assert!(config.servers.is_empty());
    assert!(config.diagnostics[0].message.contains("HERMES_SAFE_MODE"));
}

#[test]
fn the_files_place_follows_the_environment() {
    let environment: Environment = [("HOME", "/home/a"), ("USERPROFILE", "/home/a")]
        .into_iter()
        .collect();
    assert_eq!(
        locate(None, &environment),
        Path::new("/home/a/.hermes/config.yaml")
    );
    assert_eq!(
        locate(Some(Path::new("/x.yaml")), &environment),
        Path::new("/x.yaml")
    );
}

/// The example loads as it is, and with every commented key switched on.
#[test]
fn the_example_is_right() {
    let example = include_str!("../../../config.example.yaml");
    assert_eq!(findings(example), Vec::<String>::new());
    let everything: String = example
        .lines()
        .map(|line| match line.trim_start().strip_prefix("#~ ") {
            Some(rest) => format!("{}{rest}\n", &line[..line.len() - line.trim_start().len()]),
            None => format!("{line}\n"),
        })
        .collect();
    assert_ne!(everything, format!("{example}\n"));
    // Variables and files of the reader's own.
    let is_ours = |line: &String| {
        !["is not set, neither in .env", "there is no file"]
            .iter()
            .any(|known| line.contains(known))
    };
    let left: Vec<String> = findings(&everything).into_iter().filter(is_ours).collect();
    assert_eq!(left, Vec::<String>::new(), "{everything}");
    assert!(read(&everything).servers.len() > read(example).servers.len());
}
