//! `hermesd-mcp demo`: the whole path once, with nothing installed. Each step is shown as the command that a user
//! would type, and runs as that command's own code would: over the socket.

mod home;

use std::{
    io::Write,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};

use self::home::Home;
use super::{
    Exit, Failure, Outcome,
    call::progress_text,
    context::Context,
    interrupt,
    render::{Style, clean, items, status::render_status, text, tools::render_tools},
};
use crate::client::{Client, ClientError};

/// How long the daemon may take until its server is connected.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How long between two looks at a daemon that is starting.
const POLL: Duration = Duration::from_millis(10);

pub(super) fn run(context: &Context) -> Outcome {
    let started = Instant::now();
    let home = Home::create().map_err(Failure::from)?;
    let mut daemon = Daemon::start(&home).map_err(Failure::from)?;
    let demo = Demo {
        context,
        style: context.style(),
    };
    match demo.show(&home, &mut daemon) {
        Ok(()) => {
            let seconds = started.elapsed().as_secs_f32();
            demo.say(&format!(
                "{} in {seconds:.1} s; nothing is left behind.\n\nYour own servers: put them under `mcp_servers` in \
                 {} and run `hermesd-mcp serve`\n",
                demo.style.good("Done"),
                crate::config::locate(context.config.as_deref(), &context.environment).display(),
            ))?;
            Ok(Exit::Success)
        }
        Err(error) => {
            if let Some(ClientError::Interrupted) = error.downcast_ref() {
                return Err(Failure::new(
                    Exit::Interrupted,
                    "interrupted; the demo's daemon is stopped",
                ));
            }
            let mut failure = Failure::new(Exit::Failure, format!("the demo failed: {error:#}"));
            failure.details = home.log_tail();
            Err(failure.next("please report this with the lines above"))
        }
    }
}

/// The demo's own daemon, a child of ours. However the demo ends, it is stopped.
struct Daemon(Child);

impl Daemon {
    fn start(home: &Home) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let child = Command::new(program)
            .arg("serve")
            .arg("--config")
            .arg(home.config())
            .arg("--socket")
            .arg(home.socket())
            .env("HERMES_HOME", home.dir())
            .env_remove("HERMESD_MCP_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(home.log()?)
            .spawn()
            .context("cannot start the daemon")?;
        Ok(Self(child))
    }

    /// Connects as soon as the daemon listens.
    fn connect(&mut self, home: &Home) -> anyhow::Result<Client> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            match Client::connect(home.socket(), ANSWER_LIMIT) {
                Ok(client) => return Ok(client),
                Err(ClientError::NoSocket { .. } | ClientError::Stale { .. })
                    if Instant::now() < deadline => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(status) = self.0.try_wait()? {
                bail!("the daemon ended at once ({status})");
            }
            thread::sleep(POLL);
        }
    }

    fn wait(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                bail!("the daemon did not stop within {} s", limit.as_secs());
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Only a demo that failed comes here with a daemon that runs; the daemon's own helper ends its server.
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// The steps and how they are shown.
struct Demo<'a> {
    context: &'a Context,
    style: Style,
}

impl Demo<'_> {
    fn show(&self, home: &Home, daemon: &mut Daemon) -> anyhow::Result<()> {
        self.say(&format!(
            "A daemon in a temporary home, with one MCP server that is built in. Its configuration:\n\n{}\n",
            indented(&home.config_text()?)
        ))?;
        self.command("serve &")?;
        let mut client = daemon.connect(home)?;
        let interrupter = client.interrupter();
        interrupt::on_ctrl_c(move || interrupter.interrupt());
        self.await_server(&mut client)?;
        self.say("the daemon listens, its server is connected\n\n")?;

        self.command("tools")?;
        let tools = client.request("hermes/tools", &json!({}), ANSWER_LIMIT)?;
        if items(&tools, "tools").is_empty() {
            bail!("the daemon lists no tools");
        }
        self.say(&render_tools(&tools, None, self.style))?;
        self.say("\n")?;

        self.call(
            &mut client,
            &tools,
            "time",
            json!({"timezone": "+02:00"}),
            |result| result.contains("+02:00"),
        )?;
        let greeting = "hello from one daemon";
        self.call(&mut client, &tools, "echo", json!({"text": greeting}), |result| {
            result == greeting
        })?;
        self.call(
            &mut client,
            &tools,
            "slow",
            json!({"seconds": 0.6, "steps": 3}),
            |result| result.contains("done"),
        )?;

        self.command("status")?;
        let status = client.request("hermes/status", &json!({}), ANSWER_LIMIT)?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs_f64();
        self.say(&render_status(&status, now, self.style))?;
        self.say("\n")?;

        self.command("stop")?;
        client.request("hermes/shutdown", &json!({}), ANSWER_LIMIT)?;
        drop(client);
        let status = daemon.wait(ANSWER_LIMIT)?;
        if !status.success() {
            bail!("the daemon stopped with {status}");
        }
        self.say("stopped\n\n")
    }

    /// Waits until the demo's one server is connected.
    fn await_server(&self, client: &mut Client) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let status = client.request("hermes/status", &json!({}), ANSWER_LIMIT)?;
            let server = items(&status, "servers")
                .first()
                .ok_or_else(|| anyhow!("the daemon knows no server"))?;
            match text(server, "state") {
                "connected" => return Ok(()),
                "failed" | "parked" => bail!("{}", clean(text(server, "error"))),
                state if Instant::now() >= deadline => bail!("the server is still {}", clean(state)),
                _ => thread::sleep(POLL),
            }
        }
    }

    /// Calls one tool by its original name and checks the result, so that a demo that ends well has shown something.
    fn call(
        &self,
        client: &mut Client,
        tools: &Value,
        tool: &str,
        arguments: Value,
        is_right: impl Fn(&str) -> bool,
    ) -> anyhow::Result<()> {
        let listed = items(tools, "tools")
            .iter()
            .find(|listed| text(listed, "tool") == tool);
        let name = listed
            .map(|listed| text(listed, "name"))
            .ok_or_else(|| anyhow!("no tool '{tool}' is listed"))?;
        let words: Vec<String> = arguments
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                format!("{key}={}", shell_words::quote(&value))
            })
            .collect();
        self.command(&format!("call {name} {}", words.join(" ")))?;
        let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": tool}});
        let mut shown = Ok(());
        let raw = client.request_with("hermes/call", &params, Some(ANSWER_LIMIT), &mut |notification| {
            if shown.is_ok() && notification.method == "notifications/progress" {
                shown = self.say(&format!(
                    "{}\n",
                    self.style.dim(&progress_text(&notification.params))
                ));
            }
        })?;
        shown?;
        let answer: Value = serde_json::from_str(raw.get())?;
        let result = answer["result"]
            .as_str()
            .ok_or_else(|| anyhow!("{name} failed: {}", raw.get()))?;
        if !is_right(result) {
            bail!("{name} gave '{}'", clean(result));
        }
        self.say(&format!("{}\n\n", clean(result)))
    }

    fn command(&self, command: &str) -> anyhow::Result<()> {
        self.say(&format!(
            "{} {}\n",
            self.style.dim("$"),
            self.style.bold(&format!("hermesd-mcp {command}"))
        ))
    }

    fn say(&self, text: &str) -> anyhow::Result<()> {
        self.context
            .print(text)
            .map_err(|failure| anyhow!(failure.message))?;
        Ok(std::io::stdout().flush()?)
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}
