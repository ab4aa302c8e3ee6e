#!/usr/bin/env python3
"""Write kl.jsonl: divergences by token and their derivatives, by the code of verl and TRL and
torch's autograd in float64; and the exact divergence over a vocabulary, by its definition
with numpy (derivatives by central differences in extended precision).

    make_kl_vectors.py > kl.jsonl      (peer_sources.py: what it needs)

verl calls its bounded estimate both k3 and low_var_kl; here that is low_var_kl, and k3 is
TRL's, without a bound, for differences of at most 20. The row "controller" is verl's adaptive
controller: the coefficient after each update. Rows with "lengths" are batches of sequences by
verl's apply_kl_penalty: the rewards of their tokens, the KL of the batch, and the coefficient
that the controller makes of it.
"""
import json
import types

import numpy as np
import torch
from peer_sources import TRL, VERL, functions, value_of

WIDE = np.longdouble
CORE = functions("verl", "trainer/ppo/core_algos.py",
                 ["kl_penalty", "kl_penalty_forward", "AdaptiveKLController"], np=np)
KL_PENALTY = CORE.kl_penalty
MASKED_MEAN = functions("verl", "utils/torch_functional.py", ["masked_mean", "masked_sum"])
APPLY = functions("verl", "trainer/ppo/ray_trainer.py", ["apply_kl_penalty"], DataProto=object,
                  core_algos=CORE, masked_mean=MASKED_MEAN.masked_mean).apply_kl_penalty
PER_TOKEN_KL = value_of("trl", "trainer/grpo_trainer.py", "per_token_kl")


def by_verl(kind):
    return lambda new, ref: KL_PENALTY(new, ref, kind)


def by_trl(new, ref):
    return eval(PER_TOKEN_KL, {"torch": torch, "per_token_logps": new,
                               "ref_per_token_logps": ref})


def by_both(new, ref):
    """TRL's value with the gradient that verl's '+' takes."""
    straight = KL_PENALTY(new, ref, "k1+")
    return by_trl(new, ref).detach() + straight - straight.detach()


def token_row(kind, code, package, new, ref):
    new = torch.tensor(new, dtype=torch.float64, requires_grad=True)
    ref = torch.tensor(ref, dtype=torch.float64)
    kl = code(new, ref)
    kl.sum().backward()
    return {"kind": kind, "by": package, "new": new.tolist(), "ref": ref.tolist(),
            "kl": kl.tolist(), "slope": new.grad.tolist()}


def token_rows(rng):
    rows = [(k, by_verl(k), VERL) for k in ("k1", "kl", "abs", "k2", "mse", "low_var_kl",
                                            "k1+", "abs+", "low_var_kl+")]
    rows += [("k3", by_trl, TRL), ("k3+", by_both, f"{TRL}, {VERL}")]
    for kind, code, package in rows:
        for scale in (1e-3, 0.3, 3.0, 25.0):
            new = -np.abs(rng.normal(size=12)) * 3
            d = rng.normal(size=12) * scale
            if kind.startswith("k3"):
                d = np.clip(d, -20, None)
            yield token_row(kind, code, package, new, new - d)


def full(new, ref):
    p = np.exp(new)
    return np.sum(p * (new - ref), axis=-1)


def log_softmax(x):
    return x - np.log(np.sum(np.exp(x), axis=-1, keepdims=True))


def vocabulary_row(rng, vocab):
    z, y = rng.normal(size=(2, 3, vocab)).astype(WIDE) * 2
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
    return {"kind": "full", "vocab": vocab} | {
        k: [float(x) for x in v.ravel()] for k, v in row.items()}


def controller_row(rng):
    control = CORE.AdaptiveKLController(0.2, 6.0, 10000)
    kl, steps = rng.normal(6, 3, 12).tolist(), rng.integers(1, 2000, 12).tolist()
    after = []
    for one, n in zip(kl, steps):
        control.update(one, n)
        after.append(float(control.value))
    return {"kind": "controller", "by": VERL, "coef": 0.2, "target": 6.0, "horizon": 10000,
            "kl": kl, "steps": steps, "after": after}


class Batch(dict):
    """What apply_kl_penalty reads of a TensorDict."""

    @property
    def batch_size(self):
        return self["response_mask"].shape


def penalty_row(rng, kind, target, lengths):
    """Short ones are far from the reference: the mean over tokens is below the target."""
    mask = torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]
    old, moved = (torch.tensor(rng.normal(size=mask.shape)) for _ in range(2))
    old = (-3 * old.abs()).float()
    ref = (old - moved.abs() / torch.tensor(lengths)[:, None].clamp(min=1)).float()
    batch = Batch(response_mask=mask.double(), token_level_scores=torch.zeros(mask.shape),
                  old_log_probs=old.double(), ref_log_prob=ref.double())
    control = CORE.AdaptiveKLController(0.2, target, 1000)
    data, figures = APPLY(types.SimpleNamespace(batch=batch), control, kind)
    row = {"old": old, "ref": ref, "rewards": data.batch["token_level_rewards"]}
    return {"kind": kind, "by": VERL, "lengths": lengths, "coef": 0.2, "target": target,
            "horizon": 1000} | {k: v[mask].tolist() for k, v in row.items()} | {
                "mean": figures["actor/reward_kl_penalty"], "after": float(control.value)}


def main():
    rng = np.random.default_rng(20261123)
    for row in token_rows(rng):
        print(json.dumps(row))
    for vocab in (1, 2, 7, 40):
        print(json.dumps(vocabulary_row(rng, vocab)))
    print(json.dumps(controller_row(rng)))
    for kind, target in (("k1", 0.1), ("low_var_kl", 2e-3)):
        print(json.dumps(penalty_row(rng, kind, target, [1, 40, 0, 7])))


if __name__ == "__main__":
    main()
