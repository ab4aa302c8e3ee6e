"""Write loss.jsonl: the GRPO objective and its gradient, computed with numpy in float64.

    sum_i w_i * [-min(r A, clip(r, 1 - low, 1 + high) A) + beta * k3]
    r = exp(clamp(new - old)),  k3 = exp(e) - e - 1, e = ref - new, its tangent above 20

Usage: python3 make_loss_vectors.py > loss.jsonl
"""
import json

import numpy as np

LIMIT = 20.0


def grpo(new, old, ref, adv, w, low, high, beta):
    d = new - old
    live = np.abs(d) < LIMIT
    r = np.exp(np.clip(d, -LIMIT, LIMIT))
    plain, bounded = r * adv, np.clip(r, 1 - low, 1 + high) * adv
    clipped = bounded < plain
    policy = -np.minimum(plain, bounded)
    d_policy = np.where(clipped | ~live, 0.0, -r * adv)
    e = ref - new
    touch = np.minimum(e, LIMIT)
    d_k3 = 1 - np.exp(touch)
    k3 = np.exp(touch) - touch - 1 - d_k3 * (e - touch)
    return {
        "gradient": w * (d_policy + beta * d_k3),
        "loss": np.sum(w * (policy + beta * k3)),
        "policy_loss": np.sum(w * policy),
        "kl": np.sum(w * k3),
        "clip_fraction": np.sum(w * clipped),
        "approx_kl": -np.sum(w * d),
        "ratio_max": np.max(r),
        "log_ratio_max": np.max(np.abs(d)),
    }


def main():
    rng = np.random.default_rng(7)
    for case in range(40):
        n = int(rng.integers(1, 40))
        spread = [0.01, 0.3, 2.0, 30.0][case % 4]
        low, high = [(0.2, 0.2), (0.2, 0.28), (0.0, 0.0), (0.9, 5.0)][case // 4 % 4]
        beta = [0.0, 0.1, 1.0][case % 3]
        old = -np.abs(rng.normal(size=n) * 3)
        given = {
            "new": old + rng.normal(size=n) * spread,
            "old": old,
            "ref": old + rng.normal(size=n) * spread,
            "advantage": rng.normal(size=n),
            "weight": rng.random(size=n) / n,
        }
        given = {k: v.astype(np.float32) for k, v in given.items()}
        as64 = {k: v.astype(np.float64) for k, v in given.items()}
        out = grpo(as64["new"], as64["old"], as64["ref"], as64["advantage"],
                   as64["weight"], low, high, beta)
        row = {k: [float(x) for x in v] for k, v in given.items()}
        row |= {"low": low, "high": high, "beta": beta}
        row |= {k: [float(x) for x in v] if np.ndim(v) else float(v)
                for k, v in out.items()}
        print(json.dumps(row))


if __name__ == "__main__":
    main()
