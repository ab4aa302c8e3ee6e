"""openai.py PORT-FILE - a server in OpenAI's API whose answers can be foretold.

It answers Paris; finds fault with what has `up` subtract, and nothing else; revises by adding
instead; and knows no way (HTTP 400) as soon as a conversation begins with the word "broken".
"""
import http.server
import json
import sys


def say(messages):
    first, last = messages[0]["content"], messages[-1]["content"]
    if "Write" not in first and "<problem>" not in first:
        return "<answer> Paris </answer>"
    if len(messages) == 1:
        wrong = "up(x)" in last and "x - 1" in last
        return "Overall judgment: " + ("Incorrect" if wrong else "Correct")
    answer = messages[1]["content"]
    return answer.replace("-", "+") if "Incorrect" in last else answer


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def give(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.give(200, {"data": [{"id": "m"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        messages = body["messages"]
        if len(messages) != 1 or "<problem>" not in messages[0]["content"]:
            if "broken" in messages[-1]["content"] + messages[0]["content"]:
                return self.give(400, {"error": {"message": "broken"}})
        message = {"role": "assistant", "content": say(messages)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self.give(200, {"choices": [choice]})


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[1], "w") as f:
    print(server.server_port, file=f)
server.serve_forever()
