"""The advantage estimators once more, in numpy and float64, from their papers' formulas.

A batch here is nested, not flat: a list of trajectories, each

    {"group": key, "outcome": r, "baseline": b, "bootstrap": v, "completed": 0 or 1,
     "result_turn": k or -1, "components": [...], "turns": [turn, ...]}
    turn = {"reward": r, "state": key, "tag": -1..3, "confidence": [4], "cost": [4],
            "tokens": [(reward, value), ...], "norms": [...], "gaps": [...]}

so that nothing of the arrays and maps of the C code is used. estimate(name, batch, options)
gives {"advantages": [n], "token_advantages": [T], "returns": [T] or None,
"turn_advantages": [U] or None}. flatten(batch) gives the arrays that the library takes.
"""
import itertools
import math

import numpy as np

COMPONENT_WEIGHTS = [1.0, 0.5, 2.0]  # of every batch here

DEFAULTS = {
    "grpo": {"eps": 1e-8, "divide_by_std": 1, "std_kind": 1, "std_over": 0},
    "dr_grpo": {},
    "rloo": {},
    "reinforce_plus_plus": {"eps": 1e-8, "gamma": 1.0, "whiten": 1},
    "reinforce_plus_plus_baseline": {"eps": 1e-8, "whiten": 1},
    "remax": {"gamma": 1.0},
    "opo": {},
    "gpg": {},
    "gdpo": {"eps": 1e-4, "divide_by_std": 1, "std_kind": 2, "whiten": 1},
    "pass_at_k": {"eps": 1e-6, "divide_by_std": 1, "std_kind": 2, "pass_k": 0},
    "mt_grpo": {"eps": 1e-4, "std_kind": 2, "turn_advantage_coef": 1.0},
    "mt_grpo_turns": {"eps": 1e-4, "std_kind": 2, "turn_advantage_coef": 1.0,
                      "gamma": 1.0},
    "mt_grpo_outcome": {"eps": 1e-4, "std_kind": 2},
    "mt_grpo_merged": {"eps": 1e-4, "std_kind": 2},
    "gigpo": {"eps": 1e-6, "std_kind": 2, "step_advantage_w": 1.0, "step_mode": 1,
              "gamma": 0.95},
    "rlvmr": {"eps": 1e-6, "std_kind": 2, "step_advantage_w": 0.5, "step_mode": 2},
    "rlvcr": {"eps": 1e-6, "divide_by_std": 1, "std_kind": 2, "step_advantage_w": 1.0,
              "step_mode": 1, "thinking_diversity_w": 0.5, "thinking_cost_w": 0.0,
              "thinking_cost_max": 250.0, "multiplicative": 0},
    "gae": {"eps": 1e-8, "gamma": 1.0, "lam": 1.0, "whiten": 1},
    "optimal_token_baseline": {"eps": 1e-8},
    "tir_optimal_token_baseline": {"eps": 1e-8},
}


# ---- parts ----


def token_reward(traj):
    return sum(r for turn in traj["turns"] for r, _ in turn["tokens"])


def turn_reward(traj):
    return sum(turn["reward"] for turn in traj["turns"])


def score(traj):
    return traj["outcome"] + turn_reward(traj) + token_reward(traj)


def normal(values, o, divide):
    values = np.array(values, float)
    if len(values) == 1:
        return values / (1 + o["eps"] if divide else 1) if o["single_raw"] else values * 0
    if np.ptp(values) <= 1e-12 * max(1.0, np.abs(values).max()):
        return values * 0
    moved = values - values.mean()
    ddof = 1 if o["std_kind"] == 2 else 0
    return moved / (values.std(ddof=ddof) + o["eps"]) if divide else moved


def by_group(batch, values, o, divide):
    out = np.zeros(len(batch))
    for key in {t["group"] for t in batch}:
        rows = [i for i, t in enumerate(batch) if t["group"] == key]
        out[rows] = normal([values[i] for i in rows], o, divide)
    return out


def whiten(values, o):
    values = np.array(values, float)
    if len(values) == 0 or np.ptp(values) == 0:
        return values * 0
    return (values - values.mean()) / math.sqrt(values.var(ddof=1) + o["eps"])


def rewards_by_token(traj):
    """The whole reward at tokens: of a turn at its last, of the outcome at the very last."""
    flat = [r for turn in traj["turns"] for r, _ in turn["tokens"]]
    if not flat:
        return flat
    before = 0
    for turn in traj["turns"]:
        before += len(turn["tokens"])
        flat[max(before - 1, 0)] += turn["reward"]
    flat[-1] += traj["outcome"]
    return flat


def returns_of(traj, gamma):
    r = rewards_by_token(traj)
    return [sum(gamma ** (k - t) * r[k] for k in range(t, len(r))) for t in range(len(r))]


def tokens_of(batch, value):
    """value(i, k) at each token of turn k of trajectory i."""
    return [value(i, k) for i, traj in enumerate(batch)
            for k, turn in enumerate(traj["turns"]) for _ in turn["tokens"]]


# ---- estimators: each gives (by trajectory, by token, returns, by turn), None if not ----


def grpo(batch, o):
    scores = [score(t) for t in batch]
    of_batch = o["divide_by_std"] and o["std_over"]
    each = by_group(batch, scores, o, o["divide_by_std"] and not of_batch)
    if of_batch and np.ptp(scores) > 0:
        each /= np.std(scores, ddof=1 if o["std_kind"] == 2 else 0) + o["eps"]
    return each, *[None] * 3


def dr_grpo(batch, o):
    return by_group(batch, [score(t) for t in batch], o, False), *[None] * 3


def rloo(batch, o):
    out = []
    for i, t in enumerate(batch):
        others = [score(x) for j, x in enumerate(batch)
                  if x["group"] == t["group"] and j != i]
        alone = score(t) if o["single_raw"] else 0.0
        out.append(score(t) - np.mean(others) if others else alone)
    return out, *[None] * 3


def reinforce_plus_plus(batch, o):
    returns = [g for t in batch for g in returns_of(t, o["gamma"])]
    return None, whiten(returns, o) if o["whiten"] else returns, returns, None


def reinforce_plus_plus_baseline(batch, o):
    centred = by_group(batch, [score(t) for t in batch], o, False)
    if not o["whiten"]:
        return centred, *[None] * 3
    spread = np.array(tokens_of(batch, lambda i, k: centred[i]))
    if len(spread) == 0 or np.ptp(spread) == 0:
        return centred * 0, *[None] * 3
    scale = math.sqrt(spread.var(ddof=1) + o["eps"])
    return (centred - spread.mean()) / scale, *[None] * 3


def remax(batch, o):
    returns = [g for t in batch for g in returns_of(t, o["gamma"])]
    base = tokens_of(batch, lambda i, k: batch[i]["baseline"])
    return None, np.array(returns) - base, returns, None


def opo(batch, o):
    out = []
    for t in batch:
        rows = [x for x in batch if x["group"] == t["group"]]
        length = np.array([sum(len(u["tokens"]) for u in x["turns"]) for x in rows], float)
        if length.sum() == 0:
            length += 1
        s = np.array([score(x) for x in rows])
        if len(rows) == 1:
            out.append(s[0] if o["single_raw"] else 0.0)
        else:
            out.append(score(t) - (length * s).sum() / length.sum() if np.ptp(s) else 0.0)
    return out, *[None] * 3


def gpg(batch, o):
    groups = {}
    for t in batch:
        groups.setdefault(t["group"], []).append(score(t))
    if o["gpg_nonzero"]:
        found = sum(score(t) != 0 for t in batch)
    else:
        found = sum(len(g) for g in groups.values() if np.ptp(g) > 0)
    centred = by_group(batch, [score(t) for t in batch], o, False)
    return centred * len(batch) / max(found, 1), *[None] * 3


def gdpo(batch, o):
    total = np.zeros(len(batch))
    for c in range(len(batch[0]["components"])):
        part = [t["components"][c] for t in batch]
        total += o["component_weights"][c] * by_group(batch, part, o, o["divide_by_std"])
    if o["whiten"] and len(batch) > 1:
        total = normal(total, o, True)
    return total, *[None] * 3


def pass_at_k(batch, o):
    out = np.zeros(len(batch))
    for key in {t["group"] for t in batch}:
        rows = [i for i, t in enumerate(batch) if t["group"] == key]
        s = {i: score(batch[i]) for i in rows}
        n = len(rows)
        if n == 1:
            continue
        k = min(o["pass_k"] or n, n)
        std = np.std(list(s.values()), ddof=1 if o["std_kind"] == 2 else 0)
        scale = std + o["eps"] if o["divide_by_std"] else 1.0
        for i in rows:
            others = itertools.combinations([j for j in rows if j != i], k - 1)
            gains = [max(s[i] - max(s[j] for j in c), 0.0) for c in others]
            out[i] = np.mean(gains) / (scale or 1.0)
    return out, *[None] * 3


def mt_parts(batch, o):
    turn = by_group(batch, [turn_reward(t) for t in batch], o, True)
    outcome = by_group(batch, [t["outcome"] + token_reward(t) for t in batch], o, True)
    both = by_group(batch, [score(t) for t in batch], o, True)
    return turn, outcome, both


def mt_grpo(batch, o):
    turn, outcome, both = mt_parts(batch, o)

    def at(i, k):
        result = batch[i]["result_turn"]
        if result < 0:
            return both[i]
        return outcome[i] + (o["turn_advantage_coef"] * turn[i] if k <= result else 0)

    return None, tokens_of(batch, at), None, None


def mt_grpo_turns(batch, o):
    _, outcome, _ = mt_parts(batch, o)
    ahead = {(i, k): sum(o["gamma"] ** (j - k) * t["turns"][j]["reward"]
                         for j in range(k, len(t["turns"])))
             for i, t in enumerate(batch) for k in range(len(t["turns"]))}
    part = {}
    for key, k in {(batch[i]["group"], k) for i, k in ahead}:
        places = [(i, j) for i, j in ahead if j == k and batch[i]["group"] == key]
        part.update(zip(places, normal([ahead[p] for p in places], o, True)))
    tokens = tokens_of(batch, lambda i, k: outcome[i]
                       + o["turn_advantage_coef"] * part[i, k])
    return None, tokens, None, [part[p] for p in ahead]


def mt_grpo_outcome(batch, o):
    return mt_parts(batch, o)[1], *[None] * 3


def mt_grpo_merged(batch, o):
    return mt_parts(batch, o)[2], *[None] * 3


def steps(batch, o, episode, value, kind, alone_raw):
    """episode[i] + w * the step's value against the steps of one kind in its group."""
    divide = o["step_mode"] == 2
    places = [(i, k) for i, t in enumerate(batch) for k in range(len(t["turns"]))]
    part = dict.fromkeys(places, 0.0)
    kinds = {p: kind(batch[p[0]]["turns"][p[1]]) for p in places}
    for key, one in {(batch[i]["group"], kinds[i, k]) for i, k in places}:
        if one is None:
            continue
        same = [p for p in places if batch[p[0]]["group"] == key and kinds[p] == one]
        how = dict(o, single_raw=alone_raw)
        part.update(zip(same, normal([value(*p) for p in same], how, divide)))
    tokens = tokens_of(batch, lambda i, k: episode[i] + o["step_advantage_w"] * part[i, k])
    return None, tokens, None, [part[p] for p in places]


def gigpo(batch, o):
    episode = by_group(batch, [score(t) for t in batch], o, o["step_mode"] == 2)

    def own(t, k):
        r = t["turns"][k]["reward"] + sum(r for r, _ in t["turns"][k]["tokens"])
        return r + (t["outcome"] if k == len(t["turns"]) - 1 else 0)

    def ahead(i, k):
        t = batch[i]
        return sum(o["gamma"] ** (j - k) * own(t, j) for j in range(k, len(t["turns"])))

    return steps(batch, o, episode, ahead, lambda turn: turn["state"], 0)


def rlvmr(batch, o):
    outcome = [t["outcome"] + token_reward(t) for t in batch]
    episode = by_group(batch, outcome, o, o["step_mode"] == 2)
    return steps(batch, o, episode, lambda i, k: batch[i]["turns"][k]["reward"],
                 lambda turn: turn["tag"] if turn["tag"] >= 0 else None, o["single_raw"])


def rlvcr(batch, o):
    episode = by_group(batch, [score(t) for t in batch], o, o["divide_by_std"])
    part, neutral = [], 1.0 if o["multiplicative"] else 0.0
    index = {}
    for i, t in enumerate(batch):
        used = [u["tag"] for x in batch if x["group"] == t["group"] for u in x["turns"]
                if u["tag"] >= 0]
        for k, turn in enumerate(t["turns"]):
            c = np.array(turn["confidence"], float)
            if o["thinking_cost_w"]:
                cost = np.array(turn["cost"], float)
                c = c + o["thinking_cost_w"] * (0.5 - cost / o["thinking_cost_max"])
            level, value = turn["tag"], neutral
            if level >= 0 and not np.isnan(c).any() and o["multiplicative"]:
                p = (c - c.min()) / np.ptp(c) if np.ptp(c) > 1e-6 else np.full(4, 0.5)
                value = np.exp(2 * p[level]) / np.exp(2 * p).mean()
            elif level >= 0 and not np.isnan(c).any():
                h = normal(c, o, o["step_mode"] == 2)[level]
                rare = 1 - used.count(level) / len(used)
                value = h * (1 + o["thinking_diversity_w"] * rare)
            index[i, k] = len(part)
            part.append(value)
    if o["multiplicative"]:
        tokens = tokens_of(batch, lambda i, k: episode[i] * part[index[i, k]])
    else:
        tokens = tokens_of(batch, lambda i, k: episode[i]
                           + o["step_advantage_w"] * part[index[i, k]])
    return None, tokens, None, part


def gae(batch, o):
    advantages, returns = [], []
    for t in batch:
        r = rewards_by_token(t)
        v = [value for turn in t["turns"] for _, value in turn["tokens"]]
        v.append(0.0 if t["completed"] else t["bootstrap"])
        delta = [r[k] + o["gamma"] * v[k + 1] - v[k] for k in range(len(r))]
        a = [sum((o["gamma"] * o["lam"]) ** (j - k) * delta[j] for j in range(k, len(r)))
             for k in range(len(r))]
        advantages += a
        returns += [x + y for x, y in zip(a, v)]
    return None, whiten(advantages, o) if o["whiten"] else advantages, returns, None


def places_of(traj):
    """Of each policy token in the response; a gap is text that was inserted before it."""
    gaps = np.array([g for turn in traj["turns"] for g in turn["gaps"]], int)
    return list(np.cumsum(gaps + 1) - 1)


def token_baseline(batch, o, places):
    returns = [returns_of(t, 1.0) for t in batch]
    weights = [np.cumsum([w for turn in t["turns"] for w in turn["norms"]]) for t in batch]
    tokens = []
    for i, t in enumerate(batch):
        rows = [j for j, other in enumerate(batch) if other["group"] == t["group"]]
        second = sorted([-1] + [len(returns[j]) for j in rows if j != i])[-1]
        for k, own in enumerate(returns[i]):
            there = [(returns[j][m], weights[j][m]) for j in rows
                     for m, place in enumerate(places[j]) if place == places[i][k]]
            base = sum(g * w for g, w in there) / (sum(w for _, w in there) + o["eps"])
            alone = len(rows) == 1 or (len(returns[i]) > second and places[i][k] >= second)
            tokens.append(own - (0.0 if alone else base))
    return None, tokens, [g for own in returns for g in own], None


def optimal_token_baseline(batch, o):
    return token_baseline(batch, o, [places_of(t) for t in batch])


def tir_optimal_token_baseline(batch, o):
    return token_baseline(batch, o, [range(len(places_of(t))) for t in batch])


# ---- one call, and the arrays ----


def estimate(name, batch, options=()):
    o = {"single_raw": 0, "gpg_nonzero": 0, "eps": 0.0, "std_kind": 2,
         "component_weights": COMPONENT_WEIGHTS}
    o.update(DEFAULTS[name])
    o.update(options)
    each, tokens, returns, turns = globals()[name](batch, o)
    owner = tokens_of(batch, lambda i, k: i)
    if tokens is None:
        tokens = [each[i] for i in owner]
    else:
        each = [np.mean([a for a, j in zip(tokens, owner) if j == i] or [0.0])
                for i in range(len(batch))]
    as_list = {"advantages": each, "token_advantages": tokens, "returns": returns,
               "turn_advantages": turns}
    return {k: None if v is None else [float(x) for x in v] for k, v in as_list.items()}


def flatten(batch):
    turns = [turn for t in batch for turn in t["turns"]]
    count = lambda t: sum(len(turn["tokens"]) for turn in t["turns"])  # noqa: E731
    return {
        "rewards": [t["outcome"] + turn_reward(t) for t in batch],
        "groups": [t["group"] for t in batch],
        "token_counts": [count(t) for t in batch],
        "turn_counts": [len(t["turns"]) for t in batch],
        "token_turns": tokens_of(batch, lambda i, k: k),
        "turn_rewards": [u["reward"] for u in turns],
        "token_rewards": [r for u in turns for r, _ in u["tokens"]],
        "values": [v for u in turns for _, v in u["tokens"]],
        "bootstrap": [t["bootstrap"] for t in batch],
        "completed": [t["completed"] for t in batch],
        "components": [c for t in batch for c in t["components"]],
        "component_weights": COMPONENT_WEIGHTS,
        "turn_states": [u["state"] for u in turns],
        "turn_tags": [u["tag"] for u in turns],
        "confidences": [c for u in turns for c in u["confidence"]],
        "thinking_costs": [c for u in turns for c in u["cost"]],
        "result_turn": [t["result_turn"] for t in batch],
        "baselines": [t["baseline"] for t in batch],
        "score_norms": [w for u in turns for w in u["norms"]],
        "token_places": [int(p) for t in batch for p in places_of(t)],
    }


def random_batch(rng, kind):
    """A ragged batch with what is rare in it: kind 0 one turn each, 1 rewards all equal,
    2 groups of one, 3 trajectories and turns without tokens, else a bit of everything.
    Decimals are few and values exact in float32."""
    n = int(rng.integers(1, 13)) if kind != 5 else 24
    keys = [7, 2**63 - 1, 12, 3] if kind != 2 else list(range(100, 100 + n))
    batch = []
    for _ in range(n):
        turns = []
        for _ in range(1 if kind == 0 else int(rng.integers(kind != 3, 5))):
            made = [round(-abs(rng.normal()), 3) for _ in range(4)]
            if rng.random() < 0.15:
                made[int(rng.integers(4))] = float("nan")
            few = 0 if kind == 3 else 1
            turns.append({
                "reward": [0.0, 0.2, 0.5, -0.1][int(rng.integers(4))],
                "state": int(rng.integers(3)) + 2**62,
                "tag": int(rng.integers(-1, 4)),
                "confidence": made,
                "cost": [float(rng.integers(0, 300)) for _ in range(4)],
                "tokens": [(round(rng.normal() * 0.1, 3),
                            float(np.float32(round(rng.normal(), 3))))
                           for _ in range(int(rng.integers(few, 4)))],
            })
        if kind == 1:
            for turn in turns:
                turn["reward"] = 0.0
                turn["tokens"] = [(0.0, v) for _, v in turn["tokens"]]
        outcome = 0.5 if kind == 1 else [0.0, 1.0, 2.5, -1.0][int(rng.integers(4))]
        batch.append({
            "group": keys[int(rng.integers(len(keys)))] if kind != 2 else keys.pop(),
            "outcome": outcome,
            "baseline": round(rng.normal(), 3),
            "bootstrap": round(rng.normal(), 3),
            "completed": int(rng.random() < 0.6),
            "result_turn": int(rng.integers(-1, len(turns))) if turns else -1,
            "components": [outcome, round(rng.normal(), 2), 0.25],
            "turns": turns,
        })
    counts = [len(turn["tokens"]) for t in batch for turn in t["turns"]]
    more = np.random.default_rng(counts)  # what came later, with numbers of its own
    for turn, count in zip((turn for t in batch for turn in t["turns"]), counts):
        turn["norms"] = [float(w) for w in more.integers(0, 2048, count) / 1024]
        turn["gaps"] = [int(g) for g in more.integers(0, 6, count) // 3]
    return batch


def random_options(rng, name):
    """Some options of the estimator away from their defaults."""
    choices = {
        "eps": [1e-8, 1e-4, 0.1], "divide_by_std": [0, 1], "std_kind": [1, 2],
        "std_over": [0, 1],
        "single_raw": [0, 1], "gamma": [1.0, 0.9, 0.0], "lam": [1.0, 0.95, 0.0],
        "whiten": [0, 1], "turn_advantage_coef": [1.0, 0.3], "pass_k": [0, 2, 3],
        "step_advantage_w": [1.0, 0.25], "step_mode": [1, 2],
        "thinking_diversity_w": [0.5, 0.0, 2.0], "thinking_cost_w": [0.0, 1.0],
        "thinking_cost_max": [250.0, 100.0], "multiplicative": [0, 1],
    }
    own = set(DEFAULTS[name]) | {"single_raw"}
    picked = {k: v[int(rng.integers(len(v)))] for k, v in choices.items()
              if k in own and rng.random() < 0.5}
    if name == "gpg":
        picked["gpg_nonzero"] = int(rng.integers(2))
    return picked
