#!/usr/bin/env python3
"""Write kl.jsonl: divergences by token, their derivatives, and the exact one over a
vocabulary, by numpy (values in extended precision where their terms cancel) and, for the
derivatives, by central differences of the value in extended precision.

    make_kl_vectors.py > kl.jsonl
"""
import json

import numpy as np

WIDE = np.longdouble


def value(kind, new, ref):
    d = new - ref
    if kind in ("k1", "kl"):
        return d
    if kind == "abs":
        return np.abs(d)
    if kind in ("k2", "mse"):
        return d * d / 2
    if kind == "k3":
        return np.expm1(-d) + d
    e = np.clip(-d, -20, 20)
    return np.clip(np.expm1(e) - e, -10, 10)


def slope(kind, new, ref):
    h = WIDE(1e-6)
    return (value(kind, new + h, ref) - value(kind, new - h, ref)) / (2 * h)


def full(new, ref):
    p = np.exp(new)
    return np.sum(p * (new - ref), axis=-1)


def main():
    rng = np.random.default_rng(20261123)
    for kind in ("k1", "kl", "abs", "k2", "mse", "k3", "low_var_kl"):
        for scale in (1e-3, 0.3, 3.0, 25.0):
            new = -np.abs(rng.normal(size=12)) * 3
            ref = new - rng.normal(size=12) * scale
            wide = new.astype(WIDE), ref.astype(WIDE)
            print(json.dumps({
                "kind": kind, "new": new.tolist(), "ref": ref.tolist(),
                "kl": [float(x) for x in value(kind, *wide)],
                "slope": [float(x) for x in slope(kind, *wide)],
            }))
    for vocab in (1, 2, 7, 40):
        z, y = rng.normal(size=(2, 3, vocab)).astype(WIDE) * 2

        def log_softmax(x):
            return x - np.log(np.sum(np.exp(x), axis=-1, keepdims=True))

        gradient = np.zeros_like(z)
        h = WIDE(1e-6)
        for v in range(vocab):
            up, down = z.copy(), z.copy()
            up[:, v] += h
            down[:, v] -= h
            gradient[:, v] = (full(log_softmax(up), log_softmax(y))
                              - full(log_softmax(down), log_softmax(y))) / (2 * h)
        p, q = log_softmax(z), log_softmax(y)
        row = {"new": p, "ref": q, "kl": full(p, q), "slope": gradient}
        print(json.dumps({"kind": "full", "vocab": vocab}
                         | {k: [float(x) for x in v.ravel()] for k, v in row.items()}))


if __name__ == "__main__":
    main()
