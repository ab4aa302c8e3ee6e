"""BM25 from Python on real questions, here and by bm25s with its numba backend: texts in,
documents out, each found document's text read. They take turns; the best and the median
of the rounds, by processor time.

usage: bm25s_questions.py CORPUS QUESTIONS [ROUNDS]   (JSON lines: id, contents; question)"""
import json
import os
import statistics
import sys
import tempfile
import time

os.environ["NUMBA_NUM_THREADS"] = "1"

import bm25s  # noqa: E402
import Stemmer  # noqa: E402

import searchr1  # noqa: E402

TOKENS = {"stopwords": "en", "stemmer": Stemmer.Stemmer("porter"), "show_progress": False}


def read(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def open_ours(corpus):
    with tempfile.TemporaryDirectory() as folder:
        searchr1.build_bm25(corpus, f"{folder}/index")
        return searchr1.Bm25(f"{folder}/index")


def ask_ours(engine, questions, k):
    return sum(len(hit.contents) for r in engine.run(questions, k) for hit in r.hits)


def ask_ours_texts(engine, questions, k):
    return sum(len(text) for r in engine.run(questions, k) for text in r.hits.contents)


def open_theirs(documents):
    model = bm25s.BM25(method="lucene", k1=0.9, b=0.4, backend="numba")
    texts = [document["contents"] for document in documents]
    model.index(bm25s.tokenize(texts, **TOKENS), show_progress=False)
    return model


def ask_theirs(model, documents, questions, k):
    found, _ = model.retrieve(
        bm25s.tokenize(questions, **TOKENS), k=k, corpus=documents, n_threads=1,
        show_progress=False)
    return sum(len(document["contents"]) for row in found for document in row)


def main(corpus, questions_path, rounds="6"):
    documents = read(corpus)
    questions = [row["question"] for row in read(questions_path)]
    engine, model = open_ours(corpus), open_theirs(documents)
    for k in (10, 3):
        cases = {
            "here": lambda: ask_ours(engine, questions, k),
            "here, texts": lambda: ask_ours_texts(engine, questions, k),
            "bm25s": lambda: ask_theirs(model, documents, questions, k),
        }
        times = {name: [] for name in cases}
        for i in range(int(rounds) + 1):  # the first fills caches and compiles
            for name, ask in cases.items():
                began = time.process_time()
                ask()
                times[name] += [time.process_time() - began] if i else []
        for name, seconds in times.items():
            print(json.dumps({
                "what": "search", "event": "questions", "who": name, "k": k,
                "questions": len(questions),
                "best_queries_s": round(len(questions) / min(seconds)),
                "median_queries_s": round(len(questions) / statistics.median(seconds)),
                "version": bm25s.__version__ if name == "bm25s" else searchr1.version()}))


main(*sys.argv[1:])
