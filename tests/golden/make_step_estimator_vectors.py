#!/usr/bin/env python3
"""Write step_estimators.jsonl: advantages by the published code of GiGPO and RLVMR, of
batches of advantage_reference.py.

    make_step_estimator_vectors.py VERL_AGENT RLVMR > step_estimators.jsonl

VERL_AGENT  a checkout of github.com/langfengQ/verl-agent (gigpo/core_gigpo.py)
RLVMR       the folder RLVMR of github.com/Tencent/digitalhuman (rlvmr/core_rlvmr.py)

The form is that of estimators.jsonl, and peer_sources.py says what else it needs. Both
programs take a row a step, which has the whole trajectory's reward beside its own. RLVMR
counts that reward once a step in its group; it is given a row a trajectory here, as
verl-agent counts now (docs/algorithms.md names the difference).
"""
import collections
import json
import sys
import types
import typing
import uuid

import numpy as np
import torch
from advantage_reference import flatten, random_batch, score, token_reward, tokens_of
from make_peer_estimator_vectors import Doubles, number, short
from peer_sources import functions

torch.set_default_dtype(torch.float64)
MODES = {1: "mean_norm", 2: "mean_std_norm"}  # step_mode
SEEN = {"np": Doubles(np), "torch": Doubles(torch), "uuid": uuid,
        "defaultdict": collections.defaultdict, "DataProto": object, **vars(typing)}


def read_gigpo(folder):
    return functions(folder, "gigpo/core_gigpo.py",
                     ["to_hashable", "compute_step_discounted_returns", "episode_norm_reward",
                      "compute_gigpo_outcome_advantage", "build_step_group",
                      "step_norm_reward"], **SEEN, print=lambda *_: None)


def read_rlvmr(folder):
    return functions(folder, "rlvmr/core_rlvmr.py",
                     ["episode_norm_reward", "step_norm_reward_by_tag"], **SEEN)


def step_rows(batch):
    return [(i, k) for i, traj in enumerate(batch) for k in range(len(traj["turns"]))]


def own_reward(traj, k):
    turn = traj["turns"][k]
    last = k == len(traj["turns"]) - 1
    return turn["reward"] + sum(r for r, _ in turn["tokens"]) + (traj["outcome"] if last else 0)


def column(values):
    return torch.tensor(values, dtype=torch.float64).unsqueeze(-1)


def gigpo(code, batch, mode, weight, gamma):
    rows = step_rows(batch)
    groups = np.array([batch[i]["group"] for i, _ in rows])
    owners = np.array([i for i, _ in rows])
    steps = types.SimpleNamespace(
        batch={"input_ids": torch.zeros(1)},
        non_tensor_batch={"rewards": np.array([own_reward(batch[i], k) for i, k in rows]),
                          "traj_uid": owners, "active_masks": np.ones(len(rows)),
                          "env_step": np.array([k for _, k in rows])})
    returns = code.compute_step_discounted_returns(steps, gamma)
    states = np.array([batch[i]["turns"][k]["state"] for i, k in rows])
    mask = torch.ones(len(rows), 1)
    whole, _ = code.compute_gigpo_outcome_advantage(
        column([score(batch[i]) for i, _ in rows]), returns, mask, states, groups, owners,
        epsilon=1e-6, step_advantage_w=weight, mode=mode)
    step = code.step_norm_reward(returns, mask, code.build_step_group(states, groups), 1e-6,
                                 mode == "mean_norm")
    return whole[:, 0], step[:, 0]


def rlvmr(code, batch, mode, weight):
    rows = step_rows(batch)
    bare = mode == "mean_norm"
    episode = code.episode_norm_reward(
        column([traj["outcome"] + token_reward(traj) for traj in batch]),
        torch.ones(len(batch), 1), [traj["group"] for traj in batch], 1e-6, bare)
    step = code.step_norm_reward_by_tag(
        torch.tensor([batch[i]["turns"][k]["reward"] for i, k in rows]),
        torch.ones(len(rows), 1), [batch[i]["group"] for i, _ in rows],
        [batch[i]["turns"][k]["tag"] for i, k in rows], 1e-6, bare)
    return episode[[i for i, _ in rows], 0] + weight * step[:, 0], step[:, 0]


def write(name, file, batch, options, whole, step):
    rows = step_rows(batch)
    tokens = torch.stack(tokens_of(batch, lambda i, k: whole[rows.index((i, k))]))
    owners = torch.tensor(tokens_of(batch, lambda i, k: i))
    each = torch.stack([tokens[owners == i].mean() for i in range(len(batch))])
    print(json.dumps({"estimator": name, "by": file, "options": options, "want": {
        "advantages": short(each), "token_advantages": short(tokens),
        "turn_advantages": short(step)}}, separators=(",", ":")))


def main():
    code = read_gigpo(sys.argv[1]), read_rlvmr(sys.argv[2])
    rng = np.random.default_rng(20261127)
    for case in range(8):
        batch = []
        while len(batch) < 4:
            batch = random_batch(rng, 4)
        for traj in batch:
            traj["group"] %= 3  # some of one, some of several
            for turn in traj["turns"]:
                if turn["tag"] < 0:  # RLVMR rewards tags alone
                    turn["reward"] = 0.0
        flat = {k: [number(v) for v in values] for k, values in flatten(batch).items()}
        print(json.dumps({"batch": flat}, separators=(",", ":")))
        step_mode, weight, gamma = case % 2 + 1, [1.0, 0.25][case // 2 % 2], [0.95, 1.0, 0.5][case % 3]
        options = {"single_raw": 1, "eps": 1e-6, "std_kind": 2, "step_mode": step_mode,
                   "step_advantage_w": weight}
        write("gigpo", "verl-agent, gigpo/core_gigpo.py", batch, options | {"gamma": gamma},
              *gigpo(code[0], batch, MODES[step_mode], weight, gamma))
        write("rlvmr", "RLVMR, rlvmr/core_rlvmr.py", batch, options,
              *rlvmr(code[1], batch, MODES[step_mode], weight))


if __name__ == "__main__":
    main()
