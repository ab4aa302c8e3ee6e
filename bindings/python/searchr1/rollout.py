"""Let a policy think, search and answer, and measure how well."""

from __future__ import annotations

import itertools
import json
import math
from ctypes import byref, c_char_p, c_double, c_float, c_size_t, c_void_p
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from . import _arrays, _callbacks, _structs
from ._handle import Handle, make
from ._lib import lib
from ._structs import (
    EvalOptions,
    EvalOptionsProgress,
    EvalOptionsTrajectory,
    RolloutOptions,
    RolloutOptionsProgress,
    RolloutOptionsText,
)
from ._rows import Rows
from ._text import (
    PathLike,
    decode,
    encode,
    optional,
    path_bytes,
    strings,
    take,
    text_at,
)
from .config import Config, as_config
from .data import Dataset, Row, as_dataset
from .env import Environment, own_environment
from .errors import CancelledError
from .model import Model
from .ranks import Ranks
from .search import as_search
from .tokenizer import Tokenizer
from .trajectory import SOURCES, Trajectory, pointers

MAX_ROW = 1 << 20  # SR1_TRAJECTORY_MAX_ROW
Progress = Callable[[int, int, int], Any]  # finished, total, sampled tokens


@dataclass(frozen=True)
class Query:
    """One question. id: identity of the prompt; None: derived from the text."""

    text: str
    answers: Sequence[str] = ()
    id: Optional[str] = None
    data_source: Optional[str] = None
    # The conversation before it, oldest message first: {"role", "content"}.
    history: Sequence[Mapping[str, str]] = ()
    # The row of a data set, which rewards read as Trajectory.row: what JSON can hold.
    row: Mapping[str, Any] = field(default_factory=dict)
    # How many questions of this identity are before it in a list: a copy has random
    # streams and a group of its own. Trainer.train_step counts them itself.
    copy: int = 0


QueryLike = Union[Query, Row, str]


def _as_query(query: QueryLike) -> Query:
    if isinstance(query, Row):
        return Query(
            text=query.question,
            answers=query.answers,
            id=query.id,
            data_source=query.data_source,
            history=query.history,
            row=query.fields,
        )
    if isinstance(query, Query):
        return query
    if not isinstance(query, str):
        raise TypeError(f"a question is a text, Query or Row, not {query!r:.80}")
    return Query(query)


def _history(messages: Sequence[Mapping[str, str]]) -> Dict[str, Any]:
    if not messages:
        return {}
    texts = [encode(message["content"]) for message in messages]
    return {
        "history_roles": strings([message["role"] for message in messages]),
        "history_texts": (c_char_p * len(texts))(*texts),
        "history_sizes": (c_size_t * len(texts))(*map(len, texts)),
        "n_history": len(texts),
    }


def _row(row: Mapping[str, Any], read: bool) -> Dict[str, Any]:
    if not row:
        return {}
    text = encode(json.dumps(dict(row), ensure_ascii=False, allow_nan=False))
    if read and len(text) > MAX_ROW:
        return {}  # of a file, where the library leaves it out too
    return {"row": text, "row_len": len(text)}


def c_queries(queries: Sequence[QueryLike]) -> Any:
    """The questions as an array of C structs, which keeps their texts alive."""
    if isinstance(queries, str):
        raise TypeError(f"a list of questions is wanted here, not one: {queries!r:.80}")
    array = (_structs.Query * len(queries))()
    for at, given in zip(array, queries):
        query = _as_query(given)
        text = encode(query.text)
        at.__init__(
            text=text,
            text_len=len(text),
            id=optional(query.id),
            answers=strings(query.answers) if query.answers else None,
            n_answers=len(query.answers),
            data_source=optional(query.data_source),
            copy=query.copy,
            **_history(query.history),
            **_row(query.row, isinstance(given, Row)),
        )
    return array


@dataclass(frozen=True)
class Scores:
    """Means over the rows of one data source, or of all ("")."""

    data_source: str
    rows: int
    exact_match: float
    f1: float
    sub_match: float
    bleu: float
    rouge1: float
    rouge2: float
    rougeL: float
    format: float  # share of well-formed trajectories
    answered: float  # share that closed an answer
    searches: float  # per row
    tokens: float  # sampled tokens per row
    excluded: int = 0  # further rows, not scored: a search, server or reward failed
    embedding: float = 0.0  # as the reward "embedding", where there is an embedder
    reward: float = 0.0  # total of the rewards, where they were given
    success: float = 0.0  # share with an action that reached its goal
    thinking: float = 0.0  # tokens of thought per row
    with_answers: int = 0  # rows with gold answers: exact_match to rougeL, embedding
    # What searches found: share of answers with a gold answer in a result, over the rows
    # with_search; share of the row's gold ids that were hits, over those with_gold_ids.
    hit_rate: float = math.nan
    recall: float = math.nan
    with_search: int = 0
    with_gold_ids: int = 0
    # What the answers to a row are worth together (searchr1/ext/eval_figures.h), of
    # "exact_match" and "reward": {"mean@4": ..., "best@4/mean": ..., "majority": ...}
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Evaluation:
    """Scores over all rows, and by data source."""

    total: Scores
    by_source: Dict[str, Scores]
    partial: bool = False  # stopped on request: of the rows before


@dataclass(frozen=True)
class Figure:
    """A mean with the ends of its interval of 95 % (searchr1/ext/suite.h)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class SuiteScores:
    """A set of questions, or the average over sets."""

    name: str
    rows: int
    excluded: int  # further questions: a search, or the server, failed
    exact_match: Figure  # mean@n
    f1: Figure
    majority: Figure  # maj@n
    passes: Dict[int, Figure]  # pass@k, k from 1 to n
    searches: float  # per answer
    tokens: float
    hit_rate: Figure  # mean@n: a result holds a gold answer; NaN without a search engine
    recall: Figure  # mean@n: share of the gold ids that were hits; NaN without any


@dataclass(frozen=True)
class Suite:
    """A table over sets of questions."""

    sets: Dict[str, SuiteScores]  # Search-R1's first, in the order of its table
    average: SuiteScores
    samples: int


def _suite_scores(suite: Any, index: int) -> SuiteScores:
    def figure(name: str, k: int = 0) -> Figure:
        ends = (c_double(), c_double(), c_double())
        lib.sr1_suite_figure(suite, index, name.encode(), k, *map(byref, ends))
        return Figure(*(end.value for end in ends))

    return SuiteScores(
        name=decode(lib.sr1_suite_name(suite, index)),
        rows=lib.sr1_suite_rows(suite, index),
        excluded=lib.sr1_suite_excluded(suite, index),
        exact_match=figure("exact_match"),
        f1=figure("f1"),
        majority=figure("majority"),
        passes={
            k: figure("pass", k) for k in range(1, lib.sr1_suite_samples(suite) + 1)
        },
        searches=figure("searches").value,
        tokens=figure("tokens").value,
        hit_rate=figure("retrieval/hit_rate"),
        recall=figure("retrieval/recall"),
    )


@dataclass(frozen=True)
class SynthReport:
    """What came of a synthesis of demonstrations."""

    rows: int  # questions done, those of an earlier call among them
    resumed: int  # that were done before this call
    trajectories: int
    written: int
    below: int  # not written: their reward is below min_reward
    unfit: int  # ... no closed answer, or corrected by the protocol
    excluded: int  # ... a search of theirs, the server or a reward failed


def _figures(pointer: Any, index: int, score: str) -> Dict[str, float]:
    found: Dict[str, float] = {}
    value = c_double()
    for i in itertools.count():
        name = lib.sr1_evaluation_figure_name(pointer, i)
        if name is None:
            break
        lib.sr1_evaluation_figure(pointer, index, score.encode(), name, byref(value))
        found[decode(name)] = value.value
    return found


def read_evaluation(pointer: Any, partial: bool = False) -> Evaluation:
    """Copy an evaluation of the library."""
    found = []
    for i in range(lib.sr1_evaluation_count(pointer)):
        scores = _structs.EvalScores()
        lib.sr1_evaluation_scores(pointer, i, byref(scores))
        figures = {s: _figures(pointer, i, s) for s in ("exact_match", "reward")}
        values = dict(scores.as_dict(), data_source=decode(scores.data_source))
        found.append(Scores(**values, figures=figures))
    by_source = {scores.data_source: scores for scores in found[1:]}
    return Evaluation(found[0], by_source, partial)


class Rollout(Handle):
    """A policy with its tokenizer and search engine."""

    _free = "sr1_rollout_free"

    def __init__(
        self,
        config: Union[Config, PathLike, Mapping[str, Any]],
        model: Optional[Model] = None,
        tokenizer: Optional[Tokenizer] = None,
        search: Any = None,
        env: Any = None,
        tools: Sequence[Any] = (),
    ) -> None:
        """None: opened as the configuration says. search: a Search, or a Python engine
        (see PythonSearch). env: an Environment, or what it is made of: a function or an
        object from actions to answers. tools: functions or Tools that the policy calls."""
        engine = as_search(search)
        settings, own = own_environment(as_config(config), env, tools, engine)
        super().__init__(make(lib.sr1_rollout_new, settings, model, tokenizer, engine))
        if own:
            self.set_env(own)

    @classmethod
    def _borrow(cls, pointer: int, owner: Handle) -> Rollout:
        self = cls.__new__(cls)
        Handle.__init__(self, pointer, owner)
        return self

    def set_env(self, env: Environment) -> None:
        """Let another environment answer actions: tools, or a Python function. It must
        speak the configured protocol."""
        lib.sr1_rollout_set_env(self, env)

    @property
    def model(self) -> Optional[Model]:
        """None where a server generates (use_openai)."""
        pointer = lib.sr1_rollout_model(self)
        return Model._of(pointer, self) if pointer else None

    @property
    def remote(self) -> Dict[str, int]:
        """What the server gave since the rollout was made: answers, of them exact,
        spelled, encoded, drifted, prompts_differ; dropped_tokens, server_tokens, failed.
        """
        report = _structs.RemoteReport()
        lib.sr1_rollout_remote_get(self, byref(report))
        return report.as_dict()

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer._borrow(lib.sr1_rollout_tokenizer(self), self)

    def generate(
        self,
        queries: Sequence[QueryLike],
        group_size: int = 1,
        greedy: bool = False,
        seed: int = 0,
        max_tokens: int = 0,
        no_search: bool = False,
        progress: Optional[Progress] = None,
        text: Optional[Callable[[int, str, str], Any]] = None,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
    ) -> List[Trajectory]:
        """group_size trajectories for each query, query by query. Equal queries give equal
        samples, unless Query.copy numbers them. max_tokens: sampled tokens a trajectory
        (0: as configured). text(index, source, piece): as it appears. temperature, top_p,
        top_k: in place of the configured ones; temperature 0: those."""

        def tell(user: int, index: int, source: int, piece: int, size: int) -> int:
            return _callbacks.run(text, index, SOURCES[source], text_at(piece, size))

        options = RolloutOptions(
            group_size=group_size,
            greedy=greedy,
            seed=seed,
            max_tokens=max_tokens,
            no_search=no_search,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            progress=RolloutOptionsProgress(_progress(progress)),
            text=RolloutOptionsText(tell) if text else RolloutOptionsText(),
        )
        out = (c_void_p * (len(queries) * max(group_size, 1)))()
        try:
            with _callbacks.call(rollout=True):
                lib.sr1_rollout_generate(
                    self, c_queries(queries), len(queries), byref(options), out
                )
        finally:  # also what was finished when a callback raised is owned
            trajectories = [Trajectory(pointer) for pointer in out if pointer]
        return trajectories

    def demonstration(self, trajectory: Trajectory) -> Dict[str, Any]:
        """A trajectory as stage sft learns from it: question, segments, id, ..."""
        text, size = c_void_p(), c_size_t()
        lib.sr1_rollout_demonstration(self, trajectory, byref(text), byref(size))
        return dict(json.loads(take(text, size.value)))

    def synthesise(
        self,
        path: PathLike,
        rewards: Handle,
        dataset: Dataset,
        samples: int = 1,
        per_question: int = 1,
        min_reward: float = 1.0,
        greedy: bool = False,
        seed: int = 0,
        max_rows: int = 0,
        progress: Optional[Progress] = None,
        ranks: Optional[Ranks] = None,
    ) -> SynthReport:
        """Answer the questions of a dataset (0: all) and append the good trajectories, at
        most per_question of each, to path as demonstrations; goes on where it was.
        ranks: the processes that share the questions."""
        report = _structs.SynthReport()
        options = _structs.SynthOptions(
            max_rows=max_rows,
            samples=samples,
            per_question=per_question,
            min_reward=min_reward,
            greedy=greedy,
            seed=seed,
            progress=_structs.SynthOptionsProgress(_progress(progress)),
            ranks=ranks and ranks._as_parameter_,
        )
        with _callbacks.call(rollout=True):
            lib.sr1_synthesise(
                path_bytes(path), self, rewards, dataset, byref(options), byref(report)
            )
        return SynthReport(**report.as_dict())

    def log_probs(self, trajectories: Sequence[Trajectory]) -> List[Any]:
        """Log-probs of each trajectory's policy tokens under the present weights, nats:
        float32 [m] each."""
        counts = [t.policy_count for t in trajectories]
        out = _arrays.empty(c_float, sum(counts))
        lib.sr1_rollout_log_probs(
            self,
            pointers(trajectories),
            len(trajectories),
            _arrays.pointer(out, c_float),
            len(out),
        )
        ends = [sum(counts[: i + 1]) for i in range(len(counts))]
        return [out[end - count : end] for count, end in zip(counts, ends)]

    def evaluate(
        self,
        dataset: Union[Dataset, Rows],
        max_rows: int = 0,
        greedy: bool = True,
        seed: int = 0,
        no_search: bool = False,
        progress: Optional[Progress] = None,
        trajectory: Optional[Callable[[Trajectory], Any]] = None,
        embedder: Optional[Handle] = None,
        rewards: Optional[Handle] = None,
        partial: bool = False,
        ranks: Optional[Ranks] = None,
        samples: int = 1,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
    ) -> Evaluation:
        """Answer the rows of a dataset, or rows as Dataset.from_rows takes them (0: all),
        and score the answers. trajectory: called with each finished one, in row order.
        embedder: for the score "embedding". rewards: a RewardSet, for the score "reward".
        partial: where Ctrl-C, or a CancelledError that progress or trajectory raises, ends
        it, the scores of the rows before, if there are any. ranks: the processes that share
        the rows. samples: answers to each row; several are sampled, and Scores.figures
        has what they are worth together. temperature, top_p, top_k: as in generate."""

        def tell(user: int, pointer: int) -> int:
            return _callbacks.run(trajectory, Trajectory._retained(pointer))

        options = EvalOptions(
            max_rows=max_rows,
            greedy=greedy,
            seed=seed,
            no_search=no_search,
            progress=EvalOptionsProgress(_progress(progress)),
            trajectory=EvalOptionsTrajectory(*([tell] if trajectory else [])),
            embedder=embedder and embedder._as_parameter_,
            rewards=rewards and rewards._as_parameter_,
            partial=partial,
            ranks=ranks and ranks._as_parameter_,
            samples=samples,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
        )
        data, out = as_dataset(dataset), c_void_p()
        try:
            try:
                with _callbacks.call(rollout=True):
                    lib.sr1_evaluate(byref(out), self, data, byref(options))
            except (CancelledError, KeyboardInterrupt):
                if not partial or not out:
                    raise
                return read_evaluation(out, partial=True)
            return read_evaluation(out)
        finally:
            lib.sr1_evaluation_free(out)

    def evaluate_suite(
        self,
        folder: PathLike,
        samples: int = 1,
        greedy: bool = True,
        seed: int = 0,
        max_rows: int = 0,
        no_search: bool = False,
        results: Optional[PathLike] = None,
        progress: Optional[Progress] = None,
        ranks: Optional[Ranks] = None,
        config: Optional[Config] = None,
    ) -> Suite:
        """Answer every set of questions in a folder (.jsonl, .json, .csv, .tsv), such as
        the seven of Search-R1's table, samples times each. results: a folder that keeps
        every answer; a call that was stopped is continued by the same call. config: names the
        fields of rows; None: the defaults."""
        options = _structs.SuiteOptions(
            samples=samples,
            greedy=greedy,
            seed=seed,
            max_rows=max_rows,
            no_search=no_search,
            results=None if results is None else path_bytes(results),
            progress=_structs.SuiteOptionsProgress(_progress(progress)),
            ranks=ranks and ranks._as_parameter_,
        )
        out = c_void_p()
        with _callbacks.call(rollout=True):
            lib.sr1_suite_run(byref(out), self, config, path_bytes(folder), byref(options))
        with _SuiteHandle(out.value) as suite:
            count = lib.sr1_suite_count(suite)
            scores = [_suite_scores(suite, i) for i in range(count + 1)]
            return Suite({s.name: s for s in scores[:-1]}, scores[-1], samples)


class _SuiteHandle(Handle):
    _free = "sr1_suite_free"


def _progress(progress: Optional[Progress]) -> Any:
    """The caller's progress; stops the call as soon as an engine has raised."""

    def tell(user: int, finished: int, total: int, tokens: int) -> int:
        return _callbacks.run(progress, finished, total, tokens)

    return tell
