"""Engines behind HTTP, chains and the disk cache, against a server of Python's own."""

import json

import pytest
from json_server import JsonServer

from searchr1 import (
    Chain,
    Config,
    DiskCache,
    Mock,
    OpenSearch,
    PythonEmbedder,
    PythonSearch,
    Qdrant,
    Remote,
    Web,
    errors,
    open_search,
    web_providers,
)

QUICK = {"retries": 1, "retry_first_s": 0.01, "timeout_s": 5.0}


class Server(JsonServer):
    """Answers POST /retrieve with a document of each query; `fail` sets an HTTP code."""

    def __init__(self):
        super().__init__()
        self.fail, self.requests = 0, []

    def get(self, request):
        return self.note(request, None)

    def post(self, request, text):
        if "ndjson" in request.headers["Content-Type"]:
            return self.note(request, [json.loads(x) for x in text.split(b"\n")[:-1]])
        return self.note(request, json.loads(text))

    def note(self, request, body):
        self.requests.append((request.path, dict(request.headers), body))
        return self.fail or 200, self.answer(body)

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
    server.close()


class Databases(Server):
    """Answers _msearch and points/query/batch, with one hit a query."""

    def answer(self, body):
        if isinstance(body, list):
            return {
                "responses": [
                    {
                        "status": 200,
                        "hits": {
                            "hits": [
                                {
                                    "_id": "7",
                                    "_score": 2.5,
                                    "_source": {"title": "T", "text": str(search["size"])},
                                }
                            ]
                        },
                    }
                    for search in body[1::2]
                ]
            }
        if body is None:
            vectors = {"dense": {"size": 2, "distance": "Dot"}}
            return {"result": {"points_count": 1, "config": {"params": {"vectors": vectors}}}}
        return {
            "result": [
                {"points": [{"id": 9, "score": search["query"][0], "payload": {"text": "P"}}]}
                for search in body["searches"]
            ]
        }


@pytest.fixture()
def databases():
    server = Databases()
    yield server
    server.close()


def test_opensearch(databases):
    with OpenSearch(databases.url + "/wiki", fields="title,text", **QUICK) as engine:
        first, second = engine.run(["a", "b"], top_k=2)
    assert first.hits[0].id == second.hits[0].id == "7"
    assert first.hits[0].contents == "T\n2" and first.hits[0].score == 2.5
    (_, _, probe), (path, headers, body) = databases.requests
    assert path == "/wiki/_msearch" and len(probe) == 6 and len(body) == 4
    assert headers["Content-Type"] == "application/x-ndjson"
    assert body[3]["query"]["multi_match"] == {"query": "b", "fields": ["title", "text"]}


def test_qdrant(databases):
    embedder = PythonEmbedder(lambda texts, kind: [[len(t), 1] for t in texts], dim=2)
    url = databases.url + "/collections/wiki"
    with Qdrant(url, embedder, vector="dense", fields="text", **QUICK) as engine:
        first, second = engine.run(["a", "bcd"], top_k=2)
    assert (first.hits[0].id, first.hits[0].contents) == ("9", "P")
    assert (first.hits[0].score, second.hits[0].score) == (1, 3)
    path, _, body = databases.requests[-1]
    assert path == "/collections/wiki/points/query/batch"
    assert body["searches"][1] == {
        "query": [3.0, 1.0],
        "limit": 2,
        "with_payload": ["text"],
        "using": "dense",
    }
    with pytest.raises(errors.Error, match="has no vector 'other'"):
        Qdrant(url, embedder, vector="other", **QUICK)


def test_databases_by_configuration(databases, tmp_path, monkeypatch):
    monkeypatch.setenv("SR1_TEST_LOGIN", "me:secret")
    config = Config(
        search_engine="opensearch",
        opensearch_url=databases.url + "/wiki",
        opensearch_fields="title,text",
        opensearch_api_key_env="SR1_TEST_LOGIN",
        search_cache_dir=str(tmp_path / "cache"),
        search_fallback="mock",
    )
    for _ in range(2):
        with open_search(config) as engine:
            assert engine.run(["a"], top_k=2)[0].hits[0].contents == "T\n2"
    assert len(databases.requests) == 3  # two openings, one search: the other was kept
    assert databases.requests[1][1]["Authorization"] == "Basic bWU6c2VjcmV0"
    with pytest.raises(errors.ConfigError, match="opensearch_url"):
        open_search(Config(search_engine="opensearch"))
    with pytest.raises(errors.ConfigError, match="qdrant_url"):
        open_search(Config(search_engine="qdrant"))


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


def _engine_of(town):
    def search(queries, top_k):
        return [town for query in queries]

    return search


def test_functions_share_no_answers(tmp_path):
    """All are named "python", and each has answers of its own: also one that is edited."""
    source = "def search(queries, top_k):\n    return ['edited {}' for query in queries]\n"
    edited = []
    for i in range(2):
        scope = {"__name__": "notebook"}
        exec(source.format(i), scope)
        edited.append(scope["search"])
    made = {"__name__": "library"}
    exec("def make(text):\n    return lambda queries, top_k: [text] * len(queries)\n", made)
    nested = "def search(queries, top_k):\n    return [repr({})] * len(queries)\n"
    for read in ("made = 'x'", "made = 'y'"):
        scope = {"__name__": "notebook"}
        exec(
            f"{read}\ndef search(queries, top_k):\n    class C:\n        text = made\n"
            "    return [C.text] * len(queries)\n",
            scope,
        )
        edited.append(scope["search"])
    for given in ("(('a',), 'b')", "(('a', 'b'),)"):
        scope = {"__name__": "notebook"}
        exec(f"given = {given}\n" + nested.format("given"), scope)
        edited.append(scope["search"])
    engines = [_engine_of("Rome"), _engine_of("Oslo"), made["make"]("Bonn")]
    engines += [made["make"]("Graz"), *edited]
    texts = ["Rome", "Oslo", "Bonn", "Graz", "edited 0", "edited 1", "x", "y"]
    texts += ["(('a',), 'b')", "(('a', 'b'),)"]
    for _ in range(2):
        for engine, text in zip(engines, texts):
            with DiskCache(engine, tmp_path / "cache") as cache:
                assert cache.search("a")[0].contents == text
    with DiskCache(_engine_of("Rome"), tmp_path / "cache") as cache:
        cache.search("a")
        assert cache.counters["disk_hits"] == 1  # made anew, it is the same


def test_what_has_no_identity_needs_a_scope(tmp_path):
    class Engine:
        def search(self, queries, top_k):
            return ["x" for query in queries]

    engine = Engine()

    def over(queries, top_k):
        return engine.search(queries, top_k)

    for unknown in (engine, engine.search, over, Chain([over, _engine_of("Rome")])):
        with pytest.raises(errors.InvalidError, match="set scope, or give the engine an id"):
            DiskCache(unknown, tmp_path / "cache")
        DiskCache(unknown, tmp_path / "cache", scope="mine").close()
    DiskCache(PythonSearch(engine, identity="version 2"), tmp_path / "cache").close()


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
