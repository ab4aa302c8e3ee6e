#!/usr/bin/env python3
"""Write estimators.jsonl: what advantage_reference.py (numpy, float64) says of random
ragged batches.

    make_estimator_vectors.py > estimators.jsonl

A line {"batch": arrays} is followed by lines {"estimator", "options", "want": arrays} on
it. null in an array stands for NaN.
"""
import json
import math

import numpy as np
from advantage_reference import (DEFAULTS, estimate, flatten, random_batch,
                                 random_options)


# One number a trajectory: those of its tokens say nothing more.
BY_TRAJECTORY = {"grpo", "dr_grpo", "rloo", "reinforce_plus_plus_baseline", "opo", "gpg",
                 "gdpo", "pass_at_k", "mt_grpo_outcome", "mt_grpo_merged"}


def number(v):
    return None if isinstance(v, float) and math.isnan(v) else v


def short(values):
    return None if values is None else [float(f"{v:.11g}") for v in values]


def main():
    rng = np.random.default_rng(20261122)
    for case in range(14):
        batch = random_batch(rng, case % 7)
        flat = {k: [number(v) for v in values] for k, values in flatten(batch).items()}
        print(json.dumps({"batch": flat}, separators=(",", ":")))
        for name in DEFAULTS:
            options = {} if case < 3 else random_options(rng, name)
            want = estimate(name, batch, options)
            if name in BY_TRAJECTORY:
                del want["token_advantages"]
            row = {"estimator": name, "options": options,
                   "want": {k: short(v) for k, v in want.items() if v is not None}}
            print(json.dumps(row, separators=(",", ":")))


if __name__ == "__main__":
    main()
