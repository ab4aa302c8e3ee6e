"""Engines behind HTTP, chains and the disk cache, against a server of Python's own."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from searchr1 import (
    Chain,
    Config,
    DiskCache,
    Mock,
    PythonSearch,
    Remote,
    Web,
    errors,
    open_search,
    web_providers,
)

QUICK = {"retries": 1, "retry_first_s": 0.01, "timeout_s": 5.0}


class Server:
    """Answers POST /retrieve with a document of each query; `fail` sets an HTTP code."""

    def __init__(self):
        outer = self
        self.fail, self.requests = 0, []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append((self.path, dict(self.headers), body))
                text = json.dumps(outer.answer(body)).encode()
                self.send_response(outer.fail or 200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *arguments):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def answer(self, body):
        if "q" in body:
            return {
                "searchParameters": {},
                "organic": [{"title": "T", "link": "u", "snippet": body["q"]}],
            }
        return {
            "result": [
                [{"document": {"id": i, "contents": f"T\n{query}"}, "score": 2.5}]
                for i, query in enumerate(body["queries"])
            ]
        }


@pytest.fixture()
def server():
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


def test_remote(server):
    with Remote(server.url + "/retrieve", probe=False, **QUICK) as engine:
        first, second = engine.run(["a", "b"], top_k=2)
        assert first.hits[0].contents == "T\na" and first.hits[0].score == 2.5
        assert second.hits[0].id == "1" and second.hits[0].row["contents"] == "T\nb"
        assert len(server.requests) == 1  # a batch is one request
        path, _, body = server.requests[0]
        assert path == "/retrieve"
        assert body == {"queries": ["a", "b"], "topk": 2, "return_scores": True}
        server.fail = 503
        result = engine.run(["c"])[0]
        assert result.status == "error" and "HTTP 503" in result.message
        assert engine.counters["requests"] == 3 and engine.counters["retries"] == 1


def test_remote_probe(server):
    Remote(server.url, **QUICK)
    assert len(server.requests) == 1
    server.fail = 500
    with pytest.raises(errors.Error, match="retrieval server"):
        Remote(server.url, **QUICK)
    with pytest.raises(TypeError, match="no option"):
        Remote(server.url, retry=1)


def test_web(server, monkeypatch):
    monkeypatch.delenv("SERPER_API_KEY", raising=False)
    assert web_providers()[:2] == ["serper", "serpapi"]
    with pytest.raises(errors.Error, match="SERPER_API_KEY"):
        Web("serper", url=server.url)
    monkeypatch.setenv("SERPER_API_KEY", "secret")
    with Web("serper", url=server.url, **QUICK) as engine:
        hit = engine.search("who?")[0]
        assert (hit.id, hit.contents) == ("u", '"T"\nwho?')
        assert server.requests[0][1]["X-API-KEY"] == "secret"


def test_chain_and_cache(server, tmp_path):
    calls = []

    def local(queries, top_k):
        calls.append(queries)
        return [f"local {query}" for query in queries]

    remote = Remote(server.url, probe=False, **QUICK)
    with DiskCache(remote, tmp_path / "cache") as cache:
        with Chain([cache, local]) as chain:
            assert chain.search("a")[0].contents == "T\na"
            server.fail = 500
            results = chain.run(["a", "b"])
            assert [r.hits[0].contents for r in results] == ["T\na", "local b"]
            assert calls == [["b"]]
            assert chain.counters["fallbacks"] == 1
            assert chain.counters["disk_hits"] == 1
    with pytest.raises(errors.Error):
        Chain([])


def test_a_python_error_comes_out_of_a_chain():
    def broken(queries, top_k):
        raise ZeroDivisionError("oh")

    with Chain([PythonSearch(broken), Mock({"a": "b"})]) as chain:
        with pytest.raises(ZeroDivisionError, match="oh"):
            chain.search("a")


def test_by_configuration(server, tmp_path):
    config = Config(
        search_engine="remote",
        search_url=server.url,
        search_retries=0,
        search_fallback="mock",
        search_cache_dir=str(tmp_path / "cache"),
    )
    with open_search(config) as engine:
        assert engine.search("x")[0].contents == "T\nx"
        server.fail = 500
        assert engine.search("x")[0].contents == "T\nx"  # kept
        assert engine.run(["y"])[0].status == "empty"  # the mock knows nothing
    config["search_url"] = ""
    with pytest.raises(errors.Error, match="search_url"):
        open_search(config)
    config["search_engine"], config["search_fallback"] = "mock", "altavista"
    with pytest.raises(errors.Error, match="search_fallback 'altavista'"):
        open_search(config)
