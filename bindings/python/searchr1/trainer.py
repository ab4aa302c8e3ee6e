"""Train a policy: the whole run, or one operation at a time."""

from __future__ import annotations

import os
from ctypes import byref, c_void_p
from dataclasses import dataclass
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple, Union

from . import _callbacks, _structs
from ._handle import Handle, make
from ._lib import lib
from ._structs import NoteFn, PhaseFn, RunCallbacks, StepFn, ValidationFn
from ._text import PathLike, decode, path_bytes
from .config import Config, as_config
from .errors import CancelledError
from .reward import RewardFunction, add_reward, as_rewards
from .rollout import Evaluation, QueryLike, Rollout, c_queries, read_evaluation
from .search import as_search
from .trajectory import Trajectory, pointers

Rewards = Mapping[str, Union[RewardFunction, Tuple[RewardFunction, float]]]


@dataclass(frozen=True)
class StepReport:
    """What one step did."""

    step: int  # 1 for the first
    loss: float  # mean over policy tokens, last update of the step
    kl_div: float  # k3 to the reference, nats per policy token
    avg_reward: float
    beta: float
    avg_tokens: float  # sampled tokens per trajectory
    search_trajectories: float  # share of trajectories that searched
    policy_loss: float
    clip_fraction: float
    approx_kl: float
    entropy: float  # nats per policy token, at sampling
    grad_norm: float  # before clipping
    learning_rate: float
    rollout_diff_max: float  # |rollout - recomputed log-prob|, first update
    rollout_diff_mean: float
    trajectories: int
    trained: int  # of them in the update
    dead_groups: int  # groups whose rewards are all equal
    policy_tokens: int
    environment_tokens: int
    searches: int
    failed_searches: int
    skipped_updates: int  # a non-finite loss or gradient
    seconds: float  # whole step, and its phases
    seconds_rollout: float
    seconds_reference: float
    seconds_update: float
    seconds_search: float  # inside the rollout
    reward_std: float  # over trajectories
    reward_min: float
    reward_max: float
    advantage_mean: float
    advantage_min: float
    advantage_max: float
    tokens_min: float  # sampled tokens of the shortest and longest trajectory
    tokens_max: float
    prompt_tokens: float  # mean
    cut_short: float  # share that a token limit ended
    format_rate: float  # share of well-formed responses
    answer_rate: float  # share that closed an answer
    excluded: int  # trajectories left out of all means and of the update: a search failed
    excluded_groups: int  # groups of which nothing was left
    reward_kl: float  # KL taken off the rewards, before beta; mean over policy tokens
    value_loss: float  # the critic's, last update of the step; 0 without one
    value_clip_fraction: float
    value_mean: float  # over policy tokens, as the batch was compared
    return_mean: float  # what they should have been
    explained_variance: float
    critic_grad_norm: float
    critic_learning_rate: float
    seconds_critic: float
    clip_low_fraction: float
    clip_high_fraction: float
    dual_clip_fraction: float
    ratio_max: float
    importance_mean: float
    importance_max: float
    importance_ess: float
    importance_cut: float
    off_policy_cut: float
    sampling_rounds: int = 0
    masked: int = 0
    micro_batches: int = 0
    batch_tokens_min: int = 0
    batch_tokens_max: int = 0
    unbalanced_min: int = 0
    unbalanced_max: int = 0
    entropy_coef: float = 0.0
    trained_entropy: float = 0.0
    unscored: int = 0  # of excluded: their reward could not be had
    seconds_reward: float = 0.0  # scoring, with the wait for programs
    staleness: int = 0  # steps by which a generating server's weights were behind
    text_drift: float = 0.0  # share of its answers whose text alone gives other ids
    success_rate: float = 0.0  # share with an action that reached the goal
    thinking_tokens: float = 0.0  # per trajectory
    level_1: float = 0.0  # share of messages that chose this thinking level
    level_2: float = 0.0
    level_3: float = 0.0
    level_4: float = 0.0
    levels_compared: int = 0  # steps made at the other levels too; of the others:
    levels_left_out: int = 0
    levels_unread: int = 0
    levels_too_long: int = 0
    levels_no_action: int = 0
    levels_malformed: int = 0
    levels_no_room: int = 0
    level_tokens: int = 0  # drawn for the other levels
    seconds_levels: float = 0.0
    probs_diff_max: float = 0.0  # |rollout - recomputed probability|, first update
    probs_diff_mean: float = 0.0
    net_reward_mean: float = 0.0  # with the KL taken off (key kl_in)
    net_reward_std: float = 0.0
    net_reward_min: float = 0.0
    net_reward_max: float = 0.0
    token_advantage_mean: float = 0.0  # over policy tokens
    token_advantage_min: float = 0.0
    token_advantage_max: float = 0.0
    tokens: int = 0  # prompts, sampled and inserted, of all trajectories
    device_bytes: int = 0  # most that tensors ever took on the model's device


def _report(report: _structs.StepReport) -> StepReport:
    return StepReport(**report.as_dict())


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
    ) -> None:
        """search: a Search or a Python engine (see PythonSearch); None: as configured.
        rewards: {"name": function} or {"name": (function, weight)}, added to the
        configured ones."""
        engine, config = as_search(search), as_config(config)
        self._start(make(lib.sr1_trainer_new, config, engine), config, engine, rewards)

    @classmethod
    def resume(
        cls, run_folder: PathLike, search: Any = None, rewards: Optional[Rewards] = None
    ) -> Trainer:
        """Continue a run from its newest checkpoint as if it had never stopped. Engines
        and rewards in Python have to be given again."""
        engine = as_search(search)
        self = cls.__new__(cls)
        pointer = make(lib.sr1_trainer_resume, path_bytes(run_folder), engine)
        config = Config(os.path.join(run_folder, "config.json"))
        self._start(pointer, config, engine, rewards)
        return self

    def _start(
        self, pointer: int, config: Config, engine: Any, rewards: Optional[Rewards]
    ) -> None:
        Handle.__init__(self, pointer)
        self._group_size = int(config["group_size"])  # type: ignore[arg-type]
        self._carrier = _callbacks.Carrier(engine.carrier if engine else None)
        for name, function, weight in as_rewards(rewards or {}):
            self.add_reward(name, function, weight)

    def add_reward(
        self, name: str, function: RewardFunction, weight: float = 1.0
    ) -> None:
        """Add a function from trajectories to a number each; not once a run has begun."""
        add_reward(
            lib.sr1_trainer_add_reward, self, self._carrier, name, function, weight
        )

    @property
    def rollout(self) -> Rollout:
        """The rollout with the trainer's weights; of use while the trainer is open."""
        return Rollout._borrow(lib.sr1_trainer_rollout(self), self, self._carrier)

    @property
    def steps_done(self) -> int:
        """Whole steps so far."""
        return int(lib.sr1_trainer_steps_done(self))

    @property
    def steps_planned(self) -> int:
        """Steps the configuration asks for; 0 when it names no data."""
        return int(lib.sr1_trainer_steps_planned(self))

    @property
    def run_folder(self) -> str:
        return os.fsdecode(lib.sr1_trainer_run_folder(self))

    def update(self, trajectories: Sequence[Trajectory]) -> StepReport:
        """One GRPO update from trajectories that have rewards and advantages."""
        report = _structs.StepReport()
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
            with self._carrier.call():
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
    ) -> None:
        """Run to the planned end, with metrics and checkpoints in the run folder.

        step(report, planned), phase(name, done, total), validation(step, evaluation) and
        note(line) tell how far it is; what they raise ends the run. After stop() it ends
        with CancelledError, after Ctrl-C with KeyboardInterrupt, a checkpoint written in
        both cases; a second Ctrl-C ends it at once."""
        carrier = _callbacks.Carrier(self._carrier, *self._carrier.others)

        def on_step(user: int, report: Any, planned: int) -> int:
            return carrier.run(step, _report(report.contents), planned)

        def on_phase(user: int, name: bytes, done: int, total: int) -> int:
            return carrier.run(phase, decode(name), done, total)

        def on_validation(user: int, number: int, pointer: int) -> int:
            return carrier.run(validation, number, read_evaluation(pointer))

        def on_note(user: int, text: bytes) -> None:
            # It has no result: what it raises ends the run at the next callback.
            carrier.run(note, decode(text))

        callbacks = RunCallbacks(
            step=StepFn(on_step),
            phase=PhaseFn(on_phase),
            validation=ValidationFn(on_validation),
            note=NoteFn(on_note),
        )
        interrupted: List[bool] = []

        def interrupt() -> None:
            interrupted.append(True)
            self.stop()

        try:
            with carrier.call(interrupt):
                lib.sr1_trainer_run(self, byref(callbacks))
        except CancelledError as error:
            if interrupted:
                raise KeyboardInterrupt from error
            raise
        if interrupted:
            raise KeyboardInterrupt

    def stop(self) -> None:
        """Ask run to end after the present step; from any thread."""
        lib.sr1_trainer_stop(self)

    def save_model(self, folder: PathLike) -> None:
        """Write the policy as a Hugging Face folder: weights, config, tokenizer."""
        lib.sr1_trainer_save_model(self, path_bytes(folder))
