"""What a trajectory is worth: rewards of texts, and weighted sums over trajectories."""

from __future__ import annotations

import os
import warnings
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
    cast,
    pointer,
    sizeof,
)
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _arrays, _async, _callbacks, _structs, log
from ._handle import Handle, make
from ._lib import lib
from ._structs import (
    ExternalOptions,
    JudgeCounters,
    JudgeItem,
    JudgeOptions,
    RewardOps,
    RewardOpsScoreStates,
    RewardOpsScoreTurns,
    RewardOptions,
)
from ._text import PathLike, Text, decode, encode, optional, strings, take, terminated
from .config import Config, as_config
from .errors import Error, NotFoundError
from .trajectory import Trajectory, pointers

Truths = Union[str, Sequence[str]]
Score = Union[float, None, Exception]
RewardFunction = Callable[
    [List[Trajectory]], Union[Sequence[Score], Awaitable[Sequence[Score]]]
]
# The whole set of a trainer: a function, a function with its weight, or under the name of
# a built-in reward its weight alone; or functions and names of built-in rewards without.
Rewards = Union[
    Mapping[str, Union[RewardFunction, Tuple[RewardFunction, float], float]],
    Sequence[Union[RewardFunction, str]],
    RewardFunction,
    str,
]
TurnsFunction = Callable[[Trajectory], Union[Sequence[float], Awaitable[Sequence[float]]]]
LEVELS = ("outcome", "turn")


@dataclass(frozen=True)
class Scales:
    """What each outcome is worth."""

    format_reward: float = 0.5  # well-formed
    format_penalty: float = -1.0  # not well-formed
    answer_reward: float = 1.0  # similar to a gold answer
    exact_match_bonus: float = 2.0  # equal to one; the whole reward of it
    no_content_reward: float = 0.5  # the answer is no_content_text
    similarity_threshold: float = 0.5  # smallest ratio that is similar
    no_content_text: Optional[str] = None  # None: the library's
    closed_thoughts: bool = False  # a thought left open, or closed twice, is malformed
    repetition_n_grams: int = 3  # of repetition_penalty: tokens of an n-gram,
    repetition_max_penalty: float = -1.0  # and its least value
    search_price: float = 0.1  # of search_cost: what each search costs


def _scales(scales: Optional[Scales]) -> Any:
    if scales is None:
        return None
    fields = dict(vars(scales), no_content_text=optional(scales.no_content_text))
    return pointer(_structs.RewardScales(**fields))


def _truths(truths: Truths) -> Tuple[Any, int]:
    array = strings([truths] if isinstance(truths, str) else truths)
    return array, len(array)


# ---- the seed's rewards ----


def check_format(text: Text, scales: Optional[Scales] = None) -> float:
    """format_reward for a well-formed response (prompt excluded), else format_penalty."""
    data, out = encode(text), c_double()
    lib.sr1_reward_check_format(data, len(data), _scales(scales), byref(out))
    return out.value


def check_answer(answer: Text, truths: Truths, scales: Optional[Scales] = None) -> float:
    """0, or what an equal, similar or "no content found" answer is worth."""
    data, out = encode(answer), c_double()
    lib.sr1_reward_check_answer(
        data, len(data), *_truths(truths), _scales(scales), byref(out)
    )
    return out.value


def total(text: Text, truths: Truths, scales: Optional[Scales] = None) -> float:
    """check_format of a response + check_answer of the answer in it: in [-1.0, 2.5]."""
    data, out = encode(text), c_double()
    lib.sr1_reward_total(data, len(data), *_truths(truths), _scales(scales), byref(out))
    return out.value


def find_answer(text: Text) -> Tuple[str, bool]:
    """The final answer in a response and whether its tag was closed."""
    data = encode(text)
    begin, n, closed = c_size_t(), c_size_t(), c_int32()
    lib.sr1_reward_find_answer(data, len(data), byref(begin), byref(n), byref(closed))
    return decode(data[begin.value : begin.value + n.value]), bool(closed.value)


def similarity_ratio(a: Text, b: Text) -> float:
    """difflib.SequenceMatcher(None, a, b).ratio(); texts of at most 2048 characters."""
    a, b, out = encode(a), encode(b), c_double()
    lib.sr1_similarity_ratio(a, len(a), b, len(b), byref(out))
    return out.value


# ---- Search-R1's rewards and text metrics, in [0, 1] ----


def _score(function: Any, answer: Text, truths: Truths, *more: Any) -> float:
    data, out = encode(answer), c_double()
    function(data, len(data), *_truths(truths), *more, byref(out))
    return out.value


def normalize(text: Text) -> str:
    """Lower case, without punctuation, articles and extra spaces."""
    data = encode(text)
    out, n = c_void_p(), c_size_t()
    lib.sr1_reward_normalize(data, len(data), byref(out), byref(n))
    return take(out, n.value)


def exact_match(answer: Text, truths: Truths) -> float:
    """1 if the normalised answer equals a normalised gold answer."""
    return _score(lib.sr1_reward_exact_match, answer, truths)


def sub_match(answer: Text, truths: Truths) -> float:
    """1 if the normalised answer contains a normalised gold answer."""
    return _score(lib.sr1_reward_sub_match, answer, truths)


def f1(answer: Text, truths: Truths) -> float:
    """Over normalised words (SQuAD)."""
    return _score(lib.sr1_reward_f1, answer, truths)


def bleu(answer: Text, truths: Truths) -> float:
    """Sentence BLEU-4 over all gold answers at once."""
    return _score(lib.sr1_metric_bleu, answer, truths)


def rouge_n(answer: Text, truths: Truths, n: int) -> float:
    """ROUGE-n F measure, n 1 to 4."""
    return _score(lib.sr1_metric_rouge_n, answer, truths, n)


def rouge_l(answer: Text, truths: Truths) -> float:
    """ROUGE-L F measure."""
    return _score(lib.sr1_metric_rouge_l, answer, truths)


# ---- verl's scores of a worked solution to a mathematical problem ----


def gsm8k(solution: Text, truths: Truths) -> float:
    """1 if the last "#### NUMBER" of a worked solution is a gold answer (verl's gsm8k)."""
    return _score(lib.sr1_reward_gsm8k, solution, truths)


def math_reward(solution: Text, truths: Truths) -> float:
    """1 if the last \\boxed{...} is a gold answer, rewritten as for MATH (verl's
    math_reward)."""
    return _score(lib.sr1_reward_math_reward, solution, truths)


def math_dapo(solution: Text, truths: Truths) -> float:
    """1 if what follows the last "Answer:", else the last \\boxed{...}, is a gold answer,
    rewritten as for Minerva; -1 if it is not (verl's math_dapo)."""
    return _score(lib.sr1_reward_math_dapo, solution, truths)


# ---- sets of weighted rewards ----


class Judge(Handle):
    """A language model behind a server of OpenAI's API that scores answers.

        with Judge("http://127.0.0.1:8000/v1") as judge:
            judge.score([("How tall is the tower?", "324 m", ["324 metres"])])

    options: model, key_env, ca_file, timeout_s, retries, concurrency, prompt (the rubric, with
    {{question}}, {{answer}} and {{ground_truths}}), max_score, samples, vote ("mean" or
    "majority"), temperature, max_tokens, cache_dir, max_requests, max_total_tokens, seed (see
    sr1_judge_options)."""

    _free = "sr1_judge_free"

    def __init__(self, base_url: str, vote: str = "mean", **options: Any) -> None:
        o = JudgeOptions()
        lib.sr1_judge_options_init(byref(o))
        o.struct_size = sizeof(o)
        names = [name for name, _ in JudgeOptions._fields_]
        for name, value in {**options, "base_url": base_url, "vote": VOTES.index(vote)}.items():
            if name not in names:
                raise TypeError(f"'{name}' is no option; there are {', '.join(names)}")
            if value is not None:
                setattr(o, name, terminated(value) if isinstance(value, str) else value)
        super().__init__(make(lib.sr1_judge_open, byref(o)))

    @classmethod
    def open(cls, config: Union[Config, PathLike, Mapping[str, Any]]) -> Judge:
        """The one that a configuration names (judge_base_url, ...)."""
        self = cls.__new__(cls)
        Handle.__init__(self, make(lib.sr1_judge_open_config, as_config(config)))
        return self

    def score(self, items: Sequence[Tuple[str, str, Sequence[str]]]) -> List[float]:
        """Score (question, answer, ground truths): 0 to 1, NaN where the judge gave no
        score."""
        truths = [strings(truths) for _, _, truths in items]
        array = (JudgeItem * len(items))(
            *[
                JudgeItem(
                    question=terminated(question),
                    answer=terminated(answer),
                    truths=cast(known, POINTER(c_char_p)),
                    n_truths=len(known),
                )
                for (question, answer, _), known in zip(items, truths)
            ]
        )
        out = (c_double * len(items))()
        lib.sr1_judge_score(self, array, len(items), out)
        return list(out)

    @property
    def counters(self) -> Dict[str, int]:
        """Since it was opened: items, requests, cached, unreadable, failed, unknown,
        tokens."""
        counters = JudgeCounters()
        lib.sr1_judge_counters_get(self, byref(counters))
        return counters.as_dict()


def _sources(rewards: Mapping[str, Union[str, Sequence[str]]]) -> Optional[bytes]:
    """As the key data_source_rewards has it; None: there are none."""
    items = [f"{k}={v if isinstance(v, str) else '+'.join(v)}" for k, v in rewards.items()]
    return terminated(",".join(items)) if items else None


VOTES = ("mean", "majority")
UNKNOWN, NOT_APPLICABLE = 1, 2  # SR1_REWARD_*


class RewardSet(Handle):
    """A weighted sum of rewards: known ones by name, and Python functions.

    rewards = RewardSet(["exact_match"], [1.0])
    rewards.add("brief", lambda ts: [-t.policy_count for t in ts], 0.01)
    """

    _free = "sr1_reward_set_free"

    def __init__(
        self,
        rewards: Union[Sequence[str], str] = ("format", "answer"),
        weights: Optional[Sequence[float]] = None,
        protocol: Optional[str] = None,
        scales: Optional[Scales] = None,
        embedder: Optional[Handle] = None,
        checker: Optional[Handle] = None,
        problems: Optional[Handle] = None,
        judgement_required: bool = False,
        judge: Optional[Judge] = None,
        data_source_rewards: Optional[Mapping[str, Union[str, Sequence[str]]]] = None,
        gold_ids_field: Optional[str] = None,
    ) -> None:
        """rewards: names of searchr1/reward.h, or one. weights None: all 1. embedder: for the
        reward "embedding"; checker and problems (searchr1.code): for "execution" and
        "judgement"; judge: for "judge". data_source_rewards: which of the rewards score the
        rows of which data source, {"openai/gsm8k": "gsm8k", "aime*": ["math_dapo"]}; "*": of
        all others. gold_ids_field: column of "retrieval_recall", None: "gold_ids"."""
        names = [rewards] if isinstance(rewards, str) else rewards
        numbers = None if weights is None else [repr(float(w)) for w in weights]
        options = RewardOptions(
            rewards=terminated(",".join(names)),
            weights=None if numbers is None else ",".join(numbers).encode(),
            protocol=optional(protocol),
            scales=_scales(scales),
            embedder=embedder and embedder._as_parameter_,
            checker=checker and checker._as_parameter_,
            problems=problems and problems._as_parameter_,
            judgement_required=judgement_required,
            judge=judge and judge._as_parameter_,
            data_source_rewards=_sources(data_source_rewards or {}),
            gold_ids_field=optional(gold_ids_field),
        )
        super().__init__(make(lib.sr1_reward_set_new, byref(options)))

    @classmethod
    def open(cls, config: Union[Config, PathLike, Mapping[str, Any]]) -> RewardSet:
        """Those that a configuration names (rewards, reward_weights, ...)."""
        self = cls.__new__(cls)
        Handle.__init__(self, make(lib.sr1_reward_set_open, as_config(config)))
        return self

    def add(
        self,
        name: str,
        function: RewardFunction,
        weight: float = 1.0,
        level: str = "outcome",
        turns: Optional[TurnsFunction] = None,
    ) -> None:
        """Add a function from trajectories to one number each: None where the reward does
        not apply to a trajectory, which the others then score, and an exception object
        where it could not be had, which leaves the trajectory out. What it raises comes out
        of score and apply. level: "outcome" or "turn"; turns: from a trajectory to how
        much each of its turns did for the reward."""
        add_reward(
            lib.sr1_reward_set_add,
            self,
            name,
            function,
            weight,
            LEVELS.index(level),
            turns,
        )

    def add_program(
        self, name: str, path: PathLike, weight: float = 1.0, timeout: float = 600.0
    ) -> None:
        """Add a program of yours, in any language, that scores trajectories by lines of
        JSON (docs/formats.md). timeout: seconds of one request. What it does not score is
        left out of training."""
        options = ExternalOptions(timeout_s=timeout)
        lib.sr1_reward_set_add_external(
            self, terminated(os.fspath(path)), terminated(name), weight, byref(options)
        )

    @property
    def names(self) -> List[str]:
        count = lib.sr1_reward_set_count(self)
        return [decode(lib.sr1_reward_set_name(self, i)) for i in range(count)]

    @property
    def levels(self) -> List[str]:
        """ "outcome" or "turn" for each reward."""
        count = lib.sr1_reward_set_count(self)
        return [LEVELS[lib.sr1_reward_set_level(self, i)] for i in range(count)]

    def score_turns(self, trajectories: Sequence[Trajectory]) -> Tuple[Any, Any, Any]:
        """(parts, totals, begin): the rewards of level turn, turn by turn. Trajectory i
        has the rows begin[i] to begin[i + 1] of parts [turns, rewards] and totals
        [turns]."""
        begin = [0]
        for trajectory in trajectories:
            begin.append(begin[-1] + trajectory.turn_count)
        count = lib.sr1_reward_set_count(self)
        parts, totals = _arrays.empty(c_double, begin[-1], count), _arrays.empty(
            c_double, begin[-1]
        )
        with _callbacks.call():
            lib.sr1_reward_set_score_turns(
                self,
                pointers(trajectories),
                len(trajectories),
                (c_int64 * len(begin))(*begin),
                _arrays.pointer(parts, c_double),
                _arrays.pointer(totals, c_double),
            )
        return parts, totals, begin

    def score(self, trajectories: Sequence[Trajectory]) -> Tuple[Any, Any]:
        """(parts, totals) without changing the trajectories: float64 [n, rewards] before
        weighting, and float64 [n]."""
        n, count = len(trajectories), lib.sr1_reward_set_count(self)
        parts, totals = _arrays.empty(c_double, n, count), _arrays.empty(c_double, n)
        with _callbacks.call():
            lib.sr1_reward_set_score(
                self,
                pointers(trajectories),
                n,
                _arrays.pointer(parts, c_double),
                _arrays.pointer(totals, c_double),
            )
        return parts, totals

    def begin(self, trajectory: Trajectory) -> None:
        """Begin to score a finished trajectory, ahead of score or apply, where a reward
        takes long."""
        with _callbacks.call():
            lib.sr1_reward_set_begin(self, trajectory)

    def apply(self, trajectories: Sequence[Trajectory]) -> None:
        """Score, and set the trajectories' rewards part by part. One whose reward could
        not be had gets the stop reason "unscored" and none."""
        with _callbacks.call():
            lib.sr1_reward_set_apply(self, pointers(trajectories), len(trajectories))


def _check_function(what: str, function: Any) -> None:
    """Refuse what is not called with trajectories; those of TRL with the remedy."""
    signature = _callbacks.signature_of(function)
    for parameter in signature.parameters.values() if signature else ():
        of_trl = parameter.name in ("prompts", "completions", "completion_ids")
        if of_trl and parameter.default is parameter.empty:
            name = _callbacks.name_of(function)
            raise TypeError(
                f"{what} is called as {name}(trajectories), and {name}{signature} takes "
                f"what TRL gives; wrap it: searchr1.adapters.of_trl({name})"
            )
    _callbacks.check_call(what, function, "trajectories")


def add_reward(
    add: Any,
    target: Handle,
    name: str,
    function: RewardFunction,
    weight: float,
    level: int = 0,
    turns: Optional[TurnsFunction] = None,
) -> None:
    """Give a Python reward to a set or a trainer by its function `add`."""
    _check_function(f"reward '{name}'", function)
    if not _callbacks.is_number(weight):
        raise TypeError(f"reward '{name}': the weight is a number, not {weight!r}")
    if turns is not None:
        _callbacks.check_call(f"reward '{name}', turns", turns, "trajectory")
    ops = RewardOps(
        name=terminated(name),
        score_states=_score_thunk,
        destroy=_callbacks.destroy,
        level=level,
        score_turns=_turns_thunk if turns else RewardOpsScoreTurns(),
    )
    key = _callbacks.own((name, function, turns))
    try:
        add(target, byref(ops), key, weight)
    except Exception:
        _callbacks.disown(key)
        raise
    if _is_builtin(name):
        warnings.warn(
            f"the reward '{name}' is now your function, not the built-in reward of that "
            "name; give it another name, or have the built-in one by its weight: "
            f"rewards={{'{name}': 1.0}}",
            stacklevel=3,
        )


def _is_builtin(name: str) -> bool:
    try:
        RewardSet([name])
    except NotFoundError:
        return False
    except Error:
        pass  # known, and it needs more than its name
    return True


def _called(key: int, trajectories: Any, n: int, out: Any, states: Any) -> int:
    name, function, _ = _callbacks.owned(key)
    return int(_callbacks.run(_fill, name, function, trajectories[:n], out, states))


_score_thunk = RewardOpsScoreStates(_called)


def _turns_called(key: int, trajectory: int, out: Any) -> int:
    name, _, turns = _callbacks.owned(key)
    return int(_callbacks.run(_fill_turns, name, turns, trajectory, out))


_turns_thunk = RewardOpsScoreTurns(_turns_called)


def _fill_turns(name: str, function: TurnsFunction, address: int, out: Any) -> None:
    trajectory = Trajectory._retained(address)
    values = _async.result(function(trajectory))
    turns = trajectory.turn_count
    _callbacks.check_each(f"reward '{name}'", values, "values", turns, "turns")
    for i, value in enumerate(values):
        out[i] = float(value)


def _number(name: str, score: Any, i: int, t: Trajectory) -> float:
    try:
        return float(score)
    except (TypeError, ValueError):
        raise TypeError(
            f"reward '{name}' gave {score!r:.80}, which is no number, to trajectory {i} "
            f"(row {t.query_id!r}, sample {t.sample})"
        ) from None


def _fill(
    name: str, function: RewardFunction, addresses: List[int], out: Any, states: Any
) -> None:
    trajectories = [Trajectory._retained(address) for address in addresses]
    scores = _async.result(function(trajectories))
    _callbacks.check_each(
        f"reward '{name}'", scores, "rewards", len(addresses), "trajectories"
    )
    failed = []
    for i, (score, t) in enumerate(zip(scores, trajectories)):
        if score is None:
            states[i] = NOT_APPLICABLE
        elif isinstance(score, Exception):
            states[i] = UNKNOWN
            failed.append(score)
        else:
            out[i] = _number(name, score, i, t)
    if failed:
        log.warn(
            f"reward '{name}' of {len(failed)} of {len(addresses)} trajectories could not "
            f"be had, and they are left out: {_callbacks.describe(failed[0])}"
        )


def _named(reward: Any) -> Tuple[str, Any]:
    """The name and the value that a mapping would have for it."""
    if isinstance(reward, str):
        return reward, 1.0
    if not callable(reward):
        raise TypeError(
            "a reward is a function from trajectories to one number each, or the name of a "
            f"built-in one, not {reward!r:.80}"
        )
    name = _callbacks.name_of(reward)
    return ("reward" if name == "<lambda>" else name), reward


def as_mapping(rewards: Rewards) -> Mapping[str, Any]:
    """Each under its name: a function's is its own."""
    if isinstance(rewards, Mapping):
        return rewards
    if isinstance(rewards, str):  # as the key has them
        rewards = [name.strip() for name in rewards.split(",")]
    pairs = [_named(reward) for reward in ([rewards] if callable(rewards) else rewards)]
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"two rewards have the name '{name}'; name them: rewards={{'{name}': ...}}"
            )
    return dict(pairs)


def split_rewards(
    given: Rewards,
) -> Tuple[Dict[str, float], List[Tuple[str, RewardFunction, float]]]:
    """The built-in ones as {name: weight}, and (name, function, weight) of the others."""
    rewards = as_mapping(given)
    builtins = {k: float(v) for k, v in rewards.items() if isinstance(v, (int, float))}
    others = {k: v for k, v in rewards.items() if k not in builtins}
    pairs = [(k, *(v if isinstance(v, tuple) else (v, 1.0))) for k, v in others.items()]
    weights = [*builtins.values(), *(weight for _, _, weight in pairs)]
    if weights and not any(weights):
        warnings.warn(
            "every reward has the weight 0: all rewards are equal, and nothing is learned; "
            "give at least one another weight",
            stacklevel=3,
        )
    return builtins, pairs
