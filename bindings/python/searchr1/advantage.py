"""How much better than its group each trajectory, turn or token did, how far policies are
apart, and which groups and queries teach.

    made = advantage.estimate("mt_grpo", rewards, groups, token_counts=[5, 9],
                              token_turns=turns, turn_counts=[2, 3],
                              turn_rewards=by_turn, result_turn=[0, -1],
                              turn_advantage_coef=0.5)
    made.token_advantages
"""

from __future__ import annotations

import itertools
from ctypes import (
    byref,
    c_double,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint64,
    pointer,
)
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _arrays, _registered
from ._lib import lib
from ._structs import (
    AdvantageBatch,
    AdvantageInfo,
    AdvantageOps,
    AdvantageOpsEstimate,
    AdvantageOptions,
    AdvantageOutputs,
    AdvantageReport,
    BalanceReport,
    KlController,
    QueryStats,
)
from ._text import decode, strings, terminated

EPS = 1e-8  # added to the standard deviation

# Of the options std_kind and step_mode.
_WORDS = {"population": 1, "unbiased": 2, "mean_norm": 1, "mean_std_norm": 2}
_GIVES = {"tokens": 1, "returns": 2, "turns": 4, "group_relative": 8}


# ---- estimators ----


def group(rewards: Sequence[float], eps: float = EPS) -> Any:
    """(reward - mean) / (std + eps) of one group: float64 [n]. Equal rewards: zeros."""
    data, pointer = _arrays.given(rewards, c_double)
    out = _arrays.empty(c_double, len(data))
    lib.sr1_advantage_group(pointer, len(data), eps, _arrays.pointer(out, c_double))
    return out


@dataclass(frozen=True)
class Info:
    """A row of the table of estimators."""

    name: str
    formula: str
    source: str
    options: Tuple[str, ...]  # keywords of estimate that it reads
    needs: Tuple[str, ...]  # fields of the batch
    gives: Tuple[str, ...]  # "tokens", "returns", "turns", "group_relative"


def _info(i: int) -> Info:
    row = AdvantageInfo()
    lib.sr1_advantage_describe(i, byref(row))
    fields = itertools.takewhile(bool, map(lib.sr1_advantage_need, itertools.count()))
    return Info(
        name=decode(row.name),
        formula=decode(row.formula),
        source=decode(row.source),
        options=tuple(decode(row.options).split(", ")),
        needs=tuple(decode(f) for k, f in enumerate(fields) if row.needs >> k & 1),
        gives=tuple(name for name, bit in _GIVES.items() if row.gives & bit),
    )


def names() -> List[str]:
    """The estimators known."""
    found = map(lib.sr1_advantage_name, itertools.count())
    return [decode(name) for name in itertools.takewhile(lambda name: name, found)]


def table() -> List[Info]:
    """Every estimator with its formula, its source and what it needs."""
    return [_info(i) for i in range(len(names()))]


def defaults(estimator: str) -> Dict[str, Any]:
    """The published numbers of an estimator."""
    options = AdvantageOptions()
    lib.sr1_advantage_options_init(byref(options), terminated(estimator))
    return options.as_dict()


@dataclass(frozen=True)
class Estimate:
    """What an estimator gave. Arrays it does not give are None."""

    advantages: Any  # float64 [n]; where tokens differ, their mean
    token_advantages: Any  # float32 [T], where token_counts were given
    returns: Any  # float32 [T], for a critic
    turn_advantages: Any  # float64 [U], the part of a turn before its weight
    report: Dict[str, int]  # what was counted


def _flat(rows: Any) -> Any:
    """Rows of numbers end to end; None in them is NaN."""
    if hasattr(rows, "reshape"):
        return rows.reshape(-1)
    nested = [r if hasattr(r, "__len__") else [r] for r in rows]
    return [float("nan") if v is None else v for row in nested for v in row]


_BY_TOKEN = {
    "token_turns": c_int32,
    "token_rewards": c_double,
    "values": c_float,
    "step_tokens": c_uint8,
    "score_norms": c_float,
    "token_places": c_int32,
}
_BY_TURN = {"turn_rewards": c_double, "turn_states": c_uint64, "turn_tags": c_int32}
_BY_LEVEL = {"confidences": c_double, "thinking_costs": c_double}
_BY_TRAJECTORY = {
    "bootstrap": c_double,
    "completed": c_uint8,
    "result_turn": c_int32,
    "baselines": c_double,
}


class _Batch:
    """The C struct of a batch, and the arrays it points to."""

    def __init__(self, rewards: Any, groups: Any, arrays: Mapping[str, Any]) -> None:
        self.held: List[Any] = []
        self.c = AdvantageBatch()
        self.c.rewards = self._keep(rewards, c_double)
        self.c.n = self.n = len(self.held[0])
        self.c.groups = self._keep(groups, c_uint64, self.n)
        self.tokens = self._begins("token_begin", arrays.get("token_counts"))
        self.turns = self._begins("turn_begin", arrays.get("turn_counts"))
        self._fill(arrays, _BY_TOKEN, self.tokens)
        self._fill(arrays, _BY_TURN, self.turns)
        self._fill(arrays, _BY_TRAJECTORY, self.n)
        for name, kind in _BY_LEVEL.items():
            if arrays.get(name) is not None:
                n = 4 * (self.turns or 0)
                setattr(self.c, name, self._keep(_flat(arrays[name]), kind, n))
        self._components(arrays)

    def _keep(self, values: Any, kind: Any, n: Optional[int] = None) -> Any:
        data, pointer = _arrays.given(values, kind, n)
        self.held.append(data)
        return pointer

    def _begins(self, name: str, counts: Optional[Sequence[int]]) -> Optional[int]:
        if counts is None:
            return None
        ends = list(itertools.accumulate(counts, initial=0))
        setattr(self.c, name, self._keep(ends, c_int64, self.n + 1))
        return int(ends[-1])

    def _fill(self, arrays: Mapping[str, Any], kinds: Any, n: Optional[int]) -> None:
        for name, kind in kinds.items():
            if arrays.get(name) is not None:
                setattr(self.c, name, self._keep(arrays[name], kind, n))

    def _components(self, arrays: Mapping[str, Any]) -> None:
        if arrays.get("components") is None:
            return
        flat = _flat(arrays["components"])
        width = len(flat) // max(self.n, 1)
        self.c.n_components = width
        self.c.components = self._keep(flat, c_double, width * self.n)
        if arrays.get("component_weights") is not None:
            self.c.component_weights = self._keep(
                arrays["component_weights"], c_double, width
            )
        if arrays.get("component_absent") is not None:
            flags = _flat(arrays["component_absent"])
            self.c.component_absent = self._keep(flags, c_uint8, width * self.n)
        if arrays.get("component_names") is not None:
            names = strings(arrays["component_names"])
            if len(names) != width:
                raise ValueError(f"{width} component names are needed, not {len(names)}")
            self.held.append(names)
            self.c.component_names = names


_ARRAYS = {
    "token_counts",
    "turn_counts",
    "components",
    "component_absent",
    "component_weights",
    "component_names",
}
_ARRAYS.update(_BY_TOKEN, _BY_TURN, _BY_LEVEL, _BY_TRAJECTORY)


def _options(estimator: str, given: Mapping[str, Any]) -> AdvantageOptions:
    options = AdvantageOptions()
    lib.sr1_advantage_options_init(byref(options), terminated(estimator))
    known = {name for name, *_ in AdvantageOptions._fields_}
    for name, value in given.items():
        if name not in known:
            raise TypeError(f"no array and no option of an estimator: {name}")
        setattr(options, name, _WORDS[value] if isinstance(value, str) else value)
    return options


def estimate(
    estimator: str,
    rewards: Sequence[float],
    groups: Sequence[int],
    **given: Any,
) -> Estimate:
    """Advantages by the named estimator.

    rewards, groups [n]: total reward and key of the group of each trajectory. Arrays by
    name, as far as the estimator needs them (table(), searchr1/advantage.h):
    token_counts, turn_counts [n]; token_turns, token_rewards, values, step_tokens,
    score_norms, token_places [T];
    turn_rewards, turn_states, turn_tags [U]; confidences, thinking_costs [U, 4] (None: not made);
    bootstrap, completed, result_turn, baselines [n]; components [n, c], component_absent
    [n, c] (1: the reward does not apply), component_weights, component_names [c]. Any other
    keyword is an option (defaults()); std_kind is "population" or "unbiased", step_mode
    "mean_norm" or "mean_std_norm"."""
    batch = _Batch(rewards, groups, {k: v for k, v in given.items() if k in _ARRAYS})
    options = _options(estimator, {k: v for k, v in given.items() if k not in _ARRAYS})
    gives = _info(names().index(estimator)).gives
    sizes = {
        "advantages": (c_double, batch.n),
        "token_advantages": (c_float, batch.tokens),
        "returns": (c_float, batch.tokens if "returns" in gives else None),
        "turn_advantages": (c_double, batch.turns if "turns" in gives else None),
    }
    outputs, report = AdvantageOutputs(), AdvantageReport()
    made: Dict[str, Any] = dict.fromkeys(sizes)
    for name, (kind, size) in sizes.items():
        if size is not None:
            made[name] = _arrays.empty(kind, size)
            setattr(outputs, name, _arrays.pointer(made[name], kind))
    with _estimators.around(estimator):
        lib.sr1_advantage_estimate(
            terminated(estimator),
            byref(batch.c),
            byref(options),
            byref(outputs),
            byref(report),
        )
    return Estimate(report=report.as_dict(), **made)


# ---- an estimator of your own ----

_NEEDS = {
    "tokens": 1,
    "turns": 2,
    "turn_rewards": 4,
    "values": 8,
    "components": 16,
    "turn_states": 32,
    "turn_tags": 64,
    "confidences": 128,
    "result_turn": 256,
    "baselines": 512,
    "score_norms": 1024,
}


@dataclass(frozen=True)
class Batch:
    """What a registered estimator computes from: n trajectories with T policy tokens and
    U turns in all, one after the other. An array that is not there is None. Copies."""

    n: int
    rewards: Any  # float64 [n], those of the turns included
    groups: Any  # uint64 [n]
    token_begin: Any  # int64 [n + 1]: trajectory i has tokens [begin[i], begin[i + 1])
    token_turns: Any  # int32 [T] turn of each token within its trajectory
    turn_begin: Any  # int64 [n + 1]
    turn_rewards: Any  # float64 [U]
    token_rewards: Any  # float64 [T] on top of rewards: KL in the reward, dense rewards
    values: Any  # float32 [T] of the critic
    bootstrap: Any  # float64 [n] the critic's value of the state after the last token
    completed: Any  # uint8 [n] 1: ended by itself
    result_turn: Any  # int32 [n] first turn that a result followed, -1: none
    baselines: Any  # float64 [n] reward of the greedy rollout
    turn_states: Any  # uint64 [U]
    turn_tags: Any  # int32 [U]
    confidences: Any  # float64 [U * 4] after thinking at each level; NaN: was not made
    thinking_costs: Any  # float64 [U * 4] tokens of that thinking
    step_tokens: Any  # uint8 [T] 1: has its turn's part; None: all have it
    components: Any  # float64 [n * c] parts of the rewards, before their weights
    component_absent: Any  # uint8 [n * c] 1: that reward is None (components: NaN)
    component_names: Tuple[str, ...]  # [c]
    component_weights: Any  # float64 [c]
    score_norms: Any  # float32 [T] |d log p / d logits|^2 of each token
    token_places: Any  # int32 [T] in the response, inserted text included


def _batch_of(c: AdvantageBatch) -> Batch:
    def taken(name: str, kind: Any, n: int) -> Any:
        return _registered.taken(getattr(c, name), kind, n)

    n, width = c.n, c.n_components
    tokens = c.token_begin[n] if c.token_begin else 0
    turns = c.turn_begin[n] if c.turn_begin else 0
    return Batch(
        n=n,
        rewards=taken("rewards", c_double, n),
        groups=taken("groups", c_uint64, n),
        token_begin=taken("token_begin", c_int64, n + 1),
        token_turns=taken("token_turns", c_int32, tokens),
        turn_begin=taken("turn_begin", c_int64, n + 1),
        turn_rewards=taken("turn_rewards", c_double, turns),
        token_rewards=taken("token_rewards", c_double, tokens),
        values=taken("values", c_float, tokens),
        bootstrap=taken("bootstrap", c_double, n),
        completed=taken("completed", c_uint8, n),
        result_turn=taken("result_turn", c_int32, n),
        baselines=taken("baselines", c_double, n),
        turn_states=taken("turn_states", c_uint64, turns),
        turn_tags=taken("turn_tags", c_int32, turns),
        confidences=taken("confidences", c_double, 4 * turns),
        thinking_costs=taken("thinking_costs", c_double, 4 * turns),
        step_tokens=taken("step_tokens", c_uint8, tokens),
        components=taken("components", c_double, n * width),
        component_absent=taken("component_absent", c_uint8, n * width),
        component_names=tuple(
            decode(c.component_names[i]) for i in range(width if c.component_names else 0)
        ),
        component_weights=taken("component_weights", c_double, width),
        score_norms=taken("score_norms", c_float, tokens),
        token_places=taken("token_places", c_int32, tokens),
    )


def _call_estimator(who: str, function: Any, how: Any, b: Any, o: Any, out: Any) -> None:
    gives = how[0]
    batch, outputs = _batch_of(b.contents), out.contents
    tokens = int(batch.token_begin[batch.n]) if batch.token_begin is not None else 0
    turns = int(batch.turn_begin[batch.n]) if batch.turn_begin is not None else 0
    targets = [("advantages", c_double, batch.n)]
    if "tokens" in gives:
        targets = [("token_advantages", c_float, tokens)]
    if "returns" in gives:
        targets.append(("returns", c_float, tokens))
    if "turns" in gives:
        targets.append(("turn_advantages", c_double, turns))
    made = function(batch, o.contents.as_dict())
    made = made if isinstance(made, tuple) else (made,)
    if len(made) != len(targets):
        wanted = ", ".join(name for name, _, _ in targets)
        raise ValueError(f"{who} has to return {wanted}, and gave {len(made)} arrays")
    for (name, kind, n), values in zip(targets, made):
        _registered.put(f"{who}, {name}", getattr(outputs, name), kind, values, n)


_estimators = _registered.Registered("estimator", "register_adv_est", _call_estimator)
_estimate_thunk = AdvantageOpsEstimate(_estimators.called)


def register_adv_est(
    name: str,
    gives: Sequence[str] = (),
    needs: Sequence[str] = (),
    options: Sequence[str] = (),
    **numbers: Any,
) -> Callable[[Any], Any]:
    """Make a function an estimator, for `advantage: NAME` and for estimate().

    @register_adv_est("centred")
    def centred(batch, options):
        return batch.rewards - batch.rewards.mean()

    It gets a Batch and the options as a dictionary, and returns an advantage for each
    trajectory [n]; with gives=["tokens"] for each policy token [T]; with "returns" (a
    critic's targets) or "turns" a tuple of these behind it. gives=["group_relative"] says
    that a group of equal rewards gets 0, so that it may be skipped
    (skip_zero_variance_groups). needs: arrays it cannot do
    without, "values" for a critic. options: those it reads; numbers: their defaults where
    they are not grpo's. A name is taken for the life of the process; only the same
    function, defined again with the same settings, takes its place."""
    _estimators.check_name(name)
    gives, needs, options = map(_registered.names_of, (gives, needs, options))
    _estimators.check_options(name, options, [n for n, *_ in AdvantageOptions._fields_])

    def register(function: Any) -> Any:
        def to_library(key: int) -> None:
            ops = AdvantageOps(
                name=terminated(name),
                estimate=_estimate_thunk,
                needs=_registered.bits(needs, _NEEDS, "needs"),
                gives=_registered.bits(gives, _GIVES, "gives"),
                options=terminated(", ".join(options)),
                defaults=pointer(_options("grpo", numbers)),
                formula=terminated(function.__doc__ or ""),
                source=terminated(f"{function.__module__}.{function.__qualname__}"),
            )
            lib.sr1_advantage_register(byref(ops), key)

        how = (gives, needs, options, numbers)
        _estimators.add(name, function, how, to_library)
        return function

    return register


def compute(
    rewards: Sequence[float],
    groups: Sequence[int],
    estimator: str = "grpo",
    eps: float = EPS,
    divide_by_std: bool = True,
    token_counts: Optional[Sequence[int]] = None,
) -> Tuple[Any, Any]:
    """(advantages, token_advantages) of an estimator that needs rewards and groups only:
    float64 [n] by trajectory and, where the numbers of policy tokens are given, float32
    [their sum] (else None)."""
    options = {"eps": eps, "divide_by_std": divide_by_std}
    made = estimate(estimator, rewards, groups, token_counts=token_counts, **options)
    return made.advantages, made.token_advantages


def zero_variance_groups(rewards: Sequence[float], groups: Sequence[int]) -> Tuple[Any, int, int]:
    """(marks, groups, marked groups): uint8 [n], 1 where a group cannot teach."""
    held, reward_pointer = _arrays.given(rewards, c_double)
    keys, key_pointer = _arrays.given(groups, c_uint64, len(held))
    marks, n_groups, n_marked = _arrays.empty(c_uint8, len(held)), c_size_t(), c_size_t()
    lib.sr1_advantage_zero_variance_groups(
        reward_pointer,
        key_pointer,
        len(held),
        _arrays.pointer(marks, c_uint8),
        byref(n_groups),
        byref(n_marked),
    )
    return marks, n_groups.value, n_marked.value


def dynamic_sampling(
    scores: Sequence[float], groups: Sequence[int], low: float = 0.0, high: float = 1.0
) -> Tuple[Any, int, int]:
    """(keep, groups, kept groups): uint8 [n], 1 where the group's mean score lies strictly
    between low and high (DAPO)."""
    held, score_pointer = _arrays.given(scores, c_double)
    keys, key_pointer = _arrays.given(groups, c_uint64, len(held))
    keep, n_groups, n_kept = _arrays.empty(c_uint8, len(held)), c_size_t(), c_size_t()
    lib.sr1_dynamic_sampling(
        score_pointer,
        key_pointer,
        len(held),
        low,
        high,
        _arrays.pointer(keep, c_uint8),
        byref(n_groups),
        byref(n_kept),
    )
    return keep, n_groups.value, n_kept.value


def thinking_confidence(
    kind: str, values: Sequence[float], include: Optional[Sequence[int]] = None
) -> float:
    """RLVCR's confidence in an action: values are its tokens' entropies for "entropy",
    their log-probs for "mean", "mean_prob" and "min". include: 0 leaves a token out."""
    held, pointer = _arrays.given(values, c_float)
    mask = None if include is None else _arrays.given(include, c_uint8, len(held))
    out = c_double()
    lib.sr1_thinking_confidence(
        terminated(kind),
        None if kind == "entropy" else pointer,
        pointer if kind == "entropy" else None,
        mask and mask[1],
        len(held),
        byref(out),
    )
    return out.value


# ---- divergence ----


def kl_k3(old_log_probs: Sequence[float], new_log_probs: Sequence[float]) -> float:
    """Mean k3 estimate of KL(new || old), nats per token. float32 arrays as they are."""
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


def kl_tokens(
    kind: str, new_log_probs: Sequence[float], ref_log_probs: Sequence[float]
) -> Tuple[Any, Any]:
    """(kl, derivative by the new log-prob) by token: float64 [n]. kind: k1, kl, abs, k2,
    mse, k3, low_var_kl, each also with '+'."""
    new, new_pointer = _arrays.given(new_log_probs, c_double)
    ref, ref_pointer = _arrays.given(ref_log_probs, c_double, len(new))
    kl, slope = _arrays.empty(c_double, len(new)), _arrays.empty(c_double, len(new))
    lib.sr1_kl_tokens(
        terminated(kind),
        new_pointer,
        ref_pointer,
        len(new),
        _arrays.pointer(kl, c_double),
        _arrays.pointer(slope, c_double),
    )
    return kl, slope


def kl_full(
    log_probs: Sequence[Any], ref_log_probs: Sequence[Any], vocab: int
) -> Tuple[Any, Any]:
    """(kl [n], derivative by the logits [n * vocab]) of n whole distributions."""
    new, new_pointer = _arrays.given(_flat(log_probs), c_double)
    ref, ref_pointer = _arrays.given(_flat(ref_log_probs), c_double, len(new))
    n = len(new) // vocab
    if n * vocab != len(new):
        raise ValueError(f"{len(new)} log-probs are no rows of {vocab}")
    kl, slope = _arrays.empty(c_double, n), _arrays.empty(c_double, n * vocab)
    lib.sr1_kl_full(
        new_pointer,
        ref_pointer,
        n,
        vocab,
        _arrays.pointer(kl, c_double),
        _arrays.pointer(slope, c_double),
    )
    return kl, slope


def kl_penalty(
    kind: str,
    beta: float,
    old_log_probs: Sequence[float],
    ref_log_probs: Sequence[float],
    token_rewards: Optional[Sequence[float]] = None,
) -> Tuple[Any, float]:
    """(token_rewards - beta * kl, mean kl): float64 [n]; None: from zeros."""
    old, old_pointer = _arrays.given(old_log_probs, c_float)
    ref, ref_pointer = _arrays.given(ref_log_probs, c_float, len(old))
    out, mean = _arrays.empty(c_double, len(old)), c_double()
    if token_rewards is not None:
        given, _ = _arrays.given(token_rewards, c_double, len(old))
        out[:] = given
    lib.sr1_kl_penalty(
        terminated(kind),
        beta,
        old_pointer,
        ref_pointer,
        len(old),
        _arrays.pointer(out, c_double),
        byref(mean),
    )
    return out, mean.value


class Controller:
    """The coefficient of the KL penalty: fixed, or held near a target (horizon > 0).

    state() and Controller(**state) carry it over a restart."""

    def __init__(
        self,
        coef: float,
        target: float = 0.0,
        horizon: float = 0.0,
        updates: int = 0,
        last_kl: float = 0.0,
    ) -> None:
        self._c = KlController(
            coef=coef, target=target, horizon=horizon, updates=updates, last_kl=last_kl
        )

    @property
    def coef(self) -> float:
        return float(self._c.coef)

    def update(self, kl: float, n: int) -> float:
        """Tell it the mean KL over n samples; gives the new coefficient."""
        lib.sr1_kl_controller_update(byref(self._c), kl, n)
        return self.coef

    def state(self) -> Dict[str, Union[int, float]]:
        return self._c.as_dict()


# ---- lengths and queries ----


def overlong_penalty(
    lengths: Sequence[int], max_length: int, cache: int, factor: float = 1.0
) -> Any:
    """DAPO's soft punishment: float64 [n], 0 to -factor."""
    held, pointer = _arrays.given(lengths, c_int64)
    out = _arrays.empty(c_double, len(held))
    lib.sr1_overlong_penalty(
        pointer, len(held), max_length, cache, factor, _arrays.pointer(out, c_double)
    )
    return out


def select_queries(
    rule: str,
    n: int,
    k: int,
    seed: int = 0,
    stream: int = 0,
    seen: Optional[Sequence[int]] = None,
    reward_variance: Optional[Sequence[float]] = None,
    success: Optional[Sequence[float]] = None,
) -> Any:
    """Indices of the k of n queries to roll out next, most wanted first: int64 [k]. rule:
    uniform, reward_variance, success_half, least_seen."""
    stats = QueryStats(n=n)
    held = []
    for name, values, kind in (
        ("seen", seen, c_int64),
        ("reward_variance", reward_variance, c_double),
        ("success", success, c_double),
    ):
        if values is not None:
            data, pointer = _arrays.given(values, kind, n)
            held.append(data)
            setattr(stats, name, pointer)
    out = _arrays.empty(c_int64, k)
    lib.sr1_query_select(
        terminated(rule), byref(stats), k, seed, stream, _arrays.pointer(out, c_int64)
    )
    return out


def balance(
    lengths: Sequence[int], parts: int, equal_sizes: bool = False
) -> Tuple[Any, Dict[str, Any]]:
    """(part of each item int32 [n], report): sums nearly equal (Karmarkar-Karp)."""
    held, pointer = _arrays.given(lengths, c_int64)
    part, report = _arrays.empty(c_int32, len(held)), BalanceReport()
    lib.sr1_balance(
        pointer,
        len(held),
        parts,
        equal_sizes,
        _arrays.pointer(part, c_int32),
        byref(report),
    )
    return part, report.as_dict()
