#!/usr/bin/env python3
"""Write kl.jsonl: divergences by token and their derivatives, by the code of verl and TRL and
torch's autograd in float64; and the exact divergence over a vocabulary, by its definition
with numpy (derivatives by central differences in extended precision).

    pip install --no-deps verl==0.9.1 trl==1.16.0; pip install torch numpy
    make_kl_vectors.py > kl.jsonl

The two packages are not imported (they need many others): verl's kl_penalty and the
expression that TRL assigns to per_token_kl are cut out of their sources and executed.
verl calls its bounded estimate both k3 and low_var_kl; here that is low_var_kl, and k3 is
TRL's, without a bound, for differences of at most 20.
"""
import ast
import importlib.metadata
import importlib.util
import json
import pathlib

import numpy as np
import torch

WIDE = np.longdouble
VERL, TRL = (f"{name} {importlib.metadata.version(name)}" for name in ("verl", "trl"))


def source(package, path):
    root = importlib.util.find_spec(package).submodule_search_locations[0]
    return ast.parse(pathlib.Path(root, path).read_text())


def verl_functions():
    names = ("kl_penalty", "kl_penalty_forward")
    body = [n for n in source("verl", "trainer/ppo/core_algos.py").body
            if isinstance(n, ast.FunctionDef) and n.name in names]
    scope = {"torch": torch}
    exec(compile(ast.Module(body, []), "verl", "exec"), scope)
    return scope["kl_penalty"]


def trl_expression():
    for n in ast.walk(source("trl", "trainer/grpo_trainer.py")):
        if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "per_token_kl":
            return compile(ast.Expression(n.value), "trl", "eval")


KL_PENALTY, PER_TOKEN_KL = verl_functions(), trl_expression()


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


def main():
    rng = np.random.default_rng(20261123)
    for row in token_rows(rng):
        print(json.dumps(row))
    for vocab in (1, 2, 7, 40):
        print(json.dumps(vocabulary_row(rng, vocab)))


if __name__ == "__main__":
    main()
