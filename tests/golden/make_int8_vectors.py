#!/usr/bin/env python3
"""Write int8.jsonl: matrices quantised by rows, and products with them, by numpy in float64.

    make_int8_vectors.py > int8.jsonl

The formula is that of LLM.int8() (Dettmers et al. 2022, section 2.1) with one scale for each
row: q = round(127 w / max |w|), and w is read back as q max |w| / 127.
"""
import json

import numpy as np


def quantise(w):
    most = np.abs(w).max(axis=1, keepdims=True)
    safe = np.where(most == 0, 1, most)
    return np.rint(127 * w / safe), most / 127


def case(name, w, rng):
    w = w.astype(np.float32)
    x = rng.standard_normal((3, w.shape[1])).astype(np.float32)
    q, scale = quantise(w.astype(np.float64))
    y = x.astype(np.float64) @ (q * scale).T
    print(json.dumps({"case": name, "shape": w.shape, "w": w.ravel().tolist(),
                      "q": q.astype(int).ravel().tolist(), "scale": scale.ravel().tolist(),
                      "x": x.ravel().tolist(), "y": y.ravel().tolist()}))


def main():
    rng = np.random.default_rng(7)
    case("normal", rng.standard_normal((5, 16)) * 0.02, rng)
    wide = rng.standard_normal((4, 24))
    wide[1, 3] = 60  # an outlier takes the row's resolution
    case("outlier", wide, rng)
    zero = rng.standard_normal((3, 8)) * 1e-6
    zero[1] = 0
    case("zeros", zero, rng)
    # 127 w / max |w| is k + 1/2: halves go to the even number
    case("halves", np.array([[127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5]]), rng)
    case("one", np.array([[-3.0], [4.0]]), rng)


main()
