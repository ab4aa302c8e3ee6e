#!/usr/bin/env python3
"""FAISS loads what this library builds, and finds the same.

    python3 tests/interop/check_faiss_indexes.py SR1_SEARCH     (numpy, faiss-cpu)

Each kind of index is built from tests/golden/faiss/vectors.f32; FAISS reads it, has all
vectors, and finds for each of them what numpy finds, exactly or nearly by kind."""
import os
import subprocess
import sys
import tempfile

import faiss
import numpy as np

VECTORS = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "golden", "faiss", "vectors.f32"
)
DIM = 8
# kind: how far a score may be from that of the vector itself
KINDS = {"Flat": 1e-5, "IVF4,Flat": 1e-5, "HNSW8": 1e-5, "SQ8": 0.2, "SQfp16": 0.01,
         "IVF2,SQ8": 0.2, "HNSW8,SQ8": 0.2, "PQ8x5": 1.5, "IVF2,PQ8x5": 1.5}


def check(tool, kind, metric, off, folder):
    path = os.path.join(folder, "index")
    subprocess.run([tool, "index", "--quiet", "--factory", kind, "--metric", metric,
                    "--dim", str(DIM), VECTORS, path], check=True)
    vectors = np.fromfile(VECTORS, "f4").reshape(-1, DIM)
    index = faiss.read_index(path)
    again = os.path.join(folder, "again")
    faiss.write_index(index, again)
    same = open(path, "rb").read() == open(again, "rb").read()
    assert index.ntotal == len(vectors) and index.d == DIM
    if kind.startswith("IVF"):
        index.nprobe = index.nlist
    if kind.startswith("HNSW"):
        index.hnsw.efSearch = 64
    found, ids = index.search(vectors, 10)
    if metric == "l2":
        scores = ((vectors[:, None] - vectors[None]) ** 2).sum(-1)
    else:
        scores = vectors @ vectors.T
    assert (ids >= 0).all()
    worst = np.abs(np.take_along_axis(scores, ids, 1) - found).max()
    assert worst <= off, (kind, metric, worst)
    if off < 1e-4:
        best = np.sort(scores if metric == "l2" else -scores, 1)[:, :10]
        assert np.allclose(best, found if metric == "l2" else -found, atol=1e-5)
    print(f"{kind:12} {metric:14} off by {worst:.2g}; written again by FAISS: "
          f"{'the same bytes' if same else 'other bytes'}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for kind, off in KINDS.items():
            for metric in ("inner_product", "l2"):
                check(sys.argv[1], kind, metric, off, folder)


main()
