"""How much better than its group each trajectory did, and how far policies are apart."""

from __future__ import annotations

import itertools
from ctypes import byref, c_double, c_float, c_int64, c_size_t, c_uint8, c_uint64
from typing import Any, List, Optional, Sequence, Tuple

from . import _arrays
from ._lib import lib
from ._structs import AdvantageBatch, AdvantageOptions
from ._text import decode, terminated

EPS = 1e-8  # added to the standard deviation


def group(rewards: Sequence[float], eps: float = EPS) -> Any:
    """(reward - mean) / (std + eps) of one group: float64 [n]. Equal rewards: zeros."""
    data, pointer = _arrays.given(rewards, c_double)
    out = _arrays.empty(c_double, len(data))
    lib.sr1_advantage_group(pointer, len(data), eps, _arrays.pointer(out, c_double))
    return out


def compute(
    rewards: Sequence[float],
    groups: Sequence[int],
    estimator: str = "grpo",
    eps: float = EPS,
    divide_by_std: bool = True,
    token_counts: Optional[Sequence[int]] = None,
) -> Tuple[Any, Any]:
    """(advantages, token_advantages): float64 [n] by trajectory and, where the numbers of
    policy tokens are given, float32 [their sum] (else None). groups [n]: a key each."""
    held, reward_pointer = _arrays.given(rewards, c_double)
    n = len(held)
    keys, key_pointer = _arrays.given(groups, c_uint64, n)
    batch = AdvantageBatch(n=n, rewards=reward_pointer, groups=key_pointer)
    options = AdvantageOptions(eps=eps, divide_by_std=divide_by_std)
    out, by_token, token_pointer = _arrays.empty(c_double, n), None, None
    if token_counts is not None:
        ends = list(itertools.accumulate(token_counts, initial=0))
        begins, batch.token_begin = _arrays.given(ends, c_int64, n + 1)
        by_token = _arrays.empty(c_float, ends[-1])
        token_pointer = _arrays.pointer(by_token, c_float)
    lib.sr1_advantage_compute(
        terminated(estimator),
        byref(batch),
        byref(options),
        _arrays.pointer(out, c_double),
        token_pointer,
    )
    return out, by_token


def names() -> List[str]:
    """The estimators known."""
    found = map(lib.sr1_advantage_name, itertools.count())
    return [decode(name) for name in itertools.takewhile(lambda name: name, found)]


def dead_groups(rewards: Sequence[float], groups: Sequence[int]) -> Tuple[Any, int, int]:
    """(dead, groups, dead groups): uint8 [n], 1 where a group cannot teach."""
    held, reward_pointer = _arrays.given(rewards, c_double)
    keys, key_pointer = _arrays.given(groups, c_uint64, len(held))
    dead, n_groups, n_dead = _arrays.empty(c_uint8, len(held)), c_size_t(), c_size_t()
    lib.sr1_advantage_dead_groups(
        reward_pointer,
        key_pointer,
        len(held),
        _arrays.pointer(dead, c_uint8),
        byref(n_groups),
        byref(n_dead),
    )
    return dead, n_groups.value, n_dead.value


def kl_k3(old_log_probs: Sequence[float], new_log_probs: Sequence[float]) -> float:
    """Mean k3 estimate of KL(old || new), nats per token. float32 arrays as they are."""
    single = all(
        getattr(a, "dtype", None) == "float32" for a in (old_log_probs, new_log_probs)
    )
    kind = c_float if single else c_double
    function = lib.sr1_kl_k3_f32 if single else lib.sr1_kl_k3
    old, old_pointer = _arrays.given(old_log_probs, kind)
    new, new_pointer = _arrays.given(new_log_probs, kind, len(old))
    out = c_double()
    function(old_pointer, new_pointer, len(old), byref(out))
    return out.value
