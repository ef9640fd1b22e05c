#!/usr/bin/env python3
"""Makes the daemon the client that the conformance suite tests:  driver.py HERMESD_MCP URL

The suite starts this once per scenario, with the address of its test server. A daemon is started with that server as its
only entry, every tool is called through the socket as a frontend would, and the daemon is stopped.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

# Seconds until a server has to be connected, or given up.
SETTLED = 15
SERVER = "tested"
# The daemon's own tools for a server that has resources or prompts.
UTILITIES = ("list_resources", "read_resource", "list_prompts", "get_prompt")


class Frontend:
    """A connection to the daemon's socket: one JSON-RPC message a line."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(str(path))
        self.lines = self.socket.makefile("rb")
        self.last_id = 0

    def request(self, method, params):
        self.last_id += 1
        request = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        for line in self.lines:
            answer = json.loads(line)
            if answer.get("id") == self.last_id:
                return answer
        raise EOFError("the daemon closed the connection")

    def result(self, method, params):
        answer = self.request(method, params)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]


class Daemon:
    """The daemon in a home of its own."""

    def __init__(self, program, home, entry):
        self.program, self.home = program, pathlib.Path(home)
        self.config = self.home / "config.yaml"
        self.socket = self.home / "run" / "mcp.sock"
        self.socket.parent.mkdir(mode=0o700)
        # JSON is YAML too.
        self.config.write_text(json.dumps({"mcp_servers": {SERVER: entry}}))
        self.environment = {"HOME": home, "HERMES_HOME": home, "PATH": os.environ["PATH"]}
        log = os.environ.get("HERMESD_MCP_LOG", "info")
        self.process = subprocess.Popen(self.command("--log", log, "serve"), env=self.environment)

    def command(self, *arguments):
        return [self.program, "--config", str(self.config), "--socket", str(self.socket), *arguments]

    def frontend(self):
        end = time.monotonic() + SETTLED
        while True:
            try:
                return Frontend(self.socket)
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.02)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)


def status_of_server(frontend):
    servers = frontend.result("hermes/status", {})["servers"]
    return servers[SERVER] if isinstance(servers, dict) else servers[0]


def settled(frontend):
    """The server's status once it is connected, wants credentials, or is given up for now."""
    end = time.monotonic() + SETTLED
    while True:
        status = status_of_server(frontend)
        if status["state"] not in ("connecting", "stopped") or time.monotonic() > end:
            return status
        time.sleep(0.02)


def example(schema):
    """A value that fits a schema, as far as the suite's tools need it."""
    if not isinstance(schema, dict):
        return "x"
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0]
    if kind in ("number", "integer"):
        return 5
    if kind == "boolean":
        return True
    if kind == "array":
        return [example(schema.get("items"))]
    if kind == "object" or "properties" in schema:
        return {name: example(part) for name, part in schema.get("properties", {}).items()}
    return "x"


def calls_of(frontend, context):
    """What to call: what the scenario says, else every tool of the server once."""
    tools = {
        tool["name"].removeprefix(f"mcp_{SERVER}_"): tool["inputSchema"]
        for tool in frontend.result("tools/list", {})["tools"]
    }
    if "toolCalls" in context:
        return [(call["name"], call.get("arguments", {})) for call in context["toolCalls"]]
    if "json_schema_echo" in tools:
        # It compares what a frontend sees of the other tool with what the server listed.
        (seen,) = [schema for name, schema in tools.items() if name not in {"json_schema_echo", *UTILITIES}]
        return [("json_schema_echo", {"schema": seen})]
    return [(name, example(schema)) for name, schema in tools.items() if name not in UTILITIES]


def main():
    program, url = sys.argv[1:]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with tempfile.TemporaryDirectory(prefix="hm") as home:
        daemon = Daemon(program, home, {"url": url, "connect_timeout": 10, "timeout": 20})
        try:
            frontend = daemon.frontend()
            print(settled(frontend), flush=True)
            for name, arguments in calls_of(frontend, context):
                answer = frontend.request("tools/call", {"name": f"mcp_{SERVER}_{name}", "arguments": arguments})
                print(name, json.dumps(arguments), json.dumps(answer), flush=True)
        finally:
            daemon.stop()


main()
