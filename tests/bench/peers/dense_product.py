"""The product and top 10 of numpy and torch over as many fp32 vectors as bench_dense.c
has: its peers.

usage: dense_product.py MIB [THREADS]"""
import json
import os
import sys
import time

MIB = int(sys.argv[1])
THREADS = int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count()
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(THREADS)

import numpy  # noqa: E402
import torch  # noqa: E402

DIM, TOP_K, REPEATS = 768, 10, 9


def with_numpy(rows, queries):
    scores = queries @ rows.T
    best = numpy.argpartition(scores, -TOP_K, axis=1)[:, -TOP_K:]
    return numpy.take_along_axis(scores, best, axis=1)


def with_torch(rows, queries):
    return torch.topk(queries @ rows.T, TOP_K, dim=1)


def main():
    torch.set_num_threads(THREADS)
    rng = numpy.random.default_rng(1)
    rows = rng.random(((MIB << 20) // 4 // DIM, DIM), dtype="f4") - 0.5
    for batch in (1, 32):
        queries = rng.random((batch, DIM), dtype="f4") - 0.5
        for who, run, data in (("numpy", with_numpy, (rows, queries)),
                               ("torch", with_torch, tuple(map(torch.from_numpy,
                                                               (rows, queries))))):
            best = float("inf")
            for _ in range(REPEATS):
                began = time.perf_counter()
                run(*data)
                best = min(best, time.perf_counter() - began)
            print(json.dumps({
                "what": "dense", "event": "product", "peer": who, "dtype": "fp32",
                "threads": THREADS, "batch": batch, "documents": len(rows),
                "ms": round(1e3 * best, 2), "queries_s": round(batch / best, 1),
                "gflop_s": round(2e-9 * DIM * len(rows) * batch / best, 1)}), flush=True)


main()
