"""Losses of n policy tokens and of their critic, with gradients."""

from __future__ import annotations

import itertools
from ctypes import byref, c_double, c_float, c_int64, c_uint8, c_uint64, pointer
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence

from . import _arrays, _registered, _structs
from ._lib import lib
from ._text import decode, terminated


@dataclass(frozen=True)
class Loss:
    """A loss. Figures but the maxima are sums of weight times value over the tokens, which
    are means where the weights sum to 1."""

    loss: float  # policy_loss + beta * kl - entropy_coef * entropy
    policy_loss: float
    kl: float  # of kl_kind between new and reference
    clip_fraction: float  # tokens whose clipped branch is the smaller
    approx_kl: float  # old - new
    ratio_max: float
    log_ratio_max: float
    clip_low_fraction: float
    clip_high_fraction: float
    dual_clip_fraction: float
    ratio_mean: float
    entropy: float
    importance_mean: float  # before the cut
    importance_square: float
    importance_max: float
    importance_cut: float  # tokens whose importance weight was cut or dropped
    off_policy_cut: float  # tokens dropped by off_policy_delta
    weight: float  # sum of the weights
    tokens: int
    gradient: Any  # float32 [n]: d loss / d new_log_probs
    entropy_gradient: Any  # float32 [n]: d loss / d entropies


@dataclass(frozen=True)
class ValueLoss:
    """The loss of a critic; figures as in Loss."""

    loss: float
    clip_fraction: float
    value: float
    returns: float
    returns_square: float
    error: float  # returns - value
    error_square: float
    weight: float
    tokens: int
    explained_variance: float  # 1 - var(error) / var(returns); 0 where returns are equal
    gradient: Any  # float32 [n]: d loss / d values


@dataclass(frozen=True)
class Rejection:
    """What reject() leaves of a batch; figures as verl's rollout_rs_*, those behind the
    first two of the first criterion."""

    keep: Any  # uint8 [n]: 1 for tokens that stay
    masked_fraction: float  # of all criteria
    seq_masked_fraction: float
    mean: float
    std: float
    max: float
    min: float
    fraction_high: float
    fraction_low: float
    seq_mean: float
    seq_std: float
    seq_max: float
    seq_min: float
    seq_max_deviation: float
    seq_fraction_high: float
    seq_fraction_low: float


def _listed(function: Callable[[int], Optional[bytes]]) -> List[str]:
    found = map(function, itertools.count())
    return [decode(name) for name in itertools.takewhile(lambda name: name, found)]


def names() -> List[str]:
    """The losses known."""
    return _listed(lib.sr1_loss_name)


def aggregations() -> List[str]:
    """What weights() knows."""
    return _listed(lib.sr1_loss_aggregation_name)


def kl_kinds() -> List[str]:
    """What kl_kind may be; with a '+' behind it, too."""
    return _listed(lib.sr1_loss_kl_name)


def corrections() -> List[str]:
    """What correction may be."""
    return _listed(lib.sr1_loss_correction_name)


def rejections() -> List[str]:
    """What the criteria of reject() may be."""
    return _listed(lib.sr1_loss_rejection_name)


def describe() -> List[Dict[str, Any]]:
    """The table: name, formula, source, options, aggregation, needs of every loss."""
    rows = []
    for i in range(len(names())):
        info = _structs.LossInfo()
        lib.sr1_loss_describe(i, byref(info))
        rows.append(info.as_dict())
    return rows


def options(name: str) -> Dict[str, Any]:
    """The published numbers of a loss: what compute() takes where nothing is given."""
    found = _structs.LossOptions()
    lib.sr1_loss_options_init(byref(found), terminated(name))
    return found.as_dict()


def _begins(counts: Sequence[int]) -> List[int]:
    return list(itertools.accumulate(counts, initial=0))


def _chosen(name: str, changes: Dict[str, Any]) -> _structs.LossOptions:
    """The published numbers with changes."""
    values = options(name)
    unknown = sorted(set(changes) - set(values))
    if unknown:
        raise TypeError(f"no such option: {', '.join(unknown)}")
    values.update(changes)
    for key in ("kl_kind", "correction"):
        if values[key] is not None:
            values[key] = terminated(values[key])
    return _structs.LossOptions(**values)


def compute(
    name: str,
    new_log_probs: Sequence[float],
    old_log_probs: Optional[Sequence[float]] = None,
    advantages: Optional[Sequence[float]] = None,
    ref_log_probs: Optional[Sequence[float]] = None,
    weights: Optional[Sequence[float]] = None,
    rollout_log_probs: Optional[Sequence[float]] = None,
    entropies: Optional[Sequence[float]] = None,
    seq_lengths: Optional[Sequence[int]] = None,
    chosen: Optional[Sequence[int]] = None,
    **changes: Any,
) -> Loss:
    """The named loss; every array [n]. weights: share of each token, as weights() makes
    them (None: 1/n). seq_lengths: tokens of each sequence, in order, for losses by
    sequence. chosen: 1 for tokens that choose() chose of the whole batch. Further arguments
    change the published numbers, as options() shows them."""
    n = len(new_log_probs)
    inputs = {
        "new_log_probs": new_log_probs,
        "old_log_probs": old_log_probs,
        "ref_log_probs": ref_log_probs,
        "advantages": advantages,
        "weights": weights,
        "rollout_log_probs": rollout_log_probs,
        "entropies": entropies,
    }
    held = {k: _arrays.given(v, c_float, n) for k, v in inputs.items() if v is not None}
    batch = _structs.LossBatch(n=n, **{k: pointer for k, (_, pointer) in held.items()})
    if seq_lengths is not None:
        batch.n_seqs = len(seq_lengths)
        begins, batch.seq_begin = _arrays.given(_begins(seq_lengths), c_int64)
    if chosen is not None:
        marks, batch.chosen = _arrays.given(chosen, c_uint8, n)
    gradient, of_entropy = _arrays.empty(c_float, n), _arrays.empty(c_float, n)
    report = _structs.LossReport()
    with _losses.around(name):
        lib.sr1_loss_compute(
            terminated(name),
            byref(batch),
            byref(_chosen(name, changes)),
            _arrays.pointer(gradient, c_float),
            _arrays.pointer(of_entropy, c_float),
            byref(report),
        )
    return Loss(gradient=gradient, entropy_gradient=of_entropy, **report.as_dict())


def choose(
    name: str,
    new_log_probs: Sequence[float],
    old_log_probs: Sequence[float],
    advantages: Sequence[float],
    seed: int = 0,
    **changes: Any,
) -> Any:
    """uint8 [n]: 1 for the tokens of a whole batch that clip_cov or kl_cov treats apart;
    clip_cov draws them by the seed."""
    n = len(new_log_probs)
    inputs = {
        "new_log_probs": new_log_probs,
        "old_log_probs": old_log_probs,
        "advantages": advantages,
    }
    held = {k: _arrays.given(v, c_float, n) for k, v in inputs.items()}
    batch = _structs.LossBatch(n=n, **{k: pointer for k, (_, pointer) in held.items()})
    marks = _arrays.empty(c_uint8, n)
    lib.sr1_loss_choose(
        terminated(name),
        byref(batch),
        byref(_chosen(name, changes)),
        seed,
        _arrays.pointer(marks, c_uint8),
    )
    return marks


def reject(
    criteria: str,
    thresholds: str,
    old_log_probs: Sequence[float],
    rollout_log_probs: Sequence[float],
    seq_lengths: Sequence[int],
) -> Rejection:
    """Which tokens of a batch of whole sequences stay in it (verl's rollout_rs): those that
    pass all criteria, "token_k1,seq_mean_k3". thresholds: "0.5_2,0.01", one for each or one
    for all. compute() then gets the others' arrays without them, and weights() their
    lengths."""
    n = len(old_log_probs)
    held = [
        _arrays.given(old_log_probs, c_float, n),
        _arrays.given(rollout_log_probs, c_float, n),
        _arrays.given(_begins(seq_lengths), c_int64),
    ]
    batch = _structs.LossBatch(
        n=n,
        old_log_probs=held[0][1],
        rollout_log_probs=held[1][1],
        n_seqs=len(seq_lengths),
        seq_begin=held[2][1],
    )
    keep, report = _arrays.empty(c_uint8, n), _structs.RejectionReport()
    lib.sr1_loss_reject(
        byref(batch),
        terminated(criteria),
        terminated(thresholds),
        _arrays.pointer(keep, c_uint8),
        byref(report),
    )
    return Rejection(keep=keep, **report.as_dict())


# ---- a loss of your own ----


@dataclass(frozen=True)
class Batch:
    """What a registered loss computes from: n policy tokens, float32 [n] each. Copies."""

    n: int
    new_log_probs: Any  # under the weights being trained
    old_log_probs: Any  # under the policy before the update
    ref_log_probs: Any  # of the reference; may be None
    advantages: Any
    weights: Any  # share of each token in the mean; the library applies it
    rollout_log_probs: Any  # under the rollout policy; may be None
    seq_begin: Any  # int64 [sequences + 1]; None where they are not known


def _call_loss(who: str, function: Any, how: Any, b: Any, o: Any, out: Any) -> None:
    c, terms = b.contents, out.contents
    batch = Batch(
        n=c.n,
        seq_begin=_registered.taken(c.seq_begin, c_int64, c.n_seqs + 1),
        **{
            name: _registered.taken(getattr(c, name), c_float, c.n)
            for name in (
                "new_log_probs",
                "old_log_probs",
                "ref_log_probs",
                "advantages",
                "weights",
                "rollout_log_probs",
            )
        },
    )
    made = function(batch, o.contents.as_dict())
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise ValueError(
            f"{who} has to return (values, slopes) or (values, slopes, bounds), and gave "
            f"{made!r:.80}"
        )
    for name, kind, values in zip(
        ("values", "slopes", "bounds"), (c_double, c_double, c_uint8), made
    ):
        _registered.put(f"{who}, {name}", getattr(terms, name), kind, values, c.n)


_losses = _registered.Registered("loss", "register_policy_loss", _call_loss)
_loss_thunk = _structs.LossOpsCompute(_losses.called)


def register_policy_loss(
    name: str,
    sequences: bool = False,
    options: Sequence[str] = (),
    aggregation: str = "token-mean",
    zero_without_advantage: bool = False,
    **numbers: Any,
) -> Callable[[Any], Any]:
    """Make a function a loss, for `loss: NAME` of a configuration and for compute().

    @register_policy_loss("reinforce_again")
    def reinforce_again(batch, options):
        return -batch.advantages * batch.new_log_probs, -batch.advantages

    It gets a Batch and the options as a dictionary, and returns (values, slopes): the loss
    of each token, before its weight, and its derivative by the token's new log-prob; and
    may return bounds behind them (0: none, 1: the ratio's lower bound holds, 2: its upper
    one, 3: another), for the shares of clipped tokens. KL, entropy bonus and importance
    weights are the library's. Workers call it side by side, each with a part of the step;
    sequences=True keeps sequences whole. zero_without_advantage: where the advantage is 0
    so is the slope, and the forward pass may be spared. options: those it reads; numbers:
    their defaults where they are not grpo's. Names as with register_adv_est."""
    _losses.check_name(name)
    options = _registered.names_of(options)
    _losses.check_options(name, options, [n for n, *_ in _structs.LossOptions._fields_])

    def register(function: Any) -> Any:
        def to_library(key: int) -> None:
            ops = _structs.LossOps(
                name=terminated(name),
                compute=_loss_thunk,
                needs=4 if sequences else 0,
                options=terminated(", ".join(options)),
                defaults=pointer(_chosen("grpo", numbers)),
                aggregation=terminated(aggregation),
                zero_without_advantage=zero_without_advantage,
                formula=terminated(function.__doc__ or ""),
                source=terminated(f"{function.__module__}.{function.__qualname__}"),
            )
            lib.sr1_loss_register(byref(ops), key)

        how = (sequences, zero_without_advantage, options, aggregation, numbers)
        _losses.add(name, function, how, to_library)
        return function

    return register


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
    return compute(
        "grpo",
        new_log_probs,
        old_log_probs,
        advantages,
        ref_log_probs,
        weights,
        clip_low=clip_low,
        clip_high=clip_high,
        beta=beta,
    )


def nll(
    new_log_probs: Sequence[float], weights: Optional[Sequence[float]] = None
) -> Loss:
    """The loss of imitation: the weighted sum of -new_log_probs [n]."""
    return compute("nll", new_log_probs, weights=weights)


def weights(
    aggregation: str,
    seq_lengths: Sequence[int],
    groups: Optional[Sequence[int]] = None,
    length: float = 0.0,
    total_tokens: int = 0,
    total_seqs: int = 0,
    group_tokens: Optional[Sequence[int]] = None,
    total_groups: int = 0,
) -> Any:
    """Each token's share in the mean: float32 [sum of seq_lengths]. Totals are those of the
    whole batch where these sequences are a part of it (0: they are the whole)."""
    n = len(seq_lengths)
    begins = _begins(seq_lengths)
    held = [_arrays.given(begins, c_int64)]
    maps = _structs.LossMaps(
        n_seqs=n,
        seq_begin=held[0][1],
        total_tokens=total_tokens,
        total_seqs=total_seqs,
        length=length,
        total_groups=total_groups,
    )
    if groups is not None:
        held.append(_arrays.given(groups, c_uint64, n))
        maps.groups = held[-1][1]
    if group_tokens is not None:
        held.append(_arrays.given(group_tokens, c_int64, n))
        maps.group_tokens = held[-1][1]
    out = _arrays.empty(c_float, max(begins[-1], 0))
    lib.sr1_loss_weights(
        terminated(aggregation), byref(maps), _arrays.pointer(out, c_float)
    )
    return out


def entropy_threshold(entropies: Sequence[float], quantile: float) -> float:
    """The entropy_threshold of compute() by which this share of the tokens, those of the
    highest entropy, has a policy loss."""
    held, entropy_pointer = _arrays.given(entropies, c_float)
    found = c_double()
    lib.sr1_loss_entropy_threshold(entropy_pointer, len(held), quantile, byref(found))
    return float(found.value)


def value(
    values: Sequence[float],
    returns: Sequence[float],
    old_values: Optional[Sequence[float]] = None,
    weights: Optional[Sequence[float]] = None,
    clip_range: float = 0.5,
) -> ValueLoss:
    """The critic's clipped loss; every array [n]. old_values may be None when clip_range is
    0."""
    n = len(values)
    inputs = {
        "values": values,
        "returns": returns,
        "old_values": old_values,
        "weights": weights,
    }
    held = {k: _arrays.given(v, c_float, n) for k, v in inputs.items() if v is not None}
    batch = _structs.ValueBatch(n=n, **{k: pointer for k, (_, pointer) in held.items()})
    gradient, report = _arrays.empty(c_float, n), _structs.ValueReport()
    explained = c_double()
    lib.sr1_value_loss(
        byref(batch),
        byref(_structs.ValueOptions(clip_range=clip_range)),
        _arrays.pointer(gradient, c_float),
        byref(report),
    )
    lib.sr1_value_explained_variance(byref(report), byref(explained))
    return ValueLoss(
        explained_variance=explained.value, gradient=gradient, **report.as_dict()
    )
