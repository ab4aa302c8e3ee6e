"""Train a policy: the whole run, or one operation at a time."""

from __future__ import annotations

import os
import tempfile
import warnings
import weakref
from ctypes import byref, c_char_p, c_double, c_void_p
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _callbacks, _rows, _structs, log
from ._handle import Handle, make
from ._lib import lib
from ._structs import (
    MetricSinkFn,
    ResumeOptions,
    RunCallbacks,
    RunCallbacksNote,
    RunCallbacksPhase,
    RunCallbacksStep,
    RunCallbacksValidation,
)
from ._text import PathLike, decode, path_bytes, terminated
from .config import Config, as_config, as_text
from .env import Environment, own_environment
from .errors import CancelledError
from .reward import RewardFunction, Rewards, add_reward, split_rewards
from .rollout import Evaluation, QueryLike, Rollout, c_queries, read_evaluation
from .search import as_search
from .trajectory import Trajectory, pointers


def alarms() -> Mapping[str, str]:
    """Every sign that a run goes wrong: its name, which metrics have as
    health/alarm_NAME, and one sentence with what to do."""
    found = {}
    while name := lib.sr1_alarm_name(len(found)):
        found[decode(name)] = decode(lib.sr1_alarm_text(len(found)))
    return found


@dataclass(frozen=True)
class StepReport:
    """What one step did."""

    step: int  # 1 for the first
    loss: float  # over policy tokens by loss_aggregation, last update of the step
    kl_div: float  # to the reference (kl_kind), likewise
    avg_reward: float
    beta: float
    avg_tokens: float  # sampled tokens per trajectory
    search_trajectories: float  # share of trajectories that searched
    entropy: float  # nats per policy token, at sampling
    grad_norm: float  # before clipping, last update
    learning_rate: float
    seconds: float  # whole step
    trajectories: int
    trained: int  # of them in the update
    # every figure by all its names: the specification's, verl's, TRL's, and
    # rewards/NAME/mean, in the order of a row of metrics.jsonl
    metrics: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class RunPlan:
    """What a run is going to do, and the room it needs."""

    device: str  # of the policy: "cpu", "cuda:0"
    dtype: str  # its weights: "fp32", "bf16", "fp16"
    parameters: int  # of the policy
    rows: int  # questions or demonstrations; 0 when there are none
    validation_rows: int
    steps_done: int
    steps: int  # in all
    checkpoint_bytes: int  # of one, without its small files
    model_bytes: int  # of the model written at the end; 0: none is
    disk_bytes: int  # most that all of these take at once
    disk_free: int  # where the run folder is, or will be; -1: not known
    memory_bytes: int  # taken now: on the device, or by the process on the CPU
    trained: int  # numbers that are trained: an adapter's, else all parameters
    reached_exact_match: float  # by which stop_at_exact_match ended the run; 0: it did not
    chosen_micro_batch_tokens: int  # by the plan, where the key is 0; else 0
    chosen_max_rows: int  # likewise
    # the key that ended the run at its last step (stop_at_exact_match,
    # early_stopping_patience, stop_at_kl, stop_below_entropy), and by what; "": none did
    stopped_by: str
    stopped_why: str
    best_step: int  # of the best validation so far (metric_for_best_model); 0: none
    best_value: float


@dataclass(frozen=True)
class RunSummary:
    """What came of a run."""

    steps: int  # whole steps, those before it was resumed included
    report: Optional[StepReport]  # of the last one; None: none was left to do
    validation: Optional[Evaluation]  # the last; None: there was none
    run_folder: str
    notes: Tuple[str, ...]  # what the run had to say, line by line

    @property
    def verdict(self) -> str:
        """Why nothing was learned; "" if something was."""
        verdict = "warning: nothing was learned"
        return next((n for n in self.notes if n.startswith(verdict)), "")


@dataclass
class _Seen:
    """What a run tells while it is under way."""

    report: Optional[StepReport] = None
    evaluation: Optional[Evaluation] = None
    notes: List[str] = field(default_factory=list)


def _configured(config: Config) -> Dict[str, float]:
    """The rewards that a configuration names, with their weights."""
    names, weights = config["rewards"], config["reward_weights"]
    if names == ["none"]:
        return {}
    numbers = map(float, weights) if weights else [1.0] * len(names)  # type: ignore
    return dict(zip(names, numbers))  # type: ignore[arg-type]


def _replace(config: Config, rewards: Dict[str, float]) -> Config:
    """A copy of the configuration that names these rewards."""
    lost = set(_configured(config)) - set(rewards)
    if lost and config.is_set("rewards"):
        warnings.warn(
            f"rewards= is the whole set: {', '.join(sorted(lost))} of the configuration "
            'is left out; to keep one, give its weight: rewards={"answer": 1.0, ...}',
            stacklevel=3,
        )
    config = config.copy()
    config["reward_weights"] = ""
    config["rewards"] = list(rewards) or "none"
    config["reward_weights"] = [repr(weight) for weight in rewards.values()]
    return config


def _check_rewards_of(run_folder: PathLike, given: Dict[str, float]) -> None:
    """The built-in rewards of a run stay what they are."""
    path = os.path.join(run_folder, "config.json")
    if not os.path.exists(path):
        return  # resuming says so
    has = _configured(Config(path))
    if given != has:
        raise ValueError(f"the run has the built-in rewards {has}")


def _run_folder(config: Config) -> str:
    return str(config["out"] or os.path.join("runs", str(config["name"])))


def _keep_rows(
    config: Config, given: Mapping[str, Any]
) -> Tuple[Config, List[_rows.Kept]]:
    """A configuration that names the files of these rows, and the files."""
    kept: List[_rows.Kept] = []
    for name, rows in given.items():
        if rows is None:
            continue
        if config.is_set(f"{name}_file"):
            raise TypeError(f"{name}= is given, and the configuration names {name}_file")
        config = config.copy()
        if _rows.as_file(rows):
            config[f"{name}_file"] = _listed(rows)
            continue
        _listed(os.path.abspath(_run_folder(config)))
        kept.append(_rows.Kept(rows, _run_folder(config), name))
        config[f"{name}_file"] = kept[-1].path
    return config, kept


def _listed(path: PathLike) -> PathLike:
    """A file as the one item of a list, which commas would cut."""
    if "," in os.fsdecode(path):
        raise ValueError(
            f"{os.fsdecode(path)}: rows cannot lie where a path has a comma, which parts "
            "the files of train_file; choose another folder (out)"
        )
    return path


def _forget_rows(kept: Sequence[_rows.Kept]) -> None:
    for one in kept:
        one.forget()


def _check_rows(run_folder: PathLike, given: Mapping[str, Any]) -> None:
    """Rows that are given again are those of the run."""
    for name, rows in given.items():
        if rows is None:
            continue
        if _rows.as_file(rows):
            raise TypeError(f"another file is named by {name}_file=, not by {name}=")
        with tempfile.TemporaryDirectory(prefix="searchr1-") as folder:
            kept = _rows.write(rows, os.path.join(folder, f"{name}.jsonl"))
        recorded = Config(os.path.join(run_folder, "config.json"))[f"{name}_file"]
        _rows.check_same(run_folder, name, kept, recorded)


def _own_environment_of(
    run_folder: PathLike, env: Any, tools: Sequence[Any], engine: Any
) -> Optional[Environment]:
    if env is None and not tools:
        return None
    config = Config()
    config.load_run(run_folder)
    return own_environment(config, env, tools, engine)[1]


def _metrics(report: _structs.StepReport) -> Dict[str, float]:
    found: Dict[str, float] = {}
    value = c_double()
    while name := lib.sr1_step_metric_at(byref(report), len(found), byref(value)):
        found[decode(name)] = value.value
    return found


def _report(report: _structs.StepReport) -> StepReport:
    return StepReport(**{**report.as_dict(), "metrics": _metrics(report)})


def _sink_called(key: int, step: int, names: Any, values: Any, n: int) -> int:
    log = _callbacks.owned(key)
    metrics = {decode(name): value for name, value in zip(names[:n], values[:n])}
    return int(_callbacks.run(lambda: log(metrics, step=step)))


_sink_thunk = MetricSinkFn(_sink_called)


class Trainer(Handle):
    """A trainer built from a configuration (a Config, a file or a mapping).

    with Trainer("train.yaml", search=my_engine, rewards={"brief": brief}) as trainer:
        trainer.run(step=lambda report, planned: print(report.step, report.avg_reward))
    """

    _free = "sr1_trainer_free"

    def __init__(
        self,
        config: Union[Config, PathLike, Mapping[str, Any]],
        search: Any = None,
        rewards: Optional[Rewards] = None,
        train: Optional[_rows.Rows] = None,
        validation: Optional[_rows.Rows] = None,
        env: Any = None,
        tools: Sequence[Any] = (),
    ) -> None:
        """search: a Search or a Python engine (see PythonSearch); None: as configured.
        rewards: the whole set: a function, a list of functions and names of built-in
        rewards, {"name": function}, {"name": (function, weight)} or, of a built-in reward,
        {"answer": weight}; None: as configured. add_reward adds to either. A function
        gives each trajectory a number, None where it does not apply to it, or an exception
        object where it could not be had.
        train, validation: rows in place of train_file and validation_file: a list or an
        iterator of mappings, a datasets.Dataset, a table of pandas or pyarrow, or a file.
        The run folder keeps them (rows/), so resume needs none.
        env: an Environment, or what it is made of: a function or an object from actions to
        answers. tools: functions or Tools that the policy calls."""
        engine, config = as_search(search), as_config(config)
        builtins, functions = split_rewards(rewards or {})
        if rewards is not None:
            config = _replace(config, builtins)
        config, own = own_environment(config, env, tools, engine)
        config, kept = _keep_rows(config, {"train": train, "validation": validation})
        try:
            pointer = make(lib.sr1_trainer_new, config, engine)
        except BaseException:
            _forget_rows(kept)
            raise
        self._start(pointer, functions, own)
        weakref.finalize(self, _forget_rows, kept)

    @staticmethod
    def check(config: Union[Config, PathLike, Mapping[str, Any]]) -> None:
        """Raise for what run would refuse of a configuration, before model and data are
        opened: values, an engine that nobody named, no train_file, a run folder that
        holds a run or is in use."""
        lib.sr1_trainer_check(as_config(config))

    @classmethod
    def resume(
        cls,
        run_folder: PathLike,
        search: Any = None,
        rewards: Optional[Rewards] = None,
        train: Optional[_rows.Rows] = None,
        validation: Optional[_rows.Rows] = None,
        env: Any = None,
        tools: Sequence[Any] = (),
        **keys: Any,
    ) -> Trainer:
        """Continue a run from its newest checkpoint as if it had never stopped, or with
        other values for keys that no checkpoint depends on (max_steps=200). Engines,
        rewards, environments and tools in Python have to be given again; built-in rewards
        are the run's. So are rows: train and validation are compared with those it began
        with, and others are refused."""
        engine = as_search(search)
        self = cls.__new__(cls)
        _check_rows(run_folder, {"train": train, "validation": validation})
        own = _own_environment_of(run_folder, env, tools, engine)
        builtins, functions = split_rewards(rewards or {})
        if builtins:
            _check_rewards_of(run_folder, builtins)
        pairs = [terminated(f"{key}={as_text(value)}") for key, value in keys.items()]
        options = ResumeOptions(
            search=engine._as_parameter_ if engine else None,
            pairs=(c_char_p * len(pairs))(*pairs),
            n_pairs=len(pairs),
        )
        pointer = make(
            lib.sr1_trainer_resume, path_bytes(run_folder), byref(options)
        )
        self._start(pointer, functions, own)
        return self

    def _start(
        self,
        pointer: int,
        functions: Sequence[Tuple[str, RewardFunction, float]],
        own: Optional[Environment] = None,
    ) -> None:
        Handle.__init__(self, pointer)
        self._group_size = int(self.config["group_size"])  # type: ignore[arg-type]
        if own:
            self.rollout.set_env(own)
        for name, function, weight in functions:
            self.add_reward(name, function, weight)

    def add_reward(
        self, name: str, function: RewardFunction, weight: float = 1.0
    ) -> None:
        """Add a function from trajectories to a number (None, an exception object: see
        RewardSet.add) each; not once a run has begun."""
        add_reward(
            lib.sr1_trainer_add_reward, self, name, function, weight
        )

    def set_metric_sink(self, sink: Any) -> None:
        """Where metrics go beside the run folder: a function that is called with
        (metrics, step=...), or what has such a method log, as wandb's runs and verl's
        Tracking do; None: nowhere.
        Called for each row that metrics.jsonl gets, with the figures of a validation in
        it, and for each step outside of run. What it raises ends the run."""
        if sink is None:
            lib.sr1_trainer_set_metric_sink(self, MetricSinkFn(), None)
            return
        key = _callbacks.own(getattr(sink, "log", sink))
        weakref.finalize(self, _callbacks.disown, key)
        lib.sr1_trainer_set_metric_sink(self, _sink_thunk, key)

    @property
    def rollout(self) -> Rollout:
        """The rollout with the trainer's weights; of use while the trainer is open."""
        return Rollout._borrow(lib.sr1_trainer_rollout(self), self)

    @property
    def config(self) -> Config:
        """A copy of the configuration it goes by."""
        return Config._copy_of(lib.sr1_trainer_config(self))

    @property
    def steps_done(self) -> int:
        """Whole steps so far."""
        return int(lib.sr1_trainer_steps_done(self))

    @property
    def steps_planned(self) -> int:
        """Steps the configuration asks for; 0 when it names no data."""
        return int(lib.sr1_trainer_steps_planned(self))

    @property
    def steps_saved(self) -> int:
        """The step of the run's newest checkpoint; -1 while it has none."""
        return int(lib.sr1_trainer_steps_saved(self))

    @property
    def rank(self) -> int:
        """The number of this process among those of its job; 0 for one process."""
        return int(lib.sr1_trainer_rank(self))

    @property
    def world_size(self) -> int:
        """Processes of the job; 1 where no launcher started several."""
        return int(lib.sr1_trainer_world_size(self))

    @property
    def plan(self) -> RunPlan:
        """What run is going to do, and the room it needs. Nothing is written."""
        plan = _structs.RunPlan()
        lib.sr1_trainer_plan(self, byref(plan))
        return RunPlan(**plan.as_dict())

    @property
    def run_folder(self) -> str:
        return os.fsdecode(lib.sr1_trainer_run_folder(self))

    def update(self, trajectories: Sequence[Trajectory]) -> StepReport:
        """One GRPO update from trajectories that have rewards and advantages."""
        report = _structs.StepReport()
        with _callbacks.call():
            lib.sr1_trainer_update(
                self, pointers(trajectories), len(trajectories), byref(report)
            )
        return _report(report)

    def train_step(
        self, queries: Sequence[QueryLike], group_size: Optional[int] = None
    ) -> Tuple[StepReport, List[Trajectory]]:
        """Roll out group_size trajectories a query (None: as configured), reward, compare
        within the group, update."""
        size = group_size or self._group_size  # C too takes 0 for "as configured"
        report = _structs.StepReport()
        out = (c_void_p * (len(queries) * size))()
        try:
            with _callbacks.call(rollout=True):
                lib.sr1_trainer_train_step(
                    self,
                    c_queries(queries),
                    len(queries),
                    size,
                    byref(report),
                    out,
                )
        finally:
            trajectories = [Trajectory(pointer) for pointer in out if pointer]
        return _report(report), trajectories

    def run(
        self,
        step: Optional[Callable[[StepReport, int], Any]] = None,
        phase: Optional[Callable[[str, int, int], Any]] = None,
        validation: Optional[Callable[[int, Evaluation], Any]] = None,
        note: Optional[Callable[[str], Any]] = None,
    ) -> RunSummary:
        """Run to the planned end, with metrics and checkpoints in the run folder, and
        return what came of it.

        step(report, planned), phase(name, done, total), validation(step, evaluation) and
        note(line) tell how far it is; what they raise ends the run. Lines that no note
        takes, alarms among them, go to the logger (searchr1.log). After stop() it ends
        with CancelledError, after Ctrl-C with KeyboardInterrupt, a checkpoint written in
        both cases; a second Ctrl-C ends it at once."""
        seen = _Seen()

        def on_step(user: int, report: Any, planned: int) -> int:
            seen.report = _report(report.contents)
            return _callbacks.run(step, seen.report, planned)

        def on_phase(user: int, name: bytes, done: int, total: int) -> int:
            return _callbacks.run(phase, decode(name), done, total)

        def on_validation(user: int, number: int, pointer: int) -> int:
            seen.evaluation = read_evaluation(pointer)
            return _callbacks.run(validation, number, seen.evaluation)

        def on_note(user: int, text: bytes) -> None:
            # It has no result: what it raises ends the run at the next callback.
            seen.notes.append(decode(text))
            _callbacks.run(note or log.tell, seen.notes[-1])

        callbacks = RunCallbacks(
            step=RunCallbacksStep(on_step),
            phase=RunCallbacksPhase(on_phase),
            validation=RunCallbacksValidation(on_validation),
            note=RunCallbacksNote(on_note),
        )
        interrupted: List[bool] = []

        def interrupt() -> None:
            interrupted.append(True)
            self.stop()

        try:
            with _callbacks.call(interrupt, rollout=True):
                lib.sr1_trainer_run(self, byref(callbacks))
        except CancelledError as error:
            if interrupted:
                raise KeyboardInterrupt from error
            raise
        if interrupted:
            raise KeyboardInterrupt
        return RunSummary(
            steps=self.steps_done,
            report=seen.report,
            validation=seen.evaluation,
            run_folder=self.run_folder,
            notes=tuple(seen.notes),
        )

    def stop(self) -> None:
        """Ask run to end after the present step; from any thread."""
        lib.sr1_trainer_stop(self)

    def save_model(self, folder: PathLike) -> None:
        """Write the policy as a Hugging Face folder: weights, config, tokenizer."""
        lib.sr1_trainer_save_model(self, path_bytes(folder))
