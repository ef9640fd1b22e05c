//! `hermes/status` for people: one line a server, then every problem with its cause and the next step.

use serde_json::Value;

use super::{Cell, Paint, Style, clean, clean_line, count, duration, items, quote, table, text};

/// Lines of a server's stderr that are shown beside its failure.
const STDERR_LINES: usize = 5;

/// Renders the answer to `hermes/status`. `now` is in seconds since the epoch, for "how long".
pub(crate) fn render_status(status: &Value, now: f64, style: Style) -> String {
    let servers = items(status, "servers");
    let mut out = String::new();
    let tools: u64 = servers.iter().filter_map(|server| server["tools"].as_u64()).sum();
    let connected = servers
        .iter()
        .filter(|server| server["connected"] == true)
        .count();
    out.push_str(&format!(
        "{}  {} of {} connected, {}, up {}\n",
        style.bold("hermesd-mcp"),
        connected,
        count(servers.len(), "server"),
        count(usize::try_from(tools).unwrap_or(usize::MAX), "tool"),
        duration(status["uptime_s"].as_f64().unwrap_or_default() as u64),
    ));
    let path = clean_line(text(&status["config"], "path"));
    if !path.is_empty() {
        out.push_str(&format!("{}  {path}\n", style.dim("config")));
    }
    out.push_str(&config_findings(&status["config"], style));
    for warning in items(status, "warnings").iter().filter_map(Value::as_str) {
        out.push_str(&format!("{} {}\n", style.warn("warning:"), clean_line(warning)));
    }
    out.push('\n');
    if servers.is_empty() {
        out.push_str(&no_servers(&path, style));
        return out;
    }
    out.push_str(&server_table(servers, now, style));
    for server in servers {
        out.push_str(&problem(server, style));
    }
    out
}

/// What the daemon found wrong with its configuration: finished lines with file, line and column.
fn config_findings(config: &Value, style: Style) -> String {
    let diagnostics: Vec<&str> = items(config, "diagnostics")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let mut out = String::new();
    if let Some(error) = config["error"]
        .as_str()
        .filter(|error| !diagnostics.contains(error))
    {
        out.push_str(&format!("{} {}\n", style.bad("error:"), clean_line(error)));
    }
    for finding in diagnostics {
        out.push_str(&format!("{}\n", clean_line(finding)));
    }
    if !out.is_empty() {
        let next = style.dim("next:");
        out.push_str(&format!(
            "{next} correct the file, `hermesd-mcp check` it, then start the daemon again\n"
        ));
    }
    out
}

fn no_servers(config: &str, style: Style) -> String {
    let place = if config.is_empty() {
        "the configuration"
    } else {
        config
    };
    format!(
        "{}\n\nAdd one to {place}, for example the one that is built in:\n\n  \
         mcp_servers:\n    demo:\n      command: hermesd-mcp\n      args: [demo-server]\n\n\
         {} check it with `hermesd-mcp check`, then `hermesd-mcp stop` and `hermesd-mcp serve`\n",
        style.bold("No MCP servers configured"),
        style.dim("next:"),
    )
}

fn server_table(servers: &[Value], now: f64, style: Style) -> String {
    let header = ["SERVER", "STATE", "FOR", "TOOLS", "CALLS", "ERRORS", "PROGRAM"];
    let mut rows = vec![
        header
            .map(|title| Cell::new(title, Paint::Dim))
            .into_iter()
            .collect::<Vec<_>>(),
    ];
    for server in servers {
        let state = state(server);
        // A clock that was set back must not give a negative age; the cast stops at 0.
        let since = server["since"].as_f64().map(|since| (now - since) as u64);
        rows.push(vec![
            Cell::new(clean_line(text(server, "name")), Paint::Bold),
            Cell::new(clean_line(state), paint(state)),
            Cell::plain(since.map(duration).unwrap_or_default()),
            Cell::number(server["tools"].as_u64().unwrap_or(0)),
            Cell::number(server["calls"].as_u64().unwrap_or(0)),
            Cell::number(server["errors"].as_u64().unwrap_or(0)),
            Cell::new(program(server), Paint::Dim),
        ]);
    }
    table(&rows, "", style)
}

/// What the server calls itself, and how it is reached: `time 1.26.0 (stdio, pid 4711)`.
fn program(server: &Value) -> String {
    let info = &server["server_info"];
    let mut how = vec![text(server, "transport").to_owned()];
    if let Some(pid) = server["pid"].as_u64() {
        how.push(format!("pid {pid}"));
    }
    if let Some(reconnects) = server["reconnects"].as_u64().filter(|n| *n > 0) {
        how.push(format!("{reconnects} reconnects").replace("1 reconnects", "1 reconnect"));
    }
    how.retain(|part| !part.is_empty());
    clean_line(&format!(
        "{} {} ({})",
        text(info, "name"),
        text(info, "version"),
        how.join(", ")
    ))
}

/// The state; an answer without one has at least Hermes' `status`.
fn state(server: &Value) -> &str {
    match text(server, "state") {
        "" => text(server, "status"),
        state => state,
    }
}

fn paint(state: &str) -> Paint {
    match state {
        "connected" => Paint::Good,
        "connecting" | "backoff" => Paint::Warn,
        "failed" | "parked" | "auth_required" => Paint::Bad,
        _ => Paint::Dim,
    }
}

/// Why a server is down and what to do; nothing for one that is well or was switched off.
fn problem(server: &Value, style: Style) -> String {
    let state = state(server);
    if let Some(left) = server["circuit"]["retry_in_s"].as_u64() {
        let name = clean_line(text(server, "name"));
        return format!(
            "\n{}: its calls failed one after the other; none is made for {}\n  {} `hermesd-mcp restart {}` tries at once\n",
            style.warn(&format!("{name} is left alone")),
            duration(left),
            style.dim("next:"),
            quote(text(server, "name")),
        );
    }
    if matches!(paint(state), Paint::Good | Paint::Dim) {
        return String::new();
    }
    let cause = [text(server, "error"), text(server, "reason")]
        .into_iter()
        .find(|cause| !cause.is_empty())
        .unwrap_or_default();
    if cause.is_empty() && state == "connecting" {
        return String::new();
    }
    let name = text(server, "name");
    let being = match state {
        "backoff" => "waiting to reconnect",
        "auth_required" => "not authorized",
        state => state,
    };
    let head = format!("{} is {being}", clean_line(name));
    let mut out = format!("\n{}", style.paint(&head, paint(state)));
    let mut lines = cause.lines().map(clean).filter(|line| !line.trim().is_empty());
    if let Some(first) = lines.next() {
        out.push_str(&format!(": {first}"));
    }
    out.push('\n');
    for line in lines {
        out.push_str(&format!("  {line}\n"));
    }
    let stderr = items(server, "stderr_tail");
    let last = &stderr[stderr.len().saturating_sub(STDERR_LINES)..];
    for line in last.iter().filter_map(Value::as_str) {
        out.push_str(&format!("  {} {}\n", style.dim("stderr |"), clean(line)));
    }
    let next = style.dim("next:");
    if server["since"].is_null() {
        // It was never tried: its entry is wrong.
        out.push_str(&format!(
            "  {next} correct the entry, `hermesd-mcp check` it, then start the daemon again\n"
        ));
        return out;
    }
    let name = quote(name);
    if !last.is_empty() {
        out.push_str(&format!(
            "  {next} `hermesd-mcp logs {name}` shows all it wrote\n"
        ));
    }
    let restart = match state {
        "connecting" => return out,
        "backoff" => "tries at once",
        _ => "tries again when the cause is gone",
    };
    out.push_str(&format!("  {next} `hermesd-mcp restart {name}` {restart}\n"));
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: f64 = 1_700_000_000.4;

    fn server(name: &str, state: &str, more: Value) -> Value {
        let mut server = json!({
            "name": name, "transport": "stdio", "tools": 0, "connected": state == "connected",
            "disabled": state == "disabled", "status": state, "state": state, "since": NOW - 65.0,
            "reconnects": 0, "calls": 0, "errors": 0,
        });
        for (key, value) in more.as_object().unwrap() {
            server[key] = value.clone();
        }
        server
    }

    fn render(servers: Vec<Value>) -> String {
        let status = json!({
            "generation": 3, "uptime_s": 7_620, "servers": servers,
            "config": {"path": "/home/a/.hermes/config.yaml", "loaded_at": NOW - 7_620.0},
        });
        render_status(&status, NOW, Style::PLAIN)
    }

    #[test]
    fn healthy() {
        let text = render(vec![
            server(
                "filesystem",
                "connected",
                json!({
                    "tools": 14, "calls": 1_205, "errors": 3, "pid": 4711,
                    "server_info": {"name": "secure-filesystem-server", "version": "0.2.0"},
                }),
            ),
            server(
                "time",
                "connected",
                json!({"tools": 2, "pid": 4712, "reconnects": 1}),
            ),
            server("old", "disabled", json!({})),
        ]);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn empty_says_where_to_add_a_server() {
        insta::assert_snapshot!(render(vec![]));
    }

    #[test]
    fn failed_shows_cause_last_words_and_next_step() {
        let text = render(vec![
            server(
                "crash",
                "failed",
                json!({
                    "error": "Failed to connect to MCP server 'crash': exited with code 1",
                    "reason": "exited with code 1",
                    "stderr_tail": ["a", "b", "c", "Traceback", "\u{1b}[31mModuleNotFoundError: yaml", "bye"],
                }),
            ),
            server("time", "connected", json!({"tools": 2})),
        ]);
        assert!(!text.contains('\u{1b}'), "S-11: {text:?}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn parked_backoff_and_a_wrong_entry() {
        let text = render(vec![
            server(
                "flaky",
                "backoff",
                json!({"reason": "connection closed", "reconnects": 2, "stderr_tail": ["bye"]}),
            ),
            server("my files", "parked", json!({"reason": "5 reconnects failed"})),
            server("slow", "connecting", json!({})),
            server(
                "both",
                "failed",
                json!({"since": null, "error": "config.yaml:3:5: error: mcp_servers.both.url: no"}),
            ),
        ]);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn an_open_circuit_and_a_recycled_server() {
        let circuit = json!({"state": "open", "retry_in_s": 42});
        let text = render(vec![
            server("flaky", "connected", json!({"circuit": circuit, "tools": 3})),
            server(
                "rare",
                "recycled",
                json!({"reason": "unused for 60 s (idle_timeout_seconds)", "tools": 1}),
            ),
        ]);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn long_names_and_wide_characters_stay_aligned_and_whole() {
        let text = render(vec![
            server(
                "a-server-with-a-name-that-someone-thought-about-for-too-long",
                "connected",
                json!({}),
            ),
            server("日本語サーバー", "connected", json!({"tools": 12})),
            server("x", "auth_required", json!({"reason": "no token"})),
        ]);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_broken_configuration_is_named_first() {
        let status = json!({
            "generation": 3, "uptime_s": 5, "servers": [server("time", "connected", json!({"tools": 2}))],
            "warnings": ["mcp_a_b: name taken by another server"],
            "config": {
                "path": "/home/a/.hermes/config.yaml",
                "error": "/home/a/.hermes/config.yaml:3:5: error: mcp_servers.x: neither command nor url",
                "diagnostics": [
                    "/home/a/.hermes/config.yaml:3:5: error: mcp_servers.x: neither command nor url",
                    "/home/a/.hermes/config.yaml:9:1: warning: hermesd.sokcet: unknown key",
                ],
            },
        });
        insta::assert_snapshot!(render_status(&status, NOW, Style::PLAIN));
    }

    #[test]
    fn any_json_is_survived() {
        for status in [
            json!(null),
            json!([]),
            json!({"servers": [null, 1, {"state": 5}, {"state": "failed"}]}),
        ] {
            assert!(render_status(&status, NOW, Style::COLORED).contains("hermesd-mcp"));
        }
    }
}
