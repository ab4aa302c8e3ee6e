#!/usr/bin/env python3
"""Write the index files in faiss/ and faiss/answers.json: what FAISS itself answers.

    make_faiss_indexes.py        (numpy, faiss-cpu 1.15.1)

40 vectors of 8 numbers, learned on 300; 6 queries, the 10 nearest of each. Every answer is
[ids, scores], scores as this library has them: inner products, or minus squared distances.
vectors.f32 holds the 40 vectors. The last files are of kinds that are refused."""
import json
import os

import faiss
import numpy as np

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "faiss")
DIM, N, K = 8, 40, 10
METRICS = {"ip": faiss.METRIC_INNER_PRODUCT, "l2": faiss.METRIC_L2}
# factory, metrics, nprobe, ef_search
CASES = [
    ("Flat", "ip l2", 0, 0),
    ("IVF4,Flat", "ip l2", 2, 0),
    ("IVF4_HNSW4,Flat", "ip", 3, 0),
    ("HNSW4", "ip l2", 0, 64),
    ("HNSW4,SQ8", "l2", 0, 64),
    ("HNSW4,PQ4x4", "l2", 0, 64),
    ("PQ4x4", "ip l2", 0, 0),
    ("PQ2", "ip", 0, 0),
    ("IVF4,PQ4x4", "ip l2", 2, 0),
    ("IVF4,PQ2", "l2", 2, 0),
    ("SQ8", "ip l2", 0, 0),
    ("SQ6", "ip", 0, 0),
    ("SQ4", "l2", 0, 0),
    ("SQfp16", "ip", 0, 0),
    ("IVF4,SQ8", "ip", 2, 0),
    ("IVF4,SQfp16", "l2", 2, 0),
    ("IDMap,Flat", "ip", 0, 0),
    ("IDMap2,IVF4,Flat", "l2", 3, 0),
    ("OPQ4_8,IVF4,PQ4x4", "ip", 3, 0),
    ("PCA4,Flat", "l2", 0, 0),
    ("RR8,HNSW4", "ip", 0, 64),
    ("L2norm,Flat", "ip", 0, 0),
]
REFUSED = [("PQ4x4fs", "l2"), ("LSH", "l2"), ("IVF4,PQ4x4fs", "ip"), ("Flat,RFlat", "ip")]


def make(factory, metric, learn, base):
    index = faiss.index_factory(DIM, factory, METRICS[metric])
    index.train(learn)
    if factory.startswith("IDMap"):
        index.add_with_ids(base, np.arange(len(base))[::-1].copy())
    else:
        index.add(base)
    name = f"{factory.replace(',', '-')}.{metric}.faiss"
    faiss.write_index(index, os.path.join(FOLDER, name))
    return index, name


def tune(index, nprobe, ef_search):
    if nprobe:
        faiss.extract_index_ivf(index).nprobe = nprobe
    if ef_search:
        while not isinstance(index, faiss.IndexHNSW):
            index = faiss.downcast_index(index.index)
        index.hnsw.efSearch = ef_search


def main():
    rng = np.random.default_rng(20)
    learn, base, queries = (
        rng.standard_normal((n, DIM)).astype(np.float32) for n in (300, N, 6)
    )
    os.makedirs(FOLDER, exist_ok=True)
    base.tofile(os.path.join(FOLDER, "vectors.f32"))
    cases = []
    for factory, metrics, nprobe, ef_search in CASES:
        for metric in metrics.split():
            index, name = make(factory, metric, learn, base)
            tune(index, nprobe, ef_search)
            scores, ids = index.search(queries, K)
            sign = 1.0 if metric == "ip" else -1.0
            answers = [
                [[i for i in row.tolist() if i >= 0], [sign * s for s, i in zip(r, row) if i >= 0]]
                for row, r in zip(ids, scores.astype(float).tolist())
            ]
            cases.append({"file": name, "nprobe": nprobe, "ef_search": ef_search,
                          "answers": answers})
    refused = [make(factory, metric, learn, base)[1] for factory, metric in REFUSED]
    with open(os.path.join(FOLDER, "answers.json"), "w") as f:
        json.dump({"queries": [[float(x) for x in q] for q in queries], "cases": cases,
                   "refused": refused}, f, separators=(",", ":"))
        f.write("\n")


main()
