"""The HTTP server, asked with urllib as a trainer would."""

import json
import threading
import time
import urllib.error
import urllib.request
import weakref

import pytest

from searchr1 import Bm25, Hit, Mock, Server, build_bm25, errors


def post(url, body, token=None):
    """Status and answer."""
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_answers_are_the_engines(corpus, tmp_path):
    build_bm25(corpus, tmp_path / "i")
    rows = {}
    for line in corpus.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        rows[str(row["id"])] = row
    questions = ["the old capital", "a river", "zzzz"]
    with Bm25(tmp_path / "i") as engine, Server(engine, top_k=2) as server:
        url = server.url + "/retrieve"
        status, scored = post(url, {"queries": questions, "return_scores": True})
        _, bare = post(url, {"queries": questions, "topk": None})
        expected = engine.run(questions, 2)
        stats = server.stats
    assert status == 200
    assert bare["result"] == [[hit["document"] for hit in q] for q in scored["result"]]
    for found, want in zip(scored["result"], expected):
        assert [h["score"] for h in found] == [h.score for h in want.hits]
        assert [h["document"] for h in found] == [rows[h.id] for h in want.hits]
    assert stats["queries"] == 6 and stats["failed"] == 0


def test_python_engine_and_its_exceptions():
    def engine(queries, top_k):
        if "break" in queries:
            raise RuntimeError("no index")
        return [[Hit(q, f"found {q}", 2.5)] for q in queries]

    with Server(engine) as server:
        url = server.url + "/retrieve"
        hit = {"id": "a", "contents": "found a"}
        assert post(url, {"query": "a"}) == (200, {"result": [[hit]]})
        status, answer = post(url, {"queries": ["break"]})
        assert status == 503 and "RuntimeError: no index" in answer["detail"]
        assert post(url, {"query": "a"})[0] == 200
        assert post(url, {"queries": "a"})[0] == 422
        with urllib.request.urlopen(server.url + "/health") as answer:
            assert json.load(answer)["status"] == "ok"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5)


def test_token_and_options(monkeypatch):
    engine = Mock({"tower": "In Paris."})
    with pytest.raises(errors.InvalidError, match="token"):
        Server(engine, address="0.0.0.0")
    with pytest.raises(TypeError, match="colour"):
        Server(engine, colour=1)
    with pytest.raises(errors.InvalidError, match="max_queries"):
        Server(engine, max_queries=0)
    monkeypatch.setenv("SEARCH_TOKEN", "sesame")
    with Server(engine, address="0.0.0.0", token_env="SEARCH_TOKEN") as server:
        url = f"http://127.0.0.1:{server.port}/retrieve"
        assert post(url, {"query": "tower"})[0] == 401
        assert post(url, {"query": "tower"}, "sesame")[0] == 200


def test_a_server_may_go_within_its_own_search():
    """The last reference may go anywhere, such as on a thread of the server: it is freed
    all the same, and the port is closed."""
    servers = []

    def engine(queries, top_k):
        servers.clear()
        return ["found"] * len(queries)

    servers.append(Server(engine))
    url, freed = servers[0].url + "/retrieve", weakref.ref(servers[0].engine)
    assert post(url, {"query": "a"})[0] == 200
    until = time.monotonic() + 60
    while time.monotonic() < until and _takes_connections(url):
        time.sleep(0.01)
    assert not _takes_connections(url) and freed() is None


def _takes_connections(url):
    try:
        post(url, {"query": "a"})
    except (urllib.error.URLError, ConnectionError):
        return False
    return True


def test_run_until_stopped():
    with Server(Mock({"tower": "In Paris."})) as server:
        runner = threading.Thread(target=server.run)
        runner.start()
        assert post(server.url + "/retrieve", {"query": "tower"})[0] == 200
        server.stop()
        runner.join(20)
        assert not runner.is_alive()
        assert server.stats["answered"] == 1
