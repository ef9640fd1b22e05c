//! The pure parts of a call's way, each alone: `cargo bench --bench paths`.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hermesd_mcp::{
    catalog::{Catalog, ServerTools},
    config::ToolsPolicy,
    name::ServerName,
    server::ListedTool,
    text::{Redactor, repair_surrogates},
    wire::{Envelope, LineReader},
};
use serde_json::{json, value::RawValue};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1234,"method":"tools/call","params":{"name":"mcp_echo_echo","arguments":{"text":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}}}"#;

fn framing(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let stream = format!("{CALL}\n").repeat(1_000);
    let mut group = criterion.benchmark_group("framing");
    group.throughput(Throughput::Bytes(stream.len() as u64));
    group.bench_function("1,000 lines", |bench| {
        bench.iter(|| {
            runtime.block_on(async {
                let mut lines = LineReader::new(stream.as_bytes(), 1 << 20);
                let mut count = 0;
                while lines.next().await.unwrap().is_some() {
                    count += 1;
                }
                assert_eq!(count, 1_000);
            });
        });
    });
    group.bench_function("one envelope", |bench| {
        bench.iter(|| {
            Envelope::parse(black_box(CALL.as_bytes()), 128)
                .unwrap()
                .id
                .is_some()
        });
    });
    let mut large = format!("{{\"text\":\"{}\"}}", "ab\\u00e9 ".repeat(100_000)).into_bytes();
    group.throughput(Throughput::Bytes(large.len() as u64));
    group.bench_function("looking for half an emoji", |bench| {
        bench.iter(|| repair_surrogates(black_box(&mut large)))
    });
    group.finish();
}

fn catalog(criterion: &mut Criterion) {
    let policy = ToolsPolicy::default();
    let servers: Vec<(ServerName, Vec<ListedTool>)> = (0..10)
        .map(|server| {
            (
                format!("server{server}").as_str().into(),
                (0..50).map(tool).collect(),
            )
        })
        .collect();
    let offers: Vec<ServerTools<'_>> = servers
        .iter()
        .map(|(server, tools)| ServerTools {
            server,
            policy: &policy,
            parallel_safe: false,
            tools,
            has_resources: false,
            has_prompts: false,
        })
        .collect();
    let build = || Catalog::build(&offers, "mcp_{server}_{tool}", &Catalog::empty());
    let built = build();
    let mut group = criterion.benchmark_group("catalog, 10 servers of 50 tools");
    group.bench_function("build", |bench| bench.iter(build));
    group.bench_function("route", |bench| {
        bench.iter(|| built.route(black_box("mcp_server7_tool_42")).is_some())
    });
    group.bench_function("serialise", |bench| {
        bench.iter_batched(
            build,
            |new| new.mcp_list_result(),
            criterion::BatchSize::SmallInput,
        )
    });
    group.finish();
}

fn tool(n: usize) -> ListedTool {
    let definition = json!({
        "name": format!("tool_{n}"),
        "description": "Reads a file and gives its text, whole or in part.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file."},
                "lines": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": null},
            },
            "required": ["path"],
        },
    });
    ListedTool {
        name: definition["name"].as_str().unwrap().into(),
        definition: RawValue::from_string(definition.to_string()).unwrap().into(),
    }
}

fn redaction(criterion: &mut Criterion) {
    let secrets: Vec<String> = (0..50).map(|n| format!("a-configured-secret-{n}")).collect();
    let redactor = Redactor::new(&secrets);
    let mut group = criterion.benchmark_group("redaction");
    group.bench_function("a line without secrets", |bench| {
        bench.iter(|| {
            redactor
                .redact(black_box("listening on stdio, 12 tools, ready in 34 ms"))
                .len()
        });
    });
    group.bench_function("a line with two", |bench| {
        bench.iter(|| {
            redactor
                .redact(black_box("401 Bearer abcdef for a-configured-secret-7"))
                .len()
        });
    });
    group.finish();
}

criterion_group!(benches, framing, catalog, redaction);
criterion_main!(benches);
