"""MCP servers as tools, against servers made with the official SDK where it is installed, and
programs as engine, environment and reward."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import searchr1
from searchr1 import Config, Environment, errors
from searchr1.env import own_environment

HERE = Path(__file__).resolve().parent
SUPPORT = HERE.parent / "support"
# A Python that has the package mcp: this one, or that of SR1_MCP_PYTHON.
PYTHON = os.environ.get("SR1_MCP_PYTHON", sys.executable)

OFFICIAL = '''
import sys
from typing import Optional
from pydantic import BaseModel

port = dict(port=int(sys.argv[2])) if len(sys.argv) > 2 else {}
try:
    from mcp.server.mcpserver import MCPServer
    server = MCPServer("official")
except ImportError:  # before version 2
    from mcp.server.fastmcp import FastMCP
    server, port = FastMCP("official", **port), {}

class Place(BaseModel):
    name: str
    country: Optional[str] = None

@server.tool()
def add(a: int, b: Optional[int] = None) -> int:
    """Adds two numbers."""
    return a + (b or 0)

@server.tool()
def visit(place: Place, days: int = 1) -> str:
    """Plans a visit."""
    if place.name == "Atlantis":
        raise ValueError("it has sunk")
    return f"{days} in {place.name}, {place.country}"

server.run(transport=sys.argv[1], **port)
'''


def has_sdk():
    return subprocess.run([PYTHON, "-c", "import mcp.server"],
                          capture_output=True).returncode == 0


def block(text):
    return f"<tool_response>\n{text}\n</tool_response>"


def call(env, name, **arguments):
    return env.answer(json.dumps({"name": name, "arguments": arguments}))


def open_env(tmp_path, server):
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"s": server}}))
    env = Environment("tools", protocol="hermes")
    env.add_mcp(tmp_path / "mcp.json", timeout=60)
    return env


def test_a_server_of_the_tests(tmp_path):
    env = open_env(tmp_path, {"command": sys.executable, "args": [str(SUPPORT / "mcp_server.py")]})
    assert call(env, "add", a=40, b=2) == block("42")
    assert "Error: add: argument 'a'" in call(env, "add", a="x")
    with pytest.raises(errors.Error, match="No such file"):
        env.add_mcp(tmp_path / "none.json")


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(errors.Error, match="'s': cannot start in 'nodir': it is no folder"):
        open_env(tmp_path, {"command": "/bin/true", "cwd": "nodir"})


def shout(text: str) -> str:
    """Says it loudly."""
    return text.upper()


def test_tools_of_servers_and_of_python_go_together(tmp_path):
    servers = {"s": {"command": sys.executable, "args": [str(SUPPORT / "mcp_server.py")]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    config = Config({"environment": "tools", "tools": str(tmp_path / "mcp.json")})
    settings, env = own_environment(config, None, [shout], None)
    assert call(env, "add", a=40, b=2) == block("42")
    assert call(env, "shout", text="hey") == block("HEY")
    assert (settings["environment"], settings["tools"]) == ("none", "")
    with pytest.raises(ValueError, match="add them by env.add_mcp"):
        own_environment(config, env, [], None)


@pytest.mark.skipif(not has_sdk(), reason="the package mcp is not installed (SR1_MCP_PYTHON)")
@pytest.mark.parametrize("transport", ["stdio", "streamable-http"])
def test_a_server_of_the_official_sdk(tmp_path, transport):
    script = tmp_path / "server.py"
    script.write_text(OFFICIAL)
    process = None
    if transport == "stdio":
        server = {"command": PYTHON, "args": [str(script), "stdio"]}
    else:
        import socket
        import time
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        process = subprocess.Popen([PYTHON, str(script), transport, str(port)],
                                   stderr=subprocess.DEVNULL)
        for _ in range(6000):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        server = {"url": f"http://127.0.0.1:{port}/mcp"}
    try:
        env = open_env(tmp_path, server)
        assert '"Plans a visit."' in env.tools
        assert call(env, "add", a=40, b=2) == block("42")
        assert call(env, "add", a=40, b=None) == block("40")
        assert call(env, "add", a="x") == block(
            "Error: add: argument 'a' must be an integer, not a string")
        assert call(env, "visit", place={"name": "Oslo", "country": "Norway"}) == block(
            "1 in Oslo, Norway")
        assert "Error: Error executing tool visit" in call(env, "visit", place={"name": "Atlantis"})
        assert "argument 'place.name' is missing" in call(env, "visit", place={})
        del env
    finally:
        if process:
            process.terminate()
            process.wait()


def test_programs():
    program = SUPPORT / "program.py"
    engine = searchr1.search.Program(program)
    assert [hit.id for hit in engine.run(["tower"], 2)[0].hits] == ["d0", "d1"]
    env = Environment.program(program)
    assert "LOOK" in env.answer("look")
    rewards = searchr1.RewardSet([])
    rewards.add_program("length", program, 0.5)
    assert rewards.names == ["length"]
    with pytest.raises(errors.Error, match="No such file"):
        searchr1.search.Program("none.py")


def test_protocol_files(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("action: [<call>, </call>]\nresult: [<out>, </out>]\ninside: ''\n")
    env = Environment("tools", protocol=str(path), tools=[lambda_tool()])
    assert searchr1.env.parse("so <call> {} </call>", str(path)) == ("action", "{}")
    assert call(env, "twice", n=21) == "<out>42</out>"


def lambda_tool():
    def twice(n: int) -> int:
        """Twice a number."""
        return 2 * n
    return twice
