#!/usr/bin/env python3
"""Write advantage.txt: group advantages and k3 means by numpy in float64.

    make_advantage_vectors.py > advantage.txt

Lines: "group N EPS r1..rN a1..aN" (population std) and "k3 N old1..oldN new1..newN mean".
Where k3's terms cancel, numpy's own rounding is larger than the tolerance of the test, so
its mean is computed in extended precision (np.longdouble) and rounded once. Differences
are at most 20, where k3 is Schulman's formula without a bound.
"""
import numpy as np


def fields(*values):
    return " ".join(repr(float(v)) for v in values)


def main():
    rng = np.random.default_rng(20261121)
    seed_rewards = np.array([-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5])
    for k in range(80):
        n = int(rng.integers(2, 17)) if k < 70 else 200
        kind = k % 4
        if kind == 0:
            r = rng.choice(seed_rewards, n)
        elif kind == 1:
            r = rng.normal(size=n)
        elif kind == 2:
            r = rng.normal(size=n) * 1e6 + 3e5
        else:
            r = np.zeros(n)
            r[int(rng.integers(n))] = 1.0
        if np.all(r == r[0]):
            r[0] += 1.0
        eps = 1e-8 if k % 5 else 1e-6
        a = (r - np.mean(r)) / (np.std(r) + eps)
        print("group", n, fields(eps, *r, *a))
    for k in range(60):
        n = int(rng.integers(1, 40))
        scale = [1e-6, 1e-3, 0.1, 1.0, 10.0, 60.0][k % 6]
        old = -np.abs(rng.normal(size=n)) * 3
        new = old + np.clip(rng.normal(size=n) * scale, -20, 20)
        d = old.astype(np.longdouble) - new.astype(np.longdouble)
        k3 = np.expm1(d) - d
        print("k3", n, fields(*old, *new, np.mean(k3)))


if __name__ == "__main__":
    main()
