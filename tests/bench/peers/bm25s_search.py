"""bm25s with its numba backend over the folder of bench_passages: the peer of
bench_search.c. It gets the tokens; cutting the texts into them is not counted.

usage: bm25s_search.py FOLDER"""
import json
import os
import resource
import sys
import time

os.environ["NUMBA_NUM_THREADS"] = "1"

import bm25s  # noqa: E402
import numba  # noqa: E402


def read(folder):
    """(corpus as lists of ids, vocabulary, questions as lists of words)"""
    vocab = {}
    corpus = []
    with open(f"{folder}/corpus.jsonl", encoding="utf-8") as rows:
        for row in rows:
            words = json.loads(row)["contents"].split()
            corpus.append([vocab.setdefault(word, len(vocab)) for word in words])
    with open(f"{folder}/questions.txt", encoding="utf-8") as lines:
        return corpus, vocab, [line.split() for line in lines]


def main(folder):
    corpus, vocab, questions = read(folder)
    versions = [bm25s.__version__, numba.__version__]
    model = bm25s.BM25(method="lucene", k1=0.9, b=0.4, backend="numba")
    began, wall = time.process_time(), time.perf_counter()
    model.index((corpus, vocab), show_progress=False)
    print(json.dumps({
        "what": "search", "event": "build", "passages": len(corpus),
        "build_s": round(time.process_time() - began, 2),
        "build_wall_s": round(time.perf_counter() - wall, 2), "versions": versions,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000}), flush=True)
    known = [[word for word in words if word in vocab] for words in questions]
    model.retrieve(known[:50], k=3, n_threads=1, show_progress=False)  # compiles
    began = time.process_time()
    model.retrieve(known, k=3, n_threads=1, show_progress=False)
    whole = time.process_time() - began
    times = []
    for words in known[:200]:
        began = time.process_time()
        model.retrieve([words], k=3, n_threads=1, show_progress=False)
        times.append(time.process_time() - began)
    times.sort()
    print(json.dumps({
        "what": "search", "event": "ask", "questions": len(known),
        "queries_s": round(len(known) / whole, 1), "p50_us": round(1e6 * times[100]),
        "p99_us": round(1e6 * times[198]), "versions": versions}), flush=True)


main(*sys.argv[1:])
