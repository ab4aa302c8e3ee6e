"""Policy losses over n policy tokens, with their gradients."""

from __future__ import annotations

from ctypes import byref, c_float
from dataclasses import dataclass
from typing import Any, Optional, Sequence

from . import _arrays, _structs
from ._lib import lib


@dataclass(frozen=True)
class Loss:
    """A loss. Figures but the maxima are means over the tokens."""

    loss: float  # policy_loss + beta * kl
    policy_loss: float
    kl: float  # k3 between new and reference
    clip_fraction: float  # tokens whose clipped branch is the smaller
    approx_kl: float  # old - new
    ratio_max: float
    log_ratio_max: float
    gradient: Any  # float32 [n]: d loss / d new_log_probs


def _run(function: Any, options: _structs.LossOptions, n: int, **inputs: Any) -> Loss:
    held = {k: _arrays.given(v, c_float, n) for k, v in inputs.items() if v is not None}
    batch = _structs.LossBatch(
        n=n, **{name: pointer for name, (_, pointer) in held.items()}
    )
    gradient, report = _arrays.empty(c_float, n), _structs.LossReport()
    pointer = _arrays.pointer(gradient, c_float)
    function(byref(batch), byref(options), pointer, byref(report))
    return Loss(gradient=gradient, **report.as_dict())


def grpo(
    new_log_probs: Sequence[float],
    old_log_probs: Sequence[float],
    advantages: Sequence[float],
    ref_log_probs: Optional[Sequence[float]] = None,
    weights: Optional[Sequence[float]] = None,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    beta: float = 0.0,
) -> Loss:
    """The GRPO objective; every array [n]. weights: share of each token (None: 1/n).
    ref_log_probs may be None when beta is 0."""
    return _run(
        lib.sr1_loss_grpo,
        _structs.LossOptions(clip_low=clip_low, clip_high=clip_high, beta=beta),
        len(new_log_probs),
        new_log_probs=new_log_probs,
        old_log_probs=old_log_probs,
        ref_log_probs=ref_log_probs,
        advantages=advantages,
        weights=weights,
    )


def nll(
    new_log_probs: Sequence[float], weights: Optional[Sequence[float]] = None
) -> Loss:
    """The loss of imitation: the weighted sum of -new_log_probs [n]."""
    return _run(
        lib.sr1_loss_nll,
        _structs.LossOptions(),
        len(new_log_probs),
        new_log_probs=new_log_probs,
        weights=weights,
    )
