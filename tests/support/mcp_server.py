#!/usr/bin/env python3
"""A small MCP server for tests, over standard streams or HTTP (`mcp_server.py http`, which
prints its port), without any package. Its tools do what their names say."""
import http.server
import json
import os
import sys
import time

NUMBER = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
TOOLS = [
    ("echo", "Says it again.", {"text": {"type": "string", "minLength": 1}}, ["text"]),
    ("add", "Adds two numbers.", {"a": {"type": "integer"}, "b": NUMBER}, ["a"]),
    ("fail", "Says that it failed.", {}, []),
    ("reject", "Says that its arguments are wrong.", {}, []),
    ("break", "Answers with an error of its own.", {}, []),
    ("sleep", "Answers late.", {"s": {"type": "number"}}, []),
    ("die", "Ends the server.", {}, []),
    ("garbage", "Writes what is no JSON.", {}, []),
    ("long", "Writes a line without end.", {}, []),
    ("pair", "Answers two calls at once, the second one first.", {"n": {"type": "integer"}}, []),
    ("picture", "Gives an image and a resource.", {}, []),
    ("variable", "Gives a variable of its environment.", {"name": {"type": "string"}}, []),
    ("dear", "Is refused by HTTP's code 400, with a reason.", {}, []),
    ("gate", "Is refused by HTTP's code 400, by a gateway.", {}, []),
    ("odd", "Has a schema that few know.", {"x": {"unevaluatedItems": False}}, []),
]
waiting = []


def text(said, failed=False):
    return {"content": [{"type": "text", "text": said}], "isError": failed}


def listed(params):
    at = int(params.get("cursor", 0))
    tools = [{"name": n, "description": d, "inputSchema": {
        "type": "object", "properties": p, "required": r}} for n, d, p, r in TOOLS[at:at + 5]]
    more = {"nextCursor": str(at + 5)} if at + 5 < len(TOOLS) else {}
    return {"tools": tools, **more}


def call(name, args):
    if name == "echo":
        return text(args["text"])
    if name == "add":
        return text(str(args["a"] + (args.get("b") or 0)))
    if name == "fail":
        return text("there is no such town", True)
    if name == "sleep":
        time.sleep(args.get("s", 60))
        return text("late")
    if name == "picture":
        return {"content": [{"type": "image", "mimeType": "image/png", "data": "AA=="},
                            {"type": "resource", "resource": {"uri": "a:b", "text": "inside"}}]}
    if name == "variable":
        return text(os.environ.get(args["name"], "none"))
    return text(json.dumps(args))


def answer(message):
    """The answer to a request; None: it has none."""
    method, params = message.get("method"), message.get("params", {})
    if "id" not in message:
        return None
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        reply["result"] = {"protocolVersion": params["protocolVersion"], "capabilities": {
            "tools": {}}, "serverInfo": {"name": "test", "version": "1"}}
    elif method == "tools/list":
        reply["result"] = listed(params)
    elif method == "tools/call" and params["name"] == "reject":
        reply["error"] = {"code": -32602, "message": "there is no such argument"}
    elif method == "tools/call" and params["name"] == "break":
        reply["error"] = {"code": -32603, "message": "out of order"}
    elif method == "tools/call":
        reply["result"] = call(params["name"], params.get("arguments", {}))
    else:
        reply["error"] = {"code": -32601, "message": "unknown"}
    return reply


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def stdio():
    for line in sys.stdin:
        message = json.loads(line)
        name = message.get("params", {}).get("name") if message.get("method") == "tools/call" else None
        if name == "die":
            sys.stderr.write("Traceback\nKeyError: 'town'\n")
            sys.exit(3)
        if name == "garbage":
            print("this is a log line", flush=True)
        elif name == "long":
            sys.stdout.write("x" * (9 << 20))
            sys.stdout.flush()
        elif name == "pair":
            waiting.append(message)
            if len(waiting) == 2:
                say({"jsonrpc": "2.0", "id": "p", "method": "ping"})
                say({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
                for one in reversed(waiting):
                    say(answer(one))
                waiting.clear()
        elif message.get("method") is not None:
            reply = answer(message)
            if reply:
                say(reply)
    time.sleep(float(os.environ.get("LINGER", 0)))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sessions = 0
    refused = 0
    greetings = 0
    greeted = False  # since the last "initialize"

    def log_message(self, *args):
        pass

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        session = self.headers.get("Mcp-Session-Id")
        if self.headers.get("Content-Type") != "application/json":
            return self.reply(400, b"", "text/plain")
        if self.headers.get("Authorization") != "Bearer secret":
            return self.reply(401, b"", "text/plain")
        plain = self.path == "/plain"  # without sessions
        if not plain and message.get("method") != "initialize" and session != self.session():
            return self.reply(404, b"", "text/plain")
        if message.get("method") == "initialize":
            Handler.sessions += 1
            Handler.greeted = False
        if message.get("method") == "notifications/initialized" and not self.greet():
            return self.reply(503, b"", "text/plain")
        name = message.get("params", {}).get("name") if message.get("method") == "tools/call" else None
        if name in ("dear", "gate"):
            Handler.refused += 1
            data = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {
                "code": -32602, "message": f"it is too dear, {Handler.refused}"}})
            return self.reply(400, data.encode() if name == "dear" else b"", "application/json")
        reply = answer(message)
        if self.path == "/forged" and message.get("method") == "initialize":
            reply["result"]["protocolVersion"] = "1\r\nX-Forged: yes"
        if self.path == "/strict" and message.get("method") == "tools/call" and not Handler.greeted:
            reply = {"jsonrpc": "2.0", "id": message["id"], "error": {
                "code": -32602, "message": "not initialized"}}
        if reply is None:
            return self.reply(202, b"", "text/plain")
        data = json.dumps(reply)
        if message.get("method") == "tools/call":
            note = json.dumps({"jsonrpc": "2.0", "method": "notifications/progress"})
            self.reply(200, f"event: message\ndata: {note}\n\nevent: message\r\ndata: {data}\r\n\r\n"
                       .encode(), "text/event-stream")
            if message["params"]["name"] == "die":  # it forgets its session
                Handler.sessions += 1
            return None
        return self.reply(200, data.encode(), "application/json")

    def session(self):
        return f"s{Handler.sessions}" + "x" * {"/token": 1000, "/endless": 5000}.get(self.path, 0)

    def greet(self):
        """A strict server takes its time over greetings, and does not take the third."""
        if self.path == "/strict":
            Handler.greetings += 1
            print("greeting", flush=True)
            time.sleep(0.3)
            if Handler.greetings == 3:
                return False
        Handler.greeted = True
        return True

    def do_DELETE(self):
        print("deleted", self.headers.get("Mcp-Session-Id"), flush=True)
        self.reply(204, b"", "text/plain")

    def reply(self, code, body, kind):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if code == 200 and self.path != "/plain":
            self.send_header("Mcp-Session-Id", self.session())
        self.end_headers()
        self.wfile.write(body)


if sys.argv[1:] == ["http"]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
else:
    stdio()
