use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::{UnixListener, UnixStream},
    thread,
};

use serde_json::json;

use super::*;

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

/// A peer that does what it is told with the first connection.
fn peer(
    script: impl FnOnce(BufReader<UnixStream>, UnixStream) + Send + 'static,
) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mcp.sock");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        script(BufReader::new(stream.try_clone().unwrap()), stream);
    });
    (dir, path)
}

fn read(reader: &mut BufReader<UnixStream>) -> Value {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn an_answer_is_matched_by_id_and_notifications_are_handed_over() {
    let (_dir, path) = peer(|mut reader, mut stream| {
        let request = read(&mut reader);
        assert_eq!(request["method"], "hermes/status");
        for line in [
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}),
            json!({"jsonrpc": "2.0", "id": 99, "result": "someone else's"}),
            json!({"jsonrpc": "2.0", "id": "s-1", "method": "sampling/createMessage", "params": {}}),
        ] {
            writeln!(stream, "{line}").unwrap();
        }
        writeln!(
            stream,
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"big":18446744073709551616,"x":1.0}}}}"#,
            request["id"]
        )
        .unwrap();
    });
    let mut client = Client::connect(&path, LONG).unwrap();
    let mut seen = Vec::new();
    let raw = client
        .request_with("hermes/status", &json!({}), Some(LONG), &mut |n| {
            seen.push((n.method, n.params))
        })
        .unwrap();
    assert_eq!(
        raw.get(),
        r#"{"big":18446744073709551616,"x":1.0}"#,
        "the result is not re-written"
    );
    assert_eq!(
        seen,
        [("notifications/progress".to_owned(), json!({"progress": 1}))]
    );
}

#[test]
fn a_json_rpc_error_keeps_code_and_data() {
    let (_dir, path) = peer(|mut reader, mut stream| {
        let id = read(&mut reader)["id"].clone();
        let error = json!({"code": 1003, "message": "no tool 'x'", "data": {"did_you_mean": ["y"]}});
        writeln!(stream, "{}", json!({"jsonrpc": "2.0", "id": id, "error": error})).unwrap();
    });
    let mut client = Client::connect(&path, LONG).unwrap();
    let ClientError::Rpc(error) = client.request("hermes/call", &json!({}), LONG).unwrap_err() else {
        panic!("not the daemon's error");
    };
    assert_eq!((error.code, &*error.message), (1003, "no tool 'x'"));
    assert_eq!(error.data["did_you_mean"], json!(["y"]));
}

#[test]
fn line_breaks_in_raw_arguments_never_split_the_message() {
    let (_dir, path) = peer(|mut reader, mut stream| {
        let request = read(&mut reader);
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": request["params"]});
        writeln!(stream, "{answer}").unwrap();
    });
    let mut client = Client::connect(&path, LONG).unwrap();
    let params = RawValue::from_string("{\r\n  \"text\":\n \"a\\nb\"\n}".into()).unwrap();
    let result = client.request("echo", &params, LONG).unwrap();
    assert_eq!(result, json!({"text": "a\nb"}));
}

#[test]
fn an_interrupted_request_is_cancelled_at_the_daemon() {
    let (told, cancelled) = std::sync::mpsc::channel();
    let (_dir, path) = peer(move |mut reader, _stream| {
        let id = read(&mut reader)["id"].clone();
        told.send((id, read(&mut reader))).unwrap();
    });
    let mut client = Client::connect(&path, LONG).unwrap();
    client.interrupter().interrupt();
    let error = client.request("hermes/call", &json!({}), LONG).unwrap_err();
    assert!(matches!(error, ClientError::Interrupted), "{error}");
    let (id, message) = cancelled.recv_timeout(LONG).unwrap();
    assert_eq!(message["method"], "notifications/cancelled");
    assert_eq!(message["params"]["requestId"], id);
}

#[test]
fn every_way_not_to_get_an_answer_has_its_own_error() {
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| Client::connect(path, LONG).map(|_| ()).unwrap_err();

    let missing = dir.path().join("none.sock");
    assert!(matches!(open(&missing), ClientError::NoSocket { .. }));

    let stale = dir.path().join("stale.sock");
    drop(UnixListener::bind(&stale).unwrap());
    assert!(matches!(open(&stale), ClientError::Stale { .. }));

    let file = dir.path().join("file.sock");
    std::fs::write(&file, "").unwrap();
    assert!(matches!(open(&file), ClientError::NotASocket { .. }));
    assert!(open(&file).is_unreachable());

    let (_dir, path) = peer(|mut reader, stream| {
        read(&mut reader);
        drop(stream);
    });
    let mut client = Client::connect(&path, LONG).unwrap();
    let error = client.request("ping", &json!({}), LONG).unwrap_err();
    assert!(matches!(error, ClientError::Gone { .. }), "{error}");
    assert!(!error.is_unreachable(), "it may have done what we asked");

    let (_dir, path) = peer(|mut reader, mut stream| {
        read(&mut reader);
        writeln!(stream, "HTTP/1.1 400 Bad Request").unwrap();
    });
    let mut client = Client::connect(&path, LONG).unwrap();
    let error = client.request("ping", &json!({}), LONG).unwrap_err();
    assert!(matches!(error, ClientError::Protocol { .. }), "{error}");
}

#[test]
fn a_daemon_that_does_not_answer_or_accept_ends_in_a_timeout() {
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let (_dir, path) = peer(move |_reader, _stream| {
        // Ends when the test drops its end.
        let _ = wait.recv();
    });
    let mut client = Client::connect(&path, LONG).unwrap();
    let error = client.request("ping", &json!({}), SHORT).unwrap_err();
    assert!(matches!(error, ClientError::Timeout { .. }), "{error}");
    drop(release);
}

#[test]
fn a_socket_of_another_user_is_refused() {
    // Only root can make such a file; elsewhere the check of ids is still the same code.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mcp.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let other = rustix::process::geteuid().as_raw() + 1;
    if std::os::unix::fs::chown(&path, Some(other), None).is_err() {
        eprintln!("skipped: changing a file's owner needs root");
        return;
    }
    let error = Client::connect(&path, LONG).map(|_| ()).unwrap_err();
    assert!(
        matches!(error, ClientError::ForeignOwner { owner, .. } if owner == other),
        "{error}"
    );
}
