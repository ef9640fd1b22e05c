//! A client made with rmcp, speaking to a server directly.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use rmcp::{
    ClientHandler, RoleClient, ServiceExt,
    model::{CallToolRequestParams, ClientConfig, Implementation, JsonObject, ProtocolVersion},
    service::RunningService,
    transport::TokioChildProcess,
};
use tokio::process::Command;

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

/// The client; its transport owns the server.
pub(crate) struct Rmcp {
    service: RunningService<RoleClient, Handler>,
}

impl Rmcp {
    /// Starts a server and connects.
    pub(crate) async fn spawn() -> Self {
        let transport = TokioChildProcess::new(Command::new(fake_server())).expect("it starts");
        let service = Handler.serve(transport).await.expect("the handshake");
        Self { service }
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
