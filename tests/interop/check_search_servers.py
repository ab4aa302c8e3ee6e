#!/usr/bin/env python3
"""OpenSearch's and Qdrant's protocols, spoken to programs that are not ours.

    python3 tests/interop/check_search_servers.py BUILD
        (osmem-server, opensearch-py, qdrant-client, numpy; BUILD: a build with libtorch)

osmem-server is a server that others wrote to be compatible with OpenSearch; what opensearch-py
gets of it, the engine must get too. qdrant-client checks a request with the models of Qdrant's
OpenAPI description and answers it by its local mode, which a few lines here put behind HTTP.
Neither is the server itself."""
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from os.path import abspath, dirname, join

import numpy as np
from opensearchpy import OpenSearch as Client
from osmem_server import OsmemServer
from qdrant_client import QdrantClient, models

ROOT = join(dirname(abspath(__file__)), "..", "..")
os.environ["SR1_LIBRARY"] = join(sys.argv[1], "lib", "abi", "libsearchr1.so.0")
sys.path.insert(0, join(ROOT, "bindings", "python"))

import searchr1  # noqa: E402

WORDS = "tower lighthouse harbour bridge castle river painter novel island engine".split()
QUICK = {"retries": 0, "timeout_s": 20.0}


def make_documents(n=200):
    rng = np.random.default_rng(7)
    return [{"title": WORDS[i % 10], "text": " ".join(rng.choice(WORDS, 12)) + f" {i}"}
            for i in range(n)]


def check_opensearch(documents):
    with OsmemServer.start() as server:
        client = Client(hosts=[server.url])
        client.indices.create(index="wiki", body={"mappings": {"properties": {
            "title": {"type": "text"}, "text": {"type": "text"}}}})
        client.bulk(body="".join(
            json.dumps({"index": {"_index": "wiki", "_id": str(i)}}) + "\n" +
            json.dumps(d) + "\n" for i, d in enumerate(documents)), refresh=True)
        compared = 0
        for fields in ("text", "title^2,text"):
            names = fields.split(",")
            queries = WORDS + ["old bridge island", "nothing of that", "7"]
            with searchr1.OpenSearch(server.url + "/wiki", fields=fields, **QUICK) as engine:
                results = engine.run(queries, top_k=5)
                assert engine.counters["requests"] == 2  # opening, and the batch
            for query, result in zip(queries, results):
                match = ({"match": {names[0]: query}} if len(names) == 1 else
                         {"multi_match": {"query": query, "fields": names}})
                hits = client.search(index="wiki", body={"size": 5, "query": match})
                want = [(h["_id"], h["_score"]) for h in hits["hits"]["hits"]]
                assert [(h.id, h.score) for h in result.hits] == want, (query, want)
                for h in result.hits:
                    d = documents[int(h.id)]
                    assert h.contents == "\n".join(d[f.split("^")[0]] for f in names)
                compared += len(want)
        for url, fields, says in (("/wiki", "contents", "no document of the index"),
                                  ("/nope", "text", "no such index")):
            try:
                searchr1.OpenSearch(server.url + url, fields=fields, **QUICK)
                raise AssertionError(url)
            except searchr1.errors.Error as e:
                assert says in str(e), e
    return compared


class Local(BaseHTTPRequestHandler):
    """points/query/batch and GET of a collection by qdrant-client's local mode."""

    def answer(self, code, result):
        text = json.dumps({"result": result, "status": "ok", "time": 0.001}).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        name = self.path.split("/")[2]
        self.answer(200, self.server.client.get_collection(name).model_dump(mode="json"))

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        batch = models.QueryRequestBatch.model_validate_json(body)  # extra members: an error
        _, _, name, *path = self.path.split("/")
        assert path == ["points", "query", "batch"], path
        found = self.server.client.query_batch_points(name, batch.searches)
        self.answer(200, [r.model_dump(mode="json") for r in found])

    def log_message(self, *arguments):
        pass


def check_qdrant(documents):
    rng = np.random.default_rng(8)
    vectors = rng.normal(size=(len(documents), 16)).astype(np.float32)
    queries = [f"query {i}" for i in range(20)]
    asked = {q: rng.normal(size=16).astype(np.float32) for q in queries}
    embedder = searchr1.PythonEmbedder(lambda texts, kind: [asked[t] for t in texts], dim=16)
    client = QdrantClient(":memory:")
    http = ThreadingHTTPServer(("127.0.0.1", 0), Local)
    http.client = client
    threading.Thread(target=http.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{http.server_address[1]}/collections/"
    compared = 0
    for distance in ("Dot", "Cosine", "Euclid", "Manhattan"):
        for vector in ("", "dense"):
            name = f"{distance}-{vector}"
            size = models.VectorParams(size=16, distance=models.Distance(distance))
            client.create_collection(name, vectors_config={vector: size} if vector else size)
            client.upsert(name, [models.PointStruct(
                id=i, payload=dict(d, doc=f"d{i}"),
                vector={vector: v.tolist()} if vector else v.tolist())
                for i, (d, v) in enumerate(zip(documents, vectors))])
            with searchr1.Qdrant(url + name, embedder, vector=vector or None,
                                 fields="title,text", id_field="doc", **QUICK) as engine:
                results = engine.run(queries, top_k=4)
            for query, result in zip(queries, results):
                v = asked[query]
                score = {"Dot": vectors @ v, "Cosine": vectors @ v / np.linalg.norm(v) /
                         np.linalg.norm(vectors, axis=1),
                         "Euclid": -np.linalg.norm(vectors - v, axis=1),
                         "Manhattan": -np.abs(vectors - v).sum(1)}[distance]
                best = np.argsort(-score)[:4]
                assert [h.id for h in result.hits] == [f"d{i}" for i in best], (name, query)
                assert np.allclose([h.score for h in result.hits], score[best], atol=1e-4)
                assert [h.contents for h in result.hits] == [
                    documents[i]["title"] + "\n" + documents[i]["text"] for i in best]
                compared += 4
    http.shutdown()
    return compared


if __name__ == "__main__":
    rows = make_documents()
    print("opensearch: %d hits are those of opensearch-py" % check_opensearch(rows))
    print("qdrant: %d hits are the nearest" % check_qdrant(rows))
