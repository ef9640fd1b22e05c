//! A scriptable MCP server for tests and benches.

fn main() {}
