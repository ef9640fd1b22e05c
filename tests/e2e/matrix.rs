//! The matrix of sick servers: in one daemon with each of them a healthy one always answers, the list is there at
//! once, and the sick one ends in the state and with the error that its fault deserves (LIFE-14, B58).
//!
//! One module per kind of fault. `fake-server --help` explains the modes.

mod calls;
mod ends;
mod noise;
mod progress;
mod starts;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Builder, Daemon, Frontend};

/// How long a healthy server and the list may take: far below the time-outs that a sick server could make them wait
/// for, far above what a busy machine needs.
const AT_ONCE: Duration = Duration::from_secs(5);
/// Until a server that never works is parked: its attempts, the pauses between them, the stop ladder after each.
const UNTIL_PARKED: Duration = Duration::from_secs(120);

/// A daemon with the healthy server `ok` and sick ones beside it.
struct Ward {
    daemon: Daemon,
    frontend: Frontend,
}

impl Ward {
    /// Adds the healthy server, starts, and waits for that one only.
    #[track_caller]
    fn of(builder: Builder) -> Self {
        let daemon = builder.fake("ok", &[]).start();
        daemon.wait_state("ok", "connected");
        let mut ward = Self {
            frontend: daemon.frontend(),
            daemon,
        };
        ward.check_healthy();
        ward
    }

    /// The healthy server answers, and so does the list.
    #[track_caller]
    fn check_healthy(&mut self) {
        let text = format!("at {:?}", Instant::now());
        self.frontend.send(
            "ok",
            "tools/call",
            json!({"name": "mcp_ok_echo", "arguments": {"text": text}}),
        );
        let answer = self.frontend.answer_within(AT_ONCE, "ok").value();
        assert_eq!(answer["content"][0]["text"], text, "LIFE-14: {answer}");
        assert!(
            self.listed("ok"),
            "LIFE-14: the healthy server's tools are in the list"
        );
    }

    /// Whether the merged list has tools of a server.
    #[track_caller]
    fn listed(&mut self, server: &str) -> bool {
        self.frontend.send("list", "tools/list", json!({}));
        let list = self.frontend.answer_within(AT_ONCE, "list").value();
        let prefix = format!("mcp_{}_", server.replace('-', "_"));
        let tools = list["tools"].as_array().expect("a list of tools");
        tools.iter().any(|tool| {
            tool["name"]
                .as_str()
                .is_some_and(|name| name.starts_with(&prefix))
        })
    }

    /// Waits for a condition; the healthy server is asked all the while.
    #[track_caller]
    fn wait(&mut self, limit: Duration, what: &str, mut condition: impl FnMut(&Daemon) -> bool) {
        let end = Instant::now() + limit;
        while !condition(&self.daemon) {
            assert!(Instant::now() < end, "not within {limit:?}: {what}");
            self.check_healthy();
            std::thread::sleep(Duration::from_millis(10));
        }
        self.check_healthy();
    }

    /// Waits until a server is in a state, likewise.
    #[track_caller]
    fn wait_state(&mut self, limit: Duration, server: &str, state: &str) {
        self.wait(limit, &format!("{server} is {state}"), |daemon| {
            daemon.status_of(server)["state"] == state
        });
    }

    /// Calls a tool by its original name in Hermes' way: `{"result"}` or `{"error", "code", …}`. Meanwhile the healthy
    /// server is asked once.
    #[track_caller]
    fn call(&mut self, server: &str, tool: &str, arguments: Value) -> Value {
        let params = json!({"server": server, "tool": tool, "arguments": arguments});
        self.frontend.send("sick", "hermes/call", params);
        self.check_healthy();
        self.frontend
            .answer_within(Duration::from_secs(60), "sick")
            .value()
    }

    /// Likewise, where the call must fail with one of these codes. Returns the text.
    #[track_caller]
    fn call_fails(&mut self, server: &str, tool: &str, arguments: Value, codes: &[i64]) -> String {
        let answer = self.call(server, tool, arguments);
        let code = answer["code"].as_i64();
        assert!(
            code.is_some_and(|code| codes.contains(&code)),
            "{server}: {codes:?}, not {answer}"
        );
        answer["error"].as_str().expect("a text").to_owned()
    }

    /// Echoes a text through a server; returns what came back.
    #[track_caller]
    fn echo(&mut self, server: &str, text: &str) -> String {
        let answer = self.call(server, "echo", json!({"text": text}));
        answer["result"]
            .as_str()
            .unwrap_or_else(|| panic!("{server}: {answer}"))
            .to_owned()
    }
}
