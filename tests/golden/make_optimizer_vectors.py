#!/usr/bin/env python3
"""Write adamw.jsonl: steps of torch.optim.AdamW behind torch's clip_grad_norm_, in float64.

    make_optimizer_vectors.py > adamw.jsonl   (pip install torch numpy)

The first line has the settings and where the weights begin: a matrix, which decays, and a
vector, which does not. Each other line is a step: the gradients that were summed over
`batches`, the rate, the largest norm (0: it is not clipped), the norm that was found, and
the weights behind the step.
"""
import json

import numpy as np
import torch

BATCHES, N = 4, 12
SETTINGS = {"betas": [0.9, 0.98], "eps": 1e-8, "weight_decay": 0.1}


def draw(rng):
    return rng.normal(size=N).astype(np.float32).astype(float).tolist()


def main():
    rng = np.random.default_rng(20261127)
    start = {"matrix": draw(rng), "vector": draw(rng)}
    print(json.dumps({**SETTINGS, "batches": BATCHES, **start}))
    weights = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True)
               for k, v in start.items()}
    optimizer = torch.optim.AdamW(
        [{"params": [weights["matrix"]]}, {"params": [weights["vector"]], "weight_decay": 0.0}],
        betas=SETTINGS["betas"], eps=SETTINGS["eps"], weight_decay=SETTINGS["weight_decay"])
    for step in range(1, 21):
        lr, most = 0.01 * step, [0.0, 0.5, 0.0, 100.0][step % 4]
        grads = {k: draw(rng) for k in weights}
        for k, w in weights.items():
            w.grad = torch.tensor(grads[k], dtype=torch.float64) / BATCHES
        norm = torch.nn.utils.clip_grad_norm_(weights.values(), most or float("inf"))
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
        print(json.dumps({"lr": lr, "max_norm": most, "grads": grads, "norm": norm.item(),
                          "want": {k: w.tolist() for k, w in weights.items()}}))


if __name__ == "__main__":
    main()
