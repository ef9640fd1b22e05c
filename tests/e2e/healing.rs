//! Connections that heal, and calls that always end.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Builder, Daemon, Frontend, LIMIT, fake_server, process, wait_until, wait_within};

/// A server that works only while the file `up` is in the home folder.
fn switched(builder: Builder, name: &str, keys: Value) -> Builder {
    let up = builder.home().join("up");
    fs::write(&up, "").unwrap();
    let script = r#"test -e "$0" && exec "$@"; echo "switched off" >&2; exit 3"#;
    let command = fake_server();
    let mut entry = json!({
        "command": "/bin/sh",
        "args": ["-c", script, up, command, "--marker", format!("{name}-switched")],
    });
    entry
        .as_object_mut()
        .unwrap()
        .extend(keys.as_object().unwrap().clone());
    builder.server(name, entry)
}

fn pid_of(daemon: &Daemon, server: &str) -> u32 {
    let pid = daemon.status_of(server)["pid"].as_u64().expect("it runs");
    pid.try_into().unwrap()
}

/// The next event of a frontend that fits.
#[track_caller]
fn event(frontend: &mut Frontend, fits: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let message = frontend.next_within(left).expect("the daemon goes on");
        if message.method.as_deref() == Some("hermes/event") {
            let params = message.params.expect("events have params");
            if fits(&params) {
                return params;
            }
        }
    }
}

fn is_state(server: &str, state: &str) -> impl Fn(&Value) -> bool {
    move |event| event["server"]["name"] == server && event["server"]["state"] == state
}

#[test]
fn a_call_right_after_the_start_waits_for_the_connection() {
    let daemon = Daemon::builder()
        .fake("a", &["--initialize-delay", "700"])
        .start();
    let mut frontend = daemon.frontend();
    assert_eq!(
        frontend.call_text("mcp_a_echo", json!({"text": "early"})),
        "early"
    );
    let by_original = json!({"server": "a", "tool": "echo", "arguments": {"text": "x"}});
    assert_eq!(frontend.result("hermes/call", by_original)["result"], "x");
}

#[test]
fn a_call_wakes_a_server_that_died_and_nobody_notices() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    for round in 0..5 {
        let pid = pid_of(&daemon, "a");
        process::signal(pid, Signal::KILL);
        wait_until("the loss is seen", || daemon.status_of("a")["pid"] != pid);
        let text = round.to_string();
        assert_eq!(frontend.call_text("mcp_a_echo", json!({"text": text})), text);
    }
    let status = daemon.status_of("a");
    assert_eq!((&status["reconnects"], &status["errors"]), (&json!(5), &json!(0)));
}

#[test]
fn a_server_that_stays_away_is_said_to_be_reconnecting() {
    let builder = Daemon::builder();
    let daemon = switched(builder, "a", json!({})).start_connected();
    fs::remove_file(daemon.home().join("up")).unwrap();
    process::signal(pid_of(&daemon, "a"), Signal::KILL);
    daemon.wait_state("a", "backoff");
    let mut frontend = daemon.frontend();
    let start = Instant::now();
    let call = json!({"server": "a", "tool": "echo", "arguments": {}});
    let answer = frontend.result("hermes/call", call);
    assert_eq!(answer["code"], 1002, "{answer}");
    assert_eq!(answer["retryable"], true);
    let text = answer["error"].as_str().unwrap();
    assert!(
        text.contains("; reconnecting, retry in ") || text.contains("next attempt in"),
        "{text}"
    );
    assert!(
        text.contains("exited with code 3") && text.contains("switched off"),
        "{text}"
    );
    assert!(
        start.elapsed() < LIMIT,
        "it waited 5 s at most: {:?}",
        start.elapsed()
    );
    // The caller's own patience counts, too.
    let start = Instant::now();
    let call = json!({"server": "a", "tool": "echo", "arguments": {}, "timeout": 0.2});
    assert_eq!(frontend.result("hermes/call", call)["code"], 1002);
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

/// B71: the state is true, loss and recovery reach all frontends, tools go and come back.
#[test]
fn loss_and_recovery_are_told_to_all_frontends() {
    let daemon = switched(Daemon::builder().fake("b", &[]), "a", json!({})).start_connected();
    let mut frontends: Vec<Frontend> = (0..3).map(|_| daemon.frontend()).collect();
    for frontend in &mut frontends {
        let now = frontend.result("hermes/subscribe", json!({}));
        assert_eq!(now["subscribed"], json!(["servers", "tools"]));
        assert_eq!(
            now["servers"].as_array().unwrap().len(),
            2,
            "the snapshot comes first"
        );
        frontend.result("initialize", json!({"protocolVersion": "2025-11-25"}));
        frontend.notify("notifications/initialized", json!({}));
    }
    fs::remove_file(daemon.home().join("up")).unwrap();
    process::signal(pid_of(&daemon, "a"), Signal::KILL);
    wait_within(
        Duration::from_secs(1),
        "the state is true within a second",
        || daemon.status_of("a")["connected"] == false,
    );
    // A handshake proved nothing, so it is parked after three retries.
    for frontend in &mut frontends {
        let lost = event(frontend, is_state("a", "backoff"));
        assert!(
            lost["server"]["reason"].as_str().unwrap().contains("signal 9"),
            "{lost}"
        );
        event(frontend, is_state("a", "parked"));
        let changed = event(frontend, |event| event["event"] == "tools");
        assert!(changed["generation"].as_u64().is_some());
        assert!(
            frontend
                .tool_names()
                .iter()
                .all(|name| !name.starts_with("mcp_a_"))
        );
    }
    assert_eq!(daemon.starts("b"), 1, "its neighbour noticed nothing");
    // It can work again, and somebody wants it.
    fs::write(daemon.home().join("up"), "").unwrap();
    frontends[0].result("hermes/restart", json!({"server": "a"}));
    for frontend in &mut frontends {
        event(frontend, is_state("a", "connected"));
        assert!(frontend.tool_names().iter().any(|name| name == "mcp_a_echo"));
    }
}

#[test]
fn a_call_revives_a_parked_server() {
    let daemon = switched(Daemon::builder(), "a", json!({})).start_connected();
    fs::remove_file(daemon.home().join("up")).unwrap();
    process::signal(pid_of(&daemon, "a"), Signal::KILL);
    wait_within(Duration::from_secs(60), "it is parked", || {
        daemon.status_of("a")["state"] == "parked"
    });
    fs::write(daemon.home().join("up"), "").unwrap();
    // A parked server is not asked at every call: ten seconds lie between two of them.
    let mut frontend = daemon.frontend();
    wait_within(Duration::from_secs(30), "it is revived", || {
        let call = json!({"name": "mcp_a_echo", "arguments": {"text": "again"}});
        frontend.request("hermes/call", call).raw.contains("again")
    });
    assert_eq!(daemon.status_of("a")["state"], "connected");
}

#[test]
fn three_failures_open_the_circuit_and_a_restart_closes_it() {
    let daemon = Daemon::builder().fake("a", &[]).fake("b", &[]).start_connected();
    let mut frontend = daemon.frontend();
    // What a tool itself says is an answer, however often.
    for _ in 0..5 {
        frontend.result("tools/call", json!({"name": "mcp_a_fail", "arguments": {}}));
    }
    for _ in 0..3 {
        let error = frontend.error("tools/call", json!({"name": "mcp_a_die", "arguments": {}}));
        assert_eq!(error["code"], 1015, "{error}");
        assert!(
            error["message"]
                .as_str()
                .unwrap()
                .contains("may or may not have been carried out")
        );
    }
    daemon.wait_state("a", "connected");
    let starts = daemon.received_method("a", "tools/call").len();
    let refused = frontend.result("hermes/call", json!({"name": "mcp_a_echo", "arguments": {}}));
    assert_eq!(
        (&refused["code"], &refused["retryable"]),
        (&json!(1002), &json!(true))
    );
    let text = refused["error"].as_str().unwrap();
    assert!(
        text.starts_with(
            "MCP server 'a' is unreachable after 3 consecutive failures. Auto-retry available in ~"
        ),
        "{text}"
    );
    assert_eq!(
        daemon.received_method("a", "tools/call").len(),
        starts,
        "nothing was sent"
    );
    let circuit = daemon.status_of("a")["circuit"].clone();
    assert_eq!(circuit["state"], "open", "{circuit}");
    assert_eq!(frontend.call_text("mcp_b_echo", json!({"text": "fine"})), "fine");
    frontend.result("hermes/restart", json!({"server": "a"}));
    assert_eq!(
        frontend.call_text("mcp_a_echo", json!({"text": "again"})),
        "again"
    );
    assert!(daemon.status_of("a").get("circuit").is_none());
}

#[test]
fn one_death_is_one_failure_however_many_calls_it_ended() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    for id in 0..8 {
        let slow = json!({"name": "mcp_a_slow", "arguments": {"seconds": 60}});
        frontend.send(id, "tools/call", slow);
    }
    wait_until("they run", || {
        daemon.received_method("a", "tools/call").len() == 8
    });
    let start = Instant::now();
    process::signal(pid_of(&daemon, "a"), Signal::KILL);
    for id in 0..8 {
        assert_eq!(frontend.answer(id).code(), 1015, "B08");
    }
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "B08: at once: {:?}",
        start.elapsed()
    );
    assert_eq!(frontend.call_text("mcp_a_echo", json!({"text": "on"})), "on");
}

#[test]
fn max_concurrency_queues_fairly_between_frontends() {
    let daemon = Daemon::builder()
        .fake_with("a", &[], json!({"max_concurrency": 1}))
        .start_connected();
    let (mut greedy, mut modest) = (daemon.frontend(), daemon.frontend());
    let slow = |seconds: f64| json!({"name": "mcp_a_slow", "arguments": {"seconds": seconds}});
    for id in 0..6 {
        greedy.send(id, "tools/call", slow(0.2));
    }
    wait_until("the first one runs", || {
        daemon.received_method("a", "tools/call").len() == 1
    });
    modest.send("m", "tools/call", slow(0.011));
    for id in 0..6 {
        greedy.answer(id).value();
    }
    modest.answer("m").value();
    let order: Vec<f64> = daemon
        .received_method("a", "tools/call")
        .iter()
        .map(|call| call["params"]["arguments"]["seconds"].as_f64().unwrap())
        .collect();
    let turn = order.iter().position(|seconds| *seconds == 0.011).unwrap();
    assert!(
        turn <= 2,
        "TOOL-17: it did not wait for all of the other's: {order:?}"
    );
    // A call whose turn never comes says so, and was not sent.
    greedy.send("long", "tools/call", slow(3.0));
    wait_until("it runs", || daemon.received_method("a", "tools/call").len() == 8);
    let call = json!({"name": "mcp_a_echo", "arguments": {}, "timeout": 0.3});
    let busy = modest.result("hermes/call", call);
    assert_eq!(busy["code"], 1008, "{busy}");
    greedy.answer("long").value();
    assert_eq!(daemon.received_method("a", "tools/call").len(), 8);
}

#[test]
fn an_idle_server_is_ended_and_the_next_call_starts_it() {
    let daemon = Daemon::builder()
        .fake_with("a", &[], json!({"idle_timeout_seconds": 0.5}))
        .start_connected();
    let tools = daemon.frontend().tool_names();
    daemon.wait_state("a", "recycled");
    let status = daemon.wait_status("a", "without a process", |status| status.get("pid").is_none());
    assert_eq!(
        (&status["status"], &status["connected"]),
        (&json!("configured"), &json!(false))
    );
    assert_eq!(daemon.processes("a"), Vec::<u32>::new());
    let mut frontend = daemon.frontend();
    assert_eq!(frontend.tool_names(), tools, "its tools stay");
    assert_eq!(frontend.call_text("mcp_a_echo", json!({"text": "up"})), "up");
    assert_eq!(daemon.starts("a"), 2);
    // A call that runs longer than that is no idleness.
    let call = json!({"name": "mcp_a_slow", "arguments": {"seconds": 1.2}});
    assert_eq!(frontend.result("tools/call", call)["isError"], Value::Null);
    assert_eq!(daemon.starts("a"), 2);
}

#[test]
fn no_call_is_lost_when_servers_are_recycled_under_it() {
    let keys = json!({"idle_timeout_seconds": 0.02, "max_lifetime_seconds": 0.3});
    let daemon = Daemon::builder().fake_with("a", &[], keys).start();
    let mut frontend = daemon.frontend();
    for n in 0..60 {
        let text = n.to_string();
        assert_eq!(
            frontend.call_text("mcp_a_echo", json!({"text": text})),
            text,
            "call {n}"
        );
        // Around the moment at which it is recycled.
        std::thread::sleep(Duration::from_millis(n % 30));
    }
    let status = daemon.status_of("a");
    assert_eq!(status["errors"], 0, "{status}");
    assert!(daemon.starts("a") > 3, "it was recycled: {}", daemon.starts("a"));
    assert!(daemon.processes("a").len() <= 1, "never two trees");
}

#[test]
fn a_stopping_daemon_tells_finishes_and_refuses() {
    let mut daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    frontend.result("hermes/subscribe", json!({"events": ["servers"]}));
    let slow = json!({"name": "mcp_a_slow", "arguments": {"seconds": 1.5}});
    frontend.send("slow", "tools/call", slow);
    wait_until("the call is there", || {
        daemon.received_method("a", "tools/call").len() == 1
    });
    daemon.signal(Signal::TERM);
    event(&mut frontend, |event| event["event"] == "stopping");
    assert_eq!(
        frontend.error("tools/call", json!({"name": "mcp_a_echo"}))["code"],
        1013
    );
    assert_eq!(
        frontend.answer("slow").value()["content"][0]["text"],
        "done after 1.5 s"
    );
    assert_eq!(daemon.wait_exit(LIMIT).code(), Some(0));
    daemon.assert_no_leftovers();
}

/// A request that still waits for the pipe when it is cancelled never reaches the server.
#[test]
fn what_was_cancelled_in_the_queue_is_not_sent() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let call =
        |tool: &str, arguments: Value| json!({"name": format!("mcp_a_{tool}"), "arguments": arguments});
    frontend.result("tools/call", call("stop_reading", json!({"seconds": 2})));
    let large = "x".repeat(1 << 20);
    frontend.send("large", "tools/call", call("echo", json!({"text": large})));
    frontend.send("queued", "tools/call", call("echo", json!({"text": "never"})));
    wait_until("both are counted", || daemon.status_of("a")["calls"] == 3);
    frontend.notify("notifications/cancelled", json!({"requestId": "queued"}));
    assert_eq!(frontend.answer("large").value()["content"][0]["text"], large);
    assert_eq!(frontend.call_text("mcp_a_echo", json!({"text": "on"})), "on");
    let received = daemon.received("a");
    assert!(received.iter().all(|line| !line.contains("never")), "it was sent");
    assert!(daemon.received_method("a", "notifications/cancelled").is_empty());
}

#[test]
fn a_second_signal_hurries() {
    let mut daemon = Daemon::builder()
        .settings(json!({"drain_timeout": 600}))
        .fake("a", &["--mode", "ignores-eof"])
        .start_connected();
    let mut frontend = daemon.frontend();
    frontend.send(
        1,
        "tools/call",
        json!({"name": "mcp_a_slow", "arguments": {"seconds": 600}}),
    );
    wait_until("the call is there", || {
        daemon.received_method("a", "tools/call").len() == 1
    });
    daemon.signal(Signal::TERM);
    wait_until("it stops", || daemon.log().contains("stopping"));
    daemon.signal(Signal::INT);
    assert_eq!(frontend.answer(1).code(), 1015);
    assert_eq!(daemon.wait_exit(LIMIT).code(), Some(0));
    daemon.assert_no_leftovers();
}

/// A session of its own: no terminal, and no signal that is meant for the daemon's group.
#[test]
fn each_server_leads_a_session_of_its_own() {
    let daemon = Daemon::builder().fake("a", &["--grandchild"]).start_connected();
    let pid = pid_of(&daemon, "a");
    for process in daemon.processes("a") {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        // After the name in parentheses: state, parent, group, session.
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        assert_eq!(
            (fields[2], fields[3]),
            (pid.to_string().as_str(), pid.to_string().as_str())
        );
    }
}

#[test]
fn a_time_limit_says_which_it_was() {
    let daemon = Daemon::builder()
        .fake_with("a", &["--mode", "mute-calls"], json!({"timeout": 1}))
        .start_connected();
    let mut frontend = daemon.frontend();
    for (params, text) in [
        (
            json!({"name": "mcp_a_echo"}),
            "MCP call timed out after 1s (configured timeout: 1s); server 'a' was told to cancel it",
        ),
        (
            json!({"name": "mcp_a_echo", "timeout": 0.5}),
            "MCP call timed out after 0.5s (timeout of this call: 0.5s); server 'a' was told to cancel it",
        ),
    ] {
        let answer = frontend.result("hermes/call", params);
        assert_eq!(
            (&answer["code"], answer["error"].as_str().unwrap()),
            (&json!(1006), text)
        );
    }
    wait_until("the server is told both times", || {
        daemon.received_method("a", "notifications/cancelled").len() == 2
    });
}

#[test]
fn what_is_unknown_to_subscribe_to_is_refused_with_what_there_is() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let error = daemon
        .frontend()
        .error("hermes/subscribe", json!({"events": ["servers", "weather"]}));
    assert_eq!(error["code"], -32602);
    let text = error["message"].as_str().unwrap();
    assert!(
        text.contains("'weather'") && text.contains("servers, tools"),
        "{text}"
    );
}
