"""A server of the tests, which answers JSON over HTTP."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class JsonServer:
    """Subclasses have get() and post(handler, text), which return (code, answer)."""

    def __init__(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.say(*outer.get(self))

            def do_POST(self):
                text = self.rfile.read(int(self.headers["Content-Length"]))
                self.say(*outer.post(self, text))

            def say(self, code, answer):
                text = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *arguments):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
