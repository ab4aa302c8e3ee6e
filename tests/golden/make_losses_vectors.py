#!/usr/bin/env python3
"""Write losses.jsonl: every policy loss, the weights of every aggregation and the critic's
loss, with gradients, by torch's autograd in float64.

    make_losses_vectors.py > losses.jsonl

Inputs are multiples of 2^-12, exact in float32; weights are rounded to float32 first. A
row {"options": ...} gives the fields of sr1_loss_options that are not 0, "report" the
figures that must come out, "gradient" and "entropy_gradient" the derivatives.
"""
import json

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
LIMIT = 20.0
AGGREGATIONS = ["token-mean", "token-sum", "seq-mean-token-mean", "seq-mean-token-sum",
                "seq-mean-token-sum-norm", "group-mean-token-mean"]
CORRECTIONS = ["none", "token_truncate", "token_mask", "sequence_truncate",
               "sequence_mask"]
KINDS = ["k1", "kl", "abs", "k2", "mse", "k3", "low_var_kl"]
CLIPPED = ["grpo", "ppo", "dapo", "dr_grpo", "gspo", "gspo_token", "luspo"]
OTHERS = ["cispo", "sapo", "vespo", "reinforce"]
LATER = ["geo_mean", "clip_cov", "kl_cov"]
LAST = ["dppo_tv", "dppo_kl", "dro"]


def ratio_of(log_ratio):
    return torch.exp(torch.clamp(log_ratio, -LIMIT, LIMIT))


def spans(begin):
    return [slice(a, b) for a, b in zip(begin[:-1], begin[1:])]


def weights_of(mode, begin, groups, length):
    sizes = np.diff(begin)
    full = sizes > 0
    out = []
    for size, key in zip(sizes, groups):
        out += [{
            "token-mean": lambda: 1 / sizes.sum(),
            "token-sum": lambda: 1.0,
            "seq-mean-token-mean": lambda: 1 / full.sum() / size,
            "seq-mean-token-sum": lambda: 1 / full.sum(),
            "seq-mean-token-sum-norm": lambda: 1 / full.sum() / length,
            "group-mean-token-mean": lambda:
                1 / len(set(groups[full])) / sizes[groups == key].sum(),
        }[mode]() for _ in range(size)]
    return np.array(out).astype(np.float32).astype(np.float64)


def geometric(d, a, o):
    """log-ratios of which GMPO takes the mean, and what holds them."""
    held = {"low": (a < 0) & (d < -o["clip_low"]), "high": (a > 0) & (d > o["clip_high"])}
    d = torch.where(held["low"], -o["clip_low"], torch.where(held["high"], o["clip_high"], d))
    return torch.where(a == 0, 0.0, d), held


def log_ratios(name, d, begin):
    """What each token's ratio is the exponential of."""
    if name not in ("gspo", "gspo_token", "luspo", "vespo", "geo_mean"):
        return d
    parts = []
    for s in spans(begin):
        n = s.stop - s.start
        if n == 0:
            continue
        total = d[s].sum() if name == "vespo" else d[s].mean()
        if name == "gspo_token":
            parts.append(total.detach() + d[s] - d[s].detach())
        else:
            parts.append(total.expand(n))
    return torch.cat(parts)


def policy(name, new, d, a, begin, o, chosen):
    """(loss of each token, its ratio, what holds it)"""
    none = torch.zeros_like(a, dtype=torch.bool)
    held = {"low": none, "high": none, "dual": none}
    if name == "geo_mean":
        d, bounds = geometric(d, a, o)
        held |= bounds
    log_ratio = log_ratios(name, d, begin)
    r = ratio_of(log_ratio)
    if name in CLIPPED:
        bounded = torch.clamp(r, 1 - o["clip_low"], 1 + o["clip_high"])
        capped = torch.clamp(r, max=o["ratio_cap"]) if o.get("ratio_cap") else r
        loss = -torch.min(capped * a, bounded * a)
        won = bounded * a < capped * a
        held = {"low": won & (a < 0), "high": won & (a > 0),
                "dual": ~won & (capped < r)}
        if o.get("dual_clip"):
            limit = -o["dual_clip"] * a
            over = (a < 0) & (loss > limit)
            loss = torch.where(over, limit, loss)
            held = {"low": held["low"] & ~over, "high": held["high"],
                    "dual": held["dual"] | over}
    elif name == "cispo":
        low, high = 1 - o["clip_low"], 1 + o["clip_high"]
        loss = -torch.clamp(r, low, high).detach() * a * new
        held = {"low": r < low, "high": r > high, "dual": none}
    elif name == "sapo":
        tau = torch.where(a > 0, o["tau_positive"], o["tau_negative"])
        loss = -4 / tau * torch.sigmoid(tau * (r - 1)) * a
    elif name == "vespo":
        k = torch.where(a >= 0, o["k_positive"], o["k_negative"])
        lam = torch.where(a >= 0, o["lambda_positive"], o["lambda_negative"])
        w = torch.clamp(log_ratio, -LIMIT, LIMIT)
        phi = torch.exp(lam + k * w - lam * torch.exp(w))
        loss = -phi.detach() * a * new
    elif name.startswith("dppo"):
        p, q = torch.exp(new).detach(), torch.exp(new - d).detach()
        far = p - q
        if name == "dppo_kl":  # of a Bernoulli variable: this token, or another
            far = q * torch.log(q / p) + (1 - q) * torch.log((1 - q + 1e-8) / (1 - p + 1e-8))
            far = far * torch.sign(p - q)
        high, low = (a > 0) & (far > o["clip_high"]), (a <= 0) & (far < -o["clip_low"])
        loss = -torch.clamp(r, max=o["ratio_cap"]).detach() * a * new * ~(low | high)
        held = {"low": low, "high": high, "dual": (r > o["ratio_cap"]) & ~(low | high)}
    elif name == "dro":
        loss = -a * new + o["dro_beta"] / 2 * d ** 2
    elif name == "geo_mean":
        loss = -r * a
    elif name == "clip_cov":
        bounded = torch.clamp(r, 1 - o["clip_low"], 1 + o["clip_high"])
        loss = torch.where(chosen, 0.0, -torch.min(r * a, bounded * a))
        won = ~chosen & (bounded * a < r * a)
        held = {"low": won & (a < 0), "high": won & (a > 0), "dual": chosen}
    elif name == "kl_cov":
        loss = -r * a + torch.where(chosen, o["ppo_kl_coef"] * d.abs(), 0.0)
    else:
        loss = -a * new
    return loss, r.detach(), held


def with_tangent(f, x):
    """f(x) for x > -LIMIT; below, the tangent at -LIMIT, its slope by autograd."""
    at = torch.full_like(x, -LIMIT).requires_grad_()
    slope, = torch.autograd.grad(f(at).sum(), at)
    inside = f(torch.clamp(x, min=-LIMIT))
    return torch.where(x > -LIMIT, inside, f(at).detach() + slope * (x + LIMIT))


def divergence(kind, new, ref):
    straight, kind = kind.endswith("+"), kind.rstrip("+")
    x = new - ref
    if kind in ("k1", "kl"):
        kl = x
    elif kind == "abs":
        kl = x.abs()
    elif kind in ("k2", "mse"):
        kl = x * x / 2
    elif kind == "k3":
        kl = with_tangent(lambda v: torch.expm1(-v) + v, x)
    else:
        bounded = torch.clamp(-x, -LIMIT, LIMIT)
        kl = torch.clamp(torch.exp(bounded) - bounded - 1, -10, 10)
    if straight:
        square = x * x / 2
        kl = square - square.detach() + kl.detach()
    return kl


def importance(given, begin, o):
    """(weights before the cut, what multiplies the loss, cut, dropped off policy)"""
    sampler = given["rollout"]
    log_weight = given["old"] - sampler
    kind = o.get("correction", "none")
    if kind.startswith("sequence"):
        log_weight = torch.cat([log_weight[s].sum().expand(s.stop - s.start)
                                for s in spans(begin)])
    rho = ratio_of(log_weight) if kind != "none" else torch.ones_like(log_weight)
    factor, cut = rho, torch.zeros_like(rho, dtype=torch.bool)
    if kind != "none":
        low, high = o["correction_low"], o["correction_high"]
        cut = (rho > high) | (rho < low)
        factor = (torch.where(cut, 0.0, rho) if kind.endswith("mask")
                  else torch.clamp(rho, min=low, max=high))
    off = torch.zeros_like(cut)
    if o.get("off_policy_delta"):
        for s in spans(begin):
            if s.stop > s.start:
                far = (sampler[s] - given["new"][s]).mean() > o["off_policy_delta"]
                off[s] = far & (given["advantage"][s] < 0)
        factor = torch.where(off, 0.0, factor)
    return rho, factor, cut, off


def losses(name, given, begin, weights, o):
    new = given["new"].clone().requires_grad_()
    entropy = given["entropy"].clone().requires_grad_()
    w, a = torch.tensor(weights), given["advantage"]
    d = new - given["old"]
    rho, factor, cut, off = importance(given, begin, o)
    chosen = given.get("chosen", torch.zeros_like(a)) > 0
    pg, r, held = policy(name, new, d, a, begin, o, chosen)
    kl = divergence(o.get("kl_kind", "k3"), new, given["ref"])
    if o.get("kl_weighted"):
        kl = kl * ratio_of(d)
    total = factor * pg + o.get("beta", 0) * kl - o.get("entropy_coef", 0) * entropy
    loss = (w * total).sum()
    loss.backward()
    report = {
        "loss": loss, "policy_loss": (w * factor * pg).sum(), "kl": (w * kl).sum(),
        "entropy": (w * entropy).sum(), "clip_low_fraction": (w * held["low"]).sum(),
        "clip_high_fraction": (w * held["high"]).sum(),
        "clip_fraction": (w * (held["low"] | held["high"])).sum(),
        "dual_clip_fraction": (w * held["dual"]).sum(), "approx_kl": -(w * d).sum(),
        "ratio_mean": (w * r).sum(), "ratio_max": r.max(), "log_ratio_max": d.abs().max(),
        "importance_mean": (w * rho).sum(), "importance_square": (w * rho * rho).sum(),
        "importance_max": rho.max(), "importance_cut": (w * cut).sum(),
        "off_policy_cut": (w * off).sum(), "weight": w.sum(),
    }
    return report, new.grad, entropy.grad


def numbers(values):
    return [float(f"{float(v):.13g}") for v in values]


def grid(values):
    return np.round(np.asarray(values) * 4096) / 4096


def loss_case(rng, name, k):
    sizes = rng.integers(0, 7, size=int(rng.integers(1, 5)))
    sizes[0] = 1 if k % 3 == 0 else max(1, sizes[0])  # a sequence of one token
    begin = np.concatenate([[0], np.cumsum(sizes)])
    n = int(begin[-1])
    spread = [0.02, 0.3, 1.5, 15.0][k % 4]
    old = grid(-np.abs(rng.normal(size=n)) * 2)
    given = {
        "new": old + grid(rng.normal(size=n) * spread),
        "old": old,
        "ref": old + grid(rng.normal(size=n) * spread),
        "rollout": old + grid(rng.normal(size=n) * [0.1, 0.6][k % 2]),
        "advantage": grid(rng.normal(size=n)) * (rng.random(n) > 0.15),
        "entropy": grid(rng.random(n) * 3),
    }
    if k % 5 == 4:
        given["advantage"] *= 0
    if name in ("clip_cov", "kl_cov"):
        given["chosen"] = (rng.random(n) < 0.3) * 1.0
    o = {"beta": [0.0, 0.25, 1.0][k % 3], "entropy_coef": [0.0, 0.125][k // 2 % 2],
         "kl_kind": KINDS[k % 7] + ["", "+"][k // 7 % 2], "kl_weighted": k // 3 % 2}
    if name == "kl_cov":
        o |= {"kl_cov_ratio": 0.5, "ppo_kl_coef": [1.0, 0.25][k % 2]}
    if name == "clip_cov":
        o |= {"clip_cov_ratio": 0.5, "clip_cov_lb": 1.0, "clip_cov_ub": 5.0}
    if name in CLIPPED + ["cispo", "geo_mean", "clip_cov"]:
        low, high = [(0.2, 0.28), (3e-4, 4e-4), (0.05, 0.1), (1.0, 4.0)][k % 4]
        o |= {"clip_low": low, "clip_high": high}
    if name.startswith("dppo"):
        low, high = [(0.15, 0.15), (0.05, 0.02), (1e-3, 1e-3)][k % 3]
        o |= {"clip_low": low, "clip_high": high, "ratio_cap": [20.0, 1.2][k % 2]}
        given["new"] = np.minimum(given["new"], 0)
    if name == "dro":
        o["dro_beta"] = [0.05, 1.0, 4.0][k % 3]
    if name in CLIPPED:
        o |= {"dual_clip": [0, 3.0, 1.2][k % 3], "ratio_cap": [0, 0, 1.5, 6.0][k % 4]}
    if name == "sapo":
        o |= {"tau_positive": 1.0, "tau_negative": [1.05, 2.5][k % 2]}
    if name == "vespo":
        o |= {"k_positive": 2.0, "lambda_positive": 3.0, "k_negative": 3.0,
              "lambda_negative": 2.0}
    elif k >= 2:
        o["correction"] = CORRECTIONS[k % 5]
        o |= {"correction_low": 0.5, "correction_high": [2.0, 1.2][k % 2]}
    if k % 4 == 2:
        o["off_policy_delta"] = 0.125
    mode, length = AGGREGATIONS[k % 6], 9.0
    groups = rng.integers(0, 2, size=len(sizes))
    weights = weights_of(mode, begin, groups, length)
    tensors = {key: torch.tensor(v) for key, v in given.items()}
    report, gradient, of_entropy = losses(name, tensors, begin, weights, o)
    return {"loss": name, "aggregation": mode, "length": length,
            "groups": groups.tolist(), "seq_begin": begin.tolist(),
            **{key: v.tolist() for key, v in given.items()},
            "weight": weights.tolist(), "options": o,
            "report": {key: float(f"{v.item():.13g}") for key, v in report.items()},
            "gradient": numbers(gradient), "entropy_gradient": numbers(of_entropy)}


def value_case(rng, k):
    n = int(rng.integers(1, 16))
    old = grid(rng.normal(size=n))
    values = old + grid(rng.normal(size=n) * [0.1, 1.0][k % 2])
    returns = grid(rng.normal(size=n) * 2)
    clip = [0.5, 0.2, 0.0][k % 3]
    weights = (rng.random(n) / n).astype(np.float32).astype(np.float64)
    v = torch.tensor(values, requires_grad=True)
    r, w = torch.tensor(returns), torch.tensor(weights)
    plain = (v - r) ** 2
    held = torch.zeros(n, dtype=torch.bool)
    worst = plain
    if clip:
        near = torch.clamp(v, torch.tensor(old) - clip, torch.tensor(old) + clip)
        worst = torch.max(plain, (near - r) ** 2)
        held = (near - r) ** 2 > plain
    loss = (w * worst).sum() / 2
    loss.backward()
    mean = (w * r).sum() / w.sum()
    error = r - v.detach()
    of_error = (w * (error - (w * error).sum() / w.sum()) ** 2).sum()
    of_returns = (w * (r - mean) ** 2).sum()
    explained = 1 - of_error / of_returns if n > 1 else 0.0
    return {"value_loss": float(loss), "clip_range": clip, "values": values.tolist(),
            "old": old.tolist(), "returns": returns.tolist(), "weight": weights.tolist(),
            "clip_fraction": float((w * held).sum()), "explained": float(explained),
            "gradient": numbers(v.grad)}


def main():
    rng = np.random.default_rng(20261121)
    for name in CLIPPED + OTHERS:
        for k in range(8 if name not in ("ppo", "gspo") else 24):
            print(json.dumps(loss_case(rng, name, k)))
    for k in range(12):
        print(json.dumps(value_case(rng, k)))
    for name in LATER + LAST:
        for k in range(12):
            print(json.dumps(loss_case(rng, name, k)))


if __name__ == "__main__":
    main()
