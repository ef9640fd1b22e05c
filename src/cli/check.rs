//! `hermesd-mcp check`: every finding about a configuration, without starting anything.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    Exit, Failure, Outcome,
    context::Context,
    render::{Cell, Paint, Style, clean, clean_line, count, table},
};
use crate::{
    config::{self, Config, Diagnostic, ServerConfig, ServerEntry, Severity, Stdio, Transport},
    environment::Environment,
    server::{
        HttpClients,
        stdio::{child_environment, known_dirs, resolve_command},
    },
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// What became of a configuration.
struct Report<'a> {
    path: &'a Path,
    servers: Vec<Checked<'a>>,
    findings: Vec<Diagnostic>,
}

/// One server of the configuration.
struct Checked<'a> {
    name: &'a str,
    enabled: bool,
    transport: &'static str,
    /// The program that would be started, if there is one.
    target: Option<String>,
}

pub(super) fn run(context: &Context, args: &Args) -> Outcome {
    let path = config::locate(context.config.as_deref(), &context.environment);
    // The default file may be missing: then there are simply no servers. One that was named must exist.
    if context.config.is_some() && !path.exists() {
        return Err(Failure::new(
            Exit::Config,
            format!("{}: the file does not exist", path.display()),
        )
        .next("name the configuration with --config PATH, or leave it out for the usual one"));
    }
    let config = match config::load(&path, &context.environment) {
        Ok(config) => config,
        Err(error) if args.json => {
            context.print_json(&json!({"path": path, "ok": false, "error": error.to_string()}))?;
            return Ok(Exit::Config);
        }
        Err(error) => return Err(Failure::new(Exit::Config, error.to_string())),
    };
    let report = check(&config, &context.environment);
    if args.json {
        context.print_json(&report.to_json())?;
    } else {
        context.print(&report.render(context.style()))?;
    }
    Ok(match report.count(Severity::Error) {
        0 => Exit::Success,
        _ => Exit::Config,
    })
}

/// Adds to the file's own findings whether every command can be found, as the daemon would look for it.
fn check<'a>(config: &'a Config, environment: &Environment) -> Report<'a> {
    let mut report = Report {
        path: &config.path,
        servers: Vec::new(),
        findings: config.diagnostics.clone(),
    };
    for (name, entry) in &config.servers {
        let checked = match entry {
            ServerEntry::Valid(server) => check_server(server, environment, &mut report.findings),
            ServerEntry::Invalid { .. } => Checked {
                name: name.as_str(),
                enabled: true,
                transport: "unknown",
                target: None,
            },
        };
        report.servers.push(checked);
    }
    report
}

fn check_server<'a>(
    server: &'a ServerConfig,
    environment: &Environment,
    findings: &mut Vec<Diagnostic>,
) -> Checked<'a> {
    let mut add = |severity, key: &str, message| {
        findings.push(Diagnostic {
            severity,
            line: 0,
            column: 0,
            key: format!("mcp_servers.{}.{key}", server.name),
            message,
        });
    };
    let (transport, target) = match &server.transport {
        // The address may hold a secret (a key in the query), so it is not shown.
        Transport::Remote(remote) => {
            if let Err(error) = HttpClients::new(environment.clone()).client(remote, server.connect_timeout) {
                let severity = if server.enabled {
                    Severity::Error
                } else {
                    Severity::Warning
                };
                add(severity, error.key(), error.to_string());
            }
            (if remote.sse { "sse" } else { "http" }, None)
        }
        Transport::Stdio(stdio) => match program(stdio, environment) {
            Ok(program) => ("stdio", Some(program)),
            Err((key, message)) => {
                // One that is switched off hurts nobody yet.
                let severity = if server.enabled {
                    Severity::Error
                } else {
                    Severity::Warning
                };
                add(severity, key, message);
                ("stdio", None)
            }
        },
    };
    Checked {
        name: server.name.as_str(),
        enabled: server.enabled,
        transport,
        target,
    }
}

/// The program of a stdio server, or which key is wrong and why.
fn program(stdio: &Stdio, environment: &Environment) -> Result<String, (&'static str, String)> {
    let cwd = stdio.cwd.clone().unwrap_or_else(|| environment.home_dir());
    if !cwd.is_dir() {
        return Err(("cwd", format!("'{}' is not a folder", cwd.display())));
    }
    let child = child_environment(environment, stdio);
    let path = child.get("PATH").unwrap_or_default();
    match resolve_command(&stdio.command, path, &known_dirs(environment), &cwd) {
        Ok(resolved) => Ok(resolved.program.display().to_string()),
        Err(not_found) => Err(("command", not_found.to_string())),
    }
}

impl Report<'_> {
    fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    }

    /// Findings grouped by what they are about, in the order of the file; then the servers; then the sum.
    fn render(&self, style: Style) -> String {
        let mut groups: Vec<(&str, Vec<&Diagnostic>)> = Vec::new();
        for finding in &self.findings {
            let about = about(&finding.key, &self.servers);
            match groups.iter_mut().find(|(name, _)| *name == about) {
                Some((_, findings)) => findings.push(finding),
                None => groups.push((about, vec![finding])),
            }
        }
        let mut out = String::new();
        for (_, findings) in groups {
            for finding in findings {
                let line = clean_line(&finding.render(self.path));
                let (word, paint) = match finding.severity {
                    Severity::Error => (" error: ", Paint::Bad),
                    Severity::Warning => (" warning: ", Paint::Warn),
                };
                out.push_str(&line.replacen(word, &style.paint(word, paint), 1));
                out.push('\n');
            }
            out.push('\n');
        }
        let rows: Vec<Vec<Cell>> = self
            .servers
            .iter()
            .map(|server| {
                let (mark, paint) = match (server.enabled, self.has_error(server.name)) {
                    (_, true) => ("error", Paint::Bad),
                    (false, _) => ("disabled", Paint::Dim),
                    (true, false) => ("ok", Paint::Good),
                };
                vec![
                    Cell::new(clean_line(server.name), Paint::Bold),
                    Cell::new(mark, paint),
                    Cell::plain(server.transport),
                    Cell::new(clean(server.target.as_deref().unwrap_or_default()), Paint::Dim),
                ]
            })
            .collect();
        out.push_str(&table(&rows, "", style));
        if !rows.is_empty() {
            out.push('\n');
        }
        let (errors, warnings) = (self.count(Severity::Error), self.count(Severity::Warning));
        let verdict = match errors {
            0 => style.good("ok"),
            _ => style.bad("not ok"),
        };
        out.push_str(&format!(
            "{}: {verdict}: {}, {}, {}\n",
            self.path.display(),
            count(self.servers.len(), "server"),
            count(errors, "error"),
            count(warnings, "warning"),
        ));
        out
    }

    fn has_error(&self, server: &str) -> bool {
        self.findings.iter().any(|finding| {
            finding.severity == Severity::Error && about(&finding.key, &self.servers) == server
        })
    }

    fn to_json(&self) -> Value {
        let findings: Vec<Value> = self
            .findings
            .iter()
            .map(|finding| {
                let severity = match finding.severity {
                    Severity::Error => "error",
                    Severity::Warning => "warning",
                };
                json!({
                    "severity": severity, "line": finding.line, "column": finding.column, "key": finding.key,
                    "message": finding.message,
                })
            })
            .collect();
        let servers: Vec<Value> = self
            .servers
            .iter()
            .map(|server| {
                json!({
                    "name": server.name, "enabled": server.enabled, "transport": server.transport,
                    "program": server.target, "ok": !self.has_error(server.name),
                })
            })
            .collect();
        json!({
            "path": self.path,
            "ok": self.count(Severity::Error) == 0,
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
            "diagnostics": findings,
            "servers": servers,
        })
    }
}

/// The server that a key's path is about; empty for the rest of the file. A server's name may have dots itself.
fn about<'a>(key: &str, servers: &[Checked<'a>]) -> &'a str {
    let Some(rest) = key.strip_prefix("mcp_servers.") else {
        return "";
    };
    let is_prefix = |name: &str| {
        rest.strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    servers
        .iter()
        .map(|server| server.name)
        .filter(|name| is_prefix(name))
        .max_by_key(|name| name.len())
        .unwrap_or("")
}
