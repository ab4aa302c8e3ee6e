#!/usr/bin/env python3
"""Write validation_figures.jsonl: what several answers to one question are worth together,
by verl's process_validation_metrics.

    make_validation_vectors.py > validation_figures.jsonl   (peer_sources.py: what it needs)

A row has the answers' "values" and normalised texts ("votes"), and verl's "figures". Those
of rows that are "exact" are verl's own functions over every draw there is, in place of its
1,000 random ones; those of other rows are verl's numbers as they are.
"""
import collections
import functools
import itertools
import json
import typing

import numpy as np
from peer_sources import VERL, functions

FILE = "trainer/ppo/metric_utils.py"
NAMES = ["bootstrap_metric", "calc_maj_val", "process_validation_metrics"]


class EveryDraw:
    """numpy, whose random.choice gives every draw of that size once."""
    def __init__(self):
        self.random = self

    def seed(self, seed):
        pass

    def choice(self, n, size, replace):
        assert replace and size[0] == n ** size[1]
        return np.array(list(itertools.product(range(n), repeat=size[1])))

    def __getattr__(self, name):
        return getattr(np, name)


def metric_utils(module):
    return functions("verl", FILE, NAMES, np=module, defaultdict=collections.defaultdict,
                     partial=functools.partial, Any=typing.Any, Callable=typing.Callable)


PLAIN, EXACT = metric_utils(np), metric_utils(EveryDraw())


def verl_figures(values, votes):
    n = len(values)
    found = PLAIN.process_validation_metrics(
        ["source"] * n, ["question"] * n, {"reward": values, "pred": votes})
    return dict(found["source"]["reward"])


def exact_figures(values, votes):
    figures = {name: v for name, v in verl_figures(values, votes).items()
               if name.startswith(("mean", "std"))}
    n, answers = len(values), [{"val": v, "pred": p} for v, p in zip(values, votes)]
    vote = functools.partial(EXACT.calc_maj_val, vote_key="pred", val_key="val")
    for k in sorted({2 ** i for i in range(1, 8) if 2 ** i < n} | {n} - {1}):
        of_values = EXACT.bootstrap_metric(values, k, [np.max, np.min], n_bootstrap=n ** k)
        of_votes = EXACT.bootstrap_metric(answers, k, [vote], n_bootstrap=n ** k)
        for name, (mean, std) in zip(["best", "worst", "maj"], of_values + of_votes):
            figures[f"{name}@{k}/mean"], figures[f"{name}@{k}/std"] = mean, std
    return figures


def make_row(rng, n, n_votes, exact):
    right = rng.random(n) < 0.4
    values = [float(v) for v in (right if rng.random() < 0.5 else np.round(rng.normal(size=n), 3))]
    votes = [f"answer {i}" for i in rng.integers(0, n_votes, n)]
    figures = (exact_figures if exact else verl_figures)(values, votes)
    return {"by": VERL, "exact": exact, "values": values, "votes": votes, "figures": figures}


def main():
    rng = np.random.default_rng(42)
    for n in [1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 6, 6, 6]:
        print(json.dumps(make_row(rng, n, int(rng.integers(1, n + 1)), True)))
    for n in [8, 8, 8, 12, 16, 16, 32, 64]:
        print(json.dumps(make_row(rng, n, int(rng.integers(2, n // 2 + 1)), False)))


if __name__ == "__main__":
    main()
