#!/usr/bin/env python3
"""Write peer_losses.jsonl: losses, gradients and figures of whole batches by the code of
TRL (GRPOTrainer._compute_loss) and verl (compute_policy_loss_*, agg_loss,
compute_rollout_correction_weights, compute_rollout_rejection_mask, compute_value_loss)
and torch's autograd in float64.

    make_peer_loss_vectors.py > peer_losses.jsonl      (peer_sources.py: what it needs)

A batch is a padded matrix with gaps in it, as both packages have it: what a mask leaves
out holds numbers too. A row has its policy tokens one after the other, as the library
has them. "by" says what was called; "loss", "aggregation", "length", "options" and
"top_entropy_quantile" are what the library calls the same. "report" has the figures that
the package gives. Inputs are multiples of 2^-12, exact in float32. Rows with a
"threshold" have the quantile of entropies that torch finds. Rows with a "rejection" have
what rollout_rs keeps, and its metrics; a loss with a "rejection" is that of verl with the
mask that is left.
"""
import collections
import functools
import json
import math
import types
import typing

import numpy as np
import torch
from peer_sources import TRL, VERL, block_before, functions

torch.set_default_dtype(torch.float64)
Bag = types.SimpleNamespace
LENGTH = 16  # a constant that a sum is divided by

TRL_FILE = ("trl", "trainer/grpo_trainer.py")
nan = functions("trl", "trainer/utils.py", ["nanmin", "nanmax"])
GRPO = functions(*TRL_FILE, ["_compute_loss", "get_off_policy_mask", "get_gamma_weights",
                             "get_high_entropy_mask"],
                 math=math, nanmin=nan.nanmin, nanmax=nan.nanmax)
TRL_RATIO = block_before(*TRL_FILE, "_generate_and_score_completions",
                         "vllm_importance_sampling_ratio")


class ActorConfig(Bag):
    def get(self, key, default):
        return getattr(self, key, default)


MASKED = functions("verl", "utils/torch_functional.py",
                   ["masked_sum", "masked_mean", "clip_by_value"])
CORE = functions("verl", "trainer/ppo/core_algos.py",
                 ["agg_loss", "compute_value_loss"] + [f"compute_policy_loss_{name}" for name in (
                     "vanilla", "gspo", "sapo", "gpg", "cispo", "geo_mean", "clip_cov",
                     "kl_cov", "dppo_tv", "dppo_kl", "dro")],
                 verl_F=MASKED, ActorConfig=ActorConfig, AlgoConfig=dict, DictConfig=dict,
                 Optional=typing.Optional, Any=object,
                 register_policy_loss=lambda name: lambda function: function)
CORRECTION = functions("verl", "trainer/ppo/rollout_corr_helper.py",
                       ["compute_rollout_correction_weights", "_parse_rollout_is_threshold"],
                       verl_F=MASKED, SAFETY_BOUND=20.0, math=math,
                       Optional=typing.Optional,
                       compute_is_metrics=lambda **figures: {})
CRITERIA = [f"token_k{k}" for k in (1, 2, 3)] + [
    f"seq_{how}_k{k}" for how in ("sum", "mean") for k in (1, 2, 3)] + [
    "seq_max_k2", "seq_max_k3"]
REJECTION = functions("verl", "trainer/ppo/rollout_corr_helper.py",
                      ["compute_rollout_rejection_mask", "_parse_rollout_rs_thresholds",
                       "compute_rs_metrics"],
                      verl_F=MASKED, SAFETY_BOUND=20.0, math=math, Optional=typing.Optional,
                      SUPPORTED_ROLLOUT_RS_OPTIONS=set(CRITERIA),
                      TOKEN_LEVEL_ROLLOUT_RS_OPTIONS=set(CRITERIA[:3]))


# ---- batches ----


def grid(values):
    return np.round(np.asarray(values) * 4096) / 4096


def make_batch(rng, k, by_sequence):
    """Matrices [rows, places], a mask with gaps; every row has a policy token."""
    rows, places = int(rng.integers(2, 5)), int(rng.integers(3, 9))
    mask = rng.random((rows, places)) < 0.7
    mask[np.arange(rows), rng.integers(0, places, rows)] = True
    shape = (rows, 1) if by_sequence else mask.shape
    spread = [0.02, 0.3, 1.5][k % 3]
    old = grid(-np.abs(rng.normal(size=mask.shape)) * 2)
    batch = {
        "new": old + grid(rng.normal(size=mask.shape) * spread),
        "old": old,
        "ref": old + grid(rng.normal(size=mask.shape) * spread),
        "rollout": old + grid(rng.normal(size=mask.shape) * [0.1, 0.6][k % 2]),
        "advantage": np.broadcast_to(grid(rng.normal(size=shape)), mask.shape),
        "entropy": grid(rng.random(mask.shape) * 3),
    }
    return {key: torch.tensor(v.copy()) for key, v in batch.items()}, torch.tensor(
        mask.astype(np.float64))


def numbers(values):
    return [float(f"{float(v):.13g}") for v in values]


def write(batch, mask, total, report, **row):
    """total depends on batch["new"], which has the gradient then."""
    total.backward()
    live = mask.bool()
    row |= {"length": LENGTH, "seq_begin": np.cumsum([0, *live.sum(1).tolist()]).tolist()}
    row |= {key: v.detach()[live].tolist() for key, v in batch.items()}
    row["report"] = {"loss": float(total)} | {k: float(v) for k, v in report.items()}
    row["gradient"] = numbers(batch["new"].grad[live])
    print(json.dumps(row))


# ---- TRL ----

TRL_AGGREGATIONS = {"grpo": "seq-mean-token-mean", "sapo": "seq-mean-token-mean",
                    "bnpo": "token-mean", "dapo": "token-mean", "cispo": "token-mean",
                    "vespo": "token-mean", "dr_grpo": "seq-mean-token-sum-norm",
                    "luspo": "seq-mean-token-sum"}
# Ours, and the level of its ratio, of a loss_type.
TRL_LOSSES = [("grpo", "grpo", "token"), ("grpo", "gspo", "sequence"),
              ("bnpo", "ppo", "token"), ("dapo", "dapo", "token"),
              ("dr_grpo", "dr_grpo", "token"), ("luspo", "luspo", "sequence"),
              ("cispo", "cispo", "token"), ("sapo", "sapo", "token"),
              ("vespo", "vespo", "token")]


def trl_trainer(loss_type, level, o, batch, quantile):
    identity = lambda x, *_, **__: x  # noqa: E731  (one process)
    high = o.get("clip_high", 0)
    trainer = Bag(
        _get_per_token_logps_and_entropies=lambda *a, **k: (batch["new"], batch["entropy"],
                                                            None),
        aux_loss_enabled=False, top_entropy_quantile=quantile, use_adaptive_entropy=False,
        off_policy_mask_threshold=o.get("off_policy_delta"),
        importance_sampling_level=level, beta=o["beta"], loss_type=loss_type,
        epsilon_low=o.get("clip_low", 0), entropy_coef=o["entropy_coef"],
        epsilon_high=1 + high if loss_type == "cispo" else high,  # TRL: the bound itself
        args=Bag(use_bias_correction_kl=bool(o["kl_weighted"]), delta=o.get("ratio_cap"),
                 sapo_temperature_pos=o.get("tau_positive"), steps_per_generation=1,
                 sapo_temperature_neg=o.get("tau_negative"), vespo_k_pos=o.get("k_positive"),
                 vespo_lambda_pos=o.get("lambda_positive"), vespo_k_neg=o.get("k_negative"),
                 vespo_lambda_neg=o.get("lambda_negative")),
        use_vllm="correction" in o, vllm_importance_sampling_correction=True,
        vllm_importance_sampling_mode=o.get("correction"),
        vllm_importance_sampling_clip_min=o.get("correction_low"),
        vllm_importance_sampling_clip_max=o.get("correction_high"),
        model=Bag(training=True), current_gradient_accumulation_steps=1,
        max_completion_length=LENGTH, _entropy_bonus_enabled=o["entropy_coef"] > 0,
        accelerator=Bag(gather=identity, reduce=identity, num_processes=1,
                        pad_across_processes=identity, sync_gradients=True),
        _metrics={"train": collections.defaultdict(list)},
        get_off_policy_mask=GRPO.get_off_policy_mask,
        get_gamma_weights=GRPO.get_gamma_weights)
    trainer.get_high_entropy_mask = functools.partial(GRPO.get_high_entropy_mask, trainer)
    return trainer


def trl_options(name, level, aggregation, k):
    o = {"beta": [0.0, 0.25, 1.0][k % 3], "kl_kind": "k3",
         "kl_weighted": int(level == "token" and k % 4 == 3),
         "entropy_coef": 0.125 if aggregation == "token-mean" and k % 2 else 0.0}
    if name in ("sapo", "vespo"):
        o |= {"tau_positive": 1.0, "tau_negative": [1.05, 2.5][k % 2]} if name == "sapo" else {
            "k_positive": 2.0, "lambda_positive": 3.0, "k_negative": 3.0,
            "lambda_negative": 2.0}
    elif name == "cispo":
        o |= {"clip_low": 1.0, "clip_high": [4.0, 0.28][k % 2]}
    else:
        low, high = [(0.2, 0.2), (0.2, 0.28), (3e-4, 4e-4)][k // 2 % 3]
        o |= {"clip_low": low, "clip_high": high}
        o |= {"ratio_cap": 1.5} if k % 4 == 2 else {}
    if name != "vespo" and k >= 4:
        o["correction"] = ["token_truncate", "token_mask", "sequence_truncate",
                           "sequence_mask"][k % 4]
        o["correction_high"] = [2.0, 1.2][k // 4 % 2]
        o["correction_low"] = 0.5 if "mask" in o["correction"] else 0.95
    if k % 3 == 1:
        o["off_policy_delta"] = 0.125
    return o


def trl_case(rng, loss_type, name, level, k, quantile=1.0):
    aggregation = TRL_AGGREGATIONS[loss_type]
    batch, mask = make_batch(rng, k, by_sequence=True)
    o = trl_options(name, level, aggregation, k)
    o |= {"entropy_coef": 0.0} if quantile < 1 else {}  # TRL's mean is of those alone
    if "correction" not in o:
        batch["rollout"] = batch["old"].clone()
    trainer = trl_trainer(loss_type, level, o, batch, quantile)
    nothing = torch.zeros(len(mask), 1)
    inputs = {"prompt_ids": nothing, "prompt_mask": nothing, "completion_ids": mask,
              "completion_mask": torch.ones_like(mask), "tool_mask": mask,
              "advantages": batch["advantage"][:, 0], "old_per_token_logps": batch["old"],
              "ref_per_token_logps": batch["ref"], "num_items_in_batch": mask.sum(),
              "sampling_per_token_logps": batch["rollout"]}
    if "correction" in o:
        scope = {"torch": torch, "math": math, "self": trainer, "tool_mask": mask,
                 "completion_mask": torch.ones_like(mask),
                 "old_per_token_logps": batch["old"],
                 "sampling_per_token_logps": batch["rollout"]}
        exec(TRL_RATIO, scope)
        inputs["importance_sampling_ratio"] = scope["vllm_importance_sampling_ratio"]
    batch["new"].requires_grad_()
    loss = GRPO._compute_loss(trainer, None, inputs)
    report, told = {}, trainer._metrics["train"]
    if aggregation == "token-mean":
        names = {"entropy": "entropy"} | ({"kl": "kl"} if o["beta"] else {})
        if loss_type not in ("cispo", "vespo"):
            names |= {"clip_low_fraction": "clip_ratio/low_mean",
                      "clip_high_fraction": "clip_ratio/high_mean"}
        report = {ours: told[theirs][0] for ours, theirs in names.items()}
    if o["kl_weighted"]:
        report.pop("kl", None)  # TRL reports it weighted
    more = {}
    if quantile < 1:
        more["top_entropy_quantile"] = quantile
        report.pop("entropy", None)
    write(batch, mask, loss, report, loss=name, aggregation=aggregation, options=o,
          by=f"{TRL}: {loss_type}, {level}", **more)


def threshold_case(rng, k):
    """Of 1 to 64 entropies, from the tenth on with many that are equal."""
    entropies = torch.tensor(grid(rng.random([1, 2, 11, 41, 64][k % 5]) * 3),
                             dtype=torch.float32)
    if k >= 10:
        entropies = torch.round(entropies * 4) / 4
    quantile = [0.2, 0.7, 0.9, 0.3, 0.0, 1.0, 0.5][k % 7]
    print(json.dumps({"threshold": float(torch.quantile(entropies, 1 - quantile)),
                      "top_entropy_quantile": quantile, "entropy": entropies.tolist()}))


# ---- verl ----

VERL_AGGREGATIONS = ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean",
                     "seq-mean-token-sum-norm"]
VERL_LOSSES = [("vanilla", "ppo"), ("vanilla", "grpo"), ("gspo", "gspo_token"),
               ("sapo", "sapo"), ("cispo", "cispo"), ("gpg", "reinforce")]
VERL_LATER = [("geo_mean", "geo_mean"), ("clip_cov", "clip_cov"), ("kl_cov", "kl_cov")]
VERL_LAST = [("dppo_tv", "dppo_tv"), ("dppo_kl", "dppo_kl"), ("dro", "dro")]


def verl_weights(batch, mask, o):
    """Those of compute_rollout_correction_weights; None without a correction."""
    if "correction" not in o:
        return None
    level, cut = o["correction"].split("_")
    high = o["correction_high"]
    threshold = high if cut == "truncate" else f"{o['correction_low']}_{high}"
    return CORRECTION.compute_rollout_correction_weights(
        batch["old"] - batch["rollout"], mask, level, threshold)[0]


def left_batch(rng, k, by_sequence, rejection):
    """make_batch, and the mask that a rejection leaves, which is not empty."""
    while True:
        batch, mask = make_batch(rng, k, by_sequence)
        left = mask if not rejection else REJECTION.compute_rollout_rejection_mask(
            batch["old"] - batch["rollout"], mask, *rejection)[0]
        if left.sum() > 0:
            return batch, mask, left


def verl_case(rng, function, name, k, rejection=None):
    own = function in ("sapo", "geo_mean")  # its aggregation
    aggregation = "seq-mean-token-mean" if own else VERL_AGGREGATIONS[k % 5]
    batch, mask, left = left_batch(rng, k, function == "gspo", rejection)
    o = {"beta": 0.0, "entropy_coef": 0.0, "kl_kind": "k3", "kl_weighted": 0}
    config = ActorConfig(global_batch_info={"loss_scale_factor": LENGTH})
    if function == "sapo":
        o |= {"tau_positive": 1.0, "tau_negative": [1.05, 2.5][k % 2]}
        config.tau_pos, config.tau_neg = o["tau_positive"], o["tau_negative"]
    elif function == "dro":
        o["dro_beta"] = [0.05, 1.0, 4.0][k % 3]
        config.policy_loss = Bag(**o)
    elif function.startswith("dppo"):
        low, high = [(0.15, 0.15), (0.05, 0.02), (1e-3, 1e-3)][k % 3]
        config.clip_ratio = config.clip_ratio_low = low
        config.clip_ratio_high = high
        config.clip_ratio_c = [20.0, 1.2][k % 2]
        o |= {"clip_low": low, "clip_high": high, "ratio_cap": config.clip_ratio_c}
    elif function == "kl_cov":
        o |= {"kl_cov_ratio": [0.2, 0.0002, 0.5][k % 3], "ppo_kl_coef": [1.0, 0.25][k % 2]}
    elif function != "gpg":
        low, high = [(0.2, 0.2), (0.2, 0.28), (3e-4, 4e-4)][k % 3]
        o |= {"clip_low": low, "clip_high": high}
        config.clip_ratio = config.clip_ratio_low = low
        config.clip_ratio_high = high
    if function == "clip_cov":  # of all that may be drawn, as draws differ
        o |= {"clip_cov_ratio": 1.0, "clip_cov_lb": [0.0, 0.1, 1.0][k % 3],
              "clip_cov_ub": [5.0, 1.5][k % 2]}
    if function.endswith("_cov"):
        config.policy_loss = Bag(**o)
    if function == "vanilla":
        o["dual_clip"] = config.clip_ratio_c = [3.0, 1.2][k % 2]
    if k >= 3:
        kinds = ["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]
        # geo_mean: a geometric mean over the sequence there, by token here
        o["correction"] = kinds[k % 4 | 2 * (function == "geo_mean")]
        if rejection and "token" in rejection[0]:  # a weight of a sequence is of all its tokens
            o["correction"] = kinds[k % 2]
        o |= {"correction_low": 0.5} if "mask" in o["correction"] else {}
        o["correction_high"] = [2.0, 1.2][k % 2]
    elif not rejection:
        batch["rollout"] = batch["old"].clone()
    batch["new"].requires_grad_()
    loss, told = getattr(CORE, f"compute_policy_loss_{function}")(
        batch["old"], batch["new"], batch["advantage"], left, aggregation, config,
        verl_weights(batch, mask, o))
    more = dict(zip(("rejection", "thresholds"), rejection)) if rejection else {}
    report = {}
    if aggregation == "token-mean" and function not in ("gpg", "kl_cov"):
        report["approx_kl"] = told["actor/ppo_kl"]
        if function == "vanilla":
            report["dual_clip_fraction"] = told["actor/pg_clipfrac_lower"]
        elif function.startswith("dppo"):
            report["dual_clip_fraction"] = told["actor/pg_clipfrac_lower"]
            report["clip_fraction"] = told["actor/pg_clipfrac"]
        elif function == "clip_cov":
            report["dual_clip_fraction"] = told["actor/pg_clipfrac"]
        elif function in ("gspo", "cispo"):
            report["clip_fraction"] = told["actor/pg_clipfrac"]
    write(batch, mask, loss, report, loss=name, aggregation=aggregation, options=o,
          by=f"{VERL}: {function}", **more)


def threshold_of(criterion, k):
    if criterion.endswith("k1"):
        return ["0.5_2", "1.2", "0.9_1.3"][k % 3]
    return ["0.02", "0.3", "1e-3"][k % 3]


def rejection_case(rng, criteria, k):
    """A third of the batches has a row of no tokens."""
    batch, mask = make_batch(rng, k, by_sequence=False)
    if k % 3 == 2:
        mask[0] = 0
    if k % 7 == 6:
        batch["rollout"] = batch["rollout"] - 30 * (mask.cumsum(1) == 2)
    thresholds = ",".join(threshold_of(c, k + i) for i, c in enumerate(criteria))
    left, told = REJECTION.compute_rollout_rejection_mask(
        batch["old"] - batch["rollout"], mask, ",".join(criteria), thresholds)
    live = mask.bool()
    prefix = f"rollout_rs_{criteria[0]}_"
    report = {key.removeprefix(prefix): v for key, v in told.items()
              if key.startswith(prefix)} if len(criteria) == 1 else {}
    report |= {key: told["rollout_rs_" + key]
               for key in ("masked_fraction", "seq_masked_fraction")}
    print(json.dumps({
        "rejected": ",".join(criteria), "thresholds": thresholds,
        "by": f"{VERL}: compute_rollout_rejection_mask",
        "seq_begin": np.cumsum([0, *live.sum(1).tolist()]).tolist(),
        "old": batch["old"][live].tolist(), "rollout": batch["rollout"][live].tolist(),
        "keep": left[live].tolist(), "report": report}))


REJECTIONS = [("token_k1", "0.6_1.6"), ("seq_mean_k1", "0.8_1.3"), ("token_k3", "0.1"),
              ("seq_sum_k1,token_k2", "0.2_5,0.2"), ("seq_max_k2", "0.3")]


def verl_value_case(rng, k):
    batch, mask = make_batch(rng, k, by_sequence=False)
    values, old, returns = (batch[key] for key in ("new", "old", "advantage"))
    clip, aggregation = [0.5, 0.2, 0.05][k % 3], VERL_AGGREGATIONS[k % 5]
    values.requires_grad_()
    loss, fraction = CORE.compute_value_loss(values, returns, old, mask, clip, aggregation,
                                             loss_scale_factor=LENGTH)
    loss.backward()
    live = mask.bool()
    row = {"value_loss": float(loss), "aggregation": aggregation, "length": LENGTH,
           "clip_range": clip, "by": f"{VERL}: compute_value_loss",
           "seq_begin": np.cumsum([0, *live.sum(1).tolist()]).tolist(),
           "values": values.detach()[live].tolist(), "old": old[live].tolist(),
           "returns": returns[live].tolist(), "gradient": numbers(values.grad[live])}
    if aggregation == "token-mean":
        row["clip_fraction"] = float(fraction)
    print(json.dumps(row))


def main():
    rng = np.random.default_rng(20261126)
    for loss_type, name, level in TRL_LOSSES:
        for k in range(8):
            trl_case(rng, loss_type, name, level, k)
    for function, name in VERL_LOSSES:
        for k in range(7):
            verl_case(rng, function, name, k)
    for k in range(6):
        verl_value_case(rng, k)
    for loss_type, name, level in TRL_LOSSES:
        for k, quantile in (1, 0.2), (3, 0.5), (4, 0.0), (6, 0.8):
            trl_case(rng, loss_type, name, level, k, quantile)
    for k in range(20):
        threshold_case(rng, k)
    for function, name in VERL_LATER:
        for k in range(9):
            verl_case(rng, function, name, k)
    for function, name in VERL_LAST:
        for k in range(12):
            verl_case(rng, function, name, k)
    for i, criterion in enumerate(CRITERIA):
        for k in range(7):
            rejection_case(rng, [criterion], i + k)
    for k in range(20):
        rejection_case(rng, [str(c) for c in rng.choice(CRITERIA, 2 + k % 3, replace=False)],
                       k)
    for function, name in VERL_LOSSES + VERL_LAST:  # geo_mean: verl counts empty rows
        for k, rejection in enumerate(REJECTIONS):
            verl_case(rng, function, name, k, rejection)


if __name__ == "__main__":
    main()
