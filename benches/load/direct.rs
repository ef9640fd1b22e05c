//! A client made with rmcp, speaking to a server directly.

use std::{
    cell::Cell,
    process::Stdio,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use rmcp::{
    ClientHandler, RoleClient, ServiceExt,
    model::{CallToolRequestParams, ClientConfig, Implementation, JsonObject, ProtocolVersion},
    service::RunningService,
};
use tokio::process::{Child, Command};

use crate::{lines::TEXT, support::fake_server};

struct Handler;

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        config.client_info = Implementation::new("load", "1");
        config
    }
}

/// The client and its server.
pub(crate) struct Rmcp {
    service: RunningService<RoleClient, Handler>,
    _server: Child,
}

impl Rmcp {
    /// Starts a server and connects.
    pub(crate) async fn spawn() -> Self {
        let mut server = Command::new(fake_server())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let pipes = (
            server.stdout.take().expect("piped"),
            server.stdin.take().expect("piped"),
        );
        let service = Handler.serve(pipes).await.expect("the handshake");
        Self {
            service,
            _server: server,
        }
    }

    /// Echoes 64 bytes this often, one after the other; the time of each.
    pub(crate) async fn one_by_one(&mut self, calls: usize) -> Vec<Duration> {
        let mut times = Vec::with_capacity(calls);
        for _ in 0..calls {
            let start = Instant::now();
            echo(&self.service).await;
            times.push(start.elapsed());
        }
        times
    }

    /// Echoes this often with so many calls on their way; calls in a second.
    pub(crate) async fn at_once(&mut self, in_flight: usize, calls: usize) -> f64 {
        let (service, begun) = (&self.service, Cell::new(0));
        let start = Instant::now();
        let loops: FuturesUnordered<_> = (0..in_flight)
            .map(|_| async {
                while begun.replace(begun.get() + 1) < calls {
                    echo(service).await;
                }
            })
            .collect();
        loops.collect::<()>().await;
        calls as f64 / start.elapsed().as_secs_f64()
    }
}

async fn echo(service: &RunningService<RoleClient, Handler>) {
    let mut arguments = JsonObject::new();
    arguments.insert("text".into(), TEXT.into());
    let result = service
        .call_tool(CallToolRequestParams::new("echo").with_arguments(arguments))
        .await
        .expect("the echo");
    let text = result.content[0].as_text().map(|text| text.text.as_str());
    assert_eq!(text, Some(TEXT));
}
