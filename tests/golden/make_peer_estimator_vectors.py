#!/usr/bin/env python3
"""Write peer_estimators.jsonl: advantages and returns by verl's own code, and advantages
by TRL's, of the batches of advantage_reference.py whose trajectories have one turn, and
baselines of tokens, by verl's, of others too.

    make_peer_estimator_vectors.py > peer_estimators.jsonl   (peer_sources.py: what it needs)

The form is that of estimators.jsonl; "by" says what was called. verl gets a padded matrix
with gaps, as observations leave them: what its mask leaves out holds numbers too. TRL gets
groups of one size that follow each other.
"""
import collections
import json
import types
import typing

import numpy as np
import torch
from advantage_reference import (flatten, places_of, random_batch, rewards_by_token,
                                 score)
from peer_sources import TRL, VERL, block_before, functions

torch.set_default_dtype(torch.float64)
MASKED = functions("verl", "utils/torch_functional.py",
                   ["masked_sum", "masked_mean", "masked_var", "masked_whiten"])
TRL_ADVANTAGES = block_before("trl", "trainer/grpo_trainer.py",
                              "_generate_and_score_completions", "advantages")
OUTCOMES = ["grpo", "grpo_passk", "rloo", "opo", "gpg", "reinforce_plus_plus_baseline"]


class Estimators:
    def __getattr__(self, name):
        return name


class Doubles:
    """torch, or numpy, whose float32 is float64: what verl rounds on the way to it is not
    what is compared."""
    def __init__(self, module):
        self.module, self.float32 = module, module.float64

    def __getattr__(self, name):
        return getattr(self.module, name)


def estimators(names, **scope):
    return functions(
        "verl", "trainer/ppo/core_algos.py",
        [f"compute_{name}" for name in names],
        **{"verl_F": MASKED, "np": np, "defaultdict": collections.defaultdict,
           "Optional": typing.Optional, "AlgoConfig": dict,
           "AdvantageEstimator": Estimators(),
           "register_adv_est": lambda name: lambda function: function, **scope})


CORE = estimators(
    ["gae_advantage_return", "reinforce_plus_plus_outcome_advantage",
     "remax_outcome_advantage", "optimal_token_baseline_advantage",
     "multi_turn_optimal_token_baseline_advantage"] + [f"{name}_outcome_advantage" for name in OUTCOMES])
DOUBLE = estimators(["grpo_outcome_advantage", "gdpo_outcome_advantage"],
                    np=Doubles(np), torch=Doubles(torch))


class Config(dict):
    """Of an algorithm: attributes and get()."""
    __getattr__ = dict.__getitem__


def matrices(rng, batch):
    """(rewards, values, mask) [trajectories, places]; the mask has gaps."""
    tokens = [[t for turn in traj["turns"] for t in turn["tokens"]] for traj in batch]
    places = max(map(len, tokens)) + 3
    rewards, values = np.zeros((len(batch), places)), rng.normal(size=(len(batch), places))
    mask = np.zeros((len(batch), places))
    for i, (traj, own) in enumerate(zip(batch, tokens)):
        at = np.sort(rng.choice(places, len(own), replace=False))
        mask[i, at] = 1
        rewards[i, at], values[i, at] = zip(*own)
        rewards[i, at[-1]] += traj["outcome"] + sum(turn["reward"] for turn in traj["turns"])
    return torch.tensor(rewards), torch.tensor(values), torch.tensor(mask)


def placed(batch):
    """(rewards, norms, mask) [trajectories, places], by the gaps of the batch."""
    width = 1 + max(int(p) for t in batch for p in places_of(t))
    rewards, norms, mask = (np.zeros((len(batch), width)) for _ in range(3))
    for i, traj in enumerate(batch):
        at = places_of(traj)
        mask[i, at] = 1
        rewards[i, at] = rewards_by_token(traj)
        norms[i, at] = [w for turn in traj["turns"] for w in turn["norms"]]
    return torch.tensor(rewards), torch.tensor(norms), torch.tensor(mask)


def write_baselines(rng, batch, weighted):
    """What the mask leaves out holds numbers too. weighted: norms come about by weights."""
    rewards, norms, mask = placed(batch)
    norms = torch.where(mask > 0, norms, torch.tensor(rng.random(norms.shape)))
    rewards = torch.where(mask > 0, rewards, torch.tensor(rng.normal(size=norms.shape)))
    old = -torch.tensor(np.abs(rng.normal(size=norms.shape)))
    weights = torch.tensor(rng.uniform(0.5, 2, norms.shape)) if weighted else None
    own = norms / weights ** 2 if weighted else norms
    live = mask.bool()
    for name, function in [
            ("optimal_token_baseline", "optimal_token_baseline_advantage"),
            ("tir_optimal_token_baseline", "multi_turn_optimal_token_baseline_advantage")]:
        got, returns = getattr(CORE, f"compute_{function}")(
            rewards, mask, np.array([t["group"] for t in batch], dtype=object), old,
            own - 1 + 2 * torch.exp(old), rollout_is_weights=weights)
        write(name, f"compute_{function}", {},
              {"advantages": short((got * mask).sum(1) / mask.sum(1)),
               "token_advantages": short(got[live]), "returns": short(returns[live])})


def number(v):
    return None if v != v else v  # NaN


def short(tensor):
    return [float(f"{v:.11g}") for v in tensor.tolist()]


def write(name, function, options, want, by=VERL):
    print(json.dumps({"estimator": name, "by": f"{by}: {function}", "options": options,
                      "want": want}, separators=(",", ":")))


def write_batch(batch):
    flat = {k: [number(v) for v in values] for k, values in flatten(batch).items()}
    print(json.dumps({"batch": flat}, separators=(",", ":")))
    return flat


def write_outcomes(rewards, mask, index, divide):
    """One number a trajectory, by verl in all of its places."""
    single = {"single_raw": 1}
    by_std = single | {"eps": 1e-6, "std_kind": 2, "divide_by_std": divide}
    ours = {"grpo": ("grpo", by_std), "grpo_passk": ("pass_at_k", by_std),
            "rloo": ("rloo", single), "opo": ("opo", single),
            "gpg": ("gpg", single | {"gpg_nonzero": 1}),
            "reinforce_plus_plus_baseline": ("reinforce_plus_plus_baseline",
                                             single | {"eps": 1e-8, "whiten": 1})}
    alone = min(collections.Counter(index).values()) == 1
    for name, (estimator, options) in ours.items():
        function = f"compute_{name}_outcome_advantage"
        more = {"norm_adv_by_std_in_grpo": bool(divide)} if name == "grpo" else {}
        if name == "grpo_passk" and alone:
            continue  # verl refuses groups of one
        got, _ = getattr(CORE, function)(
            rewards.clone(), mask, index=np.array(index, dtype=object), epsilon=1e-6,
            config=Config(norm_adv_by_std_in_grpo=bool(divide)), **more)
        each = got[torch.arange(len(mask)), mask.argmax(1)]
        write(estimator, function, options, {"advantages": short(each)})


def write_components(rewards, mask, batch, weights, divide):
    """GDPO. verl adds 1e-6 to the deviations of groups, unless told otherwise, and 1e-8 to
    the variance of its whitening; ours is one number for both."""
    names = [f"part_{c}" for c in range(len(weights))]
    parts = {name: np.array([t["components"][c] for t in batch])
             for c, name in enumerate(names)}
    got, _ = DOUBLE.compute_gdpo_outcome_advantage(
        rewards, mask, index=np.array([t["group"] for t in batch], dtype=object),
        epsilon=1e-8, norm_adv_by_std_in_grpo=bool(divide),
        config=Config(gdpo_reward_keys=names, gdpo_reward_weights=weights),
        non_tensor_batch=parts,
        batch={"prompts": torch.zeros(len(batch), 1),
               "attention_mask": torch.ones(len(batch), 1 + mask.shape[1], dtype=int)})
    each = got[torch.arange(len(mask)), mask.argmax(1)]
    write("gdpo", "compute_gdpo_outcome_advantage",
          {"single_raw": 1, "eps": 1e-8, "std_kind": 2, "divide_by_std": divide, "whiten": 2},
          {"advantages": short(each)})


def write_returns(rewards, values, mask, baselines, gamma, lam):
    live = mask.bool()
    runs = [
        ("gae", "compute_gae_advantage_return", {"gamma": gamma, "lam": lam, "eps": 1e-8,
                                                 "whiten": 1}, (rewards, values, mask, gamma, lam)),
        ("reinforce_plus_plus", "compute_reinforce_plus_plus_outcome_advantage",
         {"gamma": gamma, "eps": 1e-8, "whiten": 1}, (rewards, mask, Config(gamma=gamma))),
        ("remax", "compute_remax_outcome_advantage", {"gamma": 1.0},
         (rewards, torch.tensor(baselines), mask)),
    ]
    for name, function, options, arguments in runs:
        got, returns = getattr(CORE, function)(*arguments)
        each = (got * mask).sum(1) / mask.sum(1)
        write(name, function, options, {
            "advantages": short(each), "token_advantages": short(got[live]),
            "returns": short(returns[live])})


# ---- TRL ----


def make_groups(rng, size):
    """Three groups of this size, one after the other."""
    batch = []
    while len(batch) < 3 * size:
        batch += random_batch(rng, 0)
    for i, traj in enumerate(batch[:3 * size]):
        traj["group"] = i // size
    return batch[:3 * size]


def write_scaled(batch, size, scale):
    scope = {"torch": torch, "device": "cpu", "num_generations": size,
             "rewards_per_func": torch.tensor([[score(traj)] for traj in batch]),
             "unscorable_mask": torch.zeros(len(batch), dtype=bool),
             "nanstd": functions("trl", "trainer/utils.py", ["nanstd"]).nanstd,
             "self": types.SimpleNamespace(reward_weights=torch.ones(1), scale_rewards=scale)}
    exec(TRL_ADVANTAGES, scope)
    write("grpo", f"scale_rewards {scale}",
          {"eps": 1e-4, "std_kind": 2, "divide_by_std": int(scale != "none"),
           "std_over": int(scale == "batch")},
          {"advantages": short(scope["advantages"])}, by=TRL)


def main():
    rng = np.random.default_rng(20261126)
    for case in range(8):
        batch = []
        while len(batch) < 3:  # of one or two verl's whitening says little
            batch = random_batch(rng, 0)
        for i, traj in enumerate(batch):
            traj["completed"] = 1  # verl begins with the value 0 behind the last token
            if case % 2:
                traj["group"] = [3, 12][i % 2]  # no group of one, where there are four
        flat = write_batch(batch)
        rewards, values, mask = matrices(rng, batch)
        write_outcomes(rewards, mask, [t["group"] for t in batch], case // 2 % 2)
        write_components(rewards, mask, batch, flat["component_weights"], case // 2 % 2)
        write_returns(rewards, values, mask, [t["baseline"] for t in batch],
                      *[(1.0, 1.0), (0.9, 0.8), (0.99, 0.95)][case % 3])
    for size in 2, 3, 4, 8:
        batch = make_groups(rng, size)
        write_batch(batch)
        for scale in "group", "batch", "none":
            write_scaled(batch, size, scale)
    for case in range(8):
        batch = random_batch(rng, [4, 0, 5, 4][case % 4])
        write_batch(batch)
        write_baselines(rng, batch, case % 2)


if __name__ == "__main__":
    main()
