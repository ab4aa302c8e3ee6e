#!/usr/bin/env python3
"""A search engine as a program: the lines of a file that have most words of the query.

    sr1-train train.yaml search_engine=program search_program=examples/programs/engine.py

DOCUMENTS names the file; each line is a passage."""
import json
import os
import sys

path = os.environ.get("DOCUMENTS", "README.md")
with open(path, encoding="utf-8") as f:
    passages = [line.strip() for line in f if line.strip()]


def search(query, top_k):
    words = set(query.lower().split())
    scored = [(len(words & set(p.lower().split())), i) for i, p in enumerate(passages)]
    best = sorted(((s, -i) for s, i in scored if s), reverse=True)[:top_k]
    return [{"id": str(-i), "contents": passages[-i], "score": s} for s, i in best]


for line in sys.stdin:
    request = json.loads(line)
    params = request["params"]
    result = [search(query, params["top_k"]) for query in params["queries"]]
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
